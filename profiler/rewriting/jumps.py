"""Branches and computed jumps in a copy, and tests before what it may not execute always.

A jump through a table keeps its table, and so the old addresses in it; the word at such an address
leads to the copy. That word is one, and control may reach it for different reasons: two jumps may
go there whose edges have code of their own, or something enters the routine there, or a call
returns. One of them can have the word. Each of the other jumps gets a *jump table of its own*: one
`ba,a` for each word of the old code from its first target to its last. In place of `jmp old`, the
copy executes

    sethi %hi(start), %b   ! of the old code that the table covers, a multiple of 1024
    sub   old, %b, old
    sethi %hi(table), %b
    jmp   old + %b

It needs a register that is free (%b), and one of the jump's own that nobody reads behind it. The
jump leads to one of the known targets: recovery has proved that, or a test before it sees to it
(`write_jump_check`), or the run to come has been seen.

Shared targets: compilers copy the jump of an interpreter's loop behind each of its operations. One
run shows most operations, but by far not each behind each. So a computed jump is taken to lead
wherever another one of its routine has led: the graph has more edges then, and counts stay what
they are. Where recovery has guessed a jump's table, the run has confirmed that, or shown what is
missing.

Tests: before a jump of which only a run has shown where it leads (`write_jump_check`). The copy of
a routine is right only for the known targets, since registers that are dead on all paths from them
may hold the scheme's values. Another run may jump elsewhere, to old code that needs them. So the
copy looks the target up in a table, a byte for each word from the first target on. Before `flush`
(`write_flush_check`): a program that writes instructions must flush their addresses before they
are executed (SPARC V8 B.32, V9 A.20). If it flushes old code, the copies would go on as before.
Code that is generated elsewhere runs as ever; so do the stubs that static programs write when they
start, of which there are no copies. Where a test fails, the program ends with one line
(`elsewhere/runtime.c`). A test has a register window of its own and always executes the
same number of instructions. V8 code cannot keep the condition codes, so that they must be dead
there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.code.registers import LOCAL_ORDER, mask, members, save_smallest_frame
from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.recovery.idioms import is_restore
from simprof.profiler.recovery.recovery import Discoveries, Known, ProgramGraphs, recover
from simprof.profiler.rewriting.draft import (
    Cause,
    CopyDraft,
    NotRewritableError,
    constant,
    entry_label,
    is_annulled,
    is_short,
    jump,
    raw,
    reads_pc,
    retargeted,
)
from simprof.profiler.rewriting.elsewhere.runtime import REWRITES, UNFORESEEN
from simprof.profiler.rewriting.placing import PlacedCode, named_by
from simprof.simulator.binary.program import MachineKind, Program
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind, simm13
from simprof.simulator.isa.effects import ICC

BRANCHES = (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS)
_ANNUL = 1 << 29
_TRAP = 0x3A  # the code of recovery has none in delay slots


def delay_slot(draft: CopyDraft, address: int, kind: TransferKind) -> list[Instruction]:
    """Return the delay slot of the transfer at an old address, if it has one."""
    if not HAS_DELAY_SLOT[kind]:
        return []
    word = draft.word(address + 4)
    if reads_pc(word):
        raise NotRewritableError(f"the delay slot at {address + 4:#x} reads the program counter")
    if word >> 30 == 2 and word >> 19 & 63 == _TRAP:
        # it would need what `calls.write_trap` does, and liveness does not see what it reads
        raise NotRewritableError(f"the delay slot at {address + 4:#x} is a trap")
    return [raw(word)]


def write_branch(
    draft: CopyDraft,
    scheme: PlacedCode,
    block: Block,
    address: int,
    kind: TransferKind,
    target: int,
) -> None:
    """Write the branch that ends a block, with its delay slot."""
    word = draft.word(address)
    annulled = is_annulled(word)
    taken = _taken(draft, block, annulled and kind is TransferKind.BRANCH)
    label = scheme.sent_to(address)
    if draft.leaves_both_ways(block.id):
        # each way makes one jump, to the old place: how often which is taken is not known
        draft.charge(Cause.LINES, 1, edge=taken.id)
        label = draft.island("island", taken.id, f"old.{target:x}")
    elif taken.kind is EdgeKind.EXIT:
        draft.arrive(target, edge=taken.id)
        if label is None:
            label = entry_label(target)
            if is_short(word, kind):
                draft.charge(Cause.LONG_BRANCHES, 1, edge=taken.id)
                label = draft.island("island", taken.id, label)
    if word >> 30 == 1:  # a call over data, which it reads at its old place
        draft.emit(*constant(address, R.O7))
        draft.charge(Cause.PROGRAM_COUNTERS, 2, block=block.id, address=address)
    draft.emit(retargeted(word, kind, label or draft.block_label(taken.target)))
    if not (annulled and kind is TransferKind.BRANCH_ALWAYS):
        draft.emit(*delay_slot(draft, address, kind))


def _taken(draft: CopyDraft, block: Block, is_apart: bool) -> Edge:
    """Return the edge along which a branch leads, EXIT if it leaves the routine.

    An annulled slot that is executed with the taken branch alone is a block (`is_apart`).
    """
    source = block.id
    if is_apart:
        slot = draft.out(block.id, EdgeKind.SLOT)
        if slot is None:
            raise NotRewritableError(f"the slot of the branch before {block.end:#x} is missing")
        source = slot.target
    edge = draft.out(source, EdgeKind.TAKEN) or draft.out(source, EdgeKind.EXIT)
    if edge is None:
        raise NotRewritableError(f"the branch before {block.end:#x} leads nowhere")
    return edge


R = Register
_IMMEDIATE = 1 << 13

TABLE_ALIGNMENT = 1024  # Of tables: one `sethi` makes their addresses
MOST_TABLE_BYTES = 1 << 22  # Of all tables of a routine: all code must be in reach of each other
_NEVER = Instruction(".word 0", 0)


class _Jump(Struct, frozen=True):
    """A jump of the routine whose targets are known."""

    # block, address: Where it is.
    block: Block
    address: int
    ways: Mapping[int, str]  # Old address -> label to which it leads


class _Registers(Struct, frozen=True):
    """What code in place of a jump uses."""

    moved: Register  # The register of the jump that is changed
    other: Register | None  # Its second register, if it has two
    offset: int  # Its immediate, if it has one
    free: Register  # A register that nobody needs


class Jumps:
    """The jumps of one routine through tables."""

    def __init__(
        self, draft: CopyDraft, scheme: PlacedCode, taken: Mapping[int, str | None]
    ) -> None:
        # draft, scheme: The copy, and the scheme's code in it.
        # taken: Old address -> label of those that lead elsewhere already; None: to no single
        # place.
        self._draft, self._scheme = draft, scheme
        self._words = dict(taken)

    @cached_property
    def _apart(self) -> dict[int, _Jump]:
        """Block -> the jump that ends it, of those with tables of their own."""
        apart = {}
        # Old words go to those first that can have no table of their own.
        for each in sorted(self._jumps, key=lambda e: (self._registers(e) is not None, e.address)):
            if all(self._words.get(to, label) == label for to, label in each.ways.items()):
                self._words.update(each.ways)
            else:
                apart[each.block.id] = each
        return apart

    @cached_property
    def _jumps(self) -> list[_Jump]:
        draft = self._draft
        ways: dict[int, dict[int, str]] = defaultdict(dict)
        for edge in draft.cfg.edges:
            if edge.kind is EdgeKind.SWITCH:
                to = draft.block(edge.target).start
                ways[edge.source][to] = self._scheme.way_along(edge.id, edge.target)
        return [
            _Jump(draft.block(n), draft.block(n).start + 4 * (draft.codes[n].transfer or 0), found)
            for n, found in ways.items()
        ]

    def lead_from_old_code(self) -> None:
        """Lead from the targets of jumps to the copy, where the old code's words do it."""
        apart = self._apart
        for each in self._jumps:
            if each.block.id not in apart:
                for to, label in each.ways.items():
                    self._draft.copy.redirect(to, label)
        for edge in self._draft.cfg.edges:
            if edge.kind is EdgeKind.SWITCH:
                self._draft.charge(Cause.JUMP_TABLES, 1, edge=edge.id)

    def write(self, block: Block, address: int) -> None:
        """Write the jump that ends a block."""
        draft, each = self._draft, self._apart.get(block.id)
        word, slot = draft.word(address), delay_slot(draft, address, TransferKind.JUMP)
        if address in draft.program.unsure:
            write_jump_check(draft, block, address, draft.program.unsure[address])
        if each is None:
            draft.emit(raw(word), *slot)
            return
        registers = self._registers(each)
        if registers is None:
            clash = min(to for to, label in each.ways.items() if self._words.get(to) != label)
            raise NotRewritableError(
                f"control comes to {clash:#x} on two edges with different code, and no register is "
                f"free for a table of the jump at {address:#x}"
            )
        table = draft.label("table", block.id)
        start = min(each.ways) & -TABLE_ALIGNMENT
        # how far behind the start of the old code the jump leads
        moved, free = registers.moved, registers.free
        added: list[Register | int] = [each for each in (registers.other, registers.offset) if each]
        difference = [asm.arithmetic("add", moved, each, moved) for each in added]
        difference += [asm.sethi(start, free), asm.arithmetic("sub", moved, free, moved)]
        draft.emit(*difference, asm.sethi_symbol(table, free))
        draft.emit(asm.jmpl(moved, free, R.G0), *slot)
        draft.charge(Cause.JUMP_TABLES, len(difference) + 1, block=block.id, address=address)
        draft.copy.tables.append(_table(table, each.ways, start))
        if 4 * sum(map(len, draft.copy.tables)) > MOST_TABLE_BYTES:
            raise NotRewritableError("the tables of its jumps would take too much room")

    # -- registers

    def _registers(self, each: _Jump) -> _Registers | None:
        """Return the registers for the code in place of a jump, None if they are not free."""
        draft, word = self._draft, self._draft.word(each.address)
        slot = draft.word(each.address + 4)
        if draft.codes[each.block.id].kind is not TransferKind.JUMP or is_restore(slot):
            return None
        behind = named_by([slot]) | draft.context.abi.reserved
        for edge in draft.cfg.out_edges[each.block.id]:
            behind |= draft.liveness.live_on_edge(edge)
        first, second, offset = Register(word >> 14 & 31), Register(word & 31), 0
        own: Sequence[Register] = (first, second)
        if word & 1 << 13:
            own, offset = (first,), simm13(word)
        moved = next((r for r in own if r is not R.G0 and not mask(r) & behind), None)
        if moved is None:
            return None
        others = [r for r in own if r is not moved and r is not R.G0]
        # the second register is read before the free one is written, and may be it
        # The scheme keeps paths in registers that the routine does not name, or that are spilled.
        order = draft.context.abi.caller_saved
        if draft.frames.before(each.block.id, draft.codes[each.block.id].transfer or 0).depth == 1:
            order += LOCAL_ORDER
        own_named = draft.liveness.named & ~mask(*draft.spill.registers)
        kept = behind | mask(moved) | (self._scheme.named & ~own_named)
        free = next(members(~kept, order), None)
        return None if free is None else _Registers(moved, next(iter(others), None), offset, free)


