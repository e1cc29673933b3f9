"""The call tree of a run: what was executed in each calling context.

A context is a routine together with the calls that led to it, as in the calling context trees of
Ammons, Ball and Larus (1997). Recursion is folded: a call of a routine that is above already leads
to a context below the *head*, the last one on the way whose routine was new there. For each site it
stands for all such calls, however deep they go. So there are no more levels than twice the
routines, and the routines above a context are exactly those whose activations waited in the run:
inclusive numbers of routines follow from it, each recursion counted once (`CallGraph`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

STARTED = 0  # Site of the program's first routine
SIGNALLED = -1  # Site of signals' handlers: they hang below whatever was interrupted
LANDED = -2  # Site of routines in whose middle a non-local exit has landed
BEYOND = -3  # Site of calls that have no context of their own, as there would be too many
TOP = -1  # Parent of contexts that nothing called


class CalledRoutine(Struct, frozen=True, forbid_unknown_fields=True):
    """A routine of a call tree."""

    name: str
    address: int


class CallTree(Struct, frozen=True, forbid_unknown_fields=True):
    """Contexts, each behind its parent, as columns."""

    routines: tuple[CalledRoutine, ...]  # Those that `callees` refers to
    parents: tuple[int, ...]  # The context that called; `TOP` for the first ones.
    # Address of the call, or of the jump of a tail call; else one of the words above.
    sites: tuple[int, ...]
    callees: tuple[int, ...]  # The context's routine, by position in `routines`
    # The routine that calls there, `TOP` for none: that of the parent, but where recursion is
    # folded it may be another one above.
    callers: tuple[int, ...]
    calls: tuple[int, ...]  # How often it was called there
    # Activations that began there otherwise: where a non-local exit (`longjmp`, an exception) ended
    # one of the same context, and went on in its routine.
    landings: tuple[int, ...]
    # base, added: Instructions executed there, without what is called: the program's, and the
    # scheme's code.
    base: tuple[int, ...]
    added: tuple[int, ...]
    limit: int  # How many contexts there could be
    # Activations that would have made more: they are distinguished by their routine only, below the
    # context whose callees they are, directly or not.
    beyond: int = 0

    def __post_init__(self) -> None:
        """Check that the columns fit together: ValueError if they do not."""
        counts = self.calls, self.landings, self.base, self.added
        columns = self.sites, self.callees, self.callers, *counts
        fit = (
            all(len(column) == len(self.parents) for column in columns)
            and all(TOP <= parent < place for place, parent in enumerate(self.parents))
            and all(0 <= callee < len(self.routines) for callee in self.callees)
            and all(TOP <= caller < len(self.routines) for caller in self.callers)
            and all(min(column, default=0) >= 0 for column in counts)
        )
        if not fit:
            raise ValueError("the columns of its call tree do not fit together")

    def __len__(self) -> int:
        return len(self.parents)

    def counts(self, place: int) -> tuple[int, int, int, int]:
        """Return calls, landings, base and added of a context."""
        return self.calls[place], self.landings[place], self.base[place], self.added[place]

    def children(self) -> list[list[int]]:
        """Return the contexts below each one."""
        below: list[list[int]] = [[] for _ in self.parents]
        for place, parent in enumerate(self.parents):
            if parent != TOP:
                below[parent].append(place)
        return below

    def inclusive(self) -> tuple[list[int], list[int]]:
        """Return base and added instructions of each context with all below it."""
        base, added = list(self.base), list(self.added)
        for place in range(len(self.parents) - 1, -1, -1):
            parent = self.parents[place]
            if parent != TOP:
                base[parent] += base[place]
                added[parent] += added[place]
        return base, added

    def walk(self) -> Iterator[tuple[int, bool]]:
        """Yield each context twice: where it is entered (True), and behind all below it (False)."""
        below = self.children()
        stack = [
            (place, True) for place in range(len(self) - 1, -1, -1) if self.parents[place] == TOP
        ]
        while stack:
            place, enters = stack.pop()
            yield place, enters
            if enters:
                stack.append((place, False))
                stack += [(child, True) for child in reversed(below[place])]


class TreeBuilder:
    """Makes a call tree context by context; those that are alike become one."""

    def __init__(self, routines: Sequence[CalledRoutine], limit: int) -> None:
        self._routines = tuple(routines)
        self._limit = limit
        self._places: dict[tuple[int, int, int], int] = {}
        self._rows: list[list[int]] = []

    def place(self, parent: int, site: int, callee: int, caller: int) -> int:
        """Return the number of a context, which is added if it is new."""
        key = parent, site, callee
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._rows)
            self._rows.append([parent, site, callee, caller, 0, 0, 0, 0])
        return place

    def add(self, place: int, calls: int, landings: int, base: int, added: int) -> None:
        """Add to the counts of a context."""
        row = self._rows[place]
        for word, amount in enumerate((calls, landings, base, added), 4):
            row[word] += amount

    def tree(self, beyond: int = 0) -> CallTree:
        """Return the tree."""
        columns = tuple(zip(*self._rows, strict=True)) or ((),) * 8
        rest: Any = (*columns, self._limit, beyond)
        return CallTree(self._routines, *rest)


def without_sites(tree: CallTree) -> CallTree:
    """Return a tree that tells contexts apart by routines alone, not by where they are called."""
    builder = TreeBuilder(tree.routines, tree.limit)
    _add_tree(builder, tree, range(len(tree.routines)), (STARTED,) * len(tree))
    return builder.tree(tree.beyond)


def merge_trees(trees: Sequence[CallTree | None]) -> CallTree | None:
    """Add up call trees; None where one is missing."""
    known = [tree for tree in trees if tree is not None]
    if len(known) < len(trees):
        return None
    names: dict[CalledRoutine, int] = {}
    for tree in known:
        for routine in tree.routines:
            names.setdefault(routine, len(names))
    builder = TreeBuilder(tuple(names), known[0].limit)
    for tree in known:
        _add_tree(builder, tree, [names[routine] for routine in tree.routines], tree.sites)
    return builder.tree(sum(tree.beyond for tree in known))


def _add_tree(
    builder: TreeBuilder, tree: CallTree, numbers: Sequence[int], sites: Sequence[int]
) -> None:
    """Add the contexts of a tree; `numbers`: its routines' in the tree that is made."""
    places: list[int] = []
    for number, parent in enumerate(tree.parents):
        above = TOP if parent == TOP else places[parent]
        caller = tree.callers[number]
        own = TOP if caller == TOP else numbers[caller]
        place = builder.place(above, sites[number], numbers[tree.callees[number]], own)
        places.append(place)
        builder.add(place, *tree.counts(number))


