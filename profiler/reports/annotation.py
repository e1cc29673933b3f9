"""Source and code with the counts of a profile beside them: which is shown, and in which form.

Terms
-----
view
    The source of a file, line by line, or the code of a routine, instruction by instruction, with
    the source lines that it was compiled from between.

Steps -> functions
------------------
1. What is shown of a profile             `Annotator`
2. Text, CSV, JSON (format `simprof/source`)     `render_text`, `render_csv`, `render_json`

A row of the CSV is a line that has code, a branch, or an instruction. Its `kind` says which, so
that nothing is added up twice: the instructions of a line are not below it, unless a routine's code
is shown beside source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct

from simprof.profiler.profiles import csv_text
from simprof.profiler.profiles.code_counts import Branch, CodeCounts
from simprof.profiler.profiles.codec import json_line
from simprof.profiler.profiles.lines import (
    MEANINGS,
    InlinedCounts,
    LineCounts,
    Placing,
    SourceCounts,
)
from simprof.profiler.profiles.program_files import SourceFiles
from simprof.profiler.profiles.tables import Cell
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import ShortNames, counted, digits, known_as, plural, visible
from simprof.profiler.reports.listings import is_called, matches, names_of
from simprof.profiler.reports.run_json import measurement_head
from simprof.simulator.binary.demangling import base_names, demangle, spellings
from simprof.simulator.binary.program import SourceLine
from simprof.simulator.errors import UsageError
from simprof.simulator.isa.disassembly import disassemble

AS_CODE = "routines of which no source line is known are shown as instructions"


class SourceRow(Struct, frozen=True):
    """A line of source. `text` is None where it cannot be read, `counts` where there is no code."""

    number: int
    text: str | None
    counts: LineCounts | None
    placing: Placing = Placing.OWN


class SourceView(Struct, frozen=True):
    """A source file, or a part of it; `inlined`: what was inlined of it, by address."""

    file: str
    rows: tuple[SourceRow, ...]
    inlined: tuple[InlinedCounts, ...] = ()


class CodeRow(Struct, frozen=True):
    """An instruction."""

    address: int
    text: str | None  # The instruction; None where the program is not found.
    executions: int
    added: int
    branch: Branch | None
    # line, source: The line that it was compiled from, and its text, as far as they are known:
    # without the program, at starts of blocks only.
    line: SourceLine | None
    source: str | None


class CodeView(Struct, frozen=True):
    """A routine, instruction by instruction."""

    code: CodeCounts
    rows: tuple[CodeRow, ...]


class Annotation(Struct, frozen=True):
    """What is shown of a profile, and what its reader must know."""

    counts: SourceCounts
    views: tuple[SourceView | CodeView, ...]
    notes: tuple[str, ...] = ()


class Annotator:
    """Makes the views of a profile; `notes`: what is to be said beside what it finds itself."""

    def __init__(
        self, counts: SourceCounts, sources: SourceFiles, notes: Sequence[str] = ()
    ) -> None:
        self._counts = counts
        self._sources = sources
        unused = sources.unused(counts.source_files)
        self._notes = list(dict.fromkeys((*notes, *counts.notes, *unused)))

    def everything(self, as_code: bool = False) -> Annotation:
        """Show all files that have executed lines, or all routines as code.

        Without such files, routines are shown as code, too.
        """
        if as_code:
            return self._annotation([self._code(code) for code in self._counts.routines])
        views: list[SourceView | CodeView] = [
            self._source(file)
            for file, lines in self._counts.files.items()
            if any(line.executions for line in lines.values())
        ]
        without = [code for code in self._counts.routines if not self._lines(code)]
        if not views:
            views += map(self._code, without)
        elif without:
            self._notes.append(
                f"{plural(len(without), 'routine')} of which no source line is known: --code shows "
                "instructions"
            )
        return self._annotation(views)

    def target(self, target: str, as_code: bool = False) -> Annotation:
        """Show routines, or source files, of some name; UsageError if there is neither.

        `target`: A name or glob: of routines, or of a source file (its path, or the end of it).
        `as_code`: Whether code is shown, or source, as far as lines are known.
        """
        routines = [
            code
            for code in self._counts.routines
            if is_called(code.profile, (target,)) or target in names_of(code.profile)
        ]
        files = [file for file in self._counts.files if _is_file(file, target)]
        copies = () if routines or files else self._copies(target)
        if as_code:
            routines += [self._counts.routines[each.routine] for each in copies]
        elif copies:
            return self._annotation(self._source_of(copies))
        if not routines and not files:
            raise UsageError(
                f"{target} is neither a routine of the profile nor a source file that it knows: "
                "`simprof show PROFILE routines` lists them"
            )
        if as_code:
            lines = [line for file in files for line in self._counts.files[file].values()]
            of_files = sorted({number for line in lines for number in line.routines})
            routines += [self._counts.routines[number] for number in of_files]
            once = {code.profile.address: code for code in routines}
            return self._annotation(list(map(self._code, once.values())))
        views: list[SourceView | CodeView] = []
        for code in routines:
            views += self._own_source(code)
        return self._annotation(views + list(map(self._source, files)))

    def _copies(self, target: str) -> list[InlinedCounts]:
        """Return the inlined copies of routines of some name whose source is known."""
        found = []
        for each in self._counts.inlined:
            names = {*spellings(each.copy.symbol), *base_names(each.copy.symbol), each.copy.name}
            if each.line is not None and matches(names, (target,)):
                found.append(each)
        return found

    def _source_of(self, copies: Sequence[InlinedCounts]) -> list[SourceView]:
        """Return the source of routines that have no code but these copies."""
        lines: dict[str, set[int]] = {}
        for each in copies:
            assert each.line is not None
            addresses = chain.from_iterable(
                range(part.start, part.end, 4) for part in each.copy.ranges
            )
            found = {self._counts.line_at(address) for address in addresses} | {each.line}
            file, first = each.line.file, each.line.line
            # Lines of what was inlined into it are left out where that is declared before it
            own = {at.line for at in found if at and at.file == file and at.line >= first}
            lines[file] = lines.get(file, set()) | own
        return [self._source(file, min(own), max(own)) for file, own in lines.items()]

    def _annotation(self, views: Sequence[SourceView | CodeView]) -> Annotation:
        return Annotation(self._counts, tuple(views), tuple(dict.fromkeys(self._notes)))

    def _lines(self, code: CodeCounts) -> dict[str, list[int]]:
        lines: dict[str, list[int]] = {}
        for address in code.executions:
            line = self._counts.line_at(address)
            if line is not None:
                lines.setdefault(line.file, []).append(line.line)
        return lines

    def _own_source(self, code: CodeCounts) -> Iterator[SourceView | CodeView]:
        """Yield the part of the routine's file that its lines are in, its code if none is known."""
        lines = self._lines(code)
        start = self._counts.line_at(code.profile.address)
        if start is None or start.file not in lines:
            self._notes.append(AS_CODE)
            yield self._code(code)
            return
        own = lines[start.file]
        yield self._source(start.file, min(own), max(own))

    def _source(self, file: str, first: int = 1, last: int | None = None) -> SourceView:
        lines, text = self._counts.files[file], self._sources.text(file)
        if text is None:
            self._miss(file)
            numbers = [n for n in sorted(lines) if first <= n <= (last or n)]
            rows = [self._row(file, n, None) for n in numbers]
            return SourceView(file, tuple(rows), self._inlined(file, numbers))
        beyond = [n for n in sorted(lines) if n > len(text)]
        if beyond:
            self._notes.append(
                f"{self._sources.place(file)} has no line {beyond[0]}: it is not what was compiled"
            )
        end = len(text) if last is None else min(last, len(text))
        rows = [self._row(file, n, text[n - 1]) for n in range(first, end + 1)]
        rows += [self._row(file, n, None) for n in beyond if first <= n <= (last or n)]
        return SourceView(file, tuple(rows), self._inlined(file, [row.number for row in rows]))

    def _row(self, file: str, number: int, text: str | None) -> SourceRow:
        placing = self._counts.placings.get(SourceLine(file, number), Placing.OWN)
        return SourceRow(number, text, self._counts.files[file].get(number), placing)

    def _inlined(self, file: str, numbers: Sequence[int]) -> tuple[InlinedCounts, ...]:
        """Return what was inlined of a file and is declared, or begins, in one of these lines."""
        shown = {SourceLine(file, number) for number in numbers}
        return tuple(
            each
            for each in self._counts.inlined
            if each.line is not None
            and each.line.file == file
            and not shown.isdisjoint({each.line, self._counts.line_at(each.copy.entry)})
        )

    def _miss(self, file: str) -> None:
        place = self._sources.place(file)
        name = file if place == Path(file) else place  # the path as --source-dir takes it
        self._notes.append(f"{name} cannot be read: say where it is by --source-dir FROM=TO")

    def _code(self, code: CodeCounts) -> CodeView:
        return CodeView(code, tuple(self._code_row(code, address) for address in code.executions))

    def _code_row(self, code: CodeCounts, address: int) -> CodeRow:
        line = self._counts.known_line(address)
        text = None if line is None else self._sources.text(line.file)
        if line is not None and text is None:
            self._miss(line.file)
        word = self._counts.word_at(address)
        return CodeRow(
            address,
            None if word is None else disassemble(word, address),
            code.executions[address],
            code.added.get(address, 0),
            code.branches.get(address),
            line,
            text[line.line - 1] if line and text and line.line <= len(text) else None,
        )


