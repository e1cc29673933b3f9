"""TPP tables 1 to 4, figures 3 and 9 (Joshi, Bond and Zilles, "Targeted Path Profiling", 2004)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from profiler.experiments.cells import CellResult
from profiler.experiments.settings import setting
from profiler.experiments.table import (
    Bars,
    Claim,
    Column,
    Form,
    Table,
    Value,
    percentage,
    ratio,
)
from profiler.experiments.table_claims import (
    NO_GROUPS,
    bottom,
    compare_groups,
    extremes,
    group_means,
    judge,
    number,
    pairs,
    share_of,
    top,
    untestable,
)
from profiler.experiments.table_spec import Found, Need, Program, TableSpec
from profiler.experiments.tables_epp import PP, increments, overhead
from profiler.plan import Table as CounterTable

PAPER = (
    "R. Joshi, M. D. Bond and C. Zilles, Targeted Path Profiling: Lower Overhead Path Profiling "
    "for Staged Dynamic Optimization Systems, CGO 2004"
)
THRESHOLDS = {"1": (1.0, 1.0), "5": (5.0, 5.0), "10": (10.0, 10.0), "515": (5.0, 15.0)}
"""Key -> i and j of TPP(i, j) in tables 2 to 4."""
TPP = {
    f"t{key}": Need(setting("tpp", cold=cold, loop=loop))
    for key, (cold, loop) in THRESHOLDS.items()
}
NO_COLD = Need(setting("tpp", cold=0, loop=0))
"""Obvious paths alone: nothing is cold, no loop is disconnected."""
TITLES = {key: f"TPP({cold:.0f},{loop:.0f})" for key, (cold, loop) in THRESHOLDS.items()}


# -- table 1 --------------------------------------------------------------------------------------


def counter_kinds(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of TPP table 1.

    The overhead of PP is split by how each routine keeps its counters. Hash cost: instructions
    added to a path increment in routines with hash tables, by those in routines with arrays.
    """
    pp = found["pp"]
    parts = {
        kind: [row for row in pp.routines if row.table is kind]
        for kind in (CounterTable.ARRAY, CounterTable.HASH)
    }
    added = {kind: sum(row.added for row in rows) for kind, rows in parts.items()}
    paths = {kind: sum(map(increments, rows)) for kind, rows in parts.items()}
    array, hashed = CounterTable.ARRAY, CounterTable.HASH
    cost = ratio(ratio(added[hashed], paths[hashed]), ratio(added[array], paths[array]))
    yield (
        program.name,
        overhead(pp),
        percentage(added[array], pp.base),
        percentage(added[hashed], pp.base),
        percentage(paths[hashed], paths[array] + paths[hashed]),
        cost,
    )


def judge_counter_kinds(table: Table) -> Iterator[Claim]:
    """Judge section 2.2's claims about table 1."""
    mean = table.mean("pp")
    above = [share for _, cost, share in pairs(table, "pp", "hashed") if mean and cost > mean]
    many, count = share_of(share >= 20 for share in above)
    yield judge(
        "Many of the programs with overhead above average record a sizable fraction of their "
        "paths in hash tables.",
        2 * many >= count if count else None,
        f"{many} of {count} programs above {number(mean)} % hash at least 20 % of their paths; "
        "rule: half of them",
        lambda: "highest overheads: " + top(table, "pp", ("array", "hash", "hashed")),
    )
    cost = table.mean("hash_cost")
    costs = table.values("hash_cost")
    yield judge(
        "Counting a path in a routine with a hash table costs 5.2 times as much as with an array.",
        None if cost is None else cost >= 2,
        f"mean {number(cost)} ({extremes(costs)}); rule: at least 2"
        if costs
        else "no program counts paths both in arrays and in hash tables",
        lambda: "lowest: " + bottom(table, "hash_cost", ("hashed",)),
    )
    array, hashed = table.mean("array"), table.mean("hash")
    yield judge(
        "Hash tables cause more of the average overhead (15.9 %) than arrays (11.2 %).",
        None if array is None or hashed is None else hashed > array,
        f"hash tables {number(hashed)} %, arrays {number(array)} %",
        lambda: (
            "routines in arrays dominate these programs: " + top(table, "array", ("hash", "hashed"))
        ),
    )


