"""Everything at its address: the new segment's code, and the words of the old code that change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from profiler.rewriting.program import Copies
from profiler.rewriting.transfers import jump
from simulator.isa import assembler as asm
from simulator.isa.assembler import Instruction
from simulator.isa.assembly import Assembly, Item, assemble, link


@dataclass(frozen=True)
class Rewritten:
    """The new segment's code, and the words of the old code that change.

    Attributes
    ----------
    base
        Where the code begins.
    code
        Its words, big-endian.
    labels
        What is where in it.
    patches
        Old address -> new word.
    """

    base: int
    code: bytes
    labels: Mapping[str, int] = field(repr=False)
    patches: Mapping[int, int] = field(repr=False)


def place_program(copies: Copies, items: Sequence[Item], base: int) -> Rewritten:
    """Put everything at its address, `base` and up.

    Raises
    ------
    AssemblyError
        Something is out of reach.
    """
    linked = assemble(items, base, {f"old.{address:x}": address for address in _old(items)})
    return Rewritten(base, _with_distances(copies, linked), linked.labels, _patches(copies, linked))


def _with_distances(copies: Copies, linked: Assembly) -> bytes:
    """Return the code with the constants that thunks add the new return addresses to."""
    code = bytearray(linked.code)
    for copy in copies.routines.values():
        for constant, call, thunk in copy.thunk_calls:
            new = linked.labels[call]
            places = (linked.labels[constant], new + 4)
            for place, word in zip(places, thunk.words(new), strict=True):
                at = place - linked.base
                code[at : at + 4] = word.to_bytes(4, "big")
    return bytes(code)


def _old(items: Sequence[Item]) -> set[int]:
    symbols = {i.fixup.symbol for i in items if isinstance(i, Instruction) and i.fixup is not None}
    return {int(symbol[4:], 16) for symbol in symbols if symbol.startswith("old.")}


def _patches(copies: Copies, linked: Assembly) -> dict[int, int]:
    """Return the words of the old code that change."""
    patches: dict[int, int] = {}
    for copy in copies.routines.values():
        for address, label in copy.redirects.items():
            patches[address] = link(jump(label), address, linked.labels).word
        for site, target in copy.kept_calls.items():
            if target is not None and target in copies.entries:
                call = asm.call(copies.entries[target])
                patches[site] = link(call, site, linked.labels).word
    return patches
