"""What handlers have interrupted, by their frames."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from simprof.simulator.linux.contexts import Interrupted, InterruptedFrames
from simprof.simulator.linux.files import Host
from simprof.simulator.linux.guest import RunInterrupted
from simprof.simulator.linux.outside import RecordingHost
from simprof.simulator.linux.signals import Registers

STACK = 0x4000802000
NOTHING = Registers(0, 0, 0, 0, 0, (), (), (), 0, 0, 0)


def test_handlers_return_in_any_order() -> None:
    frames = InterruptedFrames()
    places = [STACK, STACK - 800, 0x200000, STACK - 1600, 0x200000 - 900]
    kept = {place: Interrupted(NOTHING, (), (place,)) for place in places}
    for place in places:
        frames.keep(place, kept[place])
    assert frames.take(STACK - 801) is None
    for place in (0x200000, STACK - 1600, STACK, 0x200000 - 900, STACK - 800):
        assert frames.take(place) is kept[place]
        assert frames.take(place) is None


def test_frames_that_were_left_are_dropped() -> None:
    """Frames shortly below a new one are those of handlers that longjmp has left."""
    frames = InterruptedFrames()
    for below in (0, 1000, 2000, 70_000):
        frames.keep(STACK - below, Interrupted(NOTHING, (), (below,)))
    frames.keep(STACK - 900, Interrupted(NOTHING, (), (900,)))
    for below, is_kept in ((0, True), (900, True), (1000, False), (2000, False), (70_000, True)):
        assert (frames.take(STACK - below) is not None) == is_kept


def test_many_nested_frames_are_linear() -> None:
    frames = InterruptedFrames()
    kept = Interrupted(NOTHING, (), ())
    begin = time.process_time()
    for number in range(50_000):
        frames.keep(STACK - 816 * number, kept)
    for number in reversed(range(50_000)):
        assert frames.take(STACK - 816 * number) is kept
    assert time.process_time() - begin < 2


def test_a_call_that_ran_out_of_time_does_so_again(tmp_path: Path) -> None:
    """A second emulation asks nothing of the clock: the log says where the first one ended."""
    host = RecordingHost(Host(tmp_path, writable=tmp_path, stdin=b"abcdef"))
    asked = iter([False, True])
    host.interrupted = lambda: next(asked)
    for _ in range(2):
        assert host.read(0, 2) == b"ab"
        host.check_time()
        assert host.read(0, 2) == b"cd"
        with pytest.raises(RunInterrupted):
            host.check_time()
        host.rewind()
        host.interrupted = lambda: False
    assert host.read(0, 2) == b"ab"
