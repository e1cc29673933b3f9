"""Instrumented programs that look at addresses: of the stack, of their callers, of their arguments;
and traps in delay slots.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.request.request import (
    ALL_ROUTINES,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
)
from simprof.profiler.rewriting import qemu
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.instrument import instrument_file
from simprof.profiler.rewriting.trials import TrialDirectory
from simprof.profiler.rewriting.verification import EMULATOR, QEMU, ObservedRun
from tests.support.turns import first
from tests.support.verifying import check_verified, verified

Compile = Callable[..., Path]
pytestmark = pytest.mark.toolchain
WIDTHS = ("v8plus", "v9")

LONG_JUMPS = """
#include <setjmp.h>
#include <stdio.h>
static jmp_buf place;
static int down(int n, int result) {
    volatile char kept[40];
    kept[0] = n;
    if (n == 0) longjmp(place, result);
    return down(n - 1, result) + kept[0];
}
int main(void) {
    int sum = 0;
    for (volatile int i = 1; i < 6; i++) {
        int result = setjmp(place);
        sum += result ? result : down(i * 7, i);
    }
    printf("%d\\n", sum);
}
"""


LENGTHS = {1: "bits", 700: "pp", 2600: "qpt2"}
"""Lengths of the argument, and a mode for each."""


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("length", "width"),
    first(1, zip(LENGTHS, ("v8plus", "v9", "v8plus"), strict=True)),
)
def test_longjmp_is_as_predicted(
    compile_c: Compile, tmp_path: Path, width: str, length: int
) -> None:
    """The 32-bit one compares the pages of frames, which the arguments move: it has most."""
    built = compile_c(LONG_JUMPS, ("-O1",), width=width)
    check_verified(verified(built, tmp_path, ["a" * length], modes=[LENGTHS[length]]))


BY_ADDRESS = """
int main(void) {
    volatile int here = 0;
    for (int i = (unsigned long)&here >> 8 & 15; i > 0; i--) here++;
    return 0;
}
"""


@pytest.mark.long
def test_control_flow_that_depends_on_addresses(compile_c: Compile, tmp_path: Path) -> None:
    result = verified(compile_c(BY_ADDRESS), tmp_path, modes=["qpt2"], ways=(EMULATOR,))
    (mode,) = result.modes
    assert not mode.differences
    assert mode.not_compared[0].startswith("control flow depends on addresses: the original exec")
    assert any("instructions were executed" in line for line in mode.not_compared)


LEAF_WITH_ARRAY = """
        .global _start
        .type _start, #function
_start: clr %fp
        sub %sp, 192, %sp
        mov 5, %o0
        call leaf
         mov 7, %o1
        mov 1, %g1
        ta 0x6d
         nop
        .size _start, .-_start
        .type leaf, #function
leaf:   add %sp, -3328, %sp
        mov 20, %g1
1:      stx %o1, [%sp + 2047 + 192]
        andcc %g1, 3, %g0
        bne 2f
         add %o1, 1, %o1
        add %o0, %o1, %o0
2:      subcc %g1, 1, %g1
        bne 1b
         nop
        retl
         add %sp, 3328, %sp
        .size leaf, .-leaf
