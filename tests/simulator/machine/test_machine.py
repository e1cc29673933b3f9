"""The machine: real programs in both widths, faults, signals, budgets, code it must refuse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simprof.simulator import stopping
from simprof.simulator.binary.elf import load
from simprof.simulator.cpu.cpu_state import SYSTEM_PAGE
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import Limits, RunResult
from tests.support.turns import first, turns

PROGRAMS = Path(__file__).parents[2] / "programs"
WIDTHS = pytest.mark.parametrize("width", ["v9", "v8plus"])
pytestmark = pytest.mark.toolchain
Compile = Callable[..., Path]


def run(
    path: Path, arguments: Sequence[str] = (), bare: bool = False, **options: Any
) -> tuple[RunResult, bytes]:
    """Run a program on a machine of its own; return what happened and its output."""
    output = bytearray()
    host = Host(path.parent, program=path, stdin=b"", stdout=output, stderr=output)
    machine = Machine(load(path), arguments=[a.encode() for a in arguments], host=host, **options)
    return machine.run(bare=bare), bytes(output)


@pytest.fixture
def compile_file(compile_c: Compile) -> Compile:
    def build(name: str, width: str) -> Path:
        return compile_c((PROGRAMS / f"{name}.c").read_text(), ("-O1", "-g"), width)

    return build


SIGNALS_OUTPUT = b"""\
sig 11 code 1 addr data
sig 11 code 1 addr data
sig 10 code 1 addr data
sig 8 code 1 addr pc
sig 4 code 1 addr pc
sig 5 code 1 addr pc
sig 4 code 4 addr pc
sig 7 code 1 addr pc
sig 8 code 3 addr pc
fixed 42 1
skipped 5 1
slot 6 1
overflow on alt 1
after 1
overflow on alt 1
again 2
outer 30
inner 31
outer end
blocked
inner 31
unblocked
inner 31
reset 1
"""


@pytest.mark.parametrize(("width", "windows"), turns(["v9", "v8plus"], [3, 8, 32]))
def test_signals_are_delivered_and_return(compile_c: Compile, width: str, windows: int) -> None:
    path = compile_c((PROGRAMS / "signals.c").read_text(), ("-O1", "-lm"), width)
    result, output = run(path, windows=windows, limits=Limits(memory=64 << 20))
    assert output == SIGNALS_OUTPUT
    assert (result.status, result.reason, result.signal) == (128 + 31, "signal", 31)


@WIDTHS
def test_no_fault_loads_read_zero(compile_file: Compile, width: str) -> None:
    result, output = run(compile_file("no_fault", width))
    valid = b"11223344 11 55667788 4433 1.27953e-28 3.84141e-226 11223345\n"
    assert output == valid + b"0 0 0 0 0 0 1\n" + valid
    assert result.status == 0


FAULTS = [
    ("read", 11, "read from unmapped address 0x18"),
    ("write", 11, "write to unmapped address 0x18"),
    ("constant", 11, "write to protected address"),
    ("null", 11, "jump to unmapped address 0x0"),
    ("unaligned", 10, "unaligned access"),
    ("divide", 8, "integer division by zero"),
    ("illegal", 4, "illegal instruction 0x00000000"),
    ("fmadd", 4, "fused multiply-add (FMAF)"),
    ("trap", 4, "software trap 0x5"),
    ("breakpoint", 5, "breakpoint trap"),
    ("privileged", 4, "privileged instruction"),
    ("stack", 11, "unmapped address"),
]


@pytest.mark.parametrize(("fault", "width"), turns(FAULTS, ["v9", "v8plus"]))
def test_faults_end_as_on_linux(
    compile_file: Compile, width: str, fault: tuple[str, int, str]
) -> None:
    name, number, text = fault
    path = compile_file("faults", width)
    result, _ = run(path, [name], limits=Limits(memory=64 << 20))
    assert (result.status, result.reason, result.signal) == (128 + number, "fault", number)
    assert result.fault is not None
    assert text in result.fault.description
    assert result.fault.pc == result.last_pc
    symbols = {s.name: s for s in load(path).symbols}
    home = symbols["recurse" if name == "stack" else "main"]
    if name != "null":
        assert home.address <= result.fault.pc < home.address + home.size


@WIDTHS
@pytest.mark.parametrize(("name", "number"), [("abort", 6), ("kill", 9)])
def test_sent_signals_end_the_run(
    compile_file: Compile, width: str, name: str, number: int
) -> None:
    result, _ = run(compile_file("faults", width), [name])
    assert (result.status, result.reason, result.signal) == (128 + number, "signal", number)
    assert result.fault is None


@WIDTHS
def test_code_that_the_program_generates_is_executed(compile_file: Compile, width: str) -> None:
    result, _ = run(compile_file("faults", width), ["generate"])
    assert (result.status, result.reason) == (5, "exit")


@WIDTHS
def test_a_program_that_changes_its_code_is_refused(compile_file: Compile, width: str) -> None:
    with pytest.raises(UnsupportedError, match="changes its own code") as caught:
        run(compile_file("faults", width), ["modify"])
    assert "\n" not in str(caught.value)


@WIDTHS
def test_rewriting_code_with_itself_is_allowed(compile_file: Compile, width: str) -> None:
    result, _ = run(compile_file("faults", width), ["same"])
    assert (result.status, result.reason) == (4, "exit")


@WIDTHS
@pytest.mark.parametrize("budget", [0, 1, 1000, 5000])
def test_the_instruction_budget_is_not_passed(
    compile_file: Compile, width: str, budget: int
) -> None:
    result, _ = run(compile_file("faults", width), ["loop"], limits=Limits(budget))
    assert (result.status, result.reason) == (124, "budget")
    assert budget - 512 <= result.instructions <= budget


@WIDTHS
def test_the_timeout_stops_a_loop(compile_file: Compile, width: str) -> None:
    result, _ = run(compile_file("faults", width), ["loop"], limits=Limits(timeout=0.3))
    assert (result.status, result.reason) == (124, "timeout")
    assert 0.3 <= result.seconds < 0.8
    assert result.instructions > 100_000


@pytest.fixture
def handled() -> Iterator[None]:
    """Handle signals as the command does."""
    numbers = (signal.SIGINT, *stopping.ENDING)
    before, unraisable = {each: signal.getsignal(each) for each in numbers}, sys.unraisablehook
    stopping.handle()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    sys.unraisablehook = unraisable
    stopping._asked.clear()  # the command would have ended


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize(
    "number", first(2, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
)
def test_a_signal_stops_the_run_and_its_handler_comes_back(
    compile_file: Compile, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    # What is loaded at the first run may take longer than the timer, and the signal would come
    # before a run that it could stop.
    run(compile_file("faults", "v9"), ["loop"], limits=Limits(10_000))
    timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
    timer.start()
    started = time.perf_counter()
    result, _ = run(compile_file("faults", "v9"), ["loop"], limits=Limits(timeout=20))
    timer.join()
    assert (result.status, result.reason, result.signal) == (128 + number, "interrupted", number)
    assert time.perf_counter() - started < 10
    assert signal.getsignal(number) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


@pytest.mark.usefixtures("handled")
def test_signals_that_are_ignored_or_others_stop_no_run(compile_file: Compile) -> None:
    seen: list[int] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    stopping.handle()
    timers = [
        threading.Timer(0.1, os.kill, (os.getpid(), number))
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    ]
    for timer in timers:
        timer.start()
    result, _ = run(compile_file("faults", "v9"), ["loop"], limits=Limits(timeout=0.4))
    for timer in timers:
        timer.join()
    assert (result.status, result.reason) == (124, "timeout")
    assert seen == [signal.SIGTERM]


DEEP = """
#include <stdio.h>
__attribute__((noinline)) long down(long n)
{ volatile long x = n; return n ? 1 + down(n - 1) + (x - n) : 0; }
int main(void) { printf("%ld\\n", down(100000)); return 0; }
"""


@pytest.mark.parametrize(("width", "windows"), turns(["v9", "v8plus"], [3, 8, 32]))
def test_a_hundred_thousand_frames(compile_c: Compile, width: str, windows: int) -> None:
    result, output = run(compile_c(DEEP, width=width), windows=windows)
    assert output == b"100000\n"
    assert result.spills > 90_000 and result.fills > 90_000


@pytest.mark.long
@WIDTHS
def test_windows_change_no_count_where_nothing_stale_is_read(
    compile_c: Compile, width: str
) -> None:
    path = compile_c(DEEP, width=width)
    assert len({run(path, windows=windows)[0].instructions for windows in (3, 5, 32)}) == 1


def test_a_bare_run_does_the_same(compile_c: Compile) -> None:
    path = compile_c('#include <stdio.h>\nint main(void) { puts("bare"); return 7; }\n')
    result, output = run(path, bare=True)
    assert (result.status, output, result.instructions) == (7, b"bare\n", 0)


V8 = """
        .section .text
        .global _start
