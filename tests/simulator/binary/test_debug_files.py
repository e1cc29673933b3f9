"""Separate debug files: found by link and by build-id, refused where they are another program's."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import simprof
from simprof.profiler.cli import run
from simprof.profiler.profiles.program_files import find_program
from simprof.simulator.binary import elf
from simprof.simulator.binary.debug_info import DEBUG_DIR_VARIABLE, build_id_of
from simprof.simulator.binary.elf_records import read_image
from simprof.simulator.errors import UsageError

SOURCE = """
__attribute__((noinline)) int twice(int x) { return 2 * x; }
int main(int n, char **words) { return twice(n) - 2; }
"""
OBJCOPY = "sparc64-linux-gnu-objcopy"


@pytest.fixture
def parts(compile_c: Callable[..., Path], tmp_path: Path) -> tuple[Path, Path, Path]:
    """A program, the same without symbols and lines, and what was taken from it."""
    whole = tmp_path / "whole.elf"
    shutil.copy(compile_c(SOURCE, ("-O2", "-g", "-Wl,--build-id")), whole)
    bare, debug = tmp_path / "bin" / "bare.elf", tmp_path / "bin" / "bare.debug"
    bare.parent.mkdir()
    subprocess.run([OBJCOPY, "--only-keep-debug", whole, debug], check=True)
    subprocess.run([OBJCOPY, "--strip-all", whole, bare], check=True)
    return whole, bare, debug


def names(path: Path) -> set[str]:
    return {symbol.name for symbol in elf.load(path).symbols if symbol.is_function}


@pytest.mark.toolchain
def test_a_file_beside_the_program_is_found_by_its_link(parts: tuple[Path, Path, Path]) -> None:
    whole, bare, debug = parts
    assert "twice" not in names(bare)
    subprocess.run([OBJCOPY, f"--add-gnu-debuglink={debug}", bare], check=True)
    assert names(bare) == names(whole)
    linked, program = elf.load(bare), elf.load(whole)
    assert linked.debug_file == debug and program.debug_file is None
    assert list(linked.lines.stretches()) == list(program.lines.stretches()) != []
    # as everything that depends on which routines are known
    runs = [simprof.run(each, "pp", argv0="p", exe="/p") for each in (bare, whole)]
    assert [(each.name, each.added) for each in runs[0].routines] == [
        (each.name, each.added) for each in runs[1].routines
    ]
    (debug.parent / ".debug").mkdir()
    debug.rename(debug.parent / ".debug" / debug.name)
    assert names(bare) == names(whole)
    (debug.parent / ".debug" / debug.name).write_bytes(b"no ELF file")
    assert "twice" not in names(bare)


@pytest.mark.toolchain
def test_a_file_elsewhere_is_found_by_the_build_id(
    parts: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, bare, debug = parts
    identity = build_id_of(read_image(bare.read_bytes()))
    place = tmp_path / "debug" / ".build-id" / identity[:2] / f"{identity[2:]}.debug"
    place.parent.mkdir(parents=True)
    debug.rename(place)
    assert "twice" not in names(bare)
    monkeypatch.setenv(DEBUG_DIR_VARIABLE, str(tmp_path / "debug"))
    assert "twice" in names(bare)
    # kept graphs are those of the symbols that were known
    assert "twice" in {each.name for each in simprof.run(bare, "pp").routines}
    monkeypatch.delenv(DEBUG_DIR_VARIABLE)
    assert "twice" not in {each.name for each in simprof.run(bare, "pp").routines}


@pytest.mark.toolchain
def test_a_directory_is_searched_by_the_call_that_names_it_only(
    parts: tuple[Path, Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    _, bare, debug = parts
    subprocess.run([OBJCOPY, f"--add-gnu-debuglink={debug}", bare], check=True)
    elsewhere = debug.parent / "elsewhere"
    elsewhere.mkdir()
    debug.rename(elsewhere / debug.name)
    named = simprof.run(bare, "pp", debug_dir=elsewhere)
    assert "twice" in {each.name for each in named.routines}
    assert "twice" not in {each.name for each in simprof.run(bare, "pp").routines}
    assert run(["cfg", "--debug-dir", str(elsewhere), str(bare)]) == 0
    assert "twice" in capfd.readouterr().out
    assert run(["cfg", str(bare)]) == 0
    assert "twice" not in capfd.readouterr().out


@pytest.mark.toolchain
def test_the_unstripped_twin_says_the_lines_of_a_profile(
    parts: tuple[Path, Path, Path], compile_c: Callable[..., Path]
) -> None:
    whole, bare, _ = parts
    measurement = simprof.run(bare, "pp")
    found = find_program(measurement, whole).program
    assert found is not None and found.path == bare and not found.lines.is_empty
    assert "twice" not in {symbol.name for symbol in found.symbols}
    assert "twice" not in {each.name for each in measurement.routines}
    named = find_program(measurement, whole).named(measurement)
    assert "twice" in {each.name for each in named.routines}
    assert [each.key[0] for each in named.routines] == [
        each.key[0] for each in measurement.routines
    ]
    counted = [replace(each, name="") for each in named.routines]
    assert counted == [replace(each, name="") for each in measurement.routines]
    with pytest.warns(UserWarning, match="optimised code"):
        covered = simprof.export(measurement, "lcov", program=whole).decode()
    assert re.search(r"^FN:\d+,(\d+,)?twice$", covered, re.MULTILINE)
    other = compile_c(SOURCE.replace("2 * x", "3 * x"), ("-O2", "-g"))
    with pytest.raises(UsageError, match="is another program than the profile is of"):
        find_program(measurement, other)
