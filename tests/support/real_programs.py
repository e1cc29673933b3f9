"""Real programs of the suite `spec-like`: built in both widths, run under simprof and qemu-user.

`profiler.experiments` fetches and builds them as `simprof suite build` does, in the same cache;
here are other runs of them, deterministic and short: some million to some 100 million instructions.
Some read, write, rename, remove and list files; none prints a time, an address or a random number.

`compare` says what is not the same under both: standard output and standard error, exit status,
every file that was written, and the number of instructions, which qemu counts with
tools/count_plugin.c. Both modes, `pp` and `qpt2`, run in one emulation; their edge counts must be
equal, and flow conserved at every block.

What a program does may depend on what it finds, so both emulators give it the same: its name, its
environment, pipes for its output, the same input file, a fresh directory of the same name.
simprof's programs run as user 1000; root (who can) starts qemu as that user too. What is left are
the clock, the process number and random bytes. Programs that print or use them are built with a
clock that stands still.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.sources import text
from simprof.profiler.experiments.suites.suite import BUILDS, Benchmark, Input, Recipe, Width
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.profiler.graphs.cfg import ENTRY, EXIT, VertexName
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.profiler.request.request import GuestOptions, RunRequest, Setting
from simprof.profiler.session.session import compare_program
from tests.conftest import ROOT

SUITE = "spec-like"
WIDTHS: dict[str, Width] = {"64": 64, "32": 32}
EMULATORS = {"64": "qemu-sparc64", "32": "qemu-sparc32plus"}
USER = 1000
"""The user that simprof's programs run as."""
TEXT_SEED = 20011
OLD = 1_000_000_000
"""When all input files were last changed: what a program keeps of it can then be seen."""


@dataclass(frozen=True)
class ProgramRun:
    """One run of a built program, in a directory that holds the input files.

    Attributes
    ----------
    program
        A benchmark of the suite, or of `OWN`.
    input
        The file that is its standard input; None: it is empty.
    environment
        All variables that it has.
    """

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    input: str | None = None
    environment: tuple[tuple[str, str], ...] = ()


RUNS = (
    ProgramRun("bzip2", "bzip2", ("-9", "-c"), "text.txt"),
    ProgramRun("minigzip", "minigzip", ("-c",), "text.txt"),
    ProgramRun("lua", "lua", ("work.lua",)),
    ProgramRun("speedtest1", "speedtest1", ("--memdb", "--size", "1")),
    ProgramRun("mawk", "mawk", ("-f", "count.awk"), "text.txt"),
    ProgramRun("tinyscheme", "tinyscheme", ("work.scm",)),
    ProgramRun("dblat2", "dblat2", (), "dblat2.in"),
    ProgramRun("relax", "relax"),
    ProgramRun("bzip2-files", "bzip2", ("-k", "-v", "-5", "text.txt", "count.awk", "none")),
    ProgramRun("bzip2-unpack", "bzip2", ("-d", "packed.bz2", "damaged.bz2")),
    ProgramRun("bzip2-test", "bzip2", ("-t", "-vv"), "packed.bz2"),
    ProgramRun("minigzip-files", "minigzip", ("-9", "text.txt", "work.lua")),
    ProgramRun("minigzip-unpack", "minigzip", ("-d", "packed.gz")),
    ProgramRun("lua-files", "lua", ("files.lua", "one", "two words", ""), None, (("TZ", "EST5"),)),
    ProgramRun("lua-error", "lua", ("-e", "error({}, 2)")),
    ProgramRun("lua-stdin", "lua", ("-",), "work.lua"),
    ProgramRun("mawk-files", "mawk", ("-f", "split.awk", "limit=40", "text.txt", "text.txt")),
    ProgramRun("speedtest1-file", "speedtest1", ("--size", "1", "--verify", "test.db")),
    ProgramRun(
        "speedtest1-journal", "speedtest1",
        ("--size", "1", "--journal", "wal", "--testset", "cte", "--autovacuum", "log.db"),
    ),
)  # fmt: skip

OWN = Benchmark(
    name="relax",
    group="FP",
    stands_for="none",
    why="Doubles, complex and 128-bit numbers, formatted output.",
    recipe=Recipe(
        files=(Path(__file__).resolve().with_name("relax.f90"),),
        sources=("relax.f90",),
        language="fortran",
    ),
    inputs={"train": Input("train"), "ref": Input("ref")},
)

