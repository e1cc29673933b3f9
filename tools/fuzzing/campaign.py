"""Targets, many inputs, for some time: workers started, watched and replaced; finds confirmed.

Each target has a worker, and every minute each of them has its turn. A worker that does not end an
input is killed, one that ends by a signal or takes too much memory is replaced; the input that it
was reading is then read alone, in a process of its own. It is a find if that ends in the same way.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.fuzzing.corpus import find_name
from tools.fuzzing.trial import TIME_LIMIT
from tools.fuzzing.worker import (
    DONE,
    Find,
    Notes,
    Process,
    Target,
    Turn,
    compile_once,
    read_alone,
    start,
    work,
)

Tell = Callable[[Target, Find], None]
"""Is told each find of a new kind at once."""
Job = tuple[Target, Sequence[bytes]]
"""What reads inputs, and what they are made of."""
PATIENCE = 6 * TIME_LIMIT
"""Seconds of wall-clock time after which an input hangs for sure: the machine may be busy."""
_PREPARING = 600.0
"""The same before the first input: kernels may have to be compiled."""
_LOOKS = 0.1
"""Seconds between two looks at a worker."""
ROUND = 60.0
"""Seconds in which each target has had its turn."""


@dataclass
class Campaign:
    """What came of it.

    Attributes
    ----------
    target, seed
        What was read, and the seed of the first worker; others have those that follow.
    inputs, refused
        How many inputs were read, and how many of them were refused in one line.
    seconds
        Wall-clock time.
    finds
        One of each kind.
    unconfirmed
        How often a worker ended, but not a process that read its last input alone.
    """

    target: str
    seed: int
    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    finds: dict[Hashable, Find] = field(default_factory=dict)
    unconfirmed: int = 0


def run(jobs: Sequence[Job], seed: int, seconds: float, tell: Tell) -> list[Campaign]:
    """Have targets read inputs that are made at random, each its share of every minute.

    Parameters
    ----------
    jobs
        Targets, and what their inputs are made of.
    seed
        Of the random numbers: the same seed and corpus make the same inputs as long as no worker
        is replaced.
    seconds
        Wall-clock time of all, without what is done once: compiling, and starting the workers.
    tell
        Is told each find of a new kind.
    """
    compiling = start(lambda pipe: compile_once([target for target, _ in jobs]))
    watch(compiling, Notes(), lambda find: None)
    rounds = max(1, math.ceil(seconds / ROUND))
    turns = [Turns(target, inputs, seed, tell) for target, inputs in jobs]
    try:
        for _ in range(rounds):
            for each in turns:
                each.read(seconds / rounds / len(turns))
    finally:
        for each in turns:
            each.end()
    return [each.campaign for each in turns]


class Turns:
    """A target's worker, and those that replace it; it rests between its turns.

    Parameters are those of `run`.

    Attributes
    ----------
    campaign
        What has come of it so far; its workers' figures are added when they end.
    """

    def __init__(self, target: Target, inputs: Sequence[bytes], seed: int, tell: Tell) -> None:
        self.campaign = Campaign(target.name, seed)
        self._target, self._inputs, self._tell = target, inputs, tell
        self._seed = seed
        self._notes = Notes()
        self._worker: Process | None = None

    def read(self, seconds: float) -> None:
        """Have a turn of so many seconds, and read one input at least if a worker can be had."""
        if self._worker is None:
            self._start()
        began = time.monotonic()
        while (left := seconds - (time.monotonic() - began)) > 0:
            if self._worker is None:
                self._start()
            else:
                self._notes.turn = Turn.READ
                self._watch(left)
        self.campaign.seconds += time.monotonic() - began

    def end(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._notes.turn = Turn.END
            self._watch(math.inf)

    def _start(self) -> None:
        notes, seed = Notes(), self._seed
        self._notes, self._seed = notes, seed + 1
        self._worker = start(lambda pipe: work(self._target, self._inputs, seed, notes, pipe))
        self._watch(0)

    def _watch(self, seconds: float) -> None:
        """Watch the worker until it rests after so many seconds, or has ended."""
        assert self._worker is not None
        status = watch(self._worker, self._notes, self._note, seconds)
        if status is None:
            return
        self._worker = None
        self.campaign.inputs += self._notes.count
        self.campaign.refused += self._notes.refused
        if status == 1:
            raise RuntimeError(f"{self._target.name}: the worker itself failed")
        if status != DONE:
            again = read_again(self._target, [self._notes.data]) if self._notes.count else []
            self.campaign.unconfirmed += not again
            for find in again:
                self._note(find)

    def _note(self, find: Find) -> None:
        note(self.campaign, find, lambda new: self._tell(self._target, new))


def note(campaign: Campaign, find: Find, tell: Callable[[Find], None]) -> None:
    """Add a find of a new kind to a campaign, and tell it."""
    if find.kind not in campaign.finds:
        campaign.finds[find.kind] = find
        tell(find)


def read_again(target: Target, inputs: Sequence[bytes], good: bool = False) -> list[Find]:
    """Have a target read inputs in a process of their own; return the finds.

    With `good`, those that are refused are among them.
    """
    notes, finds = Notes(), list[Find]()
    process = start(lambda pipe: read_alone(target, inputs, notes, pipe, good))
    status = watch(process, notes, finds.append)
    if status != DONE and not finds:
        what = f"the process ended with {status}"
        if status is not None and status < 0:
            what = f"the process ended by {signal.Signals(-status).name}"
        finds.append(Find(notes.data, what, what))
    return finds


def watch(
    process: Process, notes: Notes, take: Callable[[Find], None], seconds: float = math.inf
) -> int | None:
    """Wait for a worker, and kill it where it hangs.

    Parameters
    ----------
    process, notes
        The worker, and what it tells.
    take
        Is given its finds.
    seconds
        After which it is to rest, but not before it has read an input where it is its turn.

    Returns
    -------
    int | None
        Its exit status, negative: a signal. None: it rests.
    """
    began = time.monotonic()
    first, count, since = notes.count, -1, began
    nap = 0.01
    while True:
        pid, status = os.waitpid(process.pid, os.WNOHANG)
        for find in process.finds.take():
            take(find)
        if pid:
            process.finds.close()
            return os.waitstatus_to_exitcode(status)
        is_over = time.monotonic() - began >= seconds
        if is_over and (notes.turn is Turn.REST or notes.count > first):
            notes.turn = Turn.REST
            if notes.rests:
                return None
        if notes.count != count:
            count, since = notes.count, time.monotonic()
        elif time.monotonic() - since > (PATIENCE if count else _PREPARING):
            os.kill(process.pid, signal.SIGKILL)
        time.sleep(nap)
        nap = min(2 * nap, _LOOKS)


def keep(find: Find, directory: Path) -> Path:
    """Write the input of a find, and beside it what happened; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / find_name(find.data)
    path.write_bytes(find.data)
    path.with_suffix(".txt").write_text(f"{find.kind}\n{find.story}\n", errors="backslashreplace")
    return path
