"""Tables and titles that the reports for people share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

FOLDED = frozenset({"routine", "blocks, source lines", "source line"})


def print_parts(parts: Sequence[RenderableType], width: int, color: bool) -> str:
    """Return the parts as text, one below the other."""
    target = StringIO()
    console = Console(
        file=target,
        width=width,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for part in parts:
        console.print(part)
    lines = target.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def section(title: str, table: Table | None) -> Iterable[RenderableType]:
    """Yield a titled table, or nothing where it has no rows."""
    if table is not None and table.row_count:
        yield Text("")
        yield Text(title, style="bold")
        yield table


def grid() -> Table:
    """Return an empty two-column list of facts."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def columns(*headers: tuple[str, bool], space: int = 2) -> Table:
    """Return an empty table; a header comes with whether its column holds numbers.

    Names and paths may be long and continue on the next line; numbers never do. Columns are
    `space` apart.
    """
    table = Table(box=None, pad_edge=False, padding=(0, space, 0, 0), header_style="underline")
    for title, numeric in headers:
        table.add_column(
            title,
            justify="right" if numeric else "left",
            no_wrap=numeric or title not in FOLDED,
            overflow="fold",
        )
    return table


def natural_width(table: Table) -> int:
    """Return the columns that a table takes where there is room for everything in it."""
    return Console(width=1 << 16, file=StringIO()).measure(table).maximum
