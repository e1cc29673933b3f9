"""Tables of schemes that came after the papers: parts of PPP, samples, k iterations, traces.

Beside each stands what was published, with marks of how that is known: [A] from an abstract, [S]
from a text that cites the paper, [M] from memory, unchecked. Published numbers are of other
programs on other machines, times among them; sampled profiles are of Java programs, whose
yieldpoints are there without profiling, too. No table like `ppp-parts` was published, nor one with
both schemes of k-iteration paths beside each other (`kiter-kblpp`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simprof.profiler.experiments.cells.cells import CellKind
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import rule, untestable
from simprof.profiler.experiments.tables.expressions import (
    ColumnSpec,
    Found,
    column,
    columns,
    more_columns,
)
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars
from simprof.profiler.trace.net import DELAYS

# -- practical path profiling: its parts, switched on one after the other --------------------------

# Each part, by its key: its title, and the options without the parts that come after it.
_OFF: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "global": ("+global", {"hot_limit": 0}),
    "adjusting": ("+adjust", {"numbering": "epp"}),
    "smart": ("+smart", {"tested": True}),
    "free": ("+free", {"no_pushing": True}),
    "pushing": ("+push", {"skip": 0.0}),
    "skipping": ("+skip", {}),
}
STEPS = {"tpp": "TPP", **{key: title for key, (title, _) in _OFF.items()}}


def _without(key: str) -> dict[str, Any]:
    """Return the options of `ppp` up to a part."""
    keys = list(_OFF)
    later = keys[keys.index(key) :]
    return {name: value for each in later for name, value in _OFF[each][1].items()}


def _qualities(measure: str, short: str) -> Iterator[ColumnSpec]:
    for key, title in STEPS.items():
        share = f"100 * {key}_.quality.{measure}"
        yield column(f"{key}_{measure} | {short} {title} | percent | {share}")


PARTS = TableSpec(
    "ppp-parts",
    "Parts of practical path profiling, one after the other",
    "after M. D. Bond and K. S. McKinley, Practical Path Profiling for Dynamic Optimizers, CGO "
    "2005 (abstract; the rest as remembered)",
    "Added instructions in percent of the uninstrumented run's; acc., cov.: accuracy (weight "
    "matching of hot paths) and coverage in branch flow, in percent, against `pp` of the same run. "
    "From TPP each column adds a part. Global: edges below 0.1 % of the program's path executions "
    "are cold everywhere. Adjust: that share is doubled for a routine until it has 4,000 hot paths "
    "at most. Smart: numbering. Free: poisoning. Push: code moves past cold edges. Skip: routines "
    "with 75 % definite flow are left out. No tree: the whole, each value on its own edge. "
    "Published, on SPEC2000: PPP 5 % on average, -3 to 13 % (memory; the abstract agrees), TPP "
    "about 12 %, PP about 50 % (memory).",
    {
        "pp": CellNeed(setting("pp")),
        "tpp": CellNeed(setting("tpp")),
        **{key: CellNeed(setting("ppp", **_without(key))) for key in _OFF},
        "edges": CellNeed(setting("ppp", numbering="edges")),
    },
    (
        *columns("pp | PP | percent | pp.overhead"),
        # `global` is a word of Python's: hence the underscore
        *(column(f"{key} | {title} | percent | {key}_.overhead") for key, title in STEPS.items()),
        column("edges | no tree | percent | edges.overhead"),
        *_qualities("accuracy", "acc."),
        *_qualities("coverage", "cov."),
    ),
    (
        rule(
            "PPP's overhead is 5 % on average (memory; the abstract agrees).",
            "ours: mean(skipping) <= 5",
        ),
        rule("It is lower than TPP's (memory: 12 %).", "paper: mean(skipping) < mean(tpp)"),
    ),
    bars=Bars(tuple(STEPS), "percent of the base instructions"),
)


# -- profiles from samples: accuracy against overhead ----------------------------------------------

INTERVALS = (1, 10, 100, 1000, 10000)
# (tick, samples, stride): each path end; every so many path ends; in bursts, as it was published
BURSTS = {
    **{f"p{n}": {"tick": n, "samples": 1, "stride": 1} for n in INTERVALS},
    **{f"b{n}": {"tick": n, "samples": 64, "stride": 17} for n in (1000, 10000)},
}


def _sampled(need: str, about: str, doubled: str = "") -> tuple[ColumnSpec, ...]:
    """Return the columns of a need: what it costs, also in a second copy, and what it gives."""
    copy = f"{doubled} | {about} twice | percent | {doubled}.overhead\n" if doubled else ""
    return more_columns(f"""
{need} | {about} | percent | {need}.overhead
{copy}{need}_paths | {about} paths | percent | 100 * {need}.quality.overlap
{need}_edges | {about} edges | percent | 100 * {need}.quality.edge_overlap
""")


_MEASURED = (
    "Added instructions in percent of the uninstrumented run's. Paths, edges: overlap with the "
    "profile of `pp` in percent, the sum of the lesser shares of all executions; edges are those "
    "within paths. "
)

SAMPLING = TableSpec(
    "sampling",
    "Sampled paths: accuracy against overhead",
    "after M. Arnold and B. G. Ryder, A Framework for Reducing the Cost of Instrumented Code, PLDI "
    "2001 (abstract)",
    f"{_MEASURED}One of so many paths is a sample; twice: in a second copy of the routine, which "
    "samples the same paths. Published (abstract, marked [A]): 93 to 98 % overlap "
    "at about 6 % overhead, about 3 % where yieldpoints have the checks.",
    {
        "pp": CellNeed(setting("pp")),
        **{f"s{n}": CellNeed(setting("sampled", interval=n)) for n in INTERVALS},
        **{f"d{n}": CellNeed(setting("sampled", interval=n, duplicated=True)) for n in INTERVALS},
    },
    (
        *columns("pp | pp | percent | pp.overhead"),
        *(each for n in INTERVALS for each in _sampled(f"s{n}", f"1/{n}", f"d{n}")),
    ),
    (
        rule(
            "Sampled profiles overlap with perfect ones by 93 to 98 % (abstract).",
            "ours: mean(s1000_paths) >= 93",
        ),
        rule("... at an overhead of about 6 %.", "ours: mean(d1000) <= 6"),
        rule(
            "Duplicated code costs less than a test before each action.",
            "paper: mean(d1000) < mean(s1000)",
        ),
    ),
)
PEP = TableSpec(
    "sampling-pep",
    "PEP: accuracy against overhead",
    "after M. D. Bond and K. S. McKinley, Continuous Path and Edge Profiling, MICRO-38, 2005 "
    "(abstract)",
    f"{_MEASURED}1/N: every N-th path end is read. Bursts: 64 samples, 17 path ends apart, then N "
    "without any. The checks at path ends are among the added instructions: in the paper they are "
    "yieldpoints, which are there without profiling, too. Published, from the abstract: 1.2 % "
    "overhead, 94 % of paths, 96 % of edges (with measures of its own).",
    {
        "pp": CellNeed(setting("pp")),
        **{name: CellNeed(setting("pep", **options)) for name, options in BURSTS.items()},
    },
    (
        *columns("pp | pp | percent | pp.overhead"),
        *(
            each
            for name, options in BURSTS.items()
            for about in (f"{'1/' if name[0] == 'p' else 'bursts '}{options['tick']}",)
            for each in _sampled(name, about)
        ),
    ),
    (
        rule(
            "Sampled profiles have 94 % of paths (abstract).",
            "ours: mean(b1000_paths) >= 94",
        ),
        rule("The overhead is 1.2 % (abstract).", "ours: mean(b1000) <= 4.3"),
    ),
)


# -- k-iteration paths by two schemes --------------------------------------------------------------

LENGTHS = (2, 3, 5, 10)


def _counted(found: Found, k: int) -> list[tuple[int, int]]:
    """Return the counts of the paths of k iterations that both schemes counted."""
    theirs, ours = found[f"kiter{k}"].paths, found[f"kblpp{k}"].paths
    return [(theirs[key][0], ours[key][0]) for key in sorted(theirs.keys() & ours.keys())]


def _iterations(k: int) -> tuple[ColumnSpec, ...]:
    return (
        *more_columns(f"""
