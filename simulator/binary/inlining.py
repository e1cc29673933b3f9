"""Inlined functions, from DWARF, within limits.

An inlined copy is a DW_TAG_inlined_subroutine (DWARF 5, 3.3.8.2): the code of a routine within
another, without a call. A unit is a compilation unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from msgspec import Struct

from simprof.simulator.binary.debug_info import opened, read_debug_info, top_attributes
from simprof.simulator.binary.dwarf_lines import LinePrograms
from simprof.simulator.binary.program import Program, Range

# Entries of .debug_info that are looked at for inlined copies: some seconds of pyelftools.
MOST_ENTRIES = 200_000

_NAMED = ("DW_AT_abstract_origin", "DW_AT_specification")
_LONGEST_CHAIN = 4  # a copy's origin, and the declaration that the origin specifies
_LEVEL = re.compile(r"(?:^|\s)-O(\S*)")


class InlinedCopy(Struct, frozen=True):
    """The code of a routine within another one."""

    name: str  # Of the routine that was inlined, as its author wrote it
    symbol: str  # Its name as the linker would know it
    ranges: tuple[Range, ...]  # Its code, by address
    entry: int  # Address of its first instruction
    file: str  # Source file of the declaration, as the line table names it; "" where it is unknown.
    line: int  # Line of the declaration; 0 where it is unknown.
    call_line: int  # Line of the call that it stands for; 0 where it is unknown.


class Inlining(Struct, frozen=True):
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
            for found in _read((part.debug_file or part.path).read_bytes(), part.load_bias):
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
    programs = LinePrograms(dwarf)
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
                    yield _copy(entry, ranges, bias, programs)


def _is_optimised(top: Any) -> bool:
    # GCC names the options that it was called with; a unit whose producer does not is taken for
    # optimised. The last -O counts, as for the compiler; -O0 and none are no optimisation.
    attribute = top.attributes.get("DW_AT_producer")
    producer = "" if attribute is None else attribute.value.decode(errors="replace")
    if not producer.startswith("GNU "):
        return True
    levels = _LEVEL.findall(producer)
    return bool(levels) and levels[-1] != "0"


def _copy(entry: Any, ranges: tuple[Range, ...], bias: int, programs: LinePrograms) -> InlinedCopy:
    known, origin, file = dict(entry.attributes), entry, ""
    for _ in range(_LONGEST_CHAIN):
        link = next((name for name in _NAMED if name in origin.attributes), None)
        if link is None:
            break
        origin = origin.get_DIE_from_attribute(link)
        if "DW_AT_decl_file" not in known:
            file = _declaring_file(origin, programs)
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
        file=file,
        line=0 if line is None else int(line.value),
        call_line=0 if call is None else int(call.value),
    )


def _declaring_file(entry: Any, programs: LinePrograms) -> str:
    # Numbers of files are those of the unit that the entry is in, which may be another one (LTO).
    number, unit = entry.attributes.get("DW_AT_decl_file"), entry.cu.get_top_DIE().attributes
    if number is None or "DW_AT_stmt_list" not in unit:
        return ""
    return programs.of(unit)[1].get(number.value, "")


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
