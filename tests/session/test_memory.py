"""What is known of a program from earlier runs changes how long a run takes, and nothing else."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.pricing import KnownCosts, Pricer, RoutineCost
from simprof.profiler.engine import lowering
from simprof.profiler.engine.segments import Segmentation, segment
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.decoders import Plan
from simprof.profiler.profiles.cache_files import CacheFiles
from simprof.profiler.profiles.storage import save
from simprof.profiler.recovery.recovery import Discoveries, recover
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.registry import make_plan
from simprof.profiler.session import scheme_runs, session
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.recordings import record_program
from simprof.profiler.session.scheme_runs import Planner, plan_name, saved_profiles
from simprof.profiler.session.session import run_program
from simprof.simulator.binary import elf
from tests.support.turns import first

Find = Callable[..., Path]
Compile = Callable[..., Path]

GOTO = """
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    volatile unsigned long ways[3], key = (unsigned long)&argc;
    char which = '0';
    ways[0] = (unsigned long)&&one ^ key;
    ways[1] = (unsigned long)&&two ^ key;
    ways[2] = (unsigned long)&&three ^ key;
    if (read(0, &which, 1) != 1)
        return 3;
    printf("%c\\n", which);
    goto *(void *)(ways[(which + argc) % 3] ^ key);
one:
    return puts("one") < 0;
two:
    return puts("two") < 0;
