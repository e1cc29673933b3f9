"""Bare LEON3 programs: every count against what `qemu-system-sparc` executed, by single steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary import elf
from tests.oracles import leon
from tests.oracles.added import every_setting, save_edges
from tests.oracles.exact import check_profile, cut_edges, simulate, simulate_settings
from tests.oracles.naive import profile_of
from tests.oracles.profiles import check_profiles
from tests.oracles.steps import record

PROGRAMS = Path(__file__).resolve().parents[1] / "programs" / "leon"
pytestmark = pytest.mark.toolchain
Compile = Callable[..., Path]


def build(compile_c: Compile, source: str, level: str = "-O1") -> Path:
    folder = leon.FILES if source == "hello.c" else PROGRAMS
    return compile_c(folder / source, flags=(*leon.BUILD, level), width="v8")


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("source", "level"),
    [
        ("hello.c", "-O0"),
        ("windows.c", "-O2"),
        pytest.param("hello.c", "-O2", marks=pytest.mark.long),
        pytest.param("windows.c", "-O0", marks=pytest.mark.long),
    ],
)
def test_counts_are_those_of_what_qemu_executed(
    compile_c: Compile, tmp_path: Path, source: str, level: str
) -> None:
    path = build(compile_c, source, level)
    expected = leon.trace(path)
    logged = leon.log(path, tmp_path)
    assert logged.pc.tolist() == expected.pc[expected.executed].tolist()
    simulated = simulate(path, directory=tmp_path, modes=("pp", "qpt2", "edges"))
    assert simulated.output == expected.run.output == logged.output
    assert simulated.observation.result.instructions == expected.instructions
    profile = profile_of(
        simulated.observation.recovered.routines,
        expected.pc,
        expected.breaks,
        None,
        cut_edges(simulated),
        handlers=leon.HANDLERS,
    )
    check_profile(simulated, profile)


@pytest.mark.qemu
@pytest.mark.long
def test_all_modes_count_what_qemu_executed(compile_c: Compile, tmp_path: Path) -> None:
    path = build(compile_c, "windows.c", "-O2")
    settings = every_setting(save_edges(path, (), b"", tmp_path))
    simulated = simulate_settings(path, directory=tmp_path, settings=settings)
    routines = simulated.observation.recovered.routines
    check_profiles(simulated, settings, record(routines, leon.trace(path), leon.HANDLERS))


@pytest.mark.qemu
def test_registers_and_devices_are_those_of_qemu(compile_c: Compile, tmp_path: Path) -> None:
    path = build(compile_c, "registers.c")
    ours, theirs = (
        dict(line.rsplit(" ", 1) for line in output.decode().splitlines())
        for output in (leon.log(path, tmp_path).output, leon.trace(path).run.output)
    )
    spaces = {name: ours.pop(name) for name in list(ours) if name.startswith("space")}
    assert ours == {name: theirs[name] for name in theirs if not name.startswith("space")}
    # qemu answers with other registers here, and with zero for memory past the cache
    assert list(spaces.values()) == ["10220000", "18220000", "9de3bfa0"]


@pytest.mark.long
def test_interrupts_come_when_the_timer_says(compile_c: Compile, tmp_path: Path) -> None:
    path = build(compile_c, "timer.c")
    simulated = simulate(path, directory=tmp_path, modes=("pp", "qpt2", "kiter", "witness"))
    assert simulated.output == b"ticks 1 level 6 slept until 7\n"
    result = simulated.observation.result
    assert result.status == 0
    found = {routine.name: routine for routine in simulated.measurements["pp"].routines}
    logged = leon.log(path, tmp_path)
    assert len(logged.pc) == logged.result.instructions == result.instructions
    for name in ("handle_interrupt", "interrupt", "window_overflow", "window_underflow", "deep"):
        entered = (logged.pc == found[name].address).sum()
        assert found[name].activations >= entered - 10 * (name == "deep"), name
        assert found[name].activations <= entered, name
    (first,) = (logged.pc == leon.TRAP_TABLE + 16 * 0x16).nonzero()
    (second,) = (logged.pc == leon.TRAP_TABLE + 16 * 0x17).nonzero()
    assert len(first) >= 20
    assert len(second) == 1
    # Each thousand instructions, less what a block would have executed beyond that, or later by
    # as much as a handler takes that keeps traps disabled.
    assert all(900 < gap < 1100 for gap in (first[1:] - first[:-1]).tolist())


def test_input_comes_from_a_file(compile_c: Compile, tmp_path: Path) -> None:
    path = build(compile_c, "echo.c")
    simulated = simulate(path, (), b"some text\n", directory=tmp_path)
    assert simulated.output == b"SOME TEXT\n"


@pytest.mark.long
def test_the_program_itself_says_how_it_ended(compile_c: Compile, tmp_path: Path) -> None:
    path = build(compile_c, "windows.c")
    answer = tmp_path / "answer.json"
    command = [sys.executable, "-m", "simprof", "run", "--machine", "leon3", "--call-tree"]
    done = subprocess.run(
        [*command, "--json", str(answer), str(path)], capture_output=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert b"window_overflow" in done.stderr
    assert json.loads(answer.read_text())["exit"]["status"] == 3


def test_the_committed_program_is_built_from_its_sources(compile_c: Compile) -> None:
    strip = ("-O2", "-g0")
    path = compile_c(leon.FILES / "hello.c", flags=(*leon.BUILD, *strip), width="v8")
    built, committed = elf.load(path), elf.load(leon.FILES / "hello.elf")
    assert built.segments == committed.segments
    assert built.entry == committed.entry


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            ("instrument", "--mode", "pp", "-o", "out"),
            b"a program for leon3 cannot be instrumented",
        ),
        (("verify",), b"a program for leon3 cannot be instrumented"),
        (("run", "--machine", "linux"), b"is for leon3"),
    ],
)
def test_what_bare_programs_cannot_have_is_refused_in_one_line(
    tmp_path: Path, command: tuple[str, ...], words: bytes
) -> None:
    path = leon.FILES / "hello.elf"
    done = subprocess.run(
        [sys.executable, "-m", "simprof", *command, str(path)],
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 125
    assert words in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


FAST_TIMER = """
volatile int interrupts, turns;
void handle_interrupt(int level)
{
    interrupts++;
    *(volatile unsigned *)0x80000318 |= 16;
}
int main(void)
{
    *(volatile unsigned *)0x80000304 = SCALER;
    *(volatile unsigned *)0x80000314 = 0;
    *(volatile unsigned *)0x80000240 = 0xfffe;
    *(volatile unsigned *)0x80000318 = 0xf;
    while (turns < 5000)
        turns++;
    return interrupts > 0 ? 0 : 1;
}
"""
BAD_TABLE = """
int main(void)
{
    __asm__ volatile("mov 16, %%g2; wr %%g2, 0, %%tbr; nop; nop; nop; HOW" ::: "g2", "memory");
    return 0;
}
"""
ZEROED = "volatile int x; int main(void) { while (x < 20000) x++; return 7; }"
SENDS = "int main(void) { for (;;) *(volatile unsigned *)0x80000100 = 'x'; }"


def answer_of(
    program: Path, directory: Path, *words: str, stdout: int = subprocess.DEVNULL
) -> tuple[int, str, dict[str, object] | None]:
    """Run a program; return the status, what was said besides the report, and the answer."""
    answer = directory / "answer.json"
    options = ["--json", str(answer), "--report", str(directory / "report"), *words]
    done = subprocess.run(
        [sys.executable, "-m", "simprof", "run", *options, str(program)],
        stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=120,
    )  # fmt: skip
    found = json.loads(answer.read_text()) if answer.exists() else None
    return done.returncode, done.stderr.decode(), found


@pytest.mark.long
@pytest.mark.parametrize("scaler", [0])
def test_a_timer_that_is_faster_than_a_block_stops_nothing(
    compile_c: Compile, tmp_path: Path, scaler: int
) -> None:
    """The handler is entered again and again; the budget ends what may never end."""
    path = compile_c(
        FAST_TIMER.replace("SCALER", str(scaler)), flags=(*leon.BUILD, "-O2"), width="v8"
    )
    status, said, found = answer_of(path, tmp_path, "--max-instructions", "300000")
    assert said == "" and found is not None
    handled = {r["symbol"]: r["entered"] for r in found["routines"]}  # type: ignore[attr-defined]
    assert handled["handle_interrupt"] > 100
    if status:
        assert 299_000 < found["instructions"]["base"] <= 300_000  # type: ignore[index]


@pytest.mark.parametrize("how", ["ta 1", ".word 0"])
def test_a_trap_table_that_is_nowhere_ends_in_error_mode(
    compile_c: Compile, tmp_path: Path, how: str
) -> None:
    path = compile_c(BAD_TABLE.replace("HOW", how), flags=(*leon.BUILD, "-O1"), width="v8")
    status, said, found = answer_of(path, tmp_path)
    assert (status, said) == (134, "") and found is not None
    assert found["counts"]["unattributed_instructions"] == 0  # type: ignore[index]


def test_data_that_is_all_zero_lies_on_pages_of_its_own(compile_c: Compile, tmp_path: Path) -> None:
    path = compile_c(ZEROED, flags=(*leon.BUILD, "-O1"), width="v8")
    program = elf.load(path)
    (zeroed,) = (symbol for symbol in program.symbols if symbol.name == "x")
    assert zeroed.address >> 13 > max(span.end - 1 for span in program.code) >> 13
    assert answer_of(path, tmp_path)[0] == 7


@pytest.mark.long
def test_output_that_cannot_be_written_ends_the_run(compile_c: Compile, tmp_path: Path) -> None:
    path = compile_c(SENDS, flags=(*leon.BUILD, "-O1"), width="v8")
    words = ("--max-instructions", "50000")
    with Path("/dev/full").open("wb") as full:
        status, said, found = answer_of(path, tmp_path, *words, stdout=full.fileno())
    assert (status, found) == (125, None)
    assert "cannot be written to standard output (No space left on device)" in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        status, said, found = answer_of(path, tmp_path, *words, stdout=closed.fileno())
    assert (status, said) == (128 + 13, "")
    assert found is not None and found["exit"]["signal"] == 13  # type: ignore[index]


def test_tasks_with_stacks_of_their_own(compile_c: Compile, tmp_path: Path) -> None:
    """Each begins once, and is resumed; traps return behind `ta 5`, or go to a fix-up label."""
    alone = tuple(flag for flag in leon.BUILD if not flag.endswith(".S"))
    path = compile_c(PROGRAMS / "tasks.S", flags=alone, width="v8", language="asm")
    simulated = simulate(path, directory=tmp_path, modes=("edges", "pp", "qpt2", "kiter"))
    logged = leon.log(path, tmp_path)
    assert simulated.observation.result.status == logged.result.status == 100
    pc = logged.pc.tolist()
    for measurement in simulated.measurements.values():
        assert not measurement.warnings
        found = {routine.name: routine for routine in measurement.routines}
        entered = {name: found[name].activations for name in found if name != "_trap_table"}
        once = dict.fromkeys(("start", "one", "two", "three"), 1)
        handlers = {name: pc.count(found[name].address) for name in ("five", "odd", "tick")}
        # each fault leaves `faulty` for its fix-up label: a re-entry, no call
        assert entered == once | handlers | {"work": 100 + 70 + 30, "faulty": 30}
        assert handlers["five"] == 100
        assert handlers["odd"] == 30
        assert handlers["tick"] > 90
