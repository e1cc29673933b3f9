"""KITER tables 3 and 4 (Roy and Srikant, "Profiling k-iteration paths", 2009, section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from simprof.profiler.experiments.cells.cells import CellKind, CellResult, RoutineRow
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns, conditions
from simprof.profiler.experiments.tables.claims import Judge, Rule, rule
from simprof.profiler.experiments.tables.columns import (
    PROGRAM,
    ColumnSpec,
    Found,
    Quantity,
    ResultOf,
)
from simprof.profiler.experiments.tables.conditions import (
    Between,
    Condition,
    Member,
    Whose,
    above,
    at_most,
    below,
    number,
    papers,
)
from simprof.profiler.experiments.tables.spec import CellNeed, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    ReportTable,
    TableRow,
    program_key,
    published,
)

PAPER = (
    "S. Roy and Y. N. Srikant, Profiling k-iteration paths: a generalization of the Ball-Larus "
    "profiling algorithm, CGO 2009"
)
PP = CellNeed(setting("pp"))
PATH_LIMIT = 60_000  # The paper gives up on routines with more paths (KITER 6)
# Routines with loops of the run-time that the kernels of `wcet` are linked with. Compiled with -g
# as the kernels are, it would pass for theirs; it stands for their C library.
RUNTIME = frozenset(
    (
        "exact_digits flush_output memcmp memset parse_number print put_char "
        "put_integer put_padded round_digits strlen"
    ).split()
)


def own_routines(result: CellResult) -> list[RoutineRow]:
    """Return the program's own routines: the paper instruments C source, and no library."""
    found = columns.own_routines(result)
    return [row for row in found if row.name.partition(".")[0] not in RUNTIME]


# -- table 3 --------------------------------------------------------------------------------------

# Paths beyond which the paper's profilers, acyclic and k-iteration, use hash tables (KITER 6).
HASH_ABOVE = 6_000
RUNS = {
    f"k{k}": CellNeed(setting("kiter", iterations=k, unoptimised=True, hash_above=HASH_ABOVE))
    for k in (1, 2, 3)
}
OPTIMISED = {f"o{k}": CellNeed(setting("kiter", iterations=k)) for k in (2, 3)}


def _slowdown(need: str, title: str, base: str) -> ColumnSpec[Found]:
    return columns.factor(need, title, ResultOf(need).instructions / ResultOf(base).instructions)


def _most_at_most_twice(k: int, paper: str) -> Rule:
    return rule(
        f"For most programs {k}-iteration profiling costs little more than acyclic profiling "
        f"({paper} below twice).",
        claims.count_is(
            "programs take at most 2 times as many instructions",
            claims.most,
            claims.column(f"k{k}", others=("hash1", f"hash{k}")),
            papers(at_most(2)),
        ),
    )


def _hashing_slows(table: ReportTable) -> Claim:
    text = "Large slowdowns come with the change from arrays to hash tables."
    changed: list[claims.ProgramNumber] = []
    others: list[claims.ProgramNumber] = []
    for row in table.judged:
        before = claims.value(table, row, "hash1") or 0
        for k in (2, 3):
            slowdown = claims.value(table, row, f"k{k}")
            after = claims.value(table, row, f"hash{k}") or 0
            if slowdown is not None:
                name = str(row.values[0])
                part = claims.ProgramNumber(f"{name} (k = {k})", slowdown, program=name)
                (changed if after > before + 1 else others).append(part)
    if not changed or not others:
        which = "no" if not changed else "only"
        return claims.judge(
            text, absent=f"the table has {which} programs that change to hash tables for k = 2 or 3"
        )
    high, low = (fmean(part.value for part in parts) for parts in (changed, others))
    return claims.judge(
        text,
        claims.differs(
            ("mean factor where more paths are hashed than for k = 1", high),
            above,
            ("elsewhere", low),
            parts=(*claims.members(changed, above(low)), *claims.members(others, below(high))),
        ),
    )


def _most_paths(result: CellResult) -> int | None:
    known = (each.untruncated_paths for each in own_routines(result))
    return max((paths for paths in known if paths is not None), default=None)


