"""Output files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from simulator.errors import UsageError


def check_writable(path: Path) -> None:
    """Find out before a long run whether its result could be written.

    Raises
    ------
    UsageError
        If `path` is a directory, its directory is missing, or either may not be written.
    """
    target = path.resolve()
    if target.is_dir():
        raise UsageError(f"{path} is a directory: name a file to write")
    if target.exists() and not os.access(target, os.W_OK):
        raise UsageError(f"{path} may not be written: name another file")
    if target.exists() and not target.is_file():
        return
    if not target.parent.is_dir():
        raise UsageError(f"{path}: there is no directory {target.parent}: create it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: its directory may not be written: name another file")


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`; readers see the old file or the new one, never a part of it.

    Links are followed. What is not a regular file (a pipe, a terminal) is written in place.

    Raises
    ------
    UsageError
        If the file cannot be written.
    """
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            replace(target, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def replace(target: Path, data: bytes) -> None:
    """Write a new file beside `target`, then put it in its place."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(permissions(target))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def permissions(target: Path) -> int:
    """Return the mode bits of `target`, or those that a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
