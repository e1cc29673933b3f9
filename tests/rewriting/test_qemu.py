"""Runs under qemu-user: what they do to the outside, and how many instructions they execute."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from simprof.profiler.cli import run as command
from simprof.profiler.rewriting import qemu
from simprof.simulator.binary import elf
from simprof.simulator.binary.program import MachineKind, Range
from simprof.simulator.errors import EngineError, UnsupportedError
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from tests.conftest import FIXTURES
from tests.oracles import qemu as oracle
from tests.support.turns import first, in_step, turns

MACHINES = {
    "v8": MachineKind.SPARCV8,
    "v8plus": MachineKind.SPARCV8PLUS,
    "v9": MachineKind.SPARCV9,
}
WIDTHS = tuple(MACHINES)
FIXTURE_NAMES = sorted(path.stem for path in (FIXTURES / "bin" / "v9").glob("*.elf"))
LOGGED = ["calls", "nonlocal", "records", "signals", "switches_pic", "tailcalls"]
FAULTS = [
    "read", "write", "constant", "null", "unaligned", "divide", "illegal", "trap", "breakpoint",
    "privileged", "abort", "kill",
]  # fmt: skip
pytestmark = pytest.mark.qemu


def run(
    path: Path, width: str, directory: Path, *arguments: str, **options: object
) -> qemu.QemuRun:
    """Run `path` counted; what it writes goes to the files `out` and `err` of `directory`."""
    with (directory / "out").open("wb") as out, (directory / "err").open("wb") as err:
        return qemu.run(
            path,
            MACHINES[width],
            arguments=[os.fsencode(argument) for argument in arguments],
            directory=directory,
            stdout=out.fileno(),
            stderr=err.fileno(),
            **({"count": True} | options),  # type: ignore[arg-type]
        )


def standard_input(name: str) -> Path | None:
    path = FIXTURES / "input" / f"{name}.txt"
    return path if path.exists() else None


def simprofs(path: Path, source: Path | None, directory: Path) -> tuple[int, int]:
    """Return the program's status and instructions as simprof's own emulator has them."""
    result = directory / "result.json"
    given = ["--stdin", str(source or os.devnull), "--json", str(result), "--report", os.devnull]
    given += ["--argv0", str(path), "--exe", str(path.resolve())]  # as under qemu-user
    command(["run", str(path), "--mode", "edges", "--no-progress", *given])
    answer = json.loads(result.read_text())
    return answer["exit"]["status"], answer["instructions"]["base"]


@pytest.mark.long
@pytest.mark.parametrize(("name", "width"), first(5, in_step(FIXTURE_NAMES, WIDTHS)))
def test_count_is_simprofs(
    fixture_elf: Callable[..., Path], name: str, width: str, tmp_path: Path
) -> None:
    """`deep` has 400,000 window traps, `signals` 3 faults with handlers, `bench` 70 million."""
    path, source = fixture_elf(name, width), standard_input(name)
    found = run(path, width, tmp_path, stdin=source)
    assert (found.status, found.instructions) == simprofs(path, source, tmp_path)


@pytest.mark.parametrize(("name", "width"), turns(LOGGED, WIDTHS, few=3))
def test_count_is_the_logs(
    fixture_elf: Callable[..., Path], name: str, width: str, tmp_path: Path
) -> None:
    path, source = fixture_elf(name, width), standard_input(name)
    found = run(path, width, tmp_path, stdin=source)
    logged = oracle.trace(path, stdin=source.read_bytes() if source else b"")
    assert found == qemu.QemuRun(logged.run.status, None, logged.instructions)
    assert (tmp_path / "out").read_bytes() == logged.run.output


@pytest.mark.parametrize(("name", "width"), turns(["signals", "deep", "calls"], WIDTHS, few=3))
def test_counts_in_spans_are_the_logs(
    fixture_elf: Callable[..., Path], name: str, width: str, tmp_path: Path
) -> None:
    """`deep` has window traps everywhere, `signals` faults with handlers."""
    path, source = fixture_elf(name, width), standard_input(name)
    logged = oracle.trace(path, stdin=source.read_bytes() if source else b"")
    executed = logged.pc[logged.executed]
    low, size = int(executed.min()), int(executed.max()) + 4 - int(executed.min())
    borders = [low + (size * k // 32 & ~3) for k in (0, 3, 9, 13, 27, 32)]
    spans = [Range(*each) for each in zip(borders[::2], borders[1::2], strict=True)]
    found = run(path, width, tmp_path, stdin=source, spans=spans)
    assert found.within == logged_within(executed, spans) and any(found.within)


@pytest.mark.parametrize(("name", "width"), turns(["deep", "calls", "switches"], WIDTHS, few=3))
def test_the_emulators_counts_in_spans_are_the_logs(
    fixture_elf: Callable[..., Path], name: str, width: str, tmp_path: Path
) -> None:
    """In whole routines, as it counts blocks that begin in a span."""
    path, source = fixture_elf(name, width), standard_input(name)
    stdin = source.read_bytes() if source else b""
    logged = oracle.trace(path, stdin=stdin)
    executed = logged.pc[logged.executed]
    program = elf.load(path)
    starts = sorted({s.address for s in program.symbols if s.is_function and s.size})
    borders = [starts[len(starts) * k // 8] for k in range(1, 8)]
    spans = [Range(*each) for each in itertools.pairwise(borders)]
    host = Host(tmp_path, writable=tmp_path, program=path, stdin=stdin, stdout=bytearray())
    machine = Machine(program, host=host, argv0=bytes(path), file_name=bytes(path.resolve()))
    counts = [machine.count_in(span) for span in spans]
    assert machine.run().instructions == logged.instructions
    found = tuple(count.instructions for count in counts)
    assert found == logged_within(executed, spans) and any(found)


def logged_within(executed: NDArray[np.int64], spans: Sequence[Range]) -> tuple[int, ...]:
    """Return how many of the addresses are in each span."""
    return tuple(int(np.count_nonzero((s.start <= executed) & (executed < s.end))) for s in spans)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("kind", "number"), [("unaligned", 10), ("abort", 6), ("jump-null", 11)])
def test_killed(
    fixture_elf: Callable[..., Path], kind: str, number: int, width: str, tmp_path: Path
) -> None:
    path = fixture_elf("faults", width)
    found = run(path, width, tmp_path, kind)
    assert found == qemu.QemuRun(128 + number, number, oracle.trace(path, [kind]).instructions)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(("kind", "width"), turns(FAULTS, ["v8plus", "v9"], few=4))
def test_last_instruction(
    compile_c: Callable[..., Path], kind: str, width: str, tmp_path: Path
) -> None:
    path = compile_c(FIXTURES.parent / "tests" / "programs" / "faults.c", ("-O1",), width)
    found, logged = run(path, width, tmp_path, kind), oracle.trace(path, [kind])
    assert (found.status, found.instructions) == (logged.run.status, logged.instructions)


@pytest.mark.toolchain
def test_signals_that_are_ignored_here_are_not_in_the_program(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "ignored.c"
    source.write_text(
        "#include <signal.h>\n"
        "int main(void) { return signal(SIGINT, SIG_DFL) == SIG_IGN"
        " || signal(SIGHUP, SIG_DFL) == SIG_IGN; }\n"
    )
    path = compile_c(source, ("-O1",), "v9")
    numbers = (signal.SIGINT, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        found = run(path, "v9", tmp_path)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    assert found.status == 0


@pytest.mark.long
@pytest.mark.toolchain
def test_outputs_are_pipes_as_on_the_emulator(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "kinds.c"
    source.write_text(
        "#include <stdio.h>\n#include <sys/stat.h>\n"
        "int main(void) { struct stat one, two; fstat(1, &one); fstat(2, &two);"
        ' puts("out"); fputs("err", stderr);'
        " return S_ISFIFO(one.st_mode) + 2 * S_ISFIFO(two.st_mode); }\n"
    )
    path = compile_c(source, ("-O1",), "v9")
    found = run(path, "v9", tmp_path)
    assert (found.status, found.instructions) == simprofs(path, None, tmp_path)
    assert found.status == 3
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("out\n", "err")


IN_SLOTS = """
    .global _start
