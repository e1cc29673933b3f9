"""Inputs one after the other, in a process of its own: it may hang, or die in native code.

The process notes each input in memory that it shares with the one that watches it, before the
target reads it. Its standard input and output are the null device.
"""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from random import Random

from tools.fuzzing.mutation import Mutator
from tools.fuzzing.trial import Fate, Limits, Reader, Verdict, judge

ROOM = 8 << 20
"""Bytes of the longest input."""
_HEAD = struct.Struct("=QQQ")  # inputs begun, inputs refused, bytes of the one that is read now
_TURN, _RESTS = (
    _HEAD.size,
    _HEAD.size + 1,
)  # bytes: what the watcher wants; whether the worker rests
_INPUT = _HEAD.size + 8
_NAP = 0.02
"""Seconds between two looks of a worker at whether it is its turn."""
_COLLECT = 200
"""Inputs between two collections of garbage."""
_POPULATION = 4000
"""Inputs that are kept to be changed again."""
_FROM_REFUSED = 0.15
"""Share of inputs that are made of refused ones."""
_INVENTED = 1 / 20_000
"""Share of inputs that are invented: these are large."""
DONE, FULL = 0, 3
"""Exit statuses of a worker: all is done; it has taken too much memory to go on."""


@dataclass(frozen=True)
class Target:
    """Something that reads files.

    Attributes
    ----------
    name
        As in the names of corpora.
    summary
        What is read, and how far.
    read
        Reads one input.
    mutate
        Makes new inputs of old ones.
    prepare
        Does before the first input, once, what takes long.
    invent
        Makes inputs of nothing, now and then; None: nothing does.
    accept
        Reads a good file, which it must not refuse; None: `read` does.
    example
        A good file, to be read before any that counts: it has compiled what the others need.
    """

    name: str
    summary: str
    read: Reader
    mutate: Mutator
    prepare: Callable[[], object] = lambda: None
    invent: Callable[[Random], bytes] | None = None
    accept: Reader | None = None
    example: Callable[[], bytes] | None = None


@dataclass(frozen=True)
class Find:
    """An input that is neither read nor refused."""

    data: bytes
    kind: Hashable
    story: str


class Turn(IntEnum):
    """What a worker is to do."""

    REST = 0
    READ = 1
    END = 2


