"""What the user asks of `simprof run`: built by the command line, read by the session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

DEFAULT_PATH_LIMIT = 100_000_000
DEFAULT_COLD, DEFAULT_LOOP = 5.0, 15.0
"""TPP(5, 15): "a good trade-off between accuracy and overhead" (TPP 5.1)."""
DEFAULT_ITERATIONS = 2
DEFAULT_MEMORY_LIMIT = 2 << 30
DEFAULT_STACK_SIZE = 64 << 20
"""Linux gives 8 MiB. 100,000 frames of 176 bytes, the smallest of a V9 program, need 17."""

LARGEST_STACK_SIZE = 256 << 20


class Mode(StrEnum):
    """Profiling schemes that `simprof run` knows (docs/MODES.md)."""

    PP = "pp"  # acyclic paths (EPP)
    QPT2 = "qpt2"  # edges, counters on the chords of a maximum spanning tree (BL94, EPP)
    QPT = "qpt"  # blocks: a counter in every block, or fewer (BL94 section 3)
    WITNESS = "witness"  # a trace of witnesses that regenerates the execution (BL94 section 4)
    BITS = "bits"  # a trace of branch outcomes that regenerates the execution (BL94 6.2)
    BITTRACE = "bittrace"  # acyclic paths named by branch outcomes (EPP section 2)
    TPP = "tpp"  # acyclic paths, targeted by an edge profile (TPP)
    KITER = "kiter"  # k-iteration paths (KITER)
    NAIVE = "naive"  # edges: a counter on every one (CS6120)
    CALLS = "calls"  # edges: two logging calls on every one (CS6120)
    CALLS_OPTIMAL = "calls-optimal"  # edges: two logging calls on every chord (CS6120)
    EDGES = "edges"  # every edge counted by the emulator itself: no scheme, nothing added


class Weights(StrEnum):
    """Where edge-frequency estimates come from, when not from a saved profile."""

    HEURISTIC = "heuristic"  # BL94 section 5
    UNIFORM = "uniform"


class TableChoice(StrEnum):
    """How path counters are kept."""

    AUTO = "auto"  # an array where the increments fit an immediate, otherwise a hash table
    ARRAY = "array"
    HASH = "hash"


class VertexPlacement(StrEnum):
    """Where `qpt` puts its counters (BL94 section 3)."""

    REDUNDANT = "redundant"  # in every block
    VERTEX_OPTIMAL = "vertex-optimal"  # in fewest blocks: Vprof(Vcnt), Knuth and Stevenson
    EDGE_HEURISTIC = "edge-heuristic"  # on edges, as figure 11 chooses them: Vprof(Ecnt)
    EDGE = "edge"  # on the chords of a spanning tree, as `qpt2`: Eprof(Ecnt)


class Phase(StrEnum):
    """What a session is doing; shown beside the progress bar."""

    LOADING = "loading"
    RECOVERING = "recovering graphs"
    PLANNING = "placing instrumentation"
    RUNNING = "running"
    RERUNNING = "running again"  # the first run found transfers that the graphs lacked
    EXPANDING = "computing the profile"


@dataclass(frozen=True)
class Progress:
    """How far a session is. `instructions` executed so far, of `limit` where one was given."""

    phase: Phase
    instructions: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class SchemeOptions:
    """What shapes the instrumentation.

    Attributes
    ----------
    path_limit
        Routines with more potential paths are truncated (EPP 5.3).
    weights
        Source of the edge weights; a path names a saved profile (`simprof run -o`).
    table
        How path counters are kept.
    cold, loop
        TPP(i, j): percentages below which an edge is cold, and below which the entries of a loop
        disconnect it.
    cold_always
        Remove cold edges of all routines, not only where that makes a hash table an array.
    edge_profile
        Saved profile that guides `tpp`; None: that of a first run with the same input.
    iterations
        k of `kiter`.
    placement
        Where `qpt` puts its counters.
    """

    path_limit: int = DEFAULT_PATH_LIMIT
    weights: Weights | Path = Weights.HEURISTIC
    table: TableChoice = TableChoice.AUTO
    cold: float = DEFAULT_COLD
    loop: float = DEFAULT_LOOP
    cold_always: bool = False
    edge_profile: Path | None = None
    iterations: int = DEFAULT_ITERATIONS
    placement: VertexPlacement = VertexPlacement.REDUNDANT


@dataclass(frozen=True)
class Setting:
    """A mode with its options, under the name that reports give it ("tpp(1,1)")."""

    name: str
    mode: Mode
    options: SchemeOptions


@dataclass(frozen=True)
class GuestOptions:
    """What the program sees of the world, and how much of it it may use.

    Attributes
    ----------
    root
        Directory that the program may read.
    writable
        Directory below which it may write; None: nowhere.
    stdin
        File that is its standard input; None: simprof's own.
    environment
        Its whole environment, in order. Nothing of the user's is inherited.
    argv0
        Its name for itself; None: the program file as the user wrote it.
    stdout, stderr
        File descriptors that its output goes to.
    max_instructions
        Instruction budget; None: none.
    timeout
        Wall-clock budget in seconds; None: none.
    memory_limit
        Bytes of memory it may map.
    stack_size
        Bytes of stack; at most a quarter of `memory_limit`.
    """

    root: Path
    writable: Path | None = None
    stdin: Path | None = None
    environment: tuple[tuple[bytes, bytes], ...] = ()
    argv0: bytes | None = None
    stdout: int = 1
    stderr: int = 2
    max_instructions: int | None = None
    timeout: float | None = None
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    stack_size: int = DEFAULT_STACK_SIZE


@dataclass(frozen=True)
class RunRequest:
    """One run of one program under one scheme.

    Attributes
    ----------
    program
        ELF file, as the user wrote it.
    arguments
        Its arguments, without its own name.
    routines
        Glob patterns; a routine is profiled if any matches its name. Empty: all are.
    progress
        Called now and then, at most some ten times a second; None: nobody watches.
    self_check
        Validate every intermediate structure.
    trace
        Where to write the trace of a mode that makes one; None: nowhere.
    """

    program: Path
    guest: GuestOptions
    arguments: tuple[bytes, ...] = ()
    mode: Mode = Mode.PP
    scheme: SchemeOptions = SchemeOptions()
    routines: tuple[str, ...] = ()
    progress: Callable[[Progress], None] | None = None
    self_check: bool = False
    trace: Path | None = None

    @property
    def setting(self) -> Setting:
        """The scheme that `mode` and `scheme` ask for."""
        return Setting(str(self.mode), self.mode, self.scheme)
