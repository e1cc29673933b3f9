"""A plugin for qemu-user that counts instructions: compiling it, and reading what it counted.

`qemu_counting.c` says how it counts. It is compiled with the machine's own C compiler when it is
first needed, and kept in simprof's cache.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from enum import IntEnum
from importlib import resources
from pathlib import Path

from simprof.simulator.errors import UsageError

COMPILERS = ("cc", "gcc", "clang")
COMPILER_FLAGS = ("-O2", "-shared", "-fPIC")
MAGIC = 0x73696D70726F6631
STATE = struct.Struct("=10Q")
BLOCK = struct.Struct("=3Q")
FILE_SIZE = 1 << 30
"""Bytes of the file in which the plugin counts. It is sparse: what is not used takes no room."""


class Kind(IntEnum):
    """What an instruction can do besides completing (`enum kind` of the plugin)."""

    PLAIN = 0
    BRANCH = 1
    JUMP = 2
    TRAP = 3
    MEMORY = 4
    WINDOW = 5
    OTHER = 6


COMPLETE = frozenset({Kind.PLAIN, Kind.BRANCH, Kind.TRAP, Kind.WINDOW})
"""Kinds that complete if they are the last of a block."""


def plugin_for(emulator: Path) -> Path | None:
    """Return the plugin if `emulator` can load it, None where it cannot or no compiler is at hand.

    Raises
    ------
    UsageError
        The plugin cannot be written to the cache.
    """
    plugin = compiled()
    return plugin if plugin is not None and _loads(emulator, plugin) else None


def plugin_options(plugin: Path, counts: Path) -> list[str]:
    """Return the options with which qemu counts into the file `counts`."""
    return ["-plugin", ",".join((_escaped(plugin), f"counts={_escaped(counts)}"))]


def create_counts(counts: Path) -> None:
    """Create the file that the plugin counts in."""
    with counts.open("wb") as stream:
        stream.truncate(FILE_SIZE)


def read_counts(counts: Path, killed: bool) -> int | None:
    """Return the instructions that were executed, None where there were too many to tell apart.

    Parameters
    ----------
    killed
        Whether a signal ended the program: its last instruction may then be what faulted.
    """
    with counts.open("rb") as stream:
        _, total, repeats, faults, accesses, block, total_before, accesses_before, _, full = (
            STATE.unpack(stream.read(STATE.size))
        )
        if full:
            return None
        done = total - total_before
        stream.seek(block)
        _, length, _ = BLOCK.unpack(stream.read(BLOCK.size))
        kinds = stream.read(length)
    executed: int = total - repeats - faults
    if not killed or not 0 < done <= length:
        return executed
    kind = Kind(kinds[done - 1])
    if kind is Kind.TRAP:
        return executed
    if done == length and (
        kind in COMPLETE or (kind is Kind.MEMORY and accesses != accesses_before)
    ):
        return executed
    return executed - 1


def _escaped(path: Path) -> str:
    """Return `path` as a value among qemu's options."""
    return str(path).replace(",", ",,")


@functools.cache
def compiled() -> Path | None:
    """Return the plugin, compiled now if it is not in the cache; None without a compiler."""
    source = resources.files("simprof.profiler.rewriting").joinpath("qemu_counting.c").read_bytes()
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    name = f"qemu_counting-{os.uname().machine}-{hashlib.sha256(source).hexdigest()[:16]}.so"
    home = os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.home() raises without a home
    directory = Path(os.environ.get("XDG_CACHE_HOME") or home) / "simprof"
    plugin = directory / name
    if plugin.exists():
        return plugin
    if compiler is None:
        return None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as temporary:
            made = Path(temporary, name)
            command = [compiler, *COMPILER_FLAGS, "-o", str(made), "-x", "c", "-"]
            done = subprocess.run(command, input=source, capture_output=True, check=False)
            if done.returncode != 0:
                return None
            made.replace(plugin)
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be written ({error.strerror}): set XDG_CACHE_HOME"
        ) from None
    return plugin


@functools.cache
def _loads(emulator: Path, plugin: Path) -> bool:
    """Whether `emulator` loads `plugin`: it does so before it finds that a file is no program."""
    with tempfile.TemporaryDirectory() as temporary:
        counts = Path(temporary, "counts")
        create_counts(counts)
        command = [str(emulator), *plugin_options(plugin, counts), os.devnull]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        with counts.open("rb") as stream:
            magic = int.from_bytes(stream.read(8), "little")
    return magic == MAGIC
