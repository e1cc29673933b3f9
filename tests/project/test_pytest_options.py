"""What the tests' own plugins do: loops over seeds, skips that count as failures, Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.seeds import numbers
from tests.support.skips import ALLOWED, allowed_reasons

SEEDS = """
import pytest

@pytest.mark.seeds(range(10))
def test_fixed(seed, tmp_path):
    assert seed != 7, tmp_path

@pytest.mark.fresh_seeds(3)
def test_fresh(seed):
    print("fresh", seed)
"""
SKIPS = """
import pytest

@pytest.mark.skipif(True, reason="{reason}")
def test_skipped():
    pass

def test_passes():
    pass
"""


def run_pytest(directory: Path, source: str, *options: str) -> tuple[int, str]:
    """Run a file of tests with the plugins, and nothing else of ours."""
    file = directory / "test_some.py"
    file.write_text(source)
    plugins = ["-p", "tests.support.seeds", "-p", "tests.support.skips", "-p", "no:cacheprovider"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *plugins,
        "-rA",
        *options,
        "--rootdir",
        str(directory),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    environment = {k: v for k, v in environment.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, file], cwd=directory, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
def test_a_failure_names_its_seed_and_how_to_repeat_it(tmp_path: Path) -> None:
    status, output = run_pytest(tmp_path, SEEDS)
    assert status == 1 and "1 failed, 1 passed" in output
    assert "seed 7; repeat: pytest --seeds 7 test_some.py::test_fixed" in output
    status, output = run_pytest(tmp_path, SEEDS, "--seeds", "0-6,8")
    assert status == 0 and "2 passed" in output


@pytest.mark.long
def test_fresh_seeds_are_new_each_time_and_can_be_had_again(tmp_path: Path) -> None:
    first, again = (
        run_pytest(tmp_path, SEEDS, "-k", "fresh", "-n", "1")[1],
        run_pytest(tmp_path, SEEDS, "-k", "fresh")[1],
    )
    drawn, other = (int(find(r"--first-seed (\d+)", text)) for text in (first, again))
    assert drawn != other
    for text, start in ((first, drawn), (again, other)):
        expected = [str(start + step) for step in range(3)]
        assert re.findall(r"^fresh (\d+)", text, re.MULTILINE) == expected
    given = run_pytest(tmp_path, SEEDS, "-k", "fresh", "--first-seed", "5")[1]
    assert re.findall(r"^fresh (\d+)", given, re.MULTILINE) == ["5", "6", "7"]


def find(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]


def test_lists_of_seeds() -> None:
    assert numbers("7,20-23") == (7, 20, 21, 22, 23)


@pytest.mark.long
@pytest.mark.parametrize(
    ("reason", "processes", "status"),
    [("no qemu-sparc64", ["-n", "1"], 1), ("root can read everything", [], 0)],
)
def test_a_skip_is_a_failure_unless_it_is_allowed(
    tmp_path: Path, reason: str, processes: list[str], status: int
) -> None:
    source = SKIPS.replace("{reason}", reason)
    found, output = run_pytest(tmp_path, source, "--strict-skips", *processes)
    assert (found, "1 passed, 1 skipped" in output) == (status, True)
    assert (f"1 skipped: {reason}" in output) == bool(status)


@pytest.mark.long
def test_a_whole_file_that_is_skipped_is_a_failure(tmp_path: Path) -> None:
    source = "import pytest\npytest.importorskip('no_such_module')\n"
    status, output = run_pytest(tmp_path, source, "--strict-skips")
    assert status == 1
    assert "1 skipped: could not import 'no_such_module'" in output
    assert run_pytest(tmp_path, source)[0] != 1


def test_the_list_of_allowed_skips_is_short() -> None:
    allowed = allowed_reasons(ALLOWED.read_text())
    assert 0 < len(allowed) < 5
    assert not {"*", ""} & set(allowed)


@pytest.mark.long
def test_an_ignored_interrupt_does_not_reach_the_tests() -> None:
    """As `nohup` and the `&` of scripts leave it: Python then installs no handler of its own."""
    script = "import signal, tests.conftest; print(signal.getsignal(signal.SIGINT).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", f"import signal, os, sys\n"
         f"signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
         f"os.execv(sys.executable, [sys.executable, '-c', {script!r}])"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert done.stdout == "default_int_handler\n", done.stderr


def test_no_test_makes_test_ids_of_seeds() -> None:
    """Thousands of ids take longer to collect than their tests take to run."""
    found = [
        path.name
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"parametrize\(\s*[\"']seeds?[\"']", path.read_text())
    ]
    assert found == [], "write @pytest.mark.seeds(range(100)) instead"
