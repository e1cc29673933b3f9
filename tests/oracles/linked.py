"""What a dynamically linked program executed under qemu-user, at the places that simprof gave it.

qemu-user and simprof load modules at addresses of their own. Where qemu's are is in its log of
system calls (`-strace`): each library is mapped from a file that was opened before. The program's
own place is fixed, and the first instruction tells where the interpreter is. Every address of the
log is then moved from qemu's place of its module to simprof's.

Stubs of the procedure linkage table are written anew when they are bound. Which words a stub had is
not in the log, but the instruction behind it is: where that is the target of the branch that the
linker has put there, the stub was not bound yet, and its addresses become those of the earlier
code (`simprof.simulator.binary.dynamic.EARLIER`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from simprof.simulator.binary.dynamic import DEFAULT_SYSROOT
from tests.oracles.qemu import Image, OracleError, Trace, below, resolve, settings, trace

OWN_BASES = {32: 0x4000_0000, 64: 0x40_0000_0000}
"""Where qemu-user 7.2 puts position-independent programs that have an interpreter."""

_OPENED = re.compile(r'openat\((?:AT_FDCWD|\d+),"([^"]*)",[^=]*\) = (\d+)$')
_MAPPED = re.compile(r"mmap2?\(\w+,(\d+),([A-Z_|]*),[A-Z_|]*,(\d+),(?:0|0x0)\) = 0x(\w+)$")


LIBRARIES = {"64": "lib", "32": "lib32"}
"""Bits -> where the cross compiler has its libraries."""


def make_sysroot(directory: Path, width: str) -> Path:
    """Copy the cross compiler's libraries: under qemu-user, what lacks there is the host's."""
    root = directory / "sysroot"
    for name in (LIBRARIES[width], "lib64"):
        for file in (DEFAULT_SYSROOT / name).glob("*.so*"):
            if file.name.startswith(("ld-linux", "libc.so", "libm.so", "libdl")):
                place = root / ("lib64" if name == "lib64" else "lib") / file.name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, place)
    (root / "etc").mkdir()
    (root / "etc" / "ld.so.cache").touch()
    for name in ("lib", "usr/lib"):
        (root / name / "sparc64-linux-gnu").mkdir(parents=True)
    return root


@dataclass(frozen=True)
class Place:
    """A module's file, where it is under qemu-user, and how many bytes it takes."""

    file: Path
    bias: int
    start: int
    end: int
    stubs: range  # the procedure linkage table
    is64: bool

    @classmethod
    def of(cls, file: Path, bias: int) -> Place:
        """Return where `file` is when `bias` is added to its addresses."""
        with file.open("rb") as stream:
            elf = ELFFile(stream)
            segments = list(elf.iter_segments("PT_LOAD"))
            start = min(s["p_vaddr"] for s in segments) + bias
            end = max(s["p_vaddr"] + s["p_memsz"] for s in segments) + bias
            table = elf.get_section_by_name(".plt")
            first = 0 if table is None else table["sh_addr"] + bias
            size = 0 if table is None else table["sh_size"]
            return cls(file, bias, start, end, range(first, first + size), elf.elfclass == 64)


def places(
    path: Path,
    arguments: Sequence[str],
    stdin: bytes,
    environment: Mapping[str, str] | None,
    directory: Path,
    sysroot: Path,
) -> list[Place]:
    """Return the program's own place and those of the libraries that it loads."""
    log = directory / "strace"
    command = ["env", "-i", *settings(environment), resolve(path), "-strace", "-D", str(log)]
    command += [*below(sysroot), str(path), *arguments]
    subprocess.run(command, input=stdin, capture_output=True, cwd=directory, check=False)
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        moves = elf["e_type"] == "ET_DYN"
        found = [Place.of(path, OWN_BASES[elf.elfclass] if moves else 0)]
    opened: dict[str, str] = {}
    for line in log.read_text(errors="replace").splitlines():
        if match := _OPENED.search(line):
            opened[match[2]] = match[1]
        elif (match := _MAPPED.search(line)) and "PROT_EXEC" in match[2]:
            name = opened[match[3]]
            file = sysroot / name.lstrip("/")
            found.append(Place.of(file if file.is_file() else directory / name, int(match[4], 16)))
    return found


def trace_linked(
    path: Path,
    arguments: Sequence[str] = (),
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    *,
    directory: Path,
    sysroot: Path,
    interpreter: Path,
    stack_pointers: bool = False,
) -> tuple[Trace, list[Place]]:
    """Run a program under qemu-user; return its trace, and where its modules are in that."""
    found = places(path, arguments, stdin, environment, directory, sysroot)
    with interpreter.open("rb") as stream:
        entry = ELFFile(stream)["e_entry"]

    def image(first: int) -> Image:
        found.append(Place.of(interpreter, first - entry))
        parts = [Image.read(place.file, place.bias) for place in found]
        return Image(
            tuple(start for part in parts for start in part.starts),
            tuple(words for part in parts for words in part.words),
            tuple(place.stubs for place in found),
        )

    logged = trace(
        path,
        arguments,
        stdin,
        environment,
        directory,
        stack_pointers,
        sysroot=sysroot,
        image_from=image,
    )
    return logged, found


def moved(
    logged: Trace,
    found: Sequence[Place],
    biases: Mapping[Path, Sequence[int]],
    earlier: Mapping[int, tuple[int, ...]],
    distance: int,
) -> Trace:
    """Return a trace as it would be had the modules been where simprof puts them.

    Parameters
    ----------
    logged, found
        The trace, and where its modules are.
    biases
        File -> where simprof has put it; in the order of loading where it was loaded several times.
    earlier
        Address of each block of stubs that was bound later -> its words.
    distance
        What lies between a block and its earlier words.
    """
    pc = logged.pc.copy()
    left: dict[Path, list[int]] = {file: list(each) for file, each in biases.items()}
    known = np.zeros(len(pc), np.bool_)
    for place in found:
        inside = (logged.pc >= place.start) & (logged.pc < place.end)
        pc[inside] += left[place.file.resolve()].pop(0) - place.bias
        known |= inside
    if not known.all():
        raise OracleError(f"code at {logged.pc[~known][0]:#x} is in no module")
    return replace(logged, pc=with_earlier(pc, earlier, distance))


def with_earlier(
    pc: NDArray[np.int64], earlier: Mapping[int, tuple[int, ...]], distance: int
) -> NDArray[np.int64]:
    """Move the stubs that were executed before they were bound."""
    result = pc.copy()
    for address, words in earlier.items():
        starts = np.flatnonzero(pc == address)
        behind = starts + len(words)
        fits = behind < len(pc)
        starts, behind = starts[fits], behind[fits]
        target = _branch_target(address + 4 * (len(words) - 1), words[-1])
        unbound = starts[pc[behind] == target]
        for number in range(len(words)):
            result[unbound + number] += distance
    return result


def _branch_target(address: int, word: int) -> int:
    """Return where `ba,a` or `ba,a,pt` at `address` leads."""
    bits = {0b010: 22, 0b001: 19}[word >> 22 & 7]
    offset = word & (1 << bits) - 1
    return address + 4 * (offset - (offset >> bits - 1 << bits))
