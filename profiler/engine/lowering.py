"""Plans -> what the kernel does on each edge.

The kernel keeps one segment register an activation for all schemes together (`segments`,
`products`). Edge counters need no kernel work at all, since the exact edge counts that every run
produces are their values. Routines are lowered when the program first crosses
one of their edges: most of a static program never runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.profiler.code.runtime.hash_routine import (
    BUCKETS,
    HASH_MULTIPLIER,
    HASH_SHIFT,
    HashCosts,
    hash_costs,
)
from simprof.profiler.code.runtime.word_hash_routine import WORD_COUNTS, word_hash_costs
from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import EngineMemory, HashWork, Operation
from simprof.profiler.engine.products import (
    Player,
    Products,
    RoutineProduct,
    hash_operation,
)
from simprof.profiler.engine.segments import (
    AddToSegment,
    BeginSegments,
    EndSegment,
    SegmentStep,
    segment,
)
from simprof.profiler.engine.variants import GraphVariant, Variants
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.simulator.binary.program import MachineKind

if TYPE_CHECKING:
    from simprof.profiler.engine.contexts import ContextCounting

Array = npt.NDArray[np.int64]
PathPlanner = Callable[[int], InstrumentationPlan | None]
"""Routine number -> one scheme's plan for it, None where it is not profiled."""


@dataclass(frozen=True)
class HashModel:
    """What the kernel must know of the hashing run-time routine (see `hash_routine`).

    `word_costs` are those for keys of 2 words and up (see `word_hash_routine`).
    """

    costs: HashCosts
    word_costs: tuple[HashCosts, ...] = ()
    buckets: int = BUCKETS
    multiplier: int = HASH_MULTIPLIER
    shift: int = HASH_SHIFT

    def words(self) -> Array:
        """Return the kernel's cost words: one row for each number of words that a key may have."""
        return np.concatenate([self._row(costs) for costs in (self.costs, *self.word_costs)])

    def _row(self, costs: HashCosts) -> Array:
        words = np.zeros(kernels.COST_WORDS, np.int64)
        words[kernels.COST_REMEMBERED] = costs.remembered
        words[kernels.COST_HIT] = costs.hit
        words[kernels.COST_INSERT] = costs.insert
        words[kernels.COST_BACK_HIT] = costs.back_edge_hit
        words[kernels.COST_BACK_INSERT] = costs.back_edge_insert
        words[kernels.COST_STEP] = costs.step
        words[kernels.BUCKET_MASK] = self.buckets - 1
        words[kernels.HASH_MULTIPLIER] = self.multiplier
        words[kernels.HASH_SHIFT] = self.shift
        return words


def hash_model(machine: MachineKind) -> HashModel:
    """Return what the kernel must know of the routines of `machine`."""
    several = tuple(word_hash_costs(machine, words) for words in WORD_COUNTS)
    return HashModel(hash_costs(machine), several)


class KnownProduct(NamedTuple):
    """A routine with its schemes in an earlier run of the same program."""

    # The graph, the plans by number of the player, and the edge weights that it was made of.
    cfg: ControlFlowGraph
    plans: dict[int, InstrumentationPlan]
    weights: Sequence[float] | None
    product: RoutineProduct  # the segments, and what the schemes do along those that were executed

    def fits(
        self,
        cfg: ControlFlowGraph,
        plans: dict[int, InstrumentationPlan],
        weights: Sequence[float] | None,
    ) -> bool:
        """Whether it is what would be made of these."""
        return (
            self.cfg is cfg
            and self.weights == weights
            and self.plans.keys() == plans.keys()
            and all(self.plans[slot] is plan for slot, plan in plans.items())
        )


KnownProducts = dict[tuple[int, str], KnownProduct]
"""By address and name of the routine."""


