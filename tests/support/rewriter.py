"""Instruments assembled routines for real: generated snippets put where `emission` says.

This is what an editor of executables would do, on items with labels instead of on an ELF file:
code in front of instructions, in line before labels, and stubs that branches are sent to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.emission import Piece, Stub, emit
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.code.spilling import Edit
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.rewriting.draft import FIELDS
from simprof.profiler.rewriting.placing import growth, is_save, larger_save
from simprof.simulator.isa.assembler import FixupKind, Instruction, Item, Label
from tests.support.assembled import BASE


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
        self._cfg, self._context = cfg, context
        self._emission = emit(cfg, context, code)

    def rewrite(self) -> list[Item]:
        """Return the routine with its instrumentation."""
        blocks = {b.start: f"block.{b.id}" for b in self._cfg.blocks if not b.is_slot}
        redirected = self._redirected()
        out: list[Item] = []
        labels: list[Item] = []
        address = BASE
        for item in self._items:
            if isinstance(item, Label):
                labels.append(item)
                continue
            out += _code(self._emission.before_label, address)
            for stub in self._emission.stubs:
                if address in blocks and f"block.{stub.before}" == blocks[address]:
                    out += self._stub(stub)
            out += labels
            out += [Label(blocks[address])] if address in blocks else []
            edit = self._emission.edits.get(address, Edit((), item.word))
            if self._emission.edits and is_save(item.word):  # room for the words of the registers
                (item,) = larger_save(item.word, growth((), self._context))
                edit = Edit((), item.word)
            moved = _moved(item, redirected.get(address))
            moved = _changed(moved, edit.word)
            out += [*_code(self._emission.at, address), *edit.before, moved, *edit.after]
            labels = []
            address += 4
        out += [*_code(self._emission.before_label, address), *labels]
        copied = {stub.copied for stub in self._emission.stubs}
        out = [i for i in out if not isinstance(i, Label) or i.name not in self._names(copied)]
        for stub in self._emission.stubs:
            out += self._stub(stub) if stub.before is None else []
        return out

    def _stub(self, stub: Stub) -> list[Item]:
        out: list[Item] = [Label(_name(stub))]
        if stub.copied is not None:
            out += [Label(n) for n in sorted(self._names({stub.copied}))]
            out += [self._instruction(stub.copied)]
        return [*out, *(i for p in stub.pieces for i in p.snippet.instructions)]

    def _names(self, addresses: set[int | None]) -> set[str]:
        """Labels of blocks at these addresses, which stand at their copies instead."""
        blocks = (b for b in self._cfg.blocks if not b.is_slot)
        return {f"block.{b.id}" for b in blocks if b.start in addresses}

    def _instruction(self, address: int) -> Instruction:
        plain = [item for item in self._items if isinstance(item, Instruction)]
        return plain[(address - BASE) >> 2]

    def _redirected(self) -> dict[int, str]:
        """Address of a branch -> the stub that it is sent to."""
        found: dict[int, str] = {}
        for stub in self._emission.stubs:
            for transfer in stub.transfers:
                assert transfer not in found
                found[transfer] = _name(stub)
        return found


def _name(stub: Stub) -> str:
    return f"stub.{stub.edge}"


def _code(places: Mapping[int, Sequence[Piece]], address: int) -> list[Item]:
    return [i for piece in places.get(address, ()) for i in piece.snippet.instructions]


def _changed(item: Instruction, word: int) -> Instruction:
    """Return an instruction with the registers that `word` has."""
    if item.fixup is not None:  # its field is 0 before it is linked
        word &= ~{**FIELDS, FixupKind.HI22: 0x3FFFFF, FixupKind.LO10: 0x3FF}[item.fixup.kind]
    return item if word == item.word else replace(item, text="spilled", word=word)


def _moved(item: Instruction, stub: str | None) -> Instruction:
    if stub is None:
        return item
    assert item.is_transfer
    assert item.fixup is not None
    return replace(item, fixup=replace(item.fixup, symbol=stub))
