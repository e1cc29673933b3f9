#!/usr/bin/env python3
"""Measure other tools beside simprof on one program: the table of docs/other-tools.md.

    python -m tools.other_tools        measure, and write the table into the page

The program is the fixture `bench`, for SPARC as it is committed, and built for this machine (with
a few lines instead of its run-time library, `NATIVE`). Each tool has its own way to count; what all
of them can answer is how often the ten routines were entered that no compiler inlines, so that is
what they are compared by. Time is processor time, the least of `REPEATS` runs, beside the same
program without the tool on the same machine or emulator.

Where a tool is not installed its row says so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.benchmarks import programs
from tools.benchmarks.processes import measure
from tools.benchmarks.rows import ROOT

PAGE = ROOT / "docs" / "other-tools.md"
BENCH = ROOT / "fixtures" / "bin" / "v9" / "bench.elf"
SOURCE = ROOT / "fixtures" / "src" / "bench.c"
RUNTIME = ROOT / "fixtures" / "runtime"
ROUTINES = (
    "multiply_matrices", "insertion_sort", "quick_sort", "interpret", "insert", "walk", "checksum",
    "queens", "common_length", "one_round",
)  # fmt: skip
ROUNDS = "300"
REPEATS = 2
TIMEOUT = 600.0  # seconds of one run
EMULATOR = programs.EMULATORS[64]
SPARC_GCC = "sparc64-linux-gnu-gcc-12"
BEGIN, END = "<!-- measured -->", "<!-- end of what is measured -->"
BOLT = ("llvm-bolt-19", "llvm-bolt")

NATIVE = """\
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
int print(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vprintf(format, list);
    va_end(list);
    return n;
}
long parse_number(const char *text) { return strtol(text, 0, 10); }
"""
"""What `bench` needs of its run-time library, in terms of a C library."""

Entries = Mapping[str, int]
"""Routine -> how often it was entered."""


@dataclass(frozen=True)
class Tool:
    """One row of the page."""

    name: str
    runs: str  # where the program runs
    changed: str  # whether the program is another one for being counted
    counts: str
    seconds: float | None = None
    beside: float | None = None  # seconds of the program without the tool
    entries: Entries | None = None  # None: the tool does not count them
    total: int | None = None  # instructions, where the tool counts SPARC instructions


def seconds(command: Sequence[str], directory: Path, repeats: int = REPEATS) -> float:
    """Return the processor time of a command, the least of some runs."""
    name, *arguments = command
    command = [shutil.which(name) or name, *arguments]  # `measure` searches no path
    found = []
    for _ in range(repeats):
        cost = measure(command, timeout=TIMEOUT, directory=directory, environment=os.environ)
        if cost.outcome != "ok":
            raise RuntimeError(f"{command}: {cost.outcome}: {cost.detail}")
        found.append(cost.cpu)
    return min(found)


def build(compiler: str, directory: Path, name: str, *flags: str) -> Path:
    """Return the program built with a hosted C library."""
    program = directory / name
    (directory / "native.c").write_text(NATIVE)
    command = [compiler, "-O2", "-g", "-fno-builtin", f"-I{RUNTIME}", *flags, str(SOURCE)]
    subprocess.run([*command, "native.c", "-o", str(program)], cwd=directory, check=True)
    return program


def simprof(mode: str, rounds: str, directory: Path) -> tuple[float, Entries, int]:
    """Return time, entries and instructions of `simprof run`; its caches are warm."""
    result = directory / f"{mode}.json"
    command = [
        sys.executable, "-m", "simprof", "run", "-q", "--mode", mode, "--json", str(result),
        str(BENCH), rounds,
    ]  # fmt: skip
    seconds(command, directory, 1)
    time = seconds(command, directory)
    document = json.loads(result.read_text())
    entries = {row["symbol"]: row["entered"] for row in document["routines"]}
    return time, entries, document["instructions"]["base"]


def gcov_entries(directory: Path, tool: str) -> Entries:
    """Return how often gcov says that routines were entered."""
    note = next(directory.glob("*bench.gcno"))
    done = subprocess.run(
        [tool, "--json-format", "--stdout", note.name],
        cwd=directory, capture_output=True, check=True,
    )  # fmt: skip
    functions = [each for file in json.loads(done.stdout)["files"] for each in file["functions"]]
    return {each["name"]: each["execution_count"] for each in functions}


def callgrind_entries(text: str) -> Entries:
    """Return how often routines were called, from callgrind's file."""
    names: dict[str, str] = {}
    found: dict[str, int] = {}
    called = ""
    for line in text.splitlines():
        match = re.fullmatch(r"c?fn=(\(\d+\))(?: (.*))?", line)
        if match and match[2]:
            names[match[1]] = match[2]
        if match and line.startswith("c"):
            called = names[match[1]]
        if line.startswith("calls="):
            # A recursive call is one of `quick_sort'2`: the same routine at another depth.
            name = called.split("'")[0]
            found[name] = found.get(name, 0) + int(line[6:].split()[0])
    return found


