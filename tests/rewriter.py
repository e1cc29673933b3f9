"""Instruments assembled routines for real: generated snippets put where `places` says.

This is what an editor of executables would do, on items with labels instead of on an ELF file:
code in front of instructions, in line before labels, and stubs that branches are sent to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from assembled import BASE
from profiler.cfg import ControlFlowGraph
from profiler.codegen import RoutineCode, RoutineContext, Snippet
from profiler.places import Where, find_place
from simulator.assembler import Instruction
from simulator.assembly import Item, Label


class Rewriter:
    """Rewrites the routine that starts a program (at `BASE`)."""

    def __init__(
        self,
        items: Sequence[Item],
        cfg: ControlFlowGraph,
        context: RoutineContext,
        code: RoutineCode,
    ) -> None:
        self._items = list(items)
        self._cfg = cfg
        self._context = context
        self._code = code
        self._before_label: dict[int, list[Item]] = defaultdict(list)
        self._top: dict[int, list[Item]] = defaultdict(list)
        self._end: dict[int, list[Item]] = defaultdict(list)
        self._redirected: dict[int, str] = {}
        self._stubs: list[Item] = []

    def rewrite(self) -> list[Item]:
        """Return the routine with its instrumentation."""
        for edge in sorted(self._code.snippets):
            self._insert(edge, self._code.snippets[edge])
        blocks = {
            self._index(block.start): f"block.{block.id}"
            for block in self._cfg.blocks
            if not block.is_slot
        }
        out: list[Item] = []
        index = 0
        labels: list[Item] = []
        for item in self._items:
            if isinstance(item, Label):
                labels.append(item)
                continue
            out += [*self._before_label[index], *labels]
            out += [Label(blocks[index])] if index in blocks else []
            out += [*self._top[index], *self._end[index], self._moved(index, item)]
            labels = []
            index += 1
        return [*out, *labels, *self._stubs]

    def _index(self, address: int) -> int:
        return (address - BASE) >> 2

    def _moved(self, index: int, item: Instruction) -> Instruction:
        if index not in self._redirected:
            return item
        assert item.fixup is not None
        return replace(item, fixup=replace(item.fixup, symbol=self._redirected[index]))

    def _insert(self, edge: int, snippet: Snippet) -> None:
        place = find_place(self._cfg, edge, self._context)
        assert place.where == snippet.where
        code = list(snippet.instructions)
        if place.block is not None and place.position is not None:
            index = self._index(self._cfg.blocks[place.block].start) + place.position
            kind = self._top if place.where is Where.TARGET_TOP else self._end
            if place.position == self._cfg.blocks[place.block].instructions:
                kind = self._before_label  # behind the block's last instruction
            kind[index] += code
        elif place.where is Where.FALL_THROUGH:
            target = self._cfg.edges[place.edge].target
            self._before_label[self._index(self._cfg.blocks[target].start)] += code
        else:
            self._add_to_stub(place.edge, code)

    def _add_to_stub(self, edge: int, code: list[Instruction]) -> None:
        """Stubs are per edge; code of the edge into a slot block comes first in one."""
        source = self._cfg.blocks[self._cfg.edges[edge].source]
        transfer = self._index(source.start) - 1
        if not source.is_slot:
            transfer = self._index(source.end) - 1
            if not self._is_branch(transfer) or transfer < self._index(source.start):
                transfer -= 1
        assert self._is_branch(transfer)
        if transfer not in self._redirected:
            self._redirected[transfer] = f"stub.{edge}"
            self._stubs.append(Label(f"stub.{edge}"))
        self._stubs += code

    def _is_branch(self, index: int) -> bool:
        plain = [item for item in self._items if isinstance(item, Instruction)]
        return plain[index].is_transfer
