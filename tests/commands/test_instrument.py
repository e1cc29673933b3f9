"""`simprof instrument`: the program that it writes, what it says of it, and what it refuses."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler import cli
from simprof.profiler.profiles.documents import head
from simprof.profiler.schemes.cost_model import own_cost_version
from tests.conftest import EMULATORS
from tests.support.cli_run import WIDTHS, simprof
from tests.support.random_programs import program
from tests.support.turns import first

Find = Callable[..., Path]
Compile = Callable[..., Path]
CAPTURE = pytest.CaptureFixture[str]


def written(capfd: CAPTURE, *arguments: str | Path) -> dict[str, Any]:
    """Instrument with `--json -`; return the object."""
    status = cli.run(["instrument", *map(str, arguments), "--json", "-"])
    out, err = capfd.readouterr()
    assert status == 0, err
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def refused(capfd: CAPTURE, directory: Path, *arguments: str | Path) -> str:
    """Return the one line that is said; nothing is written to `directory`."""
    before = sorted(directory.rglob("*"))
    assert cli.run(["instrument", *map(str, arguments)]) == 125
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert sorted(directory.rglob("*")) == before
    return line.removeprefix("simprof: ")


def run_under_qemu(
    path: Path, width: str, directory: Path, counters: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a program, in a directory of its own."""
    directory.mkdir(exist_ok=True)
    return subprocess.run(
        [EMULATORS[width], str(path)],
        cwd=directory,
        env={**os.environ, **({} if counters is None else {"SIMPROF_OUT": counters})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )


# --- what it writes


@pytest.mark.qemu
@pytest.mark.parametrize("width", first(1, WIDTHS))
def test_the_program_runs_as_the_original_and_leaves_a_profile(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE, width: str
) -> None:
    original, made = fixture_elf("switches", width), tmp_path / "made"
    written(capfd, original, "--mode", "qpt2", "-o", made)
    plain = run_under_qemu(original, width, tmp_path / "plain")
    done = run_under_qemu(made, width, tmp_path / "run", "counts")
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, b"")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["counts"]
    answer = simprof("read", made, tmp_path / "run" / "counts", "--json", "-")
    assert answer.returncode == 0, answer.stderr.decode()
    assert json.loads(answer.stdout)["mode"] == "qpt2"


