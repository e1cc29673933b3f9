"""What was measured, beside what it should not exceed.

A limit that was not measured, or only in part, has no figure. Nothing fails because of a limit:
how long something takes depends on the machine and on what else it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.benchmarks import recovery
from tools.benchmarks.commands import NUMBA, QEMU
from tools.benchmarks.growth import per_event
from tools.benchmarks.rows import Row, State, find

ENGINE = {
    "edges": {"sieve": 1.35, "bench": 1.15, "calls": 1.4},
    "pp": {"sieve": 1.5, "bench": 1.3, "calls": 1.5},
    "compare": {"sieve": 2.2, "bench": 2.2, "calls": 1.9},
}
"""Processor time of the emulated run, in units of the bare engine's."""
HELLO_WARM = 1.7
"""`run` of the smallest program, warm, in units of importing numba."""
RUN = {"cold": (3.0, 2.0), "warm": (2.0, 1.0)}
"""`run`: so many times qemu-user that counts edges with the plugin, and so many seconds."""
LARGEST = "cppcheck"
RUN_LARGEST = (15.0, 0.8e9)
"""Seconds and bytes of the largest program, cold."""
COMPARE_LARGEST = 1.0e9
"""Bytes of `compare` of the largest program, cold."""
COMMANDS: tuple[tuple[str, str, State, float], ...] = (
    ("hello", "run-pp", "warm", 0.25),
    ("cppcheck", "run-pp", "cold", 6.0),
    ("cppcheck", "run-pp", "warm", 3.0),
    ("cppcheck", "run-tpp", "warm", 5.0),
    ("cppcheck", "run-edges", "warm", 2.0),
    ("cppcheck", "compare", "cold", 25.0),
    ("cppcheck", "compare", "warm", 18.0),
    ("duktape", "run-pp", "warm", 1.1),
    ("duktape", "run-tpp", "warm", 1.3),
    ("lapack", "compare", "cold", 9.0),
)
"""Processor seconds of whole commands."""
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


def verdicts(rows: Sequence[Row], programs: Sequence[str]) -> Iterator[Verdict]:
    """Yield all limits, in the order of the list above.

    Parameters
    ----------
    programs
        The real programs, the first one being the smallest.
    """
    yield from _engine(rows)
    hello, numba = find(rows, "command", programs[0], "run-edges", "warm"), _numba(rows)
    ratio = hello.wall / numba.wall if hello and numba else None
    yield Verdict(f"`run`, warm, {programs[0]}, beside numba", ratio, HELLO_WARM, "x import")
    for state in ("cold", "warm"):
        for name in programs:
            yield from _runs(rows, name, state)
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


def _numba(rows: Sequence[Row]) -> Row | None:
    return find(rows, "command", "python", NUMBA)


def _runs(rows: Sequence[Row], name: str, state: State) -> Iterator[Verdict]:
    """Yield the limits of `run` on one program."""
    found = find(rows, "command", name, "run-edges", state)
    what, wall = f"`run`, {state}, {name}", found.wall if found else None
    if state == "cold" and name == LARGEST:
        seconds, memory = RUN_LARGEST
        yield Verdict(what, wall, seconds, "s")
        yield Verdict(f"{what}, memory", found.peak / 1e9 if found else None, memory / 1e9, "GB")
        return
    times, seconds = RUN[state]
    qemu = find(rows, "command", name, QEMU)
    if qemu is not None:
        yield Verdict(what, wall, times * qemu.wall + seconds, "s")


def _commands(rows: Sequence[Row]) -> Iterator[Verdict]:
    """Yield the limits of processor time of whole commands, and of the memory of the largest."""
    for program, configuration, state, limit in COMMANDS:
        found = find(rows, "command", program, configuration, state)
        words = configuration.replace("run-", "run --mode=")
        what = f"`{words}`, {state}, {program}, processor time"
        yield Verdict(what, found.cpu if found else None, limit, "s")
    found = find(rows, "command", LARGEST, "compare", "cold")
    peak = found.peak / 1e9 if found else None
    yield Verdict(f"`compare`, cold, {LARGEST}, memory", peak, COMPARE_LARGEST / 1e9, "GB")
