"""Instruction words as text: Capstone, and words of our own for what Capstone 5 lacks.

Capstone does not know integer `ldd`/`std`, alternate-space loads and stores, `flush`,
`ldstub`, `prefetch` and the state-register moves. Registers are written as numbered by the
assembler (`%o6` is `%sp`, `%i6` is `%fp`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import capstone

_INTEGER: Final = tuple(
    [f"%g{n}" for n in range(8)]
    + [f"%o{n}" if n != 6 else "%sp" for n in range(8)]
    + [f"%l{n}" for n in range(8)]
    + [f"%i{n}" if n != 6 else "%fp" for n in range(8)]
)
_MEMORY: Final = {
    0x00: "ld", 0x01: "ldub", 0x02: "lduh", 0x03: "ldd", 0x04: "st", 0x05: "stb", 0x06: "sth",
    0x07: "std", 0x08: "ldsw", 0x09: "ldsb", 0x0A: "ldsh", 0x0B: "ldx", 0x0D: "ldstub",
    0x0E: "stx", 0x0F: "swap", 0x20: "ldf", 0x21: "ldfsr", 0x22: "ldqf", 0x23: "lddf",
    0x24: "stf", 0x25: "stfsr", 0x26: "stqf", 0x27: "stdf", 0x2D: "prefetch",
}  # fmt: skip
_STORES: Final = frozenset({0x04, 0x05, 0x06, 0x07, 0x0E, 0x24, 0x25, 0x26, 0x27})
_FLOAT_NAMES: Final = {"ldf": "ld", "ldqf": "ldq", "lddf": "ldd", "stf": "st", "stqf": "stq",
                       "stdf": "std"}  # fmt: skip
_STATE: Final = {0: "%y", 2: "%ccr", 3: "%asi", 4: "%tick", 5: "%pc", 6: "%fprs", 19: "%gsr"}
_PREFETCH: Final = ("#n_reads", "#one_read", "#n_writes", "#one_write", "#page")
_ASI: Final = {0x80: "#ASI_P", 0x81: "#ASI_S", 0x82: "#ASI_PNF", 0x83: "#ASI_SNF",
               0x88: "#ASI_P_L", 0x89: "#ASI_S_L"}  # fmt: skip


def disassemble(word: int, address: int) -> str:
    """Return the text of the instruction `word` at `address` (`.word 0x...` if it is none).

    Branch and call targets are absolute, in hexadecimal.
    """
    if word >> 30 == 1:  # Capstone shows displacements of calls modulo nothing
        displacement = ((word & 0x3FFFFFFF) ^ 0x20000000) - 0x20000000
        return f"call {(address + 4 * displacement) & 0xFFFFFFFFFFFFFFFF:#x}"
    own = _own_text(word)
    if own is not None:
        return own
    for instruction in _capstone().disasm(word.to_bytes(4, "big"), address):
        return f"{instruction.mnemonic} {instruction.op_str}".rstrip()
    return f".word {word:#010x}"


@lru_cache(maxsize=1)
def _capstone() -> capstone.Cs:
    return capstone.Cs(capstone.CS_ARCH_SPARC, capstone.CS_MODE_BIG_ENDIAN | capstone.CS_MODE_V9)


def _own_text(word: int) -> str | None:
    op, op3 = word >> 30, (word >> 19) & 0x3F
    if op == 3:
        return _memory_text(word, op3)
    if op == 2:
        return _state_text(word, op3)
    if op == 0 and (word >> 22) & 7 == 0:
        return f"illtrap {word & 0x3FFFFF:#x}"
    return None


def _memory_text(word: int, op3: int) -> str | None:
    rd = (word >> 25) & 31
    alternate = bool(op3 & 0x10)
    kind = op3 & ~0x10
    if alternate and kind in (0x2C, 0x2E):
        swap = "casa" if kind == 0x2C else "casxa"
        source = _INTEGER[(word >> 14) & 31]
        return f"{swap} [{source}] {_space(word)}, {_INTEGER[word & 31]}, {_INTEGER[rd]}"
    name = _MEMORY.get(kind)
    if name is None:
        return None
    place = _address(word) + (f" {_space(word)}" if alternate else "")
    if kind == 0x2D:
        function = _PREFETCH[rd] if rd < len(_PREFETCH) else str(rd)
        return f"prefetch{'a' if alternate else ''} {place}, {function}"
    if kind in (0x21, 0x25):
        name = {0x21: "ld", 0x25: "st"}[kind] + ("x" if rd == 1 else "")
        register = "%fsr"
    elif kind >= 0x20:
        register = _float(rd, double=kind not in (0x20, 0x24))
    else:
        register = _INTEGER[rd]
    name = _FLOAT_NAMES.get(name, name) + ("a" if alternate else "")
    return f"{name} {register}, {place}" if kind in _STORES else f"{name} {place}, {register}"


def _state_text(word: int, op3: int) -> str | None:
    rd, source = (word >> 25) & 31, (word >> 14) & 31
    if op3 == 0x3B:
        return f"flush {_address(word)[1:-1]}"
    if op3 == 0x2B and word & 0x3FFFF == 0:
        return "flushw"
    if op3 == 0x28:
        if source == 15 and rd == 0:
            return f"membar {word & 0x7F:#x}" if word & 0x2000 else "stbar"
        return f"rd {_STATE.get(source, f'%asr{source}')}, {_INTEGER[rd]}"
    if op3 == 0x30:
        second = _operand(word)
        return f"wr {_INTEGER[source]}, {second}, {_STATE.get(rd, f'%asr{rd}')}"
    return None


def _float(number: int, *, double: bool) -> str:
    """Doubles and quads keep bit 5 of their register number in bit 0 (V9 5.1.4.1)."""
    return f"%f{(number & 30) | (number & 1) << 5}" if double else f"%f{number}"


def _operand(word: int) -> str:
    if not word & 0x2000:
        return _INTEGER[word & 31]
    return str(((word & 0x1FFF) ^ 0x1000) - 0x1000)


def _address(word: int) -> str:
    base = _INTEGER[(word >> 14) & 31]
    if word & 0x2000:
        offset = ((word & 0x1FFF) ^ 0x1000) - 0x1000
        return f"[{base}{offset:+d}]" if offset else f"[{base}]"
    index = word & 31
    return f"[{base}+{_INTEGER[index]}]" if index else f"[{base}]"


def _space(word: int) -> str:
    """Address space of an alternate load or store: %asi with an immediate offset."""
    if word & 0x2000:
        return "%asi"
    number = (word >> 5) & 0xFF
    return _ASI.get(number, f"{number:#x}")
