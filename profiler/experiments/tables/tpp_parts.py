"""What each part of TPP gains and loses: numbers in the text of TPP 4.1, 4.2.1 and 5.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simprof.profiler.experiments.cells.cells import CellResult
from simprof.profiler.experiments.cells.settings import CellSetting, setting
from simprof.profiler.experiments.tables.claims import AT_MOST, judge, mean_is, number, within
from simprof.profiler.experiments.tables.epp import increments, overhead
from simprof.profiler.experiments.tables.spec import Found, Need, Program, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    Column,
    Form,
    ReportTable,
    Value,
    percentage,
    ratio,
)
from simprof.profiler.experiments.tables.tpp import PAPER, PATH_LIMIT, PP, TPP, shares_of_reduction

COLD, LOOP = 5.0, 15.0
"""i and j of TPP(5,15)."""


def _part(**options: object) -> CellSetting:
    return setting("tpp", path_limit=PATH_LIMIT, **options)


# -- overheads ------------------------------------------------------------------------------------

PARTS = {
    "cold": Need(_part(cold=COLD, loop=0, count_obvious=True)),
    "obvious": Need(_part(cold=0, loop=LOOP)),
    "uncounted": Need(_part(cold=COLD, loop=LOOP, no_cold_counter=True)),
}


def parts(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of overheads: PP, TPP(5,15), and TPP(5,15) without one part or the other."""
    pp = found["pp"]
    yield (
        program.name,
        *(overhead(found[key]) for key in ("pp", "t515", *PARTS)),
        percentage(pp.counts["hashed_increments"], increments(pp)),
    )


def judge_parts(table: ReportTable) -> Iterator[Claim]:
    """Judge what sections 4.1 and 5.1 say of the parts."""
    pp, best, ignored = (table.mean(key) for key in ("pp", "t515", "uncounted"))
    yield judge(
        "About 60 % of the reduction of overhead comes from the removal of cold paths alone.",
        within(
            "part of the reduction",
            _share(table, "cold"),
            40,
            80,
            " %",
            remark=f"from {number(pp)} % to {number(best)} %",
            parts=shares_of_reduction(table, "cold"),
        ),
    )
    yield judge(
        "Not to count cold paths lowers the average overhead from 14 % to 13 % only.",
        within(
            "saved",
            None if best is None or ignored is None else percentage(best - ignored, best),
            0,
            100 / 7,
            " % of TPP(5,15)'s overhead",
            remark=f"from {number(best)} % to {number(ignored)} %",
        ),
    )


def _share(table: ReportTable, key: str) -> float | None:
    """Return the part of the reduction from PP to TPP(5,15) that a column has, in percent."""
    pp, best, alone = (table.mean(each) for each in ("pp", "t515", key))
    if pp is None or best is None or alone is None:
        return None
    return percentage(pp - alone, pp - best)


TPP_PARTS = TableSpec(
    "tpp-parts",
    "TPP sections 4.1 and 5.1: what each part of TPP gains",
    f"{PAPER}, sections 4.1 and 5.1 (text)",
    "Overhead in percent of base instructions. Cold only: cold paths are removed, obvious paths "
    "counted, and no loop is disconnected. Obvious only: nothing is cold. Cold uncounted: "
    "TPP(5,15) whose cold paths are kept out of all counts, and counted nowhere. Hashed: share of "
    "PP's increments that are in hash tables.",
    (
        Column("program", "program"),
        Column("pp", "PP %", Form.PERCENT),
        Column("t515", "TPP(5,15) %", Form.PERCENT),
        Column("cold", "cold only %", Form.PERCENT),
        Column("obvious", "obvious only %", Form.PERCENT),
        Column("uncounted", "cold uncounted %", Form.PERCENT),
        Column("hashed", "PP hashed %", Form.PERCENT),
    ),
    {"pp": PP, "t515": TPP["t515"], **PARTS},
    parts,
    judge_parts,
    notes=(
        "That obvious paths gain next to nothing without the removal of cold ones (5.1) is judged "
        "in table 2, with all loops left in place; here they are disconnected as in TPP(5,15).",
    ),
    bars=Bars(("pp", "cold", "obvious", "t515", "uncounted"), "overhead, % of base instructions"),
)


# -- lengths of paths -----------------------------------------------------------------------------

ITERATIONS = {"l10": 10, "l100": 100}
"""Average iterations of a loop from which on it is disconnected: 100/j."""
CUT = {key: Need(_part(cold=0, loop=100 / turns)) for key, turns in ITERATIONS.items()}


def average_blocks(result: CellResult) -> float | None:
    """Return the blocks of an executed path on average.

    Every turn of a self-loop is a path of one block. Where its loop is not disconnected, it has a
    counter of its own (EPP 4.1): the paper's tool, which breaks self-loops as any back edge,
    executes as many paths then, and as many blocks.
    """
    facts = result.facts
    if facts is None:
        return None
    turns = sum(row.self_loop_increments for row in result.routines)
    paths = facts.executions + turns
    return ratio(facts.edges + paths, paths)


def lengths(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of lengths: PP's, and those with loops disconnected, with what they lose."""
    whole = average_blocks(found["pp"])
    values: list[Value] = [program.name, whole]
    for key in CUT:
        shorter = average_blocks(found[key])
        lost = None if whole is None or shorter is None else percentage(whole - shorter, whole)
        values += [shorter, lost]
    yield tuple(values)


def judge_lengths(table: ReportTable) -> Iterator[Claim]:
    """Judge what section 4.2.1 says of disconnected loops."""
    ten = "is negligible: average path length falls by 1.5 % only"
    yield _judge_loss(table, "l10", ten, 5.0)
    yield _judge_loss(table, "l100", "is imperceptible", 0.5)


def _judge_loss(table: ReportTable, key: str, told: str, most: float) -> Claim:
    """Judge that no more than `most` percent of the length are lost on average."""
    return judge(
        f"What is lost by disconnecting loops of {ITERATIONS[key]} iterations on average and more "
        f"{told}.",
        mean_is(table, f"lost_{key}", AT_MOST, most, " %", others=("pp", key)),
    )


TPP_LENGTHS = TableSpec(
    "tpp-lengths",
    "TPP section 4.2.1: path length lost by disconnecting loops",
    f"{PAPER}, section 4.2.1 (text)",
    "Blocks of an executed path on average: under PP, and with loops of 10 or of 100 iterations "
    "on average and more disconnected, TPP(0,10) and TPP(0,1); lost: in percent of PP's. Every "
    "turn of a self-loop is a path of one block.",
    (
        Column("program", "program"),
        Column("pp", "PP", Form.DECIMAL),
        Column("l10", "loops of 10", Form.DECIMAL),
        Column("lost_l10", "lost %", Form.PERCENT),
        Column("l100", "loops of 100", Form.DECIMAL),
        Column("lost_l100", "lost %", Form.PERCENT),
    ),
    {"pp": PP, **CUT},
    lengths,
    judge_lengths,
    notes=(
        "Where loops are disconnected, fewer routines have so many paths that they are truncated, "
        "and truncation shortens paths, too.",
    ),
    bars=Bars(("pp", "l10", "l100"), "blocks a path"),
)

TABLES = (TPP_PARTS, TPP_LENGTHS)
