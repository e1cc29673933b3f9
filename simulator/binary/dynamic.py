"""Dynamically linked programs: which files they are made of, and all of these as one `Program`."""

# A program names its interpreter (`ld-linux.so.2`), which is looked for below a *sysroot*: a
# directory laid out as the root directory of a SPARC system, or as a cross compiler's. The
# interpreter then loads the libraries; which, and where, only a run can show. So what is known
# before a run is `load_program`'s; `link` adds the modules that a run has loaded. Routines of
# modules are called `MODULE:NAME`, after the file's name; those of the program's own file keep
# their names.

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

from msgspec.structs import replace

from simprof.simulator.binary import elf
from simprof.simulator.binary.program import (
    PAGE_SIZE,
    Binding,
    LineTable,
    Module,
    Program,
    Range,
    Segment,
    SourceLine,
    Symbol,
)
from simprof.simulator.errors import ProgramFileError, UnsupportedError

DEFAULT_SYSROOT = Path("/usr/sparc64-linux-gnu")  # where Debian's cross compilers have theirs

# Distance between code and what had been in its place: beyond all addresses of programs.
EARLIER = 1 << 48

# Address, and words, of a block of code in whose place there was other code later.
EarlierBlock = tuple[int, tuple[int, ...]]

_NOMINAL = 1 << 20  # where a file is thought to be before it is known where it is loaded
_DIRECTORIES = {True: "lib64", False: "lib32"}  # of 64-bit and of 32-bit libraries, in a sysroot


def load_program(path: Path | str, sysroot: Path | None = None) -> Program:
    """Read a program that is to be run, statically or dynamically linked.

    `sysroot`: Where the interpreter is looked for; None: `DEFAULT_SYSROOT`. A dynamically linked
    program is its own file, with the interpreter among its `parts`. Raises `ProgramFileError` where
    the program, or its interpreter, cannot be used.
    """
    program = elf.load_own(path)
    if program.interpreter is None:
        return program
    file = find_interpreter(program, sysroot)
    interpreter = elf.load_part(file, _NOMINAL)
    if interpreter.is64 != program.is64 or interpreter.interpreter is not None:
        raise ProgramFileError(f"{file}: is not an interpreter for {path}; give another --sysroot")
    return replace(program, parts=(program, interpreter))


def find_interpreter(program: Program, sysroot: Path | None) -> Path:
    """Return where a program's interpreter is; raises `ProgramFileError` where there is none."""
    name = program.interpreter or ""
    root = DEFAULT_SYSROOT if sysroot is None else sysroot
    other = root / _DIRECTORIES[program.is64] / PurePath(name).name
    for place in (root / name.lstrip("/"), other):
        if place.is_file():
            with place.open("rb") as stream:
                if stream.read(5)[4:] == (b"\2" if program.is64 else b"\1"):
                    return place
    package = "libc6-sparc64-cross" if program.is64 else "libc6-sparc-sparc64-cross"
    how = f'install {package}, name a directory that has it by --sysroot, or link with "-static"'
    raise ProgramFileError(
        f"{program.path}: is dynamically linked, and its interpreter {name} is not in {root}; {how}"
    )


class ModulePlace(NamedTuple):
    """A place in a module: its name, and the address that its file says."""

    name: str
    offset: int


def module_of(program: Program, address: int) -> ModulePlace | None:
    """Return where in which module an address is; None where it is the program's own."""
    spans, names = _spans(program.modules)
    real = real_address(address)
    at = bisect_right(spans, real, key=lambda each: each.start) - 1
    if at < 0 or real not in spans[at]:
        return None
    return ModulePlace(names[at], real - program.modules[at].bias)


@cache
def _spans(modules: tuple[Module, ...]) -> tuple[list[Range], list[str]]:
    return [_span(loaded_part(module)) for module in modules], module_names(modules)


def real_address(address: int) -> int:
    """Return where an instruction is executed, which may be one of earlier code (`link`)."""
    return address & EARLIER - 1


