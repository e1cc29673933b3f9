"""Several counter files of one program as one: what was counted adds up.

Counters have 32 bits; sums are modulo 2^32, as if one run had counted all.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from simprof.profiler.code.layout import PAIR_SIZE
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.rewriting.counter_file import WORD, CounterFile, Region, RegionKind
from simprof.profiler.rewriting.tables import table_bytes, table_counts

MASK = (1 << 32) - 1


def merged(files: Sequence[CounterFile]) -> CounterFile:
    """Return what all of `files`, one at least, have counted together.

    Words of arrays and counts of pairs add up one by one, those of hash tables by key.

    Raises
    ------
    ProfileMismatchError
        If they are not of one program instrumented in one way: naming what differs.
    """
    first, *others = files
    for other in others:
        _check_alike(first, other)
    if not others:
        return first
    memory = {region.address: _sum(region, files) for region in first.regions}
    frames = tuple(frames for each in files for frames in each.frames)
    ends = tuple(end for each in files for end in each.ends)
    return CounterFile(first.name, first.header, memory, frames, ends)


def _check_alike(first: CounterFile, other: CounterFile) -> None:
    ours, theirs = first.header, other.header
    if first.header.get("trace"):
        raise ProfileMismatchError(
            f"{first.name} and {other.name}: traces cannot be merged: read one at a time"
        )
    if ours == theirs:
        return
    different = _difference(ours, theirs)
    raise ProfileMismatchError(
        f"{other.name} is not of the same instrumented program as {first.name}: {different}"
    )


def _difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Say what differs first between two headers, in the order of what a user would ask."""
    if ours["program"]["sha256"] != theirs["program"]["sha256"]:
        files = (theirs["program"]["file"], ours["program"]["file"])
        return "the program is {}, not {}".format(*map(str, files)) + (
            " as it was then" if files[0] == files[1] else ""
        )
    if ours["mode"] != theirs["mode"]:
        return f"the mode is {theirs['mode']}, not {ours['mode']}"
    for name in sorted({*ours["options"], *theirs["options"]}):
        values = theirs["options"].get(name), ours["options"].get(name)
        if values[0] != values[1]:
            return f"the option {name} is {values[0]}, not {values[1]}"
    names = ("regions", *sorted({*ours, *theirs}))
    name = next(name for name in names if ours.get(name) != theirs.get(name))
    return f"the {name} differ" if name.endswith("s") else f"the {name} differs"


def _sum(region: Region, files: Sequence[CounterFile]) -> bytes:
    contents = [each.memory[region.address] for each in files]
    if region.kind is RegionKind.TABLE:
        counts: dict[tuple[int, ...], int] = {}
        for content in contents:
            for key, count in table_counts(content, region.words):
                counts[key] = counts.get(key, 0) + count & MASK
        return table_bytes(region, counts)
    step = PAIR_SIZE // WORD if region.kind is RegionKind.PAIRS else 1
    total = _words(contents[0])
    for content in contents[1:]:
        words = _words(content)
        for at in range(step - 1, len(total), step):
            total[at] = total[at] + words[at] & MASK
    return _bytes(total)


def _words(data: bytes) -> array[int]:
    words = array("I", data)
    if sys.byteorder == "little":
        words.byteswap()
    return words


def _bytes(words: array[int]) -> bytes:
    words = array("I", words)
    if sys.byteorder == "little":
        words.byteswap()
    return words.tobytes()
