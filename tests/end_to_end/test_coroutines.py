"""Programs that change between stacks: a stack that is come back to is resumed, not entered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.rewriting.verification import EMULATOR
from tests.oracles.exact import simulate
from tests.oracles.qemu import count, run
from tests.support.turns import first
from tests.support.verifying import check_verified, verified

PROGRAMS = Path(__file__).parent.parent / "programs"
WIDTHS = pytest.mark.parametrize("width", first(1, ["v9", "v8plus"]))
pytestmark = [pytest.mark.toolchain, pytest.mark.qemu]


def check(path: Path, directory: Path, entered: dict[str, int]) -> None:
    simulated = simulate(path, directory=directory)
    assert simulated.output == run(path, directory=directory).output
    assert simulated.observation.result.instructions == count(path, directory)
    for measurement in simulated.measurements.values():
        assert not measurement.warnings
        routines = {each.name: each for each in measurement.routines}
        assert {name: routines[name].activations for name in entered} == entered


@pytest.mark.long
@WIDTHS
def test_contexts(compile_c: Callable[..., Path], tmp_path: Path, width: str) -> None:
    """Three walks of 6 leaves: 13 activations each, 6 values; the squares pass on those of one."""
    flags = ("-O1", "-fno-inline")
    path = compile_c(PROGRAMS / "swapcontext.c", flags, width=width)
    once = dict.fromkeys(("main", "squares", "endless"), 1)
    check(path, tmp_path, {**once, "make": 4, "leaves": 2, "finish": 2, "resume": 46, "yield": 46})
    (tmp_path / "verified").mkdir()
    check_verified(
        verified(path, tmp_path / "verified", modes=["pp"], ways=(EMULATOR,)), (EMULATOR,)
    )


AGAIN = """
#include <ucontext.h>
#include <stdio.h>
static ucontext_t context;
__attribute__((noinline)) static int rounds(int most) {
    volatile int n = 0;
    getcontext(&context);
    if (++n < most) setcontext(&context);
    return n;
}
int main(void) { printf("%d\\n", 100 * rounds(3) + rounds(1)); return 0; }
"""


@pytest.mark.long
def test_what_a_context_goes_back_to_is_left_alone(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """Nothing in 64 bits tells whether `getcontext` comes back from its trap the first time."""
    path = compile_c(AGAIN, ("-O1",), width="v9")
    found = verified(path, tmp_path, modes=["pp"], ways=(EMULATOR,))
    assert not [line for mode in found.modes for line in mode.differences]
    (mode,) = found.modes
    assert [each.routine for each in mode.left if each.instructions] == ["__getcontext"]


@pytest.mark.long
@WIDTHS
def test_hand_written_switches(compile_c: Callable[..., Path], tmp_path: Path, width: str) -> None:
    """Each coroutine descends 5 times, 5, 11 and 17 activations deep; 2 values each, an end."""
    flags = ("-O1", "-g", "-fno-inline", "-fno-optimize-sibling-calls", "-fno-pic", "-no-pie")
    path = compile_c(PROGRAMS / "switches.c", flags, width=width)
    descents, values = 5 * (5 + 11 + 17), 5 * 2 * 3
    entered = {"main": 1, "body": 3, "deep": descents, "hand": values}
    # main changes to a coroutine for each value and each end, and each of these changes back
    check(path, tmp_path, entered | {"change": 2 * (values + 3)})
    (tmp_path / "verified").mkdir()
    check_verified(
        verified(path, tmp_path / "verified", modes=[{"v9": "pp", "v8plus": "kiter"}[width]])
    )