class Lowering:
    """Operations by edge, for one run.

    - `planners`: One for each scheme that counts paths.
    - `graphs`, `first_edge`: The routines; program-wide number of each one's edge 0, and the number
      of edges at the end.
    - `hash_model`: The hashing run-time routine.
    - `stack_mask`: All ones of the program's register width.
    - `weights`: Routine -> edge weights for its segmentation, None for a heuristic.
    - `keep_history`: See `Products`.
    - `known`: Routines of earlier runs under the same schemes, which this run takes over and adds
      to.
    - `contexts`: What counts by calling context; None: nothing does.
    - `variants`: What knows of routines whose graph depends on the run; None: there are none.
      `choose` then has to be told, when the run is over, which graphs they have.
    """

    def __init__(
        self,
        planners: Sequence[PathPlanner],
        graphs: Sequence[ControlFlowGraph],
        first_edge: Array,
        hash_model: HashModel,
        stack_mask: int,
        weights: Callable[[int], Sequence[float] | None] = lambda _: None,
        *,
        keep_history: bool = False,
        known: KnownProducts | None = None,
        contexts: ContextCounting | None = None,
        variants: Variants | None = None,
    ) -> None:
        self.stack_mask = stack_mask
        self._variants = variants
        self.contexts = contexts
        parts = {} if contexts is None else contexts.parts
        self.memory = EngineMemory(hash_model.words(), parts=parts)
        if contexts is not None:
            contexts.attach(self.memory)
        note = None if contexts is None else contexts.taken
        self.products = Products(self.memory, keep_history=keep_history, note=note)
        self._planners = planners
        self._known = {} if known is None else known
        self._graphs = graphs
        self._first_edge = first_edge
        self._first_edges = first_edge.data
        self._weights = weights
        self._lowered: set[int] = set()
        self._by_edge: dict[int, tuple[Operation, ...]] = {}
        self._tables: dict[tuple[int, int], int] = {}
        self._hashing: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Whether no edge of the program has operations."""
        return not self._planners and self.contexts is None

    def operations(self, edge: int) -> tuple[Operation, ...]:
        """Return what the kernel does on `edge` for all schemes together."""
        known = self._by_edge.get(edge)
        if known is not None:
            return known
        if self.is_idle:
            return ()
        routine = bisect_right(self._first_edges, edge) - 1
        if routine in self._lowered:
            return ()
        self._lowered.add(routine)
        self._lower(routine)
        return self._by_edge.get(edge, ())

    def hash_work(self, routine: int, slot: int) -> HashWork:
        """Return what the hashing routine did for a routine's table of a scheme."""
        table = self._tables.get((routine, slot), -1)
        return HashWork(0, 0) if table < 0 else self.memory.hash_work(table)

    def tables(self) -> dict[int, tuple[int, int]]:
        """Return the owner of each hash table by its number: a routine, and a scheme's slot."""
        owners = {}
        for (routine, number), table in self._tables.items():
            product = self.products.product(routine)
            slot = number if product is None else product.slot(number)
            if table >= 0 and slot is not None:
                owners[table] = routine, slot
        return owners

    def hash_works(self) -> dict[tuple[int, int], HashWork]:
        """(routine, slot) -> what the hashing routine did for that table; others have none."""
        tables = self.tables().items()
        return {owner: self.memory.hash_work(table) for table, owner in tables}

    def hashes_paths(self, routine: int) -> bool:
        """Whether a scheme keeps a hash table for the routine, as far as it has been lowered."""
        return routine in self._hashing

    def hashed_counts(self, routine: int, slot: int) -> dict[int, int] | None:
        """Return path number -> count in a routine's hash table; None if the scheme has none."""
        table = self._tables.get((routine, slot), -1)
        return None if table < 0 else self.memory.hashed_counts(table)

    def choose(self, routine: int, cfg: ControlFlowGraph) -> None:
        """Let only the schemes on `cfg` count, which a routine's graph has turned out to be."""
        product = self.products.product(routine)
        for place, variant in enumerate(self._variants_of(routine)):
            if product is not None and variant is not None and variant.cfg is cfg:
                first = place * len(self._planners)
                product.slots = {first + slot: slot for slot in range(len(self._planners))}
                product.variant = variant

    def _variants_of(self, routine: int) -> Sequence[GraphVariant | None]:
        """Return the graphs that a routine may have; None is the one that is known."""
        return (self._variants.of(routine) if self._variants is not None else ()) or (None,)

    def _plans(self, routine: int) -> dict[int, tuple[InstrumentationPlan, GraphVariant | None]]:
        """Return the plans that count paths in a routine by number of their player."""
        plans = {}
        for place, variant in enumerate(self._variants_of(routine)):
            for slot, plan_of in enumerate(self._planners):
                if variant is None or self._variants is None:
                    plan = plan_of(routine)
                else:
                    plan = self._variants.plan(slot, routine, variant)
                if plan is not None and plan.counts_paths:
                    plans[place * len(self._planners) + slot] = plan, variant
        return plans

    def _lower(self, routine: int) -> None:
        counting = self._plans(routine)
        if not counting and self.contexts is None:
            return
        product = self._product(routine, counting)
        players, segmentation = product.players, product.segmentation
        for slot, player in players.items():
            player.table = self._table(routine, slot, player.plan)
        start = self.products.add(routine, product)
        base = int(self._first_edge[routine])
        hashing = [player for player in players.values() if player.table >= 0]
        touched = {*segmentation.steps, *(e for p in hashing for e in p.acting_edges)}
        for edge in touched:
            fixed = [
                (*hash_operation(player.table, count, self.memory.hash_key(count.counter)), 1)
                for player in hashing
                for count in player.fixed_counts(edge)
            ]
            if self.contexts is not None and product.begins(edge):
                fixed.insert(0, self.contexts.begun(routine))
            steps = segmentation.steps.get(edge, ())
            operations = (*fixed, *(_operation(step, start) for step in steps))
            if operations:
                self._by_edge[base + edge] = operations

    def _product(
        self, routine: int, counting: dict[int, tuple[InstrumentationPlan, GraphVariant | None]]
    ) -> RoutineProduct:
        """Return the segments of a routine, and its schemes; those of an earlier run if it can."""
        cfg, weights = self._graphs[routine], self._weights(routine)
        name = cfg.address, cfg.name
        known = self._known.get(name)
        plans = {number: plan for number, (plan, _) in counting.items()}
        if known is None or not known.fits(cfg, plans, weights):
            players = {
                number: Player(cfg if own is None else own.cfg, plan, -1, own)
                for number, (plan, own) in counting.items()
            }
            cuts = frozenset().union(*(player.ending_edges() for player in players.values()))
            if self.contexts is not None:
                cuts |= depth_first(cfg).self_loops  # no edge may be in no segment
            product = RoutineProduct(segment(cfg, cuts, weights), players)
            known = self._known[name] = KnownProduct(cfg, plans, weights, product)
        return known.product

    def _table(self, routine: int, slot: int, plan: InstrumentationPlan) -> int:
        """Add a hash table for a scheme if it needs one; return its number, -1 for none."""
        table = self.memory.add_table(plan.key_words) if plan.table is CounterTable.HASH else -1
        self._tables[routine, slot] = table
        if table >= 0:
            self._hashing.add(routine)
        return table


