"""Machine code that is shipped: made from these sources, whole, and put where it is executed."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.engine import kernel_builder
from simprof.simulator.cpu import compiled, linking, machine_code

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = machine_code.shipped_file()
here = pytest.mark.skipif(not SHIPPED.exists(), reason="none is shipped for this machine")
NOT_COMPILED = {
    "simulator/binary/program.py": "an address's page, whose size SPARC's ABI says",
    "simulator/stopping.py": "Python's exceptions and signals",
}
"""Imported by modules with native code; what is compiled in is not theirs, or never changes."""


@pytest.mark.parametrize("machine", linking.MACHINES)
def test_what_is_shipped_was_made_from_these_sources(machine: str) -> None:
    code = machine_code.shipped_file(machine).read_bytes()
    head, _ = machine_code.parts(code)
    assert head.sources == machine_code.digest(), "kernels have changed: run `make kernels`"
    assert [machine_code.fits(code, each) for each in linking.MACHINES].count(True) == 1
    assert machine_code.fits(code, machine)
    modules = {name.rpartition(".")[0] for name in head.symbols}
    assert modules == set(kernel_builder.MODULES)


def test_machines_have_the_same_functions_and_need_the_same_of_the_process() -> None:
    files = [machine_code.shipped_file(machine).read_bytes() for machine in linking.MACHINES]
    heads = [machine_code.parts(file)[0] for file in files]
    assert len({(*head.symbols, *head.externals, head.variables) for head in heads}) == 1
    # LLVM's own functions are those of the C library; the rest is for errors.
    own = {name for name in heads[0].externals if not re.match("Py|numba_|NRT_", name)}
    assert own == {"memset"}


@pytest.mark.long
def test_what_is_shipped_is_what_is_made_again() -> None:
    """The same compiler writes the same bytes; another at least all the functions."""
    process = kernel_builder.start(kernel_builder.MODULES, [*linking.MACHINES])
    made = machine_code.files(process.communicate()[0])
    assert process.returncode == 0
    for machine, file in zip(linking.MACHINES, made, strict=True):
        code = machine_code.shipped_file(machine).read_bytes()
        again, shipped = machine_code.parts(file)[0], machine_code.parts(code)[0]
        assert again.symbols.keys() == shipped.symbols.keys()
        assert file == code or again.made_by != shipped.made_by


@here
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "no JSON", "other sources"])
def test_what_does_not_fit_is_not_used(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = SHIPPED.read_bytes()
    file = tmp_path / "kernels.bin"
    monkeypatch.setattr(machine_code, "shipped_file", lambda: file)
    assert machine_code.shipped() is None
    file.write_bytes(code)
    assert machine_code.shipped() == code
    if damage == "other sources":
        monkeypatch.setattr(machine_code, "digest", lambda: "0" * 32)
    else:
        last = bytes([code[-1] ^ 1])
        damaged = {
            "cut": code[:-1],
            "changed": code[:-1] + last,
            "empty": b"",
            "no JSON": bytes(99),
        }
        file.write_bytes(damaged[damage])
    assert machine_code.shipped() is None


def test_other_machines_get_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {machine_code.shipped_file().name}
    monkeypatch.setattr(sys, "platform", "other")
    names.add(machine_code.shipped_file().name)
    monkeypatch.setattr(sys, "maxsize", (1 << 31) - 1)
    names.add(machine_code.shipped_file().name)
    assert len(names) == 3


def test_the_environment_can_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine_code.VARIABLE, "1")
    assert machine_code.shipped() is None


def test_the_digest_is_of_the_sources_and_of_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = machine_code.digest.__wrapped__()
    for name in machine_code.SOURCES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    monkeypatch.setattr(machine_code, "_ROOT", tmp_path)
    os.utime(tmp_path / machine_code.SOURCES[0], (0, 0))
    assert machine_code.digest.__wrapped__() == found
    for name in machine_code.SOURCES:
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        assert (found := machine_code.digest.__wrapped__()) != machine_code.digest()
    assert found != machine_code.digest()


NATIVE = re.compile(
    r"^ *@(\w+\.)?(c_function|hook_part)\b|= compiled\.(for_python|c_function)\(", re.M
)


def test_sources_are_all_that_is_compiled_and_what_it_imports() -> None:
    natives = {
        str(path.relative_to(ROOT))
        for package in ("profiler", "simulator")
        for path in ROOT.glob(f"{package}/**/*.py")
        if NATIVE.search(path.read_text())
    }
    modules = {f"simprof.{name.removesuffix('.py').replace('/', '.')}" for name in natives}
    assert modules == set(kernel_builder.MODULES)
    found = set(natives)
    due = [*natives, "profiler/recovery/exploration_kernel.py", "profiler/recovery/idioms.py"]
    due.append("profiler/code/sites_kernel.py")
    for name in due:
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("simprof."):
                owner = (node.module or "").removeprefix("simprof.").replace(".", "/")
                for each in (owner, *(f"{owner}/{alias.name}" for alias in node.names)):
                    if (ROOT / f"{each}.py").exists():
                        found.add(f"{each}.py")
    assert found - NOT_COMPILED.keys() == set(machine_code.SOURCES)
    assert found >= NOT_COMPILED.keys()


@here
def test_code_cannot_be_written_nor_variables_executed() -> None:
    addresses = machine_code.load(SHIPPED.read_bytes()).values()
    spans: list[tuple[int, int, str]] = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights = line.split()[:2]
        low, _, high = span.partition("-")
        spans.append((int(low, 16), int(high, 16), rights))
    found = {each for each in spans for address in addresses if each[0] <= address < each[1]}
    ((_, end, rights),) = found
    assert rights == "r-xp"
    assert [rights for first, _, rights in spans if first == end] == ["rw-p"]


# --- linking

SOURCE = """
from simprof.simulator.cpu import compiled
from simprof.simulator.cpu.compiled import array_of, c_function, jit, types

