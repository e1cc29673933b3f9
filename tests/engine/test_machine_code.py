"""Machine code that is kept stands for numba: the same answers, without numba."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.engine import kernel_cache, kernels
from simprof.simulator.cpu import compiled

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
from pathlib import Path
from simprof.profiler.engine import kernel_cache
from simprof.profiler.profiles.cache_files import CacheFiles
from simprof.simulator.cpu import compiled
kernel_cache._machine_code = lambda: [CacheFiles(Path(sys.argv[1]))]
if sys.argv[2] == "numba":
    compiled.compile_here()
from simprof.profiler.cli import run
status = run(sys.argv[3:])
print(json.dumps({"status": status, "compiled": not compiled.is_loaded()}), file=sys.stderr)
"""


def run(directory: Path, how: str, *words: str, status: int = 0) -> tuple[Any, bool]:
    """Run simprof with machine code in a directory; return its JSON, and if it had to compile."""
    command = [sys.executable, "-c", PROGRAM, str(directory), how, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(done.stderr.splitlines()[-1])
    assert told["status"] == status, done.stderr
    return json.loads(done.stdout), told["compiled"]


PROGRAMS = ["v9/calls.elf", "v8plus/calls.elf", "v9/nonlocal.elf", "v8plus/nonlocal.elf"]
"""Windows, and contexts of both widths."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with machine code that one run has kept."""
    found = tmp_path_factory.mktemp("code")
    _, loaded = run(found, "kept", "run", "--json=-", f"fixtures/bin/{PROGRAMS[0]}")
    assert loaded
    (file,) = found.iterdir()
    assert file.stat().st_size > 10_000
    return found


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_machine_code_counts_what_numba_counts(program: str, directory: Path) -> None:
    words = ("compare", "--json=-", f"fixtures/bin/{program}")
    status = 4 if "nonlocal" in program else 0
    plain, _ = run(directory, "numba", *words, status=status)
    assert run(directory, "kept", *words, status=status) == (plain, False)


@pytest.mark.long
def test_traces_are_checked_with_machine_code(directory: Path) -> None:
    words = ("run", "--mode=witness", "--self-check", "--json=-", f"fixtures/bin/{PROGRAMS[0]}")
    kept, _ = run(directory, "kept", *words)
    assert kept == run(directory, "numba", *words)[0]


@pytest.mark.long
def test_damaged_machine_code_is_made_again(tmp_path: Path, directory: Path) -> None:
    (file,) = directory.iterdir()
    damaged = tmp_path / file.name
    damaged.write_bytes(file.read_bytes()[:-1])
    words = ("run", "--json=-", f"fixtures/bin/{PROGRAMS[0]}")
    assert run(tmp_path, "kept", *words)[1]
    assert damaged.stat().st_size == file.stat().st_size
    assert not run(tmp_path, "kept", *words)[1]


@pytest.mark.long
def test_where_no_file_can_be_kept_numba_compiles(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    words = ("run", "--json=-", f"fixtures/bin/{PROGRAMS[0]}")
    assert run(place, "kept", *words)[1]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with an installation, a cache and temporary files of its own."""
    monkeypatch.setenv(kernel_cache.VARIABLE, "")  # what tests choose is undone
    monkeypatch.delenv(kernel_cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(kernel_cache, "_ROOT", tmp_path / "lib")
    monkeypatch.setattr(compiled._State, "keeps", True)
    monkeypatch.delitem(sys.modules, "numba", raising=False)  # the real one is left as it is
    for name in ("tmp", "lib/simulator", *(f"lib/{each}" for each in kernel_cache.PACKAGES)):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def chosen(caplog: pytest.LogCaptureFixture) -> tuple[str | None, int]:
    """Choose a place; return numba's variable, and how many lines were written."""
    caplog.clear()
    kernel_cache._choose_place()
    return os.environ.get(kernel_cache.VARIABLE), len(caplog.records)


def test_numba_keeps_code_in_the_first_place_that_can_be_trusted(
    places: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernel_cache, "leave_alone", lambda path: left.append(path))
    left: list[Path] = []
    assert chosen(caplog) == (None, 0)  # beside the sources
    beside = kernel_cache.beside()
    assert [path.stat().st_mode & 0o777 for path in beside] == [0o755] * 5
    beside[2].chmod(0o777)
    own = places / "cache" / "simprof" / "kernels"
    assert chosen(caplog) == (str(own), 0)
    assert own.stat().st_mode & 0o777 == 0o700 and left == []
    (own / "engine").mkdir(mode=0o777)
    (own / "engine" / "one.nbi").touch(mode=0o666)
    assert chosen(caplog) == (str(own), 0)  # others cannot come there
    own.chmod(0o755)
    (own / "engine").chmod(0o777)
    temporary = places / "tmp" / f"simprof-{os.geteuid()}" / "kernels"
    assert chosen(caplog) == (str(temporary), 1)
    assert left == [own / "engine"]
    temporary.chmod(0o777)
    assert compiled.keeps()
    assert chosen(caplog)[1] == 1 and not compiled.keeps()


@pytest.mark.parametrize("name", ["made", "file/cache", "open"])
def test_a_chosen_place_is_tried_first(
    name: str, places: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (places / "file").touch()
    (places / "open").mkdir()
    (places / "open").chmod(0o777)
    monkeypatch.setenv(kernel_cache.VARIABLE, str(places / name))
    own = places / "cache" / "simprof" / "kernels"
    lines = {"made": 0, "file/cache": 1, "open": 2}[name]
    assert chosen(caplog) == (str(own if lines else places / "made"), lines)


def test_a_home_that_only_looks_usable_is_none(
    places: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The superuser may write anything below /proc, says the system, but makes no file there."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/proc/x")
    monkeypatch.setattr(kernel_cache, "_ROOT", Path("/proc"))
    monkeypatch.setattr(kernel_cache, "_installer", lambda: 0)
    place = places / "tmp" / f"simprof-{os.geteuid()}" / "kernels"
    assert chosen(caplog) == (str(place), 1)
    assert caplog.messages == [
        f"simprof: compiled code is kept in {place}: /proc/x/.cache/simprof/kernels cannot be used"
    ]


def test_machine_code_beside_the_sources_is_for_all_users(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (beside, *_) = kernel_cache._machine_code()
    beside.write("one", b"code")
    file = beside.directory / "one"
    assert beside.directory.parent == kernel_cache.beside()[0]
    assert [path.stat().st_mode & 0o777 for path in (beside.directory, file)] == [0o755, 0o644]
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)  # who has not installed it
    assert kernel_cache._machine_code()[0].read("one") == b"code"
    file.chmod(0o666)
    assert kernel_cache._machine_code()[0].read("one") is None


def test_the_name_of_the_file_tells_what_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    name = kernel_cache._name()
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert kernel_cache._name() != name
    monkeypatch.delenv("NUMBA_OPT")
    assert kernel_cache._name() == name
    monkeypatch.setattr(compiled, "host", lambda: "another")
    assert kernel_cache._name() != name


def test_all_modules_with_c_functions_are_kept() -> None:
    found = set()
    for package in ("profiler", "simulator"):
        for path in ROOT.glob(f"{package}/**/*.py"):
            nodes = list(ast.walk(ast.parse(path.read_text())))
            functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
            makers = [each for function in functions for each in function.decorator_list]
            called = [node.func for node in nodes if isinstance(node, ast.Call)]
            natives = ("c_function", "hook_part")
            if any(name in ast.unparse(each) for each in makers for name in natives) or any(
                ast.unparse(each) == "compiled.for_python" for each in called
            ):
                found.add(".".join(("simprof", *path.relative_to(ROOT).with_suffix("").parts)))
    assert found == set(kernel_cache.MODULES)


@pytest.mark.parametrize("name", ["landing", "replay", "recording", "context"])
def test_what_numba_keeps_depends_on_the_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"simprof.profiler.engine.{name}_kernel"
    importlib.import_module(module)
    before = compiled.digest.__wrapped__(module)
    assert compiled.digest.__wrapped__(module) == before
    monkeypatch.setattr(kernels, "STRIDE", kernels.STRIDE + 1)
    assert compiled.digest.__wrapped__(module) != before


def test_parts_of_machine_code_cannot_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled._State, "addresses", {})

    @compiled.jit()
    def part() -> int:
        return 1

    with pytest.raises(RuntimeError, match="part of machine code"):
        part()
    assert not compiled.may_load()
    assert not compiled.may_dump()
