"""Counters and their decoders; the base class of plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, field

from simprof.profiler.graphs.cfg import ControlFlowGraph, VertexName
from simprof.profiler.graphs.paths import PathPiece, PathRecord
from simprof.profiler.plan.actions import TakenPart, WriteTrace
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.simulator.errors import UsageError


class UnfinishedPath(Struct, frozen=True):
    """Activations that ended early in `block` with these path registers, `count` of them."""

    block: int
    registers: tuple[int, ...]
    # The path counter that they incremented last where `block` is in the plan's `counted_region`
    last: int | None
    count: int

    def counted_ahead(self, cfg: ControlFlowGraph) -> int:
        """Return the counter of a path that was to be counted ahead; ValueError if none was."""
        if self.last is None:
            raise ValueError(f"{cfg.name}: block {self.block} reached without a count")
        return self.last


class RoutineCounters(Struct, frozen=True):
    """What one scheme's counters hold for one routine after a run: all that a decoder may read."""

    # Path counter -> value, where that is not 0 (named ones, below 0, among them). Those of OWN
    # tables are in the order in which they were first counted.
    paths: Mapping[int, int]
    events: tuple[int, ...]  # Values of the plan's `CountEdge` counters
    # Block id -> activations that ended early in it (BL94 3.2, EPP 3.6).
    early: Mapping[int, int] = field(default_factory=dict)
    # The same activations with their registers; empty where the plan counts no paths.
    unfinished: tuple[UnfinishedPath, ...] = ()
    # How many of the increments of path counters called the hashing routine.
    hashed_increments: int = 0
    hash_instructions: int = 0  # Executed in the hashing routine, or that of an OWN table
    # How often conditional parts of code were executed (`plan.Execution.take`).
    taken: Mapping[TakenPart, int] = field(default_factory=dict)

    @property
    def finished_paths(self) -> dict[int, int]:
        """Path counter -> executions, where not 0: counts ahead of an early end are taken back."""
        paths = Counter(self.paths)
        for end in self.unfinished:
            if end.last is not None:
                paths[end.last] -= end.count
        return {counter: count for counter, count in sorted(paths.items()) if count}

    @property
    def unnamed(self) -> int:
        """How many different counters without names were incremented."""
        return sum(counter >= 0 for counter in self.paths)

    @property
    def path_increments(self) -> int:
        """How often path counters were incremented."""
        return sum(self.paths.values())

    @property
    def largest(self) -> int:
        """The largest counter."""
        return max([*self.paths.values(), *self.events], default=0)


class Reading(Struct, frozen=True):
    """The profile that a scheme's counters give of one routine."""

    # Count by edge id, derived from the counters alone; None for an edge whose count they do not
    # tell, or in place of all. Of a scheme that estimates, how often samples executed the edge.
    edges: tuple[int | None, ...] | None
    # Count by block id where the counters tell these but not the edges; None for a block whose
    # count they do not tell.
    blocks: tuple[int | None, ...] | None = None
    # Path number -> count of finished paths, counts taken ahead of an early end taken back.
    paths: Mapping[int, int] = field(default_factory=dict)
    # Unfinished paths with their counts.
    partial: Mapping[PathRecord, int] = field(default_factory=dict)
    # What the scheme is known to have lost, by name ("cold_paths": path executions).
    lost: Mapping[str, int] = field(default_factory=dict)
    # How much of each of these is known from an edge profile, and not from counters.
    inferred: Mapping[str, int] = field(default_factory=dict)

    @property
    def all_edges(self) -> tuple[int, ...] | None:
        """Counts of all edges, None where one is not known."""
        if self.edges is None or None in self.edges:
            return None
        return cast(tuple[int, ...], self.edges)


class PathNames(Struct, frozen=True):
    """What distinguishing a routine's paths takes."""

    # Of the greatest name (number, or code) of a path; of codes of several words, of all words.
    bits: int
    counters: int | None  # Of an array that the names index; None where they have several words.


class LoopLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """A loop whose paths span fewer iterations than were asked for (k of `kiter`)."""

    head: VertexName
    # asked, iterations: k that was asked for, and that it got.
    asked: int
    iterations: int
    reason: str  # In a word or two: "irreducible", "path limit"

    def __str__(self) -> str:
        return f"{self.head}: {self.iterations} of {self.asked} ({self.reason})"


# What guides the plan of a routine: counts by edge id, or by path.
RoutineGuide = Sequence[int] | Mapping[PathPiece, int]


