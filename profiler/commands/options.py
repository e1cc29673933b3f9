"""Types of options, and options that several commands have, written once.

A function returns the decorator that adds its option to a command. Help texts differ where commands
do: some run one program ("the program"), others any of several ("a program").
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from simprof.profiler.request.likeness import alike, unknown
from simprof.profiler.request.request import LARGEST_STACK_SIZE, SchemeOptions, Selection
from simprof.profiler.request.weights import BETWEEN, Weights
from simprof.simulator.binary import debug_info
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SIZE = re.compile(r"(\d{1,15})([KMGT]?)(?:iB|B)?", re.IGNORECASE)
LONGEST_TIMEOUT = 1e9
SMALLEST_STACK_SIZE = 64 << 10

WEIGHTS = "|".join((*Weights.names, "FILE"))

Decorator = Callable[[Any], Any]  # What adds an option to a command


def option(usage: str, text: str, kind: Any = None, name: str = "", **more: Any) -> Decorator:
    """Return an option; `usage`: as help shows it, "--root DIR", without a value for a flag.

    `text`: its help. `kind`: what reads the value. `name`: the parameter, if not called like it.
    """
    flag, _, value = usage.partition(" ")
    names = (flag, name) if name else (flag,)
    if not value:
        more["is_flag"] = True
    return click.option(*names, type=kind, metavar=value or None, help=text, **more)


def together(*decorators: Decorator) -> Decorator:
    """Return what adds options to a command, which shows them in this order."""

    def decorate(command: Any) -> Any:
        for each in reversed(decorators):
            command = each(command)
        return command

    return decorate


def size(value: str | int) -> int:
    """Return a number of bytes: 4096, 64K, 512M, 2G."""
    match = SIZE.fullmatch(str(value))
    if match is None or int(match[1]) == 0:
        raise click.BadParameter(f"{value!r} is not a size: write bytes, or 64K, 512M, 2G")
    return int(match[1]) * UNITS[match[2].upper()]


def stack_size(value: str | int) -> int:
    """Return a size of the stack."""
    number = size(value)
    if not SMALLEST_STACK_SIZE <= number <= LARGEST_STACK_SIZE:
        raise click.BadParameter(f"{value!r} is not between 64K and 256M")
    return number


def weights(value: str | Path) -> Weights | Path:
    """Return a source of weights: an estimate with its options, or a saved profile."""
    text = str(value)
    if text.partition(BETWEEN)[0] in Weights.names:
        return named_weights(text)
    if not text or not possible_path(text).is_file():
        raise click.BadParameter(
            f"{text!r} is neither {', '.join(Weights.names)} nor a profile file"
        )
    return Path(text)


def named_weights(value: str) -> Weights:
    """Return an estimate of weights with its options."""
    try:
        return Weights(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def variable(value: str) -> tuple[bytes, bytes]:
    """Return name and value of `NAME=VALUE` as bytes."""
    name, equals, setting = os.fsencode(value).partition(b"=")
    if not name or not equals:
        raise click.BadParameter(f"{value!r} is not of the form NAME=VALUE")
    return name, setting


def seconds(value: str | float) -> float:
    """Return a positive number of seconds."""
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0.0 < number < LONGEST_TIMEOUT:
        raise click.BadParameter(f"{value!r} is not a positive number of seconds")
    return number


THOUSANDS = {"k": 10**3, "M": 10**6, "G": 10**9}
SHORT_NUMBER = re.compile(r"(\d{1,18})(?:\.(\d{1,18}))?(?:e(\d{1,2})|([kMG]))")


def whole_number(text: str) -> int:
    """Return the number that is written as 1000000, 1e6 or 1M; ValueError if it is none.

    Examples
    --------
    >>> whole_number("1e6"), whole_number("2.5M"), whole_number("64")
    (1000000, 2500000, 64)
    """
    match = SHORT_NUMBER.fullmatch(text)
    if match is None:
        return int(text)
    whole, part, power, letter = match.groups(default="")
    number = Decimal(f"{whole}.{part}") * THOUSANDS.get(letter, 1) * Decimal(10) ** int(power or 0)
    if number != number.to_integral_value():
        raise ValueError(text)
    return int(number)


class WholeNumber(click.ParamType[int]):
    """A whole number between bounds, which help texts leave out and errors name."""

    name = "integer"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least, self._most = least, most

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number, or refuse it."""
        try:
            number = whole_number(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        if number < self._least:
            self.fail(f"{number} is too small: it must be at least {self._least}", param, ctx)
        if self._most is not None and number > self._most:
            self.fail(f"{number} is too large: it must be at most {self._most}", param, ctx)
        return number


class Percentage(click.ParamType[float]):
    """A percentage from 0 to 100."""

    name = "number"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number, or refuse it."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not 0 <= number <= 100:
            self.fail(f"{number} is no percentage: it must be from 0 to 100", param, ctx)
        return number


# What completes a word of a command line
Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completing(names: Callable[[], Iterable[str]], *, files: bool = False) -> Completer:
    """Return what completes a word by names, which are asked for then only, and by files."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # which only completing needs

        found = [CompletionItem(incomplete, type="file")] if files else []
        return found + [CompletionItem(name) for name in names() if name.startswith(incomplete)]

    return complete


_complete_files = completing(tuple, files=True)


class PathType(click.ParamType[Path]):
    """A file or directory, which need not exist, but must be possible to look for."""

    name = "path"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Have the shell complete the names of files."""
        return _complete_files(ctx, param, incomplete)

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Return the path."""
        return possible_path(str(value))


class ProgramType(click.ParamType[str]):
    """A program file, kept as it was typed: it is also the program's name for itself."""

    name = "program"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Have the shell complete the names of files."""
        return _complete_files(ctx, param, incomplete)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name unchanged."""
        possible_path(value)
        return value


def possible_path(name: str) -> Path:
    """Return a name as a path; click.BadParameter if there can be no such file or directory."""
    if not name:  # as a path it would mean the current directory
        raise click.BadParameter("the name of a file or directory is empty")
    path = Path(name)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    # It is too long, a link to itself, or in a directory that may not be searched.
    except OSError as error:
        raise click.BadParameter(f"{name!r} cannot be used ({error.strerror})") from None
    return path


PATH = PathType()
PROGRAM = ProgramType()
COUNT = WholeNumber(1, 1 << 62)

weights_option = click.option(
    "--weights",
    type=weights,
    default=Weights.HEURISTIC,
    metavar=WEIGHTS,
    show_default=True,
    help="Edge-frequency estimates: heuristic, uniform, postorder (Goldberg's), wall, forman, or a "
    "profile saved by `simprof run -o`. With options: "
    "heuristic+multiplier=10+fall-through=0.5+loops=0.9.",
)


def profiles(scheme: SchemeOptions) -> tuple[Path | None, ...]:
    """Return the saved profiles that options name."""
    weights = scheme.weights
    return (weights if isinstance(weights, Path) else None, scheme.edge_profile)


class WordChoice(click.Choice[str]):
    """One of some words; an error lists them, and says which may be meant."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return the error of a word that is none of these."""
        near = alike(str(value), self.choices, loosely=True)
        asked = f": did you mean {' or '.join(near)}?" if near else ""
        return f"{value!r} is not one of {', '.join(self.choices)}{asked}"


def choice(*values: StrEnum) -> WordChoice:
    """Return the option type for some members of an enum, written as their values."""
    return WordChoice([member.value for member in values])


def check_directory(path: Path, option: str) -> Path:
    """Return `path` if it is a directory; UsageError if it is not."""
    if not path.is_dir():
        raise UsageError(f"{option} {path} is not a directory: name one that exists")
    return path


def selection_options(verb: str, *, routine: bool = True) -> Decorator:
    """Return the options that select routines; `selection` reads them.

    `verb`: What is done with the routines: "Profile". `routine`: Whether `--routine` is among them.
    """
    only = glob_options(
        f"{verb} only routines", f"{verb} no routine", "whose name or alias matches"
    )
    own = option(
        "--user-only",
        f"{verb} the program's own routines only: those compiled with -g from files that are "
        "none of the C, C++ and Fortran libraries.",
    )
    return together(*(only if routine else only[1:]), own)


def glob_options(only: str, none: str, matching: str) -> tuple[Decorator, Decorator]:
    """Return `--routine` and `--exclude`, whose help texts begin with `only` and `none`."""
    return (
        option("--routine GLOB", f"{only} {matching}; repeatable.", name="routines", multiple=True),
        option("--exclude GLOB", f"{none} {matching}; repeatable.", multiple=True),
    )


def selection(chosen: Mapping[str, Any]) -> Selection:
    """Return the selection that the options of a command ask for."""
    return Selection(chosen.get("routines", ()), chosen["exclude"], chosen["user_only"])


def output_option(metavar: str, text: str, *, required: bool = False) -> Decorator:
    """Return `--output`, whose help is `text`."""
    return click.option("-o", "--output", type=PATH, required=required, metavar=metavar, help=text)


def choice_option(
    flag: str, name: str, values: Iterable[str], default: str, text: str
) -> Decorator:
    """Return an option for one of some values; `name`: the parameter that takes it."""
    kind = WordChoice(list(values))
    return click.option(flag, name, type=kind, default=default, show_default=True, help=text)


DEBUG_DIR = "debug_dir"


def _search_debug_files(
    ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]
) -> None:
    ctx.meta[DEBUG_DIR] = value
    ctx.with_resource(debug_info.searching(value))  # until the command has ended


