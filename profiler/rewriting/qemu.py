"""Running a program under qemu-user, and counting the instructions that it executes.

A plugin (`qemu_counting.c`) counts in qemu's translated code. It is compiled with the machine's own
C compiler when it is first needed, and kept in simprof's cache. It needs a qemu that takes plugins
of version 1 (4.2 to 8.2); `uncounted` says what is missing. qemu's log of single steps, the other
way to count, takes a hundred times as long.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from enum import IntEnum
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from simprof.profiler.profiles.scratch import die_with
from simprof.simulator.binary.program import MachineKind, Range
from simprof.simulator.errors import EngineError, UnsupportedError, UsageError
from simprof.simulator.isa.sparc import SIGNALS

COMPILERS = ("cc", "gcc", "clang")
COMPILER_FLAGS = ("-O2", "-shared", "-fPIC")
MAGIC = 0x73696D70726F6631
STATE = struct.Struct("=14Q")
BLOCK = struct.Struct("=3Q")
# Bytes of the file in which the plugin counts. It is sparse: what is not used takes no room.
FILE_SIZE = 1 << 30


class StepKind(IntEnum):
    """What an instruction can do besides completing (`enum kind` of the plugin)."""

    PLAIN = 0
    BRANCH = 1
    JUMP = 2
    TRAP = 3
    MEMORY = 4
    WINDOW = 5
    OTHER = 6


# Kinds that complete if they are the last of a block.
COMPLETE = frozenset({StepKind.PLAIN, StepKind.BRANCH, StepKind.TRAP, StepKind.WINDOW})


def plugin_for(emulator: Path) -> Path | None:
    """Return the plugin if `emulator` can load it, None where it cannot or no compiler is at hand;
    UsageError if the plugin cannot be written to the cache.
    """
    plugin = compiled()
    return plugin if plugin is not None and _loads(emulator, plugin) else None


def plugin_options(plugin: Path, counts: Path, spans: Sequence[Range] = ()) -> list[str]:
    """Return the options with which qemu counts into the file `counts`, and in spans, four at most,
    of addresses.
    """
    values = (str(path).replace(",", ",,") for path in (plugin, counts))
    within = (f",{span.start:#x}={span.end:#x}" for span in spans)
    return ["-plugin", "".join((",counts=".join(values), *within))]


def create_counts(counts: Path) -> None:
    """Create the file that the plugin counts in."""
    with counts.open("wb") as stream:
        stream.truncate(FILE_SIZE)


def read_counts(counts: Path, killed: bool) -> tuple[int, ...] | None:
    """Return the instructions that were executed, and how many in each span; None where there were
    too many to tell apart.
    """
    # killed: Whether a signal ended the program: its last instruction may then be what faulted.
    with counts.open("rb") as stream:
        numbers = STATE.unpack(stream.read(STATE.size))
        _, total, repeats, faults, accesses, block, total_before, accesses_before, _, full = (
            numbers[:10]
        )
        if full:
            return None
        done = total - total_before
        stream.seek(block)
        _, length, _ = BLOCK.unpack(stream.read(BLOCK.size))
        kinds = stream.read(length)
    executed = total - repeats - faults
    if killed and 0 < done <= length:
        kind = StepKind(kinds[done - 1])
        completed = kind in COMPLETE or (kind is StepKind.MEMORY and accesses != accesses_before)
        if kind is not StepKind.TRAP and not (done == length and completed):
            executed -= 1
    return executed, *numbers[10:]


@functools.cache
def compiled() -> Path | None:
    """Return the plugin, compiled now if it is not in the cache; None without a compiler."""
    source = resources.files("simprof.profiler.rewriting").joinpath("qemu_counting.c").read_bytes()
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    name = f"qemu_counting-{os.uname().machine}-{hashlib.sha256(source).hexdigest()[:16]}.so"
    home = os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.home() raises without a home
    directory = Path(os.environ.get("XDG_CACHE_HOME") or home) / "simprof"
    plugin = directory / name
    if plugin.exists():
        return plugin
    if compiler is None:
        return None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as temporary:
            made = Path(temporary, name)
            command = [compiler, *COMPILER_FLAGS, "-o", str(made), "-x", "c", "-"]
            done = subprocess.run(command, input=source, capture_output=True, check=False)
            if done.returncode != 0:
                return None
            made.replace(plugin)
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be written ({error.strerror}): set XDG_CACHE_HOME"
        ) from None
    return plugin


@functools.cache
def _loads(emulator: Path, plugin: Path) -> bool:
    """Whether `emulator` loads `plugin`: it does so before it finds that a file is no program."""
    with tempfile.TemporaryDirectory() as temporary:
        counts = Path(temporary, "counts")
        create_counts(counts)
        command = [str(emulator), *plugin_options(plugin, counts), os.devnull]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        with counts.open("rb") as stream:
            magic = int.from_bytes(stream.read(8), "little")
    return magic == MAGIC


# qemu-user's program for each machine.
EMULATORS: Mapping[MachineKind, str] = MappingProxyType(
    {
        MachineKind.SPARCV9: "qemu-sparc64",
        MachineKind.SPARCV8PLUS: "qemu-sparc32plus",
        MachineKind.SPARCV8: "qemu-sparc",
    }
)

# Options that make runs alike: the random bytes that qemu gives to the program.
FIXED = ("-seed", "1")

# Bytes: no code looks at more of an address to choose how to go through a string.
STRING_ALIGNMENT = 64


class QemuRun(Struct, frozen=True):
    """What a program did under qemu-user."""

    # As a shell would see it on SPARC: 128 + `signal` where a signal killed the program.
    status: int
    signal: int | None  # SPARC's number of the signal that killed the program, or None
    # Executed instructions, or None where they were not counted (not asked for, or `uncounted`)
    instructions: int | None
    within: tuple[int, ...] = ()  # How many of them in each span that was asked for


def missing(machine: MachineKind) -> str | None:
    """Return why programs for `machine` cannot be run here, None if they can."""
    name = EMULATORS[machine]
    if shutil.which(name) is None:
        return f"{name} is not installed (Debian, Ubuntu: `apt-get install qemu-user`)"
    return None


def uncounted(machine: MachineKind) -> str | None:
    """Return why programs for `machine` can be run here but not counted, None if they can."""
    name = EMULATORS[machine]
    if plugin_for(_emulator(machine)) is None:
        return f"{name} cannot count: that needs a C compiler (cc) and qemu-user 4.2 to 8.2"
    return None


def run(
    file: Path,
    machine: MachineKind,
    *,
    arguments: Sequence[bytes] = (),  # behind `argv0`
    argv0: bytes | None = None,  # What the program sees as its own name; None: `file`.
    # A path of the file, which the auxiliary vector has as its name; None: one like `argv0`
    # (`path_like`).
    file_name: bytes | None = None,
    environment: Sequence[bytes] = (),  # All that the program sees, each `NAME=VALUE`, in order
    stdin: Path | None = None,  # File of the standard input; None: it is empty.
    directory: Path,  # Where the program runs
    # stdout, stderr: Descriptors that what the program writes goes to, at its end
    stdout: int,
    stderr: int,
    count: bool = False,  # Whether to count instructions
    spans: Sequence[Range] = (),  # Addresses to count in, too
    timeout: float | None = None,  # Seconds after which the program is killed
) -> QemuRun:
    """Run the program `file` under qemu-user.

    Raises EngineError: qemu-user is not installed.
    Raises UnsupportedError: the program did not end within `timeout`.
    """
    emulator = _emulator(machine)
    plugin = plugin_for(emulator) if count else None
    name = os.fsencode(file) if argv0 is None else argv0
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simprof-qemu-")))
        counts, options = scratch / "counts", list[str]()
        if plugin is not None:
            create_counts(counts)
            options = plugin_options(plugin, counts, spans)
        source = stack.enter_context(Path(stdin or os.devnull).open("rb"))
        command: list[str | bytes | os.PathLike[str]] = [
            emulator,
            *FIXED,
            *options,
            "-0",
            name,
            path_like(file, name) if file_name is None else file_name,
            *arguments,
        ]
        # qemu hands settings on in reverse order
        pairs = (setting.partition(b"=") for setting in reversed(environment))
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env={name: value for name, _, value in pairs},
            preexec_fn=functools.partial(_begin, os.getpid()),
        )
        written = _wait(process, file, timeout)
        code = process.returncode
        for descriptor, data in zip((stdout, stderr), written, strict=True):
            while data:
                data = data[os.write(descriptor, data) :]
        killed_by = None
        if code < 0:  # qemu dies by the host's signal, whose number may be another on SPARC
            numbers = {name: number for number, name in SIGNALS.items()}
            killed_by = numbers.get(signal.Signals(-code).name, -code)
        counted = None if plugin is None else read_counts(counts, killed_by is not None)
    status = code if killed_by is None else 128 + killed_by
    if counted is None:
        return QemuRun(status, killed_by, None)
    return QemuRun(status, killed_by, counted[0], counted[1 : 1 + len(spans)])


def _emulator(machine: MachineKind) -> Path:
    """Return qemu-user's program for `machine`."""
    found = shutil.which(EMULATORS[machine])
    if found is None:
        raise EngineError(missing(machine) or EMULATORS[machine])
    return Path(found).absolute()


