"""TPP tables 1 to 3 (Joshi, Bond and Zilles, "Targeted Path Profiling", 2004), and its text.

The text of 4.1, 4.2.1 and 5.1 says what each part of TPP gains and loses (`PART_TABLES`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simprof.profiler.experiments.cells.cells import CellResult, RoutineRow
from simprof.profiler.experiments.cells.settings import CellSetting, setting
from simprof.profiler.experiments.tables.claims import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    BELOW,
    NO_GROUPS,
    Member,
    count_of,
    differs,
    group_means,
    half,
    judge,
    mean_is,
    member,
    number,
    ordered,
    pairs,
    untestable,
    value_is,
    within,
)
from simprof.profiler.experiments.tables.epp import increments, overhead
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
from simprof.profiler.plan.plan import CounterTable

PAPER = (
    "R. Joshi, M. D. Bond and C. Zilles, Targeted Path Profiling: Lower Overhead Path Profiling "
    "for Staged Dynamic Optimization Systems, CGO 2004"
)
PATH_LIMIT = 10_000_000
"""Where the paper's PP and TPP truncate (TPP 4.1); EPP's PP and ours do so at ten times that."""
PP = CellNeed(setting("pp", path_limit=PATH_LIMIT))
THRESHOLDS = {"1": (1.0, 1.0), "5": (5.0, 5.0), "10": (10.0, 10.0), "515": (5.0, 15.0)}
"""Key -> i and j of TPP(i, j) in tables 2 to 4."""
SPEC2000 = "SPEC2000"
TPP = {
    f"t{key}": CellNeed(setting("tpp", cold=cold, loop=loop, path_limit=PATH_LIMIT))
    for key, (cold, loop) in THRESHOLDS.items()
}
NO_COLD = CellNeed(setting("tpp", cold=0, loop=0, path_limit=PATH_LIMIT))
"""Obvious paths alone: nothing is cold, no loop is disconnected."""
TITLES = {key: f"TPP({cold:.0f},{loop:.0f})" for key, (cold, loop) in THRESHOLDS.items()}


# -- table 1 --------------------------------------------------------------------------------------


def counter_kinds(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of TPP table 1.

    The overhead of PP is split by how each routine keeps the counters of its paths. Self-loops
    have counters of their own in either kind of routine, which call no hash table: they are no
    hashed increments, and neither they nor what they execute are in the hash cost.
    """
    pp = found["pp"]
    array, hashed = (
        [row for row in pp.routines if row.table is kind]
        for kind in (CounterTable.ARRAY, CounterTable.HASH)
    )
    yield (
        program.name,
        overhead(pp),
        percentage(sum(row.added for row in array), pp.base),
        percentage(sum(row.added for row in hashed), pp.base),
        percentage(sum(row.path_increments for row in hashed), increments(pp)),
        percentage(sum(row.self_loop_increments for row in pp.routines), increments(pp)),
        ratio(_cost(hashed), _cost(array)),
    )


def _cost(routines: Sequence[RoutineRow]) -> float | None:
    """Return the instructions added to an increment of a path's counter, self-loops left out."""
    added = sum(row.added - row.self_loop_added for row in routines)
    return ratio(added, sum(row.path_increments for row in routines))


def judge_counter_kinds(table: ReportTable) -> Iterator[Claim]:
    """Judge section 2.2's claims about table 1."""
    mean = table.mean("pp")
    above = [
        member(name, share, AT_LEAST, 20, " %", f"overhead {number(cost)} %")
        for name, cost, share in pairs(table, "pp", "hashed")
        if mean is not None and cost > mean
    ]
    yield judge(
        "Many of the programs with overhead above average record a sizable fraction of their "
        "paths in hash tables.",
        count_of(
            above,
            f"programs above {number(mean)} % hash at least 20 % of their paths",
            half(len(above)),
        ),
    )
    yield judge(
        "Counting a path in a routine with a hash table costs 5.2 times as much as with an array.",
        mean_is(table, "hash_cost", AT_LEAST, 2, others=("hashed",)),
        absent="the table has no program that counts paths both in arrays and in hash tables",
    )
    yield judge(
        "Hash tables cause more of the average overhead (15.9 %) than arrays (11.2 %).",
        differs(
            ("hash tables", table.mean("hash")),
            ABOVE,
            ("arrays", table.mean("array")),
            " %",
            parts=ordered(pairs(table, "hash", "array"), ABOVE, ("hashing", "arrays"), " %"),
        ),
    )


