"""Instrumenting a program without running it: `simprof instrument`."""

from __future__ import annotations

from pathlib import Path

from simprof.profiler.recovery.calls import all_second_returns
from simprof.profiler.recovery.recovery import Discoveries, Known, recover
from simprof.profiler.request.request import ALL_ROUTINES, Phase, Progress, Selection, Setting
from simprof.profiler.rewriting.garbage import collected_later
from simprof.profiler.rewriting.instrument import Instrumented, Watch, instrument, unwatched
from simprof.profiler.rewriting.orders import Basis
from simprof.profiler.rewriting.rewritable import load_rewritable
from simprof.simulator.errors import UsageError


def instrument_file(
    file: Path, setting: Setting, selection: Selection, progress: Watch = unwatched
) -> Instrumented:
    """Return a program with the code of a scheme in its place.

    Parameters
    ----------
    file
        The program.
    setting
        The scheme.
    selection
        The routines that are instrumented.
    progress
        Is told what is being done.

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
