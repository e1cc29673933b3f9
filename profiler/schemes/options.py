"""Options of schemes: fields of one structure, with their help, their bounds and what they imply.

    class Options(PathOptions):
        cold = percentage(5.0, "percentage of its source's executions below which an edge is cold.")

The command line, grids of sweeps, suites, JSON, the API and `explain` read `Options.declared`. A
planner reads its values: `Options(order.options).cold` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.request.request import (
    CodeLayout,
    OptionValue,
    RegisterUse,
    SchemeOptions,
)
from simprof.simulator.errors import UsageError

T = TypeVar("T", bound=OptionValue)
E = TypeVar("E", bound=StrEnum)
PLANNING = ("path_limit", "weights", "table")  # The common options that a planner of paths reads


class SchemeOption(Struct, Generic[T], frozen=True):
    """An option of a scheme's own: a field of its `Options`."""

    default: T  # Its value where none is given: an `int`, `float`, `bool`, `str` or `StrEnum`
    help: str  # What it means, for help texts, without the mode's name
    # What to write, for the message that refuses a value ("give a percentage from 0 to 100").
    hint: str
    metavar: str | None = None  # What stands for the value in help texts
    # What is written behind the mode in place of the field's name (`kiter:k=3`); empty: the name,
    # with dashes for underscores.
    word: str = ""
    # Whether it is an option of commands (`--registers`), for all modes that declare it.
    shared: bool = False
    # least, greatest: Bounds of a number, inclusive; None: none.
    least: float | None = None
    greatest: float | None = None
    pattern: str = ""  # What the whole of a text has to match; empty: anything
    default_text: str = ""  # What help texts say of the default; empty: the default itself
    # The value where none is given behind the mode, as a function of the structure with the values
    # of the other options; None: the default.
    implied: Callable[[Any], T] | None = None
    name: str = ""  # That of the field: in `SchemeOptions`, in settings and in JSON

    @overload
    def __get__(self, instance: None, owner: type[Options]) -> SchemeOption[T]: ...

    @overload
    def __get__(self, instance: Options, owner: type[Options]) -> T: ...

    def __get__(self, instance: Options | None, owner: type[Options]) -> SchemeOption[T] | T:
        """Return the value that a structure has, or the declaration."""
        return self if instance is None else self.of(instance.chosen)

    @property
    def kind(self) -> type[T]:
        """The type of its values."""
        return type(self.default)

    @property
    def spelling(self) -> str:
        """How it is written behind a mode, and behind the dashes of a command's option."""
        return self.word or self.name.replace("_", "-")

    def of(self, options: SchemeOptions) -> Any:
        """Return its value in `options`: an instance of `kind`."""
        value = options.given(self.name)
        return self.default if value is None else value

    def fits(self, value: OptionValue) -> bool:
        """Whether a value of the right type is within the bounds; not-a-number is not."""
        if self.pattern and not re.fullmatch(self.pattern, str(value)):
            return False
        above = self.least is None or self.least <= float(value)
        return above and (self.greatest is None or float(value) <= self.greatest)


def flag(help: str) -> SchemeOption[bool]:
    """Declare an option that is there or not."""
    return SchemeOption(False, help, "give true or false")


def choice(default: E, help: str, *, shared: bool = False) -> SchemeOption[E]:
    """Declare an option whose values are those of an enum."""
    return SchemeOption(default, help, f"give one of {', '.join(type(default))}", shared=shared)


def whole_number(
    default: int, help: str, least: int, greatest: int, hint: str = "", **more: Any
) -> SchemeOption[int]:
    """Declare an option that is a whole number; `hint`, `more`: members of `SchemeOption`."""
    hint = hint or f"give a whole number from {least} to {greatest}"
    return SchemeOption(default, help, hint, least=least, greatest=greatest, **more)


def percentage(default: float, help: str, **more: Any) -> SchemeOption[float]:
    """Declare an option that is a percentage; `more`: members of `SchemeOption`."""
    hint = "give a percentage from 0 to 100"
    return SchemeOption(default, help, hint, least=0, greatest=100, **more)


class Options:
    """What a user chose for one scheme; a scheme with options of its own extends it."""

    declared: ClassVar[tuple[SchemeOption[Any], ...]] = ()  # Its options, then those of its bases
    reads: ClassVar[tuple[str, ...]] = ()  # Common options that the planner reads, of `PLANNING`

    def __init__(self, chosen: SchemeOptions) -> None:
        self.chosen = chosen

    def __init_subclass__(cls) -> None:
        fields = ((n, each) for n, each in vars(cls).items() if isinstance(each, SchemeOption))
        own = {name: replace(each, name=name) for name, each in fields}
        for name, option in own.items():
            setattr(cls, name, option)
        bases = (each for base in cls.__bases__ for each in getattr(base, "declared", ()))
        inherited = {each.name: each for each in bases if each.name not in own}
        cls.declared = (*own.values(), *inherited.values())

    @property
    def register_use(self) -> RegisterUse:
        """Which registers code may take without saving them; UsageError where that cannot be."""
        return RegisterUse.LIVENESS

    @property
    def beginning(self) -> int:
        """How many instructions of the run give the edge profile that guides it; 0: all."""
        return 0


class EdgeOptions(Options):
    """Of schemes with code on edges (BL94 6.3)."""

    layout = choice(
        CodeLayout.BEST,
        "where code goes that would need a jump: after the routine, before its target, or "
        "whichever the weights say is cheaper.",
        shared=True,
    )


class RegisterOptions(EdgeOptions):
    """Of schemes whose registers the user chooses, too."""

    registers = choice(
        RegisterUse.LIVENESS,
        "registers that code uses without saving them. liveness: dead ones; scavenged: "
        "caller-saved ones that the routine never names; saved: none; stolen: two taken from the "
        "program (qpt, qpt2); spilled: dead ones, else the routine's least used local.",
        shared=True,
    )

    @property
    def register_use(self) -> RegisterUse:
        """See `Options`."""
        return self.registers


class PathOptions(RegisterOptions):
    """Of schemes whose state is in path registers, which steal none."""

    reads: ClassVar[tuple[str, ...]] = PLANNING

    @property
    def register_use(self) -> RegisterUse:
        """See `Options`."""
        if self.registers is RegisterUse.STOLEN:
            raise UsageError(
                "--registers stolen: only qpt and qpt2 steal registers: give liveness or spilled"
            )
        return self.registers


class VertexLimitOptions(PathOptions):
    """Of schemes that cut edges as `paths.truncated_dag` does."""

    per_vertex = flag("the path limit is each block's, not the routine's, as EPP 5.3 has it.")


LAYOUT = EdgeOptions.layout
