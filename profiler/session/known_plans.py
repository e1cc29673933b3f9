"""Plans of an earlier session: read one by one, when a routine is first entered.

A plan takes a fifth of the time to read that it takes to make. Its graph is not among what is
kept: plans refer to the one that the session has.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.profiles import cache_files

Name = tuple[int, str]
"""Address and name of a routine."""


class KnownPlans:
    """Plans of one program's graphs under one setting.

    Parameters
    ----------
    known
        As `cache_files` writes them, without their graphs, by address and name of the routine.
    """

    def __init__(self, known: dict[Name, bytes] | None = None) -> None:
        self.known = {} if known is None else known

    def find(self, cfg: ControlFlowGraph) -> RoutinePlan | None:
        """Return the plan of a graph, None if it is not known."""
        data = self.known.get((cfg.address, cfg.name))
        return None if data is None else cache_files.loads(data, cfg)

    def without(self, names: Container[Name]) -> KnownPlans:
        """Return these plans without those of some routines."""
        return KnownPlans({name: data for name, data in self.known.items() if name not in names})

    def extended(self, plans: Iterable[tuple[ControlFlowGraph, RoutinePlan]]) -> KnownPlans:
        """Return these plans and others; the very same if there are no others."""
        more = {
            (cfg.address, cfg.name): cache_files.dumps(plan, cfg)
            for cfg, plan in plans
            if (cfg.address, cfg.name) not in self.known
        }
        return KnownPlans({**self.known, **more}) if more else self