TABLE = (3, 1, 4, 1, 5, 9, 2, 6)
words = array_of(types.int64)

@jit(inline="never")
def digit(place):
    return TABLE[place & 7]

@c_function(types.int64(types.int64, types.int64), error_model="numpy", _nrt=False)
def clear(base, length):
    array = words(base, length)
    for place in range(length):
        array[place] = 0
    return digit(length)
"""


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Callable[[], Any]]:
    """Has a table of constants, a call of another function, and one of memset."""
    (tmp_path / "linked_probe.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(compiled._State, "directory", None)
    importlib.import_module("linked_probe")
    return compiled.compilers("linked_probe")


def test_constants_calls_and_functions_of_the_process(
    probe: Mapping[str, Callable[[], Any]],
) -> None:
    import ctypes

    import numpy as np

    code = linking.build(probe)
    assert code == linking.build(probe)
    head, _ = machine_code.parts(code)
    assert "memset" in head.externals
    for _ in range(2):  # two images in one process do not disturb each other
        (address,) = machine_code.load(code).values()
        clear = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 3)(address)
        array = np.arange(100)
        assert clear(array.ctypes.data, 53) == 9
        assert not array[:53].any() and array[53:].all()


MEMSET = "820000b4 420400d1 01682238 fdffff17 c0035fd6"
"""cbz x2, end; loop: sub x2, x2, 1; strb w1, [x0, x2]; b loop - 4; end: ret"""


def test_code_for_aarch64_runs_on_an_emulator(probe: Mapping[str, Callable[[], Any]]) -> None:
    import unicorn
    from unicorn import arm64_const

    package: Any = unicorn
    registers: Any = arm64_const
    head, image = machine_code.parts(linking.build(probe, ["aarch64"]))
    assert "memset" in head.externals
    base, end, array, memset, stack = (number << 20 for number in range(1, 6))
    engine = package.Uc(package.UC_ARCH_ARM64, package.UC_MODE_ARM)
    engine.mem_map(base, stack)
    engine.mem_write(base, image)
    engine.mem_write(array, b"\1" * 800)
    engine.mem_write(memset, bytes.fromhex(MEMSET))
    word = machine_code.writable(len(image)) + 8 * head.externals.index("memset")
    engine.mem_write(base + word, memset.to_bytes(8, "little"))
    (place,) = head.symbols.values()
    engine.reg_write(registers.UC_ARM64_REG_X0, array)
    engine.reg_write(registers.UC_ARM64_REG_X1, 53)
    engine.reg_write(registers.UC_ARM64_REG_LR, end)
    engine.reg_write(registers.UC_ARM64_REG_SP, stack)
    engine.emu_start(base + place, end)
    assert engine.reg_read(registers.UC_ARM64_REG_X0) == 9
    assert engine.mem_read(array, 800) == bytes(8 * 53) + b"\1" * (8 * 47)


@pytest.mark.parametrize("machine", linking.MACHINES)
def test_what_cannot_be_linked_is_refused(machine: str) -> None:
    from llvmlite import binding

    module = binding.parse_assembly("@variable = global i64 7")
    with pytest.raises(ValueError, match="variables with a value"):
        linking._Linker(linking._emit(module, machine), machine)