def _is_file(file: str, target: str) -> bool:
    parts, wanted = PurePath(file).parts, PurePath(target).parts
    end = str(PurePath(*parts[-len(wanted) :])) if wanted else ""
    return fnmatchcase(file, target) or fnmatchcase(end, str(PurePath(target)))


COLUMNS = (
    "kind", "file", "line", "routine", "symbol", "address", "executions", "instructions", "added",
    "taken", "not_taken", "instruction", "source", "code",
)  # fmt: skip


def render_csv(annotation: Annotation) -> str:
    """Return the CSV: columns `COLUMNS`.

    An instruction's `instructions` are its `executions`; `taken` and `not_taken` are those of
    conditional branches. `code` is that of `profiles.lines.Placing`.
    """
    rows = (
        _line_cells(view) if isinstance(view, SourceView) else _instruction_cells(view)
        for view in annotation.views
    )
    return csv_text.render(COLUMNS, chain.from_iterable(rows))


def _line_cells(view: SourceView) -> Iterator[tuple[Cell, ...]]:
    two, three = (None,) * 2, (None,) * 3
    for row in view.rows:
        if row.counts is None:
            continue
        place, counts = (view.file, row.number), row.counts
        sums = (counts.executions, counts.base, counts.added)
        yield ("line", *place, *three, *sums, *three, row.text, row.placing)
        for branch in counts.branches:
            sides = _side_cells(branch)
            yield ("branch", *place, *two, f"{branch.address:#x}", *three, *sides, *three)


