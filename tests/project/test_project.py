"""The project's own machinery: skipping what cannot run, setting up, the documented commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import INSTALL, ROOT, pytest_collection_modifyitems, skip_reasons


def test_everything_runs_where_everything_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.conftest.shutil.which", lambda program: f"/usr/bin/{program}")
    assert skip_reasons(long=True) == {}
    assert skip_reasons(long=False).keys() == {"long"}


@pytest.mark.parametrize(("named", "left"), [("tests", 1), ("tests/test_some.py::test_it", 2)])
def test_long_tests_are_left_out_where_none_is_named(named: str, left: int) -> None:
    def item(*marks: str) -> Any:
        given = {mark: mark for mark in marks}
        return SimpleNamespace(get_closest_marker=given.get, add_marker=added.append)

    added: list[Any] = []
    deselected: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    config: Any = SimpleNamespace(args=[named], getoption=lambda name: False, hook=hook)
    items = [item("long"), item()]
    pytest_collection_modifyitems(config, items)
    assert len(items) == left and len(deselected) == 2 - left
    assert [mark.kwargs["reason"] for mark in added] == ["takes long: run with --long"] * (left - 1)


def test_skips_say_what_is_missing_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    reasons = skip_reasons(long=True)
    assert reasons.keys() == {"toolchain", "qemu", "viewers", "browser"}
    assert "sparc64-linux-gnu-gcc-12" in reasons["toolchain"]
    assert all(INSTALL in reason for reason in reasons.values())


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A search path with a shell's basic tools, and an `id` that is not root."""
    for name in ("sh", "paste", "sed", "env"):
        place = shutil.which(name)
        assert place is not None
        (tmp_path / name).symlink_to(place)
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(("options", "status"), [([], 1), (["--optional"], 0)])
@pytest.mark.parametrize(
    ("has_apt", "reason"), [(False, "not Debian"), (True, "sudo tools/install_toolchain.sh")]
)
def test_toolchain_is_not_installed_without_rights(
    bare_path: Path, options: list[str], status: int, has_apt: bool, reason: str
) -> None:
    if has_apt:
        (bare_path / "apt-get").write_text("#!/bin/sh\nexit 77\n")
        (bare_path / "apt-get").chmod(0o755)
    done = subprocess.run(
        [shutil.which("sh") or "sh", ROOT / "tools/install_toolchain.sh", *options],
        env={"PATH": str(bare_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert reason in done.stderr
    assert "qemu-sparc64" in done.stderr
    assert "are skipped" in done.stderr


def test_documented_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document, least in (
        ("README.md", {"run", "test", "check", "site"}),
        ("docs/ARCHITECTURE.md", {"run", "test", "check", "long", "bench", "ci"}),
    ):
        text = (ROOT / document).read_text()
        documented = set(re.findall(r"(?:^    |`)make ([a-z]+)", text, re.MULTILINE))
        assert least <= documented <= targets, document


def test_the_readme_fits_two_screens() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 110
    assert sum(line.startswith("![") for line in lines) == 1


def test_scripts_can_be_started() -> None:
    for name in (".ci/run", "tools/install_toolchain.sh"):
        assert os.access(ROOT / name, os.X_OK), name


def test_version_is_in_the_changelog() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.toolchain
@pytest.mark.parametrize("language", ["c", "c++", "fortran"])
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_compile_helper_builds_once(
    compile_c: Callable[..., Path], language: str, width: str
) -> None:
    sources = {"c": "int main(void) { return 0; }", "c++": "int main() { throw 1; }",
               "fortran": "print *, 1\nend\n"}  # fmt: skip
    first = compile_c(sources[language], width=width, language=language)
    stamp = first.stat().st_mtime_ns
    assert compile_c(sources[language], width=width, language=language) == first
    assert first.stat().st_mtime_ns == stamp
    machine = int.from_bytes(first.read_bytes()[18:20], "big")
    assert machine == {"v9": 43, "v8plus": 18}[width]


@pytest.mark.long
def test_continuous_integration_needs_everything_and_runs_everything() -> None:
    """No toolchain, no green; and pytest is last, so that its counts end the output."""
    assert "exec make ci" in (ROOT / ".ci" / "run").read_text().splitlines()
    command = ["make", "--no-print-directory", "--dry-run", "ci"]
    clean = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=clean)
    *before, last = shown.stdout.splitlines()
    assert "tools/install_toolchain.sh" in before
    assert {"pytest", "--long", "--strict-skips"} <= set(last.split())
    assert not {"-m", "-k"} & set(last.split("pytest")[1].split())


def test_constraints_name_released_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    # `pip freeze` also lists simprof itself, as a directory of the machine that it ran on.
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.+!]+", pin)] == []
    assert len(pins) > 50
