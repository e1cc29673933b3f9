"""The trace that a run writes while it goes on (`run --trace`), and how it was asked for."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.plan.decoders import Plan
from simprof.profiler.recovery.recovery import Discoveries
from simprof.profiler.schemes.registry import trace_modes
from simprof.profiler.session.observation import Invocation, options
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.trace.format import TraceFile, TraceHeader, discovery_fields
from simprof.profiler.trace.recorder import TraceRecorder
from simprof.simulator.errors import UsageError


class TraceOrder(Struct):
    """The trace of a run; each run begins the file again."""

    path: Path
    invocation: Invocation
    _file: TraceFile | None = None

    def discard(self) -> None:
        """Remove the file, if it is open: the run has failed."""
        if self._file is not None:
            self._file.discard()
            self._file = None

    def begin(
        self, scheme: SchemeRun, discoveries: Discoveries, index: GraphIndex, memory: EngineMemory
    ) -> TraceRecorder:
        """Begin the trace of a run, which the plans of `scheme` shape.

        Raises UsageError if the mode writes no trace, not all routines are profiled, or the file
        cannot be written.
        """
        definition = scheme.definition
        if not definition.writes_trace:
            modes = " or ".join(trace_modes())
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
            options=options(self.invocation, scheme.setting.options),
            input_sha256=self.invocation.input_sha256,
        )
        file = self._file = TraceFile(self.path, header)

        def writer(routine: int) -> Plan | None:
            return definition.trace_writer(scheme.routine_plan(routine))

        return TraceRecorder(memory, index, writer, file)
