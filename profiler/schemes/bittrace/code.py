"""Code of bit tracing and FIFOs of branches; a code has a path register for each word.

`codes` says what the codes are.
"""

# ruff: noqa: D102 - overriding methods do what `Action` says

from __future__ import annotations

from simprof import schemes as s
from simprof.profiler.schemes.bittrace.codes import shift_in
from simprof.schemes import asm, shapes

# -- Actions


class ShiftBits(s.Action, frozen=True):
    """`r = r << width | bits`: a branch's outcome is recorded (EPP section 2)."""

    effect = s.RegisterEffect.CHANGES

    bits: int
    width: int

    def execute(self, execution: s.Execution) -> None:
        execution.registers[0] = execution.registers[0] << self.width | self.bits

    def __str__(self) -> str:
        return f"r=r<<{self.width}|{self.bits}"


class CountShifted(s.Action, frozen=True):
    """`count[r << width | bits]++`: the outcome of a path's last branch is no longer recorded."""

    bits: int
    width: int
    on_back_edge: bool = False

    def execute(self, execution: s.Execution) -> None:
        execution.count(execution.registers[0] << self.width | self.bits, self.on_back_edge)

    def __str__(self) -> str:
        return f"count[r<<{self.width}|{self.bits}]++"


class StartWords(s.Action, frozen=True):
    """`rK=value`: the code goes on in word `word`; words `first` to `word - 1` become 0."""

    effect = s.RegisterEffect.CHANGES

    first: int
    word: int
    value: int
    count: int

    @property
    def key_words(self) -> int:
        # All words of the code, though the paths that end may have fewer: others may never end.
        return self.count

    def execute(self, execution: s.Execution) -> None:
        # Later words mean nothing until the code reaches them. Execution clears them, so that equal
        # codes are equal states; the code for SPARC leaves them as they are.
        for word in range(self.first, self.count):
            execution.registers[word] = self.value if word == self.word else 0

    def __str__(self) -> str:
        skipped = "".join(f"r{word}=0; " for word in range(self.first, self.word))
        return f"{skipped}r{self.word}={self.value}"


class ShiftWord(s.Action, frozen=True):
    """`rK = rK << width | bits`: as `ShiftBits`, in one word of several."""

    effect = s.RegisterEffect.CHANGES

    word: int
    bits: int
    width: int

    def execute(self, execution: s.Execution) -> None:
        value = execution.registers[self.word]
        execution.registers[self.word] = value << self.width | self.bits

    def __str__(self) -> str:
        return f"r{self.word}=r{self.word}<<{self.width}|{self.bits}"


class CountWords(s.Action, frozen=True):
    """`count[r0,..rK]++`: a path ends whose code has `used` words; the others count as 0."""

    used: int
    on_back_edge: bool = False

    @property
    def key_words(self) -> int:
        return self.used

    def execute(self, execution: s.Execution) -> None:
        words = list(execution.registers)
        words[self.used :] = [0] * (len(words) - self.used)
        execution.count(s.code_key(words), self.on_back_edge)

    def __str__(self) -> str:
        return f"count[{','.join(f'r{word}' for word in range(self.used))}]++"


class ShiftRecord(s.Action, frozen=True):
    """A branch's record of `width` bits goes into the FIFO, and the oldest one out of it."""

    effect = s.RegisterEffect.CHANGES

    record: int
    width: int
    sizes: tuple[int, ...]  # Records in each word, the oldest first

    def execute(self, execution: s.Execution) -> None:
        shift_in(execution.registers, self.record, self.width, self.sizes)

    def __str__(self) -> str:
        return f"fifo<<={self.record}"


# -- Code
#
# Code of the actions of bit tracing and of FIFOs of branches (EPP section 2).
#
# =======================  ====================================================  ================
# action                   code                                                  instructions
# =======================  ====================================================  ================
# `r = r << w | b`         sll; or                                               2 (1 where b = 0)
# `count[r]++`             see `snippets_paths`; always indexed: a shifted       6, or a call
#                          address is none
# `count[r << w | b]++`    as `count[r]++`: the index is shifted anyway          6, or a call
# `count[r0,..,rK]++`      sethi; st for each word but the first; mov; call;     4 + K
#                          sethi (in the call's delay slot)
# `fifo <<= record`        sll; srl (the oldest record falls out); or; and for   3 + 4 K
#                          each further word srl; sll; srl; or
# =======================  ====================================================  ================
#
# Nothing here changes condition codes or %y; the routine for keys of several words is as
# `hash_routine` in this.


R = s.Register


def shift_bits(writer: s.Writer, action: ShiftBits) -> None:
    """`r = r << width | bits`."""
    if writer.access.addressing is s.Addressing.ADDRESS:
        raise s.AssemblyError("branch outcomes cannot be shifted into a counter's address")
    _shift(writer, 0, action.bits, action.width)


