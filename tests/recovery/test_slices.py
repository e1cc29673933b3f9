"""What of a routine can influence an indirect jump, on assembled routines and on whole programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simprof.profiler.recovery import jump_tables, slices
from simprof.profiler.recovery import slice_kernel as k
from simprof.profiler.recovery.idioms import bit
from simprof.profiler.recovery.recovery import Known, recover
from simprof.profiler.recovery.slice_kernel import CONDITION, FIRST_SLOT
from simprof.profiler.recovery.slices import BlockGraph, Slice, Whole, frame_escapes
from simprof.simulator.binary import elf
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register
from tests.support.assembled import code
from tests.support.explored import Explored

R = Register
JUMP = (asm.jmpl(R.G1, 0, R.G0), asm.nop())
LEAF = code(asm.retl(), asm.nop())


class Sliced:
    """The slice of the routine that some instructions make up."""

    def __init__(self, *body: Instruction | str) -> None:
        self.explored = Explored({"f": code(*body), "leaf": LEAF})
        found = self.explored.run()
        graph = BlockGraph(found, 0)
        self.slice = Slice(found, graph, frame_escapes(found, 0))

    def needed(self, place: str) -> int:
        """Mask of what is needed at a label."""
        return self.slice.needed[self.explored.index(place)]

    def executed(self, place: str) -> list[int]:
        """Which instructions of the block at a label are executed, counted from it."""
        leader = self.explored.index(place)
        return [index - leader for index in self.slice.part(leader).indices]

    def compares(self, place: str) -> bool:
        """Whether the branch that ends the block at a label tells anything."""
        return self.slice.part(self.explored.index(place)).compares


def test_only_what_makes_the_address_is_executed() -> None:
    sliced = Sliced(
        asm.branch("e", "start"), asm.nop(),
        "start", asm.mov(R.O3, R.G4), asm.arithmetic("add", R.O1, 4, R.G1),
        asm.arithmetic("add", R.G4, R.O2, R.G5), "jump", *JUMP,
    )  # fmt: skip
    assert sliced.needed("start") == bit(R.O1)
    assert sliced.executed("start") == [1]


def test_a_product_depends_on_nothing() -> None:
    """Its value is unknown in any case."""
    sliced = Sliced(
        asm.branch("e", "start"), asm.nop(),
        "start", asm.arithmetic("mulx", R.O1, 4, R.G1), "jump", *JUMP,
    )  # fmt: skip
    assert sliced.needed("start") == 0
    assert sliced.executed("start") == [0]
    assert sliced.slice.sources() == [sliced.explored.index("start")]


@pytest.mark.parametrize(
    ("compared", "tells"), [(R.O0, True), (R.O1, True), (R.O2, False), (R.G1, True)]
)
def test_comparisons_of_copies_tell_about_the_address(compared: Register, tells: bool) -> None:
    """%o1 is a copy of %o0, of which the jump's address is made too; %o2 is something else."""
    sliced = Sliced(
        asm.branch("e", "start"), asm.nop(),
        "start", asm.mov(R.O0, R.O1), asm.arithmetic("add", R.O0, 4, R.G1), asm.mov(R.O3, R.O2),
        asm.cmp(compared, 9), asm.branch("gu", "default"), asm.nop(),
        "jump", *JUMP, "default", asm.branch("a", "jump"), asm.nop(),
    )  # fmt: skip
    assert sliced.compares("start") is tells
    assert (3 in sliced.executed("start")) is tells
    assert not sliced.needed("start") & CONDITION


def test_a_call_makes_results_anew_and_a_slot_is_kept() -> None:
    sliced = Sliced(
        asm.arithmetic("save", R.SP, -192, R.SP),
        "start", asm.store("stx", R.I0, R.FP, -8), asm.mov(R.I2, R.O1),
        asm.call("leaf"), asm.nop(),
        "behind", asm.load("ldx", R.FP, -8, R.G2), asm.arithmetic("add", R.G2, R.O1, R.G1),
        "jump", *JUMP,
    )  # fmt: skip
    behind = sliced.needed("behind")
    assert behind & bit(R.O1)
    assert behind >> FIRST_SLOT
    assert not behind & bit(R.I0)
    first = sliced.needed("f")
    assert first == bit(R.O0), "what was %i0 before the save"


@pytest.mark.parametrize("name", ["switches", "switches_pic", "nonlocal", "control"])
@pytest.mark.parametrize("machine", ["v8", "v9"])
def test_a_slice_finds_what_the_whole_routine_finds(
    monkeypatch: pytest.MonkeyPatch, fixture_elf: Callable[..., Path], name: str, machine: str
) -> None:
    program = elf.load(fixture_elf(name, machine))
    sliced, whole = Known(), Known()
    recovered = recover(program, known=sliced)
    used = []

    class Everything(Whole):
        def __init__(self, exploration: object, graph: BlockGraph, escapes: object) -> None:
            super().__init__(graph)
            used.append(graph)

        def fingerprint(self, origin: int) -> tuple[bytes, ...]:
            return (len(used).to_bytes(8), origin.to_bytes(8))

    monkeypatch.setattr(jump_tables, "Slice", Everything)
    graphs = recover(program, known=whole)
    assert used
    assert list(graphs.routines) == list(recovered.routines)
    (found,), (expected,) = sliced.jumps.values(), whole.jumps.values()
    routines = found.keys() & expected.keys()  # what is known of a routine as a whole
    assert routines and len(expected) - len(routines) == len(used)
    assert [found[each] for each in routines] == [expected[each] for each in routines]


@pytest.mark.parametrize("name", ["switches", "nonlocal"])
def test_machine_code_finds_what_python_finds(
    monkeypatch: pytest.MonkeyPatch, fixture_elf: Callable[..., Path], name: str
) -> None:
    """Slices, blocks, steps and slots are the same, array by array."""
    native, commands = slices._run, []

    def both(arrays: k.Slices, command: int) -> int:
        copies: Any = (each.copy() for each in arrays)
        again = k.Slices(*copies)
        result = native(arrays, command)
        commands.append(command)
        assert slices._in_python(again, command) == result
        for before, after in zip(arrays, again, strict=True):
            np.testing.assert_array_equal(before, after)
        return result

    monkeypatch.setattr(slices, "_run", both)
    recover(elf.load(fixture_elf(name, "v9")))
    assert set(commands) == {k.REACH, k.DESCRIBE, k.SOLVE}
