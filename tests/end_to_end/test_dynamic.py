"""Dynamically linked programs: every count as in qemu-user's log, whichever module it is in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from simprof.profiler.profiles import storage
from simprof.simulator.binary.dynamic import EARLIER
from tests.conftest import COMPILERS
from tests.oracles.exact import check_profile, naive_profile, simulate
from tests.oracles.linked import LIBRARIES, make_sysroot, moved, trace_linked
from tests.support.turns import first

MAIN = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int add(int x) { return x + 3; }
int main(void)
{
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof numbers[0], by_value);
    void *library = dlopen("./twice.so", RTLD_LAZY);
    if (library == NULL) { puts(dlerror()); return 1; }
    int (*twice)(int (*)(int), int) = (int (*)(int (*)(int), int))dlsym(library, "twice");
    for (int i = 0; i < 3; i++)
        printf("%d %g\\n", twice(add, numbers[i]), 1.5 / numbers[i]);
    dlclose(library);
    return 3;
}
"""
LIBRARY = """
#include <stdio.h>
__attribute__((constructor)) static void up(void) { puts("up"); }
__attribute__((destructor)) static void down(void) { puts("down"); }
int twice(int (*f)(int), int x) { return f(f(x)); }
"""
OUTPUT = b"up\n7 1.5\n8 0.75\n9 0.5\ndown\n"
WIDTHS = [(width, kind) for width in LIBRARIES for kind in ("-pie", "-no-pie")]


def build(directory: Path, width: str, kind: str) -> Path:
    """Compile the program and the library that it opens."""
    for name, text, flags in (
        ("twice.so", LIBRARY, ("-shared", "-fPIC")),
        ("main", MAIN, ("-g", kind, *(["-fno-pie"] if kind == "-no-pie" else []))),
    ):
        source = directory / f"{name}.c"
        source.write_text(text)
        command = [COMPILERS["c"], f"-m{width}", "-O2", *flags, str(source), "-o"]
        subprocess.run([*command, str(directory / name)], check=True)
    return directory / "main"


def check_exact(directory: Path, width: str, kind: str) -> None:
    """Compare a run with qemu-user's: output, instructions, edges and paths."""
    sysroot = make_sysroot(directory, width)
    path = build(directory, width, kind)
    simulated = simulate(path, directory=directory, sysroot=sysroot)
    observation = simulated.observation
    program = observation.recovered.program
    logged, found = trace_linked(
        path, directory=directory, sysroot=sysroot, interpreter=program.parts[1].path
    )
    assert simulated.output == logged.run.output == OUTPUT
    assert observation.result.status == logged.run.status == 3
    assert observation.result.instructions == logged.instructions
    biases: defaultdict[Path, list[int]] = defaultdict(list)
    biases[path.resolve()].append(program.load_bias)
    for module in program.modules:
        biases[Path(module.file).resolve()].append(module.bias)
    assert len(found) == 4
    earlier = dict(observation.discoveries.earlier)
    reference = moved(logged, found, biases, earlier, EARLIER)
    assert earlier
    check_profile(simulated, naive_profile(simulated, reference))


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(("width", "kind"), WIDTHS[1:2])
def test_all_counts_are_those_of_qemu_in_every_module(
    tmp_path: Path, width: str, kind: str
) -> None:
    check_exact(tmp_path, width, kind)


LATE = """
#include <dlfcn.h>
#include <stdio.h>
static volatile int turns;
static int add(int x) { return x + 3; }
int main(void)
{
    for (int i = 0; i < 700000; i++) turns++;
    void *library = dlopen("./twice.so", RTLD_LAZY);
    return ((int (*)(int (*)(int), int))dlsym(library, "twice"))(add, 1);
}
"""


@pytest.mark.long
@pytest.mark.toolchain
def test_a_routine_is_selected_of_a_module_that_is_loaded_late(tmp_path: Path) -> None:
    """More than three million instructions are executed before, which is when runs are given up."""
    build(tmp_path, "64", "-pie")
    (tmp_path / "late.c").write_text(LATE)
    command = [COMPILERS["c"], "-O1", str(tmp_path / "late.c"), "-o", str(tmp_path / "late")]
    subprocess.run(command, check=True)
    done = simprof(
        "run", "--mode=pp", "--routine=twice", "--json=out", tmp_path / "late", at=tmp_path
    )
    assert done.returncode == 7, done.stderr
    result = json.loads((tmp_path / "out").read_text())
    assert [each["symbol"] for each in result["routines"]] == ["twice.so:twice"]
    assert result["instructions"]["base"] > 3_000_000


