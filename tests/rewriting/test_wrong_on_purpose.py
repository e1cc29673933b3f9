"""Errors made on purpose in the code that is put into a program: verification catches each.

Only what is emitted is wrong, in one snippet; prices and predictions are those of the right code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from simprof.profiler.code.codegen import Emission, Piece, PieceKind, RoutineCode, emit
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.rewriting import program
from simprof.profiler.rewriting.verification import EMULATOR, QEMU, ModeResult
from simprof.profiler.rewriting.verify import verify
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register, assemble
from tests.support.assembled import code
from tests.support.tiny_programs import ENTRY, program_file

R = Register
Code = tuple[Instruction, ...]
Change = Callable[[Mapping[str, Code]], Mapping[str, Code]]
"""Edge -> right code; and the edges whose code is wrong -> that code."""

MAIN, ROUTINE = f"sub_{ENTRY:x}", f"sub_{ENTRY + 4 * 22:x}"


def items(machine: MachineKind) -> list[Item]:
    """A loop of 20 turns with three ways through it, a routine with two returns, and the end.

    The branch at `equal` looks at flags that were set before the edge that leads to it.
    """
    return code(
        "main", asm.mov(20, R.L0), asm.mov(0, R.L1),
        "loop", asm.cmp(R.L0, 10), asm.branch("g", "high"), asm.nop(),
        "equal", asm.branch("e", "ten"), asm.nop(),
        "low", asm.arithmetic("add", R.L1, 1, R.L1), asm.branch("a", "next"), asm.nop(),
        "ten", asm.arithmetic("add", R.L1, 5, R.L1), asm.branch("a", "next"), asm.nop(),
        "high", asm.arithmetic("add", R.L1, 3, R.L1),
        "next", asm.arithmetic("subcc", R.L0, 1, R.L0), asm.branch("ne", "loop"), asm.nop(),
        "after", asm.call("routine"), asm.mov(R.L1, R.O0),
        "end", asm.mov(1, R.G1), asm.trap_always(0x6D if machine is MachineKind.SPARCV9 else 0x10),
        asm.nop(),
        "routine", asm.cmp(R.O0, 100), asm.branch("g", "many"), asm.nop(),
        "few", asm.retl(), asm.arithmetic("add", R.O0, 1, R.O0),
        "many", asm.retl(), asm.arithmetic("sub", R.O0, 1, R.O0),
    )  # fmt: skip


STATUS = 10 * 3 + 1 * 5 + 9 * 1 + 1
"""`high` is passed ten times, `ten` once, `low` nine times; `routine` adds one."""


class Wrong:
    """Stands for `emit`, and changes the code of some edges."""

    def __init__(self, machine: MachineKind, change: Change) -> None:
        labels = assemble(items(machine), ENTRY).labels
        self._names = {address: name for name, address in labels.items()}
        self._change = change
        self.changed: list[str] = []

    def __call__(
        self, cfg: ControlFlowGraph, context: RoutineContext, codes: RoutineCode
    ) -> Emission:
        """Return where the snippets go, some of them changed."""
        right = emit(cfg, context, codes)
        pieces = {self._edge(cfg, p): p.snippet.instructions for p in right.pieces}
        wrong = {e: c for e, c in self._change(pieces).items() if e in pieces}
        assert all(pieces[edge] != new for edge, new in wrong.items())
        self.changed += wrong

        def new(each: tuple[Piece, ...]) -> tuple[Piece, ...]:
            return tuple(self._piece(p, wrong.get(self._edge(cfg, p))) for p in each)

        return Emission(
            {address: new(each) for address, each in right.before_label.items()},
            {address: new(each) for address, each in right.at.items()},
            tuple(replace(stub, pieces=new(stub.pieces)) for stub in right.stubs),
        )

    def _piece(self, piece: Piece, wrong: Code | None) -> Piece:
        if wrong is None:
            return piece
        return replace(piece, snippet=replace(piece.snippet, instructions=wrong))

    def _edge(self, cfg: ControlFlowGraph, piece: Piece) -> str:
        assert piece.kind is PieceKind.EDGE
        ends = (cfg.edges[piece.number].source, cfg.edges[piece.number].target)
        blocks = {block.id: self._names[block.start] for block in cfg.blocks}
        names = blocks | {cfg.entry: "ENTRY", cfg.exit: "EXIT"}
        return ">".join(names[end] for end in ends)


def mode_result(
    machine: MachineKind, mode: str, directory: Path, way: str = EMULATOR
) -> ModeResult:
    """Verify the program in one mode."""
    path, root = directory / "program", directory / "root"
    path.write_bytes(program_file(machine, items(machine)))
    root.mkdir()
    request = RunRequest(path, GuestOptions(root=root, stdin=path))
    result = verify(request, [Setting(mode, mode, SchemeOptions())], [way])
    (found,) = result.modes
    assert result.passed == (not found.differences)
    return found


# --- the errors


def one_short(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """The last instruction of a snippet is missing."""
    return {edge: right[edge][:-1] for edge in ("equal>low",) if edge in right}


def wrong_register(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """A counter is written back from another register."""

    def wrong(before: Code) -> Code:
        last = before[-1]
        assert last.text.startswith("st ")
        return (*before[:-1], Instruction("st %g0", last.word & ~(31 << 25)))

    return {edge: wrong(right[edge]) for edge in ("equal>ten",) if edge in right}


def flags_destroyed(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """`addcc` counts where `add` ought to, and a branch behind it looks at the flags."""

    def wrong(instruction: Instruction) -> Instruction:
        if not instruction.text.startswith("add "):
            return instruction
        return Instruction("addcc", instruction.word | 0x10 << 19)

    return {edge: tuple(map(wrong, right[edge])) for edge in ("loop>equal",) if edge in right}


def wrong_chord(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """Two edges have each other's counters."""
    one, other = "low>next", "high>next"
    return {one: right[other], other: right[one]} if one in right else {}


