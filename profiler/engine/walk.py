"""From the words that the emulator executes to the edges that a program crosses.

The emulator reports translation blocks; control-flow graphs speak of basic blocks. `Walker.step`
moves a `WalkContext` (what is known after one instruction) over the next instruction and says which
steps the program took in between: edges crossed, calls pushed, returns popped. It is the only
reading of the event rules in the product; `automaton` calls it once per new transition.

Steps -> functions: delay slots and annulment (`_slot`), resolved transfers (`_transfer`), arrivals
at leaders (`_arrive`), calls (`_call`), returns (`_return`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

import numpy as np

from profiler.graphs.cfg import EdgeKind
from profiler.recovery.recovery import RecoveredProgram
from simulator.errors import UnsupportedError
from simulator.isa.decode import HAS_DELAY_SLOT, IS_CALL, TransferKind

UNKNOWN = -1
T = TypeVar("T")


@dataclass(frozen=True)
class Cross:
    """An edge is crossed; `edge` is its number in the whole program."""

    edge: int


@dataclass(frozen=True)
class Push:
    """A call; bit 0 of `return_address` is set where the caller's path ends at the call."""

    return_address: int


@dataclass(frozen=True)
class Pop:
    """A return to the address of the event."""


@dataclass(frozen=True)
class Land:
    """Control arrives at an address, and only the stack of frames can tell in which activation.

    Attributes
    ----------
    address
        Where control arrives.
    block
        The block that control left; UNKNOWN if it left none.
    returned
        Whether control left the block by a return. Its EXIT edge has been crossed already then.
    """

    address: int
    block: int
    returned: bool


@dataclass(frozen=True)
class MissingTarget:
    """The graph lacks the transfer from the indirect jump at `jump` to `target`."""

    jump: int
    target: int


@dataclass(frozen=True)
class MissingEntry:
    """The graph lacks an entry at `address`.

    Attributes
    ----------
    address
        Where control arrived.
    behind
        Whether control came there through code that the graphs lack, too. Once the graphs have
        that code, the address may turn out to be no entry at all.
    """

    address: int
    behind: bool = False


@dataclass(frozen=True)
class MissingReturn:
    """The call at `call` was taken as one that does not return, but did."""

    call: int


Missing = MissingTarget | MissingEntry | MissingReturn
Step = Cross | Push | Pop | Land | MissingTarget | MissingEntry | MissingReturn


@dataclass(frozen=True)
class WalkContext:
    """What is known after an instruction.

    Attributes
    ----------
    pending
        Address of a control transfer whose outcome is open, or -1.
    slot_seen
        Whether its delay slot has executed.
    block
        Block that the instruction belongs to, by number in the whole program, or UNKNOWN.
    last
        Address of the instruction, or -1 before the first.
    """

    pending: int
    slot_seen: bool
    block: int
    last: int


BEGINNING = WalkContext(-1, False, UNKNOWN, -1)


class ByBlock(Generic[T]):
    """A mapping by block that knows of a routine once somebody asks for one of its blocks.

    Parameters
    ----------
    learn
        Puts what concerns the routine of a block into `known`; called before each look.
    learn_all
        The same for all routines.
    """

    def __init__(self, learn: Callable[[int], None], learn_all: Callable[[], None]) -> None:
        self._learn, self._learn_all = learn, learn_all
        self.known: dict[int, T] = {}

    def __getitem__(self, block: int) -> T:
        """Return what is known of a block."""
        self._learn(block)
        return self.known[block]

    def __contains__(self, block: int) -> bool:
        """Whether something is known of a block."""
        self._learn(block)
        return block in self.known

    @overload
    def get(self, block: int) -> T | None: ...

    @overload
    def get(self, block: int, default: T) -> T: ...

    def get(self, block: int, default: T | None = None) -> T | None:
        """Return what is known of a block."""
        self._learn(block)
        return self.known.get(block, default)

    def all(self) -> dict[int, T]:
        """Return what is known of all blocks."""
        self._learn_all()
        return self.known


