"""Versions of what instructions cost: they change with the files that make a mode's code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.schemes import registry
from simprof.profiler.schemes.cost_model import (
    GENERATION,
    cost_version,
    files_of,
    own_cost_version,
)
from simprof.profiler.schemes.definition import SchemeCode
from tests.conftest import ROOT
from tests.support.turns import first

OWN = [scheme.mode for scheme in registry.OWN]
WITH_CODE = {*OWN} - {"edges"}
TRACES = {"witness", "bits", "bytes", "block-trace"}
PRINT = """
import json
from simprof.profiler.experiments.cells.cells import engine_digest
from simprof.profiler.schemes import cost_model, registry
versions = {mode: cost_model.cost_version(mode) for mode in registry.modes()}
versions["all"] = cost_model.own_cost_version()
print(json.dumps([cost_model.__file__, engine_digest(), versions]))
"""
Versions = dict[str, str]


def printed(*places: Path) -> tuple[Path, str, Versions]:
    """Return what a process says that finds modules in some places: all versions, by mode."""
    path = os.pathsep.join(map(str, places))
    done = subprocess.run(
        [sys.executable, "-c", PRINT], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=True, cwd=places[0],
    )  # fmt: skip
    file, engine, versions = json.loads(done.stdout)
    return Path(file), engine, versions


def of_copy(root: Path) -> Versions:
    """Return the versions of the simprof in a directory."""
    file, _, versions = printed(root)
    assert file.is_relative_to(root)
    return versions


def copied(root: Path) -> Path:
    """Copy the sources of simprof, linked as in a checkout."""
    without = shutil.ignore_patterns("__pycache__", "*.html", "*.so", "vendor")
    for package in ("simprof", "profiler", "simulator"):
        shutil.copytree(ROOT / package, root / package, symlinks=True, ignore=without)
    return root


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("original"))


@pytest.fixture(scope="module")
def versions(original: Path) -> Versions:
    return of_copy(original)


def changed(old: Versions, new: Versions) -> set[str]:
    """Return the modes whose versions differ."""
    assert old.keys() == new.keys()
    return {mode for mode in old if old[mode] != new[mode]}


@pytest.mark.long
def test_versions_are_those_of_the_files_wherever_they_are(
    tmp_path: Path, versions: Versions
) -> None:
    """In a checkout, in a copy of it, and where a wheel is unpacked."""
    here = {mode: cost_version(mode) for mode in OWN}
    assert {**here, "all": own_cost_version()} == versions
    unpacked = tmp_path / "deep" / "site-packages"
    (copied(tmp_path / "tree") / "simprof/profiler").unlink()
    (tmp_path / "tree/simprof/simulator").unlink()
    shutil.move(tmp_path / "tree/simprof", unpacked / "simprof")
    for package in ("profiler", "simulator"):
        shutil.move(tmp_path / "tree" / package, unpacked / "simprof" / package)
    assert of_copy(unpacked) == versions


def test_a_version_says_its_generation(versions: Versions) -> None:
    for version in versions.values():
        generation, _, digest = version.partition("-")
        assert int(generation) == GENERATION
        assert len(digest) == 12
        assert set(digest) <= set("0123456789abcdef")
    assert len(set(versions.values())) > 10


CHANGES = {
    "profiler/code/writer.py": WITH_CODE,
    "profiler/schemes/tpp/code.py": {"tpp", "ppp"},  # which takes its code from there
    "profiler/schemes/kiter/placement.py": {"kiter"},
    "profiler/schemes/tracing/code.py": {*TRACES, "wpp", "pap"},
    "simulator/isa/assembler.py": WITH_CODE,
    "simulator/isa/effects.py": WITH_CODE,
    "profiler/schemes/pp.py": {"pp"},
    "profiler/schemes/sampling/__init__.py": {"sampled", "pep"},
    "profiler/schemes/registry.py": set[str](),
    "profiler/reports/run_text.py": set[str](),
    "profiler/engine/lowering.py": set[str](),
}


@pytest.mark.parametrize(("file", "modes"), first(3, CHANGES.items()))
def test_a_byte_of_a_file_changes_the_modes_whose_code_it_makes(
    file: str, modes: set[str], original: Path, versions: Versions
) -> None:
    path = original / file
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    try:
        found = of_copy(original)
    finally:
        path.write_bytes(content)
    assert changed(versions, found) == modes | ({"all"} if modes else set())


@pytest.mark.long
def test_files_that_come_go_or_are_called_otherwise_change_versions(tmp_path: Path) -> None:
    root = copied(tmp_path)
    kiter = root / "profiler/schemes/kiter"
    (kiter / "notes.txt").write_text("no code")
    (kiter / "data").mkdir()
    old = of_copy(root)
    assert cost_version("kiter") == old["kiter"]
    (kiter / "data" / "more.py").write_text("X = 1\n")
    with_more = of_copy(root)
    assert changed(old, with_more) == {"kiter", "all"}
    (kiter / "data" / "more.py").rename(kiter / "data" / "other.py")
    assert changed(with_more, of_copy(root)) == {"kiter", "all"}


def test_all_that_writes_a_modes_code_is_in_its_version() -> None:
    """Generators and run-time routines come from modules whose files the version is made of."""
    for mode in WITH_CODE:
        code = registry.definition(mode).code()
        makers: list[Any] = [each.write for each in registry.generators(mode).values()]
        makers += [*code.routines, code.run_cost, code.slots]
        modules = {maker.__module__ for maker in makers} - {SchemeCode.__module__}  # its defaults
        names = {f"{module.replace('.', '/')}.py" for module in modules}
        assert names <= files_of(mode).keys()


SCHEME = """
from simprof.schemes import SchemeDefinition
SCHEME = SchemeDefinition(mode={0!r}, description="x", plan=lambda order: None)
"""


@pytest.fixture
def installed(tmp_path: Path) -> Callable[[str, str, str], Path]:
    """Install a scheme of another distribution in a module; the result is its place."""

    def install(mode: str, module: str, source: str) -> Path:
        info = tmp_path / "site" / f"lab_{mode}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: lab-{mode}\nVersion: 1.0\n")
        entry = f"[{registry.GROUP}]\n{mode} = {module}:SCHEME\n"
        (info / "entry_points.txt").write_text(entry)
        file = tmp_path / "site" / f"{module.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source.format(mode))
        return file

    return install


@pytest.mark.long
def test_schemes_of_other_distributions_have_versions_of_their_files(
    installed: Callable[[str, str, str], Path], tmp_path: Path, versions: Versions
) -> None:
    """A module of its own, and one in a package, whose other modules are the scheme's too."""
    module = installed("alone", "lab_alone", SCHEME)
    package = installed("packed", "lab.schemes.packed", SCHEME).parent
    (package / "code.py").write_text("X = 1\n")
    (package.parent / "other.py").write_text("X = 1\n")
    site = tmp_path / "site", ROOT
    _, engine, old = printed(*site)
    assert {mode: old[mode] for mode in versions} == versions
    (package.parent / "other.py").write_text("X = 2\n")
    assert printed(*site)[1:] == (engine, old)
    for file, mode in ((module, "alone"), (package / "code.py", "packed")):
        file.write_text(f"{file.read_text()}\n")
        _, changed_engine, new = printed(*site)
        assert changed(old, new) == {mode}
        assert changed_engine != engine  # so that stored cells are not taken for new ones
        old, engine = new, changed_engine