def _table(label: str, ways: Mapping[int, str], start: int) -> list[Item]:
    """Return a table for the old code from `start` to the last target."""
    found = (ways.get(address) for address in range(start, max(ways) + 4, 4))
    return [Label(label), *(_NEVER if way is None else jump(way) for way in found)]


_BEHIND_CALL = 8  # bytes: the call and its delay slot


def shared_targets(program: Program, seen: Discoveries, known: Known) -> Discoveries:
    """Return what runs have shown, and for each computed jump its targets and those of others."""
    while True:
        recovered = recover(program, seen, known)
        pairs = set(seen.indirect_targets)
        for cfg in recovered.routines:
            jumps = computed_jumps(recovered, cfg)
            inside = {block.start for block in cfg.blocks}
            targets = {t for j, t in seen.indirect_targets if j in jumps and t in inside}
            pairs |= {(jump, target) for jump in jumps for target in targets}
            pairs |= {
                (jump, cfg.blocks[edge.target].start)
                for jump in jumps
                for edge in cfg.edges
                if edge.kind is EdgeKind.SWITCH
                and cfg.blocks[edge.source].start <= jump < cfg.blocks[edge.source].end
            }
        if pairs == seen.indirect_targets:
            return seen
        seen = replace(seen, indirect_targets=frozenset(pairs))