@pytest.mark.qemu
def test_counters_of_another_program_or_mode_are_refused(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE
) -> None:
    files = {}
    for name, mode in (("loops", "qpt2"), ("loops", "naive"), ("switches", "qpt2")):
        made = tmp_path / f"{name}-{mode}"
        written(capfd, fixture_elf(name), "--mode", mode, "-o", made)
        assert run_under_qemu(made, "v9", tmp_path / "run", made.name).returncode == 0
        files[name, mode] = tmp_path / "run" / made.name
    out, own = tmp_path / "loops-qpt2", files["loops", "qpt2"]

    def said(*arguments: Path) -> str:
        assert cli.run(["read", *map(str, arguments)]) == 125
        (line,) = capfd.readouterr().err.splitlines()
        return line.removeprefix("simprof: ")

    for other in (files["loops", "naive"], files["switches", "qpt2"]):
        line = said(out, other)
        assert line == f"{other} was not written by {out}: it is of another program, or mode"
    assert said(own, files["loops", "naive"]).endswith("the mode is naive, not qpt2")
    whole = own.read_bytes()
    for size in (10, 100, len(whole) // 2, len(whole) - 1):
        own.write_bytes(whole[:size])
        assert " is cut " in said(out, own)


@pytest.mark.qemu
def test_the_counter_file_is_simprof_out_where_nobody_names_one(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE
) -> None:
    made = tmp_path / "made"
    written(capfd, fixture_elf("loops"), "--mode", "naive", "-o", made)
    assert run_under_qemu(made, "v9", tmp_path / "run").returncode == 0
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["simprof.out"]


@pytest.mark.qemu
@pytest.mark.parametrize("width", WIDTHS)
def test_a_program_that_cannot_write_its_counters_says_so_once(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE, width: str
) -> None:
    original, made = fixture_elf("nonlocal", width), tmp_path / "made"
    written(capfd, original, "--mode", "qpt2", "-o", made)
    plain = run_under_qemu(original, width, tmp_path / "plain")
    done = run_under_qemu(made, width, tmp_path / "run", "no/such/place")
    assert (done.returncode, done.stdout) == (4, plain.stdout)
    assert done.stderr == b"simprof: cannot write no/such/place: no profile\n"
    assert list((tmp_path / "run").iterdir()) == []


def test_the_file_may_be_executed_as_the_original(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE
) -> None:
    original, made = tmp_path / "original", tmp_path / "made"
    original.write_bytes(fixture_elf("loops").read_bytes())
    original.chmod(0o750)
    written(capfd, original, "--mode", "pp", "-o", made)
    mode = stat.S_IMODE(made.stat().st_mode)
    assert mode & 0o111 == 0o110
    assert written(capfd, original, "--mode", "pp", "-o", tmp_path / "again") is not None
    assert (tmp_path / "again").read_bytes() == made.read_bytes()


def test_a_device_keeps_its_permissions(fixture_elf: Find, capfd: CAPTURE) -> None:
    before = Path(os.devnull).stat().st_mode
    written(capfd, fixture_elf("loops"), "--mode", "pp", "-o", os.devnull)
    assert Path(os.devnull).stat().st_mode == before


# --- what it says


@pytest.mark.parametrize(("width", "number"), [("v9", 21), ("v8plus", 24), ("v8", 24)])
def test_what_was_done_as_json(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE, width: str, number: int
) -> None:
    original, made = fixture_elf("switches", width), tmp_path / "made"
    found = written(capfd, original, "--mode", "pp", "-o", made)
    segment, routines = found.pop("segment"), found.pop("routines")
    assert int(segment["address"], 16) % 1024 == 0
    assert 4096 < segment["bytes"] < made.stat().st_size
    assert routines == number
    assert found.pop("counter_bytes") > 0
    program = found.pop("program")
    assert (program["file"], len(program["sha256"])) == (str(original), 64)
    assert (found["options"]["path_limit"], "cold" in found.pop("options")) == (100_000_000, False)
    assert found.pop("measured_by")["cost_model"] == own_cost_version()
    assert found == {
        **head("instrument"),
        "input_sha256": None,
        "mode": "pp",
        "edge_profile_sha256": None,
        "output": str(made),
        "routines_left": [],
        "tables": 1,
        "application_registers": [],
    }


def test_routines_are_chosen_and_hash_tables_counted(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE
) -> None:
    common = (fixture_elf("loops"), "--mode", "pp", "-o", tmp_path / "made")
    one = written(capfd, *common, "--routine", "main")
    assert (one["routines"], one["tables"]) == (1, 0)
    hashed = written(capfd, *common, "--routine", "main", "--table", "hash")
    assert (hashed["routines"], hashed["tables"], hashed["counter_bytes"]) == (1, 1, 0)
    assert hashed["segment"]["bytes"] != one["segment"]["bytes"]


def test_a_routine_that_is_left_alone_is_named(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE
) -> None:
    found = written(capfd, fixture_elf("wide"), "--mode", "pp", "-o", tmp_path / "made")
    for left in found["routines_left"]:
        assert set(left) == {"routine", "reason"}
    arguments = ["instrument", fixture_elf("loops"), "--mode", "pp", "-o", tmp_path / "made"]
    assert cli.run([*map(str, arguments), "--report", str(tmp_path / "report")]) == 0
    assert capfd.readouterr() == ("", "")
    report = (tmp_path / "report").read_text()
    unwrapped = "".join(report.split())  # a long path takes two lines
    assert f"written{tmp_path / 'made'},modepp" in unwrapped


# --- what it refuses


def test_a_program_that_is_instrumented_already(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE
) -> None:
    made = tmp_path / "made"
    written(capfd, fixture_elf("loops"), "--mode", "pp", "-o", made)
    line = refused(capfd, tmp_path, made, "--mode", "naive", "-o", tmp_path / "twice")
    assert line == f"{made}: is already instrumented; give the original program"


@pytest.mark.toolchain
def test_a_dynamically_linked_program(compile_c: Compile, tmp_path: Path, capfd: CAPTURE) -> None:
    path = compile_c("int main(void) { return 0; }", static=False)
    line = refused(capfd, tmp_path, path, "--mode", "pp", "-o", tmp_path / "out")
    assert line == f'{path}: is dynamically linked; link with "-static"'


@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_a_position_independent_program(
    compile_c: Compile, tmp_path: Path, capfd: CAPTURE, width: str
) -> None:
    """Copies have old addresses as constants."""
    flags = ("-O1", "-nostdlib", "-ffreestanding", "-w", "-pie", "-Wl,--no-dynamic-linker")
    path = compile_c(program(1), flags, width, static=False)
    line = refused(capfd, tmp_path, path, "--mode", "pp", "-o", tmp_path / "out")
    assert line == f"{path}: is position-independent: link it for one address (-no-pie)"


@pytest.mark.toolchain
def test_an_object_file(compile_c: Compile, tmp_path: Path, capfd: CAPTURE) -> None:
    path = compile_c("int main(void) { return 0; }", ("-c",), static=False)
    line = refused(capfd, tmp_path, path, "--mode", "pp", "-o", tmp_path / "out")
    assert line == f'{path}: is a relocatable object; link it ("gcc -static")'


def test_a_program_of_another_machine(fixture_elf: Find, tmp_path: Path, capfd: CAPTURE) -> None:
    data = bytearray(fixture_elf("loops").read_bytes())
    data[18:20] = (62).to_bytes(2, "big")  # e_machine: x86-64
    path = tmp_path / "other"
    path.write_bytes(data)
    line = refused(capfd, tmp_path, path, "--mode", "pp", "-o", tmp_path / "out")
    assert line == f"{path}: is a program for x86-64, not SPARC; build it for SPARC"


@pytest.mark.long
@pytest.mark.seeds(range(24), few=8)
def test_a_damaged_program(fixture_elf: Find, tmp_path: Path, capfd: CAPTURE, seed: int) -> None:
    """It is refused with one line, and no file, or instrumented as what it is now."""
    rng = random.Random(seed)
    data = bytearray(fixture_elf("loops", WIDTHS[seed % len(WIDTHS)]).read_bytes())
    if seed % 4 == 0:
        del data[rng.randrange(len(data)) :]
    for _ in range(rng.choice([1, 3, 30])):
        place = rng.randrange(min(len(data), 0x200) if seed % 4 == 1 else len(data))
        data[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    path, made = tmp_path / "damaged", tmp_path / "made"
    path.write_bytes(data)
    made.unlink(missing_ok=True)
    status = cli.run(["instrument", str(path), "--mode", "naive", "-o", str(made)])
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert made.is_file() == (status == 0)
    if status:
        assert status == 125
        assert len(err.splitlines()) == 1
    assert {each.name for each in tmp_path.iterdir()} <= {"damaged", "made"}


def test_what_is_no_program(tmp_path: Path, capfd: CAPTURE) -> None:
    path = tmp_path / "text"
    path.write_text("no program")
    line = refused(capfd, tmp_path, path, "--mode", "pp", "-o", tmp_path / "out")
    assert line == f"{path}: is not an ELF file; give a SPARC ELF program"
    line = refused(capfd, tmp_path, tmp_path / "none", "--mode", "pp", "-o", tmp_path / "out")
    assert str(tmp_path / "none") in line


@pytest.mark.toolchain
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("extra", [(), ("-s",)])
def test_a_program_whose_text_can_be_written_to(
    compile_c: Compile, tmp_path: Path, capfd: CAPTURE, width: str, extra: tuple[str, ...]
) -> None:
    flags = ("-O1", "-nostdlib", "-ffreestanding", "-w", "-Wl,-N", *extra)
    path = compile_c(program(1), flags, width=width)
    line = refused(capfd, tmp_path, path, "--mode", "pp", "-o", tmp_path / "out")
    assert line.startswith(f"{path}: the program can write to its code at 0x")


@pytest.mark.toolchain
def test_a_routine_in_a_section_that_can_be_written_to(
    compile_c: Compile, tmp_path: Path, capfd: CAPTURE
) -> None:
    text = program(1).replace("noinline", 'noinline, section(".own,\\"awx\\",@progbits!")', 1)
    path = compile_c(text, ("-O1", "-nostdlib", "-ffreestanding", "-w"))
    line = refused(capfd, tmp_path, path, "--mode", "pp", "-o", tmp_path / "out")
    assert line.startswith(f"{path}: the program can write to its code at 0x")


def test_an_output_that_cannot_be_written(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE
) -> None:
    original = fixture_elf("loops")
    common = (original, "--mode", "pp", "-o")
    line = refused(capfd, tmp_path, *common, tmp_path / "none" / "out")
    assert line.endswith(f"there is no directory {tmp_path / 'none'}: create it first")
    assert "is a directory" in refused(capfd, tmp_path, *common, tmp_path)
    assert refused(capfd, tmp_path, *common, "/dev/full").startswith("/dev/full cannot be written")
    assert "only --json and --report can write to stdout" in refused(capfd, tmp_path, *common, "-")
    before = original.read_bytes()
    assert "is read as well" in refused(capfd, tmp_path, *common, original)
    assert original.read_bytes() == before


@pytest.mark.parametrize("mode", ["tpp"])
def test_a_guided_mode_needs_a_profile(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE, mode: str
) -> None:
    common = (fixture_elf("loops"), "--mode", mode, "-o", tmp_path / "out")
    line = refused(capfd, tmp_path, *common)
    assert line.startswith(f"{mode} is guided by an edge profile, and nothing is run here")
    profile = tmp_path / "profile"
    done = simprof("run", "--mode", "edges", "-o", profile, fixture_elf("sieve"), "1")
    assert done.returncode == 0
    other = refused(capfd, tmp_path, *common, "--edge-profile", profile)
    assert "another program" in other


def test_a_guided_mode_with_a_profile(fixture_elf: Find, tmp_path: Path, capfd: CAPTURE) -> None:
    profile, made = tmp_path / "profile", tmp_path / "made"
    done = simprof("run", "--mode", "edges", "-o", profile, fixture_elf("loops"))
    assert done.returncode == 0
    common = (fixture_elf("loops"), "--mode", "tpp", "-o", made)
    assert written(capfd, *common, "--edge-profile", profile)["mode"] == "tpp"


def test_who_counts_blocks_is_told_that_there_is_no_profile(
    fixture_elf: Find, tmp_path: Path
) -> None:
    """The program can be run and timed; `simprof read` can make no profile of its counters."""
    words = ("instrument", fixture_elf("loops"), "-o", tmp_path / "made", "--mode")
    for mode, is_told in (("qpt", True), ("qpt:placement=edge", False)):
        done = simprof(*words, mode)
        assert done.returncode == 0
        told = f"simprof: note: {mode} counts blocks, from which" in done.stderr.decode()
        assert told is is_told
        assert (tmp_path / "made").is_file()


@pytest.mark.parametrize("mode", ["edges", "nonsense"])
def test_a_mode_that_instruments_nothing(
    fixture_elf: Find, tmp_path: Path, capfd: CAPTURE, mode: str
) -> None:
    common = (fixture_elf("loops"), "--mode", mode, "-o", tmp_path / "out")
    assert "--mode" in refused(capfd, tmp_path, *common)
