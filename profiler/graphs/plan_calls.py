"""Calls of `plan_kernel`: as machine code where numbers fit, else in Python."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, cast

from simprof.profiler.graphs import plan_kernel as k
from simprof.simulator.cpu import compiled

LIMIT = 1 << 61  # What sums of paths and values do not exceed in 64-bit words, added up twice
_EXACT = 1 << 53  # Integers up to this are exact as floats
_WORD = 8


class Reals:
    """An array of weights, or the length of one of zeros: all other arrays hold integers."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[float] | int) -> None:
        self.values = values


Piece = Sequence[int] | Reals | int
"""What a kernel gets: an array that is copied, or the length of one of zeros."""


def call(
    function: Callable[..., int], size: dict[int, int], *pieces: Piece
) -> Callable[[int], array[Any] | list[Any]]:
    """Call a function of the kernel; returns what returns its arrays as they are then, by place.

    - `size`: What is known of its first array, by index.
    - `pieces`: The other arrays.
    """
    sizes = [0] * k.SIZES
    for index, known in size.items():
        sizes[index] = known
    native = compiled.native(function)
    if native is not None:
        try:
            found = _call_native(native, sizes, pieces)
        except OverflowError:  # a number is too large already
            found = None
        if found is not None:
            return found
    return _in_python(function, sizes, pieces)


def _in_python(
    function: Callable[..., int], sizes: list[int], pieces: Sequence[Piece]
) -> Callable[[int], list[Any]]:
    arrays: list[list[Any]] = [sizes]
    for piece in pieces:
        given = piece.values if isinstance(piece, Reals) else piece
        zero: float = 0.0 if isinstance(piece, Reals) else 0
        arrays.append([zero] * given if isinstance(given, int) else list(given))
    function(*arrays)
    return arrays.__getitem__


def _call_native(
    native: Callable[[int], int], sizes: list[int], pieces: Sequence[Piece]
) -> Callable[[int], array[Any]] | None:
    parts: list[bytes | array[Any]] = [array("q", [LIMIT, *sizes[k.LIMIT + 1 :]])]
    lengths = [len(sizes)]
    for piece in pieces:
        kind, given = ("d", piece.values) if isinstance(piece, Reals) else ("q", piece)
        if isinstance(given, int):
            parts.append(bytes(_WORD * given))
            lengths.append(given)
            continue
        if kind == "d":
            _check_exact(given)
        is_ready = isinstance(given, array) and given.typecode == kind
        parts.append(cast("array[Any]", given) if is_ready else array(kind, given))
        lengths.append(len(given))
    block = array("q", b"".join(parts))
    places = [*accumulate(lengths, initial=0)]
    base = block.buffer_info()[0]
    ends = zip(places, lengths, strict=False)
    words = array("q", [word for at, length in ends for word in (base + _WORD * at, length, 0)])
    if native(words.buffer_info()[0]) != k.DONE:
        return None

    def read(number: int) -> array[Any]:
        part = block[places[number] : places[number + 1]]
        if number and isinstance(pieces[number - 1], Reals):
            return array("d", part.tobytes())
        return part

    return read


def _check_exact(values: Sequence[float]) -> None:
    if not values or -_EXACT <= min(values) <= max(values) <= _EXACT:
        return
    # A float is itself, infinity as well.
    if any(isinstance(value, int) and abs(value) > _EXACT for value in values):
        raise OverflowError
