"""The control-flow graphs of a program as arrays, each graph made when it is first asked for.

A program has many more routines than a run enters. The arrays of all of them are small, quick to
make and to load; `Block` and `Edge` objects are neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind

KINDS = tuple(EdgeKind)
"""Edge kinds by their number in `PackedGraphs.edge_kind`."""

NUMBER_OF_KIND = {kind: number for number, kind in enumerate(KINDS)}


@dataclass(frozen=True, eq=False)
class PackedGraphs(Sequence[ControlFlowGraph]):
    """Graphs of recovered routines, in the order in which they are numbered.

    Blocks and edges of all routines stand one behind the other: those of routine r are numbers
    `first_block[r]` to `first_block[r + 1]`, and `first_edge[r]` to `first_edge[r + 1]`.

    Attributes
    ----------
    names, addresses, sizes
        By routine: see `ControlFlowGraph`. int64, shape (routines,).
    first_block, first_edge
        int64, shape (routines + 1,).
    block_start
        int64: addresses.
    block_length
        int32: instructions.
    block_is_slot, block_is_indirect
        bool.
    edge_source, edge_target
        int32: vertices of the routine.
    edge_kind
        uint8: see `KINDS`.
    """

    names: tuple[str, ...]
    addresses: NDArray[np.int64]
    sizes: NDArray[np.int64]
    first_block: NDArray[np.int64]
    first_edge: NDArray[np.int64]
    block_start: NDArray[np.int64]
    block_length: NDArray[np.int32]
    block_is_slot: NDArray[np.bool_]
    block_is_indirect: NDArray[np.bool_]
    edge_source: NDArray[np.int32]
    edge_target: NDArray[np.int32]
    edge_kind: NDArray[np.uint8]
    _made: dict[int, ControlFlowGraph] = field(default_factory=dict, repr=False)
    _known: dict[int, ControlFlowGraph] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, graphs: Iterable[ControlFlowGraph]) -> Self:
        """Pack graphs whose blocks have no labels."""
        graphs = tuple(graphs)
        blocks = [block for cfg in graphs for block in cfg.blocks]
        edges = [edge for cfg in graphs for edge in cfg.edges]
        return cls(
            tuple(cfg.name for cfg in graphs),
            np.array([cfg.address for cfg in graphs], np.int64),
            np.array([cfg.size for cfg in graphs], np.int64),
            np.cumsum([0, *(len(cfg.blocks) for cfg in graphs)], dtype=np.int64),
            np.cumsum([0, *(len(cfg.edges) for cfg in graphs)], dtype=np.int64),
            np.array([block.start for block in blocks], np.int64),
            np.array([block.instructions for block in blocks], np.int32),
            np.array([block.is_slot for block in blocks], np.bool_),
            np.array(
                [block.id in cfg.indirect for cfg in graphs for block in cfg.blocks], np.bool_
            ),
            np.array([edge.source for edge in edges], np.int32),
            np.array([edge.target for edge in edges], np.int32),
            np.array([NUMBER_OF_KIND[edge.kind] for edge in edges], np.uint8),
        )

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, number: int) -> ControlFlowGraph: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[ControlFlowGraph, ...]: ...
    def __getitem__(self, number: int | slice) -> ControlFlowGraph | tuple[ControlFlowGraph, ...]:
        if isinstance(number, slice):
            return tuple(self[each] for each in range(*number.indices(len(self))))
        graph = self._made.get(number)
        if graph is None:
            position = range(len(self))[number]
            if position != number:
                return self[position]
            graph = self._made[position] = self._unchanged(self._make(position))
        return graph

    def __eq__(self, other: object) -> bool:
        """Whether two sequences hold the same graphs."""
        if not isinstance(other, PackedGraphs):
            return NotImplemented
        return self.names == other.names and all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip(self._arrays(), other._arrays(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, object]:
        """Return what a pickle holds: no graphs, which the arrays make again."""
        return self.__dict__ | {"_made": {}, "_known": {}}

    @property
    def block_count(self) -> int:
        """Number of blocks of all routines."""
        return len(self.block_start)

    def block_index(self, base: int, words: int) -> NDArray[np.int32]:
        """Return, by word, the number of the ordinary block that starts there, or -1.

        Parameters
        ----------
        base, words
            Address of the first word, and how many there are.
        """
        index = np.full(words, -1, dtype=np.int32)
        ordinary = np.flatnonzero(~self.block_is_slot)
        index[(self.block_start[ordinary] - base) >> 2] = ordinary
        index.flags.writeable = False
        return index

    def reusing(self, known: dict[int, ControlFlowGraph]) -> Self:
        """Return these graphs; those that are equal to known ones are the same objects.

        Parameters
        ----------
        known
            Graphs by address, extended by those that are made.
        """
        arrays = {name: value for name, value in self.__dict__.items() if name != "_known"}
        return type(self)(**arrays, _known=known)

    def _unchanged(self, graph: ControlFlowGraph) -> ControlFlowGraph:
        known = self._known.get(graph.address)
        if known is not None and known == graph:
            return known
        self._known[graph.address] = graph
        return graph

    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        return tuple(value for value in self.__dict__.values() if isinstance(value, np.ndarray))

    def _make(self, number: int) -> ControlFlowGraph:
        blocks = slice(*self.first_block[number : number + 2].tolist())
        edges = slice(*self.first_edge[number : number + 2].tolist())
        kinds = [KINDS[kind] for kind in self.edge_kind[edges].tolist()]
        return ControlFlowGraph(
            self.names[number],
            int(self.addresses[number]),
            int(self.sizes[number]),
            tuple(
                map(
                    Block,
                    range(blocks.stop - blocks.start),
                    self.block_start[blocks].tolist(),
                    self.block_length[blocks].tolist(),
                    self.block_is_slot[blocks].tolist(),
                )
            ),
            tuple(
                map(
                    Edge,
                    range(edges.stop - edges.start),
                    self.edge_source[edges].tolist(),
                    self.edge_target[edges].tolist(),
                    kinds,
                )
            ),
            frozenset(np.flatnonzero(self.block_is_indirect[blocks]).tolist()),
        )
