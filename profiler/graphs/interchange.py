"""Control-flow graphs to and from networkx's `MultiDiGraph`.

Attributes
----------
graph
    `name`; `address` and `size` in bytes.
node
    The vertex id, also in `vertex`, because views and files may lose order and types. `role` is
    "block", "slot", "entry" or "exit"; `start` and `instructions` are the block's (`instructions`
    is 0 at the entry and the exit); `name` is its label, where it has one; `indirect` is true
    where control goes from it to a routine that only the run tells.
edge
    The key is the edge id. `id` is it too, because networkx lists edges by source and files may
    lose keys; `kind` is the edge's kind; `weight` is there where weights were given.

All values are text, numbers or truth values, so that every format of networkx can hold them.
GML holds whole numbers of more than 32 bits as text; such text is read as the number.

networkx is imported when a graph is made: importing it takes a fifth of a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.simulator.errors import SimulatorError

if TYPE_CHECKING:
    import networkx as nx

ROLES = ("block", "slot", "entry", "exit")


class InterchangeError(SimulatorError):
    """A networkx graph that is no control-flow graph."""


def to_networkx(
    cfg: ControlFlowGraph, weights: Sequence[float | None] | None = None
) -> nx.MultiDiGraph:
    """Return a graph with the attributes that the module describes."""
    # `weights`: By edge id; None, alone or for an edge, where there is none.
    import networkx as nx

    graph = nx.MultiDiGraph(name=cfg.name, address=cfg.address, size=cfg.size)
    for vertex in range(cfg.vertex_count):
        graph.add_node(vertex, **vertex_attributes(cfg, vertex))
    for edge in cfg.edges:
        attributes: dict[str, Any] = {"id": edge.id, "kind": str(edge.kind)}
        if weights is not None and (weight := weights[edge.id]) is not None:
            attributes["weight"] = weight
        graph.add_edge(edge.source, edge.target, key=edge.id, **attributes)
    return graph


def vertex_attributes(cfg: ControlFlowGraph, vertex: int) -> dict[str, Any]:
    """Return the attributes of the node for a vertex of `cfg`."""
    if vertex >= len(cfg.blocks):
        role = "entry" if vertex == cfg.entry else "exit"
        return {"vertex": vertex, "role": role, "instructions": 0}
    block = cfg.blocks[vertex]
    attributes: dict[str, Any] = {
        "vertex": vertex,
        "role": "slot" if block.is_slot else "block",
        "start": block.start,
        "instructions": block.instructions,
    }
    if block.label is not None:
        attributes["name"] = block.label
    if vertex in cfg.indirect:
        attributes["indirect"] = True
    return attributes


def from_networkx(graph: nx.MultiDiGraph) -> ControlFlowGraph:
    """Return the control-flow graph that `to_networkx` made `graph` from; InterchangeError if it is
    not directed, has not one entry and one exit, or lacks an attribute.
    """
    # Nodes may have any names. Blocks are numbered as `ordered_nodes` has them, edges as
    # `ordered_edges` has them.
    if not graph.is_directed():
        raise InterchangeError("the graph is not directed: make it a networkx.MultiDiGraph")
    nodes = ordered_nodes(graph)
    roles = {node: data.get("role", "block") for node, data in nodes.items()}
    for node, role in roles.items():
        if role not in ROLES:
            raise InterchangeError(
                f"node {node!r:.60}: the role {role!r:.60} is none of {_or(ROLES)}"
            )
    names = [node for node, role in roles.items() if role in ("block", "slot")]
    blocks = tuple(_block(index, name, nodes[name]) for index, name in enumerate(names))
    ends = [only_node(nodes, role) for role in ("entry", "exit")]
    ids = {name: vertex for vertex, name in enumerate([*names, *ends])}
    edges = tuple(
        Edge(index, ids[source], ids[target], _kind(data))
        for index, (source, target, data) in enumerate(ordered_edges(graph))
    )
    return ControlFlowGraph(
        name=str(graph.graph.get("name", "")),
        address=whole_number(graph.graph.get("address", 0), "address"),
        size=whole_number(graph.graph.get("size", 0), "size"),
        blocks=blocks,
        edges=edges,
        indirect=frozenset(ids[name] for name in names if nodes[name].get("indirect")),
    )


def edge_weights(graph: nx.MultiDiGraph) -> tuple[float | None, ...]:
    """Return the edges' weights, None where there is none, in the order of `ordered_edges`."""
    return tuple(number(data.get("weight")) for _, _, data in ordered_edges(graph))


