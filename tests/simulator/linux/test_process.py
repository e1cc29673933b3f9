"""The start of a process: memory, stack image, agreement with qemu-user."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.simulator.binary import elf
from simprof.simulator.binary.program import PAGE_SIZE, Program
from simprof.simulator.cpu.address_space import AddressSpace, Protection
from simprof.simulator.errors import ProgramFileError, UsageError
from simprof.simulator.linux.process import RandomBytes, StackPlace, StartState, start_process
from tests.support.elf import BASE, program_header, tiny_elf

LIMIT = 1 << 30


def load(tmp_path: Path, data: bytes) -> Program:
    path = tmp_path / "program"
    path.write_bytes(data)
    return elf.load(path)


def start(
    program: Program, arguments: list[bytes], environment: list[bytes]
) -> tuple[AddressSpace, StartState]:
    memory = AddressSpace(program.is64, LIMIT)
    stack = StackPlace(memory.layout.stack_top, 8 << 20)
    state = start_process(program, memory, stack, arguments=arguments, environment=environment)
    return memory, state


def strings(memory: AddressSpace, pointers: tuple[int, ...]) -> list[bytes]:
    return [memory.read_string(pointer) for pointer in pointers]


@pytest.mark.parametrize("machine", [43, 18])
def test_the_stack_holds_what_the_program_was_given(tmp_path: Path, machine: int) -> None:
    program = load(tmp_path, tiny_elf(machine))
    arguments, environment = [b"name", b"", b"second"], [b"A=1", b"B=2"]
    memory, state = start(program, arguments, environment)
    word = 8 if program.is64 else 4
    letter = "Q" if program.is64 else "I"
    sp = state.stack_pointer + (2047 if program.is64 else 0)
    assert sp % 16 == 0
    assert memory.read(sp, 16 * word) == bytes(16 * word)
    vector = struct.unpack(f">44{letter}", memory.read(sp + 16 * word, 44 * word))
    assert vector[0] == 3
    assert strings(memory, vector[1:4]) == arguments
    assert (vector[4], vector[7]) == (0, 0)
    assert strings(memory, vector[5:7]) == environment
    auxiliary = dict(zip(vector[8:42:2], vector[9:42:2], strict=True))
    assert auxiliary[6] == PAGE_SIZE
    assert auxiliary[9] == state.entry == BASE + 0x200
    assert auxiliary[3] == program.program_headers_address
    assert auxiliary[5] == 1
    assert strings(memory, (auxiliary[31],)) == [b"name"]
    assert memory.read(auxiliary[25], 16) == RandomBytes(0, "AT_RANDOM").take(16)
    assert auxiliary[25] % 16 == 0


def test_segments_rights_and_break(tmp_path: Path) -> None:
    data = program_header(True, 1, 6, 0x200, BASE + 0x10200, 16, 0x5000)
    program = load(tmp_path, tiny_elf(extra=(data,)))
    memory, state = start(program, [b"x"], [])
    by_start = {mapping.start: mapping for mapping in memory.mappings()}
    assert by_start[BASE].protection == Protection.READ | Protection.EXECUTE
    written = by_start[BASE + 0x10000]
    assert written.protection == Protection.READ | Protection.WRITE
    assert written.end == BASE + 0x10000 + 3 * PAGE_SIZE
    assert memory.read(BASE + 0x10200, 16) == elf.load(program.path).segments[0].data[-16:]
    assert memory.read(BASE + 0x10210, 64) == bytes(64)
    assert memory.program_break == BASE + 0x10000 + 3 * PAGE_SIZE
    stack = by_start[state.stack.top - state.stack.size]
    assert stack.end == state.stack.top
    assert stack.protection == Protection(7)


def test_a_page_shared_by_two_segments_has_the_rights_of_both(tmp_path: Path) -> None:
    data = program_header(True, 1, 6, 0x200, BASE + 0x1800, 16, 16)
    memory, _ = start(load(tmp_path, tiny_elf(extra=(data,))), [b"x"], [])
    assert next(memory.mappings()).protection == Protection(7)


def test_a_program_where_the_stack_would_be(tmp_path: Path) -> None:
    program = load(tmp_path, tiny_elf(18))
    layout = AddressSpace(False, LIMIT).layout
    segment = replace(program.segments[0], address=layout.stack_top - PAGE_SIZE)
    memory, state = start(replace(program, segments=(segment,)), [b"x"], [])
    assert state.stack.top <= layout.stack_top - PAGE_SIZE or state.stack.top > layout.stack_top
    assert memory.read(segment.address, len(segment.data)) == segment.data


def test_too_large(tmp_path: Path) -> None:
    program = load(tmp_path, tiny_elf())
    with pytest.raises(UsageError, match="give fewer"):
        start(program, [b"x" * (3 << 20)], [])
    memory = AddressSpace(True, 1 << 20)
    with pytest.raises(ProgramFileError, match="raise the memory limit"):
        start_process(
            program,
            memory,
            StackPlace(memory.layout.stack_top, 8 << 20),
            arguments=[b"x"],
            environment=[],
        )


def test_random_bytes_depend_on_seed_and_purpose_only() -> None:
    one = RandomBytes(1, "a")
    pieces = one.take(5) + one.take(70) + one.take(0) + one.take(3)
    assert pieces == RandomBytes(1, "a").take(78)
    assert RandomBytes(2, "a").take(16) != RandomBytes(1, "a").take(16)
    assert RandomBytes(1, "b").take(16) != RandomBytes(1, "a").take(16)


DUMP_64 = """
        .globl  _start
