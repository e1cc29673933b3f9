"""Settings of cells: a mode with the options that it reads, in one canonical form.

The canonical form leaves out what the mode does not read and what has its default value, so that
equal work has equal names and is done once: "pp", "pp:weights=uniform", "tpp:cold=1:loop=1".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from msgspec.structs import replace

from simprof.profiler.request.request import (
    DEFAULT_PATH_LIMIT,
    OptionValue,
    SchemeOptions,
    Selection,
    Setting,
    TableChoice,
)
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import Options, SchemeOption, choice, flag
from simprof.profiler.schemes.mode_options import (
    ModeSetting,
    checked,
    completed,
    given_options,
    no_effect,
    read,
)
from simprof.simulator.errors import UsageError


class WeightChoice(Weights):
    """Where a cell's edge weights come from."""

    names: ClassVar[Mapping[str, tuple[str, ...]]] = {**Weights.names, "exact": ()}
    EXACT: ClassVar[WeightChoice]  # the edge counts of an earlier run, same input (BL94 6.4)

    __slots__ = ()


WeightChoice.EXACT = WeightChoice("exact")


class GuideChoice(StrEnum):
    """Whose edge profile guides a cell of a scheme that needs one."""

    OWN = "own"  # that of the run that is measured
    TRAIN = "train"  # that of a run with the benchmark's input to learn from


class CellOptions(Options):
    """What a cell has beside the options of its scheme."""

    path_limit = SchemeOption(
        DEFAULT_PATH_LIMIT, "", "give a whole number above 0", least=1, greatest=1 << 62
    )
    weights = SchemeOption(
        WeightChoice(Weights.HEURISTIC), "", f"give one of {', '.join(WeightChoice.names)}"
    )
    table = choice(TableChoice.AUTO, "")
    guide = choice(GuideChoice.OWN, "")
    user_only = flag("")
    exclude = SchemeOption("", "", "give patterns of routine names with | between them")


# The last of all: its value may hold what stands between options, as "exclude=std::*" does.
*_COMMON, _EXCLUDE = CellOptions.declared
# Options that say which routines are profiled: every mode reads them.
SELECTING = ("user_only", "exclude")

BETWEEN_PATTERNS = "|"


@cache
def cell_options() -> Mapping[str, SchemeOption[Any]]:
    """Return the options that cells can have, by name: common ones, then those of schemes."""
    declared = (*_COMMON, *registry.options(), _EXCLUDE)
    return MappingProxyType({option.name: option for option in declared})


def word_of(option: SchemeOption[Any]) -> str:
    """Return what grid files and columns of results files call an option: the word that stands
    behind a mode, with underscores (`k`, `cold_always`).
    """
    return option.spelling.replace("-", "_")


@cache
def option_words() -> Mapping[str, tuple[SchemeOption[Any], ...]]:
    """Return the options of each word: `k` is one of `kiter` and another of `fifo`."""
    words: dict[str, tuple[SchemeOption[Any], ...]] = {}
    for option in cell_options().values():
        words[word_of(option)] = (*words.get(word_of(option), ()), option)
    return MappingProxyType(words)


def _meant(word: str) -> tuple[SchemeOption[Any], ...]:
    if word not in option_words():
        known = ", ".join(option_words())
        raise UsageError(f"{word!r} is no option of a setting: use {known}")
    return option_words()[word]


def reads(mode: str) -> tuple[SchemeOption[Any], ...]:
    """Return the options that a mode reads, of those that a cell can have (`cell_options`)."""
    scheme = registry.definition(mode)
    names = {*scheme.reads, *SELECTING, *(option.name for option in scheme.options.declared)}
    if scheme.guided:
        names.add("guide")
    return tuple(option for name, option in cell_options().items() if name in names)


class CellSetting(ModeSetting, frozen=True):
    """A mode with all options that it reads; make one with `setting` or `parse`."""

    rest: ClassVar[str] = _EXCLUDE.name

    @staticmethod
    def declared(mode: str) -> tuple[SchemeOption[Any], ...]:
        """Return the options that can stand behind a mode."""
        return reads(mode)

    @property
    def weights(self) -> WeightChoice:
        """Where its edge weights come from."""
        return WeightChoice(self.value("weights") or WeightChoice.HEURISTIC)

    @property
    def guide(self) -> GuideChoice:
        """Whose edge profile guides it, where its mode needs one."""
        return GuideChoice(self.value("guide") or GuideChoice.OWN)

    @property
    def path_limit(self) -> int:
        """Potential paths beyond which routines are truncated."""
        return int(self.value("path_limit") or DEFAULT_PATH_LIMIT)

    @property
    def selection(self) -> Selection:
        """Which routines are profiled; patterns may match none, since programs differ."""
        patterns = tuple(filter(None, self.value("exclude").split(BETWEEN_PATTERNS)))
        return Selection(exclude=patterns, user_only=self.value("user_only"), tolerant=True)

    def scheme(self, exact: Path | None = None, guide: Path | None = None) -> Setting:
        """Return it as `session` wants it.

        `exact`, `guide`: Saved edge profiles, of an earlier run with the same input and of one with
        the input that guides it; needed for exact weights and for another input only.
        """
        if self.weights != WeightChoice.EXACT:
            exact = None
        elif exact is None:
            raise ValueError(f"{self.name} needs an edge profile")
        if self.guide is GuideChoice.OWN:
            guide = None
        elif guide is None:
            raise ValueError(f"{self.name} needs the profile of another input")
        shared = {option.name for option in CellOptions.declared}
        chosen = SchemeOptions(
            self.path_limit,
            exact or Weights(self.weights),
            TableChoice(self.value("table") or TableChoice.AUTO),
            guide,
            tuple(each for each in self.own if each[0] not in shared),
        )
        return Setting(self.name, self.mode, chosen)


