"""Executes SPARC instructions from their text: generated code, run by an interpreter of its own.

It knows the instructions that generated code has, in the spelling of the assembler and of the
disassembler, and refuses any other. Registers have 64 bits, on V8 32. It counts every instruction
that it executes: an annulled one is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

NAMES = {
    **{f"%g{n}": n for n in range(8)},
    **{f"%o{n}": 8 + n for n in range(8)},
    **{f"%l{n}": 16 + n for n in range(8)},
    **{f"%i{n}": 24 + n for n in range(8)},
    "%sp": 14,
    "%fp": 30,
}
DROPPED = 32  # where writes to %g0 go
STACK = 0xE000_0000
"""Addresses from here on are an activation's own."""
WRITE = 4
ADDRESSES_FILE = 9
"""The descriptor by which a `write` is one of addresses of data; others are the trace's."""


class TextError(AssertionError):
    """An instruction that generated code never had so far."""


@dataclass
class Activation:
    """What one execution of a routine has for itself.

    Attributes
    ----------
    registers
        Those of its current window.
    below
        Local and input registers of the windows that it has saved.
    """

    registers: list[int]
    below: list[list[int]] = field(default_factory=list)
    stack: dict[int, int] = field(default_factory=dict)


class Machine:
    """One processor with the memory of the counters.

    Attributes
    ----------
    executed
        Instructions so far.
    words
        Memory below `STACK`, by the address of each word of 4 bytes.
    written, addresses
        What the program's `write` was given.
    """

    def __init__(self, is_v8: bool, words: dict[int, int]) -> None:
        self.mask = 0xFFFFFFFF if is_v8 else 0xFFFFFFFFFFFFFFFF
        self.words = words
        self.executed = 0
        self.written, self.addresses = bytearray(), bytearray()
        self.activation = Activation([])
        self.r: list[int] = []
        self.n = self.z = self.v = self.c = 0
        self.y = 0

    def enter(self, activation: Activation) -> None:
        """Execute code in `activation` from now on."""
        self.activation, self.r = activation, activation.registers

    # -- windows

    def save(self, pointer: int) -> None:
        """Open a window whose %sp is `pointer`."""
        old = self.r
        self.activation.below.append(old[16:32])
        new = [*old[:8], *([0] * 16), *old[8:16], 0]
        new[14] = pointer & self.mask
        self.r = self.activation.registers = new

    def restore(self) -> None:
        """Close a window; the outermost one stays."""
        if self.activation.below:
            old = self.r
            self.r = [*old[:8], *old[24:32], *self.activation.below.pop(), 0]
            self.activation.registers = self.r

    # -- memory

    def load(self, address: int) -> int:
        """Return a word."""
        if address & 3:
            raise TextError(f"a word at {address:#x}")
        memory = self.activation.stack if address >= STACK else self.words
        return memory.get(address, 0)

    def store(self, address: int, value: int) -> None:
        """Write a word."""
        if address & 3:
            raise TextError(f"a word at {address:#x}")
        memory = self.activation.stack if address >= STACK else self.words
        memory[address] = value & 0xFFFFFFFF

    def load_byte(self, address: int) -> int:
        """Return a byte."""
        return self.load(address & ~3) >> 8 * (3 - address % 4) & 0xFF

    def store_byte(self, address: int, value: int) -> None:
        """Write a byte."""
        shift = 8 * (3 - address % 4)
        word = self.load(address & ~3) & ~(0xFF << shift)
        self.store(address & ~3, word | (value & 0xFF) << shift)

    def system_call(self) -> None:
        """Do `write`, all at once; anything else is refused."""
        if self.r[1] != WRITE:
            raise TextError(f"system call {self.r[1]}")
        file = self.addresses if self.r[8] == ADDRESSES_FILE else self.written
        file += bytes(self.load_byte(self.r[9] + k) for k in range(self.r[10]))
        self.r[8], self.c = self.r[10], 0

    # -- arithmetic

    def flags(self, value: int, overflow: int, carry: int) -> None:
        """Set icc from a result of 32 bits."""
        value &= 0xFFFFFFFF
        self.n, self.z = value >> 31, int(value == 0)
        self.v, self.c = overflow & 1, carry & 1

    def add_flags(self, a: int, b: int) -> int:
        """Add, and set icc."""
        total = (a & 0xFFFFFFFF) + (b & 0xFFFFFFFF)
        self.flags(total, (~(a ^ b) & (a ^ total)) >> 31, total >> 32)
        return a + b

    def subtract_flags(self, a: int, b: int) -> int:
        """Subtract, and set icc."""
        total = (a & 0xFFFFFFFF) - (b & 0xFFFFFFFF)
        self.flags(total, ((a ^ b) & (a ^ total)) >> 31, int(total < 0))
        return a - b

    def tagged_subtract(self, a: int, b: int) -> int:
        """`tsubcc`: also overflows where a tag, the two low bits, is not 0."""
        result = self.subtract_flags(a, b)
        self.v |= int((a | b) & 3 != 0)
        return result

    def unsigned_multiply(self, a: int, b: int) -> int:
        """`umul`: the upper half of the product goes to %y."""
        product = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF)
        self.y = product >> 32
        return product


