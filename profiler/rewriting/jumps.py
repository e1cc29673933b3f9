"""Jumps through tables in a copy, and where each of them leads.

A jump keeps its table, and so the old addresses in it; the word at such an address leads to the
copy. That word is one, and control may come to it in ways that differ: two jumps may go there whose
edges have code of their own, or something enters the routine there, or a call returns. One way can
have the word. Each of the other jumps gets a *jump table of its own*: one `ba,a` for each word of
the old code from its first target to its last. In place of `jmp old`, the copy executes

    sethi %hi(start), %b           ! of the old code that the table covers, a multiple of 1024
    sub   old, %b, old
    srlx  old, bits, %b            ! only where nothing proves where the jump leads:
    brnz,pn %b, elsewhere          ! this test
    sethi %hi(table), %b
    jmp   old + %b

It needs a register that is free (%b), and one of the jump's own that nobody reads behind it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from profiler.code.registers import LOCAL_ORDER, mask, members
from profiler.graphs.cfg import Block, EdgeKind
from profiler.rewriting.branches import delay_slot
from profiler.rewriting.charges import Cause
from profiler.rewriting.draft import Draft, NotRewritableError
from profiler.rewriting.frames import signed
from profiler.rewriting.placing import SchemeCode, named_by
from profiler.rewriting.transfers import jump, raw
from simulator.binary.program import MachineKind
from simulator.isa import assembler as asm
from simulator.isa.assembler import Instruction, Register
from simulator.isa.assembly import Item, Label
from simulator.isa.decode import TransferKind
from simulator.isa.effects import CC

R = Register

TABLE_ALIGNMENT = 1024
"""Of tables: one `sethi` makes their addresses."""
MOST_TABLE_BYTES = 1 << 22
"""Of all tables of a routine: all code must be in reach of each other."""
_NEVER = Instruction(".word 0", 0)


@dataclass(frozen=True)
class _Jump:
    """A jump of the routine whose targets are known.

    Attributes
    ----------
    block, address
        Where it is.
    ways
        Old address -> label to which it leads.
    """

    block: Block
    address: int
    ways: Mapping[int, str]


@dataclass(frozen=True)
class _Registers:
    """What code in place of a jump uses.

    Attributes
    ----------
    moved
        The register of the jump that is changed.
    other
        Its second register, if it has two.
    offset
        Its immediate, if it has one.
    free
        A register that nobody needs.
    """

    moved: Register
    other: Register | None
    offset: int
    free: Register


class Jumps:
    """The jumps of one routine through tables.

    Parameters
    ----------
    draft, scheme
        The copy, and the scheme's code in it.
    taken
        Old address -> label of those that lead elsewhere already; None: to no single place.
    """

    def __init__(self, draft: Draft, scheme: SchemeCode, taken: Mapping[int, str | None]) -> None:
        self._draft, self._scheme = draft, scheme
        self._words = dict(taken)

    @cached_property
    def _apart(self) -> dict[int, _Jump]:
        """Block -> the jump that ends it, of those with tables of their own."""
        apart = {}
        for each in sorted(self._jumps, key=self._order):
            if all(self._words.get(to, label) == label for to, label in each.ways.items()):
                self._words.update(each.ways)
            else:
                apart[each.block.id] = each
        return apart

    def _order(self, each: _Jump) -> tuple[bool, bool, int]:
        """Tables of their own go first to those that can have one, and then to the cheapest."""
        return self._registers(each) is not None, not self._is_open(each), each.address

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

    def _is_open(self, each: _Jump) -> bool:
        """Whether only a run has shown where a jump leads."""
        return each.address in self._draft.program.open_jumps

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
        if each is None:
            draft.emit(raw(word), *slot)
            return
        registers = self._registers(each)
        if registers is None:
            clash = min(to for to, label in each.ways.items() if self._words.get(to) != label)
            raise NotRewritableError(
                f"control comes to {clash:#x} in two ways that differ, and no register is free "
                f"for a table of the jump at {address:#x}"
            )
        table = _Table(draft, each, registers, self._is_open(each))
        before, test = table.difference, table.test
        landing = [asm.sethi_symbol(table.label, registers.free)]
        draft.emit(*before, *test, *landing)
        draft.emit(asm.jmpl(registers.moved, registers.free, R.G0), *slot)
        if test:
            draft.emit(Label(table.elsewhere), *table.back, raw(word), *slot)
            leaves = draft.out(block.id, EdgeKind.EXIT)
            if leaves is not None:
                draft.charge(Cause.JUMP_TABLES, len(table.back), edge=leaves.id)
        draft.charge(Cause.JUMP_TABLES, len(before) + len(test) + 1, block=block.id)
        draft.copy.tables.append(table.items)
        if 4 * sum(map(len, draft.copy.tables)) > MOST_TABLE_BYTES:
            raise NotRewritableError("the tables of its jumps would take too much room")

    # -- registers

    def _registers(self, each: _Jump) -> _Registers | None:
        """Return the registers for the code in place of a jump, None if they are not free."""
        draft, word = self._draft, self._draft.word(each.address)
        if draft.codes[each.block.id].kind is not TransferKind.JUMP:
            return None
        slot = draft.word(each.address + 4)
        behind = self._live_behind(each) | named_by([slot]) | draft.context.abi.reserved
        first, second, offset = Register(word >> 14 & 31), Register(word & 31), 0
        own: Sequence[Register] = (first, second)
        if word & 1 << 13:
            own, offset = (first,), signed(word)
        moved = next((r for r in own if r is not R.G0 and not mask(r) & behind), None)
        if moved is None or (self._is_open(each) and self._needs_flags and behind & CC):
            return None
        others = [r for r in own if r is not moved and r is not R.G0]
        free = self._free(each.block, behind | mask(*own))
        return None if free is None else _Registers(moved, next(iter(others), None), offset, free)

    @property
    def _needs_flags(self) -> bool:
        return self._draft.context.machine is MachineKind.SPARCV8

    def _live_behind(self, each: _Jump) -> int:
        """Return what is live where the jump leads."""
        live = 0
        for edge in self._draft.cfg.out_edges[each.block.id]:
            live |= self._draft.liveness.live_on_edge(edge)
        return live

    def _free(self, block: Block, live: int) -> Register | None:
        """Return a register that neither the routine nor the scheme's code keeps anything in.

        The scheme keeps paths in registers that the routine does not name.
        """
        draft = self._draft
        order = draft.context.abi.caller_saved
        if draft.frames.before(block.id, draft.codes[block.id].transfer or 0).depth == 1:
            order += LOCAL_ORDER
        kept = live | (self._scheme.named & ~draft.liveness.named)
        return next(members(~kept, order), None)


class _Table:
    """The code in place of a jump, and the table that it leads to."""

    def __init__(self, draft: Draft, each: _Jump, use: _Registers, is_open: bool) -> None:
        self._draft, self._each, self._use = draft, each, use
        self.label = draft.label("table", each.block.id)
        self.elsewhere = draft.label("elsewhere", each.block.id)
        self._start = min(each.ways) & -TABLE_ALIGNMENT
        self._bits = (max(each.ways) - self._start).bit_length()
        self._is_open = is_open

    @property
    def difference(self) -> list[Instruction]:
        """Leave in the jump's register how far behind the table's start it leads."""
        moved, other, free = self._use.moved, self._use.other, self._use.free
        code = [] if other is None else [asm.arithmetic("add", moved, other, moved)]
        if self._use.offset:
            code.append(asm.arithmetic("add", moved, self._use.offset, moved))
        code.append(asm.sethi(self._start, free))
        return [*code, asm.arithmetic("sub", moved, free, moved)]

    @property
    def test(self) -> list[Instruction]:
        """Leave for `elsewhere` if the jump leads out of the table."""
        if not self._is_open:
            return []
        draft, free, moved = self._draft, self._use.free, self._use.moved
        if draft.context.machine is MachineKind.SPARCV8:
            code = [asm.shift("srl", moved, self._bits, free), asm.cmp(free, 0)]
            return [*code, asm.branch("ne", self.elsewhere)]
        shift = "srlx" if draft.context.is64 else "srl"
        test = asm.branch_register("nz", free, self.elsewhere, taken=False)
        return [asm.shift(shift, moved, self._bits, free), test]

    @property
    def back(self) -> list[Instruction]:
        """Undo `difference`."""
        moved, other, free = self._use.moved, self._use.other, self._use.free
        code = [asm.sethi(self._start, free), asm.arithmetic("add", moved, free, moved)]
        if self._use.offset:
            code.append(asm.arithmetic("sub", moved, self._use.offset, moved))
        return code if other is None else [*code, asm.arithmetic("sub", moved, other, moved)]

    @property
    def items(self) -> list[Item]:
        """The table. What only an unforeseen jump can reach leads to the old code."""
        last = max(self._each.ways)
        end = self._start + (1 << self._bits) if self._is_open else last + 4
        items: list[Item] = [Label(self.label)]
        for address in range(self._start, end, 4):
            label = self._each.ways.get(address)
            if label is None and self._is_open:
                label = self._draft.program.label_of(address)
            items.append(_NEVER if label is None else jump(label))
        return items
