"""The answer of `simprof explain`: a run object (docs/SEMANTICS.md) with block names.

The part that no run is needed for is `describe`'s: lists by edge follow the answer's `edges`; what
only some schemes have, their definitions add. Two numbers, weighted by the lengths of paths in
blocks, say what an edge profile determines of the runs' paths:

- *definite flow* of schemes that count all acyclic paths: what of these the runs' edge profile
  alone determines (`profiles.edge_flow`);
- *attribution* of schemes that are judged by another (`tpp` by `pp`): what of that one's profile
  the scheme reports rightly (`profiles.measures`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from simprof.profiler.code import pricing
from simprof.profiler.code.pricing import plan_sizes, stream_sizes
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.graphfiles.execution import MACHINE
from simprof.profiler.graphfiles.reader import GraphDocument
from simprof.profiler.graphs.cfg import ControlFlowGraph, closure
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.graphs.loops import DepthFirst
from simprof.profiler.graphs.numbering import graph_facts
from simprof.profiler.graphs.optima import optima
from simprof.profiler.graphs.paths import PathRecord
from simprof.profiler.plan.decoders import Plan, Reading, RoutineCounters
from simprof.profiler.plan.path_plan import AcyclicPathPlan, end_names
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.profiles.documents import result_head
from simprof.profiler.profiles.edge_flow import EdgeFlow, definite_flow
from simprof.profiler.profiles.fingerprint import known_sha256
from simprof.profiler.profiles.measures import Attribution
from simprof.profiler.profiles.profile import (
    EdgeCount,
    Ending,
    Guide,
    PathCount,
    ProgramInfo,
    RoutineProfile,
    RunMeasurement,
)
from simprof.profiler.profiles.routine_facts import routine_facts
from simprof.profiler.profiles.tables import COLUMNS, ProfileTable, table
from simprof.profiler.schemes.cost_model import this_simprof
from simprof.profiler.schemes.definition import ProfileKind, SchemeDefinition, own_table
from simprof.profiler.schemes.mode_options import setting_object


class GraphRun(Struct, frozen=True):
    """One scheme on the runs of one graph."""

    # definition, plan, code: the scheme, what it does and how.
    definition: SchemeDefinition
    dfs: DepthFirst  # the graph's depth-first search
    plan: Plan
    code: RoutineCode
    # counters, reading: what the runs left in the counters, and the profile that these give.
    counters: RoutineCounters
    reading: Reading
    crossings: tuple[int, ...]  # by edge id: how often the runs crossed it
    # How much of the paths it tells rightly, where another scheme judges it.
    attribution: Attribution | None = None

    @property
    def cfg(self) -> ControlFlowGraph:
        """The graph."""
        return self.plan.cfg

    @property
    def own_bytes(self) -> int:
        """What an OWN table takes of a pool."""
        table = own_table(self.definition, self.plan.plan)
        return 0 if table is None else table.size(self.plan.plan, self.counters.paths)

    @property
    def executions(self) -> tuple[int, ...]:
        """By block id: how often the runs executed it."""
        return block_counts(self.cfg, self.crossings)

    @property
    def decoder(self) -> Plan | None:
        """The plan where it counts paths."""
        return self.definition.path_decoder(self.plan)


def run_object(document: GraphDocument, run: GraphRun, options: dict[str, Any]) -> dict[str, Any]:
    """Return the run object."""
    # Edge counts are those of the runs; where the scheme's counters tell them they are the same,
    # else `lost` says what it lost. What flushing a trace costs is added to no routine.
    cfg, executed = run.cfg, run.executions
    base = sum(
        count * block.instructions for count, block in zip(executed, cfg.blocks, strict=True)
    )
    added = run.counters.hash_instructions + pricing.added(
        run.code, run.crossings, executed, run.counters.taken
    )
    sizes = _sizes(run)
    all_added = added + run.definition.code().run_cost(MACHINE, sizes)
    measured = _measurement(document, run, options, base, added)
    answer = _head(document, run.definition.mode, options) | {
        "warnings": _warnings(cfg, run.dfs),
        "instructions": {"base": base, "added": all_added},
        "overhead": all_added / base if base else 0.0,
        "counts": _counts(run),
        "routines": list(table(measured, "routines").objects()),
        "edges": list(table(measured, "edges").objects()),
        "sizes": sizes,
    }
    if early := run.counters.early:
        answer["early_ends"] = [
            {"block": str(cfg.name_of(block)), "executions": count}
            for block, count in sorted(early.items())
        ]
    if run.reading.blocks is not None:
        answer["blocks"] = list(_blocks(run, base, run.reading.blocks).objects())
    if run.definition.estimates:
        answer["estimate"] = True
    if run.reading.lost:
        answer["lost"] = dict(run.reading.lost)
    if run.attribution is not None:
        answer["attribution"] = run.attribution.as_json()
    if run.decoder is not None:
        paths = zip(
            table(measured, "paths").objects(), measured.routines[0].path_counts, strict=True
        )
        # Where parallel edges are, drawings need to know which one a path takes.
        answer["paths"] = [row | {"edges": list(path.edges)} for row, path in paths]
    acyclic = run.definition.collected() is ProfileKind.PATHS
    if acyclic and isinstance(run.plan, AcyclicPathPlan) and not run.reading.lost:
        answer["definite_flow"] = definite_object(run.plan, run.crossings, run.reading)
        flow = EdgeFlow(run.cfg, frozenset(run.plan.dag.removed), run.crossings)
        for path in (each for each in answer["paths"] if not each["partial"]):
            record = run.plan.decode(path["path"])
            path["definite"] = flow.definite_count(record.blocks[0], record.edges)
    return answer


def _head(document: GraphDocument, mode: str, options: dict[str, Any]) -> dict[str, Any]:
    profile = options.get("edge_profile")
    program: dict[str, object] = {"file": document.file, "sha256": document.sha256}
    program |= {"machine": None, "arguments": []}
    setting = setting_object(mode, options, known_sha256(profile and Path(profile)))
    return {
        **result_head("run", program, None, setting, measured_by=this_simprof()),
        "exit": {"status": 0, "reason": "exit"},
        "partial": False,
    }


def _counts(run: GraphRun) -> dict[str, int]:
    counters = run.counters
    # Of a trace, events and paths are tokens, which nothing increments.
    traced = run.definition.writes_trace
    streamed = run.plan is not None and run.plan.plan.table is CounterTable.STREAM
    return {
        "path_increments": 0 if streamed else counters.path_increments,
        "hashed_increments": counters.hashed_increments,
        "edge_increments": 0 if traced else sum(counters.events),
        "blocks": sum(run.executions),
        "transfers": sum(run.crossings),
        "unattributed_transfers": 0,
        "unattributed_instructions": 0,
    }


def _measurement(
    document: GraphDocument, run: GraphRun, options: dict[str, Any], base: int, added: int
) -> RunMeasurement:
    """Return the runs as a measurement of a program of one routine, for its tables."""
    cfg, plan = run.cfg, run.plan.plan
    instrumented = plan.instrumented_edges
    costs = pricing.edge_costs(run.code, run.crossings, run.counters.taken)
    ends = ((cfg.name_of(source), cfg.name_of(target)) for _, source, target, _ in cfg.edges)
    edges = (
        EdgeCount(*names, edge.kind, count, edge.id in instrumented, costs.get(edge.id, 0))
        for names, edge, count in zip(ends, cfg.edges, run.crossings, strict=True)
    )
    routine = RoutineProfile(
        **routine_facts(cfg, graph_facts(cfg), plan, run.decoder, run.code.path_register),
        activations=sum(walk.count for walk in document.walks),
        added=added,
        instructions=base,
        edge_counts=tuple(edges),
        path_counts=() if run.decoder is None else tuple(_paths(run, run.decoder)),
        numbered_paths=None if run.decoder is None else run.decoder.num_paths,
        iterations=run.plan.most_iterations,
        limited_loops=run.plan.limits,
    )
    profile = options.get("edge_profile")
    return RunMeasurement(
        ProgramInfo(document.file, document.sha256, MACHINE),
        run.definition.mode,
        options,
        Ending(0, "exit"),
        base,
        added,
        {},
        (routine,),
        guide=Guide(
            profile,
            same_run=profile is None,
            of_paths=run.definition.guided is ProfileKind.PATHS,
        ),
    )


def _blocks(run: GraphRun, base: int, counts: Sequence[int | None]) -> ProfileTable:
    """Return the blocks whose executions the scheme's counters give, those without edges too."""
    cfg, code = run.cfg, run.code
    rows = []
    for block, count in ((b, n) for b in cfg.blocks if (n := counts[b.id]) is not None):
        groups = (code.block_snippets, code.block_end_snippets)
        added = sum(count * group[block.id].cost for group in groups if block.id in group)
        instructions = count * block.instructions
        share = instructions / base if base else None
        names = cfg.name, cfg.name, None, cfg.address, cfg.name_of(block.id)
        rows.append((*names, count, instructions, block.instructions, share, added, None, None))
    return ProfileTable("blocks", COLUMNS["blocks"], tuple(rows))


