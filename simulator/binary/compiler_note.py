"""What an ELF file says about the compilers that made it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from elftools.elf.elffile import ELFFile

from simprof.simulator.binary.debug_info import check_sections, read_debug_info, top_attributes

MOST_UNITS = 256
"""Compilation units whose producers are read."""


def compiler_note(path: Path) -> str:
    """Return what compilers left in a file, each note once, separated by "; ".

    That is its `.comment` section, and where there is none the producers that its debug
    information names (with the flags); "" where there is neither.
    """
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            notes = list(_comments(elf)) or list(_producers(elf))
    except Exception:
        return ""  # damaged sections, on which pyelftools raises a dozen kinds, stop nothing
    return "; ".join(dict.fromkeys(notes))


def _comments(elf: ELFFile) -> Iterator[str]:
    check_sections(elf)
    section = elf.get_section_by_name(".comment")
    if section is not None:
        yield from (_text(note) for note in section.data().split(b"\0") if note)


def _producers(elf: ELFFile) -> Iterator[str]:
    dwarf = read_debug_info(elf)
    if dwarf is None:
        return
    for attributes in islice(top_attributes(dwarf), MOST_UNITS):
        producer = attributes.get("DW_AT_producer")
        if producer is not None and isinstance(producer.value, bytes):
            yield _text(producer.value)


def _text(note: bytes) -> str:
    return note.decode("ascii", "backslashreplace").replace(";", ",")
