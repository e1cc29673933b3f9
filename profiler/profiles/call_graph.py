"""What follows from a call tree: inclusive numbers of routines, and calls from one to another.

An activation *includes* what is executed until it ends, its callees' instructions among that.
"""

from __future__ import annotations

from dataclasses import dataclass

from simprof.profiler.profiles.call_tree import CallTree


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
        Instructions that the calls included. A call of a routine that is active already carries
        none, as they are those of its outermost call: so the calls of a routine add up to what
        the routine includes.
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
    """

    routines: tuple[RoutineCalls, ...]
    arcs: tuple[CallArc, ...]


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
    """What is added up over a tree; `outermost`: by routine, the context of its outermost call."""

    own: list[_Counted]
    inclusive: list[_Counted]
    outermost: list[tuple[int, int, int] | None]
    arcs: dict[tuple[int, int, int], _Counted]


def call_graph(tree: CallTree) -> CallGraph:
    """Return what the contexts of a call tree add up to."""
    count = len(tree.routines)
    sums = _Sums(
        own=[_Counted() for _ in range(count)],
        inclusive=[_Counted() for _ in range(count)],
        outermost=[None] * count,
        arcs={},
    )
    done = _Counted()  # executed in all contexts entered so far
    for place, enters in tree.walk():
        callee = tree.callees[place]
        if enters:
            if sums.outermost[callee] is None:
                sums.outermost[callee] = place, done.base, done.added
            sums.own[callee].count(tree.base[place], tree.added[place])
            done.count(tree.base[place], tree.added[place])
        else:
            _leave(tree, place, sums, done)
    return _graph(tree, sums)


def _leave(tree: CallTree, place: int, sums: _Sums, done: _Counted) -> None:
    callee = tree.callees[place]
    arc = sums.arcs.setdefault((tree.callers[place], tree.sites[place], callee), _Counted())
    outermost = sums.outermost[callee]
    if outermost is not None and outermost[0] == place:
        executed = done.base - outermost[1], done.added - outermost[2]
        sums.inclusive[callee].count(*executed)
        arc.count(*executed)
        sums.outermost[callee] = None


def _graph(tree: CallTree, sums: _Sums) -> CallGraph:
    calls, landings = [0] * len(tree.routines), [0] * len(tree.routines)
    by_arc: dict[tuple[int, int, int], int] = {}
    for place, callee in enumerate(tree.callees):
        calls[callee] += tree.calls[place]
        landings[callee] += tree.landings[place]
        key = tree.callers[place], tree.sites[place], callee
        by_arc[key] = by_arc.get(key, 0) + tree.calls[place]
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
    )
