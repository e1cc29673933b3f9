"""Calls of thunks that need not leave their old return address: their constants are changed.

Position-independent code learns where its tables are from

    sethi %hi(distance), %l7
    call  thunk                   ! retl; add %o7, %l7, %l7
    add   %l7, %lo(distance), %l7

where *distance* is how far the tables are from the call. A call in a copy leaves another address,
and so has another distance: the same three instructions, of which two have other constants. A
negative distance takes `xor` in place of `add`, which puts ones above the 32 bits of `sethi`.
"""

from __future__ import annotations

from simprof.profiler.code.registers import mask
from simprof.profiler.graphs.cfg import Block, EdgeKind
from simprof.profiler.rewriting.draft import Draft
from simprof.profiler.rewriting.transfers import ThunkCall
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.decode import TransferKind, simm13

_RETL = 0x81C3E008
_ADD, _OR, _O7 = 0x00, 0x02, 15


def thunk_call(draft: Draft, block: Block) -> ThunkCall | None:
    """Return the call of a thunk that ends a block, None if there is none, or it is not like that.

    The constant must be made where the call is, and nobody behind it may read the return address.
    """
    code, back = draft.codes[block.id], draft.out(block.id, EdgeKind.CALL_RETURN)
    if code.kind is not TransferKind.CALL or not code.transfer or back is None:
        return None
    address = block.start + 4 * code.transfer
    if draft.block(back.target).start != address + 8 or block.end != address + 8:
        return None
    register = _added_to(draft, code.target)
    if register is None or draft.liveness.live_in[back.target] & mask(Register.O7):
        return None
    first, second = draft.word(address - 4), draft.word(address + 4)
    is_sethi = first >> 22 == int(register) << 3 | 4
    if not is_sethi or not _makes_low_part(second, register):
        return None
    return ThunkCall(address, register, ((first & 0x3FFFFF) << 10) + simm13(second))


def _makes_low_part(word: int, register: Register) -> bool:
    """Whether a word adds the low bits of a constant to a register: `add`, or `or` of ten bits."""
    to, source, op3 = word >> 25 & 31, word >> 14 & 31, word >> 19 & 63
    if word >> 30 != 2 or not word & 1 << 13 or to != register or source != register:
        return False
    return op3 == _ADD or (op3 == _OR and not word & 0x1C00)


def _added_to(draft: Draft, target: int) -> Register | None:
    """Return the register to which the thunk at an address adds its return address."""
    if draft.program.code.index(target) < 0 or draft.word(target) != _RETL:
        return None
    word = draft.word(target + 4)
    register = word >> 25 & 31
    if word >> 30 != 2 or word >> 19 & 63 != _ADD or word & 0x3FE0:
        return None
    is_sum = sorted((word >> 14 & 31, word & 31)) == sorted((register, _O7))
    return Register(register) if is_sum and register not in (0, _O7) else None
