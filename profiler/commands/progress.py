"""The progress bar, on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from profiler.request import request

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


@contextmanager
def progress_bar(shown: bool) -> Iterator[Callback | None]:
    """Show a bar while the body runs; yields the callback that moves it, or None."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    display = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    )
    with display:
        task = display.add_task("starting", total=None, done="")

        def show(progress: request.Progress) -> None:
            executed = progress.instructions
            done = f"{executed / 1e6:,.0f} M instructions" if executed else ""
            if progress.total:
                done = f"{progress.done} of {progress.total}"
            display.update(
                task,
                description=progress.phase.value,
                completed=progress.done if progress.total else executed,
                total=progress.total or progress.limit,
                done=done,
                refresh=True,
            )

        yield show
