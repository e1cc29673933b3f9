"""Graphs as bytes: they come back as they were, and nothing else comes out of bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.lib.format import write_array_header_1_0

from simprof.profiler.recovery.kept import from_bytes, to_bytes
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.simulator.binary import elf

Find = Callable[..., Path]


@pytest.fixture
def recovered(fixture_elf: Find) -> ProgramGraphs:
    """Graphs of a program, with all that graphs may have."""
    found = recover(elf.load(fixture_elf("switches_pic", "v9")))
    names = tuple(f"{name} \udcff\n" for name in found.arrays.names)
    packed = replace(found.arrays, names=names)
    irregular = ((0x40, "a reason, in words \u2013 and signs"), (0x80, ""))
    return replace(
        found, routines=packed, irregular=irregular, unresolved_jumps=(8, 1 << 40),
        no_return_calls=frozenset({4, 12}), call_aliases=frozenset({16}),
    )  # fmt: skip


def arrays_of(data: bytes) -> list[Any]:
    """Return the arrays that are there, in their order."""
    file, found = io.BytesIO(data), []
    while file.tell() < len(data):
        found.append(np.load(file))
    return found


def joined(arrays: list[Any]) -> bytes:
    """Return arrays as bytes, one after the other."""
    file = io.BytesIO()
    for each in arrays:
        np.save(file, each)
    return file.getvalue()


def test_graphs_come_back(recovered: ProgramGraphs) -> None:
    found = from_bytes(to_bytes(recovered), recovered.program, recovered.code)
    assert found == recovered and found is not None
    assert found.arrays == recovered.arrays
    for name in ("block_at", "first_block"):
        mine, theirs = getattr(found, name), getattr(recovered, name)
        assert mine.dtype == theirs.dtype and (mine == theirs).all()


def test_what_is_no_such_file_is_no_graphs(recovered: ProgramGraphs) -> None:
    data, given = to_bytes(recovered), (recovered.program, recovered.code)
    for damaged in (b"", b"PK", b"nonsense", data[:-1], data[: len(data) // 2], data[1:]):
        assert from_bytes(damaged, *given) is None
    arrays = arrays_of(data)
    assert from_bytes(joined(arrays), *given) == recovered
    for number, each in enumerate(arrays):
        others = [each.astype(np.float32), each.reshape(1, -1)]
        for other in others:
            changed = [*arrays[:number], other, *arrays[number + 1 :]]
            assert from_bytes(joined(changed), *given) is None
        assert from_bytes(joined([*arrays[:number], *arrays[number + 1 :]]), *given) is None
    assert from_bytes(joined([*arrays[:-1], arrays[-1][:-1]]), *given) is None  # a reason less
    other_program = replace(recovered.program, sha256="0" * 64)
    assert from_bytes(data, other_program, recovered.code) is None


@pytest.mark.parametrize("size", [1 << 40, 1 << 62, 1 << 70, -1])
def test_an_array_that_says_it_is_huge_is_none(size: int, recovered: ProgramGraphs) -> None:
    file = io.BytesIO()
    described = {"descr": "<i8", "fortran_order": False, "shape": (size,)}
    write_array_header_1_0(file, described)
    data = file.getvalue() + to_bytes(recovered)
    assert from_bytes(data, recovered.program, recovered.code) is None


def test_nothing_in_it_is_executed(recovered: ProgramGraphs, tmp_path: Path) -> None:
    mark = tmp_path / "executed"

    class Touch:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return os.system, (f"touch {mark}",)

    arrays = arrays_of(to_bytes(recovered))
    data = joined([np.array([Touch()], object), *arrays[1:]])
    assert from_bytes(data, recovered.program, recovered.code) is None
    assert not mark.exists()
