"""Graphs of the papers' figures, as far as text and worked numbers fix them.

`named` builds a graph from one-line notation: "A>B A>C" are its edges in file order.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind


def named(edges: str, entry: str, exit_block: str, name: str = "figure") -> ControlFlowGraph:
    """Build a graph with one-instruction blocks named by the letters in `edges`.

    `exit_block`: The block with an edge to EXIT, or several with blanks between them.
    """
    pairs = [tuple(edge.split(">")) for edge in edges.split()]
    labels = list(dict.fromkeys([entry, *(label for pair in pairs for label in pair)]))
    ids = {label: index for index, label in enumerate(labels)}
    made = [
        Edge(index, ids[source], ids[target], EdgeKind.TAKEN)
        for index, (source, target) in enumerate(pairs)
    ]
    count = len(labels)
    made.append(Edge(len(made), count, ids[entry], EdgeKind.ENTRY))
    for label in exit_block.split():
        made.append(Edge(len(made), ids[label], count + 1, EdgeKind.EXIT))
    blocks = tuple(Block(index, index, 1, False, label) for label, index in ids.items())
    return ControlFlowGraph(name, 0, 0, blocks, tuple(made))


def edge(cfg: ControlFlowGraph, ends: str) -> int:
    """Return the id of edge "A>B"."""
    source, target = ends.split(">")
    found = [
        each.id
        for each in cfg.edges
        if (cfg.name_of(each.source).start, cfg.name_of(each.target).start) == (source, target)
    ]
    assert len(found) == 1, f"{ends}: {found}"
    return found[0]


def by_edge(cfg: ControlFlowGraph, values: Mapping[str, float], rest: float = 0) -> list[float]:
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
    return "".join(str(cfg.name_of(block)) for block in blocks)


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


KITER_1_EDGES = "1>2 2>3 2>4 3>5 4>5 4>6 5>2 5>6"
KITER_1_TRACE = "1" + "235245" * 100 + "6"
# Table 1: u, e, i(u), v(e, i(u)), n(u), cv(e, i(u)), in(u); S and E are ENTRY and EXIT. in(u) is
# printed where the algorithm computes it.
KITER_TABLE_1 = """
6 6>E 1 0 1 0
5 5>6 2 0 1 0
5 5>E 2 1 2 0
3 3>5 2 0 2 0
4 4>5 2 0 2 0
4 4>6 2 2 3 0
2 2>3 2 0 2 0
2 2>4 2 2 5 0
5 5>2 1 0 5 0 0
5 5>6 1 5 6 0 1
3 3>5 1 0 6 0 1
4 4>5 1 0 6 0 1
4 4>6 1 6 7 1 2
2 2>3 1 0 6 0 1
2 2>4 1 6 13 1 3
1 1>2 1 0 13 0
S S>1 1 0 13 0 0
S S>2 1 13 26 0 3
"""
# Table 2: edge, c, f, itr, path counted; None where the text of the table is lost.
KITER_TABLE_2 = [
    ("1>2", [-13, 0], False, 0, None),
    ("2>3", [0, 0], False, 0, None),
    ("3>5", None, False, 0, None),
    ("5>2", [0, 0], True, 1, None),
    ("2>4", [18, 2], True, 1, None),
    ("4>5", None, True, 1, None),
    ("5>2", [0, 18], True, 1, 3),
    ("2>3", None, True, 1, None),
    ("3>5", [13, 19], True, 1, None),
    ("5>2", [0, 13], True, 1, 19),
    ("2>4", [18, 15], True, 1, None),
    ("4>5", [18, 16], True, 1, None),
    ("5>2", [0, 18], True, 1, 16),
]
KITER_8_EDGES = "1>2 2>3 3>2 3>4 4>5 5>4 5>6 6>4 6>7"
# The static paths that figure 8 lists, as far as its text is there.
KITER_8_LISTED = (
    "12323454567 1232345456 123234545 123234567 12323456 12323 123454567 1234567 123456 "
    "23234545 23234567 454567 45456 4545"
)
