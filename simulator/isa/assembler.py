"""The few dozen SPARC instructions of start-up code and snippets, encoded and assembled.

Terms: an *instruction* is a word with its text (GNU assembler syntax). Where the word depends on
the place it is put at, or on the address of a symbol, the instruction carries a *fixup*;
the two-pass assembler fills the field in:

1. every label gets its address (`assign_labels`);
2. every fixup is filled in (`link`).

Formats are those of The SPARC Architecture Manual, Version 9, appendix A; V8 is its subset.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from functools import lru_cache
from typing import TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from simprof.simulator.errors import SimulatorError
from simprof.simulator.isa.sparc import LOADS_AND_STORES

MASK32 = 0xFFFFFFFF


class AssemblyError(SimulatorError):
    """An instruction that cannot be encoded: an operand out of range, an unknown symbol."""


class Register(IntEnum):
    """Integer registers of the current window."""

    G0, G1, G2, G3, G4, G5, G6, G7 = range(8)
    O0, O1, O2, O3, O4, O5, SP, O7 = range(8, 16)
    L0, L1, L2, L3, L4, L5, L6, L7 = range(16, 24)
    I0, I1, I2, I3, I4, I5, FP, I7 = range(24, 32)

    @property
    def text(self) -> str:
        """Assembler name, such as `%l3`."""
        return _NAMES[self]


_NAMES = tuple(f"%{register.name.lower()}" for register in Register)


Operand = Register | int  # second source: a register, or a signed 13-bit immediate

# Mnemonic -> op3 of format 3 with op = 2.
ARITHMETIC: Mapping[str, int] = {
    "add": 0x00, "and": 0x01, "or": 0x02, "xor": 0x03, "sub": 0x04, "andn": 0x05, "orn": 0x06,
    "xnor": 0x07, "addc": 0x08, "mulx": 0x09, "umul": 0x0A, "smul": 0x0B, "subc": 0x0C,
    "udivx": 0x0D, "udiv": 0x0E, "sdiv": 0x0F,
    "addcc": 0x10, "andcc": 0x11, "orcc": 0x12, "xorcc": 0x13, "subcc": 0x14, "andncc": 0x15,
    "orncc": 0x16, "xnorcc": 0x17, "addccc": 0x18, "umulcc": 0x1A, "smulcc": 0x1B,
    "subccc": 0x1C, "udivcc": 0x1E, "sdivcc": 0x1F,
    "taddcc": 0x20, "tsubcc": 0x21, "mulscc": 0x24, "sdivx": 0x2D,
    "save": 0x3C, "restore": 0x3D,
}  # fmt: skip

# Mnemonic -> (op3, whether it shifts 64 bits).
SHIFTS: Mapping[str, tuple[int, bool]] = {
    "sll": (0x25, False), "srl": (0x26, False), "sra": (0x27, False),
    "sllx": (0x25, True), "srlx": (0x26, True), "srax": (0x27, True),
}  # fmt: skip

_INTEGER_ACCESSES = {access.name: op3 for op3, access in LOADS_AND_STORES.items() if op3 < 0x10}
STORES = {name: op3 for name, op3 in _INTEGER_ACCESSES.items() if name.startswith("st")}
LOADS = {name: op3 for name, op3 in _INTEGER_ACCESSES.items() if name not in STORES}

CONDITIONS: Mapping[str, int] = {
    "n": 0, "e": 1, "le": 2, "l": 3, "leu": 4, "cs": 5, "neg": 6, "vs": 7,
    "a": 8, "ne": 9, "g": 10, "ge": 11, "gu": 12, "cc": 13, "pos": 14, "vc": 15,
}  # fmt: skip
REGISTER_CONDITIONS: Mapping[str, int] = {"z": 1, "lez": 2, "lz": 3, "nz": 5, "gz": 6, "gez": 7}
STATE_REGISTERS: Mapping[str, int] = {"%y": 0, "%ccr": 2, "%asi": 3, "%fprs": 6}
CC_FIELDS: Mapping[str, int] = {"%icc": 0, "%xcc": 2}


class FixupKind(Enum):
    """Field of the word that a symbol's address goes into."""

    DISP30 = "disp30"  # call
    DISP22 = "disp22"  # Bicc
    DISP19 = "disp19"  # BPcc
    DISP16 = "disp16"  # BPr
    HI22 = "hi22"  # sethi
    LO10 = "lo10"  # simm13 of or, add, jmpl, ld, st


