"""Links what numba has compiled to an image of machine code (`machine_code`).

LLVM writes an object file in which functions and constants refer to each other by distance. So an
image is the sections of that file, one behind the other, with these distances filled in; what is
not in the file is called through a word that has its address.

Steps -> functions
1. have numba compile C functions, and bring all to one module   `build`
2. have LLVM write it for any processor of its kind             `_emit`
3. lay out the sections, and fill in distances                  `_Linker`
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Mapping
from typing import Any

from simprof.simulator.cpu import machine_code

# numba's variables for code that any processor of this kind can execute. Strings are in the order
# of their hashes in sets that numba goes through; machine code is to be the same each time.
VARIABLES = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "PYTHONHASHSEED": "0"}

_JUMP = b"\xff\x25"  # jmp *distance(%rip)
# Relocations of x86-64: distance to a symbol, to code of a symbol, to a word with its address.
_PC32, _PLT32, _GOTPCREL = 2, 4, (9, 41, 42)


def environment() -> dict[str, str]:
    """Return the environment of a process that builds machine code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return kept | VARIABLES


def build(compilers: Mapping[str, Callable[[], Any]]) -> bytes:
    """Have numba compile C functions, by name; return their machine code as a file."""
    made = {name: make() for name, make in compilers.items()}
    symbols = {name: function.native_name for name, function in made.items()}
    whole: Any = None
    for name, function in made.items():
        module = function._library._get_module_for_linking().clone()
        module.get_function(symbols[name]).linkage = "external"
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    linker = _Linker(_emit(whole))
    places = {name: linker.place(symbol) for name, symbol in symbols.items()}
    return machine_code.pack(
        linker.image(), compiler(), places, [*linker.externals], linker.variables
    )


def compiler() -> str:
    """Return the versions of what compiles here."""
    import llvmlite
    import numba

    return f"numba {numba.__version__}, llvmlite {llvmlite.__version__}"


def _emit(module: Any) -> bytes:
    """Return the object file of a module, in which nothing has an address."""
    from llvmlite import binding

    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.linkage.name not in ("internal", "private"):
            value.visibility = "hidden"
    machine = binding.Target.from_triple(module.triple).create_target_machine(
        cpu=VARIABLES["NUMBA_CPU_NAME"], opt=3, reloc="pic", codemodel="small"
    )
    return bytes(machine.emit_object(module))


class _Linker:
    """The sections of an object file in the order in which they are in an image."""

    def __init__(self, data: bytes) -> None:
        from elftools.elf.elffile import ELFFile

        self._file: Any = ELFFile(io.BytesIO(data))
        self._symbols: Any = self._file.get_section_by_name(".symtab")
        self._starts: dict[int, int] = {}  # Section -> its place
        self.externals: dict[str, int] = {}  # Name -> place of the word with its address
        self._code = bytearray()
        loaded = [
            (number, section)
            for number, section in enumerate(self._file.iter_sections())
            # Nobody unwinds frames of this code.
            if section["sh_flags"] & 2 and section.name != ".eh_frame"
        ]
        zero = [each for each in loaded if each[1]["sh_type"] == "SHT_NOBITS"]
        for number, section in loaded:
            if (number, section) not in zero:
                self._pad(section["sh_addralign"])
                self._starts[number] = len(self._code)
                self._code += section.data()
        names = self._undefined()
        self._stubs = {}
        for name in names:
            self._pad(8)
            self._stubs[name] = len(self._code)
            self._code += _JUMP + bytes(4)
        start = machine_code.writable(len(self._code))
        for number, name in enumerate(names):
            self.externals[name] = start + 8 * number
            self._put(self._stubs[name] + 2, self.externals[name] - 4)
        end = first = start + 8 * len(names)
        for number, section in zero:
            end = -(-end // section["sh_addralign"]) * section["sh_addralign"]
            self._starts[number] = end
            end += section["sh_size"]
        self.variables = end - first
        for number, section in loaded:
            if section["sh_flags"] & 1 and (number, section) not in zero:
                raise ValueError(f"there are variables with a value: {section.name}")
            self._relocate(number, section.name)

    def _undefined(self) -> list[str]:
        symbols = self._symbols.iter_symbols()
        return [each.name for each in symbols if each["st_shndx"] == "SHN_UNDEF" and each.name]

    def _pad(self, alignment: int) -> None:
        self._code += bytes(-len(self._code) % max(alignment, 1))

    def _put(self, place: int, target: int) -> None:
        struct.pack_into("<i", self._code, place, target - place)

    def _relocate(self, number: int, name: str) -> None:
        table = self._file.get_section_by_name(f".rela{name}")
        for each in () if table is None else table.iter_relocations():
            symbol = self._symbols.get_symbol(each["r_info_sym"])
            kind, is_external = each["r_info_type"], symbol["st_shndx"] == "SHN_UNDEF"
            if kind in _GOTPCREL and is_external:
                target = self.externals[symbol.name]
            elif kind == _PLT32 and is_external:
                target = self._stubs[symbol.name]
            elif kind in (_PC32, _PLT32) and not is_external:
                target = self._starts[symbol["st_shndx"]] + symbol["st_value"]
            else:
                raise ValueError(f"relocation {kind} of {symbol.name} cannot be linked")
            self._put(self._starts[number] + each["r_offset"], target + each["r_addend"])

    def place(self, name: str) -> int:
        """Return where the code of a function is."""
        (symbol,) = self._symbols.get_symbol_by_name(name)
        return self._starts[symbol["st_shndx"]] + int(symbol["st_value"])

    def image(self) -> bytes:
        """Return all that is neither zero at first nor an address."""
        return bytes(self._code)
