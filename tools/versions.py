#!/usr/bin/env python3
"""Try simprof with the oldest libraries that pyproject.toml allows, and with the newest Python.

    tools/versions.py            both, each in an environment of its own below build/versions
    tools/versions.py lowest     every direct dependency at its lower bound, oldest Python
    tools/versions.py newest     the newest Python of this machine, newest libraries

Each installs simprof and runs `TESTS`. A machine without a newer Python than this one's says so
and leaves `newest` out. The exit status is 1 if anything failed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "versions"
TESTS = (
    "tests/end_to_end/test_cli_run.py",
    "tests/commands/test_cli.py",
    "tests/simulator/binary/test_dwarf_lines.py",
)
"""Whole runs of the command, and debugging information: where libraries have differed."""
RUNNERS = ("pytest", "pytest-xdist", "hypothesis")
_BOUND = re.compile(r"(?P<name>[\w-]+)>=(?P<version>[\d.]+)")


def lower_bounds(requirements: Sequence[str]) -> list[str]:
    """Return requirements with `>=` as constraints that allow the lower bound only."""
    found = (_BOUND.match(requirement) for requirement in requirements)
    return [f"{bound['name']}=={bound['version']}" for bound in found if bound]


def newest_python() -> Path | None:
    """Return the newest Python of this machine; None where it is none newer than this one."""
    places = [Path(directory) for directory in os.get_exec_path()]
    places += sorted((Path.home() / ".pyenv" / "versions").glob("*/bin"))
    found: dict[int, Path] = {}
    for path in (path for place in places for path in place.glob("python3.*")):
        minor = path.name.removeprefix("python3.")
        if minor.isdigit() and int(minor) > sys.version_info.minor and _works(path):
            found.setdefault(int(minor), path)
    return found[max(found)] if found else None


def _works(python: Path) -> bool:
    # The shims of pyenv stand on the PATH for versions that are not chosen, too: they fail.
    command = [str(python), "-c", "import ctypes, ssl, sqlite3, venv"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def start(name: str, python: Path, constraints: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start to install simprof below `constraints`, and to run the tests; return the process."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    limits = folder.with_suffix(".txt")
    limits.write_text("".join(f"{line}\n" for line in constraints))
    script = (
        f"{python} tools/bootstrap.py {folder} && "
        f"{folder}/bin/python -m pip install -q {' '.join(RUNNERS)} && "
        f"{folder}/bin/python -m pytest -q -p no:cacheprovider {' '.join(TESTS)}"
    )
    variables = {
        **os.environ, "PIP_CONSTRAINT": str(limits), "XDG_CACHE_HOME": str(folder / "cache"),
    }  # fmt: skip
    print(f"{name}: {python}, some minutes; what it does is in {folder}.log", flush=True)
    with folder.with_suffix(".log").open("wb") as log:
        command = ["sh", "-c", script]
        return subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log)


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit status."""
    wanted = arguments or ("lowest", "newest")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    running = {}
    if "lowest" in wanted:
        bounds = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
        running["lowest"] = start("lowest", Path(sys.executable), lower_bounds(bounds))
    if "newest" in wanted:
        python = newest_python()
        if python is None:
            why = f"no Python newer than 3.{sys.version_info.minor} on PATH or in ~/.pyenv/versions"
            # At once: the other environment takes minutes.
            print(f"newest: left out, there is {why}", flush=True)
        else:
            running[f"newest ({python.name})"] = start("newest", python, ())
    failed = False
    for name, process in running.items():
        bad = process.wait() != 0
        lines = (FOLDER / f"{name.split()[0]}.log").read_text().splitlines()
        print(f"{name}: {'FAILED' if bad else lines[-1]}")
        if bad:
            print("\n".join(lines[-40:]))
        failed |= bad
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
