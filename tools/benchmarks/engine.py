"""The engine: how long the emulated run takes, against the bare emulator and against qemu-user.

Every configuration runs the same work, in turn, several times; the shortest time counts. A row's
`cpu` is the processor time of the emulated run, which the ratios compare, within one invocation;
`wall` is wall-clock time and adds loading, graph recovery, planning, pricing and reading the
counters. For qemu both are those of its process. Python's own start is left out, and kernels are
compiled before anything is timed. The workloads are one of tiny loops (two to four instructions a
block), one of mixed loops, and one of calls.

    bare          the engine without any hook, with simprof's memory set-up
    empty         the engine with a native hook at every block that does nothing: what an event
                  costs by itself
    counting      the engine with the native hook that counts instructions
    edges         exact edge profile
    qpt2          edge profile by chord counters, with costs
    pp            path profile, hash tables where arrays do not fit, with costs
    pp-hash       the same with a hash table for every routine
    pp+qpt2       both schemes in one emulation
    compare       `simprof compare` with eleven modes and TPP settings 1,1 5,5 10,10 5,15: fourteen
                  schemes. Its `cpu` is the processor time of everything that the command does once
                  Python has started: loading, recovery, emulations, planning, pricing, reading
                  counters, the report as JSON and as text
    qemu          qemu-user
    qemu-blocks   qemu-user with a native plugin (tools/edge_plugin.c) that adds to a counter in
                  each block, within the translated code
    qemu-edges    qemu-user with the same plugin, which calls a function at each block instead and
                  counts edges

It has a process of its own, `python -m tools.benchmarks.engine`, so that the one that measures
whole commands stays small.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simprof.profiler.request.request import (
    DEFAULT_MEMORY_LIMIT,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.simulator.cpu.traps import CLOCK_WORDS
from simprof.simulator.machine.running import NativeHook
from tools.benchmarks.programs import PLUGIN_OPTIONS, built_plugin, emulator
from tools.benchmarks.rows import COMPARED, ROOT, Row, dump

FIXTURES = ROOT / "fixtures" / "bin" / "v9"


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


CONFIGURATIONS = (
    *("bare", "empty", "counting", "edges", "qpt2", "pp", "pp-hash", "pp+qpt2", "compare"),
    *("qemu", "qemu-blocks", "qemu-edges"),
)


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


class Indifferent:
    """A machine's observer whose hook returns at once: it is the C library's `abs`."""

    def __init__(self) -> None:
        function = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value or 0
        self.hook = NativeHook(function, 0, np.zeros(CLOCK_WORDS, np.int64), keepalive=None)

    def signal_delivered(self, pc: int, npc: int, stack_pointer: int, between: bool) -> None:
        """Note nothing."""

    def signal_returned(self, resumed_pc: int) -> None:
        """Note nothing."""

    def context_replaced(self) -> None:
        """Note nothing."""

    def thread_started(self, number: int, current: int) -> None:
        """Note nothing."""

    def thread_switched(self, number: int) -> None:
        """Note nothing."""

    def thread_ended(self) -> None:
        """Note nothing."""


def machine_alone(bare: bool = False, observer: Indifferent | None = None) -> Runner:
    """Run on the machine without a profiler; `bare`: without any hook."""

    def run(program: Path, arguments: Sequence[str]) -> tuple[int, float]:
        from simprof.profiler.session.world import WINDOWS
        from simprof.simulator.binary.elf import load
        from simprof.simulator.cpu.cpu_state import MAX_WINDOWS
        from simprof.simulator.linux.files import Host
        from simprof.simulator.machine.machine import Machine
        from simprof.simulator.machine.running import Limits

        with null_output() as output:
            host = Host(ROOT, program=program, stdin=b"", stdout=output, stderr=output)
            machine = Machine(
                load(program),
                arguments=tuple(map(os.fsencode, arguments)),
                environment=(),
                host=host,
                limits=Limits(None, None, DEFAULT_MEMORY_LIMIT),
                # Without a hook that notes the block, not every trap can be placed.
                windows=MAX_WINDOWS if bare or observer is not None else WINDOWS,
                observer=observer,
            )
            result = machine.run(bare=bare)
            host.dispose()
            return result.instructions, result.cpu_seconds

    return run


def profiled(*modes: str, table: TableChoice = TableChoice.AUTO) -> Runner:
    """Run under some schemes, in one emulation."""

    def run(program: Path, arguments: Sequence[str]) -> tuple[int, float]:
        from simprof.profiler.session.results import measure_all
        from simprof.profiler.session.session import observe

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
    """Compare eleven modes and TPP's settings, and count all that this takes."""
    from simprof.profiler.experiments.cells.settings import setting
    from simprof.profiler.experiments.tables.tpp import THRESHOLDS
    from simprof.profiler.reports import comparison_report
    from simprof.profiler.schemes.mode_options import read
    from simprof.profiler.session.session import compare_program

    started = time.process_time()
    targeted = (setting("tpp", cold=cold, loop=loop).name for cold, loop in THRESHOLDS.values())
    modes = dict.fromkeys((*COMPARED, *targeted))  # one of TPP's is the mode itself
    settings = tuple(read(mode).setting(SchemeOptions()) for mode in modes)
    with null_output() as output:
        request = request_for(program, arguments, output)
        comparison = compare_program(request, settings, brief=True)  # as the command does
    names = (setting.name for setting in settings)
    rows = tuple(zip(names, comparison.measurements, strict=True))
    comparison_report.render_json(rows, comparison.emulations, comparison.whole_emulations)
    comparison_report.render_text(rows, comparison.emulations, comparison.whole_emulations)
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
    program = emulator(64)
    if program is None:
        return {}
    found = {"qemu": emulated([program])}
    plugin = built_plugin(directory)
    if plugin is not None:
        for counted, option in PLUGIN_OPTIONS.items():
            found[f"qemu-{counted}"] = emulated([program, "-plugin", f"{plugin}{option}"])
    return found


