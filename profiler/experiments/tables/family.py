"""`family`: what every scheme costs and how good its profile is, a row a scheme.

All schemes that are installed, on all programs of a suite, on average, beside what was published.
Published numbers carry a mark of how they are known: [A] from the abstract, [S] from a text that
cites the paper, [M] from memory, unchecked. They are of other programs, on other machines, mostly
times; nothing here reproduces them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import NamedTuple

from simprof.profiler.experiments.cells.cells import CellResult
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.expressions import ColumnSpec, Found, column, increments
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Value
from simprof.profiler.profiles.measures import Quality
from simprof.profiler.request.request import DEFAULT_MODE
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import ProfileKind


class Published(NamedTuple):
    """What was published of a scheme: an overhead, in short and in words."""

    short: str
    words: str


PUBLISHED: Mapping[str, Published] = {
    "pp": Published("31 % [A]", "SPEC95 (EPP 1996)"),
    "qpt2": Published("16 % [A]", "edges, SPEC95 (EPP 1996)"),
    "tpp": Published("1/2 to 1/3 of PP [A]", "half of PP's on SPEC95, a third on SPEC2000 (2004)"),
    "ppp": Published("5 % (-3 to 13) [M]", "SPEC2000 (2005)"),
    "pref": Published("15 % (to 26) [A]", "its PP 50 % (to 132 %), SPEC2000 (2007)"),
    "sampled": Published(
        "6 %, 3 % [A]", "the latter with yieldpoints; overlap 93 to 98 %, Java (2001)"
    ),
    "pep": Published("1.2 % (to 4.3) [A]", "94 % of paths, 96 % of edges, Java (2005)"),
    "kblpp": Published("about PP's [A]", "about or below PP's with hash tables, Java (2013)"),
    "kiter": Published("several PP's [S]", "several times PP's as k grows (2009)"),
    "pap": Published("2 PP's [S]", "5.6 times PP's in tight loops, small Java programs (2012)"),
}


class OnProgram(NamedTuple):
    """A scheme on a program."""

    result: CellResult
    exact: CellResult | None  # `pp` on the same program; None where that has failed


class SchemeRuns(NamedTuple):
    """A scheme on all programs where it did not fail."""

    mode: str
    runs: Sequence[OnProgram]

    def mean(self, value: Callable[[OnProgram], float | None]) -> float | None:
        """Return the mean over the programs that have a value."""
        found = [each for run in self.runs if (each := value(run)) is not None]
        return fmean(found) if found else None


def schemes(programs: Sequence[Found]) -> Iterator[SchemeRuns]:
    """Yield the schemes that ran on some program, in the order of the modes."""
    for mode in registry.planned_modes():
        runs = [OnProgram(each[mode], each.get(DEFAULT_MODE)) for each in programs if mode in each]
        if runs:
            yield SchemeRuns(mode, runs)


def _increments(run: OnProgram) -> float | None:
    """Return increments by thousand instructions of the program."""
    count = increments(run.result)
    return 1000 * count / run.result.base if count and run.result.base else None


def _hashed(run: OnProgram) -> float | None:
    counts = run.result.counts
    if not counts["path_increments"]:
        return None
    return 100 * counts["hashed_increments"] / increments(run.result)


def _bytes(run: OnProgram) -> float | None:
    return run.result.sizes.get("counter_bytes") or None


def _in_percent(found: Quality | None, measure: str) -> float | None:
    value = None if found is None else getattr(found, measure)
    return None if value is None else 100 * value


def _share(mode: str, name: str) -> Callable[[OnProgram], float | None]:
    """Return what gives a measure of a scheme's profile, in percent."""
    scheme = registry.definition(mode)
    kind = scheme.collected()

    def judged(run: OnProgram) -> float | None:
        return _in_percent(run.result.quality, name)

    def of_edges(run: OnProgram) -> float | None:
        known = run.exact is not None and not run.result.lost.get("unknown_edges")
        edges = run.exact.edge_quality if run.exact is not None and known else None
        return _in_percent(edges, name)

    if scheme.judge is not None:
        return judged
    if kind in (ProfileKind.EDGES, ProfileKind.BLOCKS) and not scheme.writes_paths:
        return of_edges
    return lambda run: None if scheme.estimates else 100.0


def _measure(name: str) -> ColumnSpec:
    return column(
        f"{name} | {name} % | percent",
        lambda scheme: scheme.mean(_share(scheme.mode, name)),
    )


def _rounded(scheme: SchemeRuns) -> Value:
    found = scheme.mean(_bytes)
    return None if found is None else round(found)


@cache
def family() -> TableSpec:
    """Return the table; its rows are the modes that are installed."""
    modes = registry.planned_modes()
    known = {mode: PUBLISHED[mode] for mode in modes if mode in PUBLISHED}
    return TableSpec(
        "family",
        "The family of schemes: cost, and how good the profile is",
        "simprof",
        "Means over the suite's programs, each scheme with its default options. Overhead: added "
        "instructions in percent of the program's own. Inc/1000: increments of counters, by "
        "thousand of its instructions. Hashed: share of increments in hash tables. Bytes: of "
        "counters. Accuracy, coverage: of the paths, by pp in the same run (docs/PROFILES.md): 100 "
        "where all are counted; of edge profiles, what these tell of paths. Published: overheads, "
        "[A] known from the abstract, [S] from a text that cites it, [M] from memory, unchecked; "
        "on other programs and machines.",
        {mode: CellNeed(setting(mode)) for mode in modes},
        (
            column("scheme | scheme | text | mode"),
            column(
                "overhead | overhead % | percent",
                lambda scheme: scheme.mean(lambda run: 100 * run.result.overhead),
            ),
            column("increments | inc/1000 | decimal", lambda scheme: scheme.mean(_increments)),
            column("hashed | hashed % | percent", lambda scheme: scheme.mean(_hashed)),
            column("bytes | bytes | count!", _rounded),
            _measure("accuracy"),
            _measure("coverage"),
            column(
                "published | published | text",
                lambda scheme: PUBLISHED[scheme.mode].short if scheme.mode in PUBLISHED else None,
            ),
        ),
        notes=("Published: " + "; ".join(f"{m}: {p.short}, {p.words}" for m, p in known.items()),),
        averaged=False,
        across=schemes,
    )
