#!/usr/bin/env python3
"""Measure what departures from the papers amount to, for docs/DEVIATIONS.md.

    tools/deviations.py            print all measures
    tools/deviations.py --write    put them into docs/DEVIATIONS.md
    tools/deviations.py --check    say which of them the page has otherwise

The page has each value between `<!-- =NAME -->` and `<!-- = -->`. What is in graphs and plans is
counted in all routines of the programs in fixtures/bin/v9, with the heuristic's weights; what is
executed, in runs, most of them of bench.elf; averages of real programs are those of
docs/results.md.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import networkx as nx

import simprof
from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.references import references
from simprof.profiler.code.stolen import find_spills
from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.dag import Dag
from simprof.profiler.graphs.loops import depth_first, live_edges
from simprof.profiler.graphs.spanning import (
    SpanningTree,
    chord_increments,
    given_weights,
    maximum_spanning_tree,
)
from simprof.profiler.plan.actions import Execution
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.profiler.recovery.recovery import recover
from simprof.profiler.request.errors import CountError
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes.bittrace.planner import plan_bittrace
from simprof.profiler.schemes.cs6120.planner import plan_calls_optimal
from simprof.profiler.schemes.kiter.actions import AddAccumulators
from simprof.profiler.schemes.kiter.planner import plan_kiter
from simprof.profiler.schemes.pp.options import RootEdge
from simprof.profiler.schemes.pp.planner import PathPlan, expected_cost, plan_pp
from simprof.profiler.schemes.qpt.planner import plan_qpt2
from simprof.profiler.schemes.tracing.planner import (
    TracePlan,
    indirect_exits,
    plan_blocks,
    plan_outcomes,
    predicates,
    standard_width,
)
from simprof.simulator.binary import elf

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "DEVIATIONS.md"
PROGRAMS = sorted((ROOT / "fixtures" / "bin" / "v9").glob("*.elf"))
BENCH = ROOT / "fixtures" / "bin" / "v9" / "bench.elf"
RESULTS = ROOT / "docs" / "results.md"
MARK = re.compile(r"(<!-- =([\w-]+) -->).*?(<!-- = -->)", re.DOTALL)
GIVEN_UP = 60_000  # Paths of a routine at which KITER's tool gives up (6)

Measures = Iterator[tuple[str, str]]


def graphs() -> list[ControlFlowGraph]:
    """Return the routines of all programs."""
    return [cfg for program in PROGRAMS for cfg in simprof.recover(program).routines]


def number(value: float) -> str:
    """Return a number as the page has it."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def part(some: float, whole: float) -> str:
    """Return a share: "3 of 1,200"."""
    return f"{number(some)} of {number(whole)}"


def percent(some: float, whole: float) -> str:
    """Return a share in percent."""
    return f"{100 * some / whole:.2f} %"


# -- Graphs and plans


