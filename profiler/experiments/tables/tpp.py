"""TPP's tables and figures (Joshi, Bond and Zilles, "Targeted Path Profiling", 2004).

- Tables 1 to 3: what hash tables cost PP (2.2), and what TPP costs and loses (5.1).
- Table 4 and figures 3 and 9: static paths, obvious paths, routines with hash tables (5.1);
  `tpp4-whole`: the paths of table 4 before truncation, of which the text of 4.1 speaks.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import Rule, of_hashing, rule, untestable
from simprof.profiler.experiments.tables.expressions import (
    PROGRAM,
    ColumnSpec,
    Found,
    column,
    columns,
    more_columns,
)
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars

PAPER = (
    "R. Joshi, M. D. Bond and C. Zilles, Targeted Path Profiling: Lower Overhead Path Profiling "
    "for Staged Dynamic Optimization Systems, CGO 2004"
)
# Where the paper's PP and TPP truncate (TPP 4.1); EPP's PP and ours do so at ten times that.
PATH_LIMIT = 10_000_000
SPEC2000 = "SPEC2000"
COLD, LOOP = 5.0, 15.0  # i and j of TPP(5,15)
# Key -> i and j of TPP(i, j) in tables 2 to 4.
THRESHOLDS = {"1": (1.0, 1.0), "5": (5.0, 5.0), "10": (10.0, 10.0), "515": (COLD, LOOP)}
TITLES = {f"t{key}": f"TPP({cold:.0f},{loop:.0f})" for key, (cold, loop) in THRESHOLDS.items()}


def tpp_need(**options: object) -> CellNeed:
    """Return the need of a run under TPP with these options, truncated as in the paper."""
    return CellNeed(setting("tpp", path_limit=PATH_LIMIT, **options))


PP = CellNeed(setting("pp", path_limit=PATH_LIMIT))
TPP = {f"t{key}": tpp_need(cold=cold, loop=loop) for key, (cold, loop) in THRESHOLDS.items()}
PP_HASHED = column("hashed | PP hashed % | percent | pp.hashed")
NO_COLD = tpp_need(cold=0, loop=0)  # Obvious paths alone: nothing is cold, no loop is disconnected


def part_of_reduction(key: str, best: str = "mean(t515)") -> str:
    """Return the part of the reduction from PP to `best` that a column has, in percent."""
    return f"100 * (mean(pp) - mean({key})) / positive(mean(pp) - {best})"


# -- table 1 --------------------------------------------------------------------------------------


def _cost(kind: str) -> str:
    """Return the instructions added to an increment of a path's counter, self-loops left out."""
    # Self-loops have counters of their own in either kind of routine, which call no hash table.
    return f"((pp.{kind}.added - pp.{kind}.self_loop_added) / pp.{kind}.path_increments)"


TPP1 = TableSpec(
    "tpp1",
    "TPP table 1: hash tables against arrays of counters in PP",
    f"{PAPER}, table 1",
    "Overhead of PP in all routines, in those with arrays and in those with hash tables, in "
    "percent of base instructions. Hashed: share of all increments (as in EPP table 1) that are of "
    "path counters in hash tables. Self-loops: share that are of their own counters, in routines "
    "of either kind. Hash cost: instructions added to an increment of a path counter in routines "
    "with hash tables, by those with arrays, the counters of self-loops left out.",
    {"pp": PP},
    columns(f"""
pp | PP % | percent | pp.overhead
array | array % | percent | 100 * pp.array.added / pp.base
hash | hashing % | percent | 100 * pp.all_hash.added / pp.base
hashed | paths hashed % | percent | 100 * pp.all_hash.path_increments / pp.increments
self_loops | self-loops % | percent | 100 * pp.all.self_loop_increments / pp.increments
hash_cost | hash cost | quotient | {_cost("all_hash")} / {_cost("array")}
"""),
    (
        of_hashing(
            "Many of the programs with overhead above average record a sizable fraction of their "
            "paths in hash tables.",
            "ours: programs above the mean overhead hash at least 20 % of their paths: "
            "count(hashed >= 20, pp > mean(pp)) >= 1/2 %",
        ),
        of_hashing(
            "Counting a path in a routine with a hash table costs 5.2 times as much as with an "
            "array.",
            "paper: mean(hash_cost) >= 5.2",
        ),
        of_hashing(
            "Hash tables cause more of the average overhead (15.9 %) than arrays (11.2 %).",
            "paper: mean(hash) > mean(array) %",
        ),
    ),
    notes=(
        "The paper instruments the routines of one kind only and measures three runs, so that its "
        "parts do not add up; ours are parts of one exact run, and do.",
    ),
    bars=Bars(("array", "hash"), "overhead, % of base instructions"),
    originals="tpp1",
)


