"""Where the code of edges goes in routines with several entries, on graphs and assembled code."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random

import pytest

from simprof.profiler.code.arrangement import generate
from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.frames import Where
from simprof.profiler.code.layout import CounterSpace
from simprof.profiler.code.places import NO_WEIGHTS, LayoutRule, find_place
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.plan.actions import CountEdge
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.recovery.recovery import Discoveries, recover
from simprof.profiler.request.request import CodeLayout
from simprof.profiler.schemes.pp import plan_pp
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Label, Register, assign_labels
from tests.support.assembled import BASE, code, program_of
from tests.support.scheme_code import GENERATORS

R = Register
K = EdgeKind
ENTRY, EXIT = 4, 5
EdgeEnds = tuple[int, int, EdgeKind]


def graph(*edges: EdgeEnds) -> ControlFlowGraph:
    """A graph of four blocks, one instruction each; the routine starts with block 0."""
    blocks = tuple(Block(k, k, 1) for k in range(4))
    return ControlFlowGraph("g", 0, 0, blocks, tuple(Edge(k, *e) for k, e in enumerate(edges)))


def where(*edges: EdgeEnds) -> list[Where]:
    """Where the code of each edge goes."""
    cfg, context = graph(*edges), RoutineContext.free()
    return [find_place(cfg, edge.id, context).where for edge in cfg.edges]


def counted(
    cfg: ControlFlowGraph,
    edges: Sequence[int],
    context: RoutineContext,
    rule: LayoutRule = NO_WEIGHTS,
) -> RoutineCode:
    """The code of a counter on each of `edges`."""
    actions = {edge: (CountEdge(k),) for k, edge in enumerate(edges)}
    plan = InstrumentationPlan(actions, False, CounterTable.NONE, 0, None, len(edges))
    return generate(cfg, plan, context, CounterSpace().place(plan), GENERATORS, rule)


REST: tuple[EdgeEnds, ...] = ((1, 3, K.TAKEN), (2, 3, K.FALL_THROUGH), (3, EXIT, K.EXIT))


def test_an_entry_that_nothing_else_leads_to_takes_code_at_its_top() -> None:
    entries = ((ENTRY, 0, K.ENTRY), (ENTRY, 1, K.ENTRY))
    assert where(*entries, (0, 2, K.TAKEN), *REST)[:2] == [Where.TARGET_TOP] * 2


def test_an_interior_entry_that_is_branched_to_takes_code_in_line_before_it() -> None:
    """Branches are sent past that code; control that enters runs through it."""
    entries = ((ENTRY, 0, K.ENTRY), (ENTRY, 1, K.ENTRY))
    assert where(*entries, (0, 1, K.TAKEN), (0, 2, K.FALL_THROUGH), *REST)[1] is Where.FALL_THROUGH


@pytest.mark.parametrize("kind", [K.FALL_THROUGH, K.CALL_RETURN])
def test_an_interior_entry_that_is_run_into_takes_code_out_of_line(kind: EdgeKind) -> None:
    """In line it would be executed by those who come from above, too; out of line it jumps."""
    edges = ((ENTRY, 0, K.ENTRY), (ENTRY, 1, K.ENTRY), (0, 1, kind), (0, 2, K.TAKEN), *REST)
    assert where(*edges)[:2] == [Where.TARGET_TOP, Where.STUB]
    snippets = counted(graph(*edges), [0, 1], RoutineContext.free()).snippets
    assert [(snippets[e].jump_cost, snippets[e].cost) for e in (0, 1)] == [(0, 4), (1, 5)]


def test_the_only_entry_is_in_line_even_where_it_is_branched_back_to() -> None:
    """At the block's top the code would be executed with each turn of the loop."""
    loop = ((ENTRY, 0, K.ENTRY), (0, 1, K.FALL_THROUGH), (1, 0, K.TAKEN))
    rest = ((1, 2, K.FALL_THROUGH), *REST[1:])
    assert where(*loop, *rest)[0] is Where.FALL_THROUGH


def test_every_entry_sets_the_register_and_counts_its_paths() -> None:
    """Each of two entries leads to paths of its own, whose numbers begin where it is crossed."""
    entries = ((ENTRY, 0, K.ENTRY), (ENTRY, 1, K.ENTRY))
    cfg = graph(*entries, (0, 1, K.FALL_THROUGH), (0, 2, K.TAKEN), *REST)
    plan = plan_pp(cfg)
    assert plan.num_paths == 3
    edges = {(e.source, e.target): e.id for e in cfg.edges}
    ways = ((ENTRY, 0, 1, 3, EXIT), (ENTRY, 0, 2, 3, EXIT), (ENTRY, 1, 3, EXIT))
    numbers = []
    for way in ways:
        steps = [edges[pair] for pair in itertools.pairwise(way)]
        texts = [str(action) for step in steps for action in plan.plan.actions.get(step, ())]
        assert sum(text.startswith("count") for text in texts) == 1
        assert sum(text.startswith("r=") for text in texts) <= 1
        value = 0
        for text in texts:
            if text.startswith("r="):
                value = int(text[2:])
            elif text.startswith("r+="):
                value += int(text[3:])
            else:
                inner = text[len("count[") : -len("]++")]
                constant = inner.removeprefix("r")
                value = (value if inner.startswith("r") else 0) + int(constant or "0")
        numbers.append(value)
    assert sorted(numbers) == [0, 1, 2]


