"""The shared library of the kernels: made from these sources, whole, the same on any machine."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from simprof.profiler.graphs import plan_kernel
from simprof.simulator.cpu import compiled, library
from simprof.simulator.errors import EngineError
from tools import ship_kernels

ROOT = Path(__file__).resolve().parents[3]
here = pytest.mark.skipif(not library.file().exists(), reason="there is none for this machine")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Read files anew, for they are others in some tests."""
    kept = (library.sums, library.sources, library.fits, library._loaded)
    for each in kept:
        each.cache_clear()
    yield
    for each in kept:
        each.cache_clear()


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The library and its sources in a directory of their own."""
    for name in library.sums():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    made = tmp_path / library.file().relative_to(library.ROOT)
    monkeypatch.setattr(library, "ROOT", tmp_path)
    monkeypatch.setattr(library, "file", lambda machine="": made)
    library.sources.cache_clear()
    return made


@pytest.mark.parametrize("machine", ship_kernels.MACHINES)
def test_the_library_was_made_from_these_sources(machine: str) -> None:
    assert library.is_made(machine), "kernels have changed: run `make kernels`"


def test_all_sources_are_known() -> None:
    natives = ship_kernels.native_modules()
    assert "simprof.profiler.graphs.plan_kernel" in natives
    assert "simprof.simulator.cpu.nans" in natives
    due = {*natives, "simprof.profiler.recovery.idioms"}
    found = {str(path.relative_to(library.ROOT)) for path in ship_kernels.sources(due)}
    assert found == set(library.sources())
    assert "simulator/isa/sparc.py" in found
    assert all((ROOT / name).is_file() for name in ship_kernels.NOT_COMPILED)


def functions(machine: str) -> dict[str, tuple[str, int]]:
    """Return what a library defines and names: its section (or SHN_UNDEF), and its place."""
    with library.file(machine).open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".dynsym")
        symbols = [each for each in table.iter_symbols() if each.name]
        return {each.name: (each["st_shndx"], each["st_value"]) for each in symbols}


@pytest.mark.parametrize("machine", ship_kernels.MACHINES)
def test_a_library_needs_nothing_but_functions_of_the_c_library(machine: str) -> None:
    with library.file(machine).open("rb") as file:
        elf: Any = ELFFile(file)
        tags = {tag["d_tag"] for tag in elf.get_section_by_name(".dynamic").iter_tags()}
        segments = [each["p_flags"] for each in elf.iter_segments() if each["p_type"] == "PT_LOAD"]
    assert "DT_NEEDED" not in tags and "DT_TEXTREL" not in tags
    assert not any(flags & 3 == 3 for flags in segments)  # what can be written is not executed
    found = functions(machine)
    outside = {name for name, (section, _) in found.items() if section == "SHN_UNDEF"}
    assert outside == {*ship_kernels.FROM_C}
    modules = {name.rpartition(".")[0] for name in found.keys() - outside}
    assert modules == set(ship_kernels.native_modules())


@here
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "gone", "other sources"])
def test_a_library_that_does_not_fit_is_not_used(damage: str, copied: Path) -> None:
    assert library.fits()
    code = copied.read_bytes()
    if damage == "other sources":
        with (library.ROOT / "simulator/isa/sparc.py").open("a") as file:
            file.write("\n")
    elif damage == "gone":
        copied.unlink()
    else:
        damaged = {"cut": code[:-1], "changed": code[:-1] + bytes([code[-1] ^ 1]), "empty": b""}
        copied.write_bytes(damaged[damage])
    library.sources.cache_clear()
    library.fits.cache_clear()
    assert not library.fits()


def test_the_digest_is_of_each_source(copied: Path) -> None:
    digests = {library.digest()}
    for name in library.sources():
        with (library.ROOT / name).open("a") as file:
            file.write("\n")
        library.sources.cache_clear()
        digests.add(library.digest())
    assert len(digests) == len(library.sources()) + 1


def test_other_machines_have_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {library.file(machine).name for machine in ship_kernels.MACHINES}
    monkeypatch.setattr(sys, "platform", "other")
    names.add(library.file().name)
    monkeypatch.setattr(sys, "maxsize", (1 << 31) - 1)
    names.add(library.file().name)
    assert len(names) == 4


def test_the_environment_can_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, "1")
    assert not library.fits()


def test_what_cannot_be_loaded_is_an_error_of_one_line(copied: Path) -> None:
    copied.write_bytes(b"no library")
    with pytest.raises(EngineError, match=r"the kernels cannot be loaded: .*file too short"):
        library.address("simprof.profiler.graphs.plan_kernel.number")


# --- an aarch64 processor executes what this one does

MEMSET = "820000b4 420400d1 01682238 fdffff17 c0035fd6"
"""cbz x2, end; loop: sub x2, x2, 1; strb w1, [x0, x2]; b loop - 4; end: ret"""


def by_arm(name: str, words: Sequence[int], places: Sequence[int]) -> tuple[int, bytes]:
    """Call a kernel of the aarch64 library; return its result, and the words as they are then."""
    # `words` begin with `places`, whose addresses are counted from the first word.
    import unicorn
    from unicorn import arm64_const

    package: Any = unicorn
    registers: Any = arm64_const
    engine = package.Uc(package.UC_ARCH_ARM64, package.UC_MODE_ARM)
    end, memset, data, stack, base = (number << 24 for number in range(1, 6))
    engine.mem_map(0x100000, base + (1 << 24))
    engine.mem_write(memset, bytes.fromhex(MEMSET))
    found = functions("aarch64")
    with library.file("aarch64").open("rb") as file:
        elf: Any = ELFFile(file)
        for segment in elf.iter_segments():
            if segment["p_type"] == "PT_LOAD":
                engine.mem_write(base + segment["p_vaddr"], segment.data())
        for table in (".rela.dyn", ".rela.plt"):
            section = elf.get_section_by_name(table)
            for each in () if section is None else section.iter_relocations():
                value = base + each["r_addend"]  # R_AARCH64_RELATIVE
                if each["r_info_type"] != 1027:
                    assert each["r_info_sym"], "memset alone is not in the library"
                    value = memset
                engine.mem_write(base + each["r_offset"], value.to_bytes(8, "little"))
    given = np.array(words, np.int64)
    given[: len(places) : 3] += data
    engine.mem_write(data, given.tobytes())
    engine.reg_write(registers.UC_ARM64_REG_X0, data)
    engine.reg_write(registers.UC_ARM64_REG_LR, end)
    engine.reg_write(registers.UC_ARM64_REG_SP, stack)
    engine.emu_start(base + found[name][1], end)
    return engine.reg_read(registers.UC_ARM64_REG_X0), bytes(engine.mem_read(data, 1 << 12))


def frontier_words() -> tuple[list[int], list[list[int]]]:
    """Return where the arrays of `plan_kernel.frontier` lie (place, length), and what they have."""
    sizes = [0] * plan_kernel.SIZES
    sizes[plan_kernel.VERTICES], sizes[plan_kernel.EDGES] = 4, 4
    sizes[plan_kernel.EXIT] = 3
    empty = [[0] * 8 for _ in range(6)]
    arrays = [sizes, [0, 0, 1, 2], [1, 2, 3, 3], [1, 1, 1, 1], *empty]
    places, at = [], 30
    for each in arrays:
        places += [8 * at, len(each), 0]
        at += len(each)
    return places, arrays


def test_code_for_aarch64_computes_what_python_does() -> None:
    places, arrays = frontier_words()
    words = [*places, *(word for each in arrays for word in each)]
    result, memory = by_arm("simprof.profiler.graphs.plan_kernel.frontier", words, places)
    python = [[*each] for each in arrays]
    assert plan_kernel.frontier(*python) == result
    expected = [word for each in python for word in each]
    found = np.frombuffer(memory, np.int64)[len(places) :][: len(expected)].tolist()
    assert found == expected
    assert expected != [word for each in arrays for word in each]


# --- where no library fits

RUN = ("run", "--mode=pp", "--json=-", "fixtures/bin/v9/calls.elf")


@pytest.mark.long
def test_what_is_compiled_here_counts_what_the_library_does(tmp_path: Path) -> None:
    """Each command says that it compiles; what numba has compiled is kept for the next one."""

    def run(**variables: str) -> tuple[Any, str]:
        done = subprocess.run(
            [sys.executable, "-m", "simprof", *RUN],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)} | variables,
        )
        return json.loads(done.stdout), done.stderr

    expected, said = run()
    assert "compiling" not in said and not (tmp_path / "simprof" / "kernels").exists()
    line = "simprof: compiling kernels: no library fits this machine and these sources\n"
    found = [run(SIMPROF_COMPILE="1") for _ in range(2)]
    assert all(answer == expected and line in said for answer, said in found)
    (kept,) = (tmp_path / "simprof" / "kernels").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o700 and list(kept.rglob("*.nbc"))


def test_numba_keeps_nothing_where_others_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = compiled._own_cache()
    assert directory == tmp_path / "simprof" / "kernels" / library.digest()
    directory.chmod(0o777)
    assert compiled._own_cache() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/x")
    assert compiled._own_cache() is None


def test_compiling_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    compiled.on_compiling(said.append)
    assert compiled._State.tell is None  # tests have asked for it
    monkeypatch.setattr(compiled._State, "is_asked", False)
    compiled.on_compiling(said.append)
    for _ in range(2):
        compiled._address("simprof.profiler.graphs.plan_kernel.frontier")
    assert said == ["compiling kernels: no library fits this machine and these sources"]


# --- making one

SOURCE = """
from __future__ import annotations