def _sizes(run: GraphRun) -> dict[str, int]:
    code, plan = run.code, run.plan
    return {
        **plan_sizes(plan.plan, code, run.counters.unnamed, run.own_bytes),
        "snippet_instructions": code.static_instructions,
        **plan.trace_sizes(run.crossings),
        **stream_sizes(plan.plan, run.counters),
    }


def _warnings(cfg: ControlFlowGraph, dfs: DepthFirst) -> list[str]:
    leaving = closure((cfg.exit,), cfg.sources)
    blocks = range(len(cfg.blocks))
    unreached = [block for block in blocks if block not in dfs.reached]
    stuck = [block for block in blocks if block not in leaving]
    found = ("ENTRY does not reach", unreached), ("EXIT cannot be reached from", stuck)
    return [
        f"{text} {', '.join(str(cfg.name_of(block)) for block in each)}"
        for text, each in found
        if each
    ]


def _paths(run: GraphRun, plan: Plan) -> Iterator[PathCount]:
    cfg = run.cfg
    executed = [entry for entry in run.reading.paths.items() if entry[1]]
    executed.sort(key=lambda entry: (-entry[1], entry[0]))
    whole = ((path, plan.decode(path), count) for path, count in executed)
    begun = ((None, record, count) for record, count in run.reading.partial.items())
    for path, record, count in chain[tuple[int | None, PathRecord, int]](whole, begun):
        yield PathCount.of(
            cfg,
            record,
            path,
            count,
            record.inner_edges(cfg),
            inferred=path is not None and plan.is_obvious(path),
        )


