"""The committed fixture programs are what they claim to be, and run as expected."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tests.oracles.qemu import run
from tools.build_fixtures import (
    COMPILER,
    FIXTURES,
    RECORD,
    VARIANTS,
    Fixture,
    Variant,
    build,
    check,
    compiler_version,
    read_manifest,
)

MANIFEST = read_manifest()
BUILT = [(fixture, variant) for fixture in MANIFEST for variant in VARIANTS]
NAMES = [f"{fixture.name}-{variant.name}" for fixture, variant in BUILT]
EM_SPARC32PLUS_FLAG = 0x100
# What ends each kind of `faults`: SPARC signal numbers. qemu-user 7.2 does not turn division by
# zero and odd jumps into signals, so these two are not here.
FAULTS = {
    "read-null": 11,
    "write-null": 11,
    "read-far": 11,
    "write-constant": 11,
    "illegal": 4,
    "unaligned": 10,
    "jump-null": 11,
    "jump-data": 11,
    "abort": 6,
    "overflow": 11,
}


def given(fixture: Fixture) -> bytes:
    return b"" if fixture.input is None else (FIXTURES / "input" / fixture.input).read_bytes()


def recorded_compiler() -> str:
    return "\n".join((FIXTURES / "bin" / RECORD).read_text().splitlines()[:2])


def test_every_file_is_in_the_manifest() -> None:
    expected = {fixture.path(variant) for fixture, variant in BUILT}
    assert set((FIXTURES / "bin").glob("*/*.elf")) == expected
    texts = {FIXTURES / "expected" / f"{fixture.name}.txt" for fixture in MANIFEST}
    assert set((FIXTURES / "expected").iterdir()) == texts
    sources = {FIXTURES / "src" / source for fixture in MANIFEST for source in fixture.sources}
    assert set((FIXTURES / "src").iterdir()) == sources


def test_checksums() -> None:
    lines = (FIXTURES / "bin" / RECORD).read_text().splitlines()[2:]
    recorded = {name: digest for digest, name in (line.split() for line in lines)}
    for fixture, variant in BUILT:
        path = fixture.path(variant)
        name = f"{variant.name}/{path.name}"
        assert recorded.pop(name) == hashlib.sha256(path.read_bytes()).hexdigest(), name
    assert not recorded


@pytest.mark.parametrize(("fixture", "variant"), BUILT, ids=NAMES)
def test_program_file(fixture: Fixture, variant: Variant) -> None:
    with fixture.path(variant).open("rb") as stream:
        file = ELFFile(stream)
        assert (
            file["e_machine"]
            == {2: "EM_SPARC", 18: "EM_SPARC32PLUS", 43: "EM_SPARCV9"}[variant.machine]
        )
        assert file.elfclass == (64 if variant.name == "v9" else 32)
        assert bool(file["e_flags"] & EM_SPARC32PLUS_FLAG) == (variant.name == "v8plus")
        assert file.get_section_by_name(".interp") is None
        table = file.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        undefined = [
            s.name for s in table.iter_symbols() if s["st_shndx"] == "SHN_UNDEF" and s.name
        ]
        assert undefined == []


@pytest.mark.long
@pytest.mark.parametrize(("fixture", "variant"), BUILT, ids=NAMES)
def test_all_code_comes_from_here(fixture: Fixture, variant: Variant) -> None:
    """Units are our sources, under names without the machine's paths; so is every function."""
    with fixture.path(variant).open("rb") as stream:
        file = ELFFile(stream)
        words: set[str] = set()
        for unit in file.get_dwarf_info().iter_CUs():
            top = unit.get_top_DIE()
            name = top.attributes["DW_AT_name"].value.decode()
            words |= set(re.findall(r"\w+", (FIXTURES / name).read_text()))
            assert top.attributes["DW_AT_comp_dir"].value == b"."
        table = file.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        functions = [s for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"]
        assert functions
        # The compiler makes one more routine: a thunk that reads the program counter.
        names = {s.name.split(".")[0] for s in functions} - {"__sparc_get_pc_thunk"}
        assert names <= words


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("fixture", "variant"), BUILT, ids=NAMES)
def test_output(fixture: Fixture, variant: Variant) -> None:
    result = run(fixture.path(variant), fixture.arguments, given(fixture))
    expected = (FIXTURES / "expected" / f"{fixture.name}.txt").read_bytes()
    assert (result.output, result.status) == (expected, fixture.status)


@pytest.mark.qemu
@pytest.mark.parametrize("variant", VARIANTS, ids=[v.name for v in VARIANTS])
@pytest.mark.parametrize("kind", FAULTS)
def test_faults(kind: str, variant: Variant) -> None:
    (fixture,) = (f for f in MANIFEST if f.name == "faults")
    result = run(fixture.path(variant), [kind])
    assert result.output == f"about to: {kind}\n".encode()
    assert result.status == 128 + FAULTS[kind]


@pytest.mark.long
@pytest.mark.toolchain
def test_rebuild_elsewhere(tmp_path: Path) -> None:
    """Two programs, built in another directory, are the committed ones byte for byte."""
    if compiler_version() != recorded_compiler():
        pytest.skip(f"the fixtures were built by another compiler: {recorded_compiler()}")
    root = tmp_path / "a place of its own"
    shutil.copytree(FIXTURES, root, ignore=shutil.ignore_patterns("bin"))
    built = list(build(root, ["control", "floats"]))
    assert len(built) == 2 * len(VARIANTS)
    for path in built:
        assert path.read_bytes() == (FIXTURES / path.relative_to(root)).read_bytes(), path


@pytest.mark.toolchain
@pytest.mark.long
def test_rebuild_all() -> None:
    if compiler_version() != recorded_compiler():
        pytest.skip(f"the fixtures were built by another {COMPILER}: {recorded_compiler()}")
    assert check(()) == 0
