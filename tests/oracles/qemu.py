"""An independent emulator as oracle: qemu-user's single-step log as arrays.

`trace(path)` runs a program under `qemu -singlestep -d exec,nochain` and returns every program
counter in order. Four things about the log had to be found out:

- A line is `Trace 0: HOST [NPC/PC/FLAGS/CFLAGS] SYMBOL`; NPC and PC have 8 digits (qemu-sparc) or
  16 (qemu-sparc32plus, qemu-sparc64). It is written before the instruction executes.
- An instruction that a window trap makes qemu retry is logged again, with the same NPC and PC.
  No instruction can follow itself otherwise, so repeats are dropped.
- `Stopped execution of TB chain before HOST [PC] SYMBOL` takes the last `Trace` line back.
- An instruction that faults is logged though it does not complete (`Trace.executed`).
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

CHUNK = 1 << 22
STACK_POINTER = re.compile(
    rb"^(?P<label>%o[04]-7: )(?:(?<=4-7: )|(?:\w+ ){4})\w+ \w+ (?P<sp>\w+)", re.M
)
PIPE = 1 << 20  # bytes: what any user may ask for
EMULATORS = {2: "qemu-sparc", 18: "qemu-sparc32plus", 43: "qemu-sparc64"}
# SPARC's numbers where they are not the host's (x86, ARM); qemu dies by the host's.
SPARC_SIGNALS = {"SIGBUS": 10, "SIGUSR1": 30, "SIGUSR2": 31, "SIGSYS": 12, "SIGCHLD": 20}


class OracleError(AssertionError):
    """The oracle could not do its work; the message says why."""


@dataclass(frozen=True)
class Run:
    """What a program did to the outside. `status` is 128 + SPARC signal number if it was killed."""

    output: bytes
    errors: bytes
    status: int

    @property
    def killed(self) -> bool:
        """Whether a signal ended the program (as a shell would read the status)."""
        return self.status > 128


@dataclass(frozen=True)
class Trace:
    """The instructions of a run in order.

    Attributes
    ----------
    pc, npc
        int64 per logged instruction, window-trap repeats dropped.
    executed
        False where an instruction faulted instead of executing.
    breaks
        bool: control did not get here from the instruction before by that instruction's own
        doing: a signal was delivered, a handler returned, a context was set.
    sp
        %sp before each instruction (uint64), or None when not asked for.
    """

    run: Run
    pc: NDArray[np.int64]
    npc: NDArray[np.int64]
    executed: NDArray[np.bool_]
    breaks: NDArray[np.bool_]
    sp: NDArray[np.uint64] | None
    repeats: int = field(compare=False)

    @property
    def instructions(self) -> int:
        """Instructions executed."""
        return int(self.executed.sum())

    def counts(self) -> dict[int, int]:
        """Executions by instruction address."""
        addresses, counts = np.unique(self.pc[self.executed], return_counts=True)
        return dict(zip(addresses.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True)
class Image:
    """The executable words of an ELF file, as this module needs them."""

    starts: tuple[int, ...]
    words: tuple[NDArray[np.uint32], ...]
    stubs: tuple[range, ...] = ()  # code that the interpreter writes: it only branches

    @classmethod
    def read(cls, path: Path, bias: int = 0) -> Image:
        """Read the executable segments of `path`."""
        starts, words = [], []
        with path.open("rb") as stream:
            for segment in ELFFile(stream).iter_segments("PT_LOAD"):
                if segment["p_flags"] & 1:
                    data = segment.data()
                    starts.append(segment["p_vaddr"] + bias)
                    words.append(np.frombuffer(data, ">u4", len(data) // 4).astype(np.uint32))
        return cls(tuple(starts), tuple(words))

    def fetch(self, addresses: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return the words at `addresses`; 0 (an illegal instruction) outside the segments."""
        found = np.zeros(len(addresses), np.uint32)
        for start, words in zip(self.starts, self.words, strict=True):
            index = (addresses - start) >> 2
            inside = (index >= 0) & (index < len(words))
            found[inside] = words[index[inside]]
        return found

    def may_change(self, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the words at `addresses` are not those of the file."""
        found = np.zeros(len(addresses), np.bool_)
        for stubs in self.stubs:
            found |= (addresses >= stubs.start) & (addresses < stubs.stop)
        return found

    def holds(self, address: int) -> bool:
        """Whether `address` lies in an executable segment."""
        return any(
            start <= address < start + 4 * len(words)
            for start, words in zip(self.starts, self.words, strict=True)
        )


def emulator_for(path: Path) -> str:
    """Return the qemu-user program for the machine that `path` was built for."""
    with path.open("rb") as stream:
        name = EMULATORS[int.from_bytes(stream.read(20)[18:20], "big")]
    if shutil.which(name) is None:
        raise OracleError(f"{name} is not installed")
    return name


def run(
    path: Path,
    arguments: Sequence[str] = (),
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    timeout: float = 60,
) -> Run:
    """Run `path` under qemu-user without a log. `environment` is the program's, default empty."""
    command = ["env", "-i", *settings(environment), resolve(path), str(path), *arguments]
    done = subprocess.run(
        command, input=stdin, capture_output=True, cwd=directory, timeout=timeout, check=False
    )
    return Run(done.stdout, done.stderr, sparc_status(done.returncode))


def count(path: Path, directory: Path, stdin: bytes = b"", timeout: float = 120) -> int:
    """Return how many instructions `path` executes, counted one by one by a plugin.

    It has no environment. `directory`: where it runs; the plugin and its log are put beside it.
    """
    plugin, log = (directory.with_name(f"{directory.name}.{end}") for end in ("so", "log"))
    source = Path(__file__).with_name("counting.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", plugin], check=True)
    options = ["-plugin", str(plugin), "-d", "plugin", "-D", str(log)]
    command = ["env", "-i", resolve(path), *options, str(path)]
    subprocess.run(
        command, input=stdin, cwd=directory, timeout=timeout, capture_output=True, check=False
    )
    return int(log.read_text())


