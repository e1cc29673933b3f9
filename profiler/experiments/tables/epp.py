"""EPP tables 1, 2 and 3 (Ball and Larus, "Efficient Path Profiling", 1996, section 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from simprof.profiler.experiments.cells.cells import (
    CellResult,
    PathFacts,
    PredictedPaths,
    RoutineRow,
    common_paths,
)
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    BELOW,
    compare_groups,
    count_of,
    differs,
    each_is,
    extremes,
    judge,
    mean_is,
    member,
    members,
    number,
    ordered,
    pairs,
    untestable,
    value_is,
)
from simprof.profiler.experiments.tables.executed import Prediction
from simprof.profiler.experiments.tables.spec import CellNeed, Found, SuiteMember, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    Form,
    ReportTable,
    TableColumn,
    Value,
    percentage,
    ratio,
)

PP, QPT2 = CellNeed(setting("pp")), CellNeed(setting("qpt2"))
TRAIN = CellNeed(setting("pp"), "train")

LITTLE, CONSIDERABLE = 2.0, 20.0
"""Percent of hashed increments: "little" holds for EPP's compress, li, ijpeg, swim and turb3d;
"considerable" for its tomcatv, fpppp and wave5."""
COMPARABLE = 1.5
"""PP/QPT2 up to which overheads are called comparable."""
POTENTIAL = ("paths", "potential")


def overhead(result: CellResult) -> float | None:
    """Added instructions in percent of the uninstrumented run's."""
    return percentage(result.added, result.base)


def increments(result: CellResult | RoutineRow) -> int:
    """Return increments of path counters, those of self-loops (EPP 4.1) among them.

    The paper does not say whether it counts the latter. That its instructions by increment
    (table 1) agree with the length of an average path (table 2), and that even programs of
    one-block loops execute hardly more edge than path increments, says that it does.
    """
    if isinstance(result, RoutineRow):
        return result.path_increments + result.edge_increments
    return result.counts["path_increments"] + result.counts["edge_increments"]


# -- table 1 --------------------------------------------------------------------------------------


