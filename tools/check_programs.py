"""Run real programs under simprof and under qemu-user, and compare all that can be seen.

    python -m tools.check_programs                   build what is missing, run all, print a table
    python -m tools.check_programs bzip2 lua-files   only these runs (--list names them)
    python -m tools.check_programs --json FILE       the table for machines

Compared are standard output and standard error, exit status, every file that was written, and the
number of instructions, which has to be the same to the last one: qemu counts with
tools/count_plugin.c. Both modes, `pp` and `qpt2`, run in one emulation; their edge counts must be
equal, and flow conserved at every block.

What a program does may depend on what it finds, so both emulators give it the same: its name, its
environment, pipes for its output, the same input file, a fresh directory of the same name.
simprof's programs run as user 1000; root (who can) starts qemu as that user too. What is left are
the clock, the process number and random bytes. Programs that print or use them are built with a
clock that stands still.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.profiler.graphs.cfg import ENTRY, EXIT, VertexName
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.profiler.request.request import GuestOptions, Progress, RunRequest, Setting
from simprof.profiler.session.session import compare_program
from simprof.simulator.errors import SimulatorError
from tools.build_programs import DEFAULT_CACHE, PROGRAMS, WIDTHS, build_programs
from tools.program_runs import OLD, RUNS, ProgramRun, prepare

ROOT = Path(__file__).resolve().parent.parent
EMULATORS = {"64": "qemu-sparc64", "32": "qemu-sparc32plus"}
USER = 1000
"""The user that simprof's programs run as."""


@dataclass(frozen=True)
class FileState:
    """One file or directory that a run left. `old`: its time is still the inputs' time."""

    mode: str
    old: bool
    content: bytes


@dataclass(frozen=True)
class Outcome:
    """Everything that one run did. `files` by path relative to the run's directory."""

    output: bytes
    errors: bytes
    status: int
    instructions: int
    files: dict[str, FileState]
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """One program run under both. Empty `differences`: all is the same.

    `seconds` is simprof's wall time, `phases` its parts; `overheads` are by mode, in added
    instructions per instruction.
    """

    run: str
    width: str
    differences: tuple[str, ...]
    instructions: int
    overheads: dict[str, float]
    reruns: int
    seconds: float
    phases: dict[str, float]
    qemu_seconds: float
    routines: int
    paths: int


@dataclass
class Phases:
    """Sums the time that each phase of a session takes; give `tell` to the session."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    current: str = ""
    since: float = 0.0

    def tell(self, progress: Progress) -> None:
        """Note the phase of `progress`."""
        self.enter(str(progress.phase))

    def enter(self, phase: str) -> None:
        """Begin `phase`; an empty one ends the last."""
        now = time.perf_counter()
        if self.current:
            self.seconds[self.current] += now - self.since
        self.current, self.since = phase, now


class Reader:
    """A pipe whose contents are collected while something writes to it."""

    def __init__(self) -> None:
        self._source, self.writable = os.pipe()
        self._pieces: list[bytes] = []
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        while piece := os.read(self._source, 1 << 16):
            self._pieces.append(piece)

    def close(self) -> bytes:
        """Close the writing end and return everything that was written."""
        os.close(self.writable)
        self._thread.join()
        os.close(self._source)
        return b"".join(self._pieces)


def files_below(directory: Path) -> dict[str, FileState]:
    """Return all files and directories below `directory`."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(directory))] = FileState(
            stat.filemode(status.st_mode), int(status.st_mtime) == OLD, content
        )
    return found


def under_qemu(
    program: Path, run: ProgramRun, width: str, directory: Path, plugin: Path
) -> Outcome:
    """Run under qemu-user, counting instructions. As root: as the user that simprof shows."""
    emulator = shutil.which(EMULATORS[width])
    if emulator is None:
        raise BuildError(f"{EMULATORS[width]} is not installed: run tools/install_toolchain.sh")
    log = directory.parent / "count.log"
    log.touch()
    user: int | None = None
    if os.geteuid() == 0:
        user = USER
        for path in (log, directory, *directory.rglob("*")):
            os.chown(path, USER, USER)
    counting = ["-plugin", str(plugin), "-d", "plugin", "-D", str(log)]
    started = time.perf_counter()
    with Path(directory / run.input if run.input else os.devnull).open("rb") as given:
        done = subprocess.run(
            [emulator, *counting, str(program), *run.arguments],
            stdin=given, capture_output=True, cwd=directory, env=dict(run.environment),
            check=False,
            user=user, group=user, extra_groups=None if user is None else [],
        )  # fmt: skip
    seconds = time.perf_counter() - started
    match = re.search(r"^instructions (\d+)", log.read_text(), re.MULTILINE)
    if match is None:
        raise BuildError(f"{emulator} {program.name}: the plugin printed no count")
    return Outcome(
        done.stdout, done.stderr, done.returncode, int(match[1]), files_below(directory), seconds
    )


