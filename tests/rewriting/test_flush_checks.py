"""Programs that write instructions: where their own code changes, an instrumented one stops."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.elsewhere.runtime import STATUS
from tests.conftest import EMULATORS
from tests.support.cli_run import WIDTHS
from tests.support.jump_checks import FLAGS, instrumented
from tests.support.random_programs import BEGINNING

Compile = Callable[..., Path]
pytestmark = [pytest.mark.qemu, pytest.mark.toolchain]

REFUSED = (
    b"simprof: the program changes its own code, whose copy would not change: it cannot run "
    b"instrumented\n"
)
WRITES = (
    BEGINNING
    + """
static long call(long number, unsigned long a, long b, long c) {
    register long g1 __asm__("g1") = number;
    register unsigned long o0 __asm__("o0") = a;
    register long o1 __asm__("o1") = b;
    register long o2 __asm__("o2") = c;
    __asm__ volatile("ta " TRAP : "+r"(g1), "+r"(o0), "+r"(o1) : "r"(o2) : "memory", "cc", "o7");
    return o0;
}
static unsigned room[2] __attribute__((aligned(8192)));
__attribute__((noinline, noclone)) int answer(void) { __asm__ volatile(""); return 1; }
int start(void) {
    unsigned *code = OWN ? (unsigned *)answer : room;
    unsigned long page = (unsigned long)code & ~8191ul;
    call(74, page, 8192, 7); /* mprotect: read, write, execute */
    if (WRITE) {
        code[0] = 0x81c3e008; /* retl */
        code[1] = 0x9010202a; /* mov 42, %o0 */
    }
    __asm__ volatile("flush %0\\n\\tflush %0 + 4" :: "r"(code) : "memory");
    return WRITE ? ((int (*)(void))code)() : answer();
}
"""
)


def program(compile_c: Compile, width: str, *, own: bool, write: bool = True) -> Path:
    macros = f"#define OWN {int(own)}\n#define WRITE {int(write)}\n"
    return compile_c(macros + WRITES, ("-O1", *FLAGS), width)


def run(path: Path, width: str, directory: Path) -> tuple[int, bytes]:
    command = [EMULATORS[width], str(path)]
    done = subprocess.run(command, capture_output=True, check=False, cwd=directory, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize("width", WIDTHS)
def test_a_program_that_changes_its_own_code_stops(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    path = program(compile_c, width, own=True)
    made, _ = instrumented(path, tmp_path, "--mode", "naive")
    assert run(path, width, tmp_path) == (42, b"")
    assert run(made, width, tmp_path) == (STATUS, REFUSED)
    assert not (tmp_path / "simprof.out").exists()


@pytest.mark.parametrize("width", WIDTHS)
def test_generated_code_elsewhere_runs(compile_c: Compile, tmp_path: Path, width: str) -> None:
    path = program(compile_c, width, own=False)
    made, _ = instrumented(path, tmp_path, "--mode", "naive")
    assert run(made, width, tmp_path) == run(path, width, tmp_path) == (42, b"")
    assert (tmp_path / "simprof.out").exists()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_test_is_predicted(
    compile_c: Compile, width: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = program(compile_c, width, own=False, write=False)
    assert cli.run(["verify", "--json", "-", "--mode", "pp", str(path)]) == 0
    found = json.loads(capfd.readouterr().out)["modes"]["pp"]["rewriting"]
    assert 20 < found[Cause.FLUSHES] < 40
