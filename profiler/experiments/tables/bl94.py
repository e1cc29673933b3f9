"""BL94's tables and graphs (Ball and Larus, "Optimally Profiling and Tracing Programs", 1994, 6).

Tables 1 to 3, graphs 1 to 5, and section 6.3, "Register scavenging", made a table: what free
registers save.
"""

from __future__ import annotations

from simprof.profiler.experiments.cells.cells import CellKind
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.expressions import columns
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars

PAPER = "T. Ball and J. R. Larus, Optimally Profiling and Tracing Programs, TOPLAS 16(4), 1994"


def _folded(mode: str, kind: CellKind = CellKind.RUN, **options: object) -> CellNeed:
    # The blocks of BL94: calls and delay slots end none (`schemes.qpt.BlockBasis`).
    return CellNeed(setting(mode, blocks="folded", **options), kind=kind)


REDUNDANT, OPTIMAL = _folded("qpt"), _folded("qpt2")

# Reading the file and recovering graphs is the same for both and counted in both.
TABLE1 = TableSpec(
    "bl94-table1",
    "BL94 table 1: time to instrument",
    f"{PAPER}, table 1",
    "Wall-clock seconds of this machine to recover the graphs of all routines, place counters and "
    "generate their code: in every block (redundant), on the chords of a spanning tree (optimal).",
    {"redundant": _folded("qpt", CellKind.PLAN), "optimal": _folded("qpt2", CellKind.PLAN)},
    columns("""
redundant | redundant (s) | seconds | \
redundant.recovery + redundant.planning + redundant.generation
optimal | optimal (s) | seconds | optimal.recovery + optimal.planning + optimal.generation
increase | optimal/redundant | ratio | \
(optimal.recovery + optimal.planning + optimal.generation) / \
(redundant.recovery + redundant.planning + redundant.generation)
plan_redundant | placing: redundant | seconds | redundant.planning
plan_optimal | optimal | seconds | optimal.planning
code_redundant | code: redundant | seconds | redundant.generation
code_optimal | optimal | seconds | optimal.generation
"""),
    (
        rule(
            "Instrumenting for optimal profiling is slightly (22-38 %) slower than for redundant "
            "profiling.",
            "paper: 1.22 <= mean(increase) <= 1.38",
        ),
    ),
    notes=(
        "These are times: they differ from run to run.",
        "Here generating code takes longer than placing counters, and optimal placement has less "
        "of it; what the paper's tool spent its time on is not said.",
    ),
    bars=Bars(("redundant", "optimal"), "seconds to instrument"),
)
TABLE2 = TableSpec(
    "bl94-table2",
    "BL94 table 2: edges with counters",
    f"{PAPER}, table 2",
    "Edges of all routines, run or not; those with a counter; those of them whose code needs no "
    "unconditional jump.",
    {"plan": _folded("qpt2", CellKind.PLAN)},
    columns("""
edges | edges | count | plan.all.placed_edges
profiled | profiled | count | plan.all.instrumented_edges
profiled_share | % of edges | percent | 100 * plan.all.instrumented_edges / plan.all.placed_edges
no_jump | no jump | count | plan.all.no_jump_edges
no_jump_share | % of profiled | percent | 100 * plan.all.no_jump_edges / plan.all.instrumented_edges
density | edges/block | ratio | plan.all.placed_edges / plan.all.placed_blocks
own_share | own: % of edges | percent | 100 * plan.own.instrumented_edges / plan.own.placed_edges
own_no_jump_share | own: % of profiled without jump | percent | \
100 * plan.own.no_jump_edges / plan.own.instrumented_edges
"""),
    (
        rule(
            "The share of edges that are profiled is in the narrow range of 39-46 %.",
            "paper: 39 <= mean(profiled_share) <= 46 %",
            "paper: width of the range: max(profiled_share) - min(profiled_share) <= 7 %",
        ),
        rule(
            "Less than half of the profiled edges need an unconditional jump.",
            "paper: count(no_jump_share > 50) >= all",
        ),
    ),
    notes=(
        "The paper's totals are of the whole binary: matrix300 and tomcatv, of a page of source "
        "each, have some 4,700 edges. Own: routines of the program itself.",
        "The paper's programs are MIPS code, which annuls no delay slot: here the slot of an "
        "annulled branch is taken for a part of its edge.",
    ),
    bars=Bars(("profiled_share", "no_jump_share"), "%"),
)


def _bytes(result: str, size: str = "trace_bits") -> str:
    return f"({result}.{size} + 7) // 8"


