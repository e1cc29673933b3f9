#!/usr/bin/env python3
"""Build the programs of the suite `spec-like` that checks against qemu-user run, in both widths.

    python -m tools.build_programs                 fetch and build all, print where they are
    python -m tools.build_programs --list          name them
    python -m tools.build_programs bzip2 lua       only these
    python -m tools.build_programs --cache DIR     default: ~/.cache/simprof/programs

`profiler.experiments` fetches and builds them as `simprof suite build` does, in the same cache;
here are other runs of them, deterministic and short: some million to some 100 million
instructions. DIR/bin holds the programs, DIR/inputs their files: the runs' working directory.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.sources import text
from simprof.profiler.experiments.suites.suite import BUILDS, Benchmark, Input, Recipe, Suite, Width
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.simulator.errors import SimulatorError

SUITE = "spec-like"
WIDTHS: dict[str, Width] = {"64": 64, "32": 32}
DEFAULT_CACHE = Path("~/.cache/simprof/programs")
TEXT_SEED = 20011


@dataclass(frozen=True)
class RealProgram:
    """A program and one run of it.

    Attributes
    ----------
    name
        A benchmark of the suite, or of `OWN`.
    arguments, input
        The run; `input` names a file of the inputs directory, None is empty.
    """

    name: str
    arguments: tuple[str, ...] = ()
    input: str | None = None

    def path(self, cache: Path, width: str) -> Path:
        """Return where the built program lies; `width` is "64" or "32"."""
        return cache / "bin" / f"{self.name}.{width}"


PROGRAMS = (
    RealProgram("bzip2", ("-9", "-c"), "text.txt"),
    RealProgram("minigzip", ("-c",), "text.txt"),
    RealProgram("lua", ("work.lua",)),
    RealProgram("speedtest1", ("--memdb", "--size", "1")),
    RealProgram("mawk", ("-f", "count.awk"), "text.txt"),
    RealProgram("tinyscheme", ("work.scm",)),
    RealProgram("dblat2", (), "dblat2.in"),
    RealProgram("relax"),
)

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


def sample_text(size: int) -> bytes:
    """Return `size` bytes of text made of pseudo-random words, always the same."""
    return text(size, TEXT_SEED)


def write_inputs(directory: Path) -> None:
    """Write the files that the runs read, but for those that come with a program's source."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "text.txt").write_bytes(sample_text(60_000))
    (directory / "work.lua").write_text(LUA_WORK)
    (directory / "work.scm").write_text(SCHEME_WORK)
    (directory / "count.awk").write_text(AWK_WORK)


def chosen_suite(programs: Sequence[RealProgram]) -> Suite:
    """Return the suite with the benchmarks of `programs` alone."""
    suite = load_suite(SUITE)
    names = {program.name for program in programs}
    return replace(suite, benchmarks=tuple(b for b in (*suite.benchmarks, OWN) if b.name in names))


def build_programs(cache: Path, programs: Sequence[RealProgram] = PROGRAMS) -> list[Path]:
    """Return the built `programs` in both widths; what is there is not built again.

    Raises BuildError.
    """
    (cache / "bin").mkdir(parents=True, exist_ok=True)
    write_inputs(cache / "inputs")
    suite = chosen_suite(programs)
    report = build_suite(suite)
    for (name, build), reason in report.failures.items():
        raise BuildError(f"{name} {build}: {reason}")
    for benchmark in suite.benchmarks:
        given = benchmark.inputs["train"]
        for file in given.files:
            if given.root is not None and file.name in ("init.scm", "dblat2.in"):
                shutil.copy(given.root / file.name, cache / "inputs")
    built = []
    for program in programs:
        for width, bits in WIDTHS.items():
            target = program.path(cache, width)
            partial = target.with_name(f"{target.name}.partial")
            shutil.copy(report.programs[program.name, BUILDS[bits]].path, partial)
            partial.replace(target)
            built.append(target)
    return built


def main() -> int:
    """Build what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument("--list", action="store_true", help="name the programs and their runs")
    parser.add_argument("names", nargs="*", help="programs to build (default: all)")
    options = parser.parse_args()
    unknown = set(options.names) - {p.name for p in PROGRAMS}
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    chosen = [p for p in PROGRAMS if not options.names or p.name in options.names]
    if options.list:
        for program in chosen:
            given = f" < {program.input}" if program.input else ""
            print(f"{program.name} {' '.join(program.arguments)}{given}")
        return 0
    try:
        for path in build_programs(options.cache.expanduser().resolve(), chosen):
            print(path)
    except SimulatorError as error:
        print(f"build_programs: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
