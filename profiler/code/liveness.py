"""Which registers are live where in a routine: backward data flow over its control-flow graph.

Terms: a register is *live* at a point if some path from there may read it before it is replaced.
Sets are masks as in `simprof.simulator.isa.effects`, in the window that is current at the point.

1. `code_facts` gives every word of a code image its effects (once a program).
2. `block_code` says where a block's instructions and its end transfer are.
3. `Liveness` solves live-in(b) = f_b(union of what b's out-edges need) in sweeps against the order
   of the code, in which only blocks take part that need more since the last one. `save` and
   `restore` rename registers, so f_b is not always a gen/keep pair.
4. `live_before` and `live_on_edge` answer for points inside blocks and between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simprof.profiler.code.registers import ABI64, ARGUMENTS, Abi, before_restore, before_save, mask
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.code_image import WordMap
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind, Transfers
from simprof.simulator.isa.effects import ALL, INS, LOCALS, Window, effects
from simprof.simulator.values import dataclass

# What a software trap hands to Linux: a system call's number and arguments.
TRAP_READS = ARGUMENTS | mask(Register.G1)

_KINDS = tuple(map(TransferKind, range(len(TransferKind))))
_CALLS = frozenset((TransferKind.CALL, TransferKind.INDIRECT_CALL))
_RETURNS = frozenset((TransferKind.RETURN_JUMP, TransferKind.RETURN))
_RETL = np.uint32(0x81C3E008)
_ADD_O7 = np.uint32(0x8003C000)  # add %o7, any, any
_SECOND_FORM = np.uint32(0xC1FFC000)
_TRAPS = frozenset((TransferKind.TRAP_ALWAYS, TransferKind.TRAP_CONDITIONAL))


@dataclass(frozen=True, eq=False)
class CodeFacts:
    """A code image with the effects of every word; arrays of shape (n,)."""

    place: WordMap
    words: npt.NDArray[np.uint32]
    transfers: Transfers
    reads: npt.NDArray[np.uint64]
    writes: npt.NDArray[np.uint64]
    names: npt.NDArray[np.uint64]
    window: npt.NDArray[np.uint8]
    entries: frozenset[int]
    thunks: Mapping[int, int]  # Entry of a program-counter thunk -> the registers that it names
    handed: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def kinds(self) -> bytes:
        """By word: the `TransferKind`."""
        return self.transfers.kind.astype(np.uint8).tobytes()

    @cached_property
    def shifts(self) -> bytes:
        """By word: what it does to the register window."""
        return self.window.tobytes()

    @cached_property
    def effects(self) -> tuple[memoryview, memoryview]:
        """By word: what it reads and what it replaces; words of these are soon read one by one."""
        return np.ascontiguousarray(self.reads).data, np.ascontiguousarray(self.writes).data

    @cached_property
    def moves(self) -> bytes:
        """By word: 1 where it moves the register window or %sp."""
        sets_sp = self.writes >> np.uint64(Register.SP) & np.uint64(1) == 1
        moves: npt.NDArray[np.bool_] = (self.window != 0) | sets_sp
        return moves.tobytes()

    @cached_property
    def names_stack(self) -> bytes:
        """By word: 1 where it adds a constant to %sp or %fp, to make an address or to access it."""
        base = self.words >> 14 & 31
        constant = (self.words >> 30 >= 2) & (self.words >> 13 & 1 == 1)
        named = constant & np.isin(base, (Register.SP, Register.FP))
        return bytes(named.astype(np.uint8))


def code_facts(
    words: npt.NDArray[np.uint32], place: WordMap, transfers: Transfers, entries: frozenset[int]
) -> CodeFacts:
    """Return the facts that liveness needs."""
    # `words`, `place`, `transfers`: A code image: uint32 words in native order, and where they lie.
    # `entries`: Addresses at which routines are entered that keep to the calling convention.
    reads, writes, names, window = effects(words)
    trap = (words >> 30 == 2) & (words >> 19 & 63 == 0x3A)
    reads = np.where(trap, names | np.uint64(TRAP_READS), reads)
    # Thunks are entries of the form `retl; add %o7, ...`.
    returns = (words[:-1] == _RETL) & (words[1:] & _SECOND_FORM == _ADD_O7)
    addresses = place.addresses(np.flatnonzero(returns)).tolist()
    volatile = ABI64.call_writes & ~mask(Register.O7)
    named = {a: int(names[place.index(a) + 1]) for a in addresses if a in entries}
    thunks = {address: names for address, names in named.items() if not names & volatile}
    return CodeFacts(place, words, transfers, reads, writes, names, window, entries, thunks)


@dataclass(frozen=True)
class BlockCode:
    """Where a block's code is."""

    # first, count: Index of its first word in the code image; its number of instructions.
    first: int
    count: int
    # Position in the block of the control transfer that ends it, None if it runs on
    transfer: int | None
    kind: TransferKind  # Of that transfer
    target: int  # Address that a direct transfer goes to, or -1


