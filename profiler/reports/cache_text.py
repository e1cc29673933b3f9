"""The cache for people: what is known of which programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from simprof.profiler.profiles.cache_files import KINDS, CacheEntry
from simprof.profiler.reports.tables import columns, name, number, print_parts, text


def render(entries: Sequence[CacheEntry], directory: str, width: int) -> str:
    """Return the list of a cache's files, and what they take."""
    parts = columns(text("used"), name("program"), text("sha256"), text("what"), number("bytes"))
    for entry in entries:
        program, sha256, _, what = (*entry.name.split("."), *[""] * 4)[:4]
        kind = KINDS.get(what.partition("-")[0], "not simprof's")
        used = datetime.fromtimestamp(entry.used, UTC).strftime("%Y-%m-%d %H:%M:%S")
        parts.add_row(used, program, sha256, kind, entry.size)
    if not entries:
        return f"{directory}: nothing is kept\n"
    return print_parts([parts], width, color=False) + total(entries, directory)


def total(entries: Sequence[CacheEntry], directory: str) -> str:
    """Return how many files there are, and what they take."""
    size = sum(entry.size for entry in entries)
    return f"{directory}: {len(entries):,} files, {size:,} bytes\n"
