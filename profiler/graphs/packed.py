"""The control-flow graphs of a program as arrays, each graph made when it is first asked for.

A program has many more routines than a run enters. The arrays of all of them are small, quick to
make and to load; `Block` and `Edge` objects are neither.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable, Sequence
from itertools import count, repeat
from typing import Self, TypeVar, overload

import numpy as np
from msgspec import Struct, StructMeta, field
from msgspec.structs import astuple, replace
from numpy.typing import NDArray

from simprof.profiler.graphs import program_kernel as k
from simprof.profiler.graphs.cfg import ENTRIES, Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.graphs.columns import ProgramColumns

Row = TypeVar("Row", Block, Edge)
KINDS = tuple(EdgeKind)  # Edge kinds by their number in `PackedGraphs.edge_kind`

NUMBER_OF_KIND = {kind: number for number, kind in enumerate(KINDS)}


class _SequenceMeta(StructMeta, ABCMeta):
    """Makes structures that are sequences."""


class PackedGraphs(
    Struct, Sequence[ControlFlowGraph], frozen=True, eq=False, metaclass=_SequenceMeta
):
    """Graphs of recovered routines, in the order in which they are numbered."""

    # Blocks and edges of all routines stand one behind the other: those of routine r are numbers
    # `first_block[r]` to `first_block[r + 1]`, and `first_edge[r]` to `first_edge[r + 1]`.

    # names, addresses, sizes: By routine: see `ControlFlowGraph`. int64, shape (routines,).
    names: tuple[str, ...]
    addresses: NDArray[np.int64]
    sizes: NDArray[np.int64]
    # first_block, first_edge: int64, shape (routines + 1,).
    first_block: NDArray[np.int64]
    first_edge: NDArray[np.int64]
    block_start: NDArray[np.int64]  # int64: addresses.
    block_length: NDArray[np.int32]  # int32: instructions.
    # block_is_slot, block_is_indirect: bool.
    block_is_slot: NDArray[np.bool_]
    block_is_indirect: NDArray[np.bool_]
    # edge_source, edge_target: int32: vertices of the routine.
    edge_source: NDArray[np.int32]
    edge_target: NDArray[np.int32]
    edge_kind: NDArray[np.uint8]  # uint8: see `KINDS`.
    _made: dict[int, ControlFlowGraph] = field(default_factory=dict)
    _known: dict[int, ControlFlowGraph] = field(default_factory=dict)
    _columns: list[ProgramColumns] = field(default_factory=list)

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
            graph = self._make(position)
            graph.__dict__["place"] = self.columns, position
            known = self._known.setdefault(graph.address, graph)
            if known != graph:
                known = self._known[graph.address] = graph
            graph = self._made[position] = known
        return graph

    @property
    def columns(self) -> ProgramColumns:
        """Searches and plans of all graphs."""
        if not self._columns:
            ends = self.edge_source, self.edge_target
            self._columns.append(
                ProgramColumns(k.GraphArrays(self.first_block, self.first_edge, *ends))
            )
        return self._columns[0]

    def __eq__(self, other: object) -> bool:
        """Whether two sequences hold the same graphs."""
        if not isinstance(other, PackedGraphs):
            return NotImplemented
        return self.names == other.names and all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip(self._arrays(), other._arrays(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def block_count(self) -> int:
        """Number of blocks of all routines."""
        return len(self.block_start)

    def routine_of(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the routines of blocks."""
        return np.searchsorted(self.first_block, blocks, side="right") - 1

    def entries(self) -> NDArray[np.int64]:
        """Return the numbers of all edges out of ENTRY, ascending."""
        return np.flatnonzero(self._are_entries(self.edge_kind))

    @staticmethod
    def _are_entries(kinds: NDArray[np.uint8]) -> NDArray[np.bool_]:
        return np.isin(kinds, [NUMBER_OF_KIND[kind] for kind in ENTRIES])

    def entered_blocks(self) -> NDArray[np.int64]:
        """Return the number of the block that each of `entries` leads to."""
        edges = self.entries()
        routine = np.searchsorted(self.first_edge, edges, side="right") - 1
        return self.first_block[routine] + self.edge_target[edges]

    def block_index(
        self, indices: Callable[[NDArray[np.int64]], NDArray[np.int64]], words: int
    ) -> NDArray[np.int32]:
        """Return, by word, the number of the ordinary block that starts there, or -1."""
        # `indices`: Addresses -> indices of the words there.
        # `words`: How many there are.
        index = np.full(words, -1, dtype=np.int32)
        ordinary = np.flatnonzero(~self.block_is_slot)
        index[indices(self.block_start[ordinary])] = ordinary
        index.flags.writeable = False
        return index

    def reusing(self, known: dict[int, ControlFlowGraph]) -> Self:
        """Return these graphs; those that are equal to known ones are the same objects."""
        # `known`: Graphs by address, extended by those that are made.
        return replace(self, _known=known)

    def _arrays(self) -> tuple[NDArray[np.generic], ...]:
        return tuple(value for value in astuple(self) if isinstance(value, np.ndarray))

    def _make(self, number: int) -> ControlFlowGraph:
        blocks = slice(*self.first_block[number : number + 2].tolist())
        edges = slice(*self.first_edge[number : number + 2].tolist())
        block_fields = (self.block_start, self.block_length, self.block_is_slot)
        ends = (self.edge_source, self.edge_target)
        kinds = [KINDS[kind] for kind in self.edge_kind[edges].tolist()]
        return ControlFlowGraph(
            self.names[number],
            int(self.addresses[number]),
            int(self.sizes[number]),
            _rows(Block, *(field[blocks].tolist() for field in block_fields), repeat(None)),
            _rows(Edge, *(end[edges].tolist() for end in ends), kinds),
            frozenset(np.flatnonzero(self.block_is_indirect[blocks]).tolist()),
        )


def _rows(kind: type[Row], *columns: Iterable[object]) -> tuple[Row, ...]:
    """Return named tuples of columns, numbered from 0 on."""
    # Named tuples have a function in Python that makes them: a program has a million of these.
    return tuple(map(tuple.__new__, repeat(kind), zip(count(), *columns, strict=False)))
