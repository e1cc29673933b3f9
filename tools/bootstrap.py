"""Create the project's virtual environment and install simprof into it.

    python3 tools/bootstrap.py .venv [EXTRA]

Needs nothing but Python 3.11 or newer with `venv`. The system's pip puts everything into the
environment, pip among it; where there is none, `ensurepip` or `virtualenv` gives the environment
one, or, where that is allowed, the package `python3-venv` is installed. A half-made environment is
made anew.

What simprof depends on is fetched while its own metadata are built, each of which takes seconds.
pip compiles nothing: Python does so with the few files that commands import, when they first do.
"""

from __future__ import annotations

import os
import re
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
    pip = installer(directory) or create(directory)
    if pip is None:
        return fail(
            "this Python cannot make virtual environments: install its venv module "
            "(Debian: apt-get install python3-venv) and try again"
        )
    if not install(pip, extra):
        return fail("pip could not install simprof and its dependencies: see its message above")
    # Left by installations with setuptools. Python would believe the version that it names.
    shutil.rmtree(ROOT / "simprof.egg-info", ignore_errors=True)
    return 0


def python(directory: Path) -> Path:
    """Return the interpreter of the environment in `directory`."""
    return directory / "bin" / "python"


def installer(directory: Path) -> list[str] | None:
    """Return the pip that installs into an environment, the system's if it can; None: none does."""
    probe = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    if not python(directory).exists() or not runs([python(directory), "-c", probe]):
        return None
    inside = str(python(directory))
    pips = [sys.executable, "-m", "pip", "--python", inside], [inside, "-m", "pip"]
    return next((pip for pip in pips if runs([*pip, "--version"])), None)


def install(pip: Sequence[str], extra: str) -> bool:
    """Install simprof, and what it and `extra` depend on; return whether that worked."""
    command = [*pip, "install", "--quiet", "--no-compile"]
    # none replaces the pip that runs
    others = [*command, *(["pip"] if pip[0] == sys.executable else []), *requirements(extra)]
    own = subprocess.Popen([*command, "--no-deps", "--editable", str(ROOT)], env=environment())
    worked = subprocess.run(others, env=environment(), check=False).returncode == 0
    return own.wait() == 0 and worked


def requirements(extra: str) -> list[str]:
    """Return what simprof depends on, and what one of its extras does, which may name others."""
    import tomllib  # which older Pythons lack, who are told so

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found, extras = list(project["dependencies"]), [extra] if extra else []
    for name in extras:  # which grows
        for line in project["optional-dependencies"][name]:
            named = re.fullmatch(r"simprof\[(.*)\]", line)
            if named:
                extras += named[1].split(",")
            else:
                found.append(line)
    return found


def create(directory: Path) -> list[str] | None:
    """Make a new environment in one of the possible ways; return its `installer`, if one worked."""
    ways: tuple[Callable[[Path], bool], ...] = (
        with_system_pip,
        with_venv,
        with_virtualenv,
        with_package,
    )
    for way in ways:
        shutil.rmtree(directory, ignore_errors=True)
        if way(directory) and (pip := installer(directory)) is not None:
            return pip
    return None


def with_venv(directory: Path) -> bool:
    """Make it as the Python documentation says."""
    return bool(find_spec("ensurepip")) and runs([sys.executable, "-m", "venv", directory])


def with_virtualenv(directory: Path) -> bool:
    """Make it with the tool that `venv` descends from."""
    return bool(find_spec("virtualenv")) and runs([sys.executable, "-m", "virtualenv", directory])


def with_system_pip(directory: Path) -> bool:
    """Make it without pip: the system's installs into it."""
    return bool(find_spec("venv")) and runs(
        [sys.executable, "-m", "venv", "--without-pip", directory]
    )


def with_package(directory: Path) -> bool:
    """Install Debian's package; only as root and only for Debian's own Python."""
    if os.geteuid() != 0 or not shutil.which("apt-get") or not sys.executable.startswith("/usr/"):
        return False
    print("bootstrap: installing python3-venv", file=sys.stderr)
    install = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", "python3-venv"]
    if not runs(install):
        runs(["apt-get", "-qq", "update"])
        if not runs(install):
            return False
    # A new process: this one has already learnt that ensurepip is missing.
    return runs([sys.executable, "-m", "venv", directory])


def runs(command: Sequence[str | Path]) -> bool:
    """Run a command quietly; return whether it worked."""
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
