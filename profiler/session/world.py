"""What a program is started with: its arguments, its surroundings and its budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from simprof.profiler.recovery.recovery import Discoveries
from simprof.profiler.request.request import GuestOptions
from simprof.simulator.binary.dynamic import DEFAULT_SYSROOT, link
from simprof.simulator.binary.program import Platform, Program
from simprof.simulator.errors import UsageError
from simprof.simulator.linux.files import Host
from simprof.simulator.linux.outside import LEAST_LIMIT, CallLog, RecordingHost
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import Limits, Observer

if TYPE_CHECKING:
    from simprof.simulator.leon.machine import LeonMachine

WINDOWS = 8
"""Register windows, as UltraSPARC and qemu-user have them. When a window is spilled decides what
dead stack memory holds, and a few programs (memchr's last word) execute by that."""


@dataclass(frozen=True)
class World:
    """A program with all that it sees and may use; it can be run in it any number of times."""

    program: Program
    arguments: tuple[bytes, ...]  # Of the program, without its own name
    guest: GuestOptions  # What it sees, and its budgets
    # Its outside world. It records the calls of the first run and answers those of later runs from
    # the record: these read the same, and write nothing twice.
    host: RecordingHost
    files: Host  # What `host` passes calls on to

    def machine(
        self, observer: Observer | None = None, on_late_code: Callable[[], None] | None = None
    ) -> Machine | LeonMachine:
        """Make a machine that stands at the start of the program.

        `observer`, `on_late_code`: See `Machine`.
        """
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
            on_late_code=on_late_code,
            argv0=guest.argv0_of(self.program.path),
            file_name=guest.file_name_of(self.program.path),
            heap_start=guest.heap_start,
            windows=WINDOWS,
            strict=guest.strict,
            thread_seed=guest.thread_seed,
        )

    def linked(self, discoveries: Discoveries) -> World:
        """Return this world with what the program has loaded, if it is dynamically linked."""
        if not self.program.parts:
            return self
        program = link(self.program, discoveries.modules, discoveries.earlier)
        return replace(self, program=program)

    def ending_after(self, instructions: int) -> World:
        """Return this world for runs that end after so many instructions, however long it takes."""
        guest = replace(self.guest, max_instructions=instructions, timeout=None)
        return replace(self, guest=guest)


@contextmanager
def open_world(
    program: Program, arguments: tuple[bytes, ...], guest: GuestOptions
) -> Iterator[World]:
    """Open the program's outside world, for as many runs as it takes.

    Raises
    ------
    UsageError
        If its standard input cannot be read, or it is for another machine than asked for.
    """
    if guest.machine not in (None, program.platform):
        raise UsageError(
            f"--machine {guest.machine}: {program.path} is for {program.platform}: LEON programs "
            "are V8, and linked for 0x40000000 and above"
        )
    with ExitStack() as stack:
        stdin = 0
        if guest.stdin is not None:
            stdin = stack.enter_context(_open_input(guest.stdin)).fileno()
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


def _open_input(path: Path) -> IO[bytes]:
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise UsageError(
            f"--stdin {path} cannot be read ({error.strerror}): name a readable file"
        ) from None
