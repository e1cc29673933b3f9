"""TPP table 4, figures 3 and 9: static paths, obvious paths, hash tables (section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simprof.profiler.experiments.cells.cells import CellResult
from simprof.profiler.experiments.tables.claims import (
    ABOVE,
    AT_LEAST,
    BELOW,
    Condition,
    Relation,
    compare_groups,
    count_of,
    each_is,
    extremes,
    fraction,
    judge,
    mean_is,
    member,
    members,
    number,
    pairs,
    value_is,
)
from simprof.profiler.experiments.tables.epp import increments
from simprof.profiler.experiments.tables.spec import Found, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    Form,
    ReportTable,
    TableColumn,
    Value,
    percentage,
)
from simprof.profiler.experiments.tables.tpp import PAPER, PP, THRESHOLDS, TITLES, TPP
from simprof.profiler.plan.plan import CounterTable


def enumerated(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
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
    for text, bound, needed in (
        (
            "More than 99 % of static paths are removed in all but four of fifteen programs.",
            1.0,
            11,
        ),
        ("In eight of fifteen programs more than 99.99 % are removed.", 0.01, 8),
    ):
        yield judge(
            text,
            count_of(
                members(table, "s515", BELOW, bound, " %", others=("pp", "t515")),
                f"programs keep less than {number(bound)} %",
                fraction(needed, 15, len(left)),
                extremes(left, " %", bound),
            ),
        )


def _enumerated_columns() -> tuple[TableColumn, ...]:
    columns = [
        TableColumn("program", "program"),
        TableColumn("pp", "PP", Form.DECIMAL, average=False),
    ]
    for key, title in TITLES.items():
        columns.append(TableColumn(f"t{key}", title, Form.DECIMAL, average=False))
        columns.append(TableColumn(f"s{key}", "of PP %", Form.PERCENT))
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
    notes=(
        "The paper sums over all routines that it instruments, entered or not.",
        "Both tools truncate routines at 10,000,000 paths, as the paper's do: a routine counts for "
        "at most so many, however many it has (table tpp4-whole).",
    ),
    bars=Bars(("pp", "t1", "t5", "t10", "t515"), "static paths, thousands", logarithmic=True),
    compared=("pp", "t515"),
)


# -- table 4 without truncation -------------------------------------------------------------------


def untruncated(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of path numbers before truncation: sums, and the most of one routine."""
    numbers = [_untruncated(found[key]) for key in ("pp", *TPP)]
    yield (program.name, max(numbers[0], default=0), *map(sum, numbers))


def _untruncated(result: CellResult) -> list[int]:
    return [row.untruncated_paths or 0 for row in result.routines]


BEYOND = 2**64


def judge_untruncated(table: ReportTable) -> Iterator[Claim]:
    """Judge what section 4.1 says of path numbers before truncation."""
    yield judge(
        "In some routines the number of acyclic paths exceeds 2^64 (18,446,744,073,709,551,616).",
        count_of(members(table, "most", ABOVE, BEYOND), "programs have such a routine", 1),
    )


TPP4_WHOLE = TableSpec(
    "tpp4-whole",
    "TPP table 4 before truncation",
    f"{PAPER}, section 4.1 and table 4",
    "Static paths of the routines that were entered, as the plans would enumerate them without a "
    "path limit; most: of one routine under PP.",
    (
        TableColumn("program", "program"),
        TableColumn("most", "most of a routine", Form.COUNT, average=False),
        TableColumn("pp", "PP", Form.COUNT, average=False),
        *(
            TableColumn(f"t{key}", title, Form.COUNT, average=False)
            for key, title in TITLES.items()
        ),
    ),
    {"pp": PP, **TPP},
    untruncated,
    judge_untruncated,
    notes=(
        "Disconnecting a loop adds paths where it ends them. Where TPP leaves no cold edges out, "
        "because an array does, it has as many paths as PP, or a few more.",
    ),
)


