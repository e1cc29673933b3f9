"""Kills a process before each change that it makes to files, one after the other.

A *scenario* does something in a directory and says what must be true after a kill.
`kill_everywhere` runs it in a process of its own, into which `killer.c` is preloaded: it does the
thing again and again, each time in a child that is killed by SIGKILL before its n-th change of a
file below the directory, for n = 1, 2, 3 and so on, until it gets through. SQLite's writes count as
all others do.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import traceback
from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path

from tests.conftest import ROOT

SOURCE = Path(__file__).with_name("killer.c")
MOST = 2000
"""Kills after which something is wrong: no scenario has so many changes."""


class Scenario(ABC):
    """What is done, and what must be true afterwards; `base` holds whatever must not be counted."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def prepare(self, directory: Path) -> None:  # noqa: B027 - most have nothing to prepare
        """Set up a new directory."""

    @abstractmethod
    def act(self, directory: Path) -> None:
        """Do it; may be killed."""

    @abstractmethod
    def check(self, directory: Path) -> None:
        """Raise AssertionError unless what a kill has left is in order; then `act` once more."""


def kill_everywhere(scenario: type[Scenario], base: Path) -> int:
    """Run a scenario; return how often it was killed.

    Raises
    ------
    AssertionError
        If a check failed, or the process could not run.
    """
    library = base / "killer.so"
    command = ["gcc", "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True)
    name = f"{scenario.__module__}:{scenario.__qualname__}"
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killing", name, str(base)],
        cwd=base, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout.split()[-1])


def main(name: str, base: Path) -> int:
    """Kill the scenario `name` everywhere; print how often."""
    module, _, kind = name.partition(":")
    scenario: Scenario = getattr(import_module(module), kind)(base)
    killer = ctypes.CDLL(os.environ.pop("LD_PRELOAD"))
    for before in range(1, MOST):
        directory = base / "place"
        directory.mkdir()
        scenario.prepare(directory)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                killer.kill_before(ctypes.c_long(before), os.fsencode(directory))
                scenario.act(directory)
                killer.kill_before(ctypes.c_long(0), b"")
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        if ended not in (0, signal.SIGKILL):
            print(f"before change {before}: ended with {ended}", file=sys.stderr)
            return 1
        try:
            scenario.check(directory)
        except BaseException as error:
            error.add_note(f"killed before change {before}")
            traceback.print_exception(error)
            return 1
        shutil.rmtree(directory)
        if ended == 0:
            print(before - 1)
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
