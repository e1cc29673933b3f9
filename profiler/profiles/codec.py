"""Frozen dataclasses to JSON values and back, strictly.

Used for the saved profile: decoding checks every type, so that a file which was damaged or
written by hand cannot put a wrong value into the program. Understood are dataclasses, enums,
literals, `int`, `str`, `bool`, `float`, `None`, unions, `tuple[X, ...]`, `tuple[X, Y]`,
`Sequence[X]`, `frozenset[X]`, `Mapping[str, X]` and `Mapping[int, X]` (keys are written in
decimal), and `Any`, which is left as it is. A field that is `RARE` is written only where its value
is not the default.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
SCALARS = (int, str, bool, float, type(None))
# Metadata of a field, with a default, that few values of its class need.
RARE = MappingProxyType({"rare": True})
# Of the longest number that is read or printed: path counts may have 10,000. Python takes a time
# that grows with the square of the length, seconds for a million digits.
DIGITS = 100_000


@contextmanager
def big_integers() -> Iterator[None]:
    """Let integers of up to `DIGITS` digits be printed and read."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(DIGITS)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(limit)


def json_line(value: object) -> str:
    """Return a value as one line of JSON, with integers of up to `DIGITS` digits."""
    with big_integers():
        return json.dumps(value) + "\n"


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Return a JSON value, with integers of up to `DIGITS` digits.

    Raises ValueError if it is no JSON, or has a longer number, RecursionError if nested too deeply.
    """
    with big_integers():
        return _said_shortly(json.loads, text, options)


def parse_toml(text: str) -> dict[str, Any]:
    """Return a TOML document, with integers of up to `DIGITS` digits.

    Raises ValueError if it is no TOML, is nested too deeply, or has a longer number.
    """
    import tomllib  # most commands read none

    with big_integers():
        try:
            return cast(dict[str, Any], _said_shortly(tomllib.loads, text, {}))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def _said_shortly(parse: Callable[..., Any], text: str | bytes, options: dict[str, Any]) -> Any:
    try:
        return parse(text, **options)
    except ValueError as error:
        if is_long_number(error):
            raise ValueError(LONG_NUMBER) from None
        raise


LONG_NUMBER = f"a number has more than {DIGITS:,} digits"


def is_long_number(error: Exception) -> bool:
    """Whether an error is Python's about a number that is too long to be read."""
    return "integer string conversion" in str(error)


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
        found = {name: encode(getattr(value, name)) for name in hints(type(value))}
        for name, default in rare(type(value)).items():
            if getattr(value, name) == default:
                del found[name]
        return found
    raise TypeError(f"cannot save a {type(value).__name__}")


def decode(kind: type[T], value: object, where: str = "profile") -> T:
    """Return the `kind` that `value` encodes.

    Raises ValueError if a field is missing, unknown or of another type; the message names it.
    """
    expected: Any = kind
    return cast(T, decoder(expected)(value, where))


@cache
def hints(kind: type) -> dict[str, Any]:
    """Return field name -> type of a dataclass."""
    known = get_type_hints(kind)
    return {field.name: known[field.name] for field in fields(kind)}


@cache
def rare(kind: type) -> dict[str, Any]:
    """Return field name -> default of a dataclass's `RARE` fields."""
    return {field.name: field.default for field in fields(kind) if "rare" in field.metadata}


Decoder = Callable[[Any, str], Any]  # Decodes a value; the text says where it stands, for messages


@cache
def decoder(kind: Any) -> Decoder:
    """Return what decodes values of the type expression `kind`; large profiles have millions."""
    if kind is Any:
        return lambda value, where: value
    if kind in SCALARS:
        return _scalar_decoder(kind)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union_decoder(kind)
    if origin is Literal:
        return _literal_decoder(kind)
    if origin is tuple and get_args(kind)[-1] is not Ellipsis:
        return _row_decoder(kind)
    if origin in (tuple, Sequence, frozenset):  # a list of any length; all its items are alike
        item = decoder(get_args(kind)[0])
        make = frozenset if origin is frozenset else tuple
        return lambda value, where: make(item(each, where) for each in expect(list, value, where))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_decoder(kind)
    if is_dataclass(kind):
        return _dataclass_decoder(kind)
    return lambda value, where: kind(value)  # an enum: ValueError with the name if it is unknown


def _scalar_decoder(kind: Any) -> Decoder:
    """A value must be exactly a `kind` (a bool is no int; an int may stand for a float)."""

    def decode(value: Any, where: str) -> Any:
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise ValueError(f"{where} is not of type {kind.__name__}")

    return decode


def _union_decoder(kind: Any) -> Decoder:
    """The first alternative that takes a value decodes it."""
    alternatives = get_args(kind)
    decoders = [decoder(alternative) for alternative in alternatives]

    def decode(value: Any, where: str) -> Any:
        if type(value) in alternatives:
            return value
        for each in decoders:
            with suppress(ValueError):
                return each(value, where)
        raise ValueError(f"{where} has a value of a wrong type")

    return decode


def _literal_decoder(kind: Any) -> Decoder:
    literals = get_args(kind)

    def decode(value: Any, where: str) -> Any:
        if value not in literals:
            raise ValueError(f"{where} is none of {', '.join(map(str, literals))}")
        return value

    return decode


def _row_decoder(kind: Any) -> Decoder:
    items = [decoder(each) for each in get_args(kind)]

    def decode(value: Any, where: str) -> Any:
        if len(expect(list, value, where)) != len(items):
            raise ValueError(f"{where} has another length than {len(items)}")
        return tuple(item(each, where) for item, each in zip(items, value, strict=True))

    return decode


def _mapping_decoder(kind: Any) -> Decoder:
    key_type, item_type = get_args(kind)
    item = decoder(item_type)
    return lambda value, where: {
        key_type(key): item(each, where) for key, each in expect(dict, value, where).items()
    }


def _dataclass_decoder(kind: Any) -> Decoder:
    """Every field is there that is not rare, and none that is not its own."""
    members = {name: decoder(hint) for name, hint in hints(kind).items()}
    needed = members.keys() - rare(kind).keys()

    def decode(value: Any, where: str) -> Any:
        data = expect(dict, value, where)
        if not needed <= data.keys() <= members.keys():
            odd = sorted((needed - data.keys()) | (data.keys() - members.keys()))
            raise ValueError(f"{where} lacks or does not know {', '.join(odd)}")
        return kind(**{name: members[name](item, name) for name, item in data.items()})

    return decode


def expect(kind: type[T], value: object, where: str) -> T:
    """Return `value` if it is a `kind`."""
    if not isinstance(value, kind):
        raise ValueError(f"{where} is not a {kind.__name__}")
    return value
