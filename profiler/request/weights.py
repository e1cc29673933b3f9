"""Edge weights as users name them: an estimate and its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import asdict

LOOP_MULTIPLIER = 10.0  # How often each loop is taken to iterate (BL94, section 5)
BETWEEN = "+"  # Between a name and its options: `:` and `,` are between settings and names


class Guess(Struct, frozen=True):
    """What an estimate takes for granted."""

    multiplier: float = LOOP_MULTIPLIER  # How often each loop iterates
    # Share of a predicate's executions that its first edge, the fall-through, gets; the others
    # share the rest evenly. None: as much as each of the others (BL94 5).
    fall_through: float | None = None
    # Share that edges towards a loop get, where a predicate has such edges and others (BL94 6.4).
    # None: none is favoured.
    loops: float | None = None


_PROBABILITIES = ("fall_through", "loops")


class Weights(str):
    """Where edge weights come from, when not from a saved profile: a name with options.

    >>> Weights("heuristic+loops=0.90+multiplier=20")
    'heuristic+multiplier=20+loops=0.9'
    >>> Weights("wall+loops=0.9")
    Traceback (most recent call last):
    ValueError: wall has no option 'loops'
    """

    # Name -> its options
    names: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "heuristic": ("multiplier", *_PROBABILITIES),  # BL94 section 5
        "uniform": (),
        "postorder": (),  # Goldberg's, as BL94 7.1.4 has it
        "wall": ("multiplier",),  # Wall's (BL94 7.1.4)
        "forman": _PROBABILITIES,  # Forman's, from branch probabilities (BL94 7.1.4)
    }
    HEURISTIC: ClassVar[Weights]
    UNIFORM: ClassVar[Weights]
    POSTORDER: ClassVar[Weights]
    WALL: ClassVar[Weights]
    FORMAN: ClassVar[Weights]

    __slots__ = ()

    def __new__(cls, text: str) -> Weights:
        """Read a name with options; ValueError if one is unknown, or has a wrong value."""
        name, *words = text.split(BETWEEN)
        if name not in cls.names:
            raise ValueError(f"{name!r} is none of {', '.join(cls.names)}")
        given: dict[str, float] = {}
        for word in words:
            option, _, value = word.partition("=")
            option = option.replace("-", "_")
            if option not in cls.names[name]:
                raise ValueError(f"{name} has no option {word.partition('=')[0]!r}")
            if option in given:
                raise ValueError(f"{name}: {word.partition('=')[0]} is given twice")
            given[option] = _number(option, value)
        return super().__new__(cls, BETWEEN.join((name, *_written(given))))

    @property
    def name(self) -> str:
        """The estimate, without options."""
        return self.partition(BETWEEN)[0]

    @property
    def guess(self) -> Guess:
        """What it takes for granted."""
        words = (word.partition("=") for word in self.split(BETWEEN)[1:])
        return Guess(**{option.replace("-", "_"): float(value) for option, _, value in words})


def _number(option: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if option in _PROBABILITIES and not 0 < number < 1:
        raise ValueError(f"{option.replace('_', '-')}={value}: give a share between 0 and 1")
    if option == "multiplier" and not 1 <= number <= 1e6:
        raise ValueError(f"multiplier={value}: give a number from 1 to 1000000")
    return number


def _written(given: Mapping[str, float]) -> Iterator[str]:
    for name, default in asdict(Guess()).items():
        if given.get(name, default) != default:
            yield f"{name.replace('_', '-')}={given[name]:.15g}"


Weights.HEURISTIC, Weights.UNIFORM = Weights("heuristic"), Weights("uniform")
Weights.POSTORDER, Weights.WALL = Weights("postorder"), Weights("wall")
Weights.FORMAN = Weights("forman")


def source_of(text: str) -> Weights | Path:
    """Return the source of weights that a text names: an estimate, or the file of a profile."""
    return Weights(text) if text.partition(BETWEEN)[0] in Weights.names else Path(text)
