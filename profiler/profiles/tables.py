"""The tables of a profile: routines, edges, paths and blocks, each column defined once.

All that shows rows reads these: `show` as text, CSV and JSON, `run --json`, `export` as CSV and
Parquet, data frames. A column has one name, one unit and one meaning everywhere:

entered                      activations of a routine, re-entries not counted
executions                   how often an edge, a path or a block was executed
instructions                 those of the program itself that were executed there, in all
instructions_per_execution   those of one execution of a path or a block
added                        those that the scheme's code executed there, in all
share                        `instructions` of those of the whole run

1. Columns and rows of a table        `table`, `COLUMNS`
2. Values as cells of files           `cell` (CSV, Parquet, frames), `ProfileTable.objects` (JSON)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import groupby, islice
from json.encoder import encode_basestring_ascii as quoted
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from simprof.profiler.graphs.cfg import EXIT, VertexName
from simprof.profiler.graphs.paths import PathEnd, PathStart
from simprof.profiler.profiles.codec import big_integers, parse_json
from simprof.profiler.profiles.profile import BlockCount, PathCount, RoutineProfile, RunMeasurement
from simprof.simulator.binary.demangling import demangle, split_module
from simprof.simulator.binary.program import SourceLine

Cell = int | float | str | bool | None  # What a file has in one place of a table
# What a row has: values whose text depends on the kind of their column.
Value = Cell | VertexName | tuple[VertexName, ...] | tuple[SourceLine, ...] | tuple[int, ...]
Row = tuple[Value, ...]

SEPARATOR = " > "  # Stands between the blocks, and the source lines, of a path written as one text


class ColumnKind(Enum):
    """What the values of a column are; any may be None, an empty cell in files."""

    WHOLE = "integer"  # fits 64 bits
    LONG = "integer of any length"  # path numbers may have thousands of digits
    NUMBER = "number"
    TEXT = "text"
    FLAG = "true or false"
    ADDRESS = "address"  # an integer; 0x101918 in files
    BLOCK = "block"  # a `VertexName`; 0x101918, slot 0x101918, ENTRY or EXIT in files
    BLOCKS = "blocks"  # several, `LoopName`s among them
    LINES = "source lines"  # several `SourceLine`s
    POSITIONS = "positions"  # several integers, from 0 on


# Kinds whose values are lists in JSON, and one text elsewhere.
LISTS = (ColumnKind.BLOCKS, ColumnKind.LINES, ColumnKind.POSITIONS)
_ROWS_AT_ONCE = 4096


class DataColumn(Struct, frozen=True):
    """One column: its name, what its values are, and what they mean."""

    name: str
    kind: ColumnKind = ColumnKind.WHOLE
    meaning: str = ""


class ProfileTable(Struct, frozen=True):
    """A table: the rows have one value a column."""

    name: str
    columns: tuple[DataColumn, ...]
    rows: tuple[Row, ...]

    def cells(self) -> Iterator[tuple[Cell, ...]]:
        """Return the rows as files have them."""
        return (tuple(map(cell, self.columns, row)) for row in self.rows)

    def objects(self) -> Iterator[dict[str, Any]]:
        """Return the rows as JSON has them: what is a list stays one."""
        texts = json_rows(self.columns, self.rows)
        return (row for some in texts for row in parse_json(f"[{some}]"))


def json_rows(columns: Sequence[DataColumn], rows: Iterable[Row]) -> Iterator[str]:
    """Yield the rows as JSON objects, the text of some thousand at a time, commas between them."""
    # Column by column: a large program has a million rows, of few different texts.
    names = (json.dumps(column.name).replace("%", "%%") for column in columns)
    form = "{" + ", ".join(f"{name}: %s" for name in names) + "}"
    written = [(column, _Texts(column)) for column in columns]
    remaining = iter(rows)
    with big_integers():
        while some := list(islice(remaining, _ROWS_AT_ONCE)):
            texts = [
                _texts(column, values, known)
                for (column, known), values in zip(written, zip(*some, strict=True), strict=True)
            ]
            yield ", ".join([form % row for row in zip(*texts, strict=True)])


def _texts(column: DataColumn, values: Sequence[Value], known: _Texts) -> list[str]:
    """Return the values of a column as JSON."""
    kind = column.kind
    if kind in LISTS:
        return [json.dumps(listed(column, value)) for value in values]
    if kind in (ColumnKind.WHOLE, ColumnKind.LONG, ColumnKind.NUMBER):
        return ["null" if value is None else repr(value) for value in values]
    if kind is ColumnKind.BLOCK:
        return ["null" if value is None else quoted(str(value)) for value in values]
    if kind is ColumnKind.ADDRESS:
        return ["null" if value is None else f'"{value:#x}"' for value in values]
    return [known[value] for value in values]


class _Texts(dict[Value, str]):
    """The JSON of a column's values, each written once."""

    def __init__(self, column: DataColumn) -> None:
        super().__init__()
        self._column = column

    def __missing__(self, value: Value) -> str:
        text = self[value] = json.dumps(cell(self._column, value))
        return text