TPP1 = TableSpec(
    "tpp1",
    "TPP table 1: hash tables against arrays of counters in PP",
    f"{PAPER}, table 1",
    "Overhead of PP in all routines, in those with arrays and in those with hash tables, in "
    "percent of base instructions. Hashed: share of path increments in routines with hash "
    "tables. Hash cost: instructions added to a path increment there, by those with arrays.",
    (
        Column("program", "program"),
        Column("pp", "PP %", Form.PERCENT),
        Column("array", "array %", Form.PERCENT),
        Column("hash", "hashing %", Form.PERCENT),
        Column("hashed", "paths hashed %", Form.PERCENT),
        Column("hash_cost", "hash cost", Form.DECIMAL),
    ),
    {"pp": PP},
    counter_kinds,
    judge_counter_kinds,
    notes=(
        "The paper instruments the routines of one kind only and measures three runs, so that its "
        "parts do not add up; ours are parts of one exact run, and do.",
    ),
    bars=Bars(("array", "hash"), "overhead, % of base instructions"),
    compared=("pp", "array", "hash", "hashed", "hash_cost"),
)


# -- tables 2 and 3 -------------------------------------------------------------------------------


def flow(result: CellResult) -> float | None:
    """Return the attribution of definite flow in percent (TPP 5)."""
    return None if result.definite_flow is None else 100 * result.definite_flow