def _shift(writer: s.Writer, number: int, bits: int, width: int) -> None:
    register = writer.fetch(number, 0)
    writer.emit(asm.shift("sll", register, width, register))
    _or_constant(writer, register, bits, int(writer.path(number) is None))
    writer.store_path(register, number)


def _or_constant(writer: s.Writer, register: s.Register, bits: int, spare: int) -> None:
    if bits and s.fits_simm13(bits):
        writer.emit(asm.arithmetic("or", register, bits, register))
    elif bits:
        helper = writer.temporary(spare)
        writer.constant(bits, helper, spare + 1)
        writer.emit(asm.arithmetic("or", register, helper, register))


def count_shifted(writer: s.Writer, action: CountShifted) -> None:
    """`count[r << width | bits]++`."""
    if writer.access.table is s.CounterTable.HASH:
        register = writer.path()
        if register is None:
            writer.load_path(R.O0)
        writer.emit(asm.shift("sll", register or R.O0, action.width, R.O0))
        writer.sum(R.O0, action.bits, R.O0, 1)
        s.call_hash(writer, action.on_back_edge)
        return
    if writer.access.addressing is s.Addressing.ADDRESS:
        raise s.AssemblyError("branch outcomes cannot be shifted into a counter's address")
    register = writer.fetch(0, 0)
    number = int(writer.path() is None)
    address = writer.temporary(number)
    scaled = register if number else writer.temporary(number + 1)
    writer.bump_element(
        writer.layout.path_counter(action.bits), register, address, scaled, action.width
    )


def start_words(writer: s.Writer, action: StartWords) -> None:
    """`rK = value`, and 0 in the words passed over."""
    for word in range(action.first, action.word):
        writer.set_path(0, word)
    writer.set_path(action.value, action.word)


def count_words(writer: s.Writer, action: CountWords) -> None:
    """`count[r0,..,rK]++`: all words but the first go through memory."""
    count = len(writer.access.registers)
    writer.emit(asm.sethi(s.KEY_WORDS, R.O1))
    for word in range(1, count):
        register = writer.fetch(word, 0) if word < action.used else R.G0
        writer.emit(asm.store("st", register, R.O1, 4 * (word - 1)))
    writer.load_path(R.O0)
    writer.emit(*asm.load_constant(writer.layout.path_base, R.O1, writer.is64))
    writer.call(s.routine_name(action.on_back_edge, count))
    writer.hash_calls += 1


def shift_record(writer: s.Writer, action: ShiftRecord) -> None:
    """`fifo <<= record`: the oldest word first, as each takes in what falls out of the next."""
    width, sizes = action.width, action.sizes
    for word, size in enumerate(sizes[:-1]):
        newer = writer.fetch(word + 1, 0)
        out = width * (sizes[word + 1] - 1)
        if size == 1:
            target = writer.path(word) or writer.temporary(1)
            writer.emit(asm.shift("srl", newer, out, target))
            writer.store_path(target, word)
            continue
        carry = writer.temporary(1)
        writer.emit(asm.shift("srl", newer, out, carry))
        register = writer.fetch(word, 2)
        _make_room(writer, register, width, size)
        writer.emit(asm.arithmetic("or", register, carry, register))
        writer.store_path(register, word)
    newest = len(sizes) - 1
    if sizes[newest] == 1:
        writer.set_path(action.record, newest)
        return
    register = writer.fetch(newest, 0)
    _make_room(writer, register, width, sizes[newest])
    _or_constant(writer, register, action.record, 1)
    writer.store_path(register, newest)


def _make_room(writer: s.Writer, register: s.Register, width: int, size: int) -> None:
    """Shift a word of `size` records by one; the oldest falls out."""
    # Two shifts do it for any number of bits, where a mask of more than 12 would have to be loaded.
    spare = 32 - width * size
    writer.emit(
        asm.shift("sll", register, width + spare, register),
        asm.shift("srl", register, spare, register),
    )


GENERATORS: s.Generators = {
    ShiftBits: s.Generator(
        shift_bits,
        s.Needs(path=True),
        lambda action, access: (action.width, shapes.constant(action.bits, access)),
    ),
    CountShifted: s.Generator(
        count_shifted,
        s.count_needs,
        lambda action, access: (shapes.constant(action.bits, access), shapes.table(access)),
    ),
    StartWords: s.Generator(
        start_words,
        s.Needs(path=True),
        lambda action, access: (action.first, action.word, shapes.constant(action.value, access)),
    ),
    ShiftWord: s.Generator(
        lambda writer, action: _shift(writer, action.word, action.bits, action.width),
        s.Needs(path=True),
        lambda action, access: (action.word, action.width, shapes.constant(action.bits, access)),
    ),
    CountWords: s.Generator(
        count_words, s.count_needs, lambda action, access: (action.used, shapes.table(access))
    ),
    ShiftRecord: s.Generator(
        shift_record,
        s.Needs(path=True),
        lambda action, access: (
            action.width,
            action.sizes,
            shapes.constant(action.record, access),
        ),
    ),
}

CODE = s.SchemeCode(generators=GENERATORS)
