"""What the text of TPP says of each part of it, beyond its tables (`tpp`): tables of their own.

`tpp-parts`: what the removal of cold and of obvious paths gains (4.1, 5.1). `tpp-lengths`: the path
length that is lost by disconnecting loops (4.2.1). `tpp-age`, `tpp-train`: what an edge profile of
the run's beginning is worth, by its length, and one of another input (3).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import CellResult
from simprof.profiler.experiments.tables import claims, columns, conditions, tpp
from simprof.profiler.experiments.tables.claims import Rule, of_hashing, rule
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
    at_least,
    at_most,
    number,
    papers,
)
from simprof.profiler.experiments.tables.spec import TableSpec
from simprof.profiler.experiments.tables.table import Bars, ReportTable, percentage, ratio

PARTS = {
    "cold": tpp.tpp_need(cold=tpp.COLD, loop=0, count_obvious=True),
    "obvious": tpp.tpp_need(cold=0, loop=tpp.LOOP),
    "uncounted": tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, no_cold_counter=True),
}


def _cold_alone(table: ReportTable) -> Condition | None:
    pp, best = (number(table.mean(key)) for key in ("pp", "t515"))
    limit = Between(40, 80, " %")
    return conditions.value_is(
        "part of the reduction",
        tpp.reduction_share(table, "cold"),
        limit,
        remark=f"from {pp} % to {best} %",
        parts=claims.members(tpp.reduction_shares(table, "cold"), limit),
    )


TPP_PARTS = TableSpec[Found](
    "tpp-parts",
    "TPP sections 4.1 and 5.1: what each part of TPP gains",
    f"{tpp.PAPER}, sections 4.1 and 5.1 (text)",
    "Overhead in percent of base instructions. Cold only: cold paths are removed, obvious paths "
    "counted, and no loop is disconnected. Obvious only: nothing is cold. Cold uncounted: "
    "TPP(5,15) whose cold paths are kept out of all counts, and counted nowhere. Hashed: share of "
    "PP's increments that are in hash tables.",
    {"pp": tpp.PP, "t515": tpp.TPP["t515"], **PARTS},
    (
        PROGRAM,
        columns.of_overhead("pp", "PP %"),
        columns.of_overhead("t515", "TPP(5,15) %"),
        columns.of_overhead("cold", "cold only %"),
        columns.of_overhead("obvious", "obvious only %"),
        columns.of_overhead("uncounted", "cold uncounted %"),
        tpp.PP_HASHED,
    ),
    (
        of_hashing(
            "About 60 % of the reduction of overhead comes from the removal of cold paths alone.",
            _cold_alone,
        ),
        of_hashing(
            "Not to count cold paths lowers the average overhead from 14 % to 13 % only.",
            claims.means_give(
                "saved",
                lambda best, ignored: percentage(best - ignored, best),
                "t515",
                "uncounted",
                papers(Between(0, 100 / 7, " % of TPP(5,15)'s overhead")),
                remark=lambda best, ignored: f"from {number(best)} % to {number(ignored)} %",
                more=None,
            ),
        ),
    ),
    notes=(
        "That obvious paths gain next to nothing without the removal of cold ones (5.1) is judged "
        "in table 2, with all loops left in place; here they are disconnected as in TPP(5,15).",
    ),
    bars=Bars(("pp", "cold", "obvious", "t515", "uncounted"), "overhead, % of base instructions"),
    originals="tpp2",
)

# Average iterations of a loop from which on it is disconnected: 100/j.
ITERATIONS = {"l10": 10, "l100": 100}
CUT = {key: tpp.tpp_need(cold=0, loop=100 / turns) for key, turns in ITERATIONS.items()}


def _length(need: str) -> Quantity[Found]:
    """Return the blocks of an executed path on average."""

    # Every turn of a self-loop is a path of one block. Where its loop is not disconnected, it has
    # a counter of its own (EPP 4.1): the paper's tool, which breaks self-loops as any back edge,
    # executes as many paths then, and as many blocks.
    def blocks(result: CellResult) -> float | None:
        if (facts := result.facts) is None:
            return None
        paths = facts.executions + sum(row.self_loop_increments for row in result.routines)
        return ratio(facts.edges + paths, paths)

    return ResultOf(need).of(blocks)


def _shorter(need: str, title: str) -> tuple[ColumnSpec[Found], ColumnSpec[Found]]:
    """Return the columns of the length where loops are disconnected, and of what is lost."""
    lost = 100 * (_length("pp") - _length(need)) / _length("pp")
    return (
        columns.decimal(need, title, _length(need)),
        columns.percent(f"lost_{need}", "lost %", lost),
    )


def _loss_rule(key: str, told: str, most: float) -> Rule:
    """Return the rule that no more than `most` percent of the length are lost on average."""
    return rule(
        f"What is lost by disconnecting loops of {ITERATIONS[key]} iterations on average and more "
        f"{told}.",
        claims.mean_is(f"lost_{key}", at_most(most, " %"), others=("pp", key)),
    )


TPP_LENGTHS = TableSpec[Found](
    "tpp-lengths",
    "TPP section 4.2.1: path length lost by disconnecting loops",
    f"{tpp.PAPER}, section 4.2.1 (text)",
    "Blocks of an executed path on average: under PP, and with loops of 10 or of 100 iterations "
    "on average and more disconnected, TPP(0,10) and TPP(0,1); lost: in percent of PP's. Every "
    "turn of a self-loop is a path of one block.",
    {"pp": tpp.PP, **CUT},
    (
        PROGRAM,
        columns.decimal("pp", "PP", _length("pp")),
        *_shorter("l10", "loops of 10"),
        *_shorter("l100", "loops of 100"),
    ),
    (
        _loss_rule("l10", "is negligible: average path length falls by 1.5 % only", 5.0),
        _loss_rule("l100", "is imperceptible", 0.5),
    ),
    notes=(
        "Where loops are disconnected, fewer routines have so many paths that they are truncated, "
        "and truncation shortens paths, too.",
    ),
    bars=Bars(("pp", "l10", "l100"), "blocks a path"),
    originals="tpp2",
)

# Key -> instructions at the run's beginning whose edge profile guides TPP(5,15)
AGES = {f"t{power}": 10**power for power in range(4, 8)}


def _at_age(key: str) -> tuple[ColumnSpec[Found], ColumnSpec[Found]]:
    title = {"t515": "whole", "t6c": "10^6 counted"}.get(key, f"10^{key[1:]}")
    return columns.of_overhead(key, f"{title} %"), tpp.definite_flow(key)


TPP_AGE = TableSpec[Found](
    "tpp-age",
    "TPP section 3: edge profiles of the run's beginning",
    f"{tpp.PAPER}, sections 3 and 5 (text)",
    "Overhead in percent of base instructions and attribution of definite flow (AoDF) of TPP(5,15) "
    "guided by the edge profile of the run's first 10^4 to 10^7 instructions, and of the whole "
    "run; counted: obvious paths have counters, too. Beside them the overhead of PP.",
    {
        "pp": tpp.PP,
        **{
            key: tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, first=first)
            for key, first in AGES.items()
        },
        "t515": tpp.TPP["t515"],
        "t6c": tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, first=AGES["t6"], count_obvious=True),
    },
    (
        PROGRAM,
        columns.of_overhead("pp", "PP %"),
        *chain.from_iterable(_at_age(key) for key in (*AGES, "t515", "t6c")),
    ),
    (
        rule(
            "Edge profiles of an early stage of the run are representative: with one that is, "
            "attribution of definite flow exceeds 98 %.",
            claims.mean_is(
                "a6c", papers(at_least(98, " %")), others=("a4", "a5", "a6", "a7", "a515")
            ),
        ),
    ),
    notes=(
        "Obvious paths have the counts of the edge profile, which end where it ends: without "
        "counters of their own, or an edge profile that goes on, all that they execute later is "
        "lost. The claim is judged where they are counted, after the first million instructions.",
        "The code is in place from the run's first instruction on, so that the counts are of the "
        "whole run; a run that is shorter than the profile is guided by all of itself. The paper "
        "has edge profiles of whole runs only.",
    ),
    bars=Bars(("a4", "a5", "a6", "a7", "a515"), "attribution of definite flow, %"),
    originals="tpp2",
)


# -- another input's edge profile -----------------------------------------------------------------

TRAIN: dict[str, object] = {"guide": "train"}
COUNTED: dict[str, object] = {"count_obvious": True}
# Key -> title, options beside those of TPP(5,15)
GUIDES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "t515": ("own", {}),
    "train": ("train", TRAIN),
    "t515c": ("own counted", COUNTED),
    "trainc": ("train counted", TRAIN | COUNTED),
}


def _guided(key: str, title: str) -> tuple[ColumnSpec[Found], ColumnSpec[Found]]:
    attributed = replace(tpp.definite_flow(key), key=f"a_{key}")
    return columns.of_overhead(key, f"{title} %"), attributed


def _cost_of_training(table: ReportTable) -> Condition | None:
    pp, own, train = (table.mean(key) for key in ("pp", "t515c", "trainc"))
    saved = None if pp is None or own is None else pp - own
    kept = None if pp is None or train is None or not saved else percentage(pp - train, saved)
    return conditions.value_is(
        "part of the reduction from PP that the train input's profile reaches",
        kept,
        at_least(80, " %"),
        remark=f"means: PP {number(pp)} %, own {number(own)} %, train {number(train)} %",
        behind=len(table.values("trainc")),
    )


TPP_TRAIN = TableSpec[Found](
    "tpp-train",
    "TPP section 3: the train input's edge profile guides the ref run",
    f"{tpp.PAPER}, sections 3 and 5 (text)",
    "Overhead in percent of base instructions and attribution of definite flow (AoDF) of TPP(5,15) "
    "guided by the edge profile of the run itself (own) and of a run with the train input; "
    "counted: obvious paths have counters, too. Beside them the overhead of PP.",
    {
        "pp": tpp.PP,
        **{
            key: tpp.tpp_need(cold=tpp.COLD, loop=tpp.LOOP, **more)
            for key, (_, more) in GUIDES.items()
        },
    },
    (
        PROGRAM,
        columns.of_overhead("pp", "PP %"),
        *chain.from_iterable(_guided(key, title) for key, (title, _) in GUIDES.items()),
        tpp.PP_HASHED,
    ),
    (
        rule(
            "An edge profile that was taken earlier is representative: with one that is, "
            "attribution of definite flow exceeds 98 %.",
            claims.mean_is(
                "a_trainc", papers(at_least(98, " %")), others=("a_t515", "a_train", "a_t515c")
            ),
        ),
        of_hashing("... and overhead is reduced as by the run's own.", _cost_of_training),
    ),
    notes=(
        "Obvious paths have the counts of the edge profile: those of another input are no counts "
        "of this run. The claim is judged where they are counted.",
        "The paper has edge profiles of the ref input only, as it expects an early stage's to be "
        "representative. A program whose inputs are the same has the same numbers twice.",
    ),
    bars=Bars(("pp", "t515c", "trainc"), "overhead, % of base instructions"),
    originals="tpp2",
)

TABLES = (TPP_PARTS, TPP_LENGTHS, TPP_AGE, TPP_TRAIN)
