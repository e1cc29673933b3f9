"""Places behind calls of `setjmp`: which they are, and the graphs with them as entries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.recovery.recovery import Discoveries, Known, recover
from simprof.profiler.recovery.second_returns import MOST_IN_ROUTINE, second_returns
from simprof.profiler.session.expected import are_same, expected_entries
from simprof.simulator.binary import elf
from tests.support.random_jumps import JUMPING

Compile = Callable[..., Path]

SEVERAL = """
#include <setjmp.h>
static jmp_buf buffer;
int few(void) { return setjmp(buffer) + setjmp(buffer) + setjmp(buffer); }
int more(void) { return setjmp(buffer) + setjmp(buffer) + setjmp(buffer) + setjmp(buffer); }
int main(void) { return few() + more(); }
"""


@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9", pytest.param("v8plus", marks=pytest.mark.long)])
def test_graphs_with_entries_are_those_that_recovery_makes(compile_c: Compile, width: str) -> None:
    """Every other one, and all together: edges and their order included."""
    known = Known()
    base = recover(elf.load(compile_c(JUMPING, ("-O2",), width=width)), known=known)
    found = expected_entries(base)
    assert found is not None
    assert found.blocks == second_returns(base)
    names = [base.routines[base.routine_of_block(block)].name for block in found.blocks]
    assert {"main", "many", "unused"} <= set(names)
    for used in (set(found.blocks[::2]), set(found.blocks)):
        entries = found.addresses(frozenset(used))
        wanted = recover(base.program, Discoveries(entries=entries), known)
        graphs = found.graphs_with(frozenset(used))
        assert are_same(graphs, wanted)
        for number in found.routines:
            assert graphs.routines[number] == wanted.routines[number]
        assert not are_same(base, wanted)


@pytest.mark.toolchain
def test_routines_with_many_are_left_to_the_run(compile_c: Compile) -> None:
    base = recover(elf.load(compile_c(SEVERAL, ("-O1",))))
    routines = [base.routines[base.routine_of_block(block)].name for block in second_returns(base)]
    assert routines.count("few") == MOST_IN_ROUTINE
    assert "more" not in routines


@pytest.mark.toolchain
def test_known_entries_are_not_expected(compile_c: Compile) -> None:
    program = elf.load(compile_c(JUMPING, ("-O2",)))
    known = Known()
    base = recover(program, known=known)
    found = second_returns(base)
    first = frozenset([int(base.arrays.block_start[found[0]])])
    later = recover(program, Discoveries(entries=first), known)
    assert len(second_returns(later)) == len(found) - 1


def test_programs_without_setjmp_expect_nothing(fixture_elf: Callable[..., Path]) -> None:
    assert expected_entries(recover(elf.load(fixture_elf("calls", "v9")))) is None