def path_like(file: Path, name: bytes) -> bytes:
    """Return a path of `file` as long as `name`, or longer by a multiple of `STRING_ALIGNMENT`.

    qemu puts the path at the top of the stack (AT_EXECFN), below it the other strings: their
    alignment, on which functions like strrchr depend, is that in simprof, which puts `name` there.
    """
    path = os.fsencode(file.resolve())
    more = len(name) - len(path)
    return b"/" * (more if more >= 0 else more % STRING_ALIGNMENT) + path


def _begin(parent: int) -> None:
    """Have the program end with simprof, and find all signals at their defaults, as on the
    emulator.

    One that simprof itself was started with ignored (SIGINT, behind a shell's `&`) would be ignored
    there, too, and programs ask.
    """
    die_with(parent)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError):  # those that the C library keeps for itself
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _wait(
    process: subprocess.Popen[bytes], file: Path, timeout: float | None
) -> tuple[bytes, bytes]:
    """Return what the process writes; nothing is left running.

    It writes into pipes, as on the emulator whatever these streams are: a Fortran program writes to
    a regular file in other pieces.
    """
    try:
        return process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise UnsupportedError(
            f"{file.name}: not at its end after {timeout:g} s under qemu-user: "
            "--timeout sets how long it may take"
        ) from None
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
