"""Where logged edges need `logdisrupt`: ways from a source to its destination beside the edge.

`logdest(m)` takes the source that was logged last for the block that control comes from. It is
wrong where control has left the source along another edge and come to the destination without a
logging call on the way. Such ways lead

1. through the routine: source -> C -> .. -> destination (the blog's case);
2. through its entry: C calls the routine again, is interrupted by a signal's handler that calls
   it, or the routine is left and called later; ENTRY -> .. -> destination;
3. through its exit: an activation that another one of the routine waits for leaves the routine
   with a source still logged, and the other one goes on to the destination.

Other routines may log nothing, so nothing is expected of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from simprof import schemes as s
from simprof.profiler.schemes.cs6120.edge_log import LoggedEdge

# Masks say which sources may have been logged last. Two bits more say where control comes from,
# nothing else being known: from the edge ENTRY -> first block, or from a call or signal handler.
_ENTERED, _RETURNED = 1, 2
_FIRST_SOURCE_BIT = 2
_SOURCES = ~(_ENTERED | _RETURNED)


class Disruptions(Struct, frozen=True):
    """Blocks whose top, and edges, that need `logdisrupt`."""

    blocks: frozenset[int]
    edges: frozenset[int]


def disruptions(
    cfg: s.ControlFlowGraph,
    logged: Iterable[LoggedEdge],
    live: Iterable[int],
    weights: Sequence[float],
) -> Disruptions:
    """Return where `logdisrupt` is needed, of edges that can execute; by `weights`, calls are kept
    off frequent places.
    """
    search = _Search(cfg, logged, live)
    # Out of reach is a handler that logs while its activation is between the two calls: after a
    # fault there that the handler mends, so that control goes on. Such a crossing would escape the
    # library.
    blocks, edges = search.blocks, search.edges
    # The remedy is the blog's: a call in the first block behind the source; or on an edge from
    # ENTRY or to EXIT where the way leads through it. `disruptions` starts with calls in all these
    # places, and removes them one by one, the most frequent first, where no wrong way opens: of
    # what is left, each is necessary.
    by_block = s.block_weights(cfg, weights) if blocks else ()
    places = [(by_block[block], 1, block) for block in blocks]
    places += [(weights[edge], 0, edge) for edge in edges]
    for _, is_block, place in sorted(places, key=lambda entry: (-entry[0], entry[1:])):
        search.try_without(place, bool(is_block))
    return Disruptions(frozenset(blocks), frozenset(edges | search.guards))


def is_sound(
    cfg: s.ControlFlowGraph, logged: Iterable[LoggedEdge], live: Iterable[int], chosen: Disruptions
) -> bool:
    """Whether no wrong way is open with `logdisrupt` in the chosen places."""
    search = _Search(cfg, logged, live)
    if not search.guards <= chosen.edges:
        return False
    closed = [(block, True) for block in search.blocks - chosen.blocks]
    closed += [(edge, False) for edge in search.edges - chosen.edges]
    return all(search.try_without(place, is_block) for place, is_block in closed)


def interior_entries(cfg: s.ControlFlowGraph) -> frozenset[int]:
    """Return the ENTRY edges that do not lead to the routine's first block."""
    # A non-local exit (longjmp) continues in the middle of a routine, along an ENTRY edge of its
    # own, whatever was logged last; to waiting activations of every routine it must look like a
    # return. So ENTRY edges into the middle always forget the last source.
    entries = cfg.out_edges[cfg.entry]
    if len(entries) < 2:
        return frozenset()
    first = {block.id for block in cfg.blocks if block.start == cfg.address and not block.is_slot}
    inside = [edge for edge in entries if cfg.edges[edge].target not in first]
    return frozenset(inside if len(inside) < len(entries) else inside[1:])


class _Region(Struct):
    """What a place leads to without a logging call."""

    lasts: bool = False  # beyond its own edges
    destinations: list[int] = field(default_factory=list)
    held: list[tuple[int, bool]] = field(default_factory=list)  # places with `logdisrupt`
    leaves: bool = False


