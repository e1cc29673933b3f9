"""Programs with threads: every count against what each thread executed, instruction by instruction.

The log knows nothing of graphs (`oracles.threads`); it is walked thread by thread, and the profiles
of the threads are added up. qemu-user, whose threads run at once, says what programs print.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.profiles import storage
from simprof.profiler.profiles.tables import block_counts
from simprof.profiler.reports import run_json, run_text
from tests.oracles import qemu
from tests.oracles.exact import Simulated, check_profile, cut_edges, simulate
from tests.oracles.naive import NaiveProfile, profile_of
from tests.oracles.threads import add_up, executed_under_qemu, log_threads
from tests.support.turns import turns

PROGRAMS = Path(__file__).resolve().parents[1] / "programs" / "threads"
pytestmark = pytest.mark.toolchain
Compile = Callable[..., Path]


def compiled(compile_c: Compile, source: str, width: str, level: str = "-O1") -> Path:
    language = "c++" if source.endswith(".cc") else "c"
    flags = (level, "-g", "-pthread", "-w")
    return compile_c(PROGRAMS / source, flags=flags, width=width, language=language)


def walked(simulated: Simulated, path: Path, directory: Path, seed: int) -> NaiveProfile:
    """The profile of all threads, walked one by one; how they took turns is checked, too."""
    run = log_threads(path, directory, seed)
    result = simulated.observation.result
    assert run.result.instructions == result.instructions
    assert (run.result.reason, run.result.last_pc) == (result.reason, result.last_pc)
    assert run.result.threads == result.threads
    executed = [len(thread.pc) for thread in run.threads]
    assert executed == [each.instructions for each in result.threads]
    assert sum(executed) == result.instructions
    routines = simulated.observation.recovered.routines
    cut = cut_edges(simulated)
    return add_up(
        [profile_of(routines, *thread.arrays(), cut) for thread in run.threads if thread.pc]
    )


def check(path: Path, directory: Path, seed: int, modes: tuple[str, ...]) -> Simulated:
    simulated = simulate(path, directory=directory, modes=modes, thread_seed=seed)
    check_profile(simulated, walked(simulated, path, directory, seed))
    return simulated


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("source", "width", "seed"),
    [
        ("counter.c", "v9", 0),
        ("queue.c", "v8plus", 1),
        ("services.c", "v8plus", 5),
        ("restarts.c", "v9", 3),
        ("library.cc", "v9", 2),
    ],
)
def test_counts_are_those_of_the_threads_walked_one_by_one(
    compile_c: Compile, tmp_path: Path, source: str, width: str, seed: int
) -> None:
    path = compiled(compile_c, source, width)
    simulated = check(path, tmp_path, seed, ("pp", "qpt2"))
    expected = qemu.run(path, directory=tmp_path)
    assert (simulated.output, simulated.errors) == (expected.output, expected.errors)
    assert simulated.observation.result.status == expected.status == 0
    for measured in simulated.measurements.values():  # priced code is not safe where threads are
        (told,) = [each for each in measured.warnings if "not locked" in each]
        assert "increments can be lost when two threads update one counter" in told
        assert f"warning: {told[:40]}" in run_text.render(measured)
        assert told in json.loads(run_json.render(measured))["warnings"]


ALONE = {"counter.c": ("work", "body"), "queue.c": ("collatz",)}
"""Routines in which no thread does anything that depends on when it runs."""


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("source", "width"), [("queue.c", "v9")])
def test_blocks_are_executed_as_often_as_by_threads_that_run_at_once(
    compile_c: Compile, tmp_path: Path, source: str, width: str
) -> None:
    path = compiled(compile_c, source, width)
    simulated = simulate(path, directory=tmp_path, modes=("pp",), thread_seed=4)
    executed = executed_under_qemu(path, tmp_path)
    routines = {each.name: each for each in simulated.measurements["pp"].routines}
    for name in ALONE[source]:
        counts = block_counts(routines[name])
        assert len(counts) > 2
        slots = {block.start for block in counts if block.is_slot}
        found = {block.start: n for block, n in counts.items() if block.start not in slots}
        assert found == {start: executed[int(start)] for start in found}, name


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("source", "width"), turns(["futexes.c", "restarts.c"], ["v9", "v8plus"]))
def test_calls_that_wait_answer_as_under_qemu(
    compile_c: Compile, tmp_path: Path, source: str, width: str
) -> None:
    path = compiled(compile_c, source, width)
    expected = qemu.run(path, directory=tmp_path)
    outputs = [log_threads(path, tmp_path, seed).output for seed in (0, 1, 2)]
    assert outputs == [expected.output] * 3


def json_of(path: Path, directory: Path, seed: int) -> str:
    simulated = simulate(path, directory=directory, modes=("kiter",), thread_seed=seed)
    return run_json.render(simulated.measurements["kiter"])


@pytest.mark.long
def test_a_seed_decides_the_interleaving_and_nothing_else_does(
    compile_c: Compile, tmp_path: Path
) -> None:
    path = compiled(compile_c, "counter.c", "v9")
    first, again, other = (json_of(path, tmp_path, seed) for seed in (7, 7, 8))
    assert first == again != other
    orders = [log_threads(path, tmp_path, seed).order for seed in (0, 7, 8)]
    assert len({tuple(order) for order in orders}) == 3
    alone = [
        [
            (each["symbol"], each["path"], each["executions"])
            for each in json.loads(text)["paths"]
            if each["symbol"] in ALONE["counter.c"]
        ]
        for text in (first, other)
    ]
    assert alone[0] == alone[1] != []


@pytest.mark.long
def test_a_deadlock_is_named(compile_c: Compile, tmp_path: Path) -> None:
    path = compiled(compile_c, "deadlock.c", "v9")
    simulated = simulate(path, directory=tmp_path, modes=("pp",))
    assert simulated.output == b"started\n"
    measurement = simulated.measurements["pp"]
    ending = measurement.ending
    assert (ending.reason, ending.code, measurement.partial) == ("deadlock", 125, True)
    assert [(wait.thread, wait.name) for wait in ending.waits] == [
        (1, "futex"),
        (2, "futex"),
        (3, "futex"),
    ]
    assert [wait.routine for wait in ending.waits[1:]] == ["__lll_lock_wait"] * 2
    report = run_text.render(measurement, width=300)
    assert "deadlock: thread 1 waits in futex at 0x" in report
    assert "; thread 3 waits in futex at 0x" in report
    exit_object = json.loads(run_json.render(measurement))["exit"]
    assert (exit_object["reason"], len(exit_object["waits"])) == ("deadlock", 3)
    check_profile(simulated, walked(simulated, path, tmp_path, 0))
    loaded = tmp_path / "profile"
    storage.save(measurement, loaded)
    assert storage.load(loaded) == measurement


@pytest.mark.long
def test_calling_contexts_have_a_root_for_each_start(
    compile_c: Compile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, answer = compiled(compile_c, "counter.c", "v9"), tmp_path / "answer"
    options = ["--call-tree", "--self-check", "--no-cache", "--json", str(answer)]
    assert cli.run(["run", str(path), *options]) == 0
    found = json.loads(answer.read_text())
    tree = found["call_tree"]
    names = [routine["symbol"] for routine in tree["routines"]]
    roots = [each for each in tree["contexts"] if each["parent"] is None]
    starts = {names[each["routine"]]: each["calls"] for each in roots}
    assert starts == {"_start": 1, "__clone": 4}
    assert sum(each["inclusive"]["instructions"] for each in roots) == found["instructions"]["base"]
    assert found["threads"][0]["thread"] == 1
    executed = [each["instructions"] for each in found["threads"]]
    assert (len(executed), sum(executed)) == (5, found["instructions"]["base"])


@pytest.mark.long
def test_a_trace_follows_one_thread_and_refuses_the_second(
    compile_c: Compile, tmp_path: Path
) -> None:
    path = compiled(compile_c, "deadlock.c", "v9")
    words = ["run", "--mode", "bits", "--trace", str(tmp_path / "file"), str(path)]
    command = [sys.executable, "-m", "simprof", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        125,
        "simprof: a trace follows one thread, and the program starts a second one: "
        "run it without a trace\n",
    )
    assert not [*tmp_path.iterdir()]


@pytest.mark.long
def test_verify_refuses_threads(
    compile_c: Compile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = compiled(compile_c, "counter.c", "v9")
    assert cli.run(["verify", "--mode", "pp", "--on", "emulator", str(path)]) == 125
    assert "has 5 threads: verify compares runs of one" in capfd.readouterr().err


def test_programs_with_one_thread_say_nothing_of_threads(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    simulated = simulate(fixture_elf("sieve"), directory=tmp_path, modes=("pp",))
    assert simulated.observation.result.threads == ()
    assert "threads" not in json.loads(run_json.render(simulated.measurements["pp"]))


@pytest.mark.long
def test_two_hundred_threads_fit_into_memory(compile_c: Compile, tmp_path: Path) -> None:
    """A C library gives each of them a stack of `RLIMIT_STACK`: 32 bits have least room."""
    path = compiled(compile_c, "many.c", "v8plus")
    simulated = simulate(path, ("200",), directory=tmp_path, modes=("edges",))
    assert simulated.output == b"200\n"
    activations = {
        routine.name: routine.activations for routine in simulated.measurements["edges"].routines
    }
    assert activations["wait_for_all"] == 200