def ordered_nodes(graph: nx.MultiDiGraph) -> dict[Any, Mapping[str, Any]]:
    """Return the nodes and their attributes, ordered by `vertex`, or as the graph has them;
    InterchangeError if a `vertex` is no whole number, is there twice, or for some nodes only.
    """
    nodes = list(graph.nodes(data=True))
    places = _places([data for _, data in nodes], "vertex", "node")
    return {nodes[place][0]: nodes[place][1] for place in places}


def ordered_edges(graph: nx.MultiDiGraph) -> list[tuple[Any, Any, Mapping[str, Any]]]:
    """Return (source, target, attributes) of all edges, ordered by their attribute `id`;
    InterchangeError if an `id` is no whole number, is there twice, or for some edges only.
    """
    # Where no edge has an `id` they are in networkx's order: by source, then by target, both in the
    # order in which the graph first met them.
    edges = list(graph.edges(data=True))
    return [edges[place] for place in _places([data for _, _, data in edges], "id", "edge")]


def _places(items: Sequence[Mapping[str, Any]], key: str, what: str) -> list[int]:
    """Return the positions of `items` in the order of the numbers under `key`, if they have it."""
    given = [data[key] for data in items if key in data]
    if not given:
        return list(range(len(items)))
    if len(given) < len(items):
        raise InterchangeError(f"some {what}s have the attribute {key!r} and some have not")
    numbers = [whole_number(value, f"{what}: {key}") for value in given]
    counts = Counter(numbers)
    for value in counts:
        if counts[value] > 1:
            raise InterchangeError(
                f"{counts[value]} {what}s have the {key} {value}: it tells order"
            )
    return sorted(range(len(numbers)), key=numbers.__getitem__)


def only_node(nodes: Mapping[Any, Mapping[str, Any]], role: str) -> Any:
    """Return the one node whose attribute `role` is `role`; InterchangeError if not one has."""
    names = [node for node, data in nodes.items() if data.get("role") == role]
    if len(names) != 1:
        count = f"{len(names)} nodes have" if names else "no node has"
        raise InterchangeError(f"{count} the role {role!r}: give it to one")
    return names[0]


def number(value: object) -> Any:
    """Return an attribute's value, as a number where it is text that stands for one."""
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value


def whole_number(value: object, what: str) -> int:
    """Return `value`, or the number that its text stands for; InterchangeError, in which `what`
    says whose value it is, if it is no whole number.
    """
    result = number(value)
    if isinstance(result, bool) or not isinstance(result, int) or result < 0:
        raise InterchangeError(f"{what}: must be a whole number, not {value!r:.60}")
    return result


def _block(index: int, node: Hashable, data: Mapping[str, Any]) -> Block:
    where = f"node {node!r:.60}"
    label = data.get("name")
    return Block(
        id=index,
        start=whole_number(data.get("start", index), f"{where}: start"),
        instructions=whole_number(data.get("instructions", 1), f"{where}: instructions"),
        is_slot=data.get("role") == "slot",
        label=None if label is None else str(label),
    )


def _kind(data: Mapping[str, Any]) -> EdgeKind:
    kind = data.get("kind", EdgeKind.TAKEN)
    try:
        return EdgeKind(kind)
    except ValueError:
        raise InterchangeError(
            f"the edge kind {kind!r:.60} is none of {_or(list(EdgeKind))}"
        ) from None


def _or(words: Iterable[str]) -> str:
    *most, last = map(str, words)
    return f"{', '.join(most)} or {last}"
