"""Lessons as one page: a picture a step, for lectures (`graphfiles.lesson`)."""

from __future__ import annotations

from collections.abc import Sequence

from simprof.profiler.graphfiles.lesson import Lesson
from simprof.profiler.profiles.codec import encode
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.reports.html import page

SCRIPTS = ("vendor/dagre.min.js", "assets/core.js", "assets/lesson.js")


def render(lessons: Sequence[Lesson]) -> str:
    """Return the page; one that has several lessons shows one at a time."""
    return page.render(
        "lesson.html",
        SCRIPTS,
        title=", ".join(dict.fromkeys(lesson.title for lesson in lessons)),
        lessons=lessons,
        data=page.packed([encode(lesson) for lesson in lessons]),
        version=OWN_VERSION,
    )