# -- tables 2 and 3 -------------------------------------------------------------------------------


def definite_flow(need: str, key: str = "") -> ColumnSpec:
    """Return the column of the attribution of definite flow in percent (TPP 5)."""
    return column(f"{key or f'a{need[1:]}'} | AoDF % | percent | 100 * {need}.attributed")


_MEANS = ", ".join(f"mean({key})" for key in TPP)
_LOWEST = f"least({_MEANS})"
_SPREAD = f"100 * (greatest({_MEANS}) - {_LOWEST}) / mean(pp)"


def _targeted_rules(text: str, part: float) -> tuple[Rule, ...]:
    """Return section 5.1's claims about tables 2 and 3.

    `text`: The first claim, in the paper's numbers. `part`: TPP(5,15)'s overhead by PP's, at most:
    the paper's with a margin.
    """
    return (
        of_hashing(text, f"ours: TPP(5,15)'s overhead by PP's: mean(t515) / mean(pp) <= {part}"),
        of_hashing(
            "... at an attribution of definite flow above 98 % on average.",
            "paper: mean(a515) > 98 %",
        ),
        of_hashing(
            "Most of the reduction comes with the most conservative thresholds, TPP(1,1).",
            "paper: TPP(1,1)'s part of the greatest reduction: "
            f"{part_of_reduction('t1', _LOWEST)} >= 50 %",
        ),
        of_hashing(
            "The results are rather insensitive to the thresholds.",
            "paper: difference between the means of TPP: "
            f"{_SPREAD} <= paper({_SPREAD}) % of PP's mean",
        ),
        rule(
            "Overhead does not fall monotonically with precision.",
            "paper: programs have more overhead at less precision: "
            "count(greatest(t5 - t1, t10 - t5) > 0) >= 1 %",
        ),
        untestable(
            "... because of data layout.",
            "instructions are counted: where data lie has no cost in the model",
        ),
        of_hashing(
            "FP programs benefit more than integer programs.",
            "paper: TPP(5,15)'s overhead by PP's of FP: FP(t515) / FP(pp) < INT(t515) / INT(pp)",
        ),
        of_hashing(
            "Without the removal of cold paths, that of obvious paths gains next to nothing.",
            f"ours: TPP(0,0)'s part of TPP(5,15)'s reduction: {part_of_reduction('t0')} <= 20 %",
        ),
    )


def _costs(keys: Iterable[str]) -> Iterable[ColumnSpec]:
    for key in keys:
        yield column(f"{key} | {TITLES[key]} % | percent | {key}.overhead | executed")
        yield definite_flow(key)


