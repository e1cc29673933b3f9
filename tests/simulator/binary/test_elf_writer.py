"""Programs with one more segment: they load, run as before, and other tools read them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from simprof.simulator.binary import elf
from simprof.simulator.binary.elf_records import read_image
from simprof.simulator.binary.elf_writer import HEADER_ROOM, extend, find_room, heap_start
from simprof.simulator.binary.program import PAGE_SIZE, Program
from simprof.simulator.errors import RewritingError
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import assemble
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from tests.oracles import qemu
from tests.support.elf import BASE, tiny_elf
from tests.support.turns import turns

FIXTURES = Path(__file__).parents[3] / "fixtures" / "bin"
WIDTHS = ["v9", "v8plus", "v8"]
SIZES = [0x4000, 0x40000, 0x180000]


def extended(path: Path, target: Path, size: int) -> Program:
    """Write `path` with a segment of `size` bytes whose only code jumps to the old entry."""
    program = elf.load(path)
    address = find_room(program, size)
    assert address is not None and address % PAGE_SIZE == 0
    start = address + HEADER_ROOM
    jump = assemble([asm.branch("a", "old", True)], start, {"old": program.entry})
    data = (bytes(HEADER_ROOM) + jump.code).ljust(size, b"\0")
    symbols = {"simprof.start": start}
    target.write_bytes(extend(path.read_bytes(), program, {}, address, data, start, symbols))
    target.chmod(0o755)
    result = elf.load(target)
    assert result.entry == start
    assert any(s.address == address and s.data[HEADER_ROOM:] == data[HEADER_ROOM:]
               for s in result.segments)  # fmt: skip
    assert [s for s in result.segments if s.address != address] == list(program.segments)
    return result


def emulated(path: Path, stdin: bytes = b"") -> tuple[int, bytes, int]:
    """Run a program; return status, output and instructions."""
    output = bytearray()
    host = Host(path.parent, program=path, stdin=stdin, stdout=output, stderr=output)
    result = Machine(elf.load(path), host=host, argv0=b"program").run()
    return result.status, bytes(output), result.instructions


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("size", "name", "width"), turns(SIZES, ["calls", "switches_pic", "words"], WIDTHS)
)
def test_extended_programs_run_as_before(width: str, name: str, size: int, tmp_path: Path) -> None:
    path = FIXTURES / width / f"{name}.elf"
    target = tmp_path / "program"
    stdin = b"some words of input\n"
    extended(path, target, size)
    status, output, instructions = emulated(path, stdin)
    assert emulated(target, stdin) == (status, output, instructions + 1)
    run = qemu.run(target, stdin=stdin)
    assert (run.status, run.output + run.errors) == (status, output)


@pytest.mark.toolchain
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("width", WIDTHS)
def test_other_tools_read_extended_programs(width: str, size: int, tmp_path: Path) -> None:
    path, target = FIXTURES / width / "calls.elf", tmp_path / "program"
    program = extended(path, target, size)
    old = read_image(path.read_bytes())
    new = read_image(target.read_bytes())
    contents = {new.section_name(s): new.content(s) for s in new.sections if s.in_file}
    for section in old.sections:
        name = old.section_name(section)
        if section.in_file and name not in (b".symtab", b".strtab", b".shstrtab"):
            assert contents[name] == old.content(section)
    read = tool("sparc64-linux-gnu-readelf", "-aW", str(target))
    assert ".simprof.text" in read
    code = tool("sparc64-linux-gnu-objdump", "-d", "-j", ".simprof.text", str(target))
    assert f"{program.entry:x} <simprof.start>" in code
    assert "<_start>" in code.splitlines()[7]
    plain = tool("sparc64-linux-gnu-objdump", "-dl", "-j", ".text", str(path))
    again = tool("sparc64-linux-gnu-objdump", "-dl", "-j", ".text", str(target))
    assert instructions_of(plain) == instructions_of(again)
    loads = [line.split()[2] for line in read.splitlines() if line.startswith("  LOAD")]
    assert loads == sorted(loads, key=lambda text: int(text, 16))


def instructions_of(listing: str) -> list[str]:
    """Return a listing without its title, and without the names that it gives to constants."""
    return [line.split("!")[0] for line in listing.splitlines()[4:]]


def tool(*command: str) -> str:
    """Run a tool that must have nothing to complain about."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.toolchain
@pytest.mark.parametrize("width", WIDTHS)
def test_a_stripped_program_stays_stripped(width: str, tmp_path: Path) -> None:
    path, target = tmp_path / "stripped", tmp_path / "program"
    tool("sparc64-linux-gnu-strip", "-o", str(path), str(FIXTURES / width / "calls.elf"))
    assert extended(path, target, 0x4000).symbols == ()
    assert emulated(target)[:2] == emulated(path)[:2]


