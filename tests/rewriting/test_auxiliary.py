"""What instrumented programs see of themselves in their auxiliary vector, and what that costs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from simprof.profiler.rewriting.elsewhere.runtime import StartMemory
from simprof.simulator.binary import elf
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register
from simprof.simulator.isa.sparc import WINDOW_SAVE_WORDS
from simprof.simulator.linux import process
from simprof.simulator.linux.process import AUXILIARY_KEYS
from tests.rewriting.extended import Extended
from tests.support.tiny_programs import ENTRY, TEXT
from tests.support.width import Width

R = Register
MACHINES = list(MachineKind)
ENVIRONMENT = (b"A=b", b"SIMPROF_OUT=counts", b"LATER=1")
PHDR, PHNUM, PAGESZ, BASE, FLAGS, PLACE_OF_ENTRY = 3, 5, 6, 7, 8, 9


def showing(machine: MachineKind) -> list[Item]:
    """Return code that writes argc and all that lies behind it, up to AT_NULL."""
    width = Width(machine)
    at, first = R.L5, R.L4
    skip: list[Item] = []
    for name in ("arguments", "environment"):
        skip += [
            Label(name),
            width.load(at, 0, R.O0),
            asm.cmp(R.O0, 0),
            width.branch("ne", name),
            asm.arithmetic("add", at, width.word, at),
        ]
    return [
        asm.arithmetic("add", R.SP, width.bias + WINDOW_SAVE_WORDS * width.word, first),
        asm.arithmetic("add", first, width.word, at),
        *skip,
        Label("pairs"),
        width.load(at, 0, R.O0),
        asm.cmp(R.O0, 0),
        width.branch("ne", "pairs"),
        asm.arithmetic("add", at, 2 * width.word, at),
        asm.mov(1, R.O0),
        asm.mov(first, R.O1),
        asm.arithmetic("sub", at, first, R.O2),
        *width.call("write"),
    ]


def vector(machine: MachineKind, output: bytes) -> list[tuple[int, int]]:
    """Return keys and values of the auxiliary vector, AT_NULL too."""
    width = Width(machine)
    shown = output[32 * width.word :]  # behind the registers
    words = [*struct.unpack(f">{len(shown) // width.word}{'Q' if width.is64 else 'I'}", shown)]
    environment = words.index(0, 1) + 1
    pairs = words[words.index(0, environment) + 1 :]
    return [*zip(pairs[::2], pairs[1::2], strict=True)]


@pytest.mark.qemu
@pytest.mark.parametrize("machine", MACHINES)
def test_a_program_sees_what_it_saw(machine: MachineKind, tmp_path: Path) -> None:
    """The stack holds the same, word for word."""
    extended = Extended(machine, StartMemory(()), tmp_path, both=showing(machine))
    needed = AUXILIARY_KEYS.index(PLACE_OF_ENTRY) + 1
    for run in (extended.here, extended.under_qemu):
        plain, result = run(extended.plain, ENVIRONMENT), run(extended.path, ENVIRONMENT)
        pairs = vector(machine, result.output)
        values = dict(pairs)
        assert len(values) == len(pairs) and pairs[-1][0] == 0
        assert values[PHDR] == TEXT + (64 if machine is MachineKind.SPARCV9 else 52)
        assert (values[PHNUM], values[PLACE_OF_ENTRY]) == (2, ENTRY)
        assert result.output == plain.output
        assert [key for key, _ in pairs[:needed]] == [*AUXILIARY_KEYS[:needed]]


@pytest.mark.qemu
@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_cost_is_the_same_under_qemu(
    machine: MachineKind, is_told: bool, tmp_path: Path
) -> None:
    extended = Extended(machine, StartMemory(()), tmp_path, both=showing(machine), is_told=is_told)
    costs = []
    for run in (extended.here, extended.under_qemu):
        plain, result = run(extended.plain, ENVIRONMENT), run(extended.path, ENVIRONMENT)
        assert result.instructions == plain.instructions + result.runtime
        costs.append(result.runtime)
        seen = dict(vector(machine, result.output))
        assert (seen[PHNUM], seen[PLACE_OF_ENTRY] == ENTRY) == (
            (2, True) if is_told else (3, False)
        )
    assert costs[0] == costs[1]


ORDERS = {
    "reversed": AUXILIARY_KEYS[::-1],
    "first": (PLACE_OF_ENTRY, PHNUM, PHDR),
    "behind others": (PAGESZ, PHDR, FLAGS, PLACE_OF_ENTRY, PHNUM, BASE),
    "one missing": (PAGESZ, PHDR, FLAGS, PHNUM, BASE),
    "none": (PAGESZ,),
    "empty": (),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("machine", MACHINES)
def test_vectors_of_other_kernels(
    machine: MachineKind, order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is in it, in whatever order: it is restored."""
    keys = ORDERS[order]
    extended = Extended(machine, StartMemory(()), tmp_path, both=showing(machine))
    monkeypatch.setattr(process, "AUXILIARY_KEYS", keys)
    plain = extended.here(extended.plain, ENVIRONMENT)
    result = extended.here(extended.path, ENVIRONMENT)
    assert [key for key, _ in vector(machine, plain.output)] == [*keys, 0]
    assert result.output == plain.output
    assert result.instructions == plain.instructions + result.runtime


def test_what_a_program_shall_see_is_what_its_file_says(tmp_path: Path) -> None:
    extended = Extended(MachineKind.SPARCV9, StartMemory(()), tmp_path)
    assert extended.memory.auxiliary == ((PHDR, TEXT + 64), (PHNUM, 2), (PLACE_OF_ENTRY, ENTRY))
    assert elf.load(extended.path).program_header_count == 3
