"""What users install: the wheel, in an environment that knows nothing of the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT

LARGEST = 4_000_000
"""Bytes that the wheel may have."""
LEFTOVERS = ("build", "dist", "*.egg-info", "simprof/profiler/data", "profiler/data")
"""What building could leave in the checkout."""


def execute(
    command: Sequence[str | Path], directory: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in `directory`, without the variables that lead Python elsewhere."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        command, cwd=directory, env=kept | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def leftovers() -> set[Path]:
    return {path for pattern in LEFTOVERS for path in ROOT.glob(pattern)}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the source distribution."""
    before = leftovers()
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory)]
    execute([*command, "-t", "wheel", "-t", "sdist"], ROOT)
    assert leftovers() == before
    return directory


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (path,) = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def simprof(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment that has the wheel, and borrows the dependencies.

    They are those of the environment that runs the tests: a .pth file puts its directory on the
    search path. Python does not read the .pth files in there, so the line that makes the checkout
    importable for the tests has no effect here.
    """
    directory = tmp_path_factory.mktemp("environment")
    execute([sys.executable, "-m", "venv", "--without-pip", directory], directory)
    python = directory / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    execute([*pip, "--no-deps", "--no-index", str(wheel)], directory)
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = execute([python, "-c", program], directory).stdout.strip()
    dependencies = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    Path(packages, "dependencies.pth").write_text("\n".join(dependencies) + "\n")
    return directory / "bin" / "simprof"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """The directory in which commands are run."""
    directory = tmp_path / "empty"
    directory.mkdir()
    return directory


@pytest.mark.long
def test_what_the_wheel_holds(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = "simprof/profiler/data"
    assert {"simprof/py.typed", "simprof/profiler/cli.py", "simprof/simulator/errors.py"} <= names
    assert {f"{data}/suites/{name}.toml" for name in ("micro", "wcet", "spec-like")} <= names
    assert f"{data}/runtime/process.c" in names  # the kernels of wcet with gcc's counters need it
    for width in ("v9", "v8plus"):
        assert {f"{data}/bin/{width}/sieve.elf", f"{data}/suites/bin/{width}/crc.elf"} <= names
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    (shared,) = tops - {"simprof"}
    assert f"{shared}/data/share/man/man1/simprof-run.1" in names
    assert not [name for name in names if "__pycache__" in name or "/v8/" in name]
    assert wheel.stat().st_size < LARGEST


@pytest.mark.long
def test_the_wheel_has_the_licence_of_every_bundled_part(wheel: Path) -> None:
    """Its own, and those of what stands beside the parts in the repository."""
    archive = zipfile.ZipFile(wheel)
    marker = ".dist-info/licenses/"
    held = {
        name.split(marker)[1]: archive.read(name) for name in archive.namelist() if marker in name
    }
    parts = [
        path for each in ("simulator", "profiler") for path in (ROOT / each).rglob("*.LICENSE")
    ]
    expected = {str(path.relative_to(ROOT)): path.read_bytes() for path in parts}
    scripts = (ROOT / "profiler" / "reports" / "html" / "vendor").glob("*.js")
    bundled = {f"profiler/reports/html/vendor/{path.name.split('.')[0]}" for path in scripts}
    assert {name.removesuffix(".LICENSE") for name in expected} == {
        "simulator/cpu/kernels", *bundled,
    }  # fmt: skip
    assert held == {"LICENSE": (ROOT / "LICENSE").read_bytes(), **expected}
    (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    fields = archive.read(metadata).decode().splitlines()
    assert "License-Expression: MIT" in fields
    assert {line for line in fields if line.startswith("License-File: ")} == {
        f"License-File: {name}" for name in held
    }


@pytest.mark.long
def test_what_the_source_distribution_holds(distributions: Path) -> None:
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as tar:
        names = {name.split("/", 1)[1] for name in tar.getnames()}
    for name in ("pyproject.toml", "Makefile", "README.md", "LICENSE", "profiler/cli.py",
                 "tests/conftest.py", "tools/bootstrap.py", "docs/EXPERIMENTS.md",
                 "fixtures/manifest.toml", "fixtures/bin/v8/sieve.elf",
                 "fixtures/suites/published/epp.toml"):  # fmt: skip
        assert name in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


@pytest.mark.long
def test_the_checkout_is_out_of_reach(simprof: Path, empty: Path) -> None:
    program = (
        "from simprof import profiler, simulator; print(profiler.__file__, simulator.__file__)"
    )
    places = execute([simprof.with_name("python"), "-c", program], empty).stdout.split()
    assert all(place.startswith(str(simprof.parents[1])) for place in places), places


@pytest.mark.long
def test_commands_of_the_wheel(simprof: Path, empty: Path, tmp_path: Path) -> None:
    def output(*words: str) -> str:
        done = execute([simprof, *words], empty, XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert not any(empty.iterdir())
        return done.stdout

    assert output("--help").startswith("Usage: simprof ")
    lines = output("suite", "list").splitlines()
    assert [line.split()[0] for line in lines] == [
        "suite", "micro", "wcet", "spec-like", "real",
    ]  # fmt: skip
    assert "m88ksim" in output("suite", "list", "spec-like")
    kernels = output("table", "epp1", "--suite", "wcet")
    assert re.search(r"^crc +5,221,664 ", kernels, re.M)
    assert "The paper's numbers (Ball and Larus 1996 (EPP), table 1)" in kernels
    fixtures = output("table", "epp1", "--suite", "micro", "--benchmark", "sieve")
    assert re.search(r"^sieve +7,445,960 ", fixtures, re.M)