def of_graphs(routines: Sequence[ControlFlowGraph]) -> Measures:
    """Yield what departures concern in graphs."""
    edges = [edge for cfg in routines for edge in cfg.edges]
    blocks = sum(len(cfg.blocks) for cfg in routines)
    yield "routines", number(len(routines))
    yield "programs", number(len(PROGRAMS))
    yield "edges", number(len(edges))
    yield "self-loops", part(sum(edge.source == edge.target for edge in edges), len(edges))
    yield "calls", part(sum(edge.kind is EdgeKind.CALL_RETURN for edge in edges), blocks)
    yield "slots", part(sum(block.is_slot for cfg in routines for block in cfg.blocks), blocks)
    entries = [len(cfg.out_edges[cfg.entry]) for cfg in routines]
    yield "entries", part(sum(each > 1 for each in entries), len(routines))
    weights = [weight for cfg in routines for weight in given_weights(cfg, None)]
    yield "negative", part(sum(weight < 0 for weight in weights), len(weights))
    live = [live_edges(cfg, depth_first(cfg)) for cfg in routines]
    yield "dead", part(len(edges) - sum(map(len, live)), len(edges))
    yield "endless", part(sum(map(is_endless, routines)), len(routines))
    gains = [gain_of_free_root(cfg) for cfg in routines]
    yield "root", part(sum(gain > 0 for gain in gains), len(routines))
    yield "indirect", part(sum(bool(indirect_exits(cfg)) for cfg in routines), len(routines))
    pairs = Counter((id(cfg), edge.source, edge.target) for cfg in routines for edge in cfg.edges)
    yield "parallel", part(sum(each for each in pairs.values() if each > 1), len(edges))
    tokens = [(cfg, plan_outcomes(cfg, packed=True).tokens) for cfg in routines]
    alone = sum(
        len(cfg.out_edges[cfg.edges[edge].source]) == 1 for cfg, each in tokens for edge in each
    )
    yield "lone-bits", part(alone, sum(len(each) for _, each in tokens))
    forks = [len(cfg.out_edges[block]) for cfg in routines
             for block in predicates(cfg, live_edges(cfg, depth_first(cfg)))]  # fmt: skip
    yield "wide-outcomes", part(sum(standard_width(ways) > 8 for ways in forks), len(forks))
    traced = [plan_blocks(cfg) for cfg in routines]
    own = sum(len(each.tokens.keys() & no_block(each)) for each in traced)
    yield "no-block", part(own, sum(len(each.tokens) for each in traced))
    chords = [plan_qpt2(cfg).tree.chords for cfg in routines]
    yield "chords", number(sum(map(len, chords)))
    logs = [plan_calls_optimal(cfg).disrupted for cfg in routines]
    yield "disrupted", number(sum(len(each.blocks) + len(each.edges) for each in logs))
    loops = [edge for cfg, each in zip(routines, chords, strict=True) for edge in each
             if cfg.edges[edge].source == cfg.edges[edge].target]  # fmt: skip
    yield "loop-chords", part(len(loops), sum(map(len, chords)))


def of_registers() -> Measures:
    """Yield how often routines keep registers that are stolen from the program."""
    named = kept = recorded = referring = 0
    for program in PROGRAMS:
        recovered = simprof.recover(program)
        contexts = ProgramContexts(recovered)
        for at, cfg in enumerate(recovered.routines):
            spills, analysis = find_spills(cfg, contexts.of(at), ()), contexts.of(at).analysis
            named += len(spills.spilled) + len(spills.kept)
            kept += len(spills.kept)
            for found in () if analysis is None else references(cfg, analysis.liveness):
                recorded += sum(each.base == place for place, each in enumerate(found))
                referring += len(found)
    yield "stolen-named", number(named)
    yield "stolen-kept", number(kept)
    yield "recorded-references", part(recorded, referring)


def is_endless(cfg: ControlFlowGraph) -> bool:
    """Whether control can reach a block from which no way leads to EXIT."""
    graph = nx.DiGraph([(edge.source, edge.target) for edge in cfg.edges])
    graph.add_nodes_from((cfg.entry, cfg.exit))
    reached = nx.descendants(graph, cfg.entry)
    return bool(reached - nx.ancestors(graph, cfg.exit) - {cfg.exit})


def gain_of_free_root(cfg: ControlFlowGraph) -> float:
    """Return how much lighter chords get if EXIT -> ENTRY, of weight 1, need not be in the tree."""
    weights = given_weights(cfg, None)
    ends = [(edge.source, edge.target) for edge in cfg.edges]
    root = (cfg.exit, cfg.entry)

    def kept(tree: SpanningTree, all_weights: Sequence[float]) -> float:
        return sum(w for w, inside in zip(all_weights, tree.in_tree, strict=True) if inside)

    forced = kept(maximum_spanning_tree(cfg.vertex_count, ends, weights, root), weights) + 1
    more = (*weights, 1.0)
    free = kept(maximum_spanning_tree(cfg.vertex_count, [*ends, root], more, None), more)
    return free - forced if free - forced > 1e-9 else 0.0


