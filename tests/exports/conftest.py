"""A program that was run once, for all tests of exports that need a real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.exports.formats import ExportSource
from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.session.session import run_program


@pytest.fixture(scope="session")
def pointers(fixture_elf: Callable[..., Path]) -> Path:
    """The program whose coverage is exported: a committed one with line information."""
    return fixture_elf("pointers")


@pytest.fixture(scope="session")
def exported(pointers: Path, tmp_path_factory: pytest.TempPathFactory) -> ExportSource:
    """`pointers`, measured under `pp`."""
    directory = tmp_path_factory.mktemp("exported")
    with (directory / "output").open("wb") as file:
        guest = GuestOptions(root=directory, stdin=Path("/dev/null"), stdout=file.fileno())
        return ExportSource(run_program(RunRequest(pointers, guest)))
