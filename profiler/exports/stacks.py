"""Stacks of a call tree, for formats that show them: `collapsed` and what others share.

Every context is a stack of routines, the program's first one outermost, with the instructions that
were executed in its last routine. Recursion is folded as in the tree (`profiles.call_tree`).
"""

from __future__ import annotations

from collections.abc import Iterator

from simprof.profiler.exports.source import ExportSource
from simprof.profiler.profiles.call_tree import CallTree, without_sites
from simprof.profiler.reports.display import readable


def call_tree(source: ExportSource) -> CallTree:
    """Return the call tree of a profile, which must have one (`formats.Need.CALLS`)."""
    tree = source.measurement.call_tree
    assert tree is not None
    return tree


def stacks(tree: CallTree) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield contexts, each with the ones that lead to it, the outermost first, itself last."""
    way: list[int] = []
    for place, enters in tree.walk():
        if enters:
            way.append(place)
            yield place, tuple(way)
        else:
            way.pop()


def write_base(source: ExportSource) -> bytes:
    """Return folded stacks with the program's instructions."""
    tree = without_sites(call_tree(source))
    return _collapsed(tree, tree.base)


def write_added(source: ExportSource) -> bytes:
    """Return folded stacks with the instructions of the scheme's code."""
    tree = without_sites(call_tree(source))
    return _collapsed(tree, tree.added)


def _collapsed(tree: CallTree, weights: tuple[int, ...]) -> bytes:
    """Return one line a stack: names from the outside in, between semicolons, and its weight."""
    names = [readable(routine.name).replace(";", ":") for routine in tree.routines]
    lines = [
        f"{';'.join(names[tree.callees[each]] for each in way)} {weights[place]}\n"
        for place, way in stacks(tree)
        if weights[place]
    ]
    return "".join(lines).encode(errors="backslashreplace")
