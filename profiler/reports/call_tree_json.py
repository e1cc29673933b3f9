"""A call tree as JSON: `call_tree` of a run object (docs/SEMANTICS.md, *Calling contexts*)."""

from __future__ import annotations

from simprof.profiler.profiles.call_graph import call_graph
from simprof.profiler.profiles.call_tree import BEYOND, LANDED, SIGNALLED, STARTED, TOP, CallTree

SITES = {STARTED: "start", SIGNALLED: "signal", LANDED: "landing", BEYOND: "beyond"}
"""What stands for sites that are no address."""


def call_tree_object(tree: CallTree) -> dict[str, object]:
    """Return `call_tree`."""
    graph = call_graph(tree)
    base, added = tree.inclusive()
    return {
        "limit": tree.limit,
        "beyond": tree.beyond,
        "routines": [
            {
                "name": routine.name,
                "address": routine.address,
                "calls": routine.calls,
                "landings": routine.landings,
                "own": {"base": routine.base, "added": routine.added},
                "inclusive": {"base": routine.inclusive_base, "added": routine.inclusive_added},
            }
            for routine in graph.routines
        ],
        "calls": [
            {
                "caller": _position(arc.caller),
                "site": site(arc.site),
                "callee": arc.callee,
                "calls": arc.calls,
                "inclusive": {"base": arc.base, "added": arc.added},
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
                "own": {"base": tree.base[place], "added": tree.added[place]},
                "inclusive": {"base": base[place], "added": added[place]},
            }
            for place in range(len(tree))
        ],
    }


def site(address: int) -> int | str:
    """Return where a call is: its address, or a word."""
    return SITES.get(address, address)


def _position(number: int) -> int | None:
    return None if number == TOP else number
