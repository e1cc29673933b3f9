"""Spilled locals: words of the frame in place of local registers that a routine uses (EPP 5.1).

A *spilled* register is the scheme's for the whole routine. The program's value for it lies in a
word of the frame: every instruction that reads it loads the word into a temporary first, and every
one that writes it stores a temporary behind. Where no temporary is dead, the instruction itself
stays, and the scheme's value is put aside around it.

What a delay slot reads is loaded before the transfer. An instruction there that writes the register
moves before the transfer, and its store takes the slot; the store of an annulled slot is executed
where the slot was, and the instruction before it in any case, so that it must do nothing else.

`candidates` says which locals can be spilled: where control enters or leaves the routine in its own
window other than by calls and their returns, nobody would find their values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.effects_kernel import effects
from simprof.profiler.code.frames import FRAME_PATH_SLOTS, FRAME_SLOTS, FrameState, Slot, slots
from simprof.profiler.code.registers import LOCAL_ORDER, mask, members
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind
from simprof.simulator.isa.effects import ALL, LOCALS, Window

R = Register

_ANNUL = 1 << 29
_RD, _RS1, _RS2 = 25, 14, 0
# Transfers that may read spilled registers, and have them in their delay slots
_PLAIN = frozenset(
    (
        TransferKind.BRANCH,
        TransferKind.BRANCH_ALWAYS,
        TransferKind.CALL,
        TransferKind.INDIRECT_CALL,
        TransferKind.RETURN_JUMP,
        TransferKind.RETURN,
    )
)
_DIVISIONS = frozenset((0x0D, 0x0E, 0x0F, 0x1E, 0x1F, 0x22, 0x23, 0x2D))  # these may trap
_FLUSH, _READ_STATE, _PC = 0x3B, 0x28, 5
_FREE_SLOTS = tuple(k for k in range(FRAME_SLOTS) if k not in FRAME_PATH_SLOTS)


class Edit(NamedTuple):
    """What stands in place of one instruction of the program."""

    before: tuple[Instruction, ...]
    word: int
    after: tuple[Instruction, ...] = ()


class Spill(Struct, frozen=True):
    """The spilled registers of a routine, and the code that this takes."""

    words: Mapping[Register, Slot] = field(default_factory=dict)  # Least used first
    edits: Mapping[int, Edit] = field(default_factory=dict)  # By address of the instruction
    # Block -> instructions that each execution of it takes more
    costs: Mapping[int, int] = field(default_factory=dict)

    @property
    def registers(self) -> tuple[Register, ...]:
        """The spilled registers, least used first."""
        return tuple(self.words)

    @property
    def size(self) -> int:
        """How many instructions are added in all."""
        return sum(self.costs.values())

    def reloads(self, is64: bool) -> tuple[Instruction, ...]:
        """Return the code that gives the program its registers back."""
        load = "ldx" if is64 else "ld"
        return tuple(asm.load(load, s.base, s.offset, r) for r, s in self.words.items())


NO_SPILL = Spill()


class _StuckError(Exception):
    """There is no code for a use of `register`."""

    def __init__(self, register: Register) -> None:
        super().__init__(register)
        self.register = register


class _Use(NamedTuple):
    """An instruction that names locals, in the routine's own window."""

    position: int  # In its block
    names: int


