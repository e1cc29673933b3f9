"""How two profiles differ, as CSV: a row for each number that differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simprof.profiler.profiles.differences import CountDifference, Difference, Pair
from simprof.profiler.reports import csv_text
from simprof.profiler.reports.csv_text import Cell
from simprof.simulator.binary.demangling import demangle

COLUMNS = (
    "subject", "routine", "symbol", "kind", "way", "number", "before", "after", "change", "side",
)  # fmt: skip


def render(difference: Difference) -> str:
    """Return the CSV: columns `COLUMNS`.

    `subject` is "program", "routine", "edge" or "path", `number` what the numbers before and
    after are of, `side` in which profile alone a routine was entered.
    """
    return csv_text.render(COLUMNS, _rows(difference))


def _rows(difference: Difference) -> Iterator[tuple[Cell, ...]]:
    before, after = difference.before, difference.after
    totals = {"base": (before.base, after.base), "added": (before.added, after.added)}
    for number, pair in totals.items():
        if pair[0] != pair[1]:
            yield ("program", None, None, None, None, number, *_change(pair), None)
    for routine in difference.routines:
        names = demangle(routine.name), routine.name
        numbers = {
            "instructions": routine.instructions,
            "added": routine.added,
            "activations": routine.activations,
        }
        for number, pair in numbers.items():
            if pair[0] != pair[1]:
                yield ("routine", *names, None, None, number, *_change(pair), routine.side)
    yield from _counts("edge", difference.edges)
    yield from _counts("path", difference.paths)


def _counts(subject: str, changes: Sequence[CountDifference]) -> Iterator[tuple[Cell, ...]]:
    for each in changes:
        names, way = (demangle(each.routine), each.routine), " > ".join(each.steps)
        yield (subject, *names, each.kind, way, "count", *_change(each.count), None)


def _change(pair: Pair) -> tuple[int, int, int]:
    before, after = pair
    return before, after, after - before
