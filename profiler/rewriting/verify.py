"""Predict, instrument, run, compare: `simprof verify`.

    the program, and a run of it            -> what `simprof instrument` makes of it, in all modes
    another run, on the same graphs         -> how often each piece of that is executed
    each mode: what it executes is predicted -> its runs (`trials`) -> what differs

The first run is the one that `instrument` makes, and gives the same file. The second one has the
surroundings that instrumented programs are compared in, whose names for the program are others.
The modes are then independent of each other, and shared out among processes, which begin as copies
of this one: they have whatever it has, however large, without being sent it, and die with it. Each
has a place of its own, with its own run of the original to compare with: a program may print where
it is.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.request.request import Phase, RunRequest, Setting, report_progress
from simprof.profiler.rewriting import instrument, qemu, verification
from simprof.profiler.rewriting.modes import Modes
from simprof.profiler.rewriting.trials import TrialDirectory
from simprof.profiler.session.observation import Observation, ending, program_info
from simprof.profiler.session.pool import Forked, Lost, Pool, answer_all
from simprof.profiler.session.session import observe
from simprof.simulator.binary.elf_writer import heap_start
from simprof.simulator.errors import EngineError, UsageError

T = TypeVar("T")
# Number of a worker, from 0 -> what it does with an item, by the item's number.
Begin = Callable[[int], Callable[[int], T]]


def shared_out(items: int, workers: int, begin: Begin[T]) -> Iterator[tuple[int, T]]:
    """Have workers do `items` items; yield the number of each and its result as it is finished.

    Raises SimulatorError: what a worker raised; the others are then ended.
    Raises EngineError: a worker died.
    """
    # workers: How many processes; with one, or one item, all is done in this process.
    # begin: Called in each worker. Results must be what can be pickled.
    if min(items, workers) <= 1:
        do = begin(0)
        yield from ((number, do(number)) for number in range(items))
        return

    def serve(worker: int, pipe: Connection) -> None:
        do = cache(lambda: begin(worker))  # when first asked: its errors are answers, too
        try:
            answer_all(pipe, lambda number: do()(number))
        except Exception:
            traceback.print_exc()  # a defect: nothing else would say where
            raise

    def start(worker: int) -> Forked:
        return Forked(partial(serve, worker))

    with Pool(start, min(items, workers)) as pool:
        for number, _, result in pool.share_out(range(items)):
            if isinstance(result, Lost):
                raise EngineError(f"a process of simprof {result.how} before its work was done")
            yield number, result


_PATH_LENGTH = 64  # Bytes of a place's path, if that of the scratch directory leaves room


def verify(
    # `guest.root` is copied for every run; `guest.stdout`, `stderr` and `writable` are not used.
    request: RunRequest,
    settings: Sequence[Setting],
    ways: Sequence[str] = verification.WAYS,  # Where to run instrumented programs
    *,
    jobs: int = 1,  # How many schemes at the same time, in processes of their own
    # Instrument with what the program's file shows, and not with what a run has shown
    without_run: bool = False,
) -> verification.Verification:
    """Verify a program under several schemes.

    Raises SimulatorError: anything that the user must know: see `simprof.simulator.errors`.
    """
    with scratch_directory("simprof-verify-") as scratch:
        return _Verifier(request, scratch, ways).verify(settings, jobs, without_run=without_run)


class _Verifier:
    """One verification."""

    def __init__(self, request: RunRequest, scratch: Path, ways: Sequence[str]) -> None:
        self._scratch, self._name = scratch, request.program
        program = instrument.load_rewritable(request.program)
        self._machine = program.machine
        # programs act by addresses of their heap: they hash them, or compare words that hold them
        guest = replace(request.guest, heap_start=heap_start(program))
        self._request = replace(request, guest=guest)
        missing = (
            {verification.QEMU: qemu.missing(self._machine)} if verification.QEMU in ways else {}
        )
        self.skipped = {way: why for way, why in missing.items() if why is not None}
        self._ways = [way for way in ways if way not in self.skipped]
        uncounted = qemu.uncounted(self._machine) if verification.QEMU in self._ways else None
        self.uncounted = {} if uncounted is None else {verification.QEMU: uncounted}

    def verify(
        self, settings: Sequence[Setting], jobs: int, *, without_run: bool
    ) -> verification.Verification:
        """Run the original as often as it takes, and the program of each setting."""
        place = self._place(0)
        progress = self._request.progress
        if without_run:
            basis = instrument.basis_without_run(self._name, self._request.selection, progress)
        else:
            basis = self._after_run(place, settings)
        with place.fresh() as guest:
            told = replace(self._request, program=place.file, guest=guest)
            guides = basis.edge_counts, basis.path_counts
            observation = observe(told, settings, basis.discoveries, *guides, basis.known)
        self._refuse(observation)
        counted = verification.count_on(basis.recovered, observation)

        def begin(worker: int) -> Callable[[int], verification.ModeResult]:
            """Give a worker a place, and what the original does there."""
            there = place if worker == 0 else self._place(worker)
            modes = Modes(basis, counted, there, there.run(verification.EMULATOR), self._ways)
            return lambda number: modes.result(observation.schemes[number])

        found: dict[int, verification.ModeResult] = {}
        report_progress(progress, Phase.VERIFYING, 0, len(settings))
        for number, mode in shared_out(len(settings), jobs, begin):
            found[number] = mode
            report_progress(progress, Phase.VERIFYING, len(found), len(settings))
        return verification.Verification(
            replace(program_info(observation), file=str(self._name)),
            observation.invocation.input_sha256,
            self._request.selection,
            tuple(mode for _, mode in sorted(found.items())),
            {**self.skipped, **self.uncounted},
            ending(observation, observation.result),
        )

    def _after_run(self, place: TrialDirectory, settings: Sequence[Setting]) -> instrument.Basis:
        """Run the program as `instrument` does, but for writing into a copy of its directory."""
        mine = self._request.guest
        with place.fresh() as guest:
            guest = replace(
                mine,
                root=guest.root,
                writable=guest.writable,
                working=guest.working,
                exe=mine.exe_of(self._name),
                stdout=guest.stdout,
                stderr=guest.stderr,
            )
            return instrument.basis_after_run(replace(self._request, guest=guest), settings)

    def _place(self, worker: int) -> TrialDirectory:
        """Return a place for runs.

        The paths of all have the same length, whatever this process's number: C libraries look
        where the program is, and execute more for longer paths.
        """
        room = max(_PATH_LENGTH - len(os.fsencode(self._scratch)), 3)
        return TrialDirectory(self._request, self._scratch / f"{worker:0{room}d}")

    def _refuse(self, observation: Observation) -> None:
        """Refuse runs that do not say what an instrumented program must do."""
        result = observation.result
        if result.threads:
            raise UsageError(
                f"{self._name} has {len(result.threads)} threads: verify compares runs of one, "
                "as counters are not locked and added code changes who runs when"
            )
        if result.is_cut_short:
            from simprof.profiler.reports.run_text import ending_text

            how = ending_text(ending(observation, result))
            raise UsageError(
                f"{self._name} did not come to its own end ({how}): verify compares whole runs"
            )