debug_dir_option = click.option(
    "--debug-dir",
    type=PATH,
    multiple=True,
    expose_value=False,
    callback=_search_debug_files,
    metavar="DIR",
    help="Look there, too, for separate debug files, by build-id or .gnu_debuglink; repeatable.",
)


def json_option(text: str) -> Decorator:
    """Return `--json`, whose help is `text`."""
    return option("--json FILE", text, PATH, name="json_file")


def report_option(stdout: str = "") -> Decorator:
    """Return `--report`; `stdout` says what follows where the report goes to stdout."""
    return option(
        "--report FILE", f"Write the report there, not to stderr; - is stdout{stdout}.", PATH
    )


def extent_options(rows: str = "5, with --details 10") -> Decorator:
    """Return `--details` and `--top`, which say how much a report shows; `rows`: the default."""
    return together(
        option("--details", "Report everything that is known, not the answer alone."),
        option("--top N", f"Rows in each table of the report.  [default: {rows}]", WholeNumber(0)),
    )


def replay_cells_option() -> Decorator:
    """Return `--replay` of commands that measure cells."""
    return option(
        "--replay RUN",
        "Give the program the answers that it had in a run of `simprof record`, which must be of "
        "the one program and input. Instrumented programs see their own world all the same.",
        PATH,
    )