_start: save  %sp, -96, %sp
        set   message, %o1
        mov   1, %o0
        mov   6, %o2
        mov   4, %g1
        ta    0x10
        call  depth
        mov   40, %o0
        mov   1, %g1
        ta    0x10
depth:  save  %sp, -96, %sp
        cmp   %i0, 0
        be    1f
        mov   0, %l0
        call  depth
        sub   %i0, 1, %o0
        add   %o0, 1, %l0
1:      ret
        restore %l0, 0, %o0
        .align 4
message: .ascii "plain\\n"
"""


@pytest.mark.parametrize("windows", [3, 8])
def test_plain_v8_with_restores_in_delay_slots(compile_c: Compile, windows: int) -> None:
    flags = ("-nostdlib", "-fno-pic")
    path = compile_c(V8, flags, width="v8", language="asm")
    result, output = run(path, windows=windows)
    assert (result.status, output) == (40, b"plain\n")
    assert result.instructions == 9 + 2 + 40 * 9 + 6


def test_a_window_trap_that_two_instructions_may_have_made(compile_c: Compile) -> None:
    """`restore; T: ...; ba T; restore`: npc alone does not tell the two restores apart."""
    source = """
        .global _start
_start: mov   6, %l0
1:      save  %sp, -96, %sp
        mov   1, %g4
        deccc %i0
        cmp   %g5, 6
        bne   1b
        inc   %g5
        ba    2f
        mov   0, %g6
        nop
