"""The shared library of the kernels: whether it fits these sources, and where its functions are.

`make kernels` writes a library for each kind of machine beside this module, and `kernels.b2sums`:
the digests of the libraries and of all sources that they were made from, as `b2sum --check` reads
them in the directory above `simulator`. A library is loaded only while these digests hold, so that
whoever changes a kernel never executes an old one.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from functools import cache
from pathlib import Path

from simprof.simulator.errors import EngineError

# Environment variable that has simprof take no notice of the library.
VARIABLE = "SIMPROF_COMPILE"
MACHINE = os.uname().machine
ROOT = Path(__file__).parents[2]
SUMS = Path(__file__).with_name("kernels.b2sums")
DIGEST = 16  # bytes


def target(machine: str = MACHINE) -> str:
    """Return for what kind of machine a library is: by default that of this process."""
    return f"{sys.platform}-{machine}" + ("" if sys.maxsize >> 32 else "-32")


def file(machine: str = MACHINE) -> Path:
    """Return the library for machines of a kind, which need not be there."""
    return Path(__file__).with_name(f"kernels.{target(machine)}.so")


def digest_of(path: Path) -> str:
    """Return the digest of a file, empty if it cannot be read."""
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=DIGEST).hexdigest()
    except OSError:
        return ""


@cache
def sums() -> dict[str, str]:
    """Return what the digests of libraries and sources were, by path."""
    lines = SUMS.read_text().splitlines() if SUMS.exists() else []
    pairs = (line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    return {path: digest for digest, path in pairs}


@cache
def sources() -> dict[str, str]:
    """Return what the digests of the sources are now, by path."""
    return {path: digest_of(ROOT / path) for path in sums() if path.endswith(".py")}


def digest() -> str:
    """Return what changes when the sources of kernels do."""
    return hashlib.blake2b(repr(sources()).encode(), digest_size=DIGEST).hexdigest()


def is_whole(machine: str = MACHINE) -> bool:
    """Whether the library for machines of a kind is as it was made."""
    made = sums().get(str(file(machine).relative_to(ROOT)))
    return made is not None and made == digest_of(file(machine))


def is_made(machine: str = MACHINE) -> bool:
    """Whether the library for machines of a kind was made from these sources, and is whole."""
    return sums().items() >= sources().items() and is_whole(machine)


@cache
def fits() -> bool:
    """Whether there is a library that this process can use."""
    return os.environ.get(VARIABLE, "0") in ("", "0") and is_made()


@cache
def _loaded() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(file()))
    except OSError as error:
        raise EngineError(f"the kernels cannot be loaded: {error}") from None


def has(name: str) -> bool:
    """Whether a C function is in the library."""
    return hasattr(_loaded(), name)


def address(name: str) -> int:
    """Return the address of a C function of the library."""
    return ctypes.cast(_loaded()[name], ctypes.c_void_p).value or 0
