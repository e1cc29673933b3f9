"""A scheme's code in a copy: what stands where, with which names, and the room for its stack words.

Instrumentation code keeps words in a frame between the area at %sp, which the routine's callees and
window traps use, and what the routine reaches through %fp (`code.frames`). So the copy's `save`
takes more off %sp: those words, and above them what the routine stores for its callees beyond six
words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.effects_kernel import effects
from simprof.profiler.code.emission import Emission, Piece, PieceKind
from simprof.profiler.code.frames import FRAME_SLOTS
from simprof.profiler.code.places import find_place
from simprof.profiler.code.writer import OTHER_COPY
from simprof.profiler.graphs.cfg import Block, EdgeKind
from simprof.profiler.rewriting.draft import CopyDraft, NotRewritableError, entry_label
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register, fits_simm13
from simprof.simulator.isa.decode import simm13


def named_by(words: Sequence[int]) -> int:
    """Return the registers that instructions mention (mask as in `simulator.isa.effects`)."""
    return int(np.bitwise_or.reduce(effects(np.array(words, dtype=np.uint32)).names, initial=0))


class PlacedCode:
    """The code of a scheme in one routine."""

    def __init__(self, draft: CopyDraft, emission: Emission) -> None:
        self._draft, self._emission = draft, emission
        # What stands before blocks or behind them
        self.stubs = emission.stubs
        # Old addresses of delay slots whose copies begin stubs
        self.copied = {stub.copied for stub in emission.stubs}
        self._with_stub = {stub.edge for stub in emission.stubs}
        self._sent = {t: stub.edge for stub in emission.stubs for t in stub.transfers}
        # The code between blocks: by the block behind which it stands; by ENTRY edge
        self._tails: dict[int, list[Piece]] = defaultdict(list)
        self._heads: dict[int, list[Piece]] = defaultdict(list)
        cfg = draft.cfg
        for pieces in emission.before_label.values():
            for piece in pieces:
                block = piece.snippet.place.block
                if block is not None:  # behind the last instruction of that block
                    self._tails[block].append(piece)
                    continue
                edge = cfg.edges[find_place(cfg, piece.number, draft.context).edge]
                if edge.source == cfg.entry:
                    self._heads[edge.id].append(piece)
                else:
                    self._tails[edge.source].append(piece)

    @cached_property
    def named(self) -> int:
        """Every register that the code mentions."""
        return named_by([i.word for p in self._emission.pieces for i in p.snippet.instructions])

    @cached_property
    def keeps_words(self) -> bool:
        """Whether the code keeps anything on the stack."""
        return bool(self._emission.edits) or uses_stack_words(self._emission)

    # -- labels

    def sent_to(self, address: int) -> str | None:
        """Return the stub to which the transfer at an old address is sent."""
        edge = self._sent.get(address)
        return None if edge is None else self._draft.label("stub", edge)

    def way_along(self, edge: int, block: int) -> str:
        """Return where control goes that comes along an ENTRY or SWITCH edge."""
        if edge in self._with_stub:
            return self._draft.label("stub", edge)
        if edge in self._heads:
            return self._draft.label("entry", edge)
        return self._draft.block_label(block)

    # -- code

    def has_head(self, block: Block) -> bool:
        """Whether code of an ENTRY edge stands before a block."""
        return any(edge in self._heads for edge in self._draft.cfg.in_edges[block.id])

    def tail(self, block: int) -> list[Item]:
        """Return the code of the edge to what a block runs on into."""
        return self.items(self._tails.get(block, ()))

    def jumps_over(self, block: int) -> bool:
        """Whether that code ends with a jump, over code that stands before its target."""
        return any(piece.snippet.jump_cost for piece in self._tails.get(block, ()))

    def at(self, block: int, address: int) -> list[Item]:
        """Return the code that belongs before an instruction of a block."""
        pieces = self._emission.at.get(address)
        if pieces is None:
            return []
        return self.items([p for p in pieces if p.snippet.place.block in (block, None)])

    def items(self, pieces: Sequence[Piece]) -> list[Item]:
        """Return the instructions of pieces, their symbols made this routine's."""
        return [item for piece in pieces for item in self._items(piece)]

    def _items(self, piece: Piece) -> list[Item]:
        code: list[Item] = [self._renamed(i, piece) for i in piece.snippet.instructions]
        if self._draft.other and piece.kind is PieceKind.EDGE:
            # The other copy goes on here, before a jump that ends the code.
            at = len(code) - piece.snippet.jump_cost
            code.insert(at, Label(self._draft.label("behind-edge", piece.number)))
        return code

    def _renamed(self, instruction: Instruction, piece: Piece) -> Instruction:
        fixup = instruction.fixup
        if fixup is None:
            return instruction
        symbol = fixup.symbol
        if symbol.startswith("block."):
            symbol = f"{self._draft.prefix}.{symbol}"
        elif symbol == OTHER_COPY:
            symbol = f"{self._draft.other}.behind-edge.{piece.number}"
        elif symbol == "exit":
            symbol = entry_label(self._leaves_to(piece.number))
        return replace(instruction, fixup=replace(fixup, symbol=symbol))

    def _leaves_to(self, edge: int) -> int:
        """Return the address in another routine to which an edge leads."""
        cfg, code = self._draft.cfg, self._draft.program.code
        place = find_place(cfg, edge, self._draft.context)
        block = cfg.blocks[cfg.edges[place.edge].source]
        transfer = -1 if block.is_slot else self._draft.codes[block.id].transfer or 0
        branch = block.start + 4 * transfer
        target = int(code.transfers.target[code.index(branch)])
        if target < 0:
            raise NotRewritableError(f"code is needed after the transfer at {branch:#x}")
        return target

    # -- entries

    def write_head(self, edge: int, block: Block) -> None:
        """Put the code of an ENTRY edge before its block."""
        if edge not in self._heads:
            return
        cfg = self._draft.cfg
        for into in cfg.in_edges[block.id]:
            kind, source = cfg.edges[into].kind, cfg.edges[into].source
            runs_on = kind in (EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
            if runs_on and source < len(cfg.blocks):
                raise NotRewritableError(f"code of the entry at {block.start:#x} would be run into")
        self._draft.emit(Label(self.way_along(edge, block.id)), *self.items(self._heads[edge]))


R = Register

_SAVE = 0x3C
_WORD = 8
# Frames grow by multiples of this: memcpy and memset go other ways for other alignments of what
# lies on the stack.
_BLOCK = 64
# The 32-bit longjmp of glibc goes other ways where frames lie otherwise on their pages. So the
# frames below all others grow by whole pages.
_PAGE = 4096
_OUTERMOST = frozenset(("main", "MAIN__", "__libc_start_main", "__libc_start_call_main"))


def uses_stack_words(emission: Emission) -> bool:
    """Whether code keeps anything on the stack."""
    return any(
        instruction.word >> 30 == 3 and instruction.word >> 14 & 31 in (R.SP, R.FP)
        for piece in emission.pieces
        for instruction in piece.snippet.instructions
    )


def growth(words: Iterable[int], context: RoutineContext, more: int = 0) -> int:
    """Return by how many bytes a routine's frames grow."""
    # more: How many words the copy needs beside those of snippets.
    abi = context.abi
    outgoing = 0
    for word in words:
        if word >> 30 in (2, 3) and word >> 14 & 31 == R.SP and word & 1 << 13:
            outgoing = max(outgoing, simm13(word) - abi.bias - abi.minimum_frame + _WORD)
    return -(-(_WORD * (FRAME_SLOTS + more) + outgoing) // _BLOCK) * _BLOCK


def more_room(draft: CopyDraft, keeps_words: bool, asked: int) -> int:
    """Return by how many bytes frames of a copy are larger; NotRewritableError if nothing tells
    where there is room.
    """
    # keeps_words: Whether snippets keep anything on the stack.
    # asked: How many words the copy needs beside those of snippets.
    context = draft.context
    if not draft.frames.has_window or not (asked or keeps_words):
        return 0
    words = (word for block in draft.cfg.blocks for word in draft.program.code.words_of(block))
    more = growth(words, context, asked)
    by_sp = any(slot.base is R.SP for slot in context.free_site.slots)
    varies = any(  # something moves %sp in a frame that is complete
        moves_stack(draft.word(block.start + 4 * position))
        and not draft.frames.ends_frame(block.id, position)
        for block in draft.cfg.blocks
        for position in range(block.instructions)
    )
    if by_sp and (more > growth((), context) or varies):
        raise NotRewritableError("its frames have no constant size, and code needs room there")
    if not context.is64 and not by_sp and draft.cfg.name in _OUTERMOST:
        return -(-more // _PAGE) * _PAGE
    return more


def is_save(word: int) -> bool:
    """Whether a word is `save %sp, ..., %sp`."""
    is_op = word >> 30 == 2 and word >> 19 & 63 == _SAVE
    return is_op and word >> 14 & 31 == R.SP and word >> 25 & 31 == R.SP


# Its frame is where a routine's own window would begin, and calls leave nothing of its registers
# alone but what it has saved: code would keep its values where others keep theirs.
NO_WINDOW = "keeps its registers in its frame, not in a window (-mflat)"


def saves_register(word: int) -> bool:
    """Whether an instruction stores a local or input register above %sp."""
    is_store = word >> 30 == 3 and word >> 19 & 63 in (0x04, 0x07, 0x0E)  # st, std, stx
    return is_store and word >> 25 & 31 >= R.L0 and word >> 14 & 31 == R.SP


def moves_stack(word: int) -> bool:
    """Whether an instruction that is no `save` or `restore` changes %sp."""
    is_arithmetic = word >> 30 == 2 and word >> 19 & 63 < _SAVE
    return is_arithmetic and word >> 25 & 31 == R.SP and word >> 19 & 63 not in (0x34, 0x35, 0x30)


def larger_save(word: int, more: int) -> tuple[Instruction, ...]:
    """Return a `save` that takes `more` bytes more off %sp."""
    if word & 1 << 13 and fits_simm13(simm13(word) - more):
        return (asm.arithmetic("save", R.SP, simm13(word) - more, R.SP),)
    return (Instruction(f".word {word:#010x}", word), asm.arithmetic("add", R.SP, -more, R.SP))
