"""The call graph of a recovered program, as networkx's `MultiDiGraph`.

Attributes
----------
node
    The routine's position in `RecoveredProgram.routines`. `name`; `address` and `size` in bytes;
    `blocks`, their number; `indirect`, how many of them go to routines that only a run tells.
edge
    One for each call site; the key numbers them by address. `site` is the address of the
    instruction; `kind` is "call", or "tail-call" where control leaves the caller for good;
    `returns` is false for calls behind which nothing executes.

Calls through pointers have no edges: see `indirect`. A call of code that is no routine (outside
the program, or written by start-up code and not known yet) has none either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.recovery import UNKNOWN_BLOCK, RecoveredProgram
from simprof.simulator.isa.decode import TransferKind

if TYPE_CHECKING:
    import networkx as nx


class CallSite(NamedTuple):
    """A direct call. `caller` and `callee` are positions of routines, `site` is an address."""

    caller: int
    callee: int
    site: int
    kind: str
    returns: bool


def call_graph(recovered: RecoveredProgram) -> nx.MultiDiGraph:
    """Return the routines and their direct calls, with the attributes that the module describes."""
    import networkx as nx

    graph = nx.MultiDiGraph(name=recovered.program.path.name)
    for position, cfg in enumerate(recovered.routines):
        graph.add_node(
            position,
            name=cfg.name,
            address=cfg.address,
            size=cfg.size,
            blocks=len(cfg.blocks),
            indirect=len(cfg.indirect),
        )
    for key, call in enumerate(sorted(call_sites(recovered), key=lambda call: call.site)):
        attributes = {"site": call.site, "kind": call.kind, "returns": call.returns}
        graph.add_edge(call.caller, call.callee, key=key, **attributes)
    return graph


def call_sites(recovered: RecoveredProgram) -> Iterator[CallSite]:
    """Yield the direct calls of every routine, block by block."""
    for position, cfg in enumerate(recovered.routines):
        for block in cfg.blocks:
            site = _last_transfer(recovered, block)
            if site < 0:
                continue
            kind = recovered.code.lists.kinds[site]
            if kind == TransferKind.CALL:
                yield from _call(recovered, position, block, site)
            elif kind in (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS):
                yield from _tail_call(recovered, position, block, site)


def _last_transfer(recovered: RecoveredProgram, block: Block) -> int:
    """Word index of the transfer that ends a block, or -1 where another block cuts it short."""
    code = recovered.code
    last = code.lists.next_end[code.place.index(block.start)]
    return last if not block.is_slot and code.address(last) < block.end else -1


def _call(recovered: RecoveredProgram, caller: int, block: Block, site: int) -> Iterator[CallSite]:
    address = recovered.code.address(site)
    callee = _routine_at(recovered, recovered.code.lists.targets[site])
    if callee < 0 or address in recovered.call_aliases:
        return
    kinds = _edge_kinds(recovered.routines[caller], block.id)
    returns = EdgeKind.CALL_RETURN in kinds
    stays = returns or address in recovered.no_return_calls
    yield CallSite(caller, callee, address, "call" if stays else "tail-call", returns or not stays)


def _tail_call(
    recovered: RecoveredProgram, caller: int, block: Block, site: int
) -> Iterator[CallSite]:
    """A branch whose target the routine's own graph does not hold as one."""
    cfg = recovered.routines[caller]
    target = recovered.code.lists.targets[site]
    sources = {block.id} | {
        cfg.edges[edge].target
        for edge in cfg.out_edges[block.id]
        if cfg.edges[edge].kind is EdgeKind.SLOT
    }
    taken = {kind for source in sources for kind in _edge_kinds(cfg, source)}
    callee = _routine_at(recovered, target)
    if callee >= 0 and EdgeKind.TAKEN not in taken and EdgeKind.EXIT in taken:
        yield CallSite(caller, callee, recovered.code.address(site), "tail-call", True)


def _edge_kinds(cfg: ControlFlowGraph, block: int) -> set[EdgeKind]:
    return {cfg.edges[edge].kind for edge in cfg.out_edges[block]}


def _routine_at(recovered: RecoveredProgram, index: int) -> int:
    """Position of the routine that has a block starting at word `index`, or -1."""
    if index < 0:
        return -1
    block = int(recovered.block_at[index])
    return -1 if block == UNKNOWN_BLOCK else recovered.routine_of_block(block)
