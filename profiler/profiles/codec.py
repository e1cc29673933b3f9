"""Frozen dataclasses to JSON values and back, strictly.

Used for the saved profile: decoding checks every type, so that a file which was damaged or
written by hand cannot put a wrong value into the program. Understood are dataclasses, enums,
literals, `int`, `str`, `bool`, `float`, `None`, unions, `tuple[X, ...]`, `Mapping[str, X]` and
`Mapping[int, X]` (keys are written in decimal).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
SCALARS = (int, str, bool, float, type(None))


@contextmanager
def big_integers() -> Iterator[None]:
    """Let integers of any length be printed and read (path counts may have 10,000 digits)."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(limit)


def encode(value: object) -> object:
    """Return `value` as something that `json.dumps` takes."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in hints(type(value))}
    raise TypeError(f"cannot save a {type(value).__name__}")


def decode(kind: type[T], value: object, where: str = "profile") -> T:
    """Return the `kind` that `value` encodes.

    Raises
    ------
    ValueError
        If a field is missing, unknown or of another type; the message names it.
    """
    result: T = decode_any(kind, value, where)
    return result


@cache
def hints(kind: type) -> dict[str, Any]:
    """Return field name -> type of a dataclass."""
    known = get_type_hints(kind)
    return {field.name: known[field.name] for field in fields(kind)}


def decode_any(kind: Any, value: object, where: str) -> Any:
    """Decode `value` as the type expression `kind`."""
    if kind in SCALARS:
        return decode_scalar(kind, value, where)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return decode_union(kind, value, where)
    if origin is Literal:
        return decode_literal(kind, value, where)
    if origin is tuple:
        item = get_args(kind)[0]
        return tuple(decode_any(item, each, where) for each in expect(list, value, where))
    if origin is not None and issubclass(origin, Mapping):
        return decode_mapping(kind, value, where)
    if is_dataclass(kind):
        return decode_dataclass(kind, value, where)
    return kind(value)  # an enum: unknown values raise ValueError with the name


def decode_scalar(kind: Any, value: object, where: str) -> Any:
    """Return `value` if it is exactly a `kind` (a bool is no int; an int may stand for a float)."""
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise ValueError(f"{where} is not of type {kind.__name__}")


def decode_union(kind: Any, value: object, where: str) -> Any:
    """Return `value` as the first alternative that takes it."""
    alternatives = get_args(kind)
    if type(value) in alternatives:
        return value
    for alternative in alternatives:
        try:
            return decode_any(alternative, value, where)
        except ValueError:
            continue
    raise ValueError(f"{where} has a value of a wrong type")


def decode_literal(kind: Any, value: object, where: str) -> Any:
    """Return `value` if it is one of the literals."""
    if value not in get_args(kind):
        raise ValueError(f"{where} is none of {', '.join(map(str, get_args(kind)))}")
    return value


def decode_mapping(kind: Any, value: object, where: str) -> dict[Any, Any]:
    """Decode a mapping whose keys are strings or integers."""
    key_type, item = get_args(kind)
    return {
        key_type(key): decode_any(item, each, where)
        for key, each in expect(dict, value, where).items()
    }


def decode_dataclass(kind: Any, value: object, where: str) -> Any:
    """Decode a dataclass: every field there, none that is not its own."""
    data = expect(dict, value, where)
    expected = hints(kind)
    if data.keys() != expected.keys():
        odd = sorted(data.keys() ^ expected.keys())
        raise ValueError(f"{where} lacks or does not know {', '.join(odd)}")
    return kind(**{name: decode_any(hint, data[name], name) for name, hint in expected.items()})


def expect(kind: type[T], value: object, where: str) -> T:
    """Return `value` if it is a `kind`."""
    if not isinstance(value, kind):
        raise ValueError(f"{where} is not a {kind.__name__}")
    return value
