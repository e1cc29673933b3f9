"""Costs of a scheme's code: generated code times executions (docs/SEMANTICS.md, "Costs").

What generates code is imported when a price is made: a run under no scheme needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from simprof.profiler.code.layout import COUNTER_SIZE, SLOT_SIZE, CounterSpace
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import CROSSING, TakenPart
from simprof.profiler.plan.decoders import RoutineCounters
from simprof.profiler.plan.plan import SYMBOL_BITS, CounterTable, InstrumentationPlan
from simprof.profiler.request.request import CodeLayout, RegisterUse

if TYPE_CHECKING:
    from simprof.profiler.code.context import RoutineContext
    from simprof.profiler.code.snippet_parts import Generators
    from simprof.profiler.code.snippets import RoutineCode


class Pricer:
    """Generates and prices the code of one program's routines under one scheme.

    `generators`: The code of all kinds of actions that the scheme's plans have, or what returns it
    once it is needed. `use`: Which registers the code may take without saving them. `layout`: Where
    code goes that would need a jump, by the weights of the plan.
    """

    # Counters are laid out in the order of asking, and an address can decide whether it takes one
    # instruction or two to make: ask routine by routine in ascending order, and equal questions get
    # equal prices.

    def __init__(
        self,
        generators: Generators | Callable[[], Generators],
        use: RegisterUse = RegisterUse.LIVENESS,
        layout: CodeLayout = CodeLayout.BEST,
    ) -> None:
        self._given = generators
        self._use = use
        self._code_layout = layout
        self._space = CounterSpace()

    @cached_property
    def _generators(self) -> Generators:
        return self._given() if callable(self._given) else self._given

    def code(
        self,
        cfg: ControlFlowGraph,
        plan: InstrumentationPlan,
        weights: Sequence[float],  # By edge id, as they guided the plan; none: all are alike
        context: RoutineContext,
    ) -> RoutineCode:
        """Lay out the counters of a routine's plan and generate its code.

        Raises
        ------
        UsageError
            The counters do not fit their memory.
        AssemblyError
            There is no code for an action, or it needs more registers than there are.
        """
        from simprof.profiler.code.arrangement import WordsNeededError, generate
        from simprof.profiler.code.places import LayoutRule

        layout = self._space.place(plan)
        context, rule = context.using(self._use), LayoutRule(self._code_layout, weights)
        try:
            return generate(cfg, plan, context, layout, self._generators, rule)
        except WordsNeededError as needed:
            layout = self._space.with_words(layout, needed.count)
            return generate(cfg, plan, context, layout, self._generators, rule)


def added(
    code: RoutineCode,
    edges: Sequence[int],
    executions: Sequence[int],
    taken: Mapping[TakenPart, int] | None = None,
) -> int:
    """Return the instructions that `code` executes.

    - `edges`, `executions`: How often each edge was crossed, and each block executed, by id.
    - `taken`: How often the conditional parts of its code were executed.
    """
    total = sum(edge_costs(code, edges, taken).values())
    return total + sum(executions[block] * cost for block, cost in block_costs(code).items())


def block_costs(code: RoutineCode | None) -> dict[int, int]:
    """Return by block what each execution adds by code that is on no edge; None costs nothing."""
    if code is None:
        return {}
    costs = dict(code.spill.costs)
    recorded = ((block, snippet) for (block, _), snippet in code.address_snippets.items())
    at_blocks = code.block_snippets.items(), code.block_end_snippets.items()
    for block, snippet in chain(recorded, *at_blocks):
        costs[block] = costs.get(block, 0) + snippet.cost
    return costs


def edge_costs(
    code: RoutineCode | None,
    edges: Sequence[int],
    taken: Mapping[TakenPart, int] | None = None,
) -> dict[int, int]:
    """Return the instructions that each edge's code executes; `taken` as for `added`."""
    # No code (None) costs nothing.
    if code is None:
        return {}
    costs = {edge: edges[edge] * snippet.cost for edge, snippet in code.snippets.items()}
    for part, times in (taken or {}).items():
        costs[part.edge] = costs.get(part.edge, 0) + times * part_cost(code, part)
    return costs


def part_cost(code: RoutineCode, part: TakenPart) -> int:
    """Return what a conditional part of code adds each time."""
    body = code.copy if part.in_copy else code
    assert body is not None, "the code has no second copy"
    snippet = body.snippets.get(part.edge)
    if part.place != CROSSING:
        assert snippet is not None
        return snippet.taken_costs[part.place]
    # The code of the edge in the second copy, in place of that in the first
    first = code.snippets.get(part.edge)
    return (0 if snippet is None else snippet.cost) - (0 if first is None else first.cost)


def counter_bytes(plan: InstrumentationPlan, executed_paths: int, own: int = 0) -> int:
    """Return the bytes of a plan's counters, and of constants, after a run that counted so many
    different paths other than in counters with names.
    """
    # A hash table has its buckets and a node for each executed path, a buffer with slots one for
    # each number. `own`: What an OWN table takes of a pool.
    words = len(plan.named_counters) + len(plan.constants)
    size = COUNTER_SIZE * (plan.edge_counters + words)
    slots = (use.numbers for use in plan.buffers if use.buffer.has_slots)
    size += SLOT_SIZE * sum(map(sum, slots))
    if plan.table is CounterTable.HASH:
        from simprof.profiler.code.hash_routine import TableLayout

        return size + TableLayout().size(executed_paths)
    return size + COUNTER_SIZE * plan.path_counters + own


def plan_sizes(
    plan: InstrumentationPlan,
    code: RoutineCode | None,
    executed_paths: int,
    own: int = 0,
) -> dict[str, int]:
    """Return by name how much one routine's counters and code take.

    - `plan`: What is done in the routine.
    - `code`: The code of that, without run-time routines; None where there is none.
    - `executed_paths`: How many different paths the run counted, without counters with names.
    - `own`: Bytes of an OWN table (`counter_bytes`).

    Returns
    -------
    dict
        `counter_bytes`, `snippets` (how many pieces of code) and `code_bytes` (theirs).
    """
    return {
        "counter_bytes": counter_bytes(plan, executed_paths, own),
        "snippets": 0 if code is None else code.count,
        "code_bytes": 0 if code is None else code.code_bytes,
    }


def stream_sizes(plan: InstrumentationPlan, counters: RoutineCounters) -> dict[str, int]:
    """Return how many bits of trace the symbols of paths take, as `Plan.trace_sizes` does."""
    if plan.table is not CounterTable.STREAM:
        return {}
    written, (paths, *_) = counters.path_increments, plan.numbers
    least = max(1, (paths - 1).bit_length())
    return {"trace_bits": SYMBOL_BITS * written, "minimal_trace_bits": least * written}


def address_sizes(
    code: RoutineCode | None, executions: Sequence[int], is64: bool
) -> dict[str, int]:
    """Return `address_bits`: what recorded addresses of data take; nothing where none are.

    `executions`: Of each block, by id. `is64`: Whether addresses have 64 bits.
    """
    if code is None or not code.address_snippets:
        return {}
    times = sum(executions[block] for block, _ in code.address_snippets)
    return {"address_bits": times * (64 if is64 else 32)}
