"""What an author of a profiling scheme imports; `docs/SCHEMES.md` walks through one.

Definition
    `SchemeDefinition` is the scheme, `SchemeCode` the SPARC code of its own actions, `Loss` what it
    can lose; `ProfileKind` says what it collects. `UsageError` refuses what a user asks for.
Options
    `SchemeOption` declares one. `SchemeOptions` holds what the user chose, `RegisterUse` among it.
    `LAYOUT` is for schemes with code on edges: where it goes that would need a jump.
Graph
    `ControlFlowGraph` with `Block` and `Edge` (`EdgeKind`); `depth_first` finds its back edges
    (`DepthFirst`), `natural_loops` its loops (`Loop`), `heuristic` guesses edge weights.
    `truncated_dag` takes out the back edges (`Dag`), and others beyond `TOTAL_LIMIT`; `number`
    numbers its paths (`PathNumbering`), `path_record` says where one leads.
Plan
    A planner makes a `RoutinePlan` of a `PlanOrder`. Its `InstrumentationPlan` says which actions
    are where, and which counters there are (`CounterTable`, `Addressing`). A `BufferUse` says what
    it has to do with memory of the whole program that the scheme's own code writes (`Buffer`).
Actions
    `SetRegister`, `AddRegister`, `CountPath`, `CountConstantPath`, `CountEdge` and `WriteTrace`
    have code already. Others extend `Action`: `execute` does to an `Execution` what the code does,
    and `RegisterEffect` says what that depends on. A `Guard` decides about an action by a word of
    the whole program, several times in a row in a `Burst`, and `StateScope` says what shares the
    state of a scheme's code. `NoCode` and `Landing` stand in one of two copies of a routine.
Writer
    A `Generator` writes the code of one kind of action through a `Writer`: what it needs (`Needs`,
    `count_needs`), and which actions have code of one size (`shapes`, of a `CounterAccess`). `asm`
    makes an `Instruction` (operands: `Register`), `CounterLayout` has the counters' addresses,
    `MachineKind` is the architecture.
Decoder and reading
    `RoutinePlan.read` makes a `Reading` of `RoutineCounters` (`UnfinishedPath` among them). Plans
    that count paths are `PathDecoder` (paths are `PathRecord`), and `CountersApart` where counters
    have other numbers than paths; those guided by edges `GuidedDecoder`, by paths
    `PathGuidedDecoder`; those that write traces `TraceWriter`.

These names stay what they are between minor versions of simprof; the modules that they come from
do not.

Examples
--------
>>> import simprof
>>> from simprof.schemes import depth_first, natural_loops
>>> recovered = simprof.recover("fixtures/bin/v9/bench.elf")
>>> (main,) = (routine for routine in recovered.routines if routine.name == "main")
>>> search = depth_first(main)
>>> len(search.back_edges), len(natural_loops(main, search))
(1, 1)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simprof.profiler.code import shapes
    from simprof.profiler.code.layout import CounterLayout
    from simprof.profiler.code.snippet_parts import CounterAccess, Generator, Needs
    from simprof.profiler.code.snippets_paths import count_needs
    from simprof.profiler.code.writer import Writer
    from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
    from simprof.profiler.graphs.dag import Dag
    from simprof.profiler.graphs.loops import DepthFirst, Loop, depth_first, natural_loops
    from simprof.profiler.graphs.numbering import TOTAL_LIMIT, PathNumbering, number
    from simprof.profiler.graphs.paths import PathRecord, path_record, truncated_dag
    from simprof.profiler.graphs.spanning import heuristic
    from simprof.profiler.plan.actions import (
        Action,
        AddRegister,
        Burst,
        CountConstantPath,
        CountEdge,
        CountPath,
        Execution,
        Guard,
        Landing,
        NoCode,
        RegisterEffect,
        SetRegister,
        WriteTrace,
    )
    from simprof.profiler.plan.decoders import (
        CountersApart,
        GuidedDecoder,
        PathDecoder,
        PathGuidedDecoder,
        Reading,
        RoutineCounters,
        RoutinePlan,
        TraceWriter,
        UnfinishedPath,
    )
    from simprof.profiler.plan.plan import (
        Addressing,
        Buffer,
        BufferUse,
        CounterTable,
        InstrumentationPlan,
    )
    from simprof.profiler.request.request import RegisterUse, SchemeOptions
    from simprof.profiler.schemes.definition import (
        LAYOUT,
        Loss,
        PlanOrder,
        ProfileKind,
        SchemeCode,
        SchemeDefinition,
        SchemeOption,
        StateScope,
    )
    from simprof.simulator.binary.program import MachineKind
    from simprof.simulator.errors import UsageError
    from simprof.simulator.isa import assembler as asm
    from simprof.simulator.isa.assembler import Instruction, Register

# As the sections above
__all__ = ["Loss", "ProfileKind", "SchemeCode", "SchemeDefinition", "UsageError"]
__all__ += ["LAYOUT", "RegisterUse", "SchemeOption", "SchemeOptions"]
__all__ += ["TOTAL_LIMIT", "Block", "ControlFlowGraph", "Dag", "DepthFirst", "Edge", "EdgeKind"]
__all__ += ["Loop", "PathNumbering", "PathRecord", "depth_first", "heuristic", "natural_loops"]
__all__ += ["number", "path_record", "truncated_dag"]
__all__ += ["Addressing", "Buffer", "BufferUse", "CounterTable", "InstrumentationPlan", "PlanOrder"]
__all__ += ["Action", "AddRegister", "CountConstantPath", "CountEdge", "CountPath", "Execution"]
__all__ += [
    "Burst",
    "Guard",
    "Landing",
    "NoCode",
    "RegisterEffect",
    "SetRegister",
    "StateScope",
    "WriteTrace",
]
__all__ += ["CounterAccess", "CounterLayout", "Generator", "Instruction", "MachineKind", "Needs"]
__all__ += ["Register", "Writer", "asm", "count_needs", "shapes"]
__all__ += ["CountersApart", "GuidedDecoder", "PathDecoder", "PathGuidedDecoder", "Reading"]
__all__ += ["RoutineCounters", "RoutinePlan"]
__all__ += ["TraceWriter", "UnfinishedPath"]

_HOMES = {
    "simprof.profiler.code.layout": "CounterLayout",
    "simprof.profiler.code.snippet_parts": "CounterAccess Generator Needs",
    "simprof.profiler.code.writer": "Writer",
    "simprof.profiler.graphs.cfg": "Block ControlFlowGraph Edge EdgeKind",
    "simprof.profiler.graphs.loops": "DepthFirst Loop depth_first natural_loops",
    "simprof.profiler.code.snippets_paths": "count_needs",
    "simprof.profiler.graphs.dag": "Dag",
    "simprof.profiler.graphs.numbering": "PathNumbering TOTAL_LIMIT number",
    "simprof.profiler.graphs.paths": "PathRecord path_record truncated_dag",
    "simprof.profiler.graphs.spanning": "heuristic",
    "simprof.profiler.plan.actions": (
        "Action AddRegister Burst CountConstantPath CountEdge CountPath Execution Guard Landing "
        "NoCode RegisterEffect SetRegister WriteTrace"
    ),
    "simprof.profiler.plan.decoders": (
        "CountersApart GuidedDecoder PathDecoder PathGuidedDecoder Reading RoutineCounters "
        "RoutinePlan TraceWriter UnfinishedPath"
    ),
    "simprof.profiler.plan.plan": "Addressing Buffer BufferUse CounterTable InstrumentationPlan",
    "simprof.profiler.request.request": "RegisterUse SchemeOptions",
    "simprof.profiler.schemes.definition": (
        "LAYOUT Loss PlanOrder ProfileKind SchemeCode SchemeDefinition SchemeOption StateScope"
    ),
    "simprof.simulator.binary.program": "MachineKind",
    "simprof.simulator.errors": "UsageError",
    "simprof.simulator.isa.assembler": "Instruction Register",
}
_PLACES = {name: module for module, names in _HOMES.items() for name in names.split()}
_MODULES = {"asm": "simprof.simulator.isa.assembler", "shapes": "simprof.profiler.code.shapes"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used.

    Command lines read definitions of schemes, and start without what only code generation needs.
    """
    value: Any
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _PLACES:
        value = getattr(import_module(_PLACES[name]), name)
    else:
        raise AttributeError(f"module 'simprof.schemes' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
