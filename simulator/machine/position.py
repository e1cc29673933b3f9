"""Where the program is: the block that it executes, and the place in it.

The block hook counts a block whole when it begins and notes where it lies. The engine may leave
it in the middle (a fault, a trap, a signal), and does not always say where. Here that place is
found, what has not been executed is taken back, and the next event is made a continuation of the
block.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.cpu.address_space import AddressSpace
from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.cpu.traps import RESUME_STATE, ClockWord
from simprof.simulator.linux.contexts import Interrupted
from simprof.simulator.machine.trapping import is_transfer

_SAVED_WORDS: Final = slice(ClockWord.RESUME_PC, ClockWord.RESUMED_STATE + 1)


class Position:
    """The program's place in its current block.

    Parameters
    ----------
    cpu, space
        The processor and the program's memory.
    clock
        The words that the block hook keeps (`traps.ClockWord`); corrected here.
    """

    def __init__(
        self,
        cpu: Cpu,
        space: AddressSpace,
        clock: NDArray[np.int64],
    ) -> None:
        self._cpu = cpu
        self._space = space
        self._clock = clock

    @property
    def instructions(self) -> int:
        """Instructions executed so far, the current block counted whole."""
        return int(self._clock[ClockWord.INSTRUCTIONS])

    @property
    def block_start(self) -> int:
        """Address of the current block."""
        return int(self._clock[ClockWord.BLOCK_ADDRESS])

    @property
    def block_end(self) -> int:
        """Address after the last instruction of the current block."""
        return self.block_start + int(self._clock[ClockWord.BLOCK_SIZE])

    def instruction(self, pc: int) -> int:
        """Return the instruction word at `pc`."""
        return int.from_bytes(self._space.peek(pc, 4), "big")

    @property
    def is_inside(self) -> bool:
        """Whether the current block was left in its middle."""
        return bool(self._clock[ClockWord.STATE] == RESUME_STATE)

    # -- leaving a block in its middle

    def interrupt(self, pc: int) -> None:
        """Take back the count of what follows `pc` in the current block."""
        clock = self._clock
        start, end = self.block_start, self.block_end
        if not start <= pc < end:
            return
        clock[ClockWord.INSTRUCTIONS] -= (end - pc) >> 2
        clock[ClockWord.RESUME_PC] = pc
        clock[ClockWord.RESUME_END] = end
        if clock[ClockWord.STATE] != RESUME_STATE:
            clock[ClockWord.RESUMED_STATE] = clock[ClockWord.STATE]
            clock[ClockWord.STATE] = RESUME_STATE

    def go_past(self, pc: int) -> None:
        """Go on after the instruction at `pc`, which has been completed without the engine."""
        state = self._cpu.state
        following = int(state.npc)
        if pc + 4 != self.block_end:
            self.interrupt(pc + 4)
        state.pc, state.npc = following, (following + 4) & self._cpu.address_mask

    def saved(self) -> tuple[int, ...]:
        """Return what `restore` needs to go on here after a signal's handler."""
        return tuple(int(value) for value in self._clock[_SAVED_WORDS])

    def restore(self, interrupted: Interrupted, pc: int) -> None:
        """Go on at `pc` with what a signal interrupted."""
        clock = self._clock
        clock[_SAVED_WORDS] = interrupted.clock
        inside = clock[ClockWord.STATE] == RESUME_STATE
        if inside and pc != interrupted.registers.pc:
            if interrupted.registers.pc < pc < clock[ClockWord.RESUME_END]:
                clock[ClockWord.RESUME_PC] = pc
            else:
                clock[ClockWord.STATE] = clock[ClockWord.RESUMED_STATE]

    # -- how the program came here

    def note_redirection(self) -> None:
        """Note that the program goes on elsewhere, though not by a jump of its own."""
        self._clock[ClockWord.REDIRECTED] = self.instructions

    def last_jump(self) -> int | None:
        """Address of the control transfer that ended the last block, if it led here."""
        if self._clock[ClockWord.REDIRECTED] == self.instructions:
            return None
        places = (self.block_end - 8, self.block_end - 4)  # before its delay slot; annulled
        return next((pc for pc in places if is_transfer(self.instruction(pc))), None)
