"""Graphs: recover a program's, plan a scheme on one, exchange them with networkx."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import Struct
from msgspec.structs import asdict

from simprof._arguments import ModeOptions, parse
from simprof._checks import check_networkx, check_weights, file_path, public, wrong
from simprof._frames import data_frame
from simprof._html import facts, html_table
from simprof.profiler.graphfiles.lesson import lesson
from simprof.profiler.profiles import tables
from simprof.profiler.recovery import recovery
from simprof.profiler.reports import graph_run
from simprof.profiler.reports.display import brief
from simprof.profiler.request.likeness import unknown
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from simprof.profiler.graphfiles.reader import GraphDocument
    from simprof.profiler.graphs.cfg import ControlFlowGraph

TOP = 10  # Routines that a notebook shows of a program: the largest

StrPath = str | os.PathLike[str]


class GraphOptions(ModeOptions, total=False):
    """Options of `plan`: those of `simprof explain`, which docs/GUIDE.md describes."""

    enumerate: bool
    weights: str
    path_limit: int
    table: str
    edge_profile: StrPath
    layout: str
    order: str


class PlannedEdge(Struct, frozen=True):
    """What a scheme does on one edge."""

    # Block names (of a program: start addresses), "ENTRY" or "EXIT".
    source: int | str
    target: int | str
    actions: tuple[str, ...]  # In the papers' notation: "r=4", "count[r]++"
    sparc: tuple[str, ...]  # Their instructions
    cost: int  # How many of these one crossing of the edge executes
    count: int  # How often the graph's runs cross the edge


class Picture(str):
    """A picture as SVG, which a notebook shows."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


PLANNED = (
    *(tables.DataColumn(name, tables.ColumnKind.TEXT) for name in ("source", "target", "actions")),
    *map(tables.DataColumn, ("cost", "count")),
)


