"""A mode with its options, as one text: `pp`, `tpp:cold=20:loop=50`, `tpp:cold-always`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, ClassVar, Self

from msgspec import Struct

from simprof.profiler.profiles.profile import Option
from simprof.profiler.request.likeness import alike, unknown
from simprof.profiler.request.request import OptionValue, SchemeOptions, Setting
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import SchemeDefinition, SchemeOption
from simprof.simulator.errors import UsageError

# One reader for command lines, grids of sweeps, cells and the API: `read`. Options that several
# schemes share (`SchemeOption.shared`) stand behind no mode: commands have these themselves. Cells
# have no command, so that theirs do (`experiments.cells.settings`).
BEFORE_OPTION = ":"


class ModeSetting(Struct, frozen=True):
    """A mode with values of its own options; make one with `read` or `of`."""

    mode: str
    # (name, value) of the options that differ from their defaults
    own: tuple[tuple[str, OptionValue], ...]
    # What `read` reads as an equal value: the mode, and the options that make a difference.
    name: str
    asked: tuple[str, ...] = ()  # Names of options that were given; not compared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModeSetting) and self.name == other.name and self.own == other.own

    def __hash__(self) -> int:
        return hash((self.name, self.own))

    def __str__(self) -> str:
        return self.name

    # Of the last option that can stand behind a mode, if its value may hold what stands before one
    rest: ClassVar[str] = ""

    @staticmethod
    def declared(mode: str) -> tuple[SchemeOption[Any], ...]:
        """Return the options that can stand behind a mode."""
        return own_options(registry.definition(mode))

    @classmethod
    def of(cls, mode: str, given: Mapping[str, OptionValue], asked: Iterable[str] = ()) -> Self:
        """Return a mode with some values of its options, the others at their defaults."""
        declared = cls.declared(mode)
        values = {each.name: given.get(each.name, each.default) for each in declared}
        own = [(each.name, values[each.name]) for each in declared]
        own = [pair for pair, each in zip(own, declared, strict=True) if pair[1] != each.default]
        return cls(mode, tuple(own), setting_text(mode, declared, values), tuple(asked))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read a mode with its options (`read`)."""
        mode, between, words = text.partition(BEFORE_OPTION)
        mode = mode.strip()
        if mode not in registry.modes():
            raise UsageError(unknown("mode", mode, registry.modes()))
        declared = cls.declared(mode)
        given = given_options(mode, words, declared, cls.rest) if between else {}
        return cls.of(mode, completed(declared, given), given)

    def value(self, name: str) -> Any:
        """Return the value of an option; None if the mode has no such option."""
        default = {option.name: option.default for option in self.declared(self.mode)}.get(name)
        return dict(self.own).get(name, default)

    @property
    def label(self) -> str:
        """What was asked for with what that implies; `read` reads it as an equal value."""
        declared = self.declared(self.mode)
        values = {option.name: self.value(option.name) for option in declared}
        return setting_text(self.mode, declared, values, self.asked)

    def setting(self, shared: SchemeOptions) -> Setting:
        """Return it with the values of shared options; UsageError if it cannot have one of them."""
        options = shared.having(**dict(self.own))
        _ = registry.definition(self.mode).options(options).register_use  # before the program runs
        return Setting(self.name, self.mode, options)


def read(text: str) -> ModeSetting:
    """Read a mode with its options; UsageError if it, or one of them, is unknown, or has a value
    that it cannot have.

    >>> read("tpp:loop=50:cold=20.0").name
    'tpp:cold=20:loop=50'
    >>> read("tpp:cold=0").name  # with what it implies
    'tpp:cold=0:loop=0'
    >>> read("tpp:cold-always:cold=5").own
    (('cold_always', True),)
    >>> read("tpp:cld=20")
    Traceback (most recent call last):
    simprof.simulator.errors.UsageError: tpp has no option 'cld': did you mean 'cold'? Its options \
are cold, loop, cold-always, literal-cold, obvious-first, count-obvious, no-cold-counter, \
branching, first
    """
    return ModeSetting.of_text(text)


def given_options(
    mode: str, text: str, declared: Iterable[SchemeOption[Any]], rest: str = ""
) -> dict[str, OptionValue]:
    """Read the options that stand behind a mode (`cold=20:cold-always`), of those declared;
    UsageError if one is not among them, is given twice, or has a value that it cannot have.

    `rest`: See `ModeSetting`.
    """
    known = {option.spelling: option for option in declared}
    given: dict[str, OptionValue] = {}
    head, found, tail = f"{BEFORE_OPTION}{text}", "", ""
    if rest:
        head, found, tail = head.partition(f"{BEFORE_OPTION}{rest}=")
    for part in [*head.split(BEFORE_OPTION)[1:], *([f"{rest}={tail}"] if found else [])]:
        word, equals, value = (each.strip() for each in part.partition("="))
        if word not in known:
            raise UsageError(_no_option(mode, word, known))
        option = known[word]
        if option.name in given:
            raise UsageError(f"{mode}: {word} is given twice: leave out one")
        if option.kind is bool:
            if equals:
                raise UsageError(f"{mode}: {word} takes no value: leave out ={value}")
            given[option.name] = True
        elif equals:
            given[option.name] = checked(option, value, f"{mode}: {word}={value}")
        else:
            raise UsageError(f"{mode}: {word} needs a value: {option.hint}")
    return given


def _usual(option: SchemeOption[Any], values: Mapping[str, OptionValue]) -> Any:
    return option.default if option.implied is None else option.implied(SimpleNamespace(**values))


