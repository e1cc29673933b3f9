"""Cells: the unit of every experiment, as values.

A *cell* is one program on one input under one setting. Tables and sweeps say which cells they
need (`Cell`, by names), a suite tells what is behind the names (`Job`, with files), `run`
runs jobs and makes a `CellResult` of plain numbers from each, and `store` keeps them under their
`CellKey`, which holds everything that decides the result (`Keys`), so that nothing is run twice.

There are five kinds of cells. `CellKind.RUN` executes the program, and predicts what
instrumentation would add. `CellKind.PLAN` plans and generates the instrumentation of *all* routines
without running anything (static tables: BL94 tables 1 and 2, KITER table 4); it has no input
(`input` is ""). `CellKind.EXECUTE` writes the instrumented program, runs it, and counts what it
executes. `CellKind.TIME` measures how long that takes, and the simulation. `CellKind.ANALYSE` runs
the program for its edge profile, then plans and generates the instrumentation of the routines
entered, and measures how long that takes.

What a table reads of results stands in its declaration (`tables`, one module for each paper).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TypedDict

from msgspec import Struct, field
from msgspec.structs import astuple

from simprof.profiler.experiments.cells.settings import CellSetting
from simprof.profiler.experiments.suites.suite import DEFAULT_BUILD, NO_INPUT, Input
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.profiles.codec import written
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.fingerprint import given_file_sha256
from simprof.profiler.profiles.measures import Quality
from simprof.profiler.schemes.cost_model import cost_version, own_cost_version
from simprof.profiler.schemes.registry import brought, brought_modes
from simprof.simulator.errors import UsageError

COMPILER_INCREMENTS = "compiler_increments"
# Of EXECUTE cells: what the scheme's code was predicted to add in the routines with code in them,
# which is what `CellResult.added` should be.
PREDICTED = "predicted"
# Of EXECUTE cells: what rewriting executes besides; "rewriting:CAUSE" is a part of it.
REWRITING = "rewriting"
# Of EXECUTE cells: routines that were left alone, and the original's instructions in them.
ALONE_ROUTINES, ALONE_INSTRUCTIONS = "alone_routines", "alone_instructions"


class CellKind(StrEnum):
    """What a cell does with its program."""

    RUN = "run"
    PLAN = "plan"
    EXECUTE = "execute"
    TIME = "time"
    ANALYSE = "analyse"

    @property
    def of_instrumented(self) -> bool:
        """Whether the instrumented program is run."""
        return self in (CellKind.EXECUTE, CellKind.TIME)


class Cell(Struct, frozen=True):
    """A cell by its names: what a table or a grid asks for."""

    # benchmark, build, input: Names of the suite ("compress", "v9-O2", "ref"); "v9-O2-arcs" is the
    # build with gcc's own edge counters in it. `input` is "" for `CellKind.PLAN`.
    benchmark: str
    setting: CellSetting  # Mode and options, canonical (see `settings`)
    input: str = "ref"
    kind: CellKind = CellKind.RUN
    build: str = DEFAULT_BUILD

    @property
    def name(self) -> str:
        """One line for people: "compress ref pp (v9-O2)"."""
        words = [self.benchmark, self.input, self.setting.label, f"({self.build})"]
        if self.kind is CellKind.PLAN:
            words[1] = "plan"
        elif self.kind is not CellKind.RUN:
            words[1] = f"{self.input} {self.kind.value}"
        return " ".join(filter(None, words))


def plan_cell(benchmark: str, setting: CellSetting, build: str = DEFAULT_BUILD) -> Cell:
    """Return the cell that plans all routines of a program under `setting`."""
    return Cell(benchmark, setting, "", CellKind.PLAN, build)


class CellKey(Struct, frozen=True):
    """Everything that decides a cell's result; equal keys have equal results."""

    program: str  # SHA-256 of the ELF file
    kind: CellKind
    setting: str
    name: str  # What the program is told that it is called
    arguments: tuple[str, ...]  # As text, undecodable bytes as surrogates
    environment: tuple[str, ...]  # Its variables, each as NAME=VALUE
    # stdin, files: Digests of standard input and of the files that the program may read; "" for
    # none.
    stdin: str
    files: str
    max_instructions: int | None  # Its budget; None: none.
    # simprof, engine, cost_model: Version of simprof, digest of the code that makes results,
    # version of the cost model.
    simprof: str
    engine: str
    cost_model: str
    # Digest of the code that writes instrumented programs; "" where none is run.
    rewriting: str = ""
    # Digest of the input whose edge profile guides it; "" where that is its own.
    guide: str = ""


