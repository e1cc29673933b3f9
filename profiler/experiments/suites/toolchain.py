"""The cross compilers that suites are built with: names, flags, versions, what is missing."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType

from simprof.profiler.experiments.suites.suite import CounterBuild, Width, parse_build
from simprof.profiler.profiles.scratch import if_killed
from simprof.simulator.errors import SimulatorError

COMPILERS: Mapping[str, str] = MappingProxyType(
    {
        "c": "sparc64-linux-gnu-gcc-12",
        "c++": "sparc64-linux-gnu-g++-12",
        "fortran": "sparc64-linux-gnu-gfortran-12",
    }
)
LIBRARIES: Mapping[str, str] = MappingProxyType(
    {"c": "libc.a", "c++": "libstdc++.a", "fortran": "libgfortran.a"}
)
WIDTH_FLAGS: Mapping[Width, tuple[str, ...]] = MappingProxyType(
    {64: ("-m64",), 32: ("-m32", "-mcpu=v9")}
)
FLAGS = ("-O2", "-g", "-static")
# What makes a build one with counters. The program writes them to its current directory.
# Files of counters have a stamp that gcc draws: without a seed no two builds are the same.
COUNTER_FLAGS: Mapping[CounterBuild, tuple[str, ...]] = MappingProxyType(
    {
        CounterBuild.NONE: (),
        CounterBuild.ARCS: ("-fprofile-arcs", "-fprofile-dir=.", "-frandom-seed=0"),
    }
)
INSTALL = "run tools/install_toolchain.sh"
BUILD_TIME = "1000000000"  # What __DATE__ and __TIME__ say in built programs (SOURCE_DATE_EPOCH)

COMPLAINT = re.compile(
    r"\b(error: |undefined reference|multiple definition|Error \d|\*\*\* )|^E: |not found$"
)


class BuildError(SimulatorError):
    """A program cannot be fetched or built; the message says which step failed and how."""


def width_of(build: str) -> Width:
    """Return the width of a build by its name."""
    return parse_build(build)[0]


def run(command: Sequence[str | Path], directory: Path, log: Path | None = None) -> str:
    """Run `command` in `directory`; return what it writes, which is also appended to `log`.

    Raises BuildError if it is not installed or fails: in one line, with the first complaint in its
    output.
    """
    words = [str(word) for word in command]
    try:
        status, written = _run_group(words, directory)
    except FileNotFoundError:
        known = words[0] in (*COMPILERS.values(), "make")
        remedy = INSTALL if known else "install it"
        raise BuildError(f"{words[0]} is not installed: {remedy}") from None
    except OSError as error:
        raise BuildError(f"{words[0]} cannot be started ({error.strerror})") from None
    output = written.decode(errors="replace")
    if log is not None:
        with log.open("a") as file:
            file.write(f"$ {shlex.join(words)}\n{output}")
    if status != 0:
        where = "" if log is None else f" (all of it: {log})"
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        # the line that says what is wrong: the first error, or the last
        errors = [line for line in lines if COMPLAINT.search(line)]
        complaint = (errors or lines[-1:] or ["without a message"])[0][:300]
        raise BuildError(f"{words[0]} failed: {complaint}{where}")
    return output


def _run_group(words: list[str], directory: Path) -> tuple[int, bytes]:
    """Run a command in a process group; return its exit status and what the group wrote.

    None of the group, as compilers that `make` started, goes on when this process is killed or
    interrupted: the shell that would end them leads the group, so it is there before they are.
    Raises OSError if the command cannot be started.
    """
    with if_killed("kill -9 0") as group:
        process = subprocess.Popen(
            words,
            cwd=directory,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=group,
        )
        try:
            output = process.communicate()[0]
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(group or process.pid, signal.SIGKILL)
            process.wait()
            raise
    return process.returncode, output


def environment() -> dict[str, str]:
    """Return the variables that builds see: nothing of the user's that could change the result."""
    kept = ("PATH", "HOME", "TMPDIR", "http_proxy", "https_proxy", "no_proxy")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": BUILD_TIME,
    }


@cache
def version(language: str) -> str:
    """Return the first line of the compiler's version. Raises BuildError if there is none."""
    return run([COMPILERS[language], "--version"], Path("/")).splitlines()[0]


@cache
def check(language: str, width: Width) -> None:
    """Raise BuildError unless programs of this language and width can be linked."""
    version(language)
    library = LIBRARIES[language]
    compiler_file = run(
        [COMPILERS[language], *WIDTH_FLAGS[width], f"-print-file-name={library}"], Path("/")
    ).strip()
    other = run([COMPILERS[language], f"-print-file-name={library}"], Path("/")).strip()
    if not Path(compiler_file).is_absolute() or (width == 32 and compiler_file == other):
        raise BuildError(f"the {width}-bit {library} for SPARC is not installed: {INSTALL}")
