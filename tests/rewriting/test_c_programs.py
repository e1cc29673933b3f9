"""Programs with a C library, started and ended as instrumented ones: they see no difference."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from simprof.profiler.rewriting.elsewhere import runtime
from simprof.simulator.binary import elf
from simprof.simulator.binary.elf_writer import HEADER_ROOM, extend, find_room
from simprof.simulator.binary.program import Program, Range
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import assemble, link
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from tests.oracles import qemu
from tests.rewriting.extended import HEADER
from tests.support.turns import turns
from tests.support.width import Width

Compile = Callable[..., Path]
EXIT_CALLS = (0x82102001, 0x821020BC)  # mov 1, %g1; mov 188, %g1
ENVIRONMENT = {"FIRST": "1", "SIMPROF_OUT": "file", "LAST": "2"}

HEAP = """
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>
static __thread int own = 7;
int main(void)
{
    const ElfW(Phdr) *headers = (const void *)getauxval(AT_PHDR);
    unsigned long count = getauxval(AT_PHNUM);
    for (unsigned long k = 0; k < count; k++)
        printf("%lx %lx %lx\\n", (long)headers[k].p_type, (long)headers[k].p_vaddr,
               (long)headers[k].p_memsz);
    long heap = (long)sbrk(0);
    printf("%d %lx %p\\n", own, getauxval(AT_ENTRY), headers);
    fwrite(&heap, sizeof heap, 1, stdout);
    return 3;
}
"""


def memory_of(program: Program) -> runtime.StartMemory:
    """Return what an instrumented program without counters needs."""
    return runtime.StartMemory((), auxiliary=runtime.original_auxiliary(program))


def ends(program: Program) -> list[int]:
    """Return the addresses of the traps that end a program: soon behind a number of such a call."""
    trap = Width(program.machine).trap.word
    found = []
    for span in program.code:
        home = next(
            s for s in program.segments if s.address <= span.start < s.address + len(s.data)
        )
        data = home.data[span.start - home.address : span.end - home.address]
        words = struct.unpack(f">{len(data) // 4}I", data)
        for index, word in enumerate(words):
            if word == trap and set(EXIT_CALLS) & set(words[max(index - 6, 0) : index]):
                found.append(span.start + 4 * index)
    return found


def instrumented(path: Path, target: Path, size: int) -> Sequence[Range]:
    """Write `path` with a start and an end, and return where these are; its code is left there."""
    program = elf.load(path)
    items = runtime.runtime_items(program.machine, memory_of(program), HEADER)
    room = find_room(program, size)
    assert room is not None
    code = assemble(items, room + HEADER_ROOM, {runtime.ENTRY: program.entry})
    patches = {
        address: link(asm.branch("a", runtime.EXIT, annul=True), address, code.labels).word
        for address in ends(program)
    }
    data = (bytes(HEADER_ROOM) + code.code).ljust(size, b"\0")
    target.write_bytes(
        extend(
            path.read_bytes(), program, patches, room, data, code.labels[runtime.START], code.labels
        )
    )
    target.chmod(0o755)
    return tuple(runtime.spans(code.labels).values())


def frames_in(file: bytes, is64: bool) -> int:
    """Return how many words of the stack a counter file without regions has."""
    assert file.startswith(HEADER) and file.endswith(b"simprof\n")
    count = int.from_bytes(file[len(HEADER) : len(HEADER) + 4], "big")
    assert len(file) == len(HEADER) + 8 + count * (8 if is64 else 4) + 8
    return count


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.toolchain
@pytest.mark.parametrize(("size", "width"), turns([0x4000, 0x40000, 0x180000], ["v9", "v8plus"]))
def test_a_program_sees_no_difference(
    compile_c: Compile, width: str, size: int, tmp_path: Path
) -> None:
    """But that its heap begins later where the new segment is its last one."""
    path, target = tmp_path / "original", tmp_path / "extended"
    path.write_bytes(compile_c(HEAP, width=width).read_bytes())
    path.chmod(0o755)
    places = instrumented(path, target, size)
    program = elf.load(path)
    is_last = max(s.address for s in elf.load(target).segments) > program.segments[-1].address
    root = tmp_path / "root"
    root.mkdir()

    def here(path: Path) -> tuple[int, bytes, int, int]:
        output = bytearray()
        host = Host(root, writable=root, program=path, stdin=b"", stdout=output, stderr=output)
        strings = [f"{k}={v}".encode() for k, v in reversed(ENVIRONMENT.items())]
        machine = Machine(elf.load(path), host=host, argv0=b"program", environment=strings)
        counts = [machine.count_in(span) for span in places]
        result = machine.run()
        within = sum(count.instructions for count in counts)
        return result.status, bytes(output), result.instructions, within

    def under_qemu(path: Path) -> tuple[int, bytes, int, int]:
        done = qemu.trace(path, environment=ENVIRONMENT, directory=root)
        within = sum(
            span.start <= address < span.end for address in done.pc.tolist() for span in places
        )
        return done.run.status, done.run.output + done.run.errors, done.instructions, within

    for run in (here, under_qemu):
        plain, result = run(path), run(target)
        frames = frames_in((root / "file").read_bytes(), program.is64)
        assert frames > 4
        (root / "file").unlink()
        assert result[0] == plain[0] == 3
        assert result[2] == plain[2] + result[3]
        if is_last:
            assert result[1][:-4] == plain[1][:-4]
            assert result[1][-4:] > plain[1][-4:]
        else:
            assert result[1] == plain[1]


POSITION_INDEPENDENT = """
    .text
    .align 8
    .globl _start
_start:
    mov 1, %%g1
    mov 7, %%o0
    ta %s
    nop
"""


@pytest.mark.qemu
@pytest.mark.toolchain
@pytest.mark.parametrize(("width", "trap"), [("v9", "0x6d"), ("v8plus", "0x10")])
def test_a_position_independent_program(
    compile_c: Compile, width: str, trap: str, tmp_path: Path
) -> None:
    """Nothing in start and end depends on where the program lies."""
    flags = ("-pie", "-nostdlib", "-Wl,--no-dynamic-linker")
    path = compile_c(POSITION_INDEPENDENT % trap, flags, width, "asm", False)
    program, target = elf.load(path), tmp_path / "extended"
    assert program.load_bias
    assert runtime.original_auxiliary(program) == ()
    instrumented(path, target, 0x4000)
    output = bytearray()
    if program.is64:  # in the other width simprof loads such programs where the counters lie
        host = Host(tmp_path, writable=tmp_path, stdin=b"", stdout=output, stderr=output)
        assert Machine(elf.load(target), host=host).run().status == 7
        assert frames_in((tmp_path / "simprof.out").read_bytes(), program.is64) == 1
        (tmp_path / "simprof.out").unlink()
    run = qemu.run(target, directory=tmp_path)
    assert (run.status, run.errors, bytes(output)) == (7, b"", b"")
    assert frames_in((tmp_path / "simprof.out").read_bytes(), program.is64) == 1
