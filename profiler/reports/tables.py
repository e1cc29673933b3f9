"""Tables and paragraphs that the reports for people share, and how they become text.

Everything that people read goes through `print_parts`: there what is not visible is escaped, and
no line gets wider than the terminal. The columns of a table share the width that there is; numbers
are never cropped. (rich's tables crop them, and take 80 to 100 ms of processor time to import, a
fifth of a short run; rich is imported for colours alone.)

Steps -> functions
------------------
1. All columns side by side, the wide ones narrower, titles folded      `spread`
2. else the same with the columns of the longest numbers in short form   `_compacted`
3. else closer together with shorter names and texts (`TIGHT_FLOORS`), or columns in several lines a
   row, one line below the other (`_stacked`): what takes fewer lines    `_height`
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from io import StringIO

from msgspec import Struct, field

from simprof.profiler.reports import display
from simprof.profiler.reports.display import cells, fold_ranges, visible, whole

TEXT_FLOOR = 24  # Also of what is no whole number in a column of numbers: values by iteration.
FLOORS = 16, TEXT_FLOOR  # Least cells of longer names and texts
TIGHT_FLOORS, TIGHT_SPACE = (12, 20), 1  # Where a row would take several lines with more
COMPACTED_FROM = 10**12  # For want of room, only columns with larger numbers have short forms.
STACKED_INDENT = 2


class CellAlignment(Enum):
    """What a column holds: numbers at the right, names to be shortened, texts to be folded."""

    NUMBER = "number"
    NAME = "name"
    TEXT = "text"


class Styled(Struct, frozen=True):
    """A text with its style: "bold", "red", ..., empty for none."""

    text: str
    style: str = ""


class Column(Struct, frozen=True):
    """The head of a column."""

    title: str
    kind: CellAlignment


# An entry of a table; a number is given as such where it may have a short form.
Value = int | str


class ColumnWidths(Struct, frozen=True):
    """How many cells a column takes."""

    floor: int  # At least: its numbers whole, its names shortened, its texts folded.
    natural: int  # Where there is room for everything in it.


class ColumnPlace(Struct, frozen=True):
    """A column of a line: which, how wide, and whether its long numbers have the short form."""

    column: int
    width: int
    compact: bool = False


Line = tuple[ColumnPlace, ...]


def fit(
    columns: Sequence[Column], rows: Sequence[Sequence[Value]], width: int, space: int
) -> tuple[tuple[Line, ...], int]:
    """Return the lines that each row takes, and the head, and the cells between columns.

    `width` in cells; `space` between columns where there is room.
    """
    by_column = [[row[at] for row in rows] for at in range(len(columns))]
    pairs = list(zip(columns, by_column, strict=True))
    compacted = list(_compacted(by_column))

    def beside(between: int, floors: tuple[int, int]) -> tuple[Line, ...]:
        for compact in compacted:
            needs = [need(*pair, at in compact, floors) for at, pair in enumerate(pairs)]
            widths = spread(needs, width, between)
            if widths is not None:
                places = (ColumnPlace(at, each, at in compact) for at, each in enumerate(widths))
                return (tuple(places),)
        return ()

    if loose := beside(space, FLOORS):
        return loose, space
    needs = [need(*pair, at in compacted[0]) for at, pair in enumerate(pairs)]
    stacked = tuple(_stacked(needs, compacted[0], width, space))
    tight = beside(min(space, TIGHT_SPACE), TIGHT_FLOORS)
    if tight and _height(columns, rows, tight) <= _height(columns, rows, stacked):
        return tight, min(space, TIGHT_SPACE)
    return stacked, space


def _height(
    columns: Sequence[Column], rows: Sequence[Sequence[Value]], layout: tuple[Line, ...]
) -> int:
    """Return how many lines all rows take."""
    return sum(
        max(len(shown(row[each.column], columns[each.column].kind, each)) for each in line)
        for row in rows
        for line in layout
    )


def need(
    column: Column, entries: Sequence[Value], compact: bool, floors: tuple[int, int] = FLOORS
) -> ColumnWidths:
    """Return what a column takes; `compact`: with its long numbers in short form.

    `floors`: the least cells of names, and of texts, that are longer.
    """
    words = max(map(cells, column.title.split(" ")))
    wholes = [cells(whole(each, compact)) for each in entries if isinstance(each, int)]
    texts = [cells(line) for each in entries if isinstance(each, str) for line in each.split("\n")]
    most, longest = max(wholes, default=0), max(texts, default=0)
    # Text among numbers may be a number of another notation, which is not to be folded.
    least = (
        TEXT_FLOOR
        if column.kind is CellAlignment.NUMBER
        else floors[column.kind is CellAlignment.TEXT]
    )
    floor = max(words, most, min(longest, least))
    return ColumnWidths(floor, max(cells(column.title), most, longest))


def spread(needs: Sequence[ColumnWidths], width: int, space: int) -> list[int] | None:
    """Share `width` among columns side by side; None where not even their floors fit.

    All get the same, but none less than its floor or more than it takes.
    """
    room = width - space * (len(needs) - 1)
    if sum(each.floor for each in needs) > room:
        return None
    low, high = 0, max((each.natural for each in needs), default=0)
    while low < high:
        level = (low + high + 1) // 2
        taken = sum(min(each.natural, max(each.floor, level)) for each in needs)
        low, high = (level, high) if taken <= room else (low, level - 1)
    widths = [min(each.natural, max(each.floor, low)) for each in needs]
    left = room - sum(widths)
    for at, each in enumerate(needs):
        if left > 0 and widths[at] < each.natural:
            widths[at] += 1
            left -= 1
    return widths


def _compacted(by_column: Sequence[Sequence[Value]]) -> Iterator[frozenset[int]]:
    """Yield which columns have short forms: those that need them, the widest other, and so on."""
    numbers = [[each for each in entries if isinstance(each, int)] for entries in by_column]
    largest = {at: max(map(abs, each), default=0) for at, each in enumerate(numbers)}
    must = {at for at, each in enumerate(numbers) if display.needs_short(each)}
    may = [at for at in largest if at not in must and largest[at] >= COMPACTED_FROM]
    may.sort(key=lambda at: -largest[at])
    yield from (frozenset({*must, *may[:count]}) for count in range(len(may) + 1))


def _stacked(
    needs: Sequence[ColumnWidths], compact: Collection[int], width: int, space: int
) -> Iterator[Line]:
    """Yield lines of columns, as many in each as fit; those after the first are indented."""
    room, start = width, 0
    while start < len(needs):
        end = start + 1
        while (
            end < len(needs)
            and sum(each.floor for each in needs[start : end + 1]) + space * (end - start) <= room
        ):
            end += 1
        line = [ColumnWidths(min(each.floor, room), each.natural) for each in needs[start:end]]
        widths = spread(line, room, space) or [room]
        places = range(start, end)
        yield tuple(
            ColumnPlace(at, each, at in compact) for at, each in zip(places, widths, strict=True)
        )
        start, room = end, width - STACKED_INDENT


def shown(entry: Value, kind: CellAlignment, place: ColumnPlace) -> list[str]:
    """Return the lines of one entry, none wider than its place, all but texts filled up to it."""
    width = place.width
    if isinstance(entry, int):
        text = whole(entry, place.compact)
        lines = [text if cells(text) <= width else display.scientific(entry)]
    elif kind is CellAlignment.NAME:
        lines = [display.shorten(entry, width)]
    else:
        lines = display.fold(entry, width)
    if kind is CellAlignment.NUMBER:
        return [" " * (width - cells(line)) + line for line in lines]
    return lines


Cell = Value | Styled
Pieces = list[Styled]  # One line of output, in pieces of one style each


class Paragraph(Struct, frozen=True):
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


class Table(Struct):
    """Rows under heads; where it has no heads shown, a list of facts."""

    columns: tuple[Column, ...]
    space: int = 2  # Cells between columns
    indent: int = 0  # Cells left of the table
    headed: bool = True  # Whether the titles are shown
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)  # One for each row

    def add_row(self, *row: Cell, style: str = "") -> None:
        """Append a row; a text keeps its line ends, everything else that is invisible is shown."""
        made = tuple(map(_visible, row))
        self.rows.append(made + ("",) * (len(self.columns) - len(made)))
        self.styles.append(style)

    def lines(self, width: int) -> Iterator[Pieces]:
        """Yield the lines."""
        values = [list(map(_value, row)) for row in self.rows]
        layout, space = fit(self.columns, values, width - self.indent, self.space)
        if self.headed:
            heads = tuple(Styled(column.title, "underline") for column in self.columns)
            yield from self._row(heads, layout, space, "", head=True)
        for row, style in zip(self.rows, self.styles, strict=True):
            yield from self._row(row, layout, space, style)

    def _row(
        self,
        row: Sequence[Cell],
        layout: tuple[Line, ...],
        space: int,
        style: str,
        head: bool = False,
    ) -> Iterator[Pieces]:
        for number, line in enumerate(layout):
            indent = self.indent + (STACKED_INDENT if number else 0)
            entries = [self._entry(row[place.column], place, head) for place in line]
            if len(layout) > 1 and not any(each.strip() for lines in entries for each in lines):
                continue  # a part of a stacked row in which nothing stands
            for at in range(max(map(len, entries))):
                pieces = [Styled(" " * indent)]
                for place, lines in zip(line, entries, strict=True):
                    text = lines[at] if at < len(lines) else ""
                    begin = len(text) - len(text.lstrip())
                    gap = place.width - cells(text) + space
                    cell = row[place.column]
                    own = cell.style if isinstance(cell, Styled) else style
                    pieces += [Styled(text[:begin]), Styled(text[begin:], own), Styled(" " * gap)]
                yield pieces

    def _entry(self, entry: Cell, place: ColumnPlace, head: bool) -> list[str]:
        kind = self.columns[place.column].kind
        if head and kind is CellAlignment.NAME:
            kind = CellAlignment.TEXT  # titles are folded, not shortened
        return shown(_value(entry), kind, place)


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
    if table is not None and table.rows:
        yield BLANK
        yield paragraph(title, style="bold")
        yield table


def number(title: str) -> Column:
    """Return the head of a column of numbers."""
    return Column(title, CellAlignment.NUMBER)


def name(title: str) -> Column:
    """Return the head of a column of names."""
    return Column(title, CellAlignment.NAME)


def text(title: str) -> Column:
    """Return the head of a column of texts."""
    return Column(title, CellAlignment.TEXT)


def columns(
    *heads: Column, rows: Iterable[Sequence[Cell]] = (), space: int = 2, indent: int = 0
) -> Table:
    """Return a table whose columns are `space` apart."""
    return _filled(Table(heads, space, indent), rows)


def grid(*kinds: CellAlignment, rows: Iterable[Sequence[Cell]] = ()) -> Table:
    """Return a list without heads: of facts, or of columns of these kinds."""
    kinds = kinds or (CellAlignment.TEXT, CellAlignment.TEXT)
    return _filled(Table(tuple(Column("", kind) for kind in kinds), headed=False), rows)


def _filled(table: Table, rows: Iterable[Sequence[Cell]]) -> Table:
    for row in rows:
        table.add_row(*row)
    return table


def _visible(cell: Cell) -> Cell:
    if isinstance(cell, Styled):
        return Styled(visible(cell.text), cell.style)
    return cell if isinstance(cell, int) else display.visible_lines(cell)


def _value(cell: Cell) -> Value:
    return cell.text if isinstance(cell, Styled) else cell


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
    console = Console(file=target, force_terminal=True, highlight=False, emoji=False, markup=False)
    for line in lines:
        made = Text.assemble(*((piece.text, piece.style) for piece in line))
        made.rstrip()
        console.print(made, soft_wrap=True)
    return target.getvalue()
