"""Shared by tests: what `tests/schemes/qpt/test_vertex_counts.py` and others use."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from simprof.profiler.graphs.cfg import ControlFlowGraph
from tests.oracles.brute import reachable

Vector = dict[int, Fraction]


def edge_truth(cfg: ControlFlowGraph, walks: Iterable[Sequence[int]]) -> tuple[int, ...]:
    crossed = Counter(step for steps in walks for step in steps)
    return tuple(crossed[each.id] for each in cfg.edges)


def null_space(rows: Iterable[Vector], size: int) -> list[Vector]:
    """Basis of the vectors of `size` entries on which all rows vanish."""
    pivots: dict[int, Vector] = {}
    for row in rows:
        rest = {k: v for k, v in row.items() if v}
        for column, pivot in pivots.items():
            subtract(rest, pivot, rest.get(column, Fraction(0)))
        if rest:
            column = min(rest)
            scale = rest[column]
            rest = {k: v / scale for k, v in rest.items()}
            for other in pivots.values():
                subtract(other, rest, other.get(column, Fraction(0)))
            pivots[column] = rest
    free = [column for column in range(size) if column not in pivots]
    return [{f: Fraction(1), **{c: -row[f] for c, row in pivots.items() if f in row}} for f in free]


def subtract(row: Vector, other: Vector, times: Fraction) -> None:
    for column, value in other.items():
        row[column] = row.get(column, Fraction(0)) - times * value
        if not row[column]:
            del row[column]


def entering(cfg: ControlFlowGraph, block: int) -> Vector:
    live = reachable(cfg)
    return {e.id: Fraction(1) for e in cfg.edges if e.target == block and e.source in live}


def circulations(cfg: ControlFlowGraph, zero: Iterable[Vector] = ()) -> list[Vector]:
    """Basis of the circulations (edge EXIT -> ENTRY last) that vanish on `zero`."""
    live, root = reachable(cfg), len(cfg.edges)
    laws: list[Vector] = [{e.id: Fraction(1)} for e in cfg.edges if e.source not in live]
    for vertex in range(cfg.vertex_count):
        law: Vector = {}
        for each in cfg.edges:
            for end, sign in ((each.source, 1), (each.target, -1)):
                if end == vertex:
                    law[each.id] = law.get(each.id, Fraction(0)) + sign
        if vertex in (cfg.entry, cfg.exit):
            law[root] = Fraction(1 if vertex == cfg.exit else -1)
        laws.append(law)
    return null_space([*laws, *zero], root + 1)


def value(row: Vector, vector: Vector) -> Fraction:
    return sum((row[k] * vector.get(k, Fraction(0)) for k in row), Fraction(0))


def tells_edges(cfg: ControlFlowGraph, counters: Iterable[Vector]) -> bool:
    left = circulations(cfg, counters)
    return not any(vector.get(e.id) for e in cfg.edges for vector in left)


def on_edges(edges: Iterable[int]) -> list[Vector]:
    return [{each: Fraction(1)} for each in edges]


def cheapest(candidates: Sequence[int], costs: Sequence[float], works) -> float:  # type: ignore[no-untyped-def]
    """Least cost of a subset of `candidates` that works, by trying all."""
    best = float("inf")
    for size in range(len(candidates) + 1):
        for chosen in itertools.combinations(candidates, size):
            cost = sum(costs[each] for each in chosen)
            if cost < best and works(chosen):
                best = cost
    return best
