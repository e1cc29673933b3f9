"""TPP's tables and figures (Joshi, Bond and Zilles, "Targeted Path Profiling", 2004).

- Tables 1 to 3: what hash tables cost PP (2.2), and what TPP costs and loses (5.1).
- Table 4 and figures 3 and 9: static paths, obvious paths, routines with hash tables (5.1);
  `tpp4-whole`: the paths of table 4 before truncation, of which the text of 4.1 speaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise

from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import CellResult, RoutineRow
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns, conditions
from simprof.profiler.experiments.tables.claims import (
    HASHED,
    Judge,
    Requirement,
    of_hashing,
    rule,
    untestable,
)
from simprof.profiler.experiments.tables.columns import (
    PROGRAM,
    ColumnSpec,
    Found,
    Quantity,
    ResultOf,
)
from simprof.profiler.experiments.tables.conditions import (
    Bound,
    Condition,
    Member,
    Whose,
    above,
    at_least,
    at_most,
    below,
    number,
    papers,
)
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    ReportTable,
    percentage,
    published,
    ratio,
)
from simprof.profiler.plan.plan import CounterTable

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
NAMES = {"pp": "PP", **TITLES, "t0": "TPP(0,0)"}


def tpp_need(**options: object) -> CellNeed:
    """Return the need of a run under TPP with these options, truncated as in the paper."""
    return CellNeed(setting("tpp", path_limit=PATH_LIMIT, **options))


PP = CellNeed(setting("pp", path_limit=PATH_LIMIT))
TPP = {f"t{key}": tpp_need(cold=cold, loop=loop) for key, (cold, loop) in THRESHOLDS.items()}
_PP = ResultOf("pp")
PP_HASHED = columns.percent(HASHED, "PP hashed %", _PP.hashed)
NO_COLD = tpp_need(cold=0, loop=0)  # Obvious paths alone: nothing is cold, no loop is disconnected


def _means(table: ReportTable, *keys: str) -> str:
    return ", ".join(f"{NAMES[key]} {number(table.mean(key))} %" for key in keys)


def reduction_share(table: ReportTable, key: str, best: str = "t515") -> float | None:
    """Return the part of the reduction from PP to `best` that a column has, in percent of means."""
    pp, lowest, alone = (table.mean(each) for each in ("pp", best, key))
    if pp is None or lowest is None or alone is None:
        return None
    return percentage(pp - alone, pp - lowest)


def reduction_shares(
    table: ReportTable, key: str, lowest: Mapping[str, float] | None = None
) -> list[claims.ProgramNumber]:
    """Return programs' parts of a reduction from PP that a column has, in percent.

    `lowest`: Where each program's reduction ends; TPP(5,15) by default. Programs without any are
    absent.
    """
    if lowest is None:
        lowest = {name: cost for name, cost, _ in claims.pairs(table, "t515", "pp")}
    return [
        claims.ProgramNumber(
            name,
            100 * (before - cost) / (before - lowest[name]),
            f"{number(before)} % to {number(cost)} %",
        )
        for name, before, cost in claims.pairs(table, "pp", key)
        if name in lowest and before > lowest[name]
    ]


# -- table 1 --------------------------------------------------------------------------------------


def _kept(table: CounterTable) -> Callable[[CellResult], Sequence[RoutineRow]]:
    """Return what selects the routines with this kind of table."""
    return lambda result: [row for row in result.routines if row.table is table]


def _added(table: CounterTable) -> Quantity[Found]:
    return 100 * _PP.total("added", _kept(table)) / _PP.base


def _cost(table: CounterTable) -> Quantity[Found]:
    """Return the instructions added to an increment of a path's counter, self-loops left out."""
    # Self-loops have counters of their own in either kind of routine, which call no hash table.
    kept = _kept(table)
    added = _PP.total("added", kept) - _PP.total("self_loop_added", kept)
    return added / _PP.total("path_increments", kept)


def _hashing_above_average(table: ReportTable) -> Condition | None:
    mean = table.mean("pp")
    above = [
        conditions.member(name, share, at_least(20, " %"), f"overhead {number(cost)} %")
        for name, cost, share in claims.pairs(table, "pp", "hashed")
        if mean is not None and cost > mean
    ]
    what = f"programs above {number(mean)} % hash at least 20 % of their paths"
    return conditions.count_of(above, what, claims.half(len(above)), whose=Whose.OURS)


