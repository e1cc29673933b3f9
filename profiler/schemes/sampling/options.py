"""How often `sampled` and `pep` sample."""

from __future__ import annotations

from simprof import schemes as s

MOST = (1 << 15) - 1  # of what a burst of samples has (`Burst`)


def _number(name: str, default: int, help: str, what: str, most: int) -> s.SchemeOption:
    hint = f"give a whole number of {what} from 1 to {most:,}"
    return s.SchemeOption(name, int, default, help, hint, metavar="N", least=1, greatest=most)


INTERVAL = _number("interval", 100, "count one path of so many.", "paths", 1 << 30)
DUPLICATED = s.flag(
    "duplicated",
    "execute samples in a second copy of the routine, which alone has the code that counts; the "
    "first one has checks only.",
)
TICK = _number(
    "tick", 10_000, "path ends from the last sample of a burst to the next burst.", "paths", 1 << 30
)
SAMPLES = _number("samples", 64, "samples of a burst.", "samples", MOST)
STRIDE = _number(
    "stride", 17, "path ends from one sample of a burst to the next.", "path ends", MOST
)
