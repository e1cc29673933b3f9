"""Files of a cache: whole, bounded, and never the reason for an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simprof.profiler.profiles.cache_files import CacheFiles, cache_directory, own_cache_directory
from simprof.simulator.errors import UsageError


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
    assert [entry.size for entry in files.entries()] == [116] * 3


def test_nothing_fails_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    files = CacheFiles(tmp_path / "file" / "cache")
    files.write("one", b"content")
    assert (files.read("one"), files.entries()) == (None, [])


@pytest.mark.parametrize("what", ["directory", "file"])
def test_what_others_may_write_is_left_alone(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = CacheFiles(tmp_path / "cache")
    files.write("one", b"content")
    place = files.directory if what == "directory" else files.directory / "one"
    for mode in (0o720, 0o702):  # one line for both
        place.chmod(mode)
        assert files.read("one") is None
    assert [record.getMessage() for record in caplog.records] == [
        f"simprof: {place} is left alone: it does not belong to you, or others may write it: "
        "`chmod go-w` it, remove it, or name another directory in XDG_CACHE_HOME"
    ]
    if what == "directory":
        files.write("two", b"content")
        assert files.entries() == []
        assert [path.name for path in files.directory.iterdir()] == ["one"]
    place.chmod(0o755)
    assert files.read("one") == b"content"


def test_what_belongs_to_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    CacheFiles(tmp_path / "cache").write("one", b"content")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert CacheFiles(tmp_path / "cache").read("one") is None
    assert CacheFiles(tmp_path / "cache", owner=me).read("one") == b"content"
    assert len(caplog.records) == 1


def test_a_pipe_in_place_of_a_file_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "one", 0o600)
    assert CacheFiles(tmp_path).read("one") is None


def test_directories_and_files_are_the_users_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        CacheFiles(tmp_path / "a" / "b").write("one", b"")
        CacheFiles(tmp_path / "a" / "shown", mode=0o755).write("one", b"")
    finally:
        os.umask(mask)
    modes = {path.relative_to(tmp_path): path.stat().st_mode for path in tmp_path.rglob("*")}
    assert {str(path): oct(mode & 0o777) for path, mode in modes.items()} == {
        "a": "0o700",
        "a/b": "0o700",
        "a/b/one": "0o600",
        "a/shown": "0o755",
        "a/shown/one": "0o644",
    }


def test_a_user_whom_the_system_does_not_know_has_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache_directory() == tmp_path / f"simprof-{os.geteuid()}"


def test_what_else_is_in_a_cache_is_used_only_where_nobody_else_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = own_cache_directory()
    assert place == tmp_path / "cache" / "simprof" and place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o777)
    with pytest.raises(UsageError, match="simprof is left alone: it does not belong to you"):
        own_cache_directory()
