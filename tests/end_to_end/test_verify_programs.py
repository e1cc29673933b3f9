"""Instrumented programs that were not written for it: kernels, compiled programs, real ones.

Each kernel has every third mode, the next ones the others. A verification of a program with a C
library takes ten seconds a mode, so that those have one mode each, another than the one before
them. Widths take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.experiments.suites.suite import Width
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.schemes.registry import planned_modes
from tests.support.exact_programs import LANGUAGES, LONG, PROGRAMS, Build
from tests.support.verifying import check_verified, of_suite, verified, verified_on_input

KERNELS = [benchmark.name for benchmark in load_suite("wcet").benchmarks]
REAL = ["bzip2", "dblat2"]
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
def test_every_kernel_is_as_predicted(number: int, name: str, width: Width, tmp_path: Path) -> None:
    """Of the nine, each mode has three, in both widths."""
    program, given = of_suite("wcet", name, width)
    check_verified(verified_on_input(program, given, tmp_path, MODES[number % 3 :: 3]))


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
@pytest.mark.parametrize(("number", "name"), list(enumerate(REAL)), ids=REAL)
def test_real_program_is_as_predicted(number: int, name: str, tmp_path: Path) -> None:
    program, given = of_suite("spec-like", name, (64, 32)[number % 2])
    mode = mode_of(len(COMPILED) + number)
    check_verified(verified_on_input(program, given, tmp_path, [mode]))
