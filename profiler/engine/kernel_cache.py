"""Machine code of kernels where none is shipped that fits: made when it is needed, and kept.

On another kind of machine, or with a kernel that has changed, numba compiles: in a process of its
own (`kernel_builder`), what this command needs and no more. What comes of it is kept in the user's
cache under the digest of the kernels' sources, or else in a directory among temporary files that
has the user's number. What is kept is executed, so that it is used only where nobody but the user
may write (`cache_files`). Where nothing can be kept, each process compiles for itself.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from simprof.profiler.engine import kernel_builder
from simprof.profiler.profiles.cache_files import CacheFiles, cache_directory, temporary
from simprof.simulator.cpu import compiled, machine_code
from simprof.simulator.errors import EngineError

if TYPE_CHECKING:
    import subprocess

_FOLDER = "kernels"
_LIMIT = 4 << 20  # Bytes of files of machine code in a directory
# Seconds that numba takes for the engine, and for a part of it that few programs need.
_ENGINE_SECONDS, _PART_SECONDS = 40, 5


class _Building:
    process: subprocess.Popen[bytes] | None = None  # which makes the machine code of the engine
    tell: Callable[[str], None] | None = None


def on_compiling(tell: Callable[[str], None]) -> None:
    """Have `tell` be told what is compiled, and how long that takes, when it begins."""
    _Building.tell = tell


def begin() -> None:
    """Begin to make what every run needs, where that is not at hand, besides what is done next."""
    engine = kernel_builder.ENGINE
    if compiled.is_at_hand(engine[-1]) or _Building.process is not None:
        return
    if _kept(engine) is None:
        _Building.process = _start(engine)
        atexit.register(_Building.process.kill)


def provide(module: str) -> bytes:
    """Return the machine code of a module's C functions, compiled now where it is not kept."""
    is_engine = module in kernel_builder.ENGINE
    modules = kernel_builder.ENGINE if is_engine else (module,)
    code = _kept(modules)
    if code is not None:
        return code
    process = _start(modules) if not is_engine or _Building.process is None else _Building.process
    code = process.communicate()[0]
    if process.returncode or not machine_code.fits(code):
        raise EngineError(f"{module} could not be compiled: the reason is above")
    for files in _places():
        files.write(_name(modules), code)
        if files.read(_name(modules)) is not None:
            break
    return code


def place() -> Path | None:
    """Return the file with the engine's machine code: what is shipped, or kept; None: neither."""
    if machine_code.shipped() is not None:
        return machine_code.shipped_file()
    name = _name(kernel_builder.ENGINE)
    found = (files.directory / name for files in _places() if files.read(name) is not None)
    return next(found, None)


def _start(modules: tuple[str, ...]) -> subprocess.Popen[bytes]:
    if _Building.tell is not None:
        what, seconds = "the engine", _ENGINE_SECONDS
        if modules != kernel_builder.ENGINE:
            what, seconds = modules[-1].rpartition(".")[2], _PART_SECONDS
        _Building.tell(f"compiling {what}, once: about {seconds} s")
    return kernel_builder.start(modules)


def _kept(modules: tuple[str, ...]) -> bytes | None:
    found = (files.read(_name(modules)) for files in _places())
    return next((code for code in found if code is not None and machine_code.fits(code)), None)


def _name(modules: tuple[str, ...]) -> str:
    last = modules[-1].rpartition(".")[2]
    return f"{last}-{machine_code.target()}-{machine_code.digest()}"


def _places() -> list[CacheFiles]:
    places = dict.fromkeys((cache_directory() / _FOLDER, temporary() / _FOLDER))
    return [CacheFiles(place, _LIMIT) for place in places]
