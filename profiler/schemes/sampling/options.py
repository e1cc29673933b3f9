"""How often `sampled` and `pep` sample."""

from __future__ import annotations

from simprof import schemes as s

MOST = (1 << 15) - 1  # of what a burst of samples has (`Burst`)


def _number(default: int, help: str, what: str, most: int) -> s.SchemeOption[int]:
    hint = f"give a whole number of {what} from 1 to {most:,}"
    return s.SchemeOption(default, help, hint, metavar="N", least=1, greatest=most)


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
