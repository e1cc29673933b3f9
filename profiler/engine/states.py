"""The automaton's states: translation blocks, each in the context that control entered it with.

Terms
-----
inside
    The steps between a block's first instruction and its last.
boundary
    The steps from a block's last instruction to the first of the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.walk import BEGINNING, UNKNOWN, Step, WalkContext, Walker

_NOWHERE = -2
"""Address of an instruction that no other follows."""


class BlockState(NamedTuple):
    """A translation block in one context.

    Attributes
    ----------
    address, size
        Of the block, in bytes.
    first
        The context after its first instruction.
    """

    address: int
    size: int
    first: WalkContext

    @property
    def end(self) -> int:
        """Address after its last instruction."""
        return self.address + self.size


class States:
    """The states of one run, under the kernel's numbers, and what happens inside each.

    Parameters
    ----------
    walker
        Says what an instruction does.
    memory
        The kernel's; hands out numbers.
    """

    def __init__(self, walker: Walker, memory: EngineMemory) -> None:
        self._walker = walker
        self._memory = memory
        self._states: dict[int, BlockState] = {kernels.START: BlockState(0, 0, BEGINNING)}
        self._numbers: dict[BlockState, int] = {}
        self._insides: dict[int, tuple[tuple[Step, ...], WalkContext]] = {}

    def __getitem__(self, number: int) -> BlockState:
        """Return state `number`."""
        return self._states[number]

    def number(self, state: BlockState) -> int:
        """Return the number of a state, which is added if it is new."""
        number = self._numbers.get(state)
        if number is None:
            number = self._memory.new_state()
            self._numbers[state], self._states[number] = number, state
        return number

    def known(self) -> tuple[list[BlockState], list[tuple[tuple[Step, ...], WalkContext] | None]]:
        """Return all states in the order of their numbers, and of each what is inside, if asked."""
        numbers = self._states.keys() - {kernels.START}
        ordered = sorted(numbers)
        states = [self._states[number] for number in ordered]
        return states, [self._insides.get(number) for number in ordered]

    def learn(
        self,
        states: Sequence[BlockState],
        insides: Sequence[tuple[tuple[Step, ...], WalkContext] | None],
    ) -> None:
        """Take over what `known` has said in another run; there are no states yet."""
        numbers = self._memory.new_states(len(states))
        self._states |= zip(numbers, states, strict=True)
        self._numbers |= zip(states, numbers, strict=True)
        pairs = zip(numbers, insides, strict=True)
        self._insides |= {number: inside for number, inside in pairs if inside is not None}

    def landing(self, address: int, size: int) -> int:
        """Return the number of a block's state when control arrives from just anywhere."""
        return self.number(BlockState(address, size, self._walker.land(address)))

    def left(self, block: int) -> int:
        """Return the number of the state behind a context that was set while in `block`.

        It has no instructions; wherever control arrives next, it lands.
        """
        return self.number(BlockState(0, 0, WalkContext(-1, False, block, _NOWHERE)))

    def inside(self, number: int) -> tuple[tuple[Step, ...], WalkContext]:
        """Return the steps from the first to the last instruction of state `number`.

        Also the context after the last one.
        """
        known = self._insides.get(number)
        if known is None:
            state = self._states[number]
            known = self._insides[number] = self._walk(state, state.end)
        return known

    def until(
        self, number: int, pc: int, *, executed: bool = False
    ) -> tuple[tuple[Step, ...], WalkContext]:
        """Steps of state `number` up to the instruction at `pc`, which it has reached.

        `executed`: and which has executed.
        """
        if number < kernels.FIRST_STATE or self._states[number].size == 0:
            return (), BEGINNING
        state = self._states[number]
        steps, context = self._walk(state, min(pc + 4, state.end))
        if not executed and pc == context.last:
            return steps, context
        more: list[Step] = []
        context = self._walker.behind_slot(context, more)
        return (*steps, *more), context

    def boundary(self, number: int, address: int) -> tuple[list[Step], WalkContext]:
        """Steps from state `number` to the instruction at `address`, and the context after it."""
        if number == kernels.START:
            return self._walker.begin(address)
        return self._walker.step(self.inside(number)[1], address)

    def entered_block(self, number: int) -> int:
        """Return the block of the graphs in which state `number` begins, or UNKNOWN."""
        return self._states[number].first.block if number >= kernels.FIRST_STATE else UNKNOWN

    def items(self) -> Iterable[tuple[int, BlockState]]:
        """All states of translation blocks, with their numbers."""
        return (item for item in self._states.items() if item[0] >= kernels.FIRST_STATE)

    def covered(self, addresses: Iterable[int]) -> set[int]:
        """Return those of some instructions that are part of a state."""
        left, found = sorted(addresses), set[int]()
        for start, size, _ in self._states.values() if left else ():
            found.update(left[bisect_left(left, start) : bisect_left(left, start + size)])
        return found

    def _walk(self, state: BlockState, end: int) -> tuple[tuple[Step, ...], WalkContext]:
        steps, context = self._walker.run(state.first, state.address + 4, end)
        return tuple(steps), context
