"""The routines that a run never entered, as routines whose counts are all 0.

A profile has the routines that were entered. Coverage is also about the others: they come from
the program's graphs, as far as the profile's selection takes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.plan import Table
from simprof.profiler.profiles.profile import (
    BlockCount,
    EdgeCount,
    Measurement,
    RoutineProfile,
)
from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.profiler.recovery.selection import SelectedRoutines
from simprof.profiler.request.request import Selection
from simprof.simulator.errors import UsageError
from simprof.simulator.isa.decode import HAS_DELAY_SLOT


def whole(measurement: Measurement, recovered: RecoveredProgram) -> Measurement:
    """Return the measurement with all routines that it is about, entered or not, by address."""
    missing = tuple(unexecuted(measurement, recovered))
    routines = sorted((*measurement.routines, *missing), key=lambda routine: routine.key)
    return replace(measurement, routines=tuple(routines))


def unexecuted(measurement: Measurement, recovered: RecoveredProgram) -> Iterator[RoutineProfile]:
    """Yield the routines that were never entered."""
    entered = {routine.address for routine in measurement.routines}
    selected = _selected(measurement, recovered)
    for cfg in recovered.routines:
        if cfg.address not in entered and (selected is None or selected.takes(cfg)):
            yield never_entered(cfg, recovered)


def _selected(measurement: Measurement, recovered: RecoveredProgram) -> SelectedRoutines | None:
    """Return what tells which routines the profile is about; None: all."""
    options = measurement.options
    wanted, unwanted = (
        tuple(map(str, each)) if isinstance(each, tuple) else ()
        for each in (options.get("routines"), options.get("exclude"))
    )
    selection = Selection(wanted, unwanted, bool(options.get("user_only")))
    try:
        return None if selection.is_all else SelectedRoutines(recovered, selection)
    except UsageError:  # what a run found of code without a name is in no graph
        return None


def never_entered(cfg: ControlFlowGraph, recovered: RecoveredProgram) -> RoutineProfile:
    """Return a routine whose blocks and edges all have the count 0."""
    code = recovered.code
    names = [cfg.name_of(vertex) for vertex in range(cfg.vertex_count)]
    kinds = code.transfers.kind
    blocks = []
    for block in cfg.blocks:
        transfer = -1 if block.instructions < 2 else code.index(block.end - 8)
        delayed = transfer >= 0 and bool(HAS_DELAY_SLOT[kinds[transfer]])
        blocks.append(BlockCount(block.start, block.instructions, block.is_slot, delayed, 0, 0))
    edges = (
        EdgeCount(names[edge.source], names[edge.target], edge.kind, 0, False) for edge in cfg.edges
    )
    return RoutineProfile(
        name=cfg.name,
        address=cfg.address,
        blocks=len(cfg.blocks),
        edges=len(cfg.edges),
        back_edges=0,
        irreducible=False,
        potential_paths=0,
        cut_edges=0,
        table=Table.NONE,
        addressing=None,
        path_register=None,
        activations=0,
        added=0,
        instructions=0,
        edge_counts=tuple(edges),
        path_counts=(),
        block_counts=tuple(blocks),
    )