def under_simprof(
    program: Path, run: ProgramRun, directory: Path, phases: Phases
) -> tuple[Outcome, list[RunMeasurement]]:
    """Run under simprof in both modes at once; the program may write in its directory."""
    output, errors = Reader(), Reader()
    guest = GuestOptions(
        root=directory,
        writable=directory,
        stdin=Path(directory / run.input if run.input else os.devnull),
        environment=tuple((key.encode(), value.encode()) for key, value in run.environment),
        stdout=output.writable,
        stderr=errors.writable,
    )
    request = RunRequest(
        program=program,
        guest=guest.with_host_paths(program),
        arguments=tuple(map(os.fsencode, run.arguments)),
        progress=phases.tell,
    )
    started = time.perf_counter()
    try:
        settings = [Setting(str(mode), mode, request.scheme) for mode in ("pp", "qpt2")]
        measurements = list(compare_program(request, settings).measurements)
    finally:
        phases.enter("")
        printed, complained = output.close(), errors.close()
    seconds = time.perf_counter() - started
    first = measurements[0]
    files = files_below(directory)
    return (
        Outcome(printed, complained, first.ending.code, first.base, files, seconds),
        measurements,
    )


def differences(expected: Outcome, found: Outcome) -> Iterator[str]:
    """Yield what qemu (`expected`) and simprof do not agree on."""
    for what in ("output", "errors", "status", "instructions"):
        before, after = getattr(expected, what), getattr(found, what)
        if before != after:
            yield f"{what}: qemu {shorten(before)}, simprof {shorten(after)}"
    for name in sorted(expected.files.keys() | found.files.keys()):
        before, after = expected.files.get(name), found.files.get(name)
        if before is None or after is None:
            yield f"file {name}: only {'simprof' if before is None else 'qemu'} has it"
        elif before != after:
            same = "same" if before.content == after.content else "other"
            modes = f"{before.mode} {before.old}, {after.mode} {after.old}"
            yield f"file {name}: {modes}, {same} content"


def shorten(value: object) -> str:
    """Return a value's text, its middle left out if it is long."""
    text = str(value)
    return text if len(text) <= 300 else f"{text[:150]} ... {text[-150:]}"


def contradictions(measurements: Sequence[RunMeasurement]) -> Iterator[str]:
    """Yield what the two profiles disagree on, and where flow is not conserved."""
    paths, edges = measurements
    for measurement in measurements:
        for what in ("unattributed_transfers", "unattributed_instructions"):
            if measurement.counts[what]:
                yield f"{measurement.mode}: {measurement.counts[what]} {what}"
        yield from (f"{measurement.mode}: warning: {text}" for text in measurement.warnings)
        own = sum(routine.instructions for routine in measurement.routines)
        if own != measurement.base:
            yield f"{measurement.mode}: routines have {own} of {measurement.base} instructions"
    if [routine.key for routine in paths.routines] != [routine.key for routine in edges.routines]:
        yield "pp and qpt2 profiled different routines"
    for first, second in zip(paths.routines, edges.routines, strict=False):
        if counts_of(first) != counts_of(second):
            yield f"{first.name}: edge counts of pp and qpt2 differ"
        if unbalanced(first):
            yield f"{first.name}: flow is not conserved at {unbalanced(first)}"


def counts_of(routine: RoutineProfile) -> list[tuple[object, int]]:
    """Return a routine's edges and their counts."""
    return [(edge.key, edge.count) for edge in routine.edge_counts]


def unbalanced(routine: RoutineProfile) -> list[VertexName]:
    """Return the blocks that are not left as often as they are entered."""
    balance: Counter[VertexName] = Counter()
    for edge in routine.edge_counts:
        balance[edge.target] += edge.count
        balance[edge.source] -= edge.count
    return [vertex for vertex, n in balance.items() if n and vertex not in (ENTRY, EXIT)]


