"""Instrumented programs, executed: every predicted instruction, and every counter, in all modes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.request.request import SchemeOptions, TableChoice
from simprof.profiler.request.weights import Weights
from simprof.profiler.rewriting.verification import EMULATOR
from simprof.profiler.schemes.registry import planned_modes
from tests.conftest import FIXTURES
from tests.support.exact_programs import LANGUAGES, PROGRAMS
from tests.support.exact_random import BARE, LEVELS, WIDTHS
from tests.support.random_programs import program
from tests.support.turns import first
from tests.support.verifying import EVERYWHERE, LEFT_ALONE, check_verified, verified

Find = Callable[..., Path]
Compile = Callable[..., Path]

NAMES = sorted(path.stem for path in (FIXTURES / "bin" / "v9").glob("*.elf"))
ARGUMENTS = {"sieve": ["1"], "bench": ["1"], "deep": ["300"]}
FIRST = ("nonlocal",)
CASES = sorted(
    zip(NAMES, itertools.cycle(WIDTHS), strict=False), key=lambda case: case[0] not in FIRST
)
OPTIONS = (
    SchemeOptions(),
    SchemeOptions(path_limit=5),
    SchemeOptions(table=TableChoice.HASH),
    SchemeOptions(weights=Weights.UNIFORM, path_limit=60),
    SchemeOptions(path_limit=20, table=TableChoice.HASH),
    SchemeOptions(),
    SchemeOptions(weights=Weights.UNIFORM),
)


# --- committed programs


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), first(len(FIRST), CASES))
def test_fixture_is_as_predicted(fixture_elf: Find, tmp_path: Path, name: str, width: str) -> None:
    """The first has all modes, each other one a third of them: in turn, with each width."""
    third = planned_modes()[NAMES.index(name) // 3 % 3 :: 3]
    modes = () if name in FIRST else third
    given = ARGUMENTS.get(name, [])
    check_verified(verified(fixture_elf(name, width), tmp_path, given, modes=modes))


# --- programs that code has broken


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width", first(1, WIDTHS))
def test_words_in_large_frames_are_nobody_elses(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    built = compile_c(PROGRAMS / "large_frame.c", ("-O1", *BARE), width=width)
    check_verified(verified(built, tmp_path, modes=["calls", "pp"]))


FAULT_BEFORE_WHAT_IS_REWRITTEN = """
        .global _start
        .type _start, #function
_start: clr %fp
        sub %sp, 192, %sp
        call fault
         nop
        .size _start, .-_start
        .type fault, #function
fault:  save %sp, -192, %sp
        ld [%g0 + 16], %l0
        rd %pc, %l1
        call other
         nop
        ret
         restore
        .size fault, .-fault
        .type other, #function
other:  retl
         nop
        .size other, .-other
"""


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_code_behind_a_fault_in_its_block_is_not_predicted(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    """Neither the old address that is made for `rd %pc`, nor the arrival at the callee."""
    built = compile_c(FAULT_BEFORE_WHAT_IS_REWRITTEN, BARE, width=width, language="asm")
    check_verified(verified(built, tmp_path, modes=["pp", "qpt2", "calls"]))


LOOP_BEHIND_SAVE = """
        .global _start
        .type _start, #function
_start: clr %fp
        sub %sp, 192, %sp
        mov 9, %o0
        call counted
         mov 2, %o1
        mov 1, %g1
        ta 0x6d
         nop
        .size _start, .-_start
        .type counted, #function
counted: save %sp, -176, %sp
1:      subcc %i0, %i1, %i0
        bg 1b
         nop
        ret
         restore %i1, 1, %o0
        .size counted, .-counted
"""
"""A routine whose first block is its `save`: the code of entry and block stands behind that."""


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
def test_a_first_block_that_only_makes_a_window(compile_c: Compile, tmp_path: Path) -> None:
    built = compile_c(LOOP_BEHIND_SAVE, ("-nostdlib",), language="asm")
    check_verified(verified(built, tmp_path))


BOTH_WAYS = """
        .global _start
        .type _start, #function
_start: clr %fp
        sub %sp, 192, %sp
        mov 9, %l0
1:      call forking
         and %l0, 3, %o0
        call behind
         mov %l0, %o0
        call beyond
         mov %l0, %o0
        subcc %l0, 1, %l0
        bne 1b
         nop
        clr %o0
        mov 1, %g1
        ta 0x6d
         nop
        .size _start, .-_start
        .type forking, #function
forking: add %o0, %o0, %o1
        BRANCH
         add %o1, 1, %o1
        .size forking, .-forking
        .type behind, #function
behind: retl
         add %o0, %o1, %o0
        .size behind, .-behind
        .type beyond, #function
beyond: retl
         sub %o0, %o1, %o0
        .size beyond, .-beyond
