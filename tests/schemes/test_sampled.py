"""Sampled paths, a scheme of another distribution: against a walk, on qemu, and what is refused."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.plan import interpret
from simprof.profiler.plan.actions import CountEdge, Guard
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.plan.plan import Buffer, BufferUse, CounterTable, InstrumentationPlan
from simprof.profiler.request.request import SchemeOptions, Setting
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import SchemeDefinition
from simprof.profiler.schemes.pp import PP
from simprof.profiler.schemes.pp.planner import plan_pp
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES, ROOT
from tests.oracles.exact import Simulated, cut_edges, paths_of, simulate_settings
from tests.oracles.naive import BlockName, RoutineProfile, Walker
from tests.oracles.qemu import trace
from tests.support.figures import named
from tests.support.turns import in_step
from tests.support.verifying import LEFT_ALONE, check_verified, verified

SCHEME = FIXTURES / "sampled_scheme"
LOOPS = FIXTURES / "bin" / "v9" / "loops.elf"
INTERVALS = (1, 2, 7, 50, 1000)
WIDTHS = ("v9", "v8plus", "v8")
PROGRAMS = {
    "loops": [],
    "manypaths": [],
    "deep": ["300"],
    "tailcalls": [],
    "switches": [],
    "nonlocal": [],
    "signals": [],
}


@pytest.fixture
def sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The scheme, installed for this process; the result is where, for others."""
    site = tmp_path / "site"
    info = site / "simprof_sampled-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: simprof-sampled\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\nsampled = sampled_scheme:SAMPLED\n"
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


def setting(interval: int) -> Setting:
    return Setting(f"sampled {interval}", "sampled", SchemeOptions(interval=interval))


class SamplingWalker(Walker):
    """Walks a trace; paths that a counter of all routines together has chosen begin "sampled"."""

    interval = 1
    left = 0

    def begin(self) -> None:
        """Count one path that begins."""
        self.left -= 1
        sampled = self.left <= 0
        if sampled:
            self.left = self.interval
        self.stack[-1].begins = "sampled" if sampled else "passed by"

    def enter(self, step: int, expected: int | None, below: bool) -> None:
        super().enter(step, expected, below)
        self.begin()

    def cross(self, edge: int) -> None:
        graph = self.stack[-1].graph
        ends = graph.edges[edge]
        super().cross(edge)
        if ends.source != ends.target and edge in self.enders[graph.address]:
            self.begin()


def sampled_paths(profile: RoutineProfile, *, partial: bool) -> Counter[tuple[BlockName, ...]]:
    """Sampled paths by their blocks."""
    sums: Counter[tuple[BlockName, ...]] = Counter()
    for path, count in (profile.partial if partial else profile.paths).items():
        if path.begins == "sampled":
            sums[path.blocks] += count
    return sums


# Exactness


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), in_step(PROGRAMS, WIDTHS))
def test_a_walk_over_the_executed_blocks_samples_the_same_paths(
    name: str, width: str, fixture_elf: Callable[..., Path], tmp_path: Path, sampled: Path
) -> None:
    """For several intervals at once, each with a word of its own, beside `pp`."""
    path, arguments = fixture_elf(name, width), PROGRAMS[name]
    settings = [Setting("pp", "pp", SchemeOptions()), *map(setting, INTERVALS)]
    simulated = simulate_settings(path, arguments, directory=tmp_path, settings=settings)
    jumps = name in ("nonlocal", "signals")
    reference = trace(path, arguments, directory=tmp_path, stack_pointers=jumps)
    for interval in INTERVALS:
        walker = SamplingWalker(
            simulated.observation.recovered.routines,
            reference.pc,
            reference.breaks,
            reference.sp,
            cut_edges(simulated),
            faulted=not reference.executed[-1],
        )
        walker.interval = interval
        check(simulated, f"sampled {interval}", walker.walk().routines)


def check(simulated: Simulated, name: str, expected: Mapping[int, RoutineProfile]) -> None:
    """Compare the paths of every routine."""
    found = {routine.address: routine for routine in simulated.measurements[name].routines}
    some = 0
    for address, reference in expected.items():
        for partial in (False, True):
            paths = sampled_paths(reference, partial=partial)
            some += paths.total()
            counted = paths_of(found[address], partial) if address in found else Counter()
            assert counted == paths, (name, hex(address), partial)
    assert some > 0


def test_every_path_is_a_sample_where_the_interval_is_one(tmp_path: Path, sampled: Path) -> None:
    settings = [Setting("pp", "pp", SchemeOptions()), setting(1)]
    simulated = simulate_settings(LOOPS, directory=tmp_path, settings=settings)
    both = [
        {routine.address: paths_of(routine, False) for routine in measurement.routines}
        for measurement in simulated.measurements.values()
    ]
    assert both[0] == both[1]


