"""Programs and routines made with the assembler, for tests of recovery's users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.simulator.binary.program import (
    Binding,
    LineTable,
    MachineKind,
    Program,
    Range,
    Segment,
    Symbol,
)
from simprof.simulator.isa.assembler import Instruction, Item, Label, assemble

BASE = 0x100000


def program_of(
    routines: Mapping[str, Sequence[Item]], machine: MachineKind = MachineKind.SPARCV9
) -> Program:
    """Return a program of the given routines, one after the other; each starts at its name."""
    items: list[Item] = []
    for name, body in routines.items():
        items += [Label(name), *body]
    code = assemble(items, BASE)
    ends = [code.labels[name] for name in list(routines)[1:]] + [BASE + len(code.code)]
    symbols = tuple(
        Symbol(name, code.labels[name], end - code.labels[name], Binding.GLOBAL, True)
        for name, end in zip(routines, ends, strict=True)
    )
    segment = Segment(BASE, code.code, len(code.code), True, False, True)
    span = Range(BASE, BASE + len(code.code))
    return Program(
        path=Path("assembled"),
        sha256="",
        machine=machine,
        entry=BASE,
        segments=(segment,),
        code=(span,),
        late_code=(),
        symbols=symbols,
        load_bias=0,
        program_headers_address=0,
        program_header_size=56,
        program_header_count=1,
        stack_executable=False,
        lines=LineTable(),
    )


class Assembled:
    """A recovered program of assembled routines."""

    def __init__(
        self, routines: Mapping[str, Sequence[Item]], machine: MachineKind = MachineKind.SPARCV9
    ) -> None:
        # some caller enters the routines, whose stack has words for their arguments
        program = replace(program_of(routines, machine), entry=0)
        self.recovered: ProgramGraphs = recover(program)
        self._contexts = ProgramContexts(self.recovered)

    def cfg(self, name: str) -> ControlFlowGraph:
        """Return the graph of routine `name`."""
        return next(cfg for cfg in self.recovered.routines if cfg.name == name)

    def context(self, name: str) -> RoutineContext:
        """Return the context of routine `name`."""
        names = [cfg.name for cfg in self.recovered.routines]
        return self._contexts.of(names.index(name))


def edge_of(cfg: ControlFlowGraph, kind: EdgeKind, number: int = 0) -> int:
    """Return the id of the `number`-th edge of a kind."""
    return [edge.id for edge in cfg.edges if edge.kind is kind][number]


def code(*instructions: Instruction | str) -> list[Item]:
    """Return items; strings are labels."""
    return [Label(i) if isinstance(i, str) else i for i in instructions]
