"""simprof's own files changed behind their checksums: what is inside is then read."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from random import Random

import zstandard

from tools.fuzzing.mutation import mutate_bytes, mutate_json

_HEAD = 7  # kind, length, and a check of both (profiler/trace/format.py)


def mutate_profile(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change the JSON in a saved profile; sometimes its bytes."""
    if rng.random() < 0.1:
        return mutate_bytes(rng, data, other)
    first, _, body = data.partition(b"\n")
    try:
        value = json.loads(gzip.decompress(body))
        theirs = json.loads(gzip.decompress(other.partition(b"\n")[2]))
        text = json.dumps(mutate_json(rng, value, theirs))
    except (ValueError, OSError, EOFError, zlib.error, RecursionError):
        return mutate_bytes(rng, data, other)
    return first + b"\n" + gzip.compress(text.encode(errors="surrogatepass"), 1, mtime=0)


def mutate_frames(packed: bool) -> Callable[[Random, bytes, bytes], bytes]:
    """Return what changes the header, or frames, of a trace; if `packed`, of a recording."""

    def mutate(rng: Random, data: bytes, other: bytes) -> bytes:
        choice = rng.random()
        lines = data.split(b"\n", 2)
        if choice < 0.1 or len(lines) < 3:
            return mutate_bytes(rng, data, other)
        first, header, rest = lines
        frames = _frames(rest, packed)
        if choice < 0.3 or not frames:
            return b"\n".join((first, _changed(rng, header), rest))
        for _ in range(1 + int(rng.expovariate(0.9))):
            _change_frames(rng, frames)
        return b"\n".join((first, header, b"".join(_frame(*each, packed) for each in frames)))

    return mutate


def _change_frames(rng: Random, frames: list[tuple[bytes, bytes]]) -> None:
    at = rng.randrange(len(frames))
    choice = rng.random()
    kind, content = frames[at]
    if choice < 0.8:
        frames[at] = kind, _changed(rng, content)
    elif choice < 0.86 and len(frames) > 1:
        del frames[at]
    elif choice < 0.93:
        frames.insert(rng.randrange(len(frames)), frames[at])
    else:
        frames[at] = rng.choice((b"R", b"C", b"K", b"E", b"Z", b"?")), content


def _changed(rng: Random, content: bytes) -> bytes:
    """Change JSON as JSON, and other bytes as bytes."""
    if content.startswith(b"{") and rng.random() < 0.9:
        try:
            return json.dumps(mutate_json(rng, json.loads(content))).encode()
        except (ValueError, RecursionError):
            pass
    return mutate_bytes(rng, content, content)


def _frames(data: bytes, packed: bool) -> list[tuple[bytes, bytes]]:
    """Return (kind, content) of all whole frames."""
    frames = []
    at = 0
    while at + _HEAD <= len(data):
        size = int.from_bytes(data[at + 1 : at + 5], "big")
        content = data[at + _HEAD : at + _HEAD + size]
        if packed:
            try:
                content = zstandard.ZstdDecompressor().decompress(content, 1 << 20)
            except zstandard.ZstdError:
                break
        frames.append((data[at : at + 1], content))
        at += _HEAD + size + 4
    return frames


def _frame(kind: bytes, content: bytes, packed: bool) -> bytes:
    if packed:
        content = zstandard.ZstdCompressor(level=1).compress(content)
    head = kind + len(content).to_bytes(4, "big")
    check = (zlib.crc32(head) & 0xFFFF).to_bytes(2, "big")
    return head + check + content + zlib.crc32(kind + content).to_bytes(4, "big")


def mutate_counters(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change the header of a counter file, or what is behind it."""
    first, _, rest = data.partition(b"\n")
    header, newline, body = rest.partition(b"\n")
    if not newline or rng.random() < 0.1:
        return mutate_bytes(rng, data, other)
    if rng.random() < 0.5:
        header = _changed(rng, header)
    else:
        body = mutate_bytes(rng, body, other)
    return b"\n".join((first, header, body))