def test_a_file_without_sections_is_extended_and_what_follows_it_kept(tmp_path: Path) -> None:
    path, target = tmp_path / "tiny", tmp_path / "program"
    path.write_bytes(tiny_elf() + b"carried along")
    assert extended(path, target, PAGE_SIZE).symbols == ()
    assert target.read_bytes().endswith(b"carried along")
    assert emulated(target)[:1] == (3,)
    with pytest.raises(RewritingError, match=r"already instrumented"):
        extended(target, tmp_path / "twice", PAGE_SIZE)


@pytest.mark.parametrize("width", WIDTHS)
def test_words_are_changed(width: str, tmp_path: Path) -> None:
    path = FIXTURES / width / "calls.elf"
    program, data = elf.load(path), path.read_bytes()
    place = program.code[0].start + 8
    room = find_room(program, PAGE_SIZE)
    assert room is not None
    target = tmp_path / "program"
    target.write_bytes(
        extend(data, program, {place: 0x01000000}, room, bytes(PAGE_SIZE), program.entry)
    )
    before, after = (p.segments for p in (program, elf.load(target)))
    old = next(s for s in before if s.address <= place < s.address + len(s.data))
    new = next(s for s in after if s.address == old.address)
    inside = place - old.address
    assert new.data[inside : inside + 4] == b"\1\0\0\0"
    assert new.data[:inside] == old.data[:inside]
    assert new.data[inside + 4 :] == old.data[inside + 4 :]


@pytest.mark.toolchain
@pytest.mark.parametrize("width", WIDTHS)
def test_the_heap_begins_where_it_is_told(width: str, tmp_path: Path) -> None:
    path, target = FIXTURES / width / "calls.elf", tmp_path / "program"
    program, heap = elf.load(path), heap_start(elf.load(path))
    end = max(s.address + s.memory_size for s in program.segments)
    assert heap is not None and heap % PAGE_SIZE == 0 and 0 <= heap - end - (1 << 23) < PAGE_SIZE
    for size in (PAGE_SIZE, 0x600000):
        room = find_room(program, size)
        assert room is not None and room + size < heap
        made = extend(path.read_bytes(), program, {}, room, bytes(size), program.entry, heap=heap)
        target.write_bytes(made)
        target.chmod(0o755)
        segments = elf.load(target).segments
        assert max(s.address + s.memory_size for s in segments) == heap
        assert emulated(target) == emulated(path)
        assert ".simprof.heap" in tool("sparc64-linux-gnu-readelf", "-SW", str(target))


@pytest.mark.parametrize("place", [BASE + 0x202, BASE + 0x20E, BASE + 0x210, BASE - 4, 0])
def test_only_words_of_the_file_can_be_changed(place: int, tmp_path: Path) -> None:
    path = tmp_path / "tiny"
    path.write_bytes(tiny_elf())
    program = elf.load(path)
    with pytest.raises(RewritingError, match=r"has no word at 0x"):
        extend(tiny_elf(), program, {place: 0}, 0x10000, bytes(PAGE_SIZE), program.entry)


@pytest.mark.parametrize(
    ("address", "size"),
    [
        (0x100000, PAGE_SIZE), (0xFE000, 2 * PAGE_SIZE),
        (0x202000, PAGE_SIZE), (0x200000, 2 * PAGE_SIZE),
        (0x10004, PAGE_SIZE), (0x10000, 512),
    ],
)  # fmt: skip
def test_a_segment_needs_room(address: int, size: int) -> None:
    path = FIXTURES / "v9" / "sieve.elf"
    program = elf.load(path)
    with pytest.raises(RewritingError, match=r"has no room for \d+ bytes at 0x"):
        extend(path.read_bytes(), program, {}, address, bytes(size), program.entry)


@pytest.mark.parametrize("width", WIDTHS)
def test_an_instrumented_program_is_refused(width: str, tmp_path: Path) -> None:
    target = tmp_path / "program"
    extended(FIXTURES / width / "calls.elf", target, 0x4000)
    with pytest.raises(RewritingError, match=r"program: is already instrumented") as caught:
        extended(target, tmp_path / "twice", 0x4000)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("width", WIDTHS)
def test_room_is_free_and_within_reach(width: str) -> None:
    program = elf.load(FIXTURES / width / "calls.elf")
    for size in (1, PAGE_SIZE, 0x10000, 0x100000, 0x600000):
        room = find_room(program, size)
        assert room is not None and room >= 0x10000
        for segment in program.segments:
            assert room + size <= segment.address // PAGE_SIZE * PAGE_SIZE or room >= (
                segment.address + segment.memory_size
            )
        spans = (*program.code, *program.late_code)
        assert room + size - min(s.start for s in spans) <= 1 << 23
        assert max(s.end for s in spans) - room <= 1 << 23
    assert find_room(program, 1 << 23) is None