def _instruction_cells(view: CodeView) -> Iterator[tuple[Cell, ...]]:
    symbol = view.code.profile.name
    names = demangle(symbol), symbol
    for row in view.rows:
        place = (None, None) if row.line is None else (row.line.file, row.line.line)
        counts = (row.executions, row.executions, row.added)
        sides = _side_cells(row.branch)
        texts = (row.text, row.source, None)
        yield ("instruction", *place, *names, f"{row.address:#x}", *counts, *sides, *texts)


def _side_cells(branch: Branch | None) -> tuple[int | None, int | None]:
    return (None, None) if branch is None else (branch.taken, branch.not_taken)


def render_json(annotation: Annotation) -> str:
    """Return one line of JSON: files with lines, routines with instructions."""
    counts, views = annotation.counts, annotation.views
    answer = {
        **measurement_head("source", counts.measurement),
        "notes": list(annotation.notes),
        "files": [
            _file_object(view, counts.routines) for view in views if isinstance(view, SourceView)
        ],
        "routines": [_routine_object(view) for view in views if isinstance(view, CodeView)],
    }
    return json_line(answer)


def _file_object(view: SourceView, routines: Sequence[CodeCounts]) -> dict[str, Any]:
    return {
        "file": view.file,
        "lines": [_line_object(row) for row in view.rows if row.counts is not None],
        "inlined": [
            {
                "name": each.copy.name,
                "line": each.copy.line or None,
                "into": routines[each.routine].profile.name,
                "call_line": each.copy.call_line or None,
                "address": f"{each.copy.entry:#x}",
                "executions": each.executions,
                "instructions": each.base,
            }
            for each in view.inlined
        ],
    }


def _line_object(row: SourceRow) -> dict[str, Any]:
    assert row.counts is not None
    return {
        "line": row.number,
        "executions": row.counts.executions,
        "instructions": row.counts.base,
        "added": row.counts.added,
        "code": row.placing,
        "branches": [
            {"address": f"{branch.address:#x}"} | _side_object(branch)
            for branch in row.counts.branches
        ],
        "source": row.text,
    }


def _routine_object(view: CodeView) -> dict[str, Any]:
    routine = view.code.profile
    return {
        "symbol": routine.name,
        "routine_address": f"{routine.address:#x}",
        "entered": routine.activations,
        "instructions": routine.instructions,
        "added": routine.added,
        "unplaced": view.code.unplaced,
        "code": [_instruction_object(row) for row in view.rows],
    }


def _instruction_object(row: CodeRow) -> dict[str, Any]:
    return {
        "address": f"{row.address:#x}",
        "instruction": row.text,
        "executions": row.executions,
        "added": row.added,
        "file": None if row.line is None else row.line.file,
        "line": None if row.line is None else row.line.line,
    } | ({} if row.branch is None else _side_object(row.branch))


def _side_object(branch: Branch) -> dict[str, int]:
    return {"taken": branch.taken, "not_taken": branch.not_taken}


