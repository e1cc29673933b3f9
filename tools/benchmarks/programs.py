"""The real programs: those of the suite `real`, built and with their inputs; qemu-user for them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from msgspec import structs

from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import BUILDS, InputName, Width
from simprof.profiler.experiments.suites.suite_file import load_suite
from tools.benchmarks.rows import ROOT

SUITE = "real"
NARROW = ("bc",)
"""The programs that are measured as 32-bit ones; all others have 64 bits."""
LARGEST = "cppcheck"
EVENTS = ("jumps", "throws")
"""The programs that only tell the cost of one longjmp, of one exception."""
EMULATORS: Mapping[Width, str] = {64: "qemu-sparc64", 32: "qemu-sparc32plus"}
EDGE_PLUGIN = ROOT / "tools" / "edge_plugin.c"
PLUGIN_OPTIONS: Mapping[str, str] = {"blocks": ",counters=inline", "edges": ""}
"""What it counts, and what stands behind its path then on qemu's command line."""
COUNT_PLUGIN = ROOT / "tools" / "count_plugin.c"


@dataclass(frozen=True)
class Program:
    """A program with one input.

    Attributes
    ----------
    arguments
        Without the program's own name.
    root
        The directory that it may read, its current one.
    stdin
        File that is its standard input; None: it is empty.
    status
        The exit status of a good run.
    """

    name: str
    path: Path
    width: Width
    arguments: tuple[str, ...]
    root: Path
    stdin: Path | None = None
    status: int = 0

    def with_arguments(self, *arguments: str) -> Program:
        """Return the program with other arguments."""
        return replace(self, arguments=arguments)


def names() -> tuple[str, ...]:
    """Return the names of the programs whose whole commands are timed."""
    known = (benchmark.name for benchmark in load_suite(SUITE).benchmarks)
    return tuple(name for name in known if name not in EVENTS)


def build(
    wanted: Sequence[str], which: InputName = "ref"
) -> tuple[tuple[Program, ...], Mapping[str, str]]:
    """Return programs with one of their inputs, built where the cache lacks them.

    Returns
    -------
    tuple
        The programs in the suite's order; and why each other one could not be built.
    """
    suite = load_suite(SUITE)
    programs: dict[str, Program] = {}
    failures: dict[str, str] = {}
    for width in BUILDS:
        chosen = tuple(
            each
            for each in suite.benchmarks
            if each.name in wanted and (each.name in NARROW) == (width == 32)
        )
        report = build_suite(structs.replace(suite, benchmarks=chosen), widths=(width,))
        failures |= {name: why for (name, _), why in report.failures.items()}
        for (name, _), built in report.programs.items():
            given = suite.benchmark(name).inputs[which]
            root = given.root or built.path.parent
            programs[name] = Program(
                name, built.path, width, given.arguments, root, given.stdin, given.status
            )
    order = [each.name for each in suite.benchmarks]
    return tuple(programs[name] for name in order if name in programs), failures


def text_size(path: Path) -> int:
    """Return how many bytes of code an ELF file has."""
    with path.open("rb") as file:
        sections = ELFFile(file).iter_sections()
        return sum(
            section["sh_size"]
            for section in sections
            if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR and section["sh_type"] != "SHT_NOBITS"
        )


def emulator(width: Width) -> str | None:
    """Return qemu-user for a width, None where it is not installed."""
    return shutil.which(EMULATORS[width])


def built_plugin(directory: Path, source: Path = EDGE_PLUGIN) -> Path | None:
    """Return one of qemu's plugins, built in a directory; None: it cannot be."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    plugin = directory / f"{source.stem}.so"
    command = [compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(plugin)]
    done = subprocess.run(command, capture_output=True, check=False)
    return plugin if done.returncode == 0 else None
