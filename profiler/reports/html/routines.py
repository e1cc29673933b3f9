"""Routines on the page of a report: row in the table, graph, paths, code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from simprof.profiler.code.snippets import Snippet
from simprof.profiler.graphs.cfg import ENTRY, EXIT, ControlFlowGraph, VertexName
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.paths import PathEnd
from simprof.profiler.profiles.lines import SourceCounts
from simprof.profiler.profiles.profile import PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.profiles.program_files import SourceFiles
from simprof.profiler.profiles.tables import LoopIterations, listed_paths
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.reports.code_text import NO_ACTIONS, WHERE
from simprof.profiler.reports.display import identifier, visible
from simprof.profiler.reports.hot_tables import marked, path_marks
from simprof.profiler.reports.run_text import counters_text
from simprof.profiler.session.planned_again import PlannedProgram, PlannedRoutine
from simprof.simulator.binary.program import SourceLine
from simprof.simulator.isa.disassembly import disassemble

MOST_PATHS = 100  # Of a routine on its page, those that execute most instructions first

_BLOCK, _SLOT, _ENTRY, _EXIT = range(4)


class ReportRun(Struct, frozen=True):
    """A profile of a report."""

    name: str  # What the page calls it
    # The profile by instruction and source line, with its program where that is at hand
    counts: SourceCounts
    # What was made again of its graphs and code; None where the program is not found.
    planned: PlannedProgram | None = None
    notes: tuple[str, ...] = ()  # What its reader must know besides, one sentence each

    @property
    def measurement(self) -> RunMeasurement:
        """The profile."""
        return self.counts.measurement

    @property
    def image(self) -> CodeImage | None:
        """The program's code."""
        return None if self.planned is None else self.planned.recovered.code


class RoutineInRuns(Struct, frozen=True):
    """One routine in all runs: its position in each, None where it did not run."""

    name: str
    address: int
    positions: tuple[int | None, ...]


def rows(runs: Sequence[ReportRun]) -> list[RoutineInRuns]:
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
            if not routine.ran:
                continue
            nth = times[routine.name] = times.get(routine.name, 0) + 1
            key = routine.key if one_file else (nth, routine.name)
            found.setdefault(key, [None] * len(runs))[number] = position
            heat = max(routine.instructions, shown[key][1] if key in shown else 0)
            shown[key] = routine, heat
    order = sorted(found, key=lambda key: (-shown[key][1], shown[key][0].address))
    return [
        RoutineInRuns(marked(shown[key][0]), shown[key][0].address, tuple(found[key]))
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
        f"{routine.address:#x}",
    ]


def hottest(measurement: RunMeasurement, routine: RoutineProfile) -> list[PathCount]:
    """Return the paths of a routine that are shown on its page, in this order.

    Those whose counts are of another run come last.
    """
    ranked = [path for path in listed_paths(measurement, routine) if path.count]
    ranked.sort(key=lambda path: -path.count * path.instructions)
    return sorted(ranked, key=measurement.is_of_another_run)[:MOST_PATHS]


def path_name(path: PathCount) -> str:
    """Return what the page calls a path."""
    named = ["partial" if path.partial else identifier(path.id)]
    if isinstance(path, LoopIterations):
        named = []
    marks = ["(edge profile)"] * path.inferred + ["(part of longer paths)"] * path.shortened
    return " ".join([*named, *path_marks(path), *marks])


