"""TPP tables 1 to 3 (Joshi, Bond and Zilles, "Targeted Path Profiling", 2004)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from profiler.experiments.cells.cells import CellResult
from profiler.experiments.cells.settings import setting
from profiler.experiments.tables.claims import (
    NO_GROUPS,
    bottom,
    extremes,
    group_means,
    judge,
    number,
    pairs,
    share_of,
    top,
    untestable,
)
from profiler.experiments.tables.epp import PP, increments, overhead
from profiler.experiments.tables.spec import Found, Need, Program, TableSpec
from profiler.experiments.tables.table import (
    Bars,
    Claim,
    Column,
    Form,
    ReportTable,
    Value,
    percentage,
    ratio,
)
from profiler.plan.plan import Table

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
        for kind in (Table.ARRAY, Table.HASH)
    }
    added = {kind: sum(row.added for row in rows) for kind, rows in parts.items()}
    paths = {kind: sum(map(increments, rows)) for kind, rows in parts.items()}
    array, hashed = Table.ARRAY, Table.HASH
    cost = ratio(ratio(added[hashed], paths[hashed]), ratio(added[array], paths[array]))
    yield (
        program.name,
        overhead(pp),
        percentage(added[array], pp.base),
        percentage(added[hashed], pp.base),
        percentage(paths[hashed], paths[array] + paths[hashed]),
        cost,
    )


def judge_counter_kinds(table: ReportTable) -> Iterator[Claim]:
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


def judge_targeted(table: ReportTable, part: float, told: str) -> Iterator[Claim]:
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


def _unreduced(table: ReportTable) -> str:
    rest = sorted(pairs(table, "t515", "pp"), key=lambda each: each[1] - each[2], reverse=True)
    return "least reduced: " + "; ".join(
        f"{name} {number(cost)} % of {number(before)} %" for name, cost, before in rest[:3]
    )


def _judge_thresholds(table: ReportTable) -> Iterator[Claim]:
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


def _judge_parts(table: ReportTable) -> Iterator[Claim]:
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


def _judge_95(table: ReportTable) -> Iterator[Claim]:
    return judge_targeted(
        table, 0.65, "TPP(5,15) reduces the overhead of PP from 28 % to 14 %, about half."
    )


def _judge_2000(table: ReportTable) -> Iterator[Claim]:
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

TABLES = (TPP1, TPP2, TPP3)
