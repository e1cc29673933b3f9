"""Source and code with the counts of a profile beside them: which is shown, and its text.

A *view* is either the source of a file, line by line, or the code of a routine, instruction by
instruction, with the source lines that it was compiled from between. `annotation_text` and
`annotation_json` write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from simprof.profiler.profiles.code_counts import Branch, CodeCounts
from simprof.profiler.profiles.lines import InlinedCounts, LineCounts, Placing, SourceCounts
from simprof.profiler.profiles.program_files import SourceFiles
from simprof.profiler.reports.listings import matches, names_of
from simprof.simulator.binary.program import SourceLine
from simprof.simulator.errors import UsageError
from simprof.simulator.isa.disassembly import disassemble

AS_CODE = "routines of which no source line is known are shown as instructions"


@dataclass(frozen=True)
class SourceRow:
    """A line of source. `text` is None where it cannot be read, `counts` where there is no code."""

    number: int
    text: str | None
    counts: LineCounts | None
    placing: Placing = Placing.OWN


@dataclass(frozen=True)
class SourceView:
    """A source file, or a part of it; `inlined`: what was inlined of it, by address."""

    file: str
    rows: tuple[SourceRow, ...]
    inlined: tuple[InlinedCounts, ...] = ()


@dataclass(frozen=True)
class CodeRow:
    """An instruction.

    Attributes
    ----------
    text
        The instruction; None where the program is not at hand.
    line, source
        The line that it was compiled from, and its text, as far as they are known: without the
        program, at starts of blocks only.
    """

    address: int
    text: str | None
    executions: int
    added: int
    branch: Branch | None
    line: SourceLine | None
    source: str | None


@dataclass(frozen=True)
class CodeView:
    """A routine, instruction by instruction."""

    code: CodeCounts
    rows: tuple[CodeRow, ...]


@dataclass(frozen=True)
class Annotation:
    """What is shown of a profile, and what its reader must know."""

    counts: SourceCounts
    views: tuple[SourceView | CodeView, ...]
    notes: tuple[str, ...] = ()


class Annotator:
    """Makes the views of a profile.

    Parameters
    ----------
    counts
        The profile.
    sources
        Where source files are.
    notes
        What is to be said beside what the annotator finds itself.
    """

    def __init__(
        self, counts: SourceCounts, sources: SourceFiles, notes: Sequence[str] = ()
    ) -> None:
        self._counts = counts
        self._sources = sources
        unused = sources.unused(counts.source_files)
        self._notes = list(dict.fromkeys((*notes, *counts.notes, *unused)))

    def everything(self, as_code: bool | None = None) -> Annotation:
        """Show all files that have executed lines, and as code all routines of which none is known.

        `as_code`: all routines, or no code where there are such files; None: as said.
        """
        if as_code:
            return self._annotation([self._code(code) for code in self._counts.routines])
        executed = {
            file: lines
            for file, lines in self._counts.files.items()
            if any(line.executions for line in lines.values())
        }
        views: list[SourceView | CodeView] = [self._source(file) for file in executed]
        if as_code is None or not views:
            views += [self._code(code) for code in self._counts.routines if not self._lines(code)]
        return self._annotation(views)

    def target(self, target: str, as_code: bool | None = None) -> Annotation:
        """Show routines, or source files, of some name.

        Parameters
        ----------
        target
            A name or glob: of routines, or of a source file (its path, or the end of it).
        as_code
            Whether code is shown, or source; None: code of routines, source of files. Routines of
            which no line is known are shown as code.

        Raises
        ------
        UsageError
            If there is neither.
        """
        routines = [
            code
            for code in self._counts.routines
            if matches(names_of(code.profile), (target,)) or target in names_of(code.profile)
        ]
        files = [file for file in self._counts.files if _is_file(file, target)]
        if not routines and not files:
            raise UsageError(
                f"{target} is neither a routine of the profile nor a source file that it knows: "
                "`simprof routines` lists those"
            )
        views: list[SourceView | CodeView] = []
        for code in routines:
            views += [self._code(code)] if as_code in (None, True) else self._own_source(code)
        for file in files:
            if as_code:
                of_file = {n for line in self._counts.files[file].values() for n in line.routines}
                views += [self._code(self._counts.routines[number]) for number in sorted(of_file)]
            else:
                views.append(self._source(file))
        return self._annotation(views)

    def _annotation(self, views: Sequence[SourceView | CodeView]) -> Annotation:
        return Annotation(self._counts, tuple(views), tuple(dict.fromkeys(self._notes)))

    def _lines(self, code: CodeCounts) -> dict[str, list[int]]:
        """Return the numbers of lines that a routine was compiled from, by file."""
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
        shown = set(numbers)
        return tuple(
            each
            for each in self._counts.inlined
            if each.line is not None
            and each.line.file == file
            and (each.copy.line in shown or each.line.line in shown)
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
    """Whether `target` is the path of a file, the end of it, or a pattern for either."""
    parts, wanted = PurePath(file).parts, PurePath(target).parts
    end = str(PurePath(*parts[-len(wanted) :])) if wanted else ""
    return fnmatchcase(file, target) or fnmatchcase(end, str(PurePath(target)))
