"""All schemes along path segments: one automaton state for all their registers.

The state of an activation between two segments is the product of what each scheme's path
registers hold. A segment leads from one such state to the next, whatever the schemes count on the
way is the same each time (`players`), and the kernel counts how often each transition is taken:
counters are sums over the transitions. Only the cost of hashing depends on the order of events: a
transition that counts in hash tables has a list of operations for the kernel, and a segment ends
wherever such a count may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.segments import (
    Passed,
    PathState,
    Player,
    Segmentation,
    SegmentEffect,
    Totals,
    acting_turns,
)
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import PathIncrement
from simprof.profiler.plan.decoders import UnfinishedPath
from simprof.profiler.plan.plan import InstrumentationPlan


class RoutineProduct:
    """All schemes that count paths on one routine."""

    def __init__(self, segmentation: Segmentation, players: Mapping[int, Player]) -> None:
        self.segmentation = segmentation
        self.players = players  # The schemes, by number
        # Number of a player -> its hash table in this run, -1 if it has none
        self.tables: Mapping[int, int] = {}
        self._edges: dict[int, tuple[int, ...]] = {}

    def ends_anyway(self, edge: int) -> bool:
        """Whether `edge` ends segments whatever the schemes are: it is a back edge, or leaves."""
        # Self-loops are among the back edges, but end segments for some schemes only.
        dag = self.segmentation.dag
        back = dag.dfs.back_edges - dag.dfs.self_loops
        return edge in back or dag.cfg.edges[edge].target == dag.cfg.exit

    @cached_property
    def guarded(self) -> tuple[int, ...]:
        """Numbers of the players with guards: each has two flags of the segmentation, in order."""
        return tuple(number for number, player in self.players.items() if player.plan.guards)

    def flag(self, number: int, edge: int) -> int:
        """Return what the guard of a player on `edge` adds to the segment register."""
        return 2 << 2 * self.guarded.index(number) + (not self.begins(edge))

    def passed(self, number: int, key: int) -> Passed:
        """Return what the guards of a player decided in a segment; `key` as for `flags_of`."""
        if number not in self.guarded:
            return False, False
        flags = self.segmentation.flags_of(key) >> 2 * self.guarded.index(number)
        return bool(flags & 1), bool(flags & 2)

    def begins(self, edge: int) -> bool:
        """Whether activations begin along `edge`."""
        cfg = self.segmentation.cfg
        return cfg.edges[edge].source == cfg.entry

    def edges(self, key: int) -> tuple[int, ...]:
        """Edges of segment `key`; ValueError if there is none."""
        known = self._edges.get(key)
        if known is None:
            known = self._edges[key] = self.segmentation.decode(key)
        return known


class SegmentState(Struct, frozen=True):
    """A state of the automaton: a routine, and each of its players' state."""

    # `history` has the keys of the segments since the last back edge or ENTRY, where kept.

    routine: int
    players: tuple[int, ...]  # by their numbers (`Player.states`)
    history: tuple[int, ...] = ()


class CountedSegment(Struct, frozen=True):
    """Segment `key`, behind the segments `history`, was executed `count` times."""

    history: tuple[int, ...]
    key: int
    count: int


class _Transition(NamedTuple):
    """A transition of the segment automaton."""

    routine: int
    source: int  # number of the state
    key: int  # of the segment
    effects: tuple[int, ...]  # of each player, the index among its effects


# Segments that a history holds. A scheme that acts on each turn of a self-loop has as many as there
# are turns: another scheme is then counted in a run of its own.
LONGEST_HISTORY = 100