def costs(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of EPP table 1.

    PP/QPT2 is the ratio of the overheads. Edge increments are QPT2's, by PP's path increments.
    Hashed is the share of path increments that call the hashing routine. Inst/inc divides the
    instructions of the uninstrumented run by the path increments.
    """
    pp, qpt2 = found["pp"], found["qpt2"]
    counted = increments(pp)
    yield (
        program.name,
        pp.base,
        overhead(pp),
        overhead(qpt2),
        ratio(overhead(pp), overhead(qpt2)),
        counted,
        ratio(qpt2.counts["edge_increments"], counted),
        percentage(pp.counts["hashed_increments"], counted),
        ratio(pp.base, counted),
    )


def judge_costs(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6's claims about table 1."""
    yield judge(
        "PP's overhead averages 2.8 times QPT2's (0.7-14.5): less than 3 times on average.",
        mean_is(table, "pp_qpt2", BELOW, 3, what="mean PP/QPT2", others=("pp", "qpt2", "hashed")),
    )
    yield compare_groups(
        "PP's overhead is higher for integer programs (44.8 %) than for FP programs (19.8 %).",
        table,
        "pp",
        " %",
    )
    yield from _judge_hashing(table)
    yield judge(
        "Path profiling executes fewer increments than edge profiling (1.3 edge increments to a "
        "path increment).",
        mean_is(table, "edge_ratio", ABOVE, 1),
    )
    yield untestable(
        "Part of the overhead is interference in the caches.",
        "instructions are counted, not cycles: there are no caches in the model",
    )


def _judge_hashing(table: ReportTable) -> Iterator[Claim]:
    hashed = pairs(table, "hashed", "pp_qpt2")
    little = [(name, quotient) for name, share, quotient in hashed if share < LITTLE]
    yield judge(
        "Programs with little hashing have PP overhead comparable to QPT2's or lower.",
        value_is(
            f"median PP/QPT2 of {len(little)} programs with less than {number(LITTLE)} % hashed",
            median(each for _, each in little) if little else None,
            AT_MOST,
            COMPARABLE,
            remark=extremes(each for _, each in little),
            parts=[member(name, each, AT_MOST, COMPARABLE) for name, each in little],
        ),
    )
    mean = table.mean("pp")
    many = [
        member(name, cost, BELOW, mean, " %")
        for (name, share, cost) in pairs(table, "hashed", "pp")
        if share >= CONSIDERABLE and mean is not None
    ]
    yield judge(
        "Programs with considerable hashing can still have low overhead, where path increments "
        "are rare.",
        count_of(
            many,
            f"programs with at least {number(CONSIDERABLE)} % hashed are below the mean overhead "
            f"of {number(mean)} %",
            1,
        ),
        absent=f"the table has no program that hashes {number(CONSIDERABLE)} % of its increments",
    )


EPP1 = TableSpec(
    "epp1",
    "EPP table 1: path profiling (PP) against edge profiling (QPT2)",
    "T. Ball and J. R. Larus, Efficient Path Profiling, MICRO-29, 1996, table 1",
    "Base: instructions of the uninstrumented run. Overheads in percent of them. Path inc: "
    "increments of path counters, of self-loops' counters too. Edge inc: QPT2's increments by "
    "PP's. Hashed: share of path increments that are hashed. Inst/inc: base instructions by path "
    "increments.",
    (
        TableColumn("program", "program"),
        TableColumn("base", "base", Form.COUNT, average=False),
        TableColumn("pp", "PP %", Form.PERCENT),
        TableColumn("qpt2", "QPT2 %", Form.PERCENT),
        TableColumn("pp_qpt2", "PP/QPT2", Form.RATIO),
        TableColumn("path_increments", "path inc", Form.COUNT, average=False),
        TableColumn("edge_ratio", "edge inc/path inc", Form.RATIO),
        TableColumn("hashed", "hashed %", Form.PERCENT),
        TableColumn("spacing", "inst/inc", Form.DECIMAL),
    ),
    {"pp": PP, "qpt2": QPT2},
    costs,
    judge_costs,
    notes=(
        "The paper's overheads are elapsed times on an UltraSPARC with caches; ours are "
        "instructions.",
    ),
    bars=Bars(("pp", "qpt2"), "overhead, % of base instructions"),
    compared=("pp", "qpt2", "pp_qpt2", "edge_ratio", "hashed", "spacing"),
    predictions={key: Prediction(key, overhead) for key in ("pp", "qpt2")},
)


# -- table 2 --------------------------------------------------------------------------------------


def characteristics(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of EPP table 2; averages are weighted by execution frequency.

    Predictions follow the most frequent edge, of equal ones the branch that is not taken; their
    lengths are up to the first misprediction. Correct: the share of executed paths (not of
    executions) that are predicted to their end. The potential paths are those before truncation.
    """
    result = found["pp"]
    facts = result.facts
    if facts is None or facts.predicted is None:
        return
    potential = sum(row.potential_paths for row in result.routines)
    yield (program.name, *_lengths(facts, facts.predicted), potential)


def _lengths(facts: PathFacts, predicted: PredictedPaths) -> tuple[Value, ...]:
    return (
        facts.paths,
        facts.longest_edges,
        facts.longest_instructions,
        facts.average_edges,
        facts.average_instructions,
        percentage(predicted.correct, facts.paths),
        predicted.longest_edges,
        predicted.longest_instructions,
        ratio(predicted.edges, facts.executions),
        ratio(predicted.instructions, facts.executions),
        facts.routines,
        facts.most_paths,
        ratio(facts.paths, facts.routines),
    )


def judge_characteristics(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6's claims about table 2."""
    shares = [
        (name, 100 * paths / potential) for name, paths, potential in pairs(table, *POTENTIAL)
    ]
    numbers = [share for _, share in shares]
    yield judge(
        "Few paths are executed, and they are dwarfed by the potential paths.",
        value_is(
            "executed paths by the potential ones of the routines executed: median",
            median(numbers) if numbers else None,
            BELOW,
            1,
            " %",
            remark=extremes(numbers, " %", 1),
            parts=[member(name, share, BELOW, 1, " %") for name, share in shares],
        ),
        value_is(
            "highest",
            max(numbers, default=None),
            BELOW,
            50,
            " %",
            parts=[member(name, share, BELOW, 50, " %") for name, share in shares],
        ),
    )
    yield compare_groups(
        "Paths of FP programs are longer (91.7 instructions by the text, 142.1 by the table) than "
        "those of integer programs (21.4).",
        table,
        "average_instructions",
        " instructions",
        higher="FP",
    )
    yield from _judge_predictions(table)


def _judge_predictions(table: ReportTable) -> Iterator[Claim]:
    yield judge(
        "Edge profiles predict a minority of paths completely: 37.9 % on average (4.3-57.1 %).",
        mean_is(table, "correct", BELOW, 50, " %", others=("average_paths",)),
    )
    edges = percentage(table.mean("predicted_edges"), table.mean("average_edges"))
    code = percentage(table.mean("predicted_instructions"), table.mean("average_instructions"))
    yield judge(
        "Predicted paths are nearly as long as measured ones in edges (5.1 of 6.9), but hold "
        "significantly fewer instructions (33.6 of 88.4).",
        value_is("predicted edges by measured ones", edges, AT_LEAST, 60, " %"),
        differs(
            ("predicted instructions by measured ones", code),
            BELOW,
            ("predicted edges by measured ones", edges),
            " %",
            parts=ordered(_predicted_shares(table), BELOW, ("instructions", "edges"), " %"),
        ),
    )
    yield judge(
        "Routines execute few paths: 7.7 on average (2.6-60.0).",
        mean_is(table, "average_paths", AT_MOST, 20, others=("paths", "routines")),
    )


def _predicted_shares(table: ReportTable) -> list[tuple[str, float, float]]:
    """Return (program, share of instructions, share of edges) of predicted by measured paths."""
    edges = pairs(table, "predicted_edges", "average_edges")
    code = pairs(table, "predicted_instructions", "average_instructions")
    whole = {name: 100 * one / two for name, one, two in edges if two}
    return [
        (name, 100 * one / two, whole[name]) for name, one, two in code if name in whole and two
    ]


EPP2 = TableSpec(
    "epp2",
    "EPP table 2: characteristics of executed acyclic paths",
    "T. Ball and J. R. Larus, Efficient Path Profiling, MICRO-29, 1996, table 2",
    "Paths: different ones executed. Averages are weighted by execution frequency. Predicted "
    "paths follow the most frequent edges (of equal ones the branch not taken); their lengths are "
    "up to the first misprediction. Routines: those with an executed path. Potential: paths of "
    "the routines executed, before truncation.",
    (
        TableColumn("program", "program"),
        TableColumn("paths", "paths", Form.COUNT),
        TableColumn("longest_edges", "longest: edges", Form.COUNT),
        TableColumn("longest_instructions", "longest: inst", Form.COUNT),
        TableColumn("average_edges", "average: edges", Form.DECIMAL),
        TableColumn("average_instructions", "average: inst", Form.DECIMAL),
        TableColumn("correct", "correct %", Form.PERCENT),
        TableColumn("predicted_longest_edges", "pred. longest: edges", Form.COUNT),
        TableColumn("predicted_longest_instructions", "pred. longest: inst", Form.COUNT),
        TableColumn("predicted_edges", "pred. average: edges", Form.DECIMAL),
        TableColumn("predicted_instructions", "pred. average: inst", Form.DECIMAL),
        TableColumn("routines", "routines", Form.COUNT),
        TableColumn("most_paths", "most paths", Form.COUNT),
        TableColumn("average_paths", "paths/routine", Form.DECIMAL),
        TableColumn("potential", "potential", Form.COUNT, average=False),
    ),
    {"pp": PP},
    characteristics,
    judge_characteristics,
    bars=Bars(("correct",), "paths predicted completely by edges, %"),
    compared=("paths", "average_edges", "average_instructions", "correct", "average_paths"),
)


# -- table 3 --------------------------------------------------------------------------------------


def common(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of EPP table 3: what of the ref run's paths the train run executed too."""
    both = common_paths(found["ref"], found["train"])
    yield (
        program.name,
        both.common,
        percentage(both.common, both.paths),
        percentage(both.common_executions, both.executions),
        both.common_instructions,
        percentage(both.common_instructions, both.instructions),
    )


def judge_common(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6's claims about table 3."""
    yield judge(
        "For integer programs train finds 41.8-96.0 % of the paths of ref.",
        each_is(table, "static", AT_LEAST, 41.8, " %", group="INT", others=("dynamic",)),
    )
    yield judge(
        "The common paths are the important ones: 71.9-100 % of path executions.",
        each_is(table, "dynamic", AT_LEAST, 70, " %", others=("static",)),
    )
    yield judge(
        "For FP programs train finds at least 87.5 % of the paths of ref.",
        each_is(table, "static", AT_LEAST, 87.5, " %", group="FP", others=("dynamic",)),
    )
    parts = members(table, "instructions_share", AT_LEAST, 95, " %", "FP", ("static", "dynamic"))
    yield judge(
        "In FP programs the common paths account for 99 % and more of instructions, but in one.",
        count_of(
            parts,
            "FP programs at 95 % or more",
            max(1, len(parts) - 1),
            extremes(table.values("instructions_share", "FP"), " %", 95),
        ),
    )


EPP3 = TableSpec(
    "epp3",
    "EPP table 3: paths that ref and train have in common",
    "T. Ball and J. R. Larus, Efficient Path Profiling, MICRO-29, 1996, table 3",
    "Common: paths executed with both inputs. Static: share of the ref run's paths that the train "
    "run executes too; dynamic: the same, weighted by executions. Common instructions: those that "
    "the ref run executes along common paths, and their share of all along paths.",
    (
        TableColumn("program", "program"),
        TableColumn("common", "common paths", Form.COUNT),
        TableColumn("static", "static %", Form.PERCENT),
        TableColumn("dynamic", "dynamic %", Form.PERCENT),
        TableColumn("instructions", "common instructions", Form.COUNT, average=False),
        TableColumn("instructions_share", "instructions %", Form.PERCENT),
    ),
    {"ref": PP, "train": TRAIN},
    common,
    judge_common,
    notes=("A program with one input only has everything in common with itself.",),
    bars=Bars(("static", "dynamic"), "paths of ref found by train, %"),
    compared=("static", "dynamic", "instructions_share"),
)

TABLES = (EPP1, EPP2, EPP3)
