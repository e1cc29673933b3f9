"""Tests in a copy before an instruction that the copy may not execute unconditionally.

Before a jump of which only a run has shown where it leads (`write_jump_check`): the copy of a
routine is right only for the known targets, since registers that are dead on all paths from them
may hold the scheme's values. Another run may jump elsewhere, to old code that needs them. So the
copy looks the target up in a table, a byte for each word from the first target on.

Before `flush` (`write_flush_check`): a program that writes instructions must flush their addresses
before they are executed (SPARC V8 B.32, V9 A.20). If it flushes old code, the copies would go on as
before. Code that is generated elsewhere runs as ever; so do the stubs that static programs write
when they start, of which there are no copies.

Where a test fails, the program ends with one line (`elsewhere.parts.refusal_items`). A test has a
register window of its own and always executes the same number of instructions. V8 code cannot keep
the condition codes, so that they must be dead there.
"""

from __future__ import annotations

from collections.abc import Iterable

from simprof.profiler.code.registers import save_smallest_frame
from simprof.profiler.graphs.cfg import Block
from simprof.profiler.rewriting.draft import Cause, CopyDraft, NotRewritableError, constant, jump
from simprof.profiler.rewriting.elsewhere.parts import REWRITES, UNFORESEEN, Width, flush_windows
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register
from simprof.simulator.isa.decode import simm13
from simprof.simulator.isa.effects import ICC

R = Register
_IMMEDIATE = 1 << 13


def needs_flags(draft: CopyDraft, block: Block, address: int) -> bool:
    """Whether a test before an instruction would destroy condition codes.

    V8 code cannot keep them.
    """
    if draft.context.machine is not MachineKind.SPARCV8:
        return False
    return bool(draft.liveness.live_before(block.id, (address - block.start) >> 2) & ICC)


def operand_sum(draft: CopyDraft, word: int, to: Register, other: Register) -> list[Instruction]:
    """Leave in `to` the sum of the operands of `word`, an instruction of the window below.

    Locals and inputs of that window are read from the stack, where its place is. `other` is lost.
    """
    base, second = Register(word >> 14 & 31), Register(word & 31)
    read = (base,) if word & _IMMEDIATE else (base, second)
    code = [flush_windows(draft.context.machine)] if any(r >= R.L0 for r in read) else []
    code.append(_fetch(draft, base, to))
    if word & _IMMEDIATE:
        return [*code, asm.arithmetic("add", to, simm13(word), to)]
    return [*code, _fetch(draft, second, other), asm.arithmetic("add", to, other, to)]


def _fetch(draft: CopyDraft, register: Register, to: Register) -> Instruction:
    """Leave in `to` what a register of the window below holds."""
    if register < R.O0:
        return asm.mov(register, to)
    if register < R.L0:
        return asm.mov(Register(register + (R.I0 - R.O0)), to)
    is64 = draft.context.is64
    at = draft.context.abi.bias + (8 if is64 else 4) * (register - R.L0)
    return asm.load("ldx" if is64 else "ld", R.FP, at, to)


LARGEST_TABLE = 1 << 16
"""Bytes; targets further apart than so many words are not looked up."""
_OFFSET, _FOUND, _WHERE = R.L0, R.L1, R.L2


def write_jump_check(draft: CopyDraft, block: Block, address: int, targets: frozenset[int]) -> None:
    """Write the test before the jump at an old address, which ends `block`.

    `targets`: Old addresses, at least one, to which it is known to lead.

    Raises
    ------
    NotRewritableError
        If they lie too far apart, or V8's condition codes are live there.
    """
    unknown = f"nothing tells where the jump at {address:#x} leads"
    first, last = min(targets), max(targets)
    shift = ((last - first) >> 2).bit_length()
    if 1 << shift > LARGEST_TABLE:
        raise NotRewritableError(f"{unknown}: it has targets far apart")
    is_v8 = draft.context.machine is MachineKind.SPARCV8
    if needs_flags(draft, block, address):
        raise NotRewritableError(unknown)
    table = draft.label("targets", block.id)
    near, known = draft.label("near", block.id), draft.label("known", block.id)
    executed = [
        save_smallest_frame(draft.context.machine),
        *operand_sum(draft, draft.word(address), _OFFSET, _FOUND),
        *constant(first, _WHERE),
        asm.arithmetic("sub", _OFFSET, _WHERE, _OFFSET),
        asm.shift("srlx" if draft.context.is64 else "srl", _OFFSET, shift + 2, _FOUND),
        *_branch(is_v8, "z", near),
        asm.shift("srl", _OFFSET, 2, _OFFSET),
    ]
    looked_up = [
        asm.sethi_symbol(table, _WHERE),
        asm.or_symbol(_WHERE, table, _WHERE),
        asm.load("ldub", _WHERE, _OFFSET, _FOUND),
        *_branch(is_v8, "nz", known),
        asm.restore(),
    ]
    draft.emit(*executed, jump(UNFORESEEN), Label(near), *looked_up, jump(UNFORESEEN), Label(known))
    draft.charge(Cause.JUMP_CHECKS, len(executed) + len(looked_up), block=block.id)
    draft.put_behind(*_table(table, ((t - first) >> 2 for t in targets), 1 << shift))


def _branch(is_v8: bool, condition: str, label: str) -> list[Instruction]:
    """Branch by whether what was found is zero ("z") or not ("nz")."""
    if is_v8:
        on_icc = {"z": "e", "nz": "ne"}[condition]
        return [asm.cmp(_FOUND, 0), asm.branch(on_icc, label)]
    return [asm.branch_register(condition, _FOUND, label)]


def _table(label: str, places: Iterable[int], size: int) -> list[Item]:
    """Return the table as words: a byte is 1 where the jump may lead."""
    content = bytearray(-(-size // 4) * 4)
    for place in places:
        content[place] = 1
    numbers = (int.from_bytes(content[k : k + 4], "big") for k in range(0, len(content), 4))
    return [Label(label), *(Instruction(f".word {n:#010x}", n) for n in numbers)]


_FLUSH = 0x3B
_ADDRESS, _OTHER, _FLAGS = R.L0, R.L1, R.L2


def is_flush(word: int) -> bool:
    """Whether a word is `flush`."""
    return word >> 30 == 2 and word >> 19 & 63 == _FLUSH


def write_flush_check(draft: CopyDraft, block: Block, address: int) -> None:
    """Write the test before the `flush` at an old address.

    Raises
    ------
    NotRewritableError
        If V8's condition codes are live there.
    """
    width = Width(draft.context.machine)
    if needs_flags(draft, block, address):
        raise NotRewritableError(f"the flush at {address:#x} cannot be tested")
    first, end = draft.program.span
    elsewhere = f"r{draft.number}.flush.{address:x}"
    code = [
        save_smallest_frame(width.machine),
        *operand_sum(draft, draft.word(address), _ADDRESS, _OTHER),
        *width.keep(_FLAGS),
        *constant(first, _OTHER),
        asm.arithmetic("sub", _ADDRESS, _OTHER, _ADDRESS),
        *constant(end - first, _OTHER),
        asm.cmp(_ADDRESS, _OTHER),
        width.branch("cc", elsewhere),
        *(width.put_back(_FLAGS) or [asm.nop()]),
    ]
    draft.emit(*code, jump(REWRITES), Label(elsewhere), asm.restore())
    draft.charge(Cause.FLUSHES, len(code) + 1, block=block.id)
