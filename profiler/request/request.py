"""The request of `simprof run`: built by the command line, read by the session."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.request.weights import Weights
from simprof.simulator.binary.program import Platform
from simprof.simulator.errors import UsageError

DEFAULT_MODE = "pp"
DEFAULT_PATH_LIMIT = 100_000_000
DEFAULT_MEMORY_LIMIT = 2 << 30
DEFAULT_CONTEXT_LIMIT = 1 << 18
# Linux gives 8 MiB. 100,000 frames of 176 bytes, the smallest of a V9 program, need 17.
DEFAULT_STACK_SIZE = 64 << 20
LARGEST_STACK_SIZE = 256 << 20


class TableChoice(StrEnum):
    """How path counters are kept."""

    AUTO = "auto"  # an array where the increments fit an immediate, otherwise a hash table
    ARRAY = "array"
    HASH = "hash"


class RegisterUse(StrEnum):
    """Which registers code may take without saving them (BL94 6.3, EPP 5.1)."""

    LIVENESS = "liveness"  # those that are dead where the code stands
    SCAVENGED = "scavenged"  # caller-saved ones that the routine nowhere names
    SAVED = "saved"  # none
    STOLEN = "stolen"  # two that the whole program leaves to it (6.1, 7.1.1)
    # Dead ones; where none is, the routine's least used local, whose uses become loads and stores.
    SPILLED = "spilled"


class CodeLayout(StrEnum):
    """Where code goes that would need a jump behind the routine (BL94 6.3)."""

    STUBS = "stubs"  # behind the routine; ends with a jump
    BEFORE_TARGET = "before-target"  # just before its target's code; what runs into it jumps over
    BEST = "best"  # for each target the cheaper of both, by the weights at hand


class Phase(StrEnum):
    """What a session is doing; shown beside the progress bar."""

    LOADING = "loading"
    RECOVERING = "recovering graphs"
    PLANNING = "placing instrumentation"
    RUNNING = "running"
    RERUNNING = "running again"  # the first run found transfers that the graphs lacked
    EXPANDING = "computing the profile"
    GENERATING = "generating code"
    COPYING = "copying routines"
    LINKING = "putting code in its place"
    VERIFYING = "verifying"
    READING = "reading profiles"
    WRITING = "writing routines"
    BUILDING = "building programs"
    MEASURING_CELLS = "measuring cells"


class Progress(Struct, frozen=True):
    """How far a session is."""

    phase: Phase
    # instructions, limit: Executed so far, and the budget where one was given.
    instructions: int = 0
    limit: int | None = None
    # done, total: How many things are done, of how many, where the phase knows; else `total` is 0.
    done: int = 0
    total: int = 0
    text: str = ""  # What was done last, where the phase has names for it
    # Returns the instructions executed by now, while a program runs
    clock: Callable[[], int] | None = None

    @property
    def executed(self) -> int:
        """Instructions executed by now."""
        return self.instructions if self.clock is None else self.clock()


ProgressCallback = Callable[[Progress], None]


def report_progress(
    callback: ProgressCallback | None,
    phase: Phase,
    done: int = 0,
    total: int = 0,
    *,
    instructions: int = 0,
    limit: int | None = None,
    text: str = "",
    clock: Callable[[], int] | None = None,
) -> None:
    """Report that a phase begins, or how far it is; None: nobody watches."""
    if callback is not None:
        callback(Progress(phase, instructions, limit, done, total, text, clock))


OptionValue = str | int | float | bool  # Value of an option that a scheme declares


class SchemeOptions(Struct, frozen=True):
    """What shapes the instrumentation."""

    # Routines with more potential paths are truncated (EPP 5.3).
    path_limit: int = DEFAULT_PATH_LIMIT
    # Source of edge weights; a path: a saved profile (`simprof run -o`).
    weights: Weights | Path = Weights.HEURISTIC
    table: TableChoice = TableChoice.AUTO  # How path counters are kept
    # Saved profile that guides schemes which need one; None: that of a first run, same input.
    edge_profile: Path | None = None
    # The options that schemes declare (`schemes.definition.SchemeOption`) and that were given, by
    # name; the others have the defaults that are declared.
    own: tuple[tuple[str, OptionValue], ...] = ()

    @classmethod
    def of(cls, **values: Any) -> SchemeOptions:
        """Return options with some values, of those that schemes declare, too."""
        shared = {name: values.pop(name) for name in cls.__struct_fields__ if name in values}
        return cls(**shared).having(**values)

    def given(self, name: str) -> OptionValue | None:
        """Return the value of a scheme's option, None where it was not given."""
        return dict(self.own).get(name)

    def having(self, **declared: OptionValue) -> SchemeOptions:
        """Return a copy with other values of some schemes' options."""
        own = tuple(sorted({**dict(self.own), **declared}.items()))
        return replace(self, own=own)


