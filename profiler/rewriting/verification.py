"""What `simprof verify` finds: of each run, of each mode, of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simprof.profiler.profiles.profile import Ending
from simprof.profiler.request.request import Setting
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.elsewhere.counter_file import CounterFile

EMULATOR, QEMU = "emulator", "qemu"
WAYS = (EMULATOR, QEMU)


@dataclass(frozen=True)
class ObservedRun:
    """What a run did to the outside, and how many instructions it executed."""

    status: int  # As a shell has it: the program's own, or 128 + signal.
    # output, errors: Digests of its standard output and standard error.
    output: str
    errors: str
    files: Mapping[str, str]  # Path below the root -> digest, of the files that it left
    instructions: int | None  # None where they were not counted
    # counters, trace: What the program's own files hold; None where there are none.
    counters: CounterFile | None = None
    trace: bytes | None = None
    depth: int = 0  # Frames in which it ended; 0 where that was not looked at.

    def difference(self, other: ObservedRun) -> str | None:
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
    """What was found of one mode."""

    setting: Setting
    # base, added: Instructions of the original; of the code of the scheme, as `run` prices it,
    # without that of routines that were left alone.
    base: int
    added: int
    rewriting: Mapping[Cause, int]  # What rewriting executes besides, by cause
    # "emulator" and "qemu" -> instructions of the instrumented program; None: not counted.
    executed: Mapping[str, int | None]
    # output_equal, counters_equal: Whether every run behaved as the original, and counted what was
    # predicted. None for counters that no run wrote.
    output_equal: bool
    counters_equal: bool | None
    left: tuple[Left, ...]  # Routines that were left alone
    differences: tuple[str, ...]  # What is not as predicted, a line each
    not_compared: tuple[str, ...] = ()  # What could not be compared, a line each, and why
    # Routines that were copied on graphs that lack what the run shows: what is executed and counted
    # in them is not predicted.
    unforeseen: tuple[str, ...] = ()

    @property
    def predicted(self) -> int | None:
        """All instructions that the instrumented program should execute; None: not predicted."""
        if self.unforeseen:
            return None
        return self.base + self.added + sum(self.rewriting.values())


@dataclass(frozen=True)
class Verification:
    """The results of all modes.

    `skipped` is what cannot be run or counted here, and why; `ending` how the original ended.
    """

    file: Path
    sha256: str
    machine: str
    arguments: tuple[str, ...]
    modes: tuple[ModeResult, ...]
    skipped: Mapping[str, str]
    ending: Ending

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        return not any(mode.differences for mode in self.modes)

    @property
    def is_complete(self) -> bool:
        """Whether all was compared."""
        return not any(mode.not_compared for mode in self.modes)