# AE's first way: the outcome of every conditional branch, a byte each: the tokens of `bits`
_OLD, _NEW = "(bits.trace_tokens or 0)", _bytes("witness")
_ADDRESSES = _bytes("witness_addresses", "address_bits")

TABLE3 = TableSpec(
    "bl94-table3",
    "BL94 table 3: traces of every conditional (old) and of witnesses (new)",
    f"{PAPER}, table 3",
    "Bytes of trace. Old: the outcome of every predicate in a byte. New: witnesses. Fewest: "
    "witnesses of as few bits as their number allows. Bits: bit tracing. Addresses: those of "
    "data, a file of their own; file old/new: of both files. Overheads in percent of "
    "base instructions, writing the trace to memory: as bytes (mode bytes), as bits, witnesses; "
    "+ addresses: with those of data. "
    "Run old/new: instructions of the run that writes bytes by those of the one that writes "
    "witnesses, both with addresses, as the paper's; alone: without.",
    {
        **{name: CellNeed(setting(name)) for name in ("bits", "witness", "bytes")},
        "witness_addresses": CellNeed(setting("witness", addresses=True)),
        "bytes_addresses": CellNeed(setting("bytes", addresses=True)),
    },
    columns(f"""
old | old (bytes) | count! | {_OLD}
new | new (bytes) | count! | {_NEW}
old_new | old/new | quotient | {_OLD} / ({_NEW})
fewest | fewest (bytes) | count! | {_bytes("witness", "minimal_trace_bits")}
bit | bits (bytes) | count! | {_bytes("bits")}
new_bit | new/bits | quotient | ({_NEW}) / ({_bytes("bits")})
addresses | addresses (bytes) | count! | {_ADDRESSES}
file_ratio | file old/new | ratio | ({_OLD} + {_ADDRESSES}) / ({_NEW} + {_ADDRESSES})
bits_overhead | bits % | percent | bits.overhead
witness_overhead | witness % | percent | witness.overhead
bytes | bytes % | percent | bytes.overhead
witness_addresses | witness + addresses % | percent | witness_addresses.overhead
bytes_addresses | bytes + addresses % | percent | bytes_addresses.overhead
run_ratio | run old/new | ratio | bytes_addresses.instructions / witness_addresses.instructions
run_old_new | alone: run old/new | ratio | bytes.instructions / witness.instructions
"""),
    (
        rule(
            "Witness placement makes traces smaller: 1.2 to 3.0 times.",
            "paper: 1.2 <= mean(old_new) <= 3",
            "paper: min(old_new) >= 1",
        ),
        rule(
            "Bit tracing makes traces 3-7 times smaller than witnesses of a byte and more.",
            "paper: 3 <= mean(new_bit) <= 7",
        ),
        rule(
            "Files with data addresses become 1.0 to 1.3 times smaller.",
            "paper: 1 <= mean(file_ratio) <= 1.3",
            "ours: count(file_ratio > 1) >= most",
        ),
        rule(
            "Recording witnesses runs up to 1.2 times faster than recording every conditional (0.9 "
            "to 1.2).",
            "paper: 0.9 <= mean(run_ratio) <= 1.2",
            "ours: count(run_ratio > 1) >= most",
        ),
    ),
    notes=(
        "The paper's programs write files, too: what both ways have in common brings the quotient "
        "of their times nearer to 1.",
        "The paper does not say which addresses AE records. Here it is each that neither the code "
        "nor another one of the same execution of a block tells, as wide as a register.",
    ),
    bars=Bars(("old_new", "new_bit"), "times smaller", baseline=1.0),
)
GRAPH1 = TableSpec(
    "bl94-graph1",
    "BL94 graph 1: normalised times of profiling",
    f"{PAPER}, graph 1",
    "Instructions of the profiled run by those of the run without profiling: a counter in every "
    "block (redundant), on the chords of a spanning tree (optimal). Saved: redundant, and every "
    "counter saves and restores its two registers, as the paper's code of 11 instructions does. "
    "Pixie: a counter in every block, two registers taken from the program. Inst/counter: what "
    "these add by their increments.",
    {
        "redundant": REDUNDANT,
        "optimal": OPTIMAL,
        "saved": _folded("qpt", registers="saved"),
        "pixie": _folded("qpt", registers="stolen"),
    },
    columns("""
redundant | redundant | ratio | redundant.instructions / redundant.base
optimal | optimal | ratio | optimal.instructions / optimal.base
saved | saved | ratio | saved.instructions / saved.base
pixie | pixie | ratio | pixie.instructions / pixie.base
redundant_each | inst/counter | ratio | redundant.added / redundant.edge_increments
saved_each | saved | ratio | saved.added / saved.edge_increments
pixie_each | pixie | ratio | pixie.added / pixie.edge_increments
"""),
    (
        rule(
            "Optimal profiling reduces overhead dramatically, from 10-225 % to 5-91 %.",
            "ours: optimal by redundant overhead: "
            "mean((optimal - 1) / (redundant - 1), redundant > 1) <= 0.75",
            "paper: count(optimal <= redundant, redundant > 1) >= all",
        ),
        rule(
            "Pixie, with 6 instructions a block and not 11, lies between optimal profiling and "
            "redundant profiling that saves its registers.",
            "paper: count(optimal <= pixie) >= all",
            "paper: count(pixie <= saved) >= all",
        ),
    ),
    notes=(
        "The paper's redundant code saves what it uses: its 11 instructions are 8 here, and "
        "pixie's 6 are 4, with what the program's own uses of the registers take on top. Where "
        "registers are dead, redundant code takes 4, too.",
    ),
    bars=Bars(("redundant", "optimal"), "times the base instructions", baseline=1.0),
)


