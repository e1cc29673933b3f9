"""How whole commands grow: over text size, over run length, over the number of longjmps.

Over text size it is the programs of the suite `real` on their short inputs, so that what depends on
the program's size shows; over run length one program, which executes its input so many times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.benchmarks.commands import PEERS
from tools.benchmarks.programs import Program
from tools.benchmarks.rows import Part, Row

TEXT_CONFIGURATIONS = (*PEERS, "run-edges", "compare")
LENGTH_CONFIGURATIONS = (*PEERS, "run-edges", "run-pp", "compare")
LENGTH_PROGRAM = "dash"
ROUNDS = (3, 30, 300, 1500)
"""How often it executes its input: about 0.6 million instructions each time."""
EVENT_CONFIGURATIONS = (*PEERS, "run-edges")
NUMBERS = {"jumps": (1_000, 501_000), "throws": (1_000, 21_000)}
"""How many longjmps or exceptions there are in two runs, whose difference tells what one takes."""

Wanted = tuple[Part, Program, str]


def length_series(dash: Program) -> Iterator[Wanted]:
    """Yield what is measured over run length."""
    script = dash.arguments[0]
    for rounds in ROUNDS:
        for configuration in LENGTH_CONFIGURATIONS:
            yield "length", dash.with_arguments(script, str(rounds)), configuration


def longest(program: Program) -> Program:
    """Return the last point of `length_series`."""
    return program.with_arguments(program.arguments[0], str(ROUNDS[-1]))


def text_series(short: Sequence[Program]) -> Iterator[Wanted]:
    """Yield what is measured over text size, of programs with their short inputs."""
    for program in short:
        for configuration in TEXT_CONFIGURATIONS:
            yield "text", program, configuration


def event_series(chosen: Sequence[Program]) -> Iterator[Wanted]:
    """Yield what tells the cost of one longjmp and of one exception."""
    for program in chosen:
        for number in NUMBERS[program.name]:
            for configuration in EVENT_CONFIGURATIONS:
                yield "event", program.with_arguments(str(number)), configuration


@dataclass(frozen=True)
class Event:
    """What one longjmp or exception takes: seconds of processor time, instructions."""

    seconds: float
    instructions: float


def per_event(rows: Sequence[Row], program: str, configuration: str) -> Event | None:
    """Return what one longjmp or exception takes, None where it was not measured."""
    state = "" if configuration in PEERS else "warm"
    measured = {
        int(row.arguments[0]): row
        for row in rows
        if row.key[:4] == ("event", program, configuration, state) and row.outcome == "ok"
    }
    few, many = NUMBERS[program]
    if few not in measured or many not in measured:
        return None
    more, less = measured[many], measured[few]
    return Event(
        (more.cpu - less.cpu) / (many - few),
        (more.instructions - less.instructions) / (many - few),
    )
