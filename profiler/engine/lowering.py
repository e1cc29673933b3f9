"""Plans -> what the kernel does on each edge.

The kernel keeps one segment register an activation for all schemes together (`segments`,
`products`). Edge counters need no kernel work at all, since the exact edge counts that every run
produces are their values. Routines are lowered when the program first crosses
one of their edges: most of a static program never runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import dropwhile
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine import kernels, walk_kernel
from simprof.profiler.engine.memory import EngineMemory, HashWork, Operation
from simprof.profiler.engine.products import (
    Products,
    RoutineProduct,
    hash_operation,
)
from simprof.profiler.engine.segments import Player, segment
from simprof.profiler.engine.walk import Cross, Land, Pop, Push, Step, only_crosses
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan.actions import Guard
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.engine.contexts import ContextCounting

_CODE = 0xFF  # What of the first word of an operation says what it does
Array = npt.NDArray[np.int64]
# Routine number -> one scheme's plan for it, None where it is not profiled.
PathPlanner = Callable[[int], InstrumentationPlan | None]


def cost_words(machine: MachineKind) -> Array:
    """Return what the kernel must know of the hashing routine (`hash_routine`) of `machine`."""
    from simprof.profiler.code import hash_routine  # where no scheme counts, nobody asks

    # One row for each number of words that a key may have.
    rows = np.zeros((len(hash_routine.WORD_COUNTS), kernels.COST_WORDS), np.int64)
    for row, words in zip(rows, hash_routine.WORD_COUNTS, strict=True):
        costs = hash_routine.hash_costs(machine, words)
        row[kernels.COST_REMEMBERED] = costs.remembered
        row[kernels.COST_HIT] = costs.hit
        row[kernels.COST_INSERT] = costs.insert
        row[kernels.COST_BACK_HIT] = costs.back_edge_hit
        row[kernels.COST_BACK_INSERT] = costs.back_edge_insert
        row[kernels.COST_STEP] = costs.step
    rows[:, kernels.BUCKET_MASK] = hash_routine.BUCKETS - 1
    rows[:, kernels.HASH_MULTIPLIER] = hash_routine.HASH_MULTIPLIER
    rows[:, kernels.HASH_SHIFT] = hash_routine.HASH_SHIFT
    return rows.ravel()


class Lowering:
    """Operations by edge, for one run."""

    # `planners`: One for each scheme that counts paths.
    # `graphs`, `first_edge`: The routines; program-wide number of each one's edge 0, and the number
    # of edges at the end.
    # `costs`: Of the hashing run-time routine (`cost_words`).
    # `stack_mask`: All ones of the program's register width.
    # `weights`: Routine -> edge weights for its segmentation, None for a heuristic.
    # `keep_history`: See `Products`.
    # `contexts`: What counts by calling context; None: nothing does.

    def __init__(
        self,
        planners: Sequence[PathPlanner],
        graphs: Sequence[ControlFlowGraph],
        first_edge: Array,
        costs: Array,
        stack_mask: int,
        weights: Callable[[int], Sequence[float] | None] = lambda _: None,
        *,
        keep_history: bool = False,
        contexts: ContextCounting | None = None,
    ) -> None:
        self.stack_mask = stack_mask
        self.contexts = contexts
        self.memory = EngineMemory(costs)
        note = None if contexts is None else contexts.taken
        self.products = Products(self.memory, keep_history=keep_history, note=note)
        if contexts is not None:
            contexts.attach(self.memory, self.products)
        self._planners = planners
        self._graphs = graphs
        self._first_edges = first_edge.data
        self._weights = weights
        # Where the walk kernel looks: by edge, the place of its operations in `pool`, and how many
        # these are; -1 where its routine has not been lowered yet.
        self.lists = np.full(int(first_edge[-1]), -1, np.int64)
        self.pool = np.zeros(kernels.OPERATION << 10, np.int64)
        self._pooled = 0  # words of it that are in use
        self._tables: dict[tuple[int, int], int] = {}
        self._own_tables: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Whether no edge of the program has operations."""
        return not self._planners and self.contexts is None

    def operations(self, edge: int) -> tuple[Operation, ...]:
        """Return what the kernel does on `edge` for all schemes together."""
        if self.is_idle:
            return ()
        self.lower_at(edge)
        place, count = divmod(int(self.lists[edge]), 1 << walk_kernel.COUNT_BITS)
        rows = self.pool.reshape(-1, kernels.OPERATION)[place : place + count]
        return tuple([(code, a, b) for code, a, b in rows.tolist()])

    def lower_at(self, edge: int) -> None:
        """Lower the routine that an edge is in, once."""
        if self.lists[edge] < 0:
            routine = bisect_right(self._first_edges, edge) - 1
            first, last = self._first_edges[routine : routine + 2]
            self.lists[first:last] = 0
            self._lower(routine, first)

    def tables(self) -> dict[int, tuple[int, int]]:
        """Return the owner of each hash table by its number: a routine, and a scheme's slot."""
        return {table: owner for owner, table in self._tables.items() if table >= 0}

    def hash_works(self) -> dict[tuple[int, int], HashWork]:
        """(routine, slot) -> what the hashing routine did for that table; others have none."""
        return {owner: self.memory.hash_work(table) for table, owner in self.tables().items()}

    def entries(self, table: int) -> dict[int, int]:
        """Return path number -> count of an OWN table in order of first counts, of others none."""
        own = table in self._own_tables
        return self.memory.table_entries(table) if own else {}

    def _plans(self, routine: int) -> dict[int, InstrumentationPlan]:
        plans = ((slot, plan_of(routine)) for slot, plan_of in enumerate(self._planners))
        return {slot: plan for slot, plan in plans if plan is not None and plan.counts_paths}

    def _lower(self, routine: int, first_edge: int) -> None:
        counting = self._plans(routine)
        if not counting and self.contexts is None:
            return
        product = self._product(routine, counting)
        product.tables = {slot: self._table(routine, slot, plan) for slot, plan in counting.items()}
        start = self.products.add(routine, product)
        by_edge = self._made(routine, product)
        operations = [operation for each in by_edge.values() for operation in each]
        words = np.array(operations, np.int64).reshape(-1, kernels.OPERATION)
        words[words[:, 0] & _CODE == kernels.BEGIN, 2] = start
        while self._pooled + words.size > len(self.pool):
            self.pool = np.concatenate((self.pool, np.zeros_like(self.pool)))
        self.pool[self._pooled : self._pooled + words.size] = words.ravel()
        place = self._pooled // kernels.OPERATION
        for edge, each in by_edge.items():
            self.lists[first_edge + edge] = place << walk_kernel.COUNT_BITS | len(each)
            place += len(each)
        self._pooled += words.size

    def _made(self, routine: int, product: RoutineProduct) -> dict[int, tuple[Operation, ...]]:
        """Return the operations of a routine's own edges, which begin in no state yet."""
        by_edge, players = product.segmentation.steps, product.players
        hashing = [(table, players[slot]) for slot, table in product.tables.items() if table >= 0]
        fixed: dict[int, list[Operation]] = {}
        for table, player in hashing:
            for edge, count in player.fixed_counts():
                operation = hash_operation(table, count, self.memory.hash_key(count.counter))
                fixed.setdefault(edge, []).append((*operation, 1))
        # Edges on which more is done than the steps of the segmentation
        touched = {edge for slot in product.guarded for edge in players[slot].plan.guards}
        touched = touched & by_edge.keys() | fixed.keys()
        if self.contexts is not None:
            touched |= set(filter(product.begins, by_edge))
        for edge in touched:
            begins = product.begins(edge)
            first = [] if self.contexts is None or not begins else [self.contexts.begun(routine)]
            steps, guards = by_edge.get(edge, ()), self._guards(product, edge)
            # A guard's flag belongs to the segment that its edge begins, or else to that it ends.
            ordered = (*steps, *guards) if begins else (*guards, *steps)
            by_edge[edge] = (*first, *fixed.get(edge, ()), *ordered)
        return by_edge

    def _product(self, routine: int, plans: dict[int, InstrumentationPlan]) -> RoutineProduct:
        """Return the segments of a routine, and its schemes."""
        cfg, weights = self._graphs[routine], self._weights(routine)
        players = {slot: Player(cfg, plan) for slot, plan in plans.items()}
        cuts = frozenset().union(*(player.ending_edges() for player in players.values()))
        if self.contexts is not None:  # each edge is in a segment
            cuts |= depth_first(cfg).self_loops
        flags = 2 * sum(bool(plan.guards) for plan in plans.values())
        return RoutineProduct(segment(cfg, cuts, weights, flags), players)

    def _guards(self, product: RoutineProduct, edge: int) -> list[Operation]:
        """Return the operations of the guards on an edge, of all schemes."""
        operations = []
        for slot in product.guarded:
            guard = product.players[slot].plan.guards.get(edge)
            if guard is not None:
                places = [self.memory.program_word((slot, word)) for word in guard.words]
                flag = product.flag(slot, edge)
                operations.append(guard_operation(guard, places, flag))
        return operations

    def _table(self, routine: int, slot: int, plan: InstrumentationPlan) -> int:
        table = self.memory.add_table(plan.key_words) if plan.counts_in_order else -1
        self._tables[routine, slot] = table
        if plan.table is CounterTable.OWN:
            self._own_tables.add(table)
        return table


