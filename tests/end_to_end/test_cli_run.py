"""`simprof` as users start it, on the committed programs and on bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.profiles.code_counts import code_counts
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import load
from tests.support.cli_run import WIDTHS, simprof
from tests.support.turns import first, turns

ROOT = Path(__file__).resolve().parents[2]
MACHINES = {"v9": "sparcv9", "v8plus": "sparcv8plus", "v8": "sparcv8"}
Find = Callable[..., Path]


def run_json(*arguments: str | Path, status: int = 0) -> dict[str, Any]:
    """Run with `--json -`; check the exit status; return the object."""
    done = simprof("run", "--json", "-", *arguments)
    assert done.returncode == status, done.stderr.decode()
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


# --- good programs


@pytest.mark.parametrize("width", first(1, WIDTHS))
def test_the_programs_output_is_its_own(fixture_elf: Find, width: str) -> None:
    done = simprof("run", "--mode=pp", fixture_elf("switches", width))
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == (ROOT / "fixtures/expected/switches.txt").read_text()
    report = done.stderr.decode()
    assert MACHINES[width] in report
    assert "Hot paths" in report
    assert "\nwarning" not in report


def test_exit_status_is_passed_on(fixture_elf: Find) -> None:
    assert simprof("run", fixture_elf("nonlocal")).returncode == 4


@pytest.mark.long
def test_stdin_from_a_file_and_from_the_terminal_side(fixture_elf: Find) -> None:
    words = ROOT / "fixtures/input/words.txt"
    expected = (ROOT / "fixtures/expected/words.txt").read_bytes()
    assert simprof("run", "--stdin", words, fixture_elf("words")).stdout == expected
    piped = simprof("run", fixture_elf("words"), given=words.read_bytes())
    assert piped.stdout == expected


@pytest.mark.long
@pytest.mark.parametrize("mode", first(1, ["pp", "qpt2", "edges", "tpp", "qpt"]))
def test_json_agrees_with_itself_and_with_the_profile(
    fixture_elf: Find, tmp_path: Path, mode: str
) -> None:
    """Flow is conserved at every block, blocks add up to the base, and runs repeat exactly."""
    saved = tmp_path / "profile"
    elf = fixture_elf("control")
    found = run_json("--mode", mode, "-o", saved, elf)
    assert found == run_json("--mode", mode, elf)
    assert found["counts"]["unattributed_transfers"] == 0
    assert_flow_is_conserved(found["edges"])
    assert (
        sum(routine["instructions"] for routine in found["routines"])
        == (found["instructions"]["base"])
    )
    assert sum(routine["added"] for routine in found["routines"]) == found["instructions"]["added"]
    measurement = load(saved)
    assert measurement.base == found["instructions"]["base"]
    assert len(measurement.routines) == len(found["routines"])
    assert ("paths" in found) == (mode in ("pp", "tpp", "kiter"))
    assert ("blocks" in found) == (mode == "qpt")
    assert (found["instructions"]["added"] > 0) == (mode != "edges")


def assert_flow_is_conserved(edges: Sequence[dict[str, Any]]) -> None:
    """Check that at every block the counts in and out are equal."""
    balance: dict[tuple[object, str], int] = {}
    for edge in edges:
        for end, sign in (("source", -1), ("target", 1)):
            name = json.dumps(edge[end])
            if name in ('"ENTRY"', '"EXIT"'):
                continue
            key = (edge["routine_address"], name)
            balance[key] = balance.get(key, 0) + sign * edge["executions"]
    assert balance
    assert not any(balance.values())


@pytest.mark.long
def test_routine_selection(fixture_elf: Find) -> None:
    found = run_json("--routine", "mai?", fixture_elf("switches"))
    assert [routine["symbol"] for routine in found["routines"]] == ["main"]
    assert {edge["symbol"] for edge in found["edges"]} == {"main"}
    whole = run_json(fixture_elf("switches"))
    assert found["instructions"]["base"] == whole["instructions"]["base"]


# --- budgets


def test_an_instruction_budget(fixture_elf: Find, tmp_path: Path) -> None:
    saved = tmp_path / "profile"
    limit = 2_000_000
    elf = fixture_elf("sieve")
    found = run_json("--max-instructions", str(limit), "-o", saved, elf, "--", "1000", status=124)
    assert found["exit"] == {"status": 124, "reason": "budget"}
    assert found["partial"] is True
    assert limit - 600 <= found["instructions"]["base"] <= limit
    assert_flow_is_conserved(found["edges"])
    assert load(saved).partial


def test_a_time_budget(fixture_elf: Find) -> None:
    started = time.perf_counter()
    found = run_json("--timeout", "0.5", fixture_elf("sieve"), "--", "1000000", status=124)
    assert time.perf_counter() - started < 15
    assert found["exit"]["reason"] == "timeout"
    assert_flow_is_conserved(found["edges"])


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("way", "status"), first(1, [("read", 139), ("stack", 139), ("abort", 134), ("unaligned", 138)])
)
def test_shares_of_a_failed_run_are_of_what_was_executed(
    compile_c: Callable[..., Path], tmp_path: Path, way: str, status: int
) -> None:
    """Routines and their lines add up to base; paths are at most their routine."""
    program = compile_c(ROOT / "tests/programs/faults.c", ("-O1",), width="v9")
    saved = tmp_path / "profile"
    limits = ("--stack-size", "64K")
    found = run_json("--mode=pp", "-o", saved, *limits, program, "--", way, status=status)
    assert_rows_add_up(load(saved), found["instructions"]["base"])


def assert_rows_add_up(profile: RunMeasurement, base: int) -> None:
    """Routines add up to base, their code to them, and no paths of one to more than it."""
    assert sum(each.instructions for each in profile.routines) == base
    for routine in profile.routines:
        on_paths = sum(path.count * path.instructions for path in routine.path_counts)
        assert on_paths <= routine.instructions
        assert sum(code_counts(routine).executions.values()) == routine.instructions


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "machine"),
    [("bin/v9/sieve", "linux"), ("bin/v8/calls", "linux"), ("leon/hello", "leon3")],
)
def test_shares_of_a_limited_run_are_of_what_was_executed(
    tmp_path: Path, program: str, machine: str
) -> None:
    """Limits among the first instructions, in routines and in callgrind's lines."""
    path, saved = ROOT / f"fixtures/{program}.elf", tmp_path / "profile"
    for limit in (2, 777, 4003):
        asked = ("--machine", machine, "--max-instructions", str(limit))
        found = run_json("--mode=pp", *asked, "-o", saved, path, status=124)
        base = found["instructions"]["base"]
        assert_rows_add_up(load(saved), base)
        done = simprof("export", "--format", "callgrind", saved, "-o", "-")
        assert done.returncode == 0, done.stderr.decode()
        # The line behind `calls=` is what the callee executed.
        own = re.sub(r"(?m)^calls=.*\n.*\n", "", done.stdout.decode())
        lines = re.findall(r"(?m)^(?:0x[0-9a-f]+|[+*-]\d*) \S+ (\d+) \d+$", own)
        assert sum(map(int, lines)) == base


