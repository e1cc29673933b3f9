"""Jumps of which only a run tells where they lead: instrumented with one, and run with others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.profiles import storage
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.elsewhere.runtime import STATUS
from tests.conftest import EMULATORS
from tests.oracles import qemu
from tests.support import turns
from tests.support.cli_run import WIDTHS, simprof
from tests.support.jump_checks import FLAGS, instrumented
from tests.support.random_programs import BEGINNING

Compile = Callable[..., Path]
CAPTURE = pytest.CaptureFixture[str]
pytestmark = [pytest.mark.qemu, pytest.mark.toolchain]

JUMPS = 5
REFUSED = (
    b"simprof: a jump leads where no run has shown it to lead: instrument the program with a run "
    b"like this one, or without one\n"
)
"""Computed jumps of the run by `first`: one for each of its operations."""
CHECK = {"v9": 15, "v8plus": 15, "v8": 17}
"""Instructions of the test before each."""

INTERPRETER = (
    BEGINNING
    + """
static long get(void *to, long size) {
    register long g1 __asm__("g1") = 3;
    register long o0 __asm__("o0") = 0;
    register void *o1 __asm__("o1") = to;
    register long o2 __asm__("o2") = size;
    __asm__ volatile("ta " TRAP : "+r"(g1), "+r"(o0) : "r"(o1), "r"(o2) : "memory", "cc", "o7");
    return o0;
}
__attribute__((noinline)) int interpret(const unsigned char *code, int value) {
    static void *const labels[] = {&&add, &&sub, &&twice, &&square, &&end};
    goto *labels[*code++ - '0'];
add: value += 3; if (value & 1) value++; goto *labels[*code++ - '0'];
sub: value -= 2; goto *labels[*code++ - '0'];
twice: value *= 2; goto *labels[*code++ - '0'];
square: value *= value; goto *labels[*code++ - '0'];
end: return value;
}
int start(void) {
    unsigned char code[64];
    get(code, 64);
    return interpret(code, 1) & 127;
}
"""
)


def run(path: Path, width: str, code: str, directory: Path) -> tuple[int, bytes]:
    command = [EMULATORS[width], str(path)]
    done = subprocess.run(
        command, input=code.encode(), capture_output=True, check=False, cwd=directory, timeout=60
    )
    assert done.stdout == b""
    return done.returncode, done.stderr


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The input of the run that shows where jumps lead: not to `square`, and not each to all."""
    path = tmp_path / "first"
    path.write_text("01204")
    return path


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "optimisation", "mode"),
    turns.first(1, [*((width, "-O2", "pp") for width in WIDTHS), ("v9", "-O1", "qpt2")]),
)
def test_a_run_shows_where_jumps_lead(
    compile_c: Compile, tmp_path: Path, first: Path, width: str, optimisation: str, mode: str
) -> None:
    path = compile_c(INTERPRETER, (optimisation, *FLAGS), width)
    _, (left,) = instrumented(path, tmp_path, "--mode", mode)
    assert left["routine"] == "interpret"
    assert left["reason"].startswith("the code does not show where the jump at 0x")
    made, nothing = instrumented(path, tmp_path, "--mode", mode, "--stdin", str(first))
    assert nothing == []
    for code in ("4", "0012101014"):
        assert run(made, width, code, tmp_path) == run(path, width, code, tmp_path)
        counters, profile, simulated = (tmp_path / name for name in ("simprof.out", "p", "s"))
        assert simprof("read", made, counters, "-o", profile).returncode == 0
        counters.unlink()
        given = tmp_path / "given"
        given.write_text(code)
        simprof("run", "--mode", "edges", "--stdin", given, "-o", simulated, path)
        counts = [
            {key: [e for e in edges if e.count] for key, edges in saved.routines.items()}
            for saved in (storage.load(p).edge_profile() for p in (profile, simulated))
        ]
        assert {k: [e.count for e in v] for k, v in counts[0].items() if v} == {
            k: [e.count for e in v] for k, v in counts[1].items() if v
        }


@pytest.mark.parametrize("width", WIDTHS)
def test_a_jump_elsewhere_is_noticed(
    compile_c: Compile, tmp_path: Path, first: Path, width: str
) -> None:
    path = compile_c(INTERPRETER, ("-O1", *FLAGS), width)
    made, _ = instrumented(path, tmp_path, "--mode", "pp", "--stdin", str(first))
    assert run(path, width, "34", tmp_path)[0] == 1
    assert run(made, width, "34", tmp_path) == (STATUS, REFUSED)
    assert not (tmp_path / "simprof.out").exists()
    (tmp_path / "first").write_text("012304")
    made, _ = instrumented(path, tmp_path, "--mode", "pp", "--stdin", str(first))
    assert run(made, width, "34", tmp_path) == (1, b"")


@pytest.mark.long
@pytest.mark.parametrize("width", turns.first(1, WIDTHS))
def test_what_the_test_executes_is_predicted(
    compile_c: Compile, tmp_path: Path, first: Path, width: str, capfd: CAPTURE
) -> None:
    """Also by a counter that is not simprof's own, in the file that `instrument` writes."""
    path = compile_c(INTERPRETER, ("-O1", *FLAGS), width)
    command = ["verify", "--json", "-", "--mode", "pp,qpt2", "--stdin", first, path]
    assert cli.run(list(map(str, command))) == 0
    for name, mode in json.loads(capfd.readouterr().out)["modes"].items():
        assert mode["rewriting"][Cause.JUMP_CHECKS] == JUMPS * CHECK[width]
        assert mode["executed"] == {"emulator": mode["predicted"], "qemu": mode["predicted"]}
        assert mode["routines_left"] == []
        made, _ = instrumented(path, tmp_path, "--mode", name, "--stdin", str(first))
        empty = tmp_path / name
        empty.mkdir()
        assert qemu.count(made, empty, first.read_bytes()) == mode["predicted"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--timeout", "0.1"], "its own end (time limit reached): instrument with a shorter"),
        (["--stdin", "none"], "--stdin none cannot be read: name a readable file"),
        (["--root", "none"], "none"),
    ],
)
def test_a_run_that_shows_nothing(
    compile_c: Compile, tmp_path: Path, capfd: CAPTURE, options: list[str], said: str
) -> None:
    text = BEGINNING + 'int start(void) { for (;;) __asm__ volatile(""); }'
    path, made = compile_c(text, ("-O1", *FLAGS), "v9"), tmp_path / "made"
    command = ["instrument", str(path), "--mode", "pp", "-o", str(made), *options]
    assert cli.run(command) == 125
    (line,) = capfd.readouterr().err.splitlines()
    assert said in line
    assert not made.exists()


def test_a_run_guides_tpp(compile_c: Compile, tmp_path: Path, first: Path) -> None:
    path = compile_c(INTERPRETER, ("-O1", *FLAGS), "v9")
    made, _ = instrumented(path, tmp_path, "--mode", "tpp", "--run", "--stdin", str(first))
    assert run(made, "v9", "01204", tmp_path) == run(path, "v9", "01204", tmp_path)
    assert simprof("read", made, tmp_path / "simprof.out").returncode == 0
