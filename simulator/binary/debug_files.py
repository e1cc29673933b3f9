"""Separate debug files: where the symbols and the lines are of a program that was stripped of them.

A program names its debug file in `.gnu_debuglink`, with a checksum; its build-id names one, too.
Both are what `objcopy --only-keep-debug`, `strip` and distributions make, and what GDB follows.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath

from simprof.simulator.binary.elf_records import ElfImage, read_image

# Directories that `--debug-dir` names, separated as those of PATH. Those of the system are not
# searched: what a program costs depends on which routines are known, and must not on the host.
VARIABLE = "SIMPROF_DEBUG_DIR"
LARGEST = 1 << 30  # Bytes of a debug file; a larger one is not read

_BUILD_ID, _NOTE_HEAD = b".note.gnu.build-id", 16  # bytes before a note's data: sizes, kind, "GNU"
_LINK, _CHECKSUM_SIZE = b".gnu_debuglink", 4


def find(path: Path, image: ElfImage) -> Path | None:
    """Return the debug file of a program that `image` was read from; None where there is none."""
    build_id, link = build_id_of(image), _section(image, _LINK)
    for place in _places(path, build_id, link):
        if place.is_file() and not place.samefile(path) and _belongs(place, build_id, link):
            return place
    return None


def build_id_of(image: ElfImage) -> str:
    """Return the identity that linkers give what they make, in hexadecimal; "" without one."""
    return _section(image, _BUILD_ID)[_NOTE_HEAD:].hex()


def _section(image: ElfImage, name: bytes) -> bytes:
    named = (each for each in image.sections if image.section_name(each) == name)
    return next((image.content(each) for each in named if each.in_file), b"")


def _places(path: Path, build_id: str, link: bytes) -> Iterator[Path]:
    directories = [Path(each) for each in os.environ.get(VARIABLE, "").split(os.pathsep) if each]
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
