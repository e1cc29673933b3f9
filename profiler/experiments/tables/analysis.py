"""What instrumenting costs before a program runs: seconds, bytes of counters and of code.

TPP 5.1 says how much longer its analysis takes than PP's, EPP 5.3 how many paths an array of
counters has at most.
"""

from __future__ import annotations

from simprof.profiler.experiments.cells.cells import CellKind, RoutineRow
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns, conditions
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.columns import PROGRAM, ColumnSpec, Found
from simprof.profiler.experiments.tables.conditions import (
    Condition,
    Whose,
    at_least,
    at_most,
    papers,
)
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars, ReportTable, percentage, ratio
from simprof.profiler.experiments.tables.tpp import COLD, LOOP, PATH_LIMIT
from simprof.profiler.plan.plan import CounterTable

MODES = {
    "qpt2": setting("qpt2"),
    "pp": setting("pp", path_limit=PATH_LIMIT),
    "tpp": setting("tpp", path_limit=PATH_LIMIT, cold=COLD, loop=LOOP),
}
TITLES = {"qpt2": "QPT2", "pp": "PP", "tpp": f"TPP({COLD:.0f},{LOOP:.0f})"}


def _seconds(row: Found, need: str) -> float:
    # Recovering graphs is the same for all of them, and has a column of its own.
    return row[need].timing.planning + row[need].timing.generation


def _arrays(row: Found, table: CounterTable = CounterTable.ARRAY) -> list[RoutineRow]:
    return [each for each in row["pp"].routines if each.table is table and each.num_paths]


def _time(need: str) -> ColumnSpec[Found]:
    return columns.seconds(f"{need}_s", f"{TITLES[need]} (s)", lambda row: _seconds(row, need))


def _size(need: str, name: str, title: str) -> ColumnSpec[Found]:
    return columns.count(
        f"{need}_{name}", f"{TITLES[need]}: {title}", lambda row: row[need].sizes[f"{name}_bytes"]
    )


def _growth(need: str) -> ColumnSpec[Found]:
    return columns.percent(
        f"{need}_growth",
        "code growth %",
        lambda row: percentage(row[need].sizes["code_bytes"], row[need].sizes["routine_bytes"]),
    )


def _of_arrays(table: ReportTable) -> Condition | None:
    bound = papers(at_most(6000))
    parts = claims.column("array_paths")(table)
    most = max(part.value for part in parts) if parts else None
    return conditions.value_is(
        "most paths with an array", most, bound, parts=claims.members(parts, bound)
    )


def _of_tables(table: ReportTable) -> Condition | None:
    bound = papers(at_least(4000))
    parts = claims.column("hashed_paths")(table)
    least = min(part.value for part in parts) if parts else None
    return conditions.value_is(
        "fewest paths with a hash table", least, bound, parts=claims.members(parts, bound)
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
        columns.seconds("graphs", "graphs (s)", lambda row: row["pp"].timing.recovery),
        *map(_time, MODES),
        columns.factor(
            "tpp_pp", "TPP/PP", lambda row: ratio(_seconds(row, "tpp"), _seconds(row, "pp"))
        ),
        *(
            column
            for need in MODES
            for column in (
                _size(need, "counter", "counters"),
                _size(need, "code", "code"),
                _growth(need),
            )
        ),
        columns.count(
            "array_bytes",
            "array bytes",
            lambda row: max((each.counter_bytes for each in _arrays(row)), default=None),
        ),
        columns.count(
            "array_paths",
            "array paths",
            lambda row: max((each.num_paths or 0 for each in _arrays(row)), default=None),
        ),
        columns.count(
            "hashed_paths",
            "hashed paths",
            lambda row: min(
                (each.num_paths or 0 for each in _arrays(row, CounterTable.HASH)), default=None
            ),
        ),
        columns.percent(
            "hashed_routines",
            "hashed %",
            lambda row: percentage(len(_arrays(row, CounterTable.HASH)), len(row["pp"].routines)),
        ),
    ),
    (
        rule(
            "TPP takes 74 % longer than PP to analyse and instrument a routine (96 % for INT, 19 % "
            "for FP).",
            claims.mean_within("tpp_pp", 1.19, 1.96, others=("pp_s", "tpp_s"), whose=Whose.PAPER),
        ),
        rule(
            "Hash tables limit a routine's counters to roughly 16 KB (EPP 5.3).",
            claims.each_is("array_bytes", papers(at_most(16 << 10, " bytes"))),
        ),
        rule(
            "Routines with more than 4000-6000 paths require hash tables (EPP 5.3).",
            _of_arrays,
            _of_tables,
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
