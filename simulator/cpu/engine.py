"""Unicorn's SPARC64 engine, by the few functions of its C library that simprof calls.

The Python package is not imported: its bindings of all processors, and what they import to find the
library in the package, take longer than most programs run. A test compares the numbers with its.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Final

import numpy as np

from simprof.simulator.errors import EngineError

UC_ARCH_SPARC: Final = 6
UC_MODE_SPARC64: Final = 1 << 3
UC_MODE_BIG_ENDIAN: Final = 1 << 30

UC_ERR_READ_UNMAPPED: Final = 6
UC_ERR_WRITE_UNMAPPED: Final = 7
UC_ERR_FETCH_UNMAPPED: Final = 8
UC_ERR_INSN_INVALID: Final = 10
UC_ERR_EXCEPTION: Final = 21

UC_MEM_READ: Final = 16
UC_MEM_WRITE: Final = 17
UC_MEM_FETCH: Final = 18
UC_PROT_READ: Final = 1
UC_PROT_EXEC: Final = 4
UC_PROT_ALL: Final = 7

UC_HOOK_INTR: Final = 1
UC_HOOK_BLOCK: Final = 8
UC_HOOK_EDGE_GENERATED: Final = 1 << 15
UC_HOOK_TLB_FILL: Final = 1 << 17

# What `control` is asked for, with the number of arguments that come with it and their direction.
UC_CTL_TB_REQUEST_CACHE: Final = 8
UC_CTL_TB_REMOVE_CACHE: Final = 9
UC_CTL_TLB_FLUSH: Final = 11
UC_CTL_TLB_TYPE: Final = 12
UC_CTL_IO_WRITE: Final = 1
UC_CTL_IO_READ_WRITE: Final = 3
UC_TLB_VIRTUAL: Final = 1

UC_SPARC_REG_G0: Final = 53
UC_SPARC_REG_O5: Final = 83
UC_SPARC_REG_PC: Final = 88


_LINK_MAP: Final = 2  # RTLD_DI_LINKMAP
_JUMP_SLOTS, _JUMP_SLOTS_SIZE, _SYMBOLS = 23, 2, 6  # DT_JMPREL, DT_PLTRELSZ, DT_SYMTAB


class UnicornError(Exception):
    """An error of the engine, with its number."""

    def __init__(self, number: int) -> None:
        super().__init__(library.uc_strerror(number).decode())
        self.number = number


class TranslatedBlock(ctypes.Structure):
    """A block that the engine has translated."""

    _fields_ = (("pc", c_uint64), ("icount", ctypes.c_uint16), ("size", ctypes.c_uint16))


def _load() -> ctypes.CDLL:
    found = importlib.util.find_spec("unicorn")
    packages = (found and found.submodule_search_locations) or []
    folders = [os.path.join(each, "lib") for each in packages]  # noqa: PTH118 - of import
    name = "libunicorn.2.dylib" if sys.platform == "darwin" else "libunicorn.so.2"
    for folder in (os.environ.get("LIBUNICORN_PATH", ""), *folders, ""):
        file = os.path.join(folder, name)  # noqa: PTH118
        try:
            return ctypes.CDLL(file)
        except OSError:
            if os.path.exists(file):  # noqa: PTH110
                raise  # what the process lacks says who reports it
    raise EngineError(f"{name} of unicorn cannot be loaded: install unicorn 2.1.4")


library = _load()


def addresses(names: Sequence[str]) -> list[int]:
    """Return where the engine's functions for instructions are."""
    found = (getattr(library, f"helper_{name}_sparc64") for name in names)
    return [ctypes.cast(each, c_void_p).value or 0 for each in found]


def redirect(functions: Mapping[str, int]) -> None:
    """Have the engine call other functions, by C addresses, instead of its own ones of these names.

    Raises `EngineError` for a library that does not call them by way of its table of functions.
    """
    # The table that the dynamic loader fills in (`.got.plt`); it has each function once.
    address, dynamic = _loaded_at(library)
    entries: dict[int, int] = {}
    while (tag := c_uint64.from_address(dynamic).value) != 0:
        entries[tag] = c_uint64.from_address(dynamic + 8).value
        dynamic += 16
    rows = entries.get(_JUMP_SLOTS_SIZE, 0) // 24 * 3
    slots = np.ctypeslib.as_array((c_uint64 * rows).from_address(entries[_JUMP_SLOTS]))
    slots = slots.reshape(-1, 3)
    numbers = (slots[:, 1] >> np.uint64(32)).astype(np.int64)
    words = 3 * (int(numbers.max(initial=0)) + 1)
    symbols = np.ctypeslib.as_array((c_uint64 * words).from_address(entries[_SYMBOLS]))
    values = symbols.reshape(-1, 3)[numbers, 1]
    for name, function in functions.items():
        own = ctypes.cast(getattr(library, name), c_void_p).value or 0
        places = slots[values == np.uint64(own - address), 0]
        if len(places) != 1:
            raise EngineError(f"the emulator does not call {name}: install unicorn 2.1.4")
        c_uint64.from_address(address + int(places[0])).value = function