def of_paths(plans: Sequence[PathPlan]) -> Measures:
    """Yield what departures concern in plans of pp."""
    dummies = [edge for plan in plans for edge in plan.dag.dummies]
    in_tree = [plan.tree.in_tree[edge.id] for plan in plans for edge in plan.dag.dummies]
    yield "dummies", part(in_tree.count(False), len(dummies))
    ours = sum(map(chord_weight, plans))
    theirs = sum(chord_weight(plan, dummies_first(plan)) for plan in plans)
    yield "dummies-first", percent(theirs - ours, ours)
    increments = [plan.increments.increments[edge] for plan in plans for edge in plan.tree.chords]
    yield "zero", part(increments.count(0), len(increments))
    hashed = [plan for plan in plans if plan.plan.table is CounterTable.HASH]
    arrays = [plan for plan in plans if plan.plan.table is CounterTable.ARRAY]
    yield "hashed", part(len(hashed), len(plans))
    yield "least-hashed", number(min((plan.numbering.total for plan in hashed), default=0))
    yield "most-array", number(max(plan.numbering.total for plan in arrays))
    indexed = [plan for plan in arrays if plan.plan.addressing is Addressing.INDEX]
    yield "indexed", part(len(indexed), len(arrays))
    yield "cut", part(sum(bool(plan.dag.cut_edges) for plan in plans), len(plans))
    own = [edge for plan in plans for edge in plan.edge_counters
           if plan.cfg.edges[edge].source != plan.cfg.edges[edge].target]  # fmt: skip
    removed = sum(len(plan.dag.removed) for plan in plans)
    yield "extra", part(len(own), removed)
    yield "dead-ends", number(sum(not edge.stands_for for edge in dummies))


def of_cheaper() -> Measures:
    """Yield how often `exit-entry=cheaper` would choose otherwise if it knew free registers."""
    others = total = 0
    for program in PROGRAMS:
        recovered = recover(elf.load(program))
        contexts = ProgramContexts(recovered)
        for routine, cfg in enumerate(recovered.routines):
            rivals = [plan_pp(cfg, root=root) for root in (RootEdge.TREE, RootEdge.CHORD)]
            dearness = [expected_cost(plan, contexts.of(routine)) for plan in rivals]
            chosen = min(range(2), key=[expected_cost(plan) for plan in rivals].__getitem__)
            others += dearness[chosen] != min(dearness)
            total += 1
    yield "cheaper-registers", part(others, total)


def chord_weight(plan: PathPlan, tree: SpanningTree | None = None) -> float:
    """Return how often the chords with an increment are crossed, by the heuristic."""
    weights = plan.dag.edge_weights(plan.weights)
    chosen = plan.tree if tree is None else tree
    increments = chord_increments(chosen, plan.numbering.values).increments
    return sum(weights[edge] for edge in chosen.chords if increments[edge])


def dummies_first(plan: PathPlan) -> SpanningTree:
    """Return the tree of EPP's tool, which holds the dummies from ENTRY where it can."""
    dag: Dag = plan.dag
    first = {edge.id for edge in dag.dummies if edge.source == plan.cfg.entry}
    weights = [
        weight + 1e18 * (edge in first)
        for edge, weight in enumerate(dag.edge_weights(plan.weights))
    ]
    ends = [(edge.source, edge.target) for edge in dag.edges]
    return maximum_spanning_tree(dag.vertex_count, ends, weights, (plan.cfg.exit, plan.cfg.entry))


def of_other_paths(routines: Sequence[ControlFlowGraph], plans: Sequence[PathPlan]) -> Measures:
    """Yield what departures concern in plans of bittrace and kiter."""
    traced = [plan_bittrace(cfg) for cfg in routines]
    yield "long-codes", part(sum(plan.plan.registers > 1 for plan in traced), len(traced))
    hashed = sum(plan.plan.table is CounterTable.HASH for plan in traced)
    yield "codes-hashed", part(hashed, len(traced))
    more = sum(len(a.dag.cut_edges) > len(b.dag.cut_edges)
               for a, b in zip(traced, plans, strict=True))  # fmt: skip
    yield "codes-cut", part(more, len(traced))
    for k in (2, 3, 10):
        unrolled = [plan_kiter(cfg, iterations=k) for cfg in routines]
        lowered = sum(loop.iterations < k for plan in unrolled for loop in plan.loops)
        yield f"lowered-{k}", part(lowered, sum(len(plan.loops) for plan in unrolled))
        beyond = sum(plan.numbering.total > GIVEN_UP for plan in unrolled)
        yield f"beyond-{k}", part(beyond, len(unrolled))
        if k == 2:
            heads = sum(len(heads_of(cfg)) for cfg in routines)
            yield "iterated", part(sum(len(plan.loops) for plan in unrolled), heads)


