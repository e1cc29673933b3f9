"""What each part of practical path profiling does: `ppp-parts`.

The parts are switched on one after the other, beginning with targeted path profiling. No such
table was published; what was, of whole schemes, is beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.expressions import ColumnSpec, column, columns
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars

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
TABLES = (PARTS,)