def test_ctrl_c_keeps_the_profile(fixture_elf: Find, tmp_path: Path) -> None:
    """Whenever Ctrl-C comes, the status is 130; once the program runs, its profile is kept."""
    saved = tmp_path / "profile"
    script = "from simprof.profiler.cli import main; main()"
    arguments = ["run", "-o", saved, fixture_elf("sieve"), "--", "100000000"]
    for delay in (0.8, 3.0, 20.0):
        process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, report = process.communicate(timeout=20)
        assert process.returncode == 130
        assert b"interrupted" in report
        if saved.exists():
            break
    assert load(saved).base > 0
    assert load(saved).partial
    assert_rows_add_up(load(saved), load(saved).base)


# --- faults


@pytest.mark.parametrize(
    ("kind", "number", "name"),
    first(
        2,
        [
            ("read-null", 11, "SIGSEGV"),
            ("illegal", 4, "SIGILL"),
            ("divide", 8, "SIGFPE"),
            ("unaligned", 10, "SIGBUS"),
            ("jump-null", 11, "SIGSEGV"),
            ("jump-data", 11, "SIGSEGV"),
            ("jump-odd", 10, "SIGBUS"),
            ("overflow", 11, "SIGSEGV"),
        ],
    ),
)
def test_faults_end_as_on_linux(fixture_elf: Find, kind: str, number: int, name: str) -> None:
    # 128 + signal as the shell shows it; SIGBUS is 10 on SPARC.
    done = simprof("run", "--json", "-", fixture_elf("faults"), "--", kind)
    assert done.returncode == 128 + number
    found = json.loads(done.stdout)
    fault = found["exit"]["fault"]
    assert (found["exit"]["reason"], fault["name"]) == ("fault", name)
    assert fault["file"].endswith("faults.c")
    assert fault["line"] > 0
    assert fault["routine"] == kind.replace("-", "_")
    assert found["counts"]["unattributed_instructions"] == 0
    assert_flow_is_conserved(found["edges"])
    assert name in done.stderr.decode()


def test_abort_ends_by_signal(fixture_elf: Find) -> None:
    done = simprof("run", fixture_elf("faults"), "--", "abort")
    assert done.returncode == 134
    assert b"killed by signal 6" in done.stderr


# --- bad input


def elf_with(original: bytes, offset: int, patch: bytes) -> bytes:
    """Return `original` with some bytes replaced."""
    return original[:offset] + patch + original[offset + len(patch) :]