def missed_exit(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """A return has no code."""
    return {edge: () for edge in ("few>EXIT",) if edge in right}


@dataclass(frozen=True)
class Case:
    """An error in the code of a mode, and what verification says of it."""

    change: Change
    mode: str
    said: tuple[str, ...]


CASES = [
    Case(
        one_short,
        "naive",
        (
            f"{MAIN}: edge counter 4 holds 0, not 9",
            "instructions were executed, -9",
            "each block was executed as often as predicted",
        ),
    ),
    Case(wrong_register, "naive", (f"{MAIN}: edge counter 5 holds 0, not 1",)),
    Case(
        flags_destroyed,
        "naive",
        (
            f"the status is 41, not {STATUS}",
            f"{MAIN}: its block at {ENTRY + 4 * 7:#x} was executed 10 times, not 9",
        ),
    ),
    Case(
        wrong_chord,
        "qpt2",
        (f"{MAIN}: edge counter 0 holds 10, not 9; edge counter 2 holds 9, not 10",),
    ),
    Case(
        missed_exit,
        "pp",
        (f"{ROUTINE}: the counter of path 0 holds 0, not 1", "instructions were executed, -4"),
    ),
]


@pytest.mark.parametrize("machine", MachineKind)
@pytest.mark.parametrize("mode", ["naive", "qpt2", "pp"])
def test_the_right_code_passes(machine: MachineKind, mode: str, tmp_path: Path) -> None:
    result = mode_result(machine, mode, tmp_path)
    assert result.differences == ()
    assert (result.output_equal, result.counters_equal) == (True, True)
    assert result.executed == {EMULATOR: result.predicted}


@pytest.mark.parametrize("machine", MachineKind)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.change.__name__)
def test_an_error_is_caught(
    machine: MachineKind, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Wrong(machine, case.change)
    monkeypatch.setattr(program, "emit", wrong)
    result = mode_result(machine, case.mode, tmp_path)
    assert wrong.changed
    for words in case.said:
        assert any(words in line for line in result.differences), result.differences


@pytest.mark.qemu
def test_where_blocks_differ_is_asked_of_the_emulator_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went wrong elsewhere need not go wrong there."""
    monkeypatch.setattr(program, "emit", Wrong(MachineKind.SPARCV9, flags_destroyed))
    result = mode_result(MachineKind.SPARCV9, "naive", tmp_path, QEMU)
    assert not result.output_equal
    assert any(f"the status is 41, not {STATUS}" in line for line in result.differences)
    assert not any(line.startswith(EMULATOR) for line in result.differences)
