"""`simprof verify`: exit statuses, the JSON object, the report, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler import cli
from simprof.profiler.rewriting.calls import TrapEnding
from simprof.profiler.rewriting.commands import verify
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.schemes.registry import planned_modes
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from tests.support.exact_random import BARE
from tests.support.random_programs import BEGINNING
from tests.support.tiny_programs import program_file
from tests.support.wrong_on_purpose import STATUS, Wrong, flags_destroyed, items

Find = Callable[..., Path]
CAPTURE = pytest.CaptureFixture[str]
FIELDS = [
    "mode",
    "options",
    "edge_profile_sha256",
    "base",
    "added",
    "rewriting",
    "predicted",
    "executed",
    "output_equal",
    "counters_equal",
    "routines_left",
    "differences",
    "not_compared",
]


def verified(capfd: CAPTURE, *arguments: str | Path, status: int = 0) -> tuple[dict[str, Any], str]:
    """Verify with `--json -`; return the object and what is on stderr."""
    found = cli.run(["verify", "--json", "-", *map(str, arguments)])
    out, err = capfd.readouterr()
    assert found == status, err
    answer = json.loads(out)
    assert isinstance(answer, dict)
    return answer, err


def refused(capfd: CAPTURE, *arguments: str | Path) -> str:
    """Return the one line that is said."""
    assert cli.run(["verify", *map(str, arguments)]) == 125
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line.removeprefix("simprof: ")


def test_names_of_the_program_are_those_of_run(compile_c: Find, capfd: CAPTURE) -> None:
    path = compile_c("int main(int n, char **v) { while (v[0][n]) n++; return n; }", ("-O1",))
    for options in ([], ["--exe", "/usr/local/bin/another_name"], ["--argv0", "other"]):
        status = cli.run(["run", "--quiet", "--mode", "pp", *options, str(path)])
        name = options[-1].rpartition("/")[2] if options else path.name
        assert status == len(name)
        answer, _ = verified(capfd, path, "--on", "emulator", "--mode", "pp", *options)
        assert answer["exit"]["status"] == status
    assert "--exe name: give an absolute path" in refused(capfd, path, "--exe", "name")


@pytest.mark.qemu
def test_a_passed_verification_as_json(fixture_elf: Find, capfd: CAPTURE) -> None:
    path = fixture_elf("deep", "v8plus")
    answer, report = verified(capfd, path, "--mode", "pp,naive,bits", "--", "20")
    assert list(answer) == [
        "format",
        "version",
        "simprof",
        "measured_by",
        "program",
        "input_sha256",
        "exit",
        "passed",
        "not_run",
        "modes",
    ]
    assert (answer["exit"]["reason"], answer["exit"]["status"]) == ("exit", 0)
    assert answer["format"] == "simprof/verify"
    program = answer["program"]
    assert (program["file"], program["machine"]) == (str(path), "sparcv8plus")
    assert (program["arguments"], len(program["sha256"])) == (["20"], 64)
    assert (answer["passed"], answer["not_run"]) == (True, {})
    assert list(answer["modes"]) == ["pp", "naive", "bits"]
    causes = set(map(str, Cause))
    for mode in answer["modes"].values():
        assert list(mode) == FIELDS
        assert mode["rewriting"].keys() <= causes
        assert {"start-up", "writing-counters", "system-calls"} <= mode["rewriting"].keys()
        rewriting = sum(mode["rewriting"].values())
        assert mode["predicted"] == mode["base"] + mode["added"] + rewriting
        assert mode["executed"] == {"emulator": mode["predicted"], "qemu": mode["predicted"]}
        assert (mode["output_equal"], mode["counters_equal"]) == (True, True)
        assert (mode["routines_left"], mode["differences"]) == ([], [])
    assert len({mode["base"] for mode in answer["modes"].values()}) == 1
    assert "all as predicted" in report


def test_the_emulator_alone(fixture_elf: Find, capfd: CAPTURE) -> None:
    answer, report = verified(capfd, fixture_elf("loops"), "--mode", "qpt2", "--on", "emulator")
    heads = next(line for line in report.splitlines() if line.startswith("mode "))
    columns = [
        "mode",
        "added",
        "rewriting",
        "of base",
        "predicted",
        "emulator",
        "output",
        "counters",
    ]
    assert re.split("  +", heads) == columns
    (mode,) = answer["modes"].values()
    assert mode["executed"] == {"emulator": mode["predicted"], "qemu": None}


def test_routines_are_chosen(fixture_elf: Find, capfd: CAPTURE) -> None:
    common = (fixture_elf("loops"), "--mode", "naive", "--on", "emulator")
    all_of_it, _ = verified(capfd, *common)
    main, _ = verified(capfd, *common, "--routine", "main")
    assert 0 < main["modes"]["naive"]["added"] < all_of_it["modes"]["naive"]["added"]
    assert main["modes"]["naive"]["base"] == all_of_it["modes"]["naive"]["base"]


@pytest.mark.long
def test_without_modes_all_are_verified(fixture_elf: Find, capfd: CAPTURE) -> None:
    answer, _ = verified(capfd, fixture_elf("loops", "v8"), "--on", "emulator")
    assert tuple(answer["modes"]) == planned_modes()
    assert "edges" not in answer["modes"]


def test_a_difference_is_status_125_and_in_the_results(
    tmp_path: Path, capfd: CAPTURE, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = MachineKind.SPARCV9
    path = tmp_path / "program"
    path.write_bytes(program_file(machine, items(machine)))
    monkeypatch.setattr("simprof.profiler.rewriting.program.emit", Wrong(machine, flags_destroyed))
    answer, err = verified(capfd, path, "--mode", "naive,qpt2", "--on", "emulator", status=125)
    assert answer["passed"] is False
    wrong, right = answer["modes"]["naive"], answer["modes"]["qpt2"]
    assert f"emulator: the status is 41, not {STATUS}" in wrong["differences"]
    assert wrong["output_equal"] is False
    assert right["differences"] == []
    assert "1 mode not as predicted" in err
    assert err.splitlines()[-1] == f"simprof: {path}: not as predicted under naive"


def test_a_program_that_exits_without_counters_is_not_as_predicted(
    tmp_path: Path, capfd: CAPTURE, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its way out is taken for a system call that goes on."""
    machine = MachineKind.SPARCV8
    path = tmp_path / "program"
    path.write_bytes(program_file(machine, items(machine)))
    monkeypatch.setattr("simprof.profiler.rewriting.calls.ending_of", lambda *_: TrapEnding.GOES_ON)
    answer, _ = verified(capfd, path, "--mode", "pp", "--on", "emulator", status=125)
    mode = answer["modes"]["pp"]
    assert mode["differences"][0] == "emulator: it ended by itself, and wrote no counters"
    assert (mode["output_equal"], mode["counters_equal"]) == (True, None)


