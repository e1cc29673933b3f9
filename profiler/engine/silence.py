"""Blocks that raise no event, and the ways that lead through them.

An event costs more than most blocks do. Once a run has shown which blocks it executes most, some of
them are translated again without the call of the hook: they are *silent*. They are chosen such that
the way from each event to the next stays unique, as Ball and Larus (1994) place witnesses, so that
a transition of the automaton can stand for the whole way: it crosses the edges on it, and counts
the instructions of the silent blocks.

Where there may be two ways after all, the run is `EventsLostError`, and starts again with an event
for every block.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from simprof.profiler.engine import block_kernel, kernels
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.native_walk import BlockState, NativeWalk
from simprof.profiler.engine.states import RunCounts, States
from simprof.profiler.engine.transition_kernel import call_is_harmless
from simprof.profiler.engine.walk import UNKNOWN, Cross, GraphIndex, Step, WalkContext, Walker
from simprof.profiler.graphs.cfg import ENTRIES, EdgeKind
from simprof.profiler.recovery.code_image import CodeImage
from simprof.simulator.errors import SimulatorError
from simprof.simulator.isa.decode import TransferKind
from simprof.simulator.machine.running import BlockPlace

P = ParamSpec("P")
G = TypeVar("G", bound="_Guarding")
MOST_WAYS = 64  # Blocks behind an event that may be reached without another event, at most
_JUMP, _TRAP = 0x38, 0x3A
_MULTIPLICATIONS = (0x09, 0x0A, 0x0B, 0x1A, 0x1B)
# op3 of integer loads and stores of one register, in the ordinary address space.
_ACCESSES = frozenset([0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0A, 0x0B, 0x0E])


class EventsLostError(SimulatorError):
    """What the program did between two events cannot be told: it must be run again."""


class Ways:
    """What may follow what, by the code."""

    # Which blocks may follow a silent one is decided by its code alone: it ends with a direct
    # branch or falls through, and holds no instruction that may trap, but for loads and stores.

    def __init__(self, walker: Walker, code: CodeImage) -> None:
        self.walker = walker
        self._code = code

    def after(self, context: WalkContext) -> tuple[BlockPlace, ...] | None:
        """Return the blocks that may follow a block; None if its code does not tell."""
        # `context`: After the block's last instruction.
        walker = self.walker
        if context.last < 0:
            return None
        if context.pending < 0:
            word = self._word(context.last)
            if word is None or (word >> 30 == 2 and word >> 19 & 63 == _TRAP):
                return None
            return (_at(context.last + 4),)
        branch = context.pending
        kind, target = walker.kind(branch), walker.target(branch)
        annulled = walker.annuls(branch)
        if kind == TransferKind.BRANCH_ALWAYS:
            return (_at(target),) if annulled or context.slot_seen else None
        if kind != TransferKind.BRANCH:
            return None
        if annulled:
            if context.slot_seen:
                return (_at(target),)
            return BlockPlace(branch + 4, target), _at(branch + 8)
        if not context.slot_seen:
            return None
        return tuple(dict.fromkeys((_at(target), _at(branch + 8))))

    def behind(self, place: BlockPlace, size: int) -> tuple[BlockPlace, ...]:
        """Return the blocks that may follow the block at `place`, which can be silent."""
        if place.npc != place.pc + 4:
            return (_at(place.npc),)
        landed = self.walker.land(place.pc)
        _, context = self.walker.run(landed, place.pc + 4, place.pc + size)
        return self.after(context) or ()

    def may_be_silent(self, start: int, end: int) -> bool:
        """Whether no instruction of [start, end) traps, but for loads and stores."""
        words = [self._word(address) for address in range(start, end, 4)]
        return all(word is not None and _keeps_to_itself(word) for word in words)

    def _word(self, address: int) -> int | None:
        place = self._code.index(address)
        if place < 0 or any(address in each for each in self._code.deferred):
            return None
        return int(self._code.words[place])


class Silence:
    """The silent blocks of a run."""

    # A way is looked for when a transition is first taken, over all that the code allows. A silent
    # block whose translation the emulator has thrown away raises events again. Then there are more
    # events than needed, whose transitions are found in the same way.

    def __init__(self, ways: Ways, sizes: Mapping[BlockPlace, int]) -> None:
        self._ways = ways
        self.sizes = dict(sizes)
        # Addresses of the blocks that may follow a silent one.
        self.behind = {
            each.pc for place, size in sizes.items() for each in ways.behind(place, size)
        }

    def way(self, context: WalkContext, address: int) -> tuple[BlockPlace, ...]:
        """Return the silent blocks between a block and the event at `address` that follows."""
        # Raises `EventsLostError` if there is no single way.
        following = self._ways.after(context)
        if following is None:
            if address in self.behind:
                raise EventsLostError(f"control came to {address:#x} by an unknown path")
            return ()
        found = [
            path
            for path, behind in self._paths(context)
            if any(place.pc == address for place in self._ways.after(behind) or ())
        ]
        if len(found) == 1:
            return found[0]
        if found or address in self.behind or any(place in self.sizes for place in following):
            raise EventsLostError(f"there are {len(found)} ways to {address:#x}")
        return ()

    def place(self, context: WalkContext, pc: int, block: range) -> tuple[BlockPlace, ...]:
        """Return the silent blocks up to the instruction at `pc`, that which holds it included."""
        # A fault in a silent block, and an end between events, first go the way to there.
        # Raises `EventsLostError` if there is no single way.
        found = [
            path
            for path, _ in self._paths(context)
            if pc in (block if not path else range(path[-1].pc, path[-1].pc + self.sizes[path[-1]]))
        ]
        if len(found) > 1:
            raise EventsLostError(f"the program may have come to {pc:#x} in {len(found)} ways")
        return found[0] if found else ()

    def _paths(self, context: WalkContext) -> Iterator[tuple[tuple[BlockPlace, ...], WalkContext]]:
        """All ways through silent blocks, the empty one included, each with what is behind it."""
        open_: list[tuple[tuple[BlockPlace, ...], WalkContext]] = [((), context)]
        while open_:
            path, context = open_.pop()
            yield path, context
            for place in self._ways.after(context) or ():
                if place in self.sizes:
                    if len(path) > MOST_WAYS:
                        raise EventsLostError(f"silent blocks around {place.pc:#x} have no end")
                    end = place.pc + self.sizes[place]
                    _, behind = self._ways.walker.run(context, place.pc, end)
                    open_.append(((*path, place), behind))

    def walk(
        self, context: WalkContext, path: Iterable[BlockPlace]
    ) -> tuple[list[Step], WalkContext, int]:
        """Go through silent blocks: the steps, the context behind them, their instructions."""
        # Raises `EventsLostError` if anything but edges is on the way.
        steps: list[Step] = []
        instructions = 0
        for place in path:
            size = self.sizes[place]
            more, context = self._ways.walker.run(context, place.pc, place.pc + size)
            steps += more
            instructions += size >> 2
        if not all(isinstance(step, Cross) for step in steps):
            raise EventsLostError("the graphs lack something between two events")
        return steps, context, instructions


def _at(address: int) -> BlockPlace:
    return BlockPlace(address, address + 4)


def _keeps_to_itself(word: int) -> bool:
    form, op2, op3 = word >> 30, word >> 22 & 7, word >> 19 & 63
    if form == 0:
        return op2 in (1, 2, 3, 4)
    if form == 3:
        return op3 in _ACCESSES
    if form == 2:
        return op3 in _MULTIPLICATIONS or (op3 != _JUMP and call_is_harmless(word) != 0)
    return False


# -- Silent blocks of a run

# Instructions that a run has to execute for each transition before all are looked at.
INSTRUCTIONS_PER_TRANSITION = 4000
_ADDRESS = (1 << 48) - 1


class _Guarding(Protocol):
    @property
    def guard(self) -> Callable[[Callable[[], None]], None]: ...


def reported(
    method: Callable[Concatenate[G, P], None],
) -> Callable[Concatenate[G, P], None]:
    """Have a method that the machine calls keep its error for the end of the run (`guard`)."""

    def call(self: G, /, *arguments: P.args, **options: P.kwargs) -> None:
        self.guard(lambda: method(self, *arguments, **options))

    return call


class RunThinning:
    """Which blocks of one run are silent, and how the program goes through them."""

    # What the machine asks and reports: `simulator.machine.running.Thinning`.

    def __init__(
        self,
        index: GraphIndex,
        walker: Walker,
        states: States,
        native: NativeWalk,
        memory: EngineMemory,
        counts: Callable[[], RunCounts],  # how often each transition was taken
        decide: Callable[[int, int, int], None],  # see `Automaton.decide`
        guard: Callable[[Callable[[], None]], None],  # see `Automaton.guard`
    ) -> None:
        self._index = index
        self._ways = Ways(walker, index.recovered.code)
        self._states = states
        self._native = native
        self._memory = memory
        self._counts = counts
        self._decide = decide
        self.guard = guard
        self.silence: Silence | None = None

    def is_worth_it(self, instructions: int) -> bool:
        """Whether a run that has executed so many instructions is worth the work of a choice."""
        if self._index.generated:  # `Ways` does not say what may follow that
            return False
        return instructions >= INSTRUCTIONS_PER_TRANSITION * self._counts().transition_count

    def choose_silent(self) -> dict[BlockPlace, int]:
        """Return the blocks that are to be silent from now on, with their sizes."""
        chosen: dict[BlockPlace, int] = {}
        keep = {} if self.silence is None else self.silence.sizes

        def choose() -> None:
            with _no_collection():
                choice = SilenceChoice(
                    self._index, self._states, self._ways, self._counts().followings()
                )
                chosen.update(choice.choose(keep))

        self.guard(choose)
        return chosen

    @reported
    def begin_silence(self, sizes: Mapping[BlockPlace, int]) -> None:
        """Take note that these blocks raise no events any more."""
        self.silence = Silence(self._ways, sizes)
        silent = {place.pc for place in sizes}
        self._native.begin_silence(silent, self.silence.behind)
        states = [number for number, _ in self._states.items()]
        with _no_collection():
            self._memory.arrange([kernels.START, *states], lambda key: key & _ADDRESS in silent)

    @reported
    def stopped(self, pc: int) -> None:
        """Go the way to `pc`, whose block has raised its event but has not begun."""
        context = self._context()
        if context is not None and self.silence is not None:
            self._pass(self.silence, self.silence.way(context, pc))

    @reported
    def faulted(self, pc: int) -> None:
        """Go the way to the instruction at `pc`, which has faulted."""
        context, clock = self._context(), self._memory.clock
        if context is not None and self.silence is not None:
            start = int(clock[kernels.BLOCK_ADDRESS])
            block = range(start, start + int(clock[kernels.BLOCK_SIZE]))
            self._pass(self.silence, self.silence.place(context, pc, block))

    @reported
    def trapped(self) -> None:
        """Note that an instruction has trapped of which it is not known where it is."""
        context = self._context()
        following = () if context is None else self._ways.after(context)
        if self.silence is not None and any(each in self.silence.sizes for each in following or ()):
            raise EventsLostError("an instruction has trapped, but it is not known which")

    def _context(self) -> WalkContext | None:
        """Return the context behind the last event's block, None if nothing silent may follow."""
        clock = self._memory.clock
        state = int(clock[kernels.STATE])
        if state == kernels.RESUME and self.silence is not None:
            pc = int(clock[kernels.RESUME_PC])
            if BlockPlace(pc, pc + 4) in self.silence.sizes:
                raise EventsLostError(f"a silent block may have been resumed at {pc:#x}")
        return None if state < kernels.FIRST_STATE else self._states.inside(state)[1]

    def _pass(self, silence: Silence, path: Sequence[BlockPlace]) -> None:
        """Take the events of silent blocks."""
        clock = self._memory.clock
        for place in path:
            size = silence.sizes[place]
            clock[kernels.INSTRUCTIONS] += size >> 2
            clock[kernels.BLOCK_ADDRESS] = place.pc
            clock[kernels.BLOCK_SIZE] = size
            status = block_kernel.call_advance(self._memory.address, place.pc, size)
            if status != kernels.OK:
                self._decide(status, place.pc, size)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from searching all graphs for garbage while much is made and dropped at once."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


