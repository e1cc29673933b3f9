"""The host's files as programs see them, and the record of a run that can be replayed."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simprof.simulator.linux.files import Host, HostCalls
from simprof.simulator.linux.guest import RunInterrupted
from simprof.simulator.linux.outside import (
    CallLog,
    FileAccess,
    FileStatus,
    RecordingHost,
    ReplayMismatchError,
)

READ = FileAccess.READ


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path, writable=tmp_path, stdin=b"first\nsecond\n", stdout=bytearray())
    yield made
    made.dispose()


def opened(host: HostCalls, path: bytes, access: FileAccess = READ) -> int:
    handle = host.open(None, path, access, 0o644)
    assert isinstance(handle, int)
    return handle


def test_reading_and_writing(host: Host, tmp_path: Path) -> None:
    handle = opened(host, b"a", FileAccess.READ | FileAccess.WRITE | FileAccess.CREATE)
    assert host.write(handle, b"hello world") == 11
    assert host.seek(handle, 6, 0) == 6
    assert host.read(handle, 100) == b"world"
    assert host.read_at(handle, 5, 0) == b"hello"
    assert host.write_at(handle, b"J", 0) == 1
    host.resize(handle, 5)
    assert (tmp_path / "a").read_bytes() == b"Jello"
    host.close(handle)
    with pytest.raises(OSError) as caught:
        host.read(handle, 1)
    assert caught.value.errno == errno.EBADF


def test_what_stat_shows_does_not_depend_on_the_machine(host: Host, tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(bytes(5000))
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "dir").mkdir()
    names = ("b", "a", "dir", "b")
    found = [host.status_of(None, os.fsencode(name), True) for name in names]
    assert all(isinstance(status, FileStatus) for status in found)
    statuses = [status for status in found if isinstance(status, FileStatus)]
    assert [status.inode for status in statuses] == [1, 2, 3, 1]
    assert [status.size for status in statuses] == [5000, 0, 4096, 5000]
    assert [status.blocks for status in statuses] == [16, 0, 8, 16]
    assert statuses[2].links == 1
    assert statuses[0].modified == (tmp_path / "b").stat().st_mtime_ns


def test_listings_are_sorted(host: Host, tmp_path: Path) -> None:
    for name in ("z", "a", "M"):
        (tmp_path / name).touch()
    handle = opened(host, b".", READ | FileAccess.DIRECTORY)
    names = [entry.name for entry in host.list_directory(handle)]
    assert names == [b".", b"..", b"M", b"a", b"z"]


def test_input_from_bytes_is_a_regular_file(host: Host) -> None:
    assert stat.S_ISREG(host.status(0).mode)
    assert host.read(0, 6) == b"first\n"
    assert host.seek(0, -6, 1) == 0
    assert host.read_at(0, 6, 6) == b"second"
    assert host.read(0, 100) == b"first\nsecond\n"
    assert host.read(0, 100) == b""


def test_output_always_looks_like_a_pipe(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as regular, Path("/dev/null").open("wb") as null:
        host = Host(tmp_path, stdin=b"", stdout=regular.fileno(), stderr=null.fileno())
        assert [stat.S_ISFIFO(host.status(number).mode) for number in (1, 2)] == [True, True]
        with pytest.raises(OSError):
            host.seek(1, 0, 1)
        assert host.write(1, b"x" * 10000) == 10000
        host.dispose()
    assert (tmp_path / "out").stat().st_size == 10000


def test_input_looks_like_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"data")
    with (tmp_path / "in").open("rb") as regular:
        host = Host(tmp_path, stdin=regular.fileno())
        assert stat.S_ISREG(host.status(0).mode)
        assert host.status(0).size == 4
        host.dispose()
    with Path("/dev/null").open("rb") as null:
        host = Host(tmp_path, stdin=null.fileno())
        assert stat.S_ISCHR(host.status(0).mode)
        assert host.read(0, 10) == b""
        host.dispose()


def test_a_full_pipe_never_makes_a_write_short(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    received = bytearray()

    def drain() -> None:
        while chunk := os.read(reader, 65536):
            received.extend(chunk)

    thread = threading.Thread(target=drain)
    thread.start()
    host = Host(tmp_path, stdin=b"", stdout=writer)
    data = os.urandom(300_000)
    assert host.write(1, data) == len(data)
    os.close(writer)
    thread.join()
    os.close(reader)
    assert bytes(received) == data


def test_waiting_can_be_interrupted(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    host = Host(tmp_path, stdin=reader, stdout=writer)
    host.interrupted = lambda: True
    with pytest.raises(RunInterrupted):
        host.read(0, 1)
    with pytest.raises(RunInterrupted):
        host.write(1, bytes(1 << 20))
    os.close(reader)
    os.close(writer)


def test_an_interrupted_call_is_interrupted_again(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    recording = RecordingHost(Host(tmp_path, stdin=reader))
    recording.interrupted = lambda: True
    for host in (recording, RecordingHost(None, recording.log)):
        with pytest.raises(RunInterrupted):
            host.read(0, 1)
    os.close(reader)
    os.close(writer)


def converse(host: HostCalls) -> list[object]:
    """Make one call of most kinds; collect what comes back."""
    answers: list[object] = [host.read(0, 5), host.write(1, b"out\n"), host.path_of(None)]
    handle = opened(host, b"made", FileAccess.WRITE | FileAccess.CREATE)
    answers += [handle, host.write(handle, b"abc"), host.status(handle)]
    host.close(handle)
    try:
        host.open(None, b"missing", READ, 0)
    except OSError as error:
        answers.append(error.errno)
    answers.append(host.status_of(None, b"made", True))
    directory = opened(host, b".", READ | FileAccess.DIRECTORY)
    answers.append(host.list_directory(directory))
    host.remove(None, b"made", False)
    return answers


def test_a_replay_answers_the_same_and_touches_nothing(tmp_path: Path) -> None:
    output = bytearray()
    host = Host(tmp_path, writable=tmp_path, stdin=b"input", stdout=output)
    recording = RecordingHost(host)
    first = converse(recording)
    host.dispose()
    assert bytes(output) == b"out\n"
    second = converse(RecordingHost(None, recording.log))
    assert second == first
    assert bytes(output) == b"out\n"
    assert list(tmp_path.iterdir()) == []


def test_a_replay_that_asks_for_something_else_is_refused(tmp_path: Path) -> None:
    recording = RecordingHost(Host(tmp_path, stdin=b"input", stdout=bytearray()))
    recording.read(0, 5)
    recording.write(1, b"a")
    different_calls: list[Callable[[RecordingHost], object]] = [
        lambda host: host.read(0, 6),
        lambda host: host.write(1, b"a"),
    ]
    for different in different_calls:
        with pytest.raises(ReplayMismatchError, match="report this as a bug"):
            different(RecordingHost(None, recording.log))
    replay = RecordingHost(None, recording.log)
    assert replay.read(0, 5) == b"input"
    with pytest.raises(ReplayMismatchError):
        replay.write(1, b"b")
    first = CallLog()
    first.append(recording.log.read(0)[0])
    replay = RecordingHost(None, first)
    replay.read(0, 5)
    with pytest.raises(ReplayMismatchError, match="after the first run's last call"):
        replay.write(1, b"a")
