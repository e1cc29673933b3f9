"""`simprof graph`: a scheme applied to a graph file, as one JSON-ready object (DESIGN section 9).

Steps: `graph_files.load` reads the file; `_plan` applies the scheme; `execution.execute` runs the
plan's actions on the file's runs; the profile is then derived from the counters alone, as for a
program. `analyse` puts the answer together, `graph_static` the part that no run is needed for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler import flow, graph_static
from profiler.cfg import ControlFlowGraph
from profiler.dag import make_dag
from profiler.execution import Counters, execute
from profiler.graph_files import GraphDocument, load
from profiler.graph_pricing import Prices, price
from profiler.loops import DepthFirst, depth_first, is_reducible
from profiler.numbering import TOTAL_LIMIT, number
from profiler.plan import InstrumentationPlan, Table
from profiler.request import DEFAULT_PATH_LIMIT, Mode, TableChoice, Weights
from profiler.schemes.base import PathRecord
from profiler.schemes.pp import PathPlan, plan_pp
from profiler.schemes.qpt import EdgePlan, plan_qpt2
from profiler.weights import heuristic, uniform
from simulator.errors import UsageError

ENUMERATION_LIMIT = 1_000_000
LISTED_BLOCKS_LIMIT = 50_000_000
"""Blocks that enumerated paths may have together: an answer that fits memory."""


@dataclass(frozen=True)
class GraphOptions:
    """What the user asks of `simprof graph`.

    Attributes
    ----------
    mode
        PP or QPT2.
    enumerate
        List every potential path (`pp`).
    path_limit
        See `numbering.find_cut_edges`; None never cuts.
    weights
        None for the file's own, completed by the heuristic's.
    table
        How path counters are kept.
    """

    mode: Mode = Mode.PP
    enumerate: bool = False
    path_limit: int | None = DEFAULT_PATH_LIMIT
    weights: Weights | None = None
    table: TableChoice = TableChoice.AUTO


DEFAULT_OPTIONS = GraphOptions()


def analyse_file(path: Path, options: GraphOptions = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Return the answer for the graph file `path`; see `analyse`."""
    return analyse(load(path), options)