LUA_WORK = """\
local function queens(n)
  local found, cols, up, down = 0, {}, {}, {}
  local function place(row)
    if row > n then found = found + 1 return end
    for c = 1, n do
      if not (cols[c] or up[row + c] or down[row - c + n]) then
        cols[c], up[row + c], down[row - c + n] = true, true, true
        place(row + 1)
        cols[c], up[row + c], down[row - c + n] = nil, nil, nil
      end
    end
  end
  place(1)
  return found
end
print("queens", queens(8))
local words = {}
for w in string.rep("the quick brown fox jumps over the lazy dog ", 60):gmatch("%a+") do
  words[w] = (words[w] or 0) + 1
end
local keys = {}
for w in pairs(words) do keys[#keys + 1] = w end
table.sort(keys)
for _, w in ipairs(keys) do io.write(w, " ", words[w], "\\n") end
print(pcall(error, {code = 3}), select("#", pcall(error, "x")))
local co = coroutine.wrap(function() for i = 1, 300 do coroutine.yield(i * i) end end)
local sum = 0
for i = 1, 300 do sum = sum + co() end
print(sum, 7 // 2, 7 / 2, 2 ^ 0.5, string.format("%.10g %5.2f %x", 1 / 3, 2.5, 255))
"""

SCHEME_WORK = """\
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(define (tak x y z)
  (if (not (< y x)) z (tak (tak (- x 1) y z) (tak (- y 1) z x) (tak (- z 1) x y))))
(display (fib 13)) (newline)
(display (tak 8 4 2)) (newline)
(define (make-queue) (cons '() '()))
(display (map (lambda (x) (* x x)) '(1 2 3 4 5))) (newline)
(display (call/cc (lambda (k) (for-each (lambda (x) (if (> x 3) (k x))) '(1 2 3 4 5)) 0)))
(newline)
(display (/ 1.0 3)) (newline)
"""

AWK_WORK = """\
{ for (i = 1; i <= NF; i++) { words[$i]++; letters += length($i) } }
/t.*n/ { matched++ }
{ gsub(/[aeiou]/, "#"); changed += length($0); line = line substr($0, 1, 1) }
END {
  for (w in words) { n++; if (words[w] > most) { most = words[w] } }
  printf "%d lines, %d different, most %d, letters %d, matched %d\\n", NR, n, most, letters, matched
  printf "%d %s %.6f\\n", changed, toupper(substr(line, 1, 20)), sqrt(letters)
}
"""


FILES_LUA = """\
print(#arg, arg[1], arg[2], arg[3], arg[4])
local name = "made.txt"
local out = assert(io.open(name, "w"))
out:setvbuf("full", 100)
for i = 1, 500 do out:write(i, "\\t", i * i, "\\n") end
print(out:seek("cur"), out:seek("set", 10), out:write("xyz"), out:seek("end"))
out:close()
local sum = 0
for number, square in io.lines(name, "n", "n") do
  if not square then break end
  sum = sum + square
end
print(sum)
local both = assert(io.open(name, "r+b"))
print(both:read(20), both:read("l"), both:read(0), both:seek("cur"))
both:seek("end", -8)
print(both:read("a"))
both:close()
local more = assert(io.open(name, "a"))
more:write("the end\\n")
more:close()
local text = assert(io.open(name)):read("a")
print(#text, text:sub(-12))
print(os.rename(name, "renamed.txt"))
print(io.open(name))
print(os.rename(name, "again.txt"))
print(os.remove(name))
print(io.open("text.txt/below"))
print(io.open("."):read(1))
print(io.open("no/such/file", "w"))
local scratch = io.open("scratch", "w+")
scratch:write(string.rep("0123456789", 2000))
scratch:seek("set", 9995)
print(scratch:read(10), scratch:close())
print(os.getenv("HOME"), os.getenv("NOT_SET"))
print(os.date("!%Y-%m-%d %H:%M:%S", 86399), os.time({year = 2001, month = 9, day = 9, hour = 1}))
print(os.date("%c", 1000000000), os.difftime(10, 4), os.setlocale("C"), os.getenv("TZ"))
print(os.clock() >= 0, os.time() > 0, math.type(os.time()))
io.stderr:write("to stderr\\n")
print(pcall(require, "absent"))
print(io.write("no newline"):seek("cur"))
collectgarbage()
os.exit(7, true)
"""

