"""Accuracy against overhead of profiles from samples: `sampling`, `sampling-pep`.

Beside what was published: of Arnold and Ryder, and of Bond and McKinley, the abstracts. Their
programs were Java's, with yieldpoints that are there without profiling, too.
"""

from __future__ import annotations

from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.columns import PROGRAM, ColumnSpec, Found
from simprof.profiler.experiments.tables.conditions import at_least, at_most, below
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec

INTERVALS = (1, 10, 100, 1000, 10000)
# (tick, samples, stride): each path end; every so many path ends; in bursts, as it was published
BURSTS = {
    **{f"p{n}": {"tick": n, "samples": 1, "stride": 1} for n in INTERVALS},
    **{f"b{n}": {"tick": n, "samples": 64, "stride": 17} for n in (1000, 10000)},
}


def _accuracy(need: str, about: str) -> tuple[ColumnSpec[Found], ColumnSpec[Found]]:
    return (
        columns.of_quality(need, "overlap", f"{about} paths", key=f"{need}_paths"),
        columns.of_quality(need, "edge_overlap", f"{about} edges", key=f"{need}_edges"),
    )


_MEASURED = (
    "Added instructions in percent of the uninstrumented run's. Paths, edges: overlap with the "
    "profile of `pp` in percent, the sum of the lesser shares of all executions; edges are those "
    "within paths. "
)

SAMPLING = TableSpec[Found](
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
        PROGRAM,
        columns.of_overhead("pp", "pp"),
        *(
            column
            for n in INTERVALS
            for column in (
                columns.of_overhead(f"s{n}", f"1/{n}"),
                columns.of_overhead(f"d{n}", f"1/{n} twice"),
                *_accuracy(f"s{n}", f"1/{n}"),
            )
        ),
    ),
    (
        rule(
            "Sampled profiles overlap with perfect ones by 93 to 98 % (abstract).",
            claims.mean_is("s1000_paths", at_least(93)),
        ),
        rule("... at an overhead of about 6 %.", claims.mean_is("d1000", at_most(6))),
        rule(
            "Duplicated code costs less than a test before each action.",
            claims.means_differ(
                ("mean with two copies", "d1000"),
                below,
                ("mean with tests", "s1000"),
                ("two copies", "tests"),
            ),
        ),
    ),
)
PEP = TableSpec[Found](
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
        PROGRAM,
        columns.of_overhead("pp", "pp"),
        *(
            column
            for name, options in BURSTS.items()
            for about in (f"{'1/' if name[0] == 'p' else 'bursts '}{options['tick']}",)
            for column in (columns.of_overhead(name, about), *_accuracy(name, about))
        ),
    ),
    (
        rule(
            "Sampled profiles have 94 % of paths (abstract).",
            claims.mean_is("b1000_paths", at_least(94)),
        ),
        rule("The overhead is 1.2 % (abstract).", claims.mean_is("b1000", at_most(4.3))),
    ),
)
TABLES = (SAMPLING, PEP)