@pytest.fixture(scope="module")
def bad_files(fixture_elf: Find, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files that are no programs, by what is wrong with them."""
    good = fixture_elf("switches").read_bytes()
    contents = {
        "empty": b"",
        "text": b"#!/bin/sh\nexit 0\n",
        "x86-64": elf_with(good, 18, struct.pack(">H", 62)),
        "little-endian": elf_with(good, 5, b"\x01"),
        "truncated": good[: len(good) // 2],
        "header_only": good[:64],
        "entry_outside": elf_with(good, 24, struct.pack(">Q", 0x10)),
    }
    directory = tmp_path_factory.mktemp("bad")
    paths = {"directory": directory, "missing": directory / "missing"}
    for name, content in contents.items():
        paths[name] = directory / name
        paths[name].write_bytes(content)
    return paths


BAD = (
    "empty text x86-64 little-endian truncated header_only entry_outside directory missing"
).split()


@pytest.mark.parametrize(("command", "what"), turns(["run", "cfg"], BAD, few=3))
def test_bad_programs(bad_files: dict[str, Path], tmp_path: Path, command: str, what: str) -> None:
    outputs: list[str | Path] = ["-o", tmp_path / "out"]
    done = simprof(command, *outputs, bad_files[what])
    message = done.stderr.decode()
    assert done.returncode == 125, message
    assert done.stdout == b""
    assert message.startswith("simprof: ")
    assert message.count("\n") == 1
    assert str(bad_files[what]) in message
    assert what != "little-endian" or what in message
    assert list(tmp_path.iterdir()) == []


COMMAND = f"{sys.executable} -c 'from simprof.profiler.cli import main; main()'"


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "status", "message"),
    first(
        3,
        [
            ("cfg {elf} > /dev/full", 125, "stdout cannot be written (No space left on device)"),
            ("cfg {elf} >&-", 125, "stdout cannot be written (Bad file descriptor)"),
            ("run --json - {elf} 2>&- >&-", 125, ""),
            ("run --top 0 {elf} >&-", 0, "overhead"),
            ("run -o profile {elf} 2>&-", 125, ""),
            ("run --json /dev/full {elf}", 125, "/dev/full cannot be written"),
        ],
    ),
)
def test_streams_that_cannot_be_written(
    fixture_elf: Find, tmp_path: Path, command: str, status: int, message: str
) -> None:
    line = f"{COMMAND} {command.format(elf=fixture_elf('switches'))}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False, cwd=tmp_path)
    said = done.stderr.decode()
    assert done.returncode == status, said
    assert message in said
    assert "Traceback" not in said
    for profile in tmp_path.iterdir():  # it holds a profile, not what the program has printed
        assert load(profile).base > 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_unreadable_program(fixture_elf: Find, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.write_bytes(fixture_elf("switches").read_bytes())
    hidden.chmod(0)
    done = simprof("run", hidden)
    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1


# --- the other commands


FIGURE = {
    "name": "EPP figure 1",
    "entry": "A",
    "exit": "F",
    "edges": [["A", "B"], ["A", "C"], ["B", "C"], ["B", "D"], ["C", "D"], ["D", "E"], ["D", "F"],
              ["E", "F"]],
    "runs": [["A C D F", 90], ["A C D E F", 60], ["A B C D F", 20]],
}  # fmt: skip


def test_graph_answers_one_line_a_file(tmp_path: Path) -> None:
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    for path in paths:
        path.write_text(json.dumps(FIGURE))
    done = simprof("explain", *paths, "--json", "-", "--enumerate")
    assert done.returncode == 0, done.stderr.decode()
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["program"]["file"] for answer in answers] == list(map(str, paths))
    for answer in answers:
        assert [path["path"] for path in answer["all_paths"]] == list(range(6))
        assert {" ".join(path["blocks"]): path["executions"] for path in answer["paths"]} == {
            "A C D F": 90,
            "A C D E F": 60,
            "A B C D F": 20,
        }


def test_one_bad_graph_file_leaves_no_answer(tmp_path: Path) -> None:
    good, bad = tmp_path / "0.json", tmp_path / "1.json"
    good.write_text(json.dumps(FIGURE))
    bad.write_text(json.dumps(FIGURE | {"runs": [["A F", 1]]}))
    done = simprof("explain", good, bad, "--json", "-")
    assert (done.returncode, done.stdout) == (125, b"")
    (line,) = done.stderr.splitlines()
    assert b"A F" in line


def test_doctor(tmp_path: Path) -> None:
    done = simprof("doctor", "--json", tmp_path / "doctor.json")
    assert done.returncode == 0, done.stdout.decode()
    found = json.loads((tmp_path / "doctor.json").read_text())
    checks = {check["name"]: check for check in found["checks"]}
    assert found["ok"] is True
    assert "13 instructions, profiled exactly" in checks["trial run"]["detail"]
    assert done.stdout.decode().endswith("simprof works.\n")


# --- speed of the start


def test_a_first_start_compiles_nothing_and_needs_no_place(
    fixture_elf: Find, tmp_path: Path
) -> None:
    """Machine code is shipped: it is there where nothing can be kept, and nobody has a home."""
    nowhere = "/proc/x"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "simprof",
            "run",
            "--mode=edges",
            "--top=0",
            fixture_elf("switches"),
        ],
        cwd=ROOT,
        env=os.environ | {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "TMPDIR": nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "compil" not in done.stderr and "exit status 0" in done.stderr
