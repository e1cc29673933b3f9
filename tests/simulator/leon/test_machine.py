"""How bare LEON3 programs end, and which ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary import elf
from simprof.simulator.errors import SimulatorError, UnsupportedError
from simprof.simulator.leon.machine import LeonMachine
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.running import Limits, RunResult
from tests.oracles.leon import BUILD

pytestmark = pytest.mark.toolchain
Compile = Callable[..., Path]
OFF = 'unsigned psr; asm volatile("rd %%psr, %0" : "=r"(psr)); psr &= ~32; \
asm volatile("wr %0, %%psr; nop; nop; nop" :: "r"(psr));'

UNALIGNED = 'asm volatile("ld [%0], %%g1" :: "r"(0x40001001) : "g1"); return 0;'


def run(compile_c: Compile, directory: Path, body: str, limits: Limits | None = None) -> RunResult:
    source = f"int main(void) {{ {body} }}"
    path = compile_c(source, flags=("-O1", *BUILD), width="v8")
    host = Host(directory, program=path, stdin=b"", stdout=bytearray(), stderr=bytearray())
    return LeonMachine(elf.load(path), host=host, limits=limits).run()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("return 42;", 42),
        ("return 0x1ff;", 255),
        ("return *(volatile int *)0x80005000;", 9),  # the start-up ends with a trap's type
        ("*(volatile int *)0x20000000 = 1; return 0;", 9),
        (UNALIGNED, 7),
        ('asm volatile("ta 5"); return 0;', 0x82),
        ('asm volatile("unimp 0"); return 0;', 2),
        ('asm volatile(".word 0x89b08a83"); return 0;', 0x20),  # 0x24: CPop1, fpsub16 on UltraSPARC
        ('asm volatile(".word 0x89f08003"); return 0;', 2),  # umac, which this LEON3 lacks
        ('asm volatile(".word 0x89f88003"); return 0;', 2),  # smac
        ('asm volatile("wr %%g0, 0x8b, %%psr" ::); return 0;', 2),  # no window 11
        ("volatile int zero = 0; return 7 / zero;", 0x20),
        ('asm volatile("lda [%%g0] 2, %%g1" ::: "g1"); return 6;', 6),
    ],
)
def test_traps_come_to_the_programs_handlers(
    compile_c: Compile, tmp_path: Path, body: str, status: int
) -> None:
    result = run(compile_c, tmp_path, body)
    assert (result.reason, result.status) == ("exit", status)


def test_a_trap_while_traps_are_disabled_is_error_mode(compile_c: Compile, tmp_path: Path) -> None:
    result = run(compile_c, tmp_path, OFF + UNALIGNED)
    assert (result.reason, result.status) == ("fault", 134)
    assert result.fault is not None
    assert result.fault.name == "error mode"
    assert result.fault.description == "trap 0x07 while traps are disabled"


def test_a_budget_ends_a_run(compile_c: Compile, tmp_path: Path) -> None:
    result = run(compile_c, tmp_path, "for (;;) { }", Limits(max_instructions=100_000))
    assert (result.reason, result.status) == ("budget", 124)
    assert 100_000 - 512 < result.instructions <= 100_000


# Words that the engine, a V9, executes; the start-up ends with a trap's type, and 0x20 for 0x24.
# qemu-system-sparc (leon3_generic) gives the same types, but 2 for moves of doubles, `fstox` and
# `fmovdcc`, and 8 for `ldq`: GRFPU has no operations but those of V8's singles and doubles, and
# LEON3's integer unit does not know `ldq`.
ABSENT = {
    2: {
        "mulx": 0x86484002, "udivx": 0x86684002, "sdivx": 0x87684002, "popc": 0x87700002,
        "move %icc": 0x87646001, "move %fcc1": 0x87626801, "movrz": 0x87786401,
        "ldsw": 0xC6438000, "ldx": 0xC65B8000, "stx": 0xC0738000, "casx": 0xC7F39002,
        "ldq": 0xC9138000, "prefetch": 0xC16B8000, "ba,pt %icc": 0x10480002,
        "ba,pt %xcc": 0x10680002, "brz": 0x02C80002, "fba,pt %fcc1": 0x11580002,
        "return": 0x81CFE008, "done": 0x81F00000,
    },
    8: {
        "faddq": 0x91A00864, "fsqrtq": 0x89A00560, "fmovd": 0x89A00040, "fnegd": 0x89A000C0,
        "fabsd": 0x89A00140, "fmovq": 0x89A00060, "fmovde": 0x89A86040, "fmovrdz": 0x89A844C0,
        "fstox": 0x89A01020, "fxtod": 0x89A01100, "fstoq": 0x89A019A0, "fdmulq": 0x89A00DC2,
        "fcmpq": 0x81A80A64,
    },
    0x20: {"lda %f4": 0xC9839000, "ldda %f4": 0xC99B9000, "stda %f4": 0xC9BB9000, "cb": 0x11C00002},
}  # fmt: skip
OTHERS = {
    "sllx %g1, %g2, %g3": 0x87285002, "srlx %g1, 4, %g3": 0x87307004, "tne %xcc, 5": 0x93D03005,
    "rd %ccr, %g3": 0x87408000, "rd %pc, %g3": 0x87414000, "wr %g0, 4, %fprs": 0x8D802004,
    "ldx [%sp], %fsr": 0xC30B8000, "stx %fsr, [%sp]": 0xC32B8000, "stq %f0, [%sp]": 0xC1338000,
    "ldd [%sp], %f32": 0xC31B8000, "faddd %f32, %f2, %f4": 0x89A04842,
    "fcmpd %fcc1, %f0, %f2": 0x83A80A42,
}  # fmt: skip
PRESENT = {
    "fsmuld": 0x89A04D22, "fsqrtd": 0x89A00542, "fdtoi": 0x87A01A42, "fcmped": 0x81A88AC4,
    "membar": 0x8143E040, "taddcc": 0x87004002, "mulscc": 0x87204002, "umulcc": 0x86D04002,
    "ld %fsr": 0xC10B8000, "flush": 0x81DB8000, "casa [] 10": 0xC7E38142, "sll": 0x87284002,
}  # fmt: skip
MARK = 0xDEADBEEF


@pytest.fixture
def execute(compile_c: Compile, tmp_path: Path) -> Callable[[int, str], RunResult]:
    """Run a program that executes one word, after some code; 0 is its status then."""

    def run_one(word: int, before: str) -> RunResult:
        word_code = f"clr [%%sp]; .word {MARK}; nop; nop"
        body = f'{before} asm volatile("{word_code}" ::: "g2", "g3", "memory");'
        path = compile_c(f"int main(void) {{ {body} return 0; }}", ("-O1", *BUILD), width="v8")
        data = path.read_bytes()
        assert data.count(MARK.to_bytes(4, "big")) == 1
        changed = tmp_path / "changed"
        changed.write_bytes(data.replace(MARK.to_bytes(4, "big"), word.to_bytes(4, "big")))
        out = bytearray()
        host = Host(tmp_path, program=changed, stdin=b"", stdout=out, stderr=bytearray())
        return LeonMachine(elf.load(changed), host=host).run()

    return run_one


Execute = Callable[[int, str], RunResult]


@pytest.mark.parametrize("status", ABSENT)
def test_what_a_leon3_does_not_have_traps(execute: Execute, status: int) -> None:
    given = {name: execute(word, "").status for name, word in ABSENT[status].items()}
    assert given == dict.fromkeys(given, status)


def test_what_it_has_is_executed(execute: Execute) -> None:
    given = {name: execute(word, "").status for name, word in PRESENT.items()}
    assert given == dict.fromkeys(given, 0)


def test_what_it_reads_otherwise_is_refused_and_named(execute: Execute) -> None:
    for text, word in OTHERS.items():
        with pytest.raises(UnsupportedError) as raised:
            execute(word, "")
        said = str(raised.value)
        assert f"the instruction {word:#010x} at 0x40001" in said
        assert f"one of SPARC V9 ({text}), which a LEON3 takes for another one" in said


def test_quads_of_a_floating_point_unit_that_is_off(execute: Execute) -> None:
    """fp_disabled comes before fp_exception; which of these it was is in %fsr."""
    off = 'unsigned psr; asm volatile("rd %%psr, %0" : "=r"(psr)); '
    off += 'asm volatile("wr %0, %%psr; nop; nop; nop" :: "r"(psr & ~0x1000));'
    assert execute(ABSENT[8]["faddq"], off).status == 4


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("*(volatile int *)&main = 0x01000000; return 0;", "changes its own code"),
        ('asm volatile("wr %%g0, %%asr19" ::); return 0;', "waits for an interrupt that never"),
    ],
)
def test_what_cannot_be_profiled_is_refused(
    compile_c: Compile, tmp_path: Path, body: str, words: str
) -> None:
    with pytest.raises(UnsupportedError, match=words):
        run(compile_c, tmp_path, body)


def test_code_that_the_program_generates_is_executed(compile_c: Compile, tmp_path: Path) -> None:
    body = "static int code[2]; code[0] = 0x81c3e008; code[1] = 0x90102007;"
    body += " while (((int (*)(void))code)() != 7) { } return 0;"
    result = run(compile_c, tmp_path, body, Limits(max_instructions=100_000))
    assert result.reason == "exit"


def test_less_memory_than_the_program_needs_is_refused(compile_c: Compile, tmp_path: Path) -> None:
    body = "static volatile char room[1 << 20]; return room[5];"
    with pytest.raises(SimulatorError, match="no memory: link it for 0x40000000 to 0x40080000"):
        run(compile_c, tmp_path, body, Limits(memory=1 << 19))
