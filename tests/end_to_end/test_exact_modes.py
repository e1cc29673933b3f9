"""Every mode's profile of real programs: simprof against qemu-user's single-step log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.session.session import run_program
from tests.oracles.added import every_setting, save_edges, share_of_settings
from tests.oracles.exact import simulate_settings
from tests.oracles.profiles import check_profiles, check_trace
from tests.oracles.qemu import trace
from tests.oracles.steps import record
from tests.support.added import ARGUMENTS, JUMPING, TEXT
from tests.support.exact_fixtures import WIDTHS
from tests.support.exact_programs import ENDINGS, LANGUAGES, LONG, PROGRAMS, QUICK, Build
from tests.support.turns import in_step

SAMPLE = [("nonlocal", "v9")]
TRACES = ("witness", "bits", "bytes", "block-trace")
LONG_RUNS = ("pointers", "wide")
LONGEST = ("bench", "floats", "sieve")
"""Many steps, a million even: `test_exact_fixtures.py` compares those of fewer modes."""


def check(
    path: Path,
    arguments: Sequence[str],
    stdin: bytes = b"",
    *,
    directory: Path,
    stack_pointers: bool = False,
    only: Sequence[str] = (),
) -> None:
    """Compare profiles, and the blocks that traces tell, with the log.

    `only`: names of settings; none: all.
    """
    every = every_setting(save_edges(path, arguments, stdin, directory))
    settings = [setting for setting in every if not only or setting.name in only]
    simulated = simulate_settings(path, arguments, stdin, directory=directory, settings=settings)
    log = trace(path, arguments, stdin, directory=directory, stack_pointers=stack_pointers)
    steps = record(simulated.observation.recovered.routines, log)
    check_profiles(simulated, settings, steps)
    for mode in (setting.mode for setting in settings if setting.mode in TRACES):
        written = directory / f"{mode}.trace"
        given = directory / "stdin"
        with (directory / "out").open("wb") as out:
            guest = GuestOptions(
                root=directory, stdin=given, stdout=out.fileno(), stderr=out.fileno()
            )
            guest = guest.with_host_paths(path)
            texts = tuple(argument.encode() for argument in arguments)
            run_program(RunRequest(path, guest, texts, mode=mode, trace=written))
        check_trace(written, path, steps)


def check_fixture(
    find: Callable[..., Path], directory: Path, name: str, width: str, only: Sequence[str] = ()
) -> None:
    check(
        find(name, width),
        ARGUMENTS[name],
        TEXT if name == "words" else b"",
        directory=directory,
        stack_pointers=name in JUMPING,
        only=only,
    )


def check_program(
    compile_c: Callable[..., Path], directory: Path, how: Build, only: Sequence[str] = ()
) -> None:
    source = PROGRAMS / how.source
    program = compile_c(
        source, (*how.flags, "-lm"), width=how.width, language=LANGUAGES[source.suffix]
    )
    check(program, how.arguments, directory=directory, stack_pointers=how.stack_pointers, only=only)


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), SAMPLE)
def test_every_mode_tells_what_was_executed(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str
) -> None:
    check_fixture(fixture_elf, tmp_path, name, width)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("how", [QUICK[0]], ids=str)
def test_every_mode_tells_what_a_compiled_program_executed(
    compile_c: Callable[..., Path], tmp_path: Path, how: Build
) -> None:
    check_program(compile_c, tmp_path, how)


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), in_step(sorted(set(ARGUMENTS) - set(LONGEST)), WIDTHS))
def test_every_mode_on_every_fixture(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str
) -> None:
    """Each has its part of the settings; a short one has all of them, above."""
    parts = 96 if name in LONG_RUNS else 16
    number = sorted(ARGUMENTS).index(name)
    check_fixture(fixture_elf, tmp_path, name, width, share_of_settings(number, parts))


COMPILED = [*QUICK, *ENDINGS, *LONG][::28]
PARTS = 24 * len(COMPILED)
"""Each compiled program has its part of the settings; one setting or two."""


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("number", range(len(COMPILED)), ids=map(str, COMPILED))
def test_every_mode_on_compiled_programs(
    compile_c: Callable[..., Path], tmp_path: Path, number: int
) -> None:
    check_program(compile_c, tmp_path, COMPILED[number], share_of_settings(24 * number, PARTS))
