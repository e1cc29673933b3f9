"""Make docs/performance.md of the rows that `tools/bench.py --json` has kept.

    python tools/performance_page.py [RESULTS] [-o PAGE]

Every figure in the page is one of the file, but for those of `RECOVERY_BOUND`, `WARM_BOUND`,
`TABLES` and `EVENT_BOUND`; so are machine, dates, commits, and how many cores other
processes used meanwhile. Without rows for a section the section is left out. RESULTS is
docs/performance.json unless it is named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from simprof.simulator.errors import SimulatorError
from tools.benchmarks import limits, programs, tables
from tools.benchmarks.growth import LENGTH_CONFIGURATIONS, LENGTH_PROGRAM, TEXT_CONFIGURATIONS
from tools.benchmarks.rows import ROOT, Machine, Row, load

RESULTS = ROOT / "docs" / "performance.json"
PAGE = ROOT / "docs" / "performance.md"
LATE = 0.1
"""Cores of others beside a measurement from which on the page says so."""

OPENING = """\
# Performance

How long simprof takes, from the command to the answer. `tools/performance_page.py` has made this
page of `docs/performance.json`, which

    make performance

measures again (a quarter of an hour; `python tools/bench.py --help` says how to measure a part of
it). The real programs are those of the suite `real` (`simprof suite list real`): Debian's sources,
built statically with `-O2`, 64 bits, but for bc, which has 32.

*qemu + blocks* and *qemu + edges* are qemu-user with a native plugin (`tools/edge_plugin.c`), on
the same program. The first adds one to a counter at the start of each translated block, within the
translated code: no plugin counts all blocks with less. The second calls a function there, which
counts pairs of successive blocks. These are the blocks that qemu translates: they overlap and
belong to no routine, a block that a trap leaves early counts whole, and a call, a return, a signal
and a longjmp are pairs like all others. simprof counts what these plugins do not: the edges of each
routine's control-flow graph and, under `pp` and `tpp`, its paths. It follows every activation of a
routine by itself, so that the counts are exact where calls, signals, longjmp and exceptions
interrupt or end one.

*Cold* is the first run of a binary: simprof knows nothing of it. *Warm* is the same command once
more. Each command is a process of its own and writes both of its reports, the text and the JSON;
what it took is measured from its start to its end. A time after `>` is that of a command that was
ended because it took too long. `-` stands for what was not measured.
"""


def page(machine: Machine, rows: Sequence[Row], names: Sequence[str]) -> str:
    """Return the page for the results of a benchmark; `names`: the real programs, in order."""
    return "\n".join([OPENING, conditions(machine, rows), *sections(rows, names)])


def conditions(machine: Machine, rows: Sequence[Row]) -> str:
    """Return where, when and of what it was measured, and what else the machine did meanwhile."""
    dates, commits = (sorted({row.date for row in rows}), sorted({row.commit for row in rows}))
    beside = [row.beside for row in rows if row.beside is not None]
    noise = "how busy the machine was otherwise is not known"
    if beside:
        average, most = sum(beside) / len(beside), max(beside)
        noise = f"other processes used {average:.1f} cores on average meanwhile, {most:.1f} at most"
        if average >= LATE:
            noise += ": wall-clock times are longer than on a quiet machine"
    return (
        f"Measured on {machine.processor}, {machine.cores} cores, Python {machine.python};\n"
        f"{' and '.join(dates)}, commit {', '.join(commits)}"
        f"{' (`+`: with changes)' if any(each.endswith('+') for each in commits) else ''};\n"
        f"{noise}.\n"
    )


RECOVERY_BOUND = (
    "What bounds it is where indirect jumps lead. Following the code, which is a kernel on arrays, "
    "goes through\n8 MB of text a second (cppcheck) to 15 MB (LAPACK). The rest is data flow over "
    "routines with indirect jumps,\nin Python, 20 us for each block that it visits: 52 % of the "
    "time for cppcheck, 75 % for LAPACK, whose\ndrivers have one `SELECT` within loops of 1,400 "
    "blocks. The formatted output of glibc takes 0.2 s in every\nstatic program of 64 bits, 0.5 s "
    "in those of 32.\n"
)
"""Measured by timers around the stages of `simprof.profiler.recovery`, one program a process."""


WARM_BOUND = (
    "A warm `run` reads the program's graphs; all else is made anew. What bounds it is Python. Of "
    "`run --mode=pp` on\ncppcheck 45 % are plans of 1,629 routines, their operations and the "
    "emulated run, in which new transitions are\nlearnt in native code (`walk_kernel`); 37 % are "
    "counters as profiles and the prices of generated code, 9 % what is\nknown of all code and "
    "its registers, 9 % start-up, reading and both reports. A cold run also recovers the "
    "graphs\n(*Recovery*), once for each discovery that a run makes. Where indirect jumps lead is "
    "kept by the file that they\nare in: of two small C programs with the same shared libc the "
    "first takes 2.8 s of processor time, the second\n1.3 s, each of them 0.8 s the next "
    "time.\n`compare` is with eleven modes here, and among the limits with those that a user "
    "gets who names none.\n"
)
"""Measured by timers around the stages, while other work had the machine's cores."""
EVENT_BOUND = (
    "An exception is 36,409 instructions of the unwinder, which the emulator alone executes in "
    "33 to 73 us at the\nspeeds of its `bare` rows below.\n"
)


