"""The call tree of a run: what was executed in each calling context.

A context is a routine together with the calls that led to it, as in the calling context trees of
Ammons, Ball and Larus (1997). Recursion is folded: a call of a routine that is above already leads
to a context below the *head*, the last one on the way whose routine was new there. For each site it
stands for all such calls, however deep they go. So there are no more levels than twice the
routines, and the routines above a context are exactly those whose activations waited in the run:
inclusive numbers of routines follow from it, each recursion counted once (`call_graph`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

STARTED = 0
"""Site of the program's first routine."""
SIGNALLED = -1
"""Site of signals' handlers: they hang below whatever was interrupted."""
LANDED = -2
"""Site of routines in whose middle a non-local exit has landed."""
BEYOND = -3
"""Site of calls that have no context of their own, as there would be too many."""
TOP = -1
"""Parent of contexts that nothing called."""


@dataclass(frozen=True)
class CalledRoutine:
    """A routine of a call tree."""

    name: str
    address: int


@dataclass(frozen=True)
class CallTree:
    """Contexts, each behind its parent, as columns.

    Attributes
    ----------
    routines
        Those that `callees` refers to.
    parents
        The context that called; `TOP` for the first ones.
    sites
        Address of the call, or of the jump of a tail call; else one of the words above.
    callees
        The context's routine, by position in `routines`.
    callers
        The routine that calls there, `TOP` for none: that of the parent, but where recursion is
        folded it may be another one above.
    calls
        How often it was called there.
    landings
        Activations that began there otherwise: where a non-local exit (`longjmp`, an exception)
        ended one of the same context, and went on in its routine.
    base, added
        Instructions executed there, without what is called: the program's, and the scheme's code.
    limit
        How many contexts there could be.
    beyond
        Activations that would have made more: they are told apart by their routine only, below the
        context whose callees they are, directly or not.
    """

    routines: tuple[CalledRoutine, ...]
    parents: tuple[int, ...]
    sites: tuple[int, ...]
    callees: tuple[int, ...]
    callers: tuple[int, ...]
    calls: tuple[int, ...]
    landings: tuple[int, ...]
    base: tuple[int, ...]
    added: tuple[int, ...]
    limit: int
    beyond: int = 0

    def __post_init__(self) -> None:
        """Check that the columns fit together: ValueError if they do not."""
        if not self.is_sound:
            raise ValueError("the columns of its call tree do not fit together")

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def is_sound(self) -> bool:
        """Whether all columns fit together."""
        columns = (
            self.sites,
            self.callees,
            self.callers,
            self.calls,
            self.landings,
            self.base,
            self.added,
        )
        return (
            all(len(column) == len(self.parents) for column in columns)
            and all(TOP <= parent < place for place, parent in enumerate(self.parents))
            and all(0 <= callee < len(self.routines) for callee in self.callees)
            and all(TOP <= caller < len(self.routines) for caller in self.callers)
            and all(min(column, default=0) >= 0 for column in columns[3:])
        )

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

    def _columns(self) -> list[tuple[int, ...]]:
        return list(zip(*self._rows, strict=True)) if self._rows else [()] * 8

    def tree(self, beyond: int = 0) -> CallTree:
        """Return the tree."""
        parents, sites, callees, callers, *counts = self._columns()
        calls, landings, base, added = counts
        return CallTree(
            self._routines,
            parents,
            sites,
            callees,
            callers,
            calls,
            landings,
            base,
            added,
            self._limit,
            beyond,
        )


def without_sites(tree: CallTree) -> CallTree:
    """Return a tree that tells contexts apart by routines alone, not by where they are called."""
    builder = TreeBuilder(tree.routines, tree.limit)
    places: list[int] = []
    for number, parent in enumerate(tree.parents):
        above = TOP if parent == TOP else places[parent]
        place = builder.place(above, STARTED, tree.callees[number], tree.callers[number])
        places.append(place)
        builder.add(place, *tree.counts(number))
    return builder.tree(tree.beyond)


def merge_trees(trees: Sequence[CallTree | None]) -> CallTree | None:
    """Add up call trees; None where one is missing."""
    first = trees[0]
    if first is None or any(tree is None for tree in trees):
        return None
    names: dict[CalledRoutine, int] = {}
    for tree in trees:
        for routine in () if tree is None else tree.routines:
            names.setdefault(routine, len(names))
    builder = TreeBuilder(tuple(names), first.limit)
    for tree in trees:
        if tree is not None:
            _add_tree(builder, tree, names)
    return builder.tree(sum(tree.beyond for tree in trees if tree is not None))


def _add_tree(builder: TreeBuilder, tree: CallTree, names: dict[CalledRoutine, int]) -> None:
    places: list[int] = []
    for number, parent in enumerate(tree.parents):
        above = TOP if parent == TOP else places[parent]
        callee, caller = tree.callees[number], tree.callers[number]
        place = builder.place(
            above,
            tree.sites[number],
            names[tree.routines[callee]],
            TOP if caller == TOP else names[tree.routines[caller]],
        )
        places.append(place)
        builder.add(place, *tree.counts(number))
