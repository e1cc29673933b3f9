"""Start and end of instrumented programs, on simprof's emulator and under qemu-user."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest

from simprof.profiler.code.layout import RUNTIME_DATA
from simprof.profiler.rewriting.elsewhere.counter_file import FileRegion, RegionKind
from simprof.profiler.rewriting.elsewhere.runtime import StartMemory, Stream
from simprof.profiler.schemes.tracing import code
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.oracles import qemu
from tests.rewriting.extended import STATUS, Extended
from tests.support.start_and_dump import MACHINES, MEMORY, REGIONS, expected_file
from tests.support.tiny_programs import DATA
from tests.support.turns import turns
from tests.support.width import Width

R = Register
STREAMS = {"bytes": Stream(code.STREAM, packed=False), "bits": Stream(code.STREAM, packed=True)}
POSITION_WORD = FileRegion(RegionKind.ARRAY, code.TRACE_END + code.POSITION, 4)
ENVIRONMENT = (b"SIMPROF_OU=x", b"A=b", b"SIMPROF_OUT=counts", b"LATER=SIMPROF_OUT=not")
ROOM = 0xC00  # Bytes of the stack's words on their way to the file
LONGEST_NAME = 4000  # Bytes
pytestmark = pytest.mark.qemu


@pytest.mark.parametrize(("depth", "machine"), turns([0, 3, 1000], MACHINES))
def test_the_file_and_the_instructions(machine: MachineKind, depth: int, tmp_path: Path) -> None:
    extended = Extended(machine, MEMORY, tmp_path, depth)
    expected, executed = expected_file(extended, depth, REGIONS), list[int]()
    for run in (extended.here, extended.under_qemu):
        plain = run(extended.plain, ENVIRONMENT)
        result = run(extended.path, ENVIRONMENT)
        assert (result.status, result.errors) == (STATUS, b"")
        assert result.output == plain.output != b""
        assert result.files == {"counts": expected}
        assert result.instructions == plain.instructions + result.runtime
        executed.append(result.runtime)
    assert executed[0] == executed[1] > 0


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("words", [-1, 0, 1])
def test_frames_that_just_fill_their_room(machine: MachineKind, words: int, tmp_path: Path) -> None:
    room = ROOM // (8 if machine is MachineKind.SPARCV9 else 4)
    depth = 2 * room + words - 2
    memory = StartMemory(())
    extended = Extended(machine, memory, tmp_path, depth)
    frames = extended.frames(depth)
    assert len(frames) == 2 * room + words
    plain, result = extended.here(extended.plain), extended.here(extended.path)
    assert result.files == {"simprof.out": expected_file(extended, depth, b"")}
    assert result.instructions == plain.instructions + result.runtime


@pytest.mark.parametrize(
    ("units", "kind", "machine"), turns([0, 5, 17, 8], ["bytes", "bits"], MACHINES)
)
def test_traces(machine: MachineKind, kind: str, units: int, tmp_path: Path) -> None:
    """The buffer begins empty; what the program has put into it is written at the end."""
    tokens = b"tokens of the trace."
    memory = StartMemory((), ((code.TRACE_BUFFER, tokens),), (POSITION_WORD,), STREAMS[kind])
    more = [
        asm.sethi(code.TRACE_END, R.G2),
        asm.load("ld", R.G2, code.POSITION, R.G3),
        asm.arithmetic("add", R.G3, units, R.G3),
        asm.store("st", R.G3, R.G2, code.POSITION),
    ]
    extended = Extended(machine, memory, tmp_path, 3, more)
    position = struct.pack(">i", units - code.TRACE_SIZE * (8 if kind == "bits" else 1))
    written = tokens[: units if kind == "bytes" else (units + 7) // 8]
    for run in (extended.here, extended.under_qemu):
        plain, result = run(extended.plain, ENVIRONMENT), run(extended.path, ENVIRONMENT)
        assert (result.status, result.errors, result.output) == (STATUS, b"", plain.output)
        files = {"counts": expected_file(extended, 3, position), "counts.trace": written}
        assert result.files == files
        assert result.instructions == plain.instructions + result.runtime


@pytest.mark.parametrize("kind", ["bytes", "bits"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_flush_with_carry_set_before(machine: MachineKind, kind: str, tmp_path: Path) -> None:
    """Under qemu-user a 64-bit system call leaves icc as it was: only xcc tells of an error."""
    memory = StartMemory((), ((code.TRACE_BUFFER, b"tokens.."),), (), STREAMS[kind])
    more = [
        asm.sethi(code.TRACE_END, R.G2),
        asm.store("st", R.G0, R.G2, code.POSITION),
        asm.mov(-1, R.G3),
        asm.arithmetic("addcc", R.G3, R.G3, R.G0),
        asm.call(code.flush_name(kind == "bits")),
        asm.nop(),
        asm.mov(STATUS, R.O0),
        asm.mov(1, R.G1),
    ]
    extended = Extended(machine, memory, tmp_path, 3, more)
    for run in (extended.here, extended.under_qemu):
        plain, result = run(extended.plain, ENVIRONMENT), run(extended.path, ENVIRONMENT)
        assert result.files["counts.trace"] == b"tokens..".ljust(code.TRACE_SIZE, b"\0")
        flushed = code.flush_instructions(machine)
        assert result.instructions == plain.instructions + result.runtime + flushed


@pytest.mark.parametrize("kind", ["", "bits"])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_program_gets_the_descriptors_that_it_would_have_got(
    machine: MachineKind, kind: str, tmp_path: Path
) -> None:
    """Its end status is the descriptor of a file that it opens, in place of 41."""
    width = Width(machine)
    opened = [
        *asm.load_constant(RUNTIME_DATA + 0x1000, R.O0, False),
        *asm.load_constant(0x601, R.O1, False),
        asm.mov(0o666, R.O2),
        *width.call("open"),
        asm.mov(1, R.G1),
    ]
    extended = Extended(machine, StartMemory((), trace=STREAMS.get(kind)), tmp_path, 3, opened)
    assert extended.here(extended.path).status == 3
    assert qemu.run(extended.path, directory=tmp_path).status == 3


@pytest.mark.parametrize("machine", MACHINES)
def test_the_start_leaves_no_traces(machine: MachineKind, tmp_path: Path) -> None:
    """The program finds zeros in fresh windows, and below its stack what was there before."""
    width = Width(machine)
    window = [r for r in Register if R.L0 <= r <= R.L7 or (R.O0 <= r <= R.O7 and r is not R.SP)]
    below = 160 * width.word
    show: list[Item] = [asm.sethi(DATA, R.G4)]
    for depth in range(3):
        show.append(asm.arithmetic("save", R.SP, -width.frame, R.SP))
        show += [width.store(r, R.G4, width.word * (32 * depth + r)) for r in window]
    show += [
        *(asm.restore() for _ in range(3)),
        *width.call("write", 1, DATA, 96 * width.word),
        asm.arithmetic("add", R.SP, width.bias - below, R.O1),
        asm.mov(1, R.O0),
        asm.mov(below, R.O2),
        *width.call("write"),
    ]
    extended = Extended(machine, MEMORY, tmp_path, both=show)
    plain, result = extended.here(extended.plain), extended.here(extended.path)
    assert len(plain.output) == (32 + 96) * width.word + below
    assert result.output == plain.output


@pytest.mark.parametrize(
    "environment",
    [(), (b"SIMPROF_OUT=",), (b"SIMPROF_OUT",), (b"SIMPROF_OUT=a", b"SIMPROF_OUT=b"), (b"",)],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_names(machine: MachineKind, environment: tuple[bytes, ...], tmp_path: Path) -> None:
    extended = Extended(machine, MEMORY, tmp_path)
    plain = extended.here(extended.plain, environment)
    result = extended.here(extended.path, environment)
    assert list(result.files) == ["a" if len(environment) == 2 else "simprof.out"]
    assert result.instructions == plain.instructions + result.runtime


@pytest.mark.parametrize(
    ("name", "machine"), turns([b"none/such", b"x" * 300, b"y/" * LONGEST_NAME], MACHINES)
)
def test_a_place_that_cannot_be_written(machine: MachineKind, name: bytes, tmp_path: Path) -> None:
    extended = Extended(machine, MEMORY, tmp_path)
    environment = (b"SIMPROF_OUT=" + name,)
    for run in (extended.here, extended.under_qemu):
        plain, result = run(extended.plain, environment), run(extended.path, environment)
        assert (result.status, result.output, result.files) == (STATUS, plain.output, {})
        shown = name[:LONGEST_NAME]
        assert result.errors == b"simprof: cannot write " + shown + b": no profile\n"


@pytest.mark.parametrize("machine", MACHINES)
def test_a_part_that_cannot_get_its_name_is_removed(machine: MachineKind, tmp_path: Path) -> None:
    extended = Extended(machine, MEMORY, tmp_path)
    (tmp_path / "here").mkdir()
    for run in (extended.here, extended.under_qemu):
        environment = (b"SIMPROF_OUT=..",)
        result = run(extended.path, environment)
        assert (result.status, result.files) == (STATUS, {})
        assert result.errors == b"simprof: cannot write ..: no profile\n"


@pytest.mark.parametrize("machine", MACHINES)
def test_a_trace_that_cannot_be_written(machine: MachineKind, tmp_path: Path) -> None:
    memory = StartMemory((), trace=STREAMS["bytes"])
    extended = Extended(machine, memory, tmp_path)
    result = extended.here(extended.path, (b"SIMPROF_OUT=none/such",))
    assert result.status == STATUS
    assert result.errors.splitlines() == [
        b"simprof: cannot write the trace beside the profile: no trace",
        b"simprof: cannot write none/such: no profile",
    ]


@pytest.mark.parametrize("machine", MACHINES)
def test_memory_that_is_not_free_stops_the_program(machine: MachineKind, tmp_path: Path) -> None:
    memory = StartMemory(((0x204000, 8),))
    extended = Extended(machine, memory, tmp_path)
    for run in (extended.here, extended.under_qemu):
        result = run(extended.path)
        assert (result.status, result.output, result.files) == (125, b"", {})
        assert result.errors.startswith(b"simprof: the memory of the counters is not free")


@pytest.mark.parametrize("machine", MACHINES)
def test_no_signal_comes_while_the_file_is_written(machine: MachineKind, tmp_path: Path) -> None:
    """All are blocked before the file is opened, and stay so."""
    extended = Extended(machine, MEMORY, tmp_path)
    command = [qemu.resolve(extended.path), "-strace", str(extended.path)]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env={}, check=False)
    assert done.returncode == STATUS
    calls = re.findall(rb"^\d+ (\w+)\(([^)]*)", done.stderr, re.MULTILINE)
    names = [name for name, _ in calls]
    block = names.index(b"rt_sigprocmask")
    assert names[block + 1 : block + 3] == [b"stat64", b"open"] and names[-1] == b"exit"
    assert names.count(b"rt_sigprocmask") == 1
    assert calls[block][1].startswith(b"SIG_SETMASK,")
