"""The copy of one routine while it is made: its transfers, what it is charged, and its names.

Charges: a copy executes the original's instructions and the scheme's code. Whatever it executes
beyond these is charged where the copy is made, by cause, to the edge or block whose crossing or
execution executes it, so that a run's counts give the sum exactly.

Return addresses: a call in a copy leaves an address in the copy, which is no matter for callees
that only return there. Four kinds of callees mind (`CallPlaces`):

- a *thunk* computes addresses from it (`add %o7, %l7, %l7`: position-independent code begins so);
- unwinding (C++ exceptions, backtraces) looks it up in the frame tables of the old code, and those
  of all callers further up the stack;
- routines that look at where they were called from (`rewriting.callers`);
- routines that read what lies behind the call (`recovery.return_addresses`);
- code whose call returns at a distance (`add %o7, 12, %o7` in the delay slot), or whose callee does
  (`jmp %o7 + 12`), except over the one word that marks 32-bit calls of functions with structures.

Such a call stays at its old place: the copy goes there, and the old return point leads back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

import numpy as np
from msgspec import Struct, field

from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.spilling import NO_SPILL, Spill
from simprof.profiler.graphs.cfg import ENTRIES, Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.profiles.profile import CutBlock
from simprof.profiler.recovery.calls import CONTEXTS, RETURNING_TWICE, call_sites
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.recovery import UNKNOWN_BLOCK, ProgramGraphs
from simprof.profiler.recovery.return_addresses import Use
from simprof.profiler.recovery.routines import are_held
from simprof.profiler.rewriting.callers import looking
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Fixup, FixupKind, Instruction, Item, Label, Register
from simprof.simulator.isa.decode import RETURN_OFFSETS, TransferKind

# The bits of a word that say where a direct transfer goes
FIELDS = {
    FixupKind.DISP30: 0x3FFFFFFF,
    FixupKind.DISP22: 0x3FFFFF,
    FixupKind.DISP19: 0x7FFFF,
    FixupKind.DISP16: 0x303FFF,
}
_SHORT = (FixupKind.DISP19, FixupKind.DISP16)
_ANNUL = 1 << 29
ARITHMETIC = 2  # The highest two bits of arithmetic, `save` and `rd`
_READ_PC = 5  # the state register that `rd %pc` names


class ThunkCall(Struct, frozen=True):
    """A call of a thunk with the constant before it."""

    address: int  # Where the old call is; the constant is made before it and in its delay slot.
    register: Register  # What the thunk adds the return address to
    distance: int  # What it adds, from the old call

    def words(self, new: int) -> tuple[int, int]:
        """Return the constant's two instructions for a call at `new`."""
        distance = self.distance + self.address - new
        low = distance & 0x3FF
        if distance >= 0:
            second = asm.arithmetic("add", self.register, low, self.register)
            return asm.sethi(distance, self.register).word, second.word
        first = asm.sethi(~distance & 0xFFFFFFFF, self.register)
        second = asm.arithmetic("xor", self.register, low - 0x400, self.register)
        return first.word, second.word


def raw(word: int) -> Instruction:
    """Return a word of the program as it stands."""
    return asm.data_word(word)


def displacement_kind(word: int) -> FixupKind:
    """Return which field of a direct call or branch says where it goes."""
    if word >> 30 == 1:
        return FixupKind.DISP30
    op2 = word >> 22 & 7
    if op2 == 3:
        return FixupKind.DISP16
    return FixupKind.DISP19 if op2 in (1, 5) else FixupKind.DISP22


def retargeted(word: int, kind: TransferKind, label: str) -> Instruction:
    """Return a direct call or branch that goes to `label`.

    One that is always taken becomes `ba`, which reaches 8 MB whatever it was before.
    """
    if kind is TransferKind.BRANCH_ALWAYS:
        return asm.branch("a", label, annul=is_annulled(word))
    field = displacement_kind(word)
    return Instruction(f".word {word:#010x} -> {label}", word & ~FIELDS[field], Fixup(field, label))


def is_annulled(word: int) -> bool:
    """Whether a branch has its annul bit set; a call, which may be a jump over data, has none."""
    return word >> 30 == 0 and bool(word & _ANNUL)


def is_short(word: int, kind: TransferKind) -> bool:
    """Whether a branch reaches less far than other routines may be."""
    return kind is TransferKind.BRANCH and displacement_kind(word) in _SHORT


def jump(label: str) -> Instruction:
    """Return the one word that goes to `label` and changes nothing: `ba,a label`."""
    return asm.branch("a", label, annul=True)


