"""A comparison of a large program by several processes, each with some of the modes.

Planning and measuring many schemes in a large program takes longer than emulating it. So the
program is run once and recorded, and each process repeats the run under its modes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec.structs import replace

from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.request.request import Phase, RunRequest, Setting, report_progress
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.observation import SchemeComparison
from simprof.profiler.session.pool import Forked, Lost, Pool, answer_all
from simprof.profiler.session.recordings import record_program
from simprof.profiler.session.scheme_runs import Planners
from simprof.simulator.binary.program import Platform, Program

LARGE_PROGRAM = 2 << 20  # Bytes of code from which on several processes are quicker
FEWEST = 2  # Modes that a process has at least: one alone is measured in another way (`JUDGE`)

Compare = Callable[[RunRequest, Sequence[Setting]], SchemeComparison]


def may_be_worth_it(request: RunRequest, settings: Sequence[Setting], jobs: int) -> bool:
    """Whether several processes may measure some schemes more quickly than one."""
    if jobs < 2 or len(settings) < 2 * FEWEST or request.replay is not None:
        return False
    return not request.self_check and request.contexts is None and request.selection.is_all


def is_large(program: Program) -> bool:
    """Whether a program is so large that they do."""
    size = sum(piece.end - piece.start for piece in program.code)
    return program.platform is Platform.LINUX and size >= LARGE_PROGRAM


def compare_shared(
    request: RunRequest,
    settings: Sequence[Setting],
    jobs: int,
    memory: BinaryMemory,  # The program
    compare: Compare,
) -> SchemeComparison:
    """Measure schemes in several processes, this one among them; it must have no other threads."""
    Planners(memory.program.sha256).of(settings)  # what is wrong with profiles shows before the run
    distinct = tuple(dict.fromkeys(settings))
    count = max(1, min(jobs, len(distinct) // FEWEST))
    parts = [distinct[number::count] for number in range(count)]
    with scratch_directory("simprof-recording-") as scratch:
        recording = scratch / "recording"
        record_program(request, recording)
        limit = request.guest.max_instructions
        memory.recover_ahead(
            partial(report_progress, request.progress, Phase.RECOVERING, limit=limit)
        )
        replayed = replace(request, replay=recording)
        silent = replace(replayed, progress=None)

        def start(number: int) -> Forked:
            part = parts[number + 1]

            def answer(_: object) -> SchemeComparison:
                return replace(compare(silent, part), lines=None)  # this process has them

            return Forked(lambda pipe: answer_all(pipe, answer))

        with _frozen(), Pool(start, count - 1) as pool:
            for number in range(count - 1):
                pool.ask(number, None)
            found = [compare(replayed, parts[0])]
            for number, part in enumerate(parts[1:]):
                answer = pool.answer(number)
                # a process that is killed for its memory costs time and nothing else
                found.append(compare(silent, part) if isinstance(answer, Lost) else answer)
    return _together(settings, parts, found)


@contextmanager
def _frozen() -> Iterator[None]:
    """Leave what there is to the processes that are forked: collections here would part it."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _together(
    settings: Sequence[Setting],
    parts: Sequence[Sequence[Setting]],
    found: Sequence[SchemeComparison],
) -> SchemeComparison:
    """Return what all parts measured as one comparison, in the order of `settings`."""
    refused = {setting: why for each in found for setting, why in each.refused.items()}
    measured: dict[Setting, RunMeasurement] = {}
    for part, each in zip(parts, found, strict=True):
        kept = [setting for setting in part if setting not in refused]
        measured.update(zip(kept, each.measurements, strict=True))
    return replace(
        found[0],
        measurements=tuple(measured[each] for each in settings if each in measured),
        refused=refused,
    )