def trace(
    path: Path,
    arguments: Sequence[str] = (),
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    stack_pointers: bool = False,
    most: int = 20_000_000,
    timeout: float = 120,
    sysroot: Path | None = None,
    image_from: Callable[[int], Image] | None = None,
) -> Trace:
    """Run `path` under qemu-user, one instruction at a time.

    Parameters
    ----------
    stack_pointers
        Also log %sp (some 50 times slower).
    most
        Instructions after which the program is killed and OracleError raised.
    timeout
        Wall seconds after which the same happens.
    sysroot
        Where a dynamically linked program finds its libraries.
    image_from
        The code's words, given where the first instruction is; by default the program's own.
    """
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE)
    events = "exec,cpu,nochain" if stack_pointers else "exec,nochain"
    log = ["-singlestep", "-d", events, "-D", f"/dev/fd/{writing}"]
    command = ["env", "-i", *settings(environment), resolve(path), *log, *below(sysroot)]
    command += [str(path), *arguments]
    with tempfile.TemporaryFile() as given, Drained() as out, Drained() as err:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=out.writing,
            stderr=err.writing,
            cwd=directory,
            pass_fds=(writing,),
        )
        os.close(writing)
        out.close()
        err.close()
        timer = threading.Timer(timeout, process.kill)
        timer.start()
        try:
            with os.fdopen(reading, "rb", buffering=0) as stream:
                log_arrays = read_log(stream, stack_pointers, most)
            code = process.wait()
        finally:
            expired = not timer.is_alive()
            timer.cancel()
            process.kill()
            process.wait()
        if expired:
            raise OracleError(f"{path.name}: no end within {timeout} s under qemu-user")
        result = Run(out.contents(), err.contents(), sparc_status(code))
    first = int(log_arrays[0][0])
    image = Image.read(path) if image_from is None else image_from(first)
    return assemble(result, image, *log_arrays)


def resolve(path: Path) -> str:
    """Return the absolute name of the emulator for `path` (env -i has no search path)."""
    found = shutil.which(emulator_for(path))
    assert found is not None
    return found


def below(sysroot: Path | None) -> list[str]:
    """Return the options that let a program find its libraries below `sysroot`."""
    return [] if sysroot is None else ["-L", str(sysroot)]


def settings(environment: Mapping[str, str] | None) -> list[str]:
    """Return `environment` as arguments of env(1)."""
    return [f"{key}={value}" for key, value in (environment or {}).items()]


class Drained:
    """A pipe whose reading end is read to the end, whatever comes.

    The emulated program must see pipes, as under simprof: libgfortran buffers files differently.
    """

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        self._data = b""
        self._thread = threading.Thread(target=self._drain)

    def __enter__(self) -> Drained:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._thread.join()

    def _drain(self) -> None:
        with os.fdopen(self._reading, "rb") as stream:
            self._data = stream.read()

    def close(self) -> None:
        """Close this process's writing end."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def contents(self) -> bytes:
        """Return all that was written, once every writing end is closed."""
        self._thread.join()
        return self._data


def sparc_status(code: int) -> int:
    """Return the exit status of a process's return code, signals numbered as on SPARC."""
    if code >= 0:
        return code
    name = signal.Signals(-code).name
    return 128 + SPARC_SIGNALS.get(name, -code)