def bolt_entries(text: str) -> Entries:
    """Return how often routines were called, from the profile that BOLT's counters wrote."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split()
        # 1 SOURCE OFFSET 1 TARGET OFFSET MISPREDICTED COUNT; a call leads to offset 0.
        if len(fields) == 8 and fields[0] == fields[3] == "1" and fields[5] == "0":
            name = fields[4].split("/")[0]
            found[name] = found.get(name, 0) + int(fields[7])
    return found


def sparc_tools(rounds: str, directory: Path) -> list[Tool]:
    """Return the rows of what runs the SPARC program."""
    plain = seconds([EMULATOR, str(BENCH), rounds], directory)
    time, entries, base = simprof("edges", rounds, directory)
    rows = [
        Tool(
            "simprof, `edges`",
            "simprof",
            "no",
            "every block, edge, call",
            time,
            plain,
            entries,
            base,
        )
    ]
    time, entries, base = simprof("pp", rounds, directory)
    counts = "the same, every acyclic path, and the price of counting them in the program"
    rows.append(Tool("simprof, `pp`", "simprof", "no", counts, time, plain, entries, base))
    log = directory / "count.log"
    library = str(programs.built_plugin(directory, programs.COUNT_PLUGIN))
    command = [EMULATOR, "-plugin", library, "-d", "plugin", "-D", str(log), str(BENCH), rounds]
    time = seconds(command, directory)
    counted = re.search(r"instructions (\d+)", log.read_text())
    total = int(counted[1]) if counted else None
    rows.append(
        Tool(
            "qemu and a plugin that counts instructions",
            "qemu-user",
            "no",
            "one number",
            time,
            plain,
            None,
            total,
        )
    )
    library = str(programs.built_plugin(directory))
    command = [EMULATOR, "-plugin", library, "-d", "plugin", "-D", str(log), str(BENCH), rounds]
    time = seconds(command, directory)
    rows.append(
        Tool(
            "qemu and a plugin that counts pairs of blocks",
            "qemu-user",
            "no",
            "addresses, neither routines nor branches",
            time,
            plain,
        )
    )
    hosted = build(SPARC_GCC, directory, "plain.sparc", "-static")
    plain = seconds([EMULATOR, str(hosted), rounds], directory)
    covered = build(SPARC_GCC, directory, "gcov.sparc", "-static", "--coverage")
    time = seconds([EMULATOR, str(covered), rounds], directory, 1)
    entries = gcov_entries(directory, SPARC_GCC.replace("gcc-12", "gcov-12"))
    rows.append(
        Tool(
            "gcov",
            "qemu-user",
            "compiled again, with counters",
            "lines, branches, routines",
            time,
            plain,
            entries,
        )
    )
    return rows


def native_tools(rounds: str, directory: Path) -> list[Tool]:
    """Return the rows of what runs the program that is built for this machine."""
    plain = build("gcc", directory, "plain")
    base = seconds([str(plain), rounds], directory)
    rows = []

    covered = build("gcc", directory, "gcov", "--coverage")
    time = seconds([str(covered), rounds], directory, 1)
    rows.append(
        Tool(
            "gcov",
            "this machine",
            "compiled again, with counters",
            "lines, branches, routines",
            time,
            base,
            gcov_entries(directory, "gcov"),
        )
    )

    tool = Tool("valgrind's callgrind", "valgrind", "no", "x86 instructions by line, calls")
    if shutil.which("valgrind"):
        out = directory / "callgrind.out"
        command = [
            "valgrind",
            "-q",
            "--tool=callgrind",
            f"--callgrind-out-file={out}",
            str(plain),
            rounds,
        ]
        time = seconds(command, directory, 1)
        tool = replace(tool, seconds=time, beside=base, entries=callgrind_entries(out.read_text()))
    rows.append(tool)

    tool = Tool("perf record", "this machine", "no", "samples: estimates of where time goes")
    if shutil.which("perf"):
        command = ["perf", "record", "-q", "-e", "cpu-clock", "-o", "perf.data", str(plain), rounds]
        tool = replace(tool, seconds=seconds(command, directory), beside=base)
    rows.append(tool)

    tool = Tool(
        "BOLT, instrumenting", "this machine", "rewritten, with counters", "branches, calls"
    )
    found = next((place for name in BOLT if (place := shutil.which(name))), None)
    if found:
        linked = build("gcc", directory, "linked", "-Wl,-q")
        rewritten = directory / "rewritten"
        profile = directory / "bolt.fdata"
        # It looks for its library beside the file that it was started as, which may be a link.
        command = [str(Path(found).resolve()), "-instrument", f"-instrumentation-file={profile}"]
        command += [str(linked), "-o", str(rewritten)]
        subprocess.run(command, cwd=directory, check=True, capture_output=True)
        time = seconds([str(rewritten), rounds], directory, 1)
        tool = replace(tool, seconds=time, beside=base, entries=bolt_entries(profile.read_text()))
    rows.append(tool)
    return rows


def table(rows: Sequence[Tool]) -> str:
    """Return rows as a table in Markdown."""
    truth = next(row for row in rows if row.total is not None and row.entries is not None)
    lines = [
        "| tool | the program runs on | program changed | what is counted | routines entered, "
        "of ten | CPU s | times the program alone |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for row in rows:
        cells = [row.name, row.runs, row.changed, row.counts, agreement(row, truth)]
        if row.seconds is None or row.beside is None:
            cells += ["not installed", ""]
        else:
            cells += [f"{row.seconds:.2f}", f"{row.seconds / row.beside:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def agreement(row: Tool, truth: Tool) -> str:
    """Return how many of a tool's counts are those of simprof."""
    if row.entries is not None and truth.entries is not None:
        equal = sum(row.entries.get(name, 0) == truth.entries[name] for name in ROUTINES)
        return f"{equal} equal"
    if row.total is not None:
        return f"total {'equal' if row.total == truth.total else 'differs'}"
    return "not counted"


def with_table(page: str, rows: Sequence[Tool]) -> str:
    """Return the page with the table of these rows instead of its own."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        rows = sparc_tools(ROUNDS, Path(name)) + native_tools(ROUNDS, Path(name))
    PAGE.write_text(with_table(PAGE.read_text(), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
