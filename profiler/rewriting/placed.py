"""Everything at its address: the new segment's code, and the words of the old code that change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simprof.profiler.rewriting.program import Copies
from simprof.profiler.rewriting.startup import ENTRY
from simprof.profiler.rewriting.transfers import jump
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, linked_code, linked_word


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


class Places(dict[str, int]):
    """Addresses of labels, and of what is named by an old address.

    `entry.ADDRESS` is where a copy is entered that stands for an old address, or that address
    itself where there is none; `old.ADDRESS` is always the old code.

    Parameters
    ----------
    labels
        Those of the new segment.
    entries
        Old address by which a copy is entered -> its label.
    entry
        Where the program begins.
    """

    def __init__(self, labels: Mapping[str, int], entries: Mapping[int, str], entry: int) -> None:
        super().__init__(labels)
        self._entries, self._entry = entries, entry

    def __missing__(self, name: str) -> int:
        """Return the address of what is no label."""
        kind, _, text = name.partition(".")
        if name == ENTRY:
            kind, text = "entry", f"{self._entry:x}"
        if kind not in ("entry", "old"):
            raise KeyError(name)
        address = int(text, 16)
        label = self._entries.get(address) if kind == "entry" else None
        self[name] = address if label is None else self[label]
        return self[name]


def place_program(
    copies: Copies, items: Sequence[Item], base: int, labels: Mapping[str, int], entry: int
) -> Rewritten:
    """Put everything at its address, `base` and up.

    Parameters
    ----------
    labels
        Addresses of all labels among `items` (`assign_labels`).
    entry
        Where the program begins.

    Raises
    ------
    AssemblyError
        Something is out of reach.
    """
    places = Places(labels, copies.entries, entry)
    code = linked_code(items, base, places)
    return Rewritten(
        base, _with_distances(copies, code, base, labels), labels, _patches(copies, places)
    )


def _with_distances(copies: Copies, code: bytes, base: int, labels: Mapping[str, int]) -> bytes:
    """Return the code with the constants that thunks add the new return addresses to."""
    changed = bytearray(code)
    for copy in copies.routines.values():
        for constant, call, thunk in copy.thunk_calls:
            new = labels[call]
            for place, word in zip((labels[constant], new + 4), thunk.words(new), strict=True):
                changed[place - base : place - base + 4] = word.to_bytes(4, "big")
    return bytes(changed)


def _patches(copies: Copies, places: Places) -> dict[int, int]:
    """Return the words of the old code that change."""
    patches: dict[int, int] = {}
    for copy in copies.routines.values():
        for address, label in copy.redirects.items():
            patches[address] = linked_word(jump(label), address, places)
        for site, target in copy.kept_calls.items():
            if target is not None and target in copies.entries:
                call = asm.call(copies.entries[target])
                patches[site] = linked_word(call, site, places)
    return patches
