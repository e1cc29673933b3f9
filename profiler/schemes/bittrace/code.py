"""Code of the actions of bit tracing (EPP section 2).

=======================  ====================================================  ================
action                   code                                                  instructions
=======================  ====================================================  ================
`r = r << w | b`         sll; or                                               2 (1 where b = 0)
`count[r]++`             see `snippets_paths`; always indexed: a shifted       6, or a call
                         address is none
`count[r << w | b]++`    as `count[r]++`: the index is shifted anyway          6, or a call
`count[r0,..,rK]++`      sethi; st for each word but the first; mov; call;     4 + K
                         sethi (in the call's delay slot)
=======================  ====================================================  ================

Nothing here changes condition codes or %y; the routine for keys of several words is as
`hash_routine` in this.
"""

from __future__ import annotations

from simprof.profiler.code import shapes
from simprof.profiler.code.cost_samples import BY_INDEX, IN_HASH_TABLE, Samples
from simprof.profiler.code.hash_routine import KEY_WORDS, routine_name
from simprof.profiler.code.snippet_parts import Generator, Generators, Needs
from simprof.profiler.code.snippets_paths import call_hash, count_needs
from simprof.profiler.code.writer import Writer
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.profiler.schemes.bittrace.actions import (
    CountShifted,
    CountWords,
    ShiftBits,
    ShiftWord,
    StartWords,
)
from simprof.profiler.schemes.definition import SchemeCode
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import AssemblyError, Register, fits_simm13

R = Register


def shift_bits(writer: Writer, action: ShiftBits) -> None:
    """`r = r << width | bits`."""
    if writer.access.addressing is Addressing.ADDRESS:
        raise AssemblyError("branch outcomes cannot be shifted into a counter's address")
    _shift(writer, 0, action.bits, action.width)


def _shift(writer: Writer, number: int, bits: int, width: int) -> None:
    register = writer.fetch(number, 0)
    spare = int(writer.path(number) is None)
    writer.emit(asm.shift("sll", register, width, register))
    if bits and fits_simm13(bits):
        writer.emit(asm.arithmetic("or", register, bits, register))
    elif bits:
        helper = writer.temporary(spare)
        writer.constant(bits, helper, spare + 1)
        writer.emit(asm.arithmetic("or", register, helper, register))
    writer.store_path(register, number)


def count_shifted(writer: Writer, action: CountShifted) -> None:
    """`count[r << width | bits]++`."""
    if writer.access.table is CounterTable.HASH:
        register = writer.path()
        if register is None:
            writer.load_path(R.O0)
        writer.emit(asm.shift("sll", register or R.O0, action.width, R.O0))
        writer.sum(R.O0, action.bits, R.O0, 1)
        call_hash(writer, action.on_back_edge)
        return
    if writer.access.addressing is Addressing.ADDRESS:
        raise AssemblyError("branch outcomes cannot be shifted into a counter's address")
    register = writer.fetch(0, 0)
    number = int(writer.path() is None)
    address = writer.temporary(number)
    scaled = register if number else writer.temporary(number + 1)
    writer.bump_element(
        writer.layout.path_counter(action.bits), register, address, scaled, action.width
    )


def start_words(writer: Writer, action: StartWords) -> None:
    """`rK = value`, and 0 in the words passed over."""
    for word in range(action.first, action.word):
        writer.set_path(0, word)
    writer.set_path(action.value, action.word)


def count_words(writer: Writer, action: CountWords) -> None:
    """`count[r0,..,rK]++`: all words but the first go through memory."""
    count = len(writer.access.registers)
    writer.emit(asm.sethi(KEY_WORDS, R.O1))
    for word in range(1, count):
        register = writer.fetch(word, 0) if word < action.used else R.G0
        writer.emit(asm.store("st", register, R.O1, 4 * (word - 1)))
    writer.load_path(R.O0)
    writer.emit(*asm.load_constant(writer.layout.path_base, R.O1, writer.is64))
    writer.call(routine_name(action.on_back_edge, count))
    writer.hash_calls += 1


GENERATORS: Generators = {
    ShiftBits: Generator(
        shift_bits,
        Needs(path=True),
        lambda action, access: (action.width, shapes.constant(action.bits, access)),
    ),
    CountShifted: Generator(
        count_shifted,
        count_needs,
        lambda action, access: (shapes.constant(action.bits, access), shapes.table(access)),
    ),
    StartWords: Generator(
        start_words,
        Needs(path=True),
        lambda action, access: (action.first, action.word, shapes.constant(action.value, access)),
    ),
    ShiftWord: Generator(
        lambda writer, action: _shift(writer, action.word, action.bits, action.width),
        Needs(path=True),
        lambda action, access: (action.word, action.width, shapes.constant(action.bits, access)),
    ),
    CountWords: Generator(
        count_words, count_needs, lambda action, access: (action.used, shapes.table(access))
    ),
}

SAMPLES = {
    ShiftBits: (
        Samples(
            (ShiftBits(0, 1), ShiftBits(1, 1), ShiftBits(5000, 13)), (BY_INDEX, IN_HASH_TABLE), 1
        ),
    ),
    CountShifted: (
        Samples(
            (CountShifted(0, 1), CountShifted(1, 1), CountShifted(5000, 13, True)),
            (BY_INDEX, IN_HASH_TABLE),
            1,
        ),
    ),
    StartWords: (Samples((StartWords(0, 0, 1, 2), StartWords(0, 1, 1, 2)), (IN_HASH_TABLE,), 2),),
    ShiftWord: (Samples((ShiftWord(0, 1, 1), ShiftWord(1, 0, 3)), (IN_HASH_TABLE,), 2),),
    CountWords: (
        Samples((CountWords(1), CountWords(2), CountWords(2, True)), (IN_HASH_TABLE,), 2),
    ),
}

CODE = SchemeCode(
    generators=GENERATORS, samples=SAMPLES, callers={"hash_count": (CountShifted, CountWords)}
)