def link(
    program: Program, modules: Iterable[Module], earlier: Iterable[EarlierBlock] = ()
) -> Program:
    """Return a program with the modules that it has loaded, as one.

    `program`: What `load_program` returned. `earlier`: Stubs as they were before the interpreter
    bound them: they become code of their own, `EARLIER` bytes behind their place. Raises
    `ProgramFileError` if a module cannot be read, or has changed since; `UnsupportedError` if one
    was loaded where another one had been.
    """
    ordered = tuple(sorted(modules))
    if not program.parts or not ordered:
        return program
    own, interpreter = program.parts
    loaded = [loaded_part(module) for module in ordered]
    parts = sorted((own, *loaded), key=lambda each: each.segments[0].address)
    for lower, upper in itertools.pairwise(parts):
        if _span(lower).end > _span(upper).start:
            raise UnsupportedError(
                f"{program.path}: {upper.path} is loaded where {lower.path} had been; simprof "
                "cannot distinguish their code: keep one of them open"
            )
    names = dict(zip(ordered, module_names(ordered), strict=True))
    symbols = list(own.symbols)
    for module, each in zip(ordered, loaded, strict=True):
        symbols += (replace(s, name=f"{names[module]}:{s.name}") for s in each.symbols)
    names_at = {symbol.address: symbol.name for symbol in symbols if symbol.is_function}
    unbound, parts_of = earlier_code(earlier), itertools.chain.from_iterable
    for segment in unbound:
        start = real_address(segment.address)
        name = f"{names_at.get(start, f'sub_{start:x}')}.unbound"
        symbols.append(Symbol(name, segment.address, segment.memory_size, Binding.LOCAL, True))
    started = next(module for module in ordered if module.sha256 == interpreter.sha256)
    return replace(
        program,
        entry=interpreter.entry - _NOMINAL + started.bias,
        segments=(*parts_of(each.segments for each in parts), *unbound),
        code=(
            *parts_of(each.code for each in parts),
            *(Range(each.address, each.address + each.memory_size) for each in unbound),
        ),
        late_code=tuple(parts_of(each.late_code for each in parts)),
        symbols=tuple(sorted(symbols, key=lambda s: (s.address, s.name, s.binding, s.size))),
        lines=ModuleLines([(_span(each), each.lines) for each in parts]),
        unwinding=tuple(parts_of(each.unwinding for each in parts)),
        modules=ordered,
        named_registers=frozenset().union(*(each.named_registers for each in parts)),
    )


def earlier_code(blocks: Iterable[EarlierBlock]) -> list[Segment]:
    """Return earlier code as segments, each `EARLIER` bytes behind its place."""
    # Where a block has been written more than once, each further version lies as far behind the one
    # before.
    segments: list[Segment] = []
    taken: set[int] = set()
    for address, words in sorted(blocks):
        data = b"".join(word.to_bytes(4, "big") for word in words)
        place = address + EARLIER
        while not taken.isdisjoint(range(place, place + len(data), 4)):
            place += EARLIER
        taken.update(range(place, place + len(data), 4))
        segments.append(Segment(place, data, len(data), True, False, True))
    return sorted(segments, key=lambda each: each.address)


def module_names(modules: Sequence[Module]) -> list[str]:
    """Return what modules are called: as their files, with a number where there are several."""
    seen: dict[str, int] = {}
    names = []
    for module in modules:
        name = PurePath(module.file).name
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names


def load_linked(
    path: Path | str, modules: Iterable[Module], earlier: Iterable[EarlierBlock] = ()
) -> Program:
    """Read a program that has run, with the modules that it had loaded; raises as `link`."""
    known = tuple(sorted(modules))
    if not known:
        return elf.load(path)
    own = elf.load_part(path)
    for module in known:
        if Path(module.file).name == PurePath(own.interpreter or "").name:
            parts = (own, elf.load_part(module.file, _NOMINAL))
            return link(replace(own, parts=parts), known, earlier)
    raise ProgramFileError(f"{path}: has changed since it ran; run it again")


def module_at(file: Path, address: int) -> Module | None:
    """Return the module whose file is mapped from its beginning at an address; None: it is none."""
    status = file.stat()
    try:
        part = _nominal(file, status.st_mtime_ns, status.st_size)
    except ProgramFileError:
        return None
    bias = address - (part.segments[0].address // PAGE_SIZE * PAGE_SIZE - _NOMINAL)
    return Module(bias, str(file), part.sha256)


@cache
def _nominal(file: Path, modified: int, size: int) -> Program:
    return elf.load_part(file, _NOMINAL)


@cache
def loaded_part(module: Module) -> Program:
    """Return a module as it is loaded; raises `ProgramFileError` where that file is no more."""
    loaded = elf.load_part(module.file, module.bias)
    if loaded.sha256 != module.sha256:
        raise ProgramFileError(f"{module.file}: has changed since it was loaded; run again")
    return loaded


def _span(part: Program) -> Range:
    last = part.segments[-1]
    return Range(part.segments[0].address, last.address + last.memory_size)


class ModuleLines(LineTable):
    """The lines of several modules: where each is, and its own table, by address."""

    # Only the tables of modules that are asked about are read.

    is_empty = False

    def __init__(self, tables: Sequence[tuple[Range, LineTable]]) -> None:
        self.tables = tables

    def find(self, address: int) -> SourceLine | None:
        """Return the line that `address` was compiled from, or None where it is unknown."""
        place = bisect_right(self.tables, address, key=lambda each: each[0].start) - 1
        if place < 0 or address not in self.tables[place][0]:
            return None
        return self.tables[place][1].find(address)

    def stretches(self) -> Iterator[tuple[Range, SourceLine]]:
        """Yield stretches of code with the line that each was compiled from, by address."""
        for _, table in self.tables:
            yield from table.stretches()
