"""Where exceptions land, as a program's unwinding tables tell.

Terms: a *frame description entry* (FDE) is what `.eh_frame` says of one range of code; a *common
information entry* (CIE) says how it is to be read. The *language-specific data area* (LSDA) is what
`.gcc_except_table` says of a routine's calls: for each the landing pad, if it has one.

`.eh_frame` is described in the Linux Standard Base (Core, 10.6), the LSDA nowhere but in the code
of compilers and run-time libraries (`__gxx_personality_v0`).

Steps -> functions: each FDE's LSDA (`_data_areas`), each of its call sites (`_pads`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from simprof.simulator.binary.program import Range, Segment

_OMITTED = 0xFF
_RELATIVE_TO_PLACE, _RELATION, _FORM = 0x10, 0x70, 0x0F
_UNSIGNED, _SIGNED = 1, 9
_SIZES = {2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}


@dataclass(frozen=True)
class _Common:
    """What a CIE says."""

    addresses: int
    areas: int
    has_lengths: bool


class _Reader:
    def __init__(self, segments: Sequence[Segment], at: int, is64: bool) -> None:
        segment = next((s for s in segments if s.address <= at < s.address + len(s.data)), None)
        if segment is None:
            raise IndexError(at)
        self._data, self._origin = segment.data, segment.address
        self._pointer = 8 if is64 else 4
        self._mask = (1 << 8 * self._pointer) - 1
        self.at = at

    def number(self, size: int, *, signed: bool = False) -> int:
        start = self.at - self._origin
        if start < 0 or start + size > len(self._data):
            raise IndexError(self.at)
        self.at += size
        return int.from_bytes(self._data[start : start + size], "big", signed=signed)

    def leb128(self, *, signed: bool = False) -> int:
        result = shift = 0
        while True:
            byte = self.number(1)
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result - (1 << shift) if signed and byte & 0x40 else result

    def encoded(self, encoding: int) -> int:
        """Read a pointer; 0 where there is none."""
        place, form = self.at, encoding & _FORM
        if encoding == _OMITTED:
            return 0
        if form in (_UNSIGNED, _SIGNED):
            value = self.leb128(signed=form == _SIGNED)
        else:
            value = self.number(_SIZES.get(form, self._pointer), signed=form > 8)
        if value and encoding & _RELATION == _RELATIVE_TO_PLACE:
            value += place
        return value & self._mask


def landing_pads(table: Range | None, segments: Sequence[Segment], is64: bool) -> frozenset[int]:
    """Return the addresses at which exceptions may land; `table`: where `.eh_frame` is."""
    # Of a damaged table, what precedes the damage counts.
    found: set[int] = set()
    if table is None:
        return frozenset()
    with suppress(IndexError, KeyError):
        for start, area in _data_areas(table, segments, is64):
            with suppress(IndexError):
                found.update(_pads(_Reader(segments, area, is64), start))
    return frozenset(found)


def _data_areas(table: Range, segments: Sequence[Segment], is64: bool) -> Iterator[tuple[int, int]]:
    """(where its code starts, where its LSDA is) of every routine that has one."""
    common: dict[int, _Common] = {}
    reader = _Reader(segments, table.start, is64)
    while reader.at + 4 <= table.end:
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
                if how.has_lengths and reader.leb128() and how.areas != _OMITTED:
                    area = reader.encoded(how.areas)
                    if area:
                        yield start, area
        reader.at = end


def _read_common(reader: _Reader) -> _Common:
    version, letters = reader.number(1), ""
    while letter := reader.number(1):
        letters += chr(letter)
    reader.leb128()
    reader.leb128(signed=True)
    if version == 1:
        reader.number(1)
    else:
        reader.leb128()
    addresses, areas = 0, _OMITTED
    if letters.startswith("z"):
        reader.leb128()
        for meaning in letters[1:]:
            if meaning == "R":
                addresses = reader.number(1)
            elif meaning == "L":
                areas = reader.number(1)
            elif meaning == "P":
                reader.encoded(reader.number(1))
    return _Common(addresses, areas, letters.startswith("z"))


def _pads(reader: _Reader, start: int) -> Iterator[int]:
    encoding = reader.number(1)
    base = start if encoding == _OMITTED else reader.encoded(encoding)
    if reader.number(1) != _OMITTED:
        reader.leb128()
    encoding = reader.number(1)
    length = reader.leb128()
    end = reader.at + length
    while reader.at < end:
        reader.encoded(encoding)
        reader.encoded(encoding)
        pad = reader.encoded(encoding)
        reader.leb128()
        if pad:
            yield base + pad