def stdin_option(text: str) -> Decorator:
    """Return `--stdin`, whose help is `text`."""
    return option("--stdin FILE", text, PATH, name="stdin_file")


def env_option(programs: str) -> Decorator:
    """Return `--env` for `programs`: "the program, which inherits none"."""
    return option(
        "--env NAME=VALUE",
        f"Set a variable for {programs}; repeatable.",
        variable,
        name="environment",
        multiple=True,
    )


def max_instructions_option(stopped: str) -> Decorator:
    """Return `--max-instructions`; `stopped` is "Stop" or says what is stopped, too."""
    return option(
        "--max-instructions N", f"{stopped} at the block that would exceed N instructions.", COUNT
    )


def timeout_option(text: str) -> Decorator:
    """Return `--timeout`, whose help is `text`."""
    return option("--timeout SECONDS", text, seconds)


def memory_limit_option(program: str) -> Decorator:
    """Return `--memory-limit` for `program`: "the program"."""
    return option(
        "--memory-limit SIZE",
        f"Memory that {program} may use: bytes, or 64K, 512M, 2G.",
        size,
        default="2G",
        show_default=True,
    )


def stack_size_option(program: str, remark: str = "") -> Decorator:
    """Return `--stack-size` for `program`: "the program"; `remark` ends the sentence."""
    return option(
        "--stack-size SIZE",
        f"Stack of {program}, at most 256M and a quarter of its memory{remark}.",
        stack_size,
        default="64M",
        show_default=True,
    )


allow_commands_option = option(
    "--allow-commands",
    "Let a suite's file of your own have its commands executed, on this computer.",
)


progress_option = click.option(
    "--progress/--no-progress",
    default=None,
    help="Say how far it is: a bar on a terminal after two seconds, else one line after five.  "
    "[default: yes, without SIMPROF_PROGRESS=0]",
)


def jobs_option(things: str) -> Decorator:
    """Return `--jobs N`, how many of `things` are done at the same time; `processors` reads it."""
    return option(
        "--jobs N",
        f"How many {things} at the same time.  [default: one a processor]",
        WholeNumber(1, 256),
    )


def processors(jobs: int | None) -> int:
    """Return `jobs`, or how many processors there are where the user has not said."""
    return jobs or len(os.sched_getaffinity(0))


def given(name: str) -> str | None:
    """Return a parameter's option as the user wrote it on the command line, None without it."""
    context = click.get_current_context()
    if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return None
    (option,) = (each for each in context.command.params if each.name == name)
    negated = option.secondary_opts and not context.params[name]
    return max(option.secondary_opts if negated else option.opts, key=len)


INPUTS = ("train", "ref")
# Width -> name of the build, as `experiments.suites.suite.BUILDS` has them
BUILDS = {"64": "v9-O2", "32": "v8plus-O2"}


def width_of(build: str) -> Literal[32, 64]:
    """Return how many bits the addresses of a build have."""
    return 64 if build == BUILDS["64"] else 32


def parts(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a list such as "pp,tpp"."""
    if not isinstance(value, str):
        return tuple(value)
    found = tuple(part.strip() for part in value.split(","))
    if not all(found):
        raise click.BadParameter(f"{value!r} is no list: write NAME,NAME,...")
    return found


def one_of(names: Collection[str]) -> Callable[[str | Sequence[str]], tuple[str, ...]]:
    """Return what reads a list of which every part is one of `names`."""

    def read(value: str | Sequence[str]) -> tuple[str, ...]:
        found = parts(value)
        for each in found:
            if each not in names:
                raise click.BadParameter(unknown("name", each, names))
        return found

    return read


def several(
    flag: str,
    name: str,
    read: Callable[[Any], tuple[Any, ...]],
    metavar: str,
    text: str,
    complete: Completer | None = None,
) -> Decorator:
    """Return an option of several values; the command is given a tuple, None for none.

    `name`: the parameter that takes them. `read`: makes values of one text, which may have commas.
    """

    def joined(
        ctx: click.Context, param: click.Parameter, value: tuple[tuple[Any, ...], ...]
    ) -> tuple[Any, ...] | None:
        flat = tuple(each for group in value for each in group)
        for each in flat:
            if flat.count(each) > 1:
                named = getattr(each, "name", each)
                raise click.BadParameter(f"{named} is named twice", ctx, param)
        return flat or None

    return click.option(
        flag,
        name,
        type=read,
        multiple=True,
        callback=joined,
        metavar=f"{metavar},...",
        help=text,
        shell_complete=complete,
    )