def obvious(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of TPP figure 3: executions of obvious paths, of all path executions.

    Turns of a self-loop are among the former where its loop is disconnected, since each ends an
    obvious path then, and else among the latter: the self-loop has a counter.
    """
    inferred = found["t5"].counts.get("inferred_paths", 0)
    counted = increments(found["t5"])
    yield program.name, inferred, counted, percentage(inferred, inferred + counted)


def judge_obvious(table: ReportTable) -> Iterator[Claim]:
    """Judge section 2.2's claims about figure 3."""
    yield judge(
        "A large share of path executions are of obvious paths: about 25 % (INT) and 50 % (FP).",
        mean_is(table, "obvious", AT_LEAST, 20, " %", others=("inferred", "counted")),
    )
    yield compare_groups(
        "Obvious paths are less frequent in integer than in FP programs.",
        table,
        "obvious",
        " %",
        higher="FP",
    )


FIGURE3 = TableSpec(
    "tpp-fig3",
    "TPP figure 3: executions of obvious paths",
    f"{PAPER}, figure 3",
    "Executions of paths known from the edge profile alone, and increments of counters of paths "
    "and self-loops, at thresholds of 5 %.",
    (
        TableColumn("program", "program"),
        TableColumn("inferred", "obvious", Form.COUNT, average=False),
        TableColumn("counted", "counted", Form.COUNT, average=False),
        TableColumn("obvious", "obvious %", Form.PERCENT),
    ),
    {"t5": TPP["t5"]},
    obvious,
    judge_obvious,
    bars=Bars(("obvious",), "obvious path executions, %"),
    compared=("obvious",),
)


def hashed_routines(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of TPP figure 9: routines entered that need a hash table."""
    values: list[Value] = [program.name, len(found["pp"].routines)]
    for name in ("pp", "t1", "t5", "t10"):
        rows = found[name].routines
        values.append(percentage(sum(r.table is CounterTable.HASH for r in rows), len(rows)))
    yield tuple(values)


def judge_hashed_routines(table: ReportTable) -> Iterator[Claim]:
    """Judge section 5.1's claims about figure 9, and EPP 5.3's about most routines."""
    yield judge(
        "Most routines have few paths and an array of counters (EPP 5.2).",
        each_is(table, "pp", BELOW, 50, " %", what="share of the routines with hash tables:"),
    )
    yield judge(
        "Hashed routines are reduced by two thirds on average.",
        _reduction(table, "", AT_LEAST, 60),
        absent=NOTHING_HASHED,
    )
    yield judge(
        "For integer programs the reduction exceeds 80 %.",
        _reduction(table, "INT", ABOVE, 80),
        absent=NOTHING_HASHED,
    )
    pp, one, ten = (table.mean(key) for key in ("pp", "t1", "t10"))
    gained = None if pp is None or one is None or ten is None else percentage(pp - one, pp - ten)
    yield judge(
        "Most of the benefit is there at the lowest threshold.",
        value_is(
            "TPP(1,1)'s part of TPP(10,10)'s reduction",
            gained,
            AT_LEAST,
            50,
            " %",
            remark=f"means: PP {number(pp)} %, TPP(1,1) {number(one)} %, TPP(10,10) "
            f"{number(ten)} %",
        ),
        absent=NOTHING_HASHED,
    )


def _reduction(
    table: ReportTable, group: str, relation: Relation, bound: float
) -> Condition | None:
    """Bound the percent by which the mean share of hashed routines falls from PP to TPP(5,5)."""
    before, after = table.mean("pp", group), table.mean("t5", group)
    return value_is(
        "reduction from PP to TPP(5,5)",
        None if before is None or after is None else percentage(before - after, before),
        relation,
        bound,
        " %",
        remark=f"mean shares {number(before)} % and {number(after)} %",
        parts=[
            member(
                name,
                100 * (one - two) / one,
                relation,
                bound,
                " %",
                f"{number(one)} % to {number(two)} %",
            )
            for name, one, two in pairs(table, "pp", "t5", group)
            if one
        ],
    )


NOTHING_HASHED = "the table has no such program with hash tables under PP"
FIGURE9 = TableSpec(
    "tpp-fig9",
    "TPP figure 9: routines that need hash tables",
    f"{PAPER}, figure 9",
    "Share of the routines entered whose counters are in a hash table.",
    (
        TableColumn("program", "program"),
        TableColumn("routines", "routines", Form.COUNT, average=False),
        TableColumn("pp", "PP %", Form.PERCENT),
        TableColumn("t1", "TPP(1,1) %", Form.PERCENT),
        TableColumn("t5", "TPP(5,5) %", Form.PERCENT),
        TableColumn("t10", "TPP(10,10) %", Form.PERCENT),
    ),
    {"pp": PP, **{key: TPP[key] for key in ("t1", "t5", "t10")}},
    hashed_routines,
    judge_hashed_routines,
    bars=Bars(("pp", "t1", "t5", "t10"), "routines with hash tables, %"),
)

TABLES = (TPP4, TPP4_WHOLE, FIGURE3, FIGURE9)
