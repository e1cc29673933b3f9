"""The part of `simprof graph`'s answer that no run is needed for (docs/SEMANTICS.md).

Lists by edge follow the answer's `edges`. What only some schemes have, their definitions add.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simprof.profiler.code.codegen import Snippet
from simprof.profiler.graphfiles.answer import GraphRun
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import Action
from simprof.profiler.schemes.static import ends


def describe(run: GraphRun) -> dict[str, Any]:
    """Return `static`: what numbering, spanning tree and placement computed, with the code."""
    static = _code(run)
    if run.decoder is not None:
        static["cut_edges"] = [ends(run.cfg, edge) for edge in run.decoder.cut_edges]
        static["valid_paths"] = run.decoder.num_paths
    return static | run.definition.describe(run.plan)


def _code(run: GraphRun) -> dict[str, Any]:
    """Return what is there in every mode."""
    cfg, plan, code = run.cfg, run.plan.plan, run.prices.code
    snippets = code.snippets
    edges = range(len(cfg.edges))
    static: dict[str, Any] = {
        "back_edges": [ends(cfg, edge) for edge in sorted(run.dfs.back_edges)],
        "weights": list(run.plan.weights),
        "code": [[str(action) for action in plan.actions.get(edge, ())] for edge in edges],
        "sparc": [list(snippets[edge].text) if edge in snippets else [] for edge in edges],
        "costs": [snippets[edge].cost if edge in snippets else 0 for edge in edges],
    }
    taken = {edge: snippet.taken_cost for edge, snippet in snippets.items()}
    if any(taken.values()):
        static["taken_costs"] = [taken.get(edge, 0) for edge in edges]
    for place, actions, block_snippets in (
        ("block", plan.blocks, code.block_snippets),
        ("block_end", plan.block_ends, code.block_end_snippets),
    ):
        if actions:
            static[f"{place}_code"] = _block_actions(cfg, actions)
            static[f"{place}_sparc"] = _block_texts(cfg, block_snippets)
    return static


def _block_actions(
    cfg: ControlFlowGraph, actions: Mapping[int, tuple[Action, ...]]
) -> dict[str, list[str]]:
    """Block name -> what is done whenever the block is executed."""
    return {
        str(cfg.name_of(block)): [str(action) for action in actions[block]]
        for block in sorted(actions)
    }


def _block_texts(cfg: ControlFlowGraph, snippets: Mapping[int, Snippet]) -> dict[str, list[str]]:
    """Block name -> the code for that."""
    return {str(cfg.name_of(block)): list(snippets[block].text) for block in sorted(snippets)}