def setting(mode: str, **options: object) -> CellSetting:
    """Return a canonical setting; options that the mode does not read are left out.

    Raises UsageError if the mode or an option is unknown, or has a value that it cannot have.
    """
    known = cell_options()
    for name in options:
        if name not in known:
            raise UsageError(f"{name!r} is no option of a setting: use {', '.join(known)}")
    checks = {
        name: checked(known[name], value, f"{name}={value!r}") for name, value in options.items()
    }
    return CellSetting.of(mode, checks)


def parse(text: str) -> CellSetting:
    """Read a setting such as "tpp:cold=1:loop=1" (`mode_options.read`)."""
    return CellSetting.of_text(text)


def selecting(chosen: CellSetting, selection: Selection) -> CellSetting:
    """Return a setting of the same mode and options for other routines.

    Raises UsageError if a pattern cannot be in a setting (`selection_options`).
    """
    if selection.is_all:
        return chosen
    return setting(chosen.mode, **{**dict(chosen.own), **selection_options(selection)})


def selection_options(selection: Selection) -> dict[str, object]:
    """Return a selection as options of a setting; {} for all routines.

    Raises UsageError if a pattern has what stands between patterns in a setting.
    """
    for pattern in selection.exclude:
        if BETWEEN_PATTERNS in pattern:
            raise UsageError(f"--exclude {pattern!r} has a {BETWEEN_PATTERNS}: use ? for it")
    made: dict[str, object] = {}
    if selection.user_only:
        made["user_only"] = True
    if selection.exclude:
        made["exclude"] = BETWEEN_PATTERNS.join(selection.exclude)
    return made


def parse_options(text: str) -> dict[str, OptionValue]:
    """Read options such as "cold=1:loop=1", of any mode; return their values by their words.

    Raises UsageError if one is unknown, is given twice, or has a value that it cannot have.
    """
    given = given_options("a setting", text, cell_options().values(), CellSetting.rest)
    return {word_of(cell_options()[name]): value for name, value in given.items()}


def refuse_unread(modes: Iterable[str], words: Iterable[str]) -> None:
    """Refuse options that were given and that none of some modes reads."""
    taken = tuple(dict.fromkeys(read(each).mode for each in modes))
    for word in words:
        options = set(_meant(word))
        if not any(options.intersection(reads(mode)) for mode in taken):
            planned = registry.planned_modes()
            readers = (mode for mode in planned if options.intersection(reads(mode)))
            raise no_effect(_meant(word)[0].spelling, taken, readers)


def combinations(
    modes: Iterable[str],
    options: Iterable[Mapping[str, object]] = ({},),
    weights: Iterable[str] = (Weights.HEURISTIC,),
) -> Iterator[CellSetting]:
    """Yield each of modes x options x weights once: those that differ for the mode.

    Options are called by their words (`word_of`), and count for the modes that read them. A mode
    may have options of its own ("tpp:cold=20"), which then count. Options may themselves set
    `weights`; then these count.
    """
    found: dict[CellSetting, dict[str, None]] = {}
    sets, choices = tuple(options) or ({},), tuple(weights)
    plain = {*SELECTING, *(("weights",) if len(choices) == 1 else ())}
    for mode in map(read, modes):
        declared = reads(mode.mode)
        for chosen, weight in product(sets, choices):
            given = {
                option.name: checked(option, value, f"{option.name}={value!r}")
                for word, value in {"weights": weight, **chosen}.items()
                for option in _meant(word)
                if option in declared
            }
            given |= {name: mode.value(name) for name in mode.asked}
            made = CellSetting.of(mode.mode, completed(declared, given))
            asked = dict.fromkeys(name for name in given if name not in plain)
            found.setdefault(made, {}).update(asked)
    return (replace(made, asked=tuple(names)) for made, names in found.items())
