"""KITER tables 3 and 4 (Roy and Srikant, "Profiling k-iteration paths", 2009, section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import NamedTuple

from simprof.profiler.experiments.cells.cells import CellDocument, CellKind, RoutineFigures
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, expressions
from simprof.profiler.experiments.tables.claims import Rule, rule
from simprof.profiler.experiments.tables.conditions import (
    Bound,
    Condition,
    Member,
    Relation,
    Whose,
    count_of,
    member,
    number,
)
from simprof.profiler.experiments.tables.expressions import PROGRAM, Found, column, columns
from simprof.profiler.experiments.tables.spec import CellNeed, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    ReportTable,
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


def own_routines(result: CellDocument) -> list[RoutineFigures]:
    """Return the program's own routines: the paper instruments C source, and no library."""
    found = expressions.own_routines(result)
    return [row for row in found if row.symbol.partition(".")[0] not in RUNTIME]


# -- table 3 --------------------------------------------------------------------------------------

# Paths beyond which the paper's profilers, acyclic and k-iteration, use hash tables (KITER 6).
HASH_ABOVE = 6_000
RUNS = {
    f"k{k}": CellNeed(setting("kiter", iterations=k, unoptimised=True, hash_above=HASH_ABOVE))
    for k in (1, 2, 3)
}
OPTIMISED = {f"o{k}": CellNeed(setting("kiter", iterations=k)) for k in (2, 3)}


def _hashing_slows(table: ReportTable) -> Claim:
    text = "Large slowdowns come with the change from arrays to hash tables."
    changed: list[tuple[str, float, str]] = []  # Row, its factor, its program
    others: list[tuple[str, float, str]] = []
    for row in table.judged:
        before = table.number(row, "hash1") or 0
        for k in (2, 3):
            slowdown = table.number(row, f"k{k}")
            after = table.number(row, f"hash{k}") or 0
            if slowdown is not None:
                name = str(row.values[0])
                part = (f"{name} (k = {k})", slowdown, name)
                (changed if after > before + 1 else others).append(part)
    if not changed or not others:
        which = "no" if not changed else "only"
        return claims.judge(
            text, absent=f"the table has {which} programs that change to hash tables for k = 2 or 3"
        )
    high, low = (fmean(factor for _, factor, _ in parts) for parts in (changed, others))
    what = "mean factor where more paths are hashed than for k = 1"
    bound, back = Bound(Relation.ABOVE, low), Bound(Relation.BELOW, high)
    parts = tuple(
        member(name, factor, limit, program=program)
        for rows, limit in ((changed, bound), (others, back))
        for name, factor, program in rows
    )
    made = Condition(what, high, bound, "", Whose.PAPER, "elsewhere", members=parts)
    return claims.judge(text, made)


def _most_paths(found: Found) -> int | None:
    known = (each.untruncated_paths for each in own_routines(found["k3"]))
    return max((paths for paths in known if paths is not None), default=None)


def _gives_up(table: ReportTable) -> Condition | None:
    """Require that a kernel is beyond the limit just where the paper prints no number."""
    theirs = published("kiter3")
    if theirs is None:
        return None
    gave_up = {
        program_key(str(row.values[0])): theirs.number(row, "k3") is None for row in theirs.rows
    }
    made = []
    for row in table.judged:
        paths, expected = table.number(row, "most3"), gave_up.get(program_key(row.program))
        if paths is not None and expected is not None:
            text = f"{number(paths)} paths, where the paper's is {'above' if expected else 'below'}"
            keeps, far = (paths > PATH_LIMIT) == expected, abs(paths - PATH_LIMIT)
            made.append(Member(str(row.values[0]), text, keeps, far))
    return count_of(made, "kernels are as the paper's", len(made))


