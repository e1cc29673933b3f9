"""Machine code that is shipped: made from these sources, whole, and put where it is executed."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from simprof.profiler.engine import kernel_builder
from simprof.simulator.cpu import linking, machine_code

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = machine_code.shipped_file()
here = pytest.mark.skipif(not SHIPPED.exists(), reason="none is shipped for this machine")
NOT_COMPILED = {
    "simulator/binary/program.py": "an address's page, whose size SPARC's ABI says",
    "simulator/stopping.py": "Python's exceptions and signals",
}
"""Imported by modules with native code; what is compiled in is not theirs, or never changes."""


@here
def test_what_is_shipped_was_made_from_these_sources() -> None:
    code = SHIPPED.read_bytes()
    head, _ = machine_code.parts(code)
    assert head.sources == machine_code.digest(), "kernels have changed: run `make kernels`"
    assert machine_code.fits(code)
    modules = {name.rpartition(".")[0] for name in head.symbols}
    assert modules == set(kernel_builder.MODULES)


@here
@pytest.mark.long
def test_what_is_shipped_is_what_is_made_again() -> None:
    """The same compiler writes the same bytes; another at least all the functions."""
    process = kernel_builder.start(kernel_builder.MODULES)
    made, code = process.communicate()[0], SHIPPED.read_bytes()
    assert process.returncode == 0
    again, shipped = machine_code.parts(made)[0], machine_code.parts(code)[0]
    assert again.symbols.keys() == shipped.symbols.keys()
    assert made == code or again.made_by != shipped.made_by


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


def test_constants_calls_and_functions_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is linked has a table of constants, a call of another function, and one of memset."""
    import ctypes
    import importlib

    import numpy as np

    from simprof.simulator.cpu import compiled

    (tmp_path / "linked_probe.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(compiled._State, "directory", None)
    importlib.import_module("linked_probe")
    compilers = compiled.compilers("linked_probe")
    code = linking.build(compilers)
    assert code == linking.build(compilers)
    head, _ = machine_code.parts(code)
    assert "memset" in head.externals
    for _ in range(2):  # two images in one process do not disturb each other
        (address,) = machine_code.load(code).values()
        clear = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 3)(address)
        array = np.arange(100)
        assert clear(array.ctypes.data, 53) == 9
        assert not array[:53].any() and array[53:].all()


def test_what_cannot_be_linked_is_refused() -> None:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_assembly("@variable = global i64 7")
    module.triple = binding.get_default_triple()
    with pytest.raises(ValueError, match="variables with a value"):
        linking._Linker(linking._emit(module))
