"""Settings of cells: a mode with the options that it reads, in one canonical form.

The canonical form leaves out what the mode does not read and what has its default value, so that
equal work has equal names and is done once: "pp", "pp[weights=uniform]", "tpp[cold=1,loop=1]".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType

from simprof.profiler.request.request import (
    DEFAULT_PATH_LIMIT,
    OptionValue,
    SchemeOptions,
    Selection,
    Setting,
    TableChoice,
    Weights,
)
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import SchemeOption
from simprof.profiler.schemes.mode_options import checked, read, shown
from simprof.simulator.errors import UsageError


class WeightChoice(StrEnum):
    """Where a cell's edge weights come from."""

    HEURISTIC = "heuristic"  # BL94 section 5
    UNIFORM = "uniform"
    POSTORDER = "postorder"  # Goldberg's (BL94 7.1.4)
    EXACT = "exact"  # the edge counts of an earlier run with the same input (BL94 6.4)


_COMMON = (
    SchemeOption(
        name="path_limit",
        kind=int,
        default=DEFAULT_PATH_LIMIT,
        help="",
        hint="give a whole number above 0",
        least=1,
        greatest=1 << 62,
    ),
    SchemeOption(
        name="weights",
        kind=WeightChoice,
        default=WeightChoice.HEURISTIC,
        help="",
        hint=f"give one of {', '.join(WeightChoice)}",
    ),
    SchemeOption(
        name="table",
        kind=TableChoice,
        default=TableChoice.AUTO,
        help="",
        hint=f"give one of {', '.join(TableChoice)}",
    ),
    SchemeOption(
        name="user_only",
        kind=bool,
        default=False,
        help="",
        hint="give true or false",
    ),
    SchemeOption(
        name="exclude",
        kind=str,
        default="",
        help="",
        hint="give patterns of routine names with | between them",
    ),
)
SELECTING = ("user_only", "exclude")
"""Options that say which routines are profiled: every mode reads them."""

BETWEEN_PATTERNS = "|"
RESERVED = (",", "=", BETWEEN_PATTERNS)


@cache
def cell_options() -> Mapping[str, SchemeOption]:
    """Return the options that cells can have, by name: common ones, then those of schemes."""
    return MappingProxyType({option.name: option for option in (*_COMMON, *registry.options())})


def reads(mode: str) -> tuple[str, ...]:
    """Return the options that a mode reads, of those that a cell can have (`cell_options`)."""
    scheme = registry.definition(mode)
    return (*scheme.reads, *SELECTING, *(option.name for option in scheme.options))


@dataclass(frozen=True)
class CellSetting:
    """A mode with options; make one with `setting`, which checks and canonicalises."""

    mode: str
    # (name, value) of those that differ from the default, in the order of `cell_options`
    options: tuple[tuple[str, OptionValue], ...] = ()

    @property
    def name(self) -> str:
        """Canonical text; `parse` reads it."""
        if not self.options:
            return self.mode
        inner = ",".join(f"{name}={shown(value)}" for name, value in self.options)
        return f"{self.mode}[{inner}]"

    def __str__(self) -> str:
        return self.name

    @property
    def weights(self) -> WeightChoice:
        """Where its edge weights come from."""
        return WeightChoice(str(dict(self.options).get("weights", WeightChoice.HEURISTIC)))

    @property
    def path_limit(self) -> int:
        """Potential paths beyond which routines are truncated."""
        return int(dict(self.options).get("path_limit", DEFAULT_PATH_LIMIT))

    @property
    def selection(self) -> Selection:
        """Which routines are profiled; patterns may match none, since programs differ."""
        options = dict(self.options)
        patterns = str(options.get("exclude", "")).split(BETWEEN_PATTERNS)
        return Selection(
            exclude=tuple(filter(None, patterns)),
            user_only=options.get("user_only") is True,
            tolerant=True,
        )

    @property
    def _table(self) -> TableChoice:
        return TableChoice(str(dict(self.options).get("table", TableChoice.AUTO)))

    def scheme(self, exact: Path | None = None) -> Setting:
        """Return it as `session` wants it.

        `exact`: Saved edge profile; needed for exact weights only.
        """
        options = dict(self.options)
        weights: Weights | Path = Weights.HEURISTIC
        if self.weights is WeightChoice.EXACT:
            if exact is None:
                raise ValueError(f"{self.name} needs an edge profile")
            weights = exact
        else:
            weights = Weights(self.weights.value)
        for name in ("weights", "path_limit", "table", *SELECTING):
            options.pop(name, None)
        chosen = SchemeOptions(self.path_limit, weights, self._table, own=tuple(options.items()))
        return Setting(self.name, self.mode, chosen)