def _gives_up(table: ReportTable) -> Condition | None:
    """Require that a kernel is beyond the limit just where the paper prints no number."""
    theirs = published("kiter3")
    if theirs is None:
        return None
    gave_up = {
        program_key(str(row.values[0])): claims.value(theirs, row, "k3") is None
        for row in theirs.rows
    }
    made = []
    for row in table.judged:
        paths, expected = claims.value(table, row, "most3"), gave_up.get(program_key(row.program))
        if paths is not None and expected is not None:
            text = f"{number(paths)} paths, where the paper's is {'above' if expected else 'below'}"
            keeps, far = (paths > PATH_LIMIT) == expected, abs(paths - PATH_LIMIT)
            made.append(Member(str(row.values[0]), text, keeps, far))
    return conditions.count_of(made, "kernels are as the paper's", len(made))


TABLE3 = TableSpec[Found](
    "kiter3",
    "KITER table 3: slowdown of k-iteration against acyclic path profiling",
    f"{PAPER}, table 3",
    "BL, k = 2, k = 3: as the paper measures, with every edge's value added on that edge and hash "
    f"tables for routines of more than {HASH_ABOVE:,} paths. BL: overhead for k = 1. k = 2, 3: "
    "instructions of the run by those for k = 1. Hashed: share of increments through a hash table. "
    "PP and the last columns: the same with optimised placement and tables chosen by the "
    "increments (EPP 3.3, 5.2), by those under PP. Most paths: static ones for k = 3 of the "
    "program's own routine that has most of those entered.",
    {"pp": PP, **RUNS, **OPTIMISED},
    (
        PROGRAM,
        columns.of_overhead("k1", "BL %", key="bl"),
        _slowdown("k2", "k = 2", "k1"),
        _slowdown("k3", "k = 3", "k1"),
        columns.percent("hash1", "BL hashed %", ResultOf("k1").hashed),
        columns.percent("hash2", "k = 2 hashed %", ResultOf("k2").hashed),
        columns.percent("hash3", "k = 3 hashed %", ResultOf("k3").hashed),
        columns.of_overhead("pp", "PP %"),
        _slowdown("o2", "k = 2 optimised", "pp"),
        _slowdown("o3", "k = 3 optimised", "pp"),
        columns.total("most3", "most paths, k = 3", ResultOf("k3").of(_most_paths)),
    ),
    (
        _most_at_most_twice(2, "8 of 9"),
        _most_at_most_twice(3, "6 of 8"),
        _hashing_slows,
        rule(
            f"For k = 3 ndes has a routine of more than {PATH_LIMIT:,} paths, on which the paper's "
            "numbering gives up, and no other kernel has.",
            _gives_up,
            absent="the table has none of the paper's kernels",
        ),
    ),
    notes=(
        "The paper instruments C source and measures times. Here the register is still set on the "
        "edges from ENTRY, and the last value added where the path is counted, not before it.",
    ),
    bars=Bars(("k2", "k3"), "times the instructions for k = 1", baseline=1.0),
    compared=("k2", "k3"),
    originals="kiter3",
)


# -- table 4 --------------------------------------------------------------------------------------

ITERATIONS = (1, 2, 3, 4, 5)
SHOWN_ROUTINES = 4
# Routines of the paper's table 4, which are those of two of its programs.
NAMED = frozenset({"compress", "cl_hash", "writebytes", "output", "des", "ks", "cyfun"})
NAMED_OF = ("compress", "ndes")
NO_LOOPS = "the table has no routine with a loop"
PLANS = {
    f"k{k}": CellNeed(
        setting("kiter", iterations=k) if k > 1 else setting("pp"), kind=CellKind.PLAN
    )
    for k in ITERATIONS
}


class _StaticPaths(NamedTuple):
    address: int
    name: str
    paths: tuple[int, ...]  # Static paths by k
    own: bool  # Whether it is the program's, and no library's


def _routines(program: SuiteMember, found: Found) -> list[_StaticPaths]:
    """Return the paper's routines, and otherwise the program's own with most paths for k = 2.

    These are among the routines whose loops make a difference and that have at most `PATH_LIMIT`
    acyclic paths. Beside them stands that of its libraries with most.
    """
    usable = [each for each in _growing(found) if each.paths[0] <= PATH_LIMIT]
    usable.sort(key=lambda each: (-each.paths[1], each))
    own = [each for each in usable if each.own]
    named = [each for each in own if each.name in NAMED and program.name in NAMED_OF]
    library = [each for each in usable if not each.own]
    return [*(named or own[:SHOWN_ROUTINES]), *library[:1]]


