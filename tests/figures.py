"""Graphs of the papers' figures, as far as text and worked numbers fix them.

`named` builds a graph from one-line notation: "A>B A>C" are its edges in file order.
"""

from __future__ import annotations

import itertools

from profiler.cfg import Block, ControlFlowGraph, Edge, EdgeKind


def named(edges: str, entry: str, exit_block: str, name: str = "figure") -> ControlFlowGraph:
    """Build a graph with one-instruction blocks named by the letters in `edges`."""
    pairs = [tuple(edge.split(">")) for edge in edges.split()]
    labels = list(dict.fromkeys([entry, *(label for pair in pairs for label in pair)]))
    ids = {label: index for index, label in enumerate(labels)}
    made = [
        Edge(index, ids[source], ids[target], EdgeKind.TAKEN)
        for index, (source, target) in enumerate(pairs)
    ]
    count = len(labels)
    made.append(Edge(len(made), count, ids[entry], EdgeKind.ENTRY))
    made.append(Edge(len(made), ids[exit_block], count + 1, EdgeKind.EXIT))
    blocks = tuple(Block(index, index, 1, False, label) for label, index in ids.items())
    return ControlFlowGraph(name, 0, 0, blocks, tuple(made))


def edge(cfg: ControlFlowGraph, ends: str) -> int:
    """Return the id of edge "A>B"."""
    source, target = ends.split(">")
    found = [
        each.id
        for each in cfg.edges
        if (cfg.vertex_name(each.source), cfg.vertex_name(each.target)) == (source, target)
    ]
    assert len(found) == 1, f"{ends}: {found}"
    return found[0]


def by_edge(cfg: ControlFlowGraph, values: dict[str, float], rest: float = 0) -> list[float]:
    """Return numbers by edge id from numbers by "A>B"."""
    result = [rest] * len(cfg.edges)
    for ends, value in values.items():
        result[edge(cfg, ends)] = value
    return result


def walk(cfg: ControlFlowGraph, blocks: str) -> list[int]:
    """Return the edges of the activation with these one-letter blocks, ENTRY and EXIT included."""
    names = ["ENTRY", *blocks, "EXIT"]
    return [edge(cfg, f"{a}>{b}") for a, b in itertools.pairwise(names)]


def letters(cfg: ControlFlowGraph, blocks: tuple[int, ...]) -> str:
    """Return the blocks' names, run together."""
    return "".join(str(cfg.vertex_name(block)) for block in blocks)


EPP_1_EDGES = "A>B A>C B>C B>D C>D D>F D>E E>F"
EPP_1_PROFILES = {
    "ACDF": (90, 110),
    "ACDEF": (60, 40),
    "ABCDF": (0, 0),
    "ABCDEF": (100, 100),
    "ABDF": (20, 0),
    "ABDEF": (0, 20),
}
EPP_2_ENCODING = {"ACDF": 0, "ACDEF": 1, "ABCDF": 2, "ABCDEF": 3, "ABDF": 4, "ABDEF": 5}
# Weights under which the maximum spanning tree is the one of figures 3, 7 and 9.
EPP_7_WEIGHTS = {
    "ENTRY>A": 9, "F>EXIT": 9, "A>B": 8, "C>D": 8, "D>F": 8, "E>F": 8,
    "A>C": 1, "B>C": 1, "B>D": 1, "D>E": 1,
}  # fmt: skip


def epp_1() -> ControlFlowGraph:
    """EPP figures 1, 4, 6, 7 and 9."""
    return named(EPP_1_EDGES, "A", "F", "EPP figure 1")


def epp_2() -> ControlFlowGraph:
    """EPP figure 2: figure 1's graph as the body of a loop."""
    return named(EPP_1_EDGES + " F>A", "A", "F", "EPP figure 2")


def epp_10() -> ControlFlowGraph:
    """EPP figure 10 as its text describes it: loop B C D E with back edge E > B, exit H."""
    return named("A>B B>D B>C C>E D>E E>B E>F F>G F>H G>H", "A", "H", "EPP figure 10")


def bl94_5() -> ControlFlowGraph:
    """BL94 figures 5 and 7: a loop with a conditional and a second exit; X is their EXIT."""
    return named("P>Q P>X Q>A Q>B A>R B>R R>C R>X C>P", "P", "X", "BL94 figure 5")
