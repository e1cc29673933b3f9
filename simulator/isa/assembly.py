"""Code from instructions and labels: a two-pass assembler.

1. every label gets its address (`assign_labels`);
2. every fixup is filled in (`link`).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from simprof.simulator.isa.assembler import MASK32, AssemblyError, Fixup, FixupKind, Instruction


@dataclass(frozen=True)
class Label:
    """A place in an item list."""

    name: str


Item = Instruction | Label


@dataclass(frozen=True)
class Assembly:
    """Linked code: `instructions[k]` is at `base + 4 * k`; `labels` gives addresses."""

    base: int
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]

    @property
    def code(self) -> bytes:
        """The words, big-endian."""
        return b"".join(i.word.to_bytes(4, "big") for i in self.instructions)

    @property
    def text(self) -> str:
        """One instruction a line, with labels."""
        at: dict[int, list[str]] = {}
        for name, address in self.labels.items():
            at.setdefault(address, []).append(f"{name}:")
        lines: list[str] = []
        for k, instruction in enumerate(self.instructions):
            lines += at.get(self.base + 4 * k, [])
            lines.append(f"    {instruction.text}")
        return "\n".join(lines)


_DISPLACEMENT_BITS = {
    FixupKind.DISP30: 30,
    FixupKind.DISP22: 22,
    FixupKind.DISP19: 19,
    FixupKind.DISP16: 16,
}


def link(instruction: Instruction, address: int, symbols: Mapping[str, int]) -> Instruction:
    """Return `instruction` with its fixup filled in for its place at `address`.

    Raises
    ------
    AssemblyError
        The symbol is unknown, or out of the branch's reach.
    """
    if instruction.fixup is None:
        return instruction
    return replace(instruction, word=linked_word(instruction, address, symbols), fixup=None)


def linked_word(instruction: Instruction, address: int, symbols: Mapping[str, int]) -> int:
    """Return the word of `instruction` at `address`; raises what `link` does."""
    fixup = instruction.fixup
    if fixup is None:
        return instruction.word
    try:
        value = symbols[fixup.symbol]
    except KeyError:
        raise AssemblyError(f"`{instruction.text}` names an unknown symbol") from None
    return instruction.word | _field(fixup, value, address)


def _field(fixup: Fixup, value: int, address: int) -> int:
    if fixup.kind is FixupKind.HI22:
        return (value & MASK32) >> 10
    if fixup.kind is FixupKind.LO10:
        return value & 0x3FF
    bits = _DISPLACEMENT_BITS[fixup.kind]
    distance = (value - address) >> 2
    if bits < 30 and not -(1 << bits - 1) <= distance < 1 << bits - 1:
        raise AssemblyError(f"`{fixup.symbol}` is {4 * distance} bytes away, out of reach")
    field = distance & (1 << bits) - 1
    if fixup.kind is FixupKind.DISP16:
        return field >> 14 << 20 | field & 0x3FFF
    return field


def assign_labels(items: Iterable[Item], base: int) -> dict[str, int]:
    """Return the address of every label among `items`, placed from `base` on."""
    labels: dict[str, int] = {}
    address = base
    for item in items:
        if isinstance(item, Instruction):
            address += 4
        elif item.name in labels:
            raise AssemblyError(f"label `{item.name}` is defined twice")
        else:
            labels[item.name] = address
    return labels


def assemble(
    items: Sequence[Item], base: int, symbols: Mapping[str, int] | None = None
) -> Assembly:
    """Place `items` at `base`; `symbols` gives the addresses of names defined elsewhere."""
    labels = assign_labels(items, base)
    known = {**(symbols or {}), **labels}
    plain = [item for item in items if isinstance(item, Instruction)]
    linked = (link(item, base + 4 * k, known) for k, item in enumerate(plain))
    return Assembly(base, tuple(linked), labels)


def linked_code(items: Iterable[Item], base: int, symbols: Mapping[str, int]) -> bytes:
    """Return the words of `items` at `base`, big-endian, without their texts.

    Parameters
    ----------
    symbols
        Addresses of all names, the labels among `items` included (`assign_labels`).

    Raises
    ------
    AssemblyError
        A symbol is unknown, or out of a branch's reach.
    """
    words = array("I")
    for item in items:
        if isinstance(item, Instruction):
            words.append(linked_word(item, base + 4 * len(words), symbols))
    if sys.byteorder == "little":
        words.byteswap()
    return words.tobytes()