def detail(
    run: ReportRun, position: int, sources: SourceFiles
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the page of a routine shows of one run: its graph, and what the scheme does."""
    routine = run.measurement.routines[position]
    planned = None if run.planned is None else run.planned.routines.get(position)
    blocks = {block.name: block for block in routine.block_counts}
    numbers = {name: number for number, name in enumerate(blocks)}
    for edge in routine.edge_counts:
        for end in (edge.source, edge.target):
            numbers.setdefault(end, len(numbers))
    nodes = []
    for name in numbers:
        block = blocks.get(name)
        size = (block.instructions, block.count) if block else (-1, 0)
        nodes.append([*_node(name), *size])
    # What runs of one program have in common, if they ran alike: "nodes": [kind, address,
    # instructions, count]; "edges": [source, target, kind, count]; "backs": back edges; and what
    # `routine_code` returns.
    graph = {
        "nodes": nodes,
        "edges": [
            [numbers[edge.source], numbers[edge.target], edge.kind.value, edge.count]
            for edge in routine.edge_counts
        ],
        "backs": [] if planned is None else _backs(planned.cfg),
        **_routine_code(run.counts, position, run.image, sources),
    }
    # "carry": edges that carry code; "added": [edge, added instructions] of those where it ran;
    # "paths": [name, count, instructions, partial, edges, nodes, places in them that stand for
    # loops, whether it ends where a collapsed loop is left, whether the count is of another run];
    # "snippets" as `snippets` has them.
    scheme = {
        "carry": [at for at, edge in enumerate(routine.edge_counts) if edge.instrumented],
        "added": [[at, edge.added] for at, edge in enumerate(routine.edge_counts) if edge.added],
        "paths": [
            [*_path(path, numbers), int(run.measurement.is_of_another_run(path))]
            for path in hottest(run.measurement, routine)
        ],
        "snippets": None if planned is None else _snippets(planned, numbers),
    }
    return graph, scheme


def _backs(cfg: ControlFlowGraph) -> list[int]:
    """Return the edges that paths end with; a self-loop ends none."""
    found = depth_first(cfg)
    return sorted(found.back_edges - found.self_loops)


def _node(name: VertexName) -> tuple[int, str]:
    if name == ENTRY:
        return _ENTRY, "ENTRY"
    if name == EXIT:
        return _EXIT, "EXIT"
    start = name.start if isinstance(name.start, str) else f"{name.start:#x}"
    return (_SLOT if name.is_slot else _BLOCK), start


def _path(path: PathCount, numbers: dict[VertexName, int]) -> list[Any]:
    nodes = [
        numbers.get(VertexName(start, place in path.slots), -1)
        for place, start in enumerate(path.blocks)
    ]
    facts = path_name(path), path.count, path.instructions, int(path.partial)
    return [*facts, path.edges, nodes, path.collapsed, int(path.end is PathEnd.LOOP_EXIT)]


_BLOCK_NAME = re.compile(r"\bblock\.(\d+)\b")


def _routine_code(
    counts: SourceCounts, position: int, image: CodeImage | None, sources: SourceFiles
) -> dict[str, Any]:
    """Return the instructions and source lines of the routine at a position of a profile.

    "code": for each of the routine's blocks, in order, [address, text, position in "lines" or -1]
    of each instruction; "lines": [file, line, text, executions], the text None where the file is
    not there.
    """
    lines: dict[SourceLine, int] = {}
    code = []
    for block in counts.routines[position].profile.block_counts:
        instructions = []
        for address in range(block.start, block.end, 4):
            line = counts.line_at(address)
            number = -1 if line is None else lines.setdefault(line, len(lines))
            instructions.append([f"{address:#x}", _instruction_text(image, address), number])
        code.append(instructions)
    known = counts.lines
    shown = [
        [visible(at.file), at.line, _source_text(sources, at), known[at].executions] for at in lines
    ]
    return {"code": code, "lines": shown}


def _instruction_text(image: CodeImage | None, address: int) -> str:
    """Return the instruction at an address, "" where the program is not found."""
    if image is None:
        return ""
    index = image.index(address)
    return "(no code)" if index < 0 else disassemble(int(image.words[index]), address)


def _source_text(sources: SourceFiles, line: SourceLine) -> str | None:
    text = sources.text(line.file)
    if text is None or not 0 < line.line <= len(text):
        return None
    return visible(text[line.line - 1].expandtabs())


def _snippets(
    routine: PlannedRoutine, numbers: Mapping[VertexName, int]
) -> dict[str, dict[str, Any]] | None:
    """Return what is added to a routine; None where that is not known.

    By place: "e5" is edge 5, "b5" the top of block 5, "t5" its end before its transfer. "does": the
    actions; "cost": instructions each time; "jump": of them for the jump; "hashes": calls of the
    hashing routine; "where": the place in words; "code": the instructions. An edge whose actions
    are done elsewhere has "does" alone. `numbers`: of the blocks on the page.
    """
    plan, code, cfg = routine.plan, routine.code, routine.cfg
    if plan is None or code is None:
        return None
    blocks = {block.id: numbers[cfg.name_of(block.id)] for block in cfg.blocks}
    return {
        **dict(_group(cfg, "e", plan.actions, code.snippets, {})),
        **dict(_group(cfg, "b", plan.blocks, code.block_snippets, blocks)),
        **dict(_group(cfg, "t", plan.block_ends, code.block_end_snippets, blocks)),
    }


def _group(
    cfg: ControlFlowGraph,
    letter: str,
    actions: Mapping[int, tuple[Any, ...]],
    made: Mapping[int, Snippet],
    numbers: Mapping[int, int],
) -> Iterator[tuple[str, dict[str, Any]]]:
    for place in sorted({*actions, *made}):
        planned = "; ".join(map(str, actions.get(place, ())))
        snippet = made.get(place)
        shown = {"does": planned} if snippet is None else _snippet(cfg, snippet, planned)
        yield f"{letter}{numbers.get(place, place)}", shown


def _snippet(cfg: ControlFlowGraph, snippet: Snippet, planned: str) -> dict[str, Any]:
    def named(match: re.Match[str]) -> str:
        return f"{cfg.blocks[int(match[1])].start:#x}"

    return {
        "does": "; ".join(map(str, snippet.actions)) or planned or NO_ACTIONS,
        "cost": snippet.cost,
        "jump": snippet.jump_cost,
        "hashes": snippet.hash_calls,
        "where": WHERE[snippet.place.where],
        "code": [_BLOCK_NAME.sub(named, text) for text in snippet.text],
    }
