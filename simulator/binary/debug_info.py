"""DWARF debugging information, by pyelftools, within limits: compilers, and what they inlined.

A unit is a compilation unit. An inlined copy is a DW_TAG_inlined_subroutine (DWARF 5, 3.3.8.2): the
code of a routine within another, without a call. Source lines are in `dwarf_lines`.
"""

# pyelftools believes what a file says of its sizes. What is damaged on purpose must take no more
# time and memory than the file's size allows: here sections that inflate without end, or that have
# no content, and tables that every unit reads again are refused. Debugging information that is
# damaged ends the reading; what was read before stays. It is imported where it reads: that takes
# 25 ms, and most runs are of programs without debugging information.

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from simprof.simulator.binary.program import Program, Range
from simprof.simulator.values import dataclass

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

MOST_INFLATED = 128 << 20  # bytes that compressed sections may have together, inflated

_OLD_COMPRESSED, _OLD_HEAD = ".zdebug", 12  # sections of GNU's first form, and bytes before data
_READ = (".debug_", ".gnu_debug", ".eh_frame", ".comment", _OLD_COMPRESSED)
_PIECE = 1 << 20


def opened(data: bytes | IO[bytes]) -> ELFFile:
    """Return pyelftools' view of a file, or of its content; raises a dozen kinds where damaged."""
    from elftools.elf.elffile import ELFFile

    return ELFFile(io.BytesIO(data) if isinstance(data, bytes) else data)


def check_sections(elf: ELFFile) -> None:
    """Raise ValueError unless sections of debugging information have content, and not too much."""
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
    """Yield the attributes of each unit's own entry; raises a dozen kinds where it is damaged."""
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


MOST_UNITS = 256  # compilation units whose producers are read


def compiler_note(path: Path) -> str:
    """Return what compilers left in a file, each note once, separated by "; ".

    That is its `.comment` section, else the producers (with flags) of its debug information; or "".
    """
    try:
        with path.open("rb") as file:
            elf = opened(file)
            notes = list(_comments(elf)) or list(_producers(elf))
    except Exception:
        return ""  # damaged sections, on which pyelftools raises a dozen kinds, stop nothing
    return "; ".join(dict.fromkeys(notes))


def _comments(elf: ELFFile) -> Iterator[str]:
    check_sections(elf)
    section = elf.get_section_by_name(".comment")
    if section is not None:
        yield from (_note_text(note) for note in section.data().split(b"\0") if note)


def _producers(elf: ELFFile) -> Iterator[str]:
    dwarf = read_debug_info(elf)
    if dwarf is None:
        return
    for attributes in islice(top_attributes(dwarf), MOST_UNITS):
        producer = attributes.get("DW_AT_producer")
        if producer is not None and isinstance(producer.value, bytes):
            yield _note_text(producer.value)


def _note_text(note: bytes) -> str:
    return note.decode("ascii", "backslashreplace").replace(";", ",")


# Entries of .debug_info that are looked at for inlined copies: some seconds of pyelftools.
MOST_ENTRIES = 200_000

_NAMED = ("DW_AT_abstract_origin", "DW_AT_specification")
_LONGEST_CHAIN = 4  # a copy's origin, and the declaration that the origin specifies
_LEVEL = re.compile(r"(?:^|\s)-O(\S*)")


@dataclass(frozen=True)
class InlinedCopy:
    """The code of a routine within another one."""

    name: str  # Of the routine that was inlined, as its author wrote it
    symbol: str  # Its name as the linker would know it
    ranges: tuple[Range, ...]  # Its code, by address
    entry: int  # Address of its first instruction
    line: int  # Line of the declaration; 0 where it is unknown.
    call_line: int  # Line of the call that it stands for; 0 where it is unknown.


@dataclass(frozen=True)
class Inlining:
    """`optimised`: code of units that were optimised; `copies`: all inlined ones, by entry."""

    optimised: tuple[Range, ...] = ()
    copies: tuple[InlinedCopy, ...] = ()


