"""DWARF debugging information, by pyelftools, within limits.

pyelftools believes what a file says of its sizes. What is damaged on purpose must take no more time
and memory than the file's size allows: here sections that inflate without end, or that have no
content, and tables that every unit reads again are refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from elftools.elf.elffile import ELFFile

MOST_INFLATED = 128 << 20
"""Bytes that compressed sections may have together, inflated."""

_OLD_COMPRESSED, _OLD_HEAD = ".zdebug", 12  # sections of GNU's first form, and bytes before data
_READ = (".debug_", ".gnu_debug", ".eh_frame", ".comment", _OLD_COMPRESSED)
_PIECE = 1 << 20


def check_sections(elf: ELFFile) -> None:
    """Check the sections that are read for debugging information.

    Raises
    ------
    ValueError
        If one has no content, or they inflate to too much.
    """
    left = MOST_INFLATED
    for section in elf.iter_sections():
        if not section.name.startswith(_READ):
            continue
        if section["sh_type"] == "SHT_NOBITS":
            raise ValueError(f"{section.name} has no content")
        if section.name.startswith(_OLD_COMPRESSED):
            left -= _inflated_size(section.data()[_OLD_HEAD:], left)
        elif section.compressed:
            left -= section.data_size
        if left < 0:
            raise ValueError(f"{section.name} inflates to too much")


def _inflated_size(data: bytes, limit: int) -> int:
    """Return how many bytes compressed data has, or some number beyond `limit`."""
    unpacker = zlib.decompressobj()
    size = 0
    while data and size <= limit and not unpacker.eof:
        size += len(unpacker.decompress(data, _PIECE))
        data = unpacker.unconsumed_tail
    return size


def read_debug_info(elf: ELFFile) -> Any:
    """Return pyelftools' `DWARFInfo`, None where there is none; raises as `check_sections`."""
    if not elf.has_dwarf_info(strict=True):
        return None
    check_sections(elf)
    return elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)


def section_data(dwarf: Any, name: str) -> bytes:
    """Return the content of a section, inflated; b"" where there is none."""
    section = getattr(dwarf, name.replace(".", "") + "_sec")
    return b"" if section is None else section.stream.getvalue()


def top_attributes(dwarf: Any) -> Iterator[dict[str, Any]]:
    """Yield the attributes of each compilation unit's own entry.

    Raises
    ------
    Exception
        A dozen kinds, if it is damaged.
    """
    tables: set[int] = set()
    # A declaration takes some bytes of .debug_abbrev, an attribute some of .debug_info: what comes
    # to more is read again and again.
    declarations = len(section_data(dwarf, ".debug_abbrev"))
    attributes = declarations + len(section_data(dwarf, ".debug_info"))
    for unit in dwarf.iter_CUs():
        table, place = unit.get_abbrev_table(), unit["debug_abbrev_offset"]
        if place not in tables:
            tables.add(place)
            declarations -= len(table._abbrev_map)  # nothing public tells how many there are
        top = unit.get_top_DIE()
        if not top.is_null():
            attributes -= len(table.get_abbrev(top.abbrev_code).decl["attr_spec"])
        if declarations < 0 or attributes < 0:
            raise ValueError("tables of debugging information overlap")
        yield top.attributes
