"""Tables of the claims in TPP's text, beyond its own tables (`tpp`).

`tpp-parts`: what the removal of cold and of obvious paths gains (4.1, 5.1). `tpp-lengths`: the path
length that is lost by disconnecting loops (4.2.1). `tpp-age`, `tpp-train`: what an edge profile of
the run's beginning is worth, by its length, and one of another input (3).
`analysis`: what instrumenting costs before a program runs: seconds, bytes of counters and of code
(5.1; EPP 5.3 says how many paths an array of counters has at most).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from simprof.profiler.experiments.cells.cells import CellKind, RoutineFigures
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import tpp
from simprof.profiler.experiments.tables.claims import of_hashing, rule
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

PARTS = {
    "cold": tpp.tpp_need(cold=tpp.COLD, loop=0, count_obvious=True),
    "obvious": tpp.tpp_need(cold=0, loop=tpp.LOOP),
    "uncounted": tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, no_cold_counter=True),
}
TPP_PARTS = TableSpec(
    "tpp-parts",
    "TPP sections 4.1 and 5.1: what each part of TPP gains",
    f"{tpp.PAPER}, sections 4.1 and 5.1 (text)",
    "Overhead in percent of base instructions. Cold only: cold paths are removed, obvious paths "
    "counted, and no loop is disconnected. Obvious only: nothing is cold. Cold uncounted: "
    "TPP(5,15) whose cold paths are kept out of all counts, and counted nowhere. Hashed: share of "
    "PP's increments that are in hash tables.",
    {"pp": tpp.PP, "t515": tpp.TPP["t515"], **PARTS},
    (
        *columns("""
pp | PP % | percent | pp.overhead
t515 | TPP(5,15) % | percent | t515.overhead
cold | cold only % | percent | cold.overhead
obvious | obvious only % | percent | obvious.overhead
uncounted | cold uncounted % | percent | uncounted.overhead
"""),
        tpp.PP_HASHED,
    ),
    (
        of_hashing(
            "About 60 % of the reduction of overhead comes from the removal of cold paths alone.",
            f"ours: part of the reduction: 40 <= {tpp.part_of_reduction('cold')} <= 80 %",
        ),
        of_hashing(
            "Not to count cold paths lowers the average overhead from 14 % to 13 % only.",
            "paper: saved: 0 <= 100 * (mean(t515) - mean(uncounted)) / mean(t515) <= 100 / 7 % of "
            "TPP(5,15)'s overhead",
        ),
    ),
    notes=(
        "That obvious paths gain next to nothing without the removal of cold ones (5.1) is judged "
        "in table 2, with all loops left in place; here they are disconnected as in TPP(5,15).",
    ),
    bars=Bars(("pp", "cold", "obvious", "t515", "uncounted"), "overhead, % of base instructions"),
    originals="tpp2",
)

# Average iterations of a loop from which on it is disconnected: 100/j.
ITERATIONS = {"l10": 10, "l100": 100}
CUT = {key: tpp.tpp_need(cold=0, loop=100 / turns) for key, turns in ITERATIONS.items()}


def _length(need: str) -> str:
    """Return the blocks of an executed path on average."""
    # Every turn of a self-loop is a path of one block. Where its loop is not disconnected, it has
    # a counter of its own (EPP 4.1): the paper's tool, which breaks self-loops as any back edge,
    # executes as many paths then, and as many blocks.
    paths = f"({need}.facts.executions + {need}.all.self_loop_increments)"
    return f"(({need}.facts.edges + {paths}) / {paths})"


def _lost(need: str) -> str:
    return f"100 * ({_length('pp')} - {_length(need)}) / {_length('pp')}"


TPP_LENGTHS = TableSpec(
    "tpp-lengths",
    "TPP section 4.2.1: path length lost by disconnecting loops",
    f"{tpp.PAPER}, section 4.2.1 (text)",
    "Blocks of an executed path on average: under PP, and with loops of 10 or of 100 iterations "
    "on average and more disconnected, TPP(0,10) and TPP(0,1); lost: in percent of PP's. Every "
    "turn of a self-loop is a path of one block.",
    {"pp": tpp.PP, **CUT},
    columns(f"""
