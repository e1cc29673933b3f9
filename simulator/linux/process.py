"""Starting a process: the program's segments, its stack, and what the kernel remembers about it."""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
from collections.abc import Mapping, Sequence

from msgspec import Struct

from simprof.simulator.binary.dynamic import loaded_part, module_at
from simprof.simulator.binary.program import PAGE_SIZE, Module, Program, Segment, page_up
from simprof.simulator.cpu.address_space import AddressSpace, OutOfMemory, Protection
from simprof.simulator.errors import ProgramFileError, UsageError
from simprof.simulator.isa.sparc import STACK_BIAS_64, WINDOW_SAVE_WORDS
from simprof.simulator.linux.outside import USER

PARENT_ID = 1  # number of the emulated program's parent process
HARDWARE_CAPABILITIES = 0x1F  # AT_HWCAP: flush, stbar, swap, muldiv, V9
CLOCK_TICKS = 100  # AT_CLKTCK and the unit of times(2), per second
_AT_NULL, _AT_PHDR, _AT_PHENT, _AT_PHNUM, _AT_PAGESZ, _AT_BASE, _AT_FLAGS = 0, 3, 4, 5, 6, 7, 8
_AT_ENTRY, _AT_UID, _AT_EUID, _AT_GID, _AT_EGID = 9, 11, 12, 13, 14
_AT_HWCAP, _AT_CLKTCK, _AT_SECURE, _AT_RANDOM, _AT_EXECFN = 16, 17, 23, 25, 31
# Keys of the auxiliary vector, in qemu-user's order; AT_NULL follows.
AUXILIARY_KEYS = (
    _AT_PHDR, _AT_PHENT, _AT_PHNUM, _AT_PAGESZ, _AT_BASE, _AT_FLAGS, _AT_ENTRY, _AT_UID, _AT_EUID,
    _AT_GID, _AT_EGID, _AT_HWCAP, _AT_CLKTCK, _AT_RANDOM, _AT_SECURE, _AT_EXECFN,
)  # fmt: skip

_TOP_PADDING = 8  # bytes, in both widths
_BREAK_ROOM = 32 << 20  # bytes that qemu-user leaves for the break of a program that it places
_LARGE_PAGE = 64 << 10  # the largest page of 32-bit SPARC programs
_MAX_STRINGS = 2 << 20  # bytes of arguments and environment, as Linux with an 8 MiB stack


class RandomBytes:
    """A reproducible stream of bytes (SHA-256 in counter mode), one by seed and purpose."""

    def __init__(self, seed: int, purpose: str) -> None:
        self._key = f"simprof {purpose} {seed} ".encode()
        self._counter = 0
        self._left = b""

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        blocks = [self._left]
        length = len(self._left)
        while length < count:
            blocks.append(hashlib.sha256(self._key + b"%d" % self._counter).digest())
            self._counter += 1
            length += 32
        data = b"".join(blocks)
        self._left = data[count:]
        return data[:count]


class StackPlace(Struct, frozen=True):
    """Where the stack may be: `size` bytes below `top`."""

    top: int
    size: int


class StartState(Struct, frozen=True):
    """What the first instruction sees."""

    entry: int  # Its address
    stack_pointer: int  # Value of %sp, bias included
    stack: StackPlace  # Where the stack was put
    interpreter: Module | None = None  # Of a dynamically linked program, as it was loaded


def start_process(
    program: Program,  # what to load
    memory: AddressSpace,  # an empty address space
    stack: StackPlace,  # where the stack goes unless the program's own segments lie there
    *,
    arguments: Sequence[bytes],  # argv, the program's name first
    # `NAME=value` strings, in the order in which the program sees them.
    environment: Sequence[bytes],
    seed: int = 0,  # of AT_RANDOM's 16 bytes
    file_name: bytes | None = None,  # what AT_EXECFN says; the program's name for itself by default
    # Where the heap begins, if that is behind the last segment; None: behind that segment.
    heap_start: int | None = None,
) -> StartState:
    """Load `program` into empty memory and build its stack.

    Raises `ProgramFileError` where it does not fit; `UsageError` where its arguments do not.
    """
    own = program.parts[0] if program.parts else program
    try:
        end = load_segments(own, memory)
        if program.parts:
            stack = _stack_beside(own, memory, end, stack)
        room = PAGE_SIZE + stack.size  # a guard page lies below
        if not memory.is_free(stack.top - room, room):
            stack = StackPlace(memory.find_free(room) + room, stack.size)
        rights = Protection.READ | Protection.WRITE
        if program.stack_executable:
            rights |= Protection.EXECUTE
        memory.map(stack.top - stack.size, stack.size, rights)
        memory.start_break(max(end, heap_start or 0))
        interpreter = _load_interpreter(program, memory)
    except OutOfMemory as error:
        raise ProgramFileError(
            f"{program.path}: does not fit into memory ({error}); raise the memory limit"
        ) from None
    if file_name is None:
        file_name = arguments[0] if arguments else os.fsencode(program.path)
    base = 0 if interpreter is None else interpreter.bias
    texts = arguments, environment, file_name
    pointer = _build_stack(own, memory, stack, *texts, seed, base)
    entry = own.entry if interpreter is None else loaded_part(interpreter).entry
    return StartState(entry, pointer, stack, interpreter)


