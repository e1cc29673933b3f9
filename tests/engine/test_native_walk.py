"""What native code learns of a program's steps, compared with `Walker`, which describes them.

`Walker` is tested by hand (`test_walk`) and against qemu's log (`end_to_end`). Runs with
`--self-check` compare all transitions that they learn; here every context of a program's
instructions is tried with what may follow it, whether a run comes by or not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simprof.profiler.engine import kernels, native_walk, transition_kernel, walk_kernel
from simprof.profiler.engine.automaton import Automaton
from simprof.profiler.engine.lowering import Lowering, cost_words
from simprof.profiler.engine.native_walk import NativeWalk, _sites
from simprof.profiler.engine.walk import (
    UNKNOWN,
    Cross,
    GraphIndex,
    Pop,
    Push,
    Step,
    WalkContext,
    Walker,
)
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.graphs.packed import NUMBER_OF_KIND
from simprof.profiler.recovery.recovery import Discoveries, recover
from simprof.profiler.session.world import WINDOWS
from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from tests.conftest import FIXTURES
from tests.oracles.exact import simulate
from tests.support.exact_random import BARE
from tests.support.random_programs import program
from tests.support.turns import in_step, turns

MASK = (1 << 64) - 1
WIDTHS = ("v9", "v8plus", "v8")
NAMES = sorted(path.stem for path in (FIXTURES / "bin" / "v9").glob("*.elf"))
Compile = Callable[..., Path]


def test_kinds_have_the_numbers_that_the_kernel_knows() -> None:
    kinds = {
        "BRANCH": TransferKind.BRANCH,
        "BRANCH_ALWAYS": TransferKind.BRANCH_ALWAYS,
        "BRANCH_NEVER": TransferKind.BRANCH_NEVER,
        "DIRECT_CALL": TransferKind.CALL,
        "INDIRECT_CALL": TransferKind.INDIRECT_CALL,
        "JUMP": TransferKind.JUMP,
        "RETURN_JUMP": TransferKind.RETURN_JUMP,
        "WINDOW_RETURN": TransferKind.RETURN,
        "JUMP_AND_LINK": TransferKind.JUMP_AND_LINK,
        "RETURN_FROM_TRAP": TransferKind.RETURN_FROM_TRAP,
        "FALL_THROUGH": NUMBER_OF_KIND[EdgeKind.FALL_THROUGH],
        "TAKEN": NUMBER_OF_KIND[EdgeKind.TAKEN],
        "SWITCH": NUMBER_OF_KIND[EdgeKind.SWITCH],
    }
    assert {name: getattr(walk_kernel, name) for name in kinds} == kinds
    delayed = [*range(walk_kernel.BRANCH, walk_kernel.JUMP_AND_LINK + 1)]
    assert np.flatnonzero(HAS_DELAY_SLOT).tolist() == [*delayed, walk_kernel.RETURN_FROM_TRAP]


class Both:
    """Both ways to take a step of one program."""

    def __init__(self, path: Path) -> None:
        recovered = recover(load(path), Discoveries())
        self.index = GraphIndex(recovered)
        costs = cost_words(MachineKind.SPARCV9)
        lowering = Lowering((), recovered.routines, self.index.first_edge, costs, MASK)
        self.native = NativeWalk(lowering.memory, self.index, lowering)
        self.walker = Walker(self.index)

    def contexts(self, block: int) -> Iterator[WalkContext]:
        """Yield what may be known behind each instruction of a block, and behind its slot."""
        start, end = self.index.block_start(block), self.index.block_end(block)
        for at in range(start, end, 4):
            if self.walker.land(at).pending < 0:
                yield WalkContext(-1, False, block, at)
            else:
                yield WalkContext(at, False, block, at)
                if not self.walker.annuls(at) or self.index.slot_edge[block] != UNKNOWN:
                    yield WalkContext(at, True, block, at + 4)

    def followers(self, context: WalkContext, generator: random.Random) -> list[int]:
        """Where control may come to next, and two places where it may not."""
        found = [context.last + 4]
        if context.pending >= 0:
            target = self.walker.target(context.pending)
            found += [context.pending + 4, context.pending + 8, *([target] if target >= 0 else ())]
        blocks = generator.choices(range(self.index.block_count), k=2)
        returns = generator.choices(self.index.returns_to, k=2) if self.index.returns_to else []
        return [*found, *map(self.index.block_start, [*blocks, *returns])]

    def compare(self, context: WalkContext, address: int) -> bool:
        """Take a step in both ways; return whether native code left to Python what is usual."""
        try:
            steps, behind = self.walker.step(context, address)
        except UnsupportedError:
            assert self.native.step(context, address) is None
            return False
        found = self.native.step(context, address)
        if found is not None:
            assert found == (tuple(steps), behind), (context, hex(address))
            return False
        usual: tuple[type[Step], ...] = Cross, Push, Pop
        return behind.block != UNKNOWN and all(isinstance(each, usual) for each in steps)


def check(path: Path, seed: int, blocks: int | None = None) -> None:
    both, generator = Both(path), random.Random(seed)
    every = range(both.index.block_count)
    chosen = every if blocks is None else generator.sample(every, min(blocks, len(every)))
    tried = left = 0
    for block in chosen:
        for context in both.contexts(block):
            for address in both.followers(context, generator):
                tried += 1
                left += both.compare(context, address)
    assert tried > 4 * len(chosen)
    assert left < tried / 200  # jumps into the middle of routines


@pytest.mark.long
@pytest.mark.parametrize(("name", "width"), turns(NAMES, WIDTHS))
def test_native_steps_are_the_walkers(name: str, width: str, fixture_elf: Compile) -> None:
    check(fixture_elf(name, width), seed=len(name), blocks=400)


@pytest.mark.long
@pytest.mark.parametrize(("width", "name"), in_step(WIDTHS, NAMES))
def test_all_native_steps_are_the_walkers(name: str, width: str, fixture_elf: Compile) -> None:
    """In every block of the program and of its libraries."""
    check(fixture_elf(name, width), seed=1)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.seeds(range(60), few=1)
def test_native_steps_of_random_programs(seed: int, compile_c: Compile, tmp_path: Path) -> None:
    """Also all that a run learns (`simulate` checks it against the walker)."""
    path = compile_c(program(seed), ("-O2", *BARE), width="v9" if seed % 2 else "v8plus")
    check(path, seed, blocks=100)
    simulate(path, directory=tmp_path, modes=("pp",))


@pytest.mark.parametrize(
    ("name", "most"), [("switches", 0.02), ("nonlocal", 0.2), ("signals", 0.2)]
)
def test_python_decides_few_transitions(
    name: str, most: float, fixture_elf: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[int] = []
    take = Automaton._take_new

    def noted(self: Automaton, source: int, *rest: Any) -> None:
        decided.append(source)
        take(self, source, *rest)

    logs: list[int] = []
    retire = Automaton.retire

    def counted(self: Automaton) -> None:
        logs.append(len(self._native.log))
        retire(self)

    monkeypatch.setattr(Automaton, "_take_new", noted)
    monkeypatch.setattr(Automaton, "retire", counted)
    simulate(fixture_elf(name, "v9"), directory=tmp_path, modes=("pp",))
    assert 0 < len(decided) < most * sum(logs)


def test_a_transition_that_was_learnt_wrongly_is_found(
    fixture_elf: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step that leads into another block is taken for one over the edge before."""
    check = NativeWalk.check

    def falsified(self: NativeWalk, walker: Walker) -> str | None:
        crossing = self.log[self.log[:, walk_kernel.LOG_COUNT] == 1][-1]
        steps = self._arrays[walk_kernel.STEPS]
        steps[int(crossing[walk_kernel.LOG_FIRST])] -= 1 << walk_kernel.KIND_BITS
        return check(self, walker)

    monkeypatch.setattr(native_walk.NativeWalk, "check", falsified)
    with pytest.raises(Exception, match="was learnt differently than the walker reads it"):
        simulate(fixture_elf("control", "v9"), directory=tmp_path, modes=("edges",))


