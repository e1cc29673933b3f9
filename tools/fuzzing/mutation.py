"""Files changed at random: bytes, big-endian numbers in them, JSON values, words of a text.

A *mutator* takes a random generator, an input, and another one to take pieces from; it returns a
new input. All that it does follows from the generator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutator = Callable[[Random, bytes, bytes], bytes]

LARGEST = 1 << 20
"""Bytes of a mutated input: time goes into many small ones."""
NUMBERS = tuple(
    sorted({n for bit in range(65) for n in ((1 << bit) - 1, 1 << bit, (1 << bit) + 1)})
)
"""Numbers around powers of two, where lengths and offsets go wrong."""
_SIZES = (1, 1, 2, 4, 4, 8)


def mutate_bytes(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change, copy, remove or insert a few bytes, or cut the end."""
    result = bytearray(data)
    for _ in range(1 + int(rng.expovariate(0.7))):
        _change(rng, result, other)
    return bytes(result[:LARGEST])


def _change(rng: Random, data: bytearray, other: bytes) -> None:
    at = rng.randrange(len(data)) if data else 0
    choice = rng.random()
    if not data or choice < 0.08:
        data[at:at] = _piece(rng, other)
    elif choice < 0.3:
        data[at] ^= 1 << rng.randrange(8)
    elif choice < 0.5:
        data[at] = rng.randrange(256)
    elif choice < 0.75:
        size = rng.choice(_SIZES)
        data[at : at + size] = (rng.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "big")
    elif choice < 0.84:
        piece = _piece(rng, other)
        data[at : at + len(piece)] = piece
    elif choice < 0.9:
        del data[at : at + 1 + int(rng.expovariate(0.05))]
    elif choice < 0.97:
        start = rng.randrange(len(data))
        data[at:at] = data[start : start + 1 + int(rng.expovariate(0.05))]
    else:
        del data[at:]


def _piece(rng: Random, data: bytes) -> bytes:
    if not data:
        return bytes([rng.randrange(256)])
    start = rng.randrange(len(data))
    return data[start : start + 1 + int(rng.expovariate(0.05))]


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 1 << 31, 1 << 32, 1 << 63, -(1 << 63), 1 << 64, 10**30, 0.5,
    -0.0, 1e300, float("inf"), float("nan"), "", "x", "-1", " ", "\n", "\x00", "a\tb", "\x1b[31m",
    "\ud800", "../..", "é" * 40, [], {}, [[]], [0], {"": 0}, [None], "ENTRY", "EXIT",
)  # fmt: skip
"""JSON values that programs do not expect."""


def mutate_json(rng: Random, value: Any, other: Any = None) -> Any:
    """Return a JSON value with a few of its parts replaced, removed, doubled or exchanged.

    The value that is given may be changed.
    """
    holder = [value]
    for _ in range(1 + int(rng.expovariate(0.9))):
        _change_json(rng, holder, other)
    return holder[0]


def _change_json(rng: Random, holder: list[Any], other: Any) -> None:
    container, key = _spot(rng, holder)
    choice = rng.random()
    if choice < 0.35:
        container[key] = _near(rng, container[key])
    elif choice < 0.6:
        container[key] = rng.choice(VALUES)
    elif choice < 0.75 and len(container) > (container is holder):
        del container[key]
        if container is holder:
            holder.append(rng.choice(VALUES))
    elif choice < 0.87:
        source, place = _spot(rng, holder if other is None or rng.random() < 0.7 else [other])
        container[key] = _copied(source[place])
    elif isinstance(container, list) and container is not holder:
        container.insert(key, _copied(container[key]))
    elif isinstance(container, dict):
        container[rng.choice(("", "x", key + "x"))] = container.pop(key)


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


def _spot(rng: Random, holder: list[Any]) -> tuple[Any, Any]:
    """Return a container somewhere in a value, and a key of it."""
    container: Any = holder
    key: Any = 0
    while isinstance(container[key], dict | list) and container[key] and rng.random() < 0.85:
        container = container[key]
        if isinstance(container, list):
            key = rng.randrange(len(container))
        else:
            key = rng.choice(list(container))
    return container, key


def _near(rng: Random, value: Any) -> Any:
    """Return a value of the same type that is a little different."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, -value, value * 2, rng.choice(NUMBERS)))
    if isinstance(value, float):
        return rng.choice((-value, value * 1e30, 0.0))
    if isinstance(value, str):
        return mutate_bytes(rng, value.encode(errors="replace"), b"%s{}\\/").decode("latin-1")
    if isinstance(value, list):
        return value[::-1] if rng.random() < 0.5 else value[: rng.randrange(len(value) + 1)]
    if isinstance(value, dict):
        return {key: value[key] for key in list(value)[: rng.randrange(len(value) + 1)]}
    return rng.choice(VALUES)


def json_text(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change the JSON value that an input is, or its bytes."""
    if rng.random() < 0.15:
        return mutate_bytes(rng, data, other)
    try:
        changed = mutate_json(rng, json.loads(data), json.loads(other))
        return json.dumps(changed).encode()
    except (ValueError, RecursionError):
        return mutate_bytes(rng, data, other)


_WORD = re.compile(rb"\w+|[^\w\s]|\s+")
WORDS = (
    b"0", b"1", b"-1", b"1e999", b"nan", b"99999999999999999999", b"true", b'""', b'"', b"'", b"[",
    b"]", b"[[", b"]]", b"{", b"}", b"=", b".", b",", b"\n", b"\0", b"\xff", b"#", b"<", b">", b"&",
    b"/", b"../", b"\\", b"*", b"{name}", b"\xe2\x80\xa8", b"\x1b[0m",
)  # fmt: skip
"""Words that mean something in the texts that are read."""


def mutate_words(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change a text word by word, or line by line; sometimes its bytes."""
    if rng.random() < 0.15:
        return mutate_bytes(rng, data, other)
    lines = rng.random() < 0.3
    parts = data.splitlines(keepends=True) if lines else _WORD.findall(data)
    theirs = other.splitlines(keepends=True) if lines else _WORD.findall(other)
    for _ in range(1 + int(rng.expovariate(0.7))):
        _change_parts(rng, parts, theirs, lines)
    return b"".join(parts)[:LARGEST]


def _change_parts(rng: Random, parts: list[bytes], theirs: Sequence[bytes], lines: bool) -> None:
    at = rng.randrange(len(parts)) if parts else 0
    choice = rng.random()
    if not parts or choice < 0.15:
        parts.insert(at, rng.choice(theirs or WORDS))
    elif choice < 0.3:
        del parts[at]
    elif choice < 0.45:
        parts.insert(at, parts[rng.randrange(len(parts))])
    elif choice < 0.65:
        parts[at] = parts[rng.randrange(len(parts))]
    elif choice < 0.8 and theirs:
        parts[at] = rng.choice(theirs)
    elif lines:
        parts[at] = parts[at] * rng.choice((2, 3, 50))
    else:
        parts[at] = rng.choice(WORDS)
