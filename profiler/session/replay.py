"""A recorded run under any schemes, without the program: `--replay`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGINT

import numpy as np

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.recording import RecordedPiece
from simprof.profiler.engine.replaying import DamagedError, Replayer
from simprof.profiler.engine.stacks import EarlyEnd
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.graphs.flow import unit_flow
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.request.request import Selection, Setting
from simprof.profiler.session.execution import (
    Counted,
    ExecutionOptions,
    Unattributed,
    lost_counts,
    make_lowering,
)
from simprof.profiler.session.observation import Invocation, Observation
from simprof.profiler.session.passes import Runs, Study, run_passes
from simprof.profiler.session.recordings import graph_digest, result_fields, result_from
from simprof.profiler.session.scheme_runs import EdgeCounts, SchemeRun
from simprof.profiler.session.world import Events
from simprof.profiler.trace.format import check_counts, header_discoveries
from simprof.profiler.trace.recording_format import Recording, RecordingEnd
from simprof.simulator.binary.dynamic import link
from simprof.simulator.binary.program import Program
from simprof.simulator.errors import UsageError
from simprof.simulator.machine.running import RunResult

Array = np.ndarray


class RecordedRun(Events):
    """A recorded run: events for passes under any schemes.

    Every method raises UsageError or ProfileMismatchError if the recording is damaged, or of other
    graphs than this simprof recovers.
    """

    def __init__(
        self,
        # How it is asked for
        study: Study,
        program: Program,
        # recording, name: The recording, and its file for messages
        recording: Recording,
        name: Path,
        *,
        # Whether a recording that is cut is measured as far as it goes
        partial: bool = False,
    ) -> None:
        if recording.end is None and not partial:
            raise UsageError(
                f"{name}: {recording.cut}: record it again, or measure what is there (--partial)"
            )
        self._recording, self._name = recording, name
        discoveries = self._discoveries = header_discoveries(recording.header.discoveries, name)
        self._program = link(program, discoveries.modules, discoveries.earlier)
        recovered = study.recover(self._program, discoveries)
        self._study = replace(study, recovered=(discoveries, recovered))
        self._index = GraphIndex(recovered)
        self._end = recording.end or self._find_end(recovered)
        self._result = _check_end(name, self._end, recovered)
        self.contexts: ProgramContexts = ProgramContexts(recovered)
        crossed = {number for number, edges in self._end.edges if any(edges)}
        # Numbers of the routines that were entered, ascending
        self.entered = sorted(crossed.union(number for number, _, _ in self._end.early))

    def _replayer(
        self, schemes: Sequence[SchemeRun], options: ExecutionOptions
    ) -> tuple[Lowering, Replayer]:
        index, graphs = self._index, self._index.recovered
        lowering = make_lowering(graphs, index, schemes, options)
        first = index.first_edge, index.first_block
        return lowering, Replayer(lowering, graphs.routines, *first, options.routines)

    def _find_end(self, recovered: ProgramGraphs) -> RecordingEnd:
        """Return what a recording would say at its end if the run had ended where it is cut."""
        index, routines = self._index, recovered.routines
        _, replayer = self._replayer([], ExecutionOptions())
        _play(self._recording, self._name, recovered, replayer.play)
        replayer.end_alive()
        edges = replayer.edges()
        if not edges:
            raise UsageError(f"{self._name} is cut before its first whole piece: record it again")
        executed = sum(
            count * routines[number].blocks[edge.target].instructions
            for number, counts in edges.items()
            for edge, count in zip(routines[number].edges, counts, strict=True)
            if edge.target < len(routines[number].blocks)
        )
        early: Counter[tuple[int, int]] = Counter()
        for end, count in replayer.early.items():
            routine = index.routine(end.block)
            early[routine, end.block - int(index.first_block[routine])] += count
        result = RunResult(128 + SIGINT, "interrupted", None, None, executed, 0, 0, 0, 0.0, 0.0, 0)
        ends = [(*where, count) for where, count in sorted(early.items())]
        return RecordingEnd(result_fields(result), list(edges.items()), ends, (0, 0), (), "")

    def prepare(self, *, registers: bool) -> None:
        """Get ready for processes that fork: they share what is known, and report no progress."""
        # registers: whether to work out now what code needs to be generated.
        self._study = replace(self._study, progress=None)
        if registers:
            self.contexts.blocks  # noqa: B018 - which keeps them

    def edges(self, routine: int) -> int:
        """Return how many edges the graph of a routine has."""
        first = self._index.first_edge
        return int(first[routine + 1] - first[routine])

    def observe(
        self, settings: Sequence[Setting], routines: frozenset[int] | None = None
    ) -> Observation:
        """Return the run as if it had been made under `settings`.

        `routines`: Numbers of the only routines that are observed; None: all.
        """
        study = replace(self._study, settings=tuple(settings), routines=routines)
        first = Runs(self, self._discoveries, begun=self._discoveries)
        graphs = self._index.recovered.arrays
        known = {
            (int(graphs.addresses[number]), graphs.names[number]): edges
            for number, edges in self._end.edges
        }

        def flow() -> int:
            routines = self._index.recovered.routines
            return sum(unit_flow(routines[number], edges) for number, edges in self._end.edges)

        guide = EdgeCounts(lambda cfg: known.get((cfg.address, cfg.name)), flow)
        runs = run_passes(study, first, guide)
        observation = runs.observation
        assert observation is not None
        return replace(observation, memory=study.memory, keeps_plans=study.keeps_plans)

    def program_with(self, discoveries: Discoveries) -> Program:
        """Return the program with what it has loaded."""
        return self._program

    def execute(
        self,
        discoveries: Discoveries,
        recovered: ProgramGraphs,
        schemes: Sequence[SchemeRun],
        options: ExecutionOptions,
    ) -> Counted:
        """Replay the recording."""
        for scheme in schemes:
            if scheme.definition.depends_on_order:
                raise UsageError(
                    f"mode {scheme.name} depends on the order of events of all routines, which "
                    f"{self._name} does not hold: run the program without --replay"
                )
        index, end = self._index, self._end
        routines = options.routines
        for routine in sorted(routines or ()):  # plans of one graph have much in common
            for scheme in schemes:
                scheme.routine_plan(routine)
        lowering, replayer = self._replayer(schemes, options)
        is_cut = self._recording.end is None
        if not lowering.is_idle:
            _play(self._recording, self._name, recovered, replayer.play)
            if is_cut:
                replayer.end_alive()
        if lowering.products.lost and not end.unattributed[0] and not is_cut:
            raise lost_counts(lowering.products.lost)
        return Counted(
            recovered,
            schemes,
            index,
            lowering,
            self._result,
            _edge_counts(index, end),
            _early(index, end, replayer.early),
            _cut(index, end),
            Unattributed(*end.unattributed),
            tuple((address, reason) for address, reason in end.irregular),
        )


def invocation_of(recording: Recording, file: Path | None, selection: Selection) -> Invocation:
    """Return how the recorded run was asked for; `file` is the program if it has moved."""
    header = recording.header
    return Invocation(
        Path(header.file) if file is None else file,
        tuple(map(bytes.fromhex, header.arguments)),
        selection,
        header.max_instructions,
        header.timeout,
        input_sha256=header.guest.stdin or None,
    )


def check_program(recording: Recording, name: Path, program: Program) -> None:
    """Check that a recording is of this program: ProfileMismatchError if it is not."""
    if program.sha256 != recording.header.sha256:
        raise ProfileMismatchError(
            f"{name} is a recording of another program than {program.path} is now: record it again"
        )


def _play(
    recording: Recording,
    name: Path,
    recovered: ProgramGraphs,
    take: Callable[[RecordedPiece], None],
) -> None:
    for digests, piece in recording.pieces():
        for number, digest in digests.items():
            known = number < len(recovered.routines)
            if not known or graph_digest(recovered.routines[number]) != digest:
                raise UsageError(
                    f"{name} is of other graphs than this simprof recovers (it was made by "
                    f"simprof {recording.header.simprof}): record it again"
                )
        try:
            # native code takes edges as they are: all must be there
            for stretch in piece.stretches:
                graph = recovered.routines[_place(stretch.routine, recovered.routines)]
                for edge in stretch.edges:
                    _place(edge, graph.edges)
                if stretch.block >= 0:
                    _place(stretch.block, graph.blocks)
            take(piece)
        except (DamagedError, ValueError):
            raise UsageError(f"{name} is damaged: record it again") from None


def _check_end(name: Path, end: RecordingEnd, recovered: ProgramGraphs) -> RunResult:
    """Return how the run ended; refuse what cannot be of these graphs."""
    routines = recovered.routines
    try:
        for number, edges in end.edges:
            if len(edges) != len(routines[_place(number, routines)].edges):
                raise ValueError(f"routine {number} has other edges")
            check_counts(edges)
        early = ((number, block, 0, count) for number, block, count in end.early)
        for number, block, executed, count in (*early, *end.cut):
            graph = routines[_place(number, routines)]
            whole = graph.blocks[_place(block, graph.blocks)].instructions
            if not 0 <= executed <= whole:
                raise ValueError(f"{executed} of {whole} instructions")
            check_counts((count,))
        check_counts(end.unattributed)
        return result_from(dict(end.result))
    except (ValueError, TypeError, KeyError, IndexError):
        raise UsageError(f"{name} is damaged: record it again") from None


def _place(number: int, things: Sequence[object]) -> int:
    if not 0 <= number < len(things):
        raise ValueError(f"{number} of {len(things)}")
    return number


def _edge_counts(index: GraphIndex, end: RecordingEnd) -> Array:
    """Return how often each edge was crossed, by its program-wide number."""
    counts = np.zeros(index.edge_count, np.int64)
    for number, edges in end.edges:
        first = int(index.first_edge[number])
        counts[first : first + len(edges)] = edges
    return counts


def _cut(index: GraphIndex, end: RecordingEnd) -> dict[tuple[int, int], int]:
    """Return how many executions of a block ended before which address in it."""
    cut = {}
    for number, block, executed, count in end.cut:
        place = int(index.first_block[number]) + block
        cut[place, index.block_start(place) + 4 * executed] = count
    return cut


def _early(index: GraphIndex, end: RecordingEnd, replayed: Counter[EarlyEnd]) -> Counter[EarlyEnd]:
    """Return all early ends: those of the replay, and others that are no scheme's concern."""
    early = Counter(replayed)
    by_block: Counter[int] = Counter()
    for known, count in replayed.items():
        by_block[known.block] += count
    for number, block, count in end.early:
        place = int(index.first_block[number]) + block
        if count > by_block[place]:
            early[EarlyEnd(place, 0, 0)] += count - by_block[place]
    return early