"""


def test_leaves_whose_arrays_are_larger_than_an_offset(compile_c: Compile, tmp_path: Path) -> None:
    """No offset reaches the words above them that their callers keep: code lowers the stack."""
    built = compile_c(LEAF_WITH_ARRAY, ("-nostdlib",), language="asm")
    modes = ["calls", "fifo", "kiter", "qpt", "sampled"]
    result = verified(built, tmp_path, modes=modes, ways=(EMULATOR,))
    check_verified(result, (EMULATOR,))
    assert not any(mode.left for mode in result.modes)


PRINTS_ADDRESS = """
#include <stdio.h>
static int down(int n) {
    volatile char kept[40];
    kept[0] = n;
    return n ? down(n - 1) + kept[0] : (printf("%p\\n", (void *)kept), 0);
}
int main(void) { return down(5) & 0; }
"""


@pytest.mark.long
@pytest.mark.parametrize("width", WIDTHS)
def test_output_that_has_an_address(compile_c: Compile, tmp_path: Path, width: str) -> None:
    """Frames are larger under `kblpp`, which keeps words in them, and so lie elsewhere."""
    built = compile_c(PRINTS_ADDRESS, width=width)
    (kblpp,) = verified(built, tmp_path, modes=["kblpp"], ways=(EMULATOR,)).modes
    assert not kblpp.differences
    assert not kblpp.output_equal
    assert kblpp.not_compared[0].startswith("the output depends on addresses: the original prints")
    assert any("its standard output differs" in line for line in kblpp.not_compared)


def test_another_status_is_never_explained_by_addresses() -> None:
    original = ObservedRun(status=0, output="1", errors="", files={}, instructions=9)
    assert original.prints_otherwise(replace(original, output="2"))
    assert not original.prints_otherwise(original)
    assert not original.prints_otherwise(replace(original, output="2", status=139))
    assert not original.prints_otherwise(replace(original, output="2", files={"a": "1"}))


TRAPS = """
        .global _start
        .type _start, #function
_start: clr %fp
        sub %sp, 192, %sp
        mov 20, %g1
        ta TRAP
        mov %o0, %l0
        call FORM
         mov 5, %o0
        sub %o0, %l0, %o0
        mov 1, %g1
        ta TRAP
         nop
        .size _start, .-_start
        .type by_return, #function
by_return: mov 20, %g1
        retl
         ta TRAP
        .size by_return, .-by_return
        .type by_jump, #function
by_jump: mov 20, %g1
        add %o7, 8, %o5
        jmp %o5
         ta TRAP
        .size by_jump, .-by_jump
        .type by_branch, #function
by_branch: mov 20, %g1
        cmp %o0, 2
        be 1f
         ta TRAP
        retl
         add %o0, 0, %o0
1:      retl
         sub %o0, 1, %o0
        .size by_branch, .-by_branch
        .type by_call, #function
by_call: save %sp, -192, %sp
        mov 20, %g1
        call kept
         ta TRAP
        ret
         restore %o0, 0, %o0
        .size by_call, .-by_call
        .type kept, #function
kept:   cmp %o0, 0
        be 1f
         nop
        retl
         nop
1:      retl
         mov -1, %o0
        .size kept, .-kept
