"""Guards: a scheme of another distribution that has them, on qemu, and what is refused."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from simprof.profiler.engine import block_kernel, kernels
from simprof.profiler.engine.lowering import guard_operation
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.plan import interpret
from simprof.profiler.plan.actions import Burst, CountEdge, Guard
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.plan.plan import Buffer, BufferUse, CounterTable, InstrumentationPlan
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import SchemeDefinition
from simprof.profiler.schemes.pp import PP, plan_pp
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES, ROOT
from tests.support.figures import named

SCHEME = FIXTURES / "sampled_scheme"
LOOPS = FIXTURES / "bin" / "v9" / "loops.elf"
WIDTHS = ("v9", "v8plus", "v8")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example, installed for this process; the result is where, for others."""
    site = tmp_path / "site"
    info = site / "simprof_edge_samples-0.1.dist-info"
    info.mkdir(parents=True)
    about = "Metadata-Version: 2.1\nName: simprof-edge-samples\nVersion: 0.1\n"
    (info / "METADATA").write_text(about)
    (info / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\nedge-samples = sampled_scheme:EDGE_SAMPLES\n"
    )
    (site / "sampled_scheme.py").symlink_to(SCHEME / "sampled_scheme.py")
    monkeypatch.syspath_prepend(site)
    _forget()
    yield site
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for known in (registry.schemes, registry.brought, registry.generators):
        known.cache_clear()


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize("width", WIDTHS)
def test_instrumented_programs_execute_what_is_predicted(
    width: str, fixture_elf: Callable[..., Path], tmp_path: Path, installed: Path
) -> None:
    done = simprof(
        installed, tmp_path, "verify", "--mode", "edge-samples:period=3", "--json", "-",
        fixture_elf("loops", width),
    )  # fmt: skip
    answer = json.loads(done.stdout)
    (mode,) = answer["modes"].values()
    assert done.returncode == 0, done.stderr
    assert mode["executed"] == dict.fromkeys(("emulator", "qemu"), mode["predicted"])
    assert (mode["counters_equal"], mode["output_equal"]) == (True, True)


# What it says of itself