class Setting(Struct, frozen=True):
    """A mode with its options, under the name that reports give it ("tpp:cold=1:loop=1")."""

    name: str
    mode: str
    options: SchemeOptions


NO_SCHEME = Setting("edges", "edges", SchemeOptions())  # What every run counts, and nothing else


class GuestOptions(Struct, frozen=True):
    """What the program sees of the world, and how much of it it may use."""

    root: Path  # Directory that the program may read
    writable: Path | None = None  # Directory below which it may write; None: nowhere.
    # Its working directory; None, or one that is not below `root`: `root`.
    working: Path | None = None
    stdin: Path | None = None  # File that is its standard input; None: simprof's own.
    # Its whole environment, in order. Nothing of the user's is inherited.
    environment: tuple[tuple[bytes, bytes], ...] = ()
    argv0: bytes | None = None  # Its name for itself; None: the last component of `exe`.
    # The path of its file as it sees it (/proc/self/exe); None: that below `root`, `/NAME` where it
    # is not below there.
    exe: bytes | None = None
    # The path of its working directory as it sees it; None: that below `root`, which it sees at
    # "/". The path of `root` is what is left before that.
    cwd: bytes | None = None
    # Its file's name as the auxiliary vector has it (AT_EXECFN); None: `exe`.
    file_name: bytes | None = None
    # Where its heap begins, if that is behind its last segment; None: behind that segment.
    heap_start: int | None = None
    # stdout, stderr: File descriptors that its output goes to.
    stdout: int = 1
    stderr: int = 2
    max_instructions: int | None = None  # Instruction budget; None: none.
    timeout: float | None = None  # Wall-clock budget in seconds; None: none.
    memory_limit: int = DEFAULT_MEMORY_LIMIT  # Bytes of memory it may map
    stack_size: int = DEFAULT_STACK_SIZE  # Bytes of stack; at most a quarter of `memory_limit`.
    # Whether a system call for a service that simprof lacks ends the run; it fails otherwise.
    strict: bool = False
    # Decides how the threads of the program take turns; 0: in order, for equal times.
    thread_seed: int = 0
    # Directory in which a dynamically linked program finds its interpreter and its libraries; None:
    # that of the cross compiler (`dynamic.DEFAULT_SYSROOT`).
    sysroot: Path | None = None
    machine: Platform | None = None  # What the program must be for; None: whatever it is for.
    # Given what is about to be written to a terminal, or a line end where the program is about to
    # read from one; None: nobody wants to know.
    before_output: Callable[[bytes], None] | None = None

    @property
    def environment_strings(self) -> list[bytes]:
        """`NAME=value` for each variable, as programs get them."""
        return [name + b"=" + value for name, value in self.environment]

    def exe_of(self, program: Path) -> bytes:
        """Return the path of the program's file as it sees it."""
        return seen_file(program, self.root) if self.exe is None else self.exe

    def argv0_of(self, program: Path) -> bytes:
        """Return the program's name for itself."""
        return self.exe_of(program).rpartition(b"/")[2] if self.argv0 is None else self.argv0

    def file_name_of(self, program: Path) -> bytes:
        """Return what the auxiliary vector says of the program's file."""
        return self.exe_of(program) if self.file_name is None else self.file_name

    def with_host_paths(self, program: Path) -> GuestOptions:
        """Return these options with paths and names as another emulator (qemu-user) shows them.

        It is started with the path of the program, as that is written, in the same directory.
        """
        path = os.fsencode(program)
        return replace(
            self,
            argv0=path if self.argv0 is None else self.argv0,
            exe=os.fsencode(program.resolve()),
            cwd=os.fsencode((self.working or self.root).resolve()),
            file_name=path if self.file_name is None else self.file_name,
        )

    @property
    def seen_root(self) -> bytes:
        """Where the program sees `root`; UsageError if its working directory cannot be `cwd`."""
        if self.cwd is None:
            return b"/"
        below = path_below(self.working or self.root, self.root) or b""
        if not self.cwd.startswith(b"/") or not self.cwd.rstrip(b"/").endswith(below):
            raise UsageError(
                f"--cwd {os.fsdecode(self.cwd)}: give an absolute path that ends in "
                f"{os.fsdecode(below) or '/'}, where the program starts below --root {self.root}"
            )
        return self.cwd.rstrip(b"/").removesuffix(below) or b"/"