class Spiller:
    """Spills locals of one routine.

    `kept`: Registers of the scheme that no code here may use. `reads_transfers`: Whether code of
    the scheme reads the registers of transfers.
    """

    def __init__(self, context: RoutineContext, kept: int, *, reads_transfers: bool) -> None:
        assert context.analysis is not None
        self._context, self._kept = context, kept
        self._reads_transfers = reads_transfers
        self._cfg = context.analysis.cfg
        self._liveness, self._frames = context.analysis.liveness, context.analysis.frames
        self._facts = self._liveness.facts
        self._load, self._store = ("ldx", "stx") if context.is64 else ("ld", "st")

    @cached_property
    def _words(self) -> tuple[Slot, ...]:
        """Words of the frame: of spilled registers, then to put the scheme's values aside."""
        found = slots(FrameState(1, 0), self._frames.frame_size, self._context.abi)
        # Words at %sp move with it.
        return found if found[0].base is R.FP else ()

    @cached_property
    def candidates(self) -> tuple[Register, ...]:
        """The locals that can be spilled, each by itself."""
        if not self._frames.has_window or not self._words:
            return ()
        free = self._liveness.named & LOCALS & ~self._kept & ~self._barred
        return tuple(members(free, LOCAL_ORDER))

    # -- what cannot be spilled

    @cached_property
    def _uses(self) -> dict[int, list[_Use]]:
        """Block -> its instructions that name locals, in the routine's own window."""
        found: dict[int, list[_Use]] = defaultdict(list)
        for block, code in enumerate(self._liveness.blocks):
            names = self._facts.names[code.first : code.first + code.count]
            for position in np.flatnonzero(names & np.uint64(LOCALS)).tolist():
                if self._frames.before(block, position).depth == 1:
                    found[block].append(_Use(position, int(names[position])))
        return found

    @cached_property
    def _barred(self) -> int:
        """The locals that cannot be spilled."""
        barred = 0
        for block, code in enumerate(self._liveness.blocks):
            names = self._facts.names[code.first : code.first + code.count].tolist()
            for position, named in enumerate(names):
                depth = self._frames.before(block, position).depth if named & LOCALS else 1
                # At depth 0 they are the caller's. What is not understood names everything.
                if depth == 0 or named & ALL == ALL:
                    barred |= named
                elif named & LOCALS:
                    barred |= self._special(code.first + position, named)
            if max(self._frames.before(block, 0).depth, self._frames.after(block).depth) > 1:
                return ALL
            barred |= self._of_windows(block) | self._of_transfer(block)
        for slot in self._context.shared_slots:  # their copies are the program's words
            barred |= self._named_in(slot)
        return barred | self._of_ways_in_and_out()

    def _special(self, index: int, named: int) -> int:
        """Return the registers of an instruction that copies have in another form."""
        word = int(self._facts.words[index])
        op3, reads_pc = word >> 19 & 63, word >> 14 & 31 == _PC
        special = word >> 30 == 2 and (op3 == _FLUSH or (op3 == _READ_STATE and reads_pc))
        # The result of `save` and `restore` is in another window.
        moved = mask(Register(word >> _RD & 31)) if self._facts.shifts[index] else 0
        return named if special else named & moved

    def _of_windows(self, block: int) -> int:
        """Return what the window that a block opens has in it already."""
        code, live = self._liveness.blocks[block], 0
        span = self._facts.shifts[code.first : code.first + code.count]
        for position, shift in enumerate(span):
            if shift == Window.SAVE:
                live |= self._liveness.live_before(block, position + 1)
        return live

    def _of_transfer(self, block: int) -> int:
        """Return the registers of a block's transfer that copies have in another form."""
        code = self._liveness.blocks[block]
        if code.transfer is None:
            return 0
        index = code.first + code.transfer
        barred = 0
        if code.kind is TransferKind.CALL:
            barred = self._facts.thunks.get(code.target, 0)  # and what its call makes it of
        annulled = bool(self._facts.transfers.annulled[index])
        has_slot = bool(HAS_DELAY_SLOT[code.kind])
        if code.kind is TransferKind.BRANCH_ALWAYS and annulled:
            has_slot = False
        inside = code.transfer + 1 < code.count
        if code.kind not in _PLAIN:
            barred |= self._names(index) | (self._names(index + 1) if has_slot else 0)
        elif has_slot and not inside and self._slot_block(block) is None:
            barred |= self._names(index + 1)  # another block's
        if self._reads_transfers:
            barred |= self._names(index)
        return barred

    def _of_ways_in_and_out(self) -> int:
        """Return what is live where control enters or leaves in the routine's own window."""
        cfg, liveness, barred = self._cfg, self._liveness, 0
        for edge in (cfg.edges[e] for e in cfg.out_edges[cfg.entry]):
            # Where a call returns a second time, the frame is there, and what the words held at
            # the last call, as the registers of the window do.
            into = (cfg.edges[e].kind for e in cfg.in_edges[edge.target])
            if edge.target == cfg.exit or EdgeKind.CALL_RETURN in into:
                continue
            if self._frames.before(edge.target, 0).depth:
                barred |= liveness.live_in[edge.target]
        for edge in (cfg.edges[e] for e in cfg.in_edges[cfg.exit]):
            if edge.source != cfg.entry and self._frames.after(edge.source).depth:
                barred |= liveness.live_on_edge(edge.id)
        return barred

    def _names(self, index: int) -> int:
        return int(self._facts.names[index]) if index < len(self._facts.names) else ALL

    def _named_in(self, block: int) -> int:
        code = self._liveness.blocks[block]
        return int(np.bitwise_or.reduce(self._facts.names[code.first : code.first + code.count]))

    def _slot_block(self, block: int) -> int | None:
        """Return the block that is the annulled slot of a block's branch, if that is all it is."""
        for edge in (self._cfg.edges[e] for e in self._cfg.out_edges[block]):
            if edge.kind is EdgeKind.SLOT:
                start = self._cfg.blocks[edge.target].start
                return None if start in self._in_line else edge.target
        return None

    @cached_property
    def _in_line(self) -> frozenset[int]:
        """Addresses of instructions that are not an annulled slot alone."""
        blocks = (block for block in self._cfg.blocks if not block.is_slot)
        return frozenset(a for block in blocks for a in range(block.start, block.end, 4))

    # -- code

    def spill(self, count: int, in_memory: int, weights: Sequence[float]) -> Spill:
        """Spill `count` registers, the least used ones, or as many as can be.

        - `in_memory`: How many path registers are in the frame if none is spilled.
        - `weights`: How often each block is expected to be executed.
        """
        count = min(count, max(len(FRAME_PATH_SLOTS) - in_memory, 0)) if in_memory else count
        order = self._by_use(weights) if count else []
        while order:
            chosen = order[:count]
            try:
                return self._spilled(chosen)
            except _StuckError as stuck:
                order.remove(stuck.register)
        return NO_SPILL

    def _by_use(self, weights: Sequence[float]) -> list[Register]:
        """Return the candidates, those first whose words cost least by the weights."""
        costs = []
        for register in self.candidates:
            try:
                spill = self._spilled([register])
            except _StuckError:
                continue
            weighted = sum(weights[block] * cost for block, cost in spill.costs.items())
            costs.append((weighted, spill.size, register))
        return [register for _, _, register in sorted(costs)]

    def _spilled(self, registers: Sequence[Register]) -> Spill:
        places = reversed(FRAME_PATH_SLOTS)
        words = {r: self._words[k] for r, k in zip(registers, places, strict=False)}
        coder = _Coder(self, words)
        spilled = mask(*registers)
        edits: dict[int, Edit] = {}
        costs: dict[int, int] = {}
        for block, uses in self._coded(spilled):
            found = dict(coder.edits(block, uses))
            cost = sum(len(edit.before) + len(edit.after) for edit in found.values())
            edits |= found
            if cost:
                costs[block] = cost
        return Spill(words, edits, costs)

    def _coded(self, spilled: int) -> Iterator[tuple[int, list[_Use]]]:
        """Yield the blocks that need code; a slot's is that of the block before it."""
        for block in self._cfg.blocks:
            slot = self._slot_block(block.id)
            uses = [use for use in self._uses.get(block.id, ()) if use.names & spilled]
            in_slot = slot is not None and self._named_in(slot) & spilled
            if not block.is_slot and (uses or in_slot):
                yield block.id, uses


