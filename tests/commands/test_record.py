"""`simprof record` and `--replay` as commands: files, messages, statuses, runs that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler import cli
from simprof.profiler.engine import recording
from simprof.profiler.trace.recording_format import Recording

ROOT = Path(__file__).resolve().parents[2]
POINTERS = str(ROOT / "fixtures/bin/v9/pointers.elf")
CALLS = str(ROOT / "fixtures/bin/v9/calls.elf")
FAILED = 125
Refused = Callable[..., str]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of a program, made of pieces of 4,096 words."""
    path = tmp_path_factory.mktemp("recorded") / "pointers.run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recording, "BUFFER_WORDS", 1 << 12)
        assert cli.run(["record", POINTERS, "-o", str(path)]) == 0
    return path


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Refused:
    """Return what runs a command that must fail, and returns its one line."""

    def refuse(*words: str) -> str:
        capfd.readouterr()
        assert cli.run(list(words)) == FAILED
        (line,) = capfd.readouterr().err.splitlines()
        return line

    return refuse


def run_json(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return the JSON of a run, without how many emulations it took."""
    capfd.readouterr()
    assert cli.run(["run", "--json=-", *words]) == 0
    result: dict[str, Any] = json.loads(capfd.readouterr().out)
    for name in ("runs", "whole_runs"):
        del result["counts"][name]
    return result


def test_replay_needs_only_the_recording(recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The program is found by the recording's name for it, and several pieces are put together."""
    assert len(list(Recording(recorded).pieces())) > 1
    plain = run_json(capfd, "--table=hash", POINTERS)
    assert run_json(capfd, "--table=hash", "--replay", str(recorded)) == plain
    assert run_json(capfd, "--table=hash", "--replay", str(recorded), POINTERS) == plain


def test_record_says_what_it_wrote(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run"
    assert cli.run(["record", CALLS, "-o", str(path), "--", "7"]) == 0
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith(f"{path}: ")
    assert f"{path.stat().st_size:,} bytes" in line


def test_other_program(recorded: Path, refused: Refused) -> None:
    line = refused("run", "--replay", str(recorded), CALLS)
    assert "is a recording of another program than" in line


def test_no_recording(refused: Refused, tmp_path: Path) -> None:
    assert "is not a simprof recording" in refused("run", "--replay", POINTERS, POINTERS)
    assert "cannot be read" in refused("run", "--replay", str(tmp_path / "none"), POINTERS)


def test_other_version(recorded: Path, refused: Refused, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(recorded.read_bytes().replace(b"simprof-recording 3", b"simprof-recording 9"))
    assert "is a recording of version 9" in refused("run", "--replay", str(other))


def test_options_of_a_run(recorded: Path, refused: Refused) -> None:
    """What would change the run cannot be asked of one that has been made."""
    replay = ("--replay", str(recorded))
    assert "--max-instructions beside --replay" in refused(
        "run", *replay, "--max-instructions", "9", POINTERS
    )
    assert "the argument x beside --replay" in refused("compare", *replay, POINTERS, "--", "x")
    trace = ("--mode=bits", "--trace", "t")
    assert "--trace beside --replay" in refused("run", *replay, *trace, POINTERS)
    assert "ELF" in refused("run")


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.99])
def test_cut_recording(recorded: Path, refused: Refused, tmp_path: Path, share: float) -> None:
    """It is refused; what is there up to the cut can be read."""
    data = recorded.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(len(data) * share)])
    assert "record it again" in refused("run", "--replay", str(cut))
    if share > 0.3:
        whole = [piece[1].data for piece in Recording(recorded).pieces()]
        left = [piece[1].data for piece in Recording(cut).pieces()]
        assert left
        assert left == whole[: len(left)]


def test_damaged_recording(recorded: Path, refused: Refused, tmp_path: Path) -> None:
    """No byte behind the header can change without being noticed."""
    data = recorded.read_bytes()
    start = data.index(b"\n", data.index(b"\n") + 1) + 1
    damaged = tmp_path / "damaged"
    for place in range(start, len(data), max(1, (len(data) - start) // 40)):
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        line = refused("run", "--replay", str(damaged))
        assert "damaged" in line or "record it again" in line


@pytest.mark.long
def test_killed_while_recording(tmp_path: Path) -> None:
    """What is in the file then is whole up to the last piece."""
    program = (
        "from simprof.profiler.engine import recording; recording.BUFFER_WORDS = 1 << 12;"
        "import sys; from simprof.profiler.cli import run; run(sys.argv[1:])"
    )
    path = tmp_path / "killed"
    bench = str(ROOT / "fixtures/bin/v9/bench.elf")
    words = [sys.executable, "-c", program, "record", bench, "-o", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 300
        while not path.exists() or path.stat().st_size < 10_000:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    killed = Recording(path)
    assert killed.end is None
    assert list(killed.pieces())


def test_where_nothing_can_be_written(refused: Refused, tmp_path: Path) -> None:
    place = tmp_path / "none" / "run"
    assert "create it first" in refused("record", "-o", str(place), CALLS)
    assert "cannot be written" in refused("record", "-o", "/dev/full", CALLS)
