"""Where compiled kernels are kept: found, or made, before anything is compiled.

What is kept is executed, so that it is used only where nobody but the user may write (or whoever
has installed simprof): see `cache_files`. numba keeps what it compiles in the first such place:
beside the sources, in the user's cache, in a directory among temporary files that has the user's
number. Where there is none, kernels are compiled and not kept: slow to start, but it runs.

Once numba has compiled everything, all of it is kept as one file of machine code, which later
processes take without numba (`simulator.cpu.compiled`). Its name holds a digest of all on which it
depends: sources, numba, what numba's variables say, the processor. Beside the sources it may be
read by everybody: users of one installation need not compile what its owner has compiled.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

from simprof.profiler.profiles.cache_files import (
    CacheFiles,
    cache_directory,
    is_private,
    leave_alone,
    make_directory,
    temporary,
    warn,
)
from simprof.profiler.profiles.fingerprint import fingerprint
from simprof.simulator.cpu import compiled

VARIABLE = "NUMBA_CACHE_DIR"
# Those with kernels.
PACKAGES = (
    "profiler/recovery",
    "profiler/engine",
    "profiler/trace",
    "simulator/cpu",
    "simulator/linux",
)
# Those with C functions: their machine code is kept.
MODULES = (
    "simprof.profiler.recovery.exploration_native",
    "simprof.simulator.cpu.native",
    "simprof.simulator.cpu.traps",
    "simprof.simulator.cpu.crash",
    "simprof.simulator.linux.native_contexts",
    "simprof.profiler.engine.kernels",
    "simprof.profiler.engine.block_kernel",
    "simprof.profiler.engine.landing_kernel",
    "simprof.profiler.engine.recording_kernel",
    "simprof.profiler.engine.context_kernel",
    "simprof.profiler.engine.replay_kernel",
)
_ROOT = Path(__file__).parents[2]
_KERNELS, _FOLDER = "kernels", "machine-code"
_LIMIT = 4 << 20  # Bytes of files of machine code in a directory: some twenty


def ensure(tell: Callable[[], None] | None = None) -> None:
    """Make sure that kernels can be had; called before any module with kernels is imported."""
    # They are loaded as machine code where that is kept, and otherwise left to numba.
    # `tell`: Called if numba, later, begins to compile something; None: nobody wants to know.
    if compiled.may_load():
        name = _name()
        for files in _machine_code():
            code = files.read(name)
            if code is not None:
                compiled.load(code)
                break
    _choose_place()
    if tell is not None and not compiled.is_loaded():
        compiled.on_compiling(tell)


def _choose_place() -> None:
    """Have numba keep what it compiles where nobody else may write."""
    chosen = os.environ.get(VARIABLE)
    owner = _installer()
    # numba keeps code beside the sources where nobody else may write there
    if not chosen and all(
        _is_writable(each, 0o755) and not _strange(each, owner) for each in beside()
    ):
        return
    places = _own_places()
    usable = next(filter(_is_usable, places), None)
    if usable is None:
        compiled.keep_nothing()
        note = f"compiled code is not kept: none of {', '.join(map(str, places))} can be used"
    else:
        os.environ[VARIABLE] = str(usable)
        if "numba" in sys.modules:
            sys.modules["numba"].config.CACHE_DIR = str(usable)
        note = f"compiled code is kept in {usable}: {places[0]} cannot be used"
    if usable != places[0] and not compiled.is_loaded():
        warn(note)  # a process that compiles nothing need not know


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
    files = [CacheFiles(place / _FOLDER, _LIMIT) for place in _own_places()]
    if os.environ.get(VARIABLE):
        return files
    return [CacheFiles(beside()[0] / _FOLDER, _LIMIT, owner=_installer(), mode=0o755), *files]


def _name() -> str:
    """Return the name of the file of machine code: of all that decides what it is."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name != VARIABLE
    }
    parts = (fingerprint(), compiled.host(), sorted(variables.items()))
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def directories() -> list[Path]:
    """Return where numba may keep compiled kernels, in its order of preference."""
    own = _own_places()
    return [own[0], *beside(), *own[1:]] if os.environ.get(VARIABLE) else [*beside(), *own]


def beside() -> list[Path]:
    """Return the directories beside the sources."""
    return [_ROOT / package / "__pycache__" for package in PACKAGES]


def _own_places() -> list[Path]:
    chosen = os.environ.get(VARIABLE)
    first = [Path(chosen)] if chosen else []
    return list(dict.fromkeys([*first, cache_directory() / _KERNELS, temporary() / _KERNELS]))


def _installer() -> int:
    """Return whose the sources are: who may write these is trusted already."""
    return _ROOT.joinpath("simulator").stat().st_uid


def _is_usable(place: Path) -> bool:
    if not _is_writable(place, 0o700):
        return False
    strange = _strange(place)
    if strange:
        leave_alone(strange)
    return not strange


def _is_writable(directory: Path, mode: int) -> bool:
    """Find out whether a directory can be written, or made: by doing it."""
    try:
        make_directory(directory, mode)
        tempfile.TemporaryFile(dir=directory).close()  # which numba tries, too
    except OSError:
        return False
    return True


def _strange(place: Path, owner: int | None = None) -> Path | None:
    """Return the directory, or a file of numba's below it, if others may have written it."""
    is_closed = not place.stat().st_mode & 0o011
    for name, _, files in os.walk(place):
        folder = Path(name)
        for path in [folder, *(folder / file for file in files if fnmatch(file, "*.nb?"))]:
            status = path.stat()
            # Where nobody else can come, what numba makes may have any permissions.
            if not is_private(status, owner, writable=is_closed and path != place):
                return path
    return None
