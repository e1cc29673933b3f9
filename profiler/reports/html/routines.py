"""What the page of a report knows of each routine: its row in the table, its graph, its paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profiler.graphs.cfg import ENTRY, EXIT, VertexName
from profiler.profiles.profile import Measurement, PathCount, RoutineProfile
from profiler.reports.html.code import routine_code
from profiler.reports.html.texts import SourceTexts
from profiler.reports.names import known_as
from profiler.reports.numbers import identifier
from profiler.reports.text import counters_text
from profiler.session.planned_again import PlannedProgram

MOST_PATHS = 100
"""Paths of a routine on its page, those that execute most instructions first."""

_BLOCK, _SLOT, _ENTRY, _EXIT = range(4)


@dataclass(frozen=True)
class Run:
    """A profile of a report: its name there, and what was made again of its program's code.

    `note` says why code is missing; "" where nothing is.
    """

    name: str
    measurement: Measurement
    planned: PlannedProgram | None = None
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One routine in all runs: its position among each run's routines, None where it did not run."""

    name: str
    address: int
    positions: tuple[int | None, ...]


def rows(runs: Sequence[Run]) -> list[Row]:
    """Return the routines of all runs, the one that executes most first.

    Those of one file are matched by address and name. In another file addresses have moved: there
    the routines of a name are matched in the order of their addresses.
    """
    found: dict[tuple[object, ...], list[int | None]] = {}
    shown: dict[tuple[object, ...], tuple[RoutineProfile, int]] = {}
    one_file = len({run.measurement.program.sha256 for run in runs}) == 1
    for number, run in enumerate(runs):
        times: dict[str, int] = {}
        for position, routine in enumerate(run.measurement.routines):
            if not routine.activations and not routine.instructions:
                continue
            nth = times[routine.name] = times.get(routine.name, 0) + 1
            key = routine.key if one_file else (nth, routine.name)
            found.setdefault(key, [None] * len(runs))[number] = position
            heat = max(routine.instructions, shown[key][1] if key in shown else 0)
            shown[key] = routine, heat
    order = sorted(found, key=lambda key: (-shown[key][1], shown[key][0].address))
    return [
        Row(
            known_as(shown[key][0].name, shown[key][0].alias),
            shown[key][0].address,
            tuple(found[key]),
        )
        for key in order
    ]


def facts(routine: RoutineProfile) -> list[Any]:
    """Return a routine's cells in the table of routines."""
    return [
        routine.activations,
        routine.instructions,
        routine.added,
        routine.blocks,
        routine.edges,
        routine.potential_paths,
        counters_text(routine),
        routine.path_register or "-",
        len(routine.path_counts),
    ]


def hottest(routine: RoutineProfile) -> list[PathCount]:
    """Return the paths of a routine that are shown on its page, in this order."""
    ranked = [path for path in routine.path_counts if path.count]
    ranked.sort(key=lambda path: -path.count * path.instructions)
    return ranked[:MOST_PATHS]


def detail(run: Run, position: int, texts: SourceTexts) -> dict[str, Any]:
    """Return what the page of a routine shows of one run.

    Returns
    -------
    "nodes": [kind, address, instructions or -1]; "edges": [source, target, kind, count, whether it
    carries code]; "paths": [id, count, instructions, partial, edges, nodes]; and `routine_code`.
    """
    routine = run.measurement.routines[position]
    planned = None if run.planned is None else run.planned.routines.get(position)
    lengths = {}
    numbers: dict[VertexName, int] = {}
    if planned is not None:
        for block in planned.cfg.blocks:
            lengths[numbers.setdefault(planned.cfg.name_of(block.id), block.id)] = (
                block.instructions
            )
    for edge in routine.edge_counts:
        for end in (edge.source, edge.target):
            numbers.setdefault(end, len(numbers))
    made: dict[str, Any] = {
        "nodes": [[*_node(name), lengths.get(number, -1)] for name, number in numbers.items()],
        "edges": [
            [
                numbers[edge.source],
                numbers[edge.target],
                edge.kind.value,
                edge.count,
                int(edge.instrumented),
            ]
            for edge in routine.edge_counts
        ],
        "paths": [_path(path, numbers) for path in hottest(routine)],
    }
    if run.planned is not None and planned is not None:
        made |= routine_code(run.planned, planned, texts)
    return made


def _node(name: VertexName) -> tuple[int, str]:
    if name == ENTRY:
        return _ENTRY, "ENTRY"
    if name == EXIT:
        return _EXIT, "EXIT"
    start = name.start if isinstance(name.start, str) else f"{name.start:x}"
    return (_SLOT if name.is_slot else _BLOCK), start


def _path(path: PathCount, numbers: dict[VertexName, int]) -> list[Any]:
    nodes = [
        numbers.get(VertexName(start, place in path.slots), -1)
        for place, start in enumerate(path.blocks)
    ]
    return [
        identifier(path.id),
        path.count,
        path.instructions,
        int(path.partial),
        path.edges,
        nodes,
    ]
