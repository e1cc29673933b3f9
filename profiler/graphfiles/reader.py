"""Graph files: control-flow graphs and activations written by hand (docs/SEMANTICS.md).

A file is one JSON object: `name`, `entry`, `exit`, `blocks` (instructions by block, 1 where not
given), `edges` ([source, target] or [source, target, weight]; parallel edges allowed), `calls`
(names of the blocks that end with a call) and `runs` ([block names in order, count] or [{"edges":
[indices]}, count], with a third item, "early", where the activation ended in its last block).
A block's name may be written as a whole number. Keys of node-link data are left alone, all others
refused.

Steps: `read_file`, `read_json`, then `parse` checks the object -> `GraphDocument`; `_Walks` checks
that every run is a walk from the entry, and to the exit if it did not end early. `formats.load`
does all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.profiles import codec
from simprof.profiler.request.likeness import alike
from simprof.simulator.errors import SimulatorError

RESERVED = ("ENTRY", "EXIT")
KEYS = ("name", "entry", "exit", "blocks", "edges", "calls", "runs")
OTHERS = ("directed", "graph", "links", "multigraph", "nodes")  # networkx's: a file may have both
EARLY = "early"  # Third item of a run that ended in its last block
GREATEST_WEIGHT = 1e300  # sums of weights stay finite
GREATEST_SIZE = 128 << 20  # Bytes of a graph file; more would be a device or a mistake
GREATEST_EDGES = 100_000  # Edges, and blocks, of a graph: seconds of work, and half a gigabyte
# Edges that all runs together may cross, so that shares of them are finite.
GREATEST_CROSSINGS = 10**300


class GraphFileError(SimulatorError):
    """A graph file that does not say what a graph file must say."""


class GraphDocument(Struct, frozen=True):
    """A graph file's content."""

    # file, sha256: Where it comes from.
    file: str
    sha256: str
    # The graph; its edges are the file's, in order, then one from ENTRY and one to EXIT.
    cfg: ControlFlowGraph
    weights: tuple[float | None, ...]  # The file's weights by file edge, None where it gives none
    # The runs as edge sequences from ENTRY to EXIT, or to the block where one ended early.
    walks: tuple[ExecutedWalk, ...]