class PlannedGraph(Struct, frozen=True):
    """A scheme on a graph, `cfg`."""

    cfg: ControlFlowGraph
    # What `simprof explain --json` writes; `docs/SEMANTICS.md` describes its fields.
    answer: Mapping[str, Any]

    def __repr__(self) -> str:
        mode, paths = self.answer["mode"], self.potential_paths
        return f"PlannedGraph({self.cfg.name!r}, mode={mode!r}, {paths} paths, added={self.added})"

    @property
    def potential_paths(self) -> int:
        """Acyclic paths of the graph, before any truncation."""
        return int(self.answer["routines"][0]["potential_paths"])

    @property
    def added(self) -> int:
        """Instructions that the scheme adds to the graph's runs."""
        return int(self.answer["instructions"]["added"])

    @property
    def base(self) -> int:
        """Instructions of the graph's runs without the scheme."""
        return int(self.answer["instructions"]["base"])

    @property
    def edges(self) -> tuple[PlannedEdge, ...]:
        """By edge id."""
        static = self.answer["static"]
        code, sparc = map(tuple, static["code"]), map(tuple, static["sparc"])
        rows = zip(self.answer["edges"], code, sparc, static["costs"], strict=True)
        return tuple(
            PlannedEdge(edge["source"], edge["target"], does, made, cost, edge["executions"])
            for edge, does, made, cost in rows
        )

    @property
    def paths(self) -> tuple[Mapping[str, Any], ...]:
        """The paths that the graph's runs took, or with `enumerate=True` all potential ones.

        Fields are those of `paths` and `all_paths` in the answer.
        """
        return tuple(self.answer.get("all_paths", self.answer["paths"]))

    def to_frame(self) -> pd.DataFrame:
        """Return one row an edge, as a pandas frame: what the scheme does there.

        Raises SimprofError if pandas is not installed.
        """
        rows = tuple(
            (str(each.source), str(each.target), ", ".join(each.actions), each.cost, each.count)
            for each in self.edges
        )
        return data_frame(tables.ProfileTable("edges", PLANNED, rows))

    def draw(self, step: int | str = "code") -> Picture:
        """Return a picture of one step of `simprof explain`, which a notebook shows.

        `step`: Its number, from 1, or its title: "numbering", "spanning tree", "code", ...
        Raises SimprofError if there is no such step, or Graphviz's `dot` is not installed.
        """
        steps = lesson(self.answer).steps
        titles = [each.title.lower() for each in steps]
        if isinstance(step, int) and 1 <= step <= len(steps):
            return Picture(graph_run.render_svg(steps[step - 1]))
        if str(step).lower() not in titles:
            raise UsageError(unknown("step", str(step), titles))
        return Picture(graph_run.render_svg(steps[titles.index(str(step).lower())]))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what the scheme does, edge by edge."""
        summary = {
            "graph": brief(self.cfg.name),
            "mode": str(self.answer["mode"]),
            "potential paths": f"{self.potential_paths:,}",
            "base": f"{self.base:,} instructions",
            "added": f"{self.added:,} instructions",
        }
        rows = []
        for edge in self.edges:
            numbers = f"{edge.cost:,}", f"{edge.count:,}"
            rows.append((f"{edge.source} > {edge.target}", ", ".join(edge.actions), *numbers))
        carrying = sum(bool(edge.actions) for edge in self.edges)
        title = f"{carrying} of {len(rows)} edges carry code"
        return facts(summary) + html_table(title, ("edge", "actions", "cost", "count"), rows)


class RecoveredProgram(recovery.ProgramGraphs, frozen=True):
    __doc__ = recovery.ProgramGraphs.__doc__

    def _repr_html_(self) -> str:
        """Return what a notebook shows: how large it is, what is not known, large routines."""
        arrays = self.arrays
        summary = {
            "program": str(self.program.path),
            "routines": f"{len(self.routines):,}",
            "blocks": f"{self.block_count:,}",
            "edges": f"{len(arrays.edge_source):,}",
            "unresolved jumps": f"{len(self.unresolved_jumps):,}",
        }
        blocks = (arrays.first_block[1:] - arrays.first_block[:-1]).tolist()
        edges = (arrays.first_edge[1:] - arrays.first_edge[:-1]).tolist()
        largest = sorted(range(len(blocks)), key=lambda number: -blocks[number])[:TOP]
        rows = []
        for number in largest:
            routine = brief(arrays.names[number]), f"{arrays.addresses[number]:#x}"
            rows.append((*routine, f"{blocks[number]:,}", f"{edges[number]:,}"))
        title = f"{len(rows)} of {len(blocks)} routines, by blocks"
        columns = ("routine", "address", "blocks", "edges")
        return facts(summary) + html_table(title, columns, rows)


@public
def plan(
    graph: ControlFlowGraph | nx.MultiDiGraph | Mapping[str, Any] | StrPath,
    mode: str = "pp",
    **options: Unpack[GraphOptions],
) -> PlannedGraph:
    """Apply a scheme to a graph: number its paths, place its code, count its runs.

    - `graph`: A routine of `recover`; a graph of networkx or a graph file's content, both as
      `docs/SEMANTICS.md` describes them; or a graph file's name.
    - `mode`: The scheme, as for `simprof explain --mode`.
    - `options`: Those of `simprof explain`, `_` for `-`.

    Raises SimprofError with one line that says what is wrong with the graph or an option.

    Examples
    --------
    Figure 1 of *Efficient Path Profiling*:

    >>> import simprof
    >>> pairs = "AB AC BC BD CD DF DE EF".split()
    >>> figure = {"entry": "A", "exit": "F", "edges": [list(pair) for pair in pairs],
    ...           "runs": [["A C D F", 90], ["A C D E F", 60], ["A B C D E F", 100]]}
    >>> planned = simprof.plan(figure, mode="pp", enumerate=True)
    >>> planned.potential_paths
    6
    >>> [(path["path"], "".join(path["blocks"])) for path in planned.answer["all_paths"]]
    [(0, 'ACDF'), (1, 'ACDEF'), (2, 'ABCDF'), (3, 'ABCDEF'), (4, 'ABDF'), (5, 'ABDEF')]
    >>> for edge in planned.edges:
    ...     if edge.actions:
    ...         print(f"{edge.source}>{edge.target}", *edge.actions)
    A>C r=0
    B>C r=2
    B>D r=4
    D>F count[r]++
    E>F count[r+1]++

    A routine of a program:

    >>> recovered = simprof.recover("fixtures/bin/v9/calls.elf")
    >>> routines = {routine.name: routine for routine in recovered.routines}
    >>> simprof.plan(routines["ackermann"]).potential_paths
    3
    """
    from simprof.profiler.commands.explain import explain_command
    from simprof.profiler.commands.modes import collect
    from simprof.profiler.graphfiles import analyse
    from simprof.profiler.graphs.numbering import SuccessorOrder
    from simprof.profiler.request.request import DEFAULT_MODE
    from simprof.profiler.schemes.mode_options import read

    chosen = parse(explain_command, ["graph"], {"mode": mode, **options}, one_mode=True)
    setting, *others = chosen["modes"] or (read(DEFAULT_MODE),)
    if others:
        raise UsageError(f"mode {mode!r}: plan takes one mode")
    document = _document(graph)
    asked = analyse.AnalysisOptions(
        mode=setting.mode,
        enumerate=chosen["enumerate_paths"],
        weights=chosen["weights"],
        scheme=setting.setting(collect(chosen)).options,
        order=SuccessorOrder(chosen["order"]),
    )
    return PlannedGraph(document.cfg, analyse.analyse(document, asked))


@public
def recover(elf: StrPath) -> RecoveredProgram:
    """Recover the control-flow graphs of `elf`, a static SPARC ELF file, from its code alone.

    The `routines` of what is returned are the graphs, by address. Raises SimprofError if it is no
    program that simprof can run.

    Examples
    --------
    >>> import simprof
    >>> recovered = simprof.recover("fixtures/bin/v9/calls.elf")
    >>> [(cfg.name, len(cfg.blocks), len(cfg.edges)) for cfg in recovered.routines][:3]
    [('main', 18, 22), ('fibonacci', 5, 7), ('ackermann', 7, 10)]
    """
    from simprof.simulator.binary.elf import load

    found = recovery.recover(load(file_path(elf, "elf")))
    return RecoveredProgram(**asdict(found))


@public
def call_graph(recovered: recovery.ProgramGraphs) -> nx.MultiDiGraph:
    """Return a program's routines and their direct calls as a networkx graph.

    Nodes are positions in `recovered.routines`, with `name`, `address`, `size`, `blocks` and
    `indirect` (how many blocks call through pointers). Each call site is an edge with `site`, its
    address, `kind`, "call" or "tail-call", and `returns`.

    Examples
    --------
    >>> import simprof
    >>> graph = simprof.call_graph(simprof.recover("fixtures/bin/v9/tailcalls.elf"))
    >>> names = graph.nodes(data="name")
    >>> sorted({names[callee] for caller, callee, kind in graph.edges(data="kind")
    ...         if names[caller] == "is_odd" and kind == "tail-call"})
    ['is_even']
    """
    from simprof.profiler.recovery import calls

    if not isinstance(recovered, recovery.ProgramGraphs):
        raise wrong("recovered", "what simprof.recover gives", recovered)
    return calls.call_graph(recovered)


@public
def to_networkx(
    graph: ControlFlowGraph | Mapping[str, Any], weights: Sequence[float | None] | None = None
) -> nx.MultiDiGraph:
    """Return a graph as a networkx graph, whose attributes `docs/API.md` describes.

    - `graph`: A control-flow graph, or a graph file's content (whose weights and runs are kept).
    - `weights`: Of a control-flow graph: the edges' attribute `weight`, by edge id.

    Raises SimprofError if `graph` is none of these, or `weights` does not have one item for each
    edge.

    Examples
    --------
    >>> import networkx, simprof
    >>> elf = "fixtures/bin/v9/calls.elf"
    >>> (cfg,) = [r for r in simprof.recover(elf).routines if r.name == "fibonacci"]
    >>> counts = simprof.run(elf, mode="edges").edge_profile().counts_for(cfg)
    >>> graph = simprof.to_networkx(cfg, counts)
    >>> max(graph.edges(data="weight"), key=lambda edge: edge[2])
    (4, 6, 8361)
    >>> simprof.from_networkx(graph) == cfg
    True
    """
    if isinstance(graph, Mapping):
        from simprof.profiler.graphfiles import formats
        from simprof.profiler.graphfiles.reader import parse as parse_document

        return formats.to_networkx(parse_document(graph, "graph"))
    from simprof.profiler.graphs import interchange
    from simprof.profiler.graphs.cfg import ControlFlowGraph

    if not isinstance(graph, ControlFlowGraph):
        raise wrong("graph", "a routine of simprof.recover or a graph file's content", graph)
    check_weights(graph, weights)
    return interchange.to_networkx(graph, weights)


@public
def from_networkx(graph: nx.MultiDiGraph) -> ControlFlowGraph:
    """Return the control-flow graph that a networkx graph stands for.

    The graph is one of `to_networkx`, or any directed graph with the attributes `entry` and
    `exit`, the names of its first and last block. Raises SimprofError with one line that says what
    the graph lacks.

    Examples
    --------
    >>> import networkx, simprof
    >>> graph = networkx.MultiDiGraph(["AB", "AC", "BC"], entry="A", exit="C")
    >>> simprof.plan(simprof.from_networkx(graph)).potential_paths
    2
    """
    check_networkx(graph, "a graph of networkx")
    if "entry" in graph.graph:
        from simprof.profiler.graphfiles import formats

        return formats.from_networkx(graph).cfg
    from simprof.profiler.graphs import interchange

    return interchange.from_networkx(graph)


def _document(graph: Any) -> GraphDocument:
    """Return a graph in any of its forms as the content of a graph file."""
    from simprof.profiler.graphfiles.formats import from_networkx as from_graph
    from simprof.profiler.graphfiles.formats import load
    from simprof.profiler.graphfiles.reader import GraphDocument, parse
    from simprof.profiler.graphs.cfg import ControlFlowGraph

    if isinstance(graph, ControlFlowGraph):
        return GraphDocument(graph.name, "", graph, weights=(), walks=())
    if isinstance(graph, str | os.PathLike):
        return load(Path(graph))
    if isinstance(graph, Mapping):
        return parse(graph, "graph")
    if isinstance(graph, recovery.ProgramGraphs):
        one = "plan takes one routine, as recovered.routines[0]"
        raise UsageError(f"graph is a whole program: {one}")
    wanted = "a routine of simprof.recover, a graph of networkx, or a graph file's content or name"
    check_networkx(graph, wanted)
    return from_graph(graph)