def computed_jumps(recovered: ProgramGraphs, cfg: ControlFlowGraph) -> list[int]:
    """Return the jumps of a routine of which the code does not tell the targets.

    Two kinds leave the routine: tail calls, which close the window in their delay slots, and jumps
    to 8 behind what a register holds, which is where some call is (`longjmp`).
    """
    unresolved, lists = frozenset(recovered.unresolved_jumps), recovered.code.lists
    found = []
    for block in cfg.blocks:
        for address in (block.end - 8, block.end - 4):  # the slot may be a block of its own
            if block.is_slot or address < block.start or address not in unresolved:
                continue
            index = recovered.code.index(address)
            word = lists.words[index]
            returns = bool(word & _IMMEDIATE) and simm13(word) == _BEHIND_CALL
            leaves = returns or is_restore(lists.words[index + 1])
            if lists.kinds[index] == TransferKind.JUMP and not leaves:
                found.append(address)
    return found


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
    code = [_flush_windows(draft.context.machine)] if any(r >= R.L0 for r in read) else []
    code.append(_fetch(draft, base, to))
    if word & _IMMEDIATE:
        return [*code, asm.arithmetic("add", to, simm13(word), to)]
    return [*code, _fetch(draft, second, other), asm.arithmetic("add", to, other, to)]


