"""Prices from counts: each part of the code by hand, and conditional parts where they execute."""

from __future__ import annotations

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.pricing import Pricer, added
from simprof.profiler.code.snippet_parts import Body
from simprof.profiler.code.snippets import RoutineCode, Snippet
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import CountEdge, TakenPart
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.schemes.kiter.planner import plan_kiter
from simprof.profiler.schemes.registry import generators
from tests.support.figures import KITER_1_EDGES, KITER_1_TRACE, named, walk
from tests.support.snippets import fixed


def snippet(cost: int, *taken_costs: int) -> Snippet:
    """Code of which only the costs matter."""
    return fixed(Body((), cost, 0, taken_costs))


def test_each_part_of_the_code_is_priced_by_its_executions() -> None:
    code = RoutineCode(
        snippets={0: snippet(3), 2: snippet(5, 0, 100, 1000)},
        path_register=None,
        block_snippets={1: snippet(7)},
        block_end_snippets={0: snippet(11)},
    )
    assert added(code, [10, 1000, 20], [2, 4]) == 3 * 10 + 5 * 20 + 7 * 4 + 11 * 2
    conditional = added(code, [10, 1000, 20], [2, 4], {TakenPart(2, 1): 6, TakenPart(2, 2): 5})
    assert conditional == 3 * 10 + 5 * 20 + 7 * 4 + 11 * 2 + 100 * 6 + 1000 * 5


def test_a_counter_costs_what_its_edge_executes() -> None:
    cfg = named("A>B", "A", "B")
    plan = InstrumentationPlan({0: (CountEdge(0),)}, False, CounterTable.NONE, 0, None, 1)
    code = Pricer(generators("pp")).code(cfg, plan, (), RoutineContext.free())
    assert added(code, [9, 9, 9], [9, 9]) == 4 * 9  # sethi, ld, add, st


def kiter_example() -> tuple[ControlFlowGraph, InstrumentationPlan, list[int]]:
    """KITER figure 1 with its trace: 200 turns of the loop, its back edge crossed 199 times."""
    cfg = named(KITER_1_EDGES, "1", "6")
    return cfg, plan_kiter(cfg, iterations=2).plan, walk(cfg, KITER_1_TRACE)


def test_a_conditional_part_costs_something_where_it_is_executed_only() -> None:
    """The first time the back edge is crossed no path of two iterations ends: it counts none."""
    cfg, plan, steps = kiter_example()
    counters = execute(cfg, plan, [ExecutedWalk(tuple(steps))])
    often = execute(cfg, plan, [ExecutedWalk(tuple(steps), 5)])
    assert often.taken == {part: 5 * count for part, count in counters.taken.items()}
    ((part, taken),) = counters.taken.items()
    turns = steps.count(part.edge)
    assert (turns, taken) == (199, 198)
    edges = [steps.count(edge.id) for edge in cfg.edges]
    blocks = [KITER_1_TRACE.count(str(block.label)) for block in cfg.blocks]
    code = Pricer(generators("kiter")).code(cfg, plan, (), RoutineContext.free())
    each = code.snippets[part.edge].taken_costs[part.place]
    assert each > 0
    without = added(code, edges, blocks)
    assert added(code, edges, blocks, counters.taken) - without == 198 * each
