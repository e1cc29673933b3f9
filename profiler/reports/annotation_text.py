"""Annotated source and code for people.

Beside source: how often a line was executed, how many instructions that were, how many were
added, and the line; below a line with conditional branches, how often each was taken. Beside code:
executions, added instructions, address, instruction; below a branch, what it did. Without the
program there are no instructions: lines stand beside the addresses where they are known. A line
that never ran has 0 executions, one without code none. Where a line's count is not its own alone,
a word says why (`profiles.lines.Placing`), and below stands what was inlined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simprof.profiler.profiles.code_counts import Branch, CodeCounts
from simprof.profiler.profiles.lines import MEANINGS, InlinedCounts, Placing
from simprof.profiler.reports.annotation import Annotation, CodeRow, CodeView, SourceRow, SourceView
from simprof.profiler.reports.display import visible
from simprof.profiler.reports.layout import Styled
from simprof.profiler.reports.names import known_as
from simprof.profiler.reports.numbers import counted, digits
from simprof.profiler.reports.routes import ShortNames
from simprof.profiler.reports.tables import (
    BLANK,
    Part,
    Table,
    columns,
    number,
    paragraph,
    print_parts,
    text,
)

TAB = 8


def render(annotation: Annotation, width: int = 100, color: bool = False) -> str:
    """Return the views, one below the other; the notes are for whoever shows them."""
    parts: list[Part] = []
    for view in annotation.views:
        parts += [] if not parts else [BLANK]
        routines = annotation.counts.routines
        parts += _source(view, routines) if isinstance(view, SourceView) else _code(view)
    if not annotation.views:
        parts.append(paragraph("nothing to show: the profile has no counts"))
    unplaced = sum(code.unplaced for code in annotation.counts.routines)
    if unplaced and annotation.views:
        parts += [BLANK, paragraph(_unplaced(unplaced))]
    return print_parts(parts, width, color)


def _unplaced(count: int) -> str:
    return (
        f"In the whole profile, {counted(count, 'added instruction')} of run-time routines that "
        "look up hash tables are at no line: they are known for whole routines only."
    )


def _source(view: SourceView, routines: Sequence[CodeCounts]) -> Iterator[Part]:
    lines = [row.counts for row in view.rows if row.counts is not None]
    ran = sum(line.executions > 0 or line.base > 0 for line in lines)
    yield paragraph(
        f"{view.file}: {digits(ran)} of {counted(len(lines), 'line')} with code executed, "
        f"{counted(sum(line.base for line in lines), 'instruction')}, "
        f"{digits(sum(line.added for line in lines))} added",
        style="bold",
    )
    words = [word for word in MEANINGS if any(row.placing is word for row in view.rows)]
    code = [text("code")] if words else []
    table = columns(
        *map(number, ("executions", "base", "added")), *code, number("line"), text("source")
    )
    for row in view.rows:
        placing = "" if row.placing is Placing.OWN else row.placing
        cells = (*_numbers(row), *([placing] if words else []), str(row.number), _plain(row.text))
        table.add_row(*cells, style=_style(row))
        for branch in () if row.counts is None else row.counts.branches:
            sides = Styled(f"  {branch.address:x}: {_sides(branch)}", "cyan")
            table.add_row(*[""] * (len(cells) - 1), sides)
    yield table
    for word in words:
        yield paragraph(f"{word}: {MEANINGS[word]}")
    if view.inlined:
        yield BLANK
        yield paragraph("Inlined routines", style="bold")
        yield _inlined(view.inlined, routines)


def _inlined(inlined: Sequence[InlinedCounts], routines: Sequence[CodeCounts]) -> Table:
    table = columns(
        *map(number, ("executions", "base", "line")), text("routine"), text("inlined into")
    )
    for each in inlined:
        holder = routines[each.routine].profile
        call = f", line {each.copy.call_line}" if each.copy.call_line else ""
        table.add_row(
            digits(each.executions),
            digits(each.base),
            str(each.copy.line or ""),
            visible(each.copy.name),
            known_as(holder.name, holder.alias) + call,
        )
    return table


def _numbers(row: SourceRow) -> tuple[str, str, str]:
    if row.counts is None:
        return ("", "", "")
    line = row.counts
    return (digits(line.executions), digits(line.base), digits(line.added) if line.added else "")


def _style(row: SourceRow) -> str:
    return "red" if row.counts is not None and not row.counts.base else ""


def _code(view: CodeView) -> Iterator[Part]:
    routine, unplaced = view.code.profile, view.code.unplaced
    yield paragraph(
        f"{known_as(routine.name, routine.alias)} at {routine.address:x}: entered "
        f"{counted(routine.activations, 'time')}, {counted(routine.instructions, 'instruction')}, "
        f"{digits(routine.added)} added"
        + (f", {digits(unplaced)} of them at no instruction" if unplaced else ""),
        style="bold",
    )
    files = ShortNames(row.line.file for row in view.rows if row.line is not None)
    without_program = all(row.text is None for row in view.rows)
    last = "source line" if without_program else "instruction"
    table = columns(*map(number, ("executions", "added", "address")), text(last))
    line = None
    for row in view.rows:
        shown = _line(row, files)
        if shown and row.line != line and not without_program:
            table.add_row("", "", "", Styled(shown, "cyan"))
        line = row.line
        cell = Styled(shown, "cyan") if without_program else f"  {row.text or ''}"
        table.add_row(*_code_numbers(row), cell, style="" if row.executions else "red")
        if row.branch is not None:
            table.add_row("", "", "", Styled(f"      {_sides(row.branch)}", "cyan"))
    yield table


def _line(row: CodeRow, files: ShortNames) -> str:
    if row.line is None:
        return ""
    place = files.route([row.line])
    return place if row.source is None else f"{place}: {_plain(row.source).strip()}"


def _code_numbers(row: CodeRow) -> tuple[str, str, str]:
    return digits(row.executions), digits(row.added) if row.added else "", f"{row.address:x}"


def _sides(branch: Branch) -> str:
    return f"taken {digits(branch.taken)}, not taken {digits(branch.not_taken)}"


def _plain(line: str | None) -> str:
    return "" if line is None else visible(line.expandtabs(TAB).rstrip())
