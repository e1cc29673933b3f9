"""Memory of instrumented programs and counter files, made word by word as they are described."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from profiler.rewriting.memory import ProgramMemory
from tests.support.code_bench import SPANS, CodeBench


def prepare(bench: CodeBench, memory: ProgramMemory) -> None:
    """Do what the start of an instrumented program does: map, and fill."""
    for address, size in memory.mapped:
        base = max(base for base in SPANS if base <= address)
        bench.write(address, bytes(min(size, base + SPANS[base] - address)))
    for address, data in memory.fills:
        bench.write(address, data)


def content_of(
    header: bytes,
    regions: Sequence[Mapping[str, Any]],
    read: Callable[[int, int], bytes],
    frames: Sequence[int] = (),
    width: int = 8,
) -> bytes:
    """Do what the end of an instrumented program does: return its counter file.

    `regions` are those of the header, as it has them.
    """
    parts = [header]
    for region in regions:
        address, size = region["address"], region["size"]
        if region["kind"] == "table":
            end = {1: 28, 2: 36, 3: 44, 4: 52}[region["words"]]
            size = int.from_bytes(read(address + end, 4), "big") - address
        parts.append(read(address, size))
    parts.append(len(frames).to_bytes(4, "big"))
    parts += [frame.to_bytes(width, "big") for frame in frames]
    return b"".join([*parts, b"simprof\n"])


def header_fields(header: bytes) -> dict[str, Any]:
    """Return the JSON object in the first two lines of a counter file."""
    kind, text, rest = header.split(b"\n")
    assert (kind, rest) == (b"simprof-counters/1", b"")
    fields: dict[str, Any] = json.loads(text)
    return fields
