"""Where numba keeps compiled kernels: found, or made, before anything is compiled.

numba refuses to cache a function where it may write neither beside the source nor below the
user's home directory (`nobody`, read-only containers). Then the kernels of one run are kept in a
private directory that is removed when simprof ends: slow to start, but it runs.
"""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from pathlib import Path

from profiler.profiles.scratch import scratch_directory

VARIABLE = "NUMBA_CACHE_DIR"
PACKAGES = (
    "profiler/recovery",
    "profiler/engine",
    "profiler/trace",
    "simulator/cpu",
    "simulator/linux",
)
"""Those with kernels."""


def ensure() -> None:
    """Make sure that kernels can be cached; called before numba is imported."""
    if is_usable():
        return
    kept = ExitStack()
    atexit.register(kept.close)
    os.environ[VARIABLE] = str(kept.enter_context(scratch_directory("simprof-kernels-")))


def is_usable() -> bool:
    """Whether one of the places that numba tries may be written."""
    if chosen := os.environ.get(VARIABLE):
        return _may_write(Path(chosen))
    return all(map(_may_write, beside())) or _may_write(below_home())


def directories() -> list[Path]:
    """Return where numba may keep compiled kernels, in its order of preference."""
    if chosen := os.environ.get(VARIABLE):
        return [Path(chosen), *beside()]
    return [*beside(), below_home()]


def beside() -> list[Path]:
    """Return the directories beside the sources."""
    root = Path(__file__).parents[2]
    return [root / package / "__pycache__" for package in PACKAGES]


def below_home() -> Path:
    """Return the user's cache directory."""
    home = os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.home() raises without a home
    return Path(os.environ.get("XDG_CACHE_HOME") or home) / "numba"


def _may_write(directory: Path) -> bool:
    """Whether `directory` can be written, or be made where it is missing."""
    for place in (directory, *directory.parents):
        try:
            place.stat()
        except FileNotFoundError:
            continue
        except OSError:
            return False
        return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return False
