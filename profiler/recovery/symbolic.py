"""Values that constant propagation knows, what an instruction does to them, and intervals.

Terms
-----
atom
    A value that is unknown but fixed: every copy of it is known to be the same.
    Operations on atoms give *derived* atoms, the same one for the same operation and operand.
Affine
    `base + atom * factor`: an index, or an address inside a table.
Entry
    `addend + (memory[affine] << shift)`: what a table holds at an index.
state
    Location -> value along all paths to a point; absent means unknown. Locations are register
    numbers 0..31, frame slots `(14 or 30, offset)`, `("fact", atom)` -> (low, high), the
    interval that comparisons have confined an atom to, and `"cc"`, the last comparison.
"""

# Integer constants are kept modulo 2**64, addresses are reduced to the program's width when used.
# A 32-bit extension of an index is taken to keep its value: compilers extend what they compared.

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import and_, or_, xor
from typing import Any, NamedTuple, TypeAlias

MASK64 = (1 << 64) - 1
SP, FP, O7 = 14, 30, 15
RETURN_ADDRESS = -1  # Atom of the value of %o7 at a routine's entry


class Affine(NamedTuple):
    """`base + atom * factor`, base modulo 2**64; the factor is a power of two or its negative."""

    base: int
    atom: int
    factor: int


class Entry(NamedTuple):
    """`addend + (element << shift)`, the element loaded from the table at an Affine address."""

    addend: int
    shift: int
    address: Affine
    size: int
    signed: bool


class Choice(NamedTuple):
    """One of several addresses of code, each of which some path leads with."""

    addresses: frozenset[int]


class ComparedValues(NamedTuple):
    """`value` was compared with the constant `against` (sign-extended)."""

    value: Affine
    against: int


SymbolicValue: TypeAlias = "int | Affine | Entry | Choice"
Bounds: TypeAlias = tuple[int | None, int | None]
UNBOUNDED: Bounds = (None, None)
SymbolicState: TypeAlias = dict[Hashable, Any]


def signed64(value: int) -> int:
    """Read a value modulo 2**64 as signed."""
    return (value & MASK64 ^ 1 << 63) - (1 << 63)


def sign_extend(value: int, bits: int) -> int:
    """Read the low `bits` bits of `value` as signed."""
    sign = 1 << (bits - 1)
    return (value & (sign << 1) - 1 ^ sign) - sign


def add(left: SymbolicValue | None, right: SymbolicValue | None) -> SymbolicValue | None:
    """Sum of two values, or None where it has no form."""
    if isinstance(left, int):
        left, right = right, left
    if not isinstance(right, int) or left is None:
        return None
    if isinstance(left, int):
        return (left + right) & MASK64
    if isinstance(left, Affine):
        return left._replace(base=(left.base + right) & MASK64)
    if isinstance(left, Choice):
        return left if right == 0 else None
    return left._replace(addend=(left.addend + right) & MASK64)


def negative(value: SymbolicValue | None) -> SymbolicValue | None:
    """Minus a value, or None where it has no form."""
    if isinstance(value, int):
        return -value & MASK64
    if isinstance(value, Affine):
        return Affine(-value.base & MASK64, value.atom, -value.factor)
    return None


class ReadOnlyMemory:
    """The bytes of a program that nothing can change."""

    def __init__(self, segments: Sequence[tuple[int, bytes]], address_mask: int) -> None:
        self._segments = tuple(segments)
        self.mask = address_mask

    def holds(self, address: int) -> bool:
        """Whether `address` lies in read-only bytes."""
        address &= self.mask
        return any(start <= address < start + len(data) for start, data in self._segments)

    def read(self, address: int, size: int, signed: bool) -> int | None:
        """Read `size` bytes at `address`, or None where they may change."""
        address &= self.mask
        for start, data in self._segments:
            offset = address - start
            if 0 <= offset <= len(data) - size:
                return int.from_bytes(data[offset : offset + size], "big", signed=signed)
        return None


def atom_of(location: Hashable, value: Any) -> int | None:
    """Atom that a location, or the value in it, is made of; None for constants."""
    kind = type(value)  # exact types, most frequent first: this is asked again and again
    if kind is tuple:
        if type(location) is tuple and location[0] == "fact":
            atom: int = location[1]
            return atom
        value = value[1]  # what a frame slot holds
        kind = type(value)
    if kind is Affine:
        return value.atom  # type: ignore[no-any-return]
    if kind is int:
        return None
    if kind is Entry:
        return value.address.atom  # type: ignore[no-any-return]
    return value.value.atom if kind is ComparedValues else None


