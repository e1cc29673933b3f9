"""Temporary folders and processes, removed even if simprof is killed.

SIGKILL leaves no time to tidy up. So a shell waits beside the process, at the other end of a pipe
that the system closes when the process ends, however it ends; then the shell does what the process
no longer can. It leads a process group of its own, so that a terminal's signals do not reach it.

What does that is imported by it: most runs leave nothing behind that would have to be removed.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SHELL = "/bin/sh"
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
# Again after a second: others that are ended at the same moment may still write there, and a
# program may have taken permissions away.
_REMOVE = 'rm -rf -- "$1" || { sleep 1; chmod -R u+rwx -- "$1"; rm -rf -- "$1"; }'


@contextmanager
def if_killed(action: str, *arguments: str) -> Iterator[int]:
    """Have a shell do something should this process end before the `with` block does.

    `action`: Command of a POSIX shell; `arguments` are its `$1`, `$2` and so on. Gives the process
    group that the shell leads; where no shell can be started, nothing does it, and that is 0.
    """
    import subprocess

    script = f"read -r _ || {{ {action}; }}"
    try:
        shell = subprocess.Popen(
            [SHELL, "-c", script, "simprof", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            process_group=0,
        )
    except OSError:
        yield 0
        return
    try:
        yield shell.pid
    finally:
        with suppress(BrokenPipeError):
            shell.communicate(b"done\n")


@contextmanager
def scratch_directory(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a directory that is gone after the `with` block, or once this process is killed.

    `parent`: Where; None: where temporary files belong. Raises OSError if it cannot be made.
    """
    import tempfile

    place = Path(tempfile.gettempdir()) if parent is None else parent.resolve()
    path = place / f"{prefix}{os.getpid()}-{os.urandom(4).hex()}"
    with if_killed(_REMOVE, str(path)):
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            _remove(path)


def _remove(directory: Path) -> None:
    """Remove a directory, in which a program may have taken permissions away."""
    import shutil

    shutil.rmtree(directory, ignore_errors=True)
    if not directory.exists():
        return
    for place, names, _ in os.walk(directory):
        for path in [Path(place), *(Path(place) / name for name in names)]:
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(directory, ignore_errors=True)


def die_with(parent: int) -> None:
    """Have the system end this process when its parent ends, be it by SIGKILL."""
    if Path("/proc/self").exists():
        ctypes.CDLL(None, use_errno=True).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
