"""DWARF debugging information, by pyelftools, within limits: its file, sections, units, compilers.

A unit is a compilation unit. Source lines are in `dwarf_lines`, inlined routines in `inlining`.
"""

# pyelftools believes what a file says of its sizes. What is damaged on purpose must take no more
# time and memory than the file's size allows: here sections that inflate without end, or that have
# no content, and tables that every unit reads again are refused. Debugging information that is
# damaged ends the reading; what was read before stays. It is imported where it reads: that takes
# 25 ms, and most runs are of programs without debugging information.

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any

from simprof.simulator.binary.elf_records import ElfImage, read_image

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
        # Separate debug files keep the head of what they leave to the program.
        if section["sh_type"] == "SHT_NOBITS" and section.name.startswith(".eh_frame"):
            left -= section["sh_size"]
        elif section["sh_type"] == "SHT_NOBITS":
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
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
    _add_other_form(elf, dwarf)
    return dwarf


def _add_other_form(elf: ELFFile, dwarf: Any) -> None:
    """Add the sections that pyelftools leaves out where some are `.zdebug_` and some `.debug_`."""
    # It looks for all of them in the form of .debug_info; GNU's tools leave those as they are that
    # would not get smaller, .debug_line_str of a small program among them.
    from elftools.dwarf.dwarfinfo import DebugSectionDescriptor

    for section in elf.iter_sections():
        name = section.name.replace(_OLD_COMPRESSED, ".debug", 1)
        field = _field(name)
        if name.startswith(".debug_") and getattr(dwarf, field, section) is None:
            data = section.data()
            if section.name.startswith(_OLD_COMPRESSED):
                data = zlib.decompress(data[_OLD_HEAD:])
            place = section["sh_offset"], len(data), section["sh_addr"]
            setattr(dwarf, field, DebugSectionDescriptor(io.BytesIO(data), name, *place))


def _field(name: str) -> str:
    """Return what pyelftools calls a section in its `DWARFInfo`."""
    return name.replace(".", "") + "_sec"


def section_data(dwarf: Any, name: str) -> bytes:
    """Return the content of a section, inflated; b"" where there is none."""
    section = getattr(dwarf, _field(name))
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


# A program names its separate debug file in `.gnu_debuglink`, with a checksum; its build-id names
# one, too. Both are what `objcopy --only-keep-debug`, `strip` and distributions make, and what GDB
# follows.
#
# Directories that `--debug-dir` names, separated as those of PATH; in the environment, because
# processes that measure have to find what this one does. Those of the system are not searched: what
# a program costs depends on which routines are known, and must not on the host.
DEBUG_DIR_VARIABLE = "SIMPROF_DEBUG_DIR"
LARGEST = 1 << 30  # Bytes of a debug file; a larger one is not read

_BUILD_ID, _NOTE_HEAD = b".note.gnu.build-id", 16  # bytes before a note's data: sizes, kind, "GNU"
_LINK, _CHECKSUM_SIZE = b".gnu_debuglink", 4


@contextmanager
def searching(directories: Sequence[Path]) -> Iterator[None]:
    """Search these directories, too, while the context lasts; none: those that are known remain."""
    before = os.environ.get(DEBUG_DIR_VARIABLE)
    if directories:
        os.environ[DEBUG_DIR_VARIABLE] = os.pathsep.join(map(str, directories))
    try:
        yield
    finally:
        if directories and before is None:
            del os.environ[DEBUG_DIR_VARIABLE]
        elif directories:
            os.environ[DEBUG_DIR_VARIABLE] = before or ""


def find_debug_file(path: Path, image: ElfImage) -> Path | None:
    """Return the debug file of a program that `image` was read from; None where there is none."""
    build_id, link = build_id_of(image), _content(image, _LINK)
    for place in _places(path, build_id, link):
        if place.is_file() and not place.samefile(path) and _belongs(place, build_id, link):
            return place
    return None


def build_id_of(image: ElfImage) -> str:
    """Return the identity that linkers give what they make, in hexadecimal; "" without one."""
    return _content(image, _BUILD_ID)[_NOTE_HEAD:].hex()


def _content(image: ElfImage, name: bytes) -> bytes:
    named = (each for each in image.sections if image.section_name(each) == name)
    return next((image.content(each) for each in named if each.in_file), b"")


def _places(path: Path, build_id: str, link: bytes) -> Iterator[Path]:
    directories = [
        Path(each) for each in os.environ.get(DEBUG_DIR_VARIABLE, "").split(os.pathsep) if each
    ]
    # A file of a damaged or hostile program names no place outside these directories.
    name = PurePath(link.split(b"\0")[0].decode(errors="replace")).name
    for directory in directories:
        if build_id:
            yield directory / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        if name:
            yield directory / path.resolve().parent.relative_to("/") / name
            yield directory / name
    if name:
        yield path.parent / name
        yield path.parent / ".debug" / name


def _belongs(place: Path, build_id: str, link: bytes) -> bool:
    """Whether a debug file is of the program: it has its build-id, or the checksum in its link."""
    try:
        if place.stat().st_size > LARGEST:
            return False
        data = place.read_bytes()
    except OSError:
        return False
    if link and zlib.crc32(data).to_bytes(_CHECKSUM_SIZE) == link[-_CHECKSUM_SIZE:]:
        return True
    try:
        return bool(build_id) and build_id_of(read_image(data)) == build_id
    except Exception:  # damaged headers raise many kinds
        return False