def _loaded_at(loaded: ctypes.CDLL) -> tuple[int, int]:
    # What is added to a library's addresses; the address of its dynamic section.
    found = POINTER(c_uint64)()
    find = ctypes.CDLL(None).dlinfo
    find.argtypes = c_void_p, c_int, c_void_p
    if find(loaded._handle, _LINK_MAP, ctypes.byref(found)) != 0:
        raise EngineError("the emulator's library is not one of ELF: install unicorn 2.1.4")
    return found[0], found[2]


_ARGUMENTS = {
    "uc_close": (c_void_p,),
    "uc_context_alloc": (c_void_p, POINTER(c_void_p)),
    "uc_context_free": (c_void_p,),
    "uc_context_save": (c_void_p, c_void_p),
    "uc_context_size": (c_void_p,),
    "uc_ctl": (c_void_p, c_int),
    "uc_emu_start": (c_void_p, c_uint64, c_uint64, c_uint64, c_size_t),
    "uc_emu_stop": (c_void_p,),
    "uc_hook_add": (
        *(c_void_p, POINTER(c_size_t), c_int, c_void_p, c_void_p),
        *(c_uint64, c_uint64),
    ),
    "uc_hook_del": (c_void_p, c_size_t),
    "uc_mem_map_ptr": (c_void_p, c_uint64, c_size_t, c_uint32, c_void_p),
    "uc_open": (c_int, c_int, POINTER(c_void_p)),
    "uc_reg_read": (c_void_p, c_int, c_void_p),
    "uc_reg_write": (c_void_p, c_int, c_void_p),
    "uc_strerror": (c_int,),
}
for _name, _arguments in _ARGUMENTS.items():
    getattr(library, _name).argtypes = _arguments
library.uc_context_size.restype = c_size_t
library.uc_strerror.restype = c_char_p


def check(status: int) -> None:
    """Raise the error that a function of the library has returned."""
    if status:
        raise UnicornError(status)


class Engine:
    """An engine; it is closed when nobody refers to this object any more."""

    def __init__(self) -> None:
        opened = c_void_p()
        check(library.uc_open(UC_ARCH_SPARC, UC_MODE_SPARC64 | UC_MODE_BIG_ENDIAN, opened))
        self.handle: int = opened.value or 0
        # At the end of the process the system takes it all back sooner.
        weakref.finalize(self, library.uc_close, self.handle).atexit = False
        self.control(UC_CTL_TLB_TYPE, UC_CTL_IO_WRITE, ctypes.c_uint(UC_TLB_VIRTUAL))

    def control(self, what: int, direction: int, *arguments: object) -> None:
        """Change or ask something, with arguments of C types."""
        code = what | len(arguments) << 26 | direction << 30
        check(library.uc_ctl(self.handle, ctypes.c_int32(code).value, *arguments))

    def map(self, address: int, size: int, host: int) -> None:
        """Let the engine reach host memory at guest `address`."""
        check(library.uc_mem_map_ptr(self.handle, address, size, UC_PROT_ALL, host))

    def start(self, begin: int, until: int) -> None:
        """Execute from `begin` until something stops it."""
        check(library.uc_emu_start(self.handle, begin, until, 0, 0))

    def stop(self) -> None:
        """Stop it from within a hook."""
        check(library.uc_emu_stop(self.handle))

    def translated(self, address: int) -> TranslatedBlock:
        """Return the block at an address, which is translated if it was not."""
        block = TranslatedBlock()
        self.control(
            UC_CTL_TB_REQUEST_CACHE,
            UC_CTL_IO_READ_WRITE,
            c_uint64(address),
            ctypes.byref(block),
        )
        return block

    def forget(self, start: int, end: int) -> None:
        """Drop what has been translated from [start, end)."""
        self.control(UC_CTL_TB_REMOVE_CACHE, UC_CTL_IO_WRITE, c_uint64(start), c_uint64(end))

    def flush(self) -> None:
        """Forget all page rights."""
        self.control(UC_CTL_TLB_FLUSH, UC_CTL_IO_WRITE)

    def context(self) -> bytes | None:
        """Return the engine's context as far as it declares it; None if there is none."""
        size = library.uc_context_size(self.handle)
        context = c_void_p()
        check(library.uc_context_alloc(self.handle, context))
        try:
            check(library.uc_context_save(self.handle, context))
            known = context.value is not None and 8 <= size <= 1 << 20
            return ctypes.string_at(context.value or 0, size) if known else None
        finally:
            library.uc_context_free(context)

    def register(self, number: int) -> int:
        """Return a register."""
        value = c_uint64()
        check(library.uc_reg_read(self.handle, number, ctypes.byref(value)))
        return value.value

    def set_register(self, number: int, value: int) -> None:
        """Set a register."""
        check(library.uc_reg_write(self.handle, number, ctypes.byref(c_uint64(value))))