TABLE3 = TableSpec(
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
        *columns("""
bl | BL % | percent | k1.overhead
k2 | k = 2 | ratio | k2.instructions / k1.instructions
k3 | k = 3 | ratio | k3.instructions / k1.instructions
hash1 | BL hashed % | percent | k1.hashed
hash2 | k = 2 hashed % | percent | k2.hashed
hash3 | k = 3 hashed % | percent | k3.hashed
pp | PP % | percent | pp.overhead
o2 | k = 2 optimised | ratio | o2.instructions / pp.instructions
o3 | k = 3 optimised | ratio | o3.instructions / pp.instructions
"""),
        column("most3 | most paths, k = 3 | count!", _most_paths),
    ),
    (
        rule(
            "For most programs 2-iteration profiling costs little more than acyclic profiling "
            "(8 of 9 below twice).",
            "paper: count(k2 <= 2) >= most",
        ),
        rule(
            "For most programs 3-iteration profiling costs little more than acyclic profiling "
            "(6 of 8 below twice).",
            "paper: count(k3 <= 2) >= most",
        ),
        _hashing_slows,
        rule(
            f"For k = 3 ndes has a routine of more than {PATH_LIMIT:,} paths, on which the paper's "
            "numbering gives up, and no other kernel has.",
            _gives_up,
        ),
    ),
    notes=(
        "The paper instruments C source and measures times. Here the register is still set on the "
        "edges from ENTRY, and the last value added where the path is counted, not before it.",
    ),
    bars=Bars(("k2", "k3"), "times the instructions for k = 1", baseline=1.0),
    originals="kiter3",
)


# -- table 4 --------------------------------------------------------------------------------------

ITERATIONS = (1, 2, 3, 4, 5)
SHOWN_ROUTINES = 4
# Routines of the paper's table 4, which are those of two of its programs.
NAMED = frozenset({"compress", "cl_hash", "writebytes", "output", "des", "ks", "cyfun"})
NAMED_OF = ("compress", "ndes")
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

    def __getattr__(self, name: str) -> int:
        """Return the paths by k: `k2`."""
        return self.paths[ITERATIONS.index(int(name.removeprefix("k")))]


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


def _place(row: RoutineFigures) -> tuple[int, str]:
    return int(row.routine_address, 16), row.symbol


def _growing(found: Found) -> Iterator[_StaticPaths]:
    """Yield the routines whose paths differ by k, of those that have numbers for all k."""
    counts: dict[tuple[int, str], list[int]] = {}
    own = {_place(row) for row in own_routines(found["k1"])}
    for need in PLANS:
        for row in found[need].routines:
            if row.untruncated_paths is not None:
                counts.setdefault(_place(row), []).append(row.untruncated_paths)
    for routine, paths in counts.items():
        if len(paths) == len(ITERATIONS) and len(set(paths)) > 1:
            yield _StaticPaths(*routine, tuple(paths), routine in own)


# By how much the paper's routines grow from k - 1 to k
GROWTH = {2: "1.6-33.3", 3: "1.5-7.48", 4: "1.42-3.02", 5: "1.35-3.01"}


def _grows(k: int, paper: str) -> Rule:
    """Return what judges the growth from k - 1 to k by that of the paper's routines."""
    growth = f"k{k} / k{k - 1}"
    return rule(
        f"From k = {k - 1} to {k} they grow by a factor ({paper}).",
        f"paper: paper(min({growth})) <= median(g{k}) <= paper(max({growth}))",
    )


TABLE4 = TableSpec(
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
        column("routine | routine | text | name"),
        column("of | of | text", lambda each: "the program" if each.own else "its library"),
        *(column(f"k{k} | {'BL' if k == 1 else f'k = {k}'} | count! | k{k}") for k in ITERATIONS),
        *(column(f"g{k} | {k - 1} to {k} | ratio | k{k} / k{k - 1}") for k in ITERATIONS[1:]),
    ),
    (
        rule("Static paths grow with every k.", "ours: count(k1 < k2 < k3 < k4 < k5) >= 3/4"),
        *(_grows(k, paper) for k, paper in GROWTH.items()),
    ),
    notes=(
        f"The paper gives up on a routine beyond {PATH_LIMIT:,} paths and prints no number for it; "
        "here all numbers are exact, and no k is lowered for the path limit.",
    ),
    rows=_routines,
    judges=lambda routine: routine.own,
    averaged=False,
)

TABLES = (TABLE3, TABLE4)