from simprof.simulator.cpu.compiled import kernel, jit
from typing import Any

Longs = Any
TABLE = (3, 1, 4, 1, 5, 9, 2, 6)

def digit(place):
    return TABLE[place & 7]

@kernel
def clear(array: Longs, length: int) -> int:
    for place in range(length):
        array[place] = 0
    return digit(length)
"""


def test_constants_calls_and_functions_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two libraries in one process do not disturb each other; the same sources give one."""
    if shutil.which(ship_kernels.LINKER) is None:
        pytest.skip(f"no {ship_kernels.LINKER}: `apt install lld`")
    (tmp_path / "probe.py").write_text(SOURCE)
    monkeypatch.setattr(compiled._State, "directory", None)
    spec = spec_from_file_location("simprof.probe", tmp_path / "probe.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    name = "simprof.probe.clear"
    module_of_llvm = ship_kernels.join({name: compiled._State.compilers.pop(name)()})
    code = ship_kernels.object_file(module_of_llvm, library.MACHINE)
    made = [ship_kernels.link(code) for _ in range(2)]
    assert made[0] == made[1]
    for number, each in enumerate(made):
        file = tmp_path / f"{number}.so"
        file.write_bytes(each)
        clear: Any = ctypes.CDLL(str(file))[name]
        array = np.arange(100)
        words = np.array([array.ctypes.data, 100, 0, 53, 0, 0])
        assert clear(ctypes.c_int64(words.ctypes.data)) == 9 == module.clear(np.ones(99), 53)
        assert not array[:53].any() and array[53:].all()


@pytest.mark.long
def test_the_library_is_what_is_made_again(tmp_path: Path) -> None:
    """The same compiler writes the same bytes; another at least all the functions."""
    if shutil.which(ship_kernels.LINKER) is None:
        pytest.skip(f"no {ship_kernels.LINKER}: `apt install lld`")
    left_out = shutil.ignore_patterns(".*", "docs", "fixtures")
    shutil.copytree(ROOT, tmp_path / "tree", symlinks=True, ignore=left_out)
    sums = tmp_path / "tree/simulator/cpu" / library.SUMS.name
    sums.unlink()
    subprocess.run(
        [sys.executable, "tools/ship_kernels.py"],
        cwd=sums.parents[2],
        check=True,
        env=os.environ | {"PYTHONPATH": "."},
    )
    before, after = library.SUMS.read_text().splitlines(), sums.read_text().splitlines()
    assert before == after or before[0] != after[0]
    assert [line[-40:] for line in before[1:]] == [line[-40:] for line in after[1:]]
