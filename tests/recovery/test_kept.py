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


def changed(data: bytes, **arrays: Any) -> bytes:
    """Return the bytes with other arrays under some names, or without them (None)."""
    with np.load(io.BytesIO(data)) as file:
        given = dict(file) | arrays
    made = io.BytesIO()
    np.savez(made, **{name: each for name, each in given.items() if each is not None})
    return made.getvalue()


def test_graphs_come_back(recovered: ProgramGraphs) -> None:
    found = from_bytes(to_bytes(recovered), recovered.program, recovered.code)
    assert found == recovered and found is not None
    assert found.arrays == recovered.arrays
    for name in ("block_at", "first_block"):
        mine, theirs = getattr(found, name), getattr(recovered, name)
        assert mine.dtype == theirs.dtype and (mine == theirs).all()


def test_what_is_no_such_file_is_no_graphs(recovered: ProgramGraphs) -> None:
    data, given = to_bytes(recovered), (recovered.program, recovered.code)
    assert from_bytes(changed(data), *given) == recovered
    for damaged in (b"", b"PK", b"nonsense", data[:-1], data[: len(data) // 2]):
        assert from_bytes(damaged, *given) is None
    starts = recovered.arrays.block_start
    for column in (None, starts.astype(np.int32), starts.reshape(1, -1), starts.astype(float)):
        assert from_bytes(changed(data, block_start=column), *given) is None
    assert from_bytes(changed(data, reasons=np.zeros(1, np.uint8)), *given) is None
    other = replace(recovered.program, sha256="0" * 64)
    assert from_bytes(data, other, recovered.code) is None


def test_nothing_in_it_is_executed(recovered: ProgramGraphs, tmp_path: Path) -> None:
    mark = tmp_path / "executed"

    class Touch:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return os.system, (f"touch {mark}",)

    data = changed(to_bytes(recovered), sizes=np.array([Touch()], object))
    assert from_bytes(data, recovered.program, recovered.code) is None
    assert not mark.exists()
