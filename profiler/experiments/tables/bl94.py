"""BL94 tables 1 to 3 and 6.3 (Ball and Larus, "Optimally Profiling and Tracing Programs", 1994).

Section 6.3, "Register scavenging", is made a table: what free registers save.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simprof.profiler.experiments.cells.cells import CellKind, CellResult
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    count_of,
    each_is,
    extremes,
    judge,
    mean_is,
    mean_within,
    members,
    number,
    untestable,
    value_is,
)
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

PAPER = "T. Ball and J. R. Larus, Optimally Profiling and Tracing Programs, TOPLAS 16(4), 1994"
FOLDED = "folded"
"""The blocks of BL94: calls and delay slots end none (`schemes.qpt.options.BlockBasis`)."""
PLAN_REDUNDANT = CellNeed(setting("qpt", blocks=FOLDED), kind=CellKind.PLAN)
PLAN_OPTIMAL = CellNeed(setting("qpt2", blocks=FOLDED), kind=CellKind.PLAN)
BITS, WITNESS = CellNeed(setting("bits")), CellNeed(setting("witness"))


# -- table 1 --------------------------------------------------------------------------------------


def times(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 table 1: seconds to place all counters and to generate their code.

    Reading the file and recovering graphs is the same for both and counted in both.
    """
    spent = {name: result.timing for name, result in found.items()}
    redundant, optimal = (
        spent[name].recovery + spent[name].planning + spent[name].generation
        for name in ("redundant", "optimal")
    )
    parts = (
        getattr(spent[name], part)
        for part in ("planning", "generation")
        for name in ("redundant", "optimal")
    )
    yield (program.name, redundant, optimal, ratio(optimal, redundant), *parts)


