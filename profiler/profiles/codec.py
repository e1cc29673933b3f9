"""Structures to JSON values and back, strictly, and long numbers in JSON and TOML.

Decoding checks every type, so that a file which was damaged or written by hand cannot put a wrong
value into the program. Of structures with `omit_defaults`, fields with plain defaults are written
only where they have other values; those whose default is `written` always are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")
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


def written(default: T) -> T:
    """Return what gives a field a default that is written, too; each value has its own."""
    return msgspec.field(default_factory=lambda: copy(default))


def encode(value: object) -> Any:
    """Return `value` as something that `json.dumps` takes."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return tuple(value)
    raise TypeError(f"cannot save a {type(value).__name__}")


def decode(kind: type[T], value: object, where: str = "profile") -> T:
    """Return the `kind` that `value` encodes.

    Raises ValueError if a field is missing, unknown or of another type; the message names it.
    """
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        said = _in_words(str(error), where)
        if said.startswith("unknown key") and "`$" not in str(error):
            said += f": choose from {', '.join(getattr(kind, '__struct_encode_fields__', ()))}"
        raise ValueError(said) from None


# msgspec's sentences, and what they say to somebody who wrote a file by hand.
_SENTENCES = (
    (r"Object contains unknown field `(.*)`", "unknown key '{0}'{of}"),
    (r"Object missing required field `(.*)`", "{0} is missing{of}"),
    (r"Invalid enum value (.*)", "{at} is {0}, which it cannot be"),
    (r"Expected `int` >= (\d+)", "{at} must be a whole number, {0} or more"),
    (r"Expected `array` of length >= 1", "{at} must not be empty"),
    (r"Expected `(.*)`, got `.*`", "{at} must be {0}"),
)
_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def _in_words(sentence: str, where: str) -> str:
    said, _, place = sentence.partition(" - at `$")
    at = f"{where}{place.removesuffix('`')}".lstrip(".")
    for pattern, words in _SENTENCES:
        if (match := re.fullmatch(pattern, said)) is not None:
            found = [
                " or ".join(_KINDS.get(each, each) for each in part.split(" | "))
                for part in match.groups()
            ]
            return words.format(*found, at=at or "it", of=f" in {at}" if at else "")
    return f"{at}: {said}" if at else said
