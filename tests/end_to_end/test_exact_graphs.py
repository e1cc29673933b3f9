"""Recovered graphs of real programs against an independent reading: objdump and qemu-user's log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from simprof.profiler.request.request import SchemeOptions, Setting
from tests.oracles.disassembled import check_graphs
from tests.oracles.exact import simulate_settings
from tests.oracles.qemu import trace
from tests.support.added import ARGUMENTS, TEXT
from tests.support.exact_fixtures import WIDTHS
from tests.support.exact_programs import ENDINGS, LANGUAGES, LONG, PROGRAMS, QUICK, Build
from tests.support.turns import in_step, turns

LARGE = ("bench", "floats", "sieve", "wide")


def check(path: Path, arguments: Sequence[str], stdin: bytes, directory: Path) -> None:
    """Compare the graphs of all routines that the program enters."""
    settings = [Setting("edges", "edges", SchemeOptions())]
    simulated = simulate_settings(path, arguments, stdin, directory=directory, settings=settings)
    log = trace(path, arguments, stdin, directory=directory)
    executed = [events.cfg.address for events in simulated.observation.events.values()]
    graphs = simulated.observation.recovered.routines
    assert check_graphs(path, graphs, log, executed) == len(executed) > 0


def check_fixture(find: Callable[..., Path], directory: Path, name: str, width: str) -> None:
    text = TEXT if name == "words" else b""
    check(find(name, width), ARGUMENTS[name], text, directory)


def check_program(compile_c: Callable[..., Path], directory: Path, how: Build) -> None:
    source = PROGRAMS / how.source
    program = compile_c(
        source, (*how.flags, "-lm"), width=how.width, language=LANGUAGES[source.suffix]
    )
    check(program, how.arguments, b"", directory)


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("name", "width"), turns(sorted(set(ARGUMENTS) - set(LARGE)), WIDTHS, few=4)
)
def test_graphs_are_as_objdump_reads_the_code(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str
) -> None:
    check_fixture(fixture_elf, tmp_path, name, width)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), in_step(LARGE[::2], WIDTHS))
def test_graphs_of_large_fixtures(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str
) -> None:
    check_fixture(fixture_elf, tmp_path, name, width)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("how", [*QUICK[::6], ENDINGS[0], LONG[0]], ids=str)
def test_graphs_of_compiled_programs(
    compile_c: Callable[..., Path], tmp_path: Path, how: Build
) -> None:
    check_program(compile_c, tmp_path, how)