three:
    return puts("three") < 0;
}
"""
"""Where its jump leads, only a run shows."""


def run(program: Path, cache: Path, given: str, *words: str) -> dict[str, Any]:
    """Run `simprof run` in a process of its own, with a cache; return what it writes as JSON."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "SIMPROF_NO_CACHE": ""}
    file = program.parent / "stdin"
    file.write_text(given)
    start = [
        sys.executable,
        "-c",
        "from simprof.profiler.cli import main; main()",
        "run",
        "--mode=tpp",
    ]
    command = [*start, f"--stdin={file}", "--json=-", *words, str(program)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def runs(result: dict[str, Any]) -> tuple[int, int]:
    """Take out how often the program was emulated."""
    return result["counts"].pop("runs"), result["counts"].pop("whole_runs")


TEXTS = "one word\n", "many words, and numbers 1 2 3\n" * 40
Reading = tuple[GuestOptions, Path]


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    """What a program sees, whose output goes nowhere, and the file that it reads.

    Runs that remember do so in a cache of the test's own.
    """
    monkeypatch.setattr(session, "binaries", lambda: CacheFiles(tmp_path / "cache"))
    nowhere, file = os.open(os.devnull, os.O_WRONLY), tmp_path / "input"
    yield GuestOptions(root=tmp_path, stdin=file, stdout=nowhere, stderr=nowhere), file
    os.close(nowhere)


@pytest.mark.long
@pytest.mark.toolchain
def test_runs_begin_with_nothing_of_other_runs(compile_c: Compile, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(compile_c(GOTO).read_bytes())
    program.chmod(0o755)
    cache = tmp_path / "cache"
    plain = {given: run(program, tmp_path / "none", given, "--no-cache") for given in "01"}
    assert not (tmp_path / "none").exists()
    emulated = {given: runs(result) for given, result in plain.items()}
    assert min(emulated.values())[0] > 1

    def same(given: str) -> tuple[int, int]:
        found = run(program, cache, given)
        counted = runs(found)
        assert found == plain[given]
        return counted

    for given in "0011":
        assert same(given) == emulated[given]
    for path in (cache / "simprof" / "binaries").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert same("1") == emulated["1"]


def test_graphs_come_back_as_they_were(fixture_elf: Find, tmp_path: Path) -> None:
    program = elf.load(fixture_elf("switches_pic", "v9"))
    memory = BinaryMemory(program, CacheFiles(tmp_path))
    some = Discoveries(entries=frozenset({program.entry + 16}))
    for discoveries in (Discoveries(), some):
        assert memory.graphs(discoveries) is None
        recovered = recover(program, discoveries)
        memory.keep_graphs(recovered, discoveries)
        found = memory.graphs(discoveries)
        assert found is not None and replace(found, code=recovered.code) == recovered
        assert (found.code.words == recovered.code.words).all()
        assert found.program is program
        for name in ("block_at", "first_block"):
            assert (getattr(found, name) == getattr(recovered, name)).all()
        assert not found.block_at.flags.writeable
    other = elf.load(fixture_elf("switches", "v9"))
    assert BinaryMemory(other, CacheFiles(tmp_path)).graphs(some) is None
    assert BinaryMemory(program, None).graphs(some) is None


OWN = [each for each in registry.planned_modes() if registry.definition(each) in registry.OWN]
OWN.sort(
    key=lambda mode: registry.guided_by(mode) is not None, reverse=True
)  # guided ones are ordinary


@pytest.mark.parametrize("mode", first(3, OWN))
def test_plans_and_costs_that_are_known_are_not_worked_out_again(
    mode: str, fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "binaries", lambda: CacheFiles(tmp_path / "cache"))
    asked: list[int] = []
    of = ProgramContexts.of

    def noting(self: ProgramContexts, number: int) -> RoutineContext:
        asked.append(number)
        return of(self, number)

    planned: list[str] = []

    def planning(cfg: ControlFlowGraph, *rest: Any, **more: Any) -> Plan:
        planned.append(cfg.name)
        return make_plan(cfg, *rest, **more)

    monkeypatch.setattr(ProgramContexts, "of", noting)
    monkeypatch.setattr(scheme_runs, "make_plan", planning)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root=tmp_path, stdin=Path(os.devnull), stdout=nowhere, stderr=nowhere)
    request = RunRequest(fixture_elf("switches", "v9"), guest, mode=mode)
    plain = run_program(request)
    for done in (asked, planned):
        done.clear()
    assert run_program(replace(request, remember=True)) == plain
    assert asked and planned
    for done in (asked, planned):
        done.clear()
    again = run_program(replace(request, remember=True))
    assert (asked, planned) == ([], [])
    assert replace(again, counts=plain.counts) == plain
    os.close(nowhere)


def test_nothing_is_executed_that_somebody_has_put_into_the_cache(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CacheFiles(tmp_path / "cache")
    monkeypatch.setattr(session, "binaries", lambda: files)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root=tmp_path, stdin=Path(os.devnull), stdout=nowhere, stderr=nowhere)
    request = RunRequest(fixture_elf("switches", "v9"), guest, mode="pp", remember=True)
    edges = run_program(replace(request, mode="edges"))
    plain = run_program(request)
    kinds = {entry.name.split(".")[3].partition("-")[0] for entry in files.entries()}
    assert kinds == {"costs", "graphs", "plans", "products"}
    mark = tmp_path / "executed"

    class Touch:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return os.system, (f"touch {mark}",)

    sha256 = elf.load(request.program).sha256
    for attack in (Touch(), (sha256, Touch()), (sha256, {0: pickle.dumps(Touch())})):
        for entry in files.entries():
            files.write(entry.name, pickle.dumps(attack))
        for mode, before in (("edges", edges), ("pp", plain)):
            again = run_program(replace(request, mode=mode))
            assert replace(again, counts=before.counts) == before
        assert not mark.exists()
    os.close(nowhere)


@pytest.mark.long
def test_another_input_has_other_plans_under_tpp(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "binaries", lambda: CacheFiles(tmp_path / "cache"))
    inputs = [tmp_path / "short", tmp_path / "long"]
    inputs[0].write_text("one word\n")
    inputs[1].write_text("many words, and numbers 1 2 3; many more words\n" * 40)
    planned: list[str] = []

    def planning(cfg: ControlFlowGraph, *rest: Any, **more: Any) -> Plan:
        planned.append(cfg.name)
        return make_plan(cfg, *rest, **more)

    monkeypatch.setattr(scheme_runs, "make_plan", planning)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    seen = []
    for path in (*inputs, *inputs, inputs[1]):
        guest = GuestOptions(root=tmp_path, stdin=path, stdout=nowhere, stderr=nowhere)
        request = RunRequest(fixture_elf("words", "v9"), guest, mode="tpp")
        plain = run_program(request)
        planned.clear()
        known = run_program(replace(request, remember=True))
        assert replace(known, counts=plain.counts) == plain
        seen.append(len(set(planned)))
    os.close(nowhere)
    # Routines whose counts are the same under both inputs are planned once.
    assert seen[0] > seen[1] > seen[-1] == 0
    assert seen[2] == seen[3] > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "table", "width"),
    first(
        1,
        [
            ("pp", TableChoice.HASH, "v8plus"),
            ("tpp", TableChoice.HASH, "v9"),
            ("pp", TableChoice.AUTO, "v9"),
            ("tpp", TableChoice.AUTO, "v8plus"),
        ],
    ),
)
def test_what_schemes_do_along_known_segments_is_not_worked_out_again(
    mode: str,
    table: TableChoice,
    width: str,
    fixture_elf: Find,
    reading: Reading,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another input adds to what is known of a routine, for a run and for a recorded one.

    A saved profile guides `tpp`: with the run's own it would take no part in the run.
    """
    guest, file = reading
    segmented: list[str] = []

    def segmenting(cfg: ControlFlowGraph, *rest: Any) -> Segmentation:
        segmented.append(cfg.name)
        return segment(cfg, *rest)

    monkeypatch.setattr(lowering, "segment", segmenting)
    edges = RunRequest(fixture_elf("words", width), guest, mode="edges")
    file.write_text(TEXTS[0])
    save(run_program(edges), saved := tmp_path / "edges")
    scheme = SchemeOptions(table=table, edge_profile=saved if mode == "tpp" else None)
    request = replace(edges, mode=mode, scheme=scheme)
    seen: list[int] = []
    for text in (0, 0, 1, 1, 1, 1):
        file.write_text(TEXTS[text])
        expected = run_program(request)
        recording = tmp_path / f"recording-{len(seen)}"
        record_program(request, recording)
        segmented.clear()
        known = run_program(replace(request, remember=True))
        seen.append(len(segmented))
        assert replace(known, counts=expected.counts) == expected
        replayed = run_program(replace(request, remember=True, replay=recording))
        assert replace(replayed, counts=expected.counts) == expected
    # Routines in which an activation was unfinished when the program ended are looked at again.
    assert seen[0] > 10 and seen[-1] < 3


def test_another_edge_profile_under_the_same_name_has_other_products(
    fixture_elf: Find, reading: Reading, tmp_path: Path
) -> None:
    guest, file = reading
    saved = tmp_path / "edges"
    scheme = SchemeOptions(edge_profile=saved)
    guided = RunRequest(fixture_elf("words", "v9"), guest, mode="tpp", scheme=scheme)
    for text in TEXTS:
        file.write_text(text)
        save(run_program(replace(guided, mode="edges", scheme=SchemeOptions())), saved)
        file.write_text(TEXTS[1])
        plain = run_program(guided)
        assert replace(run_program(replace(guided, remember=True)), counts=plain.counts) == plain


@pytest.mark.parametrize("mode", ["pp", "tpp"])
def test_replays_read_and_keep_plans_as_runs_do(
    mode: str, fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "binaries", lambda: CacheFiles(tmp_path / "cache"))
    planned: list[str] = []

    def planning(cfg: ControlFlowGraph, *rest: Any, **more: Any) -> Plan:
        planned.append(cfg.name)
        return make_plan(cfg, *rest, **more)

    monkeypatch.setattr(scheme_runs, "make_plan", planning)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root=tmp_path, stdout=nowhere, stderr=nowhere)
    request = RunRequest(fixture_elf("switches", "v9"), guest, mode=mode, remember=True)
    record_program(request, tmp_path / "recording")
    replay = replace(request, replay=tmp_path / "recording")
    assert not planned
    first = run_program(replay)
    assert planned
    planned.clear()
    assert run_program(replay) == first
    assert run_program(request).routines == first.routines
    os.close(nowhere)
    assert not planned


def test_plans_come_back_with_the_graph_that_is_there(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, nothing = elf.load(fixture_elf("switches", "v9")), Discoveries()
    recovered, setting = recover(program), Setting("kiter", "kiter", SchemeOptions())
    planner, again = (Planner(setting, saved_profiles("")) for _ in range(2))
    made = [(cfg, planner.make(cfg)) for cfg in recovered.routines]
    memory = BinaryMemory(program, CacheFiles(tmp_path))
    memory.keep_plans(nothing, setting, made[3:])
    some = memory.plans(nothing, setting)
    places = [plan_name(cfg, None) in some for cfg, _ in made]
    assert places == [n >= 3 for n in range(len(made))]
    memory.keep_plans(nothing, setting, made)
    known = memory.plans(nothing, setting)
    again.remember(known)
    monkeypatch.setattr(again, "_make", None)  # nothing is planned anew
    for cfg, plan in made:
        found = again.make(cfg)
        assert found is not plan
        assert found.plan == plan.plan
        assert b"ControlFlowGraph" not in known[plan_name(cfg, None)]
        found.validate()


def test_costs_hold_for_one_place_of_counters_only(fixture_elf: Find) -> None:
    recovered = recover(elf.load(fixture_elf("switches", "v9")))
    contexts = ProgramContexts(recovered)
    planner = Planner(Setting("pp", "pp", SchemeOptions()), saved_profiles(""))
    plans = [planner.make(cfg) for cfg in recovered.routines]
    costs = KnownCosts(keeps=True)

    def priced(numbers: range, known: KnownCosts) -> list[RoutineCost]:
        pricer = Pricer(registry.generators("pp"))
        return [
            pricer.cost_once(
                n,
                recovered.routines[n],
                plans[n].plan,
                plans[n].weights,
                partial(contexts.of, n),
                known,
            )
            for n in numbers
        ]

    everything = range(len(plans))
    first = priced(everything, costs)
    assert costs.added.keys() == set(everything)
    assert first == priced(everything, KnownCosts())
    for numbers in (everything, range(3, len(plans)), everything):
        known = KnownCosts(costs.added, keeps=True)
        assert priced(numbers, known) == priced(numbers, KnownCosts())
        assert bool(known.added) is (numbers != everything)
