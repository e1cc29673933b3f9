"""Cells: the unit of every experiment, as values.

A *cell* is one program on one input under one setting. Tables and sweeps say which cells they
need (`Cell`, by names), a suite tells what is behind the names (`Job`, with files), `run`
runs jobs and makes a `CellDocument` from each, and `store` keeps them under their `CellKey`, which
holds everything that decides the result (`Keys`), so that nothing is run twice.

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
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypedDict

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from simprof.profiler.experiments.cells.settings import CellSetting
from simprof.profiler.experiments.suites.suite import DEFAULT_BUILD, NO_INPUT, Input
from simprof.profiler.profiles.codec import big_integers, decode, parse_json
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.fingerprint import given_file_sha256
from simprof.profiler.schemes.cost_model import cost_version, own_cost_version
from simprof.profiler.schemes.registry import brought, brought_modes
from simprof.simulator.errors import UsageError

COMPILER_INCREMENTS = "compiler_increments"
# Of EXECUTE cells: what the scheme's code was predicted to add in the routines with code in them,
# which is what `CellDocument.added` should be.
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


class RoutineFigures(Struct, frozen=True):
    """What columns of tables read of a routine: columns of the document's `routines`, which has
    more of them, and those of `code`, which the document of a run lacks.
    """

    # `code` is how a routine's instrumentation is made: bits of names, places, jumps. Papers have
    # tables about that; who profiles a program has the instructions that it costs.
    # Of RUN and ANALYSE cells these are entered routines; of PLAN cells all.
    symbol: str
    routine_address: str
    potential_paths: int
    table: str  # A `CounterTable`
    numbered_paths: int | None = None
    # instructions, added: Dynamic; 0 in PLAN and ANALYSE cells, as all increments and jumps are.
    instructions: int = 0
    added: int = 0
    # -- of `code`, which leaves out what is 0 --
    own: bool = False  # Whether it is the program's own (`library_sources.is_library_source`)
    # How many paths would be numbered without a path limit; None for modes that count no paths.
    untruncated_paths: int | None = None
    # instrumented_edges, no_jump_edges: Edges with code (and blocks with code: `qpt`'s counters in
    # blocks); those of them whose code needs no jump (BL94 table 2).
    instrumented_edges: int = 0
    no_jump_edges: int = 0
    # placed_blocks, placed_edges: Blocks and edges of the graph that counters were placed on: this
    # one, or BL94's of merged blocks.
    placed_blocks: int = 0
    placed_edges: int = 0
    # path_increments, hashed_increments, edge_increments: Of path counters; those of them that
    # called the hashing routine; of edge and block counters.
    path_increments: int = 0
    hashed_increments: int = 0
    edge_increments: int = 0
    hashing: int = 0  # Instructions inside the hashing routine
    jumps: int = 0  # Executed jumps that the code on edges needed (BL94 6.1)
    # name_bits, name_counters: Bits of the greatest name of a path, and counters of an array that
    # the names index (None: no word does); 0 where a scheme's names are not compared
    # (`Plan.names`).
    name_bits: int = 0
    name_counters: int | None = 0
    # self_loop_increments, self_loop_added: Of `edge_increments` those of self-loops, of `added`
    # what these execute; the latter of `pp` only.
    self_loop_increments: int = 0
    self_loop_added: int = 0
    counter_bytes: int = 0  # Of ANALYSE cells


# Placements of BL94 graph 4: a counter in every block, and the chords of a greatest and of a least
# spanning tree by BL94's heuristic and by this very run's edge counts; of a greatest by Goldberg's
# weights (BL94 7.1.4).
TREES = tuple("redundant heuristic-max heuristic-min exact-max exact-min postorder-max".split())


class _CellLists(Struct, frozen=True):
    """Lists of a document, merged."""

    routines: tuple[RoutineFigures, ...] = ()
    paths: Mapping[str, tuple[int, int]] = field(default_factory=dict)


# Parts of a document that are numbers by their names
_NUMBERS = "instructions counts sizes lost facts own_facts trees".split()
LARGEST_LISTS = 1 << 26  # Bytes of them, unpacked: a damaged or hostile file must not fill memory.


def pack(
    routines: Sequence[Mapping[str, Any]] = (),
    code: Sequence[Mapping[str, Any]] = (),
    paths: Mapping[str, tuple[int, int]] | None = None,
) -> bytes:
    """Return lists of a document as JSON, compressed: a suite has thousands of such documents.

    `code`: Of each routine, `RoutineFigures`' fields that `routines` lacks, but for those that are
    0. `paths`: Each executed whole path by a key that is the same in every run of the program: how
    often it was executed, and instructions of one execution (`path_facts`).
    """
    made = {"routines": routines, "code": code, "paths": paths or {}}
    with big_integers():
        return zlib.compress(json.dumps(made, separators=(",", ":")).encode(), 6)


def unpack(lists: bytes) -> bytes:
    """Return the JSON that `pack` compressed; raises ValueError if it is damaged or too large."""
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(lists, LARGEST_LISTS)
    except (TypeError, zlib.error) as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof:
        raise ValueError("a result is cut short or too large")
    return plain


# A table reads a program's routines again and again, column by column; all programs' would be too
# many.
@lru_cache(256)
def _read_lists(lists: bytes) -> _CellLists:
    try:
        plain = parse_json(unpack(lists))
        code = plain["code"] or ({} for _ in plain["routines"])
        routines = [{**row, **more} for row, more in zip(plain["routines"], code, strict=True)]
        return decode(_CellLists, {"routines": routines, "paths": plain["paths"]}, "result")
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise UsageError(f"a result in the results file is damaged ({error})") from None


class CellDocument(Struct, frozen=True):
    """What a cell found: the JSON document that `run --json` writes, or as much of it as cells of
    its kind have, with an `error` where something went wrong.

    It names no files of this machine, and lacks the lists of edges, blocks and paths, which no
    column reads: of large programs they have megabytes. docs/EXPERIMENTS.md has what it has besides
    (The file).
    """

    document: Mapping[str, Any]
    lists: bytes = pack()  # See `pack`
    # Seconds of wall-clock time, which differ from run to run; not compared. `run`: of the cell's
    # whole group. `recovery`, `planning`, `generation` (PLAN and ANALYSE cells): recovering all
    # graphs (the least of several times), planning routines, generating their code. `original`,
    # `instrumented`, `simulated` (TIME cells): processor time of the program, of the instrumented
    # one (None without qemu-user), of a simulated run. `peak_memory`: bytes of the worker.
    timing: Mapping[str, float | None] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CellDocument) and astuple(self)[:-1] == astuple(other)[:-1]

    @classmethod
    def checked(cls, document: Any, lists: bytes, timing: Any) -> CellDocument:
        """Return what a file has; raises ValueError if it has other types than documents have."""
        if not isinstance(document["error"], str | None):
            raise ValueError("error is no text")
        for name in _NUMBERS:
            decode(dict[str, int], document.get(name, {}), name)
        made = cls(document, lists, decode(dict[str, float | None], timing, "timing"))
        _ = made.base, made.added
        return made

    def but(self, **changed: Any) -> CellDocument:
        """Return the same with other parts of the document."""
        return replace(self, document={**self.document, **changed})

    def timed(self, **seconds: float | None) -> CellDocument:
        """Return the same with more times."""
        return replace(self, timing={**self.timing, **seconds})

    def part(self, name: str) -> Mapping[str, Any]:
        """Return a part of the document that has names; {} where there is none."""
        found: Mapping[str, Any] = self.document.get(name) or {}
        return found

    @property
    def error(self) -> str | None:
        """One line; a program that ended wrongly has its numbers all the same."""
        error: str | None = self.document["error"]
        return error

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return self.error is not None

    @property
    def base(self) -> int:
        """Instructions of the uninstrumented run."""
        return int(self.document["instructions"]["base"])

    @property
    def added(self) -> int:
        """Those of the scheme's code: predicted, in EXECUTE cells executed."""
        return int(self.document["instructions"]["added"])

    @property
    def counts(self) -> Mapping[str, int]:
        """How often what happened."""
        return self.part("counts")

    @property
    def sizes(self) -> Mapping[str, int]:
        """What the scheme takes."""
        return self.part("sizes")

    @property
    def routines(self) -> tuple[RoutineFigures, ...]:
        """Its routines by address."""
        return _read_lists(self.lists).routines

    @property
    def paths(self) -> Mapping[str, tuple[int, int]]:
        """The executed paths (see `pack`)."""
        return _read_lists(self.lists).paths

    @property
    def overhead(self) -> float:
        """Added instructions per instruction of the uninstrumented run."""
        return self.added / self.base if self.base else 0.0

    @property
    def attributed(self) -> float | None:
        """Attribution of definite flow, 0 to 1 (TPP 5); None where no mode judged it."""
        lost = self.part("lost")
        flow = lost.get("flow_blocks", 0)
        if not flow:
            return None
        wrong: int = lost["overcounted_blocks"] + lost["undercounted_blocks"]
        return 1 - wrong / int(flow)


def found(base: int = 0, added: int = 0, error: str | None = None, **parts: Any) -> dict[str, Any]:
    """Return the document of a cell that is not just a run."""
    return {"error": error, "instructions": {"base": base, "added": added}, **parts}


def failure(message: str) -> CellDocument:
    """Return the document of a cell that could not be run; `message` is made one line."""
    return CellDocument(found(error=" ".join(message.split())))


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
