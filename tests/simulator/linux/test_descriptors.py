"""Numbers of open files: how many there are, which come next, and what a number remembers."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from simprof.simulator.linux import descriptors
from simprof.simulator.linux.files import Host


@pytest.fixture
def table(tmp_path: Path) -> descriptors.DescriptorTable:
    return descriptors.DescriptorTable(Host(tmp_path, program=tmp_path / "program"))


def test_there_are_1024_descriptors(table: descriptors.DescriptorTable) -> None:
    assert descriptors.MAX_DESCRIPTORS == 1024
    file = descriptors.OpenFile(0)
    assert table.install(file, at=1023) == 1023
    with pytest.raises(OSError) as beyond:
        table.install(file, at=1024)
    assert beyond.value.errno == errno.EBADF
    assert [table.install(file) for _ in range(3, 1023)] == list(range(3, 1023))
    with pytest.raises(OSError) as full:
        table.install(file)
    assert full.value.errno == errno.EMFILE
    assert table.numbers() == list(range(1024))


def test_a_number_used_again_is_not_closed_on_exec(table: descriptors.DescriptorTable) -> None:
    number = table.install(descriptors.OpenFile(0), on_exec=True)
    assert number in table.closed_on_exec
    table.close(number)
    assert table.install(descriptors.OpenFile(0)) == number
    assert number not in table.closed_on_exec


def test_a_file_is_closed_with_its_last_descriptor(table: descriptors.DescriptorTable) -> None:
    pipe = descriptors.Pipe(bytearray(b"abc"))
    reader, writer = descriptors.PipeEnd(pipe, 0), descriptors.PipeEnd(pipe, 1)
    numbers = [table.install(reader), table.install(reader)]
    table.install(writer)
    table.close(numbers[0])
    ends = (pipe.has_reader, pipe.has_writer)
    assert ends == (True, True)
    table.close(numbers[1])
    ends = (pipe.has_reader, pipe.has_writer)
    assert ends == (False, True)
    with pytest.raises(OSError) as broken:
        writer.write(b"x")
    assert broken.value.errno == errno.EPIPE
