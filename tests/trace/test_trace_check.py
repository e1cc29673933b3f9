"""Numbers of traces that no program has are refused before native code takes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simprof.profiler.recovery.recovery import RecoveredProgram, recover
from simprof.profiler.trace.format import Trace, TraceEnd, TraceEvent, load
from simprof.profiler.trace.trace_check import check_numbers
from simprof.simulator.binary import elf
from tests.conftest import ROOT

CORPORA = ROOT / "tests" / "corpora"
EVENT = TraceEvent(at=3, bits=5, block=0, crossed=(0, 1), depth=1, after=-1, waiting=-1)


@pytest.fixture(scope="module")
def recovered() -> RecoveredProgram:
    return recover(elf.load(CORPORA / "recovery" / "v9.elf"))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load(CORPORA / "trace" / "seed-bits")


def test_a_good_trace_passes(trace: Trace, recovered: RecoveredProgram) -> None:
    check_numbers(trace, recovered)
    check_numbers(replace(trace, events=(EVENT,)), recovered)


@pytest.mark.parametrize(
    "changes",
    [
        {"routines": {4000: {}}},
        {"routines": {0: {4000: (0, 1)}}},
        {"routines": {0: {0: (2, 1)}}},
        {"routines": {0: {0: (0, 33)}}},
        {"certain": 1 << 63},
        {"end": TraceEnd(1 << 63, 0, 0)},
        {"end": TraceEnd(0, 0, -1)},
        {"events": (replace(EVENT, at=-1),)},
        {"events": (replace(EVENT, block=4000),)},
        {"events": (replace(EVENT, after=-2),)},
        {"events": (replace(EVENT, waiting=1 << 70),)},
        {"events": (replace(EVENT, crossed=(4000,)),)},
        {"events": (replace(EVENT, crossed=(-1,)),)},
        {"events": (replace(EVENT, depth=1 << 40),)},
    ],
)
def test_what_cannot_be_is_refused(
    trace: Trace, recovered: RecoveredProgram, changes: dict[str, object]
) -> None:
    with pytest.raises(ValueError):
        check_numbers(replace(trace, **changes), recovered)  # type: ignore[arg-type]
