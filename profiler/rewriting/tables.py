"""Hash tables of paths as bytes: what they hold, and such as hold given counts.

The layout is that of `hash_routine` and, for keys of several words, of `word_hash_routine`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from simprof.profiler.code.runtime.word_hash_routine import WordTable
from simprof.profiler.rewriting.counter_file import Region


def table_counts(content: bytes, words: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the key, by word, and the count of each path in a table, as they were first counted.

    Parameters
    ----------
    content
        The table up to the first node that is not used.
    words
        32-bit words of a key.
    """
    table = WordTable(words)
    for node in struct.iter_unpack(f">{words + 2}I", content[table.pool :]):
        yield node[:words], node[words]


def table_bytes(region: Region, counts: Mapping[tuple[int, ...], int]) -> bytes:
    """Return a table that holds `counts` for readers: its chains are not linked."""
    table = region.table
    content = bytearray(table.initial(region.address))
    for key, count in counts.items():
        content += struct.pack(f">{region.words + 2}I", *key, count, 0)
    content[table.free : table.free + 4] = (region.address + len(content)).to_bytes(4, "big")
    return bytes(content)
