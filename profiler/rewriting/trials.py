"""Runs of a program and of its instrumented likes, all with the same surroundings.

Every run gets the same directory, with the same files in it at its start: copies of those below
`--root`. What a run leaves there, its output and how it ends is what must be equal. The program's
file has the same path, too, because a program may look at it. Under qemu-user it sees the host's
paths; so it does on the emulator here, other than in `simprof run`.

Where the emulator's instructions or output differ from the prediction, the program runs once more,
and how often each copied block was executed is compared with how often the original's was
(the functions on divergence at the end).
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from simprof.profiler.profiles.fingerprint import file_sha256
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    path_below,
)
from simprof.profiler.rewriting import qemu
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.elsewhere.counter_file import TRACE_SUFFIX, parse
from simprof.profiler.rewriting.elsewhere.runtime import DEFAULT_NAME
from simprof.profiler.rewriting.instrument import Instrumented, content_of, load_rewritable
from simprof.profiler.rewriting.verification import EMULATOR, ObservedRun
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.session import observe
from simprof.profiler.session.world import open_world
from simprof.simulator.binary import elf
from simprof.simulator.binary.program import Range
from simprof.simulator.errors import SimulatorError
from simprof.simulator.isa.sparc import WINDOW_SAVE_WORDS
from simprof.simulator.linux.process import AUXILIARY_KEYS
from simprof.simulator.machine.machine import Machine

# At the start of the stack, at most: a window, argc, two zeros, the auxiliary vector
_OTHER_WORDS = WINDOW_SAVE_WORDS + 3 + 2 * (len(AUXILIARY_KEYS) + 1)
# A run may take ten times the emulator's instructions, at a speed that qemu has on a busy machine.
_START_SECONDS, _MORE, _QEMU_SPEED = 60, 10, 20_000_000
NO_SPANS: Mapping[Cause, Range] = MappingProxyType({})
_OWN_FILES = (DEFAULT_NAME, DEFAULT_NAME + TRACE_SUFFIX)


class TrialDirectory:
    """A directory for runs, one after the other; UsageError if the program cannot be read."""

    def __init__(self, request: RunRequest, directory: Path) -> None:
        # request: The original program and what it sees.
        # directory: Where the runs take place; it is made here. Beside it are places of other runs.
        self._request, self._root = request, directory / "root"
        self._places = directory.resolve(), directory.parent.resolve()
        self._instructions = 0  # The most that a run on the emulator has executed
        self._output, self._errors = directory / "out", directory / "err"
        # The program's file
        self.file = directory / "program" / request.program.name
        self.file.parent.mkdir(parents=True)
        # What the original has in it
        self.original = content_of(request.program)
        self.file.write_bytes(self.original)
        shutil.copymode(request.program, self.file)
        guest = request.guest
        below = path_below(guest.working or guest.root, guest.root)
        self._working = self._root / os.fsdecode((below or b"").lstrip(b"/"))
        self._argv0 = guest.argv0_of(request.program)
        # its length decides where strings lie on the stack
        self._file_name = qemu.path_like(self.file, guest.exe_of(request.program))
        guest = replace(
            guest,
            root=self._root,
            writable=self._root,
            working=self._working,
            stdin=None if guest.stdin is None else guest.stdin.resolve(),
            argv0=self._argv0,
            file_name=self._file_name,
        )
        self._guest = guest.with_host_paths(self.file)

    @property
    def arguments(self) -> tuple[bytes, ...]:
        """The program's arguments, without its own name."""
        return self._request.arguments

    @property
    def environment(self) -> list[bytes]:
        """`NAME=value` strings that the program sees."""
        return self._guest.environment_strings

    # -- what happens here

    @contextmanager
    def fresh(self) -> Iterator[GuestOptions]:
        """Lay out the directory anew; yield what a run sees and where it writes."""
        if self._root.exists():
            shutil.rmtree(self._root)
        if self._request.guest.root.is_dir():
            root = self._request.guest.root.resolve()
            shutil.copytree(root, self._root, symlinks=True, ignore=self._not_given)
        else:
            self._root.mkdir()
        for name in _OWN_FILES:
            (self._working / name).unlink(missing_ok=True)
        with self._output.open("wb") as out, self._errors.open("wb") as err:
            yield replace(
                self._guest,
                stdout=out.fileno(),
                stderr=err.fileno(),
            )

    def _not_given(self, place: str, names: list[str]) -> list[str]:
        """Return what the copy leaves out: temporary files may lie below `--root`, these too."""
        return [name for name in names if Path(place, name) in self._places]

    def put(self, program: bytes) -> None:
        """Put another program in the place of the one that is there."""
        self.file.write_bytes(program)
        self.file.chmod(0o755)

    def run(self, way: str, lower: int = 0, spans: Mapping[Cause, Range] = NO_SPANS) -> ObservedRun:
        """Run the program that is there; on the emulator, its stack may begin lower by bytes.

        Instructions are counted in `spans`, too.
        """
        program = elf.load(self.file)
        with self.fresh() as guest:
            if way == EMULATOR:
                with open_world(program, self._request.arguments, guest) as world:
                    machine = world.machine()
                    assert isinstance(machine, Machine)
                    if lower:
                        strings = 1 + len(self.arguments) + len(self.environment)
                        machine.lower_stack(lower, strings + _OTHER_WORDS)
                    within = {cause: machine.count_in(span) for cause, span in spans.items()}
                    result = machine.run()
                self._instructions = max(self._instructions, result.instructions)
                counts = {cause: count.instructions for cause, count in within.items()}
                return self._left(result.status, result.instructions, counts)
            done = qemu.run(
                self.file,
                program.machine,
                arguments=self._request.arguments,
                argv0=self._argv0,
                file_name=self._file_name,
                environment=self.environment,
                stdin=guest.stdin,
                directory=self._working,
                stdout=guest.stdout,
                stderr=guest.stderr,
                count=True,
                spans=tuple(spans.values()),
                timeout=self._limit if guest.timeout is None else guest.timeout,
            )
            counts = dict(zip(spans, done.within, strict=False))
            return self._left(done.status, done.instructions, counts)

    @property
    def _limit(self) -> float:
        """Seconds after which a program does not end under qemu: it waits, or has lost its way."""
        return _START_SECONDS + _MORE * self._instructions / _QEMU_SPEED

    # -- what is left of it

    def _left(
        self, status: int, instructions: int | None, within: Mapping[Cause, int]
    ) -> ObservedRun:
        """Gather what a run has left."""
        counters, trace = (self._working / name for name in _OWN_FILES)
        files = {
            str(path.relative_to(self._root)): file_sha256(path)
            for path in sorted(self._root.rglob("*"))
            if path.is_file() and not path.is_symlink() and path not in (counters, trace)
        }
        return ObservedRun(
            status,
            file_sha256(self._output),
            file_sha256(self._errors),
            files,
            instructions,
            parse(counters.read_bytes(), counters.name) if counters.exists() else None,
            trace.read_bytes() if trace.exists() else None,
            within,
        )