def _load_interpreter(program: Program, memory: AddressSpace) -> Module | None:
    # The interpreter lies where mappings go.
    if not program.parts:
        return None
    file = program.parts[1]
    start = _page_down(file.segments[0].address)
    size = page_up(file.segments[-1].address + file.segments[-1].memory_size) - start
    module = module_at(file.path, memory.find_free(size))
    if module is None or module.sha256 != file.sha256:
        raise ProgramFileError(f"{file.path}: has changed while it was read; run again")
    load_segments(loaded_part(module), memory)
    return module


def load_segments(program: Program, memory: AddressSpace) -> int:
    """Map and fill the program's segments; return the end of the last (where the break starts)."""
    # A page that two segments share gets the rights of both.
    for start, end, rights in _page_runs(program.segments):
        memory.map(start, end - start, rights)
    for segment in program.segments:
        memory.load(segment.address, segment.data)
    return max(s.address + s.memory_size for s in program.segments)


def _page_runs(segments: Sequence[Segment]) -> list[tuple[int, int, Protection]]:
    spans = [(_page_down(s.address), page_up(s.address + s.memory_size), s) for s in segments]
    edges = sorted({edge for start, end, _ in spans for edge in (start, end)})
    runs = []
    for start, end in itertools.pairwise(edges):
        covering = [s for low, high, s in spans if low <= start and end <= high]
        if covering:
            rights = Protection.NONE
            for segment in covering:
                rights |= Protection(
                    segment.readable | segment.writable << 1 | segment.executable << 2
                )
            runs.append((start, end, rights))
    return runs


def _page_down(address: int) -> int:
    return address // PAGE_SIZE * PAGE_SIZE


def _stack_beside(
    program: Program, memory: AddressSpace, end: int, usual: StackPlace
) -> StackPlace:
    # Where the stack of a dynamically linked program goes; mappings follow it. One that is
    # position-independent lies where the stack would be. How the interpreter maps a library depends
    # on where it would lie within a large page: that is as under qemu-user.
    if program.load_bias == 0:
        return usual
    size = usual.size
    if not program.is64:
        memory.next_mapping = program.load_bias - size - _LARGE_PAGE
        return StackPlace(program.load_bias, size)
    top = page_up(end) + _BREAK_ROOM + PAGE_SIZE + size
    memory.next_mapping = top
    return StackPlace(top, size)


# The initial stack is laid out as qemu-user 7.2 lays it out, byte for byte, so that a program
# started here executes the same instructions as under qemu. From the stack's top downwards: 8 bytes
# of padding, the program's name (argv[0] again), the environment strings, the argument strings, 16
# random bytes (aligned to 16), then the vector argc, argv, NULL, envp, NULL, auxv, aligned to 16;
# %sp lies one register save area below it. (qemu gives the environment in the reverse of its own
# order.)
def _build_stack(
    program: Program,
    memory: AddressSpace,
    stack: StackPlace,
    arguments: Sequence[bytes],
    environment: Sequence[bytes],
    name: bytes,
    seed: int,
    interpreter: int,
) -> int:
    word = 8 if program.is64 else 4
    position = stack.top - _TOP_PADDING
    strings = (*arguments, *environment, name)
    size = sum(len(text) + 1 for text in strings)
    if size > min(_MAX_STRINGS, stack.size // 4):
        raise UsageError(f"arguments and environment take {size} bytes; give fewer")
    block = b"".join(text + b"\0" for text in strings)
    position -= len(block)
    memory.load(position, block)
    lengths = (len(text) + 1 for text in strings)
    *pointers, _ = itertools.accumulate(lengths, initial=position)
    position = position // 16 * 16 - 16
    memory.load(position, RandomBytes(seed, "AT_RANDOM").take(16))
    count = len(arguments)
    vector = [count, *pointers[:count], 0, *pointers[count:-1], 0]
    for key, value in _auxiliary(program, position, pointers[-1], interpreter).items():
        vector += [key, value]
    vector += [_AT_NULL, 0]
    base = (position - len(vector) * word) // 16 * 16
    memory.load(base, struct.pack(f">{len(vector)}{'Q' if program.is64 else 'I'}", *vector))
    return base - WINDOW_SAVE_WORDS * word - (STACK_BIAS_64 if program.is64 else 0)


def _auxiliary(program: Program, random: int, name: int, interpreter: int = 0) -> Mapping[int, int]:
    # Return the auxiliary vector; `interpreter`: where that is loaded.
    values = {
        _AT_PHDR: program.program_headers_address,
        _AT_PHENT: program.program_header_size,
        _AT_PHNUM: program.program_header_count,
        _AT_PAGESZ: PAGE_SIZE,
        _AT_BASE: interpreter,
        _AT_FLAGS: 0,
        _AT_ENTRY: program.entry,
        **dict.fromkeys((_AT_UID, _AT_EUID, _AT_GID, _AT_EGID), USER),
        _AT_HWCAP: HARDWARE_CAPABILITIES,
        _AT_CLKTCK: CLOCK_TICKS,
        _AT_RANDOM: random,
        _AT_SECURE: 0,
        _AT_EXECFN: name,
    }
    return {key: values[key] for key in AUXILIARY_KEYS}


def program_auxiliary(program: Program) -> Mapping[int, int]:
    """Return what the auxiliary vector says of the program's file."""
    everything = _auxiliary(program, 0, 0)
    return {key: everything[key] for key in (_AT_PHDR, _AT_PHNUM, _AT_ENTRY)}
