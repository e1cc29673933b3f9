"""`plan_kernel` as machine code."""

# All C functions take one address, of 64-bit words: the places of the arrays behind it, from there,
# then that of their end, then the arrays.

from __future__ import annotations

from inspect import isfunction
from typing import Any

from simprof.profiler.graphs import plan_kernel as k
from simprof.simulator.cpu import compiled

_types = compiled.types

if compiled.is_here():
    from numba.extending import register_jitable

    for function in list(vars(k).values()):
        if isfunction(function):
            register_jitable(function)

_int64s, _doubles = map(compiled.array_of, (_types.int64, _types.float64))


@compiled.inline
def _words(address: int, number: int) -> Any:
    places = _int64s(address, number + 2)
    begin = places[number]
    return _int64s(address + 8 * begin, places[number + 1] - begin)


@compiled.inline
def _reals(address: int, number: int) -> Any:
    places = _int64s(address, number + 2)
    begin = places[number]
    return _doubles(address + 8 * begin, places[number + 1] - begin)


_as_kernel = compiled.c_function(_types.int64(_types.int64), error_model="numpy", _nrt=False)


@_as_kernel
def dominate(at: int) -> int:
    """`plan_kernel.dominate`."""
    return k.dominate(
        _words(at, 0), _words(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9), _words(at, 10), _words(at, 11),
        _words(at, 12),
    )  # fmt: skip


@_as_kernel
def loop_body(at: int) -> int:
    """`plan_kernel.loop_body`."""
    return k.loop_body(
        _words(at, 0), _words(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9),
    )  # fmt: skip


@_as_kernel
def heuristic(at: int) -> int:
    """`plan_kernel.heuristic`."""
    return k.heuristic(
        _words(at, 0), _reals(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9), _words(at, 10), _words(at, 11),
        _words(at, 12), _words(at, 13), _words(at, 14), _words(at, 15), _words(at, 16),
        _words(at, 17), _words(at, 18), _reals(at, 19),
    )  # fmt: skip


@_as_kernel
def edge_shares(at: int) -> int:
    """`plan_kernel.edge_shares`."""
    return k.edge_shares(
        _words(at, 0), _reals(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _reals(at, 7),
    )  # fmt: skip


@_as_kernel
def survey(at: int) -> int:
    """`plan_kernel.survey`."""
    return k.survey(
        _words(at, 0), _reals(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9), _words(at, 10), _words(at, 11),
        _words(at, 12), _words(at, 13), _words(at, 14), _words(at, 15), _words(at, 16),
        _words(at, 17), _words(at, 18), _words(at, 19), _words(at, 20), _words(at, 21),
        _words(at, 22), _words(at, 23), _words(at, 24), _words(at, 25), _words(at, 26),
        _words(at, 27), _reals(at, 28),
    )  # fmt: skip


@_as_kernel
def make_dag(at: int) -> int:
    """`plan_kernel.make_dag`."""
    return k.make_dag(
        _words(at, 0), _words(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9), _words(at, 10), _words(at, 11),
        _words(at, 12), _words(at, 13), _words(at, 14), _words(at, 15),
    )  # fmt: skip


@_as_kernel
def number(at: int) -> int:
    """`plan_kernel.number`."""
    return k.number(
        _words(at, 0), _words(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9),
    )  # fmt: skip


@_as_kernel
def truncate(at: int) -> int:
    """`plan_kernel.truncate`."""
    return k.truncate(
        _words(at, 0), _words(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9),
    )  # fmt: skip


@_as_kernel
def spanning_tree(at: int) -> int:
    """`plan_kernel.spanning_tree`."""
    return k.spanning_tree(
        _words(at, 0), _reals(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _reals(at, 7), _words(at, 8), _words(at, 9),
    )  # fmt: skip


@_as_kernel
def count_events(at: int) -> int:
    """`plan_kernel.count_events`."""
    return k.count_events(
        _words(at, 0), _words(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9), _words(at, 10), _words(at, 11),
    )  # fmt: skip


@_as_kernel
def frontier(at: int) -> int:
    """`plan_kernel.frontier`."""
    return k.frontier(
        _words(at, 0), _words(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9),
    )  # fmt: skip


@_as_kernel
def plan(at: int) -> int:
    """`plan_kernel.plan`."""
    return k.plan(
        _words(at, 0), _reals(at, 1), _words(at, 2), _words(at, 3), _words(at, 4), _words(at, 5),
        _words(at, 6), _words(at, 7), _words(at, 8), _words(at, 9), _words(at, 10), _words(at, 11),
        _words(at, 12), _words(at, 13), _words(at, 14), _words(at, 15), _words(at, 16),
        _words(at, 17), _words(at, 18), _words(at, 19), _words(at, 20), _words(at, 21),
        _words(at, 22), _words(at, 23), _reals(at, 24), _words(at, 25), _words(at, 26),
        _reals(at, 27), _words(at, 28), _words(at, 29), _words(at, 30), _words(at, 31),
        _words(at, 32), _words(at, 33), _words(at, 34), _words(at, 35),
    )  # fmt: skip
