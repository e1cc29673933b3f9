"""Invariants of every recovered program; called in tests and behind `--self-check`."""

from __future__ import annotations

from collections import Counter

from simprof.profiler.graphs.cfg import ENTRIES, Block, ControlFlowGraph, EdgeKind, closure
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.simulator.errors import SimulatorError
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind

_K = TransferKind
_E = EdgeKind
_CALLS = (_K.CALL, _K.INDIRECT_CALL, _K.JUMP_AND_LINK)


class RecoveryError(SimulatorError):
    """A recovered graph contradicts the code that it was recovered from: a defect of simprof."""


def validate(recovered: ProgramGraphs) -> None:
    """Check all invariants; RecoveryError names the first that does not hold, and where."""
    owned: Counter[int] = Counter()
    for position, graph in enumerate(recovered.routines):
        try:
            _check_graph(recovered, position, graph)
        except RecoveryError as error:
            raise RecoveryError(f"{graph.name}: {error}") from None
        for block in graph.blocks:
            if not block.is_slot:
                owned.update(_words(recovered, block))
    doubled = [address for address, count in owned.items() if count > 1]
    _require(not doubled, "blocks overlap", min(doubled, default=0))
    _check_order(recovered)


def _check_graph(recovered: ProgramGraphs, position: int, graph: ControlFlowGraph) -> None:
    _check_ids(graph)
    reachable = closure([graph.entry], graph.targets)
    for block in graph.blocks:
        _require(block.id in reachable, "unreachable block", block.start)
    _check_blocks(recovered, graph)
    for block in graph.blocks:
        _check_end(recovered, graph, block)
    for block in graph.blocks:
        name = int(recovered.first_block[position]) + block.id
        _require(recovered.routine_of_block(name) == position, "wrong routine", block.start)
        is_found = block.is_slot or recovered.block_starting_at(block.start) == name
        _require(is_found, "lost", block.start)


def _words(recovered: ProgramGraphs, block: Block) -> range:
    """Addresses of a block's words but for its delay slot, which may be in two blocks."""
    return range(block.start, block.end - (4 if _ends_in_slot(recovered, block) else 0), 4)


def _require(holds: bool, what: str, address: int) -> None:
    if not holds:
        how = "this is a defect of simprof, please report the program"
        raise RecoveryError(f"recovered graph: {what} at {address:#x}: {how}")


def _kind(recovered: ProgramGraphs, address: int) -> TransferKind:
    return TransferKind(int(recovered.code.transfers.kind[recovered.code.index(address)]))


def _ends_in_slot(recovered: ProgramGraphs, block: Block) -> bool:
    """Whether the block's last word is the delay slot of the word before it."""
    if block.is_slot or block.instructions < 2:
        return False
    return bool(HAS_DELAY_SLOT[_kind(recovered, block.end - 8)])


def _check_ids(graph: ControlFlowGraph) -> None:
    names = [(block.start, block.is_slot) for block in graph.blocks]
    _require(names == sorted(set(names)), "blocks out of order", graph.address)
    _require([b.id for b in graph.blocks] == list(range(len(names))), "bad ids", graph.address)
    for position, edge in enumerate(graph.edges):
        inside = 0 <= edge.source < graph.vertex_count and 0 <= edge.target < graph.vertex_count
        _require(edge.id == position and inside, "edge out of range", graph.address)
        entry, leave = edge.source == graph.entry, edge.target == graph.exit
        _require((edge.kind in ENTRIES) == entry, "entry edge of a block", graph.address)
        _require((edge.kind is _E.EXIT) == leave, "exit edge between blocks", graph.address)
        _require(edge.target != graph.entry and edge.source != graph.exit, "edge", graph.address)
    first = graph.edges[0]
    starts = first.kind is _E.ENTRY and graph.blocks[first.target].start == graph.address
    _require(starts, "routine without its own entry", graph.address)


