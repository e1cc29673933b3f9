"""What instrumenting costs before a program runs: seconds, bytes of counters and of code.

TPP 5.1 says how much longer its analysis takes than PP's, EPP 5.3 how many paths an array of
counters has at most.
"""

from __future__ import annotations

from collections.abc import Callable

from simprof.profiler.experiments.cells.cells import CellKind, RoutineRow
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.columns import (
    PROGRAM,
    ColumnSpec,
    Found,
    Quantity,
    ResultOf,
)
from simprof.profiler.experiments.tables.conditions import Between, at_least, at_most, papers
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars
from simprof.profiler.experiments.tables.tpp import COLD, LOOP, PATH_LIMIT
from simprof.profiler.plan.plan import CounterTable

MODES = {
    "qpt2": setting("qpt2"),
    "pp": setting("pp", path_limit=PATH_LIMIT),
    "tpp": setting("tpp", path_limit=PATH_LIMIT, cold=COLD, loop=LOOP),
}
TITLES = {"qpt2": "QPT2", "pp": "PP", "tpp": f"TPP({COLD:.0f},{LOOP:.0f})"}


_PP = ResultOf("pp")


def _seconds(need: str) -> Quantity[Found]:
    # Recovering graphs is the same for all of them, and has a column of its own.
    return ResultOf(need).seconds("planning") + ResultOf(need).seconds("generation")


def _kept(table: CounterTable, of: Callable[[list[RoutineRow]], int | None]) -> Quantity[Found]:
    """Return a number of the routines whose counters PP keeps in such a table."""
    return _PP.of(
        lambda result: of(
            [each for each in result.routines if each.table is table and each.num_paths]
        )
    )


def _columns(need: str) -> tuple[ColumnSpec[Found], ...]:
    counters, code, routines = (
        ResultOf(need).sizes(f"{name}_bytes") for name in ("counter", "code", "routine")
    )
    return (
        columns.count(f"{need}_counter", f"{TITLES[need]}: counters", counters),
        columns.count(f"{need}_code", f"{TITLES[need]}: code", code),
        columns.percent(f"{need}_growth", "code growth %", 100 * code / routines),
    )


ANALYSIS = TableSpec[Found](
    "analysis",
    "TPP section 5.1, EPP section 5.3: what instrumenting costs",
    "R. Joshi, M. D. Bond and C. Zilles, Targeted Path Profiling, CGO 2004, section 5.1; T. Ball "
    "and J. R. Larus, Efficient Path Profiling, MICRO-29, 1996, section 5.3",
    "Of the routines that the run entered. Graphs: wall-clock seconds of this machine to recover "
    "those of the file, the same for all. QPT2, PP, TPP: seconds to plan and to generate the code. "
    "Counters: bytes before the run, a hash table's buckets among them. Code: bytes added, growth "
    "in percent of the routines' own. Array bytes, array paths: the most of a routine with an "
    "array under PP. Hashed paths: the fewest of one with a hash table. Hashed: share of these "
    "among the routines.",
    {name: CellNeed(each, kind=CellKind.ANALYSE) for name, each in MODES.items()},
    (
        PROGRAM,
        columns.seconds("graphs", "graphs (s)", _PP.seconds("recovery")),
        *(columns.seconds(f"{need}_s", f"{TITLES[need]} (s)", _seconds(need)) for need in MODES),
        columns.factor("tpp_pp", "TPP/PP", _seconds("tpp") / _seconds("pp")),
        *(column for need in MODES for column in _columns(need)),
        columns.count(
            "array_bytes",
            "array bytes",
            _kept(
                CounterTable.ARRAY,
                lambda rows: max((each.counter_bytes for each in rows), default=None),
            ),
        ),
        columns.count(
            "array_paths",
            "array paths",
            _kept(
                CounterTable.ARRAY,
                lambda rows: max((each.num_paths or 0 for each in rows), default=None),
            ),
        ),
        columns.count(
            "hashed_paths",
            "hashed paths",
            _kept(
                CounterTable.HASH,
                lambda rows: min((each.num_paths or 0 for each in rows), default=None),
            ),
        ),
        columns.percent(
            "hashed_routines",
            "hashed %",
            100 * _kept(CounterTable.HASH, len) / _PP.of(lambda result: len(result.routines)),
        ),
    ),
    (
        rule(
            "TPP takes 74 % longer than PP to analyse and instrument a routine (96 % for INT, 19 % "
            "for FP).",
            claims.mean_is("tpp_pp", papers(Between(1.19, 1.96)), others=("pp_s", "tpp_s")),
        ),
        rule(
            "Hash tables limit a routine's counters to roughly 16 KB (EPP 5.3).",
            claims.each_is("array_bytes", papers(at_most(16 << 10, " bytes"))),
        ),
        rule(
            "Routines with more than 4000-6000 paths require hash tables (EPP 5.3).",
            claims.statistic_is(
                "most paths with an array",
                max,
                claims.column("array_paths"),
                papers(at_most(6000)),
                remark=lambda values: "",
            ),
            claims.statistic_is(
                "fewest paths with a hash table",
                min,
                claims.column("hashed_paths"),
                papers(at_least(4000)),
                remark=lambda values: "",
            ),
            absent="the table has no routine with a hash table",
        ),
    ),
    notes=(
        "The seconds differ from run to run; all else does not.",
        "What decides between array and hash table is the largest increment (EPP 5.2, 5.3): where "
        "few edges of a routine have increments, it may have more paths and still an array.",
    ),
    bars=Bars(("pp_growth", "qpt2_growth", "tpp_growth"), "bytes of code added, %"),
    originals="tpp2",
)

TABLES = (ANALYSIS,)
