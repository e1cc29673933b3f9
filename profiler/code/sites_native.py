"""`sites_kernel` as machine code."""

# The functions take one address, of the address and the length of each array.

from __future__ import annotations

from inspect import isfunction
from typing import Any

from simprof.profiler.code import sites_kernel as k
from simprof.simulator.cpu import compiled

_types = compiled.types

if compiled.is_here():
    from numba.extending import register_jitable

    for function in list(vars(k).values()):
        if isfunction(function):
            register_jitable(function)

_uint8s, _uint32s = map(compiled.array_of, (_types.uint8, _types.uint32))
_int32s, _int64s = map(compiled.array_of, (_types.int32, _types.int64))


@compiled.inline
def _bytes(at: int, number: int) -> Any:
    place = _int64s(at + 16 * number, 2)
    return _uint8s(place[0], place[1])


@compiled.inline
def _words(at: int, number: int) -> Any:
    place = _int64s(at + 16 * number, 2)
    return _uint32s(place[0], place[1])


@compiled.inline
def _ints(at: int, number: int) -> Any:
    place = _int64s(at + 16 * number, 2)
    return _int32s(place[0], place[1])


@compiled.inline
def _longs(at: int, number: int) -> Any:
    place = _int64s(at + 16 * number, 2)
    return _int64s(place[0], place[1])


_as_kernel = compiled.c_function(_types.int64(_types.int64), error_model="numpy", _nrt=False)


@_as_kernel
def flow(at: int) -> int:
    """`sites_kernel.flow`."""
    return k.flow(
        _longs(at, 0), _ints(at, 1), _ints(at, 2), _bytes(at, 3), _longs(at, 4), _ints(at, 5),
        _ints(at, 6), _bytes(at, 7), _longs(at, 8), _longs(at, 9), _words(at, 10), _longs(at, 11),
        _longs(at, 12), _longs(at, 13), _bytes(at, 14), _longs(at, 15), _longs(at, 16),
        _longs(at, 17), _longs(at, 18), _longs(at, 19), _longs(at, 20), _longs(at, 21),
        _longs(at, 22), _longs(at, 23),
    )  # fmt: skip


@_as_kernel
def place(at: int) -> int:
    """`sites_kernel.place`."""
    return k.place(
        _longs(at, 0), _ints(at, 1), _ints(at, 2), _bytes(at, 3), _longs(at, 4), _bytes(at, 5),
        _ints(at, 6), _ints(at, 7), _bytes(at, 8), _longs(at, 9), _longs(at, 10), _bytes(at, 11),
        _ints(at, 12), _words(at, 13), _longs(at, 14), _longs(at, 15), _bytes(at, 16),
        _longs(at, 17), _longs(at, 18), _longs(at, 19), _longs(at, 20), _longs(at, 21),
        _longs(at, 22), _longs(at, 23), _longs(at, 24), _longs(at, 25), _longs(at, 26),
        _longs(at, 27), _longs(at, 28), _longs(at, 29), _longs(at, 30), _longs(at, 31),
        _longs(at, 32), _longs(at, 33), _longs(at, 34),
    )  # fmt: skip


@_as_kernel
def access(at: int) -> int:
    """`sites_kernel.access`."""
    return k.access(
        _longs(at, 0), _longs(at, 1), _longs(at, 2), _longs(at, 3), _longs(at, 4), _bytes(at, 5),
        _bytes(at, 6), _bytes(at, 7),
    )  # fmt: skip


@_as_kernel
def settle(at: int) -> int:
    """`sites_kernel.settle`."""
    return k.settle(
        _longs(at, 0), _longs(at, 1), _longs(at, 2), _bytes(at, 3), _bytes(at, 4), _bytes(at, 5),
    )  # fmt: skip