class Fixup(Struct, frozen=True):
    """`symbol`'s address goes into field `kind` when the instruction gets its place."""

    kind: FixupKind
    symbol: str


class Instruction(Struct, frozen=True):
    """One instruction: assembler text and word; with a `fixup` the word's field is still 0."""

    text: str
    word: int
    fixup: Fixup | None = None

    @property
    def is_transfer(self) -> bool:
        """Whether it is a control transfer, which cannot be put in a delay slot."""
        op, op2, op3 = self.word >> 30, self.word >> 22 & 7, self.word >> 19 & 0x3F
        if op == 0:
            return op2 not in (0, 4)
        return op == 1 or (op == 2 and op3 in (0x38, 0x39, 0x3A, 0x3E))

    @property
    def annuls(self) -> bool:
        """Whether it is a branch with its annul bit set."""
        return self.word >> 30 == 0 and self.is_transfer and bool(self.word >> 29 & 1)


Make = TypeVar("Make", bound=Callable[..., Instruction])


def _remembered(make: Make) -> Make:
    # A program's code has few different instructions: they are made once.
    return cast("Make", lru_cache(maxsize=1 << 16, typed=True)(make))


@_remembered
def data_word(value: int) -> Instruction:
    """Return a word as it stands: an instruction known by its code only, or data."""
    return Instruction(f".word {value:#010x}", value)


def fits_simm13(value: int) -> bool:
    """Whether `value` fits the signed 13-bit immediate field."""
    return -4096 <= value <= 4095


def _source2(operand: Operand, bits: int = 13) -> int:
    if isinstance(operand, Register):
        return int(operand)
    if not -(1 << bits - 1) <= operand < 1 << bits - 1:
        what = f"immediate {operand} does not fit {bits} bits"
        raise AssemblyError(f"{what}; load it into a register")
    return 1 << 13 | operand & (1 << bits) - 1


def _offset(operand: Operand) -> int:
    return _source2(operand or Register.G0)  # GNU as encodes [%r] and [%r + 0] with %g0


def _text(operand: Operand) -> str:
    return operand.text if isinstance(operand, Register) else str(int(operand))


def _address_text(base: Register, offset: Operand) -> str:
    if isinstance(offset, Register):
        return base.text if offset is Register.G0 else f"{base.text} + {offset.text}"
    if offset == 0:
        return base.text
    return f"{base.text} {'+' if offset > 0 else '-'} {abs(int(offset))}"


def _format3(op: int, rd: int, op3: int, rs1: int, low: int) -> int:
    return op << 30 | rd << 25 | op3 << 19 | rs1 << 14 | low


@_remembered
def arithmetic(mnemonic: str, rs1: Register, operand: Operand, rd: Register) -> Instruction:
    """`mnemonic rs1, operand, rd` for every mnemonic of `ARITHMETIC`."""
    word = _format3(2, rd, ARITHMETIC[mnemonic], rs1, _source2(operand))
    return Instruction(f"{mnemonic} {rs1.text}, {_text(operand)}, {rd.text}", word)


@_remembered
def shift(mnemonic: str, rs1: Register, amount: Operand, rd: Register) -> Instruction:
    """`mnemonic rs1, amount, rd` for every mnemonic of `SHIFTS`."""
    op3, extended = SHIFTS[mnemonic]
    if isinstance(amount, Register):
        low = int(amount)
    elif 0 <= amount < (64 if extended else 32):
        low = 1 << 13 | amount
    else:
        raise AssemblyError(f"shift amount {amount} of {mnemonic} is out of range")
    word = _format3(2, rd, op3, rs1, low | extended << 12)
    return Instruction(f"{mnemonic} {rs1.text}, {_text(amount)}, {rd.text}", word)


