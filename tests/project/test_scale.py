"""The tool that measures how simprof grows, on small programs, runs and sweeps."""

from __future__ import annotations

import tarfile
import warnings
from pathlib import Path

import pytest

from simprof.profiler.experiments.suites.suite import Benchmark, Input, Package, Recipe
from simprof.profiler.recovery.recovery import recover
from simprof.simulator.binary.elf import load
from simprof.simulator.errors import SimulatorError
from tests.support.profiled import measure
from tools import scale
from tools.benchmarks import coverage, kept_memory, synthetic
from tools.benchmarks.kept_memory import Held
from tools.scale import Taken, table

ROUTINES = 20
BUILT = {
    "Makefile": "small: small.cc\n\t$(CXX) $(CXXFLAGS) $(LDFLAGS) -Wl,--as-needed -o $@ small.cc\n",
    "small.cc": "static int less(int count)\n{\n    return count - 1;\n}\n"
    "int main(int count, char **)\n{\n    if (count > 2)\n        count = 2;\n"
    "    return less(count);\n}\n",
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "synthetic.elf"
    synthetic.write(path, ROUTINES)
    return path


def test_a_synthetic_program_has_as_many_routines_and_enters_each(program: Path) -> None:
    recovered = recover(load(program))
    assert len(recovered.routines) == ROUTINES + 1
    assert scale.routines(program) == ROUTINES + 1
    bodies = recovered.routines[1:ROUTINES]  # the last one only returns
    for cfg in bodies:
        inside = [edge for edge in cfg.edges if edge.source < len(cfg.blocks)]
        assert sum(edge.source > edge.target for edge in inside) == 1
    measured = measure(program, "edges")
    assert [routine.activations for routine in measured.routines[1:]] == [1] * ROUTINES
    by_name = {routine.name: routine for routine in measured.routines}
    loop = max(edge.count for edge in by_name["f0000000"].edge_counts)
    assert loop == synthetic.ROUNDS


def test_larger_programs_enter_no_more_routines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "EXECUTED", 7)
    path = tmp_path / "large.elf"
    synthetic.write(path, 50)
    assert path.stat().st_size > 50 * synthetic.SIZE
    assert len(measure(path, "edges").routines) == 8


@pytest.mark.qemu
def test_a_synthetic_program_runs_elsewhere(program: Path) -> None:
    import subprocess

    assert subprocess.run(["qemu-sparc64", program], check=False).returncode == 0


def test_what_was_taken_is_a_table() -> None:
    text = table("run", [Taken("long", 12.34, 3 << 20, 10_000_000_000)])
    assert text.splitlines()[-1] == "| long | 10,000,000,000 | 12.3 s | 3 MB |"


@pytest.mark.long
def test_runs_are_measured() -> None:
    says = scale.measure_long((1, 2), timeout=300)
    first, second = (line.split(" | ") for line in says.splitlines()[-2:])
    assert [first[0], second[0]] == ["| bench.elf 1", "| bench.elf 2"]
    assert int(first[1].replace(",", "")) < int(second[1].replace(",", ""))
    with pytest.raises(SimulatorError, match=r"^bench.elf 450: timeout"):
        scale.measure_long((450,), timeout=0.1)


@pytest.mark.long
def test_a_sweep_survives_the_death_of_a_worker() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        says = scale.measure_sweep(4, timeout=600)
    assert "All rows are there, none failed" in says


def test_what_was_held_is_a_table_of_limits() -> None:
    found = kept_memory.table([Held("nothing", (150.2, 151.0)), Held("much", (1234.5, 9.0))])
    assert found == (
        "| the program | `--memory-limit 64M` | `--memory-limit 512M` |\n"
        "|---|--:|--:|\n"
        "| nothing | 150 MB | 151 MB |\n"
        "| much | 1,234 MB | 9 MB |\n"
    )


@pytest.mark.long
@pytest.mark.toolchain
def test_what_is_held_is_measured(tmp_path: Path) -> None:
    program = kept_memory.compiled(tmp_path)
    assert 50 < kept_memory.held(program, "overlapping", 100, 64, 120) < 1000
    with pytest.raises(SimulatorError, match="timeout"):
        kept_memory.held(program, "calls", 10_000_000, 64, 0.1)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.viewers
def test_coverage_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that is built as the large one is; not of one that ends otherwise."""
    sources, archive = tmp_path / "small-1", tmp_path / "small.tar"
    sources.mkdir()
    for name, text in BUILT.items():
        (sources / name).write_text(text)
    with tarfile.open(archive, "w") as tar:
        tar.add(sources, sources.name)
    monkeypatch.setattr(coverage, "fetched_archive", lambda _package, _cache: archive)
    recipe = Recipe(package=Package("small", archive.name, "", sources.name), product="small")
    small = Benchmark("small", "INT", "none", "", recipe, {"train": Input("train")})
    says = coverage.measure_coverage(small, 300, ("-O0",))
    static, dynamic = (line.split(" | ") for line in says.splitlines()[-2:])
    assert [static[0], dynamic[0]] == ["| `-O0`, static", "| `-O0`, dynamic"]
    assert static[1] == dynamic[1] == "7 of 8"
    label, program = next(coverage.linked(small, sources, "-Os"))
    assert label == "`-Os`, static"
    with pytest.raises(SimulatorError, match="failed"):
        coverage.measured(program, Input("train", arguments=("more",)), 300)