def guard_operation(guard: Guard, places: Sequence[int], flag: int) -> Operation:
    """Return the operation of a guard whose words are at `places`, and which lets pass by `flag`;
    UsageError if its numbers are too great.
    """
    code, interval = kernels.GUARD | flag << kernels.TABLE_SHIFT, guard.interval
    if guard.burst is None:
        return code, places[0], interval
    _, samples, stride = guard.burst
    if max(samples, stride) >= kernels.BURST_LIMIT or interval >> kernels.BURST_SHIFT:
        raise UsageError(
            f"a burst has fewer than {kernels.BURST_LIMIT:,} samples, with a stride below that"
        )
    more = stride | samples << kernels.STRIDE_BITS
    shift = kernels.BURST_SHIFT
    return code, places[0] | places[1] << shift, interval | more << shift


# -- Operations of a transition
#
# Each list of operations is added once. Lists for nothing but edges mean the same wherever they
# stand, and are found by what is in them. Others are found by their steps: Python may be asked for
# more about them when the kernel stops there.


class StepOperations:
    """The lists of operations of one run."""

    def __init__(
        self,
        lowering: Lowering,
        # Steps of the list that an operation is in that native code has made (`native_walk`)
        learnt: Callable[[int], tuple[Step, ...]] = lambda _: (),
    ) -> None:
        # By number of a SLOW operation: where control lands. See `landing`.
        self._landings: dict[int, Land] = {}
        # By number of a MARK operation: the steps from there on.
        self.marks: dict[int, tuple[Step, ...]] = {}
        # By number of a RETURN operation: the steps of its list. See `after_pop`.
        self._popping: dict[int, tuple[Step, ...]] = {}
        self._learnt = learnt
        self._lowering = lowering
        self._memory = lowering.memory
        self._notes = lowering.contexts
        self._is_idle = lowering.is_idle
        self._by_steps: dict[tuple[tuple[Step, ...], tuple[Operation, ...]], int] = {}
        self._by_content: dict[tuple[Operation, ...], int] = {(): 0}

    def number(
        self,
        steps: tuple[Step, ...],
        then: tuple[Operation, ...] = (),
        trace: TraceSink | None = None,
    ) -> int:
        """Return the number of the first operation that the kernel executes for `steps`."""
        # After them it executes `then`. 0 where there is nothing to do.
        if trace is None and only_crosses(steps):
            return self._alike(then if self._is_idle else (*self._lower(steps, None), *then))
        known = self._by_steps.get((steps, then))
        if known is not None:
            return known
        first, operations = self._memory.add_joined((*self._lower(steps, trace), *then))
        self._by_steps[steps, then] = first
        for number, (word, place, _) in enumerate(operations.tolist(), first):
            code = word & _CODE
            if code == kernels.SLOW:
                landing = steps[place]
                assert isinstance(landing, Land)
                self._landings[number] = landing
            elif code == kernels.MARK:
                self.marks[number] = steps[place:]
            elif code == kernels.RETURN:
                self._popping[number] = steps
        return first

    def landing(self, operation: int) -> Land:
        """Return where control lands by SLOW operation number `operation`."""
        return self._landings[operation]

    def after_pop(self, operation: int) -> tuple[int, ...]:
        """Return the edges that are crossed behind the return that an operation is."""
        # It has none where it is no RETURN operation.
        if operation in self._landings:
            return ()
        steps = self._popping.get(operation) or self._learnt(operation)
        behind = dropwhile(lambda step: not isinstance(step, Pop), steps)
        return tuple(step.edge for step in behind if isinstance(step, Cross))

    def _alike(self, operations: tuple[Operation, ...]) -> int:
        known = self._by_content.get(operations)
        if known is None:
            known = self._by_content[operations] = self._memory.add_joined(operations)[0]
        return known

    def _lower(self, steps: Sequence[Step], trace: TraceSink | None) -> list[Operation]:
        operations: list[Operation] = []
        for place, step in enumerate(steps):
            if trace is not None:
                operations += trace.operations(steps, place)
            match step:
                case Cross(edge):
                    operations += self._lowering.operations(edge)
                case Push(return_address):
                    operations.append((kernels.CALL, return_address, 0))
                    if self._notes is not None:
                        operations += self._notes.pushed(return_address)
                case Pop():
                    operations.append((kernels.RETURN, 0, 0))
                case Land():
                    operations.append((kernels.SLOW, place, 0))
        return operations


