"""Liveness against execution: dead registers are filled with garbage and nothing changes.

Whenever a real program enters a basic block, every register that liveness calls dead there gets a
random value. Output, exit status and instruction count must stay what they were.
"""

from __future__ import annotations

import ctypes
import random
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.recovery.recovery import recover
from simprof.simulator.binary.elf import load
from simprof.simulator.cpu.cpu import HookKind
from simprof.simulator.isa.assembler import Register
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import Limits
from tests.support.turns import first

SOURCE = r"""
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static jmp_buf mark;
static __attribute__((noinline)) int tiny(int a, int b) { return a * 3 + b; }
static __attribute__((noinline)) long mix(long a, long b, long c) { return a > b ? a - c : b ^ c; }
static __attribute__((noinline)) void jump(int n) { if (n > 3) longjmp(mark, n); jump(n + 1); }
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static __attribute__((noinline)) int choose(int x) {
    switch (x % 9) {
    case 0: return 5;
    case 1: return x * 2;
    case 2: return x - 7;
    case 3: return x ^ 3;
    case 4: return 11;
    case 5: return x / 3;
    case 6: return x << 1;
    default: return -x;
    }
}
int main(int argc, char **argv) {
    int a[40], sum = 0, chosen = 0;
    unsigned s = 7;
    for (int i = 0; i < 40; i++) { s = s * 1103515245u + 12345u; a[i] = (int)(s >> 8) % 1000; }
    qsort(a, 40, sizeof *a, order);
    for (int i = 0; i < 30; i++) { sum += tiny(i, sum) + mix(sum, i, 30) + (sum >> 3) * 30; }
    for (int i = 0; i < 20; i++) chosen += choose(i * i);
    printf("%d %d %d %.6f %Lg\n", a[3], sum, chosen, sqrt(2.0) * exp(argc), 1.5L / argc);
    if (!setjmp(mark)) jump(0); else puts("back");
    char *p = strdup(argv[0]);
    printf("%zu %lld\n", strlen(strchr(p, 'x')), 1234567890123LL / (argc + 6));
    return 3;
}
"""

BlockHook = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p
)


class Spoiler:
    """Fills dead registers of a machine at every block that recovery knows."""

    def __init__(self, machine: Machine, also: int = 0) -> None:
        self._cpu = machine.cpu
        self._recovered = recover(machine.program)
        self._contexts = ProgramContexts(self._recovered)
        self._dead: dict[int, list[Register]] = {}
        self._rng = random.Random(1)
        self._also = also
        self.spoiled = 0
        self._hook = BlockHook(self._on_block)
        machine.cpu.add_hook(HookKind.BLOCK, ctypes.cast(self._hook, ctypes.c_void_p).value or 0, 0)

    def _on_block(self, _engine: int, address: int, _size: int, _data: int) -> None:
        index = (address - self._recovered.code.base) >> 2
        known = 0 <= index < len(self._recovered.block_at)
        if not known or self._cpu.state.npc != address + 4:
            return
        block = int(self._recovered.block_at[index])
        if block < 0:
            return
        for register in self._dead_at(block):
            self._cpu.set_register(register, self._rng.getrandbits(30) | 1 << 30)
            self.spoiled += 1

    def _dead_at(self, block: int) -> list[Register]:
        if block not in self._dead:
            first = self._recovered.first_block
            routine = bisect_right(first, block) - 1
            context = self._contexts.of(routine)
            base = int(first[routine])
            for number in range(len(self._recovered.routines[routine].blocks)):
                live = context.before(number, 0).live & ~self._also
                order = context.abi.temporaries
                self._dead[base + number] = [r for r in order if not live >> r & 1]
        return self._dead[block]


def run(path: Path, spoil: bool, also: int = 0) -> tuple[tuple[str, int, int, bytes], int]:
    """Run a program; return what can be seen of it, and how many registers were spoiled."""
    output = bytearray()
    host = Host(path.parent, stdin=b"", stdout=output, stderr=output)
    limits = Limits(max_instructions=2_000_000)
    machine = Machine(load(path), host=host, limits=limits, argv0=b"box")
    spoiler = Spoiler(machine, also) if spoil else None
    result = machine.run()
    seen = (result.reason, result.status, result.instructions, bytes(output))
    return seen, 0 if spoiler is None else spoiler.spoiled


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("width", "flags"),
    first(2, [("v9", "-O2"), ("v8plus", "-Os"), ("v9", "-O3"), ("v9", "-O0"), ("v8plus", "-O2")]),
)
def test_garbage_in_dead_registers_changes_nothing(
    compile_c: Callable[..., Path], width: str, flags: str
) -> None:
    path = compile_c(SOURCE, flags=(flags, "-lm"), width=width)
    plain, _ = run(path, spoil=False)
    spoiled, registers = run(path, spoil=True)
    assert plain[0] == "exit"
    assert spoiled == plain
    assert registers > 20_000


@pytest.mark.long
@pytest.mark.toolchain
def test_garbage_in_a_live_register_does_change_it(compile_c: Callable[..., Path]) -> None:
    """The test above can fail: what it writes does reach the program."""
    path = compile_c(SOURCE, flags=("-O2", "-lm"), width="v9")
    plain, _ = run(path, spoil=False)
    spoiled, _ = run(path, spoil=True, also=1 << Register.O0 | 1 << Register.L0)
    assert spoiled != plain
