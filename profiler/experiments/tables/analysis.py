"""What instrumenting costs before a program runs: seconds, bytes of counters and of code.

TPP 5.1 says how much longer its analysis takes than PP's, EPP 5.3 how many paths an array of
counters has at most.
"""

from __future__ import annotations

from collections.abc import Callable

from simprof.profiler.experiments.cells.cells import CellKind, RoutineRow
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.expressions import (
    ColumnSpec,
    Found,
    column,
    columns,
    kept,
    more_columns,
)
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars, percentage
from simprof.profiler.experiments.tables.tpp import COLD, LOOP, PATH_LIMIT
from simprof.profiler.plan.plan import CounterTable

MODES = {
    "qpt2": setting("qpt2"),
    "pp": setting("pp", path_limit=PATH_LIMIT),
    "tpp": setting("tpp", path_limit=PATH_LIMIT, cold=COLD, loop=LOOP),
}
TITLES = {"qpt2": "QPT2", "pp": "PP", "tpp": f"TPP({COLD:.0f},{LOOP:.0f})"}


def _of_routines(
    table: CounterTable, of: Callable[[list[RoutineRow]], int | None]
) -> Callable[[Found], int | None]:
    """Return a number of the routines whose counters PP keeps in such a table."""
    return lambda found: of([each for each in kept(table)(found["pp"]) if each.num_paths])


def _seconds(need: str) -> str:
    # Recovering graphs is the same for all of them, and has a column of its own.
    return f"({need}.planning + {need}.generation)"


def _columns(need: str) -> tuple[ColumnSpec, ...]:
    return more_columns(f"""
{need}_counter | {TITLES[need]}: counters | count | {need}.counter_bytes
{need}_code | {TITLES[need]}: code | count | {need}.code_bytes
{need}_growth | code growth % | percent | 100 * {need}.code_bytes / {need}.routine_bytes
""")


def _hashed_share(found: Found) -> float | None:
    hashed = _of_routines(CounterTable.HASH, len)(found)
    return percentage(hashed, len(found["pp"].routines))


ANALYSIS = TableSpec(
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
        *columns("graphs | graphs (s) | seconds | pp.recovery"),
        *(column(f"{n}_s | {TITLES[n]} (s) | seconds | {_seconds(n)}") for n in MODES),
        column(f"tpp_pp | TPP/PP | ratio | {_seconds('tpp')} / {_seconds('pp')}"),
        *(each for need in MODES for each in _columns(need)),
        column(
            "array_bytes | array bytes | count",
            _of_routines(
                CounterTable.ARRAY,
                lambda rows: max((each.counter_bytes for each in rows), default=None),
            ),
        ),
        column(
            "array_paths | array paths | count",
            _of_routines(
                CounterTable.ARRAY,
                lambda rows: max((each.num_paths or 0 for each in rows), default=None),
            ),
        ),
        column(
            "hashed_paths | hashed paths | count",
            _of_routines(
                CounterTable.HASH,
                lambda rows: min((each.num_paths or 0 for each in rows), default=None),
            ),
        ),
        column("hashed_routines | hashed % | percent", _hashed_share),
    ),
    (
        rule(
            "TPP takes 74 % longer than PP to analyse and instrument a routine (96 % for INT, 19 % "
            "for FP).",
            "paper: 1.19 <= mean(tpp_pp) <= 1.96",
        ),
        rule(
            "Hash tables limit a routine's counters to roughly 16 KB (EPP 5.3).",
            "paper: max(array_bytes) <= 16384 bytes",
        ),
        rule(
            "Routines with more than 4000-6000 paths require hash tables (EPP 5.3).",
            "paper: max(array_paths) <= 6000",
            "paper: min(hashed_paths) >= 4000",
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
