"""Values of a cache: they come back as they were, and nothing else comes out of their bytes."""

from __future__ import annotations

import array
import functools
import operator
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simprof.profiler.code.pricing import KnownCosts
from simprof.profiler.graphs.numbering import graph_facts
from simprof.profiler.profiles import cache_files
from simprof.profiler.profiles.cache_files import dumps, loads
from simprof.profiler.recovery.recovery import Discoveries


def test_values_come_back_as_they_were() -> None:
    value = Discoveries(entries=frozenset({1 << 70, 2})), b"record"
    assert loads(dumps((value, {"a": [1.5, None, True]}))) == (value, {"a": [1.5, None, True]})


@pytest.mark.parametrize("kind", ["bool", "u1", "i4", ">u4", "i8", "f8"])
def test_arrays_come_back_as_they_were(kind: str) -> None:
    numbers = np.array([[1, 0, 3], [4, 5, 6]]).astype(kind)
    for given in (numbers, numbers.T, numbers[:, ::2], numbers[:0]):
        found = loads(dumps(given))
        assert found.dtype == given.dtype and found.shape == given.shape
        assert (found == given).all() and found.flags.writeable
    words = array.array("Q", [1, (1 << 64) - 1])
    assert loads(dumps(words)) == words


def test_one_object_is_left_out_and_put_in_again() -> None:
    graph = object()
    data = dumps([graph, "a", graph], graph)
    assert loads(data, "another") == ["another", "a", "another"]


class Call:
    """Pickled, a call of any function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.how = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.how


def named(module: str, name: str) -> bytes:
    """Return a pickle of what has a name, which may have dots."""
    return b"\x80\x04" + b"".join(b"\x8c" + bytes([len(word)]) + word.encode() for word in (
        module, name
    )) + b"\x93."  # fmt: skip


@pytest.mark.parametrize(
    "attack",
    [
        lambda mark: Call(os.system, f"touch {mark}"),
        lambda mark: Call(functools.partial, os.system, f"touch {mark}"),
        lambda mark: Call(operator.methodcaller, "touch"),
        lambda mark: Call(getattr, Path(mark), "touch"),
        lambda mark: Call(eval, f"open({mark!r}, 'w')"),
        lambda mark: Call(graph_facts, None),  # of a module that is listed, but no class
        lambda mark: Call(np.array, [1]),
        lambda mark: [np.int64(1), np.dtype("O")],
        lambda mark: KnownCosts(),  # of a module that is listed, but no value
        lambda mark: np.array([Call(os.system, f"touch {mark}")], object),
        lambda mark: Path(mark),
    ],
)
def test_nothing_but_values_comes_back(attack: Callable[[str], object], tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    for write in (pickle.dumps, dumps):
        data = write(("program", attack(str(mark))))
        assert loads(data) is None
        assert not mark.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("simprof.profiler.recovery.recovery", "Discoveries.merged"),
        ("simprof.profiler.recovery.recovery", "Discoveries.__init__.__globals__"),
        ("simprof.profiler.graphs.numbering", "ControlFlowGraph"),  # which only imports it
        ("simprof.profiler.session.memory", "BinaryMemory"),
        ("simprof.profiler.profiles.cache_files", "Path"),
        ("simprof.profiler.profiles.cache_files", "importlib"),
        ("simprof.profiler.profiles.cache_files", "loads"),
        ("simprof.profiler.schemes.registry", "importlib"),
        ("simprof.profiler.plan.actions", "Execution"),  # which can change
        ("simprof.profiler.schemes.nowhere", "Class"),
        ("simprof.profiler.cli", "main"),
        ("builtins", "getattr"),
        ("builtins", "object"),
    ],
)
def test_names_of_other_things_are_refused(module: str, name: str) -> None:
    assert loads(named(module, name)) is None


def test_names_of_values_are_known() -> None:
    assert loads(named("simprof.profiler.recovery.recovery", "Discoveries")) is Discoveries


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x05.", b"nonsense", dumps([1])[:-1]])
def test_damaged_bytes_are_no_value(data: bytes) -> None:
    assert loads(data) is None


def test_arrays_have_numbers_only() -> None:
    with pytest.raises(ValueError, match="no kind of numbers"):
        cache_files.array_of("|O", (1,), bytes(8))
    with pytest.raises(ValueError, match="reshape"):
        cache_files.array_of("<i8", (1 << 40,), bytes(8))
