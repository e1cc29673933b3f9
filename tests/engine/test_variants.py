"""Graphs that a routine may turn out to have, and plans that are executed on edges of another."""

from __future__ import annotations

from msgspec.structs import replace

from simprof.profiler.engine.players import Player
from simprof.profiler.engine.segments import variants_of
from simprof.profiler.graphs.cfg import ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes.registry import make_plan
from tests.support.figures import named

BASE = named("A>B A>C B>D C>D D>A D>E", "A", "E", "f")


def with_entries(*blocks: str) -> ControlFlowGraph:
    """The graph with more ENTRY edges, which come first of all edges."""
    ids = {str(block.label): block.id for block in BASE.blocks}
    more = [Edge(n, BASE.entry, ids[block], EdgeKind.ENTRY) for n, block in enumerate(blocks)]
    old = [edge._replace(id=edge.id + len(more)) for edge in BASE.edges]
    return replace(BASE, edges=(*more, *old))


def test_there_is_a_graph_for_every_set_of_edges() -> None:
    cfg = with_entries("C", "D")
    found = dict(variants_of(cfg, BASE, (0, 1)))
    assert set(found) == {frozenset(), frozenset([0]), frozenset([1]), frozenset([0, 1])}
    assert found[frozenset()].cfg is BASE
    assert found[frozenset([0, 1])].cfg == cfg
    assert found[frozenset([1])].cfg == with_entries("D")


def test_edges_are_known_by_both_numbers() -> None:
    (_, base), (_, one), (_, other), _ = variants_of(with_entries("C", "D"), BASE, (0, 1))
    assert base.own((0, 1, 2, 5)) == (0, 3)
    assert one.own((0, 1, 2, 5)) == (0, 1, 4)
    assert other.own((0, 1, 2, 5)) == (0, 1, 4)
    for variant in (base, one, other):
        every = range(len(variant.cfg.edges))
        assert variant.own(sorted(variant.outer(every))) == tuple(every)


def test_a_plan_does_the_same_on_the_edges_of_the_larger_graph() -> None:
    variant = variants_of(with_entries("C", "D"), BASE, (0, 1))[0][1]
    plan = make_plan(BASE, "pp", SchemeOptions()).plan
    alone, among = Player(BASE, plan), Player(BASE, plan, variant)
    assert among.acting_edges == variant.outer(alone.acting_edges)
    assert among.ending_edges() == variant.outer(alone.ending_edges())
    entry = BASE.out_edges[BASE.entry][0]
    for edges in ((entry, 0, 2, 4), (1, 3, 5, *BASE.in_edges[BASE.exit])):
        outer = [variant.edges[edge] for edge in edges]
        wanted = alone.execute(alone.start, edges, ends=True)
        assert among.execute(among.start, outer, ends=True) == wanted
