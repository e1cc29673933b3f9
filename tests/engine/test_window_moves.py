"""Windows that are moved before the instruction that would trap for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simprof.profiler.engine import kernels
from simprof.profiler.engine.window_moves import WindowMoves
from simprof.profiler.recovery.code_image import WordMap
from simprof.profiler.session.world import WINDOWS
from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import Range
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from tests.oracles.exact import simulate

SAVE, RESTORE, RETURN, RET, CALL = 0x9DE3BF40, 0x81E80000, 0x81CFE008, 0x81C7E008, 0x40000000
SETHI, NOP, ADD = 0x03000004, 0x01000000, 0x82004001
LOAD, STORE, DIVIDE, FLUSH, TRAP = 0xC25E0000, 0xC2760000, 0x82684001, 0x81580000, 0x91D0206D
SET_FRAME_POINTER = 0xBC100001
SPILL = ((kernels.WINDOW, kernels.CAN_SAVE, 0),)
FILL = ((kernels.WINDOW, kernels.CAN_RESTORE, 0),)


def code_of(*words: int) -> Any:
    place = WordMap.of([Range(0x1000, 0x1000 + 4 * len(words))], gap=1)
    return SimpleNamespace(place=place, words=np.array(words, np.uint32))


def ahead(*words: int) -> Any:
    code = code_of(NOP, *words, NOP)
    return WindowMoves(code).ahead(0x1004, 0x1004 + 4 * len(words))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((SAVE,), SPILL),
        ((SETHI, ADD, SAVE, LOAD), SPILL),
        ((RET, RESTORE), FILL),
        ((ADD, RETURN, NOP), FILL),
        ((CALL, RESTORE), FILL),
        ((SAVE, RET, RESTORE), SPILL),
        ((ADD, NOP), ()),
        *(((word, SAVE), ()) for word in (LOAD, STORE, DIVIDE, FLUSH, TRAP)),
        *(((word, RET, RESTORE), ()) for word in (LOAD, STORE, SET_FRAME_POINTER)),
        ((0, SAVE), ()),
    ],
)
def test_only_moves_that_nobody_can_tell_come_ahead(words: tuple[int, ...], expected: Any) -> None:
    assert ahead(*words) == expected


def test_a_block_in_front_of_the_code_moves_nothing() -> None:
    assert WindowMoves(code_of(SAVE)).ahead(0x0FFC, 0x1004) == ()


@pytest.mark.parametrize("width", ("v8", "v8plus", "v9"))
@pytest.mark.parametrize(("name", "argument"), [("calls", "16"), ("deep", "300")])
def test_as_many_windows_are_moved_as_trap(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, argument: str, width: str
) -> None:
    path = fixture_elf(name, width)
    host = Host(tmp_path, program=path, stdin=b"", stdout=1, stderr=2)
    machine = Machine(
        load(path), arguments=(argument.encode(),), environment=(), host=host, windows=WINDOWS
    )
    trapped = machine.run()
    moved = simulate(path, [argument], directory=tmp_path, modes=("edges",)).observation.result
    assert trapped.spills > 100
    assert (moved.spills, moved.fills) == (trapped.spills, trapped.fills)
    assert moved.instructions == trapped.instructions
