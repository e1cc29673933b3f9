"""The programs that we wrote for the suites: committed kernels, Fortran and C programs."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from simprof.profiler.recovery.recovery import recover
from simprof.profiler.schemes.kiter.planner import plan_kiter
from simprof.simulator.binary.elf import load
from tests.conftest import EMULATORS, FIXTURES
from tests.oracles.exact import check_against_qemu, simulate
from tests.oracles.qemu import run
from tests.support.turns import first, turns
from tools.build_fixtures import (
    RECORD,
    SUITES,
    VARIANTS,
    Fixture,
    check,
    compiler_version,
    read_manifest,
)

KERNELS = {kernel.name: kernel for kernel in read_manifest(SUITES)}
EXPECTED = SUITES / "expected"


@dataclass(frozen=True)
class Source:
    """A program that is built when it is needed, from the files of fixtures/suites/src/GROUP."""

    name: str
    directory: str
    group: str
    language: str
    sources: tuple[str, ...]
    inputs: dict[str, tuple[str, ...]]

    def text(self) -> str:
        """All sources as one."""
        files = [SUITES / "src" / self.directory / name for name in self.sources]
        return "".join(file.read_text() for file in files)

    def compiled(self, compile_c: Callable[..., Path], width: str) -> Path:
        """The program, as its suite builds it."""
        return compile_c(self.text(), ("-O2", "-lm"), width=width, language=self.language)

    def expected(self, name: str) -> bytes:
        """What the run `name` prints."""
        return (EXPECTED / self.directory / f"{self.name}.{name}.txt").read_bytes()


def read_sources(directory: str) -> list[Source]:
    path = SUITES / "src" / directory / "programs.toml"
    return [
        Source(
            name,
            directory,
            entry["group"],
            entry["language"],
            tuple(entry["sources"]),
            {each: tuple(run["arguments"]) for each, run in entry["inputs"].items()},
        )
        for name, entry in tomllib.loads(path.read_text()).items()
    ]


SOURCES = [*read_sources("fp"), *read_sources("int")]
WIDTHS = ("v9", "v8plus")
# Arguments of runs that are short enough to be traced.
TINY = {
    "mesh": "9 2 3",
    "shallow": "6 2 3",
    "gauge": "2 1 3",
    "hydro": "6 2 3",
    "multigrid": "2 1 3",
    "ssor": "3 2 3",
    "turbulence": "3 1 3",
    "pollutant": "5 2 3",
    "integrals": "2 1 3",
    "particles": "6 60 2 3",
    "simulator": "0 3",
    "stones": "0 3",
    "resonance": "11 1 3",
    "mersenne": "13 31",
    "crash": "1 2 4 3",
    "links": "1 8",
    "cells": "16 2 3",
}
SMALL = {
    "compress": ["1500", "3"],
    "crc": ["1", "3"],
    "edn": ["1", "3"],
    "fdct": ["8", "3"],
    "fibcall": ["150", "3"],
    "fir": ["1", "3"],
    "jfdctint": ["6", "3"],
    "ludcmp": ["7", "3"],
    "ndes": ["2", "3"],
}
# What the run-time needs of the host where a kernel is compiled for it.
NATIVE = """\
#include <stdarg.h>
#include <unistd.h>
void flush_output(void);
long system_call(long number, ...)
{
    va_list list;
    va_start(list, number);
    int file = (int)va_arg(list, long);
    void *bytes = va_arg(list, void *);
    long size = va_arg(list, long);
    va_end(list);
    return number == 4 ? write(file, bytes, (size_t)size) : -1;
}
__attribute__((destructor)) static void finish(void) { flush_output(); }
"""


def expected(kernel: Fixture, name: str) -> bytes:
    return (EXPECTED / "wcet" / f"{kernel.name}.{name}.txt").read_bytes()


# The kernels: what is committed


def test_every_kernel_is_there() -> None:
    assert set(KERNELS) == set(SMALL)
    built = {kernel.path(variant, SUITES) for kernel in KERNELS.values() for variant in VARIANTS}
    assert set((SUITES / "bin").glob("*/*.elf")) == built
    outputs = {file for kernel in KERNELS.values() for file, _ in kernel.runs()}
    assert {path.name for path in (EXPECTED / "wcet").iterdir()} == outputs


def test_checksums_of_kernels() -> None:
    lines = (SUITES / "bin" / RECORD).read_text().splitlines()[2:]
    recorded = {name: digest for digest, name in (line.split() for line in lines)}
    found = {
        str(path.relative_to(SUITES / "bin")): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (SUITES / "bin").glob("*/*.elf")
    }
    assert found == recorded


@pytest.mark.long
@pytest.mark.toolchain
def test_kernels_are_what_their_sources_give() -> None:
    recorded = (SUITES / "bin" / RECORD).read_text().splitlines()[:2]
    if compiler_version().splitlines() != recorded:
        pytest.skip(f"built with {recorded[0]}")
    assert check(["compress", "fibcall"], SUITES) == 0


# The kernels: what they do


@pytest.mark.qemu
@pytest.mark.parametrize(("width", "name"), turns(EMULATORS, KERNELS))
def test_kernel_output(name: str, width: str) -> None:
    kernel = KERNELS[name]
    path = SUITES / "bin" / width / f"{name}.elf"
    for each, arguments in kernel.inputs:
        result = run(path, arguments)
        assert (result.output, result.status) == (expected(kernel, each), 0), each


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), turns(KERNELS, EMULATORS, few=1))
def test_kernel_is_exact(name: str, width: str, tmp_path: Path) -> None:
    path = SUITES / "bin" / width / f"{name}.elf"
    check_against_qemu(path, SMALL[name], directory=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", first(2, KERNELS))
def test_kernel_sizes(name: str, tmp_path: Path) -> None:
    """Ref runs are 2 to 20 million instructions, train runs clearly shorter."""
    lengths = {}
    for each, arguments in KERNELS[name].inputs:
        path = SUITES / "bin" / "v9" / f"{name}.elf"
        simulated = simulate(path, arguments, directory=tmp_path, modes=("edges",))
        assert simulated.output == expected(KERNELS[name], each)
        lengths[each] = simulated.observation.result.instructions
    assert 2e6 <= lengths["ref"] <= 20e6
    assert 0.2e6 <= lengths["train"] <= lengths["ref"] / 3


@pytest.mark.long
def test_kernels_where_the_compiler_is_the_host_s(tmp_path: Path) -> None:
    """The host's arithmetic, with its checks of overflow and bounds, gives the same."""
    (tmp_path / "native.c").write_text(NATIVE)
    runtime = [FIXTURES / "runtime" / name for name in ("output.c", "text.c")]
    flags = "-O1 -fno-builtin -ffp-contract=off -fsanitize=undefined -fno-sanitize-recover".split()
    for kernel in KERNELS.values():
        sources = [SUITES / "src" / "wcet" / source for source in kernel.sources]
        program = tmp_path / kernel.name
        command = ["gcc", *flags, f"-I{FIXTURES / 'runtime'}", *map(str, sources + runtime)]
        subprocess.run([*command, "native.c", "-o", str(program)], cwd=tmp_path, check=True)
        for name, arguments in kernel.inputs:
            done = subprocess.run([program, *arguments], capture_output=True, check=True)
            assert (done.stdout, done.stderr) == (expected(kernel, name), b""), kernel.name