TPP1 = TableSpec[Found](
    "tpp1",
    "TPP table 1: hash tables against arrays of counters in PP",
    f"{PAPER}, table 1",
    "Overhead of PP in all routines, in those with arrays and in those with hash tables, in "
    "percent of base instructions. Hashed: share of all increments (as in EPP table 1) that are of "
    "path counters in hash tables. Self-loops: share that are of their own counters, in routines "
    "of either kind. Hash cost: instructions added to an increment of a path counter in routines "
    "with hash tables, by those with arrays, the counters of self-loops left out.",
    {"pp": PP},
    (
        PROGRAM,
        columns.of_overhead("pp", "PP %"),
        columns.percent("array", "array %", _added(CounterTable.ARRAY)),
        columns.percent("hash", "hashing %", _added(CounterTable.HASH)),
        columns.percent(
            "hashed",
            "paths hashed %",
            100 * _PP.total("path_increments", _kept(CounterTable.HASH)) / _PP.increments,
        ),
        columns.percent(
            "self_loops", "self-loops %", 100 * _PP.total("self_loop_increments") / _PP.increments
        ),
        columns.decimal(
            "hash_cost",
            "hash cost",
            _cost(CounterTable.HASH) / _cost(CounterTable.ARRAY),
            quotient=True,
        ),
    ),
    (
        of_hashing(
            "Many of the programs with overhead above average record a sizable fraction of their "
            "paths in hash tables.",
            _hashing_above_average,
        ),
        of_hashing(
            "Counting a path in a routine with a hash table costs 5.2 times as much as with an "
            "array.",
            claims.mean_is("hash_cost", papers(at_least(5.2)), others=("hashed",)),
            absent="the table has no program that counts paths both in arrays and in hash tables",
        ),
        of_hashing(
            "Hash tables cause more of the average overhead (15.9 %) than arrays (11.2 %).",
            claims.means_differ(
                ("hash tables", "hash"), above, ("arrays", "array"), ("hashing", "arrays"), " %"
            ),
        ),
    ),
    notes=(
        "The paper instruments the routines of one kind only and measures three runs, so that its "
        "parts do not add up; ours are parts of one exact run, and do.",
    ),
    bars=Bars(("array", "hash"), "overhead, % of base instructions"),
    compared=("pp", "array", "hash", "hashed", "hash_cost"),
    originals="tpp1",
)


# -- tables 2 and 3 -------------------------------------------------------------------------------


def definite_flow(need: str) -> ColumnSpec[Found]:
    """Return the column of the attribution of definite flow in percent (TPP 5)."""
    attributed = ResultOf(need).of(lambda result: result.attributed)
    return columns.percent(f"a{need[1:]}", "AoDF %", 100 * attributed)


def _first_threshold(table: ReportTable) -> Condition | None:
    pp, first = table.mean("pp"), table.mean("t1")
    means = [mean for key in TPP if (mean := table.mean(key)) is not None]
    saved = None if pp is None or not means else pp - min(means)
    costs = {key: {name: cost for name, cost, _ in claims.pairs(table, key, "pp")} for key in TPP}
    lowest = {name: min(each[name] for each in costs.values()) for name in costs["t1"]}
    return conditions.value_is(
        "TPP(1,1)'s part of the greatest reduction",
        None if pp is None or first is None else percentage(pp - first, saved),
        papers(at_least(50, " %")),
        remark=f"means: {_means(table, 'pp', *TPP)}",
        parts=claims.members(reduction_shares(table, "t1", lowest), at_least(50, " %")),
    )


def _spread(table: ReportTable) -> float | None:
    """Return the difference between the means of TPP in percent of PP's."""
    means = [mean for key in TPP if (mean := table.mean(key)) is not None]
    if len(means) < len(TPP):
        return None
    return percentage(max(means) - min(means), table.mean("pp"))


def _insensitive(name: str) -> Requirement:
    """Require that the means of TPP differ no more than those of the paper's table `name`."""

    def require(table: ReportTable) -> Condition | None:
        theirs = published(name)
        most = None if theirs is None else _spread(theirs)
        if most is None:
            return None
        return conditions.value_is(
            "difference between the means of TPP",
            _spread(table),
            papers(at_most(most, " % of PP's mean")),
            remark=_means(table, "pp", *TPP),
            behind=len(table.values("pp")),
        )

    return require


FALLING = "t1", "t5", "t10"  # TPP of less and less precision


