#!/usr/bin/env python3
"""Build real programs from Debian's source packages, as 32-bit and 64-bit static SPARC programs.

    tools/build_programs.py                 fetch and build all, print where they are
    tools/build_programs.py --list          name them
    tools/build_programs.py bzip2 lua       only these
    tools/build_programs.py --cache DIR     default: ~/.cache/simprof/programs

Sources come through apt-get, with a source list of our own below the cache directory; the
system's settings are not touched, and root is not needed. The upstream archives' checksums are
in this file; those of what was built are written to CHECKSUMS in the cache. Nothing fetched is
committed. Needs apt-get, make, a host C compiler (SQLite generates its source) and the cross
compilers of the README.

Each program has one run (arguments, standard input), deterministic and short: some million to some
100 million instructions (dblat1: 0.2 million). Its files are written to the cache's inputs
directory, which is the run's working directory.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

COMPILER = "sparc64-linux-gnu-gcc-12"
FORTRAN = "sparc64-linux-gnu-gfortran-12"
WIDTHS = {"64": ("-m64",), "32": ("-m32", "-mcpu=v9")}
FLAGS = ("-O2", "-g", "-static")
SOURCE_LIST = (
    "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    " http://deb.debian.org/debian bookworm main\n"
)
DEFAULT_CACHE = Path("~/.cache/simprof/programs")
RECIPES = 2
"""Raised when programs are built otherwise than before: those in a cache are then built again."""


class BuildError(Exception):
    """A program cannot be fetched or built; the message says which step failed and how."""


@dataclass(frozen=True)
class Package:
    """A Debian source package: its upstream archive, and the directory that this unpacks to."""

    name: str
    archive: str
    sha256: str
    directory: str


@dataclass(frozen=True)
class RealProgram:
    """A program, how it is built, and one run of it.

    Attributes
    ----------
    build
        Called with the source directory, the width flags and the file to make.
    package
        None for a program whose source is in this file.
    arguments, input
        The run; `input` names a file of the inputs directory, None is empty.
    """

    name: str
    package: Package | None
    build: Callable[[Path, Sequence[str], Path], None]
    arguments: tuple[str, ...] = ()
    input: str | None = None

    def path(self, cache: Path, width: str) -> Path:
        """Return where the built program lies; `width` is "64" or "32"."""
        return cache / "bin" / f"{self.name}.{width}"


def run(command: Sequence[str | Path], directory: Path, stdin: bytes = b"") -> None:
    """Run `command` in `directory`; raise BuildError with the end of its output if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=directory, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise BuildError(f"{words[0]} is not installed") from error
    if done.returncode != 0:
        tail = done.stdout.decode(errors="replace")[-2000:]
        raise BuildError(f"{' '.join(words)[:300]}\n{tail}")


def compile_c(
    source: Path, width: Sequence[str], target: Path, flags: Iterable[str], files: Iterable[str]
) -> None:
    """Compile C `files` of `source` into the static program `target`."""
    run([COMPILER, *width, *FLAGS, *flags, "-o", target, *files, "-lm"], source)


CONSTANT_CLOCK = """\
#include <sys/time.h>
#include <time.h>
/* What a program does may depend on the time: with a clock that stands still it never does. */
int __wrap_gettimeofday(struct timeval *now, void *zone)
{
    (void)zone;
    now->tv_sec = 1000000000;
    now->tv_usec = 0;
    return 0;
}

time_t __wrap_time(time_t *now)
{
    if (now)
        *now = 1000000000;
    return 1000000000;
}
"""


def constant_clock(directory: Path) -> list[str]:
    """Return arguments that give a program compiled in `directory` a clock that stands still."""
    (directory / "clock.c").write_text(CONSTANT_CLOCK)
    return ["clock.c", "-Wl,--wrap=gettimeofday,--wrap=time"]


def build_bzip2(source: Path, width: Sequence[str], target: Path) -> None:
    """bzip2: all modules of its Makefile."""
    files = "blocksort huffman crctable randtable compress decompress bzlib bzip2".split()
    compile_c(source, width, target, ["-D_FILE_OFFSET_BITS=64"], [f"{f}.c" for f in files])


def build_minigzip(source: Path, width: Sequence[str], target: Path) -> None:
    """The test program of zlib."""
    files = [*sorted(p.name for p in source.glob("*.c")), "test/minigzip.c"]
    compile_c(source, width, target, ["-DHAVE_UNISTD_H", "-I."], files)


def build_lua(source: Path, width: Sequence[str], target: Path) -> None:
    """The Lua interpreter, without its compiler program. Hashes are seeded by the time."""
    work = source / "src"
    files = sorted(p.name for p in work.glob("*.c") if p.name not in ("luac.c", "clock.c"))
    compile_c(work, width, target, ["-DLUA_USE_POSIX"], [*files, *constant_clock(work)])