def cosines(block: list[int]) -> list[float]:
    """The orthonormal two-dimensional cosine transform of 8 x 8 values."""
    unit = [math.sqrt((1 if k == 0 else 2) / 8) for k in range(8)]
    wave = [
        [unit[k] * math.cos((2 * n + 1) * k * math.pi / 16) for n in range(8)] for k in range(8)
    ]
    return [
        sum(block[8 * y + x] * wave[v][y] * wave[u][x] for y in range(8) for x in range(8))
        for v in range(8)
        for u in range(8)
    ]


@pytest.mark.parametrize(("name", "tolerance"), [("jfdctint", 2), ("fdct", 20)])
@pytest.mark.seeds(range(1, 4))
def test_transforms(name: str, tolerance: int, seed: int, tmp_path: Path) -> None:
    """Both give eight times the cosine transform; fdct, multiplied by its algorithm's factors."""
    path = SUITES / "bin" / "v9" / f"{name}.elf"
    shown = simulate(path, ["0", str(seed)], directory=tmp_path, modes=("edges",)).output
    numbers = [int(word) for word in shown.split()]
    factor = [1.0] * 8
    if name == "fdct":
        factor[1:] = [math.cos(k * math.pi / 16) * math.sqrt(2) for k in range(1, 8)]
    for place, true in enumerate(cosines(numbers[:64])):
        scale = 8 * factor[place // 8] * factor[place % 8]
        assert abs(numbers[64 + place] - true * scale) <= tolerance, place


def test_des_is_des(tmp_path: Path) -> None:
    """The example that explanations of the standard work out; crc's is the usual check value."""
    assert expected(KERNELS["ndes"], "ref").startswith(b"check 85e813540f0ab405\n")
    assert expected(KERNELS["crc"], "ref").startswith(b"check 29b1,")


# The kernels: the paths of table 4


def static_paths(kernel: str, routine: str) -> list[int]:
    program = load(SUITES / "bin" / "v9" / f"{kernel}.elf")
    cfg = next(cfg for cfg in recover(program).routines if cfg.name == routine)
    return [plan_kiter(cfg, iterations=k, path_limit=None).num_paths for k in range(1, 6)]


def test_paths_grow_as_in_table_4() -> None:
    """The shapes: which routines soon need a hash table or are given up, and which never."""
    assert all(paths < 6000 for paths in static_paths("compress", "writebytes"))
    assert static_paths("compress", "cl_hash")[4] < 100
    compress = static_paths("compress", "compress")
    assert compress[1] < 6000 and compress[3] > 6000
    cyfun = static_paths("ndes", "cyfun")
    assert cyfun[0] < 6000 < cyfun[1] and cyfun[3] > 60000
    des = static_paths("ndes", "des")
    assert des[0] < 1000 and des[2] > 60000
    ludcmp = static_paths("ludcmp", "ludcmp")
    assert ludcmp[1] < 6000 < ludcmp[2]


# The programs that are built when they are needed


def test_programs_say_what_they_stand_for() -> None:
    names = {source.name for source in SOURCES} | set(KERNELS)
    assert len(names) == len(SOURCES) + len(KERNELS)
    assert sum(source.group == "FP" for source in SOURCES) >= 8
    for directory in ("wcet", "fp", "int"):
        table = tomllib.loads((SUITES / "src" / directory / "programs.toml").read_text())
        for name, entry in table.items():
            assert entry["group"] in ("INT", "FP"), name
            assert entry["stands_for"] and entry["why"], name
            assert list(entry["inputs"]) == ["train", "ref"], name
        used = {file for entry in table.values() for file in entry["sources"]}
        found = {path.name for path in (SUITES / "src" / directory).iterdir()}
        assert used | {"programs.toml"} | ({"kernel.h"} if directory == "wcet" else set()) == found


def printed(name: str, of: str) -> str:
    return next(source for source in SOURCES if source.name == name).expected(of).decode()


@pytest.mark.parametrize("of", ["train", "ref"])
def test_mersenne_numbers_by_whole_numbers(of: str) -> None:
    """What transforms of reals leave is what Python's integers do, the lowest 32 bits of it."""
    lines = printed("mersenne", of).splitlines()
    primes = 0
    for line in lines[:-1]:
        exponent, found = map(int, re.findall(r"(?<=\^)\d+|\d+$", line))
        number, value = 2**exponent - 1, 4
        for _ in range(exponent - 2):
            value = (value * value - 2) % number
        assert found == value & 0xFFFFFFFF, line
        primes += value == 0
    assert lines[-1] == f"{primes} of them prime" and primes > 0


@pytest.mark.parametrize("of", ["train", "ref"])
def test_resonance_finds_objects_where_they_were_put(of: str) -> None:
    text = printed("resonance", of)
    category = dict(re.findall(r"^learnt (\d+) as (\d+)$", text, re.M))
    put = {
        n: (int(x), int(y)) for n, x, y in re.findall(r"^object (\d+) at (\d+) (\d+)", text, re.M)
    }
    found = {
        n: (int(x), int(y))
        for n, x, y in re.findall(r"^category (\d+): best at (\d+) (\d+)", text, re.M)
    }
    assert len(put) == len(category) == len(set(category.values()))
    # one that another lies on, which was put later, is not all there
    free = [
        n
        for n, (x, y) in put.items()
        if all(
            int(m) <= int(n) or abs(x - a) >= 10 or abs(y - b) >= 10 for m, (a, b) in put.items()
        )
    ]
    assert len(free) >= 2
    for n in free:
        assert found[category[n]] == put[n], n


@pytest.mark.parametrize("of", ["train", "ref"])
def test_links_and_cells_found_nothing_wrong(of: str) -> None:
    """Both check themselves: links that cross, words without any; costs that went astray."""
    *lines, last = printed("links", of).splitlines()
    assert all(re.fullmatch(r"\d+: \d+ words, .*(linkage|cost \d+)", line) for line in lines)
    assert sum("0 unused" in line for line in lines) == int(last.split()[0])
    text = printed("cells", of)
    assert "astray" not in text
    before, after, packed = (int(each) for each in re.findall(r"wire (\d+)", text))
    assert after < packed < before / 2
    assert "packed: wire" in text and "overlap 0;" in text


def test_expected_outputs_of_programs() -> None:
    for directory in ("fp", "int"):
        made = {
            f"{source.name}.{name}.txt"
            for source in SOURCES
            if source.directory == directory
            for name in source.inputs
        }
        assert {path.name for path in (EXPECTED / directory).iterdir()} == made
    for source in SOURCES:
        for name in source.inputs:
            text = source.expected(name)
            assert text and not set(b"*") & set(text) and b"NaN" not in text, source.name


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("source", "width"), turns(SOURCES, WIDTHS, few=2), ids=lambda each: getattr(each, "name", each)
)
def test_program_output(source: Source, width: str, compile_c: Callable[..., Path]) -> None:
    path = source.compiled(compile_c, width)
    result = run(path, source.inputs["train"])
    assert (result.output, result.errors, result.status) == (source.expected("train"), b"", 0)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("source", "width"),
    list(zip(SOURCES[8:9], itertools.cycle(WIDTHS), strict=False)),
    ids=lambda each: getattr(each, "name", each),
)
def test_program_sizes(
    source: Source, width: str, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """Ref runs are 100 to 400 million instructions, train runs about a tenth."""
    path = source.compiled(compile_c, width)
    lengths = {}
    for name, arguments in source.inputs.items():
        simulated = simulate(path, arguments, directory=tmp_path, modes=("edges",))
        assert simulated.output == source.expected(name)
        counts = simulated.measurements["edges"].counts
        assert counts["unattributed_instructions"] == 0
        lengths[name] = simulated.observation.result.instructions
    assert 100e6 <= lengths["ref"] <= 400e6
    assert 0.04 <= lengths["train"] / lengths["ref"] <= 0.25


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("source", "width"),
    list(zip(SOURCES[1:15:4], itertools.cycle(WIDTHS[::-1]), strict=False)),
    ids=lambda each: getattr(each, "name", each),
)
def test_program_is_exact(
    source: Source, width: str, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    path = source.compiled(compile_c, width)
    check_against_qemu(path, TINY[source.name].split(), directory=tmp_path)


@pytest.mark.long
@pytest.mark.toolchain
def test_integrals_are_long_blocks(compile_c: Callable[..., Path]) -> None:
    """What makes fpppp special: a block of hundreds of instructions without a branch."""
    source = next(source for source in SOURCES if source.name == "integrals")
    path = source.compiled(compile_c, "v9")
    own = ("MAIN__", "quartet", "repulsion")
    routines = [cfg for cfg in recover(load(path)).routines if cfg.name.startswith(own)]
    assert max(block.instructions for cfg in routines for block in cfg.blocks) > 800
