"""Text as a terminal shows it: made visible, measured in cells, shortened, folded.

Terms
-----
cell
    What one Latin letter takes on a terminal. A Chinese character takes two, a combining accent
    none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.cells import cell_len

GAP = "..."
"""Stands for what was left out; it needs no more than ASCII."""

UNFOLDED = 1 << 16
"""Cells of a line of a listing in a file or a pipe: programs read listings, line by line."""

_HALF = 0xDC00
_NO_UTF8 = re.compile(r"[\udc80-\udcff]")

HANGING = 4
"""How much farther right the rest of a folded line begins."""


def visible(text: str) -> str:
    r"""Return text with every character that shows nothing, or does something, escaped.

    Escape sequences of terminals, line ends, marks that turn the direction of writing and what is
    no character at all become `\x1b`, `\n`, `\u202e`. A byte of a name that is not UTF-8 becomes
    `\xe9`, in names of files as in those of routines.
    """
    if text.isprintable():
        return text
    text = bytes_shown(text)
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def bytes_shown(text: str) -> str:
    r"""Return text with `\xe9` for a byte that is no UTF-8: Python has half a character."""
    return _NO_UTF8.sub(lambda each: f"\\x{ord(each[0]) - _HALF:02x}", text)


def visible_lines(text: str) -> str:
    """Return a text of many lines with what is not visible escaped, but for the line ends."""
    return "\n".join(map(visible, text.split("\n")))


def cells(text: str) -> int:
    """Return how many cells a text takes that is one line."""
    return len(text) if text.isascii() else cell_len(text)


def shorten(name: str, width: int) -> str:
    """Return a name in at most `width` cells (8 or more), its middle left out."""
    if cells(name) <= width:
        return name
    room = width - len(GAP)
    head = _fitting(name, (room + 1) // 2)
    backwards = name[::-1]
    tail = len(name) - _fitting(backwards, room // 2)
    while tail < len(name) and cells(name[tail]) == 0:  # its letter was left out
        tail += 1
    return f"{name[:head]}{GAP}{name[tail:]}"


def fold(text: str, width: int) -> list[str]:
    """Return a text in lines of at most `width` cells; see `fold_ranges`."""
    return [text[start:end] for start, end in fold_ranges(text, width)]


def fold_ranges(text: str, width: int) -> list[tuple[int, int]]:
    """Return where the lines of a folded text begin and end in it.

    Lines end between words. A word that is too long is broken behind a sign such as "/"; one that
    has none anywhere, but within a number only if the number fills a line.
    """
    ranges = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        while cells(text[start:end]) > width:
            cut = start + _cut(text[start:end], width)
            ranges.append((start, start + len(text[start:cut].rstrip())))
            start = cut + len(text[cut:end]) - len(text[cut:end].lstrip())
        if start < end or not line.strip():
            ranges.append((start, end))
        start = end + 1
    return ranges


def fold_lines(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines, those that are too long folded and their rest further indented."""
    for line in lines:
        if cells(line) <= width:
            yield line
            continue
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        first = fold(text, width - indent)[0]
        yield " " * indent + first
        rest = text[len(first) :].lstrip()
        indent += HANGING
        yield from (" " * indent + each for each in fold(rest, width - indent))


def _fitting(text: str, width: int) -> int:
    """Return how many characters of a text fit into some cells, with the accents of the last."""
    taken = 0
    for place, each in enumerate(text):
        taken += cells(each)
        if taken > width:
            return place
    return len(text)


def _cut(line: str, width: int) -> int:
    """Return where to break a line that is too long; at least one character stands before."""
    fits = max(1, _fitting(line, width))
    words_end = len(line[: fits + 1].rstrip(" "))
    space = fits if line[fits] == " " else line.rfind(" ", 0, words_end)
    if space > 0 and line[:space].strip():
        return space
    least = len(line) - len(line.lstrip()) + 1
    places = range(fits, least, -1)
    behind_signs = (at for at in places if not line[at - 1].isalnum() and _may_break(line, at))
    anywhere = (at for at in places if _may_break(line, at))
    return next(behind_signs, None) or next(anywhere, fits)


def _may_break(line: str, place: int) -> bool:
    """Whether no number, place (file:line), or letter with its accent is torn."""
    before, after = line[place - 1], line[place]
    in_number = (before.isdigit() or before in ",.:") and (after.isdigit() or after in ",.")
    return not in_number and cells(after) > 0