def signed(value: int, bits: int) -> int:
    """Return the low `bits` of `value` as a signed number."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


Step = Callable[[Machine], None]


@dataclass(frozen=True)
class Transfer:
    """An instruction with a delay slot.

    Attributes
    ----------
    taken
        Whether it goes to its target.
    target
        That, as an address.
    annul, always
        Whether the delay slot is executed only if it goes there, and whether it always goes.
    link
        Register that gets its own address.
    """

    taken: Callable[[Machine], bool]
    target: Callable[[Machine, int], int]
    annul: bool = False
    always: bool = False
    link: int = DROPPED


Code = Step | Transfer

ALU: dict[str, Callable[[Machine, int, int], int]] = {
    "add": lambda m, a, b: a + b,
    "sub": lambda m, a, b: a - b,
    "and": lambda m, a, b: a & b,
    "andn": lambda m, a, b: a & ~b,
    "or": lambda m, a, b: a | b,
    "xor": lambda m, a, b: a ^ b,
    "addc": lambda m, a, b: a + b + m.c,
    "addx": lambda m, a, b: a + b + m.c,
    "addcc": lambda m, a, b: m.add_flags(a, b),
    "subcc": lambda m, a, b: m.subtract_flags(a, b),
    "tsubcc": lambda m, a, b: m.tagged_subtract(a, b),
    "umul": lambda m, a, b: m.unsigned_multiply(a, b),
    "mulx": lambda m, a, b: a * b,
    "sll": lambda m, a, b: a << (b & 31),
    "srl": lambda m, a, b: (a & 0xFFFFFFFF) >> (b & 31),
    "sra": lambda m, a, b: signed(a, 32) >> (b & 31),
    "sllx": lambda m, a, b: a << (b & 63),
    "srlx": lambda m, a, b: a >> (b & 63),
    "srax": lambda m, a, b: signed(a, 64) >> (b & 63),
}
ON_ICC: dict[str, Callable[[Machine], bool]] = {
    "ba": lambda m: True,
    "b": lambda m: True,
    "bn": lambda m: False,
    "be": lambda m: m.z == 1,
    "bne": lambda m: m.z == 0,
    "bneg": lambda m: m.n == 1,
    "bpos": lambda m: m.n == 0,
    "bvs": lambda m: m.v == 1,
    "bvc": lambda m: m.v == 0,
    "bcs": lambda m: m.c == 1,
    "blu": lambda m: m.c == 1,
    "bcc": lambda m: m.c == 0,
    "bg": lambda m: m.z == 0 and m.n == m.v,
    "ble": lambda m: m.z == 1 or m.n != m.v,
}
ON_VALUE: dict[str, Callable[[int], bool]] = {
    "z": lambda value: value == 0,
    "nz": lambda value: value != 0,
    "lz": lambda value: value < 0,
    "lez": lambda value: value <= 0,
    "gz": lambda value: value > 0,
    "gez": lambda value: value >= 0,
}
BRANCH = re.compile(r"^(b\w+)((?:,a)?)((?:,p[nt])?) (.*)$")


class Reader:
    """Turns texts into code; `symbols` are the run-time routines' addresses."""

    def __init__(self, symbols: Mapping[str, int]) -> None:
        self.symbols = symbols

    def code(self, text: str) -> Code:
        """Return what an instruction does. Raises TextError if it is not known."""
        try:
            return self._transfer(text) or self._step(text)
        except (KeyError, ValueError, IndexError) as error:
            raise TextError(f"`{text}`: {error!r}") from error

    # -- operands

    def _number(self, text: str) -> int | None:
        if inside := re.fullmatch(r"%lo\((.*)\)", text):
            known = self.symbols.get(inside[1])
            return (int(inside[1], 0) if known is None else known) & 0x3FF
        if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text):
            return int(text, 0)
        return None

    def _value(self, text: str) -> Callable[[Machine], int]:
        number = self._number(text)
        if number is not None:
            return lambda m: number
        register = NAMES[text]
        return lambda m: m.r[register]

    def _sum(self, text: str) -> Callable[[Machine], int]:
        """`%a`, `%a + %b`, `%a - 4`, with or without spaces."""
        second = r"%lo\(.*\)|%\w+|0x[0-9a-f]+|\d+"
        found = re.fullmatch(rf"(%\w+)(?:\s*([+-])\s*({second}))?", text.strip())
        if found is None:
            raise ValueError(text)
        base = NAMES[found[1]]
        if found[2] is None:
            return lambda m: m.r[base]
        number = self._number(found[3])
        if number is None:
            index = NAMES[found[3]]
            return lambda m: m.r[base] + m.r[index] & m.mask
        offset = -number if found[2] == "-" else number
        return lambda m: m.r[base] + offset & m.mask

    def _result(self, text: str) -> int:
        return NAMES[text] or DROPPED

    # -- instructions

    def _transfer(self, text: str) -> Transfer | None:
        words = text.split(" ")
        if text == "ret":
            return Transfer(lambda m: True, lambda m, pc: m.r[31] + 8)
        if text == "retl":
            return Transfer(lambda m: True, lambda m, pc: m.r[15] + 8)
        if words[0] == "call" and words[1].startswith("%"):
            called = self._sum(text.removeprefix("call "))
            return Transfer(lambda m: True, lambda m, pc: called(m), link=15)
        if words[0] == "call":
            place = self._place(words[1])
            return Transfer(lambda m: True, place, link=15)
        if words[0] == "jmpl":
            address, link = text.removeprefix("jmpl ").split(", ")
            value = self._sum(address)
            return Transfer(lambda m: True, lambda m, pc: value(m), link=self._result(link))
        branch = BRANCH.match(text)
        return None if branch is None else self._branch(branch)

    def _branch(self, found: re.Match[str]) -> Transfer:
        name, annul, operands = found[1], bool(found[2]), found[4].split(", ")
        place = self._place(operands[-1])
        if operands[0] == "%xcc" and name not in ("bcs", "bcc"):
            raise ValueError(operands[0])  # only carry is known: a system call sets both
        if len(operands) == 2 and operands[0] not in ("%icc", "%xcc"):
            register, test = NAMES[operands[0]], ON_VALUE[name.removeprefix("br")]
            return Transfer(lambda m: test(signed(m.r[register], 64)), place, annul)
        return Transfer(ON_ICC[name], place, annul, always=name in ("ba", "b"))

    def _place(self, text: str) -> Callable[[Machine, int], int]:
        if text.startswith("."):
            distance = int(text[1:])
            return lambda m, pc: pc + distance
        address = self.symbols[text] if text in self.symbols else self._outside(text)
        return lambda m, pc: address

    def _outside(self, text: str) -> int:
        """An address of the original code, or `where the transfer went`, which is there too."""
        number = self._number(text)
        if number is None and not text.startswith("where "):
            raise ValueError(text)
        return number or 0

    def _step(self, text: str) -> Step:
        name, _, rest = text.partition(" ")
        operands = [word.strip() for word in re.split(r",(?![^\[]*\])", rest)] if rest else []
        maker = getattr(self, f"_make_{name}", None)
        if maker is not None:
            made: Step = maker(*operands)
            return made
        if name.startswith("movr"):
            return self._move_if(name.removeprefix("movr"), *operands)
        return self._alu(name, *operands)

    def _alu(self, name: str, first: str, second: str, result: str) -> Step:
        apply, a, b, rd = ALU[name], NAMES[first], self._value(second), self._result(result)
        number = self._number(second)
        if name == "add" and number is not None:

            def add(m: Machine) -> None:
                m.r[rd] = m.r[a] + number & m.mask

            return add

        def step(m: Machine) -> None:
            m.r[rd] = apply(m, m.r[a], b(m)) & m.mask

        return step

    def _move_if(self, condition: str, tested: str, source: str, result: str) -> Step:
        test, rs = ON_VALUE[condition], NAMES[tested]
        value, rd = self._value(source), self._result(result)

        def step(m: Machine) -> None:
            if test(signed(m.r[rs], 64)):
                m.r[rd] = value(m) & m.mask

        return step

    def _make_nop(self) -> Step:
        return lambda m: None

    def _make_mov(self, source: str, result: str) -> Step:
        value, rd = self._value(source), self._result(result)

        def step(m: Machine) -> None:
            m.r[rd] = value(m) & m.mask

        return step

    def _make_cmp(self, first: str, second: str) -> Step:
        a, b = NAMES[first], self._value(second)

        def step(m: Machine) -> None:
            m.subtract_flags(m.r[a], b(m))

        return step

    def _make_sethi(self, value: str, result: str) -> Step:
        rd, inside = self._result(result), re.fullmatch(r"%hi\((.*)\)", value)
        if inside is None:
            number = int(value, 0) << 10
        else:
            known = self.symbols.get(inside[1])
            number = (int(inside[1], 0) if known is None else known) & 0xFFFFFC00

        def step(m: Machine) -> None:
            m.r[rd] = number

        return step

    def _make_ld(self, address: str, result: str) -> Step:
        place, rd = self._sum(address[1:-1]), self._result(result)

        def step(m: Machine) -> None:
            m.r[rd] = m.load(place(m))

        return step

    def _make_ldsw(self, address: str, result: str) -> Step:
        place, rd = self._sum(address[1:-1]), self._result(result)

        def step(m: Machine) -> None:
            m.r[rd] = signed(m.load(place(m)), 32) & m.mask

        return step

    def _make_ldx(self, address: str, result: str) -> Step:
        place, rd = self._sum(address[1:-1]), self._result(result)

        def step(m: Machine) -> None:
            at = place(m)
            m.r[rd] = m.load(at) << 32 | m.load(at + 4)

        return step

    def _make_ldub(self, address: str, result: str) -> Step:
        place, rd = self._sum(address[1:-1]), self._result(result)

        def step(m: Machine) -> None:
            m.r[rd] = m.load_byte(place(m))

        return step

    def _make_st(self, source: str, address: str) -> Step:
        rs, place = NAMES[source], self._sum(address[1:-1])

        def step(m: Machine) -> None:
            m.store(place(m), m.r[rs])

        return step

    def _make_stx(self, source: str, address: str) -> Step:
        rs, place = NAMES[source], self._sum(address[1:-1])

        def step(m: Machine) -> None:
            at = place(m)
            m.store(at, m.r[rs] >> 32)
            m.store(at + 4, m.r[rs])

        return step

    def _make_stb(self, source: str, address: str) -> Step:
        rs, place = NAMES[source], self._sum(address[1:-1])

        def step(m: Machine) -> None:
            m.store_byte(place(m), m.r[rs])

        return step

    def _make_rd(self, source: str, result: str) -> Step:
        rd = self._result(result)

        def step(m: Machine) -> None:
            m.r[rd] = m.y if source == "%y" else m.n << 3 | m.z << 2 | m.v << 1 | m.c

        return step

    def _make_wr(self, source: str, *rest: str) -> Step:
        rs, target = NAMES[source], rest[-1]
        if rest[0] not in ("0", target):
            raise ValueError(rest[0])

        def step(m: Machine) -> None:
            value = m.r[rs]
            if target == "%y":
                m.y = value
            else:
                m.n, m.z, m.v, m.c = (value >> k & 1 for k in (3, 2, 1, 0))

        return step

    def _make_save(self, first: str, second: str, result: str) -> Step:
        a, b = NAMES[first], self._value(second)
        if NAMES[result] != 14:
            raise ValueError(result)
        return lambda m: m.save(m.r[a] + b(m))

    def _make_restore(self) -> Step:
        return lambda m: m.restore()

    def _make_ta(self, *trap: str) -> Step:
        return lambda m: m.system_call()


