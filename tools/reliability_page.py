#!/usr/bin/env python3
"""Make docs/reliability.md: what simprof promises, how each promise is tested, the figures.

    tools/reliability_page.py            write it
    tools/reliability_page.py --check    say whether it is not as it would be written now

docs/reliability.toml lists the promises, by hand; docs/reliability.json has the figures, which
tools keep there (`reliability_figures`). A promise without a test is refused, and so is a test that
is not there.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import fill

from tools import generated_files
from tools.generated_files import ROOT
from tools.reliability_figures import Figure, load

PROMISES = ROOT / "docs" / "reliability.toml"
PAGE = ROOT / "docs" / "reliability.md"

WIDTH = 100

OPENING = """\
# Reliability

What simprof promises, how each promise is tested, and what was measured.
`tools/reliability_page.py` has made this page of `docs/reliability.toml` (the promises, and the
tests that each rests on) and `docs/reliability.json` (the figures, which the named commands measure
again and keep there).

`make test` runs the tests that are not marked `long`, `make ci` all of them; the page says where a
promise rests on more, on a command that is run by hand.
"""


@dataclass(frozen=True)
class Promise:
    """A promise.

    Attributes
    ----------
    group
        The heading that it stands under.
    title, text
        What is promised, in short, and exactly.
    tested
        How that is tested.
    tests
        Files of tests, or tests in them (`FILE::NAME`); at least one.
    figures
        Names of what was measured.
    """

    group: str
    title: str
    text: str
    tested: str
    tests: tuple[str, ...]
    figures: tuple[str, ...] = ()


class WrongListError(Exception):
    """What is wrong with the list of promises, in one line."""


def promises(path: Path = PROMISES) -> tuple[Promise, ...]:
    """Return the promises in their order.

    Raises
    ------
    WrongListError
        If one lacks something, or says what it should not.
    """
    found = []
    for number, entry in enumerate(tomllib.loads(path.read_text())["promise"], 1):
        lists = {name: tuple(entry.get(name, ())) for name in ("tests", "figures")}
        try:
            found.append(Promise(**entry | lists))
        except TypeError as error:
            raise WrongListError(f"promise {number}: {error}") from None
    return tuple(found)


def check(listed: Sequence[Promise], figures: Mapping[str, Figure], root: Path = ROOT) -> None:
    """Check that what promises name is there, and that no figure is left over.

    Raises
    ------
    WrongListError
        If not.
    """
    for promise in listed:
        if not promise.tests:
            raise WrongListError(f"{promise.title}: no test is named")
        for test in promise.tests:
            if not _is_there(test, root):
                raise WrongListError(f"{promise.title}: there is no test {test}")
        for name in promise.figures:
            if name not in figures:
                raise WrongListError(f"{promise.title}: there is no figure {name}")
    used = {name for promise in listed for name in promise.figures}
    if left := sorted(set(figures) - used):
        raise WrongListError(f"figures of no promise: {', '.join(left)}")


def _is_there(test: str, root: Path) -> bool:
    file, _, name = test.partition("::")
    path = root / file
    return path.is_file() and (not name or name in _tests_of(path))


@cache
def _tests_of(path: Path) -> frozenset[str]:
    """Return the names of the functions of a file."""
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def page(listed: Sequence[Promise], figures: Mapping[str, Figure]) -> str:
    """Return the page."""
    return "\n".join([OPENING, *_sections(listed, figures)])


def _sections(listed: Sequence[Promise], figures: Mapping[str, Figure]) -> Iterator[str]:
    for group in dict.fromkeys(promise.group for promise in listed):
        yield f"## {group}\n"
        for promise in listed:
            if promise.group == group:
                yield from _promise(promise, figures)


def _promise(promise: Promise, figures: Mapping[str, Figure]) -> Iterator[str]:
    yield f"### {promise.title}\n"
    yield f"{fill(promise.text, WIDTH)}\n"
    tests = ", ".join(map(_named, promise.tests))
    yield fill(f"*Tested:* {promise.tested.strip()}", WIDTH)
    yield f"{fill(f'Tests: {tests}.', WIDTH)}\n"
    for name in promise.figures:
        figure = figures[name]
        yield (
            f"*Measured:* {figure.says}\n"
            f"(`{figure.command}`; {figure.date}, commit {figure.commit})\n"
        )


def _named(test: str) -> str:
    """Return a test as the page names it: its file, and its name in there."""
    file, _, name = test.partition("::")
    return f"`{file}` (`{name}`)" if name else f"`{file}`"


def main() -> int:
    """Write the page, or check it."""
    try:
        listed, figures = promises(), load()
        check(listed, figures)
    except WrongListError as error:
        print(f"reliability_page: {error}", file=sys.stderr)
        return 1
    return generated_files.run(__doc__, {PAGE: page(listed, figures)}, [PAGE])


if __name__ == "__main__":
    sys.exit(main())