"""
"""A routine whose last branch leads into another one, taken or not."""


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    "branch", ["brz %o0, beyond", "cmp %o0, 1; ba,pt %xcc, .+8; nop; be beyond"]
)
def test_a_branch_that_leaves_both_ways(compile_c: Compile, tmp_path: Path, branch: str) -> None:
    built = compile_c(BOTH_WAYS.replace("BRANCH", branch), ("-nostdlib",), language="asm")
    check_verified(verified(built, tmp_path))


HEAP = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    long sum = 0;
    char *block = malloc(100);
    for (long k = (long)block & 0xfffff; k > 0; k /= 3)
        sum += k;
    printf("%p %p %ld\\n", sbrk(0), (void *)block, sum);
    return 0;
}
"""


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_a_program_that_acts_by_addresses_of_its_heap(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    """The new segment is before the program's own with 64 bits, and behind them with 32."""
    check_verified(verified(compile_c(HEAP, width=width), tmp_path, modes=["qpt2"]))


@pytest.mark.toolchain
def test_flushes_of_a_trace_that_lacks_a_routine(compile_c: Compile, tmp_path: Path) -> None:
    """The buffer is full less often than where the whole trace is written."""
    built = compile_c(LEFT_ALONE, ("-nostdlib",), language="asm")
    result = verified(built, tmp_path, modes=["witness", "bits"], ways=(EMULATOR,))
    assert [[left.routine for left in mode.left] for mode in result.modes] == [["strange"]] * 2
    check_verified(result, (EMULATOR,))


@pytest.mark.toolchain
def test_a_trace_whose_end_is_not_written(compile_c: Compile, tmp_path: Path) -> None:
    """The program ends in code that is left alone: what does not fill a buffer is lost."""
    built = compile_c(PROGRAMS / "odd.S", ("-nostdlib",), width="v8plus", language="asm")
    result = verified(built, tmp_path, modes=["bytes", "wpp"], ways=(EMULATOR,))
    for mode in result.modes:
        assert "_start" in [left.routine for left in mode.left]
        assert not mode.differences
        assert mode.executed[EMULATOR] == mode.predicted
        assert mode.not_compared[0].startswith("the counters: none are written")


@pytest.mark.toolchain
def test_a_mode_by_the_order_of_events_where_every_routine_is_left_alone(
    compile_c: Compile, tmp_path: Path
) -> None:
    """There is no run of those that count: none does."""
    flags = ("-mflat", "-nostdlib", "-ffreestanding", "-w")
    (mode,) = verified(
        compile_c(PROGRAMS / "flat.c", flags), tmp_path, modes=["fifo"], ways=(EMULATOR,)
    ).modes
    assert not mode.differences
    assert mode.not_compared[0].startswith("the counters: none are written")


# --- random programs


def check_seed(compile_c: Compile, directory: Path, seed: int) -> None:
    """Generate, compile and verify, every fifth under qemu, too; the seed chooses everything."""
    extra = [*(["-fPIC"] if seed % 4 == 0 else []), *(["-s"] if seed % 6 == 1 else [])]
    flags = (LEVELS[seed % 5], *BARE, *extra)
    source = program(seed, functions=3 + seed % 5, size=6 + seed % 9, fuel=1000)
    built = compile_c(source, flags, width=WIDTHS[seed % 3])
    # the levels repeat every five seeds: which of five is run under qemu moves on
    ways = EVERYWHERE if (seed + seed // 5) % 5 == 0 else (EMULATOR,)
    result = verified(built, directory, ways=ways, options=OPTIONS[seed % 7])
    check_verified(result, ways)
    # As `instrument` does, which cannot tell where some jumps lead in code without optimisation.
    reasons = {left.reason for mode in result.modes for left in mode.left}
    assert [
        each for each in reasons if not each.startswith("the code does not show where the jump")
    ] == []


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.seeds(range(1000, 1002), few=1)
def test_random_program_is_as_predicted(compile_c: Compile, tmp_path: Path, seed: int) -> None:
    check_seed(compile_c, tmp_path, seed)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.seeds(range(6))
def test_more_random_programs_are_as_predicted(
    compile_c: Compile, tmp_path: Path, seed: int
) -> None:
    check_seed(compile_c, tmp_path, seed)


# --- programs that unwind (tests/end_to_end/test_verify_programs.py has more with a library)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("source", "width", "level", "mode"),
    [("exceptions.cc", "v8plus", "-O2", "pp"), ("unwinding.cc", "v9", "-O0", "qpt2")],
)
def test_program_that_unwinds_is_as_predicted(
    compile_c: Compile, tmp_path: Path, source: str, width: str, level: str, mode: str
) -> None:
    built = compile_c(
        PROGRAMS / source, (level,), width=width, language=LANGUAGES[Path(source).suffix]
    )
    check_verified(verified(built, tmp_path, modes=[mode]))
