"""`simprof record` and `--replay` as commands: files, messages, statuses, runs that are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.trace.recording_format import Recording, RecordingFile
from simprof.simulator.linux.outside import CallLog, LoggedCall, ReplayMismatchError

ROOT = Path(__file__).resolve().parents[2]
POINTERS = str(ROOT / "fixtures/bin/v9/pointers.elf")
CALLS = str(ROOT / "fixtures/bin/v9/calls.elf")
FAILED, BUDGET = 125, 124
Refused = Callable[..., str]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of a program."""
    path = tmp_path_factory.mktemp("recorded") / "pointers.run"
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


def test_the_recording_names_the_program(recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The program is found by the recording's name for it."""
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
    other.write_bytes(recorded.read_bytes().replace(b"simprof-recording 4", b"simprof-recording 9"))
    assert "is a recording of version 9" in refused("run", "--replay", str(other))


def test_options_of_a_run(recorded: Path, refused: Refused) -> None:
    """What would change the run cannot be asked of one that has been made."""
    replay = ("--replay", str(recorded))
    assert "--max-instructions with --replay" in refused(
        "run", *replay, "--max-instructions", "9", POINTERS
    )
    assert "the argument x with --replay" in refused("compare", *replay, POINTERS, "--", "x")
    assert "ELF" in refused("run")


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.99])
def test_cut_recording(recorded: Path, refused: Refused, tmp_path: Path, share: float) -> None:
    data = recorded.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(len(data) * share)])
    assert "record it again" in refused("run", "--replay", str(cut))


def test_a_log_that_is_not_of_this_program(
    recorded: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another simprof may have asked the outside for something else."""

    def differs(*given: object) -> object:
        raise ReplayMismatchError("call 1 is another one")

    monkeypatch.setattr("simprof.simulator.linux.outside.CallLog.read", differs)
    line = refused("run", "--replay", str(recorded))
    assert "this simprof runs the program in another way" in line
    assert "record it again" in line


def test_damaged_recording(recorded: Path, refused: Refused, tmp_path: Path) -> None:
    """No byte behind the header can change without being noticed."""
    data = recorded.read_bytes()
    start = data.index(b"\n", data.index(b"\n") + 1) + 1
    damaged = tmp_path / "damaged"
    for place in range(start, len(data), max(1, (len(data) - start) // 40)):
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        line = refused("run", "--replay", str(damaged))
        assert "damaged" in line or "record it again" in line


def changed(path: Path, target: Path, log: CallLog | None = None, **end: Any) -> None:
    """Write a recording again with another log, or another end; all checksums are right."""
    recording = Recording(path)
    file = RecordingFile(target, recording.header)
    file.log(recording.log() if log is None else log)
    file.close(replace(recording.end, **end))


def test_other_answers(recorded: Path, refused: Refused, tmp_path: Path) -> None:
    log, other = Recording(recorded).log(), tmp_path / "other"
    log.append(LoggedCall("read", bytes(16), b"more", None))
    changed(recorded, other, log)
    assert "is damaged" in refused("run", "--replay", str(other))
    changed(recorded, other, reason="none")
    assert "is damaged" in refused("run", "--replay", str(other))


def test_a_library_that_has_changed(recorded: Path, refused: Refused, tmp_path: Path) -> None:
    library, other = tmp_path / "lib.so", tmp_path / "other"
    changed(recorded, other, modules=((str(library), "00" * 32),))
    for content in (None, b"now"):
        if content is not None:
            library.write_bytes(content)
        line = refused("run", "--replay", str(other))
        assert f"loads {library}, which has changed or is gone" in line


def check_end_by_time(
    recorded: Path, other: Path, instructions: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Repeat a run as if its time had ended: it ends then, and says why."""
    changed(recorded, other, reason="timeout", status=BUDGET, instructions=instructions)
    capfd.readouterr()
    assert cli.run(["run", "--mode=edges", "--json=-", "--replay", str(other)]) == BUDGET
    result = json.loads(capfd.readouterr().out)
    assert result["exit"]["reason"] == "timeout"
    assert result["instructions"]["base"] == instructions


def test_a_run_that_its_time_ended(
    recorded: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It ends after as many instructions, and for the same reason."""
    check_end_by_time(recorded, tmp_path / "other", 1998, capfd)


@pytest.mark.long
@pytest.mark.toolchain
def test_a_dynamically_linked_program_that_its_time_ended(
    compile_c: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its first run, which only shows what it loads, does not say why the recorded one ended."""
    program = compile_c("int main(void) { return 3; }", static=False)
    path = tmp_path / "run"
    assert cli.run(["record", str(program), "-o", str(path)]) == 3
    check_end_by_time(path, tmp_path / "other", 50_000, capfd)


def test_traces_of_a_recorded_run(recorded: Path, tmp_path: Path) -> None:
    """They are those of the run."""
    plain, replayed = tmp_path / "plain", tmp_path / "replayed"
    assert cli.run(["run", "--mode=bits", "--trace", str(plain), POINTERS]) == 0
    words = ["run", "--mode=bits", "--trace", str(replayed), "--replay", str(recorded)]
    assert cli.run(words) == 0
    assert replayed.read_bytes() == plain.read_bytes()


def test_input_environment_and_budget(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All that says how the program is run is in the file."""
    given, path = tmp_path / "given", tmp_path / "run"
    given.write_bytes(b"some words\nand more\n" * 50)
    options = ["--stdin", str(given), "--env", "A=B", "--argv0", "me", "--max-instructions", "9000"]
    words = [str(ROOT / "fixtures/bin/v9/words.elf"), "--", "x"]
    capfd.readouterr()
    assert cli.run(["run", "--json=-", *options, *words]) == BUDGET
    plain = capfd.readouterr().out
    assert cli.run(["record", "-o", str(path), *options, *words]) == BUDGET
    given.unlink()
    capfd.readouterr()
    assert cli.run(["run", "--json=-", "--replay", str(path)]) == BUDGET
    assert capfd.readouterr().out == plain


def test_killed_while_recording(tmp_path: Path, refused: Refused) -> None:
    """What is in the file then is no recording."""
    path = tmp_path / "killed"
    program = (
        "import os, signal, sys; from simprof.profiler.trace import recording_format as f;"
        "f.RecordingFile.log = lambda *_: os.kill(os.getpid(), signal.SIGKILL);"
        "from simprof.profiler.cli import run; run(sys.argv[1:])"
    )
    words = [sys.executable, "-c", program, "record", CALLS, "-o", str(path)]
    assert subprocess.run(words, check=False, capture_output=True).returncode == -signal.SIGKILL
    assert "record it again" in refused("run", "--replay", str(path))


def test_where_nothing_can_be_written(refused: Refused, tmp_path: Path) -> None:
    place = tmp_path / "none" / "run"
    assert "create it first" in refused("record", "-o", str(place), CALLS)
    assert "cannot be written" in refused("record", "-o", "/dev/full", CALLS)
