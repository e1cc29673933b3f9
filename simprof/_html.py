"""Small tables of HTML for notebooks. Nothing that comes from a program is read as markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from simprof.profiler.reports.display import visible


def heading(text: str) -> str:
    r"""Return text as HTML shows it: markup and control characters made visible.

    Examples
    --------
    >>> heading("a<b>\n")
    'a&lt;b&gt;\\n'
    """
    return html.escape(visible(text))


def facts(values: Mapping[str, str]) -> str:
    """Return a table with a name and a value in each row."""
    rows = "".join(
        f'<tr><th style="text-align: left">{heading(name)}</th>'
        f'<td style="text-align: left">{heading(value)}</td></tr>'
        for name, value in values.items()
    )
    return f"<table>{rows}</table>"


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column is text, and the others numbers."""
    names = "".join(f"<th>{heading(column)}</th>" for column in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {"right" if place else "left"}">{heading(cell)}</td>'
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{heading(title)}</caption>"
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
    )
