"""Shared by tests: what `tests/end_to_end/test_exact_programs.py` and others use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import WIDTH_FLAGS

PROGRAMS = Path(__file__).resolve().parents[1] / "programs" / "exact"

LANGUAGES = {".c": "c", ".cc": "c++", ".f90": "fortran", ".S": "asm"}


@dataclass(frozen=True)
class Build:
    """A program, how it is compiled, and how it is run."""

    source: str
    width: str
    flags: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    stack_pointers: bool = False

    def __str__(self) -> str:
        return " ".join([self.source, self.width, *self.flags, *self.arguments])


def build(text: str, arguments: Sequence[str] = ()) -> Build:
    """Read `SOURCE WIDTH FLAG...`; a `+sp` among them asks for stack pointers."""
    source, *rest = text.split()
    width = next(word for word in rest if word in WIDTH_FLAGS)
    flags = [word for word in rest if word != width]
    jumps = "+sp" in flags
    return Build(source, width, tuple(f for f in flags if f != "+sp"), tuple(arguments), jumps)


QUICK = [
    build("odd.S v9 -nostdlib"),
    build("odd.S v9 -nostdlib -s"),
    build("odd.S v8plus -nostdlib"),
    build("odd.S v8plus -nostdlib -s"),
    build("leftover.S v9 -nostdlib +sp"),
    build("leftover.S v8plus -nostdlib +sp"),
    build("stale.c v9 -O1"),
    build("jumping.c v8plus -O0 +sp"),
    build("raising.cc v9 -O2 +sp"),
    build("calling.c v8plus -O1 -fPIC"),
    build("arithmetic.c v8plus -O2 -s"),
    build("switching.c v9 -O0 -fPIC -g"),
    build("stale.c v8plus -O1"),
    build("switching.c v8plus -O2"),
    build("calling.c v9 -O3 -s"),
    build("numbers.f90 v8plus -O2 -s"),
    build("jumping.c v9 -O3 -fPIC -s +sp"),
    build("raising.cc v8plus -Os -s +sp"),
    build("unwinding.cc v9 -O2 +sp"),
]

WAYS = [
    *("return", "exit", "atexit", "_exit", "quick", "abort", "abort_exit", "abort_flush"),
    *("raise", "kill", "load", "store", "call", "align", "illegal", "text", "pipe"),
]

ENDINGS = [
    build(f"ending.c {width} {level}", [way])
    for width, level, chosen in (("v9", "-O2", WAYS[::2]), ("v8plus", "-O0", WAYS[1::2]))
    for way in chosen
]

LONG = [
    build("doubles.c v9 -O1 -Wa,-Av9a", ["all"]),
    build("doubles.c v8plus -O1 -Wa,-Av8plusa", ["all"]),
    build("arithmetic.c v9 -O0 -s"),
    build("numbers.f90 v9 -O3"),
    build("jumping.c v8plus -O2 -fPIC -s +sp"),
    build("library.cc v9 -O0 +sp"),
    build("library.cc v8plus -O2 +sp"),
    build("unwinding.cc v8plus -O2 +sp"),
    # half a minute each
    build("exceptions.cc v9 -O0 +sp"),
    build("throwing.cc v8plus -O2 +sp"),
    # 64 bits only: the 32-bit longjmp asks which page of the stack frames are in, and it is not one
    # page under qemu and here
    *(build(f"leaving.c v9 {level} +sp") for level in ("-O0 -s", "-O2 -fPIC", "-Os")),
]