# -- Windows that are moved before a block

SAVE, RESTORE, RETURN, RET, CALL = 0x9DE3BF40, 0x81E80000, 0x81CFE008, 0x81C7E008, 0x40000000
SETHI, NOP, ADD = 0x03000004, 0x01000000, 0x82004001
LOAD, STORE, DIVIDE, FLUSH, TRAP = 0xC25E0000, 0xC2760000, 0x82684001, 0x81580000, 0x91D0206D
SET_FRAME_POINTER = 0xBC100001


def moved(start: int, end: int, *words: int) -> Any:
    """The clock word of the window that is moved before [start, end); `words` begin at 0x1000."""
    code = np.array(words, np.uint32)
    pieces = [np.array([each], np.int64) for each in (0x1000, 0x1000 + 4 * len(words), 0)]
    walk = np.zeros(walk_kernel.WORDS, np.int64)
    walk[walk_kernel.PIECES] = 1
    places = walk_kernel.PIECE_START, walk_kernel.PIECE_END, walk_kernel.PIECE_FIRST
    walk[list(places)] = [each.ctypes.data for each in pieces]
    walk[walk_kernel.CODE] = code.ctypes.data
    return transition_kernel.call_window_move(walk.ctypes.data, start, end - start)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((SAVE,), kernels.CAN_SAVE),
        ((SETHI, ADD, SAVE, LOAD), kernels.CAN_SAVE),
        ((RET, RESTORE), kernels.CAN_RESTORE),
        ((ADD, RETURN, NOP), kernels.CAN_RESTORE),
        ((CALL, RESTORE), kernels.CAN_RESTORE),
        ((SAVE, RET, RESTORE), kernels.CAN_SAVE),
        ((ADD, NOP), 0),
        *(((word, SAVE), 0) for word in (LOAD, STORE, DIVIDE, FLUSH, TRAP)),
        *(((word, RET, RESTORE), 0) for word in (LOAD, STORE, SET_FRAME_POINTER)),
        ((0, SAVE), 0),
    ],
)
def test_only_moves_that_nobody_can_tell_come_ahead(words: tuple[int, ...], expected: int) -> None:
    assert moved(0x1004, 0x1004 + 4 * len(words), NOP, *words, NOP) == expected