def reads_pc(word: int) -> bool:
    """Whether a word is `rd %pc`."""
    return word >> 30 == 2 and word >> 19 & 63 == 0x28 and word >> 14 & 31 == _READ_PC


def constant(value: int, register: Register) -> tuple[Instruction, Instruction]:
    """Return the two instructions that make an address below 4 GB, whatever its bits are."""
    return (
        asm.sethi(value, register),
        asm.arithmetic("or", register, value & 0x3FF, register),
    )


class Cause(StrEnum):
    """Why an instruction is executed that is neither the program's nor the scheme's."""

    # `ba,a` in the old code, where a routine is entered by an address: through a pointer, by the
    # kernel, by a landing, or from code that is not copied.
    ENTRIES = "entries"
    JUMP_TABLES = "jump-tables"  # `ba,a` in the old code at the target of a jump table
    JUMP_CHECKS = "jump-checks"  # The test of a jump of which only a run has told where it leads
    FLUSHES = "flushes"  # The test before `flush` whether the program changes code that is copied
    # A call from its old place, so that it leaves its old return address: there, and back.
    CALLS = "old-return-addresses"
    # Code that reads the program counter, and must read the old one.
    PROGRAM_COUNTERS = "program-counters"
    # `add` behind a `save` whose frame is too large to grow in the instruction itself.
    FRAMES = "frames"
    LANDINGS = "re-entry-points"  # The test whether a call returns, or `longjmp` lands behind it
    LINES = "lines"  # `ba,a` where code ran on into other code that its copy is not next to
    LONG_BRANCHES = "long-branches"  # `ba,a` on the way of a branch that does not reach its target
    # The test whether a system call ends the program, and the way to the run-time code.
    SYSTEM_CALLS = "system-calls"
    START = "start-up"  # The code before the program's first instruction
    DUMP = "writing-counters"  # The code that writes the counters


class Charge(Struct, frozen=True):
    """`instructions` more each time an edge is crossed or a block executed."""

    cause: Cause
    instructions: int
    # edge, block: Which; one of them is None.
    edge: int | None = None
    block: int | None = None
    at: int = -1  # Behind how many of the block's instructions; -1: before all code of the block

    def times(
        self, edges: Sequence[int], executions: Sequence[int], cut: Iterable[CutBlock] = ()
    ) -> int:
        """Return how often a run comes there, given its counts by edge and by block."""
        # cut: The executions of blocks that did not come to their end
        if self.edge is not None:
            return edges[self.edge]
        missed = (e.count for e in cut if e.block == self.block and e.executed <= self.at)
        return executions[self.block or 0] - sum(missed)


def charged(
    charges: Sequence[Charge],
    edges: Sequence[int],
    executions: Sequence[int],
    cut: Sequence[CutBlock] = (),
) -> Counter[Cause]:
    """Return what charges amount to in a run."""
    # edges, executions: How often each edge was crossed, each block executed, by id; cut: see
    # `Charge.times`.
    total: Counter[Cause] = Counter()
    for charge in charges:
        total[charge.cause] += charge.instructions * charge.times(edges, executions, cut)
    return total


# Routines of the run-time library that read the return addresses of all callers. Not among them:
# `_Unwind_Resume`, which only goes on with what one of these began.
# `_Unwind_ForcedUnwind` ends threads: pthread_exit, pthread_cancel.
UNWINDERS = frozenset(
    "_Unwind_RaiseException _Unwind_Resume_or_Rethrow _Unwind_Backtrace "
    "_Unwind_ForcedUnwind".split()
)
_O7 = 15
# `jmp %o7 + 8`, `jmp %i7 + 8`, `return %i7 + 8`; the same with 12.
_USUAL_RETURNS = (0x81C3E008, 0x81C7E008, 0x81CFE008)
_SKIPPING_RETURNS = (0x81C3E00C, 0x81C7E00C, 0x81CFE00C)
_ADDITIVE = frozenset({0x00, 0x04, 0x08, 0x0C, 0x10, 0x14})  # add, sub and their variants


def entry_label(address: int) -> str:
    """Return the name of what is entered at an old address (`program.LabelAddresses`)."""
    return f"entry.{address:x}"


