"""How fast simprof is, against the bare emulator and against qemu-user.

    python tools/bench.py [--json FILE|-] [--repeat N] [--quick] [--program NAME]...
                          [--configuration NAME]...

Every configuration runs the same work, in turn, `--repeat` times; the shortest time counts.
`emulation` is the processor time of the emulated run, which the ratios compare, within one
invocation; `whole` is wall-clock time and adds loading, graph recovery, planning, pricing and
reading the counters. For qemu both are those of its process. Python's own start is left out, and
kernels are compiled before anything is timed. The workloads are one of tiny loops (two to four
instructions a block), one of mixed loops, and one of calls.

    bare          the engine without any hook, with simprof's memory set-up
    counting      the engine with the native hook that counts instructions
    edges         exact edge profile
    qpt2          edge profile by chord counters, with costs
    pp            path profile, hash tables where arrays do not fit, with costs
    pp-hash       the same with a hash table for every routine
    pp+qpt2       both schemes in one emulation
    compare       `simprof compare` with all modes and TPP settings 1,1 5,5 10,10 5,15: fifteen
                  schemes in two emulations. Its `emulation` is the processor time of everything
                  that the command does once Python has started: loading, recovery, both
                  emulations, planning, pricing, reading counters, the report as JSON and as text
    qemu          qemu-user
    qemu-edges    qemu-user with a native edge-counting plugin (tools/edge_plugin.c)
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simulator.errors import SimulatorError, UsageError

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures" / "bin" / "v9"
LIMITS = {"edges": 1.8, "pp": 2.5, "pp+qpt2": 2.8, "compare": 6.0}
"""Ratios to `bare` that must not be passed."""
TPP_SETTINGS = ((1.0, 1.0), (5.0, 5.0), (10.0, 10.0), (5.0, 15.0))


@dataclass(frozen=True)
class Workload:
    """A committed program and its arguments, for the full and the quick benchmark."""

    name: str
    arguments: tuple[str, ...]
    quick: tuple[str, ...]

    @property
    def program(self) -> Path:
        """The ELF file."""
        return FIXTURES / f"{self.name}.elf"


WORKLOADS = (
    Workload("sieve", ("340",), ("20",)),  # tiny loops
    Workload("bench", ("150",), ("3",)),  # mixed loops
    Workload("calls", ("35",), ("22",)),  # calls
)


@dataclass(frozen=True)
class Result:
    """Shortest times of one configuration on one workload: of the emulation, and in all."""

    workload: str
    configuration: str
    instructions: int
    seconds: float
    whole: float


Runner = Callable[[Path, Sequence[str]], tuple[int, float]]
"""Runs a program with arguments; returns instructions executed (0: unknown), emulation seconds."""


@contextmanager
def null_output() -> Iterator[int]:
    """A file descriptor that swallows what programs print."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def machine_alone(bare: bool) -> Runner:
    """Run on the machine without a profiler; `bare`: without any hook."""

    def run(program: Path, arguments: Sequence[str]) -> tuple[int, float]:
        from profiler.session.world import WINDOWS
        from simulator.binary.elf import load
        from simulator.cpu.cpu_state import MAX_WINDOWS
        from simulator.linux.files import Host
        from simulator.machine.machine import Machine
        from simulator.machine.running import Limits

        with null_output() as output:
            host = Host(ROOT, program=program, stdin=b"", stdout=output, stderr=output)
            machine = Machine(
                load(program),
                arguments=tuple(map(os.fsencode, arguments)),
                environment=(),
                host=host,
                limits=Limits(None, None, GuestOptions.memory_limit),
                windows=MAX_WINDOWS if bare else WINDOWS,  # bare runs cannot place every trap
            )
            result = machine.run(bare=bare)
            host.dispose()
            return result.instructions, result.cpu_seconds

    return run


def profiled(*modes: str, table: TableChoice = TableChoice.AUTO) -> Runner:
    """Run under some schemes, in one emulation."""

    def run(program: Path, arguments: Sequence[str]) -> tuple[int, float]:
        from profiler.session.results import measure_all
        from profiler.session.session import observe

        scheme = SchemeOptions(table=table)
        with null_output() as output:
            request = request_for(program, arguments, output)
            observation = observe(request, [Setting(mode, mode, scheme) for mode in modes])
            measure_all(observation)
            return observation.result.instructions, observation.result.cpu_seconds

    return run


def request_for(program: Path, arguments: Sequence[str], output: int) -> RunRequest:
    """Return the request for a run whose output goes to a descriptor."""
    return RunRequest(
        program=program,
        guest=GuestOptions(root=ROOT, stdout=output, stderr=output),
        arguments=tuple(map(os.fsencode, arguments)),
    )


def compared(program: Path, arguments: Sequence[str]) -> tuple[int, float]:
    """Compare all modes, and count all that this takes."""
    from profiler.commands.compare import make_settings
    from profiler.reports import compare_json, compare_text
    from profiler.schemes.registry import planned_modes
    from profiler.session.session import compare_program

    started = time.process_time()
    settings = tuple(make_settings(planned_modes(), TPP_SETTINGS, SchemeOptions()))
    with null_output() as output:
        comparison = compare_program(request_for(program, arguments, output), settings)
    names = (setting.name for setting in settings)
    rows = tuple(zip(names, comparison.measurements, strict=True))
    compare_json.render(rows, comparison.emulations, comparison.whole_emulations)
    compare_text.render(rows, comparison.emulations, comparison.whole_emulations)
    return comparison.measurements[0].base, time.process_time() - started


