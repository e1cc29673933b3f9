"""Instruction words as text, as GNU as takes it: assembled again, it gives the same words."""

# Capstone makes most of it. It does not know integer `ldd`/`std`, alternate-space loads and stores,
# `flush`, `ldstub`, `prefetch` and the state-register moves, and it writes `sethi`, `return`, traps
# and numbers in other ways than GNU's tools: that text is made here. Registers are written as
# numbered by the assembler (`%o6` is `%sp`, `%i6` is `%fp`), numbers as objdump writes them:
# decimal up to 9, hexadecimal above.

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import capstone

from simprof.simulator.isa.assembler import CONDITIONS, Register
from simprof.simulator.isa.decode import simm13
from simprof.simulator.isa.sparc import LOADS_AND_STORES

_INTEGER: Final = tuple(register.text for register in Register)
_STORES: Final = frozenset(op3 for op3, access in LOADS_AND_STORES.items() if not access.loads)
_COMPARE_AND_SWAP: Final = frozenset({0x3C, 0x3E})
_STATE: Final = {0: "%y", 2: "%ccr", 3: "%asi", 4: "%tick", 5: "%pc", 6: "%fprs", 19: "%gsr"}
_RETURNS: Final = {0x81C7E008: "ret", 0x81C3E008: "retl"}
_PREFETCH: Final = ("#n_reads", "#one_read", "#n_writes", "#one_write", "#page")
_ASI: Final = {0x80: "#ASI_P", 0x81: "#ASI_S", 0x82: "#ASI_PNF", 0x83: "#ASI_SNF",
               0x88: "#ASI_P_L", 0x89: "#ASI_S_L"}  # fmt: skip


# Names of V8, and what they are called since V9.
_OLD_NAMES: Final = {"subx": "subc", "addx": "addc", "subxcc": "subccc", "addxcc": "addccc"}
_TRAPS: Final = tuple(CONDITIONS)
_NEGATIVE: Final = re.compile(r"-0x[0-9a-f]+")
_LOW: Final = 0x3FF
_OR, _ADD = 0x02, 0x00
# jmpl, return, save, restore: afterwards registers are others, or a callee's.
_LOSE_REGISTERS: Final = frozenset({0x38, 0x39, 0x3C, 0x3D})


class Disassembler:
    """Writes instructions one by one, and remembers what `sethi` has put into registers."""

    # Where the rest of that address is added, by `or`, `add`, a load or a store, it is written
    # `%lo(ADDRESS)`, as compilers write it.

    def __init__(self, v9: bool = True) -> None:
        self._v9 = v9
        self._high: dict[int, int] = {}

    def forget(self) -> None:
        """Begin anew: at a block to which control comes from elsewhere."""
        self._high.clear()

    def text(self, word: int, address: int) -> str:
        """Return the text of the next instruction; parameters as of `disassemble`."""
        high = self._high.get(word >> 14 & 31)
        text = None
        if high is not None and word & 0x2000 and not word & 0x1C00:
            text = _with_low(word, high | word & _LOW)
        self._note(word)
        return disassemble(word, address, self._v9) if text is None else text

    def _note(self, word: int) -> None:
        op, rd, op3 = word >> 30, word >> 25 & 31, word >> 19 & 0x3F
        if op == 1 or (op == 2 and op3 in _LOSE_REGISTERS):
            self._high.clear()
        elif op == 0 and word >> 22 & 7 == 4:
            self._high[rd] = (word & 0x3FFFFF) << 10
        elif op == 2 or (op == 3 and op3 & ~0x10 not in _STORES):
            self._high.pop(rd, None)
            self._high.pop(rd | 1, None)  # of a pair


def _with_low(word: int, value: int) -> str | None:
    """Return the text of an instruction that makes or uses the address `value`."""
    op, op3 = word >> 30, word >> 19 & 0x3F
    low = f"%lo({value:#x})"
    if op == 3 and not op3 & 0x10:
        return _memory_text(word, op3, low)
    if op == 2 and op3 in (_OR, _ADD):
        name = "or" if op3 == _OR else "add"
        return f"{name} {_INTEGER[word >> 14 & 31]}, {low}, {_INTEGER[word >> 25 & 31]}"
    return None


def disassemble(word: int, address: int, v9: bool = True) -> str:
    """Return the text of the instruction `word` at `address` (`.word 0x...` if it is none).

    Branch and call targets are absolute, in hexadecimal. `v9`: Whether names are those of V9 (V8+
    included) and not V8: `subc` and `illtrap`, not `subx` and `unimp`.
    """
    if word >> 30 == 1:  # Capstone shows displacements of calls modulo nothing
        displacement = ((word & 0x3FFFFFFF) ^ 0x20000000) - 0x20000000
        return f"call {(address + 4 * displacement) & 0xFFFFFFFFFFFFFFFF:#x}"
    own = _own_text(word, v9)
    if own is not None:
        return own
    for instruction in _capstone().disasm(word.to_bytes(4, "big"), address):
        name = instruction.mnemonic
        operands = _NEGATIVE.sub(lambda found: str(int(found[0], 16)), instruction.op_str)
        return f"{_OLD_NAMES.get(name, name) if v9 else name} {operands}".rstrip()
    return f".word {word:#010x}"