2:      restore
3:      inc   %g6
        cmp   %g6, 5
        bne   3b
        restore
        mov   1, %g1
        ta    0x6d
"""
    path = compile_c(source, ("-nostdlib",), language="asm")
    result, _ = run(path, windows=3)
    assert (result.status, result.reason, result.instructions) == (255, "exit", 68)


COUPLE = """
        .global _start
_start: add   %sp, 2047, %o0
        mov   4, %o3
        mov   3, %o2
        BEFORE
1:      FIRST
2:      subcc %o2, 1, %o2
        BETWEEN
        bne   2b
        LAST
        mov   1, %g1
        ta    0x6d
"""


def couple(before: str, first: str, between: str, last: str) -> str:
    """A loop as compilers make them: its first instruction is in the delay slot, too."""
    source = COUPLE.replace("BEFORE", before).replace("FIRST", first)
    return source.replace("BETWEEN", between).replace("LAST", last)


@pytest.mark.parametrize(
    ("before", "instruction", "between"),
    [
        ("add %o0, 1, %o0", "ld [%o0 + 4], %o1", "nop"),
        ("add %o0, 2, %o0", "ld [%o0], %o1", "add %o0, 4, %o0"),
        ("add %o0, 6, %o0", "ldx [%o0 + %o3], %o1", "subcc %o0, -8, %o0"),
        ("mov 0, %o3", "sdivx %o2, %o3, %o1", "nop"),
        ("add %o0, 1, %o0", "st %o1, [%o0]", "mov 9, %o1"),
    ],
)
def test_the_first_of_two_that_would_trap_alike_has(
    compile_c: Compile, before: str, instruction: str, between: str
) -> None:
    source = couple(before, instruction, between, instruction)
    path = compile_c(source, ("-nostdlib",), language="asm")
    result, _ = run(path)
    assert result.reason == "fault" and result.fault is not None
    assert (result.instructions, result.fault.pc) == (4, load(path).entry + 16)


@pytest.mark.parametrize(
    ("before", "instruction", "between", "executed"),
    [
        ("nop", "ld [%o0], %o1", "add %o0, 1, %o0", 8),
        ("nop", "ld [%o0], %o1", "or %o0, 1, %o0", 8),
        ("or %o0, 1, %o1; stx %o1, [%o0]", "ldx [%o0], %o0", "nop", 9),
    ],
)
def test_the_second_of_two_that_would_trap_alike_has(
    compile_c: Compile, before: str, instruction: str, between: str, executed: int
) -> None:
    source = couple(before, instruction, between, instruction)
    path = compile_c(source, ("-nostdlib",), language="asm")
    result, _ = run(path)
    assert result.reason == "fault" and result.fault is not None
    assert (result.instructions, result.fault.pc) == (executed, load(path).entry + 4 * executed)


DOUBLES = PROGRAMS / "exact" / "doubles.c"
ARCHITECTURES = {"v9": "-Wa,-Av9a", "v8plus": "-Wa,-Av8plusa"}
QUADS = b"""\
quad at 2: 00000000 00000000 00000000 00000000, 4a02b908 signal 10 at 2
quad at 8188: 00000000 00000000 00000000 00000000, 4a02b908 signal 11 at 8192
quad at 8188: 00000000 00000000 00000000 00000000, 4a02b908 signal 11 at 8192
quad at 8196: 00000000 00000000 00000000 00000000, 4a02b908 signal 11 at 8196
quad at 4: d4389708 00000000 00000000 00000000, 4a02b908
quad at 8188: d4389708 00000000 00000000 00000000, 4a02b908
quad at 8180: d4389708 00000000 00000000 00000000, 4a02b908
"""


@WIDTHS
@pytest.mark.qemu
def test_doubles_are_stored_at_multiples_of_four(compile_c: Compile, width: str) -> None:
    """The emulator's 32-bit form does not leave handlers by longjmp: the other one is asked."""
    path, asked = (compile_c(DOUBLES, ("-O1", ARCHITECTURES[each]), each) for each in (width, "v9"))
    command = ["qemu-sparc64", str(asked), "all", "faults"]
    done = subprocess.run(command, env={}, capture_output=True, check=True)
    assert done.stdout.count(b"signal") == 58
    result, output = run(path, ["all", "faults"])
    assert (output.decode(), result.status) == (done.stdout.decode(), 0)


