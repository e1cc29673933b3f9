"""Preferential numbers in the plainest way: prefixes are tuples, and every path is looked through.

Nothing of `schemes.pref` is used. `sizes` is the variant that the slides of the paper seem to have,
which adds up how long intervals are, not where they end: it gives two paths one number at times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Path = tuple[int, ...]


def values_of(
    order: Sequence[int],  # The vertices, ENTRY first and EXIT last
    out_edges: Mapping[int, Sequence[int]],  # In the order in which they are valued
    paths: Sequence[Path],
    source: Mapping[int, int],
    *,
    sizes: bool = False,
) -> dict[int, int]:
    """Return the values of all edges; the least number is not taken off."""
    values: dict[int, int] = {}
    for vertex in reversed(order):
        before = {
            path[:at] for path in paths for at, edge in enumerate(path) if source[edge] == vertex
        }
        end = dict.fromkeys(before, 0)
        for edge in out_edges.get(vertex, ()):
            rests = {
                prefix: [
                    sum(values[later] for later in path[len(prefix) + 1 :])
                    for path in paths
                    if path[: len(prefix) + 1] == (*prefix, edge)
                ]
                for prefix in before
            }
            used = {prefix: sums for prefix, sums in rests.items() if sums}
            values[edge] = max((end[p] - min(sums) for p, sums in used.items()), default=0)
            for prefix, sums in used.items():
                if sizes:
                    end[prefix] += max(sums) - min(sums) + 1
                else:
                    end[prefix] = values[edge] + max(sums) + 1
    return values
