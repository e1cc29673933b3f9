"""What profiling adds: every mode's figure against its printed code, run along qemu-user's log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from simprof.profiler.code.pricing import added
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.schemes import registry
from tests.oracles.added import check_added, share_of_settings
from tests.oracles.replay import TRACE_BYTES
from tests.support.added import ARGUMENTS, JUMPING, TEXT
from tests.support.exact_fixtures import WIDTHS
from tests.support.turns import first, in_step

LONG_RUNNING = {
    "pointers": "v8plus",
    "wide": "v9",
}
LONGEST = ("bench", "floats", "sieve")
"""Programs that run longer still: `test_verify.py` executes their code alone."""
BUILDS = [
    (name, LONG_RUNNING.get(name, width))
    for name, width in in_step(sorted(ARGUMENTS), WIDTHS)
    if name not in LONGEST
]
SAMPLE = [("calls", "v8", 0), ("loops", "v9", 1), ("tailcalls", "v8plus", 2)]
"""Programs, and which third of the settings each has."""


def check(
    fixture_elf: Callable[..., Path], directory: Path, name: str, width: str, *only: str
) -> dict[str, int]:
    """Compare; return how many bytes of trace each setting wrote."""
    replays = check_added(
        fixture_elf(name, width),
        ARGUMENTS[name],
        TEXT if name == "words" else b"",
        directory=directory,
        width=width,
        stack_pointers=name in JUMPING,
        only=only,
    )
    return {setting: len(replay.trace) for setting, replay in replays.items()}


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width", "third"), SAMPLE)
def test_added_is_what_the_printed_code_executes(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str, third: int
) -> None:
    check(fixture_elf, tmp_path, name, width, *share_of_settings(third, 3))


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), BUILDS)
def test_added_of_every_fixture(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str
) -> None:
    """Each has a setting or two; the three above have all of them.

    Programs that run long have the build that takes least.

    The same code is executed in its place, under all modes, by `test_verify.py`.
    """
    number = sorted(ARGUMENTS).index(name)
    parts = 72 if name in LONG_RUNNING else 36
    check(fixture_elf, tmp_path, name, width, *share_of_settings(number, parts))


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize("width", WIDTHS)
def test_full_trace_buffers_are_flushed(
    fixture_elf: Callable[..., Path], tmp_path: Path, width: str
) -> None:
    written = check(fixture_elf, tmp_path, "control", width, "witness")
    assert written["witness"] > TRACE_BYTES


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("mode", "width"), first(1, [("witness", "v9"), ("bits", "v8"), ("witness", "v8plus")], at=1)
)
def test_recording_addresses_of_data(
    fixture_elf: Callable[..., Path], tmp_path: Path, mode: str, width: str
) -> None:
    """`words` fills the buffer of addresses more than once."""
    setting = f"{mode} addresses"
    replays = check_added(
        fixture_elf("words", width), stdin=TEXT, directory=tmp_path, width=width, only=[setting]
    )
    assert len(replays[setting].addresses) > 2 * TRACE_BYTES


@pytest.mark.qemu
def test_a_run_without_the_cost_of_flushes_is_found_out(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    code = registry.definition("bits").code()
    right = code.run_cost
    force_setattr(code, "run_cost", lambda machine, sizes: 0)
    try:
        with pytest.raises(AssertionError, match="bits"):
            check(fixture_elf, tmp_path, "calls", "v8", "bits")
    finally:
        force_setattr(code, "run_cost", right)


@pytest.mark.qemu
@pytest.mark.parametrize("setting", first(1, ["kiter 2", "kiter hash", "tpp hash"]))
def test_a_price_without_conditional_parts_is_found_out(
    fixture_elf: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
) -> None:
    def unconditional(code: RoutineCode, *counts: object) -> int:
        return added(code, *counts[:2])  # type: ignore[arg-type]

    monkeypatch.setattr("simprof.profiler.session.results.added", unconditional)
    with pytest.raises(AssertionError, match=setting):
        check(fixture_elf, tmp_path, "loops", "v8", setting)
