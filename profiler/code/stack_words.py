"""Which stack words a snippet gets: for path registers in memory and for registers that it frees.

With at most one path register in memory a snippet has the slots of its site (`frames`). More of
them take, at depth 0 and in routines that use them at both depths, the six argument words that
every caller keeps for its callee; a snippet that then frees registers lowers %sp for its own time,
as does one that frees more than there are slots for. Path registers beyond six live at fixed
addresses instead, as do all where the routine uses those argument words itself: a routine that is
entered again while it is active would need them on the stack, so this is exact only for those
without recursion.
"""

from __future__ import annotations

from collections.abc import Sequence

from simprof.profiler.code.frames import Slot
from simprof.profiler.code.layout import STACK_REGISTERS
from simprof.profiler.code.registers import Abi
from simprof.profiler.code.sites import Site
from simprof.simulator.isa.assembler import Register

R = Register

PATH_SLOT = 3
"""Which of a site's slots holds the first path register in memory."""
FRAME_PATH_SLOTS = (PATH_SLOT, *range(13, 28))
"""Slots of a frame for path registers in memory; the others save registers."""
SAVED_AT_MOST = 12
_STATIC_WORD = 8


def temporary_frame(abi: Abi) -> int:
    """Bytes by which a snippet lowers %sp where it needs more stack words than there are."""
    return abi.minimum_frame + 8 * SAVED_AT_MOST + 15 & -16


def path_words(
    site: Site,
    abi: Abi,
    count: int,
    mixed: bool,
    static: int,
    argument_words: int = STACK_REGISTERS,
) -> tuple[Slot, ...]:
    """Return the words of `count` path registers in memory.

    Parameters
    ----------
    mixed
        Whether both depths use them, so that they must be in the caller's frame.
    static
        Address of the words beside the stack; their slots' base is %g0.
    argument_words
        How many of the words that the caller keeps are free.
    """
    if site.frame.depth and not mixed:
        words = [site.slots[k] for k in FRAME_PATH_SLOTS[:count]]
        on_stack = STACK_REGISTERS
    else:
        base, lowered = (R.FP, 0) if site.frame.depth else (R.SP, site.frame.lowered)
        order = (3, 0, 1, 2, 4, 5) if abi.is64 else (5, 0, 1, 2, 3, 4)
        first, size = (abi.bias + 128, 8) if abi.is64 else (68, 4)
        on_stack = argument_words
        words = [Slot(base, first + size * k + lowered) for k in order[: min(count, on_stack)]]
    beyond = range(len(words) - on_stack, count - on_stack)
    return (*words, *(Slot(R.G0, static + _STATIC_WORD * k) for k in beyond))


def save_slots(
    site: Site, abi: Abi, wide: Sequence[bool], in_memory: int, lowered: int
) -> tuple[Slot, ...] | None:
    """Return where the registers are saved that a snippet frees.

    Parameters
    ----------
    wide
        For each register whether 64 bits are saved.
    in_memory
        Number of path registers in memory.
    lowered
        Bytes by which the snippet has lowered %sp.

    Returns
    -------
    slots
        None if there are too few.
    """
    if lowered:
        if len(wide) > SAVED_AT_MOST:
            return None
        bottom = abi.bias + abi.minimum_frame
        return tuple(Slot(R.SP, bottom + 8 * k) for k in range(len(wide)))
    if site.frame.depth:
        slots = [s for k, s in enumerate(site.slots) if k not in FRAME_PATH_SLOTS]
        return tuple(slots[: len(wide)]) if len(wide) <= len(slots) else None
    slots = [s for k, s in enumerate(site.slots) if k != PATH_SLOT]
    narrow_only = not abi.is64 and any(wide[2:])
    overlaps = not abi.is64 and any(wide[:1]) and len(wide) > 3
    if len(wide) > len(slots) or narrow_only or overlaps or (wide and in_memory > 1):
        return None
    return tuple(slots[: len(wide)])
