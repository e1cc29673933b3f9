"""Instrumented programs that signals end: they write their counters, and notice nothing before."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.rewriting.elsewhere.counter_file import load
from simprof.profiler.rewriting.elsewhere.reading import read_profile
from simprof.profiler.rewriting.elsewhere.runtime import FATAL
from simprof.profiler.rewriting.instrument import instrument_after_run
from simprof.profiler.rewriting.qemu import EMULATORS
from simprof.profiler.rewriting.verification import EMULATOR
from simprof.profiler.schemes.registry import planned_modes
from simprof.simulator.binary import elf
from simprof.simulator.errors import UsageError
from simprof.simulator.isa.sparc import SIGNALS
from tests.support.read_back import run_instrumented
from tests.support.reading import compare, waiting
from tests.support.reading import observe as observe_run
from tests.support.turns import first, in_step, turns
from tests.support.verifying import EVERYWHERE, check_verified, verified

Compile = Callable[..., Path]
PROGRAM = Path(__file__).parents[1] / "programs" / "endings.c"
BARE = ("-nostdlib", "-O1", "-fno-toplevel-reorder")
WIDTHS = ("v9", "v8plus", "v8")
MODES = ("pp", "qpt2", "naive", "bittrace", "fifo", "witness", "bits", "block-trace")
ENDINGS = "0123689ab"
"""Arguments of the program: all endings that qemu-user models, and that come between blocks."""


def test_which_signals_are_fatal() -> None:
    """All that end a program by default, but for SIGKILL (signal(7))."""
    harmless = ("KILL", "STOP", "TSTP", "TTIN", "TTOU", "CHLD", "CONT", "URG", "WINCH")
    assert {SIGNALS[number] for number in FATAL} == set(SIGNALS.values()) - {
        f"SIG{name}" for name in harmless
    }


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.toolchain
@pytest.mark.parametrize(("how", "width"), turns(["1", "3", "b"], WIDTHS, few=1))
def test_it_is_as_predicted(compile_c: Compile, tmp_path: Path, width: str, how: str) -> None:
    program = compile_c(PROGRAM, flags=BARE, width=width)
    check_verified(verified(program, tmp_path, [how], modes=MODES))


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.toolchain
@pytest.mark.parametrize("width", first(1, ["v9", "v8plus"]))
def test_handlers_that_step_over_instructions(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    """In the middle of blocks and in all kinds of delay slots; paths and blocks go on."""
    source = PROGRAM.parent / "exact" / "resuming.c"
    program = compile_c(source, ("-O1", "-fno-pic", "-no-pie"), width=width)
    modes = ("pp", "kiter", "fifo", "bits")
    check_verified(verified(program, tmp_path, ["0"], modes=modes))


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.toolchain
@pytest.mark.parametrize(("how", "width"), in_step(ENDINGS, WIDTHS))
def test_every_ending_is_as_predicted(
    compile_c: Compile, tmp_path: Path, width: str, how: str
) -> None:
    program = compile_c(PROGRAM, flags=BARE, width=width)
    # Where wpp's code stands before a handler's sigreturn it takes a local register, which is dead
    # there: a kernel restores those of the interrupted routine from the stack. qemu-user 7.2 does
    # not, and its program goes on with another path register: the emulator is looked at alone.
    lacking = ["wpp"] if how in "89ab" else []
    # Half of the modes for each ending, in turn.
    half = planned_modes()[ENDINGS.index(how) % 2 :: 2]
    modes = [mode for mode in half if mode not in lacking]
    check_verified(verified(program, tmp_path, [how], modes=modes))
    if lacking:
        ways = (EMULATOR,)
        check_verified(verified(program, tmp_path, [how], modes=lacking, ways=ways), ways)


@pytest.mark.toolchain
@pytest.mark.parametrize("width", turns(WIDTHS, few=2))
def test_a_division_by_zero(compile_c: Compile, tmp_path: Path, width: str) -> None:
    """qemu-user ends there by itself, whatever is installed."""
    program = compile_c(PROGRAM, flags=BARE, width=width)
    result = verified(program, tmp_path, ["4"], modes=("pp", "qpt2"), ways=(EMULATOR,))
    check_verified(result, (EMULATOR,))


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v8plus", "v8"])
def test_the_older_system_call(compile_c: Compile, tmp_path: Path, width: str) -> None:
    """Only 32-bit programs have it."""
    program = compile_c(PROGRAM, flags=BARE, width=width)
    check_verified(verified(program, tmp_path, ["c"], modes=MODES), EVERYWHERE)


def instrumented(program: Path, directory: Path) -> Path:
    """Return a program that was instrumented with a run."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        guest = GuestOptions(root=directory, stdin=Path(os.devnull), stdout=null, stderr=null)
        file = instrument_after_run(RunRequest(program, guest, mode="qpt2")).file
    finally:
        os.close(null)
    made = directory / "instrumented"
    made.write_bytes(file)
    made.chmod(0o755)
    return made