SPLIT_AWK = """\
FNR == 1 { files++ }
FNR <= limit { print FILENAME, FNR, $1 > ("part" files ".txt"); print $NF >> "last.txt" }
END {
  close("last.txt")
  while ((getline line < "last.txt") > 0) { n++; size += length(line) }
  if ((getline line < "absent.txt") < 0) { print "absent" }
  print n, size, files, NR
  printf "%s %c %5.2f|%-8s|%08d\\n", "text", 65, 3.14159, "left", 42 > "/dev/stderr"
  exit 3
}
"""


def write_inputs(directory: Path) -> None:
    """Write the files of all runs; those that come with a program's source are there already."""
    (directory / "text.txt").write_bytes(text(60_000, TEXT_SEED))
    (directory / "work.lua").write_text(LUA_WORK)
    (directory / "work.scm").write_text(SCHEME_WORK)
    (directory / "count.awk").write_text(AWK_WORK)
    (directory / "files.lua").write_text(FILES_LUA)
    (directory / "split.awk").write_text(SPLIT_AWK)
    given = text(30_000, TEXT_SEED)
    packed = bz2.compress(given, 4)
    (directory / "packed.bz2").write_bytes(packed)
    (directory / "damaged.bz2").write_bytes(packed[:500] + b"\x00" + packed[501:])
    (directory / "packed.gz").write_bytes(gzip.compress(given, mtime=0))
    for path in directory.iterdir():
        os.utime(path, (OLD, OLD))


def build_programs(directory: Path) -> None:
    """Build the programs of all runs in both widths, and write their files.

    `bin` holds the programs, `inputs` their files. Raises BuildError.
    """
    names = {run.program for run in RUNS}
    suite = load_suite(SUITE)
    chosen = tuple(b for b in (*suite.benchmarks, OWN) if b.name in names)
    report = build_suite(replace(suite, benchmarks=chosen))
    for (name, build), reason in report.failures.items():
        raise BuildError(f"{name} {build}: {reason}")
    (directory / "bin").mkdir()
    (directory / "inputs").mkdir()
    for benchmark in chosen:
        given = benchmark.inputs["train"]
        for file in given.files:
            if given.root is not None and file.name in ("init.scm", "dblat2.in"):
                shutil.copy(given.root / file.name, directory / "inputs")
        for width, bits in WIDTHS.items():
            made = report.programs[benchmark.name, BUILDS[bits]].path
            shutil.copy(made, directory / "bin" / f"{benchmark.name}.{width}")
    write_inputs(directory / "inputs")


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


@dataclass(frozen=True)
class Comparison:
    """One program run under both. Empty `differences`: all is the same."""

    differences: tuple[str, ...]
    instructions: int
    paths: int


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
    with Path(directory / run.input if run.input else os.devnull).open("rb") as given:
        done = subprocess.run(
            [emulator, *counting, str(program), *run.arguments],
            stdin=given, capture_output=True, cwd=directory, env=dict(run.environment),
            check=False,
            user=user, group=user, extra_groups=None if user is None else [],
        )  # fmt: skip
    match = re.search(r"^instructions (\d+)", log.read_text(), re.MULTILINE)
    if match is None:
        raise BuildError(f"{emulator} {program.name}: the plugin printed no count")
    return Outcome(done.stdout, done.stderr, done.returncode, int(match[1]), files_below(directory))


def under_simprof(
    program: Path, run: ProgramRun, directory: Path
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
    )
    try:
        settings = [Setting(str(mode), mode, request.scheme) for mode in ("pp", "qpt2")]
        measurements = list(compare_program(request, settings).measurements)
    finally:
        printed, complained = output.close(), errors.close()
    first = measurements[0]
    files = files_below(directory)
    return Outcome(printed, complained, first.ending.code, first.base, files), measurements


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


def compare(built: Path, run: ProgramRun, width: str, plugin: Path) -> Comparison:
    """Run one of the programs in `built` in one width under both."""
    with tempfile.TemporaryDirectory(prefix="simprof-check-") as name:
        base = Path(name)
        base.chmod(0o755)
        program = base / run.program
        shutil.copy(built / "bin" / f"{run.program}.{width}", program)
        shutil.copy(plugin, base / plugin.name)
        directory = base / "work"
        shutil.copytree(built / "inputs", directory)
        expected = under_qemu(program, run, width, directory, base / plugin.name)
        shutil.rmtree(directory)
        shutil.copytree(built / "inputs", directory)
        found, measurements = under_simprof(program, run, directory)
    return Comparison(
        (*differences(expected, found), *contradictions(measurements)),
        found.instructions,
        sum(len(routine.path_counts) for routine in measurements[0].routines),
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