def _operation(step: SegmentStep, start: int) -> Operation:
    match step:
        case BeginSegments(register):
            return kernels.BEGIN, register, start
        case AddToSegment(increment):
            return kernels.ADD, increment, 0
        case EndSegment(increment, register):
            return kernels.SEGMENT, increment, register


_OF_REGISTERS = (kernels.BEGIN, kernels.ADD, kernels.SEGMENT, kernels.HASH)
"""Operations that have nothing to do with register windows."""


def fuse(operations: Iterable[Operation]) -> list[Operation]:
    """Join operations where one does the work of two: neighbours, and calls with window moves."""
    fused: list[Operation] = []
    for operation in operations:
        partner = _partner(fused, operation)
        joined = _join(fused[partner], operation) if partner >= 0 else None
        if joined is None:
            fused.append(operation)
        else:
            fused[partner] = joined
    return fused


def _partner(fused: Sequence[Operation], operation: Operation) -> int:
    """Return the place of the operation that the next one may be joined with, -1 for none."""
    last = place = len(fused) - 1
    if operation[0] == kernels.WINDOW:
        while place >= 0 and fused[place][0] in _OF_REGISTERS:
            place -= 1
    return last if place < 0 else place


def _join(first: Operation, second: Operation) -> Operation | None:
    """One operation that does `first` then `second`, or None."""
    code, a, b = first
    next_code, c, d = second
    match code, next_code:
        case ((kernels.ADD | kernels.BEGIN), kernels.ADD):
            return code, a + c, b
        case kernels.CALL, kernels.WINDOW if b == 0:
            return code, a, c
        case kernels.ADD, kernels.WINDOW:
            return kernels.ADD_WINDOW, a, c
        case kernels.RETURN, kernels.WINDOW if a == 0:
            return code, c, b
        case kernels.SEGMENT, kernels.ADD:
            return code, a, b + c
        case kernels.ADD, kernels.SEGMENT:
            return next_code, a + c, d
    return None
