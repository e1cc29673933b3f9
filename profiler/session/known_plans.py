"""Plans of an earlier session: read one by one, when a routine is first entered.

A plan takes a fifth of the time to read that it takes to make. Its graph is not among what is
kept: plans refer to the one that the session has.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Container, Iterable

from profiler.graphs.cfg import ControlFlowGraph
from profiler.plan.decoders import RoutinePlan

Name = tuple[int, str]
"""Address and name of a routine."""
_GRAPH = "graph"


class KnownPlans:
    """Plans of one program's graphs under one setting.

    Parameters
    ----------
    known
        Pickled, by address and name of the routine.
    """

    def __init__(self, known: dict[Name, bytes] | None = None) -> None:
        self.known = {} if known is None else known

    def find(self, cfg: ControlFlowGraph) -> RoutinePlan | None:
        """Return the plan of a graph, None if it is not known."""
        data = self.known.get((cfg.address, cfg.name))
        return None if data is None else _Reader(data, cfg).load()

    def without(self, names: Container[Name]) -> KnownPlans:
        """Return these plans without those of some routines."""
        return KnownPlans({name: data for name, data in self.known.items() if name not in names})

    def extended(self, plans: Iterable[tuple[ControlFlowGraph, RoutinePlan]]) -> KnownPlans:
        """Return these plans and others; the very same if there are no others."""
        more = {
            (cfg.address, cfg.name): _pickled(cfg, plan)
            for cfg, plan in plans
            if (cfg.address, cfg.name) not in self.known
        }
        return KnownPlans({**self.known, **more}) if more else self


def _pickled(cfg: ControlFlowGraph, plan: RoutinePlan) -> bytes:
    file = io.BytesIO()
    _Writer(file, cfg).dump(plan)
    return file.getvalue()


class _Writer(pickle.Pickler):
    """Leaves out the plan's graph."""

    def __init__(self, file: io.BytesIO, cfg: ControlFlowGraph) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._cfg = cfg

    def persistent_id(self, value: object) -> str | None:
        """Return the name of the graph; None for all else."""
        return _GRAPH if value is self._cfg else None


class _Reader(pickle.Unpickler):
    """Puts the plan's graph in."""

    def __init__(self, data: bytes, cfg: ControlFlowGraph) -> None:
        super().__init__(io.BytesIO(data))
        self._cfg = cfg

    def persistent_load(self, name: object) -> ControlFlowGraph:
        """Return the graph."""
        return self._cfg
