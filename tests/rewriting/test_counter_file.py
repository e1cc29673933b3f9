"""Counter files byte by byte, what is wrong with bad ones, and several as one."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.code.hash_routine import TableLayout
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.rewriting.elsewhere import counter_file as cf
from simprof.profiler.rewriting.elsewhere.counter_file import (
    FileRegion,
    RegionKind,
    merged,
    table_counts,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError

ARRAY = FileRegion(RegionKind.ARRAY, 0x1000, 8)
PAIRS = FileRegion(RegionKind.PAIRS, 0x2000, 24)
TABLE = FileRegion(RegionKind.TABLE, 0x4000, 4096)
WIDE = FileRegion(RegionKind.TABLE, 0x8000, 4096, 2)
HEADER = (
    b"simprof-counters/2\n"
    b'{"mode":"pp","options":{"path_limit":9},'
    b'"program":{"file":"a.elf","machine":"sparcv9","sha256":"5a"},'
    b'"regions":[{"address":4096,"kind":"array","size":8},'
    b'{"address":8192,"kind":"pairs","size":24},'
    b'{"address":16384,"kind":"table","size":4096},'
    b'{"address":32768,"kind":"table","size":4096,"words":2}]}\n'
)


def header(**changed: Any) -> bytes:
    program = {"file": "a.elf", "sha256": "5a", "machine": MachineKind.SPARCV9}
    program |= {name: changed.pop(name) for name in program if name in changed}
    fields: dict[str, Any] = {
        "mode": "pp",
        "options": {"path_limit": 9},
        "regions": (ARRAY, PAIRS, TABLE, WIDE),
    }
    known = cf.InstrumentedProgram(**program)  # type: ignore[arg-type]
    return cf.CounterRecipe(program=known, **fields | changed).header()


def table(region: FileRegion, counts: Mapping[tuple[int, ...], int]) -> bytes:
    """A table as the run-time routine leaves it, but for its chains."""
    layout = TableLayout(region.words)
    content = bytearray(layout.initial(region.address))
    for key, count in counts.items():
        content += struct.pack(f">{len(key) + 2}I", *key, count, 0x1234)
    content[layout.free : layout.free + 4] = struct.pack(">I", region.address + len(content))
    return bytes(content)


def content(
    words: tuple[int, int] = (1, 2),
    pairs: tuple[int, ...] = (7, 0, 1024, 5, 0, 0),
    counts: Mapping[tuple[int, ...], int] = {(3,): 4},
    wide: Mapping[tuple[int, ...], int] = {(3, 9): 4, (3, 8): 1},
    frames: tuple[int, ...] = (0x10, 0x1_0000_0020),
    head: bytes = HEADER,
) -> bytes:
    return b"".join(
        [
            head,
            struct.pack(">2I", *words),
            struct.pack(">6I", *pairs),
            table(TABLE, counts),
            table(WIDE, wide),
            struct.pack(f">II{len(frames)}Q", len(frames), 0x103, *frames),
            b"simprof\n",
        ]
    )


def test_the_header_is_these_bytes() -> None:
    assert header() == HEADER
    assert b'"copies":[[1,2]]' in header(copies=((1, 2),))


def test_a_file_is_read() -> None:
    file = cf.parse(content(), "out")
    assert file.name == "out"
    assert file.recipe.mode == "pp"
    assert file.recipe.regions == (ARRAY, PAIRS, TABLE, WIDE)
    assert file.frames == ((0x10, 0x1_0000_0020),)
    assert file.read(0x1004, 4) == b"\0\0\0\2"
    assert file.read(0x2008, 8) == struct.pack(">2I", 1024, 5)
    assert [*table_counts(file.memory[0x4000], 1)] == [((3,), 4)]
    assert [*table_counts(file.memory[0x8000], 2)] == [((3, 9), 4), ((3, 8), 1)]


def test_narrow_programs_have_narrow_frames() -> None:
    head = header(machine=MachineKind.SPARCV8, regions=(ARRAY,))
    body = struct.pack(">2I", 1, 2) + struct.pack(">4I", 2, 0x20B, 0x10, 0x20) + b"simprof\n"
    assert cf.parse(head + body).frames == ((0x10, 0x20),)
    assert cf.parse(head + body).ends == (cf.KILLED + 11,)


def test_a_file_without_regions_and_frames() -> None:
    file = cf.parse(header(regions=()) + bytes(8) + b"simprof\n")
    assert (file.memory, file.frames, file.ends) == ({}, ((),), (0,))


def test_a_file_that_is_cut_anywhere_is_refused() -> None:
    whole = content()
    assert cf.parse(whole).ends == (cf.EXITED + 3,)
    for size in range(len(whole)):
        with pytest.raises(UsageError, match=r"cut in its header|is cut at byte|damaged"):
            cf.parse(whole[:size])
    with pytest.raises(UsageError, match="damaged"):
        cf.parse(whole + b"x")


def test_memory_that_is_not_in_the_file() -> None:
    with pytest.raises(UsageError, match=r"^out does not have the 8 bytes at 0x1004$"):
        cf.parse(content(), "out").read(0x1004, 8)


@pytest.mark.long
def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    whole, path = content(), tmp_path / "out"
    for size in [*range(1, len(HEADER)), *range(len(HEADER), len(whole), 7), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match=r"^[^\n]*/out is cut (at byte|in its header)[^\n]*$"):
            cf.load(path)
    path.write_bytes(whole)
    assert cf.load(path) == cf.parse(whole, str(path))


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "out is cut in its header: run the program again"),
    "text": (b"hello\n", "out is not a counter file: give one that an instrumented program"),
    "binary": (bytes(range(256)), "out is not a counter file"),
    "version": (
        HEADER.replace(b"/2", b"/1", 1),
        "out is a counter file of version 1, this simprof reads version 2: instrument the",
    ),
    "json": (content(head=HEADER.replace(b'"mode"', b'"mode')), "out is damaged in its header"),
    "list": (b"simprof-counters/2\n[1]\n", "out is damaged in its header"),
    "no mode": (content(head=HEADER.replace(b'"mode"', b'"made"')), "out is damaged in its header"),
    "machine": (content(head=HEADER.replace(b"sparcv9", b"vax")), "out is damaged in its header"),
    "kind": (content(head=HEADER.replace(b"pairs", b"peers")), "out is damaged in its header"),
    "size": (content(head=HEADER.replace(b":24", b":-8")), "out is damaged in its header"),
    "odd": (content(head=HEADER.replace(b":24", b":22")), "out is damaged in its header"),
    "words": (
        content(head=HEADER.replace(b'"words":2', b'"words":9')),
        "out is damaged in its header",
    ),
    "longer": (content() + b"x", "out is damaged: it does not end where its sizes say"),
    "end": (content()[:-8] + b"simproof", "out is damaged: it does not end"),
    "sizes": (
        content(head=HEADER.replace(b'"size":24', b'"size":16')),
        f"out is damaged at byte {len(HEADER) + 8 + 16 + 28}",
    ),
    "full": (
        content(counts={(n,): 1 for n in range(200)}),
        "out: more paths were executed than the hash table at 0x4000 has room for, and counts are",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_file_is_said_in_one_line(name: str) -> None:
    data, message = BAD[name]
    with pytest.raises(UsageError) as caught:
        cf.parse(data, "out")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"out cannot be read: No such file or directory$"):
        cf.load(tmp_path / "out")


# Several files


def test_what_was_counted_adds_up() -> None:
    """Modulo 2^32; owners of pairs, and the number logged last, are the first file's."""
    first = cf.parse(content(), "one")
    second = cf.parse(
        content(
            words=(10, 2**32 - 1),
            pairs=(9, 0, 1024, 6, 2048, 3),
            counts={(8,): 1, (3,): 2**32 - 3},
            wide={(3, 8): 5},
            frames=(0x30,),
        ),
        "two",
    )
    both = merged([first, second])
    assert (both.name, both.recipe) == ("one", first.recipe)
    assert both.frames == ((0x10, 0x1_0000_0020), (0x30,))
    assert both.memory[0x1000] == struct.pack(">2I", 11, 1)
    assert both.memory[0x2000] == struct.pack(">6I", 7, 0, 1024, 11, 0, 3)
    assert [*table_counts(both.memory[0x4000], 1)] == [((3,), 1), ((8,), 1)]
    assert [*table_counts(both.memory[0x8000], 2)] == [((3, 9), 4), ((3, 8), 6)]
    end = both.read(0x4000 + 28, 4)
    assert int.from_bytes(end, "big") == 0x4000 + len(both.memory[0x4000])
    assert merged([first]) == first


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "program": ({"sha256": "6b", "file": "b.elf"}, "the program is b.elf, not a.elf"),
    "rebuilt": ({"sha256": "6b"}, "the program is a.elf, not a.elf as it was then"),
    "mode": ({"mode": "tpp"}, "the mode is tpp, not pp"),
    "options": ({"options": {"path_limit": 8}}, "the option path_limit is 8, not 9"),
    "more options": (
        {"options": {"cold": 1, "path_limit": 9}},
        "the option cold is 1, not None",
    ),
    "regions": (
        {"regions": (ARRAY, PAIRS, TABLE, replace(WIDE, size=8192))},
        "the regions differ",
    ),
    "more": ({"copies": ((1, 2),)}, "the copies differ"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_different_programs_are_not_added(name: str) -> None:
    changed, difference = OTHERS[name]
    files = [cf.parse(content(), "one"), cf.parse(content(head=header(**changed)), "two")]
    with pytest.raises(ProfileMismatchError) as caught:
        merged(files)
    start = "two is not of the same instrumented program as one: "
    assert str(caught.value) == start + difference


def test_traces_are_not_added() -> None:
    files = [cf.parse(content(head=header(trace=True)), name) for name in ("a", "b")]
    with pytest.raises(ProfileMismatchError, match=r"^a and b: traces cannot be merged: read one"):
        merged(files)