class CallPlaces:
    """Where the calls of a program must stay."""

    def __init__(self, recovered: ProgramGraphs, contexts: ProgramContexts) -> None:
        self._recovered, self._contexts = recovered, contexts
        self._code = recovered.code

    def reason(self, target: int) -> Cause | None:
        """Return why a call must be made from its old place, None where it need not.

        `target` is the address of its callee, -1 where only the run tells it.
        """
        if self._uses(target):
            return Cause.CALLS
        callee = self._routine(target)
        if callee in self._thunks:
            return Cause.PROGRAM_COUNTERS
        if self._asked_by_pointers if callee is None else callee in self._asking:
            return Cause.CALLS
        unwinds = bool(self._roots) if callee is None else callee in self._unwinding
        return Cause.CALLS if unwinds else None

    def _uses(self, target: int) -> Sequence[Use]:
        """Return what callees may do with their return address that is unusual (`reason`)."""
        if target < 0:
            return self._held_uses
        use = self._code.return_uses.get(self._code.index(target))
        return () if use is None else (use,)

    @cached_property
    def _held_uses(self) -> Sequence[Use]:
        """What routines do whose address the program has, so that it may call them through it."""
        uses, code = self._code.return_uses, self._code
        if not uses:
            return ()
        starts = code.place.addresses(np.array(list(uses), np.int64))
        held = are_held(self._recovered.program, code, starts).tolist()
        return [use for use, is_held in zip(uses.values(), held, strict=True) if is_held]

    def harms(self, target: int, distance: int) -> bool:
        """Whether a callee may return elsewhere than `distance` behind the call, or read a word of
        the old code that changes: the call, or where it returns.
        """
        changed = {*range(8), *range(distance, distance + 4)}
        is_known = distance != RETURN_OFFSETS[0]  # a run, or the callee, has shown it
        # 32-bit callees that return structures skip a word at each of their returns, or at none.
        is_mixed = self.skips(target) and self._routine(target) in self._usual
        return is_mixed or any(
            not use.returns <= ({distance, None} if is_known else {distance})
            or not use.reads.isdisjoint(changed)
            for use in self._uses(target)
        )

    def skips(self, target: int) -> bool:
        """Whether the callee at an address returns one word later than others do."""
        return self._routine(target) in self._skipping

    def _routine(self, address: int) -> int | None:
        block = self._recovered.block_starting_at(address) if address >= 0 else UNKNOWN_BLOCK
        return None if block == UNKNOWN_BLOCK else self._recovered.routine_of_block(block)

    @cached_property
    def _thunks(self) -> frozenset[int]:
        routines = enumerate(self._recovered.routines)
        return frozenset(n for n, cfg in routines if self._reads_return_address(n, cfg))

    def _reads_return_address(self, number: int, cfg: ControlFlowGraph) -> bool:
        """Whether a routine adds its return address to another register.

        Behind a `save` %o7 is a register like others, or the return address of a call.
        """
        if any(
            block.start <= a < block.end
            for a in self._recovered.call_aliases
            for block in cfg.blocks
        ):
            return False
        for block in cfg.blocks:
            for position, word in enumerate(self._code.words_of(block)):
                if _adds_return_address(word) and not self._is_inside(number, block.id, position):
                    return True
        return False

    @cached_property
    def _skipping(self) -> frozenset[int | None]:
        return self._returning(_SKIPPING_RETURNS)

    @cached_property
    def _usual(self) -> frozenset[int | None]:
        return self._returning(_USUAL_RETURNS)

    def _returning(self, instructions: tuple[int, ...]) -> frozenset[int | None]:
        """Return the routines with some of these instructions."""
        places = np.flatnonzero(np.isin(self._code.words, instructions)).tolist()
        routines = self._recovered.routine_at
        return frozenset(routines(self._code.base + 4 * place) for place in places)

    def _is_inside(self, number: int, block: int, position: int) -> bool:
        """Whether the routine's own window is open before an instruction, for certain."""
        analysis = self._contexts.of(number).analysis
        return analysis is not None and analysis.frames.before(block, position).depth == 1

    @cached_property
    def _callers(self) -> dict[int, set[int]]:
        callers: dict[int, set[int]] = defaultdict(set)
        for call in call_sites(self._recovered):
            callers[call.callee].add(call.caller)
        return callers

    @cached_property
    def _looking(self) -> tuple[set[int], set[int]]:
        return looking(self._recovered, self._contexts)

    @cached_property
    def _asking(self) -> frozenset[int]:
        """Routines that ask where they are called from, and those that end with a jump to one."""
        found = set(self._looking[0])
        tail_calls = [call for call in call_sites(self._recovered) if call.kind == "tail-call"]
        while more := {c.caller for c in tail_calls if c.callee in found} - found:
            found |= more
        return frozenset(found)

    @cached_property
    def _asked_by_pointers(self) -> bool:
        """Whether calls through pointers may lead to one of these."""
        return bool(self._held(self._asking))

    def _held(self, routines: Iterable[int]) -> frozenset[int]:
        """Return those of some routines whose address the program holds."""
        numbers = list(routines)
        addresses = self._recovered.arrays.addresses[np.array(numbers, dtype=np.int64)]
        held = are_held(self._recovered.program, self._code, addresses).tolist()
        return frozenset(n for n, is_held in zip(numbers, held, strict=True) if is_held)

    @cached_property
    def _roots(self) -> frozenset[int]:
        """The unwinders, and routines like them, that something calls; all routines of a program
        without names.
        """
        routines = self._recovered.routines
        if not any(symbol.is_function for symbol in self._recovered.program.symbols):
            return frozenset(range(len(routines)))
        named = {number for number, cfg in enumerate(routines) if cfg.name in UNWINDERS}
        walks = self._looking[1] - named
        roots = named | walks
        called = {number for number in roots if self._callers.get(number, set()) - roots}
        return self._held(walks) | called

    @cached_property
    def _unwinding(self) -> frozenset[int]:
        """Routines from which control may reach an unwinder."""
        if not self._roots:
            return frozenset()
        indirect = {n for n, cfg in enumerate(self._recovered.routines) if cfg.indirect}
        found = set(self._roots) | indirect
        left = list(found)
        while left:
            for caller in self._callers.get(left.pop(), ()):
                if caller not in found:
                    found.add(caller)
                    left.append(caller)
        return frozenset(found)


