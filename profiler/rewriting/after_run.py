"""Instrumenting a program that is run first: `simprof instrument ELF -- ARG...`.

Graphs then have what only a run shows (where computed jumps lead), and guided schemes their edge
profile.
"""

from __future__ import annotations

from profiler.request.request import RunRequest
from profiler.rewriting.alone import content_of
from profiler.rewriting.garbage import collected_later
from profiler.rewriting.instrument import Instrumented, instrument, unwatched
from profiler.rewriting.orders import UNFINISHED, order_of
from profiler.rewriting.shared_targets import shared_targets
from profiler.session.session import observe
from simulator.errors import UsageError


def instrument_after_run(request: RunRequest) -> Instrumented:
    """Return a program with the code of the request's scheme, made with what a run of it shows.

    Raises
    ------
    SimulatorError
        If it cannot be done, and why; also if the run does not come to an end by itself.
    """
    original = content_of(request.program)
    observation = observe(request, (request.setting,))
    seen = shared_targets(observation.program, observation.discoveries)
    if seen != observation.discoveries:
        observation = observe(request, (request.setting,), seen)
    result = observation.result
    if result.reason in UNFINISHED:
        raise UsageError(
            f"{request.program}: the run did not come to its own end ({result.reason}): "
            "instrument with a shorter one, or without one"
        )
    (scheme,) = observation.schemes
    order = order_of(observation, scheme, foreseen=False)
    with collected_later():
        return instrument(order, original, request.progress or unwatched)
