"""What a pickle holds of tuples of numbers: arrays, which are written and read in one go."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

T = TypeVar("T", bound=Struct)
Reduced = tuple[Callable[..., Any], tuple[Any, ...]]  # What `__reduce__` returns


def compact(values: Sequence[int]) -> array[int] | tuple[int, ...]:
    """Return numbers as an array of the shortest kind that holds them, or else as a tuple."""
    for kind in "hiq":
        try:
            return array(kind, values)
        except OverflowError:
            continue
    return tuple(values)


def reduced(value: Struct) -> Reduced:
    """Return what a pickle holds of a structure with tuples of numbers: its `__reduce__`."""
    values = (compact(each) if isinstance(each, tuple) else each for each in astuple(value))
    return restored, (type(value), *values)


def restored(kind: type[T], *values: object) -> T:
    """Make a structure of what `reduced` has made of its fields."""
    plain = (tuple(each) if isinstance(each, array) else each for each in values)
    return kind(**dict(zip(kind.__struct_fields__, plain, strict=True)))
