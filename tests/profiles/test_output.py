"""Output files appear whole: under the eyes of a reader, and with what the user has set.

Each test runs twice: as Linux allows it, with files that have no name until they are whole, and as
other systems do, with a name beside the final one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from simprof.profiler.profiles import output
from simprof.profiler.profiles.output import write_atomically
from simprof.simulator.errors import UsageError

OLD, NEW = b"old" * 1000, b"new" * 5000


@pytest.fixture(params=["unnamed", "named"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of writing a file that is not there yet."""
    if request.param == "named":
        monkeypatch.setattr(output, "_unnamed", lambda _: None)
    return str(request.param)


def test_the_old_file_stays_for_those_who_have_it_open(tmp_path: Path) -> None:
    """A new file takes the name; nothing is written into the old one."""
    target = tmp_path / "out"
    target.write_bytes(OLD)
    with target.open("rb") as reader:
        before = os.fstat(reader.fileno()).st_ino
        write_atomically(target, NEW)
        assert reader.read() == OLD
    assert target.stat().st_ino != before
    assert target.read_bytes() == NEW
    assert list(tmp_path.iterdir()) == [target]


def test_readers_never_see_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is looked at whenever the writer is about to do something to a file."""
    target = tmp_path / "out"
    target.write_bytes(OLD)
    seen: list[bytes] = []

    def looking(owner: object, name: str) -> None:
        correct = getattr(owner, name)

        def look(*arguments: object, **more: object) -> object:
            seen.append(target.read_bytes())
            return correct(*arguments, **more)

        monkeypatch.setattr(owner, name, look)

    for call in ("fsync", "fchmod", "link", "replace"):
        looking(os, call)
    for step in ("chmod", "replace", "write_bytes", "rename"):
        looking(Path, step)
    write_atomically(target, NEW)
    monkeypatch.undo()
    assert len(seen) >= 3 and set(seen) == {OLD}
    assert target.read_bytes() == NEW


def test_the_bytes_are_on_the_disk_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Else a power cut could leave an empty file under the name."""
    order: list[str] = []
    fsync, link, replace = os.fsync, os.link, Path.replace

    def synchronise(file: int) -> None:
        order.append("fsync")
        fsync(file)

    def name(*arguments: object, **more: object) -> None:
        order.append("link")
        link(*arguments, **more)  # type: ignore[arg-type]

    def rename(old: Path, new: Path) -> Path:
        order.append("replace")
        return replace(old, new)

    monkeypatch.setattr(os, "fsync", synchronise)
    monkeypatch.setattr(os, "link", name)
    monkeypatch.setattr(Path, "replace", rename)
    write_atomically(tmp_path / "out", NEW)
    assert order == ["fsync", "replace" if way == "named" else "link"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_a_new_file_is_as_readable_as_the_user_wants(tmp_path: Path, mask: int, mode: int) -> None:
    target = tmp_path / "out"
    before = os.umask(mask)
    try:
        write_atomically(target, NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_what_is_written_again_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(OLD)
    target.chmod(0o640)
    write_atomically(target, NEW)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert target.read_bytes() == NEW


def test_a_file_that_cannot_be_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UsageError, match="No space left"):
        write_atomically(tmp_path / "out", NEW)
    assert list(tmp_path.iterdir()) == []
