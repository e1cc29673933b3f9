"""Progress reports: a bar on a terminal, elsewhere one line."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any

from simprof.profiler.commands import streams
from simprof.profiler.request import request
from simprof.simulator.errors import UsageError

SHORTEST_RATED = 1.0  # Seconds of a phase before which its rate says nothing
DELAY = 2.0  # Seconds before a bar is shown: what is over by then needs none.
LINE_DELAY = 5.0  # Seconds before the one line that is written where stderr is no terminal
VARIABLE = "SIMPROF_PROGRESS"  # Of the environment: 0 means --no-progress
PAUSE = 0.5  # Seconds that a program has written nothing for when the bar comes back
TICK = 0.25  # Seconds after which it is drawn again

# Phases in which instructions are executed; in others their number stays.
EXECUTING = (request.Phase.RUNNING, request.Phase.RERUNNING)


def ready_engine(choice: bool | None = None) -> None:
    """Say on stderr what takes so long where native code is to be compiled.

    `choice`: Whether the user asked for progress; False: nothing is said.
    """
    from simprof.simulator.cpu import compiled

    def tell(what: str) -> None:
        streams.write(streams.STDERR, f"simprof: {what}\n")

    if choice is not False:
        compiled.on_compiling(tell)


@contextmanager
def phase_bar(
    choice: bool | None, phase: request.Phase
) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar for one phase; yields what is told how many things are done, and of how many.

    `choice`: as of `progress_bar`.
    """
    with progress_bar(choice) as callback:
        if callback is None:
            yield None
            return
        request.report_progress(callback, phase)
        yield partial(request.report_progress, callback, phase)


def done_text(progress: request.Progress, seconds: float) -> str:
    """Return how much of a phase is done after so many seconds, and how fast that goes."""
    executed = progress.executed
    done, unit, text = executed / 1e6, "M", ""
    if progress.total:
        done, unit = float(progress.done), ""
        text = f"{progress.done:,} of {progress.total:,}"
    elif executed:
        text = f"{done:,.0f} M instructions"
    is_moving = progress.total or progress.phase in EXECUTING
    if is_moving and done and seconds >= SHORTEST_RATED:
        text += f", {done / seconds:,.0f}{unit and ' ' + unit} a second"
    return text


@contextmanager
def progress_bar(choice: bool | None) -> Iterator[Bar | None]:
    """Show a bar while the body runs, if that takes long; yields what moves it, or None.

    `choice`: Whether the user asked for progress; False: nothing is shown.
    """
    if choice is False or os.environ.get(VARIABLE) == "0":
        yield None
        return
    bar = Bar(is_terminal=sys.stderr.isatty())
    try:
        yield bar
    finally:
        bar.close()


class Bar:
    """A bar at the end of the screen: called with what is done, it shows that.

    Where stderr is no terminal, it is one line, after five seconds. On a terminal it is there after
    two seconds. A program that writes to the same terminal comes first: the bar is taken away
    before (`give_way`), and comes back below, when the last line of the program's is whole and
    nothing has been written for half a second.
    """

    def __init__(self, *, is_terminal: bool = True) -> None:
        self._may_show_at = monotonic() + (DELAY if is_terminal else LINE_DELAY)
        self._is_terminal = is_terminal
        self._is_line_whole = True
        self._done: request.Progress | None = None
        self._shown: request.Phase | None = None
        self._began: dict[request.Phase, float] = {}
        self._display: Any = None
        self._task: Any = None
        self._lock = threading.Lock()
        self._end = threading.Event()
        # A thread of its own draws, since a phase may go on for long without a word.
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def __call__(self, progress: request.Progress) -> None:
        """Take how much is done."""
        with self._lock:
            self._done = progress
            self._began.setdefault(progress.phase, monotonic())

    def give_way(self, data: bytes) -> None:
        """Leave the screen to `data`, which the program is about to write there."""
        with self._lock:
            self._hide()
            self._is_line_whole = data.endswith(b"\n")
            self._may_show_at = max(self._may_show_at, monotonic() + PAUSE)

    def close(self) -> None:
        """Take the bar away for good."""
        self._end.set()
        self._thread.join()
        self._hide()

    def _watch(self) -> None:
        while not self._end.wait(TICK if self._is_terminal else LINE_DELAY):
            self.draw()

    def draw(self) -> None:
        """Show how much is done, where the bar may be on the screen."""
        with self._lock:
            now = monotonic()
            if self._done is not None and self._is_line_whole and now >= self._may_show_at:
                self._show(self._done, now)

    def _show(self, progress: request.Progress, now: float) -> None:
        description = progress.text or progress.phase.value
        done = done_text(progress, now - self._began[progress.phase])
        if not self._is_terminal:
            self._end.set()  # one line says that simprof works, and a second one no more
            with suppress(UsageError):  # nobody reads it, which whatever is written next will say
                streams.complain(": ".join(filter(None, (description, done))))
            return
        if self._display is None:
            self._display, self._task = _display()
        if progress.phase is not self._shown:
            self._display.reset(self._task)  # the estimate is one for this phase
            self._shown = progress.phase
        self._display.update(
            self._task,
            description=description,
            completed=progress.done if progress.total else progress.executed,
            total=progress.total or progress.limit,
            done=done,
        )
        self._display.start()
        self._display.refresh()

    def _hide(self) -> None:
        if self._display is not None:
            self._display.stop()


def _display() -> tuple[Any, Any]:
    """Return rich's display, which is not on the screen yet, and its one task."""
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
        auto_refresh=False,
    )
    return display, display.add_task("starting", total=None, done="")
