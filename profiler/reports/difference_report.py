"""Differences between two profiles, as text, CSV and JSON (format `simprof/diff`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from simprof.profiler.profiles import csv_text
from simprof.profiler.profiles.codec import encode, json_line
from simprof.profiler.profiles.differences import (
    CountDifference,
    Difference,
    Pair,
    RoutineDifference,
)
from simprof.profiler.profiles.documents import head
from simprof.profiler.profiles.measures import MEASURES
from simprof.profiler.profiles.tables import SEPARATOR, Cell
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import digits, growth, plural, readable, shorten_list, visible
from simprof.profiler.reports.mode_facts import setting_name
from simprof.profiler.reports.quality import PairQuality, verdict_note, verdict_table
from simprof.profiler.reports.run_json import measurement_head
from simprof.profiler.reports.run_text import program_text
from simprof.simulator.binary.demangling import demangle

Change = TypeVar("Change")

BUILDS = (
    "The programs differ: routines are matched by name, edges and paths by source line, counted "
    "from the first line of their routine."
)


def render_text(
    difference: Difference,
    width: int = 100,
    color: bool = False,
    top: int = 10,
    verdict: PairQuality | None = None,
) -> str:
    """Return the report; `top`: rows in each table; `verdict`: how good the profiles are."""
    return layout.print_parts(list(_parts(difference, top, verdict)), width, color)


def _parts(difference: Difference, top: int, verdict: PairQuality | None) -> Iterator[layout.Part]:
    before, after = difference.before, difference.after
    yield layout.paragraph(f"before: {program_text(before)}, mode {setting_name(before)}")
    yield layout.paragraph(f"after:  {program_text(after)}, mode {setting_name(after)}")
    if not difference.same_program:
        yield layout.paragraph(BUILDS)
    if difference.is_empty:
        yield layout.paragraph("nothing differs", style="green")
        if verdict is not None and verdict.truth not in ("before", "after"):
            yield from _judged(verdict)
        return
    heads = layout.text("instructions"), *map(layout.number, ("before", "after", "change", "%"))
    totals = [("base", before.base, after.base), ("added", before.added, after.added)]
    rows = [(what, *_change((old, new))) for what, old, new in totals]
    yield from layout.section("Totals", layout.columns(*heads, rows=rows))
    if verdict is not None:
        yield from _judged(verdict)
    yield from _listed("Routines", "", difference.routines, _routines, top)
    yield from _listed("Edges", " (executions)", difference.edges, _counts, top)
    yield from _listed("Paths", " (executions)", difference.paths, _counts, top)
    if (lacking := difference.without_paths) is not None:
        side = "before" if lacking is before else "after"
        yield layout.paragraph(f"Paths are not compared: {side} has none.")


def _judged(verdict: PairQuality) -> Iterator[layout.Part]:
    title = f"How good the profiles are (truth: {visible(verdict.truth)})"
    yield from layout.section(title, verdict_table(verdict))
    if note := verdict_note(verdict):
        yield layout.paragraph(note)


def _listed(
    title: str,
    unit: str,
    changes: Sequence[Change],
    table: Callable[[Sequence[Change]], layout.Table],
    top: int,
) -> Iterator[layout.Part]:
    yield from layout.section(f"{title} that differ{unit}", table(changes[:top]))
    more = len(changes) - top
    if more > 0:
        noun = title.lower().removesuffix("s")
        yield layout.paragraph(f"{plural(more, noun)} more: --top says how many are shown")


def _routines(changes: Sequence[RoutineDifference]) -> layout.Table:
    table = layout.columns(
        layout.name("routine"),
        layout.text("unit"),
        *map(layout.number, ("before", "after", "change", "%")),
    )
    for each in changes:
        title = readable(each.symbol)
        if each.side != "both":
            title += f" ({each.side} only)"
        for label, pair in _numbers(each).items():
            table.add_row(title, UNITS[label], *_change(pair))
            title = ""
    return table


# A routine's numbers, and what they count
UNITS = {
    "instructions": "instructions",
    "added": "added instructions",
    "entered": "times entered",
}


def _numbers(routine: RoutineDifference) -> dict[str, Pair]:
    pairs = {name: getattr(routine, name) for name in UNITS}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _counts(changes: Sequence[CountDifference]) -> layout.Table:
    heads = map(layout.number, ("before", "after", "change", "%"))
    rows = [
        (*_change(each.executions), readable(each.symbol), each.kind, route(each.steps))
        for each in changes
    ]
    return layout.columns(
        *heads, layout.name("routine"), layout.text("kind"), layout.text("steps"), rows=rows
    )


def route(steps: Sequence[str]) -> str:
    """Return "A > B > ..."; of lines of one file only the first has its name."""
    parts: list[str] = []
    for file, group in groupby(steps, key=lambda step: step.rpartition(":")[0]):
        for at, step in enumerate(group):
            known = file and at
            parts.append(visible(step.rpartition(":")[2] if known else step))
    return " > ".join(shorten_list(parts))


def _change(pair: Pair) -> tuple[str, str, str, str]:
    before, after = pair
    sign = "+" if after > before else ""
    return digits(before), digits(after), f"{sign}{digits(after - before)}", growth(before, after)


COLUMNS = (
    "subject", "routine", "symbol", "kind", "steps", "number", "before", "after", "change", "side",
)  # fmt: skip


def render_csv(difference: Difference, verdict: PairQuality | None = None) -> str:
    """Return the CSV: columns `COLUMNS`.

    `subject` is "program", "routine", "edge", "path" or "quality", `number` what the numbers
    before and after are of, `side` in which profile alone a routine was entered.
    """
    rows = [*_rows(difference), *(() if verdict is None else _quality_cells(verdict))]
    return csv_text.render(COLUMNS, rows)


def _quality_cells(verdict: PairQuality) -> Iterator[tuple[Cell, ...]]:
    for name in MEASURES:
        pair = [None if q is None else getattr(q, name) for q in (verdict.before, verdict.after)]
        if any(value is not None for value in pair):
            yield ("quality", None, None, None, None, name, *pair, None, None)


def _rows(difference: Difference) -> Iterator[tuple[Cell, ...]]:
    before, after = difference.before, difference.after
    totals = {"base": (before.base, after.base), "added": (before.added, after.added)}
    for total, pair in totals.items():
        if pair[0] != pair[1]:
            yield ("program", None, None, None, None, total, *_change_cells(pair), None)
    for routine in difference.routines:
        names = demangle(routine.symbol), routine.symbol
        for subject, pair in _numbers(routine).items():
            yield ("routine", *names, None, None, subject, *_change_cells(pair), routine.side)
    yield from _count_cells("edge", difference.edges)
    yield from _count_cells("path", difference.paths)


def _count_cells(subject: str, changes: Sequence[CountDifference]) -> Iterator[tuple[Cell, ...]]:
    for each in changes:
        what = demangle(each.symbol), each.symbol, each.kind, SEPARATOR.join(each.steps)
        yield (subject, *what, "executions", *_change_cells(each.executions), None)


def _change_cells(pair: Pair) -> tuple[int, int, int]:
    before, after = pair
    return before, after, after - before


def render_json(difference: Difference, verdict: PairQuality | None = None) -> str:
    """Return one line of JSON; numbers are pairs, before and after."""
    before, after = difference.before, difference.after
    answer = {
        **head("diff"),
        "before": measurement_head(None, before),
        "after": measurement_head(None, after),
        "same_program": difference.same_program,
        "instructions": {"base": [before.base, after.base], "added": [before.added, after.added]},
        "routines": encode(difference.routines),
        "edges": encode(difference.edges),
        "paths": encode(difference.paths),
        **({} if verdict is None else {"quality": verdict.as_json()}),
    }
    return json_line(answer)
