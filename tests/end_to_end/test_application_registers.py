"""Programs that keep a value in an application register: instrumented, executed, and as predicted.

Before simprof looked for such registers, the code of schemes took them as scratch: `counter` came
out wrong, and less was added than there is to add.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.registers import mask
from simprof.profiler.recovery.recovery import recover
from simprof.simulator.binary.elf import load
from simprof.simulator.isa.assembler import Register
from tests.support.exact_programs import PROGRAMS
from tests.support.exact_random import BARE
from tests.support.verifying import check_verified, verified

R = Register
Compile = Callable[..., Path]
SOURCE = PROGRAMS / "application_register.c"
EVERY = [
    *[(register, "v9") for register in (R.G2, R.G3, R.G4, R.G5)],
    *[(register, width) for register in (R.G2, R.G3, R.G4) for width in ("v8plus", "v8")],
]
LIBRARY = r"""
#include <stdio.h>
register long counter asm(REGISTER);
volatile int sink;
__attribute__((noinline)) void tick(int i) {
    if (i & 1) sink += i; else sink -= i;
    if (i % 3 == 0) sink ^= 5;
}
__attribute__((noinline)) void bump(void) { counter++; }
int main(void) {
    counter = 0;
    for (int i = 0; i < 1000; i++) { tick(i); bump(); tick(i + 1); }
    printf("%ld %d\n", counter, sink);
    return 0;
}
"""
"""Its value must reach `printf`, whose own routines take the register as scratch."""


def built(compile_c: Compile, register: Register, width: str) -> Path:
    return compile_c(SOURCE, ("-O2", f'-DREGISTER="{register.text[1:]}"', *BARE), width=width)


@pytest.mark.toolchain
@pytest.mark.qemu
def test_a_register_of_the_program_is_left_alone(compile_c: Compile, tmp_path: Path) -> None:
    program = built(compile_c, R.G4, "v8plus")
    check_verified(verified(program, tmp_path, modes=["qpt2", "pp"]))


@pytest.mark.toolchain
def test_the_report_names_the_register(
    compile_c: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = built(compile_c, R.G4, "v8plus")
    command = ["instrument", "--mode", "qpt2", "-o", str(tmp_path / "new"), str(program)]
    assert cli.run(command) == 0
    told = " ".join("".join(capsys.readouterr()).split())
    assert "kept free %g4: the program keeps values there across calls" in told
    assert cli.run([*command, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["application_registers"] == ["%g4"]


@pytest.mark.toolchain
@pytest.mark.parametrize(("register", "width"), EVERY)
def test_only_the_register_of_the_program_is_found(
    compile_c: Compile, register: Register, width: str
) -> None:
    program = load(built(compile_c, register, width))
    assert ProgramContexts(recover(program)).carried == mask(register)
    # the 64-bit ABI has symbols for %g2 and %g3
    symbols = {2, 3} if width == "v9" else set()
    assert program.named_registers == {int(register)} & symbols


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(("register", "width"), EVERY[1::3])
def test_registers_in_all_modes(
    compile_c: Compile, tmp_path: Path, register: Register, width: str
) -> None:
    check_verified(verified(built(compile_c, register, width), tmp_path))


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("register", "width", "stripped"),
    [(R.G4, "v8plus", True)],
)
def test_programs_with_a_library(
    compile_c: Compile, tmp_path: Path, register: Register, width: str, stripped: bool
) -> None:
    flags = ("-O2", f'-DREGISTER="{register.text[1:]}"', "-w", *["-s"] * stripped)
    program = compile_c(LIBRARY, flags, width=width)
    assert ProgramContexts(recover(load(program))).carried == mask(register)
    check_verified(verified(program, tmp_path, modes=["pp"]))


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(("width", "stripped"), [("v8plus", True), ("v9", False)])
def test_a_program_with_a_library_carries_nothing(
    compile_c: Compile, width: str, stripped: bool
) -> None:
    """Of all routines of a static glibc, none is taken to keep something there."""
    source = LIBRARY.replace("register long counter asm(REGISTER)", "long counter")
    program = compile_c(source, ("-O2", *["-s"] * stripped), width=width)
    assert ProgramContexts(recover(load(program))).carried == 0
