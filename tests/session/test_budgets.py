"""Profiles of runs whose budget is spent at a branch that ends a page, its slot on the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.graphs.cfg import EdgeKind
from tests.oracles.exact import simulate

SOURCE = """
        .section .text
        .global _start
        .type _start, #function
        .align 8192
_start: mov   4, %l0
        .rept 2045
        nop
        .endr
loop:   subcc %l0, 1, %l0
        bne   loop
        add   %l1, 1, %l1
        mov   1, %g1
        ta    0x6d
        .size _start, .-_start
"""
BEFORE = 2046
"""Instructions before the loop, whose branch is the last word of a page."""


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("budget", "spent", "turns"),
    [
        (BEFORE + 2, BEFORE + 3, 1),  # the slot is executed although the budget is spent
        (BEFORE + 3, BEFORE + 3, 1),
        (BEFORE + 4, BEFORE + 3, 1),  # blocks are executed whole, or not at all
        (BEFORE + 5, BEFORE + 6, 2),
    ],
)
def test_a_run_ends_between_blocks(
    compile_c: Callable[..., Path], tmp_path: Path, budget: int, spent: int, turns: int
) -> None:
    """The activation ends in the branch's block: only what follows would cross the edge."""
    program = compile_c(SOURCE, ("-nostdlib",), language="asm")
    run = simulate(program, directory=tmp_path, max_instructions=budget, modes=("naive",))
    measurement = run.measurements["naive"]
    assert measurement.ending.reason == "budget"
    assert measurement.base == spent
    (routine,) = measurement.routines
    back = {edge.count for edge in routine.edge_counts if edge.kind is EdgeKind.TAKEN}
    early = [edge.count for edge in routine.edge_counts if edge.kind is EdgeKind.EARLY]
    assert (back, early) == ({turns - 1}, [1])
