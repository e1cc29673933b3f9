"""Runs of the real programs that `build_programs` makes, for `check_programs`.

Besides each program's one run there are runs that read, write, rename, remove and list files.
All are deterministic: none prints a time, an address or a random number.
"""

from __future__ import annotations

import bz2
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

from tools.build_programs import PROGRAMS, sample_text, write_inputs

OLD = 1_000_000_000
"""When all input files were last changed: what a program keeps of it can then be seen."""


@dataclass(frozen=True)
class ProgramRun:
    """One run of a built program, in a directory that holds the input files.

    Attributes
    ----------
    program
        Its name among `build_programs.PROGRAMS`.
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
    *(ProgramRun(p.name, p.name, p.arguments, p.input) for p in PROGRAMS),
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


def prepare(directory: Path) -> None:
    """Write the files of all runs; those that a build leaves there (init.scm) stay."""
    write_inputs(directory)
    text = sample_text(30_000)
    packed = bz2.compress(text, 4)
    (directory / "packed.bz2").write_bytes(packed)
    (directory / "damaged.bz2").write_bytes(packed[:500] + b"\x00" + packed[501:])
    (directory / "packed.gz").write_bytes(gzip.compress(text, mtime=0))
    (directory / "files.lua").write_text(FILES_LUA)
    (directory / "split.awk").write_text(SPLIT_AWK)
    for path in directory.iterdir():
        os.utime(path, (OLD, OLD))
