"""Output files that are there whole or not at all, and nothing else beside them.

A new file has no name while it is written (`O_TMPFILE`), so that a process that is killed leaves
nothing of it. A file that takes another's place needs a name for a moment, between two system
calls; what is left there by a kill in between is removed when the same file is written again. Where
files cannot be without a name, a new one has one from the beginning, and is removed after a kill.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from simprof.profiler.profiles.scratch import if_killed
from simprof.simulator import stopping
from simprof.simulator.errors import UsageError


def check_writable(path: Path) -> None:
    """Find out before a long run whether its result could be written: UsageError if not."""
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


def write_atomically(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write `data`, whole or in parts, to `path`; readers see the old file or the new one, no part.

    Links are followed. What is not a regular file (a pipe, a terminal) is written in place. Raises
    UsageError if the file cannot be written.
    """
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                file.writelines(_parts(data))
        else:
            replace(target, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def replace(target: Path, data: bytes | Iterable[bytes], mode: int | None = None) -> None:
    """Write a new file in the directory of `target`, then put it in its place.

    `mode`: its permissions; None: those of the old file, or those that new files get.
    """
    mode = permissions(target) if mode is None else mode
    descriptor = _unnamed(target.parent)
    if descriptor is None:
        with _named(target, data, mode) as temporary:
            temporary.replace(target)
        return
    with os.fdopen(descriptor, "wb") as file:
        _write(file, data)
        os.fchmod(descriptor, mode)
        try:
            _name(descriptor, target)
        except FileExistsError:
            _put_in_place(descriptor, target)


def create(path: Path, data: bytes) -> None:
    """Write a file that is not there yet: FileExistsError if it is (made by another process in the
    meantime, say), OSError if it cannot be written.
    """
    descriptor = _unnamed(path.parent)
    if descriptor is None:
        with _named(path, data, permissions(path)) as temporary:
            path.hardlink_to(temporary)
        return
    with os.fdopen(descriptor, "wb") as file:
        _write(file, data)
        os.fchmod(descriptor, permissions(path))
        _name(descriptor, path)


def _unnamed(directory: Path) -> int | None:
    """Open a new file without a name; None where the system has none, or cannot name it later."""
    if not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except (OSError, AttributeError):
        return None


def _parts(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    stopping.check()  # nothing is kept, in the cache neither, that a lost signal has cut short
    return (data,) if isinstance(data, bytes) else data


def _write(file: BinaryIO, data: bytes | Iterable[bytes]) -> None:
    file.writelines(_parts(data))
    file.flush()
    os.fsync(file.fileno())


def _name(descriptor: int, path: Path) -> None:
    """Give the unnamed file behind a descriptor a name that is not taken."""
    # With a directory's descriptor, which an absolute path does not need, Python calls linkat(2).
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)


def _put_in_place(descriptor: int, target: Path) -> None:
    # Processes that write the same file at the same time may take each other's new file away, or
    # put it in place: each is whole, and each process tries until a new one is there.
    new = target.with_name(f".{target.name}.new")
    while True:
        try:
            _name(descriptor, new)
        except FileExistsError:
            new.unlink(missing_ok=True)
            continue
        try:
            new.replace(target)
        except FileNotFoundError:
            continue
        return


def discard(path: Path) -> None:
    """Remove a file that was written in place and will not be whole; what is no file stays."""
    target = path.resolve()
    with suppress(OSError):
        if target.is_file():
            target.unlink()


@contextmanager
def _named(target: Path, data: bytes | Iterable[bytes], mode: int) -> Iterator[Path]:
    """Write a new file beside `target` that has a name of its own until the `with` block ends."""
    temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    with if_killed('rm -f -- "$1"', str(temporary)):
        try:
            with temporary.open("xb") as file:
                _write(file, data)
            temporary.chmod(mode)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def permissions(target: Path) -> int:
    """Return the mode bits of `target`, or those that a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
