"""Listings assemble back to the words that they show: by GNU as, which they are written for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.pricing import Pricer
from simprof.profiler.recovery.recovery import recover
from simprof.profiler.reports.code_text import generated_text
from simprof.profiler.request.request import SchemeOptions, Setting
from simprof.profiler.schemes import registry
from simprof.profiler.session.scheme_runs import Planner, saved_profiles
from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.disassembly import Disassembler, disassemble
from tests.support.turns import first, turns

AS = {"v9": ("-64", "-Av9d"), "v8plus": ("-32", "-Av8plusd"), "v8": ("-32", "-Av8")}
EMULATION = {"v9": "elf64_sparc", "v8plus": "elf32_sparc", "v8": "elf32_sparc"}
SCRATCH = [f".register %g{number},#scratch" for number in (2, 3, 6, 7)]
LINE = re.compile(r"^    0x([0-9a-f]+)   ?(\S.*?)(?:  ! .*)?$", re.MULTILINE)
Compile = Callable[..., Path]


def assembled(texts: Mapping[int, str], width: str, directory: Path) -> dict[int, int]:
    """Return the words that GNU as makes of texts, by address."""
    base = min(texts)
    lines = [*(SCRATCH if width == "v9" else ()), ".text"]
    for address, text in sorted(texts.items()):
        lines += [f".org {address - base}", f"\t{text}"]
    (directory / "code.s").write_text("\n".join(lines) + "\n")
    tool = "sparc64-linux-gnu-"
    place = ["-Ttext", hex(base), "--entry", hex(base), "-z", "max-page-size=4096"]
    for command in (
        [f"{tool}as", *AS[width], "-o", "code.o", "code.s"],
        [f"{tool}ld", "-m", EMULATION[width], *place, "-o", "code.elf", "code.o"],
        [f"{tool}objcopy", "-O", "binary", "-j", ".text", "code.elf", "code.bin"],
    ):
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:2000]
    data = (directory / "code.bin").read_bytes()
    return {
        address: int.from_bytes(data[address - base : address - base + 4], "big")
        for address in texts
    }


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("width", "name"), turns(AS, ["control", "floats", "switches_pic", "faults"])
)
def test_a_listing_assembles_to_the_program(
    fixture_elf: Compile,
    tmp_path: Path,
    name: str,
    width: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All that `cfg --code` shows of the program's own code."""
    path = fixture_elf(name, width)
    assert cli.run(["cfg", "--code", "qpt2", str(path)]) == 0
    listing, _, _ = capsys.readouterr().out.partition("\nrun-time routines")
    texts = {int(address, 16): text for address, text in LINE.findall(listing)}
    program = load(path)
    expected = {}
    for address in texts:
        (segment,) = (
            each
            for each in program.segments
            if each.address <= address < each.address + len(each.data)
        )
        at = address - segment.address
        expected[address] = int.from_bytes(segment.data[at : at + 4], "big")
    assert len(texts) > 500
    assert assembled(texts, width, tmp_path) == expected
    assert any("%hi(" in text for text in texts.values())
    assert any("%lo(" in text for text in texts.values())


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", first(1, AS))
def test_generated_code_assembles_to_its_words(
    fixture_elf: Compile, tmp_path: Path, width: str
) -> None:
    """The code of all modes that need no profile, but where it names a symbol."""
    recovered = recover(load(fixture_elf("control", width)))
    v9 = recovered.program.machine is not MachineKind.SPARCV8
    contexts, found = ProgramContexts(recovered), {}
    for mode in registry.modes():
        scheme = registry.definition(mode)
        if scheme.guided or not scheme.instruments:
            continue
        options = SchemeOptions()
        planner = Planner(Setting(mode, mode, options), saved_profiles(recovered.program.sha256))
        pricer = Pricer(registry.generators(mode), scheme.options(options).register_use)
        for number, cfg in enumerate(recovered.routines):
            plan = planner.make(cfg)
            code = pricer.code(cfg, plan.plan, plan.weights, contexts.of(number))
            groups = (code.snippets, code.block_snippets, code.block_end_snippets)
            for snippet in (each for group in groups for each in group.values()):
                disassembler = Disassembler(v9)
                for instruction in snippet.instructions:
                    text = generated_text(disassembler, instruction)
                    if instruction.fixup is None:
                        found[text] = instruction.word
    texts = {0x10000 + 8 * place: text for place, text in enumerate(found)}
    assert len(texts) > 200
    assert assembled(texts, width, tmp_path) == dict(zip(texts, found.values(), strict=True))


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x81CFE008, "return %i7 + 8"),
        (0x81CF8001, "return %fp + %g1"),
        (0x81C3E008, "retl"),
        (0x81C06000, "jmp %g1 + %lo(0)"),
        (0x9FC04000, "call %g1"),
        (0x83C06004, "jmpl %g1 + 4, %g1"),
        (0x11000403, "sethi %hi(0x100c00), %o0"),
        (0x01000000, "nop"),
        (0x9DE3BF50, "save %sp, -176, %sp"),
        (0xC2006000, "ld [%g1 + %lo(0)], %g1"),
        (0xC2004000, "ld [%g1], %g1"),
        (0xC2007FF8, "ld [%g1 - 8], %g1"),
        (0x91D02010, "ta 0x10"),
        (0x91D0306D, "ta %xcc, 0x6d"),
        (0x83D06010, "te %g1 + 0x10"),
        (0x86603FFF, "subc %g0, -1, %g3"),
    ],
)
def test_text_is_as_gnu_as_takes_it(word: int, text: str) -> None:
    assert disassemble(word, 0x1000) == text


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x86603FFF, "subx %g0, -1, %g3"),
        (0x84402000, "addx %g0, 0, %g2"),
        (0x00000005, "unimp 0x5"),
        (0x81CFE008, "rett %i7 + 8"),
    ],
)
def test_v8_has_names_of_its_own(word: int, text: str) -> None:
    assert disassemble(word, 0x1000, v9=False) == text


def test_the_rest_of_an_address_is_written_so() -> None:
    """Until the register has another value, or the window is another."""
    words = (0x11000403, 0x90122360, 0x90122360, 0x13000403, 0xD2026008, 0xD2026008)
    disassembler = Disassembler()
    assert [disassembler.text(word, 0x1000) for word in words] == [
        "sethi %hi(0x100c00), %o0",
        "or %o0, %lo(0x100f60), %o0",
        "or %o0, 0x360, %o0",
        "sethi %hi(0x100c00), %o1",
        "ld [%o1 + %lo(0x100c08)], %o1",
        "ld [%o1 + 8], %o1",
    ]
    disassembler.text(0x11000403, 0x1000)
    disassembler.text(0x9DE3BF50, 0x1000)
    assert disassembler.text(0x90122360, 0x1000) == "or %o0, 0x360, %o0"
    disassembler.text(0x11000403, 0x1000)
    disassembler.forget()
    assert disassembler.text(0x90122360, 0x1000) == "or %o0, 0x360, %o0"
