"""Recorded runs: `simprof record` makes one, `--replay` runs the program in its world.

A recording holds what the outside answered to each system call. A program that is given these
answers executes what it executed then, as often as it is run, under any scheme; it touches no file
and prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.fingerprint import known_sha256
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.request.request import GuestOptions, Phase, RunRequest, report_progress
from simprof.profiler.session.passes import run_bare
from simprof.profiler.session.world import World, open_world
from simprof.profiler.trace.recording_format import (
    RecordedGuest,
    Recording,
    RecordingEnd,
    RecordingFile,
    RecordingHeader,
)
from simprof.simulator.binary.dynamic import load_program
from simprof.simulator.binary.program import Module, Program
from simprof.simulator.errors import UsageError
from simprof.simulator.linux.outside import RecordingHost, ReplayMismatchError
from simprof.simulator.machine.running import RunResult

_LIMITS = (
    "max_instructions",
    "timeout",
    "memory_limit",
    "stack_size",
    "heap_start",
    "strict",
    "thread_seed",
)
"""What requests and recordings say in the same words, with the same names."""


def record_program(request: RunRequest, path: Path) -> RunResult:
    """Run a program under no scheme, write a recording of the run, and return how it ended.

    Raises SimulatorError if the program cannot be run or the file cannot be written.
    """
    guest, file = request.guest, request.program
    report_progress(request.progress, Phase.LOADING, limit=guest.max_instructions)
    program = load_program(file, guest.sysroot)
    with open_world(program, request.arguments, guest) as world:
        header = RecordingHeader(
            file=str(file),
            sha256=program.sha256,
            machine=str(program.machine),
            arguments=tuple(argument.hex() for argument in request.arguments),
            simprof=OWN_VERSION,
            guest=_recorded_guest(guest, file),
        )
        recording = RecordingFile(path, header)
        try:
            report_progress(request.progress, Phase.RUNNING, limit=guest.max_instructions)
            result, loaded = run_bare(world)
            recording.log(world.host.log)
            recording.close(_end(world, loaded.modules, result))
        except BaseException:
            recording.discard()
            raise
    return result


def _recorded_guest(guest: GuestOptions, file: Path) -> RecordedGuest:
    return RecordedGuest(
        name=guest.argv0_of(file).hex(),
        file=guest.exe_of(file).hex(),
        shown=guest.file_name_of(file).hex(),
        environment=tuple(text.hex() for text in guest.environment_strings),
        stdin=known_sha256(guest.stdin) or "",
        sysroot=None if guest.sysroot is None else str(guest.sysroot.absolute()),
        **{name: getattr(guest, name) for name in _LIMITS},
    )


def _end(world: World, modules: frozenset[Module], result: RunResult) -> RecordingEnd:
    assert world.files is not None
    log = world.host.log
    return RecordingEnd(
        calls=len(log),
        digest=log.digest.hex(),
        status=result.status,
        reason=result.reason,
        signal=result.signal,
        instructions=result.instructions,
        output=world.files.output_digest,
        modules=tuple(sorted((module.file, module.sha256) for module in modules)),
    )


def recorded_request(request: RunRequest, recording: Recording) -> RunRequest:
    """Return the request with what the recorded run was given, in place of what it says of that."""
    header, guest = recording.header, recording.header.guest
    pairs = (bytes.fromhex(text).partition(b"=") for text in guest.environment)
    given = GuestOptions(
        root=Path(),
        environment=tuple((name, value) for name, _, value in pairs),
        argv0=bytes.fromhex(guest.name),
        exe=bytes.fromhex(guest.file),
        file_name=bytes.fromhex(guest.shown),
        sysroot=None if guest.sysroot is None else Path(guest.sysroot),
        **{name: getattr(guest, name) for name in _LIMITS},
    )
    arguments = tuple(map(bytes.fromhex, header.arguments))
    return replace(request, guest=given, arguments=arguments)


@contextmanager
def recorded_world(program: Program, request: RunRequest, recording: Recording) -> Iterator[World]:
    """Open the world of a recorded run; `request` is what `recorded_request` returned.

    Raises UsageError or ProfileMismatchError if the recording is damaged, or of another program,
    other libraries or another simprof; so does what is done in this world.
    """
    name, end = request.replay, recording.end
    if program.sha256 != recording.header.sha256:
        raise ProfileMismatchError(
            f"{name} is a recording of another program than {program.path} is now: record it again"
        )
    for file, digest in end.modules:
        if known_sha256(Path(file)) != digest:
            raise ProfileMismatchError(
                f"{name} is a recording of a program that loads {file}, which has changed or is "
                "gone: record it again"
            )
    log = recording.log()
    world = World(program, request.arguments, request.guest, RecordingHost(None, log), None)
    try:
        yield world.untimed().ending_like(end)
    except ReplayMismatchError:
        raise UsageError(
            f"{name} is damaged, or this simprof runs the program in another way than simprof "
            f"{recording.header.simprof}, which made it: record it again"
        ) from None
    finally:
        log.close()
