"""Values of options: what each type takes, what it refuses, and files that would be overwritten."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from simprof.profiler.commands import options
from simprof.profiler.commands.options import STANDARD_STREAM, check_outputs
from simprof.simulator.errors import UsageError


@pytest.mark.parametrize(("text", "number"), [("1", 1.0), ("0.001", 0.001), ("1e8", 1e8)])
def test_times(text: str, number: float) -> None:
    assert options.seconds(text) == number


@pytest.mark.parametrize("text", ["0", "0.0", "-1", "1e9", "inf", "nan", "soon", ""])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a positive number of seconds"):
        options.seconds(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [("4096", 4096), ("64K", 65536), ("64k", 65536), ("1MiB", 1 << 20), ("2GB", 2 << 30)],
)
def test_sizes(text: str, number: int) -> None:
    assert options.size(text) == number


@pytest.mark.parametrize("text", ["0", "0K", "", "K", "1.5M", "-1", "4096Q", "1" * 16])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a size"):
        options.size(text)


@pytest.mark.parametrize(
    ("text", "fits"), [("64K", True), ("65535", False), ("256M", True), ("257M", False)]
)
def test_stacks_have_their_limits(text: str, fits: bool) -> None:
    if fits:
        assert options.stack_size(text) == options.size(text)
    else:
        with pytest.raises(click.BadParameter, match="is not between 64K and 256M"):
            options.stack_size(text)


def test_a_name_must_be_possible(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match="is empty"):
        options.possible_path("")
    with pytest.raises(click.BadParameter, match="cannot be used"):
        options.possible_path("x" * 5000)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(click.BadParameter, match="cannot be used"):
        options.possible_path(str(loop))
    assert options.possible_path(str(tmp_path / "new")) == tmp_path / "new"


def test_outputs_are_neither_inputs_nor_each_other(tmp_path: Path) -> None:
    one, two, link = tmp_path / "one", tmp_path / "two", tmp_path / "link"
    one.write_text("")
    link.symlink_to(one)
    check_outputs(one, two, None, STANDARD_STREAM)
    check_outputs(two, inputs=[one, None])
    for again in (one, link):
        with pytest.raises(UsageError, match="is read as well"):
            check_outputs(again, inputs=[one])
        with pytest.raises(UsageError, match="is named for two outputs"):
            check_outputs(one, again)
    with pytest.raises(UsageError, match="is named for two outputs"):
        check_outputs(STANDARD_STREAM, STANDARD_STREAM)
    with pytest.raises(UsageError, match="is named for two outputs"):
        check_outputs(two, two)
