"""Create the project's virtual environment and install simprof into it.

    python3 tools/bootstrap.py .venv [EXTRA]

Needs nothing but Python 3.11 or newer with `venv`. Debian ships `venv` without `ensurepip`; then
the system's pip or `virtualenv` is used, or, where that is allowed, the package `python3-venv`
is installed. A half-made environment is made anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.version_info < OLDEST:
        return fail(f"Python {sys.version.split()[0]} is too old: use Python 3.11 or newer")
    directory = Path(arguments[0])
    extra = arguments[1] if len(arguments) == 2 else ""
    if not works(directory) and not create(directory):
        return fail(
            "this Python cannot make virtual environments: install its venv module "
            "(Debian: apt-get install python3-venv) and try again"
        )
    target = f"{ROOT}[{extra}]" if extra else str(ROOT)
    install = [str(python(directory)), "-m", "pip", "install", "--quiet", "--editable", target]
    if subprocess.run(install, env=environment(), check=False).returncode:
        return fail("pip could not install simprof's dependencies: see its message above")
    # Left by installations with setuptools. Python would believe the version that it names.
    shutil.rmtree(ROOT / "simprof.egg-info", ignore_errors=True)
    return 0


def python(directory: Path) -> Path:
    """Return the interpreter of the environment in `directory`."""
    return directory / "bin" / "python"


def works(directory: Path) -> bool:
    """Return whether `directory` holds an environment with a new enough Python and with pip."""
    if not python(directory).exists():
        return False
    probe = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    done = subprocess.run([python(directory), "-c", probe], capture_output=True, check=False)
    return done.returncode == 0


def create(directory: Path) -> bool:
    """Make a new environment in one of the possible ways; return whether one worked."""
    ways: tuple[Callable[[Path], bool], ...] = (
        with_venv,
        with_virtualenv,
        with_system_pip,
        with_package,
    )
    for way in ways:
        shutil.rmtree(directory, ignore_errors=True)
        if way(directory) and works(directory):
            return True
    return False


def with_venv(directory: Path) -> bool:
    """Make it as the Python documentation says."""
    return bool(find_spec("ensurepip")) and quietly([sys.executable, "-m", "venv", str(directory)])


def with_virtualenv(directory: Path) -> bool:
    """Make it with the tool that `venv` descends from."""
    return bool(find_spec("virtualenv")) and quietly(
        [sys.executable, "-m", "virtualenv", str(directory)]
    )


def with_system_pip(directory: Path) -> bool:
    """Make it without pip, and let the system's pip install one."""
    if not find_spec("venv") or not find_spec("pip"):
        return False
    bare = [sys.executable, "-m", "venv", "--without-pip", str(directory)]
    add = [sys.executable, "-m", "pip", "--python", str(python(directory)), "install", "pip"]
    return quietly(bare) and quietly(add)


def with_package(directory: Path) -> bool:
    """Install Debian's package; only as root and only for Debian's own Python."""
    if os.geteuid() != 0 or not shutil.which("apt-get") or not sys.executable.startswith("/usr/"):
        return False
    print("bootstrap: installing python3-venv", file=sys.stderr)
    install = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", "python3-venv"]
    if not quietly(install):
        quietly(["apt-get", "-qq", "update"])
        if not quietly(install):
            return False
    # A new process: this one has already learnt that ensurepip is missing.
    return quietly([sys.executable, "-m", "venv", str(directory)])


def quietly(command: Sequence[str]) -> bool:
    """Run a command; return whether it worked."""
    done = subprocess.run(
        command,
        env=environment() | {"DEBIAN_FRONTEND": "noninteractive"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


def environment() -> dict[str, str]:
    """Return the environment variables, without those that would mislead Python or pip."""
    hidden = {"PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
    return {name: value for name, value in os.environ.items() if name not in hidden}


def fail(message: str) -> int:
    """Print one line; return the exit status for it."""
    print(f"bootstrap: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
