"""What an ELF file says about the compilers that made it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

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
    except (OSError, ELFError, DWARFError, ValueError, KeyError, AttributeError):
        return ""  # damaged sections do not keep a program from running
    return "; ".join(dict.fromkeys(notes))


def _comments(elf: ELFFile) -> Iterator[str]:
    section = elf.get_section_by_name(".comment")
    if section is not None:
        yield from (_text(note) for note in section.data().split(b"\0") if note)


def _producers(elf: ELFFile) -> Iterator[str]:
    if not elf.has_dwarf_info():
        return
    for unit in islice(elf.get_dwarf_info().iter_CUs(), MOST_UNITS):
        producer = unit.get_top_DIE().attributes.get("DW_AT_producer")
        if producer is not None and isinstance(producer.value, bytes):
            yield _text(producer.value)


def _text(note: bytes) -> str:
    return note.decode("ascii", "backslashreplace").replace(";", ",")
