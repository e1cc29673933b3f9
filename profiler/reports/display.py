"""Text, numbers, names and paths as people read them: visible, measured in cells, shortened.

A cell is what one Latin letter takes on a terminal. A Chinese character takes two, a combining
accent none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from simprof.simulator.binary.demangling import demangle
from simprof.simulator.binary.program import SourceLine

if TYPE_CHECKING:
    from fractions import Fraction

GAP = "..."  # Stands for what was left out; it needs no more than ASCII.
# Cells of a line of a listing in a file or a pipe: programs read listings, line by line.
UNFOLDED = 1 << 16
HANGING = 4  # How much farther right the rest of a folded line begins

_HALF = 0xDC00
_NO_UTF8 = re.compile(r"[\udc80-\udcff]")


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
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # names are seldom others

    return cell_len(text)


def shorten(name: str, width: int) -> str:
    """Return a name in at most `width` cells (8 or more), its middle left out.

    Of a qualified name ("app::Parser::parse") the beginning is left out.
    """
    if cells(name) <= width:
        return name
    room = width - len(GAP)
    if "::" in name and not set("( <") & set(name):
        return GAP + name[-room:]
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


LONGEST_PLAIN = 10**15
# A smaller one takes at most 23 cells, so that no table breaks it (`tables.TEXT_FLOOR`).
LONGEST_COUNT = 10**18
# In a column of short forms, these numbers have them; smaller ones take no more cells whole.
SHORT_FROM = 10**6
LONGEST_IDENTIFIER = 10**20
SHOWN_DIGITS = 3


def group_digits(number: int) -> str:
    """Return `number` with its digits in groups; very large ones (path counts) in short form."""
    return f"{number:,}" if abs(number) < LONGEST_PLAIN else scientific(number)


def digits(number: int) -> str:
    """Return a count, every digit of it unless nobody could read it."""
    return f"{number:,}" if abs(number) < LONGEST_COUNT else scientific(number)


def whole(number: int, short: bool) -> str:
    """Return a number of a column, which has short forms or all digits of all its numbers."""
    return scientific(number) if short and abs(number) >= SHORT_FROM else digits(number)


def needs_short(numbers: Iterable[int]) -> bool:
    """Whether a column of these numbers has short forms: one has more digits than can be read."""
    return any(abs(number) >= LONGEST_COUNT for number in numbers)


def column(numbers: Sequence[int]) -> list[str]:
    """Return the numbers of a column in one notation, so that the larger one looks larger.

    Examples
    --------
    >>> column([8_660_000_000_000_000, 418_000_000_000_000])
    ['8,660,000,000,000,000', '418,000,000,000,000']
    >>> column([10**20, 418_000_000, 29])
    ['1.00e20', '4.18e8', '29']
    """
    short = needs_short(numbers)
    return [whole(number, short) for number in numbers]


def counted(number: int, noun: str) -> str:
    """Return a count as `digits` does, and its noun, in the plural where that is right."""
    return f"{digits(number)} {noun}{'' if number == 1 else 's'}"


def scientific(number: int) -> str:
    """Return an integer of any size as "1.23e45", rounded down."""
    exponent = int((abs(number).bit_length() - 1) * 0.30102999566398120)
    leading = abs(number) // 10 ** (exponent - SHOWN_DIGITS + 1)
    while leading >= 10**SHOWN_DIGITS:
        leading //= 10
        exponent += 1
    digits = str(leading)
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:]}e{exponent}"


def identifier(number: int | None) -> str:
    """Return the number that names something, whole unless nobody could read it; "-" for none."""
    if number is None:
        return "-"
    return str(number) if abs(number) < LONGEST_IDENTIFIER else scientific(number)


def percent(part: int, whole: int) -> str:
    """Return `part` of `whole` in percent, "-" where there is no whole."""
    if whole == 0:
        return "-"
    return f"{100 * part / whole:.2f} %"


def share(part: Fraction | float) -> str:
    """Return a share in percent, "100.00 %" only where it is all."""
    hundredths = round(part * 10_000)
    if hundredths == 10_000 and part < 1:
        hundredths -= 1
    return f"{hundredths / 100:.2f} %"


def growth(before: int | Fraction, after: int | Fraction) -> str:
    """Return by how much a number grew, in percent, every digit right; large growth as a factor.

    Examples
    --------
    >>> [growth(100, after) for after in (100, 90, 300_000)]
    ['0.00 %', '-10.00 %', '3,000 x']
    >>> growth(10**12, 10**12 + 7)
    '+7.0e-10 %'
    """
    from fractions import Fraction  # most reports compare nothing, and need not load it

    if not before:
        return "-"
    if after >= 1_000 * before:
        return f"{digits(after // before)} x"
    percent = Fraction(100 * (after - before)) / before
    if percent and not round(100 * percent):
        return f"{float(percent):+.1e} %"
    sign = "+" if after > before else "-" if after < before else ""
    return f"{sign}{exact_percent(abs(percent))}"


def exact_percent(number: Fraction) -> str:
    """Return a number of percent, 0 or more and of any size, with two places."""
    hundredths = round(100 * number)
    return f"{digits(hundredths // 100)}.{hundredths % 100:02} %"


def plural(number: int, noun: str) -> str:
    """Return the number and its noun, in the plural where that is right."""
    return f"{group_digits(number)} {noun}{'' if number == 1 else 's'}"


LONGEST_IN_TEXT = 60  # Cells of a name in a sentence or a heading; tables have their own rules.
HEADING = 24  # Cells that follow the name in the heading of a listing and stay on its line


@cache
def readable(name: str) -> str:
    """Return a symbol's name demangled, and with nothing in it that a terminal would obey."""
    return visible(demangle(name))


