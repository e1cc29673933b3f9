"""Programs that execute code which they have made: counted beside the graphs, exact around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simprof.profiler.profiles.profile import RoutineProfile
from simprof.simulator.binary.elf import load
from tests.oracles.exact import Simulated, check_profile, naive_profile, simulate
from tests.oracles.qemu import Trace, trace

PROGRAMS = Path(__file__).parent.parent / "programs"
WIDTHS = pytest.mark.parametrize("width", ["v9", "v8plus"])
pytestmark = [pytest.mark.toolchain, pytest.mark.qemu]


def generated(simulated: Simulated) -> RoutineProfile:
    (found,) = [r for r in simulated.measurements["pp"].routines if r.name == "(generated code)"]
    return found


def inside(path: Path, log: Trace) -> Any:
    """Whether each executed instruction is one of the program's file."""
    pc = log.pc
    spans = load(path).code
    return np.logical_or.reduce([(pc >= span.start) & (pc < span.end) for span in spans])


@pytest.mark.long
@pytest.mark.parametrize(("flags", "width"), [(("-O0",), "v9"), (("-O2", "-g"), "v8plus")])
def test_trampolines(
    compile_c: Callable[..., Path], tmp_path: Path, width: str, flags: tuple[str, ...]
) -> None:
    """Whether a trampoline is there or not: calls lead to what it jumps to."""
    path = compile_c(PROGRAMS / "trampolines.c", flags, width=width)
    simulated = simulate(path, directory=tmp_path)
    log = trace(path, directory=tmp_path, stack_pointers=True)
    assert simulated.output == log.run.output
    assert simulated.observation.result.instructions == log.instructions
    own = inside(path, log)
    assert log.sp is not None
    without = dataclasses.replace(
        log, pc=log.pc[own], breaks=log.breaks[own], sp=log.sp[own], executed=log.executed[own]
    )
    check_profile(simulated, naive_profile(simulated, without))
    made = generated(simulated)
    assert made.instructions == np.count_nonzero(~own)
    assert made.activations * 4 == made.instructions
    base = sum(each.instructions for each in simulated.measurements["pp"].routines)
    assert base == log.instructions


@pytest.mark.long
@pytest.mark.parametrize("width", ["v9"])
def test_code_on_the_heap(compile_c: Callable[..., Path], tmp_path: Path, width: str) -> None:
    path = compile_c(PROGRAMS / "generated.c", ("-O1",), width=width)
    simulated = simulate(path, directory=tmp_path)
    log = trace(path, directory=tmp_path)
    assert simulated.output == log.run.output
    assert simulated.observation.result.instructions == log.instructions
    made = generated(simulated)
    assert made.instructions == np.count_nonzero(~inside(path, log))
    # 20 leaves, 1 loop, 7 functions with frames, 3 jumps; the system calls the handler.
    assert made.activations == 10 * (20 + 1 + 7 + 3)
    routines = {each.name: each for each in simulated.measurements["pp"].routines}
    assert routines["twice"].activations == 10 * (7 + 3)
    assert routines["main"].activations == 1
    assert sum(each.instructions for each in routines.values()) == log.instructions