def heads_of(cfg: ControlFlowGraph) -> set[int]:
    """Return the targets of back edges, self-loops left out."""
    edges = (cfg.edges[edge] for edge in depth_first(cfg).back_edges)
    return {edge.target for edge in edges if edge.source != edge.target}


# -- KITER's algorithm 3 as it is printed


def as_printed(action: AddAccumulators, execution: Execution) -> None:
    """Give every accumulator val - cval once f is set, and val before."""
    itr = execution.registers[-1]
    given = action.compensated if itr == len(action.entered) - 1 else action.entered
    for j in range(itr):
        execution.registers[j] += given[j]
    execution.registers[itr] += action.entered[itr]


def of_algorithm_3() -> Measures:
    """Yield of how many runs the paths are miscounted, on the graph of the pages of schemes."""
    graph = json.loads((ROOT / "docs" / "schemes" / "figure.json").read_text())
    runs = list(random_runs(graph, 200))
    for k in (2, 3):
        wrong = 0
        for run in runs:
            true = path_counts(graph | {"runs": [[run, 1]]}, k)
            with mock.patch.object(AddAccumulators, "execute", as_printed):
                try:
                    wrong += path_counts(graph | {"runs": [[run, 1]]}, k) != true
                except CountError:  # Of a number that no path has
                    wrong += 1
        yield f"algorithm-3-{k}", part(wrong, len(runs))


def random_runs(graph: dict[str, Any], count: int) -> Iterator[str]:
    """Yield ways from the entry to the exit of a graph file."""
    draw = random.Random(2009)
    targets: dict[str, list[str]] = {}
    for source, target in graph["edges"]:
        targets.setdefault(source, []).append(target)
    for _ in range(count):
        blocks = [graph["entry"]]
        while blocks[-1] != graph["exit"]:
            blocks.append(draw.choice(targets[blocks[-1]]))
        yield " ".join(blocks)