TABLES = (
    "All tables over the suite `spec-like`, `simprof table --all gcov-arcs --suite spec-like`: "
    "19 min 6 s with two\nprocesses, nothing kept from before but the programs (limit: 8 min), "
    "while other work took a tenth of the\nprocessors. Of 30 minutes that the two spent on cells "
    "16 are runs under all settings, 4 are plans of all\nroutines, 10 are instrumented programs "
    "that are executed. On another day's machine, a quarter faster, it was\n16 min 20 s.\n"
)
"""Measured once, at 4d69593: `time`, and the seconds that the cells' store has, by kind."""


def sections(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Yield the sections that there are rows for."""
    parts = {row.part for row in rows}
    if rows:
        yield "## Limits\n"
        yield (
            "What was measured beside what it should not exceed; commands in processor time. No "
            "test depends on it.\n"
        )
        yield tables.limit_table(tuple(limits.verdicts(rows))).markdown()
    if "command" in parts:
        yield from _commands(rows, names)
    if "command" in parts:
        yield "## All tables\n"
        yield TABLES
    if "text" in parts:
        yield "## Over the size of programs\n"
        yield "The same programs on their short inputs, processor time in seconds.\n"
        yield tables.growth_table(rows, "text", TEXT_CONFIGURATIONS).markdown()
    if "length" in parts:
        yield "## Over the length of runs\n"
        yield f"`{LENGTH_PROGRAM}` with more and more work, processor time in seconds.\n"
        yield tables.growth_table(rows, "length", LENGTH_CONFIGURATIONS).markdown()
    if "event" in parts:
        yield "## A longjmp, an exception\n"
        yield "Processor time of one, with all instructions that it executes.\n"
        yield tables.event_table(rows).markdown()
        yield EVENT_BOUND
    if "recovery" in parts:
        yield "## Recovery\n"
        yield "The graphs of all routines of a program, processor time.\n"
        yield tables.recovery_table(rows).markdown()
        yield RECOVERY_BOUND
    if "engine" in parts:
        yield "## The engine\n"
        yield (
            "The emulated run alone; `tools/benchmarks/engine.py` says what the configurations "
            "are.\n*x bare*: processor time in units of the emulator's without any hook. `empty` "
            "calls, at every block,\na function that returns at once: so much the emulator itself "
            "takes for events. `edges` and the schemes\nhave fewer events, but one in each turn "
            "of each loop, and one at each call and return. What `empty` adds,\ntimes the share "
            "of blocks that still raise events (nearly half in `sieve`), is the least that exact\n"
            "counts can add here; in tight loops it is most of what they add.\n"
        )
        yield tables.engine_table(rows).markdown()
    if "command" in parts:
        yield "## Everything about whole commands\n"
        yield tables.detail_table(rows).markdown()
    failed = [row for row in rows if row.outcome == "failed"]
    if failed:
        yield "## What failed\n"
        yield "".join(
            f"- {row.part}: {' '.join((row.program, *row.arguments))}, {row.configuration}"
            f"{', ' * bool(row.state)}{row.state}: {row.detail}\n"
            for row in failed
        )


def _commands(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Yield the sections on whole commands."""
    yield "## Whole commands, cold\n"
    yield (
        "Wall-clock time in seconds and, in parentheses, processor time.\n"
        f"Importing numba alone takes {tables.numba_seconds(rows)} s.\n"
    )
    yield tables.command_table(rows, names, "cold").markdown()
    yield "## Whole commands, warm\n"
    yield tables.command_table(rows, names, "warm").markdown()
    yield WARM_BOUND
    yield "## Memory\n"
    yield "At most, in megabytes, cold; of several processes together.\n"
    yield tables.memory_table(rows, names).markdown()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS, metavar="RESULTS")
    parser.add_argument("-o", "--output", type=Path, default=PAGE, metavar="PAGE")
    given = parser.parse_args(arguments)
    try:
        machine, rows = load(given.results)
    except SimulatorError as error:
        print(f"performance_page: {error}", file=sys.stderr)
        return error.exit_status
    given.output.write_text(page(machine, rows, programs.names()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