@_remembered
def load(mnemonic: str, base: Register, offset: Operand, rd: Register) -> Instruction:
    """`mnemonic [base + offset], rd` for every mnemonic of `LOADS`."""
    word = _format3(3, rd, LOADS[mnemonic], base, _offset(offset))
    return Instruction(f"{mnemonic} [{_address_text(base, offset)}], {rd.text}", word)


@_remembered
def store(mnemonic: str, rd: Register, base: Register, offset: Operand) -> Instruction:
    """`mnemonic rd, [base + offset]` for every mnemonic of `STORES`."""
    word = _format3(3, rd, STORES[mnemonic], base, _offset(offset))
    return Instruction(f"{mnemonic} {rd.text}, [{_address_text(base, offset)}]", word)


@_remembered
def sethi(value: int, rd: Register) -> Instruction:
    """Set bits 31..10 of `rd` to those of `value`, all others to 0."""
    field = (value & MASK32) >> 10
    return Instruction(f"sethi %hi({field << 10:#x}), {rd.text}", rd << 25 | 4 << 22 | field)


def sethi_symbol(symbol: str, rd: Register) -> Instruction:
    """`sethi %hi(symbol), rd`."""
    return Instruction(
        f"sethi %hi({symbol}), {rd.text}", rd << 25 | 4 << 22, Fixup(FixupKind.HI22, symbol)
    )


def or_symbol(rs1: Register, symbol: str, rd: Register) -> Instruction:
    """`or rs1, %lo(symbol), rd`."""
    word = _format3(2, rd, ARITHMETIC["or"], rs1, 1 << 13)
    text = f"or {rs1.text}, %lo({symbol}), {rd.text}"
    return Instruction(text, word, Fixup(FixupKind.LO10, symbol))


@_remembered
def nop() -> Instruction:
    """`nop`."""
    return Instruction("nop", 0x01000000)


@_remembered
def mov(operand: Operand, rd: Register) -> Instruction:
    """`mov operand, rd` (`or %g0, operand, rd`)."""
    instruction = arithmetic("or", Register.G0, operand, rd)
    return replace(instruction, text=f"mov {_text(operand)}, {rd.text}")


@_remembered
def cmp(rs1: Register, operand: Operand) -> Instruction:
    """`cmp rs1, operand` (`subcc rs1, operand, %g0`)."""
    instruction = arithmetic("subcc", rs1, operand, Register.G0)
    return replace(instruction, text=f"cmp {rs1.text}, {_text(operand)}")


def branch(condition: str, target: str, annul: bool = False) -> Instruction:
    """V8 branch on icc: `b<condition>[,a] target`."""
    word = annul << 29 | CONDITIONS[condition] << 25 | 2 << 22
    text = f"b{condition}{',a' if annul else ''} {target}"
    return Instruction(text, word, Fixup(FixupKind.DISP22, target))


def branch_predicted(
    condition: str, cc: str, target: str, annul: bool = False, taken: bool = True
) -> Instruction:
    """V9 branch: `b<condition>[,a],p[t|n] cc, target`; `cc` is `%icc` or `%xcc`."""
    field = CC_FIELDS[cc] << 20 | taken << 19
    word = annul << 29 | CONDITIONS[condition] << 25 | 1 << 22 | field
    text = f"b{condition}{',a' if annul else ''},{'pt' if taken else 'pn'} {cc}, {target}"
    return Instruction(text, word, Fixup(FixupKind.DISP19, target))


def branch_register(
    condition: str, rs1: Register, target: str, annul: bool = False, taken: bool = True
) -> Instruction:
    """V9 branch on a register: `br<condition>[,a],p[t|n] rs1, target`."""
    field = REGISTER_CONDITIONS[condition] << 25 | 3 << 22 | taken << 19 | rs1 << 14
    text = f"br{condition}{',a' if annul else ''},{'pt' if taken else 'pn'} {rs1.text}, {target}"
    return Instruction(text, annul << 29 | field, Fixup(FixupKind.DISP16, target))


