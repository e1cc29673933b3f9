"""Targets that read programs: headers, debugging information, code, graphs."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from random import Random

from tools.fuzzing import commands, corpus
from tools.fuzzing.elf_mutation import crowd, mutate_fields, mutate_sections
from tools.fuzzing.mutation import mutate_bytes
from tools.fuzzing.worker import Target

NAME = Path("fuzzed.elf")


def read_elf(data: bytes, where: Path) -> Hashable:
    """Load a program from memory."""
    from simprof.simulator.binary import elf

    program = elf.parse(data, NAME)
    parts = program.segments, program.code, program.late_code, program.symbols
    return tuple(min(len(part), 4) for part in parts), program.machine, program.load_bias


def read_debugging(data: bytes, where: Path) -> Hashable:
    """Load a program, its source lines, where exceptions land, and its compiler's note."""
    from simprof.simulator.binary import elf
    from simprof.simulator.binary.debug_info import compiler_note
    from simprof.simulator.binary.landing_pads import landing_pads

    program = elf.parse(data, NAME)
    stretches = list(program.lines.stretches())
    program.lines.find(program.entry)
    (table,) = program.unwinding or (None,)
    pads = landing_pads(table, program.segments, program.is64)
    path = where / NAME
    path.write_bytes(data)
    note = compiler_note(path)
    return len(stretches), len(pads), len(note)


def read_code(data: bytes, where: Path) -> Hashable:
    """Decode words: transfers, effects and texts, as code of both widths."""
    import numpy as np

    from simprof.profiler.code.effects_kernel import effects
    from simprof.simulator.isa.decode import decode_transfers
    from simprof.simulator.isa.disassembly import disassemble

    words = np.frombuffer(data[: len(data) & ~3], ">u4").astype(np.uint32)
    if not len(words):
        return 0
    base = 0xFFFF_FF00 if len(data) & 4 else 0x100000
    kinds = 0
    for bits in (32, 64):
        transfers = decode_transfers(words, base, bits)
        kinds = len(set(transfers.kind.tolist()))
    effects(words)
    for number, word in enumerate(words[:64].tolist()):
        for v9 in (False, True):
            disassemble(word, base + 4 * number, v9)
    return kinds


def read_graphs(data: bytes, where: Path) -> Hashable:
    """Recover the graphs of a program, all of them, and check that they fit the code."""
    from simprof.profiler.recovery.check import validate
    from simprof.profiler.recovery.recovery import recover
    from simprof.simulator.binary import elf

    recovered = recover(elf.parse(data, NAME))
    validate(recovered)
    return (
        len(recovered.routines),
        recovered.block_count,
        len(recovered.unresolved_jumps),
        len(recovered.irregular),
    )


def mutate_code(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change a program's sections and fields, or words of its code in the ways of code."""
    choice = rng.random()
    if choice < 0.3:
        return mutate_fields(rng, data, other)
    if choice < 0.4:
        return mutate_sections(rng, data, other)
    result = bytearray(data)
    for _ in range(1 + int(rng.expovariate(0.3))):
        at = rng.randrange(len(data)) & ~3
        result[at : at + 4] = word_of_code(rng, data, at).to_bytes(4, "big")
    return bytes(result)


def word_of_code(rng: Random, data: bytes, at: int) -> int:
    """Return a word of code: a branch, a call, a jump, another word of the file, any at all."""
    choice = rng.random()
    if choice < 0.3:
        near = rng.randrange(-64, 64)
        kind = rng.choice((0x00800000, 0x00400000, 0x01800000, 0x00C00000))
        return kind | rng.getrandbits(5) << 25 | near & 0x7FFFF
    if choice < 0.4:
        return 0x40000000 | rng.randrange(-256, 256) & 0x3FFFFFFF
    if choice < 0.55:
        return 0x81C00000 | rng.getrandbits(30) & 0x3E07FFFF
    if choice < 0.8:
        start = rng.randrange(len(data)) & ~3
        return int.from_bytes(data[start : start + 4], "big")
    return int.from_bytes(data[at : at + 4], "big") ^ 1 << rng.randrange(32) | (
        0 if rng.random() < 0.8 else rng.getrandbits(32)
    )


TARGETS = (
    Target("elf", "ELF loader: headers, segments, sections, symbols", read_elf, mutate_fields,
           invent=crowd),
    Target("dwarf", "source lines, unwinding tables, compilers' notes", read_debugging,
           mutate_sections),
    Target("decoder", "words decoded: transfers, effects, texts", read_code, mutate_bytes),
    Target("recovery", "graphs of programs, checked against their code", read_graphs, mutate_code,
           commands.prepare, example=corpus.reader("recovery", "v9.elf")),
)  # fmt: skip