class _Coder:
    """Writes the code of spilled registers."""

    def __init__(self, spiller: Spiller, words: Mapping[Register, Slot]) -> None:
        self._spiller, self._spilled = spiller, words
        self._liveness, self._facts = spiller._liveness, spiller._facts
        self._mask = mask(*words)
        context = spiller._context
        kept = spiller._kept | self._mask | context.abi.reserved | mask(R.O7)
        self._temporaries = tuple(members(~kept, context.abi.temporaries))

    def edits(self, block: int, uses: Iterable[_Use]) -> Iterator[tuple[int, Edit]]:
        """Yield address and code of the uses in a block, and in the slot behind it."""
        code = self._liveness.blocks[block]
        live = self._liveness.live_in_block(block)
        behind = code.count if code.transfer is None else code.transfer
        for use in uses:
            if use.position < behind:
                index = code.first + use.position
                edit = self._plain(index, live[use.position], live[use.position + 1])
                yield self._facts.place.address(index), edit
        if code.transfer is not None:
            yield from self._transfer(block, live)

    def _plain(self, index: int, before: int, after: int) -> Edit:
        word, reads, writes = self._instruction(index)
        try:
            chosen = self._choose(reads, writes, before, after)
            word = substituted(word, chosen)
        except _StuckError as stuck:
            if self._facts.shifts[index]:  # no place behind it in the same window
                raise
            return self._aside(word, reads, writes, stuck.register)
        return Edit(self._loads(chosen, reads), word, self._stores(chosen, writes))

    def _aside(self, word: int, reads: int, writes: int, register: Register) -> Edit:
        """Put the scheme's values aside, and execute the instruction as it is."""
        named = [r for r in self._spilled if (reads | writes) >> r & 1]
        places = [self._spiller._words[k] for k in _FREE_SLOTS]
        if len(named) > len(places):
            raise _StuckError(register)
        held = {r: r for r in named}
        aside = dict(zip(named, places, strict=False))
        return Edit(
            (*self._moves(self._spiller._store, aside), *self._loads(held, reads)),
            word,
            (*self._stores(held, writes), *self._moves(self._spiller._load, aside)),
        )

    def _transfer(self, block: int, live: Sequence[int]) -> Iterator[tuple[int, Edit]]:
        code = self._liveness.blocks[block]
        assert code.transfer is not None
        at = code.first + code.transfer
        word, reads, writes = self._instruction(at)
        slot = self._slot(block)
        if slot is None:
            slot_word, slot_reads, slot_writes, behind = 0, 0, 0, 0
        else:
            slot_word, slot_reads, slot_writes = self._instruction(at + 1)
            behind = slot
        if not (reads | writes | slot_reads | slot_writes) & self._mask:
            return
        if writes & self._mask or (slot_writes & reads & self._mask):
            raise _StuckError(self._first(writes | slot_writes & reads))
        moves = bool(slot_writes & self._mask)
        annulled = code.kind is TransferKind.BRANCH and bool(word & _ANNUL)
        if moves and not self._can_move(at, annulled):
            raise _StuckError(self._first(slot_writes))
        before = live[code.transfer]
        if moves:  # the temporary is written before the transfer, and annulled slots are passed by
            behind |= reads | (before if annulled else 0)
        chosen = self._choose(reads | slot_reads, slot_writes, before, behind)
        loads = self._loads(chosen, reads | slot_reads)
        changed = substituted(word, {r: t for r, t in chosen.items() if reads >> r & 1})
        address = self._facts.place.address(at)
        if slot is None:
            yield address, Edit(loads, changed)
            return
        named = slot_reads | slot_writes
        moved = substituted(slot_word, {r: t for r, t in chosen.items() if named >> r & 1})
        if moves:
            (stored,) = self._stores(chosen, slot_writes)
            yield address, Edit((*loads, asm.data_word(moved)), changed)
            yield address + 4, Edit((), stored.word)
        else:
            yield address, Edit(loads, changed)
            yield address + 4, Edit((), moved)

    def _slot(self, block: int) -> int | None:
        """Return what is live behind the delay slot of a block, None if its code is not here."""
        code = self._liveness.blocks[block]
        assert code.transfer is not None
        if not HAS_DELAY_SLOT[code.kind]:
            return None
        if code.transfer + 1 < code.count:
            inside = self._spiller._frames.before(block, code.transfer + 1).depth == 1
            return self._liveness.live_before(block, code.transfer + 2) if inside else None
        slot = self._spiller._slot_block(block)
        return None if slot is None else self._liveness.live_before(slot, 1)

    def _can_move(self, at: int, annulled: bool) -> bool:
        """Whether a slot's instruction can be executed before its transfer."""
        _, reads, writes = self._instruction(at)
        word, slot_reads, slot_writes = self._instruction(at + 1)
        if self._facts.shifts[at + 1] or (slot_writes & self._mask).bit_count() > 1:
            return False
        if annulled:
            harmless = word >> 30 == 0 or (word >> 30 == 2 and word >> 19 & 63 not in _DIVISIONS)
            return harmless and not slot_writes & ~self._mask
        return not reads & slot_writes and not writes & (slot_reads | slot_writes)

    # -- pieces

    def _instruction(self, index: int) -> tuple[int, int, int]:
        reads, writes = self._facts.effects
        return int(self._facts.words[index]), reads[index], writes[index]

    def _first(self, registers: int) -> Register:
        return next(members(registers & self._mask, tuple(self._spilled)))

    def _choose(self, reads: int, writes: int, before: int, after: int) -> dict[Register, Register]:
        """Return temporaries for the spilled registers that are read or written."""
        chosen: dict[Register, Register] = {}
        taken = 0
        for register in self._spilled:
            read, written = reads >> register & 1, writes >> register & 1
            if not read and not written:
                continue
            live = (before if read else 0) | (after if written else 0) | taken
            found = next(members(~live, self._temporaries), None)
            if found is None:
                raise _StuckError(register)
            chosen[register] = found
            taken |= mask(found)
        return chosen

    def _loads(self, held: Mapping[Register, Register], reads: int) -> tuple[Instruction, ...]:
        """Load those of the spilled registers that are read."""
        return tuple(
            asm.load(self._spiller._load, self._spilled[r].base, self._spilled[r].offset, t)
            for r, t in held.items()
            if reads >> r & 1
        )

    def _stores(self, held: Mapping[Register, Register], writes: int) -> tuple[Instruction, ...]:
        """Store those of the spilled registers that are written."""
        return tuple(
            asm.store(self._spiller._store, t, self._spilled[r].base, self._spilled[r].offset)
            for r, t in held.items()
            if writes >> r & 1
        )

    def _moves(self, mnemonic: str, places: Mapping[Register, Slot]) -> Iterator[Instruction]:
        """Store the scheme's values aside, or load them again."""
        make = asm.store if mnemonic.startswith("st") else None
        for register, slot in places.items():
            if make is None:
                yield asm.load(mnemonic, slot.base, slot.offset, register)
            else:
                yield make(mnemonic, register, slot.base, slot.offset)


def substituted(word: int, chosen: Mapping[Register, Register]) -> int:
    """Return an instruction with other registers in place of some.

    Raises _StuckError if it names one that no field of its own has: half of a pair, for example.
    """
    changed = word
    for shift in _register_fields(word) if chosen else ():
        other = chosen.get(Register(word >> shift & 31))
        if other is not None:
            changed = changed & ~(31 << shift) | int(other) << shift
    expected = _names(word) & ~mask(*chosen) | mask(*chosen.values())
    if chosen and _names(changed) != expected:
        raise _StuckError(next(iter(chosen)))
    return changed


@lru_cache(maxsize=1 << 16)
def _register_fields(word: int) -> tuple[int, ...]:
    """Return where the fields of an instruction are that name integer registers."""
    # Such a field is one that makes the instruction name another register if it is changed.
    named = _names(word)
    found = []
    for shift in (_RD, _RS1, _RS2):
        other = next(r for r in LOCAL_ORDER[::2] if not named >> r & 1)
        if _names(word & ~(31 << shift) | int(other) << shift) >> other & 1:
            found.append(shift)
    return tuple(found)


@lru_cache(maxsize=1 << 16)
def _names(word: int) -> int:
    return int(effects(np.array([word], dtype=np.uint32)).names[0])
