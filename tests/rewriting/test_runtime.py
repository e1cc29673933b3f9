"""The run-time as it is shipped, and the memory that it maps and fills."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest

from simprof.profiler.code.hash_routine import BUCKETS, TableLayout
from simprof.profiler.code.layout import ARRAYS_BASE, RUNTIME_DATA, TABLES_BASE
from simprof.profiler.rewriting.elsewhere.runtime import (
    StartMemory,
    Stream,
    WordRun,
    filled,
    image,
    mapped,
)
from simprof.profiler.schemes.cs6120.code import PAIR_TABLE
from simprof.profiler.schemes.tracing.code import STREAM
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.sparc import SYSTEM_CALLS_64
from tools import ship_runtime

MACHINES = list(MachineKind)
CALLS = {
    number
    for number, name in SYSTEM_CALLS_64.items()
    if name
    in {
        "open", "write", "close", "unlink", "getpid", "kill", "mmap", "fcntl", "rt_sigaction",
        "rt_sigprocmask", "rename", "stat64", "gettid", "exit_group",
    }
}  # fmt: skip


def test_images_are_of_the_source_as_it_is() -> None:
    assert ship_runtime.is_shipped(), "run `make runtime`"


@pytest.mark.toolchain
@pytest.mark.parametrize("machine", MACHINES)
def test_the_compiler_makes_the_same_images(machine: MachineKind) -> None:
    """Wherever they are linked to lie."""
    assert ship_runtime.compiled(machine) == ship_runtime.image_file(machine).read_bytes()


@pytest.mark.toolchain
@pytest.mark.parametrize("machine", MACHINES)
def test_no_register_of_the_program_is_used(machine: MachineKind, tmp_path: Path) -> None:
    """Of the global ones %g1 alone; no floating-point register, and nothing that changes %y."""
    file = tmp_path / "code"
    file.write_bytes(struct.pack(f">{len(image(machine))}I", *image(machine)))
    kind = "sparc:v9" if machine is MachineKind.SPARCV9 else "sparc:v8plus"
    command = ["sparc64-linux-gnu-objdump", "-D", "-b", "binary", "-EB", "-m", kind, str(file)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [line.split("\t")[2:] for line in listed.splitlines() if "\t" in line]
    texts = set(re.findall(rb"[ -~\n]{5,}\0", file.read_bytes()))
    assert len(texts) >= 10
    code = _without_texts(file.read_bytes())
    lines = [" ".join(each) for each, is_code in zip(found, code, strict=True) if is_code]
    assert len(lines) > 900
    used = set(re.findall(r"%(?:g\d|f\d+|y)\b|\b[us]?mul\w*|\b[us]div\w*", " ".join(lines)))
    assert used <= {"%g0", "%g1"}
    numbers = {int(n, 0) for n in re.findall(r"mov +(0x\w+|\d+), %g1", "\n".join(lines))}
    assert numbers >= CALLS


def _without_texts(data: bytes) -> list[bool]:
    """Whether each word is code: no address of the table, and no text that a call leaps over."""
    words = struct.unpack(f">{len(data) // 4}I", data)
    is_code = [number > 6 for number in range(len(words))]
    for number, word in enumerate(words[:-1]):
        if words[number + 1] & 0xC1FFFFFF == 0x8003E008:  # add %o7, 8, ...
            assert word >> 30 == 1
            is_code[number + 2 : number + (word & 0x3FFFFFFF)] = [False] * ((word & 0x3FFFFFFF) - 2)
    return is_code


def test_pages_are_mapped_once() -> None:
    memory = StartMemory(((ARRAYS_BASE + 8, 8), (PAIR_TABLE, 8), (ARRAYS_BASE + 8000, 300)))
    assert mapped(memory) == [
        (RUNTIME_DATA, 0x4000),
        (PAIR_TABLE, 0x2000),
        (ARRAYS_BASE, 0x4000),
    ]
    traced = StartMemory(memory.regions, trace=Stream(STREAM, packed=True))
    assert mapped(traced) == [(RUNTIME_DATA, 0xA000), (ARRAYS_BASE, 0x4000)]
    assert mapped(StartMemory(((TABLES_BASE, 0),))) == [(RUNTIME_DATA, 0x4000)]


def test_fills_are_runs_of_words() -> None:
    table = TableLayout(1).initial(TABLES_BASE)
    runs = filled(StartMemory((), ((TABLES_BASE, table), (ARRAYS_BASE, b"\0\0\0\1" * 3))))
    assert WordRun(TABLES_BASE + TableLayout().heads, TABLES_BASE, BUCKETS) in runs
    assert runs[-1] == WordRun(ARRAYS_BASE, 1, 3)
    assert len(runs) == 5
    memory = bytearray(len(table))
    for run in runs[:-1]:
        start = run.address - TABLES_BASE
        memory[start : start + 4 * run.count] = run.word.to_bytes(4, "big") * run.count
    assert memory == table


@pytest.mark.parametrize("fill", [(ARRAYS_BASE + 2, b"1234"), (ARRAYS_BASE, b"123")])
def test_a_fill_has_whole_words(fill: tuple[int, bytes]) -> None:
    with pytest.raises(ValueError, match="not made of words"):
        filled(StartMemory((), (fill,)))