def known_as(name: str, alias: str | None) -> str:
    """Return a readable name, and the one that the user selected the routine by, if another."""
    return readable(name) if alias is None else f"{readable(name)} ({readable(alias)})"


def brief(name: str, width: int = LONGEST_IN_TEXT, alias: str | None = None) -> str:
    """Return a readable name, and perhaps an alias, short enough for a sentence."""
    return shorten(known_as(name, alias), width)


SHOWN = 12  # Blocks or lines of a path that are shown; of longer ones the middle is left out.


# Of a path in a short report: so many blocks or lines at most, if they fit into so many cells.
FEW, FEW_CELLS = {False: 3, True: 6}, {False: 36, True: 45}  # by whether these are lines


def route_text(names: Sequence[str], *, brief: bool, are_lines: bool = False) -> str:
    """Return "A > B > C", the middle of a long one left out; `brief`: the beginning alone."""
    if not brief:
        return " > ".join(shorten_list(names))
    most = min(len(names), FEW[are_lines])
    while most > 1 and cells(" > ".join(names[:most])) > FEW_CELLS[are_lines]:
        most -= 1
    left = len(names) - most
    return " > ".join(names[:most]) + (f" (+{left})" if left else "")


def shorten_list(names: Sequence[str]) -> list[str]:
    """Leave out the middle of a long list and say how much."""
    if len(names) <= SHOWN:
        return list(names)
    head = SHOWN - 4
    return [*names[:head], f"({len(names) - head - 3} more)", *names[-3:]]


class ShortNames:
    """Source files, all that are shown, by as many last components as tell them apart."""

    def __init__(self, files: Iterable[str]) -> None:
        names = set(files)
        self._short: dict[str, str] = {}
        for components in range(1, 2 + max((file.count("/") for file in names), default=0)):
            last = {file: "/".join(file.split("/")[-components:]) for file in names}
            ends = Counter(last.values())
            for file in names - self._short.keys():
                end = last[file]
                if end and ends[end] == 1:
                    self._short[file] = end

    def short(self, file: str) -> str:
        """Return how a file is shown."""
        return visible(self._short.get(file, file))

    def route(self, lines: Iterable[SourceLine], *, brief: bool = False) -> str:
        """Return "FILE:LINE > LINE > ...", repeats left out, and files that stay the same."""
        parts: list[str] = []
        file = None
        for line, _ in groupby(lines):
            shown = f"{line.line}" if line.file == file else f"{self.short(line.file)}:{line.line}"
            parts.append(shown)
            file = line.file
        return route_text(parts, brief=brief, are_lines=True)