def _not_monotonic(table: ReportTable) -> Condition | None:
    made = []
    for row in table.judged:
        costs = [claims.value(table, row, key) or 0.0 for key in FALLING]
        rise = max(after - before for before, after in pairwise(costs))
        text = ", ".join(f"{number(cost)} %" for cost in costs)
        made.append(Member(str(row.values[0]), text, rise > 0, -rise))
    return conditions.count_of(made, "programs have more overhead at less precision", 1)


def _groups_benefit(table: ReportTable) -> Condition | None:
    integer, floating = (
        ratio(best, before)
        for best, before in zip(
            claims.group_means(table, "t515"), claims.group_means(table, "pp"), strict=True
        )
    )
    parts = claims.combined("t515", "pp", ratio, "FP", _of_pp)(table)
    return claims.differs(
        ("TPP(5,15)'s overhead by PP's of FP", floating),
        below,
        ("of INT", integer),
        parts=() if integer is None else claims.members(parts, at_most(integer)),
    )


def _part_of_reduction(key: str, best: str, limit: Bound, *, by_program: bool) -> Requirement:
    """Bound the part of the reduction from PP to `best` that a column has."""

    def require(table: ReportTable) -> Condition | None:
        return conditions.value_is(
            f"{NAMES[key]}'s part of {NAMES[best]}'s reduction",
            reduction_share(table, key, best),
            limit,
            remark=f"means: {_means(table, 'pp', key, best)}",
            behind=len(table.values(key)),
            parts=claims.members(reduction_shares(table, key) if by_program else (), limit),
        )

    return require


def _of_pp(cost: float, before: float) -> str:
    return f"{number(cost)} % of {number(before)} %"


def _targeted_rules(name: str, text: str, part: float) -> tuple[Judge, ...]:
    """Return section 5.1's claims about tables 2 and 3.

    `name`: The table. `text`: The first claim, in the paper's numbers. `part`: TPP(5,15)'s overhead
    by PP's, at most: the paper's with a margin.
    """
    return (
        of_hashing(
            text,
            claims.means_give(
                "TPP(5,15)'s overhead by PP's",
                ratio,
                "t515",
                "pp",
                at_most(part),
                remark=_of_pp,
                more=_of_pp,
            ),
        ),
        of_hashing(
            "... at an attribution of definite flow above 98 % on average.",
            claims.mean_is("a515", papers(above(98, " %"))),
        ),
        of_hashing(
            "Most of the reduction comes with the most conservative thresholds, TPP(1,1).",
            _first_threshold,
        ),
        of_hashing("The results are rather insensitive to the thresholds.", _insensitive(name)),
        rule("Overhead does not fall monotonically with precision.", _not_monotonic),
        untestable(
            "... because of data layout.",
            "instructions are counted: where data lie has no cost in the model",
        ),
        of_hashing(
            "FP programs benefit more than integer programs.",
            _groups_benefit,
            absent=claims.NO_GROUPS,
        ),
        of_hashing(
            "Without the removal of cold paths, that of obvious paths gains next to nothing.",
            _part_of_reduction("t0", "t515", at_most(20, " %"), by_program=True),
        ),
    )


TPP2 = TableSpec[Found](
    "tpp2",
    "TPP table 2: targeted path profiling against PP (SPEC95)",
    f"{PAPER}, table 2",
    "Overhead in percent of base instructions, and attribution of definite flow (AoDF): the share "
    "of dynamic paths, weighted by their blocks, that the profile tells rightly. TPP(i,j): edges "
    "with less than i % of their source's flow are cold, loops entered by less than j % of their "
    "head's executions are disconnected. TPP(0,0): obvious paths only (not in the paper).",
    {"pp": PP, **TPP, "t0": NO_COLD},
    (
        PROGRAM,
        columns.of_overhead("pp", "PP %", executed=True),
        *chain.from_iterable(
            (columns.of_overhead(key, f"{title} %", executed=True), definite_flow(key))
            for key, title in TITLES.items()
        ),
        columns.of_overhead("t0", "TPP(0,0) %", executed=True),
        PP_HASHED,
    ),
    _targeted_rules(
        "tpp2", "TPP(5,15) reduces the overhead of PP from 28 % to 14 %, about half.", 0.65
    ),
    notes=("Each program is guided by an edge profile of the same input, as in the paper.",),
    bars=Bars(("pp", *TPP), "overhead, % of base instructions"),
    compared=("pp", "t515", "a515"),
    originals="tpp2",
    includes=lambda program: program.releases != {SPEC2000},
)
TPP3 = replace(
    TPP2,
    name="tpp3",
    title="TPP table 3: targeted path profiling against PP (SPEC2000)",
    source=f"{PAPER}, table 3",
    claims=_targeted_rules(
        "tpp3", "TPP(5,15) reduces the overhead of PP from 37 % to 13 %, almost by two thirds.", 0.5
    ),
    notes=(*TPP2.notes, "Only programs that stand in for one of SPEC2000; table 2 has the others."),
    originals="tpp3",
    includes=lambda program: SPEC2000 in program.releases,
)