class Plan(Struct, frozen=True):
    """One scheme on one routine: what to do on which edge, and how to read the counters.

    Every scheme overrides `read`. What else it overrides depends on what it collects: see the
    groups of members, whose defaults are those of a plan that has nothing of the kind.
    """

    cfg: ControlFlowGraph  # The routine
    plan: InstrumentationPlan  # The actions
    weights: tuple[float, ...]  # The edge weights that guided the placement, by edge id

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive the profile from the counters."""
        raise NotImplementedError

    def validate(self) -> None:
        """Raise AssertionError if any structure of the plan is not as it must be."""

    def describe(self) -> dict[str, Any]:
        """Return what the plan was made from: `static` of `simprof explain`."""
        return {}

    @property
    def placed_on(self) -> ControlFlowGraph:
        """The graph whose blocks and edges the plan chose counters from."""
        return self.cfg

    # Of schemes that count paths

    @property
    def num_paths(self) -> int:
        """Number of paths that the plan tells apart."""
        return 0

    @property
    def untruncated_paths(self) -> int | None:
        """Number of paths that it would tell apart without a path limit; None: EPP's."""
        return None

    @property
    def blocks_of_all_paths(self) -> int | None:
        """How many blocks all paths have together; None where only listing them tells."""
        return None

    @property
    def cut_edges(self) -> tuple[int, ...]:
        """Ids of edges that end paths and are no back edges."""
        return ()

    @property
    def split_edges(self) -> Collection[int]:
        """Ids of all edges at which paths end, back edges other than self-loops excepted."""
        return self.cut_edges

    def decode(self, path_id: int) -> PathRecord:
        """Return the path that counter `path_id` counts; ValueError if there is none."""
        raise ValueError(f"{self.cfg.name} has no path {path_id}")

    def numbered_paths(self) -> Iterator[tuple[int, PathRecord]]:
        """Yield every path that the plan tells apart, with its number."""
        return iter(())

    def number_of(self, counter: int) -> int | None:
        """Return the number of the path that a counter counts; None: it is of no single path."""
        stray = self.plan.first_stray
        return counter if counter >= 0 and (stray is None or counter < stray) else None

    @property
    def names(self) -> PathNames:
        """How large the names of paths are, where these can be compared with others' (EPP 2)."""
        return PathNames(0, 0)

    @property
    def most_iterations(self) -> int | None:
        """How many iterations of a loop a path spans at most (k); None: no such limit."""
        return None

    @property
    def limits(self) -> tuple[LoopLimit, ...]:
        """The loops whose paths span fewer iterations than were asked for."""
        return ()

    # Of schemes that a profile guides

    @property
    def edge_profile(self) -> Sequence[int] | None:
        """The edge profile that guided the plan, by edge id; None: none did."""
        return None

    @property
    def unit_flow(self) -> int | None:
        """How many paths the program began (`PlanOrder.unit_flow`); None: that guides nothing."""
        return None

    def is_obvious(self, path_id: int) -> bool:
        """Whether path `path_id` has no counter: its count comes from the edge profile."""
        return False

    @property
    def path_profile(self) -> Mapping[PathPiece, int] | None:
        """The path profile that guided the plan (`PlanOrder.path_counts`); None: none did."""
        return None

    def is_profile_of(self, reading: Reading) -> bool:
        """Whether a reading has the counts of `path_profile`, as far as it tells."""
        return True

    # Of schemes that write a trace

    @property
    def tokens(self) -> Mapping[int, WriteTrace]:
        """Edge id -> what crossing the edge appends to the trace."""
        return {}

    def written(self, crossings: Sequence[int]) -> int:
        """Tokens that it writes when each edge is crossed so often, by edge id."""
        return 0

    def trace_sizes(self, crossings: Sequence[int]) -> Mapping[str, int]:
        """Return how many bits of trace it writes when each edge is crossed so often, by edge id:
        `trace_bits` of tokens of standard widths, `minimal_trace_bits` of as few bits as possible.
        """
        return {}


def check_shape(plan: Plan, mode: str, reading: Reading) -> None:
    """Check that a decoder's counts are one for each edge and block;
    UsageError naming the scheme and the module of its decoder, which is what has to be corrected.
    """
    cfg = plan.cfg
    fault = ""
    if reading.edges is not None and len(reading.edges) != len(cfg.edges):
        fault = f"counts of {len(reading.edges)} edges, not of {len(cfg.edges)}"
    elif reading.blocks is not None and len(reading.blocks) != len(cfg.blocks):
        fault = f"counts of {len(reading.blocks)} blocks, not of {len(cfg.blocks)}"
    if fault:
        kind = type(plan)
        decoder = f"{kind.__qualname__}.read in module {kind.__module__}"
        raise UsageError(f"{cfg.name}: mode {mode}: its decoder ({decoder}) returns {fault}")


def defect_of(plan: Plan | None) -> str:
    """Return what is at fault where a plan's counts are wrong: simprof, or another module."""
    module = "simprof" if plan is None else type(plan).__module__
    if module.partition(".")[0] == "simprof":
        return "simprof, please report"
    return f"the scheme in module {module}, or of simprof: please report"


def path_counts(decoder: Plan, counters: RoutineCounters) -> dict[PathPiece, int]:
    """Return how often each finished path was executed, as a guide of other schemes' plans."""
    paths = decoder.read(counters).paths.items()
    records = ((decoder.decode(path), count) for path, count in paths)
    return {(record.blocks, record.edges): count for record, count in records}