class GraphIndex:
    """Edges and blocks of all routines under program-wide numbers.

    Most programs enter few of their routines: each is indexed when it is first asked for.
    """

    def __init__(self, recovered: RecoveredProgram) -> None:
        self.recovered = recovered
        graphs = recovered.arrays
        self.first_edge = graphs.first_edge
        self.first_block = np.asarray(recovered.first_block, np.int64)
        self.edge_count = int(self.first_edge[-1])
        self.block_count = graphs.block_count
        self.routine_of_block = np.repeat(np.arange(len(graphs)), np.diff(graphs.first_block))
        self._is_indexed = bytearray(self.block_count)
        self.exit_edge: ByBlock[int] = self._by_block()
        self.entry_edge: ByBlock[int] = self._by_block()
        self.slot_edge: ByBlock[tuple[int, int]] = self._by_block()
        self.return_point: ByBlock[int] = self._by_block()
        self.return_edges: ByBlock[list[tuple[int, int]]] = self._by_block()
        self._block_at = np.ascontiguousarray(recovered.block_at).data

    def _by_block(self) -> ByBlock[Any]:
        return ByBlock(self._learn, self._learn_all)

    def close(self) -> None:
        """Let go of everything, when nobody asks for it any more.

        Its tables refer back to it: they would stay in memory, with the graphs, until Python looks
        for such cycles.
        """
        vars(self).clear()

    def _learn(self, block: int) -> None:
        if block >= 0 and not self._is_indexed[block]:
            self._index_routine(int(self.routine_of_block[block]))

    def _learn_all(self) -> None:
        for number, first in enumerate(self.first_block.tolist()):
            if first < self.block_count and not self._is_indexed[first]:
                self._index_routine(number)

    def _index_routine(self, number: int) -> None:
        cfg = self.recovered.routines[number]
        base, edge_base = int(self.first_block[number]), int(self.first_edge[number])
        self._is_indexed[base : base + len(cfg.blocks)] = b"\1" * len(cfg.blocks)
        for name, edge in enumerate(cfg.edges, edge_base):
            source, target = base + edge.source, base + edge.target
            if edge.kind is EdgeKind.ENTRY:
                self.entry_edge.known[target] = name
            elif edge.kind is EdgeKind.EXIT:
                self.exit_edge.known[source] = name
            elif edge.kind is EdgeKind.SLOT:
                self.slot_edge.known[source] = (name, target)
            elif edge.kind is EdgeKind.CALL_RETURN:
                self.return_point.known[source] = cfg.blocks[edge.target].start
                self.return_edges.known.setdefault(target, []).append((source, name))

    @cached_property
    def call_blocks(self) -> dict[int, int]:
        """Return address of each call -> its block, for those that lie where their block ends."""
        graphs, code = self.recovered.arrays, self.recovered.code
        blocks = np.flatnonzero(graphs.block_length >= 2)
        ends = graphs.block_start[blocks] + 4 * graphs.block_length[blocks]
        is_call = IS_CALL[code.transfers.kind[(ends - 8 - code.base) >> 2]]
        return dict(zip(ends[is_call].tolist(), blocks[is_call].tolist(), strict=True))

    def between(self, source: int, target: int) -> dict[EdgeKind, int]:
        """Return the edges from block `source` to block `target`, by kind."""
        number = self.routine(source)
        cfg = self.recovered.routines[number]
        base, edge_base = int(self.first_block[number]), int(self.first_edge[number])
        if not base <= target < base + len(cfg.blocks):
            return {}
        leaving = map(cfg.edges.__getitem__, cfg.out_edges[source - base])
        return {edge.kind: edge_base + edge.id for edge in leaving if edge.target == target - base}

    def routine(self, block: int) -> int:
        """Return the number of the routine that `block` belongs to."""
        return int(self.routine_of_block[block])

    def starts_routine(self, block: int) -> bool:
        """Whether `block` is where its routine starts."""
        graphs = self.recovered.arrays
        return bool(graphs.block_start[block] == graphs.addresses[self.routine(block)])

    def block_start(self, block: int) -> int:
        """Address of the first instruction of `block`."""
        return int(self.recovered.arrays.block_start[block])

    def block_end(self, block: int) -> int:
        """Address after the last instruction of `block`."""
        graphs = self.recovered.arrays
        return int(graphs.block_start[block]) + 4 * int(graphs.block_length[block])

    def enter(self, address: int, cross: Callable[[Sequence[Step]], None]) -> bool:
        """Cross the ENTRY edge to the block at `address`; False where there is none."""
        edge = self.entry_edge.get(self.block_at(address))
        if edge is None:
            return False
        cross((Cross(edge),))
        return True

    def find(self, source: int, target: int, kind: EdgeKind) -> int | None:
        """Edge from `source` to `target`, of `kind` where there are several."""
        kinds = self.between(source, target)
        return kinds.get(kind, next(iter(kinds.values()))) if kinds else None

    def block_at(self, address: int) -> int:
        """Return the block that starts at `address`, or UNKNOWN."""
        word = (address - self.recovered.code.base) >> 2
        return self._block_at[word] if 0 <= word < len(self._block_at) else UNKNOWN

    def call_block(self, return_address: int) -> int:
        """Return the block whose last call returns to `return_address`, or UNKNOWN."""
        block = self.call_blocks.get(return_address, UNKNOWN)
        return self.call_blocks.get(return_address - 4, UNKNOWN) if block == UNKNOWN else block

    def return_edge_to(self, address: int) -> tuple[int, int] | None:
        """(call block, call-return edge) of the call that returns to `address`, or None."""
        candidates = self.return_edges.get(self.block_at(address))
        for source, edge in candidates or ():
            if address - self.block_end(source) in (0, 4):
                return source, edge
        return None