_start: add     %sp, 2047, %l0
        set     0x1ff8, %l2
        or      %l0, %l2, %l3           ! the last word of the stack's last page
        mov     1, %o0
        sub     %sp, 192, %sp
        mov     %l0, %o1
        sub     %l3, %l0, %o2
        mov     4, %g1
        ta      0x6d
        mov     0, %o0
        mov     1, %g1
        ta      0x6d
"""
DUMP_32 = DUMP_64.replace("add     %sp, 2047, %l0", "mov     %sp, %l0").replace("0x6d", "0x10")


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("width", "emulator"), [("v9", "qemu-sparc64"), ("v8plus", "qemu-sparc32plus")]
)
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        ([], []),
        ([b"a", b"", b"three words here"], [b"HOME=/"]),
        ([b"x" * 9], [b"A=1", b"B=" + b"y" * 30, b"C="]),
        ([b"z" * 200, b"q"], []),
    ],
)
def test_the_stack_is_qemus(
    compile_c: Callable[..., Path],
    width: str,
    emulator: str,
    arguments: list[bytes],
    environment: list[bytes],
) -> None:
    """Byte for byte, but for the random bytes and the user's number."""
    source = DUMP_64 if width == "v9" else DUMP_32
    path = compile_c(source, flags=("-nostdlib",), width=width, language="asm")
    given: list[str | bytes] = [
        "env",
        "-i",
        *reversed(environment),
        emulator,
        str(path),
        *arguments,
    ]
    expected = subprocess.run(given, capture_output=True, check=True).stdout
    program = elf.load(path)
    memory, state = start(program, [str(path).encode(), *arguments], environment)
    sp = state.stack_pointer + (2047 if program.is64 else 0)
    found = memory.read(sp, len(expected))
    allowed = differing_words(program, memory, sp, len(arguments) + 1, len(environment))
    different = {sp + i for i in range(len(found)) if found[i] != expected[i]}
    assert different <= allowed
    assert len(expected) > 300


def differing_words(
    program: Program, memory: AddressSpace, sp: int, arguments: int, environment: int
) -> set[int]:
    """Addresses of AT_RANDOM's bytes and of the values of AT_UID..AT_EGID."""
    word = 8 if program.is64 else 4
    vector = sp + (16 + 1 + arguments + 1 + environment + 1) * word
    allowed: set[int] = set()
    for index in range(16):
        key, value = (
            int.from_bytes(memory.read(vector + (2 * index + part) * word, word), "big")
            for part in (0, 1)
        )
        if key in (11, 12, 13, 14):
            start = vector + (2 * index + 1) * word
            allowed |= set(range(start, start + word))
        if key == 25:
            allowed |= set(range(value, value + 16))
    return allowed
