"""Instrumented programs that were not written for it: kernels, compiled programs, real ones.

Each kernel has every third mode, the next ones the others. A verification of a program with a C
library takes ten seconds a mode, so that those have one mode each, another than the one before
them. Widths take turns.
`python -m tools.verify_programs` has all modes for all of them, and more programs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.schemes.registry import planned_modes
from tests.support.exact_programs import LANGUAGES, LONG, PROGRAMS, Build
from tests.support.verifying import check_verified, verified
from tools.verify_programs import in_turn, main, of_suite, verified_case

KERNELS = [benchmark.name for benchmark in load_suite("wcet").benchmarks]
REAL = ["bzip2", "minigzip", "mawk", "tinyscheme", "dblat2", "compress", "stones", "simulator"]
SOURCES = ("numbers.f90",)
COMPILED = [how for how in LONG if how.source in SOURCES]
MODES = planned_modes()


def mode_of(number: int) -> str:
    """Return the mode of a program of a list."""
    return MODES[number % len(MODES)]


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("number", "name", "width"),
    [(n, name, (64, 64, 32, 32)[n % 4]) for n, name in enumerate(KERNELS)],
)
def test_every_kernel_is_as_predicted(number: int, name: str, width: int) -> None:
    """Of the nine, each mode has three, in both widths."""
    (case,) = of_suite("wcet", [f"{name}/{width}"])
    check_verified(verified_case(case, MODES[number % 3 :: 3]))


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("how", "mode"), [(how, mode_of(number)) for number, how in enumerate(COMPILED)], ids=str
)
def test_compiled_program_is_as_predicted(
    compile_c: Callable[..., Path], tmp_path: Path, how: Build, mode: str
) -> None:
    language = LANGUAGES[Path(how.source).suffix]
    flags = (*how.flags, "-lm")
    built = compile_c(PROGRAMS / how.source, flags, width=how.width, language=language)
    check_verified(verified(built, tmp_path, modes=[mode]))


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (f"{name}/{(64, 32)[number % 2]}", mode_of(len(COMPILED) + number))
        for number, name in enumerate(REAL[::4])
    ],
)
def test_real_program_is_as_predicted(name: str, mode: str) -> None:
    (case,) = of_suite("spec-like", [name])
    check_verified(verified_case(case, [mode]))


@pytest.mark.toolchain
def test_the_command_prints_a_row_for_each_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wcet", "fibcall", "--modes", "pp,qpt2", "--each", "1", "--on", "emulator"]) == 0
    first, second, total = capsys.readouterr().out.splitlines()
    assert first.split()[0] == "fibcall/64"
    assert second.split()[0] == "fibcall/32"
    assert "1 modes,  0 differ" in first
    assert total == "2 programs, 0 with differences"


def test_programs_take_modes_in_turn() -> None:
    assert [in_turn("abc", 2, number) for number in range(3)] == [
        ["a", "b"],
        ["c", "a"],
        ["b", "c"],
    ]
    assert in_turn("abc", None, 1) == "abc"