class Products:
    """The segment automaton of a run, built as the program takes its transitions."""

    # `memory`: Where the kernel finds it.
    # `keep_history`: Tell states apart by how they were reached (see `SegmentState`), so that other
    # schemes can be replayed afterwards.
    # `note`: Transition's number, routine, edges -> code and key of an operation to execute when it
    # is taken; None: there is none.

    def __init__(
        self,
        memory: EngineMemory,
        *,
        keep_history: bool = False,
        note: Callable[[int, int, tuple[int, ...]], tuple[int, int]] | None = None,
    ) -> None:
        self._note = note
        self._memory = memory
        self.keeps_history = keep_history
        self._routines: dict[int, RoutineProduct] = {}
        self._numbers: dict[SegmentState, int] = {}
        self._states: dict[int, SegmentState] = {}
        self._taken: list[_Transition] = []
        self._lists: dict[tuple[tuple[int, int], ...], int] = {(): 0}
        self._forgotten: set[int] = set()  # Routines whose histories are too long to be kept
        self.lost = 0

    def add(self, routine: int, product: RoutineProduct) -> int:
        """Add a routine; return the state in which its activations begin."""
        self._routines[routine] = product
        return self._number(SegmentState(routine, (0,) * len(product.players)))

    def _hashed(
        self, product: RoutineProduct, number: int, effect: SegmentEffect
    ) -> list[tuple[int, int]]:
        """Return the operations that count in a player's hash table when a segment ends."""
        table, key_of = product.tables.get(number, -1), self._memory.hash_key
        return [hash_operation(table, count, key_of(count.counter)) for count in effect.at_end]

    def _number(self, state: SegmentState) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._memory.new_state()
            self._numbers[state], self._states[number] = number, state
        return number

    def resolve(self, number: int, key: int) -> bool:
        """Add the transition from state `number` by segment `key`."""
        # False where there cannot be one: control came into the routine by a way that its graph
        # does not have.
        state = self._states.get(number)
        product = None if state is None else self._routines[state.routine]
        try:
            edges = () if product is None else product.edges(key)
        except ValueError:
            edges = ()
        if state is None or product is None or not edges:
            self.lost += 1
            return False
        effects, after, operations = [], [], []
        passed = (False, False)
        if self._note is not None:
            operations.append(self._note(len(self._taken), state.routine, edges))
        for (own, player), before in zip(product.players.items(), state.players, strict=True):
            if product.guarded:
                passed = product.passed(own, key)
            place = player.effect(before, key, edges, passed)
            effects.append(place)
            after.append(player.follows[place])
            if player.effects[place].at_end:
                operations += self._hashed(product, own, player.effects[place])
        history: tuple[int, ...] = ()
        if self.keeps_history and not product.ends_anyway(edges[-1]):
            history = (*state.history, key)
            if len(history) > LONGEST_HISTORY:
                self._forgotten.add(state.routine)
            if state.routine in self._forgotten:
                history = ()
        target = self._number(SegmentState(state.routine, tuple(after), history))
        successor = (key, 0, target, self._list(tuple(operations)))
        self._memory.insert_segment(number, successor)
        self._taken.append(_Transition(state.routine, number, key, tuple(effects)))
        return True

    def _list(self, operations: tuple[tuple[int, int], ...]) -> int:
        """Return the number of the kernel's list of these operations, all of them hashed counts."""
        # 0 is the number of the empty list. Each operation is its code and its key.
        number = self._lists.get(operations)
        if number is None:
            sized = [(code, key, len(operations)) for code, key in operations]
            number = self._lists[operations] = self._memory.add_operations(sized)
        return number

    def resolve_at(self, operation: int) -> bool:
        """Add the transition that a SEGMENT operation lacks in the current frame (`resolve`)."""
        number, register = self._memory.segment(int(self._memory.clock[kernels.FRAME]))
        more = self._memory.state.operations[operation * kernels.OPERATION + 1]
        return self.resolve(number, register + int(more))

    @property
    def transitions(self) -> int:
        """How many transitions there are; they have numbers from 0."""
        return len(self._taken)

    def transition(self, number: int) -> tuple[int, tuple[int, ...], dict[int, SegmentEffect]]:
        """Return a transition's routine, its edges, and what each scheme does, by slot."""
        routine, _, key, places = self._taken[number]
        product = self._routines[routine]
        effects = {
            slot: player.effects[place]
            for (slot, player), place in zip(product.players.items(), places, strict=True)
        }
        return routine, product.edges(key), effects

    def segments(self) -> dict[int, list[CountedSegment]]:
        """Routine -> the segments that it executed, each with its history."""
        counts: dict[tuple[int, tuple[int, ...], int], int] = Counter()
        for taken, count in zip(self._taken, self._times(), strict=True):
            counts[taken.routine, self._states[taken.source].history, taken.key] += count
        segments: dict[int, list[CountedSegment]] = {}
        for (routine, history, key), count in counts.items():
            segments.setdefault(routine, []).append(CountedSegment(history, key, count))
        return segments

    def has_histories(self, routine: int) -> bool:
        """Whether all segments of a routine have their histories, for another scheme's replay."""
        return routine not in self._forgotten

    def history(self, state: int) -> tuple[int, ...]:
        """Return the history of state number `state` (see `SegmentState`)."""
        return self._states[state].history

    def product(self, routine: int) -> RoutineProduct | None:
        """Return the schemes of a routine with its segments; None if no scheme counts its paths."""
        return self._routines.get(routine)

    def take(self, routine: int) -> RoutineProduct | None:
        """Return what `product` does and let go of it: nobody will ask for it any more."""
        return self._routines.pop(routine, None)

    def totals(self, times: Sequence[int] | None = None) -> dict[tuple[int, int], Totals]:
        """(routine, slot) -> what the transitions taken have counted."""
        # `times`: how often each was taken, by its number; None: as often as in the whole run.
        times = self._times() if times is None else times
        by_routine: dict[int, list[list[int]]] = {}  # of each player, of each of its effects
        for taken, count in zip(self._taken, times, strict=True):
            counts = by_routine.get(taken.routine)
            if counts is None:
                players = self._routines[taken.routine].players.values()
                counts = [[0] * len(player.effects) for player in players]
                by_routine[taken.routine] = counts
            for of_player, place in zip(counts, taken.effects, strict=True):
                of_player[place] += count
        totals = {}
        for routine, counts in by_routine.items():
            by_slot = self._routines[routine].players.items()
            for (slot, player), of_player in zip(by_slot, counts, strict=True):
                total = totals[routine, slot] = Totals()
                for effect, count in zip(player.effects, of_player, strict=True):
                    if count:
                        total.add(effect, count)
        return totals

    def _times(self) -> list[int]:
        ends = [(taken.source, taken.key) for taken in self._taken]
        sources, keys = np.array(ends, np.int64).reshape(-1, 2).T
        times: list[int] = self._memory.segment_counts(sources, keys).tolist()
        return times

    def finish(
        self, routine: int, block: int, register: int, number: int, count: int
    ) -> dict[int, tuple[SegmentEffect, UnfinishedPath]]:
        """Execute the plans along segments that activations have begun and not finished."""
        # Returned for each scheme, by its slot: what its plan did along those edges, and the path
        # that its registers then stood for. Empty where the routine is not profiled, or was entered
        # by a way that its graph does not have (`lost` then counts the activations).
        # The kernel counts a segment when it ends. An activation that ends early has crossed some
        # edges of a segment whose end it never came to. Its segment register, the sum of the
        # increments on those edges, tells which they were.
        # `routine`, `block`: Where the activations were when they ended.
        # `register`: What their segment register held.
        # `number`: The state of the automaton in which their last segment began.
        # `count`: How many activations there are with all of this in common.
        try:
            _, effects = self.begun(routine, block, register, number)
        except ValueError:
            self.lost += count
            return {}
        return {
            slot: (effect, UnfinishedPath(block, *effect.after, count))
            for slot, effect in effects.items()
        }

    def begun(
        self, routine: int, block: int, register: int, number: int
    ) -> tuple[tuple[int, ...], dict[int, SegmentEffect]]:
        """Return the edges of a segment that was begun, and what each scheme did along them."""
        # Raises `ValueError` if there is no such segment.
        # Parameters are those of `finish`, and so are the cases in which there are none.
        state = self._states.get(number)
        product = self._routines.get(routine)
        if product is None or state is None or state.routine != routine:
            return (), {}
        edges = product.segmentation.decode_prefix(register, block)
        players = zip(product.players.items(), state.players, strict=True)
        return edges, {
            slot: player.execute(
                player.states[before], edges, ends=False, passed=product.passed(slot, register)
            )
            for (slot, player), before in players
        }


