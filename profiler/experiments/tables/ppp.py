"""What each part of practical path profiling does: `ppp-parts`.

The parts are switched on one after the other, beginning with targeted path profiling. No such
table was published; what was, of whole schemes, is beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.columns import PROGRAM, Found
from simprof.profiler.experiments.tables.conditions import at_most, below
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


PARTS = TableSpec[Found](
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
        PROGRAM,
        columns.of_overhead("pp", "PP"),
        *(columns.of_overhead(key, title) for key, title in STEPS.items()),
        columns.of_overhead("edges", "no tree"),
        *(columns.of_quality(key, "accuracy", f"acc. {title}") for key, title in STEPS.items()),
        *(columns.of_quality(key, "coverage", f"cov. {title}") for key, title in STEPS.items()),
    ),
    (
        rule(
            "PPP's overhead is 5 % on average (memory; the abstract agrees).",
            claims.mean_is("skipping", at_most(5), others=("tpp", "pp")),
        ),
        rule(
            "It is lower than TPP's (memory: 12 %).",
            claims.means_differ(
                ("mean of PPP", "skipping"), below, ("mean of TPP", "tpp"), ("PPP", "TPP")
            ),
        ),
    ),
    bars=Bars(tuple(STEPS), "percent of the base instructions"),
)
TABLES = (PARTS,)
