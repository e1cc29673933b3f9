"""Installed, working and missing parts (`simprof doctor`).

Runs work if every required check passes. The last of them is a whole run: a program of seven
instructions is written, loaded, analysed, run and profiled, and the result compared with what
can be counted by hand.
"""

from __future__ import annotations

import platform
import re
import shutil
import struct
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

from msgspec import Struct

from simprof.profiler.profiles.cache_files import binaries
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.simulator.cpu import compiled, library


class SystemCheck(Struct, frozen=True):
    """One thing looked at."""

    name: str
    ok: bool
    required: bool
    detail: str
    remedy: str | None = None  # What would make it right, one command where there is one


class Diagnosis(Struct, frozen=True):
    """All checks, in order."""

    checks: tuple[SystemCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether runs work."""
        return all(check.ok for check in self.checks if check.required)


OLDEST_PYTHON = (3, 11)
REINSTALL = "pip install --upgrade simprof"
INSTALL_TOOLS = (
    "apt-get install gcc-12-sparc64-linux-gnu gcc-12-multilib-sparc64-linux-gnu "
    "g++-12-sparc64-linux-gnu g++-12-multilib-sparc64-linux-gnu gfortran-12-sparc64-linux-gnu "
    "gfortran-12-multilib-sparc64-linux-gnu binutils-sparc64-linux-gnu qemu-user"
)
TOOLS = {
    "sparc64-linux-gnu-gcc-12": "compiles C for SPARC",
    "sparc64-linux-gnu-g++-12": "compiles C++ for SPARC",
    "sparc64-linux-gnu-gfortran-12": "compiles Fortran for SPARC",
    "sparc64-linux-gnu-objdump": "disassembles, for comparison",
    "qemu-sparc64": "runs V9 programs, for comparison",
    "qemu-sparc32plus": "runs V8+ programs, for comparison",
    "qemu-sparc": "runs V8 programs, for comparison",
}


class Viewer(NamedTuple):
    """A program that opens what simprof writes."""

    name: str
    purpose: str
    remedy: str
    commands: tuple[str, ...] = ()  # One of them is enough; (): its name.


INSTALL_NOTEBOOK = "pip install 'simprof[notebook]'"
_BY_HAND = "git clone https://github.com/brendangregg/FlameGraph, and put it on PATH"
_SPEEDSCOPE = "shows `export --format speedscope`, as https://www.speedscope.app does"
_COVOAR = "build https://gitlab.rtems.org/rtems/tools/rtems-tools, and put it on PATH"
_PPROF = "shows `export --format pprof` (go: as `go tool pprof`)"
_NOTEBOOKS = "shows notebooks, with what `import simprof` measures"
_JUPYTER = ("jupyter", "jupyter-lab", "jupyter-notebook")
_BROWSERS = ("xdg-open", "chromium", "google-chrome", "firefox", "open")
VIEWERS = (
    Viewer("callgrind_annotate", "shows `export --format callgrind`", "apt-get install valgrind"),
    Viewer("genhtml", "shows `export --format lcov`", "apt-get install lcov"),
    Viewer("gcovr", "shows `export --format gcov`", "pip install gcovr"),
    Viewer("dot", "draws `export --format dot` and `cfg`", "apt-get install graphviz"),
    Viewer("pprof", _PPROF, "apt-get install golang-go", ("pprof", "go")),
    Viewer("speedscope", _SPEEDSCOPE, "npm install --global speedscope"),
    Viewer("flamegraph.pl", "draws `export --format collapsed`", _BY_HAND),
    Viewer("covoar", "shows `export --format tsim`", _COVOAR),
    Viewer("datasette", "shows the results of `sweep`", "pip install datasette"),
    Viewer("jupyter", _NOTEBOOKS, "pip install jupyterlab", _JUPYTER),
    Viewer("browser", "shows pages of `show --html`", "apt-get install chromium", _BROWSERS),
)
# Name of the distribution, what it is for, how to get it.
LIBRARIES = (
    ("pandas", "frames in notebooks", INSTALL_NOTEBOOK),
    ("matplotlib", "plots in notebooks", INSTALL_NOTEBOOK),
    ("pyarrow", "writes `export --format parquet`", "pip install 'simprof[parquet]'"),
)

TRIAL_BASE_ADDRESS = 0x100000
TRIAL_LOOPS = 3
TRIAL_CODE = (
    0x84102000 | TRIAL_LOOPS,  # mov 3, %g2
    0x84A0A001,  # loop: subcc %g2, 1, %g2
    0x12BFFFFF,  # bne loop
    0x01000000,  # nop
    0x90102000,  # mov 0, %o0
    0x82102001,  # mov 1, %g1
    0x91D0206D,  # ta 0x6d: exit(0)
)
TRIAL_INSTRUCTIONS = 1 + 3 * TRIAL_LOOPS + 3
HEADER_SIZE = 64
PROGRAM_HEADER_SIZE = 56


def diagnose() -> Diagnosis:
    """Look at everything."""
    needed = check_python(), *check_dependencies(), check_engine(), check_trial_run()
    return Diagnosis((*needed, check_kernels(), check_cache(), *check_tools(), *check_viewers()))


def check_cache() -> SystemCheck:
    """Say where what is learnt of programs is kept, and how much there is."""
    files = binaries()
    size = sum(each.size for each in files.entries())
    what = f"{size:,} bytes of what earlier runs have shown of programs"
    return SystemCheck("cache", True, False, f"{files.directory}: {what}")


def check_python() -> SystemCheck:
    """Look whether the interpreter is new enough."""
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    is_new = sys.version_info >= OLDEST_PYTHON
    return SystemCheck("python", is_new, True, detail, "install Python 3.11 or newer")


def check_dependencies() -> Iterator[SystemCheck]:
    """Look for every package that simprof needs, in a version that it was tested with."""
    for requirement in metadata.requires("simprof") or []:
        if "extra ==" in requirement:
            continue
        match = re.match(r"([\w.-]+)\s*\(?([^;)]*)", requirement)
        if match is None:
            continue
        name, wanted = match[1], match[2].strip()
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            required = ";" not in requirement  # others are for some machines only
            yield SystemCheck(name, False, required, f"not installed, needs {wanted}", REINSTALL)
            continue
        fits = satisfies(version, wanted)
        detail = version if fits else f"{version}, tested with {wanted}"
        yield SystemCheck(name, fits, True, detail, REINSTALL)


def satisfies(version: str, wanted: str) -> bool:
    """Return whether a version lies in a range such as ">=2.1.4,<2.2"."""
    tests = {">=": ge, "<=": le, "==": eq, "!=": ne, ">": gt, "<": lt}
    have = release(version)
    for clause in filter(None, (part.strip() for part in wanted.split(","))):
        match = re.fullmatch(r"([<>=!]{1,2})\s*(.+)", clause)
        if match is None or not tests[match[1]](have, release(match[2])):
            return False
    return True


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, padded so that 2.1 and 2.1.0 compare equal."""
    match = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    return tuple((numbers + [0] * 6)[:6])


def check_engine() -> SystemCheck:
    """Set up the emulator, which tests itself, in both widths."""
    try:
        from simprof.simulator.cpu.cpu import Cpu

        for is64 in (True, False):
            Cpu(is64)
    except Exception as error:  # whatever is wrong, saying so is this command's work
        return SystemCheck("engine", False, True, one_line(error), REINSTALL)
    return SystemCheck("engine", True, True, "state found, self-test passed in both widths")


def check_trial_run() -> SystemCheck:
    """Compare a whole run with what can be counted by hand."""
    started = time.perf_counter()
    try:
        instructions, status, loops = trial_run()
    except Exception as error:  # as above
        return SystemCheck("trial run", False, True, one_line(error), REINSTALL)
    seconds = time.perf_counter() - started
    expected = (TRIAL_INSTRUCTIONS, 0, TRIAL_LOOPS - 1)
    if (instructions, status, loops) != expected:
        outcome = f"{instructions} instructions, exit status {status}, {loops} turns of its loop"
        return SystemCheck("trial run", False, True, f"{outcome}: expected {expected}", REINSTALL)
    detail = f"{instructions} instructions, profiled exactly, in {seconds:.1f} s"
    return SystemCheck("trial run", True, True, detail)


def trial_run() -> tuple[int, int, int]:
    """Profile the trial program: its instructions, exit status, and count of its loop's edge."""
    from simprof.profiler.session.session import run_program

    with scratch_directory("simprof-trial-") as directory:
        program = directory / "trial.elf"
        program.write_bytes(trial_program())
        request = RunRequest(program, GuestOptions(root=directory))
        measurement = run_program(request)
    edges = [edge for routine in measurement.routines for edge in routine.edge_counts]
    loops = sum(edge.count for edge in edges if edge.source == edge.target)
    return measurement.base, measurement.ending.code, loops


def trial_program() -> bytes:
    """Return a whole ELF file for SPARC V9: a header, one segment, the code."""
    offset = HEADER_SIZE + PROGRAM_HEADER_SIZE
    size = offset + 4 * len(TRIAL_CODE)
    identification = b"\x7fELF\x02\x02\x01" + bytes(9)
    # ET_EXEC, EM_SPARCV9, version, entry point, place of the program headers
    words = 2, 43, 1, TRIAL_BASE_ADDRESS + offset, HEADER_SIZE
    sizes = HEADER_SIZE, PROGRAM_HEADER_SIZE, 1
    header = identification + struct.pack(">HHIQQQIHHHHHH", *words, 0, 0, *sizes, 0, 0, 0)
    address = TRIAL_BASE_ADDRESS
    segment = struct.pack(">IIQQQQQQ", 1, 5, 0, address, address, size, size, 1 << 20)
    return header + segment + struct.pack(f">{len(TRIAL_CODE)}I", *TRIAL_CODE)


def check_kernels() -> SystemCheck:
    """Look whether there is a shared library of the kernels, or what numba compiles is kept."""
    name, place = "kernels", compiled.cache_directory()
    if library.fits():
        return SystemCheck(name, True, False, library.file().name)
    why = f"no library fits {library.target()} and these sources"
    if place is not None:
        return SystemCheck(name, True, False, f"{why}; compiled, and kept in {place}")
    detail = f"{why}; each start compiles them again (a minute)"
    return SystemCheck(name, False, False, detail, "export XDG_CACHE_HOME=DIRECTORY")


def check_tools() -> Iterator[SystemCheck]:
    """Look for the programs that only development and comparisons need."""
    for name, purpose in TOOLS.items():
        place = shutil.which(name)
        detail = f"{purpose}: {place}" if place else f"not installed; {purpose}"
        yield SystemCheck(name, place is not None, False, detail, INSTALL_TOOLS)


def check_viewers() -> Iterator[SystemCheck]:
    """Look for what opens exported profiles, and for libraries of notebooks."""
    for viewer in VIEWERS:
        named = viewer.commands or (viewer.name,)
        commands = ", ".join(named)
        place = next(filter(None, map(shutil.which, named)), None)
        missing = f"{commands} not found; {viewer.purpose}"
        detail = f"{viewer.purpose}: {place}" if place else missing
        yield SystemCheck(viewer.name, place is not None, False, detail, viewer.remedy)
    for name, purpose, remedy in LIBRARIES:
        try:
            found, detail = True, f"{purpose}: {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            found, detail = False, f"not installed; {purpose}"
        yield SystemCheck(name, found, False, detail, remedy)


def one_line(error: Exception) -> str:
    """Return an error's message as one line."""
    return " ".join(str(error).split()) or type(error).__name__
