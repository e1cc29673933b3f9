"""The log of answers: what comes back, how much of it is in memory, and where it ends."""

from __future__ import annotations

import errno
import os
import tempfile
import tracemalloc
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from simprof.simulator.errors import UnsupportedError
from simprof.simulator.linux import outside
from simprof.simulator.linux.files import Host
from simprof.simulator.linux.guest import RunInterrupted
from simprof.simulator.linux.outside import (
    IN_MEMORY,
    CallLog,
    DirectoryEntry,
    FileStatus,
    LoggedCall,
    RecordingHost,
    ReplayMismatchError,
    Special,
)

MEGABYTE = 1 << 20
ASKED = b"asked".ljust(16)  # a digest


def call(value: object, method: str = "read") -> LoggedCall:
    return LoggedCall(method, ASKED, value, None)


def test_every_kind_of_answer_comes_back_as_it_was() -> None:
    calls = [
        call(b"data"),
        call(-1, "seek"),
        call(1 << 62, "seek"),
        call(None, "close"),
        call(FileStatus(7, 0o100644, 2, 1 << 40, 123456789, 5, 3), "status"),
        call(Special("fd/1"), "open"),
        call((DirectoryEntry(b".", 1, 4), DirectoryEntry(b"a\xff", 2, 8)), "list_directory"),
        call((), "list_directory"),
        LoggedCall("open", ASKED, None, errno.ENOENT),
        LoggedCall("read", ASKED, None, None, interrupted=True),
    ]
    log = CallLog()
    for each in calls:
        log.append(each)
    found, offset = [], 0
    for _ in range(len(log)):
        entry, offset = log.read(offset)
        found.append(entry)
    assert found == calls
    with pytest.raises(FileNotFoundError):
        found[-2].answer()
    with pytest.raises(RunInterrupted):
        found[-1].answer()


def test_a_log_comes_back_from_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever pieces they are in."""
    monkeypatch.setattr(outside, "PIECE", 7)
    log, again = CallLog(), CallLog(None)
    for value in (b"data", None, 7, Special("null")):
        log.append(call(value))
    for piece in log.pieces():
        again.extend(piece, 0)
    again.extend(b"", len(log))
    log.append(call(b"behind what was read"))
    again.append(call(b"behind what was read"))
    assert (len(again), again.digest) == (len(log), log.digest) == (5, again.digest)
    offset = 0
    for _ in range(len(log)):
        assert again.read(offset) == log.read(offset)
        _, offset = log.read(offset)


def test_what_is_no_log_is_refused() -> None:
    whole = CallLog()
    whole.append(call(FileStatus(7, 0o100644, 2, 1 << 40, 123456789, 5, 3), "status"))
    (data,) = whole.pieces()
    for place in range(len(data)):
        log = CallLog()
        log.extend(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :], 1)
        with suppress(ReplayMismatchError):
            log.read(0)
    with pytest.raises(ReplayMismatchError, match="damaged"):
        whole.read(1)


def test_a_digest_is_another_if_anything_differs() -> None:
    calls = [
        call(b"answer"),
        call(b"answers"),
        LoggedCall("read", b"asks".ljust(16), b"answer", None),
        call(b"answer", "pread"),
        LoggedCall("read", ASKED, None, 5),
        LoggedCall("read", ASKED, None, None, interrupted=True),
    ]

    def digest(*logged: LoggedCall) -> bytes:
        log = CallLog()
        for each in logged:
            log.append(each)
        return log.digest

    assert len({digest(), digest(*calls), *map(digest, calls)}) == len(calls) + 2
    assert digest(*calls) == digest(*calls)


def test_answers_beyond_a_few_megabytes_are_not_in_memory() -> None:
    log = CallLog()
    tracemalloc.start()
    try:
        for number in range(64):
            log.append(call(number.to_bytes(1, "big") * MEGABYTE))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * IN_MEMORY
    entry, second = log.read(0)
    assert entry.value == bytes(MEGABYTE)
    log.append(call(b"behind what was read"))
    offset = second
    for _ in range(len(log) - 1):
        entry, offset = log.read(offset)
    assert entry.value == b"behind what was read"


def test_a_log_that_is_too_large_is_dropped_and_said_to_be() -> None:
    small, large = CallLog(1000), CallLog()
    for log in (small, large):
        log.append(call(bytes(900)))
        log.check()
        log.append(call(bytes(900)))
    large.check()
    assert small.digest == large.digest
    with pytest.raises(UnsupportedError, match="more than 1,000 bytes: raise --memory-limit"):
        small.check()


def test_a_log_that_finds_no_room_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    log = CallLog()
    log.append(call(bytes(IN_MEMORY + 1)))
    with pytest.raises(UnsupportedError, match=r"/nowhere cannot take them .*: set TMPDIR to"):
        log.check()


def test_a_log_leaves_room_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "IN_MEMORY", 1000)
    monkeypatch.setattr(outside, "STEP", 1000)
    log = CallLog()
    log.append(call(bytes(2000)))
    log.check()
    little = SimpleNamespace(f_bavail=1000, f_frsize=4096)
    monkeypatch.setattr(os, "fstatvfs", lambda descriptor: little)
    log.append(call(bytes(2000)))
    with pytest.raises(UnsupportedError, match="No space left on device"):
        log.check()


def test_a_run_without_its_log_is_not_begun_again(tmp_path: Path) -> None:
    host = RecordingHost(Host(tmp_path, stdin=bytes(1000)), CallLog(100))
    host.rewind()
    assert host.read(0, 500) == host.read(0, 500) == bytes(500)
    with pytest.raises(UnsupportedError, match="emulated a second time"):
        host.rewind()
