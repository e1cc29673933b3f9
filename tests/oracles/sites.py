"""Liveness, frames and places on objects, which is how simprof found them before `sites_kernel`.

Sets of registers grow block by block, until none does; frames are followed from the entries; the
place of an edge's code is the first of the rules in `places` that fits. Slow, and sharing no code
with the kernel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from simprof.profiler.code.blocks import CodeFacts
from simprof.profiler.code.frames import FrameState, Where
from simprof.profiler.code.registers import Abi, mask
from simprof.profiler.graphs.cfg import ControlFlowGraph, Edge, EdgeKind
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind, simm13
from simprof.simulator.isa.effects import ALL, INS, LOCALS, OUTS, Window

_CALLS = (TransferKind.CALL, TransferKind.INDIRECT_CALL)
_RETURNS = (TransferKind.RETURN_JUMP, TransferKind.RETURN)
_TRAPS = (TransferKind.TRAP_ALWAYS, TransferKind.TRAP_CONDITIONAL)
_SP = int(Register.SP)


class Code(NamedTuple):
    """Where a block's code is: first word, number of words, transfer, its kind and target."""

    first: int
    words: int
    transfer: int | None
    kind: TransferKind
    target: int


class Place(NamedTuple):
    """Where an edge's code goes, and what is known there."""

    where: Where
    edge: int
    block: int | None
    position: int | None
    live: int
    frame: FrameState


def block_code(cfg: ControlFlowGraph, facts: CodeFacts, block: int) -> Code:
    """Locate the code of a block and the transfer that ends it."""
    described = cfg.blocks[block]
    first = facts.place.index(described.start)
    count = described.instructions
    for position in (count - 1, count - 2):
        if position < 0 or described.is_slot:
            continue
        index = first + position
        kind = TransferKind(int(facts.transfers.kind[index]))
        if kind is TransferKind.NONE or (position == count - 2 and not HAS_DELAY_SLOT[kind]):
            continue
        target = int(facts.transfers.target[index])
        if kind is TransferKind.CALL and target == facts.place.address(index) + 8:
            continue  # only reads the program counter
        return Code(first, count, position, kind, target)
    return Code(first, count, None, TransferKind.NONE, -1)