class Program:
    """All generated code at addresses; pieces lie beyond the program, far from each other."""

    FIRST = 1 << 40
    SPAN = 1 << 16

    def __init__(self, runtime: Mapping[int, str], symbols: Mapping[str, int]) -> None:
        self._reader = Reader(symbols)
        self._code = {address: self._reader.code(text) for address, text in runtime.items()}
        self._next = self.FIRST

    def add(self, lines: Sequence[str]) -> Step:
        """Add a piece; return what executes it in the machine's activation, and counts."""
        code = [self._reader.code(line) for line in lines]
        start, self._next = self._next, self._next + self.SPAN
        if not any(isinstance(c, Transfer) for c in code):
            return self._straight([c for c in code if not isinstance(c, Transfer)])
        for index, one in enumerate(code):
            self._code[start + 4 * index] = one
        return lambda m: self._run(m, start)

    @staticmethod
    def _straight(steps: Sequence[Step]) -> Step:
        def run(m: Machine) -> None:
            for step in steps:
                step(m)
            m.executed += len(steps)

        return run

    def _run(self, m: Machine, start: int) -> None:
        """Execute until control leaves the generated code."""
        code, pc, npc, count = self._code, start, start + 4, 0
        while (one := code.get(pc)) is not None:
            count += 1
            if not isinstance(one, Transfer):
                one(m)
                pc, npc = npc, npc + 4
                continue
            taken, target = one.taken(m), one.target(m, pc)
            m.r[one.link] = pc
            if one.annul and (one.always or not taken):
                pc = target if taken else npc + 4
                npc = pc + 4
            else:
                pc, npc = npc, target if taken else npc + 4
        m.executed += count