def cell(column: DataColumn, value: Value) -> Cell:
    """Return a value as one cell."""
    if isinstance(value, tuple):
        lines = column.kind is ColumnKind.LINES
        return lines_text(value) if lines else SEPARATOR.join(map(str, value))  # type: ignore[arg-type]
    if column.kind is ColumnKind.ADDRESS and isinstance(value, int):
        return address_text(value)
    return str(value) if isinstance(value, VertexName) else value


def address_text(address: int) -> str:
    """Return an address as all files have it."""
    # JSON has no hexadecimal numbers and rounds integers beyond 2^53 in many readers; spreadsheets
    # show large ones as 1.05E+06; disassemblers, `addr2line` and debuggers print and take this
    # form; and a row joins with another one by comparing text.
    return f"{address:#x}"


def listed(column: DataColumn, value: Value) -> list[Cell] | None:
    """Return the value of a column of lists as JSON has it."""
    if not isinstance(value, tuple):
        return None
    if column.kind is ColumnKind.POSITIONS:
        return list(value)  # type: ignore[arg-type]
    return [f"{e.file}:{e.line}" if isinstance(e, SourceLine) else str(e) for e in value]


def lines_text(lines: Iterable[SourceLine]) -> str:
    """Return "FILE:LINE > LINE > ..."; a file is named where it is another than before."""
    parts, file = [], None
    for line in lines:
        parts.append(f"{line.line}" if line.file == file else f"{line.file}:{line.line}")
        file = line.file
    return SEPARATOR.join(parts)


def _of(kind: ColumnKind) -> Callable[[str, str], DataColumn]:
    return lambda name, meaning: DataColumn(name, kind, meaning)


_text, _flag, _whole = _of(ColumnKind.TEXT), _of(ColumnKind.FLAG), _of(ColumnKind.WHOLE)
_long, _number = _of(ColumnKind.LONG), _of(ColumnKind.NUMBER)
_address, _block = _of(ColumnKind.ADDRESS), _of(ColumnKind.BLOCK)