def build_tinyscheme(source: Path, width: Sequence[str], target: Path) -> None:
    """TinyScheme; it reads init.scm from the working directory."""
    flags = ["-DUSE_DL=0", "-DUSE_MATH=1", "-DUSE_ASCII_NAMES=1", "-DSTANDALONE=1"]
    compile_c(source, width, target, [*flags, '-DInitFile="init.scm"'], ["scheme.c"])
    shutil.copy(source / "init.scm", target.parent.parent / "inputs")


def build_speedtest1(source: Path, width: Sequence[str], target: Path) -> None:
    """SQLite's benchmark, which prints durations. The host's tools make its one-file source."""
    work = source / "one-file"
    work.mkdir(exist_ok=True)
    if not (work / "sqlite3.c").exists():
        run(["../configure", "--disable-tcl"], work)
        run(["make", "sqlite3.c"], work)
    flags = ["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-I."]
    files = ["../test/speedtest1.c", "sqlite3.c", *constant_clock(work)]
    compile_c(work, width, target, flags, files)


def build_mawk(source: Path, width: Sequence[str], target: Path) -> None:
    """mawk, configured in a copy for each width; its random numbers from the built-in generator."""
    work = source.parent / f"{source.name}{width[0]}"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work)
    compiler = f"CC={COMPILER} {' '.join(width)}"
    options = ["--host=sparc64-linux-gnu", "--with-builtin-srand", "--enable-init-srand=no"]
    run(["./configure", *options, compiler, "CFLAGS=-O2 -g", "LDFLAGS=-static"], work)
    run(["make"], work)
    shutil.copy(work / "mawk", target)


def build_dblat1(source: Path, width: Sequence[str], target: Path) -> None:
    """The test of the level 1 BLAS, with the whole reference BLAS (Fortran 77 and 90)."""
    directory = source / "BLAS"
    files = sorted(p.relative_to(directory) for p in (directory / "SRC").glob("*.f*"))
    command = [FORTRAN, *width, *FLAGS, "-std=legacy", "-w", "-o", target]
    run([*command, "TESTING/dblat1.f", *files], directory)


FORTRAN_WORK = """\
program relax
  implicit none
  integer, parameter :: n = 60
  real(8) :: grid(0:n, 0:n), next(0:n, 0:n), change
  real(16) :: wide
  complex(8) :: turn, point
  integer :: i, j, round
  character(len=40) :: text
  grid = 0
  do i = 0, n
    grid(i, 0) = sin(i * 0.1d0)
    grid(0, i) = 1d0 / (i + 1)
  end do
  do round = 1, 80
    change = 0
    do j = 1, n - 1
      do i = 1, n - 1
        next(i, j) = 0.25d0 * (grid(i-1, j) + grid(i+1, j) + grid(i, j-1) + grid(i, j+1))
        change = max(change, abs(next(i, j) - grid(i, j)))
      end do
    end do
    grid(1:n-1, 1:n-1) = next(1:n-1, 1:n-1)
    if (mod(round, 10) == 0) print '(i4, es24.16)', round, change
  end do
  turn = exp((0d0, 0.1d0))
  point = (1d0, 0d0)
  do i = 1, 1000
    point = point * turn
  end do
  wide = sqrt(2.0_16)
  write (text, '(2f12.8)') point
  print '(a)', trim(text)
  print *, wide, sum(grid), count(grid > 0.1d0), maxloc(grid)
end program
"""


def build_relax(source: Path, width: Sequence[str], target: Path) -> None:
    """A Fortran program of our own: doubles, complex and 128-bit numbers, formatted output."""
    source.mkdir(parents=True, exist_ok=True)
    (source / "relax.f90").write_text(FORTRAN_WORK)
    run([FORTRAN, *width, *FLAGS, "-o", target, "relax.f90"], source)


BZIP2 = Package(
    "bzip2",
    "bzip2_1.0.8.orig.tar.gz",
    "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
    "bzip2-1.0.8",
)
ZLIB = Package(
    "zlib",
    "zlib_1.2.13.dfsg.orig.tar.bz2",
    "71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1",
    "zlib-1.2.13.dfsg",
)
LUA = Package(
    "lua5.4",
    "lua5.4_5.4.4.orig.tar.gz",
    "164c7849653b80ae67bec4b7473b884bf5cc8d2dca05653475ec2ed27b9ebf61",
    "lua-5.4.4",
)
SQLITE = Package(
    "sqlite3",
    "sqlite3_3.40.1.orig.tar.xz",
    "aaa776260ab4dc976db34aa7891819484c8676b5b2783123ebc6301e2ca5d655",
    "sqlite3-3.40.1",
)
MAWK = Package(
    "mawk",
    "mawk_1.3.4.20200120.orig.tar.gz",
    "7fd4cd1e1fae9290fe089171181bbc6291dfd9bca939ca804f0ddb851c8b8237",
    "mawk-1.3.4-20200120",
)
TINYSCHEME = Package(
    "tinyscheme",
    "tinyscheme_1.42.svn.2020.06.04.orig.tar.xz",
    "95d1a25e4e8427bbd47a737b112a07f472224ea9ba59d682659450b61c476356",
    "tinyscheme-1.42.svn.2020.06.04",
)
LAPACK = Package(
    "lapack",
    "lapack_3.11.0.orig.tar.gz",
    "4b9ba79bfd4921ca820e83979db76ab3363155709444a787979e81c22285ffa9",
    "lapack-3.11.0",
)

