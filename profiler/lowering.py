"""Plans -> what the kernel does on each edge, and where its counters live.

One path register and one counter area per scheme that has registers; edge counters
(`CountEdge`) need no kernel work at all, since the exact edge counts that every run produces are
their values (DESIGN section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler import kernels
from profiler.hash_routine import BUCKETS, HASH_MULTIPLIER, HASH_SHIFT, HashCosts
from profiler.plan import (
    Action,
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    InstrumentationPlan,
    SetRegister,
    Table,
)

Operation = tuple[int, int, int]
Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CounterArea:
    """Where the path counters of one routine under one scheme are.

    ARRAY: counters `base .. base + size - 1`. HASH: kernel table number `table`.
    """

    base: int
    size: int
    table: int


@dataclass(frozen=True)
class HashModel:
    """What the kernel must know of the hashing run-time routine (see `hash_routine`)."""

    costs: HashCosts
    buckets: int = BUCKETS
    multiplier: int = HASH_MULTIPLIER
    shift: int = HASH_SHIFT


class Lowering:
    """Operations by edge and the layout of the counters, for one run.

    Routines are planned when the program first crosses one of their edges: most of a static
    program never runs.

    Parameters
    ----------
    planners
        One a path register: routine number -> its plan, None where it is not profiled.
    first_edge
        Program-wide number of each routine's edge 0, and the number of edges at the end.
    stack_mask
        All ones of the program's register width.
    """

    def __init__(
        self,
        planners: Sequence[Callable[[int], InstrumentationPlan | None]],
        first_edge: Array,
        hash_model: HashModel,
        stack_mask: int,
    ) -> None:
        self.registers = len(planners)
        self.stack_mask = stack_mask
        self.counters = 0
        self.tables = 0
        self.areas: list[dict[int, CounterArea]] = [{} for _ in planners]
        self._planners = planners
        self._first_edge = first_edge
        self._hash = hash_model
        self._planned: set[int] = set()
        self._by_edge: dict[int, tuple[Operation, ...]] = {}

    def _plan(self, routine: int) -> None:
        self._planned.add(routine)
        base = int(self._first_edge[routine])
        for slot, planner in enumerate(self._planners):
            plan = planner(routine)
            if plan is None:
                continue
            area = self.areas[slot][routine] = self._place(plan)
            for edge, actions in plan.actions.items():
                operations = lower(actions, slot, area)
                if operations:
                    name = base + edge
                    self._by_edge[name] = (*self._by_edge.get(name, ()), *operations)

    def _place(self, plan: InstrumentationPlan) -> CounterArea:
        if plan.table is Table.HASH:
            self.tables += 1
            return CounterArea(0, 0, self.tables - 1)
        size = plan.path_counters if plan.table is Table.ARRAY else 0
        area = CounterArea(self.counters, size, -1)
        self.counters += size
        return area

    def operations(self, edge: int) -> tuple[Operation, ...]:
        """What the kernel does on `edge`, all schemes together."""
        routine = int(np.searchsorted(self._first_edge, edge, "right")) - 1
        if routine not in self._planned:
            self._plan(routine)
        return self._by_edge.get(edge, ())

    @property
    def heads(self) -> int:
        """Bucket heads of all hash tables."""
        return self.tables * self._hash.buckets

    def table_header(self, table: int) -> list[int]:
        """Header words of the empty hash table number `table`."""
        header = [0] * kernels.TABLE_WORDS
        header[kernels.TABLE_HEADS] = table * self._hash.buckets
        return header

    def costs(self) -> Array:
        """The cost words of the hashing routine."""
        words = np.zeros(kernels.COST_WORDS, np.int64)
        costs = self._hash.costs
        words[kernels.COST_REMEMBERED] = costs.remembered
        words[kernels.COST_HIT] = costs.hit
        words[kernels.COST_INSERT] = costs.insert
        words[kernels.COST_BACK_HIT] = costs.back_edge_hit
        words[kernels.COST_BACK_INSERT] = costs.back_edge_insert
        words[kernels.COST_STEP] = costs.step
        words[kernels.BUCKET_MASK] = self._hash.buckets - 1
        words[kernels.HASH_MULTIPLIER] = self._hash.multiplier
        words[kernels.HASH_SHIFT] = self._hash.shift
        return words

    def fuse(self, operations: Iterable[Operation]) -> list[Operation]:
        """Join neighbouring operations where one does the work of two."""
        fused: list[Operation] = []
        for operation in operations:
            joined = _join(fused[-1], operation) if fused else None
            if joined is None:
                fused.append(operation)
            else:
                fused[-1] = joined
        return fused


_REGISTER = kernels.REGISTER_MASK << kernels.REGISTER_SHIFT


def _join(first: Operation, second: Operation) -> Operation | None:
    """One operation that does `first` then `second`, or None."""
    code, a, _ = first
    next_code, c, _ = second
    if code & _REGISTER != next_code & _REGISTER:
        return None
    rest = code & ~0xFF
    match code & 0xFF, next_code & 0xFF:
        case kernels.ADD, kernels.ADD:
            return (code, a + c, 0)
        case kernels.SET, kernels.ADD:
            return (code, a + c, 0)
        case ((kernels.ADD | kernels.SET), kernels.SET):
            return second
        case kernels.COUNT, kernels.SET:
            return (rest | kernels.COUNT_SET, a, c)
        case kernels.HASH, kernels.SET:
            return (rest | kernels.HASH_SET, a, c)
        case ((kernels.COUNT_SET | kernels.HASH_SET), kernels.ADD):
            return (code, a, first[2] + c)
        case ((kernels.COUNT_SET | kernels.HASH_SET), kernels.SET):
            return (code, a, c)
    return None


def _table(area: CounterArea, on_back_edge: bool) -> int:
    """The bits of an operation that name its hash table and the variant of the routine."""
    return area.table << kernels.TABLE_SHIFT | (kernels.HASH_BACK_EDGE if on_back_edge else 0)


def lower(actions: Iterable[Action], slot: int, area: CounterArea) -> tuple[Operation, ...]:
    """Kernel operations for the actions of one edge, on path register `slot`."""
    register = (kernels.FRAME_REGISTERS + 2 * slot) << kernels.REGISTER_SHIFT
    return tuple(
        operation
        for action in actions
        if (operation := _lower_one(action, register, area)) is not None
    )


def _lower_one(action: Action, register: int, area: CounterArea) -> Operation | None:
    match action:
        case SetRegister(constant):
            return (kernels.SET | register, constant, 0)
        case AddRegister(constant):
            return (kernels.ADD | register, constant, 0)
        case CountPath(constant, on_back_edge):
            if area.table < 0:
                return (kernels.COUNT | register, area.base + constant, 0)
            return (kernels.HASH | register | _table(area, on_back_edge), constant, 0)
        case CountConstantPath(constant, on_back_edge):
            if area.table < 0:
                return (kernels.COUNT_CONSTANT | register, area.base + constant, 0)
            return (kernels.HASH_CONSTANT | register | _table(area, on_back_edge), constant, 0)
        case CountEdge():
            return None
