"""Accuracy against overhead of profiles from samples: `sampling`, `sampling-pep`.

Beside what was published: of Arnold and Ryder, and of Bond and McKinley, the abstracts. Their
programs were Java's, with yieldpoints that are there without profiling, too.
"""

from __future__ import annotations

from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.expressions import ColumnSpec, columns, more_columns
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec

INTERVALS = (1, 10, 100, 1000, 10000)
# (tick, samples, stride): each path end; every so many path ends; in bursts, as it was published
BURSTS = {
    **{f"p{n}": {"tick": n, "samples": 1, "stride": 1} for n in INTERVALS},
    **{f"b{n}": {"tick": n, "samples": 64, "stride": 17} for n in (1000, 10000)},
}


def _columns(need: str, about: str, doubled: str = "") -> tuple[ColumnSpec, ...]:
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
        *(each for n in INTERVALS for each in _columns(f"s{n}", f"1/{n}", f"d{n}")),
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
            for each in _columns(name, about)
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
TABLES = (SAMPLING, PEP)