TPP2 = TableSpec(
    "tpp2",
    "TPP table 2: targeted path profiling against PP (SPEC95)",
    f"{PAPER}, table 2",
    "Overhead in percent of base instructions, and attribution of definite flow (AoDF): the share "
    "of dynamic paths, weighted by their blocks, that the profile attributes correctly. TPP(i,j): "
    "edges with less than i % of their source's flow are cold, loops entered by less than j % of "
    "their head's executions are disconnected. TPP(0,0): obvious paths only (not in the paper).",
    {"pp": PP, **TPP, "t0": NO_COLD},
    (
        *columns("pp | PP % | percent | pp.overhead | executed"),
        *_costs(TITLES),
        column("t0 | TPP(0,0) % | percent | t0.overhead | executed"),
        PP_HASHED,
    ),
    _targeted_rules("TPP(5,15) reduces the overhead of PP from 28 % to 14 %, about half.", 0.65),
    notes=("Each program is guided by an edge profile of the same input, as in the paper.",),
    bars=Bars(("pp", *TPP), "overhead, % of base instructions"),
    originals="tpp2",
    includes=lambda program: program.releases != {SPEC2000},
)
TPP3 = replace(
    TPP2,
    name="tpp3",
    title="TPP table 3: targeted path profiling against PP (SPEC2000)",
    source=f"{PAPER}, table 3",
    claims=_targeted_rules(
        "TPP(5,15) reduces the overhead of PP from 37 % to 13 %, almost by two thirds.", 0.5
    ),
    notes=(*TPP2.notes, "Only programs that stand in for one of SPEC2000; table 2 has the others."),
    originals="tpp3",
    includes=lambda program: SPEC2000 in program.releases,
)


# -- table 4 --------------------------------------------------------------------------------------


def _enumerated(keys: Iterable[str]) -> Iterable[ColumnSpec]:
    for key in keys:
        yield column(f"{key} | {TITLES[key]} | decimal! | {key}.own.numbered_paths / 1000")
        share = f"100 * ({key}.own.numbered_paths / 1000) / (pp.own.numbered_paths / 1000)"
        yield column(f"s{key[1:]} | of PP % | share | {share}")


TPP4 = TableSpec(
    "tpp4",
    "TPP table 4: static paths of PP and TPP",
    f"{PAPER}, table 4",
    "Static paths that the plans enumerate, in thousands, in the program's own routines that were "
    "entered; and TPP's in percent of PP's. Whole: the same with the libraries' routines.",
    {"pp": PP, **TPP},
    (
        *columns("pp | PP | decimal! | pp.own.numbered_paths / 1000"),
        *_enumerated(TITLES),
        *more_columns(f"""
w_pp | whole: PP | decimal! | pp.all.numbered_paths / 1000
w_t515 | whole: {TITLES["t515"]} | decimal! | t515.all.numbered_paths / 1000
w_s515 | of PP % | share | 100 * (t515.all.numbered_paths / 1000) / (pp.all.numbered_paths / 1000)
"""),
        PP_HASHED,
    ),
    (
        of_hashing(
            "More than 99 % of static paths are removed in all but four of fifteen programs.",
            "paper: programs keep less than 1 %: count(s515 < 1) >= 11/15 %",
        ),
        of_hashing(
            "In eight of fifteen programs more than 99.99 % are removed.",
            "paper: programs keep less than 0.01 %: count(s515 < 0.01) >= 8/15 %",
        ),
    ),
    notes=(
        "The paper sums over all routines that it instruments, entered or not. Its totals have no "
        "C library in them: compress has 2.7 thousand paths in all, and glibc's printf alone more.",
        "Both tools truncate routines at 10,000,000 paths, as the paper's do: a routine counts for "
        "at most so many, however many it has (table tpp4-whole).",
    ),
    bars=Bars(("pp", *TPP), "static paths, thousands", logarithmic=True),
    originals="tpp4",
)


def _most_of_a_routine(row: Found) -> int:
    return max((each.untruncated_paths or 0 for each in row["pp"].routines), default=0)


TPP4_WHOLE = TableSpec(
    "tpp4-whole",
    "TPP table 4 before truncation",
    f"{PAPER}, section 4.1 and table 4",
    "Static paths of the routines that were entered, as the plans would enumerate them without a "
    "path limit; most: of one routine under PP.",
    {"pp": PP, **TPP},
    (
        PROGRAM,
        column("most | most of a routine | count!", _most_of_a_routine),
        *(
            column(f"{key} | {title} | count! | {key}.all.untruncated_paths")
            for key, title in {"pp": "PP", **TITLES}.items()
        ),
        PP_HASHED,
    ),
    (
        of_hashing(
            "In some routines the number of acyclic paths exceeds 2^64 "
            "(18,446,744,073,709,551,616).",
            "paper: programs have such a routine: count(most > 2**64) >= 1",
        ),
    ),
    notes=(
        "Disconnecting a loop adds paths where it ends them. Where TPP leaves no cold edges out, "
        "because an array does, it has as many paths as PP, or a few more.",
    ),
    originals="tpp4",
)


