"""The world of a program: what it is started with, its arguments, surroundings and budgets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.recovery.recovery import Discoveries
from simprof.profiler.request.request import GuestOptions
from simprof.simulator.binary.dynamic import DEFAULT_SYSROOT, link
from simprof.simulator.binary.program import Platform, Program
from simprof.simulator.errors import UsageError
from simprof.simulator.linux.files import Host
from simprof.simulator.linux.outside import LEAST_LIMIT, CallLog, RecordingHost
from simprof.simulator.machine.codewatch import LoadedCode
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import Limits, Observer, RunResult

if TYPE_CHECKING:
    from simprof.profiler.trace.recording_format import RecordingEnd
    from simprof.simulator.leon.machine import LeonMachine

# Register windows, as UltraSPARC and qemu-user have them. When a window is spilled decides what
# dead stack memory holds, and a few programs (memchr's last word) execute by that.
WINDOWS = 8


class World(Struct, frozen=True):
    """A program with all that it sees and may use; it can be run in it any number of times."""

    program: Program
    arguments: tuple[bytes, ...]  # Of the program, without its own name
    guest: GuestOptions  # What it sees, and its budgets
    # Its outside world. It records the calls of the first run and answers those of later runs from
    # the record: these read the same, and write nothing twice.
    host: RecordingHost
    files: Host | None  # What `host` passes calls on to; None: the record has all of them.
    # The run that was cut short from outside, and that all others are to end like
    ended_by: RunResult | RecordingEnd | None = None

    def machine(self, observer: Observer | None = None) -> Machine | LeonMachine:
        """Make a machine that stands at the start of the program."""
        guest = self.guest
        self.host.rewind()
        limits = Limits(guest.max_instructions, guest.timeout, guest.memory_limit, guest.stack_size)
        if self.program.platform is Platform.LEON3:
            from simprof.simulator.leon.machine import LeonMachine  # most programs never need it

            return LeonMachine(self.program, host=self.host, limits=limits, observer=observer)
        return Machine(
            self.program,
            arguments=self.arguments,
            environment=guest.environment_strings,
            host=self.host,
            limits=limits,
            observer=observer,
            argv0=guest.argv0_of(self.program.path),
            file_name=guest.file_name_of(self.program.path),
            heap_start=guest.heap_start,
            windows=WINDOWS,
            strict=guest.strict,
            thread_seed=guest.thread_seed,
        )

    @property
    def limit(self) -> int | None:
        """The budget in instructions; None: none."""
        return self.guest.max_instructions

    @property
    def opened(self) -> frozenset[Path]:
        """Files that the program has opened so far, where they are on the host."""
        return frozenset() if self.files is None else frozenset(self.files.opened)

    def program_with(self, discoveries: Discoveries) -> Program:
        """Return the program with what it has loaded, if it is dynamically linked."""
        if not self.program.parts:
            return self.program
        return link(self.program, discoveries.modules, discoveries.earlier)

    def linked(self, discoveries: Discoveries) -> World:
        """Return the world of the program with what it has loaded."""
        return replace(self, program=self.program_with(discoveries))

    def run_bare(self) -> tuple[RunResult, LoadedCode]:
        """Run the program under no scheme; return how it ended, and what it has loaded."""
        machine = self.machine()
        result, loaded = self.ended(machine.run()), machine.loaded
        machine.close()
        return result, loaded

    def ended(self, result: RunResult) -> RunResult:
        """Return the result of a run that ended where another one was cut short, as of that."""
        cut = self.ended_by
        if cut is None or result.reason != "budget":
            return result
        return replace(result, status=cut.status, reason=cut.reason, signal=cut.signal)

    def ending_like(self, result: RunResult | RecordingEnd) -> World:
        """Return runs that end where one ended that was cut short from outside."""
        if result.reason not in ("budget", "timeout", "interrupted"):
            return self
        guest = replace(self.guest, max_instructions=result.instructions, timeout=None)
        return replace(self, guest=guest, ended_by=result)

    def untimed(self) -> World:
        """Return a run that takes as long as it takes."""
        return replace(self, guest=replace(self.guest, timeout=None))


@contextmanager
def open_world(
    program: Program, arguments: tuple[bytes, ...], guest: GuestOptions
) -> Iterator[World]:
    """Open the program's outside world, for as many runs as it takes.

    Raises UsageError if its standard input cannot be read, or it is for another machine.
    """
    if guest.machine not in (None, program.platform):
        raise UsageError(
            f"--machine {guest.machine}: {program.path} is for {program.platform}: LEON programs "
            "are V8, and linked for 0x40000000 and above"
        )
    with ExitStack() as stack:
        stdin = 0
        if guest.stdin is not None:
            try:
                stdin = stack.enter_context(guest.stdin.open("rb", buffering=0)).fileno()
            except OSError as error:
                raise UsageError(
                    f"--stdin {guest.stdin} cannot be read ({error.strerror}): name a readable file"
                ) from None
        host = Host(
            guest.root,
            writable=guest.writable,
            working=guest.working,
            program=program.path,
            seen_program=guest.exe_of(program.path),
            seen_root=guest.seen_root,
            sysroot=(guest.sysroot or DEFAULT_SYSROOT) if program.parts else None,
            stdin=stdin,
            stdout=guest.stdout,
            stderr=guest.stderr,
            before_output=guest.before_output,
        )
        stack.callback(host.dispose)
        log = CallLog(max(guest.memory_limit, LEAST_LIMIT))
        stack.callback(log.close)
        yield World(program, arguments, guest, RecordingHost(host, log), host)