def read_json(data: bytes, path: Path) -> Any:
    """Return the JSON value in `data`, the content of `path`; GraphFileError naming the file and
    the place in it, if it is no JSON, or an object has a key twice.
    """
    try:
        return codec.parse_json(data, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise GraphFileError(f"{path}: {where}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise GraphFileError(f"{path}: nested too deeply for a graph file") from error
    except ValueError as error:
        raise GraphFileError(f"{path}: not a graph file: {error}") from error


def read_file(path: Path) -> bytes:
    """Return a file's content; GraphFileError if it cannot be read, or is too long."""
    try:
        with path.open("rb") as file:
            data = file.read(GREATEST_SIZE + 1)
    except OSError as error:
        raise GraphFileError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > GREATEST_SIZE:
        raise GraphFileError(f"{path}: more than {GREATEST_SIZE >> 20} MiB is not a graph file")
    return data


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"{key!r} is given twice")
        result[key] = value
    return result


def parse(document: object, file: str, sha256: str = "") -> GraphDocument:
    """Check a graph document; GraphFileError naming the file and the place in it."""
    if not isinstance(document, Mapping):
        raise GraphFileError(f"{file}: the file must hold one JSON object")
    _check_keys(document, file)
    cfg, weights = _graph(document, file)
    walks = _Walks(cfg, len(weights), file).parse(document.get("runs", []))
    return GraphDocument(file, sha256, cfg, weights, walks)


def _check_keys(document: Mapping[str, Any], file: str) -> None:
    for key in document:
        if key not in (*KEYS, *OTHERS):
            near = alike(str(key), KEYS)
            meant = f"did you mean {' or '.join(map(repr, near))}? The" if near else "the"
            raise GraphFileError(
                f"{file}: unknown key {_short(key)}: {meant} keys are {', '.join(KEYS)}"
            )


def _graph(
    document: Mapping[str, Any], file: str
) -> tuple[ControlFlowGraph, tuple[float | None, ...]]:
    name = document.get("name", Path(file).stem)
    if not isinstance(name, str) or not name.isprintable():
        raise GraphFileError(f"{file}: name: must be a string of printable characters")
    sizes = _sizes(document.get("blocks", {}), file)
    edges = _edges(document.get("edges"), file)
    ends = [_end(document, key, file) for key in ("entry", "exit")]
    mentioned = [vertex for source, target, _ in edges for vertex in (source, target)]
    names = list(dict.fromkeys([*sizes, *mentioned]))
    if not names and ends[0] == ends[1]:
        names = [ends[0]]  # a graph of one block needs neither blocks nor edges
    ids = {label: index for index, label in enumerate(names)}
    for key, label in zip(("entry", "exit"), ends, strict=True):
        if label not in ids:
            raise GraphFileError(f"{file}: {key}: block {label!r} is not in blocks or edges")
    blocks = tuple(Block(ids[label], ids[label], sizes.get(label, 1), False, label)
                   for label in names)  # fmt: skip
    pairs = [(ids[source], ids[target]) for source, target, _ in edges]
    calls = {ids[label] for label in _calls(document.get("calls", []), ids, edges, ends[1], file)}
    made = _make_edges(pairs, len(blocks), ids[ends[0]], ids[ends[1]], calls)
    weights = tuple(weight for _, _, weight in edges)
    return ControlFlowGraph(name, 0, 0, blocks, made), weights


def _calls(
    calls: object,
    known: Mapping[str, int],
    edges: Sequence[tuple[str, str, float | None]],
    exit_block: str,
    file: str,
) -> list[str]:
    """Return the names of the blocks that call, each with one edge, to where its call returns."""
    if not isinstance(calls, list):
        raise GraphFileError(f"{file}: calls: must be a list of block names")
    leaving = Counter(source for source, _, _ in edges)
    labels = [_label(call, f"{file}: calls") for call in calls]
    for label in labels:
        if label not in known:
            raise GraphFileError(f"{file}: calls: block {label!r} is not in blocks or edges")
        if leaving[label] != 1 or label == exit_block:
            raise GraphFileError(
                f"{file}: calls: a block that calls has one edge, to where the call returns: "
                f"{leaving[label]} leave {label!r}"
                + (", which is the exit" if label == exit_block else "")
            )
    return labels


def _end(document: Mapping[str, Any], key: str, file: str) -> str:
    if key not in document:
        raise GraphFileError(f"{file}: {key!r} is missing; name the block there")
    return _label(document[key], f"{file}: {key}")


def _label(value: object, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or value.split() != [value] or not value.isprintable():
        raise GraphFileError(
            f"{where}: a block name is a string of printable characters without spaces, "
            f"not {_short(value)}"
        )
    if value in RESERVED:
        raise GraphFileError(
            f"{where}: {value} is simprof's own node, before the first block or after the last; "
            "give the block another name"
        )
    return value


def _sizes(blocks: object, file: str) -> dict[str, int]:
    if not isinstance(blocks, Mapping):
        raise GraphFileError(f"{file}: blocks: must be an object of block name: instructions")
    _check_number(blocks, f"{file}: blocks")
    sizes = {}
    for label, size in blocks.items():
        _label(label, f"{file}: blocks")
        if not _is_count(size):
            raise GraphFileError(
                f"{file}: blocks: {label!r}: instructions must be a whole number, not {size!r}"
            )
        sizes[label] = size
    return sizes


def _check_number(things: Sized, where: str) -> None:
    if len(things) > GREATEST_EDGES:
        raise GraphFileError(
            f"{where}: {len(things):,} are too many: a graph file has at most {GREATEST_EDGES:,}"
        )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _edges(edges: object, file: str) -> list[tuple[str, str, float | None]]:
    if not isinstance(edges, list):
        raise GraphFileError(f"{file}: edges: must be a list of [source, target]")
    _check_number(edges, f"{file}: edges")
    return [_edge(edge, f"{file}: edge {index}") for index, edge in enumerate(edges)]


def _edge(edge: object, where: str) -> tuple[str, str, float | None]:
    if not isinstance(edge, list) or len(edge) not in (2, 3):
        raise GraphFileError(
            f"{where}: must be [source, target] or [source, target, weight], not {edge!r}"
        )
    source, target = _label(edge[0], where), _label(edge[1], where)
    if len(edge) == 2:
        return source, target, None
    weight = edge[2]
    usable = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not usable or not 0 <= weight <= GREATEST_WEIGHT:  # not a number fails this too
        raise GraphFileError(
            f"{where}: a weight is a number from 0 to {GREATEST_WEIGHT:g}, not {_short(weight)}"
        )
    return source, target, weight


def _make_edges(
    pairs: Sequence[tuple[int, int]], blocks: int, entry: int, exit_block: int, calls: set[int]
) -> tuple[Edge, ...]:
    """Number the edges. Of two that leave a block the first falls through; more are a switch."""
    outgoing = Counter(source for source, _ in pairs)
    seen: set[int] = set()
    edges: list[Edge] = []
    for source, target in pairs:
        kind = EdgeKind.TAKEN if source in seen else EdgeKind.FALL_THROUGH
        kind = EdgeKind.SWITCH if outgoing[source] > 2 else kind
        kind = EdgeKind.CALL_RETURN if source in calls else kind
        seen.add(source)
        edges.append(Edge(len(edges), source, target, kind))
    entered = Edge(len(edges), blocks, entry, EdgeKind.ENTRY)
    return *edges, entered, Edge(len(edges) + 1, exit_block, blocks + 1, EdgeKind.EXIT)


class _Walks:
    def __init__(self, cfg: ControlFlowGraph, file_edges: int, file: str) -> None:
        self.cfg = cfg
        self.file = file
        self.inner = cfg.edges[:file_edges]
        self.first, self.last = cfg.edges[file_edges:]
        self.ids = {block.label: block.id for block in cfg.blocks}
        self.between: dict[tuple[int, int], list[int]] = {}
        for edge in self.inner:
            self.between.setdefault((edge.source, edge.target), []).append(edge.id)

    def parse(self, runs: object) -> tuple[ExecutedWalk, ...]:
        """Return the walks of a graph file's `runs`, in the file's order; GraphFileError if a run
        is no walk of the graph from ENTRY, or all together cross too many edges.
        """
        if not isinstance(runs, list):
            raise GraphFileError(f"{self.file}: runs: must be a list of [blocks, count]")
        walks, crossings = [], 0
        for index, run in enumerate(runs):
            walk = self._run(run, index)
            crossings += walk.count * len(walk.edges)
            if crossings > GREATEST_CROSSINGS:
                raise GraphFileError(
                    f"{self.file}: run {index}: with this run edges are crossed more than 10^300 "
                    "times in all; lower the counts"
                )
            walks.append(walk)
        return tuple(walks)

    def _run(self, run: object, index: int) -> ExecutedWalk:
        where = f"{self.file}: run {index}"
        if not isinstance(run, list) or len(run) not in (2, 3) or run[2:] not in ([], [EARLY]):
            raise GraphFileError(
                f'{where}: must be [blocks, count] or [blocks, count, "{EARLY}"], not {_short(run)}'
            )
        what, count = run[:2]
        is_early = len(run) == 3
        if not _is_count(count):
            raise GraphFileError(f"{where}: the count must be a whole number, not {count!r}")
        if isinstance(what, str):
            edges = tuple(self._named(what, is_early, f"{where} ({_short(what)})"))
        elif isinstance(what, dict) and set(what) == {"edges"}:
            edges = tuple(self._numbered(what["edges"], is_early, where))
        else:
            raise GraphFileError(
                f'{where}: must name blocks in a string or hold {{"edges": [indices]}}, '
                f"not {_short(what)}"
            )
        end = () if is_early else (self.last.id,)
        return ExecutedWalk((self.first.id, *edges, *end), count)

    def _named(self, text: str, is_early: bool, where: str) -> Iterator[int]:
        labels = text.split()
        if not labels:
            raise GraphFileError(f"{where}: names no block")
        for place, label in enumerate(labels):
            if label not in self.ids:
                raise GraphFileError(f"{where}: position {place}: there is no block {label!r}")
        vertices = [self.ids[label] for label in labels]
        self._check_end(vertices[0], self.first.target, "starts", "entry", where)
        if not is_early:
            self._check_end(vertices[-1], self.last.source, "ends", "exit", where)
        for place, pair in enumerate(pairwise(vertices)):
            yield self._only_edge(pair, f"{where}: position {place}")

    def _only_edge(self, pair: tuple[int, int], where: str) -> int:
        parallel = self.between.get(pair, [])
        names = " to ".join(str(self.cfg.name_of(vertex)) for vertex in pair)
        if not parallel:
            raise GraphFileError(f"{where}: not a walk: no edge leads from {names}")
        if len(parallel) > 1:
            numbers = ", ".join(map(str, parallel))
            raise GraphFileError(
                f"{where}: edges {numbers} all lead from {names}; "
                'write the run as {"edges": [indices]}'
            )
        return parallel[0]

    def _check_end(self, vertex: int, wanted: int, verb: str, role: str, where: str) -> None:
        if vertex != wanted:
            name, needed = self.cfg.name_of(vertex), self.cfg.name_of(wanted)
            hint = f' (one that ends there is marked "{EARLY}")' if role == "exit" else ""
            raise GraphFileError(
                f"{where}: not a walk: it {verb} in {name}, but the {role} is {needed}{hint}"
            )

    def _numbered(self, indices: object, is_early: bool, where: str) -> Iterator[int]:
        if not isinstance(indices, list):
            raise GraphFileError(f"{where}: edges must be a list of indices")
        vertex = self.first.target
        for place, index in enumerate(indices):
            if not _is_count(index) or index >= len(self.inner):
                raise GraphFileError(
                    f"{where}: position {place}: there is no edge {index!r} "
                    f"(the file's edges: {len(self.inner)})"
                )
            edge = self.inner[index]
            if edge.source != vertex:
                names = [self.cfg.name_of(each) for each in (edge.source, vertex)]
                raise GraphFileError(
                    f"{where}: position {place}: not a walk: edge {index} leaves {names[0]}, "
                    f"but the run is in {names[1]}"
                )
            vertex = edge.target
            yield index
        if not is_early:
            self._check_end(vertex, self.last.source, "ends", "exit", where)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
