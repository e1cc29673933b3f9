"""KITER tables 3 and 4 (Roy and Srikant, "Profiling k-iteration paths", 2009, section 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from simprof.profiler.experiments.cells.cells import CellKind, CellResult
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    BELOW,
    Member,
    beside,
    count_of,
    differs,
    extremes,
    fraction,
    judge,
    member,
    members,
    most,
    pairs,
    programs,
    untestable,
    value,
    value_is,
)
from simprof.profiler.experiments.tables.epp import PP, increments, overhead
from simprof.profiler.experiments.tables.spec import CellNeed, Found, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    Form,
    ReportTable,
    TableColumn,
    TableRow,
    Value,
    percentage,
    ratio,
)

PAPER = (
    "S. Roy and Y. N. Srikant, Profiling k-iteration paths: a generalization of the Ball-Larus "
    "profiling algorithm, CGO 2009"
)
ITERATIONS = (1, 2, 3, 4, 5)
SHOWN_ROUTINES = 4
PATH_LIMIT = 60_000
"""The paper gives up on routines with more paths (KITER 6)."""
NAMED = frozenset({"compress", "cl_hash", "writebytes", "output", "des", "ks", "cyfun"})
"""Routines of the paper's table 4."""

PLANS = {
    f"k{k}": CellNeed(
        setting("kiter", iterations=k) if k > 1 else setting("pp"), kind=CellKind.PLAN
    )
    for k in ITERATIONS
}
NO_LOOPS = "the table has no routine with a loop"
HASH_ABOVE = 6_000
"""Paths beyond which the paper's profilers, acyclic and k-iteration, use hash tables (KITER 6)."""


def _as_the_paper(k: int) -> CellNeed:
    return CellNeed(setting("kiter", iterations=k, unoptimised=True, hash_above=HASH_ABOVE))


RUNS = {f"k{k}": _as_the_paper(k) for k in (1, 2, 3)}
"""As the paper measures: nothing is optimised, and tables go by numbers of paths."""
OPTIMISED = {f"o{k}": CellNeed(setting("kiter", iterations=k)) for k in (2, 3)}


# -- table 3 --------------------------------------------------------------------------------------


def instructions(result: CellResult) -> int:
    """Return the instructions of the instrumented run."""
    return result.base + result.added