def setting(mode: str, **options: object) -> CellSetting:
    """Return a canonical setting; options that the mode does not read are left out.

    Raises
    ------
    UsageError
        If the mode or an option is unknown, or has a value that it cannot have.
    """
    known, read = cell_options(), reads(mode)
    for name in options:
        if name not in known:
            raise UsageError(f"{name!r} is no option of a setting: use {', '.join(known)}")
    values = {
        name: checked(known[name], value, f"{name}={value!r}") for name, value in options.items()
    }
    kept = (
        (name, values[name])
        for name, option in known.items()
        if name in values and name in read and values[name] != option.default
    )
    return CellSetting(mode, tuple(kept))


def selecting(chosen: CellSetting, selection: Selection) -> CellSetting:
    """Return a setting of the same mode and options for other routines.

    Raises
    ------
    UsageError
        If a pattern cannot be in a setting (`selection_options`).
    """
    if selection.is_all:
        return chosen
    return setting(chosen.mode, **{**dict(chosen.options), **selection_options(selection)})


def selection_options(selection: Selection) -> dict[str, object]:
    """Return a selection as options of a setting; {} for all routines.

    Raises
    ------
    UsageError
        If a pattern has a character that settings need for themselves.
    """
    for pattern in selection.exclude:
        if set(pattern) & set(RESERVED):
            raise UsageError(f"--exclude {pattern!r} has one of {' '.join(RESERVED)}: use ? for it")
    made: dict[str, object] = {}
    if selection.user_only:
        made["user_only"] = True
    if selection.exclude:
        made["exclude"] = BETWEEN_PATTERNS.join(selection.exclude)
    return made


def parse(text: str) -> CellSetting:
    """Read a setting such as "tpp[cold=1,loop=1]".

    Raises
    ------
    UsageError
        If it is none.
    """
    mode, bracket, rest = text.strip().partition("[")
    if bracket and not rest.endswith("]"):
        raise UsageError(f"{text!r} is no setting: write MODE or MODE[OPTION=VALUE,...]")
    return setting(mode, **parse_options(rest[:-1]))


def parse_options(text: str) -> dict[str, str]:
    """Read options such as "cold=1,loop=1"; `setting` checks their names and values.

    Raises
    ------
    UsageError
        If it is not a list of NAME=VALUE, or names one twice.
    """
    options: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise UsageError(f"{part!r} is no option: write OPTION=VALUE, as in cold=5")
        if name in options:
            raise UsageError(f"option {name} is given twice in {text!r}: leave out one")
        options[name] = value
    return options


def combinations(
    modes: Iterable[str],
    options: Iterable[Mapping[str, object]] = ({},),
    weights: Iterable[str] = (WeightChoice.HEURISTIC.value,),
) -> Iterator[CellSetting]:
    """Yield each of modes x options x weights once: those that differ for the mode.

    A mode may have options of its own ("tpp:cold=20"), which then count. Options may themselves
    set `weights`; then these count.
    """
    seen: set[CellSetting] = set()
    sets, choices = tuple(options) or ({},), tuple(weights)
    for mode in map(read, modes):
        for chosen in sets:
            for weight in choices:
                values = {"weights": weight, **chosen, **dict(mode.own)}
                combination = setting(mode.mode, **values)
                if combination not in seen:
                    seen.add(combination)
                    yield combination