@WIDTHS
def test_quads_are_stored_at_multiples_of_four(compile_c: Compile, width: str) -> None:
    path = compile_c(DOUBLES, ("-O1", ARCHITECTURES[width]), width)
    result, output = run(path, ["quad", "faults"])
    assert (output, result.status) == (QUADS, 0)


@pytest.mark.qemu
@WIDTHS
def test_instruction_counts_agree_with_qemu(compile_c: Compile, width: str, tmp_path: Path) -> None:
    path = compile_c(
        '#include <stdio.h>\nint main(void) { printf("%d\\n", 42); return 0; }\n', width=width
    )
    emulator = {"v9": "qemu-sparc64", "v8plus": "qemu-sparc32plus"}[width]
    log = tmp_path / "log"
    command = [emulator, "-singlestep", "-d", "exec,nochain", "-D", str(log), str(path)]
    done = subprocess.run(command, env={}, capture_output=True, check=True)
    steps = [line[line.index("[") :] for line in log.read_text().splitlines() if "Trace" in line]
    positions = [tuple(step[1:].split("/")[:2]) for step in steps]
    repeats = sum(a == b for a, b in pairwise(positions))
    result, output = run(path)
    assert output == done.stdout
    assert result.instructions == len(positions) - repeats


WILD = """
#include <stdint.h>
#include <stdlib.h>
volatile int sink;
int main(int count, char **words)
{
    uintptr_t address = strtoull(words[2], 0, 0);
    switch (words[1][0]) {
    case 'j': ((void (*)(void))address)(); break;
    case 'r': sink = *(volatile int *)address; break;
    case 'w': *(volatile int *)address = 1; break;
    }
    return 0;
}
"""


@pytest.mark.parametrize("address", [1 << 40, 1 << 44, 1 << 51, 0xDEADBEEFDEADBEE8, (1 << 64) - 8])
@pytest.mark.parametrize(
    ("kind", "text"), [("j", "jump to"), ("r", "read from"), ("w", "write to")]
)
def test_wild_addresses(compile_c: Compile, kind: str, text: str, address: int) -> None:
    result, _ = run(compile_c(WILD), (kind, hex(address)))
    assert (result.status, result.reason) == (139, "fault")
    assert result.fault is not None
    assert result.fault.address == address
    assert result.fault.description == f"{text} unmapped address {address:#x}"
    assert (result.fault.origin is not None) == (kind == "j")


@pytest.mark.parametrize("kind", ["r", "w"])
def test_the_machines_own_page_is_out_of_reach(compile_c: Compile, kind: str) -> None:
    result, _ = run(compile_c(WILD), (kind, hex(SYSTEM_PAGE)))
    assert (result.status, result.reason) == (139, "fault")


@WIDTHS
@pytest.mark.parametrize(("wish", "status"), [("64", 139), ("128", 0), ("4000", 0)])
def test_a_stack_grows_with_its_limit(
    compile_file: Compile, width: str, wish: str, status: int
) -> None:
    """100 MB are used, of 64 at the start; the limit says 8. There are at most 256 MB."""
    result, output = run(compile_file("stack_limit", width), [wish])
    assert result.status == status
    assert output == b"8\n0\n" + (b"" if status else b"100\n")