def whole_records(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the stream in pieces that end before a `Trace` line, and its end."""
    rest = b""
    while piece := stream.read(CHUNK):
        rest += piece
        cut = rest.rfind(b"\nTrace ") + 1
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest + b"\n"


def hexadecimal(
    text: NDArray[np.uint8], starts: NDArray[np.int64], digits: int
) -> NDArray[np.int64]:
    """Return the numbers of `digits` hexadecimal digits at `starts` of `text`."""
    digit = np.lib.stride_tricks.sliding_window_view(text, digits)[starts]
    digit = np.where(digit >= ord("a"), digit - (ord("a") - 10), digit - ord("0"))
    octets = digit[:, 0::2] << 4 | digit[:, 1::2]
    return np.ascontiguousarray(octets).view(f">u{digits // 2}").ravel().astype(np.int64)


class Lines(NamedTuple):
    """The lines of one piece of the log."""

    pc: NDArray[np.int64]
    npc: NDArray[np.int64]  # meaningless where `stopped`
    stopped: NDArray[np.bool_]  # a `Stopped` line, not a `Trace` one
    sp: NDArray[np.int64] | None  # of each `Trace` line, if registers are logged


def parse(piece: bytes, stack_pointers: bool) -> Lines:
    """Read a piece of the log."""
    text = np.frombuffer(piece + b" " * 40, np.uint8)
    opening = np.flatnonzero(text == ord("[")).astype(np.int64)
    digits = 16
    if len(opening) and text[opening[0] + 9] in (ord("/"), ord("]")):
        digits = 8
    after = text[opening + 1 + digits]
    opening = opening[(after == ord("/")) | (after == ord("]"))]
    stopped = text[opening + 1 + digits] == ord("]")
    first = hexadecimal(text, opening + 1, digits)
    second = hexadecimal(text, np.where(stopped, opening + 1, opening + 2 + digits), digits)
    sp = read_sp(piece, text, opening[~stopped]) if stack_pointers else None
    return Lines(second, first, stopped, sp)


def read_sp(piece: bytes, text: NDArray[np.uint8], opening: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return %sp from the registers behind each `Trace` line: they are printed alike each time."""
    ends = np.flatnonzero(text == ord("\n"))
    registers = ends[np.searchsorted(ends, opening)]
    found = STACK_POINTER.search(piece, int(registers[0]))
    assert found is not None
    label, value = (found.start(group) - registers[0] for group in ("label", "sp"))
    printed = np.lib.stride_tricks.sliding_window_view(text, len(found["label"]))
    assert (printed[registers + label] == np.frombuffer(found["label"], np.uint8)).all()
    return hexadecimal(text, registers + value, len(found["sp"]))


def read_log(
    stream: BinaryIO, stack_pointers: bool, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64] | None]:
    """Return pc, npc and %sp of all `Trace` lines that were not taken back."""
    pieces: list[Lines] = []
    total = 0
    for piece in whole_records(stream):
        pieces.append(parse(piece, stack_pointers))
        total += len(pieces[-1].pc)
        if total > most:
            raise OracleError(f"more than {most} instructions: give the program less to do")
    pc, npc, stopped = (
        np.concatenate(parts) for parts in zip(*(each[:3] for each in pieces), strict=True)
    )
    taken_back = np.zeros(len(pc), np.bool_)
    taken_back[:-1] = stopped[1:]
    keep = ~stopped & ~taken_back
    sp = None
    if stack_pointers:
        sp = np.concatenate([each.sp for each in pieces if each.sp is not None])
        sp = sp[~taken_back[~stopped]].astype(np.uint64)
    return pc[keep], npc[keep], sp


def assemble(
    result: Run,
    image: Image,
    pc: NDArray[np.int64],
    npc: NDArray[np.int64],
    sp: NDArray[np.uint64] | None,
) -> Trace:
    """Drop repeats, and mark faults and breaks."""
    repeat = np.zeros(len(pc), np.bool_)
    repeat[1:] = (pc[1:] == pc[:-1]) & (npc[1:] == npc[:-1])
    pc, npc = pc[~repeat], npc[~repeat]
    word = image.fetch(pc)
    is_trap = (word >> 30 == 2) & (word >> 19 & 0x3F == 0x3A)
    op2 = word >> 22 & 7
    changing = image.may_change(pc)
    annulling = (word >> 30 == 0) & (word >> 29 & 1 == 1) & np.isin(op2, (1, 2, 3, 5, 6))
    strange = np.zeros(len(pc), np.bool_)
    strange[1:] = (pc[1:] != npc[:-1]) & ~annulling[:-1] & ~changing[:-1]
    executed = np.ones(len(pc), np.bool_)
    executed[:-1] = ~strange[1:] | is_trap[:-1]
    if result.killed and not is_trap[-1] and image.holds(int(npc[-1])):
        executed[-1] = False
    return Trace(
        run=result,
        pc=pc,
        npc=npc,
        executed=executed,
        breaks=strange,
        sp=None if sp is None else sp[~repeat],
        repeats=int(repeat.sum()),
    )
