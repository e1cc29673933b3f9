"""From the words that the emulator executes to the edges that a program crosses.

The emulator reports translation blocks; control-flow graphs speak of basic blocks. `Walker.step`
moves a `WalkContext` (what is known after one instruction) over the next instruction and says which
steps the program took in between: edges crossed, calls pushed, returns popped. It is the only
reading of the event rules in the product; `automaton` calls it once per new transition.

Steps -> functions: delay slots and annulment (`_slot`), resolved transfers (`_transfer`), arrivals
at leaders (`_arrive`), calls (`_call`), returns (`_return`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from simprof.profiler.graphs.cfg import ENTRIES, EdgeKind
from simprof.profiler.graphs.packed import NUMBER_OF_KIND
from simprof.profiler.recovery.code_image import GeneratedCode
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.simulator.binary.dynamic import real_address
from simprof.simulator.binary.program import Platform
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, IS_CALL, TransferKind

UNKNOWN = -1


class Cross(Struct, frozen=True):
    """An edge is crossed; `edge` is its number in the whole program."""

    edge: int


class Push(Struct, frozen=True):
    """A call; bit 0 of `return_address` is set where the caller's path ends at the call."""

    return_address: int


class Pop(Struct, frozen=True):
    """A return to the address of the event."""


class Land(Struct, frozen=True):
    """Control arrives at an address, and only the stack of frames can tell in which activation."""

    address: int  # Where control arrives
    block: int  # The block that control left; UNKNOWN if it left none.
    # Whether control left the block by a return. Its EXIT edge has been crossed already then.
    returned: bool


class Stray(Land, frozen=True):
    """Control arrives where its transfer cannot lead: a signal's handler has changed npc."""


class MissingTarget(Struct, frozen=True):
    """The graph lacks the transfer from the indirect jump at `jump` to `target`."""

    # Of a call: that it returns there, too.

    jump: int
    target: int


class MissingEntry(Struct, frozen=True):
    """The graph lacks an entry at `address`."""

    address: int  # Where control arrived
    # Whether control came there through code that the graphs lack, too. Once the graphs have that
    # code, the address may turn out to be no entry at all.
    behind: bool = False
    # Whether it is a re-entry: an activation begins in the place of one that was left
    again: bool = False


class MissingReturn(Struct, frozen=True):
    """The call at `call` was taken as one that does not return, but did."""

    call: int


Missing = MissingTarget | MissingEntry | MissingReturn
Step = Cross | Push | Pop | Land | MissingTarget | MissingEntry | MissingReturn
_CROSSES = frozenset((Cross,))
# Transfers that may not be taken: the slot of `jmpl; rett` is the `rett`.
_UNDECIDED = (TransferKind.BRANCH, TransferKind.RETURN_FROM_TRAP)


def only_crosses(steps: Iterable[Step]) -> bool:
    """Whether nothing but edges is among `steps`, which is so nearly always."""
    return _CROSSES.issuperset(map(type, steps))


class WalkContext(NamedTuple):
    """What is known after an instruction."""

    pending: int  # address of a control transfer whose outcome is open, or -1
    slot_seen: bool  # whether its delay slot has executed
    block: int  # block that the instruction belongs to, by number in the whole program, or UNKNOWN
    last: int  # address of the instruction, or -1 before the first


BEGINNING = WalkContext(-1, False, UNKNOWN, -1)


