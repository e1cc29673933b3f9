"""Programs that walk up the stack find the original's return addresses, when instrumented, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.profiler.rewriting.callers import looking
from simprof.profiler.rewriting.verification import EMULATOR
from simprof.simulator.binary import elf
from tests.support.turns import first
from tests.support.verifying import check_verified, verified

Compile = Callable[..., Path]
PROGRAMS = Path(__file__).parents[1] / "programs"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "bin"
WALKER = {1: "walk", 2: "from", 3: "walk", 4: "word"}
pytestmark = [pytest.mark.toolchain]


def walkers(program: Path) -> set[str]:
    recovered: ProgramGraphs = recover(elf.load(program))
    found = looking(recovered, ProgramContexts(recovered))[1]
    return {recovered.routines[n].name.partition(".")[0] for n in found}


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("form", WALKER)
@pytest.mark.parametrize("width", ["v9", "v8plus", "v8"])
def test_who_follows_saved_frame_pointers_is_known(
    compile_c: Compile, width: str, form: int, level: str
) -> None:
    flags = (
        level,
        f"-DFORM={form}",
        "-nostdlib",
        "-ffreestanding",
        "-Wl,-e,main",
        "-Dprintf(...)=",
    )
    found = walkers(compile_c(PROGRAMS / "walking.c", flags, width=width))
    assert found == {WALKER[form]}


LISTS = """
struct node { long before[14]; struct node *next; long value; };
long total(struct node *list) {
    long sum = 0;
    for (int n = 0; list && n < 9; n++) { sum += list->BEFORE; list = list->next; }
    return sum;
}
long last(long n) {
    long room[n];
    room[n - 1] = n;
    return total((struct node *)room) + room[0];
}
int main(void) { return (int)last(40); }
"""


@pytest.mark.parametrize(
    ("width", "member", "found"),
    [
        ("v9", "value", set()),  # such a list looks like frames in all but the bias
        ("v8plus", "value", {"total"}),
        ("v8plus", "before[3]", set()),
    ],
)
def test_lists_are_no_frames(compile_c: Compile, width: str, member: str, found: set[str]) -> None:
    source = LISTS.replace("BEFORE", member)
    flags = ("-O1", "-fno-inline", "-nostdlib", "-Wl,-e,main")
    assert walkers(compile_c(source, flags, width=width)) == found


@pytest.mark.parametrize("program", sorted(FIXTURES.glob("v*/*"))[::3], ids=lambda path: path.name)
def test_ordinary_programs_walk_nowhere(program: Path) -> None:
    assert walkers(program) == set()


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("width", "form"), first(1, [("v8plus", 4), ("v9", 3), ("v8plus", 3)]))
def test_walks_find_the_originals_return_addresses(
    compile_c: Compile, tmp_path: Path, width: str, form: int
) -> None:
    program = compile_c(PROGRAMS / "walking.c", ("-O1", f"-DFORM={form}"), width=width)
    check_verified(verified(program, tmp_path, modes=["pp"]))


HIDDEN = r"""
#include <stdio.h>
volatile int word = 15;
__attribute__((noinline)) static char *from(void) {
    char *fp;
    __asm__ volatile("ta 3\n\tmov %%fp, %0" : "=r"(fp)::"memory");
    return *(char **)(fp + 4 * word);
}
__attribute__((noinline)) static char *caller(void) { return from() + 1; }
int main(void) {
    extern char __executable_start[], etext[];
    char *at = caller();
    printf("%d\n", at >= __executable_start && at < etext);
    return 0;
}
"""


@pytest.mark.long
@pytest.mark.qemu
def test_verify_says_what_a_difference_may_come_from(compile_c: Compile, tmp_path: Path) -> None:
    """Nothing shows where a routine reads whose distances are computed."""
    program = compile_c(HIDDEN, ("-O1",), width="v8plus")
    (mode,) = verified(program, tmp_path, modes=["pp"], ways=(EMULATOR,)).modes
    (line,) = (each for each in mode.differences if "standard output" in each)
    assert "saves its register windows in from: where it reads return addresses" in line