class RunFiles(Struct, frozen=True):
    """What cells of one program, build and input run, by digests (SHA-256)."""

    benchmark: str
    build: str
    input: str
    program: str  # Of the ELF file; "" where there is none
    stdin: str  # Of the file that is its standard input; "" for none


class Job(Struct, frozen=True):
    """A cell with the files behind its names."""

    cell: Cell  # What it is called
    program: Path  # ELF file
    given: Input = NO_INPUT
    guide: Input | None = None  # The input whose edge profile guides it; None: `given`.
    writable: bool = False  # Whether it may write into a copy of its root, which is not kept
    max_instructions: int | None = None  # Budget; a program that spends it is an error.
    compiler: str = ""  # What built it, for the record ("" where unknown)
    # group, suite, position: "INT" or "FP", the suite's name, and the benchmark's place in it; ""
    # outside of suites.
    group: str = ""
    suite: str = ""
    position: int = 0
    # Recording of the run, whose answers the program gets; None: it sees its own world. Not
    # compared: the result is the same.
    replay: Path | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and astuple(self)[:-1] == astuple(other)[:-1]

    def __hash__(self) -> int:
        return hash(astuple(self)[:-1])


# Not `profile.RoutineProfile`: that has every edge and path, which is too much to keep of a sweep,
# and lacks where code was placed, which tables of BL94 are about.
class RoutineRow(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One routine in one cell. Of RUN and ANALYSE cells: entered routines; of PLAN cells: all."""

    name: str
    address: int
    potential_paths: int  # Acyclic potential paths before truncation (EPP 5.3)
    # Static paths that the plan tells apart; None for modes that count no paths.
    num_paths: int | None
    table: CounterTable
    # instrumented_edges, no_jump_edges: Edges with code (and blocks with code: `qpt`'s counters in
    # blocks); those of them whose code needs no jump (BL94 table 2).
    instrumented_edges: int
    no_jump_edges: int
    # placed_blocks, placed_edges: Blocks and edges of the graph that counters were placed on: this
    # one, or BL94's of merged blocks.
    placed_blocks: int = written(0)
    placed_edges: int = written(0)
    # instructions, added: Dynamic; `instructions` without callees. 0 in PLAN and ANALYSE cells, as
    # all that follow but the last.
    instructions: int = written(0)
    added: int = written(0)
    # path_increments, hashed_increments, hashing: Increments of path counters; those of them that
    # called the hashing routine; the instructions that this executed (as the result files name
    # them).
    path_increments: int = written(0)
    hashed_increments: int = written(0)
    hashing: int = written(0)
    # edge_increments, jumps: Increments of edge and block counters; executed jumps that the code on
    # edges needed (BL94 6.1).
    edge_increments: int = written(0)
    jumps: int = written(0)
    # name_bits, name_counters: Bits of the greatest name of a path, and counters of an array that
    # the names index (None: no word does); 0 where a scheme's names are not compared
    # (`Plan.names`).
    name_bits: int = written(0)
    name_counters: int | None = written(0)
    # How many these would be without a path limit; None for modes that count no paths.
    untruncated_paths: int | None = written(None)
    # self_loop_increments, self_loop_added: Of `edge_increments` those of self-loops, of `added`
    # what these execute; the latter of `pp` only.
    self_loop_increments: int = written(0)
    self_loop_added: int = written(0)
    # Whether it is the program's own, and no library's (`library_sources.is_library_source`)
    own: bool = written(False)
    counter_bytes: int = 0  # Of ANALYSE cells


# Placements of BL94 graph 4: a counter in every block, and the chords of a greatest and of a least
# spanning tree by BL94's heuristic and by this very run's edge counts; of a greatest by Goldberg's
# weights (BL94 7.1.4).
TREES = tuple("redundant heuristic-max heuristic-min exact-max exact-min postorder-max".split())


class Timing(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of wall-clock time: what differs from run to run, never compared."""

    run: float = 0.0  # The cell's whole group (cells of one program and input are run together)
    # recovery, planning, generation: PLAN and ANALYSE cells: recovering all graphs (the least of
    # several times), planning routines, and generating their code (in PLAN cells of `qpt` and
    # `qpt2` only).
    recovery: float = 0.0
    planning: float = 0.0
    generation: float = 0.0
    peak_memory: int = 0  # Bytes that the worker had used at most until then
    # original, instrumented: TIME cells, seconds of processor time under qemu-user of the program
    # and of the instrumented one; None where qemu-user is missing.
    original: float | None = None
    instrumented: float | None = None
    simulated: float = 0.0  # TIME cells: the same of a simulated run.


# Not `profile.RunMeasurement`: one is made of plans, instrumented runs and times, too, and a file
# of results keeps thousands. Its `counts`, `sizes` and `lost` are that measurement's.
class CellResult(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a cell found: exact numbers, and an error instead where there is one."""

    # One line; None where all went well. A program that ended wrongly has its numbers all the same.
    error: str | None = written(None)
    # base, added: Instructions of the uninstrumented run, and of the scheme's code: predicted, in
    # EXECUTE cells executed.
    base: int = written(0)
    added: int = written(0)
    # reason, status: How the program ended, as in `profile.Ending`: its exit status, or 128 plus
    # the signal; "" and 0 in PLAN cells.
    reason: str = written("")
    status: int = written(0)
    output: str = written("")  # SHA-256 of what it wrote to standard output
    # As in `profile.RunMeasurement` without `runs`, besides `jumps` (executed jumps that the code
    # on edges needed) and `hashing` (instructions inside the hashing routine); of programs with a
    # compiler's counters in them how often these count (`COMPILER_INCREMENTS`). Of EXECUTE cells:
    # `PREDICTED`, `REWRITING` and its parts, `ALONE_ROUTINES`, `ALONE_INSTRUCTIONS`.
    counts: Mapping[str, int] = written({})
    # sizes, lost: As in `profile.RunMeasurement`; of ANALYSE cells also `routine_bytes`, the code
    # of the routines without instrumentation.
    sizes: Mapping[str, int] = written({})
    lost: Mapping[str, int] = written({})
    routines: tuple[RoutineRow, ...] = written(())  # By address
    # facts, own_facts: Of modes that count paths, what `path_facts` says of those executed, over
    # all routines and over the program's own (None: none can be told); the latter of `pp` only.
    facts: Mapping[str, int] | None = written(None)
    own_facts: Mapping[str, int] | None = None
    # Of `pp`: each executed whole path, by a key that is the same in every run of the same program:
    # how often it was executed, and instructions of one execution. Of modes of k-iteration paths
    # those of k iterations (`path_facts.iteration_rows`).
    paths: Mapping[str, tuple[int, int]] = written({})
    # quality, edge_quality: As in `profile.RunMeasurement`.
    quality: Quality | None = None
    edge_quality: Quality | None = None
    # Of `qpt2`: increments that each placement of `TREES` would have executed, all on the blocks of
    # its setting
    trees: Mapping[str, int] = written({})
    warnings: tuple[str, ...] = written(())  # One line each
    # Of EXECUTE cells: what the instrumented program did otherwise than predicted, a line each.
    differences: tuple[str, ...] = written(())
    timing: Timing = field(default_factory=Timing)  # Not part of the result, nor compared: see it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CellResult) and astuple(self)[:-1] == astuple(other)[:-1]

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return self.error is not None

    @property
    def overhead(self) -> float:
        """Added instructions per instruction of the uninstrumented run."""
        return self.added / self.base if self.base else 0.0

    @property
    def attributed(self) -> float | None:
        """Attribution of definite flow, 0 to 1 (TPP 5); None where no mode judged it."""
        flow = self.lost.get("flow_blocks", 0)
        if not flow:
            return None
        wrong = self.lost["overcounted_blocks"] + self.lost["undercounted_blocks"]
        return 1 - wrong / flow


def failure(message: str) -> CellResult:
    """Return the result of a cell that could not be run; `message` is made one line."""
    return CellResult(error=" ".join(message.split()))


# -- keys ------------------------------------------------------------------------------------------

_PACKAGES = Path(__file__).resolve().parents[3]
# The code that makes results. Commands and reports only show them.
_PATTERNS = (
    "simulator/**/*.py",
    *(
        f"profiler/{package}/**/*.py"
        for package in (
            *("request", "graphs", "plan", "recovery", "profiles", "code", "schemes"),
            *("engine", "trace", "session"),
        )
    ),
    "profiler/experiments/cells/*.py",
)
# The code that writes and runs instrumented programs, in cells that do.
_REWRITING = ("profiler/rewriting/**/*.py", "profiler/rewriting/*.c")


class Versions(Struct, frozen=True):
    """What made a result, apart from the program and its input."""

    simprof: str  # Version of the distribution
    # Digest of the code that makes results, so that a checkout that was changed without a new
    # version never passes off old results as its own
    engine: str
    cost_model: str  # Version of what instructions cost


@cache
def versions() -> Versions:
    """Return those of this simprof."""
    return Versions(OWN_VERSION, engine_digest(), own_cost_version())


@cache
def engine_digest() -> str:
    """Return a digest of the code that makes results, and of what other distributions bring."""
    # Versions of their modes, too: a scheme that somebody works on keeps that of its distribution.
    return _code_digest(_PATTERNS, (*brought(), *map(cost_version, brought_modes())))


@cache
def _code_digest(patterns: Iterable[str], more: Iterable[str] = ()) -> str:
    digest = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(_PACKAGES.glob(pattern)):
            digest.update(f"{path.relative_to(_PACKAGES)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    for text in more:
        digest.update(f"{text}\0".encode())
    return digest.hexdigest()[:16]


class _InputFacts(TypedDict):
    arguments: tuple[str, ...]
    environment: tuple[str, ...]
    stdin: str
    files: str


class Keys:
    """Makes the keys of jobs; every file is read once.

    A `Keys` must not outlive changes of the files.
    """

    def __init__(self) -> None:
        self._files: dict[Path, str] = {}
        self._directories: dict[Path, str] = {}

    def key(self, job: Job) -> CellKey:
        """Return the key of a job; raises UsageError if one of its files cannot be read."""
        current = versions()
        return CellKey(
            program=self._file(job.program),
            kind=job.cell.kind,
            setting=job.cell.setting.name,
            name=job.cell.benchmark,
            **self._input(job.given),
            max_instructions=job.max_instructions,
            simprof=current.simprof,
            engine=current.engine,
            cost_model=current.cost_model,
            rewriting=_code_digest(_REWRITING) if job.cell.kind.of_instrumented else "",
            guide="" if job.guide is None else digest(list(self._input(job.guide).values())),
        )

    def _input(self, given: Input) -> _InputFacts:
        return {
            "arguments": given.arguments,
            "environment": tuple(f"{name}={value}" for name, value in given.environment),
            "stdin": "" if given.stdin is None else self._file(given.stdin),
            "files": "" if given.root is None else self._directory(given.root),
        }

    def _file(self, path: Path) -> str:
        if path not in self._files:
            self._files[path] = given_file_sha256(path)
        return self._files[path]

    def _directory(self, root: Path) -> str:
        if root not in self._directories:
            if not root.is_dir():
                raise UsageError(f"{root} is not a directory: name one that exists")
            names = (path for path in sorted(root.rglob("*")) if path.is_file())
            facts = [(os.fsencode(p.relative_to(root)).hex(), self._file(p)) for p in names]
            self._directories[root] = digest(facts)
        return self._directories[root]


def missing_key(job: Job) -> CellKey:
    """Return the key of a job whose program is not there: that of its failure."""
    current = versions()
    setting = job.cell.setting.name
    return CellKey(
        "", job.cell.kind, setting, job.cell.benchmark, (), (), "", "", None,
        current.simprof, current.engine, current.cost_model,
    )  # fmt: skip


def row_key(job: Job, key: CellKey) -> str:
    """Return the digest under which the result of a job is stored."""
    cell = job.cell
    names = (job.suite, cell.benchmark, cell.build, cell.input)
    return digest([*names, *(getattr(key, name) for name in CellKey.__struct_fields__)])


def digest(facts: object) -> str:
    """Return a digest of what JSON can hold."""
    text = json.dumps(facts, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