_ROUTINE = (
    _text("routine", "its readable name (C++ demangled), after that of its library and a colon"),
    _text("symbol", "its name in the program's symbol table, likewise"),
    _text("module", "the library that it is in; empty: the program itself"),
    _address("routine_address", "its first instruction"),
)
_EXECUTIONS = _whole("executions", "how often it was executed")
_DONE = "instructions of the program that were executed there, without callees"
_INSTRUCTIONS = _whole("instructions", _DONE)
_LENGTH = _whole("instructions_per_execution", "instructions that one execution of it executes")
_ADDED = _whole("added", "instructions that the scheme's code executed there")
_SHARE = _number("share", "`instructions` / those of the whole run, from 0 to 1")
_SOURCE = (
    _text("file", "source file of where it begins (of an edge: where it leads), if that is known"),
    _whole("line", "and the line in it"),
)
COLUMNS: Mapping[str, tuple[DataColumn, ...]] = MappingProxyType(
    {
        "routines": (
            *_ROUTINE,
            _text("alias", "the other name by which --routine selected it"),
            _whole("entered", "activations, re-entries not counted"),
            _INSTRUCTIONS,
            _SHARE,
            _ADDED,
            _number("overhead", "`added` / `instructions`"),
            _whole("blocks", "basic blocks of its graph"),
            _whole("edges", "edges of its graph"),
            _whole("back_edges", "back edges among them"),
            _flag("irreducible", "whether the graph is"),
            _long("potential_paths", "paths that the graph has"),
            _long(
                "numbered_paths",
                "paths that the scheme distinguishes: those left if paths were cut",
            ),
            _whole("iterations", "how many iterations of a loop a path spans here (k of kiter)"),
            _text(
                "limited_loops",
                "loops whose paths span fewer iterations than asked for: the block at the head, k "
                "and why",
            ),
            _whole("executed_paths", "different whole paths that this run executed"),
            _number("path_coverage", "`executed_paths` / `numbered_paths`, from 0 to 1"),
            _whole("cut_edges", "edges at which paths were cut to keep the path limit"),
            _text("table", "how the scheme counts here: array, hash or none"),
            _text("addressing", "how the array is addressed"),
            _text("path_register", "where the code keeps the path number: a register, or stack"),
            *_SOURCE,
        ),
        "edges": (
            *_ROUTINE,
            _block("source", "the block that it leaves"),
            _block("target", "the block that it enters"),
            _text("kind", "of the transfer: taken, fall-through, ..."),
            _EXECUTIONS,
            _ADDED,
            _flag("instrumented", "whether a counter of the scheme is on it"),
            _address("address", "the instruction that its code is charged to"),
            *_SOURCE,
        ),
        "paths": (
            *_ROUTINE,
            _long("path", "path number; empty: partial, or iterations of a loop of one block"),
            _EXECUTIONS,
            _INSTRUCTIONS,
            _LENGTH,
            _SHARE,
            _flag("partial", "whether the activation ended within it"),
            _flag("inferred", "whether the edge profile determines `executions`: no counter does"),
            _text(
                "inferred_from",
                "which edge profile; of another run: `executions` are that run's, and "
                "`instructions` is empty",
            ),
            _text("start", "why it starts there: " + ", ".join(PathStart)),
            _text("end", "why it ends there: " + ", ".join(PathEnd)),
            _flag("shortened", "whether the scheme cuts longer paths where it begins or ends"),
            DataColumn(
                "blocks",
                ColumnKind.BLOCKS,
                "its blocks; `loop 0x101918`: one whose iterations are on other paths, by its head",
            ),
            DataColumn(
                "edges",
                ColumnKind.POSITIONS,
                "its edges, positions among the routine's rows of `edges`; only where parallel "
                "edges make two paths of the same blocks",
            ),
            *_SOURCE,
            DataColumn("lines", ColumnKind.LINES, "source lines of its blocks, repeats left out"),
        ),
        "blocks": (
            *_ROUTINE,
            _block("block", "its name: where it starts"),
            _EXECUTIONS,
            _INSTRUCTIONS,
            _LENGTH,
            _SHARE,
            _whole("added", "instructions that the scheme's code of the block itself executed"),
            *_SOURCE,
        ),
    }
)
NAMES = tuple(COLUMNS)
DEFAULT = "routines"  # The table that is meant where none is named


def table(measurement: RunMeasurement, name: str) -> ProfileTable:
    """Return one of the tables `NAMES`; KeyError if there is no such table.

    One row for each routine that was entered, for each edge and each block of these, executed or
    not, and for each path that was executed, partial ones included.
    """
    return ProfileTable(name, COLUMNS[name], tuple(table_rows(measurement, name)))


def table_rows(measurement: RunMeasurement, name: str) -> Iterator[Row]:
    """Yield the rows of one of the tables."""
    for routine in measurement.routines:
        yield from routine_rows(measurement, routine, name)


