"""Where the words of a code image lie.

A program's code is in one piece, or nearly so; that of a dynamically linked one is in as many as it
has modules, and these may lie gigabytes apart. An image has all pieces one behind the other, each
two with one word between them that is no code, so that nothing runs from one into the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.binary.program import Range


@dataclass(frozen=True)
class WordMap:
    """Word index <-> address; the pieces are in ascending order in both.

    Attributes
    ----------
    starts, ends
        Address of the first word of each piece, and the one behind its last.
    firsts
        Index of its first word.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    firsts: tuple[int, ...]

    @classmethod
    def of(cls, spans: Iterable[Range], gap: int) -> WordMap:
        """Return the map of code in `spans`, sorted; those less than `gap` bytes apart are one."""
        pieces: list[Range] = []
        for span in spans:
            start = span.start & ~3
            if pieces and start - pieces[-1].end < gap:
                pieces[-1] = Range(pieces[-1].start, max(pieces[-1].end, span.end))
            else:
                pieces.append(Range(start, span.end))
        firsts, index = [], 0
        for piece in pieces:
            firsts.append(index)
            index += (piece.end - piece.start) // 4 + 1
        starts, ends = zip(*((piece.start, piece.end) for piece in pieces), strict=True)
        return cls(starts, ends, tuple(firsts))

    @property
    def count(self) -> int:
        """Number of words, those between pieces included."""
        return self.firsts[-1] + (self.ends[-1] - self.starts[-1]) // 4

    @property
    def is_single(self) -> bool:
        """Whether all code is in one piece."""
        return len(self.starts) == 1

    def index(self, address: int) -> int:
        """Index of the word that holds `address`, -1 where there is none."""
        piece = bisect_right(self.starts, address) - 1
        if piece < 0 or address >= self.ends[piece]:
            return -1
        return self.firsts[piece] + ((address - self.starts[piece]) >> 2)

    def address(self, index: int) -> int:
        """Address of word `index`."""
        piece = 0 if self.is_single else bisect_right(self.firsts, index) - 1
        return self.starts[piece] + 4 * (index - self.firsts[piece])

    def indices(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Indices of the words at `addresses`, -1 where there is none; of the same shape."""
        starts, ends, firsts = self._arrays
        piece = np.searchsorted(starts, addresses, side="right") - 1
        found: NDArray[np.int64] = firsts[piece] + ((addresses - starts[piece]) >> 2)
        found[(piece < 0) | (addresses >= ends[piece])] = -1
        return found

    def addresses(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Addresses of the words `indices`; of the same shape."""
        starts, _, firsts = self._arrays
        found: NDArray[np.int64]
        if self.is_single:
            found = starts[0] + 4 * indices.astype(np.int64)
        else:
            piece = np.searchsorted(firsts, indices, side="right") - 1
            found = starts[piece] + 4 * (indices - firsts[piece])
        return found

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        starts, ends, firsts = (
            np.array(each, np.int64) for each in (self.starts, self.ends, self.firsts)
        )
        return starts, ends, firsts