def _reduction(need: str) -> str:
    """Return (5 * blocks) / (5 * increments + jumps), as the caption of graph 2 has it."""
    return f"5 * redundant.edge_increments / (5 * {need}.edge_increments + {need}.jumps)"


GRAPH2 = TableSpec(
    "bl94-graph2",
    "BL94 graph 2: reduction of increments and of instrumentation",
    f"{PAPER}, graph 2",
    "Redundant by optimal: counter increments; instructions at 5 an increment and 1 a jump, as "
    "the paper counts. Inst/block: instructions of a dynamic block.",
    {"redundant": REDUNDANT, "optimal": OPTIMAL},
    columns(f"""
block | inst/block | decimal | redundant.base / redundant.edge_increments
increments | increments | ratio | redundant.edge_increments / optimal.edge_increments
instructions | instructions | ratio | {_reduction("optimal")}
redundant | redundant time | ratio | redundant.instructions / redundant.base
"""),
    (
        rule(
            "The reduction in instructions is in general less than in increments, for edges may "
            "need jumps.",
            "paper: count(instructions <= increments) >= most",
        ),
        rule(
            "For the four C programs increments are reduced by a factor of 3-4, instructions by "
            "2-3.",
            "paper: 3 <= mean(increments, INT) <= 4",
            "paper: 2 <= mean(instructions, INT) <= 3",
        ),
        rule(
            "The greatest improvements are in programs whose profiling overhead is largest.",
            "paper: median(increments, upper(redundant)) >= median(increments, lower(redundant))",
        ),
    ),
    bars=Bars(("increments", "instructions"), "times fewer", baseline=1.0),
)
GRAPH3 = TableSpec(
    "bl94-graph3",
    "BL94 graph 3: placements of counters",
    f"{PAPER}, graph 3",
    "Reduction of instrumentation against a counter in every block, (5 blocks)/(5 increments + "
    "jumps), with the same heuristic weights. Greater is better. Eprof(Mcnt), counters on edges "
    "and in blocks, is what section 3 names and leaves aside.",
    {
        "redundant": REDUNDANT,
        "edge": _folded("qpt", placement="edge"),
        "edge_heuristic": _folded("qpt", placement="edge-heuristic"),
        "vertex": _folded("qpt", placement="vertex-optimal"),
        "mixed": _folded("qpt", placement="mixed"),
    },
    columns(f"""
edge | Eprof(Ecnt) | ratio | {_reduction("edge")}
edge_heuristic | Vprof(Ecnt) | ratio | {_reduction("edge_heuristic")}
vertex | Vprof(Vcnt) | ratio | {_reduction("vertex")}
mixed | Eprof(Mcnt) | ratio | {_reduction("mixed")}
"""),
    (
        rule(
            "Eprof(Ecnt) is superior to Vprof(Vcnt) for all programs.",
            "paper: count(edge >= vertex) >= all",
        ),
        rule(
            "The heuristic for Vprof(Ecnt) yields almost no improvement over Eprof(Ecnt).",
            "ours: mean improvement: mean(100 * (edge_heuristic - edge) / edge) <= 5 %",
        ),
        rule(
            "Mixed placements provide little benefit over edge placements (Samples, section 3).",
            "ours: mean improvement: mean(100 * (mixed - edge) / edge) <= 5 %",
        ),
    ),
    bars=Bars(("edge", "edge_heuristic", "vertex", "mixed"), "times fewer", baseline=1.0),
)
# A column shows redundant increments by those of a spanning tree.
GRAPH4 = TableSpec(
    "bl94-graph4",
    "BL94 graph 4: heuristic and exact weights, greatest and least spanning trees",
    f"{PAPER}, graph 4",
    "Increments of a counter in every block by those on the chords of the spanning tree. Exact "
    "weights are the edge counts of the same run. Post-order: Goldberg's weights (7.1.4, without "
    "numbers).",
    {"optimal": OPTIMAL},
    columns("""
heuristic-max | Heuristic-Max | ratio | redundant / heuristic_max
heuristic-min | Heuristic-Min | ratio | redundant / heuristic_min
exact-max | Exact-Max | ratio | redundant / exact_max
exact-min | Exact-Min | ratio | redundant / exact_min
postorder-max | Post-order-Max | ratio | redundant / postorder_max
"""),
    (
        rule(
            "Heuristic-Max always produces a greater reduction than Heuristic-Min.",
            "paper: count(heuristic_max > heuristic_min) >= all",
        ),
        rule(
            "Heuristic weights reduce increments usually little less than exact ones (1-34 %).",
            "paper: median of what is reduced less: "
            "median(100 * (1 - heuristic_max / exact_max)) <= 34 %",
        ),
        rule(
            "The reduction varies greatly with the spanning tree.",
            "ours: median(exact_max / exact_min) >= 1.5",
        ),
        rule(
            "Goldberg's post-order weights will not always lead to the best placement (7.1.4).",
            "paper: count(heuristic_max > postorder_max) >= 1",
        ),
    ),
    notes=(
        "That Exact-Min is the worst and Exact-Max the best of all (6.4) could not be otherwise: "
        "these are the greatest and the least trees by the very counts that are summed up.",
    ),
    bars=Bars(
        ("heuristic-max", "heuristic-min", "exact-max", "exact-min"), "times fewer", baseline=1.0
    ),
    rows=lambda program, found: (dict(found["optimal"].part("trees")),),
)
GRAPH5 = TableSpec(
    "bl94-graph5",
    "BL94 graph 5: normalised times with heuristic and exact weights",
    f"{PAPER}, graph 5",
    "Instructions of the profiled run by those of the run without profiling; counters on the "
    "chords of a greatest spanning tree.",
    {"heuristic": OPTIMAL, "exact": _folded("qpt2", weights="exact")},
    columns("""
heuristic | heuristic | ratio | heuristic.instructions / heuristic.base
exact | exact | ratio | exact.instructions / exact.base
"""),
    (
        rule(
            "With exact weights programs run as fast or faster, but one (fpppp).",
            "paper: count(exact <= heuristic) >= all_but_one",
        ),
        rule(
            "Exceptions are due to cache behaviour: without caches, as here, there are none.",
            "paper: count(exact <= heuristic) >= all",
        ),
    ),
    bars=Bars(("heuristic", "exact"), "times the base instructions", baseline=1.0),
)
REGISTERS = TableSpec(
    "bl94-registers",
    "BL94 section 6.3: register scavenging",
    f"{PAPER}, section 6.3",
    "Overhead of counters on the chords of a spanning tree, in percent of base instructions: with "
    "every register saved and restored, with unused caller-saved registers free (scavenged), and "
    "with all that are dead at the counter free (liveness, as everywhere else here). Reductions "
    "are of the overhead and of the whole run, against the first.",
    {
        "saved": _folded("qpt2", registers="saved"),
        "scavenged": _folded("qpt2", registers="scavenged"),
        "live": OPTIMAL,
    },
    columns("""
saved | saved % | percent | saved.overhead
scavenged | scavenged % | percent | scavenged.overhead
live | liveness % | percent | live.overhead
less | scavenging: less overhead % | percent | 100 * (saved.added - scavenged.added) / saved.added
less_run | less run % | percent | \
100 * (saved.instructions - scavenged.instructions) / saved.instructions
less_live | liveness: less overhead % | percent | 100 * (saved.added - live.added) / saved.added
"""),
    (
        rule(
            "Register scavenging has little effect on the overhead of many programs, and reduces "
            "that of others by a few percent or by 6-21 %.",
            "paper: 6 <= max(less) <= 21 %",
        ),
    ),
    notes=(
        "The paper prints no table: little effect for many programs, FORTRAN ones above all; a few "
        "percent less, and 6-21 % less, for others.",
        "A counter takes 4 instructions here and 8 where it saves two registers; on the paper's "
        "MIPS 5 and 11.",
    ),
    bars=Bars(("saved", "scavenged", "live"), "% of base instructions"),
)

TABLES = (TABLE1, TABLE2, TABLE3, GRAPH1, GRAPH2, GRAPH3, GRAPH4, GRAPH5, REGISTERS)