"""


@pytest.mark.parametrize("form", ["by_return", "by_jump", "by_branch", "by_call"])
@pytest.mark.parametrize(("width", "trap"), [("v9", "0x6d"), ("v8plus", "0x10")])
def test_a_trap_in_a_delay_slot(
    compile_c: Compile, tmp_path: Path, width: str, trap: str, form: str
) -> None:
    source = TRAPS.replace("TRAP", trap).replace("FORM", form)
    built = compile_c(source, ("-nostdlib",), width=width, language="asm")
    result = verified(built, tmp_path, modes=["pp", "qpt2"], ways=(EMULATOR,))
    check_verified(result, (EMULATOR,))
    assert result.ending.status == 0
    for mode in result.modes:
        reasons = {left.routine: left.reason for left in mode.left}
        assert reasons[form].endswith("is a trap")


CALLERS = """
#include <stdint.h>
#include <stdio.h>
static const void *seen[8];
static int count;
__attribute__((noinline)) static int place(void) {
    void *from = __builtin_return_address(0);
    for (int i = 0; i < count; i++) if (seen[i] == from) return i;
    seen[count] = from;
    return count++;
}
__attribute__((noinline)) static int one(int x) { return place() + x; }
__attribute__((noinline)) static int two(int x) { return place() * 2 + x; }
__attribute__((noinline)) static intptr_t further(void) {
    return (char *)__builtin_return_address(1) - (char *)one;
}
__attribute__((noinline)) static intptr_t by(intptr_t (*asked)(void)) { return asked() + 1; }
__attribute__((noinline)) static intptr_t own(void) {
    return (char *)__builtin_return_address(0) - (char *)one;
}
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < 9; i++) sum += one(i) + (i % 3 ? two(i) : 0);
    printf("%d %d %ld %ld %ld\\n", sum, count, (long)further(), (long)own(), (long)by(own));
}
"""


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v8plus"])
def test_return_addresses_are_the_originals(compile_c: Compile, tmp_path: Path, width: str) -> None:
    result = verified(compile_c(CALLERS, width=width), tmp_path, modes=["pp"])
    check_verified(result)
    assert result.modes[0].rewriting[Cause.CALLS] > 0


PROFILED = """
#include <stdio.h>
__attribute__((noinline)) int inner(int x) { return x * 3 + 1; }
__attribute__((noinline)) int outer(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += inner(i) & 1 ? inner(sum) : i;
    return sum;
}
int main(int argc, char **argv) { printf("%d %d %s\\n", outer(9), argc, argv[1]); return 0; }
"""


def arcs(data: bytes, word: str) -> dict[tuple[int, int], int]:
    """Return how often each call was made, of a file of gprof."""
    at, found = 20, {}
    histogram, arc = struct.Struct(f">{word}{word}II16s"), struct.Struct(f">{word}{word}I")
    while at < len(data):
        at += 1
        if data[at - 1] == 0:
            at += histogram.size + 2 * histogram.unpack_from(data, at)[2]
            continue
        *ends, count = arc.unpack_from(data, at)
        found[tuple(ends)] = count
        at += arc.size
    return found


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v9"])
def test_programs_for_gprof(compile_c: Compile, tmp_path: Path, width: str) -> None:
    """Their start calls a thunk before it makes room, and `_mcount` reads its callers' places."""
    built = compile_c(PROFILED, ("-O1", "-pg"), width=width)
    copy = tmp_path / "copy"
    copy.write_bytes(
        instrument_file(built, Setting("qpt2", "qpt2", SchemeOptions()), ALL_ROUTINES).file
    )
    copy.chmod(0o755)
    results = []
    for program in (built, copy):
        environment = {"SIMPROF_OUT": os.devnull}
        command = ["qemu-sparc64" if width == "v9" else "qemu-sparc32plus", program, "word"]
        done = subprocess.run(
            command, env=environment | {"PATH": os.environ["PATH"]}, cwd=tmp_path,
            capture_output=True, check=True,
        )  # fmt: skip
        profile = (tmp_path / "gmon.out").read_bytes()
        results.append((done.stdout, arcs(profile, "Q" if width == "v9" else "I")))
    assert results[0] == results[1]
    assert results[0][0].endswith(b" 2 word\n")
    assert len(results[0][1]) == 4  # main and outer are entered, and inner from two places


ENDLESS = 'int main(void) { for (;;) __asm__ volatile(""); }'
RUN = """
import sys
from pathlib import Path
from simprof.profiler.rewriting import qemu
from simprof.simulator.binary.program import MachineKind
qemu.run(Path(sys.argv[1]), MachineKind.SPARCV9, directory=Path("."), stdout=1, stderr=2)
"""


@pytest.mark.long
@pytest.mark.qemu
def test_qemu_ends_when_simprof_is_killed(compile_c: Compile, tmp_path: Path) -> None:
    program = compile_c(ENDLESS)
    with subprocess.Popen([sys.executable, "-c", RUN, program], cwd=tmp_path) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 60
        found: list[str] = []
        while not found and time.monotonic() < deadline:
            commands = {pid: Path("/proc", pid, "cmdline") for pid in children.read_text().split()}
            found = [pid for pid, line in commands.items() if b"qemu-sparc" in line.read_bytes()]
            time.sleep(0.05)
        assert found
        process.send_signal(signal.SIGKILL)
    while Path("/proc", found[0]).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path("/proc", found[0]).exists()


@pytest.mark.qemu
def test_qemu_has_a_limit_by_the_emulators_instructions(
    fixture_elf: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def run(*_: object, timeout: float, **__: object) -> qemu.QemuRun:
        given.append(timeout)
        return qemu.QemuRun(0, None, None)

    monkeypatch.setattr(qemu, "run", run)
    request = RunRequest(fixture_elf("switches", "v9"), GuestOptions(root=tmp_path))
    place = TrialDirectory(request, tmp_path / "place")
    executed = place.run(EMULATOR).instructions
    place.run(QEMU)
    assert executed
    assert given == [60 + 10 * executed / 20_000_000]
