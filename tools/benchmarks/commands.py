"""Whole commands: `simprof run` and `simprof compare` from their start to their reports.

Each is a process of its own, as users start it; it writes its text report and its JSON. *Cold* is
the first run of a binary: the cache of what simprof knows of binaries is empty. *Warm* is the same
command once more. simprof's own compiled kernels are there in both: they are compiled once for an
installation, not for a binary.

qemu-user counts the same program's blocks or edges with a native plugin (`tools/edge_plugin.c`),
and `import-numba` is what Python takes to import numba, without which no run starts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from simprof.simulator.errors import UsageError
from tools.benchmarks import programs
from tools.benchmarks.processes import Cost, measure
from tools.benchmarks.programs import Program
from tools.benchmarks.rows import COMPARED, ROOT, Part, Results, Row, State

QEMU = "qemu-plugin"
QEMU_BLOCKS = "qemu-blocks"
PEERS = {QEMU_BLOCKS: "blocks", QEMU: "edges"}
"""qemu-user with the plugin, and what that counts."""
NUMBA = "import-numba"
ALL_MODES = "compare-all"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "run-edges": ("run", "--mode=edges"),
    "run-pp": ("run", "--mode=pp"),
    "run-tpp": ("run", "--mode=tpp"),
    "compare": ("compare", f"--mode={','.join(COMPARED)}"),
    ALL_MODES: ("compare",),
}
"""Words of simprof's command line."""
CONFIGURATIONS = (NUMBA, *PEERS, *COMMANDS)
START = "import sys; from simprof.profiler.cli import main; sys.exit(main())"
WARMING = ROOT / "fixtures" / "bin" / "v9" / "loops.elf"
"""The program with which simprof's kernels are compiled before anything is timed."""
Tell = Callable[[Row], None]


@dataclass(frozen=True)
class Measuring:
    """How to measure.

    Attributes
    ----------
    results
        Where rows go.
    repeat
        How often each is measured; the run that takes the least processor time counts.
    timeout
        Seconds after which a process is ended.
    tell
        Called with every row.
    """

    results: Results
    repeat: int
    timeout: float
    tell: Tell

    def add(self, *rows: Row) -> None:
        """Keep rows, and tell of them."""
        for row in rows:
            self.results.add(row)
            self.tell(row)


def measure_command(measuring: Measuring, part: Part, program: Program, configuration: str) -> None:
    """Add the rows of a configuration: one, or of simprof two, cold and warm."""
    states: tuple[State, ...] = ("cold", "warm") if configuration in COMMANDS else ("",)
    text = programs.text_size(program.path) if configuration in COMMANDS else 0
    name, arguments = program.name, program.arguments
    if configuration == NUMBA:
        name, arguments = "python", ()
    rows = [Row(part, name, configuration, state, arguments, text=text) for state in states]
    if all(measuring.results.has(row) for row in rows):
        return
    taken = [_once(program, configuration, measuring.timeout) for _ in range(measuring.repeat)]
    measuring.add(
        *(
            _best(row, [each[number] for each in taken if len(each) > number])
            for number, row in enumerate(rows)
        )
    )


Taken = tuple[Cost, Mapping[str, int]]
"""What a process took, and what its JSON says of the run."""


def _once(program: Program, configuration: str, timeout: float) -> list[Taken]:
    """Measure a configuration once: of simprof in an empty cache, then in the cache it has left."""
    with tempfile.TemporaryDirectory(prefix="simprof-bench-") as scratch:
        directory = Path(scratch)
        if configuration == NUMBA:
            command = [sys.executable, "-c", "import numba"]
            return [(_process(command, directory, timeout), {})]
        if configuration in PEERS:
            return [_qemu(program, PEERS[configuration], directory, timeout)]
        command = simprof_command(program, configuration, directory / "report.json")
        cold = _process(command, directory, timeout, program)
        if cold.outcome != "ok":
            return [(cold, {}), (cold, {})]  # nothing was left that a second run could use
        facts = run_facts(directory / "report.json")
        warm = _process(command, directory, timeout, program)
        return [(cold, facts), (warm, run_facts(directory / "report.json"))]


