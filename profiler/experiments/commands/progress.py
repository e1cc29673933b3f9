"""The progress bar of experiments: programs built, then cells run; on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simprof.profiler.commands.progress import wanted

if TYPE_CHECKING:
    from simprof.profiler.experiments.cells.sweep import CellProgress
    from simprof.profiler.experiments.suites.suite import BuildProgress


@dataclass(frozen=True)
class Callbacks:
    """What moves the bar; None: nobody watches."""

    building: Callable[[BuildProgress], None] | None = None
    running: Callable[[CellProgress], None] | None = None


@contextmanager
def cell_bar(choice: bool | None) -> Iterator[Callbacks]:
    """Show a bar while the body runs; yields the callbacks that move it.

    `choice`: What the user asked for; None: nothing, and a terminal on stderr decides.
    """
    if not wanted(choice):
        yield Callbacks()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    display = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with display:
        task = display.add_task("starting", total=None)

        def building(progress: BuildProgress) -> None:
            text = f"{progress.state} {progress.benchmark} ({progress.build})"
            display.update(task, description=text, completed=progress.done, total=progress.total)

        def running(progress: CellProgress) -> None:
            text = progress.finished or "cells"
            display.update(task, description=text, completed=progress.done, total=progress.total)

        yield Callbacks(building, running)