@pytest.mark.qemu
@pytest.mark.long
@pytest.mark.parametrize(("name", "width"), in_step(PROGRAMS, WIDTHS))
def test_instrumented_programs_execute_what_is_predicted(
    name: str, width: str, fixture_elf: Callable[..., Path], tmp_path: Path, sampled: Path
) -> None:
    done = simprof(
        sampled, tmp_path, "verify", "--mode", "sampled:interval=3", "--json", "-",
        fixture_elf(name, width), *PROGRAMS[name],
    )  # fmt: skip
    answer = json.loads(done.stdout)
    (mode,) = answer["modes"].values()
    assert done.returncode == 0, done.stderr
    assert mode["executed"] == dict.fromkeys(("emulator", "qemu"), mode["predicted"])
    assert (mode["counters_equal"], mode["output_equal"]) == (True, True)


@pytest.mark.qemu
@pytest.mark.toolchain
def test_routines_that_are_left_alone_take_no_part(
    compile_c: Callable[..., Path], tmp_path: Path, sampled: Path
) -> None:
    """With them every second path would be one of `_start`, or none: control alternates."""
    built = compile_c(LEFT_ALONE, ("-nostdlib",), language="asm")
    options = SchemeOptions(interval=2)
    result = verified(built, tmp_path, modes=["sampled"], options=options)
    assert [[left.routine for left in mode.left] for mode in result.modes] == [["strange"]]
    check_verified(result)


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
    assert len(source.splitlines()) < 250
    assert {name for name in imports if name.startswith("simprof")} == {"simprof.schemes"}


def test_reports_say_that_it_estimates(sampled: Path, tmp_path: Path) -> None:
    done = simprof(sampled, tmp_path, "run", "--mode=sampled", "--json", "run.json", LOOPS)
    assert "mode sampled estimates" in done.stderr
    assert json.loads((tmp_path / "run.json").read_text())["estimate"] is True
    compared = simprof(
        sampled, tmp_path, "compare", "--mode=pp,sampled", "--json", "all.json", LOOPS
    )
    modes = json.loads((tmp_path / "all.json").read_text())["modes"]
    assert [mode.get("estimate") for mode in modes.values()] == [None, True]
    assert compared.returncode == 0


@pytest.mark.long
def test_recordings_are_refused_in_one_line(sampled: Path, tmp_path: Path) -> None:
    """They lack the order of events of different routines."""
    assert simprof(sampled, tmp_path, "record", "-o", "run.rec", LOOPS).returncode == 0
    for command in (["run", "--mode=sampled"], ["compare", "--mode=pp,sampled"]):
        done = simprof(sampled, tmp_path, *command, "--replay", "run.rec")
        (line,) = done.stderr.splitlines()
        assert done.returncode == 125
        assert "mode sampled depends on the order of events of all routines" in line
        assert "without --replay" in line


def test_graph_files_take_turns(sampled: Path, tmp_path: Path) -> None:
    """20 activations of 3 paths each: every 7th of 60 is a sample, from the first on: 9."""
    graph = {
        "name": "loop", "entry": "A", "exit": "C", "blocks": {"A": 3, "B": 2},
        "edges": [["A", "B"], ["B", "A"], ["B", "C"]], "runs": [["A B A B A B C", 20]],
    }  # fmt: skip
    (tmp_path / "loop.json").write_text(json.dumps(graph))
    done = simprof(
        sampled, tmp_path, "explain", "--mode=sampled:interval=7", "--json=-", "loop.json"
    )
    answer = json.loads(done.stdout)
    assert sum(path["executions"] for path in answer["paths"]) == 9
    assert answer["estimate"] is True


def test_sweeps_have_it_beside_own_schemes(sampled: Path, tmp_path: Path) -> None:
    """Each cell is what `compare` measures, and the file needs the scheme to be read."""
    modes = "pp,sampled,sampled:interval=7"
    swept = simprof(sampled, tmp_path, "sweep", LOOPS, f"--mode={modes}", "-o", "sweep.db")
    assert swept.returncode == 0, swept.stderr
    simprof(sampled, tmp_path, "compare", f"--mode={modes}", "--json", "all.json", LOOPS)
    compared = json.loads((tmp_path / "all.json").read_text())["modes"]
    with closing(sqlite3.connect(tmp_path / "sweep.db")) as connection:
        query = "SELECT mode, option_interval, added, path_increments, error FROM results"
        rows = sorted(connection.execute(query).fetchall(), key=str)
    assert rows == sorted(
        (
            (
                mode["mode"],
                mode["options"].get("interval"),
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
    assert "sampled:interval=7" in simprof(sampled, tmp_path, *table).stdout
    (tmp_path / "none").mkdir()
    without = simprof(tmp_path / "none", tmp_path, *table)
    assert without.returncode == 125
    (line,) = without.stderr.splitlines()
    assert "sweep.db has results of sampled, a scheme that is not installed" in line
    assert "install the package that brings it" in line


# Guards, words and buffers of any scheme


class Guarded(CountEdge):
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
    assert shared == {"calls", "calls-optimal", "witness", "bits", "bytes", "block-trace"}
    assert not any(scheme.depends_on_order or scheme.estimates for scheme in registry.OWN)
