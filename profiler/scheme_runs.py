"""The schemes of one run: which graphs they see, with which weights, on which register."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from profiler.cfg import ControlFlowGraph
from profiler.errors import ProfileMismatchError
from profiler.loops import depth_first
from profiler.measure import EdgeScheme, PathScheme, PlainScheme, Scheme
from profiler.plan import Table
from profiler.profile import EdgeProfile
from profiler.recovery import RecoveredProgram
from profiler.request import Mode, SchemeOptions, TableChoice, Weights
from profiler.schemes.pp import PathPlan, plan_pp
from profiler.schemes.qpt import EdgePlan, plan_qpt2
from profiler.weights import measured, uniform
from simulator.errors import UsageError

_TABLES = {
    TableChoice.AUTO: None,
    TableChoice.ARRAY: Table.ARRAY,
    TableChoice.HASH: Table.HASH,
}


class Graphs:
    """The graphs of the routines that the user selected.

    Parameters
    ----------
    recovered
        All graphs.
    patterns
        Glob patterns of routine names; none: all routines are selected.

    Raises
    ------
    UsageError
        If a pattern matches no routine. Names of code without a symbol (`sub_...`) are let
        pass: a run may still find it.
    """

    def __init__(self, recovered: RecoveredProgram, patterns: Sequence[str]) -> None:
        self.recovered = recovered
        self.patterns = patterns
        for pattern in patterns:
            found = any(fnmatch.fnmatchcase(cfg.name, pattern) for cfg in recovered.routines)
            if not found and not pattern.startswith("sub_"):
                raise UsageError(f"no routine matches {pattern!r}: `simprof cfg` lists them all")

    def __call__(self, routine: int) -> ControlFlowGraph | None:
        """Return the graph of routine number `routine` if it is selected."""
        cfg = self.recovered.routines[routine]
        selected = not self.patterns or any(
            fnmatch.fnmatchcase(cfg.name, pattern) for pattern in self.patterns
        )
        return cfg if selected else None


class WeightSource:
    """Edge weights by graph, as the options ask for them."""

    def __init__(self, options: SchemeOptions, sha256: str) -> None:
        self._weights = options.weights
        self._profile: EdgeProfile | None = None
        if isinstance(options.weights, Path):
            self._profile = _load_profile(options.weights, sha256)

    def __call__(self, cfg: ControlFlowGraph) -> Sequence[float] | None:
        """Weights by edge id; None for BL94's heuristic."""
        if self._profile is not None:
            counts = self._profile.counts_for(cfg)
            return measured(cfg, counts or (0,) * len(cfg.edges))
        if self._weights is Weights.UNIFORM:
            return uniform(cfg, depth_first(cfg))
        return None


def _load_profile(path: Path, sha256: str) -> EdgeProfile:
    from profiler.storage import load

    profile = load(path)
    if profile.program.sha256 != sha256:
        raise ProfileMismatchError(
            f"{path} is a profile of another program ({profile.program.file}): "
            "make one of this program with `simprof run -o`"
        )
    return profile.edge_profile()


class Planner:
    """Plans graphs as the options ask for, each graph once.

    Parameters
    ----------
    options, sha256
        What the user chose; the program's digest, which a profile of weights must have too.
    """

    def __init__(self, options: SchemeOptions, sha256: str) -> None:
        self._options = options
        self._weights = WeightSource(options, sha256)
        self.path_plan = cache(self._path_plan)
        self.edge_plan = cache(self._edge_plan)

    def _path_plan(self, cfg: ControlFlowGraph) -> PathPlan:
        options = self._options
        weights, table = self._weights(cfg), _TABLES[options.table]
        return plan_pp(cfg, weights=weights, path_limit=options.path_limit, table=table)

    def _edge_plan(self, cfg: ControlFlowGraph) -> EdgePlan:
        return plan_qpt2(cfg, weights=self._weights(cfg))


def make_schemes(graphs: Graphs, modes: Sequence[Mode], planner: Planner) -> list[Scheme]:
    """Make the schemes of a run; those that count paths get one register each."""
    schemes: list[Scheme] = []
    slots = 0
    for mode in modes:
        match mode:
            case Mode.PP:
                schemes.append(PathScheme(graphs, planner.path_plan, slots))
                slots += 1
            case Mode.QPT2:
                schemes.append(EdgeScheme(graphs, planner.edge_plan))
            case Mode.EDGES:
                schemes.append(PlainScheme(graphs))
    return schemes