def call(target: str) -> Instruction:
    """`call target`."""
    return Instruction(f"call {target}", 1 << 30, Fixup(FixupKind.DISP30, target))


def jmpl(base: Register, offset: Operand, rd: Register) -> Instruction:
    """`jmpl base + offset, rd`."""
    word = _format3(2, rd, 0x38, base, _offset(offset))
    return Instruction(f"jmpl {_address_text(base, offset)}, {rd.text}", word)


def ret() -> Instruction:
    """`ret` (`jmpl %i7 + 8, %g0`)."""
    return replace(jmpl(Register.I7, 8, Register.G0), text="ret")


def retl() -> Instruction:
    """`retl` (`jmpl %o7 + 8, %g0`)."""
    return replace(jmpl(Register.O7, 8, Register.G0), text="retl")


def restore() -> Instruction:
    """`restore` (`restore %g0, %g0, %g0`)."""
    instruction = arithmetic("restore", Register.G0, Register.G0, Register.G0)
    return replace(instruction, text="restore")


def move_register(condition: str, rs1: Register, operand: Operand, rd: Register) -> Instruction:
    """V9 `movr<condition> rs1, operand, rd`; the immediate has 10 bits."""
    low = _source2(operand, 10) | REGISTER_CONDITIONS[condition] << 10
    text = f"movr{condition} {rs1.text}, {_text(operand)}, {rd.text}"
    return Instruction(text, _format3(2, rd, 0x2F, rs1, low))


@_remembered
def read_state(state: str, rd: Register) -> Instruction:
    """`rd state, rd`; `state` is one of `STATE_REGISTERS`."""
    word = _format3(2, rd, 0x28, STATE_REGISTERS[state], 0)
    return Instruction(f"rd {state}, {rd.text}", word)


@_remembered
def write_state(rs1: Register, operand: Operand, state: str) -> Instruction:
    """`wr rs1, operand, state`: the register gets rs1 *xor* operand."""
    word = _format3(2, STATE_REGISTERS[state], 0x30, rs1, _source2(operand))
    return Instruction(f"wr {rs1.text}, {_text(operand)}, {state}", word)


def trap_always(number: int) -> Instruction:
    """`ta number`."""
    if not 0 <= number < 128:
        raise AssemblyError(f"trap number {number} is out of range 0..127")
    return Instruction(f"ta {number}", _format3(2, 8, 0x3A, 0, 1 << 13 | number))


def load_constant(
    value: int, rd: Register, is64: bool, temporary: Register | None = None
) -> tuple[Instruction, ...]:
    """Shortest of the usual sequences that leaves the constant `value`, signed or not, in `rd`.

    `is64`: Whether all 64 bits of `rd` must be right, not only the low 32. `temporary`: For values
    that are neither 32 bits unsigned nor signed; `AssemblyError` where it is missing.
    """
    if not is64:  # modulo 2^32
        value = (value & MASK32) - (1 << 32) if value & 1 << 31 else value & MASK32
    if fits_simm13(value):
        return (mov(value, rd),)
    if not is64 or 0 <= value <= MASK32:
        low = value & 0x3FF
        high = sethi(value, rd)
        return (high, arithmetic("or", rd, low, rd)) if low else (high,)
    if -(1 << 31) <= value < 0:
        return (sethi(~value, rd), arithmetic("xor", rd, value & 0x3FF | -0x400, rd))
    signed = value - (1 << 64) if value >> 63 == 1 else value
    if temporary is None:
        raise AssemblyError(f"constant {signed:#x} needs a temporary register")
    upper, up = load_constant(signed >> 32, rd, True), shift("sllx", rd, 32, rd)
    low = signed & MASK32
    if fits_simm13(low):
        return (*upper, up, arithmetic("or", rd, low, rd)) if low else (*upper, up)
    lower = load_constant(low, temporary, True)
    return (*upper, *lower, up, arithmetic("or", rd, temporary, rd))


