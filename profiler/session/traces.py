"""The trace that a run is asked to write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.engine.memory import EngineMemory
from profiler.engine.walk import GraphIndex
from profiler.recovery.recovery import Discoveries
from profiler.schemes import registry
from profiler.session.observation import Invocation
from profiler.session.scheme_runs import SchemeRun
from simulator.errors import UsageError

if TYPE_CHECKING:
    from profiler.trace.recorder import TraceRecorder


@dataclass(frozen=True)
class TraceOrder:
    """Where the trace of a run goes, and how the run was asked for."""

    path: Path
    invocation: Invocation

    def begin(
        self, scheme: SchemeRun, discoveries: Discoveries, index: GraphIndex, memory: EngineMemory
    ) -> TraceRecorder:
        """Begin the trace of a run.

        Parameters
        ----------
        scheme
            The one whose plans say what is written.
        discoveries
            What the graphs rest on beside the program's file; readers need it to recover them.
        index, memory
            The graphs, and the kernel's memory.

        Raises
        ------
        UsageError
            If the mode writes no trace, not all routines are profiled, or the file cannot be
            written.
        """
        from profiler.trace.format import TraceFile, TraceHeader
        from profiler.trace.recorder import TraceRecorder

        definition = scheme.definition
        if not definition.writes_trace:
            modes = " or ".join(registry.trace_modes())
            raise UsageError(f"--trace: mode {definition.mode} writes no trace; use --mode {modes}")
        if not self.invocation.selection.is_all:
            raise UsageError(
                "--trace needs all routines: leave out --routine, --exclude and --user-only"
            )
        program = index.recovered.program
        header = TraceHeader(
            file=str(self.invocation.file),
            sha256=program.sha256,
            machine=str(program.machine),
            arguments=self.invocation.argument_texts,
            mode=definition.mode,
            discoveries={name: sorted(known) for name, known in vars(discoveries).items()},
        )
        return TraceRecorder(
            memory,
            index,
            lambda routine: definition.trace_writer(scheme.routine_plan(routine)),
            TraceFile(self.path, header),
        )