def compare(cache: Path, run: ProgramRun, width: str, plugin: Path) -> Comparison:
    """Run one program in one width under both."""
    phases = Phases()
    with tempfile.TemporaryDirectory(prefix="simprof-check-") as name:
        base = Path(name)
        base.chmod(0o755)
        program = base / run.program
        shutil.copy(cache / "bin" / f"{run.program}.{width}", program)
        shutil.copy(plugin, base / plugin.name)
        directory = base / "work"
        shutil.copytree(cache / "inputs", directory)
        expected = under_qemu(program, run, width, directory, base / plugin.name)
        shutil.rmtree(directory)
        shutil.copytree(cache / "inputs", directory)
        found, measurements = under_simprof(program, run, directory, phases)
    first = measurements[0]
    return Comparison(
        run=run.name,
        width=width,
        differences=(*differences(expected, found), *contradictions(measurements)),
        instructions=found.instructions,
        overheads={each.mode: each.overhead or 0.0 for each in measurements},
        reruns=first.counts["runs"] - 1,
        seconds=found.seconds,
        phases={phase: round(seconds, 3) for phase, seconds in phases.seconds.items()},
        qemu_seconds=expected.seconds,
        routines=len(first.routines),
        paths=sum(len(routine.path_counts) for routine in first.routines),
    )


@contextmanager
def count_plugin() -> Iterator[Path]:
    """Build the plugin; raises BuildError where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise BuildError("no C compiler: run tools/install_toolchain.sh")
    with tempfile.TemporaryDirectory(prefix="simprof-plugin-") as directory:
        plugin = Path(directory) / "count.so"
        source = ROOT / "tools" / "count_plugin.c"
        command = [compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(plugin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"{' '.join(command)}\n{done.stderr}")
        yield plugin


def built(cache: Path, runs: Sequence[ProgramRun]) -> None:
    """Build the programs of `runs` where they are missing, and write all input files."""
    names = {run.program for run in runs}
    build_programs(cache, [program for program in PROGRAMS if program.name in names])
    prepare(cache / "inputs")


def as_table(comparisons: Sequence[Comparison]) -> Table:
    """Return the comparisons for people."""
    table = Table("run", "width", title="Real programs: simprof and qemu-user", box=None)
    titles = ("instructions", "pp +%", "qpt2 +%", "routines", "paths", "reruns", "s", "qemu s")
    for title in titles:
        table.add_column(title, justify="right")
    table.add_column("result")
    for each in comparisons:
        table.add_row(
            each.run,
            each.width,
            f"{each.instructions:,}",
            *(f"{100 * each.overheads[mode]:.1f}" for mode in ("pp", "qpt2")),
            str(each.routines),
            str(each.paths),
            str(each.reruns),
            f"{each.seconds:.1f}",
            f"{each.qemu_seconds:.1f}",
            f"{len(each.differences)} differences" if each.differences else "same",
        )
    return table


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument("--width", choices=sorted(WIDTHS), action="append")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--list", action="store_true", help="name the runs")
    parser.add_argument("names", nargs="*", help="runs (default: all)")
    options = parser.parse_args()
    unknown = set(options.names) - {run.name for run in RUNS}
    if unknown:
        parser.error(f"no such run: {', '.join(sorted(unknown))} (see --list)")
    return options


def main() -> int:
    """Compare what the command line names; exit 1 where something differs."""
    options = parse()
    runs = [run for run in RUNS if not options.names or run.name in options.names]
    if options.list:
        for run in runs:
            print(run.name, "=", run.program, *run.arguments)
        return 0
    cache = options.cache.expanduser().resolve()
    comparisons = []
    try:
        built(cache, runs)
        with count_plugin() as plugin:
            for run in runs:
                for width in options.width or ("64", "32"):
                    comparison = compare(cache, run, width, plugin)
                    comparisons.append(comparison)
                    print(run.name, width, f"{comparison.seconds:.1f} s", file=sys.stderr)
                    for difference in comparison.differences:
                        print(f"{run.name} {width}: {difference}", file=sys.stderr)
    except (BuildError, SimulatorError) as error:
        print(f"check_programs: {run_name(comparisons)}{error}", file=sys.stderr)
        return 2
    Console(width=120).print(as_table(comparisons))
    if options.json:
        rows = [asdict(each) for each in comparisons]
        options.json.write_text(json.dumps({"schema": "simprof/programs/1", "runs": rows}) + "\n")
    return 1 if any(each.differences for each in comparisons) else 0


def run_name(comparisons: Sequence[Comparison]) -> str:
    """Return where an error came, as far as is known."""
    return f"after {comparisons[-1].run} {comparisons[-1].width}: " if comparisons else ""


if __name__ == "__main__":
    sys.exit(main())