class Walker:
    """Says what the execution of an instruction means in the graphs of one program.

    Blocks and edges are those of `docs/SEMANTICS.md`. The walker has no memory of its own: whatever
    it must know of one instruction when the next one executes is in the `WalkContext` that it
    returns.
    """

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        code = index.recovered.code
        self._base = code.base
        self._kinds = np.ascontiguousarray(code.transfers.kind).data
        self._annulled = np.ascontiguousarray(code.transfers.annulled).data
        self._targets = code.transfers.target
        self._block_at = index.block_at

    def kind(self, address: int) -> int:
        """Return the `TransferKind` of the instruction at `address`."""
        return self._kind(address)

    def target(self, address: int) -> int:
        """Return where the direct transfer at `address` leads."""
        return self._target(address)

    def annuls(self, address: int) -> bool:
        """Whether the branch at `address` has its annul bit set."""
        return bool(self._annulled[self._word(address)])

    def _word(self, address: int) -> int:
        return (address - self._base) >> 2

    def _kind(self, address: int) -> int:
        word = self._word(address)
        return self._kinds[word] if 0 <= word < len(self._kinds) else TransferKind.NONE

    def _target(self, address: int) -> int:
        return int(self._targets[self._word(address)])

    def _delays(self, address: int) -> bool:
        return bool(HAS_DELAY_SLOT[self._kind(address)])

    def step(self, context: WalkContext, address: int) -> tuple[list[Step], WalkContext]:
        """Execute the instruction at `address` after `context`.

        Returns
        -------
        list of Step, WalkContext
            What the program did between the two instructions, in order, and what is known after
            the second one.

        Raises
        ------
        UnsupportedError
            If a control transfer is executed in the delay slot of another.
        """
        steps: list[Step] = []
        block = context.block
        if context.pending >= 0 and not context.slot_seen:
            taken = self._slot(context, address, steps)
            if taken is not None:
                return steps, taken
            block = self._without_slot(context, address, steps)
        elif context.pending >= 0:
            block = self._transfer(self.behind_slot(context, steps), address, steps)
        elif address != context.last + 4:
            steps.append(Land(address, block, returned=False))
            block = self._block_at(address)
        elif self._block_at(address) >= 0:
            block = self._arrive(block, address, EdgeKind.FALL_THROUGH, steps)
        pending = address if self._delays(address) else -1
        return steps, WalkContext(pending, False, block, address)

    def begin(self, address: int) -> tuple[list[Step], WalkContext]:
        """Execute the first instruction of the program."""
        steps: list[Step] = []
        block = self._enter(address, steps)
        pending = address if self._delays(address) else -1
        return steps, WalkContext(pending, False, block, address)

    def land(self, address: int) -> WalkContext:
        """Return the context after the instruction at `address`, whatever executed before it."""
        pending = address if self._delays(address) else -1
        return WalkContext(pending, False, self._block_at(address), address)

    def _slot(self, context: WalkContext, address: int, steps: list[Step]) -> WalkContext | None:
        """Execute the instruction at `address` as the delay slot of the pending transfer.

        Returns
        -------
        WalkContext or None
            The context behind it; None if the instruction is not that delay slot, because the
            transfer annulled it.
        """
        transfer = context.pending
        kind = self._kind(transfer)
        annulled = self._annulled[self._word(transfer)]
        if address != transfer + 4 or (annulled and kind != TransferKind.BRANCH):
            return None
        if self._delays(address):
            raise UnsupportedError(
                f"control transfer in the delay slot at {address:#x}: simprof cannot profile "
                "such couples; rebuild the program without them"
            )
        return WalkContext(transfer, True, context.block, address)

    def behind_slot(self, context: WalkContext, steps: list[Step]) -> WalkContext:
        """Cross the edge into the slot block that has executed, if the context is in one.

        No sooner: where a slot block's one instruction faults, nothing of it has executed.
        """
        if not context.slot_seen or context.block == UNKNOWN:
            return context
        if not self._annulled[self._word(context.pending)]:
            return context
        edge, block = self.index.slot_edge[context.block]
        steps.append(Cross(edge))
        return replace(context, block=block)

    def _without_slot(self, context: WalkContext, address: int, steps: list[Step]) -> int:
        """Follow a branch that annulled its delay slot; return the block that it leads to."""
        transfer = context.pending
        if self._kind(transfer) == TransferKind.BRANCH_ALWAYS:
            if address == self._target(transfer):
                return self._arrive(context.block, address, EdgeKind.TAKEN, steps)
        elif address == transfer + 8:
            return self._arrive(context.block, address, EdgeKind.FALL_THROUGH, steps)
        return self._lost(context, address, steps)

    def _lost(self, context: WalkContext, address: int, steps: list[Step]) -> int:
        """Arrive where the pending transfer cannot lead; return the block there."""
        steps.append(Land(address, context.block, returned=False))
        return self._block_at(address)

    def _transfer(self, context: WalkContext, address: int, steps: list[Step]) -> int:
        """Follow the pending transfer, whose delay slot has executed; return where it leads."""
        transfer, block = context.pending, context.block
        kind = self._kind(transfer)
        target = self._target(transfer)
        match kind:
            case TransferKind.BRANCH | TransferKind.BRANCH_ALWAYS | TransferKind.BRANCH_NEVER:
                if address == target and kind != TransferKind.BRANCH_NEVER:
                    return self._arrive(block, address, EdgeKind.TAKEN, steps)
                if address == transfer + 8:
                    return self._arrive(block, address, EdgeKind.FALL_THROUGH, steps)
            case TransferKind.CALL | TransferKind.INDIRECT_CALL | TransferKind.JUMP_AND_LINK:
                if kind == TransferKind.CALL and address == transfer + 8 == target:
                    return self._read_pc(block, address, steps)
                return self._call(block, transfer, address, steps)
            case TransferKind.RETURN | TransferKind.RETURN_JUMP:
                return self._return(block, address, steps)
            case TransferKind.JUMP:
                return self._jump(block, transfer, address, steps)
        return self._lost(context, address, steps)

    def _arrive(self, block: int, address: int, kind: EdgeKind, steps: list[Step]) -> int:
        """Go from `block` to the block at `address` by a direct transfer; return that block.

        If no edge leads there, control leaves the routine and enters the other one: a tail call.
        """
        target = self._block_at(address)
        if target == UNKNOWN:
            steps.append(MissingEntry(address, behind=block == UNKNOWN))
            return UNKNOWN
        if block == UNKNOWN:
            return target
        edge = self.index.find(block, target, kind)
        if edge is not None:
            steps.append(Cross(edge))
            return target
        self._leave(block, steps)
        return self._enter(address, steps)

    def _leave(self, block: int, steps: list[Step]) -> None:
        edge = self.index.exit_edge.get(block)
        if edge is not None:
            steps.append(Cross(edge))

    def _enter(self, address: int, steps: list[Step]) -> int:
        target = self._block_at(address)
        edge = self.index.entry_edge.get(target)
        steps.append(MissingEntry(address) if edge is None else Cross(edge))
        return target

    def _read_pc(self, block: int, address: int, steps: list[Step]) -> int:
        """Follow `call .+8`, which is no call but reads the program counter.

        The code goes on behind its delay slot, in another block if one starts there.
        """
        if self._block_at(address) == UNKNOWN or block == UNKNOWN:
            return block
        return self._arrive(block, address, EdgeKind.FALL_THROUGH, steps)

    def _call(self, block: int, call: int, address: int, steps: list[Step]) -> int:
        if block == UNKNOWN:
            steps.append(Push(call + 8))
        elif block in self.index.return_point:
            steps.append(Push(self.index.return_point[block]))
        else:
            self._leave(block, steps)
            if call in self.index.recovered.no_return_calls:
                steps.append(Push((call + 8) | 1))
        return self._enter(address, steps)

    def _return(self, block: int, address: int, steps: list[Step]) -> int:
        if block != UNKNOWN:
            self._leave(block, steps)
        call_and_edge = self.index.return_edge_to(address)
        if call_and_edge is None:
            steps.append(Land(address, block, returned=True))
            return self._block_at(address)
        steps += [Pop(), Cross(call_and_edge[1])]
        return self._block_at(address)

    def _jump(self, block: int, jump: int, address: int, steps: list[Step]) -> int:
        target = self._block_at(address)
        if block == UNKNOWN or target == UNKNOWN:
            steps.append(MissingTarget(jump, address))
            return target
        edge = self.index.find(block, target, EdgeKind.SWITCH)
        if edge is not None:
            steps.append(Cross(edge))
            return target
        elsewhere = self.index.routine(block) != self.index.routine(target)
        lands = elsewhere and not self.index.starts_routine(target)
        if lands and self.index.return_edge_to(address) is not None:
            return self._return(block, address, steps)  # longjmp, to behind setjmp
        if target not in self.index.entry_edge or block not in self.index.exit_edge:
            steps.append(MissingTarget(jump, address))
            return target
        self._leave(block, steps)
        return self._enter(address, steps)
