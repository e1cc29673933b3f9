"""The target that reads graph files: all formats, all modes, all options that shape an answer."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from random import Random
from typing import Any

from tools.fuzzing import commands
from tools.fuzzing.mutation import json_text, mutate_words
from tools.fuzzing.worker import Target

_LIMITS = (1, 2, 5, 100, 100_000_000)
_WEIGHTS = (None, "heuristic", "uniform", "postorder")


def read_graph(data: bytes, where: Path) -> Hashable:
    """Analyse a graph file under a mode that its content chooses, and write report and JSON."""
    from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse
    from simprof.profiler.graphfiles.formats import parse_content
    from simprof.profiler.reports.graph_run import render
    from simprof.profiler.request.request import SchemeOptions
    from simprof.profiler.request.weights import Weights
    from simprof.profiler.schemes import registry

    number = commands.chosen(data, 1 << 30)
    modes = registry.planned_modes()
    mode, number = modes[number % len(modes)], number // len(modes)
    limit, number = _LIMITS[number % len(_LIMITS)], number // len(_LIMITS)
    weights, number = _WEIGHTS[number % len(_WEIGHTS)], number // len(_WEIGHTS)
    options = AnalysisOptions(
        mode=mode,
        enumerate=number % 4 == 0 and registry.definition(mode).counts_paths,
        weights=None if weights is None else Weights(weights),
        scheme=SchemeOptions(path_limit=limit),
    )
    document = parse_content(data, Path("graph" + _suffix(data)))
    answer = analyse(document, options)
    json.dumps(answer)
    render(answer, 80)
    return mode, min(len(document.cfg.blocks), 8), min(len(document.cfg.edges), 12)


def _suffix(data: bytes) -> str:
    start = data[:64].lstrip()
    if start.startswith(b"<"):
        return ".graphml"
    return ".json" if start.startswith((b"{", b"[")) else ".gml"


def mutate_graph(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change a graph file in the way of its format."""
    if _suffix(data) != ".json":
        return mutate_words(rng, data, other)
    if rng.random() < 0.4:
        return invent_graph(rng)
    return json_text(rng, data, other)


def invent_graph(rng: Random) -> bytes:
    """Return a graph file of our own format, mostly a valid one, with runs that are walks of it."""
    count = rng.randrange(1, 10)
    names = [f"b{number}" for number in range(count)]
    edges: list[Any] = [
        [rng.choice(names), rng.choice(names)] for _ in range(rng.randrange(3 * count))
    ]
    edges += [[names[n], names[n + 1]] for n in range(count - 1)]
    if rng.random() < 0.5:
        rng.shuffle(edges)
    if rng.random() < 0.3:
        for edge in edges:
            edge.append(rng.choice((0, 1, 2.5, 1e300, 7)))
    document: dict[str, Any] = {
        "entry": rng.choice(names) if rng.random() < 0.1 else names[0],
        "exit": rng.choice(names) if rng.random() < 0.1 else names[-1],
        "edges": edges,
        "runs": [_walk(rng, names, edges) for _ in range(rng.randrange(4))],
    }
    if rng.random() < 0.5:
        document["blocks"] = {name: rng.choice((0, 1, 3, 10**6)) for name in names}
    return json.dumps(document).encode()


def _walk(rng: Random, names: list[str], edges: list[Any]) -> list[Any]:
    """Return a run: a random walk from the first block that ends when it meets the last one."""
    place, indices = names[0], []
    for _ in range(rng.randrange(60)):
        after = [index for index, edge in enumerate(edges) if edge[0] == place]
        if not after or (place == names[-1] and rng.random() < 0.5):
            break
        index = rng.choice(after)
        indices.append(index)
        place = edges[index][1]
    while place != names[-1]:
        index = next(
            (i for i, edge in enumerate(edges) if edge[0] == place and edge[1] > place), -1
        )
        if index < 0:
            break
        indices.append(index)
        place = edges[index][1]
    return [{"edges": indices}, rng.choice((0, 1, 2, 10**9, 10**40))]


TARGETS = (
    Target("graph", "graph files in all formats, analysed in all modes", read_graph, mutate_graph,
           commands.prepare),
)  # fmt: skip
