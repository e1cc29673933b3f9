"""Calls in a copy: made from there, or from their old places (`draft.CallPlaces` says why).

Constants of thunks: position-independent code learns where its tables are from

    sethi %hi(distance), %l7
    call  thunk                   ! retl; add %o7, %l7, %l7
    add   %l7, %lo(distance), %l7

where *distance* is how far the tables are from the call. A call in a copy leaves another address,
and so has another distance: the same three instructions, of which two have other constants. A
negative distance takes `xor` in place of `add`, which puts ones above the 32 bits of `sethi`.

Landings: where a call returns to, `longjmp` or an exception may land, too. A landing begins a new
activation, along an ENTRY edge; both have one address. Where the routine's frame has a constant
size, a word of it says whether the call is under way: it is set before the call, and cleared behind
it, at the `save` and where something lands. Else the result of the call tells: `setjmp` returns
zero, and `longjmp` something else. That of `getcontext` does not.
"""

from __future__ import annotations

from functools import cached_property

from simprof.profiler.code.frames import FRAME_SLOTS, Slot
from simprof.profiler.code.registers import mask, members
from simprof.profiler.graphs.cfg import Block, Edge, EdgeKind
from simprof.profiler.rewriting.draft import (
    Cause,
    CopyDraft,
    NotRewritableError,
    ThunkCall,
    constant,
    jump,
    raw,
    retargeted,
)
from simprof.profiler.rewriting.jumps import delay_slot
from simprof.profiler.rewriting.placing import PlacedCode
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register, fits_simm13
from simprof.simulator.isa.decode import TransferKind, simm13

R = Register


class RoutineEntries:
    """The ways into one routine, and the tests behind its calls."""

    def __init__(self, draft: CopyDraft, scheme: PlacedCode) -> None:
        self._draft, self._scheme = draft, scheme
        self._landed: set[int] = set()
        is64 = draft.context.is64
        self._load, self._store = ("ldx", "stx") if is64 else ("ld", "st")

    @cached_property
    def words(self) -> dict[int, Slot]:
        """Edge behind a call at whose return point something lands, too -> a word of the frame."""
        draft, abi = self._draft, self._draft.context.abi
        asked = [
            edge
            for edge in draft.cfg.edges
            if edge.kind is EdgeKind.CALL_RETURN
            and draft.entry_edges(edge.target)
            and draft.is_inside(edge.target)
        ]
        if draft.frames.frame_size is None:
            return {}
        top = abi.bias - draft.frames.frame_size + abi.minimum_frame - 8 * FRAME_SLOTS
        slots = {edge.id: Slot(R.FP, top - 8 * (k + 1)) for k, edge in enumerate(asked)}
        return slots if all(fits_simm13(slot.offset) for slot in slots.values()) else {}

    def nothing_under_way(self) -> list[Instruction]:
        """Clear the words."""
        return [self._set(slot, R.G0) for slot in self.words.values()]

    def _set(self, slot: Slot, register: Register) -> Instruction:
        return asm.store(self._store, register, slot.base, slot.offset)

    def under_way(self, block: Block) -> None:
        """Note in the frame that the call of a block is under way, if somebody will ask."""
        back = self._draft.out(block.id, EdgeKind.CALL_RETURN)
        slot = None if back is None else self.words.get(back.id)
        if slot is not None:
            self._draft.emit(self._set(slot, R.SP))
            self._draft.charge(Cause.LANDINGS, 1, block=block.id)

    def way_in(self, edge: int, block: int) -> str:
        """Return where control goes that enters along an ENTRY edge.

        Where it lands in a frame, no call of that frame is under way any more.
        """
        draft = self._draft
        label = self._scheme.way_along(edge, block)
        is_start = draft.block(block).start == draft.cfg.address
        if not draft.is_inside(block) or not self.words or is_start:
            return label
        landed = draft.label("landed", edge)
        if edge not in self._landed:
            self._landed.add(edge)
            draft.put_behind(Label(landed), *self.nothing_under_way(), jump(label))
            draft.charge(Cause.LANDINGS, len(self.words) + 1, edge=edge)
        return landed

    def test(self, back: Edge, result: Register) -> None:
        """Test whether control comes back from a call, or lands there.

        `back`: The edge behind the call. `result`: The register that is zero where `setjmp`
        returns.
        """
        draft = self._draft
        if not draft.entry_edges(back.target):
            return
        (entry,) = draft.entry_edges(back.target)
        label = self.way_in(entry, back.target)
        slot = self.words.get(back.id)
        if slot is None:
            if draft.codes[back.source].target in draft.program.contexts:
                raise NotRewritableError("nothing tells whether its call of getcontext returns")
            cost = self._branch_on_result(result, label)
        else:
            register = self._free_register(back.target)
            draft.emit(asm.load(self._load, slot.base, slot.offset, register))
            draft.emit(self._set(slot, R.G0))
            cost = 2 + self._branch(register, label, is_zero=True)
        draft.charge(Cause.LANDINGS, cost, edge=back.id)
        draft.charge(Cause.LANDINGS, cost + 1, edge=entry)
        draft.arrive(draft.block(back.target).start, edge=entry)

    def _branch_on_result(self, result: Register, label: str) -> int:
        extends = self._draft.context.machine is MachineKind.SPARCV8PLUS
        if extends:
            self._draft.emit(asm.shift("sra", result, 0, result))
        return extends + self._branch(result, label, is_zero=False)

    def _branch(self, register: Register, label: str, *, is_zero: bool) -> int:
        """Branch if a register is zero, or is not; return what that costs where it is not taken."""
        if self._draft.context.machine is MachineKind.SPARCV8:
            condition = "e" if is_zero else "ne"
            branch = asm.branch(condition, label, annul=True)
            self._draft.emit(asm.cmp(register, 0), branch, asm.nop())
            return 2
        condition = "z" if is_zero else "nz"
        branch = asm.branch_register(condition, register, label, annul=True, taken=False)
        self._draft.emit(branch, asm.nop())
        return 1

    def _free_register(self, block: int) -> Register:
        """Return a register that is dead where a call returns."""
        abi = self._draft.context.abi
        live = self._draft.liveness.live_before(block, 0)
        found = next(members(~(live | abi.reserved), abi.caller_saved), None)
        if found is None:
            raise NotRewritableError("no register is free where a call returns")
        return found


_RETL = 0x81C3E008
_ADD, _OR, _O7 = 0x00, 0x02, 15


def thunk_call(draft: CopyDraft, block: Block) -> ThunkCall | None:
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


def _added_to(draft: CopyDraft, target: int) -> Register | None:
    """Return the register to which the thunk at an address adds its return address."""
    if draft.program.code.index(target) < 0 or draft.word(target) != _RETL:
        return None
    word = draft.word(target + 4)
    register = word >> 25 & 31
    if word >> 30 != 2 or word >> 19 & 63 != _ADD or word & 0x3FE0:
        return None
    is_sum = sorted((word >> 14 & 31, word & 31)) == sorted((register, _O7))
    return Register(register) if is_sum and register not in (0, _O7) else None


RETURNED = R.O0
"""Zero where setjmp returns, something else where longjmp lands."""
CALLS = (TransferKind.CALL, TransferKind.INDIRECT_CALL, TransferKind.JUMP_AND_LINK)


class CallCopies:
    """Copies the calls of one routine."""

    def __init__(self, draft: CopyDraft, landings: RoutineEntries) -> None:
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
