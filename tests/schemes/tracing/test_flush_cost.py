"""What a trace costs beside its tokens: emptying the buffer, executed and found in `added`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.schemes.tracing.code import TRACE_SIZE, flush_name
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from tests.oracles.exact import simulate
from tests.support.code import Tracer
from tests.support.code_bench import END_TRAP
from tests.support.snippets import free_case
from tests.support.turns import turns

Find = Callable[..., Path]
MACHINES = {
    "v9": MachineKind.SPARCV9,
    "v8plus": MachineKind.SPARCV8PLUS,
    "v8": MachineKind.SPARCV8,
}


def executed_flush(machine: MachineKind, packed: bool) -> int:
    """Instructions that a call of the flush routine executes on the emulator, call included."""
    tracer = Tracer(machine, packed)
    call = (asm.call(flush_name(packed)), asm.nop())
    outcome = tracer.bench.run(call, free_case(machine, 0).state, tracer.symbols)
    assert outcome.trap == 0x100 + END_TRAP
    return outcome.executed


@pytest.mark.parametrize(
    ("width", "case"),
    turns(MACHINES, [("witness", "calls", 2), ("witness", "loops", 1), ("bits", "words", 1)]),
)
def test_every_flush_is_in_what_a_trace_adds(
    fixture_elf: Find, tmp_path: Path, width: str, case: tuple[str, str, int]
) -> None:
    """`calls` writes more than one buffer of 8 KB; what is left at the end is a flush as well."""
    mode, name, flushes = case
    run = simulate(fixture_elf(name, width), modes=(mode,), directory=tmp_path)
    measurement = run.measurements[mode]
    size = measurement.sizes["trace_bits"] / 8
    assert (flushes - 1) * TRACE_SIZE < size <= flushes * TRACE_SIZE
    in_routines = sum(routine.added for routine in measurement.routines)
    each = executed_flush(MACHINES[width], packed=mode == "bits")
    assert measurement.added - in_routines == flushes * each


def test_a_scheme_without_a_trace_flushes_nothing(fixture_elf: Find, tmp_path: Path) -> None:
    run = simulate(fixture_elf("words"), modes=("pp",), directory=tmp_path)
    measurement = run.measurements["pp"]
    assert measurement.added == sum(routine.added for routine in measurement.routines) > 0
