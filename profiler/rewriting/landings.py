"""Where a call returns to, and something lands, too: `longjmp`, an exception.

A landing begins a new activation, along an ENTRY edge; both have one address. Where the routine's
frame has a constant size, a word of it says whether the call is under way: it is set before the
call, and cleared behind it, at the `save` and where something lands. Else the result of the call
tells: `setjmp` returns zero, and `longjmp` something else. That of `getcontext` does not.
"""

from __future__ import annotations

from functools import cached_property

from simprof.profiler.code.frames import FRAME_SLOTS, Slot
from simprof.profiler.code.registers import members
from simprof.profiler.graphs.cfg import Block, Edge, EdgeKind
from simprof.profiler.rewriting.charges import Cause
from simprof.profiler.rewriting.draft import Draft, NotRewritableError
from simprof.profiler.rewriting.placing import SchemeCode
from simprof.profiler.rewriting.transfers import jump
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Label, Register, fits_simm13

R = Register


class Landings:
    """The ways into one routine, and the tests behind its calls."""

    def __init__(self, draft: Draft, scheme: SchemeCode) -> None:
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

        Parameters
        ----------
        back
            The edge behind the call.
        result
            The register that is zero where `setjmp` returns.
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