class Oracle:
    """What is live in one routine, where its frame stands, and where code of its edges goes."""

    def __init__(
        self, cfg: ControlFlowGraph, facts: CodeFacts, abi: Abi, handed: Mapping[int, int]
    ) -> None:
        self._cfg, self._facts, self._abi, self._handed = cfg, facts, abi, handed
        self.blocks = [block_code(cfg, facts, block.id) for block in cfg.blocks]
        self.exits = {
            b.id: self._exit_live(self.blocks[b.id])
            for b in cfg.blocks
            if cfg.exit in cfg.targets(b.id)
        }
        self._calls = {b for b, code in enumerate(self.blocks) if code.kind in _CALLS}
        self.live_in, self._behind = self._solve()
        self.has_window = any(
            self._shift(code, position) == Window.SAVE
            for code in self.blocks
            for position in range(code.words)
        )
        self._states = self._frames()
        self.shared = self._shared_slots()

    # -- liveness

    def _exit_live(self, code: Code) -> int:
        kind, facts, abi = code.kind, self._facts, self._abi
        if kind in _RETURNS:
            return ALL if self._cfg.address in facts.thunks else abi.return_reads
        if kind in _CALLS:
            slot = code.first + code.words - 1
            is_tail = facts.window[slot] == Window.RESTORE
            is_tail = is_tail or int(facts.writes[slot]) & mask(Register.O7)
            return abi.tail_reads if is_tail else abi.call_reads
        if kind in _TRAPS or kind is TransferKind.ILLEGAL:
            return abi.reserved
        if (
            kind in (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS)
            and code.target in facts.entries
        ):
            return abi.tail_reads | self._handed.get(code.target, 0)
        shifts = facts.window[code.first : code.first + code.words].tolist()
        return abi.tail_reads if kind is TransferKind.JUMP and Window.RESTORE in shifts else ALL

    def live_in_block(self, block: int) -> list[int]:
        """Return what is live before each instruction of a block, and at its end."""
        return self._backwards(block, self._behind[block])[::-1]

    def _backwards(self, block: int, live: int) -> list[int]:
        code, facts = self.blocks[block], self._facts
        if block in self._calls and block not in self.exits:
            thunk = facts.thunks.get(code.target)
            if thunk is None:
                live = live & ~self._abi.call_writes | self._abi.call_reads
            else:
                live |= thunk
        found = [live]
        for word in range(code.first + code.words - 1, code.first - 1, -1):
            live &= ~int(facts.writes[word])
            if facts.window[word] == Window.SAVE:
                live = live & ~(OUTS | LOCALS | INS) | (live & INS) >> 16 | LOCALS | INS
            elif facts.window[word] == Window.RESTORE:
                live = live & ~(OUTS | LOCALS | INS) | (live & OUTS) << 16
            live |= int(facts.reads[word])
            found.append(live)
        return found

    def _solve(self) -> tuple[list[int], list[int]]:
        cfg, exits, calls = self._cfg, self.exits, self._calls
        behind = [exits.get(block.id, 0) for block in cfg.blocks]
        live_in = [0] * len(behind)
        entered = (block for block in cfg.targets(cfg.entry) if block != cfg.exit)
        landing = {block for block in entered if cfg.blocks[block].start != cfg.address}
        points = {edge.target for edge in cfg.edges if edge.kind is EdgeKind.CALL_RETURN}
        before = None
        while before != (live_in, behind):
            before = list(live_in), list(behind)
            live_in = [self._backwards(block.id, behind[block.id])[-1] for block in cfg.blocks]
            for edge in cfg.edges:
                if edge.source != cfg.entry and edge.target != cfg.exit:
                    behind[edge.source] |= live_in[edge.target]
            for call in calls:
                for block in landing:
                    behind[call] |= live_in[block]
                for block in points if call in exits else ():
                    behind[call] |= live_in[block] & (LOCALS | INS)
        return live_in, behind

    # -- frames

    def _shift(self, code: Code, position: int) -> int:
        return int(self._facts.window[code.first + position])

    def _after(self, code: Code, position: int, state: FrameState) -> FrameState:
        shift, word = self._shift(code, position), int(self._facts.words[code.first + position])
        if shift == Window.SAVE:
            return FrameState(state.depth + 1, state.lowered)
        if shift == Window.RESTORE:
            return FrameState(max(state.depth - 1, 0), state.lowered)
        ends = word >> 25 & 31, word >> 14 & 31
        op3 = word >> 19 & 63
        if state.depth or word >> 30 != 2 or ends != (_SP, _SP) or not word >> 13 & 1:
            return state
        change = {0: -simm13(word), 4: simm13(word)}.get(op3, 0)
        return FrameState(0, state.lowered + change)

    def before(self, block: int, position: int) -> FrameState:
        """State before an instruction of a block."""
        state = self._states[block]
        for place in range(position):
            state = self._after(self.blocks[block], place, state)
        return state

    def _frames(self) -> list[FrameState]:
        cfg, inside = self._cfg, FrameState(int(self.has_window), 0)
        states: list[FrameState | None] = [None] * len(cfg.blocks)
        entries = [block for block in cfg.targets(cfg.entry) if block != cfg.exit]
        main = [block for block in entries if cfg.blocks[block].start == cfg.address]
        for start in (*((b, FrameState(0, 0)) for b in main), *((b, inside) for b in entries)):
            waiting = deque([start])
            while waiting:
                block, state = waiting.popleft()
                if block >= len(cfg.blocks) or states[block] is not None:
                    continue
                states[block] = state
                for position in range(self.blocks[block].words):
                    state = self._after(self.blocks[block], position, state)
                waiting.extend((target, state) for target in cfg.targets(block))
        return [inside if state is None else state for state in states]

    def after_save(self, block: int) -> int:
        """Position behind the block's last `save` and what ends its frame, 0 if it has none."""
        code, found = self.blocks[block], 0
        for position in range(code.words):
            word = int(self._facts.words[code.first + position])
            ends = word & ~0x1FFF == 0x9C03A000 and simm13(word) < 0  # add %sp, constant, %sp
            if self._shift(code, position) == Window.SAVE or (found and ends):
                found = position + 1
        return found

    # -- places

    def _shared_slots(self) -> frozenset[int]:
        cfg, slots = self._cfg, set()
        for code, block in zip(self.blocks, cfg.blocks, strict=True):
            if code.transfer is None or block.is_slot:
                continue
            slot = block.start + 4 * code.transfer + 4
            kinds = (EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
            edges = (cfg.edges[edge] for edge in cfg.out_edges[block.id])
            behind = {edge.target for edge in edges if edge.kind in kinds}
            if any(b < len(cfg.blocks) and cfg.blocks[b].start == slot + 4 for b in behind):
                slots.add(slot)
        return frozenset(b.id for b in cfg.blocks if not b.is_slot and b.start in slots)

    def place(self, number: int) -> Place:
        """Find where code of an edge goes (docstring of `places`)."""
        cfg = self._cfg
        edge = cfg.edges[number]
        if edge.source == cfg.entry:
            if edge.target != cfg.exit and self._is_only(edge):
                return self._top(edge, self.after_save(edge.target))
            is_in_line = len(cfg.out_edges[cfg.entry]) == 1 or not self._is_fallen_into(edge.target)
            return self._between(edge, Where.FALL_THROUGH if is_in_line else Where.STUB)
        if edge.source in self.shared:
            return self._between(edge, Where.STUB)
        if edge.kind is EdgeKind.SLOT or (edge.target in self.shared and self._is_only(edge)):
            (onward,) = cfg.out_edges[edge.target]
            return self.place(onward)
        if edge.kind is EdgeKind.CALL_RETURN:
            is_only = self._is_only(edge)
            return self._top(edge, 0) if is_only else self._between(edge, Where.FALL_THROUGH)
        if len(cfg.out_edges[edge.source]) == 1 and not cfg.blocks[edge.source].is_slot:
            position = self._end(edge)
            if position is not None:
                return self._within(Where.SOURCE_END, edge, edge.source, position)
        if edge.target != cfg.exit and self._is_only(edge):
            return self._top(edge, 0)
        return self._between(edge, Where.FALL_THROUGH if self._falls(edge) else Where.STUB)

    def _end(self, edge: Edge) -> int | None:
        code = self.blocks[edge.source]
        if code.transfer is None:
            return code.words
        is_trap = code.kind in _TRAPS and edge.kind is not EdgeKind.EXIT
        if is_trap or code.kind is TransferKind.ILLEGAL:
            return None
        closing = (p for p in range(code.transfer) if self._shift(code, p) == Window.RESTORE)
        return next(closing, code.transfer)

    def _is_only(self, edge: Edge) -> bool:
        return len(self._cfg.in_edges[edge.target]) == 1

    def _is_fallen_into(self, block: int) -> bool:
        cfg = self._cfg
        if block == cfg.exit or cfg.blocks[block].start == cfg.address:
            return False
        return any(self._falls(cfg.edges[edge]) for edge in cfg.in_edges[block])

    def _falls(self, edge: Edge) -> bool:
        if edge.kind is not EdgeKind.EXIT:
            return edge.kind in (EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
        cfg = self._cfg
        kinds = {cfg.edges[e].kind for e in cfg.out_edges[edge.source]} - {EdgeKind.EXIT}
        is_last = not kinds or bool(kinds & {EdgeKind.TAKEN, EdgeKind.SLOT})
        is_slot = edge.source < len(cfg.blocks) and cfg.blocks[edge.source].is_slot
        return is_last and EdgeKind.FALL_THROUGH not in kinds and not is_slot

    def _top(self, edge: Edge, position: int) -> Place:
        return self._within(Where.TARGET_TOP, edge, edge.target, position)

    def _within(self, where: Where, edge: Edge, block: int, position: int) -> Place:
        live = self.live_in_block(block)[position]
        return Place(where, edge.id, block, position, live, self.before(block, position))

    def _between(self, edge: Edge, where: Where) -> Place:
        cfg = self._cfg
        live = self.exits[edge.source] if edge.target == cfg.exit else self.live_in[edge.target]
        at_top = edge.source == cfg.entry
        block = edge.target if at_top else edge.source
        state = self.before(block, 0 if at_top else self.blocks[block].words)
        return Place(where, edge.id, None, None, live, state)


def least_handed(facts: CodeFacts, abi: Abi, cfgs: Iterable[ControlFlowGraph]) -> dict[int, int]:
    """Return, by address, the least sets that are live at the entries of some routines."""
    asked = tuple(cfgs)
    handed: dict[int, int] = {}
    while True:
        found = {}
        for cfg in asked:
            first = next(b for b in cfg.targets(cfg.entry) if cfg.blocks[b].start == cfg.address)
            found[cfg.address] = Oracle(cfg, facts, abi, handed).live_in[first]
        if found == handed:
            return found
        handed = found
