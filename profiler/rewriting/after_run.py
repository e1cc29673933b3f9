"""Instrumenting a program that is run first: `simprof instrument ELF -- ARG...`.

Graphs then have what only a run shows (where computed jumps lead), and guided schemes their edge
profile. The run's heap begins where that of the instrumented program will.
"""

from __future__ import annotations

from dataclasses import replace

from simprof.profiler.request.request import RunRequest
from simprof.profiler.rewriting.alone import basis_without_run, content_of
from simprof.profiler.rewriting.garbage import collected_later
from simprof.profiler.rewriting.instrument import Instrumented, instrument, unwatched
from simprof.profiler.rewriting.orders import Basis
from simprof.profiler.rewriting.shared_targets import shared_targets
from simprof.profiler.session.session import NO_SCHEME, observe
from simprof.simulator.binary.elf_writer import heap_start
from simprof.simulator.errors import UsageError


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
