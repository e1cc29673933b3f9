"""Discoveries of a run as a header has them: in traces, recordings and counter files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from simprof.profiler.profiles.codec import decode, encode
from simprof.profiler.recovery.recovery import Discoveries

_ADDRESSES = 1 << 64
_WORDS = 1 << 32


def discovery_fields(discoveries: Discoveries) -> dict[str, Any]:
    """Return discoveries as JSON has them; modules only where a program has loaded some."""
    sets: dict[str, frozenset[Any]] = vars(discoveries)
    known = {name: list(map(encode, sorted(items))) for name, items in sets.items()}
    if not discoveries.modules:
        del known["modules"], known["earlier"]
    return known


def read_discoveries(given: Mapping[str, Any]) -> Discoveries:
    """Return the discoveries that `discovery_fields` wrote; what is not there is none.

    Raises
    ------
    ValueError
        If they are nothing of the kind.
    """
    none: dict[str, Any] = {each.name: [] for each in fields(Discoveries)}
    found = decode(Discoveries, {**none, **given}, "discoveries")
    pairs = (*found.indirect_targets, *found.late_words)
    addresses = {*found.entries, *found.returning_calls, *(each for pair in pairs for each in pair)}
    if any(not 0 <= address < _ADDRESSES for address in addresses):
        raise ValueError("an address beyond all memory")
    if any(word >= _WORDS for _, word in found.late_words):
        raise ValueError("a word of more than 32 bits")
    return found
