"""Tables and paragraphs that the reports for people share, and how they become text.

Everything that people read goes through `print_parts`: there what is not visible is escaped, and
no line gets wider than the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO

from simprof.profiler.reports.display import cells, fold_ranges, visible
from simprof.profiler.reports.layout import (
    STACKED_INDENT,
    Column,
    Kind,
    Line,
    Place,
    Styled,
    Value,
    fit,
    shown,
)

Cell = Value | Styled
Pieces = list[Styled]
"""One line of output, in pieces of one style each."""


@dataclass(frozen=True)
class Paragraph:
    """Text that is folded at the width that there is; `indent`: how far from the left."""

    pieces: tuple[Styled, ...]
    indent: int = 0

    def lines(self, width: int) -> Iterator[Pieces]:
        """Yield the lines."""
        text = "".join(piece.text for piece in self.pieces)
        for start, end in fold_ranges(text, width - self.indent):
            line = [Styled(" " * self.indent)] if end > start else []
            yield [*line, *_slice(self.pieces, start, end)]


def paragraph(*pieces: str | tuple[str, str], style: str = "", indent: int = 0) -> Paragraph:
    """Return a paragraph of texts, or of (text, style), whose line ends are escaped, too."""
    made = [
        Styled(visible(each), style) if isinstance(each, str) else Styled(visible(each[0]), each[1])
        for each in pieces
    ]
    return Paragraph(tuple(made), indent)


BLANK = Paragraph((Styled(""),))


@dataclass
class Table:
    """Rows under heads; where it has no heads shown, a list of facts.

    Attributes
    ----------
    columns, rows, styles
        The heads, the entries, and a style for each row.
    space, indent
        Cells between columns, and left of the table.
    headed
        Whether the titles are shown.
    """

    columns: tuple[Column, ...]
    space: int = 2
    indent: int = 0
    headed: bool = True
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    @property
    def row_count(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    def add_row(self, *row: Cell, style: str = "") -> None:
        """Append a row; a text keeps its line ends, everything else that is invisible is shown."""
        made = tuple(map(_visible, row))
        self.rows.append(made + ("",) * (len(self.columns) - len(made)))
        self.styles.append(style)

    def lines(self, width: int) -> Iterator[Pieces]:
        """Yield the lines."""
        values = [
            [each.text if isinstance(each, Styled) else each for each in r] for r in self.rows
        ]
        layout = fit(self.columns, values, width - self.indent, self.space)
        if self.headed:
            heads = tuple(Styled(column.title, "underline") for column in self.columns)
            yield from self._row(heads, layout, "", head=True)
        for row, style in zip(self.rows, self.styles, strict=True):
            yield from self._row(row, layout, style)

    def _row(
        self, row: Sequence[Cell], layout: tuple[Line, ...], style: str, head: bool = False
    ) -> Iterator[Pieces]:
        for number, line in enumerate(layout):
            indent = self.indent + (STACKED_INDENT if number else 0)
            entries = [self._entry(row[place.column], place, head) for place in line]
            if len(layout) > 1 and not any(each.strip() for lines in entries for each in lines):
                continue  # a part of a stacked row in which nothing stands
            styles = [_style(row[place.column], style) for place in line]
            for at in range(max(map(len, entries))):
                pieces = [Styled(" " * indent)]
                for place, lines, each in zip(line, entries, styles, strict=True):
                    text = lines[at] if at < len(lines) else ""
                    begin = len(text) - len(text.lstrip())
                    gap = place.width - cells(text) + self.space
                    pieces += [Styled(text[:begin]), Styled(text[begin:], each), Styled(" " * gap)]
                yield pieces

    def _entry(self, entry: Cell, place: Place, head: bool) -> list[str]:
        kind = self.columns[place.column].kind
        value = entry.text if isinstance(entry, Styled) else entry
        return shown(value, Kind.TEXT if head and kind is Kind.NAME else kind, place)


Part = Paragraph | Table


def print_parts(parts: Sequence[Part], width: int, color: bool) -> str:
    """Return the parts as text, one below the other, no line wider than `width` cells."""
    lines = [line for part in parts for line in part.lines(width)]
    if color:
        return _colored(lines)
    texts = ("".join(piece.text for piece in line).rstrip() for line in lines)
    return "".join(f"{text}\n" for text in texts)


def section(title: str, table: Table | None) -> Iterator[Part]:
    """Yield a titled table, or nothing where it has no rows."""
    if table is not None and table.row_count:
        yield BLANK
        yield paragraph(title, style="bold")
        yield table


def number(title: str) -> Column:
    """Return the head of a column of numbers."""
    return Column(title, Kind.NUMBER)


def name(title: str) -> Column:
    """Return the head of a column of names."""
    return Column(title, Kind.NAME)


def text(title: str) -> Column:
    """Return the head of a column of texts."""
    return Column(title, Kind.TEXT)


def columns(*heads: Column, space: int = 2, indent: int = 0) -> Table:
    """Return an empty table whose columns are `space` apart."""
    return Table(heads, space, indent)


def grid(*kinds: Kind) -> Table:
    """Return an empty list without heads: of facts, or of columns of these kinds."""
    kinds = kinds or (Kind.TEXT, Kind.TEXT)
    return Table(tuple(Column("", kind) for kind in kinds), headed=False)


def _visible(cell: Cell) -> Cell:
    match cell:
        case int():
            return cell
        case Styled():
            return Styled(visible(cell.text), cell.style)
    return "\n".join(map(visible, cell.split("\n")))


def _style(cell: Cell, style: str) -> str:
    return cell.style if isinstance(cell, Styled) else style


def _slice(pieces: Sequence[Styled], start: int, end: int) -> Iterator[Styled]:
    """Yield what lies between two places of all pieces together."""
    before = 0
    for piece in pieces:
        part = piece.text[max(0, start - before) : max(0, end - before)]
        if part:
            yield Styled(part, piece.style)
        before += len(piece.text)


def _colored(lines: Sequence[Pieces]) -> str:
    """Return lines with the codes that terminals take for styles."""
    from rich.console import Console
    from rich.text import Text

    target = StringIO()
    console = Console(
        file=target,
        force_terminal=True,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for line in lines:
        made = Text.assemble(*((piece.text, piece.style) for piece in line))
        made.rstrip()
        console.print(made, soft_wrap=True)
    return target.getvalue()
