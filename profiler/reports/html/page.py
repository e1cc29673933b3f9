"""Pages: templates filled in, with style sheets and scripts in the page itself.

A page is one file and loads nothing. Its security policy says so to the browser: only scripts and
style sheets whose digests are in the page's head take effect, and nothing may be fetched. Whatever
comes from a program (names, paths of files, arguments) reaches a page in one of two ways, and in
neither can it be markup: through a template, which escapes it, or as compressed JSON, of which
scripts make text nodes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from simprof.profiler.graphfiles.lesson import Lesson
from simprof.profiler.profiles.codec import encode
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.reports.display import digits, group_digits, percent

LARGEST_NUMBER = 2**53 - 1  # Scripts know integers exactly up to here; larger ones become text.
_PACKAGE = "simprof.profiler.reports.html"


def render(template: str, scripts: Sequence[str] = (), **values: Any) -> str:
    """Return a page: a file of `templates` filled with `values`, its scripts in this order."""
    style, script = asset("assets/style.css"), "\n".join(map(asset, scripts))
    return (
        environment()
        .get_template(template)
        .render(
            style=Markup(f"<style>{style}</style>"),
            script=Markup(f"<script>{script}</script>") if script else "",
            policy=_policy(style, script),
            **values,
        )
    )


@cache
def environment() -> Environment:
    """Return what fills templates in: everything is escaped that is not marked as markup."""
    made = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["digits"] = group_digits
    made.filters["percent"] = lambda pair: percent(*pair)
    return made


@cache
def asset(name: str) -> str:
    """Return the content of a file of this package."""
    return files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    scripts = f" script-src {_digest(script)};" if script else ""
    return f"default-src 'none'; style-src {_digest(style)};{scripts} base-uri 'none'"


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def packed(value: object) -> str:
    """Return a value as compressed JSON in letters that mean nothing in HTML; scripts unpack it.

    `value` consists of dictionaries, lists, tuples, strings and numbers.
    """
    text = json.dumps(_plain(value), separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def _plain(value: object) -> object:
    """Return a value with large integers written in short, as text."""
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        return digits(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


LESSON_SCRIPTS = ("vendor/dagre.min.js", "assets/core.js", "assets/lesson.js")


def render_lessons(lessons: Sequence[Lesson]) -> str:
    """Return lessons as a page: a picture a step; one of several lessons is shown at a time."""
    return render(
        "lesson.html",
        LESSON_SCRIPTS,
        title=", ".join(dict.fromkeys(lesson.title for lesson in lessons)),
        lessons=lessons,
        data=packed([encode(lesson) for lesson in lessons]),
        version=OWN_VERSION,
    )