pp | PP | decimal | {_length("pp")}
l10 | loops of 10 | decimal | {_length("l10")}
lost_l10 | lost % | percent | {_lost("l10")}
l100 | loops of 100 | decimal | {_length("l100")}
lost_l100 | lost % | percent | {_lost("l100")}
"""),
    (
        rule(
            "The path length lost by disconnecting loops of 10 iterations on average and more is "
            "negligible: average path length falls by 1.5 % only.",
            "ours: mean(lost_l10) <= 5 %",
        ),
        rule(
            "The path length lost by disconnecting loops of 100 iterations on average and more is "
            "imperceptible.",
            "ours: mean(lost_l100) <= 0.5 %",
        ),
    ),
    notes=(
        "Where loops are disconnected, fewer routines have so many paths that they are truncated, "
        "and truncation shortens paths, too.",
    ),
    bars=Bars(("pp", "l10", "l100"), "blocks a path"),
    originals="tpp2",
)

# Key -> instructions at the run's beginning whose edge profile guides TPP(5,15)
AGES = {f"t{power}": 10**power for power in range(4, 8)}
AGE_TITLES = {**{key: f"10^{key[1:]}" for key in AGES}, "t515": "whole", "t6c": "10^6 counted"}


def _guided(titles: Mapping[str, str], start: str = "a") -> Iterable[ColumnSpec]:
    """Yield the columns of overhead and attribution of runs that are guided differently."""
    for key, title in titles.items():
        yield column(f"{key} | {title} % | percent | {key}.overhead")
        yield tpp.definite_flow(key, f"{start}{key.removeprefix('t') if start == 'a' else key}")


TPP_AGE = TableSpec(
    "tpp-age",
    "TPP section 3: edge profiles of the run's beginning",
    f"{tpp.PAPER}, sections 3 and 5 (text)",
    "Overhead in percent of base instructions and attribution of definite flow (AoDF) of TPP(5,15) "
    "guided by the edge profile of the run's first 10^4 to 10^7 instructions, and of the whole "
    "run; counted: obvious paths have counters, too. Beside them the overhead of PP.",
    {
        "pp": tpp.PP,
        **{
            key: tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, first=first)
            for key, first in AGES.items()
        },
        "t515": tpp.TPP["t515"],
        "t6c": tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, first=AGES["t6"], count_obvious=True),
    },
    (*columns("pp | PP % | percent | pp.overhead"), *_guided(AGE_TITLES)),
    (
        rule(
            "Edge profiles of an early stage of the run are representative: with one that is, "
            "attribution of definite flow exceeds 98 %.",
            "paper: mean(a6c) >= 98 %",
        ),
    ),
    notes=(
        "Obvious paths have the counts of the edge profile, which end where it ends: without "
        "counters of their own, or an edge profile that goes on, all that they execute later is "
        "lost. The claim is judged where they are counted, after the first million instructions.",
        "The code is in place from the run's first instruction on, so that the counts are of the "
        "whole run; a run that is shorter than the profile is guided by all of itself. The paper "
        "has edge profiles of whole runs only.",
    ),
    bars=Bars(("a4", "a5", "a6", "a7", "a515"), "attribution of definite flow, %"),
    originals="tpp2",
)


# -- another input's edge profile -----------------------------------------------------------------

TRAIN: dict[str, object] = {"guide": "train"}
COUNTED: dict[str, object] = {"count_obvious": True}
# Key -> title, options beside those of TPP(5,15)
GUIDES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "t515": ("own", {}),
    "train": ("train", TRAIN),
    "t515c": ("own counted", COUNTED),
    "trainc": ("train counted", TRAIN | COUNTED),
}
TPP_TRAIN = TableSpec(
    "tpp-train",
    "TPP section 3: the train input's edge profile guides the ref run",
    f"{tpp.PAPER}, sections 3 and 5 (text)",
    "Overhead in percent of base instructions and attribution of definite flow (AoDF) of TPP(5,15) "
    "guided by the edge profile of the run itself (own) and of a run with the train input; "
    "counted: obvious paths have counters, too. Beside them the overhead of PP.",
    {
        "pp": tpp.PP,
        **{
            key: tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, **more)
            for key, (_, more) in GUIDES.items()
        },
    },
    (
        *columns("pp | PP % | percent | pp.overhead"),
        *_guided({key: title for key, (title, _) in GUIDES.items()}, "a_"),
        tpp.PP_HASHED,
    ),
    (
        rule(
            "An edge profile that was taken earlier is representative: with one that is, "
            "attribution of definite flow exceeds 98 %.",
            "paper: mean(a_trainc) >= 98 %",
        ),
        of_hashing(
            "... and overhead is reduced as by the run's own.",
            "ours: part of the reduction from PP that the train input's profile reaches: "
            f"{tpp.part_of_reduction('trainc', 'mean(t515c)')} >= 80 %",
        ),
    ),
    notes=(
        "Obvious paths have the counts of the edge profile: those of another input are no counts "
        "of this run. The claim is judged where they are counted.",
        "The paper has edge profiles of the ref input only, as it expects an early stage's to be "
        "representative. A program whose inputs are the same has the same numbers twice.",
    ),
    bars=Bars(("pp", "t515c", "trainc"), "overhead, % of base instructions"),
    originals="tpp2",
)


# -- what instrumenting costs before a program runs ------------------------------------------------

MODES = {
    "qpt2": setting("qpt2"),
    "pp": setting("pp", path_limit=PATH_LIMIT),
    "tpp": setting("tpp", path_limit=PATH_LIMIT, cold=COLD, loop=LOOP),
}
TITLES = {"qpt2": "QPT2", "pp": "PP", "tpp": f"TPP({COLD:.0f},{LOOP:.0f})"}


def _of_routines(
    table: CounterTable, of: Callable[[list[RoutineFigures]], int | None]
) -> Callable[[Found], int | None]:
    """Return a number of the routines whose counters PP keeps in such a table."""
    return lambda found: of([each for each in kept(table)(found["pp"]) if each.numbered_paths])


def _seconds(need: str) -> str:
    # Recovering graphs is the same for all of them, and has a column of its own.
    return f"({need}.planning + {need}.generation)"


def _growth(need: str) -> tuple[ColumnSpec, ...]:
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
        *(each for need in MODES for each in _growth(need)),
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
                lambda rows: max((each.numbered_paths or 0 for each in rows), default=None),
            ),
        ),
        column(
            "hashed_paths | hashed paths | count",
            _of_routines(
                CounterTable.HASH,
                lambda rows: min((each.numbered_paths or 0 for each in rows), default=None),
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

TABLES = (TPP_PARTS, TPP_LENGTHS, TPP_AGE, TPP_TRAIN, ANALYSIS)
