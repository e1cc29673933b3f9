"""Calling contexts of a run: the user's options, the window, and costs by context.

Terms
window
    Some calls of one routine; outside of them nothing is counted (`CountedWindow`).
place
    A context and a routine whose activations were counted there: the context's own, under the
    context's number, and behind these others where calls have no context of their own
    (`CallTree.beyond`).
row
    How often something happened in a place: a transition of the segment automaton was taken, or an
    activation ended early behind some edges of a segment (`Ledger`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from simprof.profiler.code.pricing import block_costs, part_cost
from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.products import Products
from simprof.profiler.engine.segments import SegmentEffect
from simprof.profiler.engine.stacks import EarlyEnd
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.profiles.calls import BEYOND, TOP, CalledRoutine, CallTree, TreeBuilder
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.recovery.selection import UNKNOWN_CODE, RoutineNames, did_you_mean
from simprof.profiler.request.errors import CountError
from simprof.profiler.request.request import ContextChoice
from simprof.profiler.session.counters import RoutineEvents, collect_events
from simprof.simulator.binary.demangling import base_names
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.code.snippets import RoutineCode
    from simprof.profiler.engine.contexts import Array, ContextCounting, ContextCounts


def counting_of(index: GraphIndex, wanted: ContextChoice | None) -> ContextCounting | None:
    """Return what counts by context in a run on these graphs; None where nothing is to.

    Raises UsageError as `check_contexts` does.
    """
    if wanted is None:
        return None
    from simprof.profiler.engine.contexts import ContextCounting, ContextOptions  # few runs need it

    entry = check_contexts(index.recovered, wanted)
    options = ContextOptions(wanted.tree, wanted.limit, entry, wanted.calls)
    return ContextCounting(index, options)


def check_contexts(recovered: ProgramGraphs, wanted: ContextChoice) -> int | None:
    """Return the number of a window's routine, None without a window.

    Raises UsageError if the program lacks it, or the routine that is to be followed.
    """
    if wanted.follow is not None:
        check_followed(recovered, wanted.follow)
    return None if wanted.entry is None else routine_number(recovered, wanted.entry)


def routine_number(recovered: ProgramGraphs, name: str) -> int:
    """Return the number of the routine of a name; UsageError if there is none, or several."""
    found = RoutineNames(recovered.program).named(recovered.arrays, name)
    if not found:
        raise _no_such_routine(recovered, "--entry", name)
    if len(found) > 1:
        raise UsageError(f"--entry {name}: the program has {len(found)} routines of this name")
    return found[0]


def check_followed(recovered: ProgramGraphs, name: str) -> None:
    """Check that a call tree may have a routine of a name: UsageError if it cannot."""
    if name.startswith(UNKNOWN_CODE):  # a run may still find it
        return
    names = RoutineNames(recovered.program)
    found = [recovered.arrays.names[number] for number in names.named(recovered.arrays, name)]
    if not found:
        raise _no_such_routine(recovered, "--follow", name)
    if not any(name in names.forms(own) or name in base_names(own) for own in found):
        raise UsageError(f"--follow {name}: reports call that routine {found[0]}: name it so")


def _no_such_routine(recovered: ProgramGraphs, option: str, name: str) -> UsageError:
    """Say that neither the program nor a library that it has loaded has a routine."""
    meant = did_you_mean(RoutineNames(recovered.program).like(recovered.arrays, name))
    has = "the program has"
    if recovered.program.modules:
        has = "the program and the libraries that it loads have"
    return UsageError(
        f"{option} {name}: {has} no such routine:{meant} `simprof cfg` lists them all"
    )


class CountedWindow(Struct, frozen=True):
    """The counts of a window, as those of a whole run."""

    calls: int  # How many calls of its routine it was
    events: Mapping[int, RoutineEvents]  # By number of each routine that was active
    times: list[int]  # How often each transition of the segment automaton was taken

    @property
    def base(self) -> int:
        """Instructions executed."""
        return sum(events.instructions for events in self.events.values())


def window_of(counts: ContextCounts, lowering: Lowering, index: GraphIndex) -> CountedWindow:
    """Return what was counted in a window; `counts` have nothing of what is outside."""
    products = lowering.products
    times = np.zeros(products.transitions, np.int64)
    np.add.at(times, counts.transitions[:, 1], counts.transitions[:, 2])
    edges = np.zeros(index.edge_count, np.int64)
    for number in np.flatnonzero(times).tolist():
        routine, crossed, _ = products.transition(number)
        _cross(edges, index, routine, crossed, int(times[number]))
    early: Counter[EarlyEnd] = Counter()
    for (_, end), count in counts.ends.items():
        early[end] += count
    for end, count in early.items():
        routine, crossed, _ = _begun(products, index, end)
        _cross(edges, index, routine, crossed, count)
    cut: Counter[tuple[int, int]] = Counter()
    for (_, block, pc), count in counts.cuts.items():
        cut[block, pc] += count
    events = collect_events(index, edges, early, dict(sorted(cut.items())))
    return CountedWindow(counts.window_calls, events, times.tolist())


def _cross(
    counts: Array, index: GraphIndex, routine: int, edges: tuple[int, ...], times: int
) -> None:
    first = int(index.first_edge[routine])
    for edge in edges:
        counts[first + edge] += times


def _begun(
    products: Products, index: GraphIndex, end: EarlyEnd
) -> tuple[int, tuple[int, ...], dict[int, SegmentEffect]]:
    """Return the routine that ended early, with the edges crossed and what schemes did on them."""
    routine = index.routine(end.block)
    block = end.block - int(index.first_block[routine])
    return routine, *products.begun(routine, block, end.register, end.segments)


class _Happening(Struct, frozen=True):
    """Something that happened in places of a routine: edges crossed, and what schemes did there."""

    edges: tuple[int, ...]  # By id in the routine
    # What each scheme that counts paths did along them, by its slot
    effects: Mapping[int, SegmentEffect]
    # contexts, times: Where, and how often.
    contexts: Array
    times: Array


class Ledger:
    """The counts by context of one run."""

    def __init__(
        self, counts: ContextCounts, lowering: Lowering, index: GraphIndex, limit: int
    ) -> None:
        # limit: How many contexts there could be.
        self._counts = counts
        self._limit = limit
        self._routines = index.recovered.routines
        self._happened = _happenings(counts, lowering, index)
        self._tables = lowering.tables()
        cut = {block for _, block, _ in counts.cuts}
        self._block_end = {block: index.block_end(block) for block in cut}
        self._routine_of = {block: index.routine(block) for block in cut}
        self._stray = _stray(counts, self._happened)
        contexts = len(counts.routines)
        self._places = {place: contexts + n for n, place in enumerate(sorted(self._stray))}
        self._count = contexts + len(self._places)

    def _place_numbers(self, routine: int, contexts: Array) -> Array:
        """Return the numbers of the places of a routine in contexts."""
        numbers = contexts.copy()
        for at in np.flatnonzero(self._counts.routines[contexts] != routine).tolist():
            numbers[at] = self._places[int(contexts[at]), routine]
        return numbers

    @cached_property
    def base(self) -> Array:
        """Instructions executed by place."""
        found = np.zeros(self._count, np.int64)
        for routine, happened in self._happened.items():
            cfg = self._routines[routine]
            for each in happened:
                size = sum(
                    cfg.blocks[cfg.edges[edge].target].instructions
                    for edge in each.edges
                    if cfg.edges[edge].target != cfg.exit
                )
                np.add.at(found, self._place_numbers(routine, each.contexts), size * each.times)
        for (context, block, pc), times in self._counts.cuts.items():
            left = (self._block_end[block] - pc) // 4
            found[self._number(context, self._routine_of[block])] -= left * times
        return found

    def costs(self) -> Array:
        """Return zeroes: instructions that a scheme has added, by place."""
        return np.zeros(self._count, np.int64)

    def add_costs(
        self, costs: Array, routine: int, code: RoutineCode | None, slot: int | None, expected: int
    ) -> None:
        """Add to `costs` what a scheme's code executed in one routine.

        Raises CountError if that is not `expected` in all contexts together: a defect of simprof.
        """
        # slot: The scheme's number among those that count paths; None if it does not.
        total = 0
        for each in () if code is None else self._happened.get(routine, ()):
            assert code is not None
            price = _price(self._routines[routine], code, each, slot)
            if price:
                np.add.at(costs, self._place_numbers(routine, each.contexts), price * each.times)
                total += price * int(each.times.sum())
        for context, table, instructions in self._counts.hashing.tolist():
            if slot is not None and self._tables.get(table) == (routine, slot):
                costs[self._number(context, routine)] += instructions
                total += instructions
        if total != expected:
            raise CountError(
                f"{self._routines[routine].name}: {total} instructions were added in all its "
                f"contexts together, and {expected} in the whole run: this is a defect of simprof, "
                "please report the program"
            )

    def _number(self, context: int, routine: int) -> int:
        own = int(self._counts.routines[context]) == routine
        return context if own else self._places[context, routine]

    def tree(self, costs: Array) -> CallTree:
        """Return the call tree of the run, under the scheme that added `costs`."""
        counts = self._counts
        names: dict[int, int] = {}
        for routine in counts.routines[1:].tolist() + [routine for _, routine in self._stray]:
            names.setdefault(routine, len(names))
        called = [CalledRoutine(self._routines[n].name, self._routines[n].address) for n in names]
        builder = TreeBuilder(called, self._limit)
        contexts = counts.parents, counts.sites, counts.routines, counts.callers
        columns = (*contexts, counts.calls, counts.landings)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))[1:]
        for number, (parent, site, routine, caller, calls, landings) in enumerate(rows, 1):
            above = parent - 1 if parent else TOP
            place = builder.place(above, site, names[routine], names.get(caller, TOP))
            builder.add(place, calls, landings, int(self.base[number]), int(costs[number]))
        beyond = 0
        for context, routine in sorted(self._stray):
            calls, number = self._stray[context, routine], self._places[context, routine]
            above = context - 1 if context else TOP
            caller = names.get(int(counts.routines[context]), TOP) if context else TOP
            place = builder.place(above, BEYOND, names[routine], caller)
            builder.add(place, calls, 0, int(self.base[number]), int(costs[number]))
            beyond += calls
        return builder.tree(beyond)


def _happenings(
    counts: ContextCounts, lowering: Lowering, index: GraphIndex
) -> dict[int, list[_Happening]]:
    """Routine -> what happened in it."""
    products = lowering.products
    found: dict[int, list[_Happening]] = defaultdict(list)
    order = counts.transitions[np.argsort(counts.transitions[:, 1], kind="stable")]
    numbers, starts = np.unique(order[:, 1], return_index=True)
    for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=False):
        routine, edges, effects = products.transition(number)
        found[routine].append(_Happening(edges, effects, rows[:, 0], rows[:, 2]))
    by_end: dict[EarlyEnd, list[tuple[int, int]]] = defaultdict(list)
    for (context, end), times in counts.ends.items():
        by_end[end].append((context, times))
    for end, where in by_end.items():
        routine, edges, effects = _begun(products, index, end)
        happening = _Happening(edges, effects, *np.array(where, np.int64).T)
        found[routine].append(happening)
    return found


def _stray(
    counts: ContextCounts, happened: Mapping[int, Sequence[_Happening]]
) -> dict[tuple[int, int], int]:
    """Return calls by context and routine, where the routine is not the context's own."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    for context, routine, calls in counts.beyond.tolist():
        found[context, routine] += calls
    for routine, each in ((routine, each) for routine, all_ in happened.items() for each in all_):
        for context in np.unique(each.contexts[counts.routines[each.contexts] != routine]).tolist():
            found[context, routine] += 0
    return dict(found)


def _price(cfg: ControlFlowGraph, code: RoutineCode, each: _Happening, slot: int | None) -> int:
    """Return what a scheme's code executes along a happening's edges."""
    total, at_blocks = 0, block_costs(code)
    for edge in each.edges:
        snippet = code.snippets.get(edge)
        total += 0 if snippet is None else snippet.cost
        total += at_blocks.get(cfg.edges[edge].target, 0)
    effect = None if slot is None else each.effects.get(slot)
    return total + sum(part_cost(code, part) for part in (() if effect is None else effect.taken))
