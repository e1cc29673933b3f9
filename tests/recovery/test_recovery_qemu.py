"""Every instruction that qemu-user executes follows an edge of the recovered graphs.

The log of `qemu -singlestep` is an execution by another emulator, one line an instruction. What
only a run can show is collected from it as `Discoveries`; with those, nothing may be left over.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simprof.profiler.graphs.cfg import ENTRIES, EdgeKind
from simprof.profiler.recovery.check import validate
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs, recover
from simprof.simulator.binary.elf import load
from simprof.simulator.isa.decode import IS_CALL, TransferKind
from tests.support.turns import in_step

EMULATOR = {"v9": "qemu-sparc64", "v8plus": "qemu-sparc32plus"}
TRACE = re.compile(rb"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", re.MULTILINE)

C = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
static jmp_buf buffer;
struct triple { long a, b, c; };
__attribute__((noinline)) struct triple make(long x) { return (struct triple){x, x * 2, x * 3}; }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) int classify(int x) {
    switch (x) {
    case 0: return 11; case 1: return 7; case 2: return 19; case 3: return puts("three");
    case 4: return 2; case 5: return 23; case 6: return puts("six"); case 9: return 5;
    }
    return -1;
}
__attribute__((noinline)) int jump(int n) {
    static void *const labels[] = {&&a, &&b, &&c};
    int sum = 0;
    goto *labels[n % 3];
a:  sum += 1;
b:  sum += 2;
c:  sum += 4;
    return sum;
}
int main(int argc, char **argv) {
    int values[40], total = 0;
    for (int i = 0; i < 40; i++) values[i] = (i * 37) % 41;
    qsort(values, 40, sizeof *values, compare);
    for (int i = -1; i < 12; i++) total += classify(i) + jump(i + 1);
    if (setjmp(buffer) == 0) longjmp(buffer, 1);
    char text[300], copy[300];
    for (int i = 1; i < 300; i += 13) {
        memset(text, i, i); memcpy(copy, text, i); total += memcmp(text, copy, i);
    }
    struct triple t = make(argc);
    printf("%d %g %s %ld\\n", total, 1.5 * argc, "text", t.a + t.b + t.c);
    exit(total & 1);
}
"""

CPP = """
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>
static int check(int x) { if (x % 3 == 2) throw std::runtime_error("two"); return x; }
int main() {
    std::vector<std::string> words;
    int total = 0;
    for (int i = 0; i < 9; i++) {
        try { total += check(i); } catch (const std::exception &e) { words.push_back(e.what()); }
    }
    printf("%d %zu\\n", total, words.size());
}
"""

FORTRAN = """
program f
  real(8) :: x
  integer :: i
  x = 0
  do i = 1, 20
    x = x + sqrt(real(i, 8))
  end do
  write (*, '(a,f12.6)') 'sum ', x
end program
"""


def executed(binary: Path, width: str, log: Path) -> list[int]:
    """Addresses of the instructions that qemu executes, retried ones once."""
    command = [EMULATOR[width], "-singlestep", "-d", "exec,nochain", "-D", str(log), str(binary)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, timeout=100)
    addresses = [int(match, 16) for match in TRACE.findall(log.read_bytes())]
    return [a for i, a in enumerate(addresses) if i == 0 or a != addresses[i - 1]]


