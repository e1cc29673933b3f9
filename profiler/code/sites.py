"""Where code can be put: a point in a routine's code, and the place that an edge's code goes to.

`context.RoutineContext` says what is known at a point; `places.find_place` chooses the place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from simprof.profiler.code.frames import FrameState, Slot
from simprof.simulator.isa.effects import CC


@dataclass(frozen=True)
class Site:
    """A point where code can be put.

    Attributes
    ----------
    live
        Registers that the code must leave as they are (mask as in `simprof.simulator.isa.effects`).
    frame
        Window depth and stack pointer.
    slots
        Stack words that the code can use (see `stack_words`).
    """

    live: int
    frame: FrameState
    slots: tuple[Slot, ...]

    @property
    def keeps_conditions(self) -> bool:
        """Whether condition codes are live."""
        return bool(self.live & CC)


class Where(StrEnum):
    """Kinds of places."""

    SOURCE_END = "source-end"
    TARGET_TOP = "target-top"
    FALL_THROUGH = "fall-through"  # in line between source and target
    STUB = "stub"  # out of line; ends with a jump
    BLOCK = "block"  # code of a block itself, anywhere in it


@dataclass(frozen=True)
class Place:
    """Where the code of an edge goes.

    Attributes
    ----------
    edge
        The edge that the code is on. For the edge into a slot block that is the edge out of it.
    block, position
        The code goes before this instruction of this block; None off the blocks.
    """

    where: Where
    edge: int
    block: int | None
    position: int | None
    site: Site
