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

from profiler.request.request import (
    Mode,
    SchemeOptions,
    Setting,
    TableChoice,
    VertexPlacement,
    Weights,
)
from simulator.errors import UsageError

OptionValue = str | int | float | bool


class WeightChoice(StrEnum):
    """Where a cell's edge weights come from."""

    HEURISTIC = "heuristic"  # BL94 section 5
    UNIFORM = "uniform"
    EXACT = "exact"  # the edge counts of an earlier run with the same input (BL94 6.4)


_PLANNING = ("path_limit", "weights", "table")
_READ: Mapping[Mode, tuple[str, ...]] = MappingProxyType(
    {
        Mode.PP: _PLANNING,
        Mode.BITTRACE: _PLANNING,
        Mode.TPP: (*_PLANNING, "cold", "loop", "cold_always"),
        Mode.KITER: (*_PLANNING, "iterations"),
        Mode.QPT2: ("weights",),
        Mode.QPT: ("weights", "placement"),
        Mode.WITNESS: ("weights",),
        Mode.BITS: ("weights",),
        Mode.CALLS_OPTIMAL: ("weights",),
        Mode.NAIVE: (),
        Mode.CALLS: (),
        Mode.EDGES: (),
    }
)
"""Mode -> options that it reads."""


def reads(mode: Mode) -> tuple[str, ...]:
    """Return the options that a mode reads, of those that a cell can have (`OPTIONS`)."""
    return _READ[mode]


OPTIONS: Mapping[str, type] = MappingProxyType(
    {
        "path_limit": int,
        "weights": WeightChoice,
        "table": TableChoice,
        "cold": float,
        "loop": float,
        "cold_always": bool,
        "iterations": int,
        "placement": VertexPlacement,
    }
)
"""Options of cells with their types; all are fields of `request.SchemeOptions`."""


@dataclass(frozen=True)
class CellSetting:
    """A mode with options; make one with `setting`, which checks and canonicalises.

    Attributes
    ----------
    options
        (name, value) of those that differ from the default, in the order of `OPTIONS`.
    """

    mode: Mode
    options: tuple[tuple[str, OptionValue], ...] = ()

    @property
    def name(self) -> str:
        """Canonical text; `parse` reads it."""
        if not self.options:
            return self.mode.value
        inner = ",".join(f"{name}={_shown(value)}" for name, value in self.options)
        return f"{self.mode.value}[{inner}]"

    def __str__(self) -> str:
        return self.name

    @property
    def weights(self) -> WeightChoice:
        """Where its edge weights come from."""
        return WeightChoice(str(dict(self.options).get("weights", WeightChoice.HEURISTIC)))

    @property
    def path_limit(self) -> int:
        """Potential paths beyond which routines are truncated."""
        return int(dict(self.options).get("path_limit", SchemeOptions().path_limit))

    def scheme(self, exact: Path | None = None) -> Setting:
        """Return it as `session` wants it.

        Parameters
        ----------
        exact
            Saved edge profile; needed for exact weights only.
        """
        options = dict(self.options)
        weights: Weights | Path = Weights.HEURISTIC
        if self.weights is WeightChoice.EXACT:
            if exact is None:
                raise ValueError(f"{self.name} needs an edge profile")
            weights = exact
        elif self.weights is WeightChoice.UNIFORM:
            weights = Weights.UNIFORM
        options.pop("weights", None)
        chosen = SchemeOptions(weights=weights, **options)  # type: ignore[arg-type]
        return Setting(self.name, self.mode, chosen)


def setting(mode: Mode | str, **options: object) -> CellSetting:
    """Return a canonical setting; options that the mode does not read are left out.

    Raises
    ------
    UsageError
        If the mode or an option is unknown, or has a value that it cannot have.
    """
    try:
        chosen = Mode(mode)
    except ValueError:
        raise UsageError(f"{mode!r} is no mode: name one of {', '.join(Mode)}") from None
    for name in options:
        if name not in OPTIONS:
            raise UsageError(f"{name!r} is no option of a setting: use {', '.join(OPTIONS)}")
    values = {name: _value(name, value) for name, value in options.items()}
    defaults = _defaults()
    kept = (
        (name, values[name])
        for name in OPTIONS
        if name in values and name in _READ[chosen] and values[name] != defaults[name]
    )
    return CellSetting(chosen, tuple(kept))


@cache
def _defaults() -> Mapping[str, OptionValue]:
    plain = SchemeOptions()
    return MappingProxyType({name: getattr(plain, name) for name in OPTIONS})


def _value(name: str, value: object) -> OptionValue:
    """Return an option's value, checked; text is understood as the command line would."""
    kind = OPTIONS[name]
    try:
        found = _converted(kind, value)
    except (ValueError, TypeError):
        raise UsageError(f"{name}={value!r} cannot be: {_HINTS[name]}") from None
    if not _FITS[name](found):
        raise UsageError(f"{name}={value!r} cannot be: {_HINTS[name]}")
    return found


def _converted(kind: type, value: object) -> OptionValue:
    if kind is bool:
        words = {"true": True, "false": False, True: True, False: False}
        if value not in words:
            raise ValueError
        return words[value]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    if kind is int:
        if isinstance(value, float):
            raise TypeError
        return int(value)
    if kind is float:
        return float(value)
    member: OptionValue = kind(value)
    return member


def _percentage(value: OptionValue) -> bool:
    return 0.0 <= float(value) <= 100.0


def _any(value: OptionValue) -> bool:
    return True


_FITS = MappingProxyType(
    {
        "path_limit": lambda value: 1 <= int(value) <= 1 << 62,
        "weights": _any,
        "table": _any,
        "cold": _percentage,
        "loop": _percentage,
        "cold_always": _any,
        "iterations": lambda value: 1 <= int(value) <= 1000,
        "placement": _any,
    }
)
_HINTS = MappingProxyType(
    {
        "path_limit": "give a whole number above 0",
        "weights": f"give one of {', '.join(WeightChoice)}",
        "table": f"give one of {', '.join(TableChoice)}",
        "cold": "give a percentage from 0 to 100",
        "loop": "give a percentage from 0 to 100",
        "cold_always": "give true or false",
        "iterations": "give a whole number from 1 to 1000",
        "placement": f"give one of {', '.join(VertexPlacement)}",
    }
)


def _shown(value: OptionValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


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
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise UsageError(f"{part!r} is no option: write OPTION=VALUE, as in cold=5")
        if name in found:
            raise UsageError(f"option {name} is given twice in {text!r}: leave out one")
        found[name] = value
    return found


def combinations(
    modes: Iterable[str],
    options: Iterable[Mapping[str, object]] = ({},),
    weights: Iterable[str] = (WeightChoice.HEURISTIC.value,),
) -> Iterator[CellSetting]:
    """Yield each of modes x options x weights once: those that differ for the mode.

    Options may themselves set `weights`; then these count.
    """
    seen: set[CellSetting] = set()
    sets, choices = tuple(options) or ({},), tuple(weights)
    for mode in modes:
        for chosen in sets:
            for weight in choices:
                made = setting(mode, **{"weights": weight, **chosen})
                if made not in seen:
                    seen.add(made)
                    yield made
