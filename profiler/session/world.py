"""What a program is started with: its arguments, its surroundings and its budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from profiler.request.request import GuestOptions
from simulator.binary.program import Program
from simulator.errors import UsageError
from simulator.linux.files import Host, RecordingHost
from simulator.machine.machine import Machine
from simulator.machine.running import Limits, Observer

WINDOWS = 8
"""Register windows, as UltraSPARC and qemu-user have them. When a window is spilled decides what
dead stack memory holds, and a few programs (memchr's last word) execute by that."""


@dataclass(frozen=True)
class World:
    """A program with all that it sees and may use; it can be run in it any number of times.

    Attributes
    ----------
    arguments
        Of the program, without its own name.
    guest
        What it sees, and its budgets.
    host
        Its outside world. It records the calls of the first run and answers those of later runs
        from the record: these read the same, and write nothing twice.
    files
        What `host` passes calls on to.
    """

    program: Program
    arguments: tuple[bytes, ...]
    guest: GuestOptions
    host: RecordingHost
    files: Host

    def machine(
        self, observer: Observer | None = None, on_late_code: Callable[[], None] | None = None
    ) -> Machine:
        """Make a machine that stands at the start of the program.

        Parameters
        ----------
        observer, on_late_code
            See `Machine`.
        """
        guest = self.guest
        self.host.rewind()
        return Machine(
            self.program,
            arguments=self.arguments,
            environment=guest.environment_strings,
            host=self.host,
            limits=Limits(
                guest.max_instructions, guest.timeout, guest.memory_limit, guest.stack_size
            ),
            observer=observer,
            on_late_code=on_late_code,
            argv0=guest.argv0,
            file_name=guest.file_name,
            heap_start=guest.heap_start,
            windows=WINDOWS,
            strict=guest.strict,
        )

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
        If its standard input cannot be read.
    """
    with ExitStack() as stack:
        stdin = 0
        if guest.stdin is not None:
            stdin = stack.enter_context(_open_input(guest.stdin)).fileno()
        host = Host(
            guest.root,
            writable=guest.writable,
            working=guest.working,
            program=program.path,
            stdin=stdin,
            stdout=guest.stdout,
            stderr=guest.stderr,
        )
        stack.callback(host.dispose)
        yield World(program, arguments, guest, RecordingHost(host), host)


def _open_input(path: Path) -> IO[bytes]:
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise UsageError(
            f"--stdin {path} cannot be read ({error.strerror}): name a readable file"
        ) from None