def targeted(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of TPP tables 2 and 3: overheads, and attribution of definite flow."""
    values: list[Value] = [program.name, overhead(found["pp"])]
    for key in THRESHOLDS:
        result = found[f"t{key}"]
        values += [overhead(result), flow(result)]
    yield (*values, overhead(found["t0"]))


def judge_targeted(table: Table, part: float, told: str) -> Iterator[Claim]:
    """Judge section 5.1's claims about tables 2 and 3.

    Parameters
    ----------
    part
        TPP(5,15)'s overhead by PP's, at most: the paper's with a margin.
    told
        The claim in the paper's numbers.
    """
    pp, best = table.mean("pp"), table.mean("t515")
    left = ratio(best, pp)
    yield judge(
        told,
        None if left is None else left <= part,
        f"PP {number(pp)} %, TPP(5,15) {number(best)} %: {number(left)} of it; rule: at most "
        f"{number(part)}",
        lambda: _unreduced(table),
    )
    kept = table.mean("a515")
    yield judge(
        "... at an attribution of definite flow above 98 % on average.",
        None if kept is None else kept > 98,
        f"mean {number(kept)} % ({extremes(table.values('a515'), ' %')})",
        lambda: (
            "lowest: "
            + "; ".join(
                f"{name} {number(value)} %"
                for name, value, _ in sorted(pairs(table, "a515", "a515"), key=lambda p: p[1])[:3]
            )
        ),
    )
    yield from _judge_thresholds(table)
    yield from _judge_parts(table)


def _unreduced(table: Table) -> str:
    rest = sorted(pairs(table, "t515", "pp"), key=lambda each: each[1] - each[2], reverse=True)
    return "least reduced: " + "; ".join(
        f"{name} {number(cost)} % of {number(before)} %" for name, cost, before in rest[:3]
    )


def _judge_thresholds(table: Table) -> Iterator[Claim]:
    pp, first = table.mean("pp"), table.mean("t1")
    means = [mean for key in THRESHOLDS if (mean := table.mean(f"t{key}")) is not None]
    saved = None if pp is None or not means else pp - min(means)
    gained = None if pp is None or first is None else ratio(pp - first, saved)
    yield judge(
        "Most of the reduction comes with the most conservative thresholds, TPP(1,1).",
        None if gained is None else gained >= 0.5,
        f"TPP(1,1) has {number(gained and 100 * gained)} % of the greatest reduction; rule: half",
        lambda: (
            "mean overheads by threshold: "
            + ", ".join(f"{TITLES[key]} {number(table.mean(f't{key}'))} %" for key in THRESHOLDS)
        ),
    )
    spread = None if len(means) < 4 or pp is None else ratio(max(means) - min(means), pp)
    yield judge(
        "The results are rather insensitive to the thresholds.",
        None if spread is None else spread <= 0.25,
        f"means of TPP differ by {number(spread and 100 * spread)} % of PP's; rule: at most 25 %",
        lambda: (
            "mean overheads: "
            + ", ".join(f"{TITLES[key]} {number(table.mean(f't{key}'))} %" for key in THRESHOLDS)
        ),
    )
    yield untestable(
        "Overhead does not fall monotonically with precision, because of data layout.",
        "instructions are counted: where data lie has no cost in the model",
    )


def _judge_parts(table: Table) -> Iterator[Claim]:
    integer, floating = (
        ratio(best, before)
        for best, before in zip(group_means(table, "t515"), group_means(table, "pp"), strict=True)
    )
    yield judge(
        "FP programs benefit more than integer programs.",
        None if integer is None or floating is None else floating < integer,
        f"TPP(5,15) by PP: INT {number(integer)}, FP {number(floating)}"
        if integer is not None and floating is not None
        else NO_GROUPS,
        lambda: _unreduced(table),
    )
    alone, pp, best = table.mean("t0"), table.mean("pp"), table.mean("t515")
    saved = None if pp is None or best is None or alone is None else ratio(pp - alone, pp - best)
    yield judge(
        "Without the removal of cold paths, that of obvious paths gains next to nothing.",
        None if saved is None else saved <= 0.2,
        f"TPP(0,0) has {number(saved and 100 * saved)} % of TPP(5,15)'s reduction; rule: at most "
        "20 %",
        lambda: (
            "routines whose paths are all obvious from the start: PP and TPP(0,0) "
            + "; ".join(
                f"{name} {number(one)} % and {number(two)} %"
                for name, one, two in sorted(pairs(table, "pp", "t0"), key=lambda p: p[2] - p[1])[
                    :3
                ]
            )
        ),
    )
    yield untestable(
        "TPP takes 74 % longer than PP to analyse and instrument a routine.",
        "times of this implementation say nothing about the paper's",
    )


def _judge_95(table: Table) -> Iterator[Claim]:
    return judge_targeted(
        table, 0.65, "TPP(5,15) reduces the overhead of PP from 28 % to 14 %, about half."
    )


def _judge_2000(table: Table) -> Iterator[Claim]:
    return judge_targeted(
        table, 0.5, "TPP(5,15) reduces the overhead of PP from 37 % to 13 %, almost by two thirds."
    )


def _targeted_columns() -> tuple[Column, ...]:
    columns = [Column("program", "program"), Column("pp", "PP %", Form.PERCENT)]
    for key, title in TITLES.items():
        columns.append(Column(f"t{key}", f"{title} %", Form.PERCENT))
        columns.append(Column(f"a{key}", "AoDF %", Form.PERCENT))
    return (*columns, Column("t0", "TPP(0,0) %", Form.PERCENT))


TPP2 = TableSpec(
    "tpp2",
    "TPP table 2: targeted path profiling against PP (SPEC95)",
    f"{PAPER}, table 2",
    "Overhead in percent of base instructions, and attribution of definite flow (AoDF): the share "
    "of dynamic paths, weighted by their blocks, that the profile tells rightly. TPP(i,j): edges "
    "with less than i % of their source's flow are cold, loops entered by less than j % of their "
    "head's executions are disconnected. TPP(0,0): obvious paths only (not in the paper).",
    _targeted_columns(),
    {"pp": PP, **TPP, "t0": NO_COLD},
    targeted,
    _judge_95,
    notes=("Each program is guided by an edge profile of the same input, as in the paper.",),
    bars=Bars(("pp", "t1", "t5", "t10", "t515"), "overhead, % of base instructions"),
    compared=("pp", "t515", "a515"),
)
TPP3 = replace(
    TPP2,
    name="tpp3",
    title="TPP table 3: targeted path profiling against PP (SPEC2000)",
    source=f"{PAPER}, table 3",
    claims=_judge_2000,
    notes=(*TPP2.notes, "The programs are those of table 2: each suite here stands for both."),
)


# -- table 4, figures 3 and 9 ---------------------------------------------------------------------


def enumerated(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of TPP table 4: static paths enumerated, in thousands; TPP's in % of PP's."""

    def thousands(result: CellResult) -> float:
        return sum(row.num_paths or 0 for row in result.routines) / 1000

    base = thousands(found["pp"])
    values: list[Value] = [program.name, base]
    for key in THRESHOLDS:
        count = thousands(found[f"t{key}"])
        values += [count, percentage(count, base)]
    yield tuple(values)


def judge_enumerated(table: Table) -> Iterator[Claim]:
    """Judge section 5.1's claims about table 4."""
    left = table.values("s515")
    most, count = share_of(share < 1 for share in left)
    yield judge(
        "More than 99 % of static paths are removed in all but four of fifteen programs.",
        most >= 11 / 15 * count if left else None,
        f"{most} of {count} programs keep less than 1 % ({extremes(left, ' %')}); rule: 11 of 15",
        lambda: _few_paths(table),
    )
    tiny, _ = share_of(share < 0.01 for share in left)
    yield judge(
        "In eight of fifteen programs more than 99.99 % are removed.",
        tiny >= 8 / 15 * count if left else None,
        f"{tiny} of {count} programs keep less than 0.01 %; rule: 8 of 15",
        lambda: _few_paths(table),
    )


def _few_paths(table: Table) -> str:
    rows = sorted(pairs(table, "s515", "pp"), key=lambda each: -each[1])
    return (
        "cold edges are removed only where that makes a hash table an array, and these programs "
        "have few paths to begin with: kept of PP's thousands "
        + "; ".join(f"{name} {number(kept)} % of {number(base)}" for name, kept, base in rows[:3])
    )


def _enumerated_columns() -> tuple[Column, ...]:
    columns = [Column("program", "program"), Column("pp", "PP", Form.DECIMAL, average=False)]
    for key, title in TITLES.items():
        columns.append(Column(f"t{key}", title, Form.DECIMAL, average=False))
        columns.append(Column(f"s{key}", "of PP %", Form.PERCENT))
    return tuple(columns)


TPP4 = TableSpec(
    "tpp4",
    "TPP table 4: static paths of PP and TPP",
    f"{PAPER}, table 4",
    "Static paths that the plans enumerate, in thousands, in the routines that were entered; and "
    "TPP's in percent of PP's.",
    _enumerated_columns(),
    {"pp": PP, **TPP},
    enumerated,
    judge_enumerated,
    notes=("The paper sums over all routines that it instruments, entered or not.",),
    bars=Bars(("pp", "t1", "t5", "t10", "t515"), "static paths, thousands", logarithmic=True),
    compared=("pp", "t515"),
)


def obvious(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of TPP figure 3: executions of obvious paths, of all path executions.

    Self-loops, which have counters under PP and none under TPP, are obvious: the edge profile
    counts them.
    """
    inferred = found["t5"].counts.get("inferred_paths", 0) + found["pp"].counts["edge_increments"]
    counted = increments(found["t5"])
    yield program.name, inferred, counted, percentage(inferred, inferred + counted)


def judge_obvious(table: Table) -> Iterator[Claim]:
    """Judge section 2.2's claims about figure 3."""
    mean = table.mean("obvious")
    yield judge(
        "A large share of path executions are of obvious paths: about 25 % (INT) and 50 % (FP).",
        None if mean is None else mean >= 20,
        f"mean {number(mean)} % (INT {number(table.mean('obvious', 'INT'))} %, FP "
        f"{number(table.mean('obvious', 'FP'))} %); rule: at least 20 %",
        lambda: "most: " + top(table, "obvious", ("inferred", "counted")),
    )
    yield compare_groups(
        "Obvious paths are less frequent in integer than in FP programs.",
        table,
        "obvious",
        " %",
        lambda: "most: " + top(table, "obvious", ("inferred", "counted")),
        higher="FP",
    )


FIGURE3 = TableSpec(
    "tpp-fig3",
    "TPP figure 3: executions of obvious paths",
    f"{PAPER}, figure 3",
    "Executions of paths and self-loops known from the edge profile alone, and of paths with a "
    "counter, at "
    "thresholds of 5 %.",
    (
        Column("program", "program"),
        Column("inferred", "obvious", Form.COUNT, average=False),
        Column("counted", "counted", Form.COUNT, average=False),
        Column("obvious", "obvious %", Form.PERCENT),
    ),
    {"pp": PP, "t5": TPP["t5"]},
    obvious,
    judge_obvious,
    bars=Bars(("obvious",), "obvious path executions, %"),
    compared=("obvious",),
)


def hashed_routines(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of TPP figure 9: routines entered that need a hash table."""
    values: list[Value] = [program.name, len(found["pp"].routines)]
    for name in ("pp", "t1", "t5", "t10"):
        rows = found[name].routines
        values.append(percentage(sum(r.table is CounterTable.HASH for r in rows), len(rows)))
    yield tuple(values)


def judge_hashed_routines(table: Table) -> Iterator[Claim]:
    """Judge section 5.1's claims about figure 9, and EPP 5.3's about most routines."""
    shares = table.values("pp")
    yield judge(
        "Most routines have few paths and an array of counters (EPP 5.2).",
        max(shares) < 50 if shares else None,
        f"hash tables in {extremes(shares, ' %')} of the routines entered; rule: below 50 %",
        lambda: "most: " + top(table, "pp", ("routines",)),
    )
    reductions = {group: _reduction(table, group) for group in ("", "INT")}
    yield judge(
        "Hashed routines are reduced by two thirds on average.",
        None if reductions[""] is None else reductions[""] >= 60,
        f"TPP(5,5) has {number(reductions[''])} % fewer than PP; rule: at least 60 %"
        if reductions[""] is not None
        else "no program has a routine with a hash table under PP",
        lambda: "shares under PP: " + top(table, "pp", ("t1", "t5", "t10")),
    )
    yield judge(
        "For integer programs the reduction exceeds 80 %.",
        None if reductions["INT"] is None else reductions["INT"] > 80,
        f"{number(reductions['INT'])} %"
        if reductions["INT"] is not None
        else "no integer program has a routine with a hash table under PP",
        lambda: "shares under PP: " + top(table, "pp", ("t1", "t5", "t10")),
    )
    pp, one, ten = (table.mean(key) for key in ("pp", "t1", "t10"))
    gained = None if pp is None or one is None or ten is None else ratio(pp - one, pp - ten)
    yield judge(
        "Most of the benefit is there at the lowest threshold.",
        None if gained is None else gained >= 0.5,
        f"TPP(1,1) has {number(gained and 100 * gained)} % of TPP(10,10)'s reduction; rule: half"
        if gained is not None
        else "no program has a routine with a hash table under PP",
        lambda: "shares under PP: " + top(table, "pp", ("t1", "t5", "t10")),
    )


def _reduction(table: Table, group: str) -> float | None:
    """Percent by which the mean share of hashed routines falls from PP to TPP(5,5)."""
    before, after = table.mean("pp", group), table.mean("t5", group)
    return None if not before or after is None else 100 * (before - after) / before


FIGURE9 = TableSpec(
    "tpp-fig9",
    "TPP figure 9: routines that need hash tables",
    f"{PAPER}, figure 9",
    "Share of the routines entered whose counters are in a hash table.",
    (
        Column("program", "program"),
        Column("routines", "routines", Form.COUNT, average=False),
        Column("pp", "PP %", Form.PERCENT),
        Column("t1", "TPP(1,1) %", Form.PERCENT),
        Column("t5", "TPP(5,5) %", Form.PERCENT),
        Column("t10", "TPP(10,10) %", Form.PERCENT),
    ),
    {"pp": PP, **{key: TPP[key] for key in ("t1", "t5", "t10")}},
    hashed_routines,
    judge_hashed_routines,
    bars=Bars(("pp", "t1", "t5", "t10"), "routines with hash tables, %"),
)

TABLES = (TPP1, TPP2, TPP3, TPP4, FIGURE3, FIGURE9)
