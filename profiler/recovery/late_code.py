"""The words of code that start-up writes.

Static programs call indirect functions through stubs (`.iplt`) that their start-up code patches.
The graphs need those words, and recovering graphs is the slow part of a short run; so the program
first runs up to the first use of late code, uncounted and for as long as start-up can last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simprof.simulator.binary.program import Range

START_UP = 500_000
"""Instructions after which start-up is surely over."""


def read_words(
    read: Callable[[int, int], bytes], spans: Sequence[Range]
) -> frozenset[tuple[int, int]]:
    """(address, word) of everything in `spans`, as it is in memory now."""
    words = set()
    for span in spans:
        data = read(span.start, span.end - span.start)
        words |= {
            (span.start + at, int.from_bytes(data[at : at + 4], "big"))
            for at in range(0, len(data) - 3, 4)
        }
    return frozenset(words)
