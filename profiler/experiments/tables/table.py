"""Tables of experiments as values: columns, rows, the paper's own numbers, verdicts on claims.

Numbers are in the units that the papers print: overheads and shares in percent (53.4 is 53.4 %),
ratios as such. Renderers in `reports` turn a `ReportTable` into text, JSON, CSV, Markdown, HTML,
SVG.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, convert

from simprof.profiler.experiments.suites.sources import suites_directory
from simprof.profiler.experiments.tables.conditions import Condition, Whose
from simprof.simulator.errors import UsageError

# None: there is no such number (nothing to divide by, not in the paper).
Value = int | float | str | None

RowKind = Literal["program", "average", "failed"]
# Of the keys of columns with what instrumented programs executed: `pp:executed` is beside `pp`.
EXECUTED = ":executed"
GROUPS = ("INT", "FP")
AVERAGE_NAMES = ("INT average", "FP average", "average")
ROUTINE = "routine"  # Key of the column that tells rows of one program apart


class Form(StrEnum):
    """How a column's numbers are written."""

    TEXT = "text"
    COUNT = "count"  # an integer, in groups of three digits
    PERCENT = "percent"  # one digit after the point
    RATIO = "ratio"  # two digits after the point
    DECIMAL = "decimal"  # one digit after the point
    SHARE = "share"  # percent, three digits after the point
    SECONDS = "seconds"  # three digits after the point


class Verdict(StrEnum):
    """What our numbers say about a claim of a paper."""

    HOLDS = "holds"
    FAILS = "fails"
    TOO_FEW = "too few programs"  # Less than `FEWEST` are behind it, whatever they say
    UNTESTABLE = "not testable here"


FEWEST = 5  # Programs that a verdict rests on at least


class TableColumn(Struct, frozen=True, omit_defaults=True):
    """A column: its key for programs, its title for people, how its numbers are written.

    `average`: whether its average over programs means something. `quotient`: whether its numbers
    are ratios of the same kind of thing, whose geometric mean means something, too.
    """

    key: str
    title: str
    form: Form = Form.TEXT
    average: bool = True
    quotient: bool = False

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.form is not Form.TEXT


class TableRow(Struct, frozen=True, omit_defaults=True):
    """One row."""

    values: tuple[Value, ...]  # As many as there are columns
    kind: RowKind = "program"  # Of a program, an average of programs, or a program that failed
    group: str = ""  # "INT" or "FP"; "" for averages over all.
    # Why it failed, in one line; None: it did not. Of a program's row: what in it is not as it
    # should be.
    error: str | None = None
    # Which of the programs that the paper measured it stands in for; "": it is one by itself.
    original: str = ""
    judged: bool = True  # Whether averages and verdicts are about it

    @property
    def program(self) -> str:
        """What counts once in averages: the original, or the program itself."""
        return self.original or str(self.values[0])


class Likeness(Struct, frozen=True):
    """How alike a column's order of programs is to that of the paper's numbers beside it."""

    key: str  # Of the column
    title: str
    count: int  # The paper's programs, or routines, that have both numbers
    correlation: float | None  # Spearman's rank correlation; None: all are equal, or there is one
    words: str  # What it means


class Claim(Struct, frozen=True, omit_defaults=True):
    """A conclusion that a paper draws, and what our numbers say about it."""

    text: str  # The claim, in our words, with the paper's figure
    verdict: Verdict  # See `Verdict`
    # Our number behind the verdict and the rule that it was judged by; where nothing can be said,
    # why not.
    figure: str
    why: str = ""  # Of a claim that fails: by how much, and the rows that decide it. "" of others.
    # What it was judged by; verdict, figure and why are made of these. () where nothing was.
    conditions: tuple[Condition, ...] = ()

    @property
    def programs(self) -> int:
        """How many programs stand behind it at least."""
        return min((each.programs for each in self.conditions), default=0)

    @property
    def whose(self) -> tuple[Whose, ...]:
        """Whose its bounds are."""
        return tuple(dict.fromkeys(each.whose for each in self.conditions))


class Bars(Struct, frozen=True):
    """Which columns a plot shows as bars, one group of bars a program.

    `baseline`: a line that bars are read against (1 for normalised times). `logarithmic`: bars
    span orders of magnitude.
    """

    columns: tuple[str, ...]
    axis: str
    baseline: float | None = None
    logarithmic: bool = False


class ReportTable(Struct, frozen=True, omit_defaults=True):
    """A table or graph of a paper, reproduced."""

    name: str  # What `simprof table` calls it ("epp1")
    title: str  # "EPP table 1: path profiling against edge profiling".
    source: str  # The paper's place, in full
    caption: str  # What the columns are and in which units
    # columns, rows: The first column names the program.
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    # The paper's own numbers; None: the paper prints none (a graph).
    published: ReportTable | None = None
    claims: tuple[Claim, ...] = ()  # In the paper's order
    # How our numbers differ in kind from the paper's, one sentence each
    notes: tuple[str, ...] = ()
    bars: Bars | None = None  # The plot; None: none.
    family: str = ""  # Of published tables: whose programs the rows are, "SPEC" or "Mälardalen".
    likeness: tuple[Likeness, ...] = ()  # Of the columns with the paper's numbers beside them

    def index(self, key: str) -> int:
        """Return the position of a column (see `spelled`); raises KeyError if there is none."""
        positions = {column.key: position for position, column in enumerate(self.columns)}
        return positions[spelled(key, positions)]

    def number(self, row: TableRow, key: str) -> float | None:
        """Return a row's number in a column; None where it has none."""
        return as_number(row.values[self.index(key)])

    @property
    def made(self) -> tuple[TableRow, ...]:
        """Rows of programs that did not fail, and averages."""
        return tuple(row for row in self.rows if row.kind != "failed")

    def by_key(self, row: TableRow) -> dict[str, Value]:
        """Return the values of a row by the keys of their columns."""
        return dict(zip((column.key for column in self.columns), row.values, strict=True))

    @property
    def judged(self) -> tuple[TableRow, ...]:
        """Rows of the programs that averages and verdicts are about."""
        return tuple(row for row in self.rows if row.kind == "program" and row.judged)

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """Programs whose rows could not be made, or are not as they should be, with the reason."""
        return tuple(
            (str(row.values[0]), row.error or "failed")
            for row in self.rows
            if row.kind == "failed" or row.error is not None
        )