@pytest.mark.long
def test_what_is_refused(fixture_elf: Find, tmp_path: Path, capfd: CAPTURE) -> None:
    loops, text = fixture_elf("loops"), tmp_path / "text"
    text.write_text("no program")
    assert refused(capfd, text) == f"{text}: is not an ELF file; give a SPARC ELF program"
    assert "'hardware' is not a place to run" in refused(capfd, loops, "--on", "hardware")
    assert "--mode" in refused(capfd, loops, "--mode", "nonsense")
    assert "write one file of trace" in refused(capfd, loops, "--mode", "bytes:addresses")
    assert "cannot be read" in refused(capfd, loops, "--stdin", tmp_path / "none")
    made = tmp_path / "made"
    assert cli.run(["instrument", str(loops), "--mode", "pp", "-o", str(made), "--json", "-"]) == 0
    capfd.readouterr()
    line = refused(capfd, made, "--mode", "pp", "--on", "emulator")
    assert line.endswith("is already instrumented; give the original program")


def test_ways_are_named_once() -> None:
    assert verify.ways("qemu, emulator,qemu") == ("qemu", "emulator")
    assert verify.ways(("emulator",)) == ("emulator",)


def test_what_cannot_be_compared_is_said_and_is_status_125(tmp_path: Path, capfd: CAPTURE) -> None:
    """A program that is killed writes no counters, and nothing else speaks against it."""
    getpid, kill, sigkill = 20, 37, 9
    trap = asm.trap_always(0x6D)
    code = (asm.mov(getpid, asm.Register.G1), trap, asm.mov(sigkill, asm.Register.O1))
    path = tmp_path / "program"
    killed = [*code, asm.mov(kill, asm.Register.G1), trap, asm.nop()]
    path.write_bytes(program_file(MachineKind.SPARCV9, killed))
    answer, err = verified(capfd, path, "--mode", "pp,naive", "--on", "emulator", status=125)
    for mode in answer["modes"].values():
        assert (mode["differences"], mode["counters_equal"]) == ([], None)
        (line,) = mode["not_compared"]
        assert line == "the counters: none are written, as the program ends by a signal"
    assert answer["passed"] is True
    assert "as predicted, as far as it was compared" in err
    assert f"pp: not compared: {line}" in err
    last = f"simprof: {path}: nothing differs, but not all was compared under pp, naive"
    assert err.splitlines()[-1] == last


OPENS = (
    BEGINNING
    + """
int start(void) {
    register long g1 __asm__("g1") = 5;
    register const char *o0 __asm__("o0") = "input";
    register long o1 __asm__("o1") = 0;
    __asm__ volatile("ta " TRAP "; bcc 1f; nop; mov -1, %0; 1:"
                     : "+r"(o0), "+r"(g1) : "r"(o1) : "memory", "cc", "o7");
    return (long)o0 == -1 ? 3 : 0;
}
"""
)
"""Ends with status 3 where there is no file `input`."""


@pytest.mark.long
@pytest.mark.toolchain
def test_the_current_directory_is_read_and_a_failed_run_is_warned_of(
    compile_c: Callable[..., Path],
    tmp_path: Path,
    capfd: CAPTURE,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = compile_c(OPENS, ("-O1", *BARE))
    monkeypatch.chdir(tmp_path)
    command = (path, "--mode", "pp", "--on", "emulator")
    answer, err = verified(capfd, *command)
    assert (answer["exit"]["status"], answer["passed"]) == (3, True)
    assert re.search(r"^ended +exit status 3$", err, re.MULTILINE)
    assert f"warning: {path} failed (exit status 3): " in "".join(err.splitlines(keepends=True))
    (tmp_path / "input").write_text("here")
    (tmp_path / "other").symlink_to("/nowhere")
    answer, err = verified(capfd, *command)
    assert answer["exit"]["status"] == 0
    assert "warning" not in err
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    answer, _ = verified(capfd, *command, "--root", "..")
    assert answer["exit"]["status"] == 3  # it starts in the current directory
    (tmp_path / "below" / "input").write_text("here, too")
    answer, _ = verified(capfd, *command, "--root", "..")
    assert answer["exit"]["status"] == 0
