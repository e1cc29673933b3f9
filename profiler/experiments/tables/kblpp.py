"""k-iteration paths by two schemes: `kiter-kblpp`.

Both were published with times, of other programs, and never beside each other.
"""

from __future__ import annotations

from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns
from simprof.profiler.experiments.tables.claims import rule
from simprof.profiler.experiments.tables.columns import PROGRAM, ColumnSpec, Found, ResultOf
from simprof.profiler.experiments.tables.conditions import at_most
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars

LENGTHS = (2, 3, 5, 10)


def _counted(found: Found, k: int) -> list[tuple[int, int]]:
    """Return the counts of the paths of k iterations that both schemes counted."""
    theirs = {row.key: row.count for row in found[f"kiter{k}"].paths}
    ours = {row.key: row.count for row in found[f"kblpp{k}"].paths}
    return [(theirs[key], ours[key]) for key in sorted(theirs.keys() & ours.keys())]


def _columns(k: int) -> tuple[ColumnSpec[Found], ...]:
    kiter, kblpp = ResultOf(f"kiter{k}"), ResultOf(f"kblpp{k}")
    return (
        columns.count(f"kiter{k}_added", f"k={k} kiter added", kiter.added),
        columns.count(f"kblpp{k}_added", f"k={k} kblpp added", kblpp.added),
        columns.percent(f"kiter{k}", f"k={k} kiter %", kiter.overhead),
        columns.percent(f"kblpp{k}", f"k={k} kblpp %", kblpp.overhead),
        columns.count(f"kiter{k}_bytes", f"k={k} kiter bytes", kiter.sizes("counter_bytes")),
        columns.count(f"kblpp{k}_bytes", f"k={k} kblpp bytes", kblpp.sizes("counter_bytes")),
        columns.total(f"same{k}", f"k={k} paths", lambda found: len(_counted(found, k))),
        columns.total(
            f"different{k}",
            f"k={k} differ",
            lambda found: sum(one != other for one, other in _counted(found, k)),
        ),
    )


ITERATIONS = TableSpec[Found](
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
    (PROGRAM, columns.of_overhead("pp", "PP %"), *(c for k in LENGTHS for c in _columns(k))),
    (
        *(
            rule(
                f"Both count the same paths of {k} iterations equally often.",
                claims.mean_is(f"different{k}", at_most(0), others=(f"same{k}",)),
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
