"""Where compiled kernels are kept: found, or made, before anything is compiled.

numba refuses to cache a function where it may write neither beside the source nor below the
user's home directory (`nobody`, read-only containers). Then the kernels of one run are kept in a
private directory that is removed when simprof ends: slow to start, but it runs.

Once numba has compiled everything, all of it is kept as one file of machine code, which later
processes take without numba (`simulator.cpu.compiled`). Its name holds a digest of all on which it
depends: sources, numba, what numba's variables say, the processor.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import os
from contextlib import ExitStack
from pathlib import Path

from profiler.profiles.cache_files import CacheFiles, cache_directory
from profiler.profiles.fingerprint import fingerprint
from profiler.profiles.scratch import scratch_directory
from simulator.cpu import compiled

VARIABLE = "NUMBA_CACHE_DIR"
PACKAGES = (
    "profiler/recovery",
    "profiler/engine",
    "profiler/trace",
    "simulator/cpu",
    "simulator/linux",
)
"""Those with kernels."""
MODULES = (
    "profiler.recovery.exploration_native",
    "simulator.cpu.traps",
    "simulator.cpu.crash",
    "simulator.linux.native_contexts",
    "profiler.engine.kernels",
    "profiler.engine.landing_kernel",
    "profiler.engine.recording_kernel",
    "profiler.engine.context_kernel",
    "profiler.engine.replay_kernel",
)
"""Those with C functions: their machine code is kept."""
_FOLDER = "machine-code"
_LIMIT = 4 << 20
"""Bytes of files of machine code in a directory: some twenty."""


def ensure() -> None:
    """Make sure that kernels can be had; called before any module with kernels is imported.

    They are loaded as machine code where that is kept, and otherwise left to numba.
    """
    if compiled.may_load():
        name = _name()
        for files in _machine_code():
            code = files.read(name)
            if code is not None:
                compiled.load(code)
                return
    if compiled.is_loaded() or is_usable():
        return
    kept = ExitStack()
    atexit.register(kept.close)
    os.environ[VARIABLE] = str(kept.enter_context(scratch_directory("simprof-kernels-")))


def keep() -> None:
    """Keep the machine code of all C functions if numba has compiled them in this process."""
    if not compiled.may_dump():
        return
    for module in MODULES:
        importlib.import_module(module)
    code, name = compiled.dump(), _name()
    for files in _machine_code():
        files.write(name, code)
        if files.read(name) is not None:
            return


def _machine_code() -> list[CacheFiles]:
    """Return the places of machine code, in their order of preference."""
    if chosen := os.environ.get(VARIABLE):
        places = [Path(chosen)]
    else:
        places = [beside()[0], cache_directory()]
    return [CacheFiles(place / _FOLDER, _LIMIT) for place in places]


def _name() -> str:
    """Return the name of the file of machine code: of all that decides what it is."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name != VARIABLE
    }
    parts = (fingerprint(), compiled.host(), sorted(variables.items()))
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


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