def path_counts(graph: dict[str, Any], k: int) -> dict[int, int]:
    """Return executions by number of path, under k iterations, every value on its edge."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "graph.json")
        file.write_text(json.dumps(graph))
        scheme = SchemeOptions().having(iterations=k, unoptimised=True)
        answer = analyse_file(file, AnalysisOptions(mode="kiter", scheme=scheme))
    return {path["path"]: path["executions"] for path in answer["paths"]}


# -- Runs

MODES = (
    "pp", "pp:exit-entry=chord", "pp:exit-entry=cheaper", "bittrace", "bittrace:merged",
    "fifo", "fifo:k=1",
    "tpp", "tpp:cold-always", "kiter", "kiter:unoptimised", "kiter:hash-above=6000", "kiter:outer",
    "qpt2", "qpt2:blocks=folded", "qpt", "qpt:placement=vertex-optimal",
    "qpt:placement=edge-heuristic", "qpt:placement=mixed", "naive", "calls", "calls-optimal",
    "witness", "witness:addresses", "bits", "bytes", "block-trace",
)  # fmt: skip


def of_runs() -> Measures:
    """Yield what is executed."""
    compared = simprof.compare(BENCH, modes=MODES).measurements
    for mode, found in compared.items():
        yield f"added-{mode.replace(':', '-').replace('=', '-')}", percent(found.added, found.base)
    three = ["pp", "qpt2", "calls-optimal", "qpt:placement=mixed"]
    for name, other in (
        ("stubs", simprof.compare(BENCH, modes=three, layout="stubs")),
        ("before-target", simprof.compare(BENCH, modes=three, layout="before-target")),
        ("uniform", simprof.compare(BENCH, modes=three, weights="uniform")),
        ("postorder", simprof.compare(BENCH, modes=three, weights="postorder")),
        ("saved", simprof.compare(BENCH, modes=["qpt", "qpt2"], registers="saved")),
        ("stolen", simprof.compare(BENCH, modes=["qpt", "qpt2"], registers="stolen")),
        ("scavenged", simprof.compare(BENCH, modes=["qpt2"], registers="scavenged")),
    ):
        for mode, found in other.measurements.items():
            yield f"{mode.replace(':placement=', '-')}-{name}", percent(found.added, found.base)
    with tempfile.TemporaryDirectory() as scratch:
        saved = Path(scratch, "profile")
        simprof.save(compared["pp"], saved)
        for mode in ("pp", "tpp"):
            found = simprof.run(BENCH, mode=mode, weights=saved)
            yield f"{mode}-measured", percent(found.added, found.base)
    for layout in ("best", "stubs"):
        found = simprof.run(BENCH.with_name("signals.elf"), mode="pp", layout=layout)
        yield f"signals-{layout}", percent(found.added, found.base)
    pp = compared["pp"]
    turns = sum(edge.count for routine in pp.routines for edge in routine.edge_counts
                if edge.source == edge.target)  # fmt: skip
    paths = sum(path.count for routine in pp.routines for path in routine.path_counts)
    yield "turns", percent(turns, turns + paths)
    for mode in ("witness", "bits", "bytes", "block-trace"):
        yield f"{mode}-bits", number(compared[mode].sizes["trace_bits"])
    yield "address-bits", number(compared["witness:addresses"].sizes["address_bits"])
    yield from of_traces(compared["bytes"])
    arrays = [
        (paths.added, edges.added)
        for paths, edges in zip(pp.routines, compared["qpt2"].routines, strict=True)
        if paths.activations and paths.table is CounterTable.ARRAY
    ]
    yield "cheaper-paths", part(sum(one < two for one, two in arrays), len(arrays))
    yield "equal-paths", part(sum(one == two for one, two in arrays), len(arrays))
    yield "witness-minimal-bits", number(compared["witness"].sizes["minimal_trace_bits"])
    everywhere = [simprof.run(program, mode="pp") for program in PROGRAMS]
    routines = [routine for found in everywhere for routine in found.routines]
    with_register = [each.path_register for each in routines if each.path_register is not None]
    yield "no-register", part(with_register.count("stack"), len(with_register))
    yield from of_spilled(everywhere)
    partial = sum(path.count for each in routines for path in each.path_counts if path.partial)
    whole = sum(path.count for each in routines for path in each.path_counts)
    yield "partial", part(partial, whole)


def of_traces(measurement: simprof.Measurement) -> Measures:
    """Yield what BL94 4's ways of tracing would have written of a run of bench.elf."""
    counts = {each.key: [edge.count for edge in each.edge_counts] for each in measurement.routines}
    graphs = [cfg for cfg in simprof.recover(BENCH).routines if (cfg.address, cfg.name) in counts]
    crossings = [counts[cfg.address, cfg.name] for cfg in graphs]
    outcomes = [plan_outcomes(cfg, packed=False) for cfg in graphs]
    blocks = [plan_blocks(cfg) for cfg in graphs]
    targets = sum(plan.targets(each) for plan, each in zip(outcomes, crossings, strict=True))
    written = sum(plan.written(each) for plan, each in zip(outcomes, crossings, strict=True))
    yield "bytes-on-edges", number(written - targets)
    behind = sum(map(executions_behind_predicates, graphs, crossings))
    yield "bytes-in-blocks", number(behind)
    everything = sum(plan.written(each) for plan, each in zip(blocks, crossings, strict=True))
    size = standard_width(sum(len(cfg.blocks) for cfg in simprof.recover(BENCH).routines))
    yield "block-trace-unique-bits", number(size * (everything - targets))
    own = sum(each[edge] for plan, each in zip(blocks, crossings, strict=True)
              for edge in plan.tokens.keys() & no_block(plan))  # fmt: skip
    yield "no-block-executed", part(own, everything - targets)


