"""Predict, instrument, run, compare: `simprof verify`.

Every run, of the original and of each instrumented program, gets the same directory, with the same
files in it at its start: copies of those below `--root`. What a run leaves there, its output and
how it ends is what must be equal. The program's file has the same path, too, because a program may
look at it; it is told this path, relative to the directory, as its name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from profiler.code.sizes import trace_sizes
from profiler.profiles.profile import Measurement
from profiler.profiles.scratch import scratch_directory
from profiler.request.request import RunRequest, Setting
from profiler.rewriting import qemu
from profiler.rewriting.charges import Cause
from profiler.rewriting.counter_file import CounterFile, load
from profiler.rewriting.instrument import Instrumented, instrument
from profiler.rewriting.memory import differences
from profiler.rewriting.orders import UNFINISHED, order_of
from profiler.rewriting.prediction import predicted_dump, predicted_rewriting
from profiler.rewriting.startup import DEFAULT_NAME, TRACE_SUFFIX
from profiler.rewriting.trace_stream import stream_difference, token_stream
from profiler.schemes.registry import definition
from profiler.session.observation import Observation
from profiler.session.results import measure_all
from profiler.session.scheme_runs import SchemeRun
from profiler.session.session import observe, run_program
from profiler.session.world import open_world
from profiler.trace import format as traces
from simulator.binary import elf
from simulator.errors import SimulatorError, UsageError

EMULATOR, QEMU = "emulator", "qemu"
WAYS = (EMULATOR, QEMU)
_OWN_FILES = (DEFAULT_NAME.decode(), (DEFAULT_NAME + TRACE_SUFFIX).decode())


@dataclass(frozen=True)
class Run:
    """What a run did to the outside, and how many instructions it executed.

    Attributes
    ----------
    status
        As a shell has it: the program's own, or 128 + signal.
    output, errors
        Digests of its standard output and standard error.
    files
        Path below the root -> digest, of the files that it left.
    instructions
        None where they were not counted.
    counters, trace
        What the program's own files hold; None where there are none.
    """

    status: int
    output: str
    errors: str
    files: Mapping[str, str]
    instructions: int | None
    counters: CounterFile | None = None
    trace: bytes | None = None

    def difference(self, other: Run) -> str | None:
        """Say in one line how another run behaved differently; None if it did not."""
        if self.status != other.status:
            return f"the status is {other.status}, not {self.status}"
        if self.output != other.output:
            return "its standard output differs"
        if self.errors != other.errors:
            return "its standard error differs"
        changed = {name for name, _ in self.files.items() ^ other.files.items()}
        if changed:
            return f"the file {min(changed)} differs"
        return None


@dataclass(frozen=True)
class Left:
    """A routine that was left alone, why, and how many instructions it executed."""

    routine: str
    reason: str
    instructions: int


@dataclass(frozen=True)
class ModeResult:
    """What was found of one mode.

    Attributes
    ----------
    base, added
        Instructions of the original; of the code of the scheme, as `run` prices it, without that
        of routines that were left alone.
    rewriting
        What rewriting executes besides, by cause.
    executed
        "emulator" and "qemu" -> instructions of the instrumented program; None: not counted.
    output_equal, counters_equal
        Whether every run behaved as the original, and counted what was predicted. None for counters
        that no run wrote.
    left
        Routines that were left alone.
    differences
        What is not as predicted, a line each.
    """

    setting: Setting
    base: int
    added: int
    rewriting: Mapping[Cause, int]
    executed: Mapping[str, int | None]
    output_equal: bool
    counters_equal: bool | None
    left: tuple[Left, ...]
    differences: tuple[str, ...]

    @property
    def predicted(self) -> int:
        """All instructions that the instrumented program should execute."""
        return self.base + self.added + sum(self.rewriting.values())


@dataclass(frozen=True)
class Verification:
    """The results of all modes; `skipped`: what cannot be run or counted here, and why."""

    file: Path
    sha256: str
    machine: str
    arguments: tuple[str, ...]
    modes: tuple[ModeResult, ...]
    skipped: Mapping[str, str]

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        return not any(mode.differences for mode in self.modes)


def verify(
    request: RunRequest, settings: Sequence[Setting], ways: Sequence[str] = WAYS
) -> Verification:
    """Verify a program under several schemes.

    Parameters
    ----------
    request
        The program and what it sees. `guest.root` is copied for every run; `guest.stdout`,
        `guest.stderr` and `guest.writable` are not used.
    settings
        The schemes.
    ways
        Where to run instrumented programs: "emulator", "qemu".

    Raises
    ------
    SimulatorError
        Anything that the user must know: see `simulator.errors`.
    """
    with scratch_directory("simprof-verify-") as scratch:
        return _Verifier(request, scratch, ways).verify(settings)


class _Verifier:
    """One verification."""

    def __init__(self, request: RunRequest, scratch: Path, ways: Sequence[str]) -> None:
        self._scratch = scratch
        self._file = scratch / "program" / request.program.name
        self._file.parent.mkdir()
        try:
            shutil.copy(request.program, self._file)
        except OSError as error:
            raise UsageError(
                f"{request.program} cannot be read ({error.strerror}): name a readable file"
            ) from None
        self._request = replace(request, program=self._file)
        self._name = request.program
        self._root = scratch / "root"
        self._guest = replace(
            request.guest,
            root=self._root,
            writable=self._root,
            # a path of the file from there: its length decides where strings lie on the stack
            argv0=request.guest.argv0 or os.fsencode(Path("..", "program", self._name.name)),
        )
        self._machine = elf.load(request.program).machine
        missing = {QEMU: qemu.missing(self._machine)} if QEMU in ways else {}
        self.skipped = {way: why for way, why in missing.items() if why is not None}
        self._ways = [way for way in ways if way not in self.skipped]
        uncounted = qemu.uncounted(self._machine) if QEMU in self._ways else None
        self.uncounted = {} if uncounted is None else {QEMU: uncounted}
        self._original = self._file.read_bytes()
        self._given = None if request.guest.stdin is None else request.guest.stdin.resolve()

    @property
    def _environment(self) -> list[bytes]:
        return [name + b"=" + value for name, value in self._guest.environment]

    def verify(self, settings: Sequence[Setting]) -> Verification:
        """Run the original once, and the program of each setting."""
        with self._fresh() as (out, err):
            guest = replace(self._guest, stdin=self._given, stdout=out, stderr=err)
            observation = observe(replace(self._request, guest=guest), settings)
            result = observation.result
        self._refuse(observation)
        original = self._result(result.status, result.instructions)
        measured = measure_all(observation)
        modes = tuple(
            self._mode(observation, scheme, measurement, original)
            for scheme, measurement in zip(observation.schemes, measured, strict=True)
        )
        program = observation.program
        return Verification(
            self._name,
            program.sha256,
            str(program.machine),
            observation.invocation.argument_texts,
            modes,
            {**self.skipped, **self.uncounted},
        )

    def _refuse(self, observation: Observation) -> None:
        """Refuse runs that do not say what an instrumented program must do."""
        reason = observation.result.reason
        if reason in UNFINISHED:
            raise UsageError(
                f"{self._name} did not come to its own end ({reason}): verify compares whole runs"
            )

    @contextmanager
    def _fresh(self) -> Iterator[tuple[int, int]]:
        """Lay out the directory anew; yield descriptors for standard output and error."""
        if self._root.exists():
            shutil.rmtree(self._root)
        if self._request.guest.root.is_dir():
            shutil.copytree(self._request.guest.root, self._root, symlinks=True)
        else:
            self._root.mkdir()
        for name in _OWN_FILES:
            (self._root / name).unlink(missing_ok=True)
        with (self._scratch / "out").open("wb") as out, (self._scratch / "err").open("wb") as err:
            yield out.fileno(), err.fileno()

    def _result(self, status: int, instructions: int | None) -> Run:
        """Gather what the run has left."""
        counters, trace = (self._root / name for name in _OWN_FILES)
        files = {
            str(path.relative_to(self._root)): _digest(path)
            for path in sorted(self._root.rglob("*"))
            if path.is_file() and not path.is_symlink() and path not in (counters, trace)
        }
        return Run(
            status,
            _digest(self._scratch / "out"),
            _digest(self._scratch / "err"),
            files,
            instructions,
            load(counters) if counters.exists() else None,
            trace.read_bytes() if trace.exists() else None,
        )

    # -- one mode

    def _mode(
        self, observation: Observation, scheme: SchemeRun, measurement: Measurement, original: Run
    ) -> ModeResult:
        made = instrument(order_of(observation, scheme, foreseen=True), self._original)
        left = _left(observation, made)
        expected = None
        # a trace lacks what routines did that were left alone, and simulated ones are of all
        whole = not any(routine.instructions for routine in left)
        if definition(scheme.setting.mode).writes_trace and whole:
            expected = self._trace(scheme)
        self._file.write_bytes(made.file)
        self._file.chmod(0o755)
        rewriting = predicted_rewriting(
            made,
            observation.events,
            observation.result.signal_actions,
            self._machine,
            self._environment,
            observation.program.entry,
        )
        bits = _trace_bits(observation, scheme, made)
        added = self._added(observation, measurement, made, bits)
        executed: dict[str, int | None] = {}
        found: list[str] = []
        output_equal, counters_equal = True, None
        for way in self._ways:
            run = self._run(way)
            executed[way] = run.instructions
            difference = original.difference(run)
            if difference is not None:
                output_equal = False
                found.append(f"{way}: {difference}")
            if run.counters is None:
                if observation.result.reason == "exit":
                    found.append(f"{way}: it ended by itself, and wrote no counters")
                continue
            counted = differences(observation, scheme, made.placed, run.counters)
            if expected is not None:
                counted += _trace_differences(expected, run, made)
            if whole or not definition(scheme.setting.mode).writes_trace:
                counters_equal = counters_equal in (None, True) and not counted
            found += [f"{way}: {line}" for line in counted]
            frames = run.counters.frames[0]
            rewriting[Cause.DUMP] = predicted_dump(made, self._machine, frames, bits)
        result = ModeResult(
            scheme.setting,
            measurement.base,
            added,
            {cause: count for cause, count in rewriting.items() if count},
            executed,
            output_equal,
            counters_equal,
            left,
            (),
        )
        found += [
            f"{way}: {count} instructions were executed, {count - result.predicted:+d}"
            for way, count in executed.items()
            if count is not None and count != result.predicted
        ]
        return replace(result, differences=tuple(found))

    def _added(
        self, observation: Observation, measurement: Measurement, made: Instrumented, bits: int
    ) -> int:
        """Return what the scheme adds where nothing is counted in routines left alone."""
        names = {observation.recovered.routines[number].address for number in made.copies.left}
        own = sum(r.added for r in measurement.routines if r.address not in names)
        code = definition(measurement.mode).code()
        return own + code.run_cost(self._machine, {"trace_bits": bits})

    def _run(self, way: str) -> Run:
        with self._fresh() as (out, err):
            if way == EMULATOR:
                guest = replace(self._guest, stdin=self._given, stdout=out, stderr=err)
                with open_world(elf.load(self._file), self._request.arguments, guest) as world:
                    result = world.machine().run()
                return self._result(result.status, result.instructions)
            done = qemu.run(
                self._file,
                self._machine,
                arguments=self._request.arguments,
                argv0=self._guest.argv0 or b"",
                environment=self._environment,
                stdin=self._given,
                directory=self._root,
                stdout=out,
                stderr=err,
                count=True,
                timeout=self._guest.timeout,
            )
            return self._result(done.status, done.instructions)

    def _trace(self, scheme: SchemeRun) -> traces.Trace:
        """Return the trace that a simulated run writes."""
        path = self._scratch / "expected.trace"
        self._file.write_bytes(self._original)
        with self._fresh() as (out, err):
            guest = replace(self._guest, stdin=self._given, stdout=out, stderr=err)
            setting = scheme.setting
            request = replace(
                self._request, guest=guest, mode=setting.mode, scheme=setting.options, trace=path
            )
            run_program(request)
        return traces.load(path)


def _trace_bits(observation: Observation, scheme: SchemeRun, made: Instrumented) -> int:
    """Return the bits of the trace that copies write."""
    bits = 0
    for number in observation.events.keys() - made.copies.left.keys():
        plan = scheme.routine_plan(number) if scheme.selects(number) else None
        if plan is not None:
            sizes = trace_sizes(
                scheme.definition.trace_writer(plan), observation.events[number].edges
            )
            bits += sizes.get("trace_bits", 0)
    return bits


def _trace_differences(expected: traces.Trace, run: Run, made: Instrumented) -> list[str]:
    if run.trace is None:
        return ["there is no trace"]
    packed = made.memory.trace == "bits"
    bits = 8 * len(expected.stream) if expected.end is None else expected.end.bits
    try:
        difference = stream_difference(expected, token_stream(run.trace, bits, packed=packed))
    except SimulatorError as error:
        return [str(error)]
    return [] if difference is None else [difference]


def _left(observation: Observation, made: Instrumented) -> tuple[Left, ...]:
    found = []
    for number, reason in sorted(made.copies.left.items()):
        cfg, executed = observation.recovered.routines[number], 0
        if number in observation.events:
            counts = observation.events[number].block_counts
            executed = sum(n * b.instructions for n, b in zip(counts, cfg.blocks, strict=True))
        found.append(Left(cfg.name, reason, executed))
    return tuple(found)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
