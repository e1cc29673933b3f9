"""docs/reliability.md: current, and each promise rests on tests that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import reliability_figures, reliability_page
from tools.reliability_figures import Figure
from tools.reliability_page import Promise, WrongListError, check, page, promises

FIGURE = Figure("7 of 7 apples.", "make apples", "2001-02-03", "abc1234+")


def promise(*tests: str, figures: tuple[str, ...] = ()) -> Promise:
    return Promise("Fruit", "Apples", "Apples are round.", "By looking.", tests, figures)


def test_the_page_is_what_the_list_and_the_figures_make() -> None:
    listed, figures = promises(), reliability_figures.load()
    check(listed, figures)
    assert reliability_page.PAGE.read_text() == page(listed, figures), (
        "run `python -m tools.reliability_page`"
    )


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_fruit.py").write_text("def test_round() -> None: ...\n")
    check([promise("test_fruit.py", "test_fruit.py::test_round")], {}, tmp_path)
    for tests in ((), ("test_nuts.py",), ("test_fruit.py::test_square",)):
        with pytest.raises(WrongListError, match=r"^Apples: (no test is|there is no test)"):
            check([promise(*tests)], {}, tmp_path)
    with pytest.raises(WrongListError, match=r"^Apples: there is no figure count$"):
        check([promise("test_fruit.py", figures=("count",))], {}, tmp_path)
    with pytest.raises(WrongListError, match=r"^figures of no promise: count$"):
        check([promise("test_fruit.py")], {"count": FIGURE}, tmp_path)


def test_a_promise_lacks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text("[[promise]]\ngroup = 'Fruit'\ntitle = 'Apples'\n")
    with pytest.raises(WrongListError, match=r"^promise 1: .*'text' and 'tested'"):
        promises(path)


def test_a_figure_is_shown_with_what_measures_it(tmp_path: Path) -> None:
    listed = [promise("tests/a.py", "tests/b.py::test_c", figures=("count",))]
    text = page(listed, {"count": FIGURE})
    assert "## Fruit\n\n### Apples\n\nApples are round.\n" in text
    assert "Tests: `tests/a.py`, `tests/b.py` (`test_c`)." in text
    assert "7 of 7 apples.\n(`make apples`; 2001-02-03, commit abc1234+)\n" in text


def test_figures_are_kept_by_name(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    for says in ("one", "two"):
        reliability_figures.keep("b", says, "make b", path)
    reliability_figures.keep("a", "three", "make a", path)
    found = reliability_figures.load(path)
    assert list(found) == ["a", "b"]
    assert (found["b"].says, found["b"].command) == ("two", "make b")
    assert path.read_text() == reliability_figures.text(found)
