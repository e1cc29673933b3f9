"""Calling contexts as text and JSON: routines with all that they call, one routine's as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from simprof.profiler.profiles.calls import (
    BEYOND,
    LANDED,
    SIGNALLED,
    STARTED,
    TOP,
    CalledRoutine,
    CallTree,
    TreeBuilder,
    call_graph,
)
from simprof.profiler.profiles.codec import json_line
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.tables import address_text
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import brief, percent, plural, readable
from simprof.simulator.binary.demangling import base_names, demangle, spellings
from simprof.simulator.errors import UsageError

# What executes less than one part in so many of the routine's instructions, of those added too, is
# summed up.
SMALLEST_SHARE = 100
REST = "(less than 1 % each)"

FOLLOW = "run --follow ROUTINE, or show PROFILE tree ROUTINE, shows what calls of a routine execute"


def sections(
    measurement: RunMeasurement, top: int, follow: str | None, details: bool
) -> Iterator[layout.Part]:
    """Yield the parts of the report that a call tree makes possible."""
    tree = measurement.call_tree
    if tree is None:
        return
    if follow is not None:
        chosen = routine(tree, follow)
        if chosen is None:
            yield layout.paragraph(f"The run never called {brief(follow)}.")
        else:
            title = f"Calls of {brief(chosen.name)}, with all that they execute"
            yield from layout.section(
                title, _tree_table(subtree(tree, tree.routines.index(chosen)))
            )
    if top > 0 and details:  # else the table of routines has these instructions
        title = "Routines by instructions, with all that they call"
        yield from layout.section(title, inclusive(measurement, tree, top))
    if follow is None:
        yield from [layout.BLANK, layout.paragraph(FOLLOW, style="dim")]
    if tree.beyond:
        yield layout.paragraph(
            f"warning: the call tree is cut at {tree.limit:,} contexts: "
            f"{plural(tree.beyond, 'activation')} beyond them are counted by routine only, and "
            "routines between may include more than is said here",
            style="yellow",
        )


def render_tree(tree: CallTree, width: int = 100, color: bool = False) -> str:
    """Return a tree as text."""
    return layout.print_parts([_tree_table(tree)], width, color)


def render_csv(tree: CallTree) -> str:
    """Return a tree as CSV: a row for each context, behind its caller."""
    from simprof.profiler.profiles import csv_text  # a report of a run has none

    return csv_text.render(CONTEXT_COLUMNS, _contexts(tree))


def render_json(head: Mapping[str, object], tree: CallTree) -> str:
    """Return a tree as one line of JSON (format `simprof/tree`), behind what it is of."""
    rows = [dict(zip(CONTEXT_COLUMNS, row, strict=True)) for row in _contexts(tree)]
    answer = {**head, "beyond": tree.beyond, "contexts": rows}
    return json_line(answer)


CONTEXT_COLUMNS = (
    "depth", "routine", "symbol", "routine_address", "calls", "inclusive_instructions",
    "inclusive_added", "own_instructions", "own_added",
)  # fmt: skip


def _contexts(tree: CallTree) -> Iterator[tuple[int | str, ...]]:
    base, added = tree.inclusive()
    for depth, (place,) in _ordered(tree, base, frozenset()):
        called = tree.routines[tree.callees[place]]
        names = demangle(called.name), called.name, address_text(called.address)
        own = tree.base[place], tree.added[place]
        yield (depth, *names, tree.calls[place], base[place], added[place], *own)


def followed(tree: CallTree, follow: str | None) -> CallTree:
    """Return what the calls of a routine executed as a tree; None: all that the program did.

    Raises UsageError if the run never called that routine.
    """
    if follow is None:
        return tree
    chosen = routine(tree, follow)
    if chosen is None:
        raise UsageError(
            f"the run never called {brief(follow)}: `simprof show PROFILE tree` shows all calls"
        )
    return subtree(tree, tree.routines.index(chosen))


def routine(tree: CallTree, wanted: str) -> CalledRoutine | None:
    """Return the routine of a tree that has a name, None if none has.

    One of a library (`libc.so.6:puts`) also has the name without the library, a C++ function that
    without types and scopes.
    """
    for each in tree.routines:
        if wanted in (each.name, demangle(each.name)):
            return each
    other = (each for each in tree.routines if wanted in spellings(each.name))
    bases = (each for each in tree.routines if wanted in base_names(each.name))
    return next(other, None) or next(bases, None)


def inclusive(measurement: RunMeasurement, tree: CallTree, top: int) -> layout.Table:
    """List the routines that executed most, what they call included."""
    titles = ("share", "instructions", "added", "overhead", "own instructions", "own added")
    table = layout.columns(*map(layout.number, (*titles, "calls")), layout.name("routine"))
    ranked = sorted(call_graph(tree).routines, key=lambda r: (-r.inclusive_base, r.address))
    for each in ranked[:top]:
        base, added = each.inclusive_base, each.inclusive_added
        shares = percent(base, measurement.base), percent(added, base)
        own = each.base, each.added
        table.add_row(shares[0], base, added, shares[1], *own, each.calls, readable(each.name))
    return table


def _tree_table(tree: CallTree) -> layout.Table:
    rows = tree_rows(tree)
    total = sum(row.base for row in rows if not row.depth)
    cells = [
        (percent(row.base, total), row.base, row.added, row.calls, "  " * row.depth + row.name)
        for row in rows
    ]
    heads = map(layout.number, ("share", "instructions", "added", "calls"))
    return layout.columns(*heads, layout.name("routine"), rows=cells)


class TreeRow(NamedTuple):
    """A context of a call tree with all that it called; or contexts that are too small to show."""

    depth: int
    name: str
    base: int
    added: int
    calls: int


def tree_rows(tree: CallTree) -> list[TreeRow]:
    """Return the contexts of a tree, each behind its caller, the largest first."""
    found = []
    base, added = tree.inclusive()
    tops = _tops(tree)
    total = sum(base[place] for place in tops)
    total_added = sum(added[place] for place in tops)
    small = {
        place
        for place in range(len(tree))
        if SMALLEST_SHARE * base[place] < total
        and (SMALLEST_SHARE * added[place] < total_added or not added[place])
    }
    for depth, places in _ordered(tree, base, small):
        sums = [sum(column[each] for each in places) for column in (base, added, tree.calls)]
        is_rest = not small.isdisjoint(places)
        called = REST if is_rest else readable(tree.routines[tree.callees[places[0]]].name)
        found.append(TreeRow(depth, called, *sums))
    return found


def _tops(tree: CallTree) -> list[int]:
    return [place for place, parent in enumerate(tree.parents) if parent == TOP]


def _ordered(
    tree: CallTree, base: Sequence[int], small: Set[int]
) -> Iterator[tuple[int, list[int]]]:
    """Yield each context, behind its caller, with its depth; small ones together."""
    children = tree.children()
    stack = [(0, row) for row in _rows(_tops(tree), base, small)]
    while stack:
        depth, places = stack.pop()
        yield depth, places
        if small.isdisjoint(places):
            stack += [(depth + 1, row) for row in _rows(children[places[0]], base, small)]


def _rows(children: Sequence[int], base: Sequence[int], small: Set[int]) -> list[list[int]]:
    """Return contexts one by one, the largest last, behind all that are small, as one row."""
    rest = [each for each in children if each in small]
    large = sorted(set(children) - small, key=lambda each: (base[each], -each))
    return ([rest] if rest else []) + [[each] for each in large]


def subtree(tree: CallTree, chosen: int) -> CallTree:
    """Return what is below the outermost contexts of a routine, which become one; no sites."""
    builder = TreeBuilder(tree.routines, tree.limit)
    places: list[int | None] = []
    for number_, parent in enumerate(tree.parents):
        above = None if parent == TOP else places[parent]
        place = None
        if above is not None or tree.callees[number_] == chosen:
            start = TOP if above is None else above
            place = builder.place(start, STARTED, tree.callees[number_], TOP)
            builder.add(place, *tree.counts(number_))
        places.append(place)
    return builder.tree()


# What stands for sites that are no address
SITES = {STARTED: "start", SIGNALLED: "signal", LANDED: "landing", BEYOND: "beyond"}


def call_tree_object(tree: CallTree) -> dict[str, object]:
    """Return `call_tree`."""
    graph = call_graph(tree)
    base, added = tree.inclusive()
    return {
        "limit": tree.limit,
        "beyond": tree.beyond,
        "routines": [
            {
                "symbol": routine.name,
                "routine_address": address_text(routine.address),
                "calls": routine.calls,
                "landings": routine.landings,
                "own": _sums(routine.base, routine.added),
                "inclusive": _sums(routine.inclusive_base, routine.inclusive_added),
            }
            for routine in graph.routines
        ],
        "calls": [
            {
                "caller": _position(arc.caller),
                "site": site(arc.site),
                "callee": arc.callee,
                "calls": arc.calls,
                "inclusive": _sums(arc.base, arc.added),
            }
            for arc in graph.arcs
        ],
        "contexts": [
            {
                "parent": _position(tree.parents[place]),
                "caller": _position(tree.callers[place]),
                "site": site(tree.sites[place]),
                "routine": tree.callees[place],
                "calls": tree.calls[place],
                "landings": tree.landings[place],
                "own": _sums(tree.base[place], tree.added[place]),
                "inclusive": _sums(base[place], added[place]),
            }
            for place in range(len(tree))
        ],
    }


def _sums(base: int, added: int) -> dict[str, int]:
    return {"instructions": base, "added": added}


def site(address: int) -> str:
    """Return where a call is: its address, or a word."""
    return SITES.get(address) or address_text(address)


def _position(number: int) -> int | None:
    return None if number == TOP else number
