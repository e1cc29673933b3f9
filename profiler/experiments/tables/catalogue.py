"""All tables and graphs that `simprof table` makes, in the order of the papers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from types import MappingProxyType

from simprof.profiler.experiments.tables import (
    analysis,
    bl94,
    epp,
    family,
    kblpp,
    kiter,
    others,
    ppp,
    sampling,
    tpp,
    tpp_text,
    traces,
)
from simprof.profiler.experiments.tables.spec import TableSpec
from simprof.profiler.request.likeness import unknown
from simprof.simulator.errors import UsageError

_PAPERS = (epp, tpp, tpp_text, analysis, bl94, kiter)
_ALL = (*chain.from_iterable(each.TABLES for each in _PAPERS), others.CS6120)
# Those of papers, by name.
TABLES: Mapping[str, TableSpec] = MappingProxyType({spec.name: spec for spec in _ALL})


def tables() -> Mapping[str, TableSpec]:
    """Return all tables by name: those of papers, then others."""
    more = (
        others.overheads(),
        family.family(),
        others.GCOV_ARCS,
        others.REWRITING_COSTS,
        others.TIMES,
        *ppp.TABLES,
        *sampling.TABLES,
        *kblpp.TABLES,
        *traces.TABLES,
    )
    return {**TABLES, **{spec.name: spec for spec in more}}


def find(names: Iterable[str]) -> tuple[TableSpec, ...]:
    """Return tables by their names, each once; raises UsageError if there is no such table."""
    known = tables()
    chosen = {}
    for name in names:
        if name not in known:
            raise UsageError(unknown("table", name, known))
        chosen[name] = known[name]
    return tuple(chosen.values())
