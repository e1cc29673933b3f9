"""`simulator.values.dataclass` does what the standard library's does, at the first use."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any, ClassVar

import pytest

import simprof
from simprof.simulator import values

Make = Callable[[Any], Any]
OPTIONS = [
    {"frozen": frozen, "eq": eq, "repr": shown, "kw_only": named}
    for frozen in (False, True)
    for eq in (False, True)
    for shown in (False, True)
    for named in (False, True)
]


def family(make: Make) -> tuple[Any, Any, Any]:
    """A class, one that inherits from it without being decorated, and one that is."""

    class Base:
        first: int
        second: list[int] = dataclasses.field(default_factory=list)
        third: str = dataclasses.field(default="x", compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", sum(self.second))

    base = make(Base)

    class Plain(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(first=5)

    class Derived(base):  # type: ignore[misc, valid-type]
        shared: ClassVar[int] = 3
        third: str  # the default of the base
        fourth: tuple[int, ...] = (1,)

        def __repr__(self) -> str:
            return "own"

    return base, Plain, make(Derived)


def told(act: Callable[[], object]) -> object:
    try:
        return act()
    except Exception as error:  # what is raised is what is compared
        return type(error), str(error)


def facts(classes: tuple[Any, Any, Any], first_act: int) -> list[object]:
    """What all ways to use the classes tell, beginning with one of them: it makes the methods."""
    base, plain, derived = classes

    def objects() -> list[Any]:
        return [base(first=1), base(first=1, third="y"), base(first=2), plain(), derived(first=1)]

    def stable(each: object) -> bool:
        return hash(each) == hash(each)

    def compared() -> object:
        return [[a == b for b in objects()] for a in objects()]

    def matched() -> object:
        match base(first=3):
            case base(first=found, third=text):
                return found, text
        return None

    acts: list[Callable[[], object]] = [
        lambda: [[field.name for field in dataclasses.fields(each)] for each in classes],
        lambda: [dataclasses.is_dataclass(each) for each in classes],
        lambda: [str(each.__match_args__) for each in (derived, base)],
        lambda: [told(partial(stable, each)) for each in objects()],
        lambda: base.__hash__ is None,
        lambda: [repr(each).split(" object at")[0] for each in objects()],
        compared,
        matched,
        lambda: [dataclasses.replace(each, first=9).first for each in (base(first=1),)],
        lambda: [dataclasses.asdict(each) for each in objects()],
        lambda: told(lambda: base(1, [2]).second),
        lambda: told(lambda: setattr(base(first=1), "first", 2)),
        lambda: told(lambda: delattr(base(first=1), "first")),
        lambda: [each.total for each in objects()],
        lambda: told(lambda: base.__new__(base) == 1),
    ]
    turned = acts[first_act:] + acts[:first_act]
    found = [told(act) for act in turned]
    back = len(acts) - first_act
    return found[back:] + found[:back]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(k for k in each if each[k]))
def test_classes_are_those_of_the_standard_library(options: dict[str, bool]) -> None:
    for first_act in range(15):
        expected = facts(family(dataclasses.dataclass(**options)), first_act)
        found = facts(family(values.dataclass(**options)), first_act)
        assert found == expected, first_act


@pytest.mark.parametrize("options", ({}, {"kw_only": True}), ids=str)
def test_fields_that_are_more_than_names_with_defaults(options: dict[str, bool]) -> None:
    def told_of(make: Make) -> list[object]:
        class Given:
            first: int
            third: int = dataclasses.field(default=7, init=False)
            fourth: list[int] = dataclasses.field(default_factory=list, init=False)
            fifth: int = 5

        class Marked:
            first: int
            _: dataclasses.KW_ONLY
            second: int = 5

        made, marked, changing = (
            make(Given),
            make(Marked),
            type("Changing", (), {"__annotations__": {"first": "list"}}),
        )
        changing.first = []  # type: ignore[attr-defined]
        acts: list[Callable[[], object]] = [
            lambda: vars(made(first=1)) | {"third": made(first=1).third},
            lambda: repr(made(first=1, fifth=3)).split(".")[-1],
            lambda: vars(made(1, 2)),
            lambda: made(first=1, third=3),
            lambda: [made(first=1) == made(first=each) for each in (1, 2)],
            lambda: made(first=1).fourth is made(first=1).fourth,
            lambda: hasattr(made, "fourth"),
            lambda: vars(marked(first=1)),
            lambda: marked(1, 2),
            lambda: make(changing)().first,
        ]
        return [told(act) for act in acts]

    expected = told_of(dataclasses.dataclass(**options))
    assert told_of(values.dataclass(**options)) == expected
    assert expected[0] == {"first": 1, "third": 7, "fourth": [], "fifth": 5}


@values.dataclass(frozen=True)
class Kept:
    """Pickled, and unpickled where no object of it was made."""

    number: int
    text: str = "t"


def test_unpickled_objects_are_equal_and_hash_before_any_was_made() -> None:
    data = pickle.dumps([Kept(1), Kept(1), Kept(2)])
    code = (
        "import pickle, sys; a, b, c = pickle.loads(sys.stdin.buffer.read());"
        "print(a == b, a == c, hash(a) == hash(b), a)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=data, capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode() == "True False True Kept(number=1, text='t')\n"


def test_threads_that_come_at_once_all_find_the_methods() -> None:
    for _ in range(50):
        base, _, derived = family(values.dataclass(frozen=True))
        barrier = Barrier(4)

        def make(kind: type, barrier: Barrier = barrier) -> str:
            barrier.wait()
            return repr(kind(first=1))

        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(make, (base, derived, base, derived)))
        assert len(found) == 2


@pytest.mark.parametrize("frozen", [False, True])
def test_classes_with_slots_are_those_of_the_standard_library(frozen: bool) -> None:
    def told_of(make: Make) -> list[object]:
        class Slotted:
            first: int
            second: list[int] = dataclasses.field(default_factory=list)
            third: str = dataclasses.field(default="x", compare=False)

        made = make(Slotted)
        acts: list[Callable[[], object]] = [
            lambda: [each.name for each in dataclasses.fields(made)],
            lambda: hasattr(made.__new__(made), "__dict__"),
            lambda: repr(made(1, third="y")).split(".")[-1],
            lambda: [made(1) == made(1, third="y"), made(1) == made(2), made(1, [2]) == made(1)],
            lambda: hash(made(1, 2)) == hash(made(1, 2, "y")),
            lambda: dataclasses.replace(made(1), first=9).first,
            lambda: copy.copy(made(1, [3])).second,
            lambda: setattr(made(1), "first", 2),
            lambda: made(second=[]),
            lambda: made.__getstate__(made(1)) if frozen else None,
        ]
        return [told(act) for act in acts]

    options = {"frozen": frozen, "slots": True}
    expected = told_of(dataclasses.dataclass(**options))
    assert told_of(values.dataclass(**options)) == expected
    assert expected[1] is False
    assert sum(isinstance(each, tuple) for each in expected) == 2  # an argument lacks, and one more


def test_whether_a_class_is_frozen_is_known_before_its_methods() -> None:
    base, plain, derived = family(values.dataclass(frozen=True))
    later = vars(base)["__init__"]
    assert values.is_frozen(base)
    assert values.is_frozen(plain)
    assert values.is_frozen(derived)
    assert vars(base)["__init__"] is later
    assert base(first=1).first == 1
    assert vars(base)["__init__"] is not later
    assert values.is_frozen(base)
    assert not values.is_frozen(family(values.dataclass)[0])
    assert not values.is_frozen(int)
    assert values.is_frozen(dataclasses.dataclass(frozen=True)(type("Other", (), {})))


def test_what_has_slots_or_order_is_made_at_once() -> None:
    @values.dataclass(frozen=True, slots=True, order=True)
    class Slotted:
        number: int

    assert Slotted(1) < Slotted(2)
    assert not hasattr(Slotted(1), "__dict__")


def test_every_class_of_simprof_can_be_made() -> None:
    count = 0
    for found in pkgutil.walk_packages(simprof.__path__, "simprof."):
        if found.name.endswith("__main__"):
            continue
        for each in vars(importlib.import_module(found.name)).values():
            if isinstance(each, type) and each.__module__ == found.name:
                count += dataclasses.is_dataclass(each)
    assert count > 300
