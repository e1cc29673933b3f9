"""Edge weights by the name of an estimate: how often each edge may execute in an activation.

BL94's heuristic is in `spanning`, with those that need no more than an edge's ends. Here are two
that BL94 7.1.4 compares it with.

Wall's
    A block that is in d loops weighs the loop multiplier to the power of d, whatever conditionals
    it is in; an edge as much as the lighter of its ends.
Forman's
    The expected number of executions where each predicate leaves by its edges with given
    probabilities. It satisfies the flow law in every graph whose blocks all lead to EXIT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from simprof.profiler.graphs.cfg import ControlFlowGraph, closure, remembers_recent
from simprof.profiler.graphs.loops import DepthFirst, depth_first, live_edges, natural_loops
from simprof.profiler.graphs.spanning import edge_shares, heuristic, postorder, uniform
from simprof.profiler.request.weights import LOOP_MULTIPLIER, Guess, Weights


def wall(cfg: ControlFlowGraph, dfs: DepthFirst, guess: Guess) -> tuple[float, ...]:
    """Return Wall's weights, by edge; 0 of dead edges."""
    depth = [0] * cfg.vertex_count
    for loop in natural_loops(cfg, dfs):
        for vertex in loop.body:
            depth[vertex] += 1
    live = live_edges(cfg, dfs)
    return tuple(
        guess.multiplier ** min(depth[edge.source], depth[edge.target]) if edge.id in live else 0.0
        for edge in cfg.edges
    )


# The matrix equation that Forman solves is n = e + P^T n, with the probabilities P and e the one
# execution of ENTRY. Vertices are eliminated one after the other, deepest first, each way through
# one becoming an edge; on control-flow graphs this adds few edges, and the order of all sums is the
# graph's, so that weights are the same on every machine.
def forman(cfg: ControlFlowGraph, dfs: DepthFirst, guess: Guess) -> tuple[float, ...]:
    """Return Forman's weights, by edge; 0 of dead edges."""
    share = edge_shares(cfg, dfs, guess)
    # From a block that does not lead to EXIT control never leaves, and the equation has no
    # solution. There each step is the last one with a probability that lets a loop iterate as
    # often as BL94's.
    ending = closure([cfg.exit], cfg.sources)
    stay = 1 - 1 / LOOP_MULTIPLIER
    out: dict[int, dict[int, float]] = {vertex: {} for vertex in dfs.reached}
    into: dict[int, dict[int, float]] = {vertex: {} for vertex in dfs.reached}
    for edge in cfg.edges:
        if edge.source in dfs.reached:
            part = share[edge.id] * (1 if edge.source in ending else stay)
            _add(out, into, edge.source, edge.target, part)
    order = [vertex for vertex in dfs.postorder if vertex != cfg.entry]
    arrivals: dict[int, Mapping[int, float]] = {}
    for vertex in order:
        again = out[vertex].pop(vertex, 0.0)
        into[vertex].pop(vertex, None)
        arrivals[vertex] = {v: part / (1 - again) for v, part in into[vertex].items()}
        for source, arriving in arrivals[vertex].items():
            for target, part in out[vertex].items():
                _add(out, into, source, target, arriving * part)
            del out[source][vertex]
        for target in out[vertex]:
            del into[target][vertex]
    executions = {cfg.entry: 1.0}
    for vertex in reversed(order):
        parts = arrivals[vertex].items()
        executions[vertex] = sum(executions[source] * part for source, part in parts)
    return tuple(executions.get(edge.source, 0.0) * share[edge.id] for edge in cfg.edges)


def _add(
    out: dict[int, dict[int, float]],
    into: dict[int, dict[int, float]],
    source: int,
    target: int,
    part: float,
) -> None:
    total = out[source].get(target, 0.0) + part
    out[source][target] = into[target][source] = total


_WAYS: Mapping[str, Callable[[ControlFlowGraph, DepthFirst, Guess], Sequence[float]]] = {
    "heuristic": heuristic,
    "uniform": lambda cfg, dfs, _: uniform(cfg, dfs),
    "postorder": lambda cfg, dfs, _: postorder(cfg, dfs),
    "wall": wall,
    "forman": forman,
}


@remembers_recent
def estimate(cfg: ControlFlowGraph, wanted: Weights) -> tuple[float, ...]:
    """Return the weights that `wanted` names, by edge."""
    return tuple(_WAYS[wanted.name](cfg, depth_first(cfg), wanted.guess))
