"""Which blocks are to be silent: chosen by how often a run has executed them so far.

The choice is greedy, the most frequent block first. A block becomes silent if from no block that
raises events two ways then lead to one that does. Whether that holds for blocks which the run has
not executed yet is looked at when it does (`silence`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from simprof.profiler.engine.run_counts import Transition
from simprof.profiler.engine.silence import MOST_WAYS, Ways
from simprof.profiler.engine.states import BlockState, States
from simprof.profiler.engine.walk import UNKNOWN, Cross, GraphIndex, WalkContext
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.simulator.machine.running import BlockPlace

LEAST_SHARE = 2000
"""A block that has raised less than one of so many events is not worth being silent."""
LEAST_GAIN = 0.25
"""Share of the events that must be saved: to be translated again has its price."""

_ARRIVALS = (EdgeKind.ENTRY, EdgeKind.CALL_RETURN, EdgeKind.SWITCH)


@dataclass(frozen=True)
class _Block:
    """A translation block, whatever led to it.

    Attributes
    ----------
    size
        In bytes.
    following
        The blocks that may follow, None where its code does not tell.
    """

    size: int
    following: tuple[BlockPlace, ...] | None


class Thinning:
    """A choice of silent blocks.

    Parameters
    ----------
    index, states, ways
        The graphs, the automaton's states, what may follow what.
    transitions
        How often each transition was taken.
    """

    def __init__(
        self,
        index: GraphIndex,
        states: States,
        ways: Ways,
        transitions: Sequence[tuple[Transition, int]],
    ) -> None:
        self._index = index
        self._states = states
        self._ways = ways
        self._silent: set[BlockPlace] = set()
        self._contexts: dict[int, WalkContext] = {
            number: states.inside(number)[1] for number, _ in states.items()
        }
        self._following = {
            number: ways.after(context) for number, context in self._contexts.items()
        }
        self._blocks: dict[BlockPlace, _Block] = {}
        self._before: defaultdict[BlockPlace, set[int]] = defaultdict(set)
        self._arrivals = self._find_arrivals(transitions)
        self._times: Counter[BlockPlace] = Counter()
        self._numbers: defaultdict[BlockPlace, list[int]] = defaultdict(list)
        self._find_blocks()
        self._events = 0
        for transition, count in transitions:
            self._events += count
            place = place_of(states[transition.target], ways)
            if place is not None:
                self._times[place] += count
        self._candidates = [
            place
            for place, count in self._times.most_common()
            if count * LEAST_SHARE > self._events
        ]

    def choose(self, keep: Mapping[BlockPlace, int]) -> dict[BlockPlace, int]:
        """Return the blocks that are to be silent, with their sizes.

        There are no new ones where it does not pay. Those in `keep` have been silent so far and
        stay it: the ways that were found through them stay the only ones then, however many blocks
        are added.
        """
        for place, size in keep.items():
            self._silent.add(place)
            self._blocks[place] = _Block(size, self._ways.behind(place, size))
        for place in self._candidates:
            if place in self._silent or not self._is_fit(place):
                continue
            self._silent.add(place)
            if not self._is_unique(place):
                self._silent.discard(place)
        saved = sum(self._times[place] for place in self._silent if place not in keep)
        if saved < LEAST_GAIN * self._events:
            return dict(keep)
        return {place: self._blocks[place].size for place in self._silent}

    def _find_arrivals(self, transitions: Iterable[tuple[Transition, int]]) -> set[int]:
        """Return where control has arrived by other ways than direct branches, or will."""
        found: set[int] = set()
        for transition, _ in transitions:
            source, target = transition.source, transition.target
            if self._following.get(source) is None:
                found.add(self._states[target].address)
        for number, context in self._contexts.items():
            if self._following[number] is None:
                found.update((context.last + 4, context.last + 8))
        return found

    def _arrives(self, address: int) -> bool:
        """Whether control may arrive at `address` by other ways than direct branches."""
        if address in self._arrivals:
            return True
        block = self._index.block_at(address)
        if block == UNKNOWN:
            return False
        number = self._index.routine(block)
        cfg = self._index.recovered.routines[number]
        edges = cfg.in_edges[block - int(self._index.first_block[number])]
        return any(cfg.edges[edge].kind in _ARRIVALS for edge in edges)

    def _find_blocks(self) -> None:
        """Note the blocks, their states, and what follows them."""
        for number, state in self._states.items():
            for following in self._following[number] or ():
                self._before[following].add(number)
            place = place_of(state, self._ways)
            if place is None:
                continue
            self._blocks[place] = _Block(state.size, self._following[number])
            self._numbers[place].append(number)

    def _is_fit(self, place: BlockPlace) -> bool:
        """Whether a block may be silent, as far as it itself is concerned."""
        sizes = {self._states[number].size for number in self._numbers[place]}
        return len(sizes) == 1 and all(map(self._may_be_silent, self._numbers[place]))

    def _may_be_silent(self, number: int) -> bool:
        state, following = self._states[number], self._following[number]
        if following is None or state.size == 0 or self._arrives(state.address):
            return False
        if not self._ways.may_be_silent(state.address, state.end):
            return False
        if any(self._arrives(place.pc) for place in following):
            return False
        steps = list(self._states.inside(number)[0])
        for place in following:
            steps += self._states.boundary(number, place.pc)[0]
        return state.first.block >= 0 and all(isinstance(step, Cross) for step in steps)

    def _is_unique(self, place: BlockPlace) -> bool:
        """Whether all ways stay unique that lead through `place`."""
        sources: set[int] = set()
        seen = {place}
        work = [place]
        while work:
            for number in self._before[work.pop()]:
                before = place_of(self._states[number], self._ways)
                sources.add(number)
                if before in self._silent and before not in seen:
                    seen.add(before)
                    work.append(before)
        return all(map(self._leads_uniquely, sources))

    def _leads_uniquely(self, number: int) -> bool:
        """Whether no block can be reached from a state by two ways through silent blocks."""
        reached: set[int] = set()
        work = list(self._following[number] or ())
        while work:
            place = work.pop()
            if place.pc in reached or len(reached) > MOST_WAYS:
                return False
            reached.add(place.pc)
            if place in self._silent:
                work += self._blocks[place].following or ()
        return True


def place_of(state: BlockState, ways: Ways) -> BlockPlace | None:
    """Return where a state's block begins; None if npc there may be one of several."""
    if state.size == 0:
        return None
    if not state.first.slot_seen:
        return BlockPlace(state.address, state.address + 4)
    following = ways.after(state.first)
    if state.size != 4 or following is None or len(following) != 1:
        return None
    return BlockPlace(state.address, following[0].pc)