def once(numbers: Iterable[tuple[str, float]]) -> list[float]:
    """Return one number for each original of (original, number): the mean of its stand-ins'."""
    found: dict[str, list[float]] = {}
    for original, value in numbers:
        found.setdefault(original, []).append(value)
    return [fmean(values) for values in found.values()]


def as_number(value: Value) -> float | None:
    """Return the number that a value is; None: it is none."""
    return as_float(value) if isinstance(value, int | float) else None


def spelled(word: str, known: Mapping[str, Any]) -> str:
    """Return the key that a name stands for: `heuristic_max`, and `global_` for Python's words."""
    return word if word in known else word.rstrip("_").replace("_", "-")


def as_float(value: int | float) -> float:
    """Return a number as a float; infinite where path counts have too many digits for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return `part / whole`; None where that is nothing."""
    return None if part is None or not whole else part / whole


def percentage(part: float | None, whole: float | None) -> float | None:
    """Return `part` of `whole` in percent; None where there is no whole."""
    return None if part is None else ratio(100 * part, whole)


ALIASES = {"cc1": "gcc", "xlisp": "li", "jpeg": "ijpeg", "perlbmk": "perl", "wave": "wave5"}


def program_key(name: str) -> str:
    """Return a benchmark's bare name: "126.gcc", "cc1" and "gcc" are all "gcc"."""
    bare = name.strip().lower().split(" ")[0]
    number, point, rest = bare.partition(".")
    if point and number.isdigit():
        bare = rest
    return ALIASES.get(bare, bare)


# -- the papers' own numbers ----------------------------------------------------------------------
#
# They are data, in `fixtures/suites/published/*.toml`. Each file has one paper's tables:
# `[[table]]` with `name`, `source`, `title`, `columns` (keys), `forms`, `titles`, `rows`, `notes`,
# `family` ("SPEC" if not given). A row's second value is its group where there is a column
# "group", or "average". An empty text where a number belongs is a number that was not printed.

GROUP = "group"


def published(name: str) -> ReportTable | None:
    """Return what the paper prints for our table `name`; None: nothing that is data.

    Raises UsageError if the data are missing or are not as they should be.
    """
    return _all(suites_directory() / "published").get(name)


@cache
def _all(directory: Path) -> Mapping[str, ReportTable]:
    found: dict[str, ReportTable] = {}
    for path in sorted(directory.glob("*.toml")):
        for table in read_published(path):
            found[table.name] = table
    return MappingProxyType(found)


class _Published(Struct, frozen=True):
    name: str
    source: str
    title: str
    columns: tuple[str, ...]
    titles: tuple[str, ...]
    forms: tuple[Form, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    notes: tuple[str, ...] = ()
    family: str = "SPEC"


def read_published(path: Path) -> tuple[ReportTable, ...]:
    """Read the tables of one file.

    Raises UsageError if it cannot be read or is not as it should be.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["table"]
        return tuple(map(_table, convert(entries, tuple[_Published, ...])))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (KeyError, ValueError) as error:
        detail = f"missing {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is not a file of published tables: {detail}") from None


def _table(entry: _Published) -> ReportTable:
    named = zip(entry.columns, entry.titles, entry.forms, strict=True)
    columns = [TableColumn(*each) for each in named]
    rows = tuple(_row(columns, values) for values in entry.rows)
    shown = tuple(column for column in columns if column.key != GROUP)
    head = entry.name, entry.title, entry.source, "", shown, rows
    return ReportTable(*head, notes=entry.notes, family=entry.family)


def _row(columns: Sequence[TableColumn], values: Sequence[str | int | float]) -> TableRow:
    if len(values) != len(columns):
        raise ValueError(f"row {values[:1]} has {len(values)} values for {len(columns)} columns")
    found = {each.key: _value(each, x) for each, x in zip(columns, values, strict=True)}
    group, kept = found.pop(GROUP, ""), tuple(found.values())
    name = str(kept[0])
    if name in AVERAGE_NAMES:
        return TableRow(kept, "average", name.removesuffix("average").strip())
    return TableRow(kept, "program", str(group))


def _value(column: TableColumn, value: str | int | float) -> Value:
    if not column.numeric:
        return str(value)
    if value == "":
        return None
    if not isinstance(value, int | float):
        raise ValueError(f"{value!r} in column {column.key} is no number")
    if column.form is Form.COUNT and not isinstance(value, int):
        raise ValueError(f"{value!r} in column {column.key} is no count")
    return value