def completed(
    declared: Sequence[SchemeOption[Any]], given: Mapping[str, OptionValue]
) -> dict[str, OptionValue]:
    """Return the values of all declared options: those given, and what follows from them."""
    values = {option.name: given.get(option.name, option.default) for option in declared}
    return {option.name: given.get(option.name, _usual(option, values)) for option in declared}


def setting_text(
    mode: str,
    declared: Iterable[SchemeOption[Any]],
    values: Mapping[str, OptionValue],
    asked: Collection[str] = (),
) -> str:
    """Return a mode with the values of its options: those `asked` for by name, those that others
    imply, and what is no default.
    """
    words = [mode]
    for option in declared:
        value = values[option.name]
        is_asked = option.name in asked and value is not False
        if is_asked or not value == option.default == _usual(option, values):
            is_flag = option.kind is bool
            words.append(option.spelling if is_flag else f"{option.spelling}={shown(value)}")
    return BEFORE_OPTION.join(words)


def measured_setting(mode: str, options: Mapping[str, Option]) -> str:
    """Return a mode with the options of a measurement, as headings show it: `kiter:k=3`."""
    scheme = registry.find(mode)
    declared = () if scheme is None else scheme.options.declared
    # Old profiles lack options that were declared later.
    given = {
        option.name: value
        for option in declared
        if isinstance(value := options.get(option.name), str | int | float)
    }
    return setting_text(mode, declared, completed(declared, given))


def own_options(scheme: SchemeDefinition) -> tuple[SchemeOption[Any], ...]:
    """Return the options that stand behind a mode."""
    return tuple(option for option in scheme.options.declared if not option.shared)


def shown_options(mode: str, options: Mapping[str, Option]) -> dict[str, Option]:
    """Return a measurement's options for readers: none of other schemes, and the mode's own under
    the names that stand behind a mode (`kiter:k=3`), `_` for `-` as in all keys.
    """
    scheme = registry.find(mode)
    declared = () if scheme is None else scheme.options.declared
    words = {
        each.name: each.name if each.shared else each.spelling.replace("-", "_")
        for each in declared
    }
    foreign = {option.name for option in registry.options()} - words.keys()
    return {words.get(name, name): value for name, value in options.items() if name not in foreign}


def setting_object(
    mode: str, options: Mapping[str, Option], edge_profile_sha256: str | None
) -> dict[str, object]:
    """Return a mode with its options, as JSON documents have them (`documents.result_head`), and
    the digest of the saved profile that guided the mode, if one did.
    """
    return {
        "mode": mode,
        "options": shown_options(mode, options),
        "edge_profile_sha256": edge_profile_sha256,
    }


def shared_options() -> tuple[SchemeOption[Any], ...]:
    """Return the options of schemes that commands have themselves."""
    return tuple(option for option in registry.options() if option.shared)


def checked(option: SchemeOption[Any], value: object, what: str) -> OptionValue:
    """Return an option's value, text as on the command line; UsageError begins with `what`."""
    try:
        converted = _converted(option.kind, value)
        if option.fits(converted):
            return converted
    except (ValueError, TypeError):
        pass
    raise UsageError(f"{what}: {option.hint}")


def _converted(kind: type, value: object) -> OptionValue:
    if kind is bool:
        words = {"true": True, "false": False, True: True, False: False}
        if value not in words:
            raise ValueError
        return words[value]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    if kind is int and isinstance(value, float):
        raise TypeError
    if not issubclass(kind, int | float) and not isinstance(value, str):
        raise TypeError
    converted: OptionValue = kind(value)
    return converted


def shown(value: OptionValue) -> str:
    """Return a value as text that `checked` reads."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def no_effect(flag: str, modes: Iterable[str], readers: Iterable[str]) -> UsageError:
    """Return the error for an option that none of some modes reads; no mode: graphs alone."""
    chosen, own = " and ".join(modes) or "graphs alone", ", ".join(readers)
    return UsageError(f"{flag} has no effect on {chosen}: leave it out, it is for {own}")


def _no_option(mode: str, word: str, known: Mapping[str, SchemeOption[Any]]) -> str:
    if not word:
        return f"{mode} has an empty option: write {mode}{BEFORE_OPTION}OPTION=VALUE"
    what = f"{mode} has no option {word!r}"
    schemes = registry.definitions()
    owners = [s.mode for s in schemes if word in (each.spelling for each in own_options(s))]
    if owners:
        what += f", which is one of {' and '.join(owners)}"
    if not known:
        return f"{what}: it has none of its own"
    near = [] if owners else alike(word, known)
    asked = f"did you mean {' or '.join(map(repr, near))}? Its" if near else "its"
    return f"{what}: {asked} options are {', '.join(known)}"


def own_options_text(mode: str) -> str:
    """Return the options that stand behind a mode, an option a line, with their defaults."""
    options = own_options(registry.definition(mode))
    if not options:
        return f"{mode}: no options of its own\n"
    lines = [f"Options of {mode}, as in --mode {BEFORE_OPTION.join((mode, 'OPTION', 'OPTION'))}"]
    words = [_written(option) for option in options]
    width = max(map(len, words))
    for option, word in zip(options, words, strict=True):
        default = "" if option.kind is bool else option.default_text or shown(option.default)
        said = f"  [default: {default}]" if default else ""
        lines.append(f"  {word.ljust(width)}  {option.help}{said}")
    return "\n".join(lines) + "\n"


def _written(option: SchemeOption[Any]) -> str:
    """Return how an option is written, with a word for its value."""
    if option.kind is bool:
        return option.spelling
    value = option.metavar or ("|".join(option.kind) if issubclass(option.kind, StrEnum) else "N")
    return f"{option.spelling}={value}"