def put(state: SymbolicState, register: int, value: SymbolicValue | None) -> None:
    """Set a register, or forget it; a frame register takes its slots with it."""
    if register in (SP, FP):
        for location in [k for k in state if isinstance(k, tuple) and k[0] == register]:
            del state[location]
    if value is None or register == 0:
        state.pop(register, None)
    else:
        state[register] = value


_BITWISE: Mapping[int, Callable[[int, int], int]] = {1: and_, 2: or_, 3: xor}


def logic(function: int, left: int, right: int) -> int | None:
    """Bitwise operation of two constants by its op3 function; None for other functions."""
    if function not in (1, 2, 3, 5, 6, 7):
        return None
    if function & 4:  # andn, orn, xnor: of the second one's complement
        right = ~right
    return _BITWISE[function & 3](left, right) & MASK64


def shift_left(value: SymbolicValue, count: int) -> SymbolicValue | None:
    """`value << count`, or None where it has no form."""
    if isinstance(value, int):
        return value << count & MASK64
    if isinstance(value, Affine):
        return Affine(value.base << count & MASK64, value.atom, value.factor << count)
    if isinstance(value, Entry) and value.addend == 0 and value.shift + count < 8:
        return value._replace(shift=value.shift + count)
    return None


def save_window(state: SymbolicState, rd: int) -> None:
    """New window: outs become ins, the rest of the window is unknown."""
    _move_window(state, range(8, 16), 16, SP, FP)
    put(state, rd, None)


def restore_window(state: SymbolicState, rd: int, result: SymbolicValue | None) -> None:
    """Old window: ins become outs again."""
    _move_window(state, range(24, 32), -16, FP, SP)
    put(state, rd, result)


def _move_window(state: SymbolicState, moving: range, offset: int, frame: int, to: int) -> None:
    kept: SymbolicState = {r + offset: state[r] for r in moving if r in state}
    for location, value in list(state.items()):
        if isinstance(location, tuple) and location[0] in (frame, to):
            del state[location]
            if location[0] == frame:
                kept[to, location[1]] = value
        elif isinstance(location, int) and location >= 8:
            del state[location]
    state.update(kept)


def wider(value: Bounds, other: Bounds) -> Bounds:
    """The interval around two intervals."""
    (low, high), (other_low, other_high) = value, other
    if low is not None and (other_low is None or other_low < low):
        low = other_low
    if high is not None and (other_high is None or other_high > high):
        high = other_high
    return low, high


def refine(
    state: SymbolicState, bounds: Bounds, comparison: ComparedValues, condition: int
) -> None:
    """Narrow the fact about the compared value, given that `condition` holds (V9 table 38)."""
    # `bounds` are those of its atom so far.
    value, against = comparison
    base, factor = signed64(value.base), value.factor
    ends = [None if end is None else base + factor * end for end in bounds]
    low, high = ends if factor > 0 else reversed(ends)
    low, high = narrow(low, high, against, condition)
    if factor < 0:
        low, high = (None if end is None else -end for end in (high, low))
        base, factor = -base, -factor
    low = None if low is None else -((base - low) // factor)
    high = None if high is None else (high - base) // factor
    if low is not None or high is not None:
        state["fact", value.atom] = (low, high)


def narrow(low: int | None, high: int | None, against: int, condition: int) -> Bounds:
    """Narrow an interval, given a comparison of the value in it with a constant."""
    match condition:
        case 1:  # equal
            return against, against
        case 9:  # not equal
            if low == against:
                return against + 1, high
            return low, against - 1 if high == against else high
        case 2 | 3:  # less or equal, less
            return low, _least(high, against if condition == 2 else against - 1)
        case 10 | 11:  # greater, greater or equal
            return _most(low, against + 1 if condition == 10 else against), high
        case 4 | 5 if against >= 0:  # the same, unsigned
            return _most(low, 0), _least(high, against if condition == 4 else against - 1)
        case 12 | 13 if against >= 0 and low is not None and low >= 0:
            return _most(low, against + 1 if condition == 12 else against), high
        case 6 if against == 0:  # negative
            return low, _least(high, -1)
        case 14 if against == 0:  # positive
            return _most(low, 0), high
    return low, high


def _least(known: int | None, limit: int) -> int:
    return limit if known is None else min(known, limit)


def _most(known: int | None, limit: int) -> int:
    return limit if known is None else max(known, limit)