def _flush_windows(machine: MachineKind) -> Instruction:
    """Return what stores all windows but the current one on the stack."""
    if machine is MachineKind.SPARCV8:
        return asm.trap_always(_FLUSH_TRAP)
    return Instruction("flushw", _FLUSH_WINDOWS)


def _fetch(draft: CopyDraft, register: Register, to: Register) -> Instruction:
    """Leave in `to` what a register of the window below holds."""
    if register < R.O0:
        return asm.mov(register, to)
    if register < R.L0:
        return asm.mov(Register(register + (R.I0 - R.O0)), to)
    is64 = draft.context.is64
    at = draft.context.abi.bias + (8 if is64 else 4) * (register - R.L0)
    return asm.load("ldx" if is64 else "ld", R.FP, at, to)


LARGEST_TABLE = 1 << 16  # Bytes; targets further apart than so many words are not looked up
_OFFSET, _FOUND, _WHERE = R.L0, R.L1, R.L2


def write_jump_check(draft: CopyDraft, block: Block, address: int, targets: frozenset[int]) -> None:
    """Write the test before the jump at an old address, which ends `block`; NotRewritableError if
    they lie too far apart, or V8's condition codes are live there.
    """
    # targets: Old addresses, at least one, to which it is known to lead.
    unknown = f"the code does not show where the jump at {address:#x} leads"
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
    checks = len(executed) + len(looked_up)
    draft.charge(Cause.JUMP_CHECKS, checks, block=block.id, address=address)
    known_targets = bytearray(-(-(1 << shift) // 4) * 4)  # a byte is 1 where the jump may lead
    for target in targets:
        known_targets[(target - first) >> 2] = 1
    stored = (known_targets[k : k + 4] for k in range(0, len(known_targets), 4))
    numbers = (int.from_bytes(four, "big") for four in stored)
    draft.put_behind(Label(table), *(Instruction(f".word {n:#010x}", n) for n in numbers))


def _branch(is_v8: bool, condition: str, label: str) -> list[Instruction]:
    """Branch by whether what was found is zero ("z") or not ("nz")."""
    if is_v8:
        on_icc = {"z": "e", "nz": "ne"}[condition]
        return [asm.cmp(_FOUND, 0), asm.branch(on_icc, label)]
    return [asm.branch_register(condition, _FOUND, label)]


_FLUSH = 0x3B
_FLUSH_WINDOWS, _FLUSH_TRAP = 0x81580000, 3
_ADDRESS, _OTHER, _FLAGS = R.L0, R.L1, R.L2


def is_flush(word: int) -> bool:
    """Whether a word is `flush`."""
    return word >> 30 == 2 and word >> 19 & 63 == _FLUSH


def write_flush_check(draft: CopyDraft, block: Block, address: int) -> None:
    """Write the test before the `flush` at an old address; NotRewritableError if V8's condition
    codes are live there.
    """
    machine = draft.context.machine
    if needs_flags(draft, block, address):
        raise NotRewritableError(f"the flush at {address:#x} cannot be tested")
    is_v8 = machine is MachineKind.SPARCV8  # which has no instruction that keeps the flags
    first, end = draft.program.span
    elsewhere = f"{draft.prefix}.flush.{address:x}"
    code = [
        save_smallest_frame(machine),
        *operand_sum(draft, draft.word(address), _ADDRESS, _OTHER),
        *([] if is_v8 else [asm.read_state("%ccr", _FLAGS)]),
        *constant(first, _OTHER),
        asm.arithmetic("sub", _ADDRESS, _OTHER, _ADDRESS),
        *constant(end - first, _OTHER),
        asm.cmp(_ADDRESS, _OTHER),
        asm.branch_predicted("cc", "%xcc", elsewhere)
        if draft.context.is64
        else asm.branch("cc", elsewhere),
        asm.nop() if is_v8 else asm.write_state(_FLAGS, 0, "%ccr"),
    ]
    draft.emit(*code, jump(REWRITES), Label(elsewhere), asm.restore())
    draft.charge(Cause.FLUSHES, len(code) + 1, block=block.id, address=address)
