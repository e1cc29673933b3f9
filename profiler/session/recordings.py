"""What a run is asked to write while it goes on: a recording (`simprof record`), a trace.

A recording has the segments of every activation and the exact counts of the run's end, but no
counter of a scheme.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, astuple, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.recording import RecordedPiece, RunRecording
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.decoders import TraceWriter
from simprof.profiler.profiles.codec import decode, hints
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.fingerprint import known_sha256
from simprof.profiler.recovery.recovery import Discoveries
from simprof.profiler.request.request import GuestOptions
from simprof.profiler.schemes.registry import trace_modes
from simprof.profiler.session.observation import Invocation, Observation, options
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.trace.format import FrameFile, TraceFile, TraceHeader, discovery_fields
from simprof.profiler.trace.recorder import TraceRecorder
from simprof.profiler.trace.recording_format import (
    RecordedGuest,
    RecordingEnd,
    RecordingFile,
    RecordingHeader,
)
from simprof.simulator.errors import UsageError
from simprof.simulator.linux.guest import RefusedCall
from simprof.simulator.machine.running import RunResult
from simprof.simulator.values import dataclass

Written = TypeVar("Written", bound=FrameFile)

_DIGEST = 8  # Bytes of a graph's digest


@dataclass
class FileOrder(Generic[Written]):
    """Where what a run writes goes, and how it was asked for; each pass begins the file again."""

    path: Path
    invocation: Invocation
    _file: Written | None = field(default=None, init=False)

    def discard(self) -> None:
        """Remove the file, if it is open: the run has failed."""
        if self._file is not None:
            self._file.discard()
            self._file = None

    def close(self) -> None:
        """Close the file as it is, if it is open."""
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass
class RecordingOrder(FileOrder[RecordingFile]):
    """The recording of a run."""

    guest: GuestOptions

    def begin(self, discoveries: Discoveries, index: GraphIndex) -> RunRecording:
        """Begin to record a run on graphs that rest on `discoveries`.

        Raises UsageError if the file cannot be written.
        """
        self.close()
        program, routines = index.recovered.program, index.recovered.routines
        invocation = self.invocation
        header = RecordingHeader(
            file=str(invocation.file),
            sha256=program.sha256,
            machine=str(program.machine),
            arguments=tuple(argument.hex() for argument in invocation.arguments),
            simprof=OWN_VERSION,
            discoveries=discovery_fields(discoveries),
            max_instructions=invocation.max_instructions,
            timeout=invocation.timeout,
            guest=recorded_guest(self.guest, invocation.file),
        )
        file = self._file = RecordingFile(self.path, header)
        known: set[int] = set()

        def write(piece: RecordedPiece) -> None:
            new = {stretch.routine for stretch in piece.stretches} - known
            known.update(new)
            file.piece({number: graph_digest(routines[number]) for number in sorted(new)}, piece)

        return RunRecording(index, write)

    def finish(self, observation: Observation, output: str) -> None:
        """Write what is known of the whole run, and close the file.

        `output`: SHA-256 of what the program wrote to standard output. Raises UsageError if the
        file cannot be written.
        """
        if self._file is None:
            return
        events, unattributed = observation.events.items(), observation.unattributed
        end = RecordingEnd(
            result=result_fields(observation.result),
            edges=[(number, routine.edges) for number, routine in events],
            early=[(number, *early) for number, each in events for early in each.early.items()],
            unattributed=astuple(unattributed),
            irregular=observation.irregular,
            output=output,
            cut=[(n, cut.block, cut.executed, cut.count) for n, each in events for cut in each.cut],
        )
        self._file.close(end)
        self._file = None


class TraceOrder(FileOrder[TraceFile]):
    """The trace of a run."""

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

        def writer(routine: int) -> TraceWriter | None:
            return definition.trace_writer(scheme.routine_plan(routine))

        return TraceRecorder(memory, index, writer, file)


def recorded_guest(guest: GuestOptions, file: Path) -> RecordedGuest:
    """Return what decides a run of `file` beside its arguments and its budgets."""
    return RecordedGuest(
        guest.argv0_of(file).hex(),
        guest.exe_of(file).hex(),
        tuple(text.hex() for text in guest.environment_strings),
        known_sha256(guest.stdin) or "",
        guest.memory_limit,
        guest.stack_size,
        guest.strict,
    )


def graph_digest(cfg: ControlFlowGraph) -> bytes:
    """Return a digest of a graph: its blocks, and its edges in order."""
    blocks = [(block.start, block.end, block.is_slot) for block in cfg.blocks]
    edges = [(edge.source, edge.target, edge.kind.value) for edge in cfg.edges]
    text = repr((cfg.address, blocks, edges))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).digest()


def result_fields(result: RunResult) -> dict[str, Any]:
    """Return how a run ended as values that JSON has."""
    refused = [[asdict(call), count] for call, count in result.refused_calls.items()]
    actions = [list(action) for action in result.signal_actions.items()]
    return {**asdict(result), "refused_calls": refused, "signal_actions": actions}


def result_from(fields: dict[str, Any]) -> RunResult:
    """Return what `result_fields` was given.

    Raises TypeError, ValueError or KeyError if it is nothing of the kind.
    """
    known: dict[str, Any] = {
        **hints(RunResult),
        "refused_calls": tuple[tuple[RefusedCall, int], ...],
        "signal_actions": tuple[tuple[int, int], ...],
    }
    # Programs that are recorded have no threads.
    given = {**fields, "threads": [], "waits": []}
    found = {name: decode(known.get(name, Any), value, name) for name, value in given.items()}
    for name in ("refused_calls", "signal_actions"):
        found[name] = dict(found[name])
    return RunResult(**found)