_start:
    save %sp, -192, %sp
8:  call 9f
     nop
9:  add %o7, there - 8b, %g1
    ba 1f
     ld [%o7], %l2
1:  ba,a 2f
2:  jmp %g1
     ld [%o7], %l2
    nop
there:
    cmp %g0, 1
    be,a 3f
     nop
3:  bne,a 4f
     ld [%o7], %l2
    nop
4:  LAST
    mov 1, %g1
    mov 5, %o0
    ta TRAP
"""
ENDS = {
    # what is added behind label 4, SPARC's number of the signal, instructions from label 4 on
    "": (None, 3),
    "jmp %g0; nop": (11, 2),
    "jmp %g0; ld [%o7], %l2": (11, 2),
    "jmp %g0; restore": (11, 2),
    "jmp %g1; ld [%g0], %l2": (11, 1),
    "ba 4b; ld [%g0], %l2": (11, 1),
    "ld [%g0], %l2": (11, 0),
    "ba 4b; .word 0": (4, 1),
    ".word 0": (4, 0),
    "mov 3, %g1; .word 0": (4, 1),
}


@pytest.mark.toolchain
@pytest.mark.parametrize(("last", "width"), turns(ENDS, WIDTHS, few=4))
def test_last_instruction_in_a_slot(
    compile_c: Callable[..., Path], last: str, width: str, tmp_path: Path
) -> None:
    text = IN_SLOTS.replace("LAST", last).replace("TRAP", "0x6d" if width == "v9" else "0x10")
    path = compile_c(text, ("-nostdlib",), width, "asm")
    number, behind = ENDS[last]
    found = run(path, width, tmp_path)
    assert found.signal == number
    assert found.status == (5 if number is None else 128 + number)
    assert found.instructions == 13 + behind


SHOW = """
#include <stdio.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
    char name[4096];
    for (int i = 0; i < argc; i++)
        printf("[%s]\\n", argv[i]);
    for (char **setting = environ; *setting; setting++)
        printf("{%s}\\n", *setting);
    printf("%s %d %d\\n", getcwd(name, sizeof name), getchar(), dup(0));
    fprintf(stderr, "error\\n");
    return 200;
}
"""


@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v8plus", "v9"])
@pytest.mark.parametrize("count", [False, True])
def test_what_the_program_sees(
    compile_c: Callable[..., Path], count: bool, width: str, tmp_path: Path
) -> None:
    """Its name, arguments, environment in order, directory, input; no descriptor more."""
    given = tmp_path / "given"
    given.write_bytes(b"A")
    found = run(
        compile_c(SHOW, width=width),
        width,
        tmp_path,
        "one",
        "",
        "-two",
        argv0=b"the name",
        environment=[b"B=1,2", b"A=\xff", b"EMPTY=", b"C==3"],
        stdin=given,
        count=count,
    )
    assert (found.status, found.signal, found.instructions is not None) == (200, None, count)
    seen = b"[the name]\n[one]\n[]\n[-two]\n{B=1,2}\n{A=\xff}\n{EMPTY=}\n{C==3}\n"
    last = b"%s 65 3\n" % os.fsencode(tmp_path.resolve())
    assert (tmp_path / "out").read_bytes() == seen + last
    assert (tmp_path / "err").read_bytes() == b"error\n"


STRINGS = """
#include <stdint.h>
#include <stdio.h>
int main(int argc, char **argv) { printf("%d\\n", (int)((uintptr_t)argv[0] & 63)); return argc; }
"""


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("name", "width"),
    turns(["a", "a b", "/usr/bin/" + "long/" * 40 + "name"], ["v8plus", "v9"], few=2),
)
def test_strings_are_aligned_as_in_simprof(
    compile_c: Callable[..., Path], name: str, width: str, tmp_path: Path
) -> None:
    path = compile_c(STRINGS, width=width)
    exe = f"/{name.lstrip('/')}"
    file_name = qemu.path_like(path, exe.encode())
    run(path, width, tmp_path, argv0=name.encode(), file_name=file_name)
    command = [
        sys.executable,
        "-c",
        "from simprof.profiler.cli import main; main()",
        "run",
        str(path),
    ]
    options = ["--mode", "edges", "--argv0", name, "--exe", exe, "--report", os.devnull]
    done = subprocess.run([*command, *options], stdout=subprocess.PIPE, env={}, check=False)
    assert (tmp_path / "out").read_bytes() == done.stdout != b""


@pytest.mark.toolchain
def test_too_long(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    path = compile_c('int main(void) { for (;;) __asm__ volatile(""); }')
    with pytest.raises(UnsupportedError, match=r"not at its end after 0\.2 s under qemu-user"):
        run(path, "v9", tmp_path, timeout=0.2)


def test_qemu_is_missing(
    fixture_elf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert [qemu.missing(machine) for machine in MACHINES.values()] == [None] * 3
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "qemu-sparc32plus is not installed" in (qemu.missing(MachineKind.SPARCV8PLUS) or "")
    with pytest.raises(EngineError, match="qemu-sparc64 is not installed"):
        run(fixture_elf("sieve"), "v9", tmp_path)


def test_no_compiler(
    fixture_elf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program runs as usual; its instructions are not known, and the reason can be had."""
    assert [qemu.uncounted(machine) for machine in MACHINES.values()] == [None] * 3
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(qemu, "COMPILERS", ("no-such-compiler",))
    qemu.compiled.cache_clear()
    try:
        assert "needs a C compiler" in (qemu.uncounted(MachineKind.SPARCV9) or "")
        assert run(fixture_elf("sieve"), "v9", tmp_path) == qemu.QemuRun(0, None, None)
    finally:
        qemu.compiled.cache_clear()


def test_plugin_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where the cache's name has commas, which separate qemu's options."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a,b,,c"))
    qemu.compiled.cache_clear()
    try:
        assert qemu.uncounted(MachineKind.SPARCV9) is None
        (plugin,) = (tmp_path / "a,b,,c" / "simprof").iterdir()
        made = plugin.stat()
        qemu.compiled.cache_clear()
        assert qemu.compiled() == plugin
        assert plugin.stat() == made
    finally:
        qemu.compiled.cache_clear()


def test_other_file_is_no_plugin(
    fixture_elf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(qemu, "compiled", lambda: fixture_elf("sieve"))
    assert run(fixture_elf("sieve"), "v9", tmp_path) == qemu.QemuRun(0, None, None)