def simprof(site: Path, home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run simprof where the scheme is installed."""
    return subprocess.run(
        [sys.executable, "-m", "simprof", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}",
             "XDG_CACHE_HOME": str(home), "COLUMNS": "200"},
        capture_output=True, text=True, check=False, cwd=home,
    )  # fmt: skip


def test_the_scheme_is_small_and_imports_the_public_module_only() -> None:
    source = (SCHEME / "sampled_scheme.py").read_text()
    imports = re.findall(r"^(?:from|import) (\S+)", source, re.MULTILINE)
    assert len(source.splitlines()) < 150
    assert {name for name in imports if name.startswith("simprof")} == {"simprof.schemes"}


@pytest.mark.long
def test_reports_say_that_it_estimates(installed: Path, tmp_path: Path) -> None:
    done = simprof(installed, tmp_path, "run", "--mode=edge-samples", "--json", "run.json", LOOPS)
    assert "edge-samples: counts are samples, not totals" in done.stderr
    assert json.loads((tmp_path / "run.json").read_text())["estimate"] is True
    compared = simprof(
        installed, tmp_path, "compare", "--mode=pp,edge-samples", "--json", "all.json", LOOPS
    )
    modes = json.loads((tmp_path / "all.json").read_text())["modes"]
    assert [mode.get("estimate") for mode in modes.values()] == [None, True]
    assert compared.returncode == 0


def test_graph_files_take_turns(installed: Path, tmp_path: Path) -> None:
    """20 activations of 8 edges each: every 7th of 160 is a sample, from the first on: 23."""
    graph = {
        "name": "loop", "entry": "A", "exit": "C", "blocks": {"A": 3, "B": 2},
        "edges": [["A", "B"], ["B", "A"], ["B", "C"]], "runs": [["A B A B A B C", 20]],
    }  # fmt: skip
    (tmp_path / "loop.json").write_text(json.dumps(graph))
    done = simprof(
        installed, tmp_path, "explain", "--mode=edge-samples:period=7", "--json=-", "loop.json"
    )
    answer = json.loads(done.stdout)
    assert answer["instructions"]["added"] == 160 * 6 + 23 * 6
    assert answer["estimate"] is True


@pytest.mark.long
def test_sweeps_have_it_beside_own_schemes(installed: Path, tmp_path: Path) -> None:
    """Each cell is what `compare` measures, and the file needs the scheme to be read."""
    modes = "pp,edge-samples,edge-samples:period=7"
    swept = simprof(installed, tmp_path, "sweep", LOOPS, f"--mode={modes}", "-o", "sweep.db")
    assert swept.returncode == 0, swept.stderr
    simprof(installed, tmp_path, "compare", f"--mode={modes}", "--json", "all.json", LOOPS)
    compared = json.loads((tmp_path / "all.json").read_text())["modes"]
    with closing(sqlite3.connect(tmp_path / "sweep.db")) as connection:
        query = "SELECT mode, option_period, added, path_increments, error FROM results"
        rows = sorted(connection.execute(query).fetchall(), key=str)
    assert rows == sorted(
        (
            (
                mode["mode"],
                mode["options"].get("period"),
                mode["instructions"]["added"],
                mode["counts"]["path_increments"],
                None,
            )
            for mode in compared.values()
        ),
        key=str,
    )
    assert {row[1] for row in rows} >= {None, 7}
    table = "table", "overheads", "--from", "sweep.db"
    assert "edge-samples:period=7" in simprof(installed, tmp_path, *table).stdout
    (tmp_path / "none").mkdir()
    without = simprof(tmp_path / "none", tmp_path, *table)
    assert without.returncode == 125
    (line,) = without.stderr.splitlines()
    assert "sweep.db has results of edge-samples, a scheme that is not installed" in line
    assert "install the package that brings it" in line


# Guards, words and buffers of any scheme


class Guarded(CountEdge, frozen=True):
    """A counter behind a guard."""

    @property
    def guard(self) -> Guard:
        return Guard("word", 3)


def plan_of(
    actions: Sequence[CountEdge], words: tuple[str, ...] = ("word",)
) -> InstrumentationPlan:
    return InstrumentationPlan(
        {0: tuple(actions)}, False, CounterTable.NONE, 0, None, 2, words=words
    )


def test_an_edge_has_one_guard() -> None:
    assert plan_of([CountEdge(0), Guarded(1)]).guards == {0: Guard("word", 3)}
    with pytest.raises(ValueError, match="edge 0 has two"):
        _ = plan_of([Guarded(0), Guarded(1)]).guards


def test_a_burst_has_its_samples_and_its_stride() -> None:
    """The native kernel and Python, from the first sample on: 3 of every other one, then 5 less."""
    guard = Guard("word", 5, Burst("burst", 3, 2))
    words = interpret.ProgramWords()
    passed = [n for n in range(20) if words.passes(guard)]
    assert passed == [0, 2, 4, 9, 11, 13, 18]
    memory = EngineMemory(np.zeros(kernels.COST_WORDS, np.int64))
    places = [memory.program_word((0, word)) for word in guard.words]
    operation = np.array(guard_operation(guard, places, 1), np.int64)
    clock, at = memory.state.clock.ctypes.data, operation.ctypes.data
    assert [n for n in range(20) if block_kernel.guarded(clock, at)] == passed
    with pytest.raises(UsageError, match="a burst has fewer"):
        guard_operation(Guard("word", 5, Burst("burst", 1 << 15, 2)), places, 1)


def test_activations_are_executed_one_by_one_up_to_a_limit() -> None:
    cfg = named("A>B", "A", "B")
    walks = [ExecutedWalk((0,), interpret.MOST_TURNS + 1)]
    with pytest.raises(UsageError, match="lower the counts"):
        interpret.execute(cfg, plan_of([Guarded(0)]), walks)
    interpret.execute(cfg, plan_of([CountEdge(0)]), walks)


def test_a_run_has_room_for_so_many_words() -> None:
    memory = EngineMemory(np.zeros(kernels.COST_WORDS, np.int64))
    places = [memory.program_word((slot, "a")) for slot in range(kernels.MOST_PROGRAM_WORDS)]
    assert len(set(places)) == kernels.MOST_PROGRAM_WORDS
    assert memory.program_word((0, "a")) == places[0]
    with pytest.raises(UsageError, match="fewer at once"):
        memory.program_word((0, "b"))


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (plan_of([Guarded(0)]), "its scope is not the program"),
        (replace(plan_of([]), words=(), buffers=(BufferUse(Buffer("log")),)), "its scope is not"),
        (plan_of([Guarded(0)], ()), "is not declared to depend on order"),
    ],
)
def test_what_a_plan_does_is_declared(
    plan: InstrumentationPlan, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = named("A>B", "A", "B")

    def undeclared(mode: str) -> SchemeDefinition:
        return replace(PP, plan=lambda order: replace(plan_pp(order.cfg), plan=plan))

    monkeypatch.setattr(registry, "definition", undeclared)
    with pytest.raises(UsageError, match=f"mode pp: its plan .* {text}"):
        registry.make_plan(cfg, "pp", SchemeOptions())


def test_own_schemes_with_memory_of_the_program_declare_it() -> None:
    shared = {scheme.mode for scheme in registry.OWN if scheme.scope == "program"}
    assert shared >= {"calls", "calls-optimal", "witness", "bits", "bytes", "block-trace"}
    for mode in ("sampled", "pep"):
        scheme = registry.definition(mode)
        assert scheme.mode in shared
        assert scheme.depends_on_order
        assert scheme.estimates
    assert not any(registry.definition(mode).estimates for mode in ("pp", "tpp", "kiter", "qpt2"))
