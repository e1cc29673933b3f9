"""Data that is moved in pieces, as far as the program's buffers can be used."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.cpu.address_space import GuestFault, Protection
from simprof.simulator.linux import file_data
from simprof.simulator.linux.descriptors import HostFile, OpenFile
from simprof.simulator.linux.file_data import PIECE, read_into, write_from
from simprof.simulator.linux.files import Host
from simprof.simulator.linux.outside import RecordingHost
from simprof.simulator.machine.machine import Machine
from tests.conftest import EMULATORS
from tests.support.syscalls import DATA, SIZE, PlainGuest

END = DATA + SIZE
GAP = DATA + 0x10000


class Numbers(OpenFile):
    """A file that holds its own offsets, byte by byte, and notes what is asked of it."""

    def __init__(self, size: int = 1 << 40, *, is_stream: bool = False) -> None:
        super().__init__(2)
        self.size, self.offset = size, 0
        self.asked: list[int] = []
        self.written = b""
        self._is_stream = is_stream

    @property
    def is_stream(self) -> bool:
        return self._is_stream

    def read(self, size: int) -> bytes:
        data = self.read_at(size, self.offset)
        self.offset += len(data)
        return data

    def read_at(self, size: int, offset: int) -> bytes:
        self.asked.append(size)
        return bytes(at & 0xFF for at in range(offset, min(offset + size, self.size)))

    def write(self, data: bytes) -> int:
        self.asked.append(len(data))
        taken = data[: self.size]
        self.written += taken
        return len(taken)


class Broken(OpenFile):
    """A file of which everything fails but the first piece, in either direction."""

    def __init__(self, error: int, good: int) -> None:
        super().__init__(2)
        self.error, self.good = error, good

    def read(self, size: int) -> bytes:
        return bytes(self.write(bytes(size)))

    def write(self, data: bytes) -> int:
        if not self.good:
            raise OSError(self.error, "broken")
        self.good -= 1
        return len(data)


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> PlainGuest:
    """A guest of which a page in the middle is unmapped; pieces have 16 bytes."""
    monkeypatch.setattr(file_data, "PIECE", 16)
    guest = PlainGuest(True)
    guest.space.unmap(GAP, PAGE_SIZE)
    return guest


def test_pieces_fill_buffers_of_any_length(guest: PlainGuest) -> None:
    file = Numbers()
    vectors = [(DATA, 3), (DATA + 100, 0), (DATA + 200, 30), (DATA + 300, 7)]
    assert read_into(guest, vectors, file, None) == 40
    assert file.asked == [16, 16, 8]
    found = [guest.read(address, length) for address, length in vectors]
    assert found == [bytes(range(3)), b"", bytes(range(3, 33)), bytes(range(33, 40))]
    assert read_into(guest, [(DATA, 40)], file, 5) == 40
    assert guest.read(DATA, 40) == bytes(range(5, 45))
    assert write_from(guest, [(DATA, 40), (DATA, 40)], file, None) == 80
    assert file.written == 2 * bytes(range(5, 45))
    assert max(file.asked) == 16


def test_a_read_ends_with_the_file(guest: PlainGuest) -> None:
    file = Numbers(20)
    assert read_into(guest, [(DATA, 64)], file, None) == 20
    assert file.asked == [16, 16]
    assert read_into(guest, [(DATA, 0)], file, None) == 0


def test_a_stream_is_read_once(guest: PlainGuest) -> None:
    file = Numbers(is_stream=True)
    assert read_into(guest, [(DATA, 64)], file, None) == 16


def test_buffers_are_used_as_far_as_they_can_be(guest: PlainGuest) -> None:
    file = Numbers()
    assert read_into(guest, [(GAP - 20, 1 << 31)], file, None) == 20
    assert write_from(guest, [(END - 5, 100)], file, None) == 5
    assert read_into(guest, [(DATA, 4), (GAP, 4), (DATA, 4)], file, None) == 4
    assert read_into(guest, [(GAP, 0), (DATA, 4)], file, None) == 4
    asked = len(file.asked)
    for move in (read_into, write_from):
        with pytest.raises(GuestFault):
            move(guest, [(GAP, 4)], file, None)
    assert len(file.asked) == asked


def test_rights_count(guest: PlainGuest) -> None:
    guest.space.protect(DATA, PAGE_SIZE, Protection.READ)
    with pytest.raises(GuestFault):
        read_into(guest, [(DATA, 4)], Numbers(), None)
    assert write_from(guest, [(DATA, 4)], Numbers(), None) == 4


def test_a_short_write_ends_the_call(guest: PlainGuest) -> None:
    file = Numbers(10)
    assert write_from(guest, [(DATA, 64)], file, None) == 10
    assert file.asked == [16]


def test_what_was_moved_before_an_error_counts(guest: PlainGuest) -> None:
    for move in (read_into, write_from):
        assert move(guest, [(DATA, 64)], Broken(errno.EIO, 2), None) == 32
        with pytest.raises(OSError, match="broken"):
            move(guest, [(DATA, 64)], Broken(errno.EIO, 0), None)
    assert guest.raised == []
    assert write_from(guest, [(DATA, 64)], Broken(errno.EPIPE, 1), None) == 16
    assert guest.raised == [13]


def test_no_more_is_moved_than_linux_moves(
    guest: PlainGuest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_data, "MAX_IO", 24)
    assert read_into(guest, [(DATA, 10), (DATA, 20)], Numbers(), None) == 24
    assert file_data.PIECE < PIECE == 1 << 20


def test_standard_input_is_a_stream_unless_it_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"data")
    reader, writer = os.pipe()
    with (tmp_path / "input").open("rb") as file:
        assert not HostFile(Host(tmp_path, stdin=file.fileno()), 0, 0).is_stream
        assert HostFile(Host(tmp_path, stdin=reader), 0, 0).is_stream
    os.close(reader)
    os.close(writer)


SOURCE = Path(__file__).parents[2] / "programs" / "mapped.c"


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_it_is_as_under_qemu(compile_c: Callable[..., Path], width: str, tmp_path: Path) -> None:
    program = compile_c(SOURCE, ("-O1",), width)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    expected = subprocess.run(
        [EMULATORS[width], program], cwd=theirs, capture_output=True, check=True
    )
    output = bytearray()
    host = Host(ours, program=program, writable=ours, stdin=b"", stdout=output, stderr=output)
    recording = RecordingHost(host)
    result = Machine(load(program), host=recording).run()
    assert (result.status, bytes(output).decode()) == (0, expected.stdout.decode())
    assert (ours / "file").read_bytes() == (theirs / "file").read_bytes()
    again = Machine(load(program), host=RecordingHost(None, recording.log)).run()
    assert (again.status, again.last_pc) == (result.status, result.last_pc)
    assert (again.instructions, again.system_calls) == (result.instructions, result.system_calls)