def simprof_command(program: Program, configuration: str, report: Path) -> list[str]:
    """Return the command line of a configuration of simprof."""
    return [
        *(sys.executable, "-c", START, *COMMANDS[configuration], "--json", str(report)),
        *(*_surroundings(program), str(program.path), "--", *program.arguments),
    ]


def _surroundings(program: Program) -> list[str]:
    given = [] if program.stdin is None else ["--stdin", str(program.stdin)]
    return ["--no-progress", "--root", str(program.root), *given]


def _process(
    command: Sequence[str], cache: Path, timeout: float, program: Program | None = None
) -> Cost:
    """Measure a process of Python with a cache of its own; modules are compiled, as installed."""
    left = {name for name in os.environ if name.startswith("SIMPROF_")}
    left.add("PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in left}
    return measure(
        command,
        timeout=timeout,
        directory=ROOT,
        environment=kept | {"XDG_CACHE_HOME": str(cache)},
        status=0 if program is None else program.status,
    )


def _qemu(program: Program, counted: str, directory: Path, timeout: float) -> Taken:
    """Measure qemu-user with the plugin."""
    emulator, plugin = programs.emulator(program.width), programs.built_plugin(directory)
    if emulator is None or plugin is None:
        return (Cost("failed", 0.0, 0.0, 0, None, "qemu-user or a C compiler is missing"), {})
    log = directory / "plugin.log"
    given = f"{plugin}{programs.PLUGIN_OPTIONS[counted]}"
    options = ("-plugin", given, "-d", "plugin", "-D", str(log))
    cost = measure(
        [emulator, *options, str(program.path), *program.arguments],
        timeout=timeout,
        directory=program.root,
        environment={},
        stdin=program.stdin,
        status=program.status,
    )
    return cost, plugin_facts(log.read_text() if log.exists() else "")


def plugin_facts(log: str) -> dict[str, int]:
    """Return what the plugin has counted: "edges 3 crossings 8 instructions 20 lost 0"."""
    words = log.split()
    with suppress(ValueError, IndexError):
        return {"instructions": int(words[words.index("instructions") + 1])}
    return {}


def run_facts(path: Path) -> dict[str, int]:
    """Return instructions and emulated runs, as a JSON of `run` or of `compare` has them."""
    found = json.loads(path.read_text())
    if found["format"] == "simprof/compare":
        runs, whole = found["emulations"], found["whole_emulations"]
    else:
        runs, whole = found["counts"]["runs"], found["counts"]["whole_runs"]
    return {**instructions(path), "runs": runs, "whole_runs": whole}


def instructions(path: Path) -> dict[str, int]:
    """Return how many instructions the program executed, as a JSON has it; {} without one."""
    if not path.exists():
        return {}
    return {"instructions": json.loads(path.read_text())["instructions"]["base"]}


def _best(row: Row, taken: Sequence[Taken]) -> Row:
    """Return the row with the run that took the least processor time, or that failed."""
    bad = [each for each in taken if each[0].outcome != "ok"]
    cost, facts = bad[0] if bad else min(taken, key=lambda each: each[0].cpu)
    return replace(
        row,
        outcome=cost.outcome,
        wall=cost.wall,
        cpu=cost.cpu,
        peak=cost.peak,
        detail=cost.detail,
        beside=cost.beside,
        repeat=len(taken),
        instructions=facts.get("instructions", 0),
        runs=facts.get("runs", 0),
        whole_runs=facts.get("whole_runs", 0),
    )


def warm_up(timeout: float) -> None:
    """Compile simprof's kernels, and read what every run reads.

    Raises
    ------
    UsageError
        If simprof does not work: there would be nothing to time.
    """
    program = Program("loops", WARMING, 64, (), WARMING.parent)
    for configuration in COMMANDS:
        for cost, _ in _once(program, configuration, timeout):
            if cost.outcome == "failed":
                raise UsageError(f"{configuration} fails on {WARMING}: {cost.detail}")


def configurations_of(program: Program) -> tuple[str, ...]:
    """Return what is measured of a program."""
    # Importing numba only beside the smallest, and all modes only on the largest
    left = {NUMBA} if program.name != programs.names()[0] else set()
    left |= {ALL_MODES} if program.name != programs.LARGEST else set()
    return tuple(each for each in CONFIGURATIONS if each not in left)