def analyse(document: GraphDocument, options: GraphOptions = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Apply a scheme to a graph and its runs.

    Parameters
    ----------
    document, options
        The graph and what to do with it.

    Returns
    -------
    dict
        The run object with block names in place of addresses, `static`, and `all_paths` if
        asked for.

    Raises
    ------
    UsageError
        If the options do not fit the graph.
    """
    if options.mode not in (Mode.PP, Mode.QPT2):
        raise UsageError(f"simprof graph has no mode {options.mode}; use pp or qpt2")
    cfg, dfs = document.cfg, depth_first(document.cfg)
    plan = _plan(document, dfs, options)
    listed = _check_enumeration(document, plan) if options.enumerate else None
    prices = price(cfg, plan.plan)
    counters = execute(plan.plan, document.walks, prices.hash_costs)
    answer = _answer(document, options, dfs, plan, prices, counters)
    if isinstance(plan, PathPlan):
        answer["paths"] = _paths(cfg, plan, counters)
    answer["static"] = graph_static.describe(cfg, dfs, plan, prices)
    if listed is not None:
        answer["all_paths"] = _all_paths(cfg, listed)
    return answer


def _plan(document: GraphDocument, dfs: DepthFirst, options: GraphOptions) -> PathPlan | EdgePlan:
    weights = _weights(document, dfs, options.weights)
    if options.mode is Mode.QPT2:
        return plan_qpt2(document.cfg, weights=weights)
    table = None if options.table is TableChoice.AUTO else Table(options.table.value)
    plan = plan_pp(document.cfg, weights=weights, path_limit=options.path_limit, table=table)
    if plan.num_paths > TOTAL_LIMIT:
        raise UsageError(
            f"{document.file}: the numbers of 2^{plan.num_paths.bit_length() - 1} paths and more "
            "do not fit a 32-bit register; give a path limit"
        )
    return plan


def _weights(document: GraphDocument, dfs: DepthFirst, wanted: Weights | None) -> tuple[float, ...]:
    """Return weights by edge: the file's where it gives them, by default.

    ENTRY and EXIT edges, which a file cannot name, then get what the flow law gives them.
    """
    cfg = document.cfg
    if wanted is Weights.UNIFORM:
        return uniform(cfg, dfs)
    weights = list(heuristic(cfg, dfs))
    given = document.weights
    if wanted is not None or all(weight is None for weight in given):
        return tuple(weights)
    for edge, weight in enumerate(given):
        if weight is not None:
            weights[edge] = weight
    balance = [0.0] * cfg.vertex_count
    for edge_id in range(len(given)):
        balance[cfg.edges[edge_id].source] += weights[edge_id]
        balance[cfg.edges[edge_id].target] -= weights[edge_id]
    entry_edge, exit_edge = cfg.edges[len(given) :]
    if entry_edge.target != exit_edge.source:
        weights[entry_edge.id] = max(balance[entry_edge.target], 0.0)
        weights[exit_edge.id] = max(-balance[exit_edge.source], 0.0)
    return tuple(weights)


def _edge_counts(plan: PathPlan | EdgePlan, counters: Counters) -> tuple[int, ...]:
    if isinstance(plan, PathPlan):
        return plan.edge_counts(counters.paths, counters.edges)
    return plan.edge_counts(counters.edges)


def _answer(
    document: GraphDocument,
    options: GraphOptions,
    dfs: DepthFirst,
    plan: PathPlan | EdgePlan,
    prices: Prices,
    counters: Counters,
) -> dict[str, Any]:
    cfg = document.cfg
    counts = _edge_counts(plan, counters)
    activations = sum(walk.count for walk in document.walks)
    flow.check(cfg, counts, activations=activations)
    executed = flow.block_counts(cfg, counts)
    base = sum(
        count * block.instructions for count, block in zip(executed, cfg.blocks, strict=True)
    )
    added = counters.hash_instructions + sum(
        counts[edge] * cost for edge, cost in prices.costs.items()
    )
    routine = _routine(cfg, dfs, plan, prices)
    routine |= {"activations": activations, "added": added, "instructions": base}
    return _header(document, options) | {
        "warnings": _warnings(cfg, dfs),
        "instructions": {"base": base, "added": added},
        "overhead": added / base if base else 0.0,
        "counts": {
            "path_increments": counters.path_increments,
            "hashed_increments": counters.hashed_increments,
            "edge_increments": counters.edge_increments,
            "blocks": sum(executed),
            "transfers": sum(counts),
            "unattributed_transfers": 0,
            "unattributed_instructions": 0,
        },
        "routines": [routine],
        "edges": _edges(cfg, plan.plan, counts),
    }


def _header(document: GraphDocument, options: GraphOptions) -> dict[str, Any]:
    return {
        "schema": "simprof/run/1",
        "program": {
            "file": document.file,
            "sha256": document.sha256,
            "machine": None,
            "arguments": [],
        },
        "mode": str(options.mode),
        "options": _options(options),
        "exit": {"status": 0, "reason": "exit"},
        "partial": False,
    }


def _edges(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, counts: Sequence[int]
) -> list[dict[str, Any]]:
    return [
        {
            "routine": cfg.name,
            "source": cfg.vertex_name(edge.source),
            "target": cfg.vertex_name(edge.target),
            "kind": str(edge.kind),
            "count": counts[edge.id],
            "instrumented": edge.id in plan.actions,
        }
        for edge in cfg.edges
    ]


def _options(options: GraphOptions) -> dict[str, Any]:
    return {
        "path_limit": options.path_limit,
        "weights": None if options.weights is None else str(options.weights),
        "table": str(options.table),
    }


def _routine(
    cfg: ControlFlowGraph, dfs: DepthFirst, plan: PathPlan | EdgePlan, prices: Prices
) -> dict[str, Any]:
    addressing = plan.plan.addressing
    if isinstance(plan, PathPlan):
        potential, cuts = plan.potential_paths, len(plan.cut_edges)
    else:
        potential, cuts = number(make_dag(cfg, dfs)).total, 0
    return {
        "name": cfg.name,
        "address": 0,
        "blocks": len(cfg.blocks),
        "edges": len(cfg.edges),
        "back_edges": len(dfs.back_edges),
        "irreducible": not is_reducible(cfg, dfs),
        "potential_paths": potential,
        "cut_edges": cuts,
        "table": str(plan.plan.table),
        "addressing": None if addressing is None else str(addressing),
        "path_register": prices.path_register,
    }


def _warnings(cfg: ControlFlowGraph, dfs: DepthFirst) -> list[str]:
    names = [str(cfg.vertex_name(block.id)) for block in cfg.blocks]
    unreached = [names[block.id] for block in cfg.blocks if block.id not in dfs.reached]
    stuck = [names[block.id] for block in cfg.blocks if not cfg.out_edges[block.id]]
    found = []
    if unreached:
        found.append(f"no way leads from the entry to {', '.join(unreached)}")
    if stuck:
        found.append(f"no edge leaves {', '.join(stuck)}")
    return found


def _paths(cfg: ControlFlowGraph, plan: PathPlan, counters: Counters) -> list[dict[str, Any]]:
    """List the executed paths, the most frequent first."""
    order = sorted(counters.paths.items(), key=lambda entry: (-entry[1], entry[0]))
    return [
        _path(cfg, path_id, plan.decode(path_id)) | {"count": count}
        for path_id, count in order
        if count
    ]


def _path(cfg: ControlFlowGraph, path_id: int, record: PathRecord) -> dict[str, Any]:
    return {
        "routine": cfg.name,
        "id": path_id,
        "instructions": record.instructions(cfg),
        "blocks": [cfg.vertex_name(block) for block in record.blocks],
        "partial": False,
        "slots": [],
        "edges": list(record.inner_edges(cfg)),
    }


def _check_enumeration(document: GraphDocument, plan: PathPlan | EdgePlan) -> PathPlan:
    """Refuse to list the paths of plans that have none, or too many to write down."""
    if not isinstance(plan, PathPlan):
        raise UsageError(f"{document.file}: --enumerate lists paths; use it with --mode pp")
    if plan.num_paths > ENUMERATION_LIMIT:
        raise UsageError(
            f"{document.file}: {plan.num_paths} paths are too many to enumerate "
            f"(limit {ENUMERATION_LIMIT}); lower --path-limit"
        )
    blocks = plan.numbering.blocks_of_all_paths()
    if blocks > LISTED_BLOCKS_LIMIT:
        raise UsageError(
            f"{document.file}: {plan.num_paths} paths of {blocks} blocks in all are too much to "
            f"enumerate (limit {LISTED_BLOCKS_LIMIT} blocks); lower --path-limit"
        )
    return plan


def _all_paths(cfg: ControlFlowGraph, plan: PathPlan) -> list[dict[str, Any]]:
    names = [cfg.vertex_name(block.id) for block in cfg.blocks]
    return [
        {
            "id": path_id,
            "blocks": [names[block] for block in record.blocks],
            "edges": list(record.inner_edges(cfg)),
        }
        for path_id, record in enumerate(plan.all_paths())
    ]