# -- figures 3 and 9 ------------------------------------------------------------------------------

# Turns of a self-loop are among the inferred where its loop is disconnected, since each ends an
# obvious path then, and else among the counted: the self-loop has a counter.
FIGURE3 = TableSpec(
    "tpp-fig3",
    "TPP figure 3: executions of obvious paths",
    f"{PAPER}, figure 3",
    "Executions of paths known from the edge profile alone, and increments of counters of paths "
    "and self-loops, at thresholds of 5 %.",
    {"t5": TPP["t5"]},
    columns("""
inferred | obvious | count! | t5.inferred_paths or 0
counted | counted | count! | t5.increments
obvious | obvious % | percent | \
100 * (t5.inferred_paths or 0) / ((t5.inferred_paths or 0) + t5.increments)
"""),
    (
        rule(
            "A large share of path executions are of obvious paths: about 25 % (INT) and 50 % "
            "(FP).",
            "ours: mean(obvious) >= 20 %",
        ),
        rule(
            "Obvious paths are less frequent in integer than in FP programs.",
            "paper: FP(obvious) > INT(obvious) %",
        ),
    ),
    bars=Bars(("obvious",), "obvious path executions, %"),
    originals="tpp2",
)


def _hashed(key: str, title: str, need: str, which: str = "own") -> str:
    share = f"100 * {need}.{which}_hash.count / {need}.{which}.count"
    return f"{key} | {title} % | percent | {share}"


FIGURE9 = TableSpec(
    "tpp-fig9",
    "TPP figure 9: routines that need hash tables",
    f"{PAPER}, figure 9",
    "Share of the program's own routines entered whose counters are in a hash table. Whole: of all "
    "routines entered, with the libraries'.",
    {"pp": PP, **{key: TPP[key] for key in ("t1", "t5", "t10")}},
    (
        *columns(f"""
routines | routines | count! | pp.own.count
{_hashed("pp", "PP", "pp")}
{_hashed("t1", TITLES["t1"], "t1")}
{_hashed("t5", TITLES["t5"], "t5")}
{_hashed("t10", TITLES["t10"], "t10")}
w_routines | whole: routines | count! | pp.all.count
{_hashed("w_pp", "whole: PP", "pp", "all")}
{_hashed("w_t5", f"whole: {TITLES['t5']}", "t5", "all")}
"""),
        PP_HASHED,
    ),
    (
        rule(
            "Most routines have few paths and an array of counters (EPP 5.2).",
            "paper: max(w_pp) < 50 %",
        ),
        of_hashing(
            "Hashed routines are reduced by two thirds on average.",
            "ours: reduction from PP to TPP(5,5): 100 * (mean(pp) - mean(t5)) / mean(pp) >= 60 %",
        ),
        of_hashing(
            "For integer programs the reduction exceeds 80 %.",
            "paper: reduction from PP to TPP(5,5): "
            "100 * (mean(pp, INT) - mean(t5, INT)) / mean(pp, INT) > 80 %",
        ),
        of_hashing(
            "Most of the benefit is there at the lowest threshold.",
            "paper: TPP(1,1)'s part of TPP(10,10)'s reduction: "
            f"{part_of_reduction('t1', 'mean(t10)')} >= 50 %",
        ),
    ),
    notes=("The scope is that of table 4: there the paper's totals have no C library in them.",),
    bars=Bars(("pp", "t1", "t5", "t10"), "routines with hash tables, %"),
    originals="tpp2",
)

TABLES = (TPP1, TPP2, TPP3, TPP4, TPP4_WHOLE, FIGURE3, FIGURE9)