def render_text(annotation: Annotation, width: int = 100, color: bool = False) -> str:
    """Return the views, one below the other; the notes are for whoever shows them."""
    parts: list[layout.Part] = []
    for view in annotation.views:
        parts += [] if not parts else [layout.BLANK]
        routines = annotation.counts.routines
        parts += _source(view, routines) if isinstance(view, SourceView) else _code(view)
    if not annotation.views:
        parts.append(layout.paragraph("nothing to show: the profile has no counts"))
    unplaced = sum(code.unplaced for code in annotation.counts.routines)
    if unplaced and annotation.views:
        note = (
            f"In the whole profile, {counted(unplaced, 'added instruction')} of run-time routines "
            "that look up hash tables are at no line: they are known for whole routines only."
        )
        parts += [layout.BLANK, layout.paragraph(note)]
    return layout.print_parts(parts, width, color)


def _source(view: SourceView, routines: Sequence[CodeCounts]) -> Iterator[layout.Part]:
    lines = [row.counts for row in view.rows if row.counts is not None]
    ran = sum(line.executions > 0 or line.base > 0 for line in lines)
    yield layout.paragraph(
        f"{view.file}: {digits(ran)} of {counted(len(lines), 'line')} with code executed, "
        f"{counted(sum(line.base for line in lines), 'instruction')}, "
        f"{counted(sum(line.added for line in lines), 'added instruction')}",
        style="bold",
    )
    words = [word for word in MEANINGS if any(row.placing is word for row in view.rows)]
    code = [layout.text("code")] if words else []
    counts = map(layout.number, ("executions", "instructions", "added"))
    table = layout.columns(*counts, *code, layout.number("line"), layout.text("source"))
    for row in view.rows:
        placing = "" if row.placing is Placing.OWN else row.placing
        shown = *([placing] if words else []), str(row.number), _plain(row.text)
        line = row.counts
        if line is None:
            table.add_row("", "", "", *shown)
            continue
        added = digits(line.added) if line.added else ""
        style = "" if line.base else "red"
        table.add_row(digits(line.executions), digits(line.base), added, *shown, style=style)
        for branch in line.branches:
            sides = layout.Styled(f"  {branch.address:#x}: {_sides(branch)}", "cyan")
            table.add_row(*[""] * (len(table.columns) - 1), sides)
    yield table
    for word in words:
        yield layout.paragraph(f"{word}: {MEANINGS[word]}")
    yield from layout.section("Inlined routines", _inlined(view.inlined, routines))


def _inlined(inlined: Sequence[InlinedCounts], routines: Sequence[CodeCounts]) -> layout.Table:
    table = layout.columns(
        *map(layout.number, ("executions", "instructions", "line")),
        layout.text("routine"),
        layout.text("inlined into"),
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


def _code(view: CodeView) -> Iterator[layout.Part]:
    routine, unplaced = view.code.profile, view.code.unplaced
    yield layout.paragraph(
        f"{known_as(routine.name, routine.alias)} at {routine.address:#x}: entered "
        f"{counted(routine.activations, 'time')}, {counted(routine.instructions, 'instruction')}, "
        f"{counted(routine.added, 'added instruction')}"
        + (f", {digits(unplaced)} of them at no instruction" if unplaced else ""),
        style="bold",
    )
    files = ShortNames(row.line.file for row in view.rows if row.line is not None)
    without_program = all(row.text is None for row in view.rows)
    last = "source line" if without_program else "instruction"
    table = layout.columns(
        *map(layout.number, ("executions", "added", "address")), layout.text(last)
    )
    line = None
    for row in view.rows:
        shown = _line(row, files)
        if shown and row.line != line and not without_program:
            table.add_row("", "", "", layout.Styled(shown, "cyan"))
        line = row.line
        numbers = digits(row.executions), digits(row.added) if row.added else ""
        cell = layout.Styled(shown, "cyan") if without_program else f"  {row.text or ''}"
        style = "" if row.executions else "red"
        table.add_row(*numbers, f"{row.address:#x}", cell, style=style)
        if row.branch is not None:
            table.add_row("", "", "", layout.Styled(f"      {_sides(row.branch)}", "cyan"))
    yield table


def _line(row: CodeRow, files: ShortNames) -> str:
    if row.line is None:
        return ""
    place = files.route([row.line])
    return place if row.source is None else f"{place}: {_plain(row.source).strip()}"


def _sides(branch: Branch) -> str:
    return f"taken {digits(branch.taken)}, not taken {digits(branch.not_taken)}"


def _plain(line: str | None) -> str:
    return "" if line is None else visible(line.expandtabs().rstrip())
