"""Every instruction that the assembler builds, against GNU as and Capstone."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import capstone
import pytest

from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import AssemblyError, Instruction, Label, Register, assemble

R = Register


def samples(seed: int = 1) -> list[Instruction]:
    """Return instructions of every kind with random operands, without symbols."""
    rng = random.Random(seed)

    def register() -> Register:
        return Register(rng.randrange(32))

    def operand() -> Register | int:
        return rng.choice([register(), rng.choice([-4096, -1, 1, 4095])])

    def even() -> Register:
        return Register(rng.randrange(16) * 2)

    out: list[Instruction] = [asm.nop(), asm.ret(), asm.retl(), asm.restore()]
    for name in asm.ARITHMETIC:
        out += [asm.arithmetic(name, register(), operand(), register()) for _ in range(4)]
    for name, (_, extended) in asm.SHIFTS.items():
        out += [asm.shift(name, register(), n, register()) for n in (0, 31, register())]
        out += [asm.shift(name, register(), 63, register())] if extended else []
    for name in asm.LOADS:
        rd = even() if name == "ldd" else register()
        out += [asm.load(name, register(), operand(), rd), asm.load(name, register(), R.G0, rd)]
    for name in asm.STORES:
        rd = even() if name == "std" else register()
        out += [asm.store(name, rd, register(), operand()), asm.store(name, rd, register(), 0)]
    for name in asm.REGISTER_CONDITIONS:
        out += [asm.move_register(name, register(), v, register()) for v in (register(), -512, 511)]
    for state in asm.STATE_REGISTERS:
        out += [asm.read_state(state, register()), asm.write_state(register(), operand(), state)]
    out += [asm.sethi(v, register()) for v in (0, 0xFFFFFFFF, 0x12345678)]
    out += [asm.mov(operand(), register()), asm.cmp(register(), operand())]
    out += [asm.jmpl(register(), operand(), register())]
    return [*out, asm.trap_always(0x6D)]


def branches() -> list[Instruction | Label]:
    """Return every branch form, forwards and backwards."""
    items: list[Instruction | Label] = [Label("back")]
    for target in ("back", "ahead"):
        for annul in (False, True):
            items += [asm.branch(c, target, annul) for c in asm.CONDITIONS]
            for taken in (False, True):
                items += [
                    asm.branch_predicted(c, cc, target, annul, taken)
                    for c in asm.CONDITIONS
                    for cc in asm.CC_FIELDS
                ]
                items += [
                    asm.branch_register(c, R.L3, target, annul, taken)
                    for c in asm.REGISTER_CONDITIONS
                ]
        items += [
            asm.call(target),
            asm.sethi_symbol(target, R.G1),
            asm.or_symbol(R.G1, target, R.G2),
        ]
    return [*items, Label("ahead")]


def gnu_words(text: str, directory: Path) -> bytes:
    """Assemble and link `text` at address 0 with the GNU tools; return the code."""
    source, unit, program, raw = (directory / n for n in ("t.s", "t.o", "t.elf", "t.bin"))
    source.write_text(text)

    def run(*command: str | Path) -> None:
        subprocess.run(command, check=True, capture_output=True)

    run("sparc64-linux-gnu-as", "-64", "-Av9a", "-no-relax", "-o", unit, source)
    run(
        "sparc64-linux-gnu-ld", "--no-relax", "-Ttext=0x10000", "-e", "0x10000", "-o", program, unit
    )
    run("sparc64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", program, raw)
    return raw.read_bytes()


@pytest.mark.toolchain
def test_words_equal_gnu_as(tmp_path: Path) -> None:
    items = [*samples(), *branches()]
    lines = [f"{i.name}:" if isinstance(i, Label) else i.text for i in items]
    declare = "".join(f".register %g{n}, #scratch\n" for n in (2, 3, 6, 7))
    expected = gnu_words(declare + "\n".join(lines) + "\n", tmp_path)
    ours = assemble(items, 0x10000)
    for k, instruction in enumerate(ours.instructions):
        word = int.from_bytes(expected[4 * k : 4 * k + 4], "big")
        assert instruction.word == word, (instruction.text, hex(instruction.word), hex(word))
    assert len(expected) // 4 >= len(ours.instructions) > 300


def test_capstone_agrees_on_common_instructions() -> None:
    engine = capstone.Cs(capstone.CS_ARCH_SPARC, capstone.CS_MODE_BIG_ENDIAN | capstone.CS_MODE_V9)
    cases = {
        asm.load("ld", R.L0, 20, R.G1): "ld [%l0+0x14], %g1",
        asm.arithmetic("add", R.G1, 1, R.G1): "add %g1, 1, %g1",
        asm.store("st", R.G1, R.SP, R.L1): "st %g1, [%sp+%l1]",
        asm.shift("sllx", R.G1, 32, R.G2): "sllx %g1, 0x20, %g2",
    }
    for instruction, text in cases.items():
        (decoded,) = engine.disasm(instruction.word.to_bytes(4, "big"), 0)
        assert f"{decoded.mnemonic} {decoded.op_str}" == text


def test_labels_and_symbols() -> None:
    code = assemble([Label("a"), asm.nop(), asm.call("far"), asm.branch("a", "a")], 0x100,
                    {"far": 0x200})  # fmt: skip
    assert [i.word for i in code.instructions] == [0x01000000, 0x4000003F, 0x10BFFFFE]
    assert code.code[:4] == b"\x01\0\0\0"
    assert code.text.splitlines()[0] == "a:"


def test_transfers_are_known() -> None:
    assert asm.branch("a", "x").is_transfer
    assert asm.branch("a", "x", annul=True).annuls
    assert all(i.is_transfer for i in (asm.call("x"), asm.ret(), asm.trap_always(3)))
    assert not any(i.is_transfer for i in (asm.nop(), asm.sethi(1 << 12, R.G1), asm.restore()))


@pytest.mark.parametrize(
    "build",
    [
        lambda: asm.arithmetic("add", R.G1, 4096, R.G1),
        lambda: asm.shift("sll", R.G1, 32, R.G1),
        lambda: asm.move_register("z", R.G1, 512, R.G1),
        lambda: asm.trap_always(128),
        lambda: asm.load_constant(1 << 40 | 0x12345, R.G1, True),
        lambda: assemble([asm.call("nowhere")], 0),
        lambda: assemble([Label("x"), Label("x")], 0),
        lambda: assemble([asm.branch_register("z", R.G1, "x")], 0, {"x": 1 << 20}),
    ],
)
def test_what_cannot_be_encoded_is_refused(build) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(AssemblyError):
        build()


@pytest.mark.parametrize(
    ("value", "is64", "length"),
    [(0, True, 1), (-4096, True, 1), (4096, True, 1), (0x12345678, True, 2), (0xFFFFFC00, True, 1),
     (-5000, True, 2), (-5000, False, 2), (0xFFFFFFFF, False, 1), (0x80000000, False, 1),
     (1 << 40, True, 2), (0x123456789ABCDEF, True, 6), (-(1 << 40) + 5, True, 3)],
)  # fmt: skip
def test_constant_lengths(value: int, is64: bool, length: int) -> None:
    assert len(asm.load_constant(value, R.G1, is64, R.G2)) == length


def value_of(code: Sequence[Instruction]) -> int:
    """What %g1 holds, all 64 bits, after code of sethi, or, xor, sllx."""
    registers = {"%g0": 0}

    def operand(text: str) -> int:
        return registers[text] if text.startswith("%") else int(text, 0) & MASK64

    for instruction in code:
        name, _, rest = instruction.text.partition(" ")
        words = rest.split(", ")
        match name:
            case "sethi":
                registers[words[1]] = int(words[0][len("%hi(") : -1], 16)
            case "mov":
                registers[words[1]] = operand(words[0])
            case "or":
                registers[words[2]] = operand(words[0]) | operand(words[1])
            case "xor":
                registers[words[2]] = operand(words[0]) ^ operand(words[1])
            case "sllx":
                registers[words[2]] = operand(words[0]) << int(words[1]) & MASK64
            case _:
                raise AssertionError(instruction.text)
    return registers["%g1"]


MASK64 = (1 << 64) - 1


@pytest.mark.parametrize(
    "value",
    [0, 1, -1, 4095, -4096, 4096, -4097, -5000, -(1 << 31), (1 << 31) - 1, 1 << 31, 0xFFFFFFFF,
     0x12345678, 0xFFFFFC00, 1 << 40, 0x123456789ABCDEF, -(1 << 40) + 5, -(1 << 63)],
)  # fmt: skip
def test_constant_values(value: int) -> None:
    assert value_of(asm.load_constant(value, R.G1, True, R.G2)) == value & MASK64
    assert value_of(asm.load_constant(value, R.G1, False)) & 0xFFFFFFFF == value & 0xFFFFFFFF