class _Search:
    """Which sources may be the last ones where, given the places that have `logdisrupt`."""

    def __init__(
        self, cfg: s.ControlFlowGraph, logged: Iterable[LoggedEdge], live: Iterable[int]
    ) -> None:
        self._cfg = cfg
        self._source_bit: dict[int, int] = {}
        self._pairs: dict[int, int] = {}  # destination block -> its sources
        self._bare = set(live)
        self._find_pairs(logged)
        self.guards = interior_entries(cfg) & self._bare  # have `logdisrupt` for good
        self._bare -= self.guards
        # Places that have `logdisrupt` and might do without.
        self.blocks: set[int] = set()
        self.edges: set[int] = set()
        self._arriving: dict[tuple[int, bool], int] = {}
        # Sources that may be the last one anywhere in the routine, and when it is left;
        # those of destinations that control may reach from ENTRY, and back from a call.
        self._lasting = self._leaving = self._from_entry = self._from_inside = 0
        self._fill()

    def _find_pairs(self, logged: Iterable[LoggedEdge]) -> None:
        source, target = self._cfg.ends
        for edge, _, _, source_on_edge, destination_on_edge in logged:
            self._bare.discard(edge)
            bit = 0
            if not source_on_edge:
                free = 1 << _FIRST_SOURCE_BIT + len(self._source_bit)
                bit = self._source_bit.setdefault(source[edge], free)
            if not destination_on_edge:
                self._pairs[target[edge]] = self._pairs.get(target[edge], 0) | bit

    def _fill(self) -> None:
        """Find the places, and let everything flow that flows with `logdisrupt` in all of them."""
        cfg, (sources, targets) = self._cfg, self._cfg.ends
        returned: set[int] = set()
        for edge in self._bare:
            source, target = sources[edge], targets[edge]
            mask = _ENTERED if source == cfg.entry else self._source_bit.get(source, _RETURNED)
            is_outer = source == cfg.entry or target == cfg.exit
            if is_outer or (mask != _RETURNED and cfg.blocks[target].is_slot):
                self.edges.add(edge)
                self._arrive((edge, False), mask)
            elif mask == _RETURNED:
                returned.add(target)
            elif target not in self._pairs:
                self.blocks.add(target)
                self._arrive((target, True), mask)
        # What leads on from there without a logging call is among these edges, too.
        for target in returned:
            if target in self.blocks:
                self._arrive((target, True), _RETURNED)
            else:
                self._from_inside |= self._pairs.get(target, 0)

    def _arrive(self, place: tuple[int, bool], mask: int) -> None:
        self._arriving[place] = self._arriving.get(place, 0) | mask

    def try_without(self, place: int, is_block: bool) -> bool:
        """Take the call of `logdisrupt` off a block's top, or an edge, if counts stay right without
        it; return whether they do.
        """
        # They would not if control could then get from a source to its destination along another
        # way than the logged edge, with no logging call in between.
        chosen = self.blocks if is_block else self.edges
        chosen.remove(place)
        region = self._region((), (place,)) if is_block else self._region((place,))
        mask = self._arriving.get((place, is_block), 0)
        lasting, leaving, entry, inside, direct = self._effect(region, mask)
        if direct or lasting & entry or leaving & inside:
            chosen.add(place)
            return False
        self._commit(region, mask)
        return True

    def _effect(self, region: _Region, mask: int) -> tuple[int, int, int, int, int]:
        sources = mask & _SOURCES
        pairs = 0
        for block in region.destinations:
            pairs |= self._pairs[block]
        return (
            self._lasting | (sources if region.lasts or region.leaves else 0),
            self._leaving | (sources if region.leaves else 0),
            self._from_entry | (pairs if mask & _ENTERED else 0),
            self._from_inside | (pairs if mask & _RETURNED else 0),
            sources & pairs,
        )

    def _commit(self, region: _Region, mask: int) -> None:
        effect = self._effect(region, mask)
        self._lasting, self._leaving, self._from_entry, self._from_inside, _ = effect
        for place in region.held:
            self._arrive(place, mask)

    def _region(self, edges: Iterable[int], tops: Iterable[int] = ()) -> _Region:
        """Follow edges, and everything from the tops of blocks on, up to logging calls."""
        region, target = _Region(), self._cfg.ends[1]
        seen: set[int] = set()
        work, onward = [*tops], edges
        while True:
            for edge in onward:
                if edge in self.edges:
                    region.held.append((edge, False))
                elif edge in self._bare:
                    work.append(target[edge])
            onward = ()
            if not work:
                return region
            block = work.pop()
            if block in seen:
                continue
            seen.add(block)
            if block == self._cfg.exit:
                region.leaves = True
            elif block in self._pairs:
                region.destinations.append(block)
            elif block in self.blocks:
                region.held.append((block, True))
            else:
                region.lasts = True
                if block not in self._source_bit:
                    onward = self._cfg.out_edges[block]
