"""Shared by tests: what `tests/rewriting/test_wrong_on_purpose.py` and others use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.emission import Emission, Piece, PieceKind, emit
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register, assemble
from tests.support.assembled import code
from tests.support.tiny_programs import ENTRY

R = Register

Code = tuple[Instruction, ...]

Change = Callable[[Mapping[str, Code]], Mapping[str, Code]]
"""Edge -> right code; and the edges whose code is wrong -> that code."""


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
        snippet = replace(piece.snippet)
        snippet.__dict__["instructions"] = wrong  # as if it had been generated so
        return replace(piece, snippet=snippet)

    def _edge(self, cfg: ControlFlowGraph, piece: Piece) -> str:
        assert piece.kind is PieceKind.EDGE
        ends = (cfg.edges[piece.number].source, cfg.edges[piece.number].target)
        blocks = {block.id: self._names[block.start] for block in cfg.blocks}
        names = blocks | {cfg.entry: "ENTRY", cfg.exit: "EXIT"}
        return ">".join(names[end] for end in ends)


def flags_destroyed(right: Mapping[str, Code]) -> Mapping[str, Code]:
    """`addcc` counts where `add` ought to, and a branch behind it looks at the flags."""

    def wrong(instruction: Instruction) -> Instruction:
        if not instruction.text.startswith("add "):
            return instruction
        return Instruction("addcc", instruction.word | 0x10 << 19)

    return {edge: tuple(map(wrong, right[edge])) for edge in ("loop>equal",) if edge in right}