def test_a_block_in_front_of_the_code_moves_nothing() -> None:
    assert moved(0x0FFC, 0x1004, SAVE) == 0


@pytest.mark.parametrize("width", ("v8", "v8plus", "v9"))
@pytest.mark.parametrize(("name", "argument"), [("calls", "16"), ("deep", "300")])
def test_as_many_windows_are_moved_as_trap(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, argument: str, width: str
) -> None:
    path = fixture_elf(name, width)
    host = Host(tmp_path, program=path, stdin=b"", stdout=1, stderr=2)
    machine = Machine(
        load(path), arguments=(argument.encode(),), environment=(), host=host, windows=WINDOWS
    )
    trapped = machine.run()
    moved = simulate(path, [argument], directory=tmp_path, modes=("edges",)).observation.result
    assert trapped.spills > 100
    assert (moved.spills, moved.fills) == (trapped.spills, trapped.fills)
    assert moved.instructions == trapped.instructions


@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9", "v8"])
def test_calls_that_return_behind_data_have_their_place(
    compile_c: Callable[..., Path], width: str
) -> None:
    """Call trees name the call, not what lies 8 bytes before the place where it returns."""
    program = Path(__file__).parents[1] / "programs" / "exact" / "data_behind_call.S"
    recovered = recover(load(compile_c(program, ("-nostdlib",), width=width, language="asm")))
    index, code = GraphIndex(recovered), recovered.code
    distances = []
    for edge in index.returns.tolist():
        call = index.block_end(int(index.edge_source[edge])) - 8
        point = index.block_start(index.target(edge))
        assert _sites(index)[code.index(point)] == call
        distances.append(point - call)
    assert sorted(distances) == [8, 8, 12, 12, 16]
