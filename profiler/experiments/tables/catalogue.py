"""All tables and graphs that `simprof table` makes, in the order of the papers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from simprof.profiler.experiments.tables import bl94 as tables_bl94
from simprof.profiler.experiments.tables import bl94_graphs as tables_bl94_graphs
from simprof.profiler.experiments.tables import cs6120 as tables_cs6120
from simprof.profiler.experiments.tables import epp as tables_epp
from simprof.profiler.experiments.tables import epp_sections as tables_epp_sections
from simprof.profiler.experiments.tables import instrumented as tables_instrumented
from simprof.profiler.experiments.tables import kiter as tables_kiter
from simprof.profiler.experiments.tables import tpp as tables_tpp
from simprof.profiler.experiments.tables import tpp_paths as tables_tpp_paths
from simprof.profiler.experiments.tables.gcov_arcs import GCOV_ARCS
from simprof.profiler.experiments.tables.overheads import overheads
from simprof.profiler.experiments.tables.spec import TableSpec
from simprof.simulator.errors import UsageError

_ALL = (
    *tables_epp.TABLES,
    *tables_epp_sections.TABLES,
    *tables_tpp.TABLES,
    *tables_tpp_paths.TABLES,
    *tables_tpp.PART_TABLES,
    *tables_bl94.TABLES,
    *tables_bl94_graphs.TABLES,
    *tables_bl94.REGISTER_TABLES,
    *tables_kiter.TABLES,
    *tables_cs6120.TABLES,
)
TABLES: Mapping[str, TableSpec] = MappingProxyType({spec.name: spec for spec in _ALL})
"""Those of papers, by name."""


def tables() -> Mapping[str, TableSpec]:
    """Return all tables by name: those of papers, then others."""
    others = (overheads(), GCOV_ARCS, *tables_instrumented.TABLES)
    return {**TABLES, **{spec.name: spec for spec in others}}


def find(names: Iterable[str]) -> tuple[TableSpec, ...]:
    """Return tables by their names, each once.

    Raises
    ------
    UsageError
        If there is no such table.
    """
    known = tables()
    chosen = {}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no table {name!r}: name some of {', '.join(known)}")
        chosen[name] = known[name]
    return tuple(chosen.values())
