"""A scheme's code in a copy: what stands where, and with which names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from simprof.profiler.code.emission import Emission, Piece, Stub
from simprof.profiler.code.places import find_place
from simprof.profiler.graphs.cfg import Block, EdgeKind
from simprof.profiler.rewriting.draft import Draft, NotRewritableError
from simprof.simulator.isa.assembler import Instruction, Item, Label
from simprof.simulator.isa.effects import effects


def named_by(words: Sequence[int]) -> int:
    """Return the registers that instructions mention (mask as in `simulator.isa.effects`)."""
    return int(np.bitwise_or.reduce(effects(np.array(words, dtype=np.uint32)).names, initial=0))


class SchemeCode:
    """The code of a scheme in one routine.

    Attributes
    ----------
    stubs
        What stands behind the blocks.
    copied
        Old addresses of delay slots whose copies begin stubs.
    """

    def __init__(self, draft: Draft, emission: Emission) -> None:
        self._draft, self._emission = draft, emission
        self.stubs = emission.stubs
        self.copied = {stub.copied for stub in emission.stubs}
        self._with_stub = {stub.edge for stub in emission.stubs}
        self._sent = {t: stub.edge for stub in emission.stubs for t in stub.transfers}
        self._tails: dict[int, list[Piece]] = defaultdict(list)
        self._heads: dict[int, list[Piece]] = defaultdict(list)
        self._line_up()

    def _line_up(self) -> None:
        """Find the code between blocks: by the block behind which it stands; by ENTRY edge."""
        cfg, context = self._draft.cfg, self._draft.context
        for pieces in self._emission.before_label.values():
            for piece in pieces:
                if piece.snippet.block is not None:  # behind the last instruction of that block
                    self._tails[piece.snippet.block].append(piece)
                    continue
                edge = cfg.edges[find_place(cfg, piece.number, context).edge]
                if edge.source == cfg.entry:
                    self._heads[edge.id].append(piece)
                else:
                    self._tails[edge.source].append(piece)

    @cached_property
    def named(self) -> int:
        """Every register that the code mentions."""
        return named_by([i.word for p in self._emission.pieces for i in p.snippet.instructions])

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

    def head(self, edge: int) -> list[Item]:
        """Return the code of an ENTRY edge, which stands before its block."""
        return self._named(self._heads.get(edge, ()))

    def has_head(self, block: Block) -> bool:
        """Whether code of an ENTRY edge stands before a block."""
        return any(edge in self._heads for edge in self._draft.cfg.in_edges[block.id])

    def tail(self, block: int) -> list[Item]:
        """Return the code of the edge to what a block runs on into."""
        return self._named(self._tails.get(block, ()))

    def at(self, block: int, address: int) -> list[Item]:
        """Return the code that belongs before an instruction of a block."""
        pieces = self._emission.at.get(address)
        if pieces is None:
            return []
        return self._named([p for p in pieces if p.snippet.block in (block, None)])

    def of_stub(self, stub: Stub) -> list[Item]:
        """Return the code of a stub."""
        return self._named(stub.pieces)

    def _named(self, pieces: Sequence[Piece]) -> list[Item]:
        """Return the instructions of pieces, their symbols made this routine's."""
        return [self._renamed(i, piece) for piece in pieces for i in piece.snippet.instructions]

    def _renamed(self, instruction: Instruction, piece: Piece) -> Instruction:
        fixup = instruction.fixup
        if fixup is None:
            return instruction
        symbol = fixup.symbol
        if symbol.startswith("block."):
            symbol = f"r{self._draft.number}.{symbol}"
        elif symbol == "exit":
            symbol = self._draft.program.label_of(self._leaves_to(piece.number))
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
            raise NotRewritableError(f"code is needed behind the transfer at {branch:#x}")
        return target

    # -- entries

    def write_head(self, edge: int, block: Block) -> None:
        """Put the code of an ENTRY edge before its block."""
        if edge not in self._heads:
            return
        self._refuse_run_into(block)
        self._draft.emit(Label(self.way_along(edge, block.id)), *self.head(edge))

    def _refuse_run_into(self, block: Block) -> None:
        """Refuse code of an entry that the block before would run into."""
        cfg = self._draft.cfg
        for edge in cfg.in_edges[block.id]:
            kind, source = cfg.edges[edge].kind, cfg.edges[edge].source
            runs_on = kind in (EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
            if runs_on and source < len(cfg.blocks):
                raise NotRewritableError(f"code of the entry at {block.start:#x} would be run into")
