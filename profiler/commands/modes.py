"""`--mode`, and the options that several schemes share.

A mode carries its own options (`schemes.mode_options`). `--weights`, whose values differ by
command, is not among the shared ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import options, streams
from simprof.profiler.commands.options import Decorator, given, several, together
from simprof.profiler.request.likeness import unknown
from simprof.profiler.request.request import (
    DEFAULT_PATH_LIMIT,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import ProfileKind, SchemeDefinition, SchemeOption
from simprof.profiler.schemes.mode_options import (
    BEFORE_OPTION,
    ModeSetting,
    no_effect,
    own_options,
    read,
    shared_options,
)
from simprof.profiler.schemes.registry import BrokenScheme
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

METAVAR = "MODE[:OPTION...]"
ALL = "all"  # What stands for all modes, where several can be chosen

_HEADINGS = {
    ProfileKind.PATHS: "acyclic paths",
    ProfileKind.ITERATION_PATHS: "k-iteration paths",
    ProfileKind.WINDOWS: "windows of branches",
    ProfileKind.EDGES: "edges",
    ProfileKind.BLOCKS: "blocks",
    ProfileKind.TRACE: "a trace of everything",
}


class OneMode(click.ParamType[ModeSetting]):
    """A mode with its options; a list of them is refused with the command that takes lists.

    `planned`: Whether it must instrument. `several`: The command that does the like for many.
    """

    name = "mode"

    def __init__(self, *, planned: bool = False, several: str | None = None) -> None:
        self._planned, self.several = planned, several

    def _choices(self) -> tuple[str, ...]:
        # Modes that cannot be used are among them: choosing one says what is wrong with it.
        return tuple(name for name in registry.modes() if not (self._planned and _is_bare(name)))

    def convert(
        self, value: str | ModeSetting, param: click.Parameter | None, ctx: click.Context | None
    ) -> ModeSetting:
        """Return the mode that was meant."""
        if isinstance(value, ModeSetting):
            return value
        names = [each.partition(BEFORE_OPTION)[0].strip() for each in value.split(",")]
        known = self._choices()
        if names == [ALL] or (len(names) > 1 and set(names) <= {*known, ALL}):
            other = f"; `{self.several} --mode {value}` takes several" if self.several else ""
            self.fail(f"takes one mode{other}", param, ctx)
        if names[0] not in known:
            self.fail(unknown("mode", names[0], known), param, ctx)
        try:
            return read(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return what a word begins: modes, and the options behind one."""
        return _completions(incomplete, self._choices())