def emulated(command: Sequence[str]) -> Runner:
    """Run under another emulator."""

    def run(program: Path, arguments: Sequence[str]) -> tuple[int, float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [*command, str(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 0, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    return run


def qemu_configurations(directory: Path) -> dict[str, Runner]:
    """Return what can be measured with qemu here; the plugin is built into `directory`."""
    emulator = shutil.which("qemu-sparc64")
    if emulator is None:
        return {}
    found = {"qemu": emulated([emulator])}
    plugin = directory / "edges.so"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return found
    source = ROOT / "tools" / "edge_plugin.c"
    build = [compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(plugin)]
    if subprocess.run(build, capture_output=True, check=False).returncode == 0:
        found["qemu-edges"] = emulated([emulator, "-plugin", str(plugin)])
    return found


def configurations(directory: Path) -> dict[str, Runner]:
    """Return everything that can be measured here, by name, in the table's order."""
    return {
        "bare": machine_alone(bare=True),
        "counting": machine_alone(bare=False),
        "edges": profiled("edges"),
        "qpt2": profiled("qpt2"),
        "pp": profiled("pp"),
        "pp-hash": profiled("pp", table=TableChoice.HASH),
        "pp+qpt2": profiled("pp", "qpt2"),
        "compare": compared,
        **qemu_configurations(directory),
    }


def selected(runners: dict[str, Runner], names: Sequence[str]) -> dict[str, Runner]:
    """Return the configurations named, and `bare`; without names, all.

    Raises
    ------
    UsageError
        If there is none of a name.
    """
    for name in names:
        if name not in runners:
            raise UsageError(f"no configuration {name!r}: name one of {', '.join(runners)}")
    return {name: run for name, run in runners.items() if not names or name in ("bare", *names)}


def measure(
    workloads: Sequence[Workload], runners: dict[str, Runner], repeat: int, quick: bool
) -> list[Result]:
    """Time every configuration on every workload, interleaved, so that noise hits all alike."""
    results = []
    for workload in workloads:
        arguments = workload.quick if quick else workload.arguments
        times: dict[str, float] = {}
        wholes: dict[str, float] = {}
        instructions = 0
        for name, run in runners.items():  # compiles the kernels, fills the caches
            run(workload.program, workload.quick)
            times[name] = wholes[name] = float("inf")
        for _ in range(repeat):
            for name, run in runners.items():
                started = time.perf_counter()
                executed, seconds = run(workload.program, arguments)
                wholes[name] = min(wholes[name], time.perf_counter() - started)
                instructions = max(instructions, executed)
                times[name] = min(times[name], seconds)
        results += [
            Result(workload.name, name, instructions, seconds, wholes[name])
            for name, seconds in times.items()
        ]
    return results


def ratio(result: Result, results: Sequence[Result]) -> float:
    """Return a result's emulation time in units of the bare engine's on the same workload."""
    (bare,) = [
        each
        for each in results
        if each.workload == result.workload and each.configuration == "bare"
    ]
    return result.seconds / bare.seconds


def as_json(results: Sequence[Result]) -> str:
    """Return the results for machines."""
    rows = [
        {
            "workload": each.workload,
            "configuration": each.configuration,
            "instructions": each.instructions,
            "emulation_seconds": each.seconds,
            "whole_seconds": each.whole,
            "ratio": ratio(each, results),
            "limit": LIMITS.get(each.configuration),
        }
        for each in results
    ]
    return json.dumps({"schema": "simprof/bench/1", "results": rows}) + "\n"


def as_table(results: Sequence[Result]) -> Table:
    """Return the results for people."""
    table = Table("workload", "configuration", title="Speed", box=None)
    for title in ("M instructions", "emulation", "whole", "M instructions/s", "x bare", "limit"):
        table.add_column(title, justify="right")
    for each in results:
        millions = each.instructions / 1e6
        limit = LIMITS.get(each.configuration)
        table.add_row(
            each.workload,
            each.configuration,
            f"{millions:.0f}",
            f"{each.seconds:.3f}",
            f"{each.whole:.3f}",
            f"{millions / each.seconds:.0f}",
            f"{ratio(each, results):.2f}",
            "" if limit is None else f"{limit:.1f}",
        )
    return table


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON; - is stdout")
    parser.add_argument("--repeat", type=int, default=3, help="take the best of so many runs")
    parser.add_argument("--quick", action="store_true", help="short runs, to try it out")
    parser.add_argument(
        "--configuration", action="append", metavar="NAME", default=[], help="only this; repeatable"
    )
    parser.add_argument(
        "--program", action="append", choices=[each.name for each in WORKLOADS], default=[]
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit 1 where a limit is passed."""
    chosen = parse(arguments)
    workloads = [each for each in WORKLOADS if not chosen.program or each.name in chosen.program]
    try:
        with tempfile.TemporaryDirectory(prefix="simprof-bench-") as directory:
            runners = selected(configurations(Path(directory)), chosen.configuration)
            results = measure(workloads, runners, max(chosen.repeat, 1), chosen.quick)
    except SimulatorError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_status
    if chosen.json == "-":
        print(as_json(results), end="")
    else:
        Console(width=100).print(as_table(results))
        if chosen.json:
            Path(chosen.json).write_text(as_json(results))
    slow = [
        each
        for each in results
        if ratio(each, results) > LIMITS.get(each.configuration, float("inf"))
    ]
    return 1 if slow and not chosen.quick else 0


if __name__ == "__main__":
    sys.exit(main())
