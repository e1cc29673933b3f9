"""Tests over many seeds: one test, a loop, and a failure that says which seed it was.

`@pytest.mark.seeds(range(100))` calls the test once for each seed, its argument `seed`;
`few=30`: without `--long` with the first 30 only.
`@pytest.mark.fresh_seeds(50)` does so with seeds that nobody has tried yet: as many numbers from
one that is drawn when pytest starts, and shown at its beginning. `--first-seed N` sets that one;
`--seeds 7,20-29` has every such test run these seeds and no others.
"""

from __future__ import annotations

import inspect
import random
import shlex
from collections.abc import Iterable
from typing import Any

import pytest

FRESH = range(1 << 20, 1 << 40)
"""Where fresh seeds come from: above all that tests name themselves."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--seeds` and `--first-seed`."""
    parser.addoption("--seeds", help="run tests over seeds with these alone: 7,20-29")
    parser.addoption("--first-seed", type=int, help="the first of the fresh seeds")


def pytest_configure(config: pytest.Config) -> None:
    """Draw the first fresh seed; pytest-xdist's workers are told it."""
    config.addinivalue_line(
        "markers", "seeds(numbers, few): calls the test with each, or the first few, as its `seed`"
    )
    config.addinivalue_line("markers", "fresh_seeds(count): the same with seeds new in every run")
    if config.option.first_seed is None:
        told = getattr(config, "workerinput", {})
        drawn = told.get("first_seed") or random.SystemRandom().choice(FRESH)
        config.option.first_seed = drawn


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist."""
    node.workerinput["first_seed"] = node.config.option.first_seed


def pytest_report_header(config: pytest.Config) -> str:
    """Tell how to repeat the tests with fresh seeds."""
    return f"fresh seeds: repeat them with --first-seed {config.getoption('--first-seed')}"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """One seed of a test marked `seeds` or `fresh_seeds`; the loop sets it anew for each call."""
    chosen = seeds_of(request.node)
    assert chosen is not None, "a test over seeds says which: @pytest.mark.seeds(range(100))"
    return next(iter(chosen))


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers that `text` lists, as "7,20-29"."""
    found: list[int] = []
    for word in text.split(","):
        first, _, last = word.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def seeds_of(item: pytest.Item) -> Iterable[int] | None:
    """Return the seeds that a test runs with; None: it is not one over seeds."""
    fixed, fresh = item.get_closest_marker("seeds"), item.get_closest_marker("fresh_seeds")
    if fixed is None and fresh is None:
        return None
    if chosen := item.config.getoption("--seeds"):
        return numbers(chosen)
    if fresh is None:
        assert fixed is not None
        (named,) = fixed.args
        few = None if item.config.getoption("--long", True) else fixed.kwargs.get("few")
        return tuple(named)[:few]
    first = item.config.getoption("--first-seed")
    return range(first, first + fresh.args[0])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test over seeds once for each; other tests are pytest's own affair."""
    chosen = seeds_of(pyfuncitem)
    if chosen is None:
        return None
    names = [name for name in inspect.signature(pyfuncitem.obj).parameters if name != "seed"]
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    for number in chosen:
        try:
            pyfuncitem.obj(**arguments, seed=number)
        except BaseException as error:
            error.add_note(f"seed {number}; repeat: {repetition(pyfuncitem, number)}")
            raise
    return True


def repetition(item: pytest.Item, number: int) -> str:
    """Return the command that runs a test with one seed."""
    long = " --long" if item.get_closest_marker("long") is not None else ""
    return f"pytest{long} --seeds {number} {shlex.quote(item.nodeid)}"
