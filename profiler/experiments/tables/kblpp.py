"""k-iteration paths by two schemes: `kiter-kblpp`.

Both were published with times, of other programs, and never beside each other.
"""

from __future__ import annotations

from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.expressions import (
    ColumnSpec,
    Found,
    column,
    columns,
    more_columns,
)
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars

LENGTHS = (2, 3, 5, 10)


def _counted(found: Found, k: int) -> list[tuple[int, int]]:
    """Return the counts of the paths of k iterations that both schemes counted."""
    theirs, ours = found[f"kiter{k}"].paths, found[f"kblpp{k}"].paths
    return [(theirs[key][0], ours[key][0]) for key in sorted(theirs.keys() & ours.keys())]


def _columns(k: int) -> tuple[ColumnSpec, ...]:
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
    (*columns("pp | PP % | percent | pp.overhead"), *(c for k in LENGTHS for c in _columns(k))),
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
TABLES = (ITERATIONS,)