def seen_file(program: Path, root: Path | None) -> bytes:
    """Return the path of a program's file as the program sees it: that below `root`, or `/NAME`.

    Links are followed, as Linux does for /proc/self/exe.
    """
    file = program.resolve()
    below = None if root is None else path_below(file, root)
    return b"/" + os.fsencode(file.name) if below is None else below


def path_below(path: Path, root: Path) -> bytes | None:
    """Return "/" and the components of a path below a directory, None where it is not there."""
    real, top = path.resolve(), root.resolve()
    if not real.is_relative_to(top):
        return None
    return b"".join(b"/" + os.fsencode(part) for part in real.relative_to(top).parts)


class Selection(Struct, frozen=True):
    """Which routines are profiled; without anything said, all."""

    # Glob patterns; a routine is profiled if any matches its name. Empty: all are.
    routines: tuple[str, ...] = ()
    # Glob patterns; a routine is not profiled if any matches its name.
    exclude: tuple[str, ...] = ()
    user_only: bool = False  # Leave out routines of libraries, and code without debug information
    tolerant: bool = False  # Whether a pattern may match no routine: programs of a suite differ.

    @property
    def is_all(self) -> bool:
        """Whether it takes every routine."""
        return not (self.routines or self.exclude or self.user_only)


ALL_ROUTINES = Selection()


class ContextChoice(Struct, frozen=True):
    """What a run tells apart by calling context."""

    tree: bool = False  # Whether it makes a call tree
    limit: int = DEFAULT_CONTEXT_LIMIT  # How many contexts the tree may have
    # Routine whose calls are the window: nothing else is counted. None: all is.
    entry: str | None = None
    calls: int | None = None  # How many of its calls; None: all.
    # Routine whose calls are to be shown as a tree: the program must have it. None: none.
    follow: str | None = None


class RunRequest(Struct, frozen=True):
    """One run of one program under one scheme."""

    program: Path  # ELF file, as the user wrote it
    guest: GuestOptions
    arguments: tuple[bytes, ...] = ()  # Its arguments, without its own name
    mode: str = DEFAULT_MODE
    scheme: SchemeOptions = SchemeOptions()
    selection: Selection = ALL_ROUTINES  # Which routines are profiled
    # Called now and then, at most some ten times a second; None: nobody watches.
    progress: Callable[[Progress], None] | None = None
    # Run every validator there is (docs/SEMANTICS.md, what `--self-check` checks)
    self_check: bool = False
    trace: Path | None = None  # Where to write the trace of a mode that makes one; None: nowhere.
    # A recording that says what the program is given and answered, in place of `guest` and
    # `arguments`; None: it sees its own world.
    replay: Path | None = None
    # Whether to use, and to keep, what is known of the program (`session.memory`)
    remember: bool = False
    contexts: ContextChoice | None = None  # What to tell apart by calling context; None: nothing.

    @property
    def setting(self) -> Setting:
        """The scheme that `mode` and `scheme` ask for."""
        return Setting(self.mode, self.mode, self.scheme)