def _growing(found: Found) -> Iterator[_StaticPaths]:
    """Yield the routines whose paths differ by k, of those that have numbers for all k."""
    counts: dict[tuple[int, str], list[int]] = {}
    own = {(row.address, row.name) for row in own_routines(found["k1"])}
    for need in PLANS:
        for row in found[need].routines:
            if row.untruncated_paths is not None:
                counts.setdefault((row.address, row.name), []).append(row.untruncated_paths)
    for routine, paths in counts.items():
        if len(paths) == len(ITERATIONS) and len(set(paths)) > 1:
            yield _StaticPaths(*routine, tuple(paths), routine in own)


def _paths(k: int) -> Quantity[_StaticPaths]:
    return Quantity(lambda routine: routine.paths[k - 1])


def _once(table: ReportTable) -> list[TableRow]:
    """Return the rows of the table, each routine once, though several programs have it."""
    first = {row.values[1:]: row for row in reversed(table.judged)}
    return [row for row in table.judged if row in first.values()]


def _title(row: TableRow) -> str:
    return f"{row.values[0]}, {row.values[1]}:"


def _all_grow(table: ReportTable) -> Condition | None:
    keys = [f"k{k}" for k in ITERATIONS]
    made = []
    for row in _once(table):
        counts = [claims.value(table, row, key) or 0 for key in keys]
        stuck = sum(low >= high for low, high in pairwise(counts))
        text = claims.beside(table, row, keys)
        made.append(Member(_title(row), text, not stuck, stuck, str(row.values[0])))
    return conditions.count_of(made, "routines", claims.fraction(3, 4)(len(made)), whose=Whose.OURS)


def _grows(k: int) -> Judge:
    """Return what judges the growth from k - 1 to k by that of the paper's routines."""

    def judged(table: ReportTable) -> Claim:
        printed = published("kiter4")
        counts = [] if printed is None else claims.pairs(printed, f"k{k - 1}", f"k{k}")
        theirs = [after / before for _, before, after in counts if before]
        parts = [
            claims.ProgramNumber(
                _title(row), claims.value(table, row, f"g{k}") or 0.0, program=str(row.values[0])
            )
            for row in _once(table)
        ]
        values = [part.value for part in parts]
        text = f"From k = {k - 1} to {k} they grow by a factor ({conditions.extremes(theirs)})."
        if not theirs or not parts:
            return claims.judge(text, absent=NO_LOOPS)
        limit = papers(Between(min(theirs), max(theirs)))
        return claims.judge(
            text,
            conditions.value_is(
                "median",
                median(values),
                limit,
                remark=conditions.extremes(values),
                parts=claims.members(parts, limit),
            ),
        )

    return judged


TABLE4 = TableSpec[_StaticPaths](
    "kiter4",
    "KITER table 4: static paths by k",
    f"{PAPER}, table 4",
    "Static paths before truncation; BL: acyclic (PP). Only innermost loops are iterated (mixed "
    "mode, section 5). Growth: paths for k by those for k - 1. Of programs that the paper does not "
    f"name, the {SHOWN_ROUTINES} own routines with most paths for k = 2 of those with at most "
    f"{PATH_LIMIT:,} acyclic paths, whether they were run or not. The paper instruments C source: "
    "the routine of the libraries that has most stands beside them, and is not judged.",
    PLANS,
    (
        PROGRAM,
        ColumnSpec("routine", "routine", value=lambda routine: routine.name),
        ColumnSpec(
            "of", "of", value=lambda routine: "the program" if routine.own else "its library"
        ),
        *(columns.total(f"k{k}", "BL" if k == 1 else f"k = {k}", _paths(k)) for k in ITERATIONS),
        *(
            columns.factor(f"g{k}", f"{k - 1} to {k}", _paths(k) / _paths(k - 1))
            for k in ITERATIONS[1:]
        ),
    ),
    (
        rule("Static paths grow with every k.", _all_grow, absent=NO_LOOPS),
        *map(_grows, ITERATIONS[1:]),
    ),
    notes=(
        f"The paper gives up on a routine beyond {PATH_LIMIT:,} paths and prints no number for it; "
        "here all numbers are exact, and no k is lowered for the path limit.",
    ),
    compared=tuple(f"k{k}" for k in ITERATIONS),
    rows=_routines,
    judges=lambda routine: routine.own,
    averaged=False,
)

TABLES = (TABLE3, TABLE4)
