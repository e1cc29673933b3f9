"""A measurement as tables: columns with types, and rows of plain values.

What spreadsheets, data frames and columnar files are made of. Each row stands by itself: it names
its routine, and the source line where that is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from simprof.profiler.graphs.cfg import EXIT, VertexName
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement

Cell = int | float | str | bool | None


class ColumnKind(Enum):
    """What the cells of a column are; any may be None."""

    WHOLE = int  # fits 64 bits
    LONG = "long"  # a whole number of any length: path numbers may have thousands of digits
    NUMBER = float
    TEXT = str
    FLAG = bool


@dataclass(frozen=True)
class DataColumn:
    """One column: its name and what its cells are."""

    name: str
    kind: ColumnKind = ColumnKind.WHOLE


@dataclass(frozen=True)
class ProfileTable:
    """A table: the rows have one cell a column."""

    name: str
    columns: tuple[DataColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]


def _text(name: str) -> DataColumn:
    return DataColumn(name, ColumnKind.TEXT)


def _flag(name: str) -> DataColumn:
    return DataColumn(name, ColumnKind.FLAG)


_ROUTINE = (_text("routine"), DataColumn("routine_address"))
_SOURCE = (_text("file"), DataColumn("line"))
_COLUMNS: Mapping[str, tuple[DataColumn, ...]] = MappingProxyType(
    {
        "routines": (
            *_ROUTINE,
            DataColumn("activations"),
            DataColumn("instructions"),
            DataColumn("added"),
            DataColumn("overhead", ColumnKind.NUMBER),
            DataColumn("blocks"),
            DataColumn("edges"),
            DataColumn("back_edges"),
            _flag("irreducible"),
            DataColumn("potential_paths", ColumnKind.LONG),
            DataColumn("executed_paths"),
            DataColumn("cut_edges"),
            _text("table"),
            _text("addressing"),
            _text("path_register"),
            *_SOURCE,
        ),
        "edges": (
            *_ROUTINE,
            _text("source"),
            _text("target"),
            _text("kind"),
            DataColumn("count"),
            _flag("instrumented"),
            *_SOURCE,
        ),
        "paths": (
            *_ROUTINE,
            DataColumn("path", ColumnKind.LONG),
            DataColumn("count"),
            DataColumn("instructions"),
            _flag("partial"),
            _text("blocks"),
            *_SOURCE,
            _flag("inferred"),
            _text("inferred_from"),
            _flag("shortened"),
        ),
        "blocks": (*_ROUTINE, DataColumn("block"), _flag("slot"), DataColumn("count"), *_SOURCE),
    }
)
NAMES = tuple(_COLUMNS)
DEFAULT = "routines"
"""The table that is meant where none is named."""


def table(measurement: RunMeasurement, name: str) -> ProfileTable:
    """Return one of the tables `NAMES`.

    routines
        One row for each routine that was entered.
    edges, blocks
        One row for each edge, each block, of these routines, executed or not. `source` and
        `target` are addresses ("0x101918", "slot 0x101938") or "ENTRY" and "EXIT".
    paths
        One row for each path that was executed, partial ones included. Of those without a counter
        (`inferred`) `inferred_from` says what determined the count: where that is the edge profile
        of another run, it is that run's count. `shortened`: the scheme cuts paths where this one
        begins or ends.

    Raises
    ------
    KeyError
        If there is no such table.
    """
    rows = _ROWS[name]
    return ProfileTable(
        name,
        _COLUMNS[name],
        tuple(row for routine in measurement.routines for row in rows(measurement, routine)),
    )


def executed_paths(measurement: RunMeasurement, routine: RoutineProfile) -> int:
    """Return how many different whole paths of a routine this run is known to have executed."""
    return sum(
        path.count > 0 and not path.partial and not measurement.is_of_another_run(path)
        for path in routine.path_counts
    )


def block_counts(routine: RoutineProfile) -> dict[VertexName, int]:
    """Return how often each block of a routine was executed, in the order of its edges."""
    counts: Counter[VertexName] = Counter()
    for edge in routine.edge_counts:
        if edge.target != EXIT:
            counts[edge.target] += edge.count
    return dict(counts)


def _routine_rows(
    measurement: RunMeasurement, routine: RoutineProfile
) -> Iterator[tuple[Cell, ...]]:
    yield (
        routine.name,
        routine.address,
        routine.activations,
        routine.instructions,
        routine.added,
        routine.added / routine.instructions if routine.instructions else None,
        routine.blocks,
        routine.edges,
        routine.back_edges,
        routine.irreducible,
        routine.potential_paths,
        executed_paths(measurement, routine),
        routine.cut_edges,
        str(routine.table),
        None if routine.addressing is None else str(routine.addressing),
        routine.path_register,
        *_line(measurement, routine.address),
    )


def _edge_rows(measurement: RunMeasurement, routine: RoutineProfile) -> Iterator[tuple[Cell, ...]]:
    for edge in routine.edge_counts:
        yield (
            routine.name,
            routine.address,
            str(edge.source),
            str(edge.target),
            str(edge.kind),
            edge.count,
            edge.instrumented,
            *_line(measurement, edge.source.start),
        )


def _path_rows(measurement: RunMeasurement, routine: RoutineProfile) -> Iterator[tuple[Cell, ...]]:
    for path in routine.path_counts:
        blocks = (
            VertexName(start, position in path.slots) for position, start in enumerate(path.blocks)
        )
        yield (
            routine.name,
            routine.address,
            path.id,
            path.count,
            path.instructions,
            path.partial,
            ", ".join(map(str, blocks)),
            *_line(measurement, path.blocks[0] if path.blocks else None),
            path.inferred,
            str(measurement.guide) if path.inferred else None,
            path.shortened,
        )


def _block_rows(measurement: RunMeasurement, routine: RoutineProfile) -> Iterator[tuple[Cell, ...]]:
    for block, count in block_counts(routine).items():
        yield (
            routine.name,
            routine.address,
            block.start,
            block.is_slot,
            count,
            *_line(measurement, block.start),
        )


def _line(measurement: RunMeasurement, start: int | str | None) -> tuple[str | None, int | None]:
    """Return file and line of a block, None where they are not known."""
    known = measurement.lines.get(start) if isinstance(start, int) else None
    return (None, None) if known is None else (known.file, known.line)


_ROWS: Mapping[str, Callable[[RunMeasurement, RoutineProfile], Iterator[tuple[Cell, ...]]]] = (
    MappingProxyType(
        {
            "routines": _routine_rows,
            "edges": _edge_rows,
            "paths": _path_rows,
            "blocks": _block_rows,
        }
    )
)