kiter{k}_added | k={k} kiter added | count | kiter{k}.added
kblpp{k}_added | k={k} kblpp added | count | kblpp{k}.added
kiter{k} | k={k} kiter % | percent | kiter{k}.overhead
kblpp{k} | k={k} kblpp % | percent | kblpp{k}.overhead
kiter{k}_bytes | k={k} kiter bytes | count | kiter{k}.counter_bytes
kblpp{k}_bytes | k={k} kblpp bytes | count | kblpp{k}.counter_bytes
"""),
        column(f"same{k} | k={k} paths | count!", lambda found: len(_counted(found, k))),
        column(
            f"different{k} | k={k} differ | count!",
            lambda found: sum(one != other for one, other in _counted(found, k)),
        ),
    )


ITERATIONS = TableSpec(
    "kiter-kblpp",
    "k-iteration paths, numbered (kiter) or in forests (kblpp)",
    "D. C. D'Elia and C. Demetrescu, Ball-Larus path profiling across multiple loop iterations, "
    "OOPSLA 2013 (by the algorithm chapter of D'Elia's thesis); S. Roy and Y. N. Srikant, "
    "Profiling k-iteration paths, CGO 2009",
    "Added: instructions. %: in percent of the uninstrumented run's. Bytes: of counters; of kblpp "
    "with the nodes of its forests. Paths: how many paths of k iterations of one loop, ended by "
    "its back edge, both have counted; differ: how many of these have different counts. kiter "
    "iterates innermost loops, where the path limit allows, and kblpp sequences of any acyclic "
    "paths. Published: kblpp about as fast as acyclic paths in hash tables, or faster (abstract); "
    "kiter several times that as k grows (cited in the thesis). Both are times in other systems.",
    {
        "pp": CellNeed(setting("pp")),
        **{f"kiter{k}": CellNeed(setting("kiter", iterations=k)) for k in LENGTHS},
        **{f"kblpp{k}": CellNeed(setting("kblpp", length=k)) for k in LENGTHS},
    },
    (*columns("pp | PP % | percent | pp.overhead"), *(c for k in LENGTHS for c in _iterations(k))),
    (
        *(
            rule(
                f"Both count the same paths of {k} iterations equally often.",
                f"ours: mean(different{k}) <= 0",
            )
            for k in LENGTHS
        ),
    ),
    notes=(
        "A loop whose paths would be beyond the path limit has a smaller k under kiter. kblpp has "
        "no such limit: k changes neither its numbering nor its code but for what one call does.",
    ),
    bars=Bars(
        tuple(f"{mode}{k}" for k in LENGTHS for mode in ("kiter", "kblpp")),
        "percent of the base instructions",
    ),
)


# -- what traces take, and what can be predicted of them -------------------------------------------

_PATHS = CellNeed(setting("wpp"), kind=CellKind.EXECUTE)

TRACES = TableSpec(
    "traces",
    "Traces of one execution: bytes for each million instructions",
    "after J. R. Larus, Whole Program Paths, PLDI 1999; C. G. Nevill-Manning and I. H. Witten, "
    "SEQUITUR, 1997; B. Li, L. Wang and H. Leung, PAP, 2012",
    "Bytes of trace for each million of the program's instructions: witnesses, branch outcomes as "
    "bits, numbers of edges into blocks (pap), symbols of paths (wpp) as they are written, as a "
    "grammar of SEQUITUR's, and compressed with zstandard. Overheads in percent of the "
    "uninstrumented run's. The grammar is written plainly: as few bits a symbol as suffice, "
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

TABLES = (PARTS, SAMPLING, PEP, ITERATIONS, TRACES, NET)
