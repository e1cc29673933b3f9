"""Landing pads of exceptions, from a program's unwinding tables.

Terms: a *frame description entry* (FDE) is what `.eh_frame` says of one range of code; a *common
information entry* (CIE) says how it is to be read. The *language-specific data area* (LSDA) is what
`.gcc_except_table` says of a routine's calls: for each the landing pad, if it has one.

Steps -> functions: each FDE's LSDA (`_data_areas`), each of its call sites (`_pads`).
"""

# `.eh_frame` is described in the Linux Standard Base (Core, 10.6), the LSDA nowhere but in the code
# of compilers and run-time libraries (`__gxx_personality_v0`).

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from simprof.simulator.binary.dwarf_lines import Cursor
from simprof.simulator.binary.program import Range, Segment

_OMITTED = 0xFF
_RELATIVE_TO_PLACE, _RELATION, _FORM = 0x10, 0x70, 0x0F
_UNSIGNED, _SIGNED = 1, 9
_SIZES = {2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}


class _Common(NamedTuple):
    """What a CIE says."""

    addresses: int
    areas: int
    has_lengths: bool


class _Reader(Cursor):
    def __init__(self, segments: Sequence[Segment], address: int, is64: bool) -> None:
        spans = (s for s in segments if s.address <= address < s.address + len(s.data))
        segment = next(spans, None)
        if segment is None:
            raise IndexError(address)
        super().__init__(segment.data, address - segment.address)
        self.origin = segment.address
        self._pointer = 8 if is64 else 4
        self._mask = (1 << 8 * self._pointer) - 1

    def encoded(self, encoding: int) -> int:
        """Read a pointer; 0 where there is none."""
        place, form = self.origin + self.at, encoding & _FORM
        if encoding == _OMITTED:
            return 0
        if form in (_UNSIGNED, _SIGNED):
            value = self.unsigned() if form == _UNSIGNED else self.signed()
        else:
            value = self.number(_SIZES.get(form, self._pointer), signed=form > 8)
        if value and encoding & _RELATION == _RELATIVE_TO_PLACE:
            value += place
        return value & self._mask


def landing_pads(
    table: Range | None, segments: Sequence[Segment], is64: bool
) -> dict[int, list[Range]]:
    """Return the addresses at which exceptions may land, each with the calls that they leave.

    `table`: where `.eh_frame` is.
    """
    # Of a damaged table, what precedes the damage counts.
    found: dict[int, list[Range]] = {}
    if table is None:
        return found
    with suppress(IndexError, KeyError, ValueError):
        for start, area in _data_areas(table, segments, is64):
            with suppress(IndexError, ValueError):
                for pad, calls in _pads(_Reader(segments, area, is64), start):
                    found.setdefault(pad, []).append(calls)
    return found


def _data_areas(table: Range, segments: Sequence[Segment], is64: bool) -> Iterator[tuple[int, int]]:
    """(where its code starts, where its LSDA is) of every routine that has one."""
    common: dict[int, _Common] = {}
    reader = _Reader(segments, table.start, is64)
    while reader.at + 4 <= table.end - reader.origin:
        entry = reader.at
        length = reader.number(4)
        end = reader.at + length
        if length:
            place = reader.at
            distance = reader.number(4)
            if distance == 0:
                common[entry] = _read_common(reader)
            else:
                how = common[place - distance]
                start = reader.encoded(how.addresses)
                reader.encoded(how.addresses & _FORM)
                if how.has_lengths and reader.unsigned() and how.areas != _OMITTED:
                    area = reader.encoded(how.areas)
                    if area:
                        yield start, area
        reader.at = end


def _read_common(reader: _Reader) -> _Common:
    version, letters = reader.byte(), reader.text().decode("latin-1")
    reader.unsigned()
    reader.signed()
    if version == 1:
        reader.byte()
    else:
        reader.unsigned()
    addresses, areas = 0, _OMITTED
    if letters.startswith("z"):
        reader.unsigned()
        for meaning in letters[1:]:
            if meaning == "R":
                addresses = reader.byte()
            elif meaning == "L":
                areas = reader.byte()
            elif meaning == "P":
                reader.encoded(reader.byte())
    return _Common(addresses, areas, letters.startswith("z"))


def _pads(reader: _Reader, start: int) -> Iterator[tuple[int, Range]]:
    encoding = reader.byte()
    base = start if encoding == _OMITTED else reader.encoded(encoding)
    if reader.byte() != _OMITTED:
        reader.unsigned()
    encoding = reader.byte()
    length = reader.unsigned()
    end = reader.at + length
    # Compilers choose unsigned numbers, which need no look at the encoding; there are many.
    read = reader.unsigned if encoding == _UNSIGNED else partial(reader.encoded, encoding)
    while reader.at < end:
        first, size, pad = read(), read(), read()
        reader.unsigned()
        if pad:
            yield base + pad, Range(start + first, start + first + size)
