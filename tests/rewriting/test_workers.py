"""Work shared out among processes: all of it is done once, and errors come back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from simprof.profiler.rewriting.verify import shared_out
from simprof.simulator.errors import EngineError, UsageError
from tests.support.turns import first


def squares(worker: int) -> Callable[[int], tuple[int, int]]:
    """Begin a worker: it says who did what."""
    return lambda number: (os.getpid(), number**2)


@pytest.mark.parametrize("workers", first(2, [1, 3, 2, 20]))
def test_every_item_is_done_once(workers: int) -> None:
    found = dict(shared_out(7, workers, squares))
    assert {number: square for number, (_, square) in found.items()} == {
        number: number**2 for number in range(7)
    }
    processes = {process for process, _ in found.values()}
    assert (os.getpid() in processes) == (workers == 1)
    assert len(processes) <= workers


def test_one_item_is_done_here() -> None:
    assert list(shared_out(1, 4, squares)) == [(0, (os.getpid(), 0))]
    assert list(shared_out(0, 4, squares)) == []


def test_workers_have_what_this_process_has_and_own_numbers() -> None:
    things = [object() for _ in range(4)]  # that could not be sent

    def begin(worker: int) -> Callable[[int], tuple[int, bool]]:
        def do(number: int) -> tuple[int, bool]:
            time.sleep(0.2)
            return worker, things[number] is not None

        return do

    found = dict(shared_out(4, 2, begin))
    assert {worker for worker, _ in found.values()} == {0, 1}


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_for_users_come_back(workers: int) -> None:
    def begin(worker: int) -> Callable[[int], int]:
        def do(number: int) -> int:
            if number == 2:
                raise UsageError("no such thing: name another")
            return number

        return do

    with pytest.raises(UsageError, match=r"^no such thing: name another$"):
        list(shared_out(4, workers, begin))


def test_a_worker_that_dies_is_an_error() -> None:
    def begin(worker: int) -> Callable[[int], int]:
        def do(number: int) -> int:
            if number == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.1)
            return number

        return do

    with pytest.raises(EngineError, match="ended by SIGKILL before its work was done"):
        list(shared_out(6, 2, begin))


def test_nobody_works_on_after_an_error() -> None:
    processes: list[int] = []

    def begin(worker: int) -> Callable[[int], int]:
        def do(number: int) -> int:
            if worker == 1:
                raise UsageError("wrong")
            time.sleep(600)
            return os.getpid()

        return do

    start = time.monotonic()
    with pytest.raises(UsageError):
        processes += [process for _, process in shared_out(2, 2, begin)]
    assert time.monotonic() - start < 60
    assert processes == []
