"""Keyword arguments as the values that a command's options give, with the same checks.

An option of the command line is the keyword of its long name, `_` for `-`. Values are written as on
the command line and read by the command itself, so that both doors have one set of rules.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict

import click

from simprof.profiler.request.likeness import unknown
from simprof.simulator.errors import UsageError

Text = str | bytes | os.PathLike[str]


class ModeOptions(TypedDict, total=False):
    """Options of the modes' own (`mode="tpp", cold=20`)."""

    cold: float
    loop: float
    cold_always: bool
    literal_cold: bool
    obvious_first: bool
    addresses: bool
    count_obvious: bool
    no_cold_counter: bool
    exit_entry: str
    per_vertex: bool
    merged: bool
    branching: bool
    first: int
    k: int
    k_of: str
    hot: float
    outer: bool
    unoptimised: bool
    hash_above: int
    give_up: int
    interval: int
    duplicated: bool
    tick: int
    samples: int
    stride: int
    least: int
    share: float
    fall_back: bool
    everywhere: bool
    global_cold: float
    limit: int
    numbering: str
    tested: bool
    no_pushing: bool
    skip: float
    bits: int
    placement: str
    blocks: str


# Options about what a command writes, which have no meaning here
OUTPUTS = frozenset("json report html svg output trace top details summary progress quiet".split())


def parse(
    command: click.Command,
    arguments: Sequence[Text],
    options: Mapping[str, Any],
    *,
    one_mode: bool = False,
) -> dict[str, Any]:
    """Return the parameters of a command of the command line, by the names that it gives them.

    - `arguments`: Its positional arguments.
    - `options`, `one_mode`: As of `option_words`.

    Raises UsageError if there is no such option, or it does not take the value.
    """
    from simprof.profiler.commands.options import DEBUG_DIR

    words = option_words(command, options, one_mode=one_mode)
    try:
        with command.make_context(command.name, [*words, "--", *map(text, arguments)]) as context:
            _refuse_unused(context.params)
            return {**context.params, DEBUG_DIR: context.meta.get(DEBUG_DIR, ())}
    except click.UsageError as error:
        raise UsageError(" ".join(error.format_message().split())) from None


def execute(
    command: click.Command,
    arguments: Sequence[Text],
    options: Mapping[str, Any],
    output: Path,
    *more: str,  # words of the command line
) -> None:
    """Run a command as the command line does, its results into a file.

    What it would say on stderr are warnings. Raises UsageError as `parse`.
    """
    words = [*option_words(command, options), "--output", str(output), *more]
    if any("--progress" in each.opts for each in command.params):
        words.append("--no-progress")
    said = io.StringIO()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            command.main([*words, "--", *map(text, arguments)], standalone_mode=False)
    except click.UsageError as error:
        raise UsageError(" ".join(error.format_message().split())) from None
    for line in said.getvalue().splitlines():
        warnings.warn(line.removeprefix("simprof: "), stacklevel=4)


def option_words(
    command: click.Command, options: Mapping[str, Any], *, one_mode: bool = False
) -> list[str]:
    """Return options as the words of a command line.

    - `options`: Values of its options, by keyword; None stands for the default.
    - `one_mode`: Whether options of a mode are taken, too, where the command takes several modes.

    Raises UsageError if there is no such option.
    """
    known = {keyword(p): p for p in command.params if isinstance(p, click.Option)}
    for name in OUTPUTS:
        known.pop(name, None)
    words: list[str] = []
    own = one_mode or ("mode" in known and known["mode"].name == "mode")  # else it is `modes`
    given = _with_mode(known, options) if own else dict(options)
    for name, value in given.items():
        if name not in known:
            usable = sorted({*known, *(_mode_keywords() if own else ())})
            raise UsageError(unknown("option", name, usable))
        if value is not None:
            words += _words(known[name], value)
    return words


def _with_mode(known: Mapping[str, click.Option], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with those of modes put behind the mode: `tpp:cold=20` for `cold=20`."""
    given = dict(options)
    if not isinstance(given.get("mode"), str):
        return given
    for name in _mode_keywords():
        if name in known or name not in given:
            continue
        value, word = given.pop(name), name.replace("_", "-")
        if value is True:
            given["mode"] += f":{word}"
        elif value is not None and value is not False:
            given["mode"] += f":{word}={text(value)}"
    return given


def _refuse_unused(chosen: Mapping[str, Any]) -> None:
    from simprof.profiler.commands.modes import refuse_unused

    modes = chosen["modes"] if "modes" in chosen else (chosen["mode"],)
    if modes is not None:
        refuse_unused(mode.mode for mode in modes)


def _mode_keywords() -> list[str]:
    from simprof.profiler.schemes import registry

    return [option.spelling.replace("-", "_") for option in registry.options() if not option.shared]


def keyword(option: click.Option) -> str:
    """Return the keyword of an option: its long name, `_` for `-`."""
    return _long(option).removeprefix("--").replace("-", "_")


def text(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bytes | os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, list | tuple):
        return ",".join(map(text, value))
    return str(value)


def _words(option: click.Option, value: Any) -> list[str]:
    if option.is_flag:
        return [_long(option)] if value else []
    values = [value]
    if isinstance(value, Mapping):
        values = [f"{name}={setting}" for name, setting in value.items()]
    elif option.multiple and not isinstance(value, str | os.PathLike):
        values = list(value)
    return [f"{_long(option)}={text(each)}" for each in values]


def _long(option: click.Option) -> str:
    return max(option.opts, key=len)
