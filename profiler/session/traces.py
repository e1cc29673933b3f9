"""The trace that a run is asked to write."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.recovery.recovery import Discoveries
from simprof.profiler.schemes import registry
from simprof.profiler.session.observation import Invocation
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.trace.discoveries import discovery_fields
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.trace.format import TraceFile
    from simprof.profiler.trace.recorder import TraceRecorder


@dataclass
class TraceOrder:
    """Where the trace of a run goes, and how the run was asked for.

    Each round of a session begins the file again.
    """

    path: Path
    invocation: Invocation
    _file: TraceFile | None = field(default=None, init=False)

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
        from simprof.profiler.trace.format import TraceFile, TraceHeader
        from simprof.profiler.trace.recorder import TraceRecorder

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
            discoveries=discovery_fields(discoveries),
        )
        file = self._file = TraceFile(self.path, header)
        return TraceRecorder(
            memory,
            index,
            lambda routine: definition.trace_writer(scheme.routine_plan(routine)),
            file,
        )

    def discard(self) -> None:
        """Remove the file, if it has been begun: the run has failed."""
        if self._file is not None:
            self._file.discard()