def read_inlining(program: Program) -> Inlining:
    """Read the debugging information of a program's files; what cannot be read is left out."""
    optimised: list[Range] = []
    copies: list[InlinedCopy] = []
    for part in program.parts or (program,):
        # Damaged DWARF raises a dozen kinds in pyelftools; what precedes the damage is kept.
        with suppress(Exception):
            for found in _read(part.path.read_bytes(), part.load_bias):
                if isinstance(found, Range):
                    optimised.append(found)
                else:
                    copies.append(found)
    return Inlining(
        tuple(sorted(optimised, key=lambda each: each.start)),
        tuple(sorted(copies, key=lambda each: each.entry)),
    )


def _read(data: bytes, bias: int) -> Iterator[Range | InlinedCopy]:
    dwarf = read_debug_info(opened(data))
    if dwarf is None:
        return
    for _ in top_attributes(dwarf):  # refuses tables that overlap
        pass
    left = MOST_ENTRIES
    for unit in dwarf.iter_CUs():
        top = unit.get_top_DIE()
        if not _is_optimised(top):
            continue
        yield from _ranges(dwarf, top, bias)
        # Beyond the limit units are still known to be optimised: no line of theirs passes for one
        # whose count is its own.
        for entry in unit.iter_DIEs() if left else ():
            if not left:
                break
            left -= 1
            if entry.tag == "DW_TAG_inlined_subroutine":
                ranges = tuple(_ranges(dwarf, entry, bias))
                if ranges:
                    yield _copy(entry, ranges, bias)


def _is_optimised(top: Any) -> bool:
    # GCC names the options that it was called with; a unit whose producer does not is taken for
    # optimised. The last -O counts, as for the compiler; -O0 and none are no optimisation.
    attribute = top.attributes.get("DW_AT_producer")
    producer = "" if attribute is None else attribute.value.decode(errors="replace")
    if not producer.startswith("GNU "):
        return True
    levels = _LEVEL.findall(producer)
    return bool(levels) and levels[-1] != "0"


def _copy(entry: Any, ranges: tuple[Range, ...], bias: int) -> InlinedCopy:
    known, origin = dict(entry.attributes), entry
    for _ in range(_LONGEST_CHAIN):
        link = next((name for name in _NAMED if name in origin.attributes), None)
        if link is None:
            break
        origin = origin.get_DIE_from_attribute(link)
        known = dict(origin.attributes) | known  # what is nearer counts
    name, line = known.get("DW_AT_name"), known.get("DW_AT_decl_line")
    symbol = known.get("DW_AT_linkage_name", name)
    start, call = (entry.attributes.get(f"DW_AT_{key}") for key in ("entry_pc", "call_line"))
    first = ranges[0].start
    if start is not None:
        # From DWARF 5 on it may be what is to be added to the start of the first range.
        first = start.value + (bias if _is_address(start) else first)
    return InlinedCopy(
        name=_name_text(name),
        symbol=_name_text(symbol),
        ranges=ranges,
        entry=first,
        line=0 if line is None else int(line.value),
        call_line=0 if call is None else int(call.value),
    )


def _is_address(attribute: Any) -> bool:
    from elftools.dwarf.descriptions import describe_form_class

    return bool(describe_form_class(attribute.form) == "address")


def _name_text(attribute: Any) -> str:
    return "?" if attribute is None else str(attribute.value.decode(errors="replace"))


def _ranges(dwarf: Any, entry: Any, bias: int) -> Iterator[Range]:
    """Yield the code of an entry, from its bounds or its list of ranges (DWARF 5, 2.17)."""
    from elftools.dwarf.ranges import BaseAddressEntry

    attributes = entry.attributes
    if "DW_AT_ranges" in attributes:
        low = entry.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
        base = 0 if low is None else low.value
        offset = attributes["DW_AT_ranges"].value
        lists = dwarf.range_lists()
        for each in lists.get_range_list_at_offset(offset, entry.cu):
            if isinstance(each, BaseAddressEntry):
                base = each.base_address
                continue
            start = 0 if getattr(each, "is_absolute", False) else base
            if each.begin_offset < each.end_offset:
                yield Range(start + each.begin_offset + bias, start + each.end_offset + bias)
    elif "DW_AT_low_pc" in attributes and "DW_AT_high_pc" in attributes:
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        end = high.value if _is_address(high) else low + high.value
        if low < end:
            yield Range(low + bias, end + bias)
