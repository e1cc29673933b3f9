"""`--self-check`: every validator there is, on one run.

======================  ====================================================================
what                    by
======================  ====================================================================
graphs                  `recovery.check.validate`: against another reading of the code
plans                   `Plan.validate`: acyclic graph, numbers, tree, increments, ...
plans, tried out        `plan.interpret`: every edge crossed, the counters read back
profiles                `profiles.storage.validate`: what a file would hold, read again
traces                  `trace.regeneration`: digests of what was executed
======================  ====================================================================

Flow conservation (`graphs.flow.check`) and readings against the run (`counters.check_reading`)
are checked in every run, and are not repeated here. A validator that fails ends in an error of
one line, which names the routine.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from simprof.profiler.plan.interpret import ExecutedWalk, activations, rehearse
from simprof.profiler.profiles import storage
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.recovery.check import validate
from simprof.profiler.request.errors import SelfCheckError
from simprof.profiler.session.counters import RoutineEvents
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.trace.regeneration import regenerate
from simprof.simulator.errors import UsageError


class SelfCheck:
    """Validates what measuring an observed run goes through.

    Raises UsageError if Python was told to leave assertions out: nothing would be checked.
    """

    def __init__(self, observation: Observation) -> None:
        if not __debug__:
            raise UsageError("--self-check needs Python's assertions: leave out -O")
        self._observation = observation
        self._walks: dict[int, tuple[ExecutedWalk, ...]] = {}

    def check_graphs(self) -> None:
        """Check the graphs of the whole program against its code: RecoveryError."""
        validate(self._observation.recovered)

    def check_plan(self, scheme: SchemeRun, routine: int) -> None:
        """Check the plan of a scheme for routine number `routine`, if there is one.

        Raises SelfCheckError if one of its structures is not as it must be, or its counters tell
        something else than what they counted.
        """
        plan = scheme.routine_plan(routine)
        if plan is None:
            return
        with _checking(plan.cfg.name, f"the plan of {scheme.name}"):
            plan.validate()
            if routine not in self._walks:
                self._walks[routine] = activations(plan.cfg)
            decoder, walks = scheme.definition.path_decoder(plan), self._walks[routine]
            rehearse(plan, decoder, walks, estimates=scheme.definition.estimates)

    def check_profile(self, measurement: RunMeasurement) -> None:
        """Check that a profile survives being saved: SelfCheckError if it does not."""
        with _checking(measurement.program.file, f"the profile of {measurement.mode}"):
            storage.validate(measurement)


def check_trace(path: Path, mode: str, events: Iterable[RoutineEvents]) -> None:
    """Regenerate the execution from the trace that `mode` wrote, and compare the two.

    Raises SelfCheckError if it does not lead to the execution's end, or to other digests.
    """
    regenerated = regenerate(path, None, check=True)
    crossings = sum(sum(routine.edges) for routine in events)
    where = regenerated.routine or str(regenerated.program)
    with _checking(where, f"the trace of {mode}"):
        assert regenerated.complete, str(regenerated.result.problem)
        assert regenerated.result.crossings == crossings, (
            f"it tells {regenerated.result.crossings} crossings of edges for {crossings}"
        )


@contextmanager
def _checking(routine: str, subject: str) -> Iterator[None]:
    """Turn what a validator raises into an error for the user."""
    try:
        yield
    except (AssertionError, LookupError, ValueError) as error:
        raise SelfCheckError(
            f"{routine}: {subject} is wrong: {_reason(error)}: this is a defect of simprof, "
            "please report the program"
        ) from error


def _reason(error: Exception) -> str:
    """What an error says; where it says nothing, the assertion that failed."""
    if isinstance(error, AssertionError | ValueError) and str(error):
        return str(error).splitlines()[0]
    line = traceback.extract_tb(error.__traceback__)[-1].line or ""
    return f"{type(error).__name__} at `{line}`"