def judge_times(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.1's claim about table 1."""
    mean = table.mean("increase")
    yield untestable(
        "Instrumenting for optimal profiling is slightly (22-38 %) slower than for redundant "
        "profiling.",
        "a claim about elapsed time: those of this implementation say nothing about the paper's"
        + ("" if mean is None else f" (mean optimal/redundant {number(mean)})"),
    )


TABLE1 = TableSpec(
    "bl94-table1",
    "BL94 table 1: time to instrument",
    f"{PAPER}, table 1",
    "Wall-clock seconds of this machine to recover the graphs of all routines, place counters and "
    "generate their code: in every block (redundant), on the chords of a spanning tree (optimal).",
    (
        TableColumn("program", "program"),
        TableColumn("redundant", "redundant (s)", Form.SECONDS),
        TableColumn("optimal", "optimal (s)", Form.SECONDS),
        TableColumn("increase", "optimal/redundant", Form.RATIO),
        TableColumn("plan_redundant", "placing: redundant", Form.SECONDS),
        TableColumn("plan_optimal", "optimal", Form.SECONDS),
        TableColumn("code_redundant", "code: redundant", Form.SECONDS),
        TableColumn("code_optimal", "optimal", Form.SECONDS),
    ),
    {"redundant": PLAN_REDUNDANT, "optimal": PLAN_OPTIMAL},
    times,
    judge_times,
    notes=("The only times in these tables: they differ from run to run.",),
    bars=Bars(("redundant", "optimal"), "seconds to instrument"),
    compared=("increase",),
)


# -- table 2 --------------------------------------------------------------------------------------


def edges(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 table 2, over all routines of the program file."""
    rows = found["plan"].routines
    total = sum(row.placed_edges for row in rows)
    profiled = sum(row.instrumented_edges or 0 for row in rows)
    no_jump = sum(row.no_jump_edges or 0 for row in rows)
    yield (
        program.name,
        total,
        profiled,
        percentage(profiled, total),
        no_jump,
        percentage(no_jump, profiled),
        ratio(total, sum(row.placed_blocks for row in rows)),
    )


def judge_edges(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.1's observations about table 2."""
    shares = table.values("profiled_share")
    yield judge(
        "The share of edges that are profiled is in the narrow range of 39-46 %.",
        mean_within(table, "profiled_share", 35, 50, " %", others=("density",)),
        value_is(
            "width of the range",
            max(shares) - min(shares) if shares else None,
            AT_MOST,
            15,
            " %",
        ),
    )
    free = table.values("no_jump_share")
    yield judge(
        "Less than half of the profiled edges need an unconditional jump.",
        count_of(
            members(table, "no_jump_share", ABOVE, 50, " %", others=("profiled", "no_jump")),
            "programs have more than 50 % of edges without a jump",
            len(free),
            extremes(free, " %", 50),
        ),
    )


TABLE2 = TableSpec(
    "bl94-table2",
    "BL94 table 2: edges with counters",
    f"{PAPER}, table 2",
    "Edges of all routines, run or not; those with a counter; those of them whose code needs no "
    "unconditional jump.",
    (
        TableColumn("program", "program"),
        TableColumn("edges", "edges", Form.COUNT),
        TableColumn("profiled", "profiled", Form.COUNT),
        TableColumn("profiled_share", "% of edges", Form.PERCENT),
        TableColumn("no_jump", "no jump", Form.COUNT),
        TableColumn("no_jump_share", "% of profiled", Form.PERCENT),
        TableColumn("density", "edges/block", Form.RATIO),
    ),
    {"plan": PLAN_OPTIMAL},
    edges,
    judge_edges,
    notes=(
        "The paper's programs are MIPS code, which annuls no delay slot: here the slot of an "
        "annulled branch is taken for a part of its edge.",
    ),
    bars=Bars(("profiled_share", "no_jump_share"), "%"),
    compared=("profiled_share", "no_jump_share"),
)


# -- table 3 --------------------------------------------------------------------------------------


def traces(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row of BL94 table 3.

    Old: AE's first way, the outcome of every conditional branch, a byte each: the tokens of
    `bits`. New: the witnesses. Bit tracing (6.2): as few bits as the outcomes need.
    """
    bits, witness = found["bits"], found["witness"]
    old = bits.counts.get("trace_tokens", 0)
    new = (witness.sizes["trace_bits"] + 7) // 8
    fewest = (witness.sizes["minimal_trace_bits"] + 7) // 8
    bit = (bits.sizes["trace_bits"] + 7) // 8
    added = tuple(percentage(each.added, each.base) for each in (bits, witness))
    yield (program.name, old, new, ratio(old, new), fewest, bit, ratio(new, bit), *added)


def judge_traces(table: ReportTable) -> Iterator[Claim]:
    """Judge section 6.2's claims."""
    sizes = ("old", "new", "fewest")
    yield judge(
        "Witness placement makes traces smaller: 1.2 to 3.0 times.",
        mean_is(table, "old_new", AT_LEAST, 1.2, others=sizes),
        each_is(table, "old_new", AT_LEAST, 1, others=sizes),
    )
    yield judge(
        "Bit tracing makes traces 3-7 times smaller than witnesses of a byte and more.",
        mean_within(table, "new_bit", 3, 8, others=("new", "bit")),
    )
    yield untestable(
        "Files with data addresses become 1.0 to 1.3 times smaller.",
        "no addresses of data are traced here",
    )
    yield untestable(
        "Recording witnesses runs up to 1.2 times faster than recording every conditional.",
        "no scheme here writes a byte for every conditional: bits packs what it writes, which "
        "costs more instructions",
    )


TABLE3 = TableSpec(
    "bl94-table3",
    "BL94 table 3: traces of every conditional (old) and of witnesses (new)",
    f"{PAPER}, table 3",
    "Bytes of trace. Old: the outcome of every predicate in a byte. New: witnesses. Fewest: "
    "witnesses of as few bits as their number allows. Bits: bit tracing. Overheads in percent of "
    "base instructions, writing the trace to memory.",
    (
        TableColumn("program", "program"),
        TableColumn("old", "old (bytes)", Form.COUNT, average=False),
        TableColumn("new", "new (bytes)", Form.COUNT, average=False),
        TableColumn("old_new", "old/new", Form.DECIMAL),
        TableColumn("fewest", "fewest (bytes)", Form.COUNT, average=False),
        TableColumn("bit", "bits (bytes)", Form.COUNT, average=False),
        TableColumn("new_bit", "new/bits", Form.DECIMAL),
        TableColumn("bits_overhead", "bits %", Form.PERCENT),
        TableColumn("witness_overhead", "witness %", Form.PERCENT),
    ),
    {"bits": BITS, "witness": WITNESS},
    traces,
    judge_traces,
    bars=Bars(("old_new", "new_bit"), "times smaller", baseline=1.0),
    compared=("old_new",),
)

TABLES = (TABLE1, TABLE2, TABLE3)


SAVED = CellNeed(setting("qpt2", blocks=FOLDED, registers="saved"))
SCAVENGED = CellNeed(setting("qpt2", blocks=FOLDED, registers="scavenged"))
LIVE = CellNeed(setting("qpt2", blocks=FOLDED))


def reduction(before: int, after: int) -> float | None:
    """Return by how many percent a number fell; None of nothing."""
    return percentage(before - after, before)


def overheads(program: SuiteMember, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row: overheads, and by how much each way reduces the first."""
    saved, scavenged, live = (found[name] for name in ("saved", "scavenged", "live"))
    yield (
        program.name,
        *(percentage(each.added, each.base) for each in (saved, scavenged, live)),
        reduction(saved.added, scavenged.added),
        reduction(_whole(saved), _whole(scavenged)),
        reduction(saved.added, live.added),
    )


def _whole(result: CellResult) -> int:
    return result.base + result.added


def judge_registers(table: ReportTable) -> Iterator[Claim]:
    """Judge what section 6.3 says of register scavenging."""
    yield judge(
        "Register scavenging has little effect on the overhead of many programs, and reduces that "
        "of others by a few percent or by 6-21 %.",
        mean_is(table, "less", AT_LEAST, 0, " %", others=("saved", "scavenged")),
        mean_is(table, "less", AT_MOST, 21, " %", others=("saved", "scavenged")),
    )


REGISTERS = TableSpec(
    "bl94-registers",
    "BL94 section 6.3: register scavenging",
    f"{PAPER}, section 6.3",
    "Overhead of counters on the chords of a spanning tree, in percent of base instructions: with "
    "every register saved and restored, with unused caller-saved registers free (scavenged), and "
    "with all that are dead at the counter free (liveness, as everywhere else here). Reductions "
    "are of the overhead and of the whole run, against the first.",
    (
        TableColumn("program", "program"),
        TableColumn("saved", "saved %", Form.PERCENT),
        TableColumn("scavenged", "scavenged %", Form.PERCENT),
        TableColumn("live", "liveness %", Form.PERCENT),
        TableColumn("less", "scavenging: less overhead %", Form.PERCENT),
        TableColumn("less_run", "less run %", Form.PERCENT),
        TableColumn("less_live", "liveness: less overhead %", Form.PERCENT),
    ),
    {"saved": SAVED, "scavenged": SCAVENGED, "live": LIVE},
    overheads,
    judge_registers,
    notes=(
        "The paper prints no table: little effect for many programs, FORTRAN ones above all; a few "
        "percent less, and 6-21 % less, for others.",
        "A counter takes 4 instructions here and 8 where it saves two registers; on the paper's "
        "MIPS 5 and 11.",
    ),
    bars=Bars(("saved", "scavenged", "live"), "% of base instructions"),
)

REGISTER_TABLES = (REGISTERS,)
