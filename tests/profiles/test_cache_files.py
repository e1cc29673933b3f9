"""Files of a cache: whole, bounded, and never the reason for an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profiler.profiles.cache_files import CacheFiles


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    files = CacheFiles(tmp_path / "made" / "cache")
    assert files.read("one") is None and files.entries() == []
    files.write("one", b"first")
    files.write("one", b"second")
    files.write("two", b"")
    assert (files.read("one"), files.read("two")) == (b"second", b"")
    assert (tmp_path / "made" / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_what_is_damaged_is_not_there(tmp_path: Path, damage: str) -> None:
    files, path = CacheFiles(tmp_path), tmp_path / "one"
    files.write("one", b"content")
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-1], "changed": data[:-1] + b"T", "empty": b""}[damage])
    assert files.read("one") is None
    assert not path.exists()


def test_what_is_damaged_and_cannot_be_removed_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = CacheFiles(tmp_path), tmp_path / "one"
    files.write("one", b"content")
    path.write_bytes(path.read_bytes()[:-1])

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", refuse)
    assert files.read("one") is None


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    files = CacheFiles(tmp_path, limit=3 * 116)
    for number, name in enumerate("abc"):
        files.write(name, bytes(100))
        os.utime(tmp_path / name, (number, number))
    assert files.read("a") is not None  # used now
    files.write("d", bytes(100))
    assert {entry.name for entry in files.entries()} == {"a", "c", "d"}
    assert [entry.size for entry in files.clear()] == [116] * 3
    assert files.entries() == []


def test_nothing_fails_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    files = CacheFiles(tmp_path / "file" / "cache")
    files.write("one", b"content")
    assert (files.read("one"), files.entries(), files.clear()) == (None, [], [])