def _adds_return_address(word: int) -> bool:
    """Whether an instruction adds %o7 to another register, or subtracts one of them."""
    if word >> 30 != 2 or word >> 19 & 63 not in _ADDITIVE or word & 1 << 13:
        return False
    sources = (word >> 14 & 31, word & 31)
    return _O7 in sources and 0 not in sources


def is_trap(kind: TransferKind) -> bool:
    """Whether a transfer is a software trap."""
    return kind in (TransferKind.TRAP_ALWAYS, TransferKind.TRAP_CONDITIONAL)


class NotRewritableError(Exception):
    """A routine cannot be copied with certainty; the text says why."""


class RoutineCopy(Struct):
    """The copy of one routine."""

    # Its code; labels begin with the routine's number.
    items: list[Item] = field(default_factory=list)
    # Jump tables of its own; each begins at a multiple of `jumps.TABLE_ALIGNMENT`.
    tables: list[list[Item]] = field(default_factory=list)
    # What it executes beside the program's and the scheme's instructions
    charges: list[Charge] = field(default_factory=list)
    # Old address -> label to which a `ba,a` there leads
    redirects: dict[int, str] = field(default_factory=dict)
    # Those of them to which calls return that are made from their old places
    returns: set[int] = field(default_factory=set)
    # Old call that is made from its old place -> where a direct call goes, else None
    kept_calls: dict[int, int | None] = field(default_factory=dict)
    # (label of the first instruction of the constant, label of the call, the call) of thunks that
    # are called from the copy
    thunk_calls: list[tuple[str, str, ThunkCall]] = field(default_factory=list)
    # (old address of an entry, edge or block whose count arrives there directly): transfers of
    # copies to entries of this or other routines.
    arrivals: list[tuple[int, Charge]] = field(default_factory=list)
    # Old address by which the routine is entered -> (label, ENTRY edge)
    entries: dict[int, tuple[str, int]] = field(default_factory=dict)
    endings: list[int] = field(default_factory=list)  # Blocks that end the program by a system call
    # Old address of a trap -> instructions more each time that its system call, whose number the
    # code does not tell, acts on signals
    actions: dict[int, int] = field(default_factory=dict)

    def redirect(self, address: int, label: str) -> None:
        """Lead from an old address to a label; NotRewritableError if it leads elsewhere already."""
        if self.redirects.setdefault(address, label) != label:
            raise NotRewritableError(
                f"control comes to {address:#x} on two edges with different code"
            )


class OldProgram(Struct, frozen=True, dict=True):
    """What copies of its routines ask of a program."""

    recovered: ProgramGraphs
    calls: CallPlaces  # Which calls stay where they are
    # Jumps -> where one run has shown them to lead, and others may not
    unsure: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @cached_property
    def code(self) -> CodeImage:
        """The old code."""
        return self.recovered.code

    @cached_property
    def span(self) -> tuple[int, int]:
        """Where the old code begins and ends, without stubs that are written later."""
        spans = self.recovered.program.code
        return min(span.start for span in spans), max(span.end for span in spans)

    @cached_property
    def contexts(self) -> frozenset[int]:
        """Addresses of routines that return twice with the same result."""
        return self._named(CONTEXTS)

    @cached_property
    def setjmps(self) -> frozenset[int]:
        """Addresses of routines that return zero, and something else when they return again."""
        return self._named(RETURNING_TWICE - CONTEXTS)

    def _named(self, names: frozenset[str]) -> frozenset[int]:
        symbols = self.recovered.program.symbols
        return frozenset(symbol.address for symbol in symbols if symbol.name in names)

    def word(self, address: int) -> int:
        """Return the instruction at an address."""
        return self.code.lists.words[(address - self.code.base) >> 2]


