"""TPP table 4, figures 3 and 9: static paths, obvious paths, hash tables (section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiler.experiments.cells.cells import CellResult
from profiler.experiments.tables.claims import (
    compare_groups,
    extremes,
    judge,
    number,
    pairs,
    share_of,
    top,
)
from profiler.experiments.tables.epp import PP, increments
from profiler.experiments.tables.spec import Found, Program, TableSpec
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
from profiler.experiments.tables.tpp import PAPER, THRESHOLDS, TITLES, TPP
from profiler.plan.plan import Table


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


def judge_enumerated(table: ReportTable) -> Iterator[Claim]:
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


def _few_paths(table: ReportTable) -> str:
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

    Turns of a self-loop are among the former where its loop is disconnected, since each ends an
    obvious path then, and else among the latter: the self-loop has a counter.
    """
    inferred = found["t5"].counts.get("inferred_paths", 0)
    counted = increments(found["t5"])
    yield program.name, inferred, counted, percentage(inferred, inferred + counted)


def judge_obvious(table: ReportTable) -> Iterator[Claim]:
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
    "Executions of paths known from the edge profile alone, and increments of counters of paths "
    "and self-loops, at thresholds of 5 %.",
    (
        Column("program", "program"),
        Column("inferred", "obvious", Form.COUNT, average=False),
        Column("counted", "counted", Form.COUNT, average=False),
        Column("obvious", "obvious %", Form.PERCENT),
    ),
    {"t5": TPP["t5"]},
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
        values.append(percentage(sum(r.table is Table.HASH for r in rows), len(rows)))
    yield tuple(values)


def judge_hashed_routines(table: ReportTable) -> Iterator[Claim]:
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


def _reduction(table: ReportTable, group: str) -> float | None:
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

TABLES = (TPP4, FIGURE3, FIGURE9)