class RoutineCalls(Struct, frozen=True):
    """A routine in all its contexts together."""

    name: str
    address: int
    # calls, landings: How often it was called, and how often activations of it began otherwise.
    calls: int
    landings: int
    # base, added: Its own instructions.
    base: int
    added: int
    # inclusive_base, inclusive_added: Instructions executed while it was active, its own or its
    # callees': each one once, however many of its activations included it.
    inclusive_base: int
    inclusive_added: int


class CallArc(Struct, frozen=True):
    """Calls of one routine at one place in another."""

    caller: int  # By position in the tree's routines; `TOP` for the program's first routine.
    site: int  # Where it calls, as in `CallTree.sites`
    callee: int  # As `caller`
    calls: int  # How often
    # base, added: Instructions that the calls included. A call of a routine that is active already
    # carries none, as they are those of its outermost call: so the calls of a routine add up to
    # what the routine includes.
    base: int
    added: int


class CallGraph(Struct, frozen=True):
    """Routines and calls of a run."""

    routines: tuple[RoutineCalls, ...]  # In the order of the tree's
    arcs: tuple[CallArc, ...]  # By caller, site and callee


class _Counted(Struct):
    base: int = 0
    added: int = 0

    def count(self, base: int, added: int) -> None:
        self.base += base
        self.added += added


def call_graph(tree: CallTree) -> CallGraph:
    """Return what the contexts of a call tree add up to."""
    count = len(tree.routines)
    own, inclusive = ([_Counted() for _ in range(count)] for _ in range(2))
    # by routine: the context of its outermost call, and what was executed before it
    outermost: list[tuple[int, int, int] | None] = [None] * count
    arcs: dict[tuple[int, int, int], _Counted] = {}
    done = _Counted()  # executed in all contexts entered so far
    for place, enters in tree.walk():
        callee = tree.callees[place]
        first = outermost[callee]
        if enters:
            outermost[callee] = first or (place, done.base, done.added)
            own[callee].count(tree.base[place], tree.added[place])
            done.count(tree.base[place], tree.added[place])
            continue
        arc = arcs.setdefault((tree.callers[place], tree.sites[place], callee), _Counted())
        if first is not None and first[0] == place:
            executed = done.base - first[1], done.added - first[2]
            inclusive[callee].count(*executed)
            arc.count(*executed)
            outermost[callee] = None
    calls, landings, by_arc = Counter[int](), Counter[int](), Counter[tuple[int, int, int]]()
    for place, callee in enumerate(tree.callees):
        calls[callee] += tree.calls[place]
        landings[callee] += tree.landings[place]
        by_arc[tree.callers[place], tree.sites[place], callee] += tree.calls[place]
    routines = []
    for number, each in enumerate(tree.routines):
        counts = *astuple(own[number]), *astuple(inclusive[number])
        routine = RoutineCalls(each.name, each.address, calls[number], landings[number], *counts)
        routines.append(routine)
    sums = (CallArc(*key, by_arc[key], *astuple(arc)) for key, arc in sorted(arcs.items()))
    return CallGraph(tuple(routines), tuple(sums))
