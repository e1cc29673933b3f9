"""Code in place: where an editor of executables would put the code of a routine.

Code *before the label* of an instruction is executed by falling into the instruction; transfers
to the instruction pass it by. Code *at* an instruction is executed in both cases. A *stub* stands
behind the routine, or in line before its target; a transfer is sent to it in place of that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import EdgePlace, Where
from simprof.profiler.code.places import find_place
from simprof.profiler.code.snippets import RoutineCode, Snippet
from simprof.profiler.code.spilling import NO_SPILL, Edit, Spill
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind


class PieceKind(StrEnum):
    """What a piece of code belongs to."""

    EDGE = "edge"
    BLOCK = "block"
    BLOCK_END = "block end"
    ADDRESS = "address in"


class Piece(Struct, frozen=True):
    """The code of edge or block `number`."""

    kind: PieceKind
    number: int
    snippet: Snippet


class Stub(Struct, frozen=True):
    """Code to which transfers are sent in place of their target."""

    # Addresses of the transfers that are sent here; none where the routine's callers do that (an
    # ENTRY edge).
    transfers: tuple[int, ...]
    edge: int  # The edge whose crossing executes the stub; into a slot block, the edge out of it.
    # In the order of their edges, that of the edge into a slot block first; the last ends with the
    # jump, or runs on into `before`.
    pieces: tuple[Piece, ...]
    before: int | None = None  # Block before whose label the code stands; None: behind the routine
    # Address of a delay slot's instruction, to which branches lead too: a copy of it is the stub's
    # first instruction, and they lead to the copy.
    copied: int | None = None


class Emission(Struct, frozen=True):
    """The code of a routine by place; addresses are those of the original instructions."""

    # An instruction may be a delay slot and the top of a block; an editor makes two of it, and the
    # code at it belongs to the one in the block (`Snippet.block`).

    before_label: Mapping[int, tuple[Piece, ...]]
    at: Mapping[int, tuple[Piece, ...]]
    stubs: tuple[Stub, ...]
    spill: Spill = NO_SPILL

    @property
    def edits(self) -> Mapping[int, Edit]:
        """What stands in place of instructions that name spilled registers."""
        return self.spill.edits

    @property
    def pieces(self) -> Iterator[Piece]:
        """All pieces, those in line first."""
        for places in (self.before_label, self.at):
            for address in sorted(places):
                yield from places[address]
        for stub in self.stubs:
            yield from stub.pieces


def emit(cfg: ControlFlowGraph, context: RoutineContext, code: RoutineCode) -> Emission:
    """Return where the snippets of a routine go."""
    before: dict[int, list[Piece]] = defaultdict(list)
    tops: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    ends: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    stubs: dict[int, list[Piece]] = defaultdict(list)
    for edge, snippet in sorted(code.snippets.items()):
        place = find_place(cfg, edge, context)
        piece = Piece(PieceKind.EDGE, edge, snippet)
        if snippet.place.where in (Where.STUB, Where.BEFORE_TARGET):
            stubs[place.edge].append(piece)
        elif snippet.place.block is None or snippet.place.position is None:
            before[_fall_through_address(cfg, place)].append(piece)
        else:
            places = tops if snippet.place.where == Where.TARGET_TOP else ends
            places[snippet.place.block, snippet.place.position].append(piece)
    at: dict[int, list[Piece]] = defaultdict(list)
    for places in (tops, _block_pieces(code), _address_pieces(code), ends):
        for (block, position), pieces in places.items():
            behind = position == cfg.blocks[block].instructions  # no transfer passes by there
            (before if behind else at)[cfg.blocks[block].start + 4 * position] += pieces
    for last, pieces in stubs.items():
        pieces.sort(key=lambda piece: -_edges_before(cfg, piece.number, last))
    placed = tuple(_stubs(cfg, context, stubs))
    return Emission(_frozen(before), _frozen(at), placed, code.spill)


def _edges_before(cfg: ControlFlowGraph, edge: int, last: int) -> int:
    """Return how many edges are crossed from `edge` to `last`, to which only one way leads."""
    count = 0
    while edge != last:
        (edge,) = cfg.out_edges[cfg.edges[edge].target]
        count += 1
    return count


def _frozen(places: Mapping[int, list[Piece]]) -> dict[int, tuple[Piece, ...]]:
    return {address: tuple(pieces) for address, pieces in places.items()}


def _block_pieces(code: RoutineCode) -> dict[tuple[int, int], list[Piece]]:
    places: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    for kind, snippets in (
        (PieceKind.BLOCK, code.block_snippets),
        (PieceKind.BLOCK_END, code.block_end_snippets),
    ):
        for block, snippet in sorted(snippets.items()):
            assert snippet.place.position is not None
            places[block, snippet.place.position].append(Piece(kind, block, snippet))
    return places


def _address_pieces(code: RoutineCode) -> dict[tuple[int, int], list[Piece]]:
    places: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    for (block, _), snippet in sorted(code.address_snippets.items()):
        assert snippet.place.position is not None
        places[block, snippet.place.position].append(Piece(PieceKind.ADDRESS, block, snippet))
    return places


def _fall_through_address(cfg: ControlFlowGraph, place: EdgePlace) -> int:
    edge = cfg.edges[place.edge]
    if edge.target == cfg.exit:
        return cfg.blocks[edge.source].end if edge.source != cfg.entry else cfg.address
    return cfg.blocks[edge.target].start


def _stubs(
    cfg: ControlFlowGraph, context: RoutineContext, stubs: Mapping[int, list[Piece]]
) -> Iterator[Stub]:
    for edge, pieces in stubs.items():
        source, target = cfg.edges[edge].source, cfg.edges[edge].target
        before = target if pieces[-1].snippet.place.where == Where.BEFORE_TARGET else None
        if source in context.shared_slots:
            into = [
                inner for inner in cfg.in_edges[source] if inner not in stubs
            ]  # those with stubs of their own jump here
            addresses = {_transfer(cfg, context, inner) for inner in into}
            copied = cfg.blocks[source].start
            yield Stub(_addresses(addresses), edge, tuple(pieces), before, copied)
        else:
            yield Stub(_addresses({_transfer(cfg, context, edge)}), edge, tuple(pieces), before)


def _addresses(addresses: set[int | None]) -> tuple[int, ...]:
    return tuple(sorted(address for address in addresses if address is not None))


def _transfer(cfg: ControlFlowGraph, context: RoutineContext, edge: int) -> int | None:
    source = cfg.edges[edge].source
    if source == cfg.entry:
        return None
    block = cfg.blocks[source]
    if block.is_slot:
        return block.start - 4
    position = None
    if context.analysis is not None:
        position = context.analysis.liveness.blocks[source].transfer
    if position is None:
        position = max(block.instructions - 1, 0)
    return block.start + 4 * position


def target_of(cfg: ControlFlowGraph, edge: int) -> int | None:
    """Return the address that a stub of `edge` jumps to, None for another routine's."""
    target = cfg.edges[edge].target
    return None if target == cfg.exit else cfg.blocks[target].start


def describe_edge(cfg: ControlFlowGraph, edge: int) -> str:
    """Return `source -> target (kind)`."""
    ends = cfg.edges[edge]
    kind = "" if ends.kind is EdgeKind.EXIT else f" ({ends.kind.value})"
    return f"{cfg.name_of(ends.source)} -> {cfg.name_of(ends.target)}{kind}"