# -- Traces
#
# The kernel appends the tokens of edges to a buffer without asking anybody. Python reports which
# operations do that (`operations`), that the kernel stopped for the trace (`drain`, `mark`), and
# what happened where Python took over from the kernel: between `begin_event` and `end_event`
# control moves in ways that no reader of the trace could find.


class TraceSink(Protocol):
    """Writes a trace of one run. Edges and blocks have their program-wide numbers."""

    def operations(self, steps: Sequence[Step], place: int) -> list[Operation]:
        """Return what the kernel does for the trace when the program takes `steps[place]`."""

    def drain(self) -> None:
        """Do what the kernel stopped for: its buffer is full, or a checkpoint is due."""

    def mark(self, steps: Sequence[Step], frame: int, block: int) -> None:
        """Note that `steps` come next, which the code does not tell."""
        # The kernel stopped at a MARK operation with the activation at `frame` in `block`.

    def crossed(self, edge: int) -> None:
        """Python crosses `edge` on behalf of the program."""

    def begin_event(self, block: int) -> None:
        """Python takes over while the current activation is in `block`, -1 if in none."""

    def end_event(self, frame: int, block: int) -> None:
        """Note that the kernel goes on with the activation at `frame`, in `block`."""

    def end(self) -> None:
        """Note that the run is over."""