class GraphIndex:
    """Edges and blocks of all routines under program-wide numbers."""

    # `entry_edge, exit_edge, slot_edge, return_edge`: By block, and at UNKNOWN: the ENTRY edge to
    # it, the EXIT edge behind it, that to the slot block behind it, and that to where the call at
    # its end returns; UNKNOWN where there is none.

    def __init__(self, recovered: ProgramGraphs) -> None:
        self.recovered = recovered
        graphs = recovered.arrays
        self.first_edge = graphs.first_edge
        self.first_block = np.asarray(recovered.first_block, np.int64)
        self.edge_count = int(self.first_edge[-1])
        self.block_count = graphs.block_count
        self.routine_of_block = np.repeat(np.arange(len(graphs)), np.diff(graphs.first_block))
        base = np.repeat(graphs.first_block[:-1], np.diff(graphs.first_edge))
        self.edge_source, self.edge_target = base + graphs.edge_source, base + graphs.edge_target
        self.entry_edge = self._by_block(self.edge_target, *ENTRIES)
        self.exit_edge = self._by_block(self.edge_source, EdgeKind.EXIT)
        self.slot_edge = self._by_block(self.edge_source, EdgeKind.SLOT)
        self.return_edge = self._by_block(self.edge_source, EdgeKind.CALL_RETURN)
        returns = self._of_kind(EdgeKind.CALL_RETURN)
        self.returns = returns[np.argsort(self.edge_target[returns], kind="stable")]
        self.returns_to = self.edge_target[self.returns].data
        self._block_at = np.ascontiguousarray(recovered.block_at).data
        self._routine = self.routine_of_block.data
        self._start = graphs.block_start.data
        self.block_ends = (graphs.block_start + 4 * graphs.block_length.astype(np.int64)).data
        self._place = recovered.code.place
        program = recovered.program
        self.is_bare = program.platform is Platform.LEON3
        self.generated = GeneratedCode(64 if program.is64 else 32, supervisor=self.is_bare)

    def _of_kind(self, *kinds: EdgeKind) -> npt.NDArray[np.int64]:
        numbers = [NUMBER_OF_KIND[kind] for kind in kinds]
        return np.flatnonzero(np.isin(self.recovered.arrays.edge_kind, numbers))

    def _by_block(self, blocks: npt.NDArray[np.int64], *kinds: EdgeKind) -> memoryview[int]:
        edges = self._of_kind(*kinds)
        found = np.full(self.block_count + 1, UNKNOWN, np.int64)  # the last one is for UNKNOWN
        found[blocks[edges][::-1]] = edges[::-1]  # of several, the first
        return found.data

    def close(self) -> None:
        """Let go of everything, when nobody asks for it any more."""
        vars(self).clear()

    @cached_property
    def call_blocks(self) -> dict[int, int]:
        """Return address of each call -> its block."""
        graphs, code = self.recovered.arrays, self.recovered.code
        blocks = np.flatnonzero(graphs.block_length >= 2)
        ends = graphs.block_start[blocks] + 4 * graphs.block_length[blocks]
        is_call = IS_CALL[code.transfers.kind[code.place.indices(ends - 8)]]
        found = dict(zip(ends[is_call].tolist(), blocks[is_call].tolist(), strict=True))
        # and those that return over data behind them
        sources, targets = self.edge_source[self.returns], self.edge_target[self.returns]
        start = graphs.block_start[targets]
        distance = start - graphs.block_start[sources] - 4 * graphs.block_length[sources]
        far = (distance < 0) | (distance > 4)
        return dict(zip(start[far].tolist(), sources[far].tolist(), strict=True)) | found

    @cached_property
    def leaving(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Edges between blocks, by source: those of block b are `edges[first[b]:first[b + 1]]`."""
        outside = [NUMBER_OF_KIND[kind] for kind in (*ENTRIES, EdgeKind.EXIT)]
        edges = np.flatnonzero(np.isin(self.recovered.arrays.edge_kind, outside, invert=True))
        source = self.edge_source[edges]
        first = np.zeros(self.block_count + 1, np.int64)
        np.cumsum(np.bincount(source, minlength=self.block_count), out=first[1:])
        return first, edges[np.argsort(source, kind="stable")]

    def routine(self, block: int) -> int:
        """Return the number of the routine that `block` belongs to."""
        return self._routine[block]

    def sets_context(self, block: int) -> bool:
        """Whether `block` is of a routine that goes on in another context: no jump is a call."""
        # glibc's for 32 bits do it by a jump, which may lead to where a coroutine begins.
        name = self.recovered.arrays.names[self.routine(block)]
        return name.lstrip("_") in ("setcontext", "swapcontext")

    def starts_routine(self, block: int) -> bool:
        """Whether `block` is where its routine starts."""
        graphs = self.recovered.arrays
        return bool(graphs.block_start[block] == graphs.addresses[self.routine(block)])

    def block_start(self, block: int) -> int:
        """Address of the first instruction of `block`."""
        return self._start[block]

    def block_end(self, block: int) -> int:
        """Address after the last instruction of `block`."""
        return self.block_ends[block]

    def enter(self, address: int, cross: Callable[[Sequence[Step]], None]) -> bool:
        """Cross the ENTRY edge to the block at `address`; False where there is none."""
        # Generated code is entered without one.
        if address in self.generated:
            return True
        edge = self.entry_edge[self.block_at(address)]
        if edge == UNKNOWN:
            return False
        cross((Cross(edge),))
        return True

    def find(self, source: int, target: int, kind: EdgeKind) -> int | None:
        """Edge from `source` to `target`, of `kind` where there are several."""
        first, edges = self.leaving
        leaving = edges[first[source] : first[source + 1]]
        found: list[int] = leaving[self.edge_target[leaving] == target].tolist()
        wanted, kinds = NUMBER_OF_KIND[kind], self.recovered.arrays.edge_kind
        of_kind = [edge for edge in found if kinds[edge] == wanted]
        if len(found) > 1 and of_kind:
            return of_kind[-1]
        return found[0] if found else None

    def block_at(self, address: int) -> int:
        """Return the block that starts at `address`, or UNKNOWN."""
        word = self._place.index(address)
        return self._block_at[word] if word >= 0 else UNKNOWN

    def call_block(self, return_address: int) -> int:
        """Return the block whose last call returns to `return_address`, or UNKNOWN."""
        block = self.call_blocks.get(return_address, UNKNOWN)
        return self.call_blocks.get(return_address - 4, UNKNOWN) if block == UNKNOWN else block

    def return_edge_to(self, address: int) -> tuple[int, int] | None:
        """(call block, call-return edge) of the call that returns to `address`, or None."""
        # Where none ends there, a call returns over data behind it, if it is the only one.
        block, ends = self.block_at(address), (address, address - 4)
        place = bisect_left(self.returns_to, block)
        found = []
        while place < len(self.returns_to) and self.returns_to[place] == block:
            edge = int(self.returns[place])
            found.append((int(self.edge_source[edge]), edge))
            if self.block_ends[found[-1][0]] in ends:
                return found[-1]
            place += 1
        return found[0] if len(found) == 1 else None

    def exit_behind_slot(self, context: WalkContext) -> int:
        """Return the EXIT edge that a return or jump takes whose delay slot is reached."""
        # UNKNOWN for others. It is the block's only edge, and its code stands before the transfer:
        # it has been crossed whether or not the instruction in the slot completes.
        if not context.slot_seen or context.block == UNKNOWN:
            return UNKNOWN
        word = self._place.index(context.pending)
        number = self._routine[context.block]
        cfg, block = self.recovered.routines[number], context.block - int(self.first_block[number])
        is_only = len(cfg.out_edges[block]) == 1
        if not is_only or self.recovered.code.transfers.kind[word] in _UNDECIDED:
            return UNKNOWN
        return self.exit_edge[context.block]

    @cached_property
    def return_blocks(self) -> frozenset[int]:
        """The blocks to which calls return."""
        return frozenset(self.returns_to)

    def target(self, edge: int) -> int:
        """Return the block to which `edge` leads, which is not EXIT."""
        return int(self.edge_target[edge])


class Walker:
    """Says what the execution of an instruction means in the graphs of one program."""

    # Blocks and edges are those of `docs/SEMANTICS.md`. The walker has no memory of its own:
    # whatever it must know of one instruction when the next one executes is in the `WalkContext`
    # that it returns.

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        code = index.recovered.code
        self._word = code.place.index
        self._kinds = np.ascontiguousarray(code.transfers.kind).data
        self._annulled = np.ascontiguousarray(code.transfers.annulled).data
        self._targets = code.transfers.target
        self._block_at = index.block_at
        self._generated = index.generated

    # Made when first asked for: native code decides most steps.

    @cached_property
    def _has_slot(self) -> bytes:
        return HAS_DELAY_SLOT[self.index.recovered.code.transfers.kind].tobytes()

    @cached_property
    def _is_notable(self) -> bytes:
        recovered = self.index.recovered
        notable = HAS_DELAY_SLOT[recovered.code.transfers.kind] | (recovered.block_at >= 0)
        return notable.tobytes()

    def annuls(self, address: int) -> bool:
        """Whether the branch at `address` has its annul bit set."""
        if address in self._generated:
            return self._generated[address].annulled
        return bool(self._annulled[self._word(address)])

    def kind(self, address: int) -> int:
        """Return the `TransferKind` of the instruction at `address`."""
        if address in self._generated:
            return self._generated[address].kind
        word = self._word(address)
        return self._kinds[word] if word >= 0 else TransferKind.NONE

    def target(self, address: int) -> int:
        """Return where the direct transfer at `address` leads."""
        if address in self._generated:
            return self._generated[address].target
        return int(self._targets[self._word(address)])

    def _delays(self, address: int) -> bool:
        if address in self._generated:
            return bool(HAS_DELAY_SLOT[self._generated[address].kind])
        word = self._word(address)
        return word >= 0 and self._has_slot[word] > 0

    def run(self, context: WalkContext, start: int, end: int) -> tuple[list[Step], WalkContext]:
        """Execute the instructions of [start, end) after `context`; results as those of `step`."""
        steps: list[Step] = []
        address = start
        while address < end:
            if context.pending < 0 and address == context.last + 4:
                notable = self._next_notable(address, end)
                if notable > address:
                    context = WalkContext(-1, False, context.block, notable - 4)
                    address = notable
                    continue
            more, context = self.step(context, address)
            steps += more
            address += 4
        return steps, context

    def _next_notable(self, address: int, end: int) -> int:
        """Return where in [address, end) a block begins, or a transfer with a delay slot stands."""
        # `end` if there is none: all of them only follow one another.
        word, count = self._word(address), (end - address) >> 2
        if word < 0 or self._word(end - 4) != word + count - 1 or address in self._generated:
            return address
        found = self._is_notable.find(1, word, word + count)
        return end if found < 0 else address + 4 * (found - word)

    def step(self, context: WalkContext, address: int) -> tuple[list[Step], WalkContext]:
        """Execute the instruction at `address` after `context`."""
        # Raises `UnsupportedError` if a control transfer is executed in the delay slot of another.
        steps: list[Step] = []
        block, made = context.block, self._generated
        if context.pending >= 0 and not context.slot_seen:
            taken = self._slot(context, address, steps)
            if taken is not None:
                return steps, taken
        if context.pending >= 0 and (context.pending in made or address in made):
            block = self._beside_graphs(self.behind_slot(context, steps), address, steps)
        elif context.pending >= 0 and not context.slot_seen:
            block = self._without_slot(context, address, steps)
        elif context.pending >= 0:
            block = self._transfer(self.behind_slot(context, steps), address, steps)
        elif real_address(address) != real_address(context.last + 4):
            moved = Land if context.last < 0 else Stray  # a context was set, or npc
            steps.append(moved(address, block, returned=False))
            block = self._block_at(address)
        elif self._block_at(address) >= 0:
            block = self._arrive(block, address, EdgeKind.FALL_THROUGH, steps)
        return steps, self._behind(address, block)

    def begin(self, address: int) -> tuple[list[Step], WalkContext]:
        """Execute the first instruction of the program."""
        steps: list[Step] = []
        block = self._enter(address, steps)
        return steps, self._behind(address, block)

    def land(self, address: int) -> WalkContext:
        """Return the context after the instruction at `address`, whatever executed before it."""
        return self._behind(address, self._block_at(address))

    def _behind(self, address: int, block: int) -> WalkContext:
        return WalkContext(address if self._delays(address) else -1, False, block, address)

    def _slot(self, context: WalkContext, address: int, steps: list[Step]) -> WalkContext | None:
        """Execute the instruction at `address` as the delay slot of the pending transfer."""
        transfer = context.pending
        kind = self.kind(transfer)
        is_next = real_address(address) == real_address(transfer + 4)
        if not is_next or (self.annuls(transfer) and kind != TransferKind.BRANCH):
            return None
        if self._delays(address):
            raise UnsupportedError(
                f"control transfer in the delay slot at {address:#x}: simprof cannot profile "
                "such couples; rebuild the program without them"
            )
        return WalkContext(transfer, True, context.block, address)

    def behind_slot(self, context: WalkContext, steps: list[Step]) -> WalkContext:
        """Cross the edge into the slot block that has executed, if the context is in one."""
        # No sooner: where a slot block's one instruction faults, nothing of it has executed.
        if not context.slot_seen or context.block == UNKNOWN:
            return context
        if not self._annulled[self._word(context.pending)]:
            return context
        edge = self.index.slot_edge[context.block]
        steps.append(Cross(edge))
        return context._replace(block=self.index.target(edge))

    def _without_slot(self, context: WalkContext, address: int, steps: list[Step]) -> int:
        """Follow a branch that annulled its delay slot; return the block that it leads to."""
        transfer = context.pending
        if self.kind(transfer) == TransferKind.BRANCH_ALWAYS:
            if real_address(address) == self.target(transfer):
                return self._arrive(context.block, address, EdgeKind.TAKEN, steps)
        elif address == transfer + 8:
            return self._arrive(context.block, address, EdgeKind.FALL_THROUGH, steps)
        return self._lost(context, address, steps)

    def _lost(self, context: WalkContext, address: int, steps: list[Step]) -> int:
        """Arrive where the pending transfer cannot lead; return the block there."""
        steps.append(Stray(address, context.block, returned=False))
        return self._block_at(address)

    def _transfer(self, context: WalkContext, address: int, steps: list[Step]) -> int:
        """Follow the pending transfer, whose delay slot has executed; return where it leads."""
        transfer, block = context.pending, context.block
        kind = self.kind(transfer)
        target = self.target(transfer)
        match kind:
            case TransferKind.BRANCH | TransferKind.BRANCH_ALWAYS | TransferKind.BRANCH_NEVER:
                if real_address(address) == target and kind != TransferKind.BRANCH_NEVER:
                    return self._arrive(block, address, EdgeKind.TAKEN, steps)
                if address == transfer + 8:
                    return self._arrive(block, address, EdgeKind.FALL_THROUGH, steps)
            case TransferKind.CALL | TransferKind.INDIRECT_CALL | TransferKind.JUMP_AND_LINK:
                if kind == TransferKind.CALL and address == transfer + 8 == target:
                    # It is no call but reads the program counter. The code goes on behind the
                    # delay slot, in another block if one starts there.
                    if self._block_at(address) == UNKNOWN or block == UNKNOWN:
                        return block
                    return self._arrive(block, address, EdgeKind.FALL_THROUGH, steps)
                return self._call(block, transfer, address, steps)
            case TransferKind.RETURN | TransferKind.RETURN_JUMP:
                return self._return(block, address, steps)
            case TransferKind.JUMP:
                return self._jump(block, transfer, address, steps)
        return self._lost(context, address, steps)

    def _beside_graphs(self, context: WalkContext, address: int, steps: list[Step]) -> int:
        """Follow the pending transfer from, to or within generated code; return where it leads."""
        # What is no call and no return between that and a routine is a tail call.
        transfer, block = context.pending, context.block
        kind, is_inside = self.kind(transfer), transfer in self._generated
        if kind in (TransferKind.RETURN, TransferKind.RETURN_JUMP):
            return self._return(block, address, steps)
        if IS_CALL[kind] and not (
            is_inside and real_address(address) == real_address(transfer + 8)
        ):
            return self._call(block, transfer, address, steps)
        if is_inside and address in self._generated:
            return UNKNOWN
        if is_inside and not self.index.starts_routine(self._block_at(address)):
            if self.index.return_edge_to(address) is not None:
                return self._return(block, address, steps)  # longjmp, to behind setjmp
        elif not is_inside and self.index.exit_edge[block] == UNKNOWN:
            steps.append(MissingTarget(transfer, address))
            return UNKNOWN
        self._leave(block, steps)
        return self._enter(address, steps)

    def _arrive(self, block: int, address: int, kind: EdgeKind, steps: list[Step]) -> int:
        """Go from `block` to the block at `address` by a direct transfer; return that block."""
        # If no edge leads there, control leaves the routine and enters the other one: a tail call.
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
        edge = self.index.exit_edge[block]
        if edge != UNKNOWN:
            steps.append(Cross(edge))

    def _enter(self, address: int, steps: list[Step]) -> int:
        target = self._block_at(address)
        edge = self.index.entry_edge[target]
        if edge != UNKNOWN:
            steps.append(Cross(edge))
        elif address not in self._generated:
            steps.append(MissingEntry(address))
        return target

    def _call(self, block: int, call: int, address: int, steps: list[Step]) -> int:
        if block == UNKNOWN:
            steps.append(Push(real_address(call + 8)))
        elif (edge := self.index.return_edge[block]) != UNKNOWN:
            steps.append(Push(self.index.block_start(self.index.target(edge))))
        else:
            self._leave(block, steps)
            if call in self.index.recovered.no_return_calls:
                steps.append(Push((call + 8) | 1))
        return self._enter(address, steps)

    def _return(self, block: int, address: int, steps: list[Step]) -> int:
        if block != UNKNOWN:
            self._leave(block, steps)
        call_and_edge = self.index.return_edge_to(address)
        if address in self._generated:
            steps.append(Pop())
            return UNKNOWN
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
        if elsewhere and self.index.sets_context(block):
            self._leave(block, steps)
            steps.append(Land(address, block, returned=True))
            return target
        lands = elsewhere and not self.index.starts_routine(target)
        if lands and self.index.return_edge_to(address) is not None:
            return self._return(block, address, steps)  # longjmp, to behind setjmp
        if UNKNOWN in (self.index.entry_edge[target], self.index.exit_edge[block]):
            steps.append(MissingTarget(jump, address))
            return target
        self._leave(block, steps)
        return self._enter(address, steps)
