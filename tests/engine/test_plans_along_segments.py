"""One scheme along segments: what its registers hold in between, and what it has counted."""

from __future__ import annotations

import random
from collections.abc import Mapping

from simprof.profiler.engine.segments import Player, Totals
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountPath,
    Execution,
    PathIncrement,
    RegisterEffect,
    SetRegister,
)
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.schemes.tpp.code import CountHotPath, Poison
from tests.oracles import brute
from tests.support.choice_loop import BACK, ENTER, LEAVE, LOOP, OVER_B, OVER_C, A, D, plan_of
from tests.support.figures import edge, named


def player_of(plan: InstrumentationPlan) -> Player:
    return Player(LOOP, plan)


def test_a_segment_counts_what_the_plan_counts_and_hands_its_registers_on() -> None:
    player = player_of(plan_of())
    first = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
    assert first.counted == (PathIncrement(1, True),)
    assert first.after == ((2,), None)
    second = player.execute(first.after, [*OVER_C, LEAVE], ends=True)
    assert second.counted == (PathIncrement(3, False),)


def test_behind_the_exit_all_registers_are_as_at_the_start() -> None:
    player = player_of(plan_of())
    assert player.execute(((3,), None), [*OVER_B, LEAVE], ends=True).after == player.start


def test_a_register_that_nobody_reads_again_is_forgotten() -> None:
    """Both ways on from A set it: without that, each past path would be a state of its own."""
    actions: Mapping[int, tuple[Action, ...]] = {
        OVER_B[0]: (SetRegister(5),),
        OVER_C[0]: (SetRegister(6),),
        BACK: (CountPath(0, True),),
        LEAVE: (CountPath(0),),
    }
    player = player_of(plan_of(actions))
    over_b = player.execute(player.start, [ENTER, *OVER_B, BACK], ends=True)
    over_c = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
    assert (over_b.counted, over_c.counted) == (
        (PathIncrement(5, True),),
        (PathIncrement(6, True),),
    )
    assert over_b.after == over_c.after == player.start


def test_an_unfinished_segment_keeps_its_registers() -> None:
    player = player_of(plan_of())
    assert player.execute(((7,), None), OVER_C, ends=False).after == ((8,), None)


def test_the_last_count_is_kept_where_it_may_be_taken_back() -> None:
    for region, last in ((frozenset({A}), 1), (frozenset({D}), None)):
        player = player_of(plan_of(counted_region=region))
        effect = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
        assert effect.after == ((2,), last)


def test_hashed_counts_are_made_when_their_segment_ends() -> None:
    player = player_of(plan_of(table=CounterTable.HASH))
    effect = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
    assert effect.at_end == (PathIncrement(1, True),)
    assert effect.hashed_increments == 1
    array = player_of(plan_of())
    effect = array.execute(array.start, [ENTER, *OVER_C, BACK], ends=True)
    assert (effect.at_end, effect.hashed_increments) == ((), 0)


def test_cold_paths_are_counted_without_the_table() -> None:
    """A poisoned register counts in the cold counter, -1, which is no place of the table."""
    actions: Mapping[int, tuple[Action, ...]] = {
        OVER_C[0]: (Poison(),),
        BACK: (CountHotPath(0, True), SetRegister(0)),
        LEAVE: (CountHotPath(0, True),),
    }
    player = player_of(plan_of(actions, CounterTable.HASH))
    effect = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
    assert [count.counter for count in effect.counted] == [-1]
    assert (effect.at_end, effect.hashed_increments) == ((), 0)


def test_fixed_counts_are_those_that_need_no_register() -> None:
    actions: Mapping[int, tuple[Action, ...]] = {
        OVER_B[1]: (CountConstantPath(9),),
        LEAVE: (CountPath(0),),
    }
    hashed, array = player_of(plan_of(actions, CounterTable.HASH)), player_of(plan_of(actions))
    assert [*hashed.fixed_counts()] == [(OVER_B[1], PathIncrement(9, False))]
    assert [*array.fixed_counts()] == []