def definite_object(
    plan: AcyclicPathPlan, crossings: Sequence[int], reading: Reading
) -> dict[str, Any]:
    """Return `definite_flow` of the answer."""
    records = ((plan.decode(path), count) for path, count in reading.paths.items())
    paths = ((record.blocks[0], record.edges, count) for record, count in records)
    flow = definite_flow(plan.cfg, frozenset(plan.dag.removed), crossings, paths)
    return {**asdict(flow), "share": flow.share}


_TARGET = re.compile(r"\bblock\.(\d+)$")  # How generated code names the block that a jump leads to

# What is collected by placements whose optima BL94 compares
PLACED = (ProfileKind.EDGES, ProfileKind.BLOCKS, ProfileKind.TRACE)


def describe(run: GraphRun) -> dict[str, Any]:
    """Return `static`: what numbering, spanning tree and placement computed, with the code."""
    static = _code(run)
    if run.definition.collected() in PLACED:
        best = optima(run.cfg, run.plan.weights)
        static["optima"] = None if best is None else asdict(best)
    if run.decoder is not None:
        static["cut_edges"] = [end_names(run.cfg, edge) for edge in run.decoder.cut_edges]
        static["valid_paths"] = run.decoder.num_paths
    return static | run.definition.describe(run.plan)


def _sparc(cfg: ControlFlowGraph, text: Iterable[str]) -> list[str]:
    """Return SPARC code whose jumps name blocks as the file does."""
    return [_TARGET.sub(lambda found: str(cfg.name_of(int(found[1]))), line) for line in text]


def _code(run: GraphRun) -> dict[str, Any]:
    cfg, plan, code = run.cfg, run.plan.plan, run.code
    snippets = code.snippets
    edges = range(len(cfg.edges))
    static: dict[str, Any] = {
        "back_edges": [end_names(cfg, edge) for edge in sorted(run.dfs.back_edges)],
        "weights": list(run.plan.weights),
        "code": [[str(action) for action in plan.actions.get(edge, ())] for edge in edges],
        "sparc": [_sparc(cfg, snippets[edge].text) if edge in snippets else [] for edge in edges],
        "costs": [snippets[edge].cost if edge in snippets else 0 for edge in edges],
    }
    taken = [snippets[edge].taken_cost if edge in snippets else 0 for edge in edges]
    if any(taken):
        static["taken_costs"] = taken
    for place, actions, block_snippets in (
        ("block", plan.blocks, code.block_snippets),
        ("block_end", plan.block_ends, code.block_end_snippets),
    ):
        if actions:
            names = {block: str(cfg.name_of(block)) for block in sorted(actions)}
            static[f"{place}_code"] = {
                name: [str(action) for action in actions[block]] for block, name in names.items()
            }
            ordered = sorted(block_snippets.items())
            static[f"{place}_sparc"] = {
                names[block]: _sparc(cfg, each.text) for block, each in ordered
            }
            static[f"{place}_costs"] = {names[block]: each.cost for block, each in ordered}
    return static
