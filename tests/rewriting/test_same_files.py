"""What instrumenting and verifying answer depends on the question only.

Not on hash seeds, on how many processes work, nor on where in the file system they work.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.request.request import (
    GuestOptions,
    Progress,
    RunRequest,
    SchemeOptions,
    Selection,
    Setting,
)
from simprof.profiler.rewriting.instrument import collected_later, instrument_file
from simprof.profiler.rewriting.trials import TrialDirectory
from simprof.profiler.rewriting.verification import EMULATOR, QEMU
from simprof.profiler.rewriting.verify import verify
from simprof.profiler.schemes.registry import definition, planned_modes
from simprof.simulator.errors import UsageError
from tests.support.turns import first
from tests.support.verifying import check_verified

Find = Callable[..., Path]
Compile = Callable[..., Path]

SHOWS_ITS_NAMES = """
#include <stdio.h>
#include <sys/auxv.h>
int main(int count, char **arguments)
{
    const char *file = (const char *)getauxval(AT_EXECFN);
    return printf("%d %s\\n%s\\n", count, arguments[0], file) < 0;
}
"""


def settings(*modes: str) -> list[Setting]:
    """Return modes with their default options."""
    return [Setting(mode, mode, SchemeOptions()) for mode in modes]


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "width"), first(1, [("pp", "v9"), ("kiter", "v8plus"), ("witness", "v8")])
)
def test_hash_seeds_do_not_change_a_file(
    fixture_elf: Find, tmp_path: Path, mode: str, width: str
) -> None:
    start = "from simprof.profiler.cli import main; main()"
    command = [sys.executable, "-c", start, "instrument", f"--mode={mode}", "-o"]
    files = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        given = [*command, str(out), str(fixture_elf("control", width))]
        subprocess.run(given, env=environment, check=True, capture_output=True)
        files.append(out.read_bytes())
    assert files[0] == files[1]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The files that `verify` puts in the place of the original, to be executed."""
    files: list[bytes] = []
    put = TrialDirectory.put

    def noting(place: TrialDirectory, program: bytes) -> None:
        if program != place.original:  # which writes the trace that is expected
            files.append(program)
        put(place, program)

    monkeypatch.setattr(TrialDirectory, "put", noting)
    return files


def check_same_files(
    path: Path, directory: Path, executed: list[bytes], given: Sequence[str], modes: Sequence[str]
) -> None:
    """Check that `verify` executes what `instrument` writes; `given`: for a run."""
    command = ["verify", "--on", "emulator", "--report", os.devnull, "--root", str(directory)]
    command += ["--jobs", "1"] if given else ["--jobs", "1", "--without-run"]
    assert cli.run([*command, "--mode", ",".join(modes), *given, str(path)]) == 0
    assert len(executed) == len(modes)
    for mode, file in zip(modes, executed, strict=True):
        made = directory / "made"
        command = ["instrument", "--mode", mode, "-o", str(made), "--report", os.devnull]
        command += ["--root", str(directory), "--run", *given] if given else []
        assert cli.run([*command, str(path)]) == 0
        assert made.read_bytes() == file, mode
        made.unlink()


@pytest.mark.parametrize("given", [(), pytest.param(("--env", "A=1"), marks=pytest.mark.long)])
def test_verify_executes_what_instrument_writes(
    fixture_elf: Find, tmp_path: Path, executed: list[bytes], given: tuple[str, ...]
) -> None:
    modes = [mode for mode in planned_modes() if given or not definition(mode).guided]
    check_same_files(fixture_elf("faults", "v8plus"), tmp_path, executed, given, modes)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v8plus"])
def test_verify_executes_what_instrument_writes_of_programs_with_a_library(
    compile_c: Compile, tmp_path: Path, executed: list[bytes], width: str
) -> None:
    """Its start looks at the program's name, and its jumps are explained by the run alone."""
    path = compile_c(SHOWS_ITS_NAMES, ("-O2",), width=width)
    check_same_files(path, tmp_path, executed, ("--env", "A=1"), ("pp",))


def test_progress_is_told_and_changes_nothing(fixture_elf: Find) -> None:
    path, (setting,) = fixture_elf("control"), settings("pp")
    told: list[Progress] = []
    watched = instrument_file(path, setting, Selection(), told.append)
    assert watched.file == instrument_file(path, setting, Selection()).file
    phases = list(dict.fromkeys(str(progress.phase) for progress in told))
    assert phases == [
        "recovering graphs",
        "generating code",
        "copying routines",
        "putting code in its place",
    ]


@pytest.mark.long
@pytest.mark.parametrize("width", first(1, ["v9", "v8"]))
def test_processes_change_no_result(fixture_elf: Find, tmp_path: Path, width: str) -> None:
    request = RunRequest(fixture_elf("control", width), GuestOptions(root=tmp_path))
    told: list[tuple[int, int]] = []
    watched = replace(request, progress=lambda p: told.append((p.done, p.total)))
    alone = verify(watched, settings("pp", "tpp", "naive", "bits"), [EMULATOR])
    assert told[-5:] == [(done, 4) for done in range(5)]
    together = verify(request, settings("pp", "tpp", "naive", "bits"), [EMULATOR], jobs=3)
    assert alone == together
    check_verified(together, [EMULATOR])


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_name_the_users_file(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setattr("simprof.profiler.rewriting.instrument.find_room", lambda *_: None)
    path = fixture_elf("control")
    with pytest.raises(Exception, match="its code is too large") as error:
        verify(RunRequest(path, GuestOptions(root=tmp_path)), settings("pp", "qpt"), [], jobs=jobs)
    assert str(error.value).startswith(f"{path}: ")


def test_places_below_the_root_are_not_copied(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    """As with `--root /tmp`: a copy would have a copy of itself, and those of other processes."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "place").write_text("a file of the program's")
    request = RunRequest(fixture_elf("control"), GuestOptions(root=tmp_path / "data" / ".."))
    for name in ("0", "1"):
        with TrialDirectory(request, tmp_path / "places" / name).fresh() as guest:
            assert [path.name for path in guest.root.iterdir()] == ["data"]
            assert [path.name for path in (guest.root / "data").iterdir()] == ["place"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    request = RunRequest(tmp_path / "none", GuestOptions(root=tmp_path))
    with pytest.raises(UsageError, match="none cannot be read"):
        TrialDirectory(request, tmp_path / "place")


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
def test_names_are_the_same_everywhere(compile_c: Compile, tmp_path: Path) -> None:
    path = compile_c(SHOWS_ITS_NAMES, ("-O2",))
    guest = GuestOptions(root=tmp_path, argv0=b"/usr/bin/" + b"very-" * 20 + b"long")
    check_verified(verify(RunRequest(path, guest), settings("qpt2"), [EMULATOR, QEMU]))


def test_garbage_is_collected_again_afterwards() -> None:
    assert gc.isenabled()
    with pytest.raises(UsageError), collected_later():
        with collected_later():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise UsageError("no")
    assert gc.isenabled()
