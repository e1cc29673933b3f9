"""The committed programs: simprof against qemu-user's single-step log, in all three builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracles.exact import check_against_qemu
from tests.support.exact_fixtures import SMALL, WIDTHS
from tests.support.turns import first, turns

LONG_RUNNING = {"floats": "v9", "sieve": "v9", "wide": "v8plus"}
"""Those of a million steps have one width here: `test_added` and `test_exact_modes` have others."""
LASTING = [
    (name, width) for name in LONG_RUNNING for width in WIDTHS if width != LONG_RUNNING[name]
]
CASES = [case for case in turns(SMALL, WIDTHS, few=4) if case.values not in LASTING]


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), CASES)
def test_fixture_is_exact(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str
) -> None:
    check_against_qemu(fixture_elf(name, width), SMALL[name], directory=tmp_path)


@pytest.mark.qemu
@pytest.mark.parametrize("width", first(1, WIDTHS))
def test_reading_stdin_is_exact(
    fixture_elf: Callable[..., Path], tmp_path: Path, width: str
) -> None:
    text = b"the quick brown fox\njumps over the lazy dog\n" * 3
    check_against_qemu(fixture_elf("words", width), [], text, directory=tmp_path)


@pytest.mark.qemu
@pytest.mark.parametrize("width", first(1, WIDTHS))
def test_non_local_exits_are_exact(
    fixture_elf: Callable[..., Path], tmp_path: Path, width: str
) -> None:
    check_against_qemu(fixture_elf("nonlocal", width), [], directory=tmp_path, stack_pointers=True)


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize("width", first(1, WIDTHS))
def test_signals_are_exact(fixture_elf: Callable[..., Path], tmp_path: Path, width: str) -> None:
    check_against_qemu(fixture_elf("signals", width), [], directory=tmp_path, stack_pointers=True)
