"""Call paths against all paths of random call graphs, and against what the engine counts."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.recovery.calls import call_sites
from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.profiler.trace.call_paths import CallPath, CallPaths, number_calls
from simprof.profiler.trace.regenerate import regenerate
from simprof.profiler.trace.regeneration import Array
from tests.end_to_end.test_cli_run import simprof
from tests.support.turns import first

Find = Callable[..., Path]


def paths_from(start: int, callees: Mapping[int, list[int]]) -> Iterator[CallPath]:
    yield (start,)
    for callee in callees.get(start, ()):
        yield from ((start, *rest) for rest in paths_from(callee, callees))


@pytest.mark.seeds(range(200))
def test_every_call_path_has_its_own_number(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 8)
    edges = [(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(0, 14))]
    numbering = number_calls(edges, 0)
    callees: dict[int, list[int]] = {}
    for caller, callee in set(edges) - numbering.back_edges:
        callees.setdefault(caller, []).append(callee)
    expected = [path for start in numbering.starts for path in paths_from(start, callees)]
    numbers = [numbering.number(path) for path in expected]
    assert sorted(each for each in numbers if each is not None) == list(range(numbering.total))
    assert {callee for _, callee in numbering.back_edges} | {0} == set(numbering.starts)
    assert all(len(set(path)) == len(path) for path in expected)


def test_what_the_call_graph_lacks_has_no_number() -> None:
    numbering = number_calls([(0, 1), (1, 2), (2, 1)], 0)
    assert numbering.back_edges == {(2, 1)}
    assert numbering.total == 3 + 2
    assert numbering.number((0, 2)) is None
    assert numbering.number((2,)) is None
    assert numbering.number((1, 2)) is not None


def follow(program: Path, directory: Path) -> tuple[CallPaths, RecoveredProgram, dict[str, Any]]:
    trace, answer = directory / "trace", directory / "json"
    done = simprof("run", "--mode=witness", "--trace", trace, "--json", answer, program)
    assert b"Traceback" not in done.stderr
    calls = CallPaths()
    graphs: list[RecoveredProgram] = []

    def receive(recovered: RecoveredProgram, blocks: Array) -> None:
        graphs.append(recovered)
        half = len(blocks) // 2  # pieces may end anywhere
        calls(recovered, blocks[:half])
        calls(recovered, blocks[half:])

    assert regenerate(trace, program, check=True, sink=receive).complete
    return calls, graphs[0], json.loads(answer.read_text())


@pytest.mark.parametrize(
    "name", first(3, ["calls", "nonlocal", "signals", "control", "deep", "pointers", "tailcalls"])
)
def test_activations_are_those_of_the_run(name: str, fixture_elf: Find, tmp_path: Path) -> None:
    """Each activation counts one call path: recursion, tail calls, longjmp, handlers included."""
    calls, recovered, answer = follow(fixture_elf(name), tmp_path)
    counted: Counter[int] = Counter()
    for path, count in calls.counts.items():
        assert len(set(path)) == len(path)
        counted[recovered.routines[path[-1]].address] += count
    entered = {each["address"]: each["activations"] for each in answer["routines"]}
    assert counted == Counter(entered)


@pytest.mark.parametrize("name", ["calls", "bench", "records"])
def test_calls_are_those_of_the_call_sites(name: str, fixture_elf: Find, tmp_path: Path) -> None:
    """Paths that end with a call, against how often the blocks of its sites were executed."""
    calls, recovered, answer = follow(fixture_elf(name), tmp_path)
    made: Counter[tuple[int, int]] = Counter()
    for path, count in calls.counts.items():
        made.update(dict.fromkeys(list(pairwise(path))[-1:], count))
    executed: Counter[object] = Counter()
    for edge in answer["edges"]:
        executed[str(edge["target"])] += edge["count"]
    index = GraphIndex(recovered)
    expected: Counter[tuple[int, int]] = Counter()
    for call in call_sites(recovered):
        (block,) = (
            block
            for block in recovered.routines[call.caller].blocks
            if block.start <= call.site < block.end and not block.is_slot
        )
        if (call.caller, call.callee) not in calls.numbering.back_edges:
            expected[call.caller, call.callee] += executed[str(block.start)]
    known = {edge: count for edge, count in made.items() if edge in calls.numbering.values}
    assert known == {edge: count for edge, count in expected.items() if count}
    assert index.block_count > 0 and known


def test_the_option(fixture_elf: Find, tmp_path: Path) -> None:
    trace, answer = tmp_path / "trace", tmp_path / "json"
    simprof("run", "--mode=bits", "--trace", trace, fixture_elf("pointers"))
    done = simprof("regenerate", trace, "--call-paths", "2", "--json", answer)
    assert done.returncode == 0, done.stderr.decode()
    assert b"24 call paths (25 in the call graph)" in done.stdout
    assert b"_start > runtime_main > main > sort > ascending" in done.stdout
    calls = json.loads(answer.read_text())["call_paths"]
    assert (calls["executed"], calls["potential"], calls["dynamic"]) == (24, 25, 10)
    assert [path["count"] for path in calls["paths"]] == [3911, 3896]
    assert calls["paths"][0]["number"] is None  # `ascending` is called through a pointer
