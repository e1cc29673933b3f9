"""The copy of one routine: its instructions with a scheme's code between them.

Blocks stand in the order of their addresses, so that what ran on into the next block still does.
Behind them come the stubs, and what cannot stand in line. All direct transfers go to copies. Code
that is entered by its old address is named with that address (`RoutineCopy.redirects`).

Each block is, in order: the way in where routines are entered by it (`entry`), the top's label, its
instructions with the code that belongs before them, its transfer with the delay slot, the label of
the return point (`back`), and the code of the edge to what it runs on into.
"""

from __future__ import annotations

from simprof.profiler.code.codegen import Emission, Stub
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, EdgeKind
from simprof.profiler.rewriting.calls import CALLS, CallCopies, RoutineEntries
from simprof.profiler.rewriting.checks import is_flush, write_flush_check
from simprof.profiler.rewriting.draft import (
    ARITHMETIC,
    Cause,
    CopyDraft,
    NotRewritableError,
    OldProgram,
    RoutineCopy,
    constant,
    is_trap,
    jump,
    raw,
    reads_pc,
)
from simprof.profiler.rewriting.jumps import BRANCHES, Jumps, delay_slot, write_branch
from simprof.profiler.rewriting.placing import PlacedCode, is_save, larger_save, more_room
from simprof.profiler.rewriting.traps import write_trap
from simprof.simulator.isa.assembler import Instruction, Label, Register
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind


def copy_routine(
    number: int,
    cfg: ControlFlowGraph,
    context: RoutineContext,
    emission: Emission,
    program: OldProgram,
) -> RoutineCopy:
    """Return the copy of a routine.

    - `number`, `cfg`, `context`: The routine.
    - `emission`: Where its code goes.
    - `program`: Where it is from.

    Raises
    ------
    NotRewritableError
        If that cannot be done with certainty.
    """
    return _Copier(CopyDraft(number, cfg, context, program), emission).make()


