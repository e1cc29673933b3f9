"""The operations of VIS 1 and 2 on numbers, written from their manuals, one lane after the other.

Sources: VIS Instruction Set User's Manual (Sun, 805-1394), chapter 4; UltraSPARC Architecture
2005, chapter 7. `OPERATIONS` has each by the number in its opf field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq, gt, le, ne

MASK64 = (1 << 64) - 1


@dataclass
class Vis:
    """What an operation works on: operands as its form has them, %gsr, the width of addresses."""

    one: int  # rs1: a double, a single, or an integer register
    two: int
    before: int  # rd, for what adds to it
    gsr: int
    is64: bool = True

    def field(self, low: int, bits: int) -> int:
        """Return a field of %gsr."""
        return self.gsr >> low & (1 << bits) - 1


Operation = Callable[[Vis], int]


def lanes(value: int, bits: int, count: int, signed: bool = True) -> list[int]:
    """Return the parts of a register, the most significant first."""
    parts = [value >> bits * n & (1 << bits) - 1 for n in reversed(range(count))]
    return [part - (part >> bits - 1 << bits) if signed else part for part in parts]


def joined(parts: Sequence[int], bits: int) -> int:
    """Return a register of parts, each cut to its width."""
    value = 0
    for part in parts:
        value = value << bits | part & (1 << bits) - 1
    return value


def _partitioned(sign: int, bits: int, count: int) -> Operation:
    def add(v: Vis) -> int:
        pairs = zip(lanes(v.one, bits, count), lanes(v.two, bits, count), strict=True)
        return joined([a + sign * b for a, b in pairs], bits)

    return add


def _compared(test: Callable[[int, int], bool], bits: int) -> Operation:
    def compare(v: Vis) -> int:
        pairs = zip(lanes(v.one, bits, 64 // bits), lanes(v.two, bits, 64 // bits), strict=True)
        return joined([int(test(a, b)) for a, b in pairs], 1)

    return compare


# -- multiplication: products of 24 bits, of which the upper 16 are rounded, ties upwards


def _upper16(product: int) -> int:
    return product + 0x80 >> 8


def _fmul8x16(v: Vis) -> int:
    pixels, factors = lanes(v.one, 8, 4, signed=False), lanes(v.two, 16, 4)
    return joined([_upper16(p * f) for p, f in zip(pixels, factors, strict=True)], 16)


def _fmul8x16a(half: int) -> Operation:
    def multiply(v: Vis) -> int:
        factor = lanes(v.two, 16, 2)[half]
        return joined([_upper16(p * factor) for p in lanes(v.one, 8, 4, signed=False)], 16)

    return multiply


def _upper_bytes(value: int, count: int) -> list[int]:
    return lanes(value, 8, 2 * count)[::2]


def _lower_bytes(value: int, count: int) -> list[int]:
    return lanes(value, 8, 2 * count, signed=False)[1::2]


def _fmul8sux16(v: Vis) -> int:
    pairs = zip(_upper_bytes(v.one, 4), lanes(v.two, 16, 4), strict=True)
    return joined([_upper16(a * b) for a, b in pairs], 16)


def _fmul8ulx16(v: Vis) -> int:
    pairs = zip(_lower_bytes(v.one, 4), lanes(v.two, 16, 4), strict=True)
    return joined([a * b + 0x8000 >> 16 for a, b in pairs], 16)


def _fmuld8sux16(v: Vis) -> int:
    pairs = zip(_upper_bytes(v.one, 2), lanes(v.two, 16, 2), strict=True)
    return joined([a * b << 8 for a, b in pairs], 32)


def _fmuld8ulx16(v: Vis) -> int:
    pairs = zip(_lower_bytes(v.one, 2), lanes(v.two, 16, 2), strict=True)
    return joined([a * b for a, b in pairs], 32)


# -- packing


def _clipped(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def _fpack16(v: Vis) -> int:
    scale = v.field(3, 4)
    return joined([_clipped(each << scale >> 7, 0, 255) for each in lanes(v.two, 16, 4)], 8)


def _fpack32(v: Vis) -> int:
    scale = v.field(3, 5)
    pixels = [_clipped(each << scale >> 23, 0, 255) for each in lanes(v.two, 32, 2)]
    return joined([a << 8 | p for a, p in zip(lanes(v.one, 32, 2), pixels, strict=True)], 32)


def _fpackfix(v: Vis) -> int:
    scale = v.field(3, 5)
    limits = -0x8000, 0x7FFF
    return joined([_clipped(each << scale >> 16, *limits) for each in lanes(v.two, 32, 2)], 16)


def _fexpand(v: Vis) -> int:
    return joined([each << 4 for each in lanes(v.two, 8, 4, signed=False)], 16)


def _fpmerge(v: Vis) -> int:
    pairs = zip(lanes(v.one, 8, 4), lanes(v.two, 8, 4), strict=True)
    return joined([each for pair in pairs for each in pair], 8)


def _pdist(v: Vis) -> int:
    pairs = zip(lanes(v.one, 8, 8, signed=False), lanes(v.two, 8, 8, signed=False), strict=True)
    return v.before + sum(abs(a - b) for a, b in pairs) & MASK64


# -- bytes in order


def _faligndata(v: Vis) -> int:
    first = v.field(0, 3)
    return joined(lanes(v.one << 64 | v.two, 8, 16)[first : first + 8], 8)


def _bshuffle(v: Vis) -> int:
    together = lanes(v.one << 64 | v.two, 8, 16)
    return joined([together[each] for each in lanes(v.field(32, 32), 4, 8, signed=False)], 8)


# -- addresses


def _edge(bits: int, little: bool) -> Operation:
    # The bytes of the two words of 8 that hold the first and the last address.
    unit = bits // 8
    count = 8 // unit

    def edge(v: Vis) -> int:
        left = [n >= (v.one & 7) // unit for n in range(count)]
        right = [n <= (v.two & 7) // unit for n in range(count)]
        width = MASK64 if v.is64 else 0xFFFFFFFF
        one_word = (v.one & width) >> 3 == (v.two & width) >> 3
        inside = [a and (b or not one_word) for a, b in zip(left, right, strict=True)]
        return joined([int(each) for each in (reversed(inside) if little else inside)], 1)

    return edge


def _array(shift: int) -> Operation:
    def blocked(v: Vis) -> int:
        x, y, z = v.one >> 11 & 0x7FF, v.one >> 33 & 0x7FF, v.one >> 55 & 0x1FF
        n = min(v.two, 5)  # a cube has sides of 64 << n
        fields = [(x, 2), (y, 2), (z, 1), (x >> 2, 4), (y >> 2, 4), (z >> 1, 4)]
        fields += [(x >> 6, n), (y >> 6, n), (z >> 5, 4)]
        value = at = 0
        for field, bits in fields:
            value, at = value | (field & (1 << bits) - 1) << at, at + bits
        return value << shift

    return blocked


def _sum(v: Vis) -> int:
    return v.one + v.two & MASK64


def _alignaddr(v: Vis) -> int:
    return _sum(v) & ~7


def _logical(function: Callable[[int, int], int], bits: int) -> Operation:
    return lambda v: function(v.one, v.two) & (1 << bits) - 1


DOUBLE, SINGLE, INTEGER = "d", "s", "i"
# opf -> mnemonic, forms of rs1, rs2 and rd, what it does
OPERATIONS: dict[int, tuple[str, str, Operation]] = {
    0x10: ("array8", "iii", _array(0)),
    0x12: ("array16", "iii", _array(1)),
    0x14: ("array32", "iii", _array(2)),
    0x18: ("alignaddr", "iii", _alignaddr),
    0x19: ("bmask", "iii", _sum),
    0x1A: ("alignaddrl", "iii", _alignaddr),
    0x31: ("fmul8x16", "sdd", _fmul8x16),
    0x33: ("fmul8x16au", "ssd", _fmul8x16a(0)),
    0x35: ("fmul8x16al", "ssd", _fmul8x16a(1)),
    0x36: ("fmul8sux16", "ddd", _fmul8sux16),
    0x37: ("fmul8ulx16", "ddd", _fmul8ulx16),
    0x38: ("fmuld8sux16", "ssd", _fmuld8sux16),
    0x39: ("fmuld8ulx16", "ssd", _fmuld8ulx16),
    0x3A: ("fpack32", "ddd", _fpack32),
    0x3B: ("fpack16", "dds", _fpack16),
    0x3D: ("fpackfix", "dds", _fpackfix),
    0x3E: ("pdist", "ddd", _pdist),
    0x48: ("faligndata", "ddd", _faligndata),
    0x4B: ("fpmerge", "ssd", _fpmerge),
    0x4C: ("bshuffle", "ddd", _bshuffle),
    0x4D: ("fexpand", "ssd", _fexpand),
}
for number, (bits, little, ending) in enumerate(
    (bits, little, ending) for bits in (8, 16, 32) for little in (False, True) for ending in "cn"
):
    name = f"edge{bits}{'l' * little}{'cc' if ending == 'c' else 'n'}"
    OPERATIONS[number] = name, "iii", _edge(bits, little)
for number, (test, bits) in enumerate((t, b) for b in (16, 32) for t in (le, ne)):
    OPERATIONS[0x20 + 2 * number] = f"fcmp{test.__name__}{bits}", "ddi", _compared(test, bits)
for number, (test, bits) in enumerate((t, b) for b in (16, 32) for t in (gt, eq)):
    OPERATIONS[0x28 + 2 * number] = f"fcmp{test.__name__}{bits}", "ddi", _compared(test, bits)
for number, (sign, bits) in enumerate((s, b) for s in (1, -1) for b in (16, 32)):
    name = f"fp{'add' if sign > 0 else 'sub'}{bits}"
    OPERATIONS[0x50 + 2 * number] = name, "ddd", _partitioned(sign, bits, 64 // bits)
    OPERATIONS[0x51 + 2 * number] = name + "s", "sss", _partitioned(sign, bits, 32 // bits)
_LOGICALS: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    ("fzero", lambda a, b: 0),
    ("fnor", lambda a, b: ~(a | b)),
    ("fandnot2", lambda a, b: a & ~b),
    ("fnot2", lambda a, b: ~b),
    ("fandnot1", lambda a, b: ~a & b),
    ("fnot1", lambda a, b: ~a),
    ("fxor", lambda a, b: a ^ b),
    ("fnand", lambda a, b: ~(a & b)),
    ("fand", lambda a, b: a & b),
    ("fxnor", lambda a, b: ~(a ^ b)),
    ("fsrc1", lambda a, b: a),
    ("fornot2", lambda a, b: a | ~b),
    ("fsrc2", lambda a, b: b),
    ("fornot1", lambda a, b: ~a | b),
    ("for", lambda a, b: a | b),
    ("fone", lambda a, b: ~0),
)
for number, (name, function) in enumerate(_LOGICALS):
    OPERATIONS[0x60 + 2 * number] = name, "ddd", _logical(function, 64)
    OPERATIONS[0x61 + 2 * number] = name + "s", "sss", _logical(function, 32)


def gsr_after(opf: int, v: Vis) -> int:
    """Return %gsr after an operation: the two that align and `bmask` set fields of it."""
    if opf == 0x19:
        return v.gsr & 0xFFFFFFFF | (v.one + v.two & 0xFFFFFFFF) << 32
    if opf in (0x18, 0x1A):
        total = v.one + v.two if opf == 0x18 else -(v.one + v.two)
        return v.gsr & ~7 | total & 7
    return v.gsr
