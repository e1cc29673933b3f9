"""Programs with data behind calls, and without register windows: counted and rewritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.rewriting.instrument import basis_without_run, instrument
from simprof.profiler.session.session import run_program
from tests.oracles import qemu
from tests.support.verifying import check_verified, verified

Compile = Callable[..., Path]
PROGRAMS = Path(__file__).parents[1] / "programs" / "exact"
BEHIND = PROGRAMS / "data_behind_call.S"
FLAT = ("-O0", "-mflat", "-nostdlib", "-ffreestanding", "-fno-pic", "-no-pie", "-w")
WIDTHS = ("v9", "v8plus", "v8")
pytestmark = [pytest.mark.toolchain]


def rewritten(program: Path, directory: Path, mode: str) -> tuple[qemu.Run, dict[str, str]]:
    """Return what an instrumented program does, and which routines it leaves alone."""
    order = basis_without_run(program).order(Setting(mode, mode, SchemeOptions()))
    made = instrument(order, program.read_bytes())
    path = directory / "instrumented"
    path.write_bytes(made.file)
    path.chmod(0o755)
    return qemu.run(path, (), directory=directory, timeout=20), dict(made.left_names)


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_each_routine_is_entered_as_often_as_it_is_called(
    compile_c: Compile, tmp_path: Path, width: str, strip: bool
) -> None:
    flags = ("-nostdlib", "-s") if strip else ("-nostdlib",)
    program = compile_c(BEHIND, flags, width=width, language="asm")
    measured = run_program(RunRequest(program, GuestOptions(tmp_path), mode="pp"))
    entered = sorted(routine.activations for routine in measured.routines if routine.activations)
    assert entered == [1, 12, 12, 12, 12, 12]


RETURNING = {"-DSKIPS": [1, 12, 12, 12, 12, 12, 12], "-DPOINTER": [1, 12, 12, 12, 12, 12, 24]}


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("case", RETURNING)
@pytest.mark.parametrize("width", WIDTHS)
def test_calls_that_return_elsewhere_are_no_entries(
    compile_c: Compile, tmp_path: Path, width: str, case: str, strip: bool
) -> None:
    """To one of two places, or behind data though called through a pointer."""
    flags = ("-nostdlib", "-no-pie", "-fno-pic", case, *(("-s",) if strip else ()))
    program = compile_c(BEHIND, flags, width=width, language="asm")
    request = RunRequest(program, GuestOptions(tmp_path), mode="pp", self_check=True)
    measured = run_program(request)
    entered = sorted(routine.activations for routine in measured.routines if routine.activations)
    if strip and case == "-DPOINTER":  # without names `far` is the end of `moved`
        assert entered == [1, 12, 12, 12, 24, 24]
    else:
        assert entered == RETURNING[case]
    assert measured.counts["unattributed_transfers"] == 0


@pytest.mark.qemu
@pytest.mark.parametrize("mode", ["pp", "qpt2"])
@pytest.mark.parametrize("width", WIDTHS)
def test_data_behind_calls_stay_what_they_are(
    compile_c: Compile, tmp_path: Path, width: str, mode: str
) -> None:
    program = compile_c(BEHIND, ("-nostdlib",), width=width, language="asm")
    done, left = rewritten(program, tmp_path, mode)
    assert done.status == qemu.run(program, (), directory=tmp_path, timeout=20).status
    assert left == {}


@pytest.mark.qemu
@pytest.mark.parametrize("width", WIDTHS)
def test_a_caller_is_left_alone_whose_callee_returns_to_one_of_two_places(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    program = compile_c(BEHIND, ("-nostdlib", "-DSKIPS"), width=width, language="asm")
    done, left = rewritten(program, tmp_path, "pp")
    assert done.status == qemu.run(program, (), directory=tmp_path, timeout=20).status
    assert list(left) == ["rounds"]
    assert "may return elsewhere than after the call" in left["rounds"]
    check_verified(verified(program, tmp_path, modes=["pp", "qpt2"]))


@pytest.mark.qemu
@pytest.mark.parametrize("mode", ["pp", "qpt2", "kiter", "bits"])
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_routines_without_windows_are_left_alone(
    compile_c: Compile, tmp_path: Path, width: str, mode: str
) -> None:
    program = compile_c(PROGRAMS / "flat.c", FLAT, width=width)
    done, left = rewritten(program, tmp_path, mode)
    assert done.status == qemu.run(program, (), directory=tmp_path, timeout=20).status
    assert set(left) == {"sel", "_start"}
    assert "(-mflat)" in left["sel"]