class Label(Struct, frozen=True):
    """A place in an item list."""

    name: str


Item = Instruction | Label


class Assembly(Struct, frozen=True):
    """Linked code: `instructions[k]` is at `base + 4 * k`; `labels` gives addresses."""

    base: int
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]

    @property
    def code(self) -> bytes:
        """The words, big-endian."""
        return b"".join(i.word.to_bytes(4, "big") for i in self.instructions)

    @property
    def text(self) -> str:
        """One instruction a line, with labels."""
        at: dict[int, list[str]] = {}
        for name, address in self.labels.items():
            at.setdefault(address, []).append(f"{name}:")
        lines: list[str] = []
        for k, instruction in enumerate(self.instructions):
            lines += at.get(self.base + 4 * k, [])
            lines.append(f"    {instruction.text}")
        return "\n".join(lines)


_DISPLACEMENT_BITS = {FixupKind[f"DISP{bits}"]: bits for bits in (30, 22, 19, 16)}


def link(instruction: Instruction, address: int, symbols: Mapping[str, int]) -> Instruction:
    """Return `instruction` with its fixup filled in for its place at `address`.

    Raises `AssemblyError` where the symbol is unknown, or out of the branch's reach.
    """
    if instruction.fixup is None:
        return instruction
    return replace(instruction, word=linked_word(instruction, address, symbols), fixup=None)


def linked_word(instruction: Instruction, address: int, symbols: Mapping[str, int]) -> int:
    """Return the word of `instruction` at `address`; raises what `link` does."""
    fixup = instruction.fixup
    if fixup is None:
        return instruction.word
    try:
        value = symbols[fixup.symbol]
    except KeyError:
        raise AssemblyError(f"`{instruction.text}` names an unknown symbol") from None
    return instruction.word | _field(fixup, value, address)


def _field(fixup: Fixup, value: int, address: int) -> int:
    if fixup.kind is FixupKind.HI22:
        return (value & MASK32) >> 10
    if fixup.kind is FixupKind.LO10:
        return value & 0x3FF
    bits = _DISPLACEMENT_BITS[fixup.kind]
    distance = (value - address) >> 2
    if bits < 30 and not -(1 << bits - 1) <= distance < 1 << bits - 1:
        raise AssemblyError(f"`{fixup.symbol}` is {4 * distance} bytes away, out of reach")
    field = distance & (1 << bits) - 1
    if fixup.kind is FixupKind.DISP16:
        return field >> 14 << 20 | field & 0x3FFF
    return field


def assign_labels(items: Iterable[Item], base: int) -> dict[str, int]:
    """Return the address of every label among `items`, placed from `base` on."""
    labels: dict[str, int] = {}
    address = base
    for item in items:
        if isinstance(item, Instruction):
            address += 4
        elif item.name in labels:
            raise AssemblyError(f"label `{item.name}` is defined twice")
        else:
            labels[item.name] = address
    return labels


def assemble(
    items: Sequence[Item], base: int, symbols: Mapping[str, int] | None = None
) -> Assembly:
    """Place `items` at `base`; `symbols` gives the addresses of names defined elsewhere."""
    labels = assign_labels(items, base)
    known = {**(symbols or {}), **labels}
    plain = [item for item in items if isinstance(item, Instruction)]
    linked = (link(item, base + 4 * k, known) for k, item in enumerate(plain))
    return Assembly(base, tuple(linked), labels)


def linked_code(items: Iterable[Item], base: int, symbols: Mapping[str, int]) -> bytes:
    """Return the words of `items` at `base`, big-endian, without their texts; raises as `link`.

    `symbols`: Addresses of all names, the labels among `items` included (`assign_labels`).
    """
    words = array("I")
    for item in items:
        if isinstance(item, Instruction):
            words.append(linked_word(item, base + 4 * len(words), symbols))
    if sys.byteorder == "little":
        words.byteswap()
    return words.tobytes()
