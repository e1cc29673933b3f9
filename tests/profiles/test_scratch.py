"""What is tidied up when a process is killed, and that nothing is when it is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simprof.profiler.profiles import scratch
from simprof.profiler.profiles.scratch import if_killed, scratch_directory
from tests.conftest import ROOT

WAIT = """
import sys, time
from pathlib import Path
from simprof.profiler.profiles.scratch import if_killed, scratch_directory
with scratch_directory("mine-", Path(sys.argv[1])) as made, if_killed('touch "$1"', sys.argv[2]):
    (made / "deep").mkdir()
    (made / "deep" / "file").touch()
    print("ready", flush=True)
    time.sleep(float(sys.argv[3]))
"""


def start(directory: Path, seconds: float) -> subprocess.Popen[bytes]:
    """Start a process that has a directory, and has another file touched if it is killed."""
    (directory / "own").mkdir()
    arguments = [str(directory / "own"), str(directory / "touched"), str(seconds)]
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT, *arguments], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_a_shell_tidies_up_after_a_kill(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, 1000)
    assert len(list((tmp_path / "own").glob("mine-*/deep/file"))) == 1
    process.send_signal(number)
    assert process.wait() == -number
    deadline = time.monotonic() + 60
    while list((tmp_path / "own").iterdir()) or not (tmp_path / "touched").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nothing_is_done_at_an_end_in_order(tmp_path: Path) -> None:
    process = start(tmp_path, 0)
    assert process.wait() == 0
    assert list((tmp_path / "own").iterdir()) == []
    assert not (tmp_path / "touched").exists()


def test_an_error_is_no_kill(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyError),
        scratch_directory("mine-", tmp_path) as made,
        if_killed('touch "$1"', str(tmp_path / "touched")),
    ):
        assert made.is_dir() and made.stat().st_mode & 0o777 == 0o700
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_it_works_without_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "SHELL", str(tmp_path / "none"))
    with scratch_directory("mine-", tmp_path) as made:
        (made / "file").touch()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_permissions_is_removed(tmp_path: Path) -> None:
    """By a user who needs them: a child gives up being root."""
    tmp_path.chmod(0o777)
    own = (parent for parent in tmp_path.parents if parent.name.startswith(("pytest-", "popen-")))
    for parent in own:
        parent.chmod(parent.stat().st_mode | 0o011)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            with scratch_directory("mine-", tmp_path) as made:
                (made / "closed" / "deep").mkdir(parents=True)
                (made / "link").symlink_to(tmp_path)
                (made / "closed").chmod(0)
            status = 0 if not made.exists() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