def hash_operation(table: int, count: PathIncrement, key: int) -> tuple[int, int]:
    """Return code and key of the kernel's operation that counts in hash table `table`."""
    variant = kernels.HASH_BACK_EDGE if count.on_back_edge else 0
    return kernels.HASH | variant | table << kernels.TABLE_SHIFT, key


class SegmentReplay:
    """A plan executed on the segments of one routine."""

    # Segments that have been counted are enough for a further scheme without another run, where its
    # registers hold the same whenever a segment begins at a vertex: plans set them on the edges
    # that end paths, as a rule. Hash tables are not for this: what hashing costs depends on the
    # order of events.
    # `cfg`, `plan`: The routine and a plan for it that counts paths.
    # `product`: Its segments.
    # `segments`: Those that were executed, with their histories.

    def __init__(
        self,
        cfg: ControlFlowGraph,
        plan: InstrumentationPlan,
        product: RoutineProduct,
        segments: Sequence[CountedSegment],
    ) -> None:
        self._cfg = cfg
        self._player = Player(cfg, plan)
        self._product = product
        self._states: dict[int, PathState] = {cfg.entry: self._player.start}
        self.totals = Totals()  # what the segments count
        self._by_start: dict[int, list[CountedSegment]] = {}
        for segment in segments:
            edges = self._edges((*segment.history, segment.key))
            self._by_start.setdefault(self._start(edges), []).append(segment)
        # What tables cost, and guards, depend on the order of events.
        ordered = plan.counts_in_order or bool(plan.guards)
        # Segments must end at every self-loop on which the plan does more than count it.
        ends = set(product.segmentation.dag.removed)
        self.possible = not ordered and acting_turns(cfg, plan) <= ends and self._settle()

    def _edges(self, keys: Sequence[int]) -> tuple[int, ...]:
        return tuple(edge for key in keys for edge in self._product.edges(key))

    def _start(self, edges: Sequence[int]) -> int:
        return self._cfg.edges[edges[0]].source

    def _settle(self) -> bool:
        """Find the state at each vertex where segments begin; False where there are several."""
        work = [self._cfg.entry]
        while work:
            vertex = work.pop()
            for segment in self._by_start.pop(vertex, ()):
                edges = self._product.edges(segment.key)
                ends = self._product.ends_anyway(edges[-1])
                before = self._behind(vertex, self._edges(segment.history))
                effect = self._player.execute(before, edges, ends=ends)
                self.totals.add(effect, segment.count)
                target = self._cfg.edges[edges[-1]].target
                if not ends or target == self._cfg.exit:
                    continue
                if target not in self._states:
                    self._states[target] = effect.after
                    work.append(target)
                elif self._states[target] != effect.after:
                    return False
        return not self._by_start

    def _behind(self, vertex: int, edges: Sequence[int]) -> PathState:
        return self._player.execute(self._states[vertex], edges, ends=False).after

    def unfinished(self, history: Sequence[int], register: int, block: int) -> SegmentEffect | None:
        """Return what an activation did in the segment that it left unfinished in `block`."""
        # None where no segment begins where that one did.
        edges = self._product.segmentation.decode_prefix(register, block)
        before = self._edges(history)
        start = self._start((*before, *edges)) if before or edges else block
        if start not in self._states:
            return None
        return self._player.execute(self._behind(start, before), edges, ends=False)
