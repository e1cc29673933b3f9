"""simprof from Python: run programs, compare schemes, plan graphs, recover graphs, keep profiles.

Everything that is public is a name of this module:

run, compare
    A program under one scheme, or under several at once.
plan
    A scheme on a graph: of a program, of a graph file, or of networkx.
recover, call_graph
    A program's control-flow graphs, and who calls whom.
to_networkx, from_networkx
    Control-flow graphs as networkx graphs, and back.
load, save
    Profile files.
quality, diff
    How good one profile is by another, and what two differ in.
explain, export, table, sweep
    What the commands of these names write.

The command line's options are keyword arguments, with `_` for `-`; `docs/API.md` is a tour. What
they check is what the command line checks, with the same messages: every error that simprof
raises on purpose is a `SimprofError` whose text is one line.

`simprof.__version__` is the version that is installed.

`simprof.schemes` is for authors of schemes. The packages `profiler` and `simulator`, and the other
modules of this one, are private: their names may change in any version. The fields of the values
that the functions return are public.

Examples
--------
>>> import simprof
>>> measurement = simprof.run("fixtures/bin/v9/calls.elf", mode="pp")
>>> measurement.base, measurement.added, f"{measurement.overhead:.1%}"
(127977, 51936, '40.6%')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from simprof._commands import diff, explain, export, sweep, table
    from simprof._graphs import (
        PlannedEdge,
        PlannedGraph,
        call_graph,
        from_networkx,
        plan,
        recover,
        to_networkx,
    )
    from simprof._programs import compare, load, quality, run, save
    from simprof._results import Comparison, Measurement
    from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
    from simprof.profiler.profiles.measures import Quality
    from simprof.profiler.profiles.profile import EdgeCount, PathCount, RoutineProfile
    from simprof.simulator.errors import SimulatorError as SimprofError
    from simprof.simulator.errors import UsageError

__all__ = ["call_graph", "compare", "diff", "explain", "export", "from_networkx", "load", "plan"]
__all__ += ["quality", "recover", "run", "save", "sweep", "table", "to_networkx"]
__all__ += ["Comparison", "Measurement", "PlannedEdge", "PlannedGraph", "RecoveredProgram"]
__all__ += ["Block", "ControlFlowGraph", "Edge", "EdgeCount", "EdgeKind", "PathCount"]
__all__ += ["Quality", "RoutineProfile", "SimprofError", "UsageError"]

_HOMES = {
    "simprof.profiler.graphs.cfg": "Block ControlFlowGraph Edge EdgeKind",
    "simprof.profiler.profiles.profile": "EdgeCount PathCount RoutineProfile",
    "simprof._commands": "diff explain export sweep table",
    "simprof._graphs": (
        "PlannedEdge PlannedGraph RecoveredProgram call_graph from_networkx plan recover "
        "to_networkx"
    ),
    "simprof._programs": "compare load quality run save",
    "simprof.profiler.profiles.measures": "Quality",
    "simprof._results": "Comparison Measurement",
    "simprof.simulator.errors": "UsageError",
}
_PLACES = {name: (module, name) for module, names in _HOMES.items() for name in names.split()}
_PLACES["SimprofError"] = ("simprof.simulator.errors", "SimulatorError")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: importing simprof alone takes no time."""
    if name == "__version__":
        from simprof.profiler import OWN_VERSION

        return OWN_VERSION
    if name not in _PLACES:
        raise AttributeError(f"module 'simprof' has no attribute {name!r}")
    module, original = _PLACES[name]
    value = getattr(import_module(module), original)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
