"""Shared test set-up: what the machine offers, committed fixtures, and programs compiled on demand.

Markers
-------
toolchain
    The test compiles SPARC programs (needs `sparc64-linux-gnu-gcc-12`).
qemu
    The test runs programs under qemu-user, or bare ones under qemu-system-sparc.
viewers
    The test has other tools open what simprof exports (`VIEWERS`).
browser
    The test opens pages in Chromium.
long
    The test is not among those of `make test`; it runs with `--long` only. Without it, it is left
    out, or skipped where it is named (`pytest tests/test_file.py::test_name`).

Tests that cannot run are skipped with the reason and the command that installs what they lack;
with `--strict-skips` that is a failure (`support.skips`). `support.seeds` has the markers `seeds`
and `fresh_seeds`.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from simprof.simulator.cpu import compiled, library

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
COMPILERS = {
    "c": "sparc64-linux-gnu-gcc-12",
    "asm": "sparc64-linux-gnu-gcc-12",
    "c++": "sparc64-linux-gnu-g++-12",
    "fortran": "sparc64-linux-gnu-gfortran-12",
}
SUFFIXES = {"c": ".c", "asm": ".S", "c++": ".cc", "fortran": ".f90"}
WIDTH_FLAGS = {
    "v9": ("-m64",),
    "v8plus": ("-m32", "-mcpu=v9"),
    "v8": ("-m32", "-mcpu=v8"),
}
EMULATORS = {"v9": "qemu-sparc64", "v8plus": "qemu-sparc32plus", "v8": "qemu-sparc"}
VIEWERS = ("callgrind_annotate", "dot", "gcov", "genhtml")
INSTALL = "run `tools/install_toolchain.sh`"
os.environ["SIMPROF_NO_CACHE"] = "1"  # no test depends on what earlier ones have kept
os.environ["SIMPROF_PROGRESS"] = "0"  # how long something takes changes nothing that it prints
# The commands that tests start keep their modules compiled, as an installation has them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Tests call kernels that are parts of C functions. What they start takes what is shipped.
_KEPT = Path(os.environ.get("NUMBA_CACHE_DIR") or ROOT / ".pytest_cache" / "numba")
compiled.compile_here(_KEPT / library.digest())

pytest_plugins = ["tests.support.seeds", "tests.support.skips"]

# Whoever starts pytest in the background (`nohup`, `&` in a script) may ignore Ctrl-C or the end of
# the terminal on its behalf, and every program that a test starts would inherit that.
for _signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        _own = signal.default_int_handler if _signal is signal.SIGINT else signal.SIG_DFL
        signal.signal(_signal, _own)

# Graphs and logs of all tests of a module are kept: looking through them for garbage as often as
# Python does by itself takes a tenth of the time.
gc.set_threshold(1_000_000, 10, 10)

settings.register_profile(
    "simprof",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("simprof")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--long`."""
    parser.addoption("--long", action="store_true", help="also run the tests marked `long`")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Tell that there are more tests."""
    return None if config.getoption("--long") else "long tests: left out; --long runs them, too"


def missing(programs: Sequence[str]) -> list[str]:
    """Return those of `programs` that are not on the search path."""
    return [program for program in programs if shutil.which(program) is None]


def skip_reasons(long: bool) -> dict[str, str]:
    """Return marker -> why tests with it cannot run here; runnable markers are absent."""
    reasons = {}
    if not long:
        reasons["long"] = "takes long: run with --long"
    if absent := missing(sorted(set(COMPILERS.values()))):
        reasons["toolchain"] = f"no {', '.join(absent)}: {INSTALL}"
    if absent := missing([*sorted(EMULATORS.values()), "qemu-system-sparc"]):
        reasons["qemu"] = f"no {', '.join(absent)}: {INSTALL}"
    if absent := missing(VIEWERS):
        reasons["viewers"] = f"no {', '.join(absent)}: {INSTALL}"
    if absent := missing(["chromium"]):
        reasons["browser"] = f"no {', '.join(absent)}: {INSTALL}"
    return reasons


def pytest_collection_finish() -> None:
    """Leave what has been made for all tests out of every search for garbage."""
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what this machine cannot run, and say why; leave out long tests that nobody named.

    Thousands of tests that are skipped one by one take their time, too.
    """
    reasons = skip_reasons(config.getoption("--long"))
    if "long" in reasons and not any("::" in argument for argument in config.args):
        long = [item for item in items if item.get_closest_marker("long") is not None]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item.get_closest_marker("long") is None]
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True, scope="session")
def width_of_reports() -> None:
    """Reports in pipes and files are as wide as they are where nobody asks for a width."""
    os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session")
def fixture_elf() -> Callable[..., Path]:
    """`fixture_elf(name, width="v9")`: path of a committed ELF; widths "v9", "v8plus", "v8"."""

    def find(name: str, width: str = "v9") -> Path:
        path = FIXTURES / "bin" / width / f"{name}.elf"
        assert path.is_file(), f"fixture {path} is missing: run tools/build_fixtures.py"
        return path

    return find


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile SPARC programs, each once per test run (shared by the workers).

    `compile_c(source, flags=("-O2",), width="v9", language="c", static=True)` returns the path
    of the executable. `source` is text or the path of a file; `language` is "c", "c++",
    "fortran" or "asm". Tests that use it carry `@pytest.mark.toolchain`. Width "v8" has no
    library to link: pass "-nostdlib" and a source that needs none.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    cache = base / "compiled"
    cache.mkdir(exist_ok=True)

    def build(
        source: str | Path,
        flags: Sequence[str] = ("-O2",),
        width: str = "v9",
        language: str = "c",
        static: bool = True,
    ) -> Path:
        text = source.read_text() if isinstance(source, Path) else source
        options = [*WIDTH_FLAGS[width], *(["-static"] if static else []), *flags]
        key = hashlib.sha256("\0".join([language, text, *options]).encode()).hexdigest()[:24]
        program = cache / f"{key}.elf"
        if not program.exists():
            compile_once(text, options, language, program)
        return program

    return build


def compile_once(text: str, options: Sequence[str], language: str, program: Path) -> None:
    """Compile `text` to `program`; a half-written program is never visible to other workers.

    Options that name libraries (`-l`, `-Wl`) come after the source as well as before, as the
    linker wants them.
    """
    with tempfile.TemporaryDirectory(dir=program.parent) as directory:
        source = Path(directory) / f"source{SUFFIXES[language]}"
        source.write_text(text)
        result = Path(directory) / "program"
        libraries = [option for option in options if option.startswith("-l")]
        command = [COMPILERS[language], *options, source.name, "-o", result.name, *libraries]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
        result.rename(program)