def _check_blocks(recovered: ProgramGraphs, graph: ControlFlowGraph) -> None:
    """Only the last instruction of a block, or the one before its slot, transfers control."""
    for block in graph.blocks:
        index = recovered.code.index(block.start)
        _require(index >= 0 and block.instructions > 0, "block outside the code", block.start)
        last = block.instructions - (2 if _ends_in_slot(recovered, block) else 1)
        kinds = recovered.code.transfers.kind[index : index + last]
        quiet = (kinds == _K.NONE) | (kinds == _K.TRAP_CONDITIONAL)
        _require(bool(quiet.all()), "control transfer inside a block", block.start)
        _require(not block.is_slot or block.instructions == 1, "long slot block", block.start)


def _check_end(recovered: ProgramGraphs, graph: ControlFlowGraph, block: Block) -> None:
    """A block's outgoing edges are what its last instructions say."""
    edges = [graph.edges[i] for i in graph.out_edges[block.id]]
    kinds = [edge.kind for edge in edges]
    _require(bool(kinds), "block without successor", block.start)
    several = (_E.SWITCH, _E.CALL_RETURN)
    repeated = any(count > 1 for kind, count in Counter(kinds).items() if kind not in several)
    _require(not repeated, "two edges of one kind", block.start)
    if block.is_slot:
        _require(kinds in ([_E.TAKEN], [_E.EXIT]), "slot block with wrong edges", block.start)
        return
    at = block.end - (8 if _ends_in_slot(recovered, block) else 4)
    if any(at == address for address, _ in recovered.irregular):
        return
    _require(set(kinds) <= _allowed(recovered, at), f"edges {kinds} at a block's end", block.start)
    targets = [graph.blocks[e.target].start for e in edges if e.kind is not _E.EXIT]
    switch = [graph.blocks[e.target].start for e in edges if e.kind is _E.SWITCH]
    _require(switch == sorted(set(switch)), "switch targets out of order", block.start)
    if at in recovered.no_return_calls:
        _require(kinds == [_E.EXIT], "edge after a call that does not return", at)
    direct = int(recovered.code.transfers.target[recovered.code.index(at)])
    for edge, target in zip(edges, targets, strict=False):
        if edge.kind is _E.TAKEN:
            _require(target == direct, "taken edge not to its target", at)
        elif edge.kind is _E.FALL_THROUGH:
            slot = bool(HAS_DELAY_SLOT[_kind(recovered, at)])
            _require(target == at + (8 if slot else 4), "fall-through elsewhere", at)


def _allowed(recovered: ProgramGraphs, at: int) -> set[EdgeKind]:
    kind = _kind(recovered, at)
    match kind:
        case _K.NONE | _K.TRAP_CONDITIONAL | _K.TRAP_ALWAYS | _K.BRANCH_NEVER:
            return {_E.FALL_THROUGH, _E.EXIT}
        case _K.BRANCH:
            annulled = bool(recovered.code.transfers.annulled[recovered.code.index(at)])
            return {_E.FALL_THROUGH, _E.SLOT if annulled else _E.TAKEN, _E.EXIT}
        case _K.BRANCH_ALWAYS:
            return {_E.TAKEN, _E.EXIT}
        case _K.JUMP:
            return {_E.SWITCH, _E.EXIT}
        case _K.CALL if at in recovered.call_aliases:
            return {_E.TAKEN}
        case _ if kind in _CALLS:
            return {_E.CALL_RETURN, _E.EXIT}
    return {_E.EXIT}


def _check_order(recovered: ProgramGraphs) -> None:
    starts = [graph.address for graph in recovered.routines]
    _require(starts == sorted(set(starts)), "routines out of order", starts[0] if starts else 0)
    known = sum(1 for number in recovered.block_at.tolist() if number >= 0)
    ordinary = sum(not b.is_slot for graph in recovered.routines for b in graph.blocks)
    _require(known == ordinary, "block index of another program", recovered.code.base)