@lru_cache(maxsize=1)
def _capstone() -> capstone.Cs:
    return capstone.Cs(capstone.CS_ARCH_SPARC, capstone.CS_MODE_BIG_ENDIAN | capstone.CS_MODE_V9)


def _own_text(word: int, v9: bool) -> str | None:
    op, op3 = word >> 30, (word >> 19) & 0x3F
    if op == 3:
        return _memory_text(word, op3)
    if op == 2:
        return _transfer_text(word, op3, v9) or _state_text(word, op3)
    if op == 0:
        kind, value = word >> 22 & 7, word & 0x3FFFFF
        if kind == 0 and not word >> 25:
            return f"{'illtrap' if v9 else 'unimp'} {value:#x}"
        if kind == 4 and (value or word >> 25):
            return f"sethi %hi({value << 10:#x}), {_INTEGER[word >> 25]}"
    return None


def _transfer_text(word: int, op3: int, v9: bool) -> str | None:
    rd = word >> 25 & 31
    if op3 == 0x38:
        if word in _RETURNS:
            return _RETURNS[word]
        place = _address(word)[1:-1]
        names = {0: f"jmp {place}", 15: f"call {place}"}
        return names.get(rd, f"jmpl {place}, {_INTEGER[rd]}")
    if op3 == 0x39:
        return f"{'return' if v9 else 'rett'} {_address(word)[1:-1]}"
    if op3 == 0x3A and rd < len(_TRAPS) and word >> 11 & 3 in (0, 2):
        condition = "%xcc, " if word >> 12 & 1 else ""
        number = word & 0x2000
        operand = _number(word & 0x7F) if number else _INTEGER[word & 31]
        base = word >> 14 & 31
        return f"t{_TRAPS[rd]} {condition}{f'{_INTEGER[base]} + ' if base else ''}{operand}"
    return None


def _memory_text(word: int, op3: int, low: str | None = None) -> str | None:
    """Return the text of a load or store; `low`: its offset, where that is not as in the word."""
    rd = (word >> 25) & 31
    alternate = bool(op3 & 0x10)
    kind = op3 & ~0x10
    is_swap = op3 in _COMPARE_AND_SWAP
    access = LOADS_AND_STORES.get(op3 if is_swap else kind)
    if access is None:
        return None
    if is_swap:
        source = _INTEGER[(word >> 14) & 31]
        return f"{access.name} [{source}] {_space(word)}, {_INTEGER[word & 31]}, {_INTEGER[rd]}"
    place = _address(word, low) + (f" {_space(word)}" if alternate else "")
    if kind == 0x2D:
        function = _PREFETCH[rd] if rd < len(_PREFETCH) else str(rd)
        return f"prefetch{'a' if alternate else ''} {place}, {function}"
    name = access.name
    if kind in (0x21, 0x25):
        name = name[:2] + ("x" if rd == 1 else "")
        register = "%fsr"
    elif kind >= 0x20:
        name = name.replace("f", "")
        # Doubles and quads keep bit 5 of their register number in bit 0 (V9 5.1.4.1).
        register = f"%f{(rd & 30) | (rd & 1) << 5 if access.size > 4 else rd}"
    else:
        register = _INTEGER[rd]
    name += "a" if alternate else ""
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
        second = _number(simm13(word)) if word & 0x2000 else _INTEGER[word & 31]
        return f"wr {_INTEGER[source]}, {second}, {_STATE.get(rd, f'%asr{rd}')}"
    return None


def _number(value: int) -> str:
    # As objdump writes numbers.
    return str(value) if value < 10 else f"{value:#x}"


# An address without an offset is written `[%g1]`, which the assembler encodes with the register
# %g0; where the word has the number 0, that is `[%g1 + %lo(0)]`.
def _address(word: int, low: str | None = None) -> str:
    base = _INTEGER[(word >> 14) & 31]
    if word & 0x2000:
        offset = simm13(word)
        if low is None and offset < 0:
            return f"[{base} - {_number(-offset)}]"
        return f"[{base} + {low or (_number(offset) if offset else '%lo(0)')}]"
    index = word & 31
    return f"[{base} + {_INTEGER[index]}]" if index else f"[{base}]"


def _space(word: int) -> str:
    # With an immediate offset, the address space of an alternate access is %asi.
    if word & 0x2000:
        return "%asi"
    number = (word >> 5) & 0xFF
    return _ASI.get(number, f"{number:#x}")
