"""The committed inputs: `tests/corpora/TARGET/NAME`.

Those that a find left begin with `find-`; all others are good files, which mutation begins with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

CORPORA = Path(__file__).resolve().parents[2] / "tests" / "corpora"
FIND = "find-"


def files(target: str, root: Path = CORPORA) -> list[Path]:
    """Return the files of a target's corpus, by name.

    Raises
    ------
    FileNotFoundError
        If it has none.
    """
    found = sorted((root / target).glob("*"))
    if not found:
        raise FileNotFoundError(f"no corpus of {target} below {root}")
    return found


def inputs(target: str, root: Path = CORPORA) -> list[bytes]:
    """Return the inputs of a target's corpus."""
    return [path.read_bytes() for path in files(target, root)]


def reader(target: str, name: str) -> Callable[[], bytes]:
    """Return what reads a file of a corpus."""
    return (CORPORA / target / name).read_bytes


def is_find(path: Path) -> bool:
    """Whether a file is what a find left."""
    return path.name.startswith(FIND)


def find_name(data: bytes) -> str:
    """Return the name of the file of a find."""
    return FIND + hashlib.sha256(data).hexdigest()[:12]