SAVING = code(
    asm.arithmetic("save", R.SP, -176, R.SP), asm.branch("a", "out"), asm.nop(),
    "inside", asm.mov(1, R.I0), asm.cmp(R.I0, 0), asm.branch("e", "out"), asm.nop(),
    asm.mov(2, R.I0), "out", asm.ret(), asm.restore(),
)  # fmt: skip


def test_an_entry_behind_the_save_is_in_the_routines_own_window() -> None:
    """Whoever jumps there has saved: stack words of snippets lie in that frame."""
    labels = assign_labels([Label("f"), *SAVING], BASE)
    entered = Discoveries(entries=frozenset({labels["inside"]}))
    recovered = recover(program_of({"f": SAVING}), entered)
    (cfg,) = recovered.routines
    context = ProgramContexts(recovered).of(0)
    analysis = context.analysis
    assert analysis is not None
    starts = {cfg.edges[e].target for e in cfg.out_edges[cfg.entry]}
    by_start = {cfg.blocks[block].start: block for block in starts}
    assert by_start.keys() == {labels["f"], labels["inside"]}
    depths = {start: analysis.frames.before(block, 0).depth for start, block in by_start.items()}
    assert depths == {labels["f"]: 0, labels["inside"]: 1}
    first = by_start[labels["inside"]]
    entry = next(e for e in cfg.out_edges[cfg.entry] if cfg.edges[e].target == first)
    place = find_place(cfg, entry, context)
    assert (place.where, place.block, place.position) == (Where.TARGET_TOP, first, 0)
    assert place.site.frame.depth == 1


# -- Before the target, or in a stub

LOOP = (
    (ENTRY, 0, K.ENTRY), (0, 1, K.FALL_THROUGH), (1, 1, K.TAKEN), (1, 2, K.FALL_THROUGH),
    (0, 2, K.TAKEN), (2, 3, K.TAKEN), (3, EXIT, K.EXIT),
)  # fmt: skip


def laid_out(
    edges: Sequence[EdgeEnds], counters: Sequence[int], layout: CodeLayout, weights: Sequence[float]
) -> dict[int, tuple[str, int]]:
    """Place and jump of the code of each edge that has some, counters on some."""
    cfg = graph(*edges)
    rule = LayoutRule(layout, weights)
    made = counted(cfg, counters, RoutineContext.free(), rule)
    return {e: (str(each.place.where), each.jump_cost) for e, each in made.snippets.items()}


def test_the_code_of_a_hot_back_edge_stands_before_its_loop() -> None:
    """BL94 6.3: what runs on into the loop jumps over it, once for many turns."""
    often = (10, 9, 900, 9, 1, 10, 10)
    assert laid_out(LOOP, [2], CodeLayout.STUBS, often) == {2: ("stub", 1)}
    over = {1: ("fall-through", 1)}
    assert laid_out(LOOP, [2], CodeLayout.BEST, often) == {**over, 2: ("before-target", 0)}
    seldom = (10, 9, 3, 9, 1, 10, 10)
    assert laid_out(LOOP, [2], CodeLayout.BEST, seldom) == {2: ("stub", 1)}
    literal = laid_out(LOOP, [2], CodeLayout.BEFORE_TARGET, seldom)
    assert literal == {**over, 2: ("before-target", 0)}


def test_code_of_what_runs_into_the_loop_takes_the_jump() -> None:
    often = (10, 9, 900, 9, 1, 10, 10)
    made = laid_out(LOOP, [1, 2], CodeLayout.BEST, often)
    assert made == {1: ("fall-through", 1), 2: ("before-target", 0)}


def test_equal_weights_keep_the_stub() -> None:
    assert laid_out(LOOP, [2], CodeLayout.BEST, ()) == {2: ("stub", 1)}


@pytest.mark.seeds(range(200))
def test_no_choice_of_places_jumps_less(seed: int) -> None:
    """All choices of at most one edge before each block, by brute force on random graphs."""
    random = Random(seed)
    edges: list[EdgeEnds] = [(ENTRY, 0, K.ENTRY)]
    for block in range(3):
        if random.random() < 0.8:
            edges.append((block, block + 1, K.FALL_THROUGH))
        edges += [(block, t, K.TAKEN) for t in range(4) if t != block + 1 and random.random() < 0.5]
    edges.append((3, EXIT, K.EXIT))
    weights = [random.randrange(20) for _ in edges]
    cfg = graph(*edges)
    coded = [edge for edge in range(len(edges)) if random.random() < 0.7]
    context = RoutineContext.free()
    stubs = [e for e in coded if find_place(cfg, e, context).where is Where.STUB]
    by_target = [[e for e in stubs if edges[e][1] == target] for target in range(4)]
    least = 0
    for target, leading in enumerate(by_target):
        # a block that another runs on into, or none
        into = sum(
            w for e, w in zip(edges, weights, strict=True) if e[1:] == (target, K.FALL_THROUGH)
        )
        out_of_line = sum(weights[e] for e in leading)
        taken = any(
            edges[e][0] == ENTRY
            and edges[e][1] == target
            and find_place(cfg, e, context).where is Where.FALL_THROUGH
            for e in coded
        )
        choices = [] if taken else [out_of_line - weights[e] + into for e in leading]
        least += min([out_of_line, *choices])
    for layout in CodeLayout:
        made = counted(cfg, coded, context, LayoutRule(layout, weights)).snippets
        jumps = sum(weights[e] * each.jump_cost for e, each in made.items())
        assert jumps == least if layout is CodeLayout.BEST else jumps >= least, layout