def block_code(cfg: ControlFlowGraph, facts: CodeFacts, block: int) -> BlockCode:
    """Locate the code of `block` and the transfer that ends it."""
    described = cfg.blocks[block]
    first = facts.place.index(described.start)
    count = described.instructions
    for position in (count - 1, count - 2):
        if position < 0 or described.is_slot:
            continue
        index = first + position
        kind = _KINDS[facts.kinds[index]]
        if kind is TransferKind.NONE or (position == count - 2 and not HAS_DELAY_SLOT[kind]):
            continue
        target = int(facts.transfers.target[index])
        if kind is TransferKind.CALL and target == facts.place.address(index) + 8:
            continue  # only reads the program counter
        return BlockCode(first, count, position, kind, target)
    return BlockCode(first, count, None, TransferKind.NONE, -1)


class Liveness:
    """Liveness of one routine."""

    # `cfg`: The routine; its blocks' addresses lie in the code image.
    # `facts`: The code image.

    def __init__(self, cfg: ControlFlowGraph, facts: CodeFacts, abi: Abi) -> None:
        self._cfg = cfg
        self.facts = facts
        self._abi = abi
        self.blocks = tuple(block_code(cfg, facts, b.id) for b in cfg.blocks)
        self._exits = {
            b.id: self._exit_live(self.blocks[b.id])
            for b in cfg.blocks
            if any(cfg.edges[e].target == cfg.exit for e in cfg.out_edges[b.id])
        }
        self._landing = [
            cfg.edges[e].target
            for e in cfg.out_edges[cfg.entry]
            if cfg.blocks[cfg.edges[e].target].start != cfg.address
        ]
        self._calls = {b for b, code in enumerate(self.blocks) if code.kind in _CALLS}
        self._return_points = {e.target for e in cfg.edges if e.kind is EdgeKind.CALL_RETURN}
        # _needs: what is live behind each block and its callee.
        self.live_in, self._needs = self._solve()
        self._inside: dict[int, tuple[int, ...]] = {}

    def live_before(self, block: int, position: int) -> int:
        """Return what is live before instruction `position` of `block` (its count: at the end)."""
        return self.live_in_block(block)[position]

    def live_in_block(self, block: int) -> tuple[int, ...]:
        """Return what is live before each instruction of `block`, and at its end."""
        live_sets = self._inside.get(block)
        if live_sets is None:
            code = self.blocks[block]
            behind = self._after_call(block, self._needs[block])
            live_sets = self._inside[block] = tuple(reversed(self._backwards(code, behind)))
        return live_sets

    def live_on_edge(self, edge: int) -> int:
        """Return what is live on an edge, past its source's transfer and delay slot."""
        described = self._cfg.edges[edge]
        if described.target == self._cfg.exit:
            return self._exits[described.source]
        return self.live_in[described.target]

    def positions(self, block: int, register: Register, written: bool) -> tuple[int, ...]:
        """Return where in `block` a register that no window has is read, or written."""
        code = self.blocks[block]
        effects = self.facts.effects[written][code.first : code.first + code.count]
        return tuple(at for at, each in enumerate(effects) if each >> register & 1)

    def transfer_word(self, block: int) -> int:
        """Return the instruction word of the control transfer that ends `block`; 0 if none does."""
        code = self.blocks[block]
        return 0 if code.transfer is None else int(self.facts.words[code.first + code.transfer])

    @cached_property
    def named(self) -> int:
        """Every register that the routine's code mentions."""
        names = 0
        for code in self.blocks:
            span = self.facts.names[code.first : code.first + code.count]
            names |= int(np.bitwise_or.reduce(span))
        return names

    @property
    def makes_calls(self) -> bool:
        """Whether some call comes back into the routine; thunks, which keep all, aside."""
        callers = self._calls.difference(self._exits)
        return any(self.blocks[b].target not in self.facts.thunks for b in callers)

    def _exit_live(self, code: BlockCode) -> int:
        # A return needs the ABI's result registers, a jump to a routine's entry its arguments (and
        # what its code reads, see `handed_over`), a call that does not return nothing more.
        kind = code.kind
        if kind in _RETURNS:
            # Thunks that hand over the program counter (`__sparc_get_pc_thunk.l7`) keep to no ABI:
            # their callers rely on every register that they do not name.
            return ALL if self._cfg.address in self.facts.thunks else self._abi.return_reads
        if kind in _CALLS:
            return self._abi.tail_reads if self._is_tail_call(code) else self._abi.call_reads
        if kind in _TRAPS or kind is TransferKind.ILLEGAL:
            return self._abi.reserved
        if kind in (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS) and (
            code.target in self.facts.entries
        ):
            return self._abi.tail_reads | self.facts.handed.get(code.target, 0)
        shifts = self.facts.shifts[code.first : code.first + code.count]
        if kind is TransferKind.JUMP and Window.RESTORE in shifts:
            return self._abi.tail_reads
        # A branch into the middle of another routine, or to what neither a symbol nor a call shows
        # to be an entry; an unresolved jump.
        return ALL

    def _is_tail_call(self, code: BlockCode) -> bool:
        """Whether a call's delay slot makes the callee return to this routine's caller."""
        slot, (_, writes) = code.first + code.count - 1, self.facts.effects
        return self.facts.shifts[slot] == Window.RESTORE or bool(writes[slot] & mask(Register.O7))

    def _backwards(self, code: BlockCode, live: int) -> list[int]:
        """Return what is live behind a block's code, given here, and before each instruction."""
        facts = self.facts
        reads, writes = facts.effects
        found = [live]
        for word in range(code.first + code.count - 1, code.first - 1, -1):
            live &= ~writes[word]
            if facts.shifts[word] == Window.SAVE:
                live = before_save(live)
            elif facts.shifts[word] == Window.RESTORE:
                live = before_restore(live)
            live |= reads[word]
            found.append(live)
        return found

    def _after_call(self, block: int, live: int) -> int:
        """Return what is live when the callee is entered, after the delay slot."""
        keep, need = self._call_effect(block)
        return live & keep | need

    def _call_effect(self, block: int) -> tuple[int, int]:
        """Return (keep, need): what a block's callee leaves live, and what it makes live."""
        if block not in self._calls or block in self._exits:
            return ALL, 0
        thunk = self.facts.thunks.get(self.blocks[block].target)
        if thunk is not None:
            return ALL, thunk
        return ALL & ~self._abi.call_writes, self._abi.call_reads

    def _effect(self, block: int) -> tuple[int, int] | None:
        """Return (keep, gen) of a block and its callee; None if it moves the register window."""
        code, (reads, writes) = self.blocks[block], self.facts.effects
        if any(self.facts.shifts[code.first : code.first + code.count]):
            return None
        keep, gen = self._call_effect(block)
        for word in range(code.first + code.count - 1, code.first - 1, -1):
            kept = ~writes[word]
            keep, gen = keep & kept, gen & kept | reads[word]
        return keep, gen

    def _solve(self) -> tuple[tuple[int, ...], list[int]]:
        """Return the least solution before and behind blocks: sets grow until none needs more."""
        cfg, exits, calls = self._cfg, self._exits, self._calls
        blocks = range(len(cfg.blocks))
        needs = [exits.get(block, 0) for block in blocks]  # so far, behind the block and its callee
        effects = [self._effect(block) for block in blocks]
        sources = [[cfg.edges[e].source for e in cfg.in_edges[block]] for block in blocks]
        leaving = calls.intersection(exits) if self._return_points else set[int]()
        landing = frozenset(self._landing if calls else ())
        live_in = [-1] * len(blocks)
        waiting = bytearray(b"\1") * len(blocks)
        while any(waiting):
            for block in reversed(blocks):
                if not waiting[block]:
                    continue
                waiting[block] = 0
                effect = effects[block]
                if effect is None:
                    live = self._after_call(block, needs[block])
                    live = self._backwards(self.blocks[block], live)[-1]
                else:
                    live = needs[block] & effect[0] | effect[1]
                if live == live_in[block]:
                    continue
                live_in[block] = live
                feeding: list[tuple[Iterable[int], int]] = [(sources[block], live)]
                # Blocks that are entered from outside in the middle of a routine (landing pads of
                # C++ exceptions) are successors of every call.
                if block in landing:
                    feeding.append((calls, live))
                # A call that does not return may come back through longjmp to where a setjmp of
                # this routine returned: the window's registers that are live at any return point
                # live here.
                if leaving and block in self._return_points:
                    feeding.append((leaving, live & (LOCALS | INS)))
                for others, more in feeding:
                    for source in others:
                        if source != cfg.entry and needs[source] | more != needs[source]:
                            needs[source] |= more
                            waiting[source] = 1
        return tuple(live_in), needs