def _completions(word: str, modes: Iterable[str]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # which only completing needs

    return [CompletionItem(each) for each in _continued(word, modes) if each.startswith(word)]


def _continued(word: str, modes: Iterable[str]) -> Iterator[str]:
    """Yield a list of modes with its last one, or that one's last option, as any that fits."""
    before, comma, mode = word.rpartition(",")
    name, colon, _ = mode.partition(BEFORE_OPTION)
    if not colon:
        yield from (f"{before}{comma}{each}" for each in modes)
    elif (scheme := registry.find(name)) is not None:
        begun = word[: word.rindex(BEFORE_OPTION) + 1]
        for option in own_options(scheme):
            yield f"{begun}{option.spelling}{'' if option.kind is bool else '='}"


def _complete_several(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    known = (name for name in registry.modes() if not _is_bare(name))
    return _completions(incomplete, (*known, ALL))


def one_mode(
    ctx: click.Context, param: click.Parameter, value: tuple[ModeSetting, ...]
) -> ModeSetting | None:
    """Return the mode of a command that takes one; refuse a second, which click would not."""
    if len(value) > 1:
        several = getattr(param.type, "several", None)
        named = ",".join(each.name for each in value)
        other = f"; `{several} --mode {named}` takes several" if several else ""
        raise click.BadParameter(f"takes one mode, not {len(value)}{other}", ctx, param)
    return value[0] if value else None


def modes(value: str | Sequence[ModeSetting]) -> tuple[ModeSetting, ...]:
    """Return the modes of a list such as "pp,tpp:cold=20"; "all": all that instrument and work."""
    if not isinstance(value, str):
        return tuple(value)
    try:
        named = value.split(",")
        every = all_modes()[0] if ALL in named else ()
        chosen = [read(each) for each in named if each != ALL]
        return (*(each for each in every if each not in chosen), *chosen)
    except UsageError as error:
        raise click.BadParameter(str(error)) from None


def mode_option(text: str) -> Decorator:
    """Return `--mode` of commands that take several; `text`: what they are for, and the default."""
    text += "; repeatable, or with commas; all: all that instrument."
    return several("--mode", "modes", modes, METAVAR, text, _complete_several)


def all_modes(
    by_context: bool = False,
) -> tuple[tuple[ModeSetting, ...], tuple[BrokenScheme, ...]]:
    """Return all modes that instrument and work, and which others are left out.

    `by_context`: as for `registry.tried_modes`.
    """
    working, failing = registry.tried_modes(by_context)
    return tuple(map(read, working)), failing


def tell_left_out(failing: Iterable[BrokenScheme]) -> None:
    """Say on stderr which modes are left out, once nothing else is wrong with the command."""
    for scheme in failing:
        streams.write(streams.STDERR, f"simprof: left out: {scheme.reason}\n")


def settings(chosen: Iterable[ModeSetting], shared: SchemeOptions) -> tuple[Setting, ...]:
    """Return modes with the values of shared options."""
    return tuple(mode.setting(shared) for mode in chosen)


def refuse_unused(chosen: Iterable[str]) -> None:
    """Refuse options that were given and that none of some modes reads; no mode: graphs alone."""
    taken = tuple(dict.fromkeys(chosen))
    for name, using in _readers().items():
        flag = given(name)
        if flag is not None and not set(using) & set(taken):
            raise no_effect(flag, taken, using)


def _readers() -> dict[str, tuple[str, ...]]:
    """Return the parameters of shared options, and the modes that each has an effect on."""

    def reading(name: str) -> tuple[str, ...]:
        return tuple(each.mode for each in registry.definitions() if name in each.reads)

    return {
        **{name: reading(name) for name in ("path_limit", "table", "weights")},
        "order": reading("path_limit"),  # both are about numbers of paths
        **{option.name: registry.users(option) for option in shared_options()},
        "edge_profile": tuple(each.mode for each in registry.definitions() if each.guided),
    }


def _is_bare(mode: str) -> bool:
    scheme = registry.find(mode)
    return scheme is not None and not scheme.instruments


def modes_by_kind() -> str:
    """Return the modes that instrument as a sentence: "Acyclic paths: pp, ...; edges: ...; ..."."""
    kinds: dict[ProfileKind, list[str]] = {kind: [] for kind in ProfileKind}
    for scheme in registry.definitions():
        if scheme.instruments:
            kinds[scheme.collected()].append(scheme.mode)
    text = "; ".join(f"{_HEADINGS[kind]}: {', '.join(names)}" for kind, names in kinds.items())
    return text[0].upper() + text[1:]


def named(test: Callable[[SchemeDefinition], bool]) -> str:
    """Return the names of the schemes that pass a test, separated by commas."""
    return ", ".join(scheme.mode for scheme in registry.definitions() if test(scheme))


def guide_lacks(scheme: SchemeDefinition) -> str:
    """Say what a guided scheme needs where nothing is run."""
    by_paths = scheme.guided is ProfileKind.PATHS
    kind, mode = ("a path", registry.PATH_PROFILER) if by_paths else ("an edge", "edges")
    return (
        f"is guided by {kind} profile, and nothing is run here: give one with --edge-profile "
        f"(`simprof run --mode={mode} -o FILE` makes it)"
    )


def scheme_options(edge_profile: str, without: str = "") -> Decorator:
    """Return the options that several schemes share; `collect` reads them.

    `edge_profile`: what `--edge-profile` takes, for the help text. `without`: the one that has no
    effect on what the command does.
    """
    guided = named(lambda scheme: scheme.guided is not None)
    by_paths = named(lambda scheme: scheme.guided is ProfileKind.PATHS)
    edge_profile += f" {by_paths}: by its paths." if by_paths else ""
    return together(
        options.option(
            "--path-limit N",
            "Maximum paths per routine: where there are more, edges are cut.",
            options.COUNT,
            default=DEFAULT_PATH_LIMIT,
            show_default=True,
        ),
        click.option(
            "--table",
            type=options.choice(*TableChoice),
            default=TableChoice.AUTO.value,
            show_default=True,
            help="How path counters are kept.",
        ),
        *(_option(option) for option in shared_options() if option.name != without),
        options.option("--edge-profile FILE", f"{guided}: {edge_profile}", options.PATH),
    )


def _option(option: SchemeOption[Any]) -> Decorator:
    """Return the command line's option for one that schemes share."""
    text = f"{', '.join(registry.users(option))}: {option.help}"
    if option.kind is bool:
        return click.option(f"--{option.spelling}", option.name, is_flag=True, help=text)
    default = option.default.value if isinstance(option.default, StrEnum) else option.default
    return click.option(
        f"--{option.spelling}",
        option.name,
        type=options.choice(*option.kind) if issubclass(option.kind, StrEnum) else option.kind,
        default=default,
        show_default=option.default_text or True,
        metavar=option.metavar,
        help=text,
    )


def collect(
    chosen: Mapping[str, Any], weights: Weights | Path = Weights.HEURISTIC
) -> SchemeOptions:
    """Return the values of the shared options, as the command was called with them."""
    known = (option for option in shared_options() if option.name in chosen)
    shared = {option: option.kind(chosen[option.name]) for option in known}
    return SchemeOptions.of(
        path_limit=chosen["path_limit"],
        weights=weights,
        table=TableChoice(chosen["table"]),
        edge_profile=chosen["edge_profile"],
        **{each.name: value for each, value in shared.items() if value != each.default},
    )
