"""Calls and software traps in a copy.

Calls are made from the copy, or from their old places (`draft.CallPlaces` says why).

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
it, at the `save` and where something lands. Else, and behind `setjmp` in 32-bit programs, the
result of the call tells: `setjmp` returns zero, and `longjmp` something else. That of `getcontext`
does not.

Software traps: the run-time code takes over where one ends the program, and makes the system calls
that say what a signal does (`elsewhere/runtime.c`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cached_property

from simprof.profiler.code.frames import FRAME_SLOTS, Slot
from simprof.profiler.code.registers import mask, members
from simprof.profiler.graphs.cfg import ENTRIES, Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.recovery.calls import CLEARS_G1
from simprof.profiler.recovery.idioms import writes_integer
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.rewriting.draft import (
    Cause,
    CopyDraft,
    NotRewritableError,
    ThunkCall,
    constant,
    entry_label,
    jump,
    raw,
    retargeted,
)
from simprof.profiler.rewriting.elsewhere.runtime import EXIT as EXIT_ROUTINE
from simprof.profiler.rewriting.elsewhere.runtime import call_site
from simprof.profiler.rewriting.jumps import delay_slot
from simprof.profiler.rewriting.placing import PlacedCode
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register, fits_simm13
from simprof.simulator.isa.decode import TransferKind, simm13
from simprof.simulator.isa.sparc import SYSTEM_CALL_TRAP

R = Register


class RoutineEntries:
    """The ways into one routine, and the tests behind its calls."""

    def __init__(
        self, draft: CopyDraft, scheme: PlacedCode, first: RoutineEntries | None = None
    ) -> None:
        # first: Those of the first copy of a routine of which this is the second: all ways in lead
        # there.
        self._draft, self._scheme, self._first = draft, scheme, first
        self._landed: set[int] = set()
        is64 = draft.context.is64
        self._load, self._store = ("ldx", "stx") if is64 else ("ld", "st")

    @cached_property
    def words(self) -> dict[int, Slot]:
        """Edge behind a call at whose return point something lands, too -> a word of the frame."""
        draft = self._draft
        # glibc's 32-bit longjmp looks how far apart frames are: those of its targets do not grow
        by_result = frozenset[int]() if draft.context.is64 else draft.program.setjmps
        asked = [
            edge
            for edge in draft.cfg.edges
            if edge.kind is EdgeKind.CALL_RETURN
            and draft.entry_edges(edge.target)
            and draft.codes[edge.source].target not in by_result
            and draft.is_inside(edge.target)
        ]
        if draft.frames.frame_size is None:
            return {}
        slots = {edge.id: self._word(number) for number, edge in enumerate(asked)}
        return slots if all(fits_simm13(slot.offset) for slot in slots.values()) else {}

    def _word(self, number: int) -> Slot:
        abi, size = self._draft.context.abi, self._draft.frames.frame_size
        assert size is not None
        top = abi.bias - size + abi.minimum_frame - 8 * FRAME_SLOTS
        return Slot(R.FP, top - 8 * (number + 1))

    def note_copy(self, block: Block) -> None:
        """Note in the frame which of two copies makes the call of a block from its old place."""
        draft = self._draft
        at = draft.codes[block.id].transfer or 0
        has_frame = draft.frames.frame_size is not None
        has_frame = has_frame and draft.frames.before(block.id, at).depth == 1
        if not has_frame or not fits_simm13(self._word(len(self.words)).offset):
            raise NotRewritableError("the code does not show which of its copies makes a call")
        draft.emit(self._set(self._word(len(self.words)), R.SP if draft.body else R.G0))
        draft.charge(Cause.CALLS, 1, block=block.id, address=at)

    def find_copy(self, back: Edge) -> None:
        """Go on behind a call in the copy that has made it."""
        draft, slot = self._draft, self._word(len(self.words))
        returned = f"returned.{back.id}"
        if not draft.is_inside(back.target):
            raise NotRewritableError("the code does not show to which of its copies a call returns")
        register = self._free(back)
        code: list[Item] = [asm.load(self._load, slot.base, slot.offset, register)]
        if draft.context.machine is MachineKind.SPARCV8:
            code += [asm.cmp(register, 0), asm.branch("ne", f"{draft.other}.{returned}")]
        else:
            code += [asm.branch_register("nz", register, f"{draft.other}.{returned}")]
        code.append(asm.nop())
        for edge in (back.id, *draft.entry_edges(back.target)):
            draft.charge(Cause.CALLS, len(code), edge=edge)
        draft.emit(*(() if draft.body else code), Label(f"{draft.prefix}.{returned}"))

    def _free(self, back: Edge) -> Register:
        """Return a register that is free where a call returns."""
        reserved = (
            self._draft.liveness.live_before(back.target, 0) | self._draft.context.abi.reserved
        )
        register = next(members(~reserved, self._draft.context.abi.caller_saved), None)
        if register is None:
            raise NotRewritableError("no register is free where a call returns")
        return register

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
            at = self._draft.codes[block.id].transfer
            self._draft.charge(Cause.LANDINGS, 1, block=block.id, address=at)

    def way_in(self, edge: int, block: int) -> str:
        """Return where control goes that enters along an ENTRY edge.

        Where it lands in a frame, no call of that frame is under way any more.
        """
        if self._first is not None:
            return self._first.way_in(edge, block)
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
        """Test whether control comes back from a call, or lands there."""
        # back: The edge behind the call.
        # result: The register that is zero where `setjmp` returns.
        draft = self._draft
        if not draft.entry_edges(back.target):
            return
        (entry,) = draft.entry_edges(back.target)
        label = self.way_in(entry, back.target)
        slot = self.words.get(back.id)
        if slot is None:
            if draft.codes[back.source].target in draft.program.contexts:
                raise NotRewritableError(
                    "the code does not show whether its call of getcontext returns"
                )
            extends = draft.context.machine is MachineKind.SPARCV8PLUS
            if extends:
                draft.emit(asm.shift("sra", result, 0, result))
            cost = extends + self._branch(result, label, is_zero=False)
        else:
            register = self._free(back)
            draft.emit(asm.load(self._load, slot.base, slot.offset, register))
            draft.emit(self._set(slot, R.G0))
            cost = 2 + self._branch(register, label, is_zero=True)
        draft.charge(Cause.LANDINGS, cost, edge=back.id)
        draft.charge(Cause.LANDINGS, cost + 1, edge=entry)
        draft.arrive(draft.block(back.target).start, edge=entry)

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


RETURNED = R.O0  # Zero where setjmp returns, something else where longjmp lands
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
        base = f"{self._draft.prefix}.base.{call.address:x}"
        self._draft.copy.thunk_calls.append((base, self._call_label(call.address), call))
        return [Label(base)]

    def _call_label(self, address: int) -> str:
        return f"{self._draft.prefix}.call.{address:x}"

    def write(self, block: Block, address: int, kind: TransferKind, target: int) -> None:
        """Write the call that ends a block, and what is behind it."""
        draft = self._draft
        back = draft.out(block.id, EdgeKind.CALL_RETURN)
        direct = target if kind is TransferKind.CALL else -1
        stays = self._staying(block)
        comes_back = kind is not TransferKind.JUMP_AND_LINK and back is not None
        far = 8 if back is None else 8 + 4 * self._skipped(block, back)
        edges = (draft.cfg.edges[edge].kind for edge in draft.cfg.out_edges[block.id])
        several = sum(each is EdgeKind.CALL_RETURN for each in edges) > 1  # as a run has shown
        if several or (comes_back and draft.program.calls.harms(target, far)):
            raise NotRewritableError(
                f"the callee of {address:#x} may return elsewhere than after the call, "
                "or read its code"
            )
        if direct >= 0:
            draft.arrive(direct, block=block.id, at=address)
        self._landings.under_way(block)
        if stays is not None and back is not None and draft.other:
            self._landings.note_copy(block)
        if stays is None:
            self._moved(block, address, kind, direct)
        elif {address, address + 4} & (self._entered | draft.spill.edits.keys()):
            # What the old code has there is entered, or names spilled registers.
            self._made(block, address, kind, direct)
            draft.charge(stays, 2, block=block.id, address=address)
        else:
            draft.copy.kept_calls[address] = direct if direct >= 0 else None
            draft.emit(jump(f"old.{address:x}"))
            draft.charge(stays, 1, block=block.id, address=address)
        if back is None:
            if stays is None:  # for a call that returns against all signs
                draft.emit(*draft.spill.reloads(draft.context.is64))
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
        if draft.other:
            self._landings.find_copy(back)

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
        kinds = (*ENTRIES, EdgeKind.SWITCH)
        places = {edge.target for edge in draft.cfg.edges if edge.kind in kinds}
        return self.returned_to | {draft.block(block).start for block in places}

    def _moved(self, block: Block, address: int, kind: TransferKind, direct: int) -> None:
        """Call from the copy: the return address is new."""
        draft = self._draft
        word, back = draft.word(address), draft.out(block.id, EdgeKind.CALL_RETURN)
        draft.emit(Label(self._call_label(address)))
        draft.emit(retargeted(word, kind, entry_label(direct)) if direct >= 0 else raw(word))
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
            draft.emit(asm.branch("a", entry_label(direct)))
        draft.emit(*delay_slot(draft, address, kind))


# Zero behind the trap with which the 64-bit setjmp saves the context, unless longjmp lands.
CONTEXT_SAVED = Register.G1


def write_trap(
    draft: CopyDraft, landings: RoutineEntries, block: Block, address: int, keeps_words: bool
) -> None:
    """Write the trap that ends a block; `keeps_words`: the copy's code keeps values in the frame.

    Raises NotRewritableError where two would keep theirs in one frame.
    """
    word, is64 = draft.word(address), draft.context.is64
    if address > block.start and draft.program.code.delays(address - 4):
        # the block's own transfer is before it, and what code here needs would be its delay slot
        raise NotRewritableError(f"the delay slot at {address:#x} is a trap")
    ending = ending_of([draft.word(a) for a in range(block.start, address + 4, 4)], is64)
    if ending is TrapEnding.EXITS:
        draft.emit(jump(EXIT_ROUTINE))
        draft.charge(Cause.SYSTEM_CALLS, 1, block=block.id, address=address)
        draft.copy.endings.append(block.id)
        return
    if ending is TrapEnding.SHARES and keeps_words:
        # Behind the trap both execute this routine at once, on registers of their own, but with one
        # %fp: each would find what the other has saved.
        raise NotRewritableError(
            f"code keeps values in the frame that the thread started at {address:#x} has, too"
        )
    if ending is TrapEnding.UNKNOWN:
        _test_number(draft, block, address)
    if trap_number(word) == SYSTEM_CALL_TRAP[is64]:
        draft.emit(Label(f"{draft.prefix}.call.{address:x}"))
    if ending is TrapEnding.ACTS:
        site = call_site(draft.context.machine)
        draft.emit(*site)
        # what it calls executes the trap
        draft.charge(Cause.SYSTEM_CALLS, len(site) - 1, block=block.id, address=address)
    else:
        draft.emit(raw(word))
    if ending is TrapEnding.UNKNOWN:
        draft.emit(Label(draft.label("behind", block.id)))
    onward = draft.out(block.id, EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
    if onward is not None and trap_number(word) == GET_CONTEXT and is64:
        if draft.word(address - 4) in CLEARS_G1:
            landings.test(onward, CONTEXT_SAVED)
        elif sum(edge.kind in ENTRIES for edge in draft.cfg.edges) > 1:
            raise NotRewritableError(
                "the code does not show whether its trap of getcontext has returned"
            )


def _test_number(draft: CopyDraft, block: Block, address: int) -> None:
    """Leave for the run-time code if %g1 is the number of a system call that it makes.

    The flags are the kernel's to change here. All ways execute as many instructions.
    """
    machine = draft.context.machine
    ends, acts = draft.label("ends", block.id), draft.label("acts", block.id)
    numbers = ACTIONS[draft.context.is64]
    tests: list[Item] = []
    ways: list[Item] = []
    for number in numbers:
        tests += [asm.cmp(Register.G1, number), asm.branch("e", f"{acts}.{number}")]
        ways += [Label(f"{acts}.{number}"), asm.nop(), asm.nop()]  # in place of the next test
    draft.emit(
        asm.cmp(Register.G1, EXIT_GROUP),
        asm.branch("e", f"{ends}.group"),
        asm.cmp(Register.G1, EXIT),
        asm.branch("e", ends),
        *tests,
        asm.nop(),
    )
    draft.put_behind(Label(f"{ends}.group"), asm.nop(), asm.nop())
    draft.put_behind(Label(ends), *(asm.nop() for _ in tests[1:]), jump(EXIT_ROUTINE))
    site = [*call_site(machine), jump(draft.label("behind", block.id))]
    draft.put_behind(*ways[:-2], *site)
    draft.charge(Cause.SYSTEM_CALLS, 5 + len(tests), block=block.id, address=address)
    draft.copy.actions[address] = len(site) - 1


GET_CONTEXT = 0x6E  # The trap with which the 64-bit setjmp saves its context
EXIT, EXIT_GROUP = 1, 188  # Numbers of the system calls that end the program
# Numbers of the system calls that install handlers, by whether the program is 64 bits wide.
ACTIONS = {True: (102,), False: (102, 198)}
# Numbers of the system calls that start what executes in the same memory: vfork, clone.
SHARING = (66, 217)
_G1 = 1
_TRAP = 0x3A


class TrapEnding(Enum):
    """Whether a trap ends the program, says what a signal does, or starts a thread."""

    GOES_ON = "goes on"
    EXITS = "exits"
    ACTS = "acts on signals"
    SHARES = "shares its frame"
    UNKNOWN = "unknown"


def trap_number(word: int) -> int | None:
    """Return the number of a trap whose number is in the instruction, None for others."""
    if word >> 14 & 31 or not word & 1 << 13:
        return None
    return word & 0x7F


def ending_of(words: Sequence[int], is64: bool) -> TrapEnding:
    """Tell what the trap that is the last of `words` does.

    `words` is a block; a number that it does not put into %g1 itself is unknown.
    """
    if trap_number(words[-1]) != SYSTEM_CALL_TRAP[is64]:
        return TrapEnding.GOES_ON
    number = _number(words[:-1])
    if number < 0:
        return TrapEnding.UNKNOWN
    if number in ACTIONS[is64]:
        return TrapEnding.ACTS
    if number in SHARING:
        return TrapEnding.SHARES
    return TrapEnding.EXITS if number in (EXIT, EXIT_GROUP) else TrapEnding.GOES_ON


_NOT_THERE, _NOT_CONSTANT = -1, -2


def _number(words: Sequence[int]) -> int:
    """Return the number that instructions leave in %g1, or why they do not tell."""
    for word in reversed(words):
        if word >> 30 == 1 or word >> 25 & 31 != _G1 or not writes_integer(word):
            continue
        is_constant = word >> 30 == 2 and word >> 19 & 0x3F in (0, 2)
        if is_constant and word >> 14 & 31 == 0 and word & 1 << 13:
            return word & 0x1FFF
        return _NOT_CONSTANT
    return _NOT_THERE


def acts_on_signals(recovered: ProgramGraphs, routines: Iterable[int]) -> bool:
    """Whether one of `routines`, by number, may make a system call that installs a handler."""
    is64 = recovered.program.is64
    acting = {*ACTIONS[is64], _NOT_CONSTANT}
    for number in routines:
        cfg = recovered.routines[number]
        for block in cfg.blocks:
            last = recovered.code.words_of(block)[-1]
            makes = (
                last >> 30 == 2
                and last >> 19 & 0x3F == _TRAP
                and trap_number(last) == SYSTEM_CALL_TRAP[is64]
            )
            if makes and _numbers(recovered, cfg, block.id) & acting:
                return True
    return False


def _numbers(recovered: ProgramGraphs, cfg: ControlFlowGraph, trap: int) -> set[int]:
    """Return the numbers that %g1 may hold at the trap that ends a block, whatever leads there."""
    found: set[int] = set()
    seen, work = {trap}, [trap]
    while work:
        block = work.pop()
        words = recovered.code.words_of(cfg.blocks[block])
        number = _number(words[:-1] if block == trap else words)
        if number != _NOT_THERE:
            found.add(number)
            continue
        for edge in map(cfg.edges.__getitem__, cfg.in_edges[block]):
            if edge.kind in (*ENTRIES, EdgeKind.CALL_RETURN):
                found.add(_NOT_CONSTANT)
            elif edge.source not in seen:
                seen.add(edge.source)
                work.append(edge.source)
    return found
