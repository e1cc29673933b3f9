"""Stacks of assembled programs, read by hand: who was called, and where the program ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.rewriting.elsewhere.early_ends import StackReader
from simprof.simulator.errors import UsageError
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.assembled import code
from tests.support.event_player import IndexedGraphs

R = Register
SAVE = asm.arithmetic("save", R.SP, -176, R.SP)
GETPID = [asm.mov(20, R.G1), asm.trap_always(0x6D)]
MAIN = code(
    SAVE, "asks", asm.call("helper"), asm.nop(), "goes", asm.call("ends"), asm.nop(),
    asm.ret(), asm.restore(),
)  # fmt: skip
HELPER = code(asm.retl(), asm.nop())
LEAF = code(*GETPID, "behind", asm.retl(), asm.nop())
WINDOWED = code(
    SAVE, "own", asm.call("helper"), asm.nop(), "traps", *GETPID, asm.ret(), asm.restore()
)


class Stacks:
    """A program whose `main` calls `helper`, and then `ends`, in whose trap it ends."""

    def __init__(self, ends: Sequence[Item], copies: Mapping[int, int] | None = None) -> None:
        self.graphs = IndexedGraphs({"main": MAIN, "ends": ends, "helper": HELPER})
        recovered = self.graphs.index.recovered
        self.reader = StackReader(recovered, ProgramContexts(recovered), copies or {})

    def ends(self, *places: str) -> dict[str, list[str]]:
        """Return the first words of the blocks in which activations ended, by routine."""
        frames = [self.graphs.address(place) for place in places]
        routines = self.graphs.index.recovered.routines
        return {
            routines[number].name: [
                self.graphs.name(routines[number].blocks[block].start)
                for block, count in counts.items()
                for _ in range(count)
            ]
            for number, counts in self.reader.ends(frames).items()
        }

    def last(self, *places: str) -> str | None:
        block = self.reader.last_block([self.graphs.address(place) for place in places])
        return None if block is None else self.graphs.name(self.graphs.index.block_start(block))


def test_a_program_that_ends_in_a_leaf() -> None:
    """The first word is the call of the leaf, and part of the stack."""
    stacks = Stacks(LEAF)
    assert stacks.ends("goes") == {"main": ["goes"], "ends": ["ends"]}
    assert stacks.last("goes") == "ends"


def test_a_program_that_ends_in_a_window() -> None:
    """The first word is what the last call of its own left in %o7: it waits for nothing."""
    stacks = Stacks(WINDOWED)
    assert stacks.ends("own", "goes") == {"main": ["goes"], "ends": ["traps"]}
    assert stacks.last("own", "goes") == "traps"
    assert stacks.last("own") == "traps", "nobody called it: its own call tells where it is"


def test_stacks_that_do_not_tell() -> None:
    assert Stacks(WINDOWED).last() is None
    assert Stacks(LEAF).last("asks", "asks") is None  # `helper` and `main` have no trap
    with pytest.raises(UsageError, match="behind none of its calls"):
        Stacks(LEAF).ends("goes", "helper")


def test_calls_of_copies_are_those_of_the_program() -> None:
    goes = Stacks(LEAF).graphs.address("goes")
    stacks = Stacks(LEAF, {0x9000: goes})
    assert stacks.reader.ends([0x9000]) == stacks.reader.ends([goes])