PROGRAMS = (
    RealProgram("bzip2", BZIP2, build_bzip2, ("-9", "-c"), "text.txt"),
    RealProgram("minigzip", ZLIB, build_minigzip, ("-c",), "text.txt"),
    RealProgram("lua", LUA, build_lua, ("work.lua",)),
    RealProgram("speedtest1", SQLITE, build_speedtest1, ("--memdb", "--size", "1")),
    RealProgram("mawk", MAWK, build_mawk, ("-f", "count.awk"), "text.txt"),
    RealProgram("tinyscheme", TINYSCHEME, build_tinyscheme, ("work.scm",)),
    RealProgram("dblat1", LAPACK, build_dblat1),
    RealProgram("relax", None, build_relax),
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
    state, words, pieces, length = 20011, [], [], 0
    for _ in range(400):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        letters = [chr(97 + (state >> shift) % 26) for shift in range(2, 4 + (state >> 20) % 7)]
        words.append("".join(letters))
    while length < size:
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        word = words[(state >> 8) % 400 * ((state >> 17) % 400) // 400]
        pieces.append(word + ("\n" if state >> 24 & 7 == 0 else " "))
        length += len(pieces[-1])
    return "".join(pieces).encode()[:size]


def write_inputs(directory: Path) -> None:
    """Write the files that the runs read."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "text.txt").write_bytes(sample_text(60_000))
    (directory / "work.lua").write_text(LUA_WORK)
    (directory / "work.scm").write_text(SCHEME_WORK)
    (directory / "count.awk").write_text(AWK_WORK)


def apt(cache: Path, *arguments: str) -> None:
    """Run apt-get with all its state below the cache."""
    home = cache / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / "sources.list").write_text(SOURCE_LIST)
    options = [
        f"Dir::Etc::sourcelist={home}/sources.list",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::lists={home}/lists",
        f"Dir::Cache={home}/cache",
        "APT::Sandbox::User=",
        "Acquire::Languages=none",
    ]
    (cache / "archives").mkdir(exist_ok=True)
    settings = [word for option in options for word in ("-o", option)]
    run(["apt-get", "-q", *settings, *arguments], cache / "archives")


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(cache: Path, packages: Sequence[Package]) -> None:
    """Fetch, check and unpack the sources of `packages` that the cache lacks."""
    archives, sources = cache / "archives", cache / "src"
    absent = [p for p in packages if not (archives / p.archive).exists()]
    if absent:
        apt(cache, "update")
        apt(cache, "source", "--download-only", *(p.name for p in absent))
    for package in packages:
        archive = archives / package.archive
        if not archive.exists():
            raise BuildError(
                f"Debian no longer has {package.archive}: update {Path(__file__).name}"
            )
        if digest(archive) != package.sha256:
            raise BuildError(f"{archive}: its sha256 is not {package.sha256}")
        if not (sources / package.directory).exists():
            unpack(archive, sources, package.directory)


def unpack(archive: Path, sources: Path, directory: str) -> None:
    """Unpack `archive`, which holds one directory, as `sources / directory`."""
    scratch = sources / f"{directory}.partial"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(scratch, filter="data")
    (top,) = scratch.iterdir()
    top.replace(sources / directory)
    scratch.rmdir()


def forget_others(cache: Path) -> None:
    """Remove what other recipes built."""
    stamp = cache / "RECIPES"
    if not stamp.exists() or stamp.read_text() != f"{RECIPES}\n":
        shutil.rmtree(cache / "bin", ignore_errors=True)
        stamp.write_text(f"{RECIPES}\n")
    (cache / "bin").mkdir(exist_ok=True)


def build_programs(cache: Path, programs: Sequence[RealProgram] = PROGRAMS) -> list[Path]:
    """Return the built `programs` in both widths; what the cache has is not built again.

    Raises BuildError.
    """
    cache.mkdir(parents=True, exist_ok=True)
    write_inputs(cache / "inputs")
    forget_others(cache)
    needed = [p for p in programs if not all(p.path(cache, w).exists() for w in WIDTHS)]
    packages = [p.package for p in needed if p.package is not None]
    fetch(cache, list(dict.fromkeys(packages)))
    for program in needed:
        for width, flags in WIDTHS.items():
            target = program.path(cache, width)
            partial = target.with_suffix(target.suffix + ".partial")
            directory = program.package.directory if program.package else program.name
            program.build(cache / "src" / directory, flags, partial)
            partial.replace(target)
    built = [p.path(cache, width) for p in programs for width in WIDTHS]
    listing = sorted((cache / "bin").glob("*.[36]?"))
    (cache / "CHECKSUMS").write_text("".join(f"{digest(p)}  {p.name}\n" for p in listing))
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
    except BuildError as error:
        print(f"build_programs: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
