"""A target, many inputs, for some time: workers started, watched and replaced; finds confirmed.

A worker that does not end an input is killed, one that ends by a signal or takes too much memory is
replaced; the input that it was reading is then read alone, in a process of its own. It is a find
if that ends in the same way.
"""

from __future__ import annotations

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
    Received,
    Target,
    read_alone,
    start,
    work,
)

PATIENCE = 6 * TIME_LIMIT
"""Seconds of wall-clock time after which an input hangs for sure: the machine may be busy."""
_PREPARING = 600.0
"""The same before the first input: kernels may have to be compiled."""
_LOOKS = 0.5
"""Seconds between two looks at a worker."""


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
        Inputs that ended a worker, but not a process of their own.
    """

    target: str
    seed: int
    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    finds: dict[Hashable, Find] = field(default_factory=dict)
    unconfirmed: int = 0


def run(
    target: Target,
    inputs: Sequence[bytes],
    seed: int,
    seconds: float,
    tell: Callable[[Find], None] = lambda find: None,
) -> Campaign:
    """Have a target read inputs that are made at random.

    Parameters
    ----------
    target, inputs
        What reads them, and what they are made of.
    seed
        Of the random numbers: the same seed and corpus make the same inputs as long as no worker
        is replaced.
    seconds
        Wall-clock time.
    tell
        Is told each find of a new kind at once.
    """
    campaign = Campaign(target.name, seed)
    began = time.monotonic()
    number = seed
    while (left := seconds - (time.monotonic() - began)) > 0:
        notes = Notes()
        process = start(
            lambda pipe, n=number, t=left, notes=notes: work(  # type: ignore[misc]
                target, inputs, n, t, notes, pipe
            )
        )
        status = watch(process, notes, lambda found: note(campaign, found, tell))
        campaign.inputs += notes.count
        campaign.refused += notes.refused
        number += 1
        if status == DONE:
            break
        if status == 1:
            raise RuntimeError(f"{target.name}: the worker itself failed")
        again = read_again(target, [notes.data])
        campaign.unconfirmed += not again
        for find in again:
            note(campaign, find, tell)
    campaign.seconds = time.monotonic() - began
    return campaign


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
        if status < 0:
            what = f"the process ended by {signal.Signals(-status).name}"
        finds.append(Find(notes.data, what, what))
    return finds


def watch(process: Process, notes: Notes, take: Callable[[Find], None]) -> int:
    """Wait for a worker, and kill it where it hangs; return its exit status, negative: a signal."""
    received = Received(process.finds)
    count, since = -1, time.monotonic()
    nap = 0.01
    try:
        while True:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            for find in received.take():
                take(find)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if notes.count != count:
                count, since = notes.count, time.monotonic()
            elif time.monotonic() - since > (PATIENCE if count else _PREPARING):
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(nap)
            nap = min(2 * nap, _LOOKS)
    finally:
        os.close(process.finds)


def keep(find: Find, directory: Path) -> Path:
    """Write the input of a find, and beside it what happened; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / find_name(find.data)
    path.write_bytes(find.data)
    path.with_suffix(".txt").write_text(f"{find.kind}\n{find.story}\n", errors="backslashreplace")
    return path