def routine_rows(measurement: RunMeasurement, routine: RoutineProfile, name: str) -> Iterator[Row]:
    """Yield the rows of one routine in one of the tables."""
    prefix = _routine_cells(measurement, routine)
    for row in _ROWS[name](measurement, routine):
        yield (*prefix, *row)


def executed_paths(measurement: RunMeasurement, routine: RoutineProfile) -> int | None:
    """Return how many different whole paths this run executed; None: the scheme counts none."""
    if routine.numbered_paths is None and not routine.path_counts:
        return None
    return sum(
        path.count > 0 and not path.partial and not measurement.is_of_another_run(path)
        for path in routine.path_counts
    )


def path_coverage(measurement: RunMeasurement, routine: RoutineProfile) -> float | None:
    """Return the share of the numbered paths that this run executed; None where none are."""
    executed, paths = executed_paths(measurement, routine), routine.numbered_paths
    return executed / paths if executed is not None and paths else None


def block_counts(routine: RoutineProfile) -> dict[VertexName, int]:
    """Return how often each block of a routine was executed, in the order of its edges."""
    counts: Counter[VertexName] = Counter()
    for edge in routine.edge_counts:
        if edge.target != EXIT:
            counts[edge.target] += edge.count
    return dict(counts)


class LoopName(VertexName, frozen=True):
    """The name of a collapsed loop among the blocks of a path: that of its head."""

    def __str__(self) -> str:
        return f"loop {super().__str__()}"


def path_blocks(path: PathCount) -> tuple[VertexName, ...]:
    """Return the names of a path's blocks, and of the loops that are collapsed on it."""
    return tuple(
        (LoopName if at in path.collapsed else VertexName)(start, at in path.slots)
        for at, start in enumerate(path.blocks)
    )


# What stands in texts behind the blocks of a path that starts, or ends, with a collapsed loop's
# entry or exit; nothing is said of those of routines.
LOOP_MARKS = {PathStart.LOOP_ENTRY: "(loop entry)", PathEnd.LOOP_EXIT: "(loop exit)"}


def loop_marks(*bounds: object) -> list[str]:
    """Return what texts say of how a path starts and ends."""
    return [mark for place, mark in LOOP_MARKS.items() if place in bounds]


def path_lines(path: PathCount, measurement: RunMeasurement) -> tuple[SourceLine, ...]:
    """Return the source lines of a path's blocks, as far as they are known, repeats left out."""
    places = (_line(measurement, start) for start in path.blocks)
    return tuple(place for place, _ in groupby(places) if place is not None)


def known_line(measurement: RunMeasurement, *vertices: VertexName) -> SourceLine | None:
    """Return the source line of the first vertex that has one; of an edge name the target first."""
    for vertex in vertices:
        if (line := _line(measurement, vertex.start)) is not None:
            return line
    return None


def _line(measurement: RunMeasurement, start: int | str) -> SourceLine | None:
    return measurement.lines.get(start) if isinstance(start, int) else None


def _source_cells(line: SourceLine | None) -> tuple[str | None, int | None]:
    return (None, None) if line is None else (line.file, line.line)


def _routine_cells(measurement: RunMeasurement, routine: RoutineProfile) -> Row:
    # Names of a library's routines begin with its name; no program without libraries has such.
    module = split_module(routine.name)[0] if measurement.program.modules else ""
    return demangle(routine.name), routine.name, module or None, routine.address


def _share(measurement: RunMeasurement, instructions: int | None) -> float | None:
    unknown = instructions is None or not measurement.base
    return None if unknown or instructions is None else instructions / measurement.base


def _routine_row(measurement: RunMeasurement, routine: RoutineProfile) -> Iterator[Row]:
    yield (
        routine.alias,
        routine.activations,
        routine.instructions,
        _share(measurement, routine.instructions),
        routine.added,
        routine.added / routine.instructions if routine.instructions else None,
        routine.blocks,
        routine.edges,
        routine.back_edges,
        routine.irreducible,
        routine.potential_paths,
        routine.numbered_paths,
        routine.iterations,
        "; ".join(map(str, routine.limited_loops)) or None,
        executed_paths(measurement, routine),
        path_coverage(measurement, routine),
        routine.cut_edges,
        str(routine.table),
        None if routine.addressing is None else str(routine.addressing),
        routine.path_register,
        *_source_cells(_line(measurement, routine.address)),
    )