class Notes:
    """What a worker and the process that watches it tell each other, in shared memory."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _INPUT + ROOM)

    @property
    def turn(self) -> Turn:
        """What the worker is to do, which begins with a rest."""
        return Turn(self._memory[_TURN])

    @turn.setter
    def turn(self, turn: Turn) -> None:
        self._memory[_TURN] = turn

    @property
    def rests(self) -> bool:
        """Whether the worker rests, as it does between its turns; then it is ready to read."""
        return self._memory[_RESTS] != 0

    def goes_on(self, parent: int) -> bool:
        """Rest, in the worker, until it is its turn; return False where it is to end.

        It ends where nobody watches it any more: `parent` has ended.
        """
        while self.turn is Turn.REST and os.getppid() == parent:
            self._memory[_RESTS] = 1
            time.sleep(_NAP)
        self._memory[_RESTS] = 0
        return self.turn is Turn.READ and os.getppid() == parent

    def begin(self, count: int, refused: int, data: bytes) -> None:
        """Note that an input is read now."""
        self._memory[_INPUT : _INPUT + len(data)] = data
        self._memory[: _HEAD.size] = _HEAD.pack(count, refused, len(data))

    @property
    def count(self) -> int:
        """Inputs begun."""
        return int(_HEAD.unpack_from(self._memory)[0])

    @property
    def refused(self) -> int:
        """Inputs refused."""
        return int(_HEAD.unpack_from(self._memory)[1])

    @property
    def data(self) -> bytes:
        """The input that is read now, or was last."""
        size = int(_HEAD.unpack_from(self._memory)[2])
        return self._memory[_INPUT : _INPUT + size]


@dataclass
class _Population:
    """Inputs to be changed: the corpus, and what took ways that none before it took."""

    read: list[bytes]
    refused: list[bytes] = field(default_factory=list)
    kinds: set[Hashable] = field(default_factory=set)

    def learn(self, data: bytes, verdict: Verdict) -> None:
        """Keep an input that took a new way."""
        key = verdict.fate, verdict.kind
        if key in self.kinds or len(self.kinds) >= _POPULATION:
            return
        self.kinds.add(key)
        if verdict.fate is not Fate.FIND and len(data) <= 1 << 16:
            (self.read if verdict.fate is Fate.READ else self.refused).append(data)

    def choose(self, rng: Random) -> bytes:
        """Return one: mostly of those that were read, which lead farther."""
        some = self.refused if self.refused and rng.random() < _FROM_REFUSED else self.read
        return rng.choice(some)


def work(target: Target, inputs: Sequence[bytes], seed: int, notes: Notes, finds: int) -> int:
    """Read inputs that are made at random, in turns, until told to end; return the exit status.

    Parameters
    ----------
    target, inputs
        What reads them, and what they are made of.
    seed
        Of the random numbers.
    notes
        Where each input is noted, and whose turn it is.
    finds
        A file descriptor that finds are written to, one of each kind, as pickled `Find`s.
    """
    rng, parent = Random(seed), os.getppid()
    population = _Population(list(inputs))
    known: set[Hashable] = set()
    count = refused = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory_disk()) as directory:
        where = Path(directory)
        _warm_up(target, where)
        with Limits() as limits, os.fdopen(finds, "wb", buffering=0) as pipe:
            while notes.goes_on(parent):
                data = _next(target, rng, population)
                count += 1
                notes.begin(count, refused, data)
                verdict = judge(target.read, data, where, limits)
                refused += verdict.fate is Fate.REFUSED
                population.learn(data, verdict)
                if verdict.fate is Fate.FIND and verdict.kind not in known:
                    known.add(verdict.kind)
                    pipe.write(pickle.dumps(Find(data, verdict.kind, verdict.story)))
                if limits.is_exceeded:
                    return FULL
                if count % _COLLECT == 0:
                    gc.collect()
    return DONE


def _warm_up(target: Target, where: Path) -> None:
    """Have all imported and compiled that a good input needs: no later one is to blame for it."""
    target.prepare()
    if target.example is not None:
        judge(target.read, target.example(), where, Limits())


def compile_once(targets: Iterable[Target]) -> int:
    """Have machine code kept of all that targets need; return the exit status.

    Compiling takes longer than the share that a target has of a minute. The workers, and the
    commands that they start, take what is kept.
    """
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory_disk()) as directory:
        for target in targets:
            _warm_up(target, Path(directory))
    return DONE


def _next(target: Target, rng: Random, population: _Population) -> bytes:
    if target.invent is not None and rng.random() < _INVENTED:
        return target.invent(rng)[:ROOM]
    return target.mutate(rng, population.choose(rng), population.choose(rng))[:ROOM]


def read_alone(
    target: Target, inputs: Sequence[bytes], notes: Notes, finds: int, good: bool = False
) -> int:
    """Read given inputs, and write all finds; return the exit status.

    With `good`, an input that is refused is a find, too.
    """
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory_disk()) as directory:
        _warm_up(target, Path(directory))
        with Limits() as limits, os.fdopen(finds, "wb", buffering=0) as pipe:
            for count, data in enumerate(inputs, 1):
                notes.begin(count, 0, data)
                read = (target.accept if good else None) or target.read
                verdict = judge(read, data, Path(directory), limits)
                if verdict.fate is Fate.FIND or (good and verdict.fate is Fate.REFUSED):
                    story = verdict.story or "a good file was refused"
                    pipe.write(pickle.dumps(Find(data, verdict.kind, story)))
                if limits.is_exceeded:
                    return FULL
    return DONE


def _memory_disk() -> str | None:
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and os.access(shared, os.W_OK) else None


@dataclass
class Process:
    """A worker, as the process that watches it sees it.

    Attributes
    ----------
    pid
        Its number.
    finds
        Its finds, as they come.
    """

    pid: int
    finds: Received


def start(work_in_child: Callable[[int], int]) -> Process:
    """Start a process that does `work_in_child`, which gets where finds are written to."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        os.set_blocking(reading, False)
        return Process(pid, Received(reading))
    status = 1
    try:
        os.close(reading)
        gc.freeze()  # what the parent has is not looked through for garbage, nor copied by that
        with _silence():
            status = work_in_child(writing)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


@contextmanager
def _silence() -> Iterator[None]:
    """Let everything that commands write, and read, be nothing; messages of ours still appear."""
    null = os.open(os.devnull, os.O_RDWR)
    kept = os.dup(2)
    for number in (0, 1, 2):
        os.dup2(null, number)
    try:
        yield
    finally:
        os.dup2(kept, 2)


class Received:
    """Finds, as they come out of a pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._bytes = bytearray()

    def take(self) -> list[Find]:
        """Return the finds that have come since."""
        while True:
            try:
                more = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                break
            if not more:
                break
            self._bytes += more
        return list(self._whole())

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._descriptor)

    def _whole(self) -> Iterator[Find]:
        import io

        while self._bytes:
            stream = io.BytesIO(self._bytes)
            try:
                find = pickle.load(stream)
            except (EOFError, pickle.UnpicklingError):
                return
            del self._bytes[: stream.tell()]
            yield find
