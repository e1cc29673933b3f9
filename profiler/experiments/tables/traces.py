"""What traces take, and what can be predicted of them: `traces`, `net`.

Beside what was published, with marks of how that is known: [S] from a text that cites the paper,
[A] from an abstract, [M] from memory, unchecked. Published numbers are of other programs, on other
machines.
"""

from __future__ import annotations

from simprof.profiler.experiments.cells.cells import CellKind
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import rule, untestable
from simprof.profiler.experiments.tables.expressions import column, columns
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars
from simprof.profiler.trace.net import DELAYS

_PATHS = CellNeed(setting("wpp"), kind=CellKind.EXECUTE)

TRACES = TableSpec(
    "traces",
    "Traces of one execution: bytes for each million instructions",
    "after J. R. Larus, Whole Program Paths, PLDI 1999; C. G. Nevill-Manning and I. H. Witten, "
    "SEQUITUR, 1997; B. Li, L. Wang and H. Leung, PAP, 2012",
    "Bytes of trace for each million of the program's instructions: witnesses, branch outcomes as "
    "bits, numbers of ways into blocks (pap), symbols of paths (wpp) as they are written, as a "
    "grammar of SEQUITUR's, and compressed with zstandard. Overheads in percent of the "
    "uninstrumented run's. The grammar is written plainly: as few bits a symbol as tell all apart, "
    "and a word for each different path; none is made of more than 64 MiB.",
    {
        **{mode: CellNeed(setting(mode)) for mode in ("witness", "bits", "pap", "wpp", "pp")},
        "paths": _PATHS,
    },
    columns("""
witness | witness | decimal | 1000000 * ((witness.trace_bits + 7) // 8) / witness.base
bits | bits | decimal | 1000000 * ((bits.trace_bits + 7) // 8) / bits.base
pap | pap | decimal | 1000000 * ((pap.trace_bits + 7) // 8) / pap.base
wpp | wpp | decimal | 1000000 * ((wpp.trace_bits + 7) // 8) / wpp.base
grammar | wpp grammar | decimal | 1000000 * paths.grammar_bytes / paths.base
zstd | wpp zstd | decimal | 1000000 * paths.path_zstd_bytes / paths.base
symbols | symbols | count! | paths.path_symbols
rules | rules | count! | paths.grammar_rules
witness_overhead | witness % | percent | witness.overhead
bits_overhead | bits % | percent | bits.overhead
pap_overhead | pap % | percent | pap.overhead
wpp_overhead | wpp % | percent | wpp.overhead
pp_overhead | pp % | percent | pp.overhead
"""),
    (
        rule(
            "Whole program paths of hundreds of MB become grammars of tens of MB (abstract of a "
            "later paper, [A]).",
            "ours: wpp by its grammar: mean(wpp) / mean(grammar) >= 3",
        ),
        rule(
            "PAP costs about twice what PP does, and more in tight loops, up to 5.6 times (cited, "
            "[S]).",
            "ours: pap by pp: 1.5 <= mean(pap_overhead) / mean(pp_overhead) <= 2.5",
        ),
        untestable(
            "Arithmetic coding of branch bits takes less than a fifth of these (abstract, [A]).",
            "there is no such coder here",
        ),
    ),
    bars=Bars(("witness", "bits", "pap", "grammar", "zstd"), "bytes", logarithmic=True),
)


NET = TableSpec(
    "net",
    "Hot paths predicted by their heads, by delay",
    "after E. Duesterwald and V. Bala, Software Profiling for Hot Path Prediction: Less is More, "
    "ASPLOS 2000",
    "Of all executions of hot paths those that a trace had been chosen for before (hits), and of "
    "all executions in traces those of other paths (noise), in percent, by how often a head is "
    "executed before its trace is chosen. Paths go from the target of a backward transfer to the "
    "next; hot is what has 0.1 % of all executions. Heads: counters in use at one time with a "
    "delay of 50, the most, beside the different paths, which a path profile counts. Dynamo's "
    "delay is 50 [M].",
    {"paths": _PATHS},
    (
        *columns("""
executions | executions | count! | paths.net_executions_50
paths | paths | count! | paths.net_paths
heads | heads | count! | paths.net_counters_50
traces | traces | count! | paths.net_traces_50
"""),
        *(
            column(
                f"hits{delay} | {delay}: hits | percent | "
                f"100 * paths.net_hits_{delay} / paths.net_hot_{delay}"
            )
            for delay in DELAYS
        ),
        *(
            column(
                f"noise{delay} | {delay}: noise | percent | 100 * paths.net_noise_{delay} / "
                f"(paths.net_noise_{delay} + paths.net_hits_{delay})"
            )
            for delay in DELAYS
        ),
    ),
    bars=Bars(("hits1", "hits50", "hits1000"), "%"),
)

TABLES = (TRACES, NET)