TPP1 = TableSpec(
    "tpp1",
    "TPP table 1: hash tables against arrays of counters in PP",
    f"{PAPER}, table 1",
    "Overhead of PP in all routines, in those with arrays and in those with hash tables, in "
    "percent of base instructions. Hashed: share of all increments (as in EPP table 1) that are of "
    "path counters in hash tables. Self-loops: share that are of their own counters, in routines "
    "of either kind. Hash cost: instructions added to an increment of a path counter in routines "
    "with hash tables, by those with arrays, the counters of self-loops left out.",
    (
        TableColumn("program", "program"),
        TableColumn("pp", "PP %", Form.PERCENT),
        TableColumn("array", "array %", Form.PERCENT),
        TableColumn("hash", "hashing %", Form.PERCENT),
        TableColumn("hashed", "paths hashed %", Form.PERCENT),
        TableColumn("self_loops", "self-loops %", Form.PERCENT),
        TableColumn("hash_cost", "hash cost", Form.DECIMAL),
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
    return None if result.attributed is None else 100 * result.attributed


def targeted(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of TPP tables 2 and 3: overheads, and attribution of definite flow."""
    values: list[Value] = [program.name, overhead(found["pp"])]
    for key in THRESHOLDS:
        result = found[f"t{key}"]
        values += [overhead(result), flow(result)]
    yield (*values, overhead(found["t0"]))


def judge_targeted(table: ReportTable, part: float, told: str) -> Iterator[Claim]:
    """Judge section 5.1's claims about tables 2 and 3.

    `part`: TPP(5,15)'s overhead by PP's, at most: the paper's with a margin. `told`: The claim in
    the paper's numbers.
    """
    pp, best = table.mean("pp"), table.mean("t515")
    yield judge(
        told,
        value_is(
            "TPP(5,15)'s overhead by PP's",
            ratio(best, pp),
            AT_MOST,
            part,
            remark=f"{number(best)} % of {number(pp)} %",
            parts=_by_pp(table, part),
        ),
    )
    yield judge(
        "... at an attribution of definite flow above 98 % on average.",
        mean_is(table, "a515", ABOVE, 98, " %"),
    )
    yield from _judge_thresholds(table)
    yield from _judge_parts(table)


def _by_pp(table: ReportTable, part: float, group: str = "") -> list[Member]:
    return [
        member(name, cost / before, AT_MOST, part, more=f"{number(cost)} % of {number(before)} %")
        for name, cost, before in pairs(table, "t515", "pp", group)
        if before
    ]


def _judge_thresholds(table: ReportTable) -> Iterator[Claim]:
    pp, first = table.mean("pp"), table.mean("t1")
    means = [mean for key in THRESHOLDS if (mean := table.mean(f"t{key}")) is not None]
    saved = None if pp is None or not means else pp - min(means)
    gained = None if pp is None or first is None else percentage(pp - first, saved)
    by_threshold = ", ".join(
        f"{TITLES[key]} {number(table.mean(f't{key}'))} %" for key in THRESHOLDS
    )
    yield judge(
        "Most of the reduction comes with the most conservative thresholds, TPP(1,1).",
        value_is(
            "TPP(1,1)'s part of the greatest reduction",
            gained,
            AT_LEAST,
            50,
            " %",
            remark=f"means: PP {number(pp)} %, {by_threshold}",
            parts=_gained_first(table),
        ),
    )
    spread = None if len(means) < 4 else percentage(max(means) - min(means), pp)
    yield judge(
        "The results are rather insensitive to the thresholds.",
        value_is(
            "difference between the means of TPP",
            spread,
            AT_MOST,
            25,
            " % of PP's mean",
            remark=f"PP {number(pp)} %, {by_threshold}",
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
        differs(
            ("TPP(5,15)'s overhead by PP's of FP", floating),
            BELOW,
            ("of INT", integer),
            parts=() if integer is None else _by_pp(table, integer, "FP"),
        ),
        absent=NO_GROUPS,
    )
    alone, pp, best = table.mean("t0"), table.mean("pp"), table.mean("t515")
    saved = None
    if pp is not None and best is not None and alone is not None:
        saved = percentage(pp - alone, pp - best)
    yield judge(
        "Without the removal of cold paths, that of obvious paths gains next to nothing.",
        value_is(
            "TPP(0,0)'s part of TPP(5,15)'s reduction",
            saved,
            AT_MOST,
            20,
            " %",
            remark=f"means: PP {number(pp)} %, TPP(0,0) {number(alone)} %, TPP(5,15) "
            f"{number(best)} %",
            parts=_saved_alone(table),
        ),
    )
    yield untestable(
        "TPP takes 74 % longer than PP to analyse and instrument a routine.",
        "a claim about elapsed time: those of this implementation say nothing about the paper's",
    )


def _gained_first(table: ReportTable) -> list[Member]:
    """Return each program's part of its greatest reduction that TPP(1,1) has."""
    costs = {
        key: {name: cost for name, cost, _ in pairs(table, f"t{key}", "pp")} for key in THRESHOLDS
    }
    lowest = {name: min(each[name] for each in costs.values()) for name in costs["1"]}
    return [
        member(name, share, AT_LEAST, 50, " %", text)
        for name, share, text in shares_of_reduction(table, "t1", lowest)
    ]


def _saved_alone(table: ReportTable) -> list[Member]:
    """Return each program's part of TPP(5,15)'s reduction that TPP(0,0) has."""
    return [
        member(name, share, AT_MOST, 20, " %", text)
        for name, share, text in shares_of_reduction(table, "t0")
    ]


def shares_of_reduction(
    table: ReportTable, key: str, lowest: Mapping[str, float] | None = None
) -> list[tuple[str, float, str]]:
    """Return programs' parts of a reduction from PP that a column has, in percent, with numbers.

    `lowest`: Where each program's reduction ends; TPP(5,15) by default. Programs without any are
    absent.
    """
    if lowest is None:
        lowest = {name: cost for name, cost, _ in pairs(table, "t515", "pp")}
    return [
        (
            name,
            100 * (before - cost) / (before - lowest[name]),
            f"{number(before)} % to {number(cost)} %",
        )
        for name, before, cost in pairs(table, "pp", key)
        if name in lowest and before > lowest[name]
    ]


def _judge_95(table: ReportTable) -> Iterator[Claim]:
    return judge_targeted(
        table, 0.65, "TPP(5,15) reduces the overhead of PP from 28 % to 14 %, about half."
    )


def _judge_2000(table: ReportTable) -> Iterator[Claim]:
    return judge_targeted(
        table, 0.5, "TPP(5,15) reduces the overhead of PP from 37 % to 13 %, almost by two thirds."
    )


def _targeted_columns() -> tuple[TableColumn, ...]:
    columns = [TableColumn("program", "program"), TableColumn("pp", "PP %", Form.PERCENT)]
    for key, title in TITLES.items():
        columns.append(TableColumn(f"t{key}", f"{title} %", Form.PERCENT))
        columns.append(TableColumn(f"a{key}", "AoDF %", Form.PERCENT))
    return (*columns, TableColumn("t0", "TPP(0,0) %", Form.PERCENT))


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
    predictions={key: Prediction(key, overhead) for key in ("pp", *TPP, "t0")},
    includes=lambda program: program.releases != {SPEC2000},
)
TPP3 = replace(
    TPP2,
    name="tpp3",
    title="TPP table 3: targeted path profiling against PP (SPEC2000)",
    source=f"{PAPER}, table 3",
    claims=_judge_2000,
    notes=(*TPP2.notes, "Only programs that stand in for one of SPEC2000; table 2 has the others."),
    includes=lambda program: SPEC2000 in program.releases,
)

TABLES = (TPP1, TPP2, TPP3)


COLD, LOOP = 5.0, 15.0
"""i and j of TPP(5,15)."""


def _part(**options: object) -> CellSetting:
    return setting("tpp", path_limit=PATH_LIMIT, **options)


# -- overheads ------------------------------------------------------------------------------------

PARTS = {
    "cold": CellNeed(_part(cold=COLD, loop=0, count_obvious=True)),
    "obvious": CellNeed(_part(cold=0, loop=LOOP)),
    "uncounted": CellNeed(_part(cold=COLD, loop=LOOP, no_cold_counter=True)),
}


def parts(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
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
        TableColumn("program", "program"),
        TableColumn("pp", "PP %", Form.PERCENT),
        TableColumn("t515", "TPP(5,15) %", Form.PERCENT),
        TableColumn("cold", "cold only %", Form.PERCENT),
        TableColumn("obvious", "obvious only %", Form.PERCENT),
        TableColumn("uncounted", "cold uncounted %", Form.PERCENT),
        TableColumn("hashed", "PP hashed %", Form.PERCENT),
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
CUT = {key: CellNeed(_part(cold=0, loop=100 / turns)) for key, turns in ITERATIONS.items()}


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


def lengths(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
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
        TableColumn("program", "program"),
        TableColumn("pp", "PP", Form.DECIMAL),
        TableColumn("l10", "loops of 10", Form.DECIMAL),
        TableColumn("lost_l10", "lost %", Form.PERCENT),
        TableColumn("l100", "loops of 100", Form.DECIMAL),
        TableColumn("lost_l100", "lost %", Form.PERCENT),
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

PART_TABLES = (TPP_PARTS, TPP_LENGTHS)
