"""Links what numba has compiled to an image of machine code (`machine_code`).

LLVM writes an object file in which functions and constants refer to each other by distance. So an
image is the sections of that file, one behind the other, with these distances filled in; what is
not in the file is called through a word that has its address.

Steps -> functions
1. have numba compile C functions, and bring all to one module   `build`
2. have LLVM write it for any processor of a kind               `_emit`
3. lay out the sections, and fill in distances                  `_Linker`

All kinds of machines are 64-bit and little-endian with the same layout of data, and numba's code
calls nothing that only one of them has: one module is written for each of them, on any of them.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from simprof.simulator.cpu import machine_code

# numba's variables for code that any processor of this kind can execute. Strings are in the order
# of their hashes in sets that numba goes through; machine code is to be the same each time.
VARIABLES = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "PYTHONHASHSEED": "0"}

# What a relocation fills in: 32 bits as they are, their place, where they refer to -> the bits.
Field = Callable[[int, int, int], int]


class _Machine(NamedTuple):
    """What linking has to know of a kind of machine. Relocations are as its ABI numbers them."""

    data: dict[int, Field]  # relocations to what a file has
    code: dict[int, Field]  # to code, which may be a function of the process
    words: dict[int, Field]  # to a word with an address
    jump: bytes  # to what is in a word
    jump_words: tuple[tuple[int, int, int], ...]  # where in it, relocation, addend


def _distance(bits: int, place: int, target: int) -> int:
    return (target - place) & 0xFFFFFFFF


def _branch(bits: int, place: int, target: int) -> int:
    return bits | (target - place) >> 2 & 0x3FFFFFF


def _page(bits: int, place: int, target: int) -> int:
    pages = (target >> 12) - (place >> 12)
    return bits | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _in_page(size: int) -> Field:
    # In units of `size` bytes
    return lambda bits, place, target: bits | (target & 0xFFF) // size << 10


MACHINES = {
    "x86_64": _Machine(
        data={2: _distance},
        code={4: _distance},
        words=dict.fromkeys((9, 41, 42), _distance),
        jump=b"\xff\x25\0\0\0\0",  # jmp *distance(%rip)
        jump_words=((2, 9, -4),),
    ),
    "aarch64": _Machine(
        data={
            275: _page,
            277: _in_page(1),  # add
            278: _in_page(1),  # loads and stores, of so many bytes
            284: _in_page(2),
            285: _in_page(4),
            286: _in_page(8),
            299: _in_page(16),
        },
        code={282: _branch, 283: _branch},
        words={311: _page, 312: _in_page(8)},
        # adrp x16, word; ldr x16, [x16, word]; br x16
        jump=struct.pack("<3I", 0x90000010, 0xF9400210, 0xD61F0200),
        jump_words=((0, 311, 0), (4, 312, 0)),
    ),
}
"""Those that machine code can be made for."""


def environment() -> dict[str, str]:
    """Return the environment of a process that builds machine code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return kept | VARIABLES


def build(
    compilers: Mapping[str, Callable[[], Any]], machines: Sequence[str] = (machine_code.MACHINE,)
) -> bytes:
    """Have numba compile C functions, by name; return their machine code, a file a machine."""
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
    files = []
    for machine in machines:
        linker = _Linker(_emit(whole, machine), machine)
        places = {name: linker.place(symbol) for name, symbol in symbols.items()}
        externals, variables = [*linker.externals], linker.variables
        files.append(
            machine_code.pack(linker.image(), compiler(), places, externals, variables, machine)
        )
    return b"".join(files)


def compiler() -> str:
    """Return the versions of what compiles here, and the machine, on which choices depend."""
    import llvmlite
    import numba

    versions = f"numba {numba.__version__}, llvmlite {llvmlite.__version__}"
    return f"{versions}, {machine_code.MACHINE}"


def _emit(module: Any, machine: str) -> bytes:
    """Return the object file of a module for a machine, in which nothing has an address."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    triple = f"{machine}-unknown-linux-gnu"
    writer = binding.Target.from_triple(triple).create_target_machine(
        cpu=VARIABLES["NUMBA_CPU_NAME"], opt=3, reloc="pic", codemodel="small"
    )
    module = module.clone()  # LLVM changes what it writes
    module.triple, module.data_layout = triple, str(writer.target_data)
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.linkage.name not in ("internal", "private"):
            value.visibility = "hidden"
    return bytes(writer.emit_object(module))


class _Linker:
    """The sections of an object file in the order in which they are in an image."""

    def __init__(self, data: bytes, machine: str) -> None:
        from elftools.elf.elffile import ELFFile

        self._machine = MACHINES[machine]
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
            self._code += self._machine.jump
        start = machine_code.writable(len(self._code))
        for number, name in enumerate(names):
            self.externals[name] = start + 8 * number
            for offset, kind, addend in self._machine.jump_words:
                field, place = self._machine.words[kind], self._stubs[name] + offset
                self._fill(field, place, self.externals[name] + addend)
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

    def _fill(self, field: Field, place: int, target: int) -> None:
        (bits,) = struct.unpack_from("<I", self._code, place)
        struct.pack_into("<I", self._code, place, field(bits, place, target))

    def _relocate(self, number: int, name: str) -> None:
        data, code, words, *_ = self._machine
        table = self._file.get_section_by_name(f".rela{name}")
        for each in () if table is None else table.iter_relocations():
            symbol = self._symbols.get_symbol(each["r_info_sym"])
            kind, is_external = each["r_info_type"], symbol["st_shndx"] == "SHN_UNDEF"
            if kind in words and is_external:
                target = self.externals[symbol.name]
            elif kind in code and is_external:
                target = self._stubs[symbol.name]
            elif kind in data | code and not is_external:
                target = self._starts[symbol["st_shndx"]] + symbol["st_value"]
            else:
                raise ValueError(f"relocation {kind} of {symbol.name} cannot be linked")
            place, field = self._starts[number] + each["r_offset"], (data | code | words)[kind]
            self._fill(field, place, target + each["r_addend"])

    def place(self, name: str) -> int:
        """Return where the code of a function is."""
        (symbol,) = self._symbols.get_symbol_by_name(name)
        return self._starts[symbol["st_shndx"]] + int(symbol["st_value"])

    def image(self) -> bytes:
        """Return all that is neither zero at first nor an address."""
        return bytes(self._code)
