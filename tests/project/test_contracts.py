"""Who may import what, beyond what import-linter can say (its contracts are in pyproject.toml)."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from simprof.profiler.schemes.registry import OWN

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("simulator", "profiler", "simprof")


@cache
def imported(path: Path) -> set[str]:
    """Return the top-level packages that a file imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else (node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("kernel", ["engine/kernels.py", "trace/regeneration_kernel.py"])
def test_kernels_import_numpy_and_numba_only(kernel: str) -> None:
    path = ROOT / "profiler" / kernel
    outside = imported(path) - set(sys.stdlib_module_names)
    assert outside <= {"numpy", "numba", "llvmlite", "simprof"}
    assert set(re.findall(r"from (simprof\S*) import (.*)", path.read_text())) <= {
        ("simprof.simulator.cpu", "compiled"),
        ("simprof.simulator.cpu.compiled", "types"),
    }


@pytest.mark.parametrize(
    ("package", "owners"),
    [
        (
            "elftools",
            {
                "simulator/binary/debug_info.py",
                "simulator/binary/dwarf_lines.py",
                "simulator/binary/inlining.py",
            },
        ),
        ("capstone", {"simulator/isa/disassembly.py"}),
    ],
)
def test_each_library_has_one_owner(package: str, owners: set[str]) -> None:
    sources = [path for package in PACKAGES for path in ROOT.glob(f"{package}/**/*.py")]
    naming = [path for path in sources if package in path.read_text()]
    users = {str(path.relative_to(ROOT)) for path in naming if package in imported(path)}
    assert users
    assert users <= owners


def test_the_contracts_of_schemes_name_them_all() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (independence,) = [each for each in contracts["contracts"] if each["type"] == "independence"]
    schemes = {scheme.plan.__module__ for scheme in OWN if scheme.plan is not None}
    packages = (ROOT / "profiler" / "schemes").glob("*/__init__.py")
    assert schemes >= {f"simprof.profiler.schemes.{path.parent.name}" for path in packages}
    assert set(independence["modules"]) == schemes
    (door,) = [each for each in contracts["contracts"] if "written against" in each["name"]]
    assert set(door["source_modules"]) == schemes


def test_only_the_command_line_prints() -> None:
    commands = [*ROOT.glob("profiler/commands/*.py"), *ROOT.glob("profiler/*/commands/*.py")]
    speakers = {"profiler/cli.py", *(str(path.relative_to(ROOT)) for path in commands)}
    sources = [path for package in PACKAGES for path in ROOT.glob(f"{package}/**/*.py")]
    for path in sources:
        text = path.read_text()
        if not any(name in text for name in ("print", "stdout", "stderr")):
            continue
        calls = [node for node in ast.walk(ast.parse(text)) if is_output(node)]
        assert not calls or str(path.relative_to(ROOT)) in speakers, path


def is_output(node: ast.AST) -> bool:
    """Return whether a syntax node prints, or reaches for the standard streams' write."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "print"
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ("stdout", "stderr")
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
    )


LOADED = """
import json, sys
EMULATOR = "simprof.simulator.cpu.engine"  # which loads Unicorn
from simprof.profiler.cli import run
status = run(sys.argv[1:])
print(json.dumps([status, sorted(m for m in ("numba", EMULATOR, "networkx") if m in sys.modules)]))
"""


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "--mode=kiter", "--report", "/dev/null", "{graph}"],
        ["cfg", "-o", "/dev/null", "fixtures/bin/v9/calls.elf"],
        *(
            pytest.param(
                ["cfg", "--code", mode, "-o", "/dev/null", "fixtures/bin/v9/calls.elf"],
                marks=() if mode == "pp" else pytest.mark.long,
            )
            for mode in ("pp", "bits", "calls-optimal")
        ),
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_planning_loads_neither_numba_nor_unicorn(command: list[str], tmp_path: Path) -> None:
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps({"entry": "A", "exit": "A", "edges": [["A", "A"]]}))
    words = [word.replace("{graph}", str(graph)) for word in command]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [0, []]


UNUSED = (
    # A program whose graphs and prices are kept is neither explored nor has it code generated.
    *("simprof.profiler.recovery.exploration", "simprof.profiler.recovery.graph_builder"),
    *("simprof.profiler.recovery.jump_tables",),
    "simprof.profiler.code.emission",
    # A scheme's planner is imported where its mode is asked for.
    *(f"simprof.profiler.schemes.{each}.planner" for each in ("qpt", "tpp", "kiter", "bittrace")),
    *("numba", "llvmlite", "networkx", "rich", "click.shell_completion"),
    *("unicorn", "simprof.profiler.engine.contexts"),
    *("tempfile", "shutil", "zipfile", "importlib.resources", "random"),
    *("subprocess", "concurrent.futures", "multiprocessing", "importlib.metadata", "sqlite3"),
    *(
        "urllib.request",
        "fractions",
        "csv",
        "simprof.profiler.profiles.csv_text",
        "difflib",
        "logging",
    ),
)
# Nor where no scheme counts what schemes count with.
WITHOUT_SCHEME = (
    *("simprof.profiler.code.arrangement", "simprof.profiler.code.context"),
    "simprof.profiler.code.liveness",
    "simprof.profiler.recovery.exploration_kernel",
    "simprof.profiler.code.hash_routine",
    "simprof.simulator.isa.assembler",
)
WARM = """
import json, sys
from simprof.profiler.cli import run
status = run(sys.argv[2:])
print(json.dumps([status, [name for name in json.loads(sys.argv[1]) if name in sys.modules]]))
"""


@pytest.mark.long
@pytest.mark.parametrize(("mode", "more"), [("pp", ()), ("edges", WITHOUT_SCHEME)])
def test_a_warm_run_imports_what_it_uses(mode: str, more: tuple[str, ...], tmp_path: Path) -> None:
    unused = json.dumps((*UNUSED, *more))
    command = [sys.executable, "-c", WARM, unused, "run", f"--mode={mode}"]
    command += ["--json", str(tmp_path / "run.json"), "fixtures/bin/v9/calls.elf"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("SIMPROF_NO_CACHE", None)
    found = []
    for _ in ("cold", "warm"):
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    cold, warm = found
    assert "simprof.profiler.recovery.exploration" in cold[1]  # it has been explored then
    assert warm == [0, []]


def test_help_imports_no_subcommand() -> None:
    code = (
        "import sys\nfrom simprof.profiler.cli import run\nrun(['--help'])\n"
        "print([m for m in sys.modules if m.startswith(('simprof.', 'numpy'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert loaded <= {
        "simprof.profiler", "simprof.simulator", "simprof.profiler.cli",
        "simprof.profiler.commands", "simprof.profiler.commands.group",
        "simprof.profiler.commands.streams", "simprof.simulator.errors",
        "simprof.simulator.stopping",
    }  # fmt: skip


def test_the_top_of_the_profiler_holds_the_command_line_only() -> None:
    top = {path.name for path in (ROOT / "profiler").iterdir() if path.is_file()}
    assert top == {"__init__.py", "cli.py"}