# -- table 4 --------------------------------------------------------------------------------------


WHOLE = "w_"  # Starts the keys of columns that are about the whole binary


def _thousands(need: str, own: bool) -> Quantity[Found]:
    def thousands(result: CellResult) -> float:
        routines = columns.own_routines(result) if own else result.routines
        return sum(row.num_paths or 0 for row in routines) / 1000

    return ResultOf(need).of(thousands)


def _enumerated(need: str, title: str, *, own: bool = True) -> ColumnSpec[Found]:
    key = need if own else WHOLE + need
    return columns.decimal(key, title, _thousands(need, own), average=False)


def _left(need: str, *, own: bool = True) -> ColumnSpec[Found]:
    key = f"s{need[1:]}" if own else f"{WHOLE}s{need[1:]}"
    return columns.share(key, "of PP %", 100 * _thousands(need, own) / _thousands("pp", own))


def _removed(text: str, bound: float, programs: int) -> Judge:
    """Return the rule of a claim that so many of the paper's fifteen programs keep fewer paths."""
    return of_hashing(
        text,
        claims.count_is(
            f"programs keep less than {number(bound)} %",
            claims.fraction(programs, 15),
            claims.column("s515", others=("pp", "t515")),
            papers(below(bound, " %")),
        ),
    )


TPP4 = TableSpec[Found](
    "tpp4",
    "TPP table 4: static paths of PP and TPP",
    f"{PAPER}, table 4",
    "Static paths that the plans enumerate, in thousands, in the program's own routines that were "
    "entered; and TPP's in percent of PP's. Whole: the same with the libraries' routines.",
    {"pp": PP, **TPP},
    (
        PROGRAM,
        _enumerated("pp", "PP"),
        *chain.from_iterable(
            (_enumerated(key, title), _left(key)) for key, title in TITLES.items()
        ),
        _enumerated("pp", "whole: PP", own=False),
        _enumerated("t515", f"whole: {TITLES['t515']}", own=False),
        _left("t515", own=False),
        PP_HASHED,
    ),
    (
        _removed(
            "More than 99 % of static paths are removed in all but four of fifteen programs.",
            1.0,
            11,
        ),
        _removed("In eight of fifteen programs more than 99.99 % are removed.", 0.01, 8),
    ),
    notes=(
        "The paper sums over all routines that it instruments, entered or not. Its totals have no "
        "C library in them: compress has 2.7 thousand paths in all, and glibc's printf alone more.",
        "Both tools truncate routines at 10,000,000 paths, as the paper's do: a routine counts for "
        "at most so many, however many it has (table tpp4-whole).",
    ),
    bars=Bars(("pp", *TPP), "static paths, thousands", logarithmic=True),
    compared=("pp", "t515"),
    originals="tpp4",
)


def _untruncated(need: str, combined: Callable[[list[int]], int]) -> Quantity[Found]:
    return ResultOf(need).of(
        lambda result: combined([row.untruncated_paths or 0 for row in result.routines])
    )


TPP4_WHOLE = TableSpec[Found](
    "tpp4-whole",
    "TPP table 4 before truncation",
    f"{PAPER}, section 4.1 and table 4",
    "Static paths of the routines that were entered, as the plans would enumerate them without a "
    "path limit; most: of one routine under PP.",
    {"pp": PP, **TPP},
    (
        PROGRAM,
        columns.total("most", "most of a routine", _untruncated("pp", partial(max, default=0))),
        columns.total("pp", "PP", _untruncated("pp", sum)),
        *(columns.total(key, title, _untruncated(key, sum)) for key, title in TITLES.items()),
        PP_HASHED,
    ),
    (
        of_hashing(
            "In some routines the number of acyclic paths exceeds 2^64 "
            "(18,446,744,073,709,551,616).",
            claims.count_is(
                "programs have such a routine",
                claims.some,
                claims.column("most"),
                papers(above(2**64)),
                remark=lambda values: "",
            ),
        ),
    ),
    notes=(
        "Disconnecting a loop adds paths where it ends them. Where TPP leaves no cold edges out, "
        "because an array does, it has as many paths as PP, or a few more.",
    ),
    originals="tpp4",
)


