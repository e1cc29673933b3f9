"""KITER tables 3 and 4 (Roy and Srikant, "Profiling k-iteration paths", 2009, section 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from profiler.experiments.cells.cells import CellResult, Kind
from profiler.experiments.cells.settings import setting
from profiler.experiments.tables.claims import (
    ABOVE,
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
    programs,
    untestable,
    value,
    value_is,
)
from profiler.experiments.tables.epp import PP, increments, overhead
from profiler.experiments.tables.spec import Found, Need, Program, TableSpec
from profiler.experiments.tables.table import (
    Bars,
    Claim,
    Column,
    Form,
    ReportTable,
    Row,
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
NAMED = frozenset({"compress", "cl_hash", "writebytes", "output", "des", "ks", "cyfun"})
"""Routines of the paper's table 4."""

PLANS = {
    f"k{k}": Need(setting("kiter", iterations=k) if k > 1 else setting("pp"), kind=Kind.PLAN)
    for k in ITERATIONS
}
RUNS = {f"k{k}": Need(setting("kiter", iterations=k)) for k in (2, 3)}


# -- table 3 --------------------------------------------------------------------------------------


def instructions(result: CellResult) -> int:
    """Return the instructions of the instrumented run."""
    return result.base + result.added


def slowdowns(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of KITER table 3: the instrumented run's instructions by those under PP.

    Hashed: share of path increments through a hash table.
    """
    acyclic = found["pp"]
    yield (
        program.name,
        overhead(acyclic),
        *(ratio(instructions(found[key]), instructions(acyclic)) for key in RUNS),
        *(_hashed(found[key]) for key in ("pp", *RUNS)),
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
        which = "no" if not changed else "every"
        return untestable(text, f"{which} program changes to hash tables for k = 2 or 3")
    high, low = (fmean(factor for _, factor in part) for part in (changed, others))
    return judge(
        text,
        differs(
            ("mean factor where more paths are hashed than under PP", high),
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
    "Instructions of the run with k-iteration profiling by those of the run with acyclic "
    "profiling (PP). Hashed: share of path increments through a hash table.",
    (
        Column("program", "program"),
        Column("pp", "PP %", Form.PERCENT),
        Column("k2", "k = 2", Form.RATIO),
        Column("k3", "k = 3", Form.RATIO),
        Column("hash1", "PP hashed %", Form.PERCENT),
        Column("hash2", "k = 2 hashed %", Form.PERCENT),
        Column("hash3", "k = 3 hashed %", Form.PERCENT),
    ),
    {"pp": PP, **RUNS},
    slowdowns,
    judge_slowdowns,
    notes=(
        "The paper instruments C source without optimising placement, for k-iteration and for "
        "acyclic profiling alike; here both optimise it.",
    ),
    bars=Bars(("k2", "k3"), "times the instructions under PP", baseline=1.0),
    compared=("k2", "k3"),
)


# -- table 4 --------------------------------------------------------------------------------------


def static_paths(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return rows of KITER table 4: static paths by k of a program's routines.

    Shown are the paper's routines, and otherwise those with most paths for k = 2 among the
    routines whose loops make a difference.
    """
    counts: dict[tuple[int, str], list[int | None]] = {}
    for key in PLANS:
        for row in found[key].routines:
            counts.setdefault((row.address, row.name), []).append(row.num_paths)
    growing = {
        routine: paths
        for routine, paths in counts.items()
        if len(paths) == len(ITERATIONS) and paths[0] != paths[1]
    }
    chosen = [each for each in growing if each[1] in NAMED and _is_kernel(program)]
    if not chosen:
        chosen = sorted(growing, key=lambda each: (-(growing[each][1] or 0), each))
        chosen = chosen[:SHOWN_ROUTINES]
    for routine in chosen:
        yield (program.name, routine[1], *growing[routine])


def _is_kernel(program: Program) -> bool:
    return program.name in ("compress", "ndes")


def judge_static_paths(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6's claim about table 4 (and figure-free statement of growth)."""
    growing = [each for row in programs(table) if (each := _growth(table, row)) is not None]
    yield judge(
        "Static paths grow with every k.",
        count_of(growing, "routines", fraction(3, 4, len(growing))),
        absent="no routine has a loop",
    )
    factors = _factors(table, "k1", "k2")
    later = extremes(factor for _, factor in _factors(table, "k2", "k3"))
    yield judge(
        "They grow by a factor with each iteration (1.5-33 from k = 1 to 2, 1.5-7.5 to 3).",
        value_is(
            "mean factor from k = 1 to 2",
            fmean(factor for _, factor in factors) if factors else None,
            ABOVE,
            1.5,
            remark=f"{extremes(factor for _, factor in factors)}; from 2 to 3 {later}",
            parts=[member(name, factor, ABOVE, 1.5) for name, factor in factors],
        ),
        absent="no routine has a loop",
    )


def _growth(table: ReportTable, row: Row) -> Member | None:
    """Return whether a routine's paths grow with every k; None where a count is absent."""
    counts = [value(table, row, f"k{k}") for k in ITERATIONS]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None
    stuck = sum(low >= high for low, high in pairwise(known))
    keys = [f"k{k}" for k in ITERATIONS]
    return Member(_routine(row), beside(table, row, keys), not stuck, stuck)


def _factors(table: ReportTable, low: str, high: str) -> list[tuple[str, float]]:
    """Return by which factor the paths of each routine grow."""
    found = []
    for row in programs(table):
        one, two = value(table, row, low), value(table, row, high)
        if one and two is not None:
            found.append((_routine(row), two / one))
    return found


def _routine(row: Row) -> str:
    return f"{row.values[0]}, {row.values[1]}:"


TABLE4 = TableSpec(
    "kiter4",
    "KITER table 4: static paths by k",
    f"{PAPER}, table 4",
    "Static paths that the plan tells apart; BL: acyclic (PP). Only innermost loops are iterated "
    "(mixed mode, section 5). Of programs that the paper does not name, the "
    f"{SHOWN_ROUTINES} routines with most paths.",
    (
        Column("program", "program"),
        Column("routine", "routine"),
        *(
            Column(f"k{k}", "BL" if k == 1 else f"k = {k}", Form.COUNT, average=False)
            for k in ITERATIONS
        ),
    ),
    PLANS,
    static_paths,
    judge_static_paths,
    notes=(
        "The paper gives up beyond 60,000 paths; simprof counts on, and lowers k for a loop where "
        "the path limit asks for it.",
    ),
    averaged=False,
)

TABLES = (TABLE3, TABLE4)
