"""What a report says of a routine's graph, whatever the scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import make_dag
from simprof.profiler.graphs.loops import depth_first, is_reducible
from simprof.profiler.graphs.numbering import number
from simprof.profiler.graphs.recent import remembers_recent


@dataclass(frozen=True)
class GraphFacts:
    """Facts about one control-flow graph.

    Attributes
    ----------
    blocks, edges
        How many there are; edges from ENTRY and to EXIT are counted too.
    back_edges
        How many edges the depth-first search finds to lead back, self-loops among them.
    irreducible
        Whether the target of some back edge does not dominate its source.
    potential_paths
        How many acyclic paths lead through the graph before any edge is cut (EPP, section 3.2).
    """

    blocks: int
    edges: int
    back_edges: int
    irreducible: bool
    potential_paths: int


@remembers_recent
def graph_facts(cfg: ControlFlowGraph) -> GraphFacts:
    """Return the facts about `cfg`; linear in its size but for the search for dominators."""
    dfs = depth_first(cfg)
    return GraphFacts(
        blocks=len(cfg.blocks),
        edges=len(cfg.edges),
        back_edges=len(dfs.back_edges),
        irreducible=not is_reducible(cfg, dfs),
        potential_paths=number(make_dag(cfg, dfs)).total,
    )


class KnownFacts:
    """The facts about the graphs of one program, as far as they are known.

    Parameters
    ----------
    known
        By number of the routine; the graphs are the same whenever this is used.
    """

    def __init__(self, known: dict[int, GraphFacts] | None = None) -> None:
        self.known = {} if known is None else known
        self.has_grown = False

    def of(self, routine: int, cfg: ControlFlowGraph) -> GraphFacts:
        """Return the facts about the graph of routine number `routine`."""
        facts = self.known.get(routine)
        if facts is None:
            facts = self.known[routine] = graph_facts(cfg)
            self.has_grown = True
        return facts

    def learn(self, others: Mapping[int, GraphFacts]) -> None:
        """Take over what is known elsewhere about the same graphs."""
        self.has_grown |= not others.keys() <= self.known.keys()
        self.known.update(others)