class _Copier:
    """Copies one routine."""

    def __init__(self, draft: CopyDraft, emission: Emission) -> None:
        self._draft, self._cfg = draft, draft.cfg
        self._scheme = PlacedCode(draft, emission)
        self._landings = RoutineEntries(draft, self._scheme)
        self._calls = CallCopies(draft, self._landings)
        words = [word for block in draft.cfg.blocks for word in draft.program.words(block)]
        self._jumps = Jumps(draft, self._scheme, self._ways_in())
        self._growth = more_room(words, draft, emission, len(self._landings.words))

    def _ways_in(self) -> dict[int, str | None]:
        """Return where the routine's entries and return points lead, by old address."""
        entries = [
            (e, block) for block in self._cfg.blocks for e in self._draft.entry_edges(block.id)
        ]
        ways: dict[int, str | None] = {
            block.start: self._landings.way_in(edge, block.id) for edge, block in entries
        }
        return ways | dict.fromkeys(self._calls.returned_to)

    def make(self) -> RoutineCopy:
        """Return the copy."""
        lined = [b for b in self._cfg.blocks if not b.is_slot and not self._is_apart(b)]
        for block, following in zip(lined, [*lined[1:], None], strict=True):
            self._entries(block)
            self._draft.emit(Label(self._draft.block_label(block.id)))
            self._block(block)
            self._run_on(block, following)
        for block in self._cfg.blocks:
            is_left = not block.is_slot and self._is_apart(block)
            if is_left and block.start not in self._scheme.copied:
                self._apart(block)
        for stub in self._scheme.stubs:
            self._stub(stub)
        self._lead_from_old_code()
        return self._draft.finish()

    def _is_apart(self, block: Block) -> bool:
        """Whether a block is a delay slot, too, and so cannot stand in line."""
        return block.id in self._draft.context.shared_slots

    def _entries(self, block: Block) -> None:
        """Put the ways in before a block."""
        for edge in self._draft.entry_edges(block.id):
            self._scheme.write_head(edge, block)
            label = self._landings.way_in(edge, block.id)
            self._draft.copy.entries[block.start] = (label, edge)

    # -- blocks

    def _block(self, block: Block) -> None:
        code = self._draft.codes[block.id]
        transfer = None if code.transfer is None else block.start + 4 * code.transfer
        address = block.start
        while address < block.end:
            self._draft.emit(*self._scheme.at(block.id, address))
            if address == transfer:
                self._transfer(block, address, code.kind, code.target)
                if address + 4 < block.end and self._scheme.at(block.id, address + 4):
                    raise NotRewritableError(
                        f"code is needed in the delay slot at {address + 4:#x}"
                    )
                return
            if address in self._draft.program.pc_reads:
                address = self._reads_pc(block, address)
                continue
            if is_flush(self._draft.word(address)):
                write_flush_check(self._draft, block, address)
            self._draft.emit(*self._calls.before(block, address), *self._plain(block, address))
            address += 4

    def _plain(self, block: Block, address: int) -> list[Instruction]:
        """Return an instruction that is no transfer; `rd %pc` reads the old address."""
        draft, word = self._draft, self._draft.word(address)
        if word >> 30 != ARITHMETIC:
            return [raw(word)]
        if self._growth and is_save(word):
            code = larger_save(word, self._growth)
            cleared = self._landings.nothing_under_way()
            draft.charge(Cause.FRAMES, len(code) - 1, block=block.id)
            draft.charge(Cause.LANDINGS, len(cleared), block=block.id)
            return [*code, *cleared]
        if not reads_pc(word):
            return [raw(word)]
        draft.charge(Cause.PROGRAM_COUNTERS, 1, block=block.id)
        return list(constant(address, Register(word >> 25 & 31)))

    def _reads_pc(self, block: Block, address: int) -> int:
        """`call .+8`: make the old address in %o7, then execute the slot."""
        between = self._scheme.at(block.id, address + 4)
        slot = self._plain(block, address + 4)
        self._draft.emit(*constant(address, Register.O7), *between, *slot)
        self._draft.charge(Cause.PROGRAM_COUNTERS, 1, block=block.id)
        return address + 8

    def _transfer(self, block: Block, address: int, kind: TransferKind, target: int) -> None:
        if kind in CALLS:
            self._calls.write(block, address, kind, target)
        elif kind in BRANCHES:
            write_branch(self._draft, self._scheme, block, address, kind, target)
        elif is_trap(kind):
            write_trap(self._draft, self._landings, block, address)
        elif kind in (TransferKind.COMPARE_BRANCH, TransferKind.TRAP_RETURN):
            raise NotRewritableError(f"the instruction at {address:#x} is not understood")
        elif kind is TransferKind.JUMP:
            self._jumps.write(block, address)
        else:
            word = self._draft.word(address)
            self._draft.emit(raw(word), *delay_slot(self._draft, address, kind))

    # -- what follows

    def _run_on(self, block: Block, following: Block | None) -> None:
        """Put the code of the edge to what the block runs on into, and go there."""
        draft = self._draft
        draft.emit(*self._scheme.tail(block.id))
        edge = draft.out(block.id, EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
        if edge is not None:
            is_next = following is not None and edge.target == following.id
            if following is None or not is_next or self._scheme.has_head(following):
                draft.emit(jump(draft.block_label(edge.target)))
                draft.charge(Cause.LINES, 1, edge=edge.id)
            return
        leaves = draft.out(block.id, EdgeKind.EXIT)
        if leaves is None or not self._falls_out(block):
            return
        onward = block.end + 4 * self._slot_is_apart(block)
        if draft.leaves_both_ways(block.id):
            draft.emit(jump(f"old.{onward:x}"))
            return
        draft.emit(jump(draft.program.label_of(onward)))
        if block.end - 4 not in draft.program.final:
            draft.charge(Cause.LINES, 1, edge=leaves.id)
            draft.arrive(onward, edge=leaves.id)

    def _slot_is_apart(self, block: Block) -> bool:
        """Whether the block ends before its transfer's delay slot."""
        code = self._draft.codes[block.id]
        return bool(HAS_DELAY_SLOT[code.kind]) and code.transfer == block.instructions - 1

    def _falls_out(self, block: Block) -> bool:
        """Whether the block's EXIT edge runs on into another routine."""
        kind = self._draft.codes[block.id].kind
        if kind in (TransferKind.NONE, TransferKind.BRANCH, TransferKind.BRANCH_NEVER):
            return True
        return is_trap(kind) and block.id not in self._draft.copy.endings

    # -- behind the blocks

    def _apart(self, block: Block) -> None:
        """Copy a delay slot to which branches lead, too."""
        draft = self._draft
        self._entries(block)
        draft.emit(Label(draft.block_label(block.id)), *self._plain(block, block.start))
        edge = draft.out(block.id, EdgeKind.FALL_THROUGH)
        if edge is None:
            raise NotRewritableError(f"the delay slot at {block.start:#x} ends a routine")
        draft.emit(jump(draft.block_label(edge.target)))
        draft.charge(Cause.LINES, 1, edge=edge.id)

    def _stub(self, stub: Stub) -> None:
        draft = self._draft
        draft.emit(Label(draft.label("stub", stub.edge)))
        if stub.copied is not None:
            for block in self._cfg.blocks:
                if block.start == stub.copied and not block.is_slot:
                    self._entries(block)
                    draft.emit(Label(draft.block_label(block.id)))
            draft.emit(raw(draft.word(stub.copied)))
        draft.emit(*self._scheme.of_stub(stub))

    def _lead_from_old_code(self) -> None:
        """Lead the targets of jump tables, and the entries, from their old places to the copies."""
        copy = self._draft.copy
        self._jumps.lead_from_old_code()
        for address, (label, _) in copy.entries.items():
            if address not in copy.returns:  # there the test of landings tells
                copy.redirect(address, label)
