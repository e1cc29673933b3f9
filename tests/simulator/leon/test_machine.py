"""How bare LEON3 programs end, and which ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary import elf
from simprof.simulator.errors import SimulatorError, UnsupportedError
from simprof.simulator.leon.machine import LeonMachine
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.running import Limits, RunResult
from tests.oracles.leon import BUILD

pytestmark = pytest.mark.toolchain
Compile = Callable[..., Path]
OFF = 'unsigned psr; asm volatile("rd %%psr, %0" : "=r"(psr)); psr &= ~32; \
asm volatile("wr %0, %%psr; nop; nop; nop" :: "r"(psr));'

UNALIGNED = 'asm volatile("ld [%0], %%g1" :: "r"(0x40001001) : "g1"); return 0;'


def run(compile_c: Compile, directory: Path, body: str, limits: Limits | None = None) -> RunResult:
    source = f"int main(void) {{ {body} }}"
    path = compile_c(source, flags=("-O1", *BUILD), width="v8")
    host = Host(directory, program=path, stdin=b"", stdout=bytearray(), stderr=bytearray())
    return LeonMachine(elf.load(path), host=host, limits=limits).run()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("return 42;", 42),
        ("return 0x1ff;", 255),
        ("return *(volatile int *)0x80005000;", 9),  # the start-up ends with a trap's type
        ("*(volatile int *)0x20000000 = 1; return 0;", 9),
        (UNALIGNED, 7),
        ('asm volatile("ta 5"); return 0;', 0x82),
        ('asm volatile("unimp 0"); return 0;', 2),
        ('asm volatile(".word 0x89b08a83"); return 0;', 0x20),  # 0x24: CPop1, fpsub16 on UltraSPARC
        ('asm volatile(".word 0x89f08003"); return 0;', 2),  # umac, which this LEON3 lacks
        ('asm volatile(".word 0x89f88003"); return 0;', 2),  # smac
        ('asm volatile("wr %%g0, 0x8b, %%psr" ::); return 0;', 2),  # no window 11
        ("volatile int zero = 0; return 7 / zero;", 0x20),
        ('asm volatile("lda [%%g0] 2, %%g1" ::: "g1"); return 6;', 6),
    ],
)
def test_traps_come_to_the_programs_handlers(
    compile_c: Compile, tmp_path: Path, body: str, status: int
) -> None:
    result = run(compile_c, tmp_path, body)
    assert (result.reason, result.status) == ("exit", status)


def test_a_trap_while_traps_are_disabled_is_error_mode(compile_c: Compile, tmp_path: Path) -> None:
    result = run(compile_c, tmp_path, OFF + UNALIGNED)
    assert (result.reason, result.status) == ("fault", 134)
    assert result.fault is not None
    assert result.fault.name == "error mode"
    assert result.fault.description == "trap 0x07 while traps are disabled"


def test_a_budget_ends_a_run(compile_c: Compile, tmp_path: Path) -> None:
    result = run(compile_c, tmp_path, "for (;;) { }", Limits(max_instructions=100_000))
    assert (result.reason, result.status) == ("budget", 124)
    assert 100_000 - 512 < result.instructions <= 100_000


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("*(volatile int *)&main = 0x01000000; return 0;", "changes its own code"),
        ('asm volatile("wr %%g0, %%asr19" ::); return 0;', "waits for an interrupt that never"),
    ],
)
def test_what_cannot_be_profiled_is_refused(
    compile_c: Compile, tmp_path: Path, body: str, words: str
) -> None:
    with pytest.raises(UnsupportedError, match=words):
        run(compile_c, tmp_path, body)


def test_code_that_the_program_generates_is_executed(compile_c: Compile, tmp_path: Path) -> None:
    body = "static int code[2]; code[0] = 0x81c3e008; code[1] = 0x90102007;"
    body += " while (((int (*)(void))code)() != 7) { } return 0;"
    result = run(compile_c, tmp_path, body, Limits(max_instructions=100_000))
    assert result.reason == "exit"


def test_less_memory_than_the_program_needs_is_refused(compile_c: Compile, tmp_path: Path) -> None:
    body = "static volatile char room[1 << 20]; return room[5];"
    with pytest.raises(SimulatorError, match="no memory: link it for 0x40000000 to 0x40080000"):
        run(compile_c, tmp_path, body, Limits(memory=1 << 19))