# -- figures 3 and 9 ------------------------------------------------------------------------------


_T5 = ResultOf("t5")
# Turns of a self-loop are among these where its loop is disconnected, since each ends an obvious
# path then, and else among the counted: the self-loop has a counter.
_INFERRED = _T5.of(lambda result: result.counts.get("inferred_paths", 0))


FIGURE3 = TableSpec[Found](
    "tpp-fig3",
    "TPP figure 3: executions of obvious paths",
    f"{PAPER}, figure 3",
    "Executions of paths known from the edge profile alone, and increments of counters of paths "
    "and self-loops, at thresholds of 5 %.",
    {"t5": TPP["t5"]},
    (
        PROGRAM,
        columns.total("inferred", "obvious", _INFERRED),
        columns.total("counted", "counted", _T5.increments),
        columns.percent("obvious", "obvious %", 100 * _INFERRED / (_INFERRED + _T5.increments)),
    ),
    (
        rule(
            "A large share of path executions are of obvious paths: about 25 % (INT) and 50 % "
            "(FP).",
            claims.mean_is("obvious", at_least(20, " %"), others=("inferred", "counted")),
        ),
        claims.compare_groups(
            "Obvious paths are less frequent in integer than in FP programs.",
            "obvious",
            " %",
            higher="FP",
        ),
    ),
    bars=Bars(("obvious",), "obvious path executions, %"),
    compared=("obvious",),
    originals="tpp2",
)


def _hashed_routines(need: str, *, own: bool = True) -> ColumnSpec[Found]:
    def percent(result: CellResult) -> float | None:
        routines = columns.own_routines(result) if own else result.routines
        return percentage(sum(row.table is CounterTable.HASH for row in routines), len(routines))

    key, title = (need, NAMES[need]) if own else (WHOLE + need, f"whole: {NAMES[need]}")
    return columns.percent(key, f"{title} %", ResultOf(need).of(percent))


def _fewer_hashed(bound: Bound, group: str = "") -> Requirement:
    """Bound the percent by which the mean share of hashed routines falls from PP to TPP(5,5)."""
    return claims.means_give(
        "reduction from PP to TPP(5,5)",
        lambda before, after: percentage(before - after, before),
        "pp",
        "t5",
        bound,
        group=group,
        remark=lambda before, after: f"mean shares {number(before)} % and {number(after)} %",
        more=lambda before, after: f"{number(before)} % to {number(after)} %",
    )


NOTHING_HASHED = "the table has no such program with hash tables under PP"
FIGURE9 = TableSpec[Found](
    "tpp-fig9",
    "TPP figure 9: routines that need hash tables",
    f"{PAPER}, figure 9",
    "Share of the program's own routines entered whose counters are in a hash table. Whole: of all "
    "routines entered, with the libraries'.",
    {"pp": PP, **{key: TPP[key] for key in ("t1", "t5", "t10")}},
    (
        PROGRAM,
        columns.total(
            "routines", "routines", _PP.of(lambda result: len(columns.own_routines(result)))
        ),
        *map(_hashed_routines, ("pp", "t1", "t5", "t10")),
        columns.total("w_routines", "whole: routines", _PP.of(lambda result: len(result.routines))),
        _hashed_routines("pp", own=False),
        _hashed_routines("t5", own=False),
        PP_HASHED,
    ),
    (
        rule(
            "Most routines have few paths and an array of counters (EPP 5.2).",
            claims.each_is(
                "w_pp",
                papers(below(50, " %")),
                what="share of the binary's routines with hash tables:",
            ),
        ),
        of_hashing(
            "Hashed routines are reduced by two thirds on average.",
            _fewer_hashed(at_least(60, " %")),
            absent=NOTHING_HASHED,
        ),
        of_hashing(
            "For integer programs the reduction exceeds 80 %.",
            _fewer_hashed(papers(above(80, " %")), "INT"),
            absent=NOTHING_HASHED,
        ),
        of_hashing(
            "Most of the benefit is there at the lowest threshold.",
            _part_of_reduction("t1", "t10", papers(at_least(50, " %")), by_program=False),
            absent=NOTHING_HASHED,
        ),
    ),
    notes=("The scope is that of table 4: there the paper's totals have no C library in them.",),
    bars=Bars(("pp", "t1", "t5", "t10"), "routines with hash tables, %"),
    originals="tpp2",
)

TABLES = (TPP1, TPP2, TPP3, TPP4, TPP4_WHOLE, FIGURE3, FIGURE9)