class CopyDraft:
    """A copy while it is made: its routine, its names, and what has been written of it."""

    def __init__(
        self,
        number: int,
        cfg: ControlFlowGraph,
        context: RoutineContext,
        program: OldProgram,
        spill: Spill = NO_SPILL,
        body: int | None = None,  # Which of two copies of the routine; None: there is one
    ) -> None:
        assert context.analysis is not None
        self.body = body
        names = f"r{number}", f"r{number}+"
        self.prefix = names[body or 0]  # What its labels begin with
        self.other = "" if body is None else names[1 - body]  # Those of the other copy
        self.spill = spill
        self.number, self.cfg, self.context, self.program = number, cfg, context, program
        self.frames, self.liveness = context.analysis.frames, context.analysis.liveness
        self.codes = self.liveness.blocks
        self.copy = RoutineCopy()
        self._behind: list[Item] = []

    # -- names

    def label(self, kind: str, number: int) -> str:
        """Return the name of something that belongs to an edge or a block."""
        return f"{self.prefix}.{kind}.{number}"

    def block_label(self, block: int) -> str:
        """Return the name of a block's top."""
        return self.label("block", block)

    # -- writing

    def emit(self, *items: Item) -> None:
        """Write code."""
        self.copy.items += items

    def put_behind(self, *items: Item) -> None:
        """Write code that stands behind all the rest."""
        self._behind += items

    def finish(self) -> RoutineCopy:
        """Return the copy, complete."""
        self.emit(*self._behind)
        self._behind.clear()
        return self.copy

    def island(self, kind: str, edge: int, to: str) -> str:
        """Return the label of a jump to `to` behind the code."""
        label = self.label(kind, edge)
        self.put_behind(Label(label), jump(to))
        return label

    def charge(
        self,
        cause: Cause,
        count: int,
        *,
        edge: int | None = None,
        block: int | None = None,
        address: int | None = None,  # Of the instruction that the block executes it with
    ) -> None:
        """Note what an edge or block executes more."""
        if count:
            self.copy.charges.append(Charge(cause, count, edge, block, self._at(block, address)))

    def arrive(
        self,
        address: int,
        *,
        edge: int | None = None,
        block: int | None = None,
        at: int | None = None,  # Address of the instruction with which the block goes there
    ) -> None:
        """Note that an edge or block goes to the entry of a copy itself, not by its old address."""
        charge = Charge(Cause.ENTRIES, 1, edge, block, self._at(block, at))
        self.copy.arrivals.append((address, charge))

    def _at(self, block: int | None, address: int | None) -> int:
        """Return how many instructions of a block are before an address (`Charge.at`)."""
        return -1 if block is None or address is None else (address - self.block(block).start) // 4

    # -- the routine

    def word(self, address: int) -> int:
        """Return the instruction at an old address, on temporaries where registers are spilled."""
        edit = self.spill.edits.get(address)
        return self.program.word(address) if edit is None else edit.word

    def block(self, number: int) -> Block:
        """Return a block."""
        return self.cfg.blocks[number]

    def out(self, block: int, *kinds: EdgeKind) -> Edge | None:
        """Return the edge of such a kind out of a block."""
        for number in self.cfg.out_edges[block]:
            edge = self.cfg.edges[number]
            if edge.kind in kinds:
                return edge
        return None

    def leaves_both_ways(self, block: int) -> bool:
        """Whether a branch leaves the routine, taken or not: one edge stands for both ways."""
        edges = [self.cfg.edges[number] for number in self.cfg.out_edges[block]]
        is_branch = self.codes[block].kind is TransferKind.BRANCH
        return is_branch and [edge.kind for edge in edges] == [EdgeKind.EXIT]

    def entry_edges(self, block: int) -> list[int]:
        """Return the edges from ENTRY to a block: one or none."""
        edges = self.cfg.in_edges[block]
        return [edge for edge in edges if self.cfg.edges[edge].kind in ENTRIES]

    def is_inside(self, block: int) -> bool:
        """Whether the routine's frame stands at a block's top."""
        return self.frames.before(block, 0).depth == 1
