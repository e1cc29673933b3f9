"""The copy of one routine: its instructions with a scheme's code between them.

Blocks stand in the order of their addresses, so that what ran on into the next block still does.
Behind them come the stubs, and what cannot stand in line. All direct transfers go to copies. Code
that is entered by its old address is named with that address (`RoutineCopy.redirects`).

Each block is, in order: the way in where routines are entered by it (`entry`), the top's label, its
instructions with the code that belongs before them, its transfer with the delay slot, the label of
the return point (`back`), and the code of the edge to what it runs on into.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from profiler.code.context import RoutineContext
from profiler.code.emission import Emission, Piece, Stub
from profiler.code.frames import FRAME_SLOTS, Slot
from profiler.code.places import find_place
from profiler.code.registers import members
from profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from profiler.recovery.code_image import CodeImage
from profiler.rewriting.calls import CallPlaces, is_trap
from profiler.rewriting.charges import Cause, Charge
from profiler.rewriting.frames import growth, is_save, larger_save, moves_stack, uses_stack_words
from profiler.rewriting.signal_cost import action_cost
from profiler.rewriting.signals import call_site
from profiler.rewriting.system_calls import (
    ACTIONS,
    EXIT,
    EXIT_GROUP,
    GET_CONTEXT,
    SYSTEM_CALL,
    Ending,
    ending_of,
    trap_number,
)
from profiler.rewriting.transfers import constant, is_short, jump, raw, reads_pc, retargeted
from simulator.binary.program import MachineKind
from simulator.isa import assembler as asm
from simulator.isa.assembler import Instruction, Register, fits_simm13
from simulator.isa.assembly import Item, Label
from simulator.isa.decode import HAS_DELAY_SLOT, TransferKind

R = Register

EXIT_ROUTINE = "simprof.exit"
RETURNED = R.O0
"""Zero where setjmp returns, something else where longjmp lands."""
CONTEXT_SAVED = R.G1
"""The same behind the trap with which the 64-bit setjmp saves the context."""


class NotRewritableError(Exception):
    """A routine cannot be copied with certainty; the text says why."""


@dataclass
class RoutineCopy:
    """The copy of one routine.

    Attributes
    ----------
    items
        Its code; labels begin with the routine's number.
    charges
        What it executes beside the program's and the scheme's instructions.
    redirects
        Old address -> label to which a `ba,a` there leads.
    kept_calls
        Old call that is made from its old place -> where a direct call goes, else None.
    arrivals
        (old address of an entry, edge or block whose count arrives there directly): transfers
        of copies to entries of this or other routines.
    entries
        Old address by which the routine is entered -> (label, ENTRY edge).
    endings
        Blocks that end the program by a system call.
    actions
        Old address of a trap -> instructions more each time that its system call, whose number
        the code does not tell, acts on signals.
    """

    items: list[Item] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    redirects: dict[int, str] = field(default_factory=dict)
    kept_calls: dict[int, int | None] = field(default_factory=dict)
    arrivals: list[tuple[int, Charge]] = field(default_factory=list)
    entries: dict[int, tuple[str, int]] = field(default_factory=dict)
    endings: list[int] = field(default_factory=list)
    actions: dict[int, int] = field(default_factory=dict)


class Copier:
    """Copies one routine.

    Parameters
    ----------
    number, cfg, context
        The routine.
    emission
        Where its code goes.
    code
        The old code.
    calls
        Which calls stay where they are.
    pc_reads
        Addresses of `call .+8`.
    final
        Addresses of calls and traps behind which nothing executes.
    label_of
        Old address -> label of what is entered there: a copy's, or the old code's.
    """

    def __init__(
        self,
        number: int,
        cfg: ControlFlowGraph,
        context: RoutineContext,
        emission: Emission,
        code: CodeImage,
        calls: CallPlaces,
        pc_reads: frozenset[int],
        final: frozenset[int],
        label_of: Callable[[int], str],
    ) -> None:
        assert context.analysis is not None
        self._number, self._cfg, self._context = number, cfg, context
        self._codes = context.analysis.liveness.blocks
        self._old, self._calls, self._pc_reads = code, calls, pc_reads
        self._label_of, self._final = label_of, final
        self._emission = emission
        self._stubs = {stub.edge: stub for stub in emission.stubs}
        self._sent = {t: stub.edge for stub in emission.stubs for t in stub.transfers}
        self._tails, self._heads = self._in_line()
        self._copied = {stub.copied for stub in emission.stubs}
        self._growth = self._frame_growth()
        self.copy = RoutineCopy()
        self._behind: list[Item] = []
        self._landed: set[int] = set()

    # -- names

    def _block_label(self, block: int) -> str:
        return f"r{self._number}.block.{block}"

    def _edge_label(self, kind: str, edge: int) -> str:
        return f"r{self._number}.{kind}.{edge}"

    def _emit(self, *items: Item) -> None:
        self.copy.items += items

    def _charge(
        self, cause: Cause, count: int, *, edge: int | None = None, block: int | None = None
    ) -> None:
        if count:
            self.copy.charges.append(Charge(cause, count, edge, block))

    def _frame_growth(self) -> int:
        """Return by how many bytes frames of the copy are larger."""
        assert self._context.analysis is not None
        frames = self._context.analysis.frames
        asked = len(self._pending)
        if not frames.has_window or not (asked or uses_stack_words(self._emission)):
            return 0
        words = [
            self._words(address)
            for block in self._cfg.blocks
            for address in range(block.start, block.end, 4)
        ]
        more = growth(words, self._context, asked)
        by_sp = any(slot.base is R.SP for slot in self._context.free_site.slots)
        if by_sp and (more > growth((), self._context) or any(map(moves_stack, words))):
            raise NotRewritableError("its frames have no constant size, and code needs room there")
        return more

    # -- pieces

    def _in_line(self) -> tuple[dict[int, list[Piece]], dict[int, list[Piece]]]:
        """Return the code between blocks: by the block behind which it stands; by ENTRY edge."""
        tails: dict[int, list[Piece]] = defaultdict(list)
        heads: dict[int, list[Piece]] = defaultdict(list)
        for pieces in self._emission.before_label.values():
            for piece in pieces:
                edge = self._cfg.edges[find_place(self._cfg, piece.number, self._context).edge]
                if edge.source == self._cfg.entry:
                    heads[edge.id].append(piece)
                else:
                    tails[edge.source].append(piece)
        return tails, heads

    def _code(self, pieces: Sequence[Piece]) -> list[Item]:
        """Return the instructions of pieces, their symbols made this routine's."""
        return [self._named(i, piece) for piece in pieces for i in piece.snippet.instructions]

    def _named(self, instruction: Instruction, piece: Piece) -> Instruction:
        fixup = instruction.fixup
        if fixup is None:
            return instruction
        symbol = fixup.symbol
        if symbol.startswith("block."):
            symbol = f"r{self._number}.{symbol}"
        elif symbol == "exit":
            symbol = self._label_of(self._leaves_to(piece.number))
        return replace(instruction, fixup=replace(fixup, symbol=symbol))

    def _leaves_to(self, edge: int) -> int:
        """Return the address in another routine to which an edge leads."""
        place = find_place(self._cfg, edge, self._context)
        block = self._cfg.blocks[self._cfg.edges[place.edge].source]
        code = self._codes[block.id]
        branch = block.start + 4 * (-1 if block.is_slot else code.transfer or 0)
        target = int(self._old.transfers.target[self._old.index(branch)])
        if target < 0:
            raise NotRewritableError(f"code is needed behind the transfer at {branch:#x}")
        return target

    def _words(self, address: int) -> int:
        return self._old.lists.words[self._old.index(address)]

    # -- the whole

    def make(self) -> RoutineCopy:
        """Return the copy.

        Raises
        ------
        NotRewritableError
            If that cannot be done with certainty.
        """
        lined = [b for b in self._cfg.blocks if not b.is_slot and not self._is_apart(b.id)]
        for block, following in zip(lined, [*lined[1:], None], strict=True):
            self._entries(block)
            self._emit(Label(self._block_label(block.id)))
            self._block(block)
            self._run_on(block, following)
        for block in self._cfg.blocks:
            if not block.is_slot and self._is_apart(block.id) and block.start not in self._copied:
                self._apart(block)
        for stub in self._emission.stubs:
            self._stub(stub)
        self._emit(*self._behind)
        self._switches()
        return self.copy

    def _is_apart(self, block: int) -> bool:
        """Whether a block is a delay slot, too, and so cannot stand in line."""
        return block in self._context.shared_slots

    def _out(self, block: int, *kinds: EdgeKind) -> Edge | None:
        edges = [self._cfg.edges[e] for e in self._cfg.out_edges[block]]
        return next((edge for edge in edges if edge.kind in kinds), None)

    def _entries(self, block: Block) -> None:
        """Put the ways in before a block."""
        for edge in self._entry_edges(block.id):
            label = self._entry_label(edge, block.id)
            if self._heads.get(edge):
                self._guard(block)
                self._emit(Label(label), *self._code(self._heads[edge]))
            self.copy.entries[block.start] = (self._way_in(edge, block.id), edge)

    def _guard(self, block: Block) -> None:
        """Refuse code of an entry that the block before would run into."""
        for edge in self._cfg.in_edges[block.id]:
            kind, source = self._cfg.edges[edge].kind, self._cfg.edges[edge].source
            if kind in (EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN) and source < len(
                self._cfg.blocks
            ):
                raise NotRewritableError(f"code of the entry at {block.start:#x} would be run into")

    # -- blocks

    def _pieces(self, block: int, address: int) -> list[Piece]:
        return [
            piece
            for piece in self._emission.at.get(address, ())
            if piece.snippet.block == block or piece.snippet.block is None
        ]

    def _block(self, block: Block) -> None:
        code = self._codes[block.id]
        transfer = None if code.transfer is None else block.start + 4 * code.transfer
        address = block.start
        while address < block.end:
            self._emit(*self._code(self._pieces(block.id, address)))
            if address == transfer:
                self._transfer(block, address, code.kind, code.target)
                if block.start + 4 * block.instructions > address + 4:
                    extra = self._pieces(block.id, address + 4)
                    if extra:
                        raise NotRewritableError(
                            f"code is needed in the delay slot at {address + 4:#x}"
                        )
                return
            if address in self._pc_reads:
                address = self._reads_pc(block, address)
                continue
            self._emit(*self._plain(block, address))
            address += 4

    def _plain(self, block: Block, address: int) -> list[Instruction]:
        """Return an instruction that is no transfer; `rd %pc` reads the old address."""
        word = self._words(address)
        if self._growth and is_save(word):
            code = larger_save(word, self._growth)
            self._charge(Cause.FRAMES, len(code) - 1, block=block.id)
            self._charge(Cause.LANDINGS, len(self._pending), block=block.id)
            return [*code, *self._nothing_under_way()]
        if not reads_pc(word):
            return [raw(word)]
        self._charge(Cause.PROGRAM_COUNTERS, 1, block=block.id)
        return list(constant(address, Register(word >> 25 & 31)))

    def _reads_pc(self, block: Block, address: int) -> int:
        """`call .+8`: make the old address in %o7, then execute the slot."""
        between = self._code(self._pieces(block.id, address + 4))
        slot = self._plain(block, address + 4)
        self._emit(*constant(address, R.O7), *between, *slot)
        self._charge(Cause.PROGRAM_COUNTERS, 1, block=block.id)
        return address + 8

    def _transfer(self, block: Block, address: int, kind: TransferKind, target: int) -> None:
        if kind in (TransferKind.CALL, TransferKind.INDIRECT_CALL, TransferKind.JUMP_AND_LINK):
            self._call(block, address, kind, target)
        elif kind in (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS):
            self._branch(block, address, kind, target)
        elif is_trap(kind):
            self._trap(block, address)
        elif kind in (TransferKind.COMPARE_BRANCH, TransferKind.TRAP_RETURN):
            raise NotRewritableError(f"the instruction at {address:#x} is not understood")
        else:
            self._emit(raw(self._words(address)))
            self._slot(address, kind)

    def _slot(self, address: int, kind: TransferKind) -> None:
        if HAS_DELAY_SLOT[kind]:
            word = self._words(address + 4)
            if reads_pc(word):
                raise NotRewritableError(
                    f"the delay slot at {address + 4:#x} reads the program counter"
                )
            self._emit(raw(word))

    def _branch(self, block: Block, address: int, kind: TransferKind, target: int) -> None:
        word = self._words(address)
        annulled = bool(word >> 29 & 1)
        stub = self._sent.get(address)
        leaving = self._leaving_edge(block, kind, annulled)
        if stub is not None:
            label = self._edge_label("stub", stub)
        elif leaving is not None:
            label = self._label_of(target)
            self.copy.arrivals.append((target, Charge(Cause.ENTRIES, 1, edge=leaving.id)))
            if is_short(word, kind):
                label = self._island(block, leaving, label)
        else:
            label = self._taken_label(block, kind, annulled)
        if stub is not None and leaving is not None:
            self.copy.arrivals.append((target, Charge(Cause.ENTRIES, 1, edge=leaving.id)))
        self._emit(retargeted(word, kind, label))
        if not (annulled and kind is TransferKind.BRANCH_ALWAYS):
            self._slot(address, kind)

    def _leaving_edge(self, block: Block, kind: TransferKind, annulled: bool) -> Edge | None:
        """Return the EXIT edge that a branch takes; None if it stays in the routine."""
        source = block.id
        if annulled and kind is TransferKind.BRANCH:
            slot = self._out(block.id, EdgeKind.SLOT)
            if slot is None:
                raise NotRewritableError(f"the slot of the branch before {block.end:#x} is missing")
            source = slot.target
        if self._out(source, EdgeKind.TAKEN) is not None:
            return None
        edge = self._out(source, EdgeKind.EXIT)
        if edge is None:
            raise NotRewritableError(f"the branch before {block.end:#x} leads nowhere")
        return edge

    def _taken_label(self, block: Block, kind: TransferKind, annulled: bool) -> str:
        source = block.id
        if annulled and kind is TransferKind.BRANCH:
            slot = self._out(block.id, EdgeKind.SLOT)
            assert slot is not None
            source = slot.target
        edge = self._out(source, EdgeKind.TAKEN)
        assert edge is not None
        return self._block_label(edge.target)

    def _island(self, block: Block, leaving: Edge, label: str) -> str:
        island = self._edge_label("island", leaving.id)
        self._behind += [Label(island), jump(label)]
        self._charge(Cause.LONG_BRANCHES, 1, edge=leaving.id)
        return island

    # -- calls

    def _call(self, block: Block, address: int, kind: TransferKind, target: int) -> None:
        back = self._out(block.id, EdgeKind.CALL_RETURN)
        direct = target if kind is TransferKind.CALL else -1
        stays = self._staying(block)
        if direct >= 0:
            self.copy.arrivals.append((direct, Charge(Cause.ENTRIES, 1, block=block.id)))
        self._under_way(block)
        if stays is None:
            self._moved_call(block, address, kind, direct)
        elif {address, address + 4} & self._entered:
            self._made_call(block, address, kind, direct, stays)
        else:
            self.copy.kept_calls[address] = direct if direct >= 0 else None
            self._emit(jump(f"old.{address:x}"))
            self._charge(stays, 1, block=block.id)
        if back is None:
            if stays is None:
                self._emit(jump(f"old.{block.end:x}"))  # for a call that returns against all signs
            return
        if stays is not None:
            for edge in (back.id, *self._entry_edges(back.target)):
                self._charge(stays, 1, edge=edge)
            label = self._edge_label("back", back.id)
            self._emit(Label(label))
            self.copy.redirects[self._cfg.blocks[back.target].start] = label
        self._landing(back, RETURNED)

    def _staying(self, block: Block) -> Cause | None:
        """Return why the call that ends a block must leave its old return address, or None."""
        code, back = self._codes[block.id], self._out(block.id, EdgeKind.CALL_RETURN)
        if back is not None and self._skipped(block, back) not in (0, 1):
            return Cause.CALLS
        if code.kind is TransferKind.CALL:
            return self._calls.reason(code.target)
        return self._calls.reason(-1) if code.kind is TransferKind.INDIRECT_CALL else None

    def _skipped(self, block: Block, back: Edge) -> int:
        """Return how many words lie between a call's delay slot and where it returns."""
        return (self._cfg.blocks[back.target].start - block.end) >> 2

    @cached_property
    def _entered(self) -> frozenset[int]:
        """Old addresses to which control comes from unknown places, or back from old calls."""
        places = {
            edge.target
            for edge in self._cfg.edges
            if edge.kind in (EdgeKind.ENTRY, EdgeKind.SWITCH)
            or (
                edge.kind is EdgeKind.CALL_RETURN
                and self._staying(self._cfg.blocks[edge.source]) is not None
            )
        }
        return frozenset(self._cfg.blocks[block].start for block in places)

    def _moved_call(self, block: Block, address: int, kind: TransferKind, direct: int) -> None:
        """Call from the copy: the return address is new."""
        word, back = self._words(address), self._out(block.id, EdgeKind.CALL_RETURN)
        self._emit(Label(f"r{self._number}.call.{address:x}"))
        self._emit(retargeted(word, kind, self._label_of(direct)) if direct >= 0 else raw(word))
        self._slot(address, kind)
        if back is not None and self._skipped(block, back) == 1:
            self._emit(raw(self._words(block.end)))

    def _made_call(
        self, block: Block, address: int, kind: TransferKind, direct: int, cause: Cause
    ) -> None:
        """Make the old return address here, where the call's old place leads elsewhere."""
        word = self._words(address)
        sources = {word >> 14 & 31} | (set() if word & 1 << 13 else {word & 31})
        if direct < 0 and R.O7 in sources:
            raise NotRewritableError(f"the call at {address:#x} reads its own return address")
        self._emit(*constant(address, R.O7))
        to = f"the call at {address:#x}"
        jump_word = Instruction(to, word & ~(31 << 25))  # jmpl that leaves no address
        self._emit(jump_word if direct < 0 else asm.branch("a", self._label_of(direct)))
        self._slot(address, kind)
        self._charge(cause, 2, block=block.id)

    def _landing(self, back: Edge, register: Register) -> None:
        """Test whether control comes back from a call, or lands there.

        A landing begins a new activation, along an ENTRY edge; both have one address. Where the
        frame has a word that says whether the call is under way, that tells; else `register`, which
        is zero where setjmp returns.
        """
        if not self._entry_edges(back.target):
            return
        (entry,) = self._entry_edges(back.target)
        label = self._way_in(entry, back.target)
        v8 = self._context.machine is MachineKind.SPARCV8
        slot, landed, cost = self._pending.get(back.id), "nz", 0
        if slot is not None:
            register, landed, cost = self._free_register(back.target), "z", 2
            self._emit(asm.load(self._word_load, slot.base, slot.offset, register))
            self._emit(asm.store(self._word_store, R.G0, slot.base, slot.offset))
        if v8:
            on_icc = {"z": "e", "nz": "ne"}[landed]
            self._emit(asm.cmp(register, 0), asm.branch(on_icc, label, annul=True), asm.nop())
            cost += 1
        else:
            if self._context.machine is MachineKind.SPARCV8PLUS and slot is None:
                self._emit(asm.shift("sra", register, 0, register))
                cost += 1
            test = asm.branch_register(landed, register, label, annul=True, taken=False)
            self._emit(test, asm.nop())
        self._charge(Cause.LANDINGS, cost + 1, edge=back.id)
        self._charge(Cause.LANDINGS, cost + 2, edge=entry)
        start = self._cfg.blocks[back.target].start
        self.copy.arrivals.append((start, Charge(Cause.ENTRIES, 1, edge=entry)))

    def _nothing_under_way(self) -> list[Instruction]:
        """Clear the words of the frame that say which calls are under way."""
        return [
            asm.store(self._word_store, R.G0, slot.base, slot.offset)
            for slot in self._pending.values()
        ]

    def _under_way(self, block: Block) -> None:
        """Note in the frame that the call is under way, if somebody will ask."""
        back = self._out(block.id, EdgeKind.CALL_RETURN)
        slot = None if back is None else self._pending.get(back.id)
        if slot is not None:
            self._emit(asm.store(self._word_store, R.SP, slot.base, slot.offset))
            self._charge(Cause.LANDINGS, 1, block=block.id)

    @property
    def _word_load(self) -> str:
        return "ldx" if self._context.is64 else "ld"

    @property
    def _word_store(self) -> str:
        return "stx" if self._context.is64 else "st"

    def _free_register(self, block: int) -> Register:
        """Return a register that is dead where a call returns."""
        assert self._context.analysis is not None
        live = self._context.analysis.liveness.live_before(block, 0)
        free = members(~(live | self._context.abi.reserved), self._context.abi.caller_saved)
        found = next(free, None)
        if found is None:
            raise NotRewritableError("no register is free where a call returns")
        return found

    @cached_property
    def _pending(self) -> dict[int, Slot]:
        """Edge behind a call at whose return point something lands, too -> a word of the frame."""
        assert self._context.analysis is not None
        frames, abi = self._context.analysis.frames, self._context.abi
        asked = [
            edge
            for edge in self._cfg.edges
            if edge.kind is EdgeKind.CALL_RETURN
            and self._entry_edges(edge.target)
            and frames.before(edge.target, 0).depth == 1
        ]
        if frames.frame_size is None:
            return {}
        top = abi.bias - frames.frame_size + abi.minimum_frame - 8 * FRAME_SLOTS
        slots = {edge.id: Slot(R.FP, top - 8 * (k + 1)) for k, edge in enumerate(asked)}
        return slots if all(fits_simm13(slot.offset) for slot in slots.values()) else {}

    def _entry_edges(self, block: int) -> list[int]:
        edges = self._cfg.in_edges[block]
        return [edge for edge in edges if self._cfg.edges[edge].kind is EdgeKind.ENTRY]

    def _way_in(self, edge: int, block: int) -> str:
        """Return where control goes that enters along an ENTRY edge.

        Where it lands in a frame, no call of that frame is under way any more.
        """
        assert self._context.analysis is not None
        label = self._entry_label(edge, block)
        inside = self._context.analysis.frames.before(block, 0).depth == 1
        if not inside or not self._pending or self._cfg.blocks[block].start == self._cfg.address:
            return label
        landed = self._edge_label("landed", edge)
        if edge not in self._landed:
            self._landed.add(edge)
            self._behind += [Label(landed), *self._nothing_under_way(), jump(label)]
            self._charge(Cause.LANDINGS, len(self._pending) + 1, edge=edge)
        return landed

    def _entry_label(self, edge: int, block: int) -> str:
        if edge in self._stubs:
            return self._edge_label("stub", edge)
        return (
            self._edge_label("entry", edge) if self._heads.get(edge) else self._block_label(block)
        )

    # -- traps

    def _trap(self, block: Block, address: int) -> None:
        word = self._words(address)
        ending = ending_of(
            [self._words(a) for a in range(block.start, address + 4, 4)], self._context.is64
        )
        if ending is Ending.EXITS:
            self._emit(jump(EXIT_ROUTINE))
            self._charge(Cause.SYSTEM_CALLS, 1, block=block.id)
            self.copy.endings.append(block.id)
            return
        if ending is Ending.UNKNOWN:
            self._test_number(block, address)
        if trap_number(word) == SYSTEM_CALL[self._context.is64]:
            self._emit(Label(f"r{self._number}.call.{address:x}"))
        if ending is Ending.ACTS:
            self._emit(*call_site(self._context.machine))
            self._charge(Cause.SYSTEM_CALLS, self._action_cost, block=block.id)
        else:
            self._emit(raw(word))
        if ending is Ending.UNKNOWN:
            self._emit(Label(self._behind_label(block)))
        onward = self._out(block.id, EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
        if onward is not None and trap_number(word) == GET_CONTEXT and self._context.is64:
            self._landing(onward, CONTEXT_SAVED)

    def _test_number(self, block: Block, address: int) -> None:
        """Leave for the run-time code if %g1 is the number of a system call that it makes.

        The flags are the kernel's to change here. All ways execute as many instructions.
        """
        numbers = ACTIONS[self._context.is64]
        also, acts = (f"r{self._number}.{what}.{block.id}" for what in ("ends", "acts"))
        tests: list[Item] = []
        for k, number in enumerate(numbers):
            tests += [asm.cmp(R.G1, number), asm.branch("e", f"{acts}.{k}")]
        self._emit(
            asm.cmp(R.G1, EXIT_GROUP),
            asm.branch("e", f"{also}.group"),
            asm.cmp(R.G1, EXIT),
            asm.branch("e", also),
            *tests,
            asm.nop(),
        )
        cost = 5 + len(tests)
        wait = [asm.nop()] * (cost - 6)
        self._behind += [
            Label(f"{also}.group"), asm.nop(), asm.nop(),
            Label(also), *wait, jump(EXIT_ROUTINE),
        ]  # fmt: skip
        for k in range(len(numbers)):
            more = [] if k + 1 == len(numbers) else [asm.nop(), asm.nop()]
            self._behind += [Label(f"{acts}.{k}"), *more]
        self._behind += [*call_site(self._context.machine), jump(self._behind_label(block))]
        self._charge(Cause.SYSTEM_CALLS, cost, block=block.id)
        self.copy.actions[address] = self._action_cost + 1

    def _behind_label(self, block: Block) -> str:
        return f"r{self._number}.behind.{block.id}"

    @property
    def _action_cost(self) -> int:
        return action_cost(self._context.machine)

    # -- what follows

    def _run_on(self, block: Block, following: Block | None) -> None:
        """Put the code of the edge to what the block runs on into, and go there."""
        self._emit(*self._code(self._tails.get(block.id, ())))
        edge = self._out(block.id, EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
        if edge is not None:
            if following is None or edge.target != following.id or self._has_head(following):
                self._emit(jump(self._block_label(edge.target)))
                self._charge(Cause.LINES, 1, edge=edge.id)
            return
        leaves = self._out(block.id, EdgeKind.EXIT)
        if leaves is None or not self._falls_out(block):
            return
        onward = block.end + 4 * self._slot_is_apart(block)
        self._emit(jump(self._label_of(onward)))
        if block.end - 4 not in self._final:
            self._charge(Cause.LINES, 1, edge=leaves.id)
            self.copy.arrivals.append((onward, Charge(Cause.ENTRIES, 1, edge=leaves.id)))

    def _slot_is_apart(self, block: Block) -> bool:
        """Whether the block ends before its transfer's delay slot."""
        code = self._codes[block.id]
        return bool(HAS_DELAY_SLOT[code.kind]) and code.transfer == block.instructions - 1

    def _falls_out(self, block: Block) -> bool:
        """Whether the block's EXIT edge runs on into another routine."""
        kind = self._codes[block.id].kind
        if kind in (TransferKind.NONE, TransferKind.BRANCH, TransferKind.BRANCH_NEVER):
            return True
        return is_trap(kind) and block.id not in self.copy.endings

    def _has_head(self, block: Block) -> bool:
        return any(self._heads.get(edge) for edge in self._cfg.in_edges[block.id])

    def _apart(self, block: Block) -> None:
        """Copy a delay slot to which branches lead, too."""
        self._entries(block)
        self._emit(Label(self._block_label(block.id)), *self._plain(block, block.start))
        edge = self._out(block.id, EdgeKind.FALL_THROUGH)
        if edge is None:
            raise NotRewritableError(f"the delay slot at {block.start:#x} ends a routine")
        self._emit(jump(self._block_label(edge.target)))
        self._charge(Cause.LINES, 1, edge=edge.id)

    def _stub(self, stub: Stub) -> None:
        self._emit(Label(self._edge_label("stub", stub.edge)))
        if stub.copied is not None:
            for block in self._cfg.blocks:
                if block.start == stub.copied and not block.is_slot:
                    self._entries(block)
                    self._emit(Label(self._block_label(block.id)))
            self._emit(raw(self._words(stub.copied)))
        self._emit(*self._code(stub.pieces))

    def _switches(self) -> None:
        """Lead the targets of jump tables, and the entries, from their old places to the copies."""
        for edge in self._cfg.edges:
            if edge.kind is EdgeKind.SWITCH:
                label = self._block_label(edge.target)
                if edge.id in self._stubs:
                    label = self._edge_label("stub", edge.id)
                self._redirect(self._cfg.blocks[edge.target].start, label)
                self._charge(Cause.JUMP_TABLES, 1, edge=edge.id)
        for address, (label, _) in self.copy.entries.items():
            if address not in self.copy.redirects or not self._is_back(address):
                self._redirect(address, label)

    def _is_back(self, address: int) -> bool:
        return ".back." in self.copy.redirects.get(address, "")

    def _redirect(self, address: int, label: str) -> None:
        known = self.copy.redirects.setdefault(address, label)
        if known != label:
            raise NotRewritableError(f"control comes to {address:#x} in two ways that differ")
