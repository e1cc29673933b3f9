"""Jumps through tables in a copy, and where each of them leads.

A jump keeps its table, and so the old addresses in it; the word at such an address leads to the
copy. That word is one, and control may come to it in ways that differ: two jumps may go there whose
edges have code of their own, or something enters the routine there, or a call returns. One way can
have the word. Each of the other jumps gets a *jump table of its own*: one `ba,a` for each word of
the old code from its first target to its last. In place of `jmp old`, the copy executes

    sethi %hi(start), %b   ! of the old code that the table covers, a multiple of 1024
    sub   old, %b, old
    sethi %hi(table), %b
    jmp   old + %b

It needs a register that is free (%b), and one of the jump's own that nobody reads behind it. The
jump leads to one of the targets that are known: recovery has proved that, or a test before it
(`jump_checks`) sees to it, or the run to come has been seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from simprof.profiler.code.registers import LOCAL_ORDER, mask, members
from simprof.profiler.graphs.cfg import Block, EdgeKind
from simprof.profiler.recovery.idioms import is_restore
from simprof.profiler.rewriting.branches import delay_slot
from simprof.profiler.rewriting.charges import Cause
from simprof.profiler.rewriting.draft import Draft, NotRewritableError
from simprof.profiler.rewriting.jump_checks import write_check
from simprof.profiler.rewriting.placing import SchemeCode, named_by
from simprof.profiler.rewriting.transfers import jump, raw
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register
from simprof.simulator.isa.decode import TransferKind, simm13

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

    def _order(self, each: _Jump) -> tuple[bool, int]:
        """Old words go to those first that can have no table of their own."""
        return self._registers(each) is not None, each.address

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
            write_check(draft, block, address, draft.program.unsure[address])
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
        table = draft.label("table", block.id)
        start = min(each.ways) & -TABLE_ALIGNMENT
        difference = _difference(registers, start)
        draft.emit(*difference, asm.sethi_symbol(table, registers.free))
        draft.emit(asm.jmpl(registers.moved, registers.free, R.G0), *slot)
        draft.charge(Cause.JUMP_TABLES, len(difference) + 1, block=block.id)
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
        behind = self._live_behind(each) | named_by([slot]) | draft.context.abi.reserved
        first, second, offset = Register(word >> 14 & 31), Register(word & 31), 0
        own: Sequence[Register] = (first, second)
        if word & 1 << 13:
            own, offset = (first,), simm13(word)
        moved = next((r for r in own if r is not R.G0 and not mask(r) & behind), None)
        if moved is None:
            return None
        others = [r for r in own if r is not moved and r is not R.G0]
        # the second register is read before the free one is written, and may be it
        free = self._free(each.block, behind | mask(moved))
        return None if free is None else _Registers(moved, next(iter(others), None), offset, free)

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


def _difference(use: _Registers, start: int) -> list[Instruction]:
    """Leave in the jump's register how far behind the start of the old code it leads."""
    code = [] if use.other is None else [asm.arithmetic("add", use.moved, use.other, use.moved)]
    if use.offset:
        code.append(asm.arithmetic("add", use.moved, use.offset, use.moved))
    return [
        *code,
        asm.sethi(start, use.free),
        asm.arithmetic("sub", use.moved, use.free, use.moved),
    ]


def _table(label: str, ways: Mapping[int, str], start: int) -> list[Item]:
    """Return a table for the old code from `start` to the last target."""
    found = (ways.get(address) for address in range(start, max(ways) + 4, 4))
    return [Label(label), *(_NEVER if way is None else jump(way) for way in found)]
