"""Machine code of native functions as one block of bytes, which runs wherever in memory it lies.

A file has the length of its head, the head (JSON) and the image, which `linking` has made: code and
constants, which refer to each other by distance. Behind these comes what can be written: the
addresses of functions of this process that the code calls, and its variables, zero at first.

What is shipped lies beside this module, one file for each kind of machine that it was made for. It
is used where the sources are those that it was made from, so that whoever changes a kernel never
executes an old one.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# What is compiled into C functions, and where the numbers come from that are constants there.
SOURCES = (
    "profiler/code/sites_kernel.py",
    "profiler/code/sites_native.py",
    "profiler/engine/block_kernel.py",
    "profiler/engine/context_kernel.py",
    "profiler/engine/kernels.py",
    "profiler/engine/landing_kernel.py",
    "profiler/engine/recording_kernel.py",
    "profiler/engine/replay_kernel.py",
    "profiler/engine/transition_kernel.py",
    "profiler/engine/walk_kernel.py",
    "profiler/graphs/plan_kernel.py",
    "profiler/graphs/plan_native.py",
    "profiler/recovery/exploration_kernel.py",
    "profiler/recovery/exploration_native.py",
    "profiler/recovery/idioms.py",
    "profiler/trace/regeneration_kernel.py",
    "simulator/cpu/address_space.py",
    "simulator/cpu/compiled.py",
    "simulator/cpu/cpu_state.py",
    "simulator/cpu/crash.py",
    "simulator/cpu/nans.py",
    "simulator/cpu/native.py",
    "simulator/cpu/operations.py",
    "simulator/cpu/quads.py",
    "simulator/cpu/traps.py",
    "simulator/cpu/vis.py",
    "simulator/isa/decode.py",
    "simulator/isa/effects.py",
    "simulator/isa/sparc.py",
    "simulator/linux/contexts.py",
    "simulator/linux/native_contexts.py",
    "simulator/linux/signals.py",
)
# Environment variable that has simprof take no notice of machine code that is shipped.
VARIABLE = "SIMPROF_COMPILE"
MACHINE = os.uname().machine
_ROOT = Path(__file__).parents[2]
_LENGTH = struct.Struct("<Q")  # bytes of the head
_DIGEST = 16
_PAGE = 1 << 16  # No machine has larger pages: what can be written begins at a page of its own


class Head(NamedTuple):
    """What an image is made from and made for, and what is where in it."""

    sources: str  # `digest()` when it was made
    target: str  # `target()` of the machines that can execute it
    image: str  # Digest of the image: a file may be damaged.
    size: int  # and its bytes
    made_by: str  # Versions of what has compiled it: others may write other code
    symbols: dict[str, int]  # C function -> its place
    externals: list[str]  # Functions and variables of the process, in the order of their words
    variables: int  # Bytes of variables behind these words


@cache
def digest() -> str:
    """Return what changes when the sources of native functions do."""
    found = hashlib.blake2b(digest_size=_DIGEST)
    for name in SOURCES:
        found.update(b"%s\0%s\0" % (name.encode(), _ROOT.joinpath(name).read_bytes()))
    return found.hexdigest()


def target(machine: str = MACHINE) -> str:
    """Return for what kind of machine there can be machine code: that of this process."""
    return f"{sys.platform}-{machine}" + ("" if sys.maxsize >> 32 else "-32")


def shipped_file(machine: str = MACHINE) -> Path:
    """Return where machine code for machines of a kind is shipped, if it is."""
    return Path(__file__).with_name(f"kernels.{target(machine)}.bin")


def shipped() -> bytes | None:
    """Return the machine code that is shipped, None where none fits."""
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        return None
    try:
        code = shipped_file().read_bytes()
    except OSError:
        return None
    return code if fits(code) else None


def fits(code: bytes, machine: str = MACHINE) -> bool:
    """Whether machine code was made from these sources, for such a machine, and is whole."""
    try:
        head, image = parts(code)
    except (ValueError, TypeError, struct.error):
        return False
    made = head.sources, head.target, head.image
    return made == (digest(), target(machine), _of(image))


def parts(code: bytes) -> tuple[Head, bytes]:
    """Return the head and the image of a file of machine code."""
    (length,) = _LENGTH.unpack_from(code)
    end = _LENGTH.size + length
    return Head(**json.loads(code[_LENGTH.size : end])), code[end:]


def files(codes: bytes) -> Iterator[bytes]:
    """Yield files of machine code that lie one behind the other."""
    while codes:
        head, rest = parts(codes)
        end = len(codes) - len(rest) + head.size
        yield codes[:end]
        codes = codes[end:]


def _of(image: bytes) -> str:
    return hashlib.blake2b(image, digest_size=_DIGEST).hexdigest()


def pack(
    image: bytes,
    made_by: str,
    symbols: dict[str, int],
    externals: list[str],
    variables: int,
    machine: str = MACHINE,
) -> bytes:
    """Return a file of machine code for machines of a kind; the arguments are as in `Head`."""
    made = digest(), target(machine), _of(image), len(image)
    head = Head(*made, made_by, symbols, externals, variables)
    text = json.dumps(head._asdict(), indent=1).encode() + b"\n"
    return _LENGTH.pack(len(text)) + text + image


def writable(image: int) -> int:
    """Return where what can be written begins behind an image of so many bytes."""
    return -(-image // _PAGE) * _PAGE


_loaded: list[Any] = []  # Blocks of memory that have code, which must stay


def load(code: bytes) -> dict[str, int]:
    """Put machine code into memory; return the addresses of its C functions by name."""
    head, image = parts(code)
    start, words = writable(len(image)), len(head.externals)
    # Private: variables of a process that forks are not its children's.
    memory = mmap.mmap(
        -1, start + 8 * words + head.variables, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    memory[: len(image)] = image
    process = ctypes.CDLL(None, use_errno=True)
    addresses = (ctypes.c_uint64 * words).from_buffer(memory, start)
    for place, name in enumerate(head.externals):
        # Those of numba are for errors that these functions do not make.
        found = getattr(process, name, process.abort)
        addresses[place] = ctypes.cast(found, ctypes.c_void_p).value or 0
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    # Where caches do not agree by themselves (aarch64) the system makes them, at this call.
    if process.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(start), _READ_AND_EXECUTE):
        number = ctypes.get_errno()
        raise OSError(number, f"machine code cannot be executed here: {os.strerror(number)}")
    _loaded.append(memory)
    return {name: base + offset for name, offset in head.symbols.items()}


_READ_AND_EXECUTE = mmap.PROT_READ | mmap.PROT_EXEC
