"""What follows from a call tree: inclusive numbers of routines, and calls from one to another.

An activation *includes* what is executed until it ends, its callees' instructions among that.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.profiles.call_tree import TOP, CallTree


@dataclass(frozen=True)
class RoutineCalls:
    """A routine in all its contexts together.

    Attributes
    ----------
    calls, landings
        How often it was called, and how often activations of it began otherwise.
    base, added
        Its own instructions.
    inclusive_base, inclusive_added
        Instructions executed while it was active, its own or its callees': each one once, however
        many of its activations included it.
    """

    name: str
    address: int
    calls: int
    landings: int
    base: int
    added: int
    inclusive_base: int
    inclusive_added: int


@dataclass(frozen=True)
class CallArc:
    """Calls of one routine at one place in another.

    Attributes
    ----------
    caller
        By position in the tree's routines; `TOP` for the program's first routine.
    site
        Where it calls, as in `CallTree.sites`.
    callee
        As `caller`.
    calls
        How often.
    base, added
        Instructions that the calls included. Where the caller was active more than once, that is
        said of its outermost call only, and instructions of the caller itself are left out: so the
        caller's own instructions and those of the arcs from it add up to what it includes, but for
        `unassigned`.
    """

    caller: int
    site: int
    callee: int
    calls: int
    base: int
    added: int


@dataclass(frozen=True)
class CallGraph:
    """Routines and calls of a run.

    Attributes
    ----------
    routines
        In the order of the tree's.
    arcs
        By caller, site and callee.
    unassigned
        Base and added instructions that a routine includes and none of its arcs does, for each
        routine: where recursion through several routines is folded, the tree does not tell by
        which of its calls the routine came to wait.
    """

    routines: tuple[RoutineCalls, ...]
    arcs: tuple[CallArc, ...]
    unassigned: tuple[tuple[int, int], ...]


@dataclass
class _Counted:
    """Base and added instructions."""

    base: int = 0
    added: int = 0

    def count(self, base: int, added: int) -> None:
        self.base += base
        self.added += added


@dataclass
class _Sums:
    """What is added up over a tree; `open` and `active`: by routine, while below one of its."""

    own: list[_Counted]
    inclusive: list[_Counted]
    open: list[tuple[int, int, int] | None]
    active: list[tuple[int, _Counted, int, int] | None]
    arcs: dict[tuple[int, int, int], _Counted]


def call_graph(tree: CallTree) -> CallGraph:
    """Return what the contexts of a call tree add up to."""
    count = len(tree.routines)
    sums = _Sums(
        own=[_Counted() for _ in range(count)],
        inclusive=[_Counted() for _ in range(count)],
        open=[None] * count,
        active=[None] * count,
        arcs={},
    )
    done = _Counted()  # executed in all contexts entered so far
    for place, enters in tree.walk():
        if enters:
            _enter(tree, place, sums, done)
        else:
            _leave(tree, place, sums, done)
    return _graph(tree, sums)


def _enter(tree: CallTree, place: int, sums: _Sums, done: _Counted) -> None:
    callee, caller = tree.callees[place], tree.callers[place]
    arc = sums.arcs.setdefault((caller, tree.sites[place], callee), _Counted())
    if sums.open[callee] is None:
        sums.open[callee] = place, done.base, done.added
    if caller != TOP and sums.active[caller] is None:
        sums.active[caller] = place, arc, done.base, done.added
    base, added = tree.base[place], tree.added[place]
    done.count(base, added)
    sums.own[callee].count(base, added)
    active = sums.active[callee]
    if active is not None:
        active[1].count(-base, -added)


def _leave(tree: CallTree, place: int, sums: _Sums, done: _Counted) -> None:
    callee, caller = tree.callees[place], tree.callers[place]
    opened = sums.open[callee]
    if opened is not None and opened[0] == place:
        sums.inclusive[callee].count(done.base - opened[1], done.added - opened[2])
        sums.open[callee] = None
    active = None if caller == TOP else sums.active[caller]
    if active is not None and active[0] == place:
        active[1].count(done.base - active[2], done.added - active[3])
        sums.active[caller] = None


def _graph(tree: CallTree, sums: _Sums) -> CallGraph:
    calls, landings = [0] * len(tree.routines), [0] * len(tree.routines)
    by_arc: dict[tuple[int, int, int], int] = {}
    left = [_Counted(all_.base, all_.added) for all_ in sums.inclusive]
    for place, callee in enumerate(tree.callees):
        calls[callee] += tree.calls[place]
        landings[callee] += tree.landings[place]
        key = tree.callers[place], tree.sites[place], callee
        by_arc[key] = by_arc.get(key, 0) + tree.calls[place]
    for number, own in enumerate(sums.own):
        left[number].count(-own.base, -own.added)
    for (caller, _, _), arc in sums.arcs.items():
        if caller != TOP:
            left[caller].count(-arc.base, -arc.added)
    return CallGraph(
        tuple(
            RoutineCalls(
                routine.name,
                routine.address,
                calls[number],
                landings[number],
                sums.own[number].base,
                sums.own[number].added,
                sums.inclusive[number].base,
                sums.inclusive[number].added,
            )
            for number, routine in enumerate(tree.routines)
        ),
        tuple(
            CallArc(*key, by_arc[key], arc.base, arc.added)
            for key, arc in sorted(sums.arcs.items())
        ),
        tuple((each.base, each.added) for each in left),
    )
