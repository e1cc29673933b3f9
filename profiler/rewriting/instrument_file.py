"""Instrumenting a program's file: `simprof instrument ELF`, and `simprof instrument ELF -- ARG...`.

With arguments, the program is run first. Graphs then have what only a run shows (where computed
jumps lead), and guided schemes their edge profile. The run's heap begins where that of the
instrumented program will.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from simprof.profiler.recovery.calls import all_second_returns
from simprof.profiler.recovery.recovery import Discoveries, Known, recover
from simprof.profiler.request.request import (
    ALL_ROUTINES,
    Phase,
    Progress,
    RunRequest,
    Selection,
    Setting,
)
from simprof.profiler.rewriting.instrument import Basis, Instrumented, Watch, instrument, unwatched
from simprof.profiler.rewriting.jumps import shared_targets
from simprof.profiler.session.session import NO_SCHEME, observe
from simprof.simulator.binary import elf
from simprof.simulator.binary.elf_writer import heap_start
from simprof.simulator.binary.program import Platform, Program
from simprof.simulator.errors import RewritingError, UsageError


def load_rewritable(path: Path) -> Program:
    """Read a program that is to be rewritten.

    Raises
    ------
    ProgramFileError
        See `elf.load`.
    RewritingError
        If it is not for Linux: the code that sets counters up and writes them makes system calls.
    """
    program = elf.load(path)
    if program.platform is not Platform.LINUX:
        raise RewritingError(
            f"{path}: a program for {program.platform} cannot be instrumented, since counters are "
            "written by Linux: measure it with `simprof run` or `simprof compare`"
        )
    return program


def instrument_file(
    file: Path, setting: Setting, selection: Selection, progress: Watch = unwatched
) -> Instrumented:
    """Return a program with the code of a scheme in its place.

    - `file`: The program.
    - `setting`: The scheme.
    - `selection`: The routines that are instrumented.
    - `progress`: Is told what is being done.

    Raises
    ------
    SimulatorError
        If it cannot be done, and why.
    """
    original = content_of(file)
    with collected_later():
        order = basis_without_run(file, selection, progress).order(setting)
        return instrument(order, original, progress)


def basis_without_run(
    file: Path, selection: Selection = ALL_ROUTINES, progress: Watch = unwatched
) -> Basis:
    """Return a program as its file alone shows it; parameters and errors as above.

    All places to which a call may return a second time are entries: what lands there must find the
    scheme's registers as at the beginning of an activation.
    """
    program, known = load_rewritable(file), Known()

    def told(done: int, total: int) -> None:
        progress(Progress(Phase.RECOVERING, done=done, total=total))

    told(0, 0)
    recovered = recover(program, known=known, told=told)
    expected = Discoveries(entries=all_second_returns(recovered))
    if expected.entries:
        recovered = recover(program, expected, known, told)
    return Basis(recovered, selection, expected)


def content_of(file: Path) -> bytes:
    """Return what is in a file; `UsageError` if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read ({error.strerror}): name a readable file"
        ) from None


def instrument_after_run(request: RunRequest) -> Instrumented:
    """Return a program with the code of the request's scheme, made with what a run of it shows.

    Raises
    ------
    SimulatorError
        If it cannot be done, and why; also if the run does not come to an end by itself.
    """
    original = content_of(request.program)
    order = basis_after_run(request).order(request.setting)
    with collected_later():
        return instrument(order, original, request.progress or unwatched)


def basis_after_run(request: RunRequest) -> Basis:
    """Return a program as its file and a run of it show it; errors as above.

    The request's scheme is not read.
    """
    without = basis_without_run(request.program, progress=request.progress or unwatched)
    guest = replace(request.guest, heap_start=heap_start(without.recovered.program))
    request = replace(request, guest=guest)
    observation = observe(request, (NO_SCHEME,), without.discoveries)
    seen = shared_targets(observation.program, observation.discoveries)
    if seen != observation.discoveries:
        observation = observe(request, (NO_SCHEME,), seen)
    result = observation.result
    if result.is_cut_short:
        raise UsageError(
            f"{request.program}: the run did not come to its own end ({result.reason}): "
            "instrument with a shorter one, or without one"
        )
    return Basis(
        observation.recovered,
        request.selection,
        observation.discoveries,
        tuple(observation.events),
        observation.edge_counts,
    )


@contextmanager
def collected_later() -> Iterator[None]:
    """Have Python look for cyclic garbage only after the `with` block.

    It looks the more often the more objects are made, and at all of them. The instructions of a
    program's copies are millions, all in use, and looking at them took a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
