"""Timers and interrupts by the clock: when they come, in which order."""

from __future__ import annotations

import pytest

from simprof.simulator.errors import UnsupportedError
from simprof.simulator.leon.devices import InterruptController, Timers

ENABLE, RESTART, LOAD, INTERRUPT, PENDING, CHAIN = 1, 2, 4, 8, 16, 32


def timers(requests: list[int], reload: int, control: int, scaler: int = 9) -> Timers:
    """The second timer set at time 0: a tick is ten cycles."""
    made = Timers(requests.append)
    made.write(0x04, scaler, 0)
    made.write(0x24, reload, 0)
    made.write(0x28, control | LOAD, 0)
    return made


def test_a_timer_interrupts_each_time_that_it_comes_below_zero() -> None:
    requests: list[int] = []
    two = timers(requests, 99, ENABLE | RESTART | INTERRUPT)
    assert two.next_interrupt() == 1000
    two.update(999)
    assert requests == []
    assert two.read(0x20, 999) == 0
    two.update(1000)
    assert requests == [7]
    assert two.next_interrupt() == 2000
    two.update(4500)
    assert requests == [7, 7, 7, 7]
    assert two.read(0x20, 4500) == 49
    assert two.read(0x28, 4500) == ENABLE | RESTART | INTERRUPT | PENDING
    two.write(0x28, ENABLE | RESTART | INTERRUPT | PENDING, 4500)
    assert two.read(0x28, 4500) == ENABLE | RESTART | INTERRUPT
    assert two.next_interrupt() == 5000


def test_a_timer_without_restart_stops() -> None:
    requests: list[int] = []
    two = timers(requests, 5, ENABLE | INTERRUPT)
    two.update(100_000)
    assert requests == [7]
    assert two.read(0x20, 100_000) == 0xFFFFFFFF
    assert two.next_interrupt() is None


def test_a_prescaler_that_changes_keeps_what_has_been_counted() -> None:
    two = timers([], 1000, ENABLE | RESTART)
    two.write(0x04, 99, 500)
    assert two.read(0x20, 500) == 950
    assert two.read(0x20, 1500) == 940


def test_chained_timers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="chains timers"):
        timers([], 1, ENABLE | CHAIN)


def test_the_highest_interrupt_comes_first_but_for_its_priority_level() -> None:
    controller = InterruptController()
    controller.write(0x40, 0xFFFE)
    for number in (3, 6, 11):
        controller.request(number)
    assert controller.highest() == 11
    controller.write(0x00, 1 << 3)
    assert controller.highest() == 3
    controller.acknowledge(3)
    controller.write(0x40, 1 << 6)
    assert controller.highest() == 6
    controller.write(0x0C, 1 << 6)
    assert controller.highest() == 0
    controller.write(0x08, 1 << 6)
    assert (controller.highest(), controller.read(0x08)) == (6, 1 << 6)
    controller.acknowledge(6)
    assert controller.read(0x08) == 0
