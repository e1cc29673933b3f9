"""`sampled`, `pep`: path profiles from samples (after Arnold and Ryder 2001, Bond and McKinley
2005).
"""

from __future__ import annotations

from simprof import schemes as s

MOST = (1 << 15) - 1  # of what a burst of samples has (`Burst`)


def _number(default: int, help: str, what: str, most: int) -> s.SchemeOption[int]:
    hint = f"give a whole number of {what} from 1 to {most:,}"
    return s.whole_number(default, help, 1, most, hint, metavar="N")


class SampledOptions(s.PathOptions):
    """The options of `sampled`."""

    interval = _number(100, "count one path of so many.", "paths", 1 << 30)
    duplicated = s.flag(
        "execute samples in a second copy of the routine, which alone has the code that counts; "
        "the first one has checks only."
    )

    @property
    def register_use(self) -> s.RegisterUse:
        """See `s.Options`."""
        use = super().register_use
        if use is s.RegisterUse.SPILLED and self.duplicated:
            raise s.UsageError(
                "--registers spilled: not with two copies of a routine: give liveness"
            )
        return use


class PepOptions(s.PathOptions):
    """The options of `pep`."""

    tick = _number(
        10_000, "path ends from the last sample of a burst to the next burst.", "paths", 1 << 30
    )
    samples = _number(64, "samples of a burst.", "samples", MOST)
    stride = _number(17, "path ends from one sample of a burst to the next.", "path ends", MOST)


def _plan_sampled(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.sampling.planner import plan_sampled

    chosen = SampledOptions(order.options)
    return plan_sampled(order, chosen.interval, chosen.duplicated)


def _plan_pep(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.sampling.planner import plan_pep

    chosen = PepOptions(order.options)
    return plan_pep(order, chosen.tick, chosen.samples, chosen.stride)


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.sampling.code import CODE

    return CODE


SAMPLED = s.SchemeDefinition(
    mode="sampled",
    description="acyclic paths, one of every so many (after Arnold and Ryder 2001)",
    collects=s.ProfileKind.PATHS,
    plan=_plan_sampled,
    options=SampledOptions,
    code=_code,
    scope=s.StateScope.PROGRAM,
    depends_on_order=True,
    estimates=True,
)
PEP = s.SchemeDefinition(
    mode="pep",
    description="acyclic paths up to loop headers, read in bursts of samples (after Bond and "
    "McKinley 2005)",
    collects=s.ProfileKind.PATHS,
    plan=_plan_pep,
    options=PepOptions,
    code=_code,
    scope=s.StateScope.PROGRAM,
    depends_on_order=True,
    estimates=True,
)
