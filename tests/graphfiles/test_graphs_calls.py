"""Graph files with call blocks and activations that end early: BL94 figures 7, 15 and 16."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
from simprof.profiler.graphfiles.formats import from_networkx, load, to_networkx
from simprof.profiler.graphfiles.lesson import lesson
from simprof.profiler.graphfiles.reader import GraphFileError, parse
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.schemes import registry
from tests.oracles.brute import random_graph, random_walk
from tests.oracles.iterations import iterated_loops, split_iterations
from tests.oracles.tracing import least_cost, solutions, solves

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "schemes" / "figures"


def figure(number: int) -> Path:
    return FIGURES / f"bl94-{number}.json"


def witnesses(answer: dict[str, Any]) -> set[str]:
    ends = [f"{edge['source']}>{edge['target']}" for edge in answer["edges"]]
    found = zip(ends, answer["static"]["witnesses"], strict=True)
    return {edge for edge, witness in found if witness is not None}


# Figure 7: "edge A -> R correctly receives a count of 0"


@pytest.mark.parametrize("mode", registry.planned_modes())
def test_figure_7_in_every_mode(mode: str) -> None:
    answer = analyse_file(figure(7), AnalysisOptions(mode=mode))
    counts = {f"{e['source']}>{e['target']}": e["executions"] for e in answer["edges"]}
    assert counts == {
        "P>Q": 2, "P>X": 0, "Q>A": 1, "Q>B": 1, "A>R": 0, "B>R": 1, "R>C": 1, "R>X": 0, "C>P": 1,
        "ENTRY>P": 1, "X>EXIT": 0,
    }  # fmt: skip
    assert answer["early_ends"] == [{"block": "A", "executions": 1}]
    assert answer["routines"][0]["entered"] == 1


def test_figure_7_unfinished_path() -> None:
    answer = analyse_file(figure(7))
    paths = [(p["path"] is None, " ".join(p["blocks"]), p["partial"]) for p in answer["paths"]]
    assert paths == [(False, "P Q B R C", False), (True, "P Q A", True)]
    made = lesson(answer)
    graph, shown = made.steps[0], next(each for each in made.steps if each.title == "Paths")
    assert ("A", "EXIT", "1", "early") in [
        (line.source, line.target, line.label, line.kind) for line in graph.lines
    ]
    assert "end early" in graph.text
    assert shown.rows[-1] == ("-", "P Q A", "1")


# Figure 15: "blocking witnesses are placed as far from call vertices as possible"


def test_figure_15() -> None:
    answer = analyse_file(figure(15), AnalysisOptions(mode="witness"))
    # B' is the predicate behind B's call. B -> D and B -> E (cost 2) replace B -> D and G -> I
    # (cost 3), and H -> I has none.
    placed = witnesses(answer)
    assert placed == {"A>B", "A>H", "B'>D", "B'>E"}
    cfg, weights = load(figure(15)).cfg, answer["static"]["weights"]
    ends = {f"{cfg.name_of(e.source)}>{cfg.name_of(e.target)}": e.id for e in cfg.edges}
    cost = sum(weights[ends[edge]] for edge in placed)
    every = sum(weights[ends[edge]] for edge in ("A>B", "A>H", "G>I", "H>I", "B'>D"))
    assert solves(cfg, {ends[edge] for edge in ("A>B", "A>H", "G>I", "H>I", "B'>D")})
    assert (cost, every) == (5, 7)
    assert cost == least_cost(cfg, weights)
    # Without calls the diamond alone has to be broken.
    document = json.loads(figure(15).read_text())
    del document["calls"]
    plain = parse(document, "graph").cfg
    assert all(edge.kind is not EdgeKind.CALL_RETURN for edge in plain.edges)
    assert least_cost(plain, weights) < cost


# Figure 16: blocking witnesses first


def test_figure_16() -> None:
    answer = analyse_file(figure(16), AnalysisOptions(mode="witness"))
    cfg, weights = load(figure(16)).cfg, answer["static"]["weights"]
    ends = {f"{cfg.name_of(e.source)}>{cfg.name_of(e.target)}": e.id for e in cfg.edges}
    placed = witnesses(answer)
    assert solves(cfg, {ends[edge] for edge in placed})
    assert sum(weights[ends[edge]] for edge in placed) == least_cost(cfg, weights) == 5
    # The spanning tree first: chords of one of greatest weight are P > Q and Q > R, or Q > S; then
    # P > C and the other have to be added, for the call and for EXIT, and P > Q was in vain.
    late = {ends[edge] for edge in ("P>Q", "Q>R", "Q>S", "P>C")}
    assert solves(cfg, late) and sum(weights[edge] for edge in late) == 7
    assert not any(late - {ends["P>C"]} >= found for found in solutions(cfg))


# Any graph


def random_document(rng: random.Random) -> tuple[dict[str, Any], list[list[int]]]:
    """A graph file of a random graph: blocks with one edge may call, activations end anywhere."""
    while True:
        cfg = random_graph(rng, 6)
        first, last = (
            [e for e in cfg.edges if cfg.entry == e.source],
            [e for e in cfg.edges if cfg.exit == e.target],
        )
        if len(first) == 1 and len(last) == 1:
            break
    names = [f"b{block.id}" for block in cfg.blocks]
    inner = [e for e in cfg.edges if e not in (first[0], last[0])]
    place = {e.id: index for index, e in enumerate(inner)}
    out = Counter(e.source for e in cfg.edges)
    single = [b.id for b in cfg.blocks if out[b.id] == 1 and b.id != last[0].source]
    walks = [random_walk(rng, cfg, rng.choice((1, 4, 12))) for _ in range(8)]
    runs = []
    for walk in walks:
        is_early = walk[-1] != last[0].id
        edges = [place[step] for step in walk[1 : None if is_early else -1]]
        runs.append([{"edges": edges}, rng.randrange(1, 4), *(["early"] if is_early else [])])
    document = {
        "entry": names[first[0].target],
        "exit": names[last[0].source],
        "blocks": dict.fromkeys(names, 1),
        "edges": [[names[e.source], names[e.target]] for e in inner],
        "calls": [names[b] for b in single if rng.random() < 0.5],
        "runs": runs,
    }
    return document, walks


@pytest.mark.long
@pytest.mark.seeds(range(40), few=14)
def test_random_graphs(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    document, _ = random_document(rng)
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(document))
    read = load(path)
    cfg = read.cfg
    called = {cfg.blocks[e.source].label for e in cfg.edges if e.kind is EdgeKind.CALL_RETURN}
    assert called == set(document["calls"])
    again = from_networkx(to_networkx(read), "graph")
    assert (again.cfg.edges, again.walks) == (cfg.edges, read.walks)
    crossed: Counter[int] = Counter()
    early: Counter[str] = Counter()
    for walk in read.walks:
        crossed.update({edge: n * walk.count for edge, n in Counter(walk.edges).items()})
        end = cfg.edges[walk.edges[-1]].target
        if end != cfg.exit:
            early[str(cfg.name_of(end))] += walk.count
    for mode in registry.planned_modes():
        answer = analyse_file(path, AnalysisOptions(mode=mode))  # which compares all counts
        assert [e["executions"] for e in answer["edges"]] == [crossed[e.id] for e in cfg.edges]
        found = {e["block"]: e["executions"] for e in answer.get("early_ends", ())}
        assert found == early
        if mode not in ("pp", "kiter", "bittrace"):
            continue
        loops = iterated_loops(cfg, 2) if mode == "kiter" else []
        heads = {loop["head"] for loop in answer["static"].get("loops", ())}
        loops = [loop for loop in loops if cfg.name_of(loop.head).start in heads]
        true: Counter[tuple[str, ...]] = Counter()
        for walk in read.walks:
            for each in split_iterations(cfg, walk.edges, loops):
                blocks = tuple(str(cfg.name_of(block)) for block in each.blocks)
                true["partial" if each.partial else "whole", *blocks] += walk.count
        told: Counter[tuple[str, ...]] = Counter()
        for each in answer["paths"]:
            kind = "partial" if each["partial"] else "whole"
            told[kind, *each["blocks"]] += each["executions"]
        assert told == true, mode


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"calls": "B"}, "calls: must be a list"),
        ({"calls": ["Z"]}, "calls: block 'Z' is not in blocks or edges"),
        ({"calls": [3]}, "calls: block '3' is not in blocks or edges"),
        ({"calls": ["A"]}, "a block that calls has one edge.* 2 leave 'A'"),
        ({"calls": ["C"]}, "'C', which is the exit"),
        ({"runs": [["A", 1]]}, 'not a walk: it ends in A.*"early"'),
        ({"runs": [["A", 1, "late"]]}, "must be \\[blocks, count\\]"),
        ({"runs": [["B", 1, "early"]]}, "it starts in B"),
    ],
)
def test_refused(change: dict[str, Any], message: str) -> None:
    document = {"entry": "A", "exit": "C", "edges": [["A", "B"], ["A", "C"], ["B", "C"]], **change}
    with pytest.raises(GraphFileError, match=message):
        parse(document, "graph.json")
