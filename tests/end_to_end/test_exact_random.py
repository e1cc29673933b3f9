"""Random programs: simprof against qemu-user's log, over widths, levels, and scheme options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.request.request import SchemeOptions, TableChoice
from simprof.profiler.request.weights import Weights
from tests.oracles.exact import check_against_qemu
from tests.support.exact_random import BARE, LEVELS, WIDTHS
from tests.support.random_programs import program, wide_program

OPTIONS = (
    SchemeOptions(),
    SchemeOptions(path_limit=5),
    SchemeOptions(table=TableChoice.HASH),
    SchemeOptions(weights=Weights.UNIFORM, path_limit=60),
    SchemeOptions(path_limit=20, table=TableChoice.HASH),
    SchemeOptions(),
    SchemeOptions(weights=Weights.UNIFORM),
)


def check_seed(compile_c: Callable[..., Path], directory: Path, seed: int) -> None:
    """Generate, compile and compare; the seed chooses everything."""
    extra = [*(["-fPIC"] if seed % 4 == 0 else []), *(["-s"] if seed % 6 == 1 else [])]
    flags = (LEVELS[seed % 5], *BARE, *extra)
    source = program(seed, functions=3 + seed % 5, size=6 + seed % 9, fuel=1000)
    built = compile_c(source, flags, width=WIDTHS[seed % 3])
    check_against_qemu(built, directory=directory, options=OPTIONS[seed % 7])


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.seeds(range(1000, 1015), few=5)
def test_random_program_is_exact(compile_c: Callable[..., Path], tmp_path: Path, seed: int) -> None:
    check_seed(compile_c, tmp_path, seed)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.seeds(range(40))
def test_more_random_programs_are_exact(
    compile_c: Callable[..., Path], tmp_path: Path, seed: int
) -> None:
    check_seed(compile_c, tmp_path, seed)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.fresh_seeds(30)
def test_random_programs_that_nobody_has_seen_are_exact(
    compile_c: Callable[..., Path], tmp_path: Path, seed: int
) -> None:
    check_seed(compile_c, tmp_path, seed)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(("width", "level"), [("v9", "-O0")])
def test_large_routines_with_many_paths_are_exact(
    compile_c: Callable[..., Path], tmp_path: Path, width: str, level: str
) -> None:
    built = compile_c(wide_program(1, 5000, 40), (level, *BARE), width=width)
    found = check_against_qemu(built, directory=tmp_path)
    routines = {r.name: r for r in found.measurements["pp"].routines}
    assert routines["large"].blocks > 3000
    assert routines["many"].cut_edges
