"""The options that shape instrumentation, the same for every command that plans schemes.

Those that schemes declare (`schemes.definition.SchemeOption`) follow the common ones. `--weights`,
whose values differ by command, is not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from simprof.profiler.commands import options, streams
from simprof.profiler.commands.suggestions import alike
from simprof.profiler.request.request import DEFAULT_PATH_LIMIT, SchemeOptions, TableChoice, Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import ProfileKind, SchemeDefinition, SchemeOption

F = TypeVar("F", bound=Callable[..., Any])

_HEADINGS = {
    ProfileKind.PATHS: "acyclic paths",
    ProfileKind.ITERATION_PATHS: "k-iteration paths",
    ProfileKind.EDGES: "edges",
    ProfileKind.BLOCKS: "blocks",
    ProfileKind.TRACE: "a trace of everything",
}


def mode_choice(*, planned: bool = False, several: str | None = None) -> click.Choice[str]:
    """Return the type of an option that takes a mode.

    `planned`: one that instruments; `several`: the command that does the like for many.

    Modes that cannot be used are among the choices: choosing one says what is wrong with it.
    """
    names = registry.modes()
    return OneMode([name for name in names if not (planned and _is_bare(name))], several)


class OneMode(click.Choice[str]):
    """One of several modes; a list of them is refused with the command that takes lists."""

    def __init__(self, modes: Sequence[str], several: str | None) -> None:
        super().__init__(modes)
        self._several = several

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the mode that was meant."""
        modes = value.split(",")
        if len(modes) > 1 and {each.strip() for each in modes} <= set(self.choices):
            other = f"; `{self._several} --mode {value}` takes several" if self._several else ""
            self.fail(f"takes one mode{other}", param, ctx)
        if value not in self.choices:
            self.fail(no_mode(value, self.choices), param, ctx)
        return super().convert(value, param, ctx)


def no_mode(value: str, known: Sequence[str]) -> str:
    """Return what is said of a word that is no mode: which one was meant, else all of them."""
    near = alike(value, known)
    if near:
        return f"{value!r} is no mode: did you mean {' or '.join(map(repr, near))}?"
    return f"{value!r} is no mode: name some of {', '.join(known)}"


def warn_of_unused(modes: Sequence[str]) -> None:
    """Say on stderr which options of schemes were given that none of some modes reads."""
    context = click.get_current_context()
    users = {option.name: registry.users(option) for option in registry.options()}
    guided = tuple(each.mode for each in registry.definitions() if each.guided)
    for name, using in {**users, "edge_profile": guided}.items():
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and not set(using) & set(modes):
            (option,) = (each for each in context.command.params if each.name == name)
            flag = max(option.opts, key=len)
            of, own = " and ".join(modes), " and ".join(using)
            note = f"{flag} does nothing under {of}: it is an option of {own}"
            streams.write(streams.STDERR, f"simprof: warning: {note}\n")


def _is_bare(mode: str) -> bool:
    scheme = registry.find(mode)
    return scheme is not None and not scheme.instruments


def modes_by_kind() -> str:
    """Return the modes that instrument by what they collect: "acyclic paths: pp, ...; edges: ...".

    A sentence of help texts, its first letter a capital one.
    """
    kinds: dict[ProfileKind, list[str]] = {kind: [] for kind in ProfileKind}
    for scheme in registry.definitions():
        if scheme.instruments:
            kinds[scheme.collected()].append(scheme.mode)
    text = "; ".join(f"{_HEADINGS[kind]}: {', '.join(names)}" for kind, names in kinds.items())
    return text[0].upper() + text[1:]


def named(test: Callable[[SchemeDefinition], bool]) -> str:
    """Return the names of the schemes that pass a test, separated by commas."""
    return ", ".join(scheme.mode for scheme in registry.definitions() if test(scheme))


def percentage(value: str | float) -> float:
    """Return a number from 0 to 100."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 100.0:  # not a number fails this too
        raise click.BadParameter(f"{value!r} is not a percentage: write a number from 0 to 100")
    return number


def scheme_options(edge_profile: str) -> Callable[[F], F]:
    """Return a decorator that adds the options to a command; `collect` reads them.

    Parameters
    ----------
    edge_profile
        What `--edge-profile` takes, for the help text.
    """
    guided = named(lambda scheme: scheme.guided)
    table = [
        click.option(
            "--path-limit",
            type=options.COUNT,
            default=DEFAULT_PATH_LIMIT,
            show_default=True,
            metavar="N",
            help="The most paths of a routine: where there are more, edges are cut.",
        ),
        click.option(
            "--table",
            type=options.choice(*TableChoice),
            default=TableChoice.AUTO.value,
            show_default=True,
            help="How path counters are kept.",
        ),
        *(_option(option) for option in registry.options()),
        click.option(
            "--edge-profile", type=options.PATH, metavar="FILE", help=f"{guided}: {edge_profile}"
        ),
    ]

    def decorate(command: F) -> F:
        for option in reversed(table):
            command = option(command)
        return command

    return decorate


def _option(option: SchemeOption) -> Callable[[F], F]:
    """Return the command line's option for one that schemes declare."""
    flags = option.flags or (f"--{option.name.replace('_', '-')}",)
    text = f"{', '.join(registry.users(option))}: {option.help}"
    if option.kind is bool:
        return click.option(*flags, option.name, is_flag=True, help=text)
    default = option.default.value if isinstance(option.default, StrEnum) else option.default
    return click.option(
        *flags,
        option.name,
        type=_type(option),
        default=None if option.fallback is not None else default,
        show_default=option.default_text or True,
        metavar=option.metavar,
        help=text,
    )


def _type(option: SchemeOption) -> Any:
    if issubclass(option.kind, StrEnum):
        return options.choice(*option.kind)
    if option.kind is int:
        bounds = (_whole(option.least), _whole(option.greatest))
        return click.INT if bounds == (None, None) else click.IntRange(*bounds)
    if (option.least, option.greatest) == (0, 100):
        return percentage
    if option.least is None and option.greatest is None:
        return click.FLOAT
    return click.FloatRange(min=option.least, max=option.greatest)


def _whole(bound: float | None) -> int | None:
    return None if bound is None else int(bound)


def collect(
    chosen: Mapping[str, Any], weights: Weights | Path = Weights.HEURISTIC
) -> SchemeOptions:
    """Return the values of the options, as the command was called with them, as one value."""
    declared = registry.options()
    own = {option.name: chosen[option.name] for option in declared}
    for option in declared:
        if own[option.name] is None and option.fallback is not None:
            own[option.name] = option.fallback(own)
        elif issubclass(option.kind, StrEnum):
            own[option.name] = option.kind(own[option.name])
    return SchemeOptions(
        path_limit=chosen["path_limit"],
        weights=weights,
        table=TableChoice(chosen["table"]),
        edge_profile=chosen["edge_profile"],
        **{each.name: own[each.name] for each in declared if own[each.name] != each.default},
    )