@pytest.mark.long
@pytest.mark.toolchain
def test_reports_name_the_module(tmp_path: Path) -> None:
    path, profile, result = build(tmp_path, "64", "-pie"), tmp_path / "p", tmp_path / "json"
    done = simprof("run", "--mode=edges", path, f"-o{profile}", f"--json={result}", at=tmp_path)
    assert (done.returncode, done.stdout) == (3, OUTPUT), done.stderr
    assert b"ld-linux.so.2+0x" in done.stderr  # which does the most
    names = [routine.name for routine in storage.load(profile).routines]
    assert {"main", "by_value", "twice.so:twice", "libc.so.6:_IO_puts"} <= set(names)
    assert "puts@plt.unbound" not in names  # the library's own
    assert any(name.endswith("@plt.unbound") for name in names)
    modules = json.loads(result.read_text())["program"]["modules"]
    assert {Path(each["file"]).name for each in modules} == {
        "ld-linux.so.2", "libc.so.6", "twice.so",
    }  # fmt: skip
    follow = ["run", "--top=0", path, "--follow"]
    done = simprof(*follow, "twice", at=tmp_path)
    assert b"Calls of twice.so:twice, with all that they execute" in done.stderr
    done = simprof(*follow, "twicer", at=tmp_path)
    assert done.returncode == 125
    assert b"the program and the libraries that it loads have no such routine" in done.stderr
    assert b"did you mean 'twice'" in done.stderr
    shown = simprof("show", profile, "source", "twice", at=tmp_path)
    assert shown.returncode == 0 and b"twice.so:twice" in shown.stdout, shown.stderr


# A program that needs no C library: its loader has little code, which is recovered in a second.
START = """
int twice(int);
void _start(void)
{
    register int status asm("o0") = twice(20) + 2;
    register long number asm("g1") = 1;
    asm volatile("ta 0x6d" : : "r"(status), "r"(number));
    __builtin_unreachable();
}
"""


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("mode", first(1, ["edges", "tpp"], at=1))
def test_a_small_program_and_its_library_are_counted(mode: str, tmp_path: Path) -> None:
    for name, text, flags in (
        ("twice.so", "int twice(int x) { return 2 * x; }", ["-shared", "-fPIC"]),
        ("main", START, ["-g", "-pie", "./twice.so"]),
    ):
        (tmp_path / f"{name}.c").write_text(text)
        command = [COMPILERS["c"], "-m64", "-O2", "-nostdlib", f"{name}.c", *flags, "-o", name]
        subprocess.run(command, check=True, cwd=tmp_path)
    done = simprof("run", f"--mode={mode}", "--json=result", "./main", at=tmp_path)
    assert done.returncode == 42, done.stderr
    result = json.loads((tmp_path / "result").read_text())
    assert result["exit"] == {"status": 42, "reason": "exit"}
    assert result["counts"]["unattributed_instructions"] == 0
    routines = {each["routine"]: each for each in result["routines"]}
    assert {"_start", "twice.so:twice"} <= routines.keys()
    assert routines["twice.so:twice"]["entered"] == 1
    assert (routines["_start"]["file"], routines["_start"]["line"]) == (f"{tmp_path}/main.c", 4)
    modules = [Path(each["file"]).name for each in result["program"]["modules"]]
    assert modules == ["ld-linux.so.2", "twice.so"]


@pytest.mark.toolchain
def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    path = build(tmp_path, "64", "-pie")
    empty = tmp_path / "empty"
    empty.mkdir()
    done = simprof("run", f"--sysroot={empty}", path, at=tmp_path)
    assert done.returncode == 125
    assert done.stderr.decode().splitlines() == [
        f"simprof: {path}: is dynamically linked, and its interpreter /lib64/ld-linux.so.2 is not "
        f"in {empty}; install libc6-sparc64-cross, name a directory that has it by --sysroot, or "
        'link with "-static"'
    ]
    done = simprof("instrument", path, "--mode=pp", f"-o{tmp_path / 'out'}", at=tmp_path)
    assert done.returncode == 125
    assert done.stderr.decode().splitlines() == [
        f'simprof: {path}: is dynamically linked; link with "-static"'
    ]
    trace = tmp_path / "trace"
    done = simprof("run", "--mode=witness", f"--trace={trace}", path, at=tmp_path)
    assert done.returncode == 125 and not trace.exists()
    assert done.stderr.decode().splitlines() == [
        f"simprof: {path} is dynamically linked, and a trace does not show which form of a stub "
        "control came to: link the program statically to trace it"
    ]


def simprof(*arguments: object, at: Path) -> subprocess.CompletedProcess[bytes]:
    """Run simprof in a directory."""
    command = [sys.executable, "-m", "simprof", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, cwd=at, check=False)
