"""Programs that are dynamically linked and have threads: what each thread executed, in all modules.

The log of the threads (`oracles.threads`) gives every count, instruction by instruction. qemu-user,
whose threads run at once, gives the output, and the counts of routines that do the same whenever
they run: those of the program and of a library with thread-local storage of its own.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from simprof.profiler.profiles.profile import RoutineProfile
from simprof.profiler.profiles.tables import block_counts
from simprof.profiler.reports import run_json
from simprof.profiler.request.request import SchemeOptions, Setting
from simprof.simulator.binary.dynamic import EARLIER
from tests.conftest import COMPILERS
from tests.oracles.exact import Simulated, check_profile, cut_edges, simulate, simulate_settings
from tests.oracles.linked import OWN_BASES, make_sysroot, places, with_earlier
from tests.oracles.naive import profile_of
from tests.oracles.threads import add_up, executed_under_qemu, log_threads

PROGRAMS = Path(__file__).resolve().parents[1] / "programs" / "threads"
FLAGS = {"v9": ("-m64",), "v8plus": ("-m32", "-mcpu=v9")}
BITS = {"v9": "64", "v8plus": "32"}
ALONE = ("work", "body", "counted.so:count", "counted.so:odd")
"""Routines in which nothing depends on when a thread runs."""
OUTPUT = b"0: 728\n1: 814\n2: 868\n6030 10\n"
STATUS = 5
pytestmark = pytest.mark.toolchain


def build(directory: Path, width: str) -> Path:
    """Compile the program, and the library that it opens."""
    for name, source, flags in (
        ("counted.so", "counted.c", ("-shared", "-fPIC")),
        ("main", "linked.c", ("-g", "-w", "-pthread", "-pie")),
    ):
        command = [COMPILERS["c"], *FLAGS[width], "-O1", *flags, str(PROGRAMS / source), "-o"]
        subprocess.run([*command, str(directory / name)], check=True)
    return directory / "main"


def alone(simulated: Simulated, mode: str) -> dict[str, RoutineProfile]:
    """The routines of `ALONE`, by name."""
    routines = {each.name: each for each in simulated.measurements[mode].routines}
    return {name: routines[name] for name in ALONE}


@pytest.mark.long
@pytest.mark.parametrize(("width", "seed"), [("v9", 6)])
def test_counts_are_those_of_the_threads_walked_one_by_one(
    tmp_path: Path, width: str, seed: int
) -> None:
    path = build(tmp_path, width)
    simulated = simulate(path, directory=tmp_path, thread_seed=seed)
    observation = simulated.observation
    result, program = observation.result, observation.recovered.program
    assert (simulated.output, result.status) == (OUTPUT, STATUS)
    log = log_threads(path, tmp_path, seed, program)
    assert (log.output, log.result.status) == (OUTPUT, STATUS)
    assert log.result.threads == result.threads
    assert [len(each.pc) for each in log.threads] == [each.instructions for each in result.threads]
    earlier = dict(observation.discoveries.earlier)
    assert earlier
    profiles = []
    for thread in log.threads:
        pc, breaks, sp = thread.arrays()
        pc = with_earlier(pc, earlier, EARLIER)
        profiles.append(
            profile_of(observation.recovered.routines, pc, breaks, sp, cut_edges(simulated))
        )
    check_profile(simulated, add_up(profiles))


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v8plus"])
def test_blocks_are_executed_as_often_as_under_qemu(tmp_path: Path, width: str) -> None:
    path, sysroot = build(tmp_path, width), make_sysroot(tmp_path, BITS[width])
    simulated = simulate(path, directory=tmp_path, modes=("pp",), sysroot=sysroot, thread_seed=4)
    assert (simulated.output, simulated.observation.result.status) == (OUTPUT, STATUS)
    executed = executed_under_qemu(path, tmp_path, sysroot, STATUS)
    program = simulated.observation.recovered.program
    library = next(each for each in program.modules if each.file.endswith("counted.so"))
    there = next(
        place
        for place in places(path, (), b"", None, tmp_path, sysroot)
        if place.file.name == "counted.so"
    )
    for name, routine in alone(simulated, "pp").items():
        distance = (
            there.bias - library.bias
            if name.startswith("counted.so")
            else OWN_BASES[int(BITS[width])] - program.load_bias
        )
        found = {b.start: n for b, n in block_counts(routine).items() if not b.is_slot}
        assert sum(found.values()) > 24
        assert found == {start: executed[int(start) + distance] for start in found}, name


@pytest.mark.long
def test_a_seed_decides_the_interleaving_and_nothing_else_does(tmp_path: Path) -> None:
    path = build(tmp_path, "v9")
    pp = [Setting("pp", "pp", SchemeOptions())]
    runs = [
        simulate_settings(path, directory=tmp_path, settings=pp, thread_seed=s, self_check=False)
        for s in (3, 3, 5)
    ]
    assert {run.output for run in runs} == {OUTPUT}
    first, again, other = (run_json.render(run.measurements["pp"]) for run in runs)
    assert first == again != other
    modules = {Path(each["file"]).name for each in json.loads(first)["program"]["modules"]}
    assert modules == {"ld-linux.so.2", "libc.so.6", "counted.so"}
    blocks = [
        {name: block_counts(routine) for name, routine in alone(run, "pp").items()} for run in runs
    ]
    assert blocks[0] == blocks[1] == blocks[2]