def needs_place_after(kind: TransferKind, edge: EdgeKind) -> bool:
    """Whether code for `edge` cannot stand before the block's end: the block ends with a trap."""
    # Nothing crosses the EXIT edge behind an illegal instruction: whoever comes to it ends early.
    return kind is TransferKind.ILLEGAL or (kind in _TRAPS and edge is not EdgeKind.EXIT)


def handed_over(facts: CodeFacts, routines: Iterable[ControlFlowGraph], abi: Abi) -> dict[int, int]:
    """Return, by address, what is live at the entries of routines to which only branches lead."""
    # These are the least sets that hold for all of `routines` at once. Such a routine may be a part
    # of another, written in assembly, and get registers from it that the calling convention does
    # not name, as glibc's `__memcpy_large` gets %g4 and the flags. Where it is a compiled one, this
    # is what the convention names.
    asked = tuple(routines)
    handed = {cfg.address: 0 for cfg in asked}
    while True:
        known = replace(facts, handed=handed)
        found = {}
        for cfg in asked:
            targets = (cfg.edges[edge].target for edge in cfg.out_edges[cfg.entry])
            first = next(block for block in targets if cfg.blocks[block].start == cfg.address)
            found[cfg.address] = Liveness(cfg, known, abi).live_in[first]
        if found == handed:
            return found
        handed = found