def test_segments_end_at_hashed_counts_not_where_the_register_changes() -> None:
    hashed, array = player_of(plan_of(table=CounterTable.HASH)), player_of(plan_of())
    assert hashed.ending_edges() == {BACK, LEAVE}
    assert array.ending_edges() == set()


def test_a_register_that_an_addition_comes_to_is_kept() -> None:
    actions: Mapping[int, tuple[Action, ...]] = {OVER_B[0]: (AddRegister(1), CountPath(0))}
    actions = {**actions, OVER_C[0]: (SetRegister(0),)}
    player = player_of(plan_of(actions))
    assert player.execute(((4,), None), [*OVER_C, BACK], ends=True).after == player.start
    player = player_of(plan_of({**actions, BACK: (SetRegister(3),)}))
    assert player.execute(player.start, [*OVER_C, BACK], ends=True).after == ((3,), None)


def test_the_same_segment_from_the_same_state_is_executed_once() -> None:
    player = player_of(plan_of())
    edges = [ENTER, *OVER_B, BACK]
    assert player.effect(0, 3, edges) == player.effect(0, 3, edges) == 0
    assert player.states[0] is player.start
    (behind,) = player.follows
    assert player.states[behind] == player.effects[0].after == ((2,), None)
    assert player.effect(behind, 3, edges) == 1
    assert len(player.effects) == 2


def test_totals_multiply_what_an_effect_counts() -> None:
    player = player_of(plan_of(table=CounterTable.HASH))
    totals = Totals()
    totals.add(player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True), 5)
    totals.add(player.execute(((2,), None), [*OVER_C, LEAVE], ends=True), 2)
    assert totals.paths == {1: 5, 3: 2}
    assert totals.hashed_increments == 7


def test_a_register_stays_where_activations_can_only_end_early() -> None:
    """B is never left; no count reads the register there, but who decodes unfinished paths does."""
    stuck = named("A>B A>C B>B", "A", "C")
    enter, into, out = (edge(stuck, name) for name in ("ENTRY>A", "A>B", "C>EXIT"))
    actions: Mapping[int, tuple[Action, ...]] = {
        enter: (SetRegister(0),),
        into: (AddRegister(1),),
        out: (CountPath(0),),
    }
    player = Player(stuck, plan_of(actions))
    assert player.execute(player.start, [enter, into], ends=True).after == ((1,), None)


def test_registers_live_where_they_are_read_or_activations_end_early() -> None:
    """Against the definition, edge by edge until nothing is added, on random graphs and plans."""
    rng, seen = random.Random(5), set()
    choices = ((SetRegister(1),), (AddRegister(1),), (CountConstantPath(3),), (CountPath(1),))
    for _ in range(300):
        blocks = rng.randrange(2, 8)
        ends = {(rng.randrange(blocks), rng.randrange(blocks)) for _ in range(2 * blocks)}
        cfg = brute.graph(blocks, sorted(ends))
        actions = {e.id: rng.choice(choices) for e in cfg.edges if rng.random() < 0.4}
        read = {e: acts[0].effect for e, acts in actions.items()}
        leave, live = {cfg.exit}, set[int]()
        for _ in cfg.edges:
            leave |= {e.source for e in cfg.edges if e.target in leave}
        live |= set(range(cfg.vertex_count)) - leave
        for _ in cfg.edges:
            for e in cfg.edges:
                effect = read.get(e.id, RegisterEffect.IGNORES)
                if effect in (RegisterEffect.USES, RegisterEffect.CHANGES) or (
                    effect is RegisterEffect.IGNORES and e.target in live
                ):
                    live.add(e.source)
        player = Player(cfg, plan_of(actions))
        for each in cfg.edges:
            state = ((7,), None)
            after = player.execute(state, [each.id], ends=True).after[0]
            held = Execution([7])
            held.run(each.id, actions.get(each.id, ()))
            is_live = each.target in live and each.target != cfg.exit
            assert after == (tuple(held.registers) if is_live else (0,))
            seen.add((is_live, each.target in leave))
    assert len(seen) == 3  # where activations end early, all is live
