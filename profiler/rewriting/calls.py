"""Which calls must leave their old return address, and what a program does with return addresses.

A call in a copy leaves an address in the copy. Nobody minds who only returns there. Three kinds of
callees do mind:

- a *thunk* computes addresses from it (`add %o7, %l7, %l7`: position-independent code begins so);
- unwinding (C++ exceptions, backtraces) looks it up in the frame tables of the old code, and those
  of all callers further up the stack;
- code whose call returns at a distance (`add %o7, 12, %o7` in the delay slot), or whose callee does
  (`jmp %o7 + 12`), except over the one word that marks 32-bit calls of functions with structures.

Such a call stays at its old place: the copy goes there, and the old return point leads back.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.recovery.calls import call_sites
from simprof.profiler.recovery.recovery import UNKNOWN_BLOCK, RecoveredProgram
from simprof.profiler.rewriting.charges import Cause
from simprof.simulator.isa.decode import TransferKind

UNWINDERS = frozenset(
    {
        "_Unwind_RaiseException",
        "_Unwind_Resume_or_Rethrow",
        "_Unwind_Backtrace",
        "_Unwind_ForcedUnwind",  # ends threads: pthread_exit, pthread_cancel
    }
)
"""Routines of the run-time library that read the return addresses of all callers. Not among them:
`_Unwind_Resume`, which only goes on with what one of these began."""
_O7 = 15
_SKIPPING_RETURNS = (0x81C3E00C, 0x81C7E00C, 0x81CFE00C)
"""`jmp %o7 + 12`, `jmp %i7 + 12`, `return %i7 + 12`."""
_ADDITIVE = frozenset({0x00, 0x04, 0x08, 0x0C, 0x10, 0x14})  # add, sub and their variants


class CallPlaces:
    """Where the calls of a program must stay."""

    def __init__(self, recovered: RecoveredProgram, contexts: ProgramContexts) -> None:
        self._recovered, self._contexts = recovered, contexts
        self._code = recovered.code

    def reason(self, target: int) -> Cause | None:
        """Return why a call must be made from its old place, None where it need not.

        `target` is the address of its callee, -1 where only the run tells it.
        """
        callee = self._routine(target)
        if callee in self._thunks:
            return Cause.PROGRAM_COUNTERS
        unwinds = bool(self._roots) if callee is None else callee in self._unwinding
        return Cause.CALLS if unwinds else None

    def skips(self, target: int) -> bool:
        """Whether the callee at an address returns one word later than others do."""
        return self._routine(target) in self._skipping

    def _routine(self, address: int) -> int | None:
        block = self._recovered.block_starting_at(address) if address >= 0 else UNKNOWN_BLOCK
        return None if block == UNKNOWN_BLOCK else self._recovered.routine_of_block(block)

    @cached_property
    def _thunks(self) -> frozenset[int]:
        routines = enumerate(self._recovered.routines)
        return frozenset(n for n, cfg in routines if self._reads_return_address(n, cfg))

    def _reads_return_address(self, number: int, cfg: ControlFlowGraph) -> bool:
        """Whether a routine adds its return address to another register.

        Behind a `save` %o7 is a register like others, or the return address of a call.
        """
        if any(block.start <= a < block.end for a in self._aliases for block in cfg.blocks):
            return False
        words = self._code.lists.words
        for block in cfg.blocks:
            first = (block.start - self._code.base) >> 2
            for position, word in enumerate(words[first : first + block.instructions]):
                if _adds_return_address(word) and not self._is_inside(number, block.id, position):
                    return True
        return False

    @cached_property
    def _skipping(self) -> frozenset[int | None]:
        places = np.flatnonzero(np.isin(self._code.words, _SKIPPING_RETURNS)).tolist()
        routines = self._recovered.routine_at
        return frozenset(routines(self._code.base + 4 * place) for place in places)

    @cached_property
    def _aliases(self) -> tuple[int, ...]:
        return tuple(self._recovered.call_aliases)

    def _is_inside(self, number: int, block: int, position: int) -> bool:
        """Whether the routine's own window is open before an instruction, for certain."""
        analysis = self._contexts.of(number).analysis
        return analysis is not None and analysis.frames.before(block, position).depth == 1

    @cached_property
    def _callers(self) -> dict[int, set[int]]:
        callers: dict[int, set[int]] = defaultdict(set)
        for call in call_sites(self._recovered):
            callers[call.callee].add(call.caller)
        return callers

    @cached_property
    def _roots(self) -> frozenset[int]:
        """The unwinders that something calls; all routines of a program without names."""
        routines = self._recovered.routines
        if not any(symbol.is_function for symbol in self._recovered.program.symbols):
            return frozenset(range(len(routines)))
        named = {number for number, cfg in enumerate(routines) if cfg.name in UNWINDERS}
        return frozenset(number for number in named if self._callers.get(number, set()) - named)

    @cached_property
    def _unwinding(self) -> frozenset[int]:
        """Routines from which control may reach an unwinder."""
        if not self._roots:
            return frozenset()
        indirect = {n for n, cfg in enumerate(self._recovered.routines) if cfg.indirect}
        found = set(self._roots) | indirect
        left = list(found)
        while left:
            for caller in self._callers.get(left.pop(), ()):
                if caller not in found:
                    found.add(caller)
                    left.append(caller)
        return frozenset(found)


def _adds_return_address(word: int) -> bool:
    """Whether an instruction adds %o7 to another register, or subtracts one of them."""
    if word >> 30 != 2 or word >> 19 & 63 not in _ADDITIVE or word & 1 << 13:
        return False
    sources = (word >> 14 & 31, word & 31)
    return _O7 in sources and 0 not in sources


def is_trap(kind: TransferKind) -> bool:
    """Whether a transfer is a software trap."""
    return kind in (TransferKind.TRAP_ALWAYS, TransferKind.TRAP_CONDITIONAL)
