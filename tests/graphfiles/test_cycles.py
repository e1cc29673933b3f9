"""Increments are derived round each chord's cycle, from values and tree alone, and are right."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
from simprof.profiler.graphfiles.cycles import Cycle, chord_cycles
from simprof.profiler.graphfiles.lesson import lesson
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes.pp import RootEdge
from tests.support.figures import EPP_1_EDGES, EPP_7_WEIGHTS
from tests.support.turns import first

SETTINGS: dict[str, dict[str, Any]] = {
    "pp": {},
    "pp:exit-entry=chord": {"exit_entry": RootEdge.CHORD},
    "tpp": {"cold_always": True, "cold": 20.0},
    "kiter": {"iterations": 3},
}


def answered(path: Path, mode: str, graph: dict[str, Any]) -> dict[str, Any]:
    path.write_text(json.dumps(graph))
    options = SchemeOptions().having(**SETTINGS[mode])
    return analyse_file(path, AnalysisOptions(mode=mode.split(":")[0], scheme=options))


def cycles_of(answer: dict[str, Any]) -> tuple[Cycle, ...]:
    ends = [(edge["source"], edge["target"]) for edge in answer["edges"]]
    return chord_cycles(answer["static"], ends)


def check(cycle: Cycle) -> None:
    """The steps go round once, through the tree but for the chord, and sum to the increment."""
    (chord, sign), *rest = cycle.steps
    assert chord is cycle.chord and sign == 1 and not chord.in_tree
    assert all(arc.in_tree for arc, _ in rest)
    at, seen = chord.source, [chord.source]
    for arc, sign in cycle.steps:
        begin, end = (arc.source, arc.target)[::sign]
        assert begin == at
        seen.append(at := end)
    assert at == chord.source and len(set(seen)) == len(seen) - 1
    assert cycle.total == chord.increment


def test_the_papers_example(tmp_path: Path) -> None:
    """EPP, figures 7 and 8: the increments of the paper's tree."""
    edges = [[*each.split(">"), EPP_7_WEIGHTS[each]] for each in EPP_1_EDGES.split()]
    graph = {"name": "figure 7", "entry": "A", "exit": "F", "edges": edges}
    answer = answered(tmp_path / "g.json", "pp", graph)
    cycles = cycles_of(answer)
    assert {cycle.chord.name: cycle.total for cycle in cycles if cycle.total} == {
        "B to C": 2,
        "B to D": 4,
        "D to E": 1,
    }
    (rows,) = (step.rows for step in lesson(answer).steps if step.title == "Increments")
    by_chord = {chord: (around, increment) for chord, around, increment in rows}
    around, increment = by_chord["B to D"]
    terms = re.findall(r"([+-]) (\d+)", around)
    assert sum(int(sign + digits) for sign, digits in terms) == int(increment) == 4


@pytest.mark.parametrize("mode", first(2, SETTINGS, at=1))
def test_of_any_graph(mode: str, tmp_path: Path) -> None:
    """Random graphs, with loops, parallel edges and edges from a block to itself."""
    draw, chords, nonzero = random.Random(25), 0, 0
    for number in range(60):
        graph = drawn(draw)
        answer = answered(tmp_path / f"{number}.json", mode, graph)
        cycles = cycles_of(answer)
        for cycle in cycles:
            check(cycle)
            nonzero += cycle.total != 0
        chords += len(cycles)
        assert len(cycles) == wanted_chords(answer["static"])
    assert chords > 100 and nonzero > 50


def wanted_chords(static: dict[str, Any]) -> int:
    """The chords that the planner names, copies of unrolled loops each."""
    trees = [each if isinstance(each, list) else [each] for each in static["tree"]]
    values = [each if isinstance(each, list) else [each] for each in static["values"]]
    edges = [(v, t) for vs, ts in zip(values, trees, strict=True)
             for v, t in zip(vs, ts, strict=True)]  # fmt: skip
    dummies = [(edge["value"], edge["tree"]) for edge in static["dummy_edges"]]
    chords = sum(value is not None and not tree for value, tree in [*edges, *dummies])
    return chords + ("root_increment" in static)


def drawn(draw: random.Random) -> dict[str, Any]:
    """Return a graph file of up to nine blocks, with runs."""
    count = draw.randint(3, 9)
    names = [f"b{number}" for number in range(count)]
    edges = [[names[number], names[number + 1]] for number in range(count - 1)]
    for _ in range(draw.randint(1, 7)):
        source, target = draw.randrange(count - 1), draw.randrange(count)
        edges.append([names[source], names[target]])
    draw.shuffle(edges)
    graph = nx.MultiDiGraph(edges)
    runs = []
    for _ in range(4):
        walk = [names[0]]
        while walk[-1] != names[-1] and len(walk) < 30:
            walk.append(draw.choice(sorted(graph.successors(walk[-1]))))
        walk += nx.shortest_path(graph, walk[-1], names[-1])[1:]
        steps = [
            draw.choice([n for n, edge in enumerate(edges) if edge == [a, b]])
            for a, b in pairwise(walk)
        ]
        runs.append([{"edges": steps}, draw.choice([1, 30])])
    return {"name": "drawn", "entry": names[0], "exit": names[-1], "edges": edges, "runs": runs}
