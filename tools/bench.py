"""How fast simprof is: the engine, whole commands on real programs, and how both grow.

    python tools/bench.py [--part PART]... [--program NAME]... [--configuration NAME]...
                          [--json FILE] [--resume] [--repeat N] [--timeout SECONDS] [--quick]

Parts are `engine` (the emulated run against the bare engine and against qemu-user), `command`
(simprof's commands from their start to their reports, cold and warm, beside qemu-user with a native
plugin that counts blocks or edges), `text` and `length` (the same over the size of programs and
over the length of runs), `event` (one longjmp, one exception) and `recovery`; all of them by
default. `tools/benchmarks` says what each measures. The real programs are those of the suite
`real`: the cross compilers build them the first time, and Debian's sources are fetched.

`--json FILE` keeps all rows in a file, row by row: another invocation replaces what it measures
again and leaves the rest, and with `--resume` measures only what the file lacks of this commit.
`tools/performance_page.py` makes docs/performance.md of such a file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from simprof.simulator.errors import SimulatorError
from tools.benchmarks import commands, engine, growth, programs, recovery
from tools.benchmarks.commands import Measuring, measure_command, warm_up
from tools.benchmarks.growth import Wanted
from tools.benchmarks.limits import verdicts
from tools.benchmarks.rows import ROOT, Results, Row, from_json
from tools.benchmarks.tables import detail_table, engine_table, limit_table

PARTS = ("engine", "command", "text", "length", "event", "recovery")
TIMEOUT = 120.0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--part", action="append", choices=PARTS, default=[], help="only this; repeatable")
    known = (*(each.name for each in engine.WORKLOADS), *programs.names(), *programs.EVENTS)
    add("--program", action="append", choices=known, default=[], help="only this; repeatable")
    configurations = (*engine.CONFIGURATIONS, *commands.CONFIGURATIONS, recovery.CONFIGURATION)
    add("--configuration", action="append", choices=configurations, default=[],
        help="only this; repeatable")  # fmt: skip
    add("--json", metavar="FILE", type=Path, help="keep the rows in this file, which may exist")
    add("--resume", action="store_true", help="leave out what FILE has of this commit")
    add("--repeat", type=int, default=1, help="take the best of so many runs")
    add("--timeout", type=float, default=TIMEOUT, metavar="SECONDS",
        help=f"end a command after so long (default: {TIMEOUT:.0f})")  # fmt: skip
    add("--quick", action="store_true", help="short runs, to try it out")
    return parser.parse_args(arguments)


def wanted_commands(given: argparse.Namespace) -> Iterator[Wanted]:
    """Yield the whole commands to measure, those that tell most first."""

    def chosen(part: str, names: Sequence[str]) -> list[str]:
        if given.part and part not in given.part:
            return []
        return [name for name in names if not given.program or name in given.program]

    real = programs.names()
    which = "train" if given.quick else "ref"
    for program in _built(chosen("command", real), which):
        for configuration in commands.configurations_of(program):
            yield "command", program, configuration
    yield from growth.event_series(_built(chosen("event", programs.EVENTS)))
    yield from growth.text_series(_built(chosen("text", real), "train"))
    for program in _built(chosen("length", [growth.LENGTH_PROGRAM])):
        yield from growth.length_series(program)


def _built(names: Sequence[str], which: str = "ref") -> tuple[programs.Program, ...]:
    """Return programs, and say why others are missing."""
    if not names:
        return ()
    found, failures = programs.build(names, "train" if which == "train" else "ref")
    for name, why in failures.items():
        print(f"bench: {name} is left out: {why}", file=sys.stderr)
    return found


def measure_commands(measuring: Measuring, given: argparse.Namespace) -> None:
    """Measure whole commands."""
    warmed = False
    for part, program, configuration in wanted_commands(given):
        if given.configuration and configuration not in given.configuration:
            continue
        if not warmed:
            warm_up(given.timeout)
            warmed = True
        measure_command(measuring, part, program, configuration)


def measure_engine(measuring: Measuring, given: argparse.Namespace) -> None:
    """Measure the engine, each workload in a process of its own."""
    if given.part and "engine" not in given.part:
        return
    chosen = [name for name in engine.CONFIGURATIONS if name in given.configuration]
    if given.configuration and not chosen:
        return
    for workload in engine.WORKLOADS:
        if given.program and workload.name not in given.program:
            continue
        words = workload.quick if given.quick else workload.arguments
        if measuring.results.has(Row("engine", workload.name, (chosen or ["bare"])[-1], "", words)):
            continue
        options = [f"--configuration={name}" for name in chosen]
        options += ["--quick"] if given.quick else []
        text = _child("engine", workload.name, f"--repeat={measuring.repeat}", *options)
        measuring.add(*from_json(text))


def measure_recovery(measuring: Measuring, given: argparse.Namespace) -> None:
    """Measure how fast graphs are recovered."""
    configuration = recovery.CONFIGURATION
    if given.part and "recovery" not in given.part:
        return
    if given.configuration and configuration not in given.configuration:
        return
    names = [each for each in programs.names() if not given.program or each in given.program]
    for program in _built(names):
        if not measuring.results.has(Row("recovery", program.name, configuration, "", ())):
            text = _child("recovery", str(program.path), program.name)
            measuring.add(*from_json(text))


def _child(module: str, *words: str) -> str:
    """Return what a part that has a process of its own writes."""
    command = [sys.executable, "-m", f"tools.benchmarks.{module}", *words]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def show(row: Row) -> None:
    """Say on standard error what was measured."""
    (cells,) = detail_table([row], row.part).cells
    time = f"{cells[1]} s" if row.outcome == "ok" else cells[1]
    print(f"bench: {row.part}: {cells[0]}: {time} {row.detail}".rstrip(), file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    given = parse(arguments)
    try:
        results = Results(given.json, resume=given.resume)
        measuring = Measuring(results, max(given.repeat, 1), given.timeout, show)
        measure_commands(measuring, given)
        measure_recovery(measuring, given)
        measure_engine(measuring, given)
    except SimulatorError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_status
    except subprocess.CalledProcessError as error:
        print(f"bench: {' '.join(error.cmd)} failed", file=sys.stderr)
        return 1
    rows = results.rows
    print("Engine\n\n" + engine_table(rows).text())
    print("Whole commands\n\n" + detail_table(rows).text())
    print("Limits\n\n" + limit_table(tuple(verdicts(rows))).text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
