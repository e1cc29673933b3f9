"""How two profiles differ, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import TypeVar

from simprof.profiler.profiles.differences import (
    CountDifference,
    Difference,
    Pair,
    RoutineDifference,
)
from simprof.profiler.reports.display import visible
from simprof.profiler.reports.names import readable
from simprof.profiler.reports.numbers import digits, plural
from simprof.profiler.reports.routes import shorten
from simprof.profiler.reports.tables import (
    Part,
    Table,
    columns,
    name,
    number,
    paragraph,
    print_parts,
    section,
    text,
)
from simprof.profiler.reports.text import program_text

Change = TypeVar("Change")

LARGE_FACTOR = 1_000
BUILDS = (
    "The programs differ: routines are matched by name, edges and paths by source line, counted "
    "from the first line of their routine."
)


def render(difference: Difference, top: int = 10, width: int = 100, color: bool = False) -> str:
    """Return the report; `top`: rows in each table."""
    return print_parts(list(_parts(difference, top)), width, color)


def _parts(difference: Difference, top: int) -> Iterator[Part]:
    before, after = difference.before, difference.after
    yield paragraph(f"before: {program_text(before)}, mode {before.mode}")
    yield paragraph(f"after:  {program_text(after)}, mode {after.mode}")
    if not difference.same_program:
        yield paragraph(BUILDS)
    if difference.is_empty:
        yield paragraph("nothing differs", style="green")
        return
    yield from section("Totals", _totals(difference))
    yield from _listed("Routines", difference.routines, _routines, top)
    yield from _listed("Edges", difference.edges, _counts, top)
    yield from _listed("Paths", difference.paths, _counts, top)


def _listed(
    title: str, changes: Sequence[Change], table: Callable[[Sequence[Change]], Table], top: int
) -> Iterator[Part]:
    yield from section(f"{title} that differ", table(changes[:top]))
    more = len(changes) - top
    if more > 0:
        noun = title.lower().removesuffix("s")
        yield paragraph(f"{plural(more, noun)} more: --top says how many are shown")


def _totals(difference: Difference) -> Table:
    table = columns(text("instructions"), *map(number, ("before", "after", "change", "%")))
    before, after = difference.before, difference.after
    table.add_row("base", *_change((before.base, after.base)))
    table.add_row("added", *_change((before.added, after.added)))
    return table


def _routines(changes: Sequence[RoutineDifference]) -> Table:
    table = columns(
        name("routine"), text("number"), *map(number, ("before", "after", "change", "%"))
    )
    for each in changes:
        title = readable(each.name)
        if each.side != "both":
            title += f" ({each.side} only)"
        rows = (
            ("instructions", each.instructions),
            ("added", each.added),
            ("entered", each.activations),
        )
        for label, pair in rows:
            if pair[0] != pair[1]:
                table.add_row(title, label, *_change(pair))
                title = ""
    return table


def _counts(changes: Sequence[CountDifference]) -> Table:
    table = columns(
        *map(number, ("before", "after", "change", "%")),
        name("routine"),
        text("kind"),
        text("way"),
    )
    for each in changes:
        table.add_row(*_change(each.count), readable(each.routine), each.kind, way(each.steps))
    return table


def way(steps: Sequence[str]) -> str:
    """Return "A > B > ..."; of lines of one file only the first has its name, addresses no 0x."""
    parts: list[str] = []
    for file, group in groupby(steps, key=lambda step: step.rpartition(":")[0]):
        for at, step in enumerate(group):
            known = file and at
            bare = step.removeprefix("0x").replace("slot 0x", "slot ", 1)
            parts.append(visible(step.rpartition(":")[2] if known else bare))
    return " > ".join(shorten(parts))


def _change(pair: Pair) -> tuple[str, str, str, str]:
    before, after = pair
    sign = "+" if after > before else ""
    return digits(before), digits(after), f"{sign}{digits(after - before)}", _share(pair)


def _share(pair: Pair) -> str:
    """Return the change in percent, every digit of it right; a large one as a factor."""
    before, after = pair
    if not before:
        return "-"
    if after >= LARGE_FACTOR * before:
        return f"{digits(after // before)} x"
    hundredths = round(Fraction(10_000 * (after - before), before))
    sign = "" if after == before else "+" if after > before else "-"
    return f"{sign}{digits(abs(hundredths) // 100)}.{abs(hundredths) % 100:02} %"
