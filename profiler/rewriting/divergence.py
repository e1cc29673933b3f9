"""Where an instrumented program went another way than was predicted.

Asked only where the emulator's instructions or output differ: the program runs once more, on
the emulator, and how often each copied block was executed is compared with how often the original's
was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from simprof.profiler.request.request import RunRequest, SchemeOptions, Setting
from simprof.profiler.rewriting.instrument import Instrumented
from simprof.profiler.rewriting.trials import Place
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.session import observe
from simprof.simulator.errors import SimulatorError

_SHOWN = 5
_EDGES = "edges"


def divergence(place: Place, made: Instrumented, observation: Observation) -> list[str]:
    """Return a line for each routine with blocks that were executed more often, or less.

    Parameters
    ----------
    place
        Where the instrumented program lies.
    made
        The instrumented program.
    observation
        The run of the original.
    """
    try:
        executed = _executed(place)
    except SimulatorError as error:
        return [f"where it went another way is not known: {error}"]
    lines = list(_lines(made, observation, executed))
    if not lines:
        return ["each block was executed as often as predicted: what differs is code around them"]
    more = len(lines) - _SHOWN
    return lines[:_SHOWN] + ([f"and {more} more routines"] if more > 0 else [])


def _executed(place: Place) -> Counter[int]:
    """Run the program; return how often each of its instructions was executed, by address."""
    with place.fresh() as guest:
        request = RunRequest(place.file, guest, place.arguments)
        run = observe(request, [Setting(_EDGES, _EDGES, SchemeOptions())])
    executed: Counter[int] = Counter()
    for number, events in run.events.items():
        blocks = run.recovered.routines[number].blocks
        for block, count in zip(blocks, events.block_counts, strict=True):
            for address in range(block.start, block.end if count else block.start, 4):
                executed[address] += count
    return executed


def _lines(made: Instrumented, observation: Observation, executed: Counter[int]) -> Iterator[str]:
    labels = made.rewritten.labels
    for number, events in observation.events.items():
        if number not in made.copies.routines:
            continue
        cfg = observation.recovered.routines[number]
        differing = (
            f"{cfg.name}: its block at {block.start:#x} was executed {found} times, not {count}"
            for block, count in zip(cfg.blocks, events.block_counts, strict=True)
            if not block.is_slot
            and (label := labels.get(f"r{number}.block.{block.id}")) is not None
            and (found := executed[label]) != count
        )
        yield from islice(differing, 1)