def slowdowns(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of KITER table 3: instructions of the instrumented run by those for k = 1.

    Hashed: share of path increments through a hash table.
    """
    plain, pp = found["k1"], found["pp"]
    yield (
        program.name,
        overhead(plain),
        *(ratio(instructions(found[key]), instructions(plain)) for key in ("k2", "k3")),
        *(_hashed(found[key]) for key in RUNS),
        overhead(pp),
        *(ratio(instructions(found[key]), instructions(pp)) for key in OPTIMISED),
    )


def _hashed(result: CellResult) -> float | None:
    return percentage(result.counts["hashed_increments"], increments(result))


def judge_slowdowns(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6's claims about table 3."""
    for key, k, published in (("k2", 2, "8 of 9"), ("k3", 3, "6 of 8")):
        parts = members(table, key, AT_MOST, 2, others=("hash1", f"hash{k}"))
        yield judge(
            f"For most programs {k}-iteration profiling costs little more than acyclic profiling "
            f"({published} below twice).",
            count_of(
                parts,
                "programs take at most 2 times as many instructions",
                most(len(parts)),
                extremes(table.values(key), bound=2),
            ),
        )
    yield _judge_hashing(table)
    yield untestable(
        "Numbering gives up on routines with more than 60,000 paths (ndes, k = 3).",
        "simprof lowers k for such loops instead of giving up, and reports what it did",
    )


def _judge_hashing(table: ReportTable) -> Claim:
    text = "Large slowdowns come with the change from arrays to hash tables."
    changed: list[tuple[str, float]] = []
    others: list[tuple[str, float]] = []
    for row in programs(table):
        before = value(table, row, "hash1") or 0
        for key in ("k2", "k3"):
            factor = value(table, row, key)
            after = value(table, row, f"hash{key[1:]}") or 0
            if factor is not None:
                named = f"{row.values[0]} (k = {key[1:]})", factor
                (changed if after > before + 1 else others).append(named)
    if not changed or not others:
        which = "no" if not changed else "only"
        return untestable(
            text, f"the table has {which} programs that change to hash tables for k = 2 or 3"
        )
    high, low = (fmean(factor for _, factor in part) for part in (changed, others))
    return judge(
        text,
        differs(
            ("mean factor where more paths are hashed than for k = 1", high),
            ABOVE,
            ("elsewhere", low),
            parts=[
                *(member(name, factor, ABOVE, low) for name, factor in changed),
                *(member(name, factor, BELOW, high) for name, factor in others),
            ],
        ),
    )


TABLE3 = TableSpec(
    "kiter3",
    "KITER table 3: slowdown of k-iteration against acyclic path profiling",
    f"{PAPER}, table 3",
    "BL, k = 2, k = 3: as the paper measures, with every edge's value added on that edge and hash "
    f"tables for routines of more than {HASH_ABOVE:,} paths. BL: overhead for k = 1. k = 2, 3: "
    "instructions of the run by those for k = 1. Hashed: share of increments through a hash table. "
    "PP and the last columns: the same with optimised placement and tables chosen by the "
    "increments (EPP 3.3, 5.2), by those under PP.",
    (
        TableColumn("program", "program"),
        TableColumn("bl", "BL %", Form.PERCENT),
        TableColumn("k2", "k = 2", Form.RATIO),
        TableColumn("k3", "k = 3", Form.RATIO),
        TableColumn("hash1", "BL hashed %", Form.PERCENT),
        TableColumn("hash2", "k = 2 hashed %", Form.PERCENT),
        TableColumn("hash3", "k = 3 hashed %", Form.PERCENT),
        TableColumn("pp", "PP %", Form.PERCENT),
        TableColumn("o2", "k = 2 optimised", Form.RATIO),
        TableColumn("o3", "k = 3 optimised", Form.RATIO),
    ),
    {"pp": PP, **RUNS, **OPTIMISED},
    slowdowns,
    judge_slowdowns,
    notes=(
        "The paper instruments C source and measures times. Here the register is still set on the "
        "edges from ENTRY, and the last value added where the path is counted, not before it.",
    ),
    bars=Bars(("k2", "k3"), "times the instructions for k = 1", baseline=1.0),
    compared=("k2", "k3"),
)


# -- table 4 --------------------------------------------------------------------------------------


def static_paths(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return rows of KITER table 4: static paths by k of a program's routines, and their growth.

    Shown are the paper's routines, and otherwise those with most paths for k = 2 among the
    routines whose loops make a difference and that have at most `PATH_LIMIT` acyclic paths.
    """
    for name, paths in _chosen(program, _counts(found)):
        factors = (ratio(after, before) for before, after in pairwise(paths))
        yield (program.name, name, *paths, *factors)


def _counts(found: Found) -> dict[tuple[int, str], list[int]]:
    """Return the paths by k, for all k, of the routines for which they differ."""
    counts: dict[tuple[int, str], list[int]] = {}
    for key in PLANS:
        for row in found[key].routines:
            if row.untruncated_paths is not None:
                counts.setdefault((row.address, row.name), []).append(row.untruncated_paths)
    return {
        routine: paths
        for routine, paths in counts.items()
        if len(paths) == len(ITERATIONS) and len(set(paths)) > 1
    }


def _chosen(
    program: SuiteMember, growing: dict[tuple[int, str], list[int]]
) -> list[tuple[str, list[int]]]:
    usable = [each for each in growing if growing[each][0] <= PATH_LIMIT]
    chosen = [each for each in usable if each[1] in NAMED and _is_kernel(program)]
    if not chosen:
        chosen = sorted(usable, key=lambda each: (-growing[each][1], each))[:SHOWN_ROUTINES]
    return [(routine[1], growing[routine]) for routine in chosen]


def _is_kernel(program: SuiteMember) -> bool:
    return program.name in ("compress", "ndes")


def judge_static_paths(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6's claim about table 4 (and figure-free statement of growth)."""
    routines = _once(table)
    growing = [_growth(table, row) for row in routines]
    yield judge(
        "Static paths grow with every k.",
        count_of(growing, "routines", fraction(3, 4, len(growing))),
        absent=NO_LOOPS,
    )
    for k in ITERATIONS[1:]:
        yield _judge_growth(table, routines, k)


def _once(table: ReportTable) -> list[TableRow]:
    """Return the rows of the table, each routine once, though several programs have it."""
    first = {row.values[1:]: row for row in reversed(programs(table))}
    return [row for row in programs(table) if row in first.values()]


def _growth(table: ReportTable, row: TableRow) -> Member:
    """Return whether a routine's paths grow with every k."""
    keys = [f"k{k}" for k in ITERATIONS]
    counts = [value(table, row, key) or 0 for key in keys]
    stuck = sum(low >= high for low, high in pairwise(counts))
    return Member(_routine(row), beside(table, row, keys), not stuck, stuck)


def _judge_growth(table: ReportTable, routines: Sequence[TableRow], k: int) -> Claim:
    """Judge the growth from k - 1 to k by the least of the paper's routines."""
    ours = [(_routine(row), value(table, row, f"g{k}") or 0.0) for row in routines]
    factors = [factor for _, factor in ours]
    theirs = _factors(table.published, k)
    least = min(theirs, default=1.0)
    return judge(
        f"From k = {k - 1} to {k} they grow by a factor ({extremes(theirs)}).",
        value_is(
            "median",
            median(factors) if factors else None,
            AT_LEAST,
            least,
            remark=extremes(factors, bound=least),
            parts=[member(name, factor, AT_LEAST, least) for name, factor in ours],
        ),
        absent=NO_LOOPS,
    )


def _factors(table: ReportTable | None, k: int) -> list[float]:
    if table is None:
        return []
    counts = pairs(table, f"k{k - 1}", f"k{k}")
    return [after / before for _, before, after in counts if before]


def _routine(row: TableRow) -> str:
    return f"{row.values[0]}, {row.values[1]}:"


TABLE4 = TableSpec(
    "kiter4",
    "KITER table 4: static paths by k",
    f"{PAPER}, table 4",
    "Static paths before truncation; BL: acyclic (PP). Only innermost loops are iterated (mixed "
    "mode, section 5). Growth: paths for k by those for k - 1. Of programs that the paper does not "
    f"name, the {SHOWN_ROUTINES} routines with most paths for k = 2 of those with at most "
    f"{PATH_LIMIT:,} acyclic paths, whether they were run or not.",
    (
        TableColumn("program", "program"),
        TableColumn("routine", "routine"),
        *(
            TableColumn(f"k{k}", "BL" if k == 1 else f"k = {k}", Form.COUNT, average=False)
            for k in ITERATIONS
        ),
        *(TableColumn(f"g{k}", f"{k - 1} to {k}", Form.RATIO) for k in ITERATIONS[1:]),
    ),
    PLANS,
    static_paths,
    judge_static_paths,
    notes=(
        f"The paper gives up on a routine beyond {PATH_LIMIT:,} paths and prints no number for it; "
        "here all numbers are exact, and no k is lowered for the path limit.",
    ),
    averaged=False,
)

TABLES = (TABLE3, TABLE4)