WAITING = """
#include <unistd.h>
int main(void)
{
    char byte;
    write(1, "w", 1);
    return read(0, &byte, 1) + 3;
}
"""


def start(made: Path, directory: Path) -> subprocess.Popen[bytes]:
    """Start the program under qemu-user, and wait until it waits for its input."""
    emulator = EMULATORS[elf.load(made).machine]
    process = subprocess.Popen(
        [emulator, made], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"w"
    time.sleep(0.2)
    return process


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.toolchain
def test_a_signal_from_outside(compile_c: Compile, tmp_path: Path) -> None:
    """The program waits in a system call; with its file, it leaves no part of one."""
    made = instrumented(compile_c(WAITING, flags=("-O1",), width="v8plus"), tmp_path)
    for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        process = start(made, tmp_path)
        process.send_signal(sent)
        process.communicate(timeout=60)
        assert process.returncode == -sent
        assert load(tmp_path / "simprof.out").frames[0][0] & 1
        assert {path.name for path in tmp_path.iterdir()} == {"instrumented", "simprof.out"}
        (tmp_path / "simprof.out").unlink()


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.toolchain
def test_a_signal_that_whoever_started_the_program_ignores(
    compile_c: Compile, tmp_path: Path
) -> None:
    """It goes on as the original does.

    Whether qemu-user interrupts the system call (2) or not (4) is a matter of its version and of
    the moment, so that the two need not agree in that.
    """
    original = compile_c(WAITING, flags=("-O1",))
    statuses = []
    for program in (original, instrumented(original, tmp_path)):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            process = start(program, tmp_path)
        finally:
            signal.signal(signal.SIGHUP, before)
        process.send_signal(signal.SIGHUP)
        process.communicate(b"x", timeout=60)
        statuses.append(process.returncode)
    assert set(statuses) <= {4, 2}
    assert load(tmp_path / "simprof.out").frames[0][0] & 1 == 0


# --- reading


@pytest.mark.toolchain
@pytest.mark.parametrize(("width", "how"), turns(WIDTHS, ["0", "2", "8"], few=2))
def test_a_profile_is_read_back(compile_c: Compile, tmp_path: Path, width: str, how: str) -> None:
    """The program sends itself a signal, in calls under way; it has no other arguments."""
    run = observe_run(
        compile_c(PROGRAM, flags=(*BARE, f"-DHOW={how}"), width=width), ["pp", "qpt2", "naive"]
    )
    assert "deep" in waiting(run) or how == "8"
    for name in ("qpt2", "naive"):
        read = read_profile(load(run_instrumented(run, name, tmp_path)))
        compare(read, run.simulated(name))


@pytest.mark.toolchain
@pytest.mark.parametrize("width", WIDTHS)
def test_a_fault_within_a_block_is_refused(compile_c: Compile, tmp_path: Path, width: str) -> None:
    run = observe_run(compile_c(PROGRAM, flags=(*BARE, "-DHOW=3"), width=width), ["qpt2"])
    counters = load(run_instrumented(run, "qpt2", tmp_path))
    with pytest.raises(UsageError, match="a signal ended the program within a block"):
        read_profile(counters)