def _edge_rows(measurement: RunMeasurement, routine: RoutineProfile) -> Iterator[Row]:
    for edge, address in zip(routine.edge_counts, routine.edge_addresses, strict=True):
        # The source of the edge that enters a routine is no block, and has no line.
        line = known_line(measurement, edge.target, edge.source)
        how = edge.kind.value, edge.count, edge.added, edge.instrumented
        yield edge.source, edge.target, *how, address, *_source_cells(line)


class LoopIterations(PathCount, frozen=True):
    """Iterations of a loop of one block that are on no path; they have no number."""


def listed_paths(measurement: RunMeasurement, routine: RoutineProfile) -> tuple[PathCount, ...]:
    """Return a routine's paths, and iterations of loops of one block where these are on no path.

    `pp` counts such an iteration as an edge (EPP 4.1). With them, all paths of a routine execute
    what the routine does.
    """
    own = [path for path in routine.path_counts if not measurement.is_of_another_run(path)]
    # What is on no path tells: iterations are left out of all paths of a routine, or of none.
    rest = routine.instructions - sum(path.count * path.instructions for path in own)
    loops = _loops_of_one_block(routine) if rest > 0 and routine.path_counts else []
    whole = rest == sum(loop.count * loop.instructions for loop in loops)
    return (*routine.path_counts, *(loops if whole else ()))


def _loops_of_one_block(routine: RoutineProfile) -> list[LoopIterations]:
    sizes = {each.name: each.instructions for each in routine.block_counts}
    return [
        LoopIterations(None, edge.count, sizes[edge.source], (edge.source.start,), (), False, (at,))
        for at, edge in enumerate(routine.edge_counts)
        if edge.source == edge.target and edge.count and edge.source in sizes
    ]


def _path_rows(measurement: RunMeasurement, routine: RoutineProfile) -> Iterator[Row]:
    alike = Counter(path.shape for path in routine.path_counts)
    for path in listed_paths(measurement, routine):
        # What an edge profile of another run determines executes nothing in this run, as far as
        # is known.
        elsewhere = measurement.is_of_another_run(path)
        instructions = None if elsewhere else path.count * path.instructions
        lines = path_lines(path, measurement)
        yield (
            path.id,
            path.count,
            instructions,
            path.instructions,
            _share(measurement, instructions),
            path.partial,
            path.inferred,
            str(measurement.guide) if path.inferred else None,
            path.start and str(path.start),
            path.end and str(path.end),
            path.shortened,
            path_blocks(path),
            path.edges if alike[path.shape] > 1 else None,
            *_source_cells(_line(measurement, path.blocks[0]) if path.blocks else None),
            lines or None,
        )


def _block_rows(measurement: RunMeasurement, routine: RoutineProfile) -> Iterator[Row]:
    blocks = {block.name: block for block in routine.block_counts}
    unexecuted: Counter[VertexName] = Counter()
    for cut in routine.cut_blocks:
        block = routine.block_counts[cut.block]
        unexecuted[block.name] += cut.count * (block.instructions - cut.executed)
    for name, count in block_counts(routine).items():
        known: BlockCount | None = blocks.get(name)
        length, added = (None, None) if known is None else (known.instructions, known.added)
        executed = None if length is None else count * length - unexecuted[name]
        share, source = _share(measurement, executed), _line(measurement, name.start)
        yield name, count, executed, length, share, added, *_source_cells(source)


_ROWS: Mapping[str, Callable[[RunMeasurement, RoutineProfile], Iterator[Row]]] = MappingProxyType(
    dict(zip(COLUMNS, (_routine_row, _edge_rows, _path_rows, _block_rows), strict=True))
)
