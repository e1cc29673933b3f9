"""Words that the engine dies of: illegal instructions to the program, and data as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.cpu import traps
from simprof.simulator.isa.assembler import Instruction
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.codewatch import are_reserved
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import RunResult
from tests.support.tiny_programs import ENTRY, program_file

NOP = 0x01000000
SOURCE = Path(__file__).parents[2] / "programs" / "reserved.c"
RESERVED = [0x00C00003, 0x08C00003, 0x20C00003, 0x28C00003, 0x85780004, 0x8578F00C]
RESERVED += [0x85A8C0A4, 0x85A8D0C4, 0x85A8C0E4]
COMPARE_AND_BRANCH = [0x12C04042, 0x30C04042]


def run(path: Path) -> tuple[RunResult, bytes]:
    """Run a program; return what happened and its output."""
    output = bytearray()
    host = Host(path.parent, program=path, stdin=b"", stdout=output, stderr=output)
    return Machine(load(path), host=host).run(), bytes(output)


@pytest.mark.parametrize("machine", [MachineKind.SPARCV9, MachineKind.SPARCV8PLUS])
@pytest.mark.parametrize("word", RESERVED + COMPARE_AND_BRANCH)
def test_it_is_an_illegal_instruction(machine: MachineKind, word: int, tmp_path: Path) -> None:
    path = tmp_path / "program"
    words = (NOP, word, NOP, NOP, NOP)
    path.write_bytes(program_file(machine, [Instruction(f"{each:x}", each) for each in words]))
    result, _ = run(path)
    assert result.fault is not None
    assert (result.status, result.reason, result.fault.name) == (132, "fault", "SIGILL")
    assert (result.fault.pc, result.instructions) == (ENTRY + 4, 1)
    expected = f"illegal instruction {word:#010x}"
    if word in COMPARE_AND_BRANCH:
        expected += " (the emulator does not have compare-and-branch (CBcond))"
    assert result.fault.description == expected


def test_python_and_native_code_know_the_same_words() -> None:
    draw = np.random.default_rng(13)
    words = draw.integers(0, 1 << 32, 200_000, dtype=np.uint32)
    for base, keep in (
        (0x00C00000, 0x3E3FFFFF),
        (0x81780000, 0x3E07FFFF),
        (0x81A80000, 0x3E07FFFF),
    ):
        words = np.concatenate((words, base | words[:20_000] & np.uint32(keep)))
    native = [bool(traps.is_reserved(np.uint32(word))) for word in words]
    found = are_reserved(words)
    assert found.tolist() == native
    assert 10_000 < found.sum() < 60_000
    assert are_reserved(np.array(RESERVED + COMPARE_AND_BRANCH, np.uint32)).all()


@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_a_handler_sees_them_and_data_stay(compile_c: Callable[..., Path], width: str) -> None:
    result, output = run(compile_c(SOURCE, ("-O1",), width))
    once = b"SIGILL 1\n" * 7 + b"went on\n"
    assert (result.status, output) == (21, once * 3 + b"00c00003 85780003\n")