def runners(directory: Path) -> dict[str, Runner]:
    """Return everything that can be measured here, by name, in the table's order."""
    return {
        "bare": machine_alone(bare=True),
        "empty": machine_alone(observer=Indifferent()),
        "counting": machine_alone(),
        "edges": profiled("edges"),
        "qpt2": profiled("qpt2"),
        "pp": profiled("pp"),
        "pp-hash": profiled("pp", table=TableChoice.HASH),
        "pp+qpt2": profiled("pp", "qpt2"),
        "compare": compared,
        **qemu_configurations(directory),
    }


def measure(
    workload: Workload, chosen: dict[str, Runner], repeat: int, quick: bool
) -> Iterator[Row]:
    """Time every configuration on a workload, interleaved, so that noise hits all alike."""
    arguments = workload.quick if quick else workload.arguments
    times = dict.fromkeys(chosen, float("inf"))
    wholes = dict(times)
    instructions = 0
    for run in chosen.values():  # compiles the kernels, fills the caches
        run(workload.program, workload.quick)
    for _ in range(repeat):
        for name, run in chosen.items():
            started = time.perf_counter()
            executed, seconds = run(workload.program, arguments)
            wholes[name] = min(wholes[name], time.perf_counter() - started)
            instructions = max(instructions, executed)
            times[name] = min(times[name], seconds)
    for name in chosen:
        yield Row(
            *("engine", workload.name, name, "", arguments),
            wall=wholes[name],
            cpu=times[name],
            instructions=instructions,
            repeat=repeat,
        )


def main() -> None:
    """Measure one workload, and print its rows as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=[each.name for each in WORKLOADS])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--configuration", action="append", default=[])
    given = parser.parse_args()
    (workload,) = (each for each in WORKLOADS if each.name == given.workload)
    wanted = ("bare", *given.configuration) if given.configuration else CONFIGURATIONS
    with tempfile.TemporaryDirectory(prefix="simprof-bench-") as directory:
        known = runners(Path(directory))
        chosen = {name: run for name, run in known.items() if name in wanted}
        print(dump(measure(workload, chosen, given.repeat, given.quick)), end="")


if __name__ == "__main__":
    main()