def copy_opened(request: RunRequest, directory: Path) -> None:
    """Copy the files below the request's root that the program opens, where it may write nothing.

    All that is below may be far more than a copy for each run is worth.
    """
    program, guest = load_rewritable(request.program), request.guest
    root = guest.root.resolve()
    with Path(os.devnull).open("wb") as nowhere:
        guest = replace(guest, stdout=nowhere.fileno(), stderr=nowhere.fileno())
        with open_world(program, request.arguments, guest) as world:
            world.machine().run()
            opened = sorted(world.opened)
    for path in opened:
        if path.is_relative_to(root) and path.is_file():
            copy = directory / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)


_SHOWN = 5
_EDGES = "edges"


def divergence(place: TrialDirectory, made: Instrumented, observation: Observation) -> list[str]:
    """Return a line for each routine with blocks that were executed more often, or less."""
    # place: Where the instrumented program lies.
    # observation: The run of the original.
    try:
        executed = _executed(place)
    except SimulatorError as error:
        return [f"where it went another way is not known: {error}"]
    lines = list(_lines(made, observation, executed))
    if not lines:
        return ["each block was executed as often as predicted: what differs is code around them"]
    more = len(lines) - _SHOWN
    return lines[:_SHOWN] + ([f"and {more} more routines"] if more > 0 else [])


def _executed(place: TrialDirectory) -> Counter[int]:
    """Run the program; return how often each of its instructions was executed, by address."""
    with place.fresh() as guest:
        request = RunRequest(place.file, guest, place.arguments)
        run = observe(request, [Setting(_EDGES, _EDGES, SchemeOptions())])
    executed: Counter[int] = Counter()
    for number, events in run.events.items():
        blocks = run.recovered.routines[number].blocks
        for block, count in zip(blocks, events.block_counts, strict=True):
            for address in range(block.start, block.end if count else block.start, 4):
                executed[address] += count
    return executed


def _lines(made: Instrumented, observation: Observation, executed: Counter[int]) -> Iterator[str]:
    labels = made.rewritten.labels
    for number, events in observation.events.items():
        if number not in made.copies.routines:
            continue
        cfg = observation.recovered.routines[number]
        differing = (
            f"{cfg.name}: its block at {block.start:#x} was executed {found} times, not {count}"
            for block, count in zip(cfg.blocks, events.block_counts, strict=True)
            if not block.is_slot
            and (label := labels.get(f"r{number}.block.{block.id}")) is not None
            and (found := executed[label]) != count
        )
        yield from islice(differing, 1)