def executions_behind_predicates(cfg: ControlFlowGraph, crossings: Sequence[int]) -> int:
    """Return how often blocks are entered that some predicate leads to, from wherever."""
    forks = predicates(cfg, live_edges(cfg, depth_first(cfg)))
    behind = {edge.target for edge in cfg.edges if edge.source in forks} - {cfg.exit}
    return sum(crossings[edge] for block in behind for edge in cfg.in_edges[block])


def no_block(plan: TracePlan) -> set[int]:
    """Return the edges of a block trace whose values stand for no block."""
    return {edge for edge, token in plan.tokens.items() if token.value >= len(plan.cfg.blocks)}


def of_spilled(everywhere: Sequence[Any]) -> Measures:
    """Yield what `pp` adds in all programs, and what it does where locals are spilled."""
    spilled = [simprof.run(program, mode="pp", registers="spilled") for program in PROGRAMS]
    places = [each.path_register for found in spilled for each in found.routines
              if each.path_register is not None]  # fmt: skip
    yield "no-register-spilled", part(places.count("stack"), len(places))
    for name, runs in (("", everywhere), ("-spilled", spilled)):
        added, base = (sum(getattr(run, key) for run in runs) for key in ("added", "base"))
        yield f"everywhere-pp{name}", percent(added, base)


# -- The papers' tables, as they were made last

# Name -> a table's anchor, the row, and the column
IN_TABLES = {
    "epp1-qpt2-int": ("epp1", "INT average", "QPT2 %"),
    "epp1-qpt2-fp": ("epp1", "FP average", "QPT2 %"),
    "tpp1-hash-cost": ("tpp1", "average", "hash cost"),
    "bittrace-pp-bits": ("bittrace", "average", "PP bits"),
    "bittrace-bits": ("bittrace", "average", "bits"),
    "bittrace-same": ("bittrace", "average", "same %"),
    "bittrace-over-2": ("bittrace", "average", "over 2 %"),
    "bl94-saved": ("bl94-registers", "average", "saved %"),
    "bl94-scavenged": ("bl94-registers", "average", "scavenged %"),
    "bl94-liveness": ("bl94-registers", "average", "liveness %"),
    "cs6120-all": ("cs6120", "average", "every edge"),
    "cs6120-optimal": ("cs6120", "average", "optimal"),
}


def of_tables() -> Measures:
    """Yield averages of tables of docs/results.md."""
    text = RESULTS.read_text()
    for name, (anchor, row, column) in IN_TABLES.items():
        lines = text.split(f'<a id="{anchor}"></a>')[1].splitlines()
        rows = [[cell.strip(" *") for cell in line.split("|")] for line in lines]
        head = next(cells for cells in rows if len(cells) > 1 and cells[1] == "program")
        values = next(cells for cells in rows if len(cells) > 1 and cells[1] == row)
        yield name, values[head.index(column)]


def measures() -> dict[str, str]:
    """Return all values by name."""
    routines = graphs()
    plans = [plan_pp(cfg) for cfg in routines]
    return dict(
        chain(
            of_graphs(routines),
            of_registers(),
            of_paths(plans),
            of_other_paths(routines, plans),
            of_cheaper(),
            of_algorithm_3(),
            of_tables(),
            of_runs(),
        )
    )


def filled(text: str, found: dict[str, str]) -> str:
    """Return the page with the values that were found; KeyError for a name that no measure has."""
    return MARK.sub(lambda match: f"{match[1]}{found[match[2]]}{match[3]}", text)


def main(arguments: Sequence[str]) -> int:
    """Print, write or check the values."""
    found = measures()
    text = PAGE.read_text() if PAGE.exists() else ""
    wanted = filled(text, found)
    if "--write" in arguments:
        PAGE.write_text(wanted)
    elif "--check" in arguments:
        stale = [name for name, value in shown(text) if found[name] != value]
        print(*stale, sep="\n")
        return 1 if stale else 0
    else:
        for name, value in found.items():
            print(f"{name:28} {value}")
    return 0


def shown(text: str) -> list[tuple[str, str]]:
    """Return the names and values that a page has."""
    return [(match[2], match[0].removeprefix(match[1]).removesuffix(match[3]))
            for match in MARK.finditer(text)]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
