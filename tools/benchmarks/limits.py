"""What was measured, beside what it should not exceed.

A limit that was not measured, or only in part, has no figure. Nothing fails because of a limit:
how long something takes depends on the machine and on what else it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.benchmarks import recovery
from tools.benchmarks.commands import ALL_MODES
from tools.benchmarks.commands import COMMANDS as WORDS
from tools.benchmarks.growth import per_event
from tools.benchmarks.programs import LARGEST
from tools.benchmarks.rows import Row, State, find

STATES: tuple[State, State] = ("cold", "warm")
ENGINE = {
    "edges": {"sieve": 1.35, "bench": 1.15, "calls": 1.4},
    "pp": {"sieve": 1.5, "bench": 1.3, "calls": 1.5},
}
"""Processor time of the emulated run, in units of the bare engine's."""
COMMANDS: tuple[tuple[str, str, float, float], ...] = (
    ("cppcheck", "run-edges", 4.3, 1.5),
    ("cppcheck", "run-pp", 5.5, 3.0),
    ("cppcheck", "run-tpp", 8.0, 5.3),
    ("cppcheck", ALL_MODES, 43.0, 40.0),
    ("duktape", "run-edges", 1.8, 0.9),
    ("duktape", "run-pp", 2.2, 1.3),
    ("duktape", "run-tpp", 2.5, 1.6),
    ("dash", "run-pp", 1.5, 0.95),
    ("hello", "run-edges", 0.6, 0.22),
    ("hello", "run-pp", 0.65, 0.25),
)
"""Processor seconds of whole commands, cold and warm."""
COMPARE_LARGEST = 1.0e9
"""Bytes of `compare` of the largest program under all modes, cold."""
EVENT = 5e-6
"""Seconds of one longjmp, of one exception, with everything that it executes."""
RECOVERY = 4e6
"""Bytes of text in a second."""


@dataclass(frozen=True)
class Verdict:
    """One limit.

    Attributes
    ----------
    what
        What was measured, of which program.
    measured, limit
        In `unit`; `measured` is None where it is not known.
    at_least
        The limit is the least that there should be, not the most.
    """

    what: str
    measured: float | None
    limit: float
    unit: str
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the limit is kept; None: not measured."""
        if self.measured is None:
            return None
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


def verdicts(rows: Sequence[Row]) -> Iterator[Verdict]:
    """Yield all limits, in the order of the list above."""
    yield from _engine(rows)
    yield from _commands(rows)
    for name in ("jumps", "throws"):
        event = per_event(rows, name, "run-edges")
        what = {"jumps": "a longjmp", "throws": "an exception"}[name]
        measured = None if event is None else 1e6 * event.seconds
        yield Verdict(f"{what}, all included", measured, 1e6 * EVENT, "us")
    found = find(rows, "recovery", LARGEST, recovery.CONFIGURATION)
    speed = found.text / found.cpu / 1e6 if found else None
    yield Verdict(f"recovery of text, {LARGEST}", speed, RECOVERY / 1e6, "MB/s", at_least=True)


def _engine(rows: Sequence[Row]) -> Iterator[Verdict]:
    for configuration, limits in ENGINE.items():
        for program, limit in limits.items():
            found = find(rows, "engine", program, configuration)
            bare = find(rows, "engine", program, "bare")
            ratio = found.cpu / bare.cpu if found and bare else None
            yield Verdict(f"engine, {configuration}, {program}", ratio, limit, "x bare")


def _commands(rows: Sequence[Row]) -> Iterator[Verdict]:
    """Yield the limits of processor time of whole commands, and of the memory of the largest."""
    for program, configuration, *limits in COMMANDS:
        words = " ".join(WORDS[configuration])
        for state, limit in zip(STATES, limits, strict=True):
            found = find(rows, "command", program, configuration, state)
            what = f"`{words}`, {state}, {program}"
            yield Verdict(what, found.cpu if found else None, limit, "s")
    found = find(rows, "command", LARGEST, ALL_MODES, "cold")
    peak = found.peak / 1e9 if found else None
    yield Verdict(f"`compare`, cold, {LARGEST}, memory", peak, COMPARE_LARGEST / 1e9, "GB")
