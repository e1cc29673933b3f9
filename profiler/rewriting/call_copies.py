"""Calls in a copy: made from there, or from their old places (`calls`)."""

from __future__ import annotations

from functools import cached_property

from simprof.profiler.graphs.cfg import Block, Edge, EdgeKind
from simprof.profiler.rewriting.branches import delay_slot
from simprof.profiler.rewriting.charges import Cause
from simprof.profiler.rewriting.draft import Draft, NotRewritableError
from simprof.profiler.rewriting.landings import Landings
from simprof.profiler.rewriting.thunks import thunk_call
from simprof.profiler.rewriting.transfers import ThunkCall, constant, jump, raw, retargeted
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register
from simprof.simulator.isa.decode import TransferKind

R = Register

RETURNED = R.O0
"""Zero where setjmp returns, something else where longjmp lands."""
CALLS = (TransferKind.CALL, TransferKind.INDIRECT_CALL, TransferKind.JUMP_AND_LINK)


class CallCopies:
    """Copies the calls of one routine."""

    def __init__(self, draft: Draft, landings: Landings) -> None:
        self._draft, self._landings = draft, landings

    @cached_property
    def thunks(self) -> dict[int, ThunkCall]:
        """Block -> the call of a thunk that ends it, of those that are made from the copy."""
        found = {block.id: thunk_call(self._draft, block) for block in self._draft.cfg.blocks}
        return {block: call for block, call in found.items() if call is not None}

    def before(self, block: Block, address: int) -> list[Item]:
        """Return the label of the instruction that makes a thunk's constant, if this is it."""
        call = self.thunks.get(block.id)
        if call is None or address != call.address - 4:
            return []
        base = f"r{self._draft.number}.base.{call.address:x}"
        self._draft.copy.thunk_calls.append((base, self._call_label(call.address), call))
        return [Label(base)]

    def _call_label(self, address: int) -> str:
        return f"r{self._draft.number}.call.{address:x}"

    def write(self, block: Block, address: int, kind: TransferKind, target: int) -> None:
        """Write the call that ends a block, and what is behind it."""
        draft = self._draft
        back = draft.out(block.id, EdgeKind.CALL_RETURN)
        direct = target if kind is TransferKind.CALL else -1
        stays = self._staying(block)
        if direct >= 0:
            draft.arrive(direct, block=block.id)
        self._landings.under_way(block)
        if stays is None:
            self._moved(block, address, kind, direct)
        elif {address, address + 4} & self._entered:
            self._made(block, address, kind, direct)
            draft.charge(stays, 2, block=block.id)
        else:
            draft.copy.kept_calls[address] = direct if direct >= 0 else None
            draft.emit(jump(f"old.{address:x}"))
            draft.charge(stays, 1, block=block.id)
        if back is None:
            if stays is None:  # for a call that returns against all signs
                draft.emit(jump(f"old.{block.end:x}"))
            return
        if stays is not None:
            self._return_point(back, stays)
        self._landings.test(back, RETURNED)

    def _return_point(self, back: Edge, cause: Cause) -> None:
        """Lead from where an old call returns to what is behind it in the copy."""
        draft = self._draft
        for edge in (back.id, *draft.entry_edges(back.target)):
            draft.charge(cause, 1, edge=edge)
        label, start = draft.label("back", back.id), draft.block(back.target).start
        draft.emit(Label(label))
        draft.copy.redirects[start] = label
        draft.copy.returns.add(start)

    def _staying(self, block: Block) -> Cause | None:
        """Return why the call that ends a block must leave its old return address, or None."""
        calls, code = self._draft.program.calls, self._draft.codes[block.id]
        back = self._draft.out(block.id, EdgeKind.CALL_RETURN)
        skipped = None if back is None else self._skipped(block, back)
        if skipped not in (None, 0, 1) or (skipped == 0 and calls.skips(code.target)):
            return Cause.CALLS
        if block.id in self.thunks:
            return None
        if code.kind is TransferKind.CALL:
            return calls.reason(code.target)
        return calls.reason(-1) if code.kind is TransferKind.INDIRECT_CALL else None

    def _skipped(self, block: Block, back: Edge) -> int:
        """Return how many words lie between a call's delay slot and where it returns."""
        return (self._draft.block(back.target).start - block.end) >> 2

    @cached_property
    def returned_to(self) -> frozenset[int]:
        """Old addresses to which calls return that are made with their old return address."""
        draft = self._draft
        return frozenset(
            draft.block(edge.target).start
            for edge in draft.cfg.edges
            if edge.kind is EdgeKind.CALL_RETURN
            and self._staying(draft.block(edge.source)) is not None
        )

    @cached_property
    def _entered(self) -> frozenset[int]:
        """Old addresses to which control comes from unknown places, or back from old calls."""
        draft = self._draft
        kinds = (EdgeKind.ENTRY, EdgeKind.SWITCH)
        places = {edge.target for edge in draft.cfg.edges if edge.kind in kinds}
        return self.returned_to | {draft.block(block).start for block in places}

    def _moved(self, block: Block, address: int, kind: TransferKind, direct: int) -> None:
        """Call from the copy: the return address is new."""
        draft = self._draft
        word, back = draft.word(address), draft.out(block.id, EdgeKind.CALL_RETURN)
        label_of = draft.program.label_of
        draft.emit(Label(self._call_label(address)))
        draft.emit(retargeted(word, kind, label_of(direct)) if direct >= 0 else raw(word))
        draft.emit(*delay_slot(draft, address, kind))
        if back is not None and self._skipped(block, back) == 1:
            draft.emit(raw(draft.word(block.end)))

    def _made(self, block: Block, address: int, kind: TransferKind, direct: int) -> None:
        """Make the old return address here, where the call's old place leads elsewhere."""
        draft = self._draft
        word = draft.word(address)
        sources = {word >> 14 & 31} | (set() if word & 1 << 13 else {word & 31})
        if direct < 0 and R.O7 in sources:
            raise NotRewritableError(f"the call at {address:#x} reads its own return address")
        draft.emit(*constant(address, R.O7))
        if direct < 0:  # a jmpl that leaves no address
            draft.emit(Instruction(f"the call at {address:#x}", word & ~(31 << 25)))
        else:
            draft.emit(asm.branch("a", draft.program.label_of(direct)))
        draft.emit(*delay_slot(draft, address, kind))
