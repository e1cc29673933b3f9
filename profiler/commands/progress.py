"""The progress bar, on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from profiler.commands import streams
from profiler.request import request

SHORTEST_RATED = 1.0
"""Seconds of a phase before which its rate says nothing."""

EXECUTING = (request.Phase.RUNNING, request.Phase.RERUNNING, request.Phase.REPLAYING)
"""Phases in which instructions are executed; in others their number stays."""

Callback = Callable[[request.Progress], None]


def wanted(choice: bool | None, program_output: int) -> bool:
    """Decide whether to show a bar.

    It needs a terminal on stderr. Unless asked for, it is not shown where the program writes to
    a terminal as well: the two would be mixed up on the screen.

    Parameters
    ----------
    choice
        What the user asked for; None: nothing.
    program_output
        File descriptor of the program's standard output.
    """
    if not sys.stderr.isatty() or choice is False:
        return False
    return choice is True or not os.isatty(program_output)


def tell(callback: Callback | None, phase: request.Phase, done: int = 0, total: int = 0) -> None:
    """Tell a bar, if there is one, how many things of a phase are done, and of how many."""
    if callback is not None:
        callback(request.Progress(phase, done=done, total=total))


@contextmanager
def phase_bar(
    choice: bool | None, phase: request.Phase
) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar for one phase; yields what is told how many things are done, and of how many.

    Parameters
    ----------
    choice
        What the user asked for; None: nothing, and a terminal on stderr decides.
    phase
        What is done.
    """
    with progress_bar(wanted(choice is not False, streams.STDOUT)) as callback:
        if callback is None:
            yield None
            return
        tell(callback, phase)
        yield lambda done, total: tell(callback, phase, done, total)


def done_text(progress: request.Progress, seconds: float) -> str:
    """Return how much of a phase is done after so many seconds, and how fast that goes."""
    done, unit, text = progress.instructions / 1e6, "M", ""
    if progress.total:
        done, unit = float(progress.done), ""
        text = f"{progress.done:,} of {progress.total:,}"
    elif progress.instructions:
        text = f"{done:,.0f} M instructions"
    is_moving = progress.total or progress.phase in EXECUTING
    if is_moving and done and seconds >= SHORTEST_RATED:
        text += f", {done / seconds:,.0f}{unit and ' ' + unit} a second"
    return text


@contextmanager
def progress_bar(shown: bool) -> Iterator[Callback | None]:
    """Show a bar while the body runs; yields the callback that moves it, or None."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    display = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
    )
    with display:
        task = display.add_task("starting", total=None, done="")

        began: dict[request.Phase, float] = {}

        def show(progress: request.Progress) -> None:
            now = monotonic()
            if progress.phase not in began:
                began[progress.phase] = now
                display.reset(task)  # the estimate is one for this phase
            done = done_text(progress, now - began[progress.phase])
            executed = progress.instructions
            display.update(
                task,
                description=progress.phase.value,
                completed=progress.done if progress.total else executed,
                total=progress.total or progress.limit,
                done=done,
                refresh=True,
            )

        yield show