class Follower:
    """Follows a log through the graphs, one block at a time, and notes what it misses."""

    def __init__(self, recovered: ProgramGraphs) -> None:
        self.recovered = recovered
        self.entries: set[int] = set()
        self.returns: set[int] = set()
        self.missing: list[tuple[int, int]] = []
        for graph in recovered.routines:
            for edge in graph.edges:
                if edge.kind in ENTRIES:
                    self.entries.add(graph.blocks[edge.target].start)
                elif edge.kind is EdgeKind.CALL_RETURN:
                    self.returns.add(graph.blocks[edge.target].start)

    def follow(self, log: list[int]) -> None:
        position = 0
        while position < len(log):
            position = self._block(log, position)

    def _block(self, log: list[int], position: int) -> int:
        address = log[position]
        if any(address in span for span in self.recovered.code.deferred):
            while position < len(log) and log[position] not in self.entries:
                position += 1
            return position
        number = self.recovered.block_starting_at(address)
        assert number >= 0, hex(address)
        routine = self.recovered.routine_of_block(number)
        graph = self.recovered.routines[routine]
        block = graph.blocks[number - int(self.recovered.first_block[routine])]
        while True:
            expected = list(range(block.start, block.end, 4))
            ran = log[position : position + len(expected)]
            assert ran == expected[: len(ran)], (hex(block.start), graph.name)
            position += len(expected)
            if position >= len(log):
                return position
            following = log[position]
            edges = [graph.edges[edge] for edge in graph.out_edges[block.id]]
            slots = [e for e in edges if e.kind is EdgeKind.SLOT]
            if (
                slots
                and following == graph.blocks[slots[0].target].start
                and self._took_slot(log, position, block.end)
            ):
                block = graph.blocks[slots[0].target]
                continue
            inside = {graph.blocks[e.target].start for e in edges if e.target < graph.entry}
            kinds = {edge.kind for edge in edges}
            if EdgeKind.CALL_RETURN in kinds:
                legal = following in self.entries
            else:
                leaves = following in self.entries or following in self.returns
                legal = following in inside or (EdgeKind.EXIT in kinds and leaves)
                # setcontext, how 64-bit longjmp ends, goes to any block
                legal |= block.end - 4 in self.recovered.no_return_calls
            if not legal and not any(following in s for s in self.recovered.code.deferred):
                self.missing.append((block.end - 8, following))
                return self._resync(log, position)
            return position

    def _took_slot(self, log: list[int], position: int, end: int) -> bool:
        """The slot block is taken unless the code behind the slot is where we are."""
        return log[position] == end

    def _resync(self, log: list[int], position: int) -> int:
        while position < len(log) and self.recovered.block_starting_at(log[position]) < 0:
            position += 1
        return position


def discoveries(recovered: ProgramGraphs, missing: list[tuple[int, int]]) -> Discoveries:
    """What the missing transfers teach.

    Jumps first: while code behind one is unknown, returns into that code look like entries.
    """
    kinds = {
        (at, target): TransferKind(int(recovered.code.transfers.kind[recovered.code.index(at)]))
        for at, target in missing
    }
    jumps = {pair for pair, kind in kinds.items() if kind is TransferKind.JUMP}
    if jumps:
        assert {at for at, _ in jumps} <= set(recovered.unresolved_jumps)
        return Discoveries(indirect_targets=frozenset(jumps))
    for (at, target), kind in kinds.items():
        returns = kind in (TransferKind.RETURN, TransferKind.RETURN_JUMP)
        assert returns or IS_CALL[kind], (hex(at), kind, hex(target))
    return Discoveries(entries=frozenset(target for _, target in kinds))


def runs() -> Iterator[object]:
    levels = [("-O2", "-s"), ("-O0",), ("-O2",), ("-O3", "-fno-pic"), ("-Os", "-fPIC")]
    for number, (flags, width) in enumerate(in_step(levels, EMULATOR)):
        yield pytest.param("c", C, width, flags, marks=[pytest.mark.long] if number else [])
    for width in EMULATOR:
        yield pytest.param("fortran", FORTRAN, width, ("-O2",), marks=pytest.mark.long)
    yield pytest.param("c++", CPP, "v9", ("-O2", "-s"), marks=pytest.mark.long)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(("language", "source", "width", "flags"), list(runs()))
def test_execution_follows_edges(
    language: str,
    source: str,
    width: str,
    flags: tuple[str, ...],
    compile_c: Callable[..., Path],
    tmp_path: Path,
) -> None:
    binary = compile_c(source, flags=flags, width=width, language=language)
    log = executed(binary, width, tmp_path / "log")
    assert len(log) > 10_000
    program = load(binary)
    known = Discoveries()
    for _ in range(6):
        recovered = recover(program, known)
        follower = Follower(recovered)
        follower.follow(log)
        if not follower.missing:
            break
        known = known.merged(discoveries(recovered, follower.missing))
    assert not follower.missing
    validate(recovered)
    executed_at = set(log)
    assert not executed_at & {address for address, _ in recovered.irregular}
    if "-s" not in flags and language != "c++":
        assert len(known.indirect_targets) < 40