# -- The choice

# A block that has raised less than one of so many events is not worth being silent.
LEAST_SHARE = 2000
LEAST_GAIN = 0.25  # Share of the events that must be saved: to be translated again has its price

_ARRIVALS = (*ENTRIES, EdgeKind.CALL_RETURN, EdgeKind.SWITCH)


# A greedy choice, the block that the run has executed most often first. A block becomes silent if
# from no block that raises events two ways then lead to one that does. Blocks that the run has not
# executed yet are checked when it does (`Silence`).
class SilenceChoice:
    """A choice of silent blocks."""

    def __init__(
        self,
        # index, states, ways: The graphs, the automaton's states, what may follow what
        index: GraphIndex,
        states: States,
        ways: Ways,
        # Source and target of each transition, and how often it was taken
        followings: Sequence[tuple[int, int, int]],
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
        # Of each translation block, whatever led to it: bytes, and the blocks that may follow.
        self._sizes: dict[BlockPlace, int] = {}
        self._behind: dict[BlockPlace, tuple[BlockPlace, ...]] = {}
        self._before: defaultdict[BlockPlace, set[int]] = defaultdict(set)
        self._arrivals = self._find_arrivals(followings)
        self._times: Counter[BlockPlace] = Counter()
        self._numbers: defaultdict[BlockPlace, list[int]] = defaultdict(list)
        self._find_blocks()
        self._events = 0
        for _, target, count in followings:
            self._events += count
            place = place_of(states[target], ways)
            if place is not None:
                self._times[place] += count
        self._candidates = [
            place
            for place, count in self._times.most_common()
            if count * LEAST_SHARE > self._events
        ]

    def choose(self, keep: Mapping[BlockPlace, int]) -> dict[BlockPlace, int]:
        """Return the blocks that are to be silent, with their sizes."""
        # There are no new ones where it does not pay. Those in `keep` have been silent so far and
        # stay it: the ways that were found through them stay the only ones then, however many
        # blocks are added.
        for place, size in keep.items():
            self._silent.add(place)
            self._sizes[place], self._behind[place] = size, self._ways.behind(place, size)
        for place in self._candidates:
            numbers = self._numbers[place]
            if place in self._silent or len({self._states[each].size for each in numbers}) != 1:
                continue
            if not all(map(self._may_be_silent, numbers)):
                continue
            self._silent.add(place)
            if not self._is_unique(place):
                self._silent.discard(place)
        saved = sum(self._times[place] for place in self._silent if place not in keep)
        if saved < LEAST_GAIN * self._events:
            return dict(keep)
        return {place: self._sizes[place] for place in self._silent}

    def _find_arrivals(self, followings: Iterable[tuple[int, int, int]]) -> set[int]:
        """Return where control has arrived by other ways than direct branches, or will."""
        found: set[int] = set()
        for source, target, _ in followings:
            if self._following.get(source) is None:
                found.add(self._states[target].address)
        for number, context in self._contexts.items():
            if self._following[number] is None:
                found.update((context.last + 4, context.last + 8))
        return found

    def _arrives(self, address: int) -> bool:
        """Whether control may arrive at `address` by other ways than direct branches."""
        # Nowhere else may a silent block begin, or a block behind one.
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
        for number, state in self._states.items():
            for following in self._following[number] or ():
                self._before[following].add(number)
            place = place_of(state, self._ways)
            if place is None:
                continue
            self._sizes[place] = state.size
            self._behind[place] = self._following[number] or ()
            self._numbers[place].append(number)

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
                work += self._behind[place]
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
