"""Lessons as text (`graphfiles.lesson`)."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from simprof.profiler.graphfiles.lesson import Lesson, Line, Step
from simprof.profiler.reports.display import visible as readable

MEANINGS = {
    "tree": "in the tree",
    "chord": "chord",
    "back": "back edge",
    "dummy": "dummy",
    "out": "left out",
}
"""How kinds of edges are called."""


def render(lesson: Lesson, width: int) -> str:
    """Return a lesson in lines of `width` columns; what is longer than a line is not broken."""
    parts = [f"{readable(lesson.title)}, step by step: {lesson.mode}"]
    for number, step in enumerate(lesson.steps, 1):
        parts.append("\n".join(_step(number, step, width)))
    return "\n\n".join(parts) + "\n"


def _step(number: int, step: Step, width: int) -> Iterator[str]:
    yield f"{number}. {step.title}"
    yield fill(step.text, width)
    names = [(readable(line.source), readable(line.target)) for line in step.lines]
    before = max((len(source) for source, _ in names), default=0)
    after = max((len(target) for _, target in names), default=0)
    for (source, target), line in zip(names, step.lines, strict=True):
        yield f"  {source:>{before}} > {target:<{after}}  {_label(step, line)}".rstrip()
    for block, note in step.notes.items():
        yield f"  {readable(block)}: {note}"
    if step.is_about_rows:
        yield "  " + "  ".join(step.head)
        for row in step.rows:
            yield "  " + "  ".join(map(readable, row))


def _label(step: Step, line: Line) -> str:
    """Return what an edge says; its kind only where that is what the step shows."""
    shown = step.is_about_kinds or line.kind in ("dummy", "out")
    kind = MEANINGS.get(line.kind, "") if shown else ""
    return ", ".join(part for part in (line.label, kind) if part)
