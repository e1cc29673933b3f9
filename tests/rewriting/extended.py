"""A tiny program with the start and the end of an instrumented one, for tests of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from simprof.profiler.rewriting.elsewhere.runtime import (
    ENTRY,
    EXIT,
    START,
    StartMemory,
    original_auxiliary,
    runtime_items,
    spans,
)
from simprof.profiler.schemes.tracing.code import flush_routine
from simprof.simulator.binary import elf
from simprof.simulator.binary.elf_writer import HEADER_ROOM, extend, find_room
from simprof.simulator.binary.program import MachineKind, Range
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register, assemble
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from tests.oracles import qemu
from tests.support.tiny_programs import DATA, program_file
from tests.support.width import Width

R = Register
HEADER = b'simprof-counters/2\n{"made": "for a test"}\n'
STATUS = 41


def tiny(
    machine: MachineKind, depth: int, ending: Sequence[Item], beginning: Sequence[Item] = ()
) -> list[Item]:
    """Return a program that shows its registers, calls itself `depth` times and ends in a leaf."""
    width = Width(machine)
    frame = 176 if width.is64 else 96
    registers = [r for r in Register if r not in (R.G0, R.G4)]
    return [
        Label("main"),
        asm.sethi(DATA, R.G4),
        *(width.store(r, R.G4, width.word * r) for r in registers),
        *([] if machine is MachineKind.SPARCV8 else [asm.read_state("%ccr", R.G1)]),
        width.store(R.G1, R.G4, 0),
        asm.mov(1, R.O0),
        asm.mov(R.G4, R.O1),
        asm.mov(32 * width.word, R.O2),
        *width.call("write"),
        *beginning,
        asm.mov(0, R.FP),
        asm.arithmetic("sub", R.SP, frame, R.SP),
        *asm.load_constant(depth, R.O0, False),
        asm.call("deeper"),
        asm.nop(),
        Label("deeper"),
        asm.arithmetic("save", R.SP, -frame, R.SP),
        asm.arithmetic("subcc", R.I0, 1, R.O0),
        asm.branch("neg", "leaf"),
        asm.nop(),
        Label("down"),
        asm.call("deeper"),
        asm.nop(),
        Label("leaf"),
        asm.call("end"),
        asm.nop(),
        Label("end"),
        asm.mov(STATUS, R.O0),
        asm.mov(1, R.G1),
        *ending,
    ]


@dataclass(frozen=True)
class Result:
    """What a run did, and the files that it left."""

    status: int
    output: bytes
    errors: bytes
    instructions: int
    runtime: int  # Of these: those of the run-time
    files: Mapping[str, bytes]


class Extended:
    """The program, plain and with start and end, in a directory of its own.

    `more` are instructions for its end; the plain program does nothing in their place. `both` are
    executed by both, behind their first. What `memory` says of the auxiliary vector is not used:
    it is as in the plain program, or with `is_told` false as the kernel has it.
    """

    def __init__(
        self,
        machine: MachineKind,
        memory: StartMemory,
        directory: Path,
        depth: int = 3,
        more: Sequence[Item] = (),
        both: Sequence[Item] = (),
        is_told: bool = True,
    ) -> None:
        self.machine, self.directory = machine, directory
        self.plain, self.path = directory / "original", directory / "extended"
        trap = Width(machine).trap
        ending = [*(asm.nop() for _ in more), trap]
        original = program_file(machine, tiny(machine, depth, ending, both))
        self.plain.write_bytes(original)
        program = elf.load(self.plain)
        auxiliary = original_auxiliary(program) if is_told else ()
        self.memory = memory = replace(memory, auxiliary=auxiliary)
        items = [
            Label(ENTRY),
            *tiny(machine, depth, [*more, asm.branch("a", EXIT, annul=True)], both),
            *runtime_items(machine, memory, HEADER),
            *(flush_routine(machine, memory.trace.packed) if memory.trace else ()),
        ]
        room = find_room(program, HEADER_ROOM + 4 * len(items) * 3)
        assert room is not None
        code = assemble(items, room + HEADER_ROOM)
        self.labels = code.labels
        data = bytes(HEADER_ROOM) + code.code
        self.path.write_bytes(
            extend(original, program, {}, room, data, code.labels[START], code.labels)
        )
        for path in (self.plain, self.path):
            path.chmod(0o755)

    @property
    def _spans(self) -> Sequence[Range]:
        return tuple(spans(self.labels).values())

    def frames(self, depth: int) -> list[int]:
        """Return the words of the stack at the end."""
        first, down = self.labels["deeper"] - 8, self.labels["down"]
        return [self.labels["leaf"], *[down] * depth, first]

    def here(self, path: Path, environment: Sequence[bytes] = ()) -> Result:
        """Run on simprof's emulator."""
        root = self._fresh("here")
        output, errors = bytearray(), bytearray()
        host = Host(root, writable=root, program=path, stdin=b"", stdout=output, stderr=errors)
        machine = Machine(elf.load(path), environment=environment, host=host, argv0=b"program")
        counts = [machine.count_in(span) for span in self._spans]
        result = machine.run()
        return Result(
            result.status,
            bytes(output),
            bytes(errors),
            result.instructions,
            sum(count.instructions for count in counts),
            contents(root),
        )

    def under_qemu(self, path: Path, environment: Sequence[bytes] = ()) -> Result:
        """Run under qemu-user, which reverses the environment."""
        root = self._fresh("qemu")
        pairs = [entry.decode().split("=", 1) for entry in reversed(environment)]
        done = qemu.trace(path, environment=dict(pairs), directory=root)
        run, executed = done.run, done.pc[done.executed]
        within = sum(
            int(np.count_nonzero((span.start <= executed) & (executed < span.end)))
            for span in self._spans
        )
        return Result(run.status, run.output, run.errors, done.instructions, within, contents(root))

    def _fresh(self, name: str) -> Path:
        root = self.directory / name
        root.mkdir(exist_ok=True)
        for path in root.iterdir():
            path.unlink()
        return root


def contents(root: Path) -> dict[str, bytes]:
    """Return the files of a directory."""
    return {path.name: path.read_bytes() for path in root.iterdir()}
