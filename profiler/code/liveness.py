"""Live registers in a routine: backward data flow over its control-flow graph.

Terms: a register is *live* at a point if some path from there may read it before it is replaced.
Sets are masks as in `simprof.simulator.isa.effects`, in the window that is current at the point.

Live-in(b) = f_b(union of what b's out-edges need) is solved by `sites_kernel.flows`. `save` and
`restore` rename registers, so f_b is not always a gen/keep pair. `live_before` and `live_on_edge`
answer for points inside blocks and between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from simprof.profiler.code import sites_kernel as k
from simprof.profiler.code.blocks import BlockCode, Placed, ProgramBlocks, RoutineFlow
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.effects import ALL


class BlockCodes(Sequence[BlockCode]):
    """Where the code of a routine's blocks is."""

    def __init__(self, program: ProgramBlocks, first: int, count: int) -> None:
        self._program, self._span = program, range(first, first + count)

    def __len__(self) -> int:
        return len(self._span)

    def __getitem__(self, block: int) -> BlockCode:  # type: ignore[override]
        return self._program.code(self._span[block])


class Liveness:
    """Liveness of routine number `number` of a program."""

    def __init__(self, cfg: ControlFlowGraph, program: ProgramBlocks, number: int) -> None:
        self._cfg, self._program, self._number = cfg, program, number
        self.facts = program.facts
        self._first = int(program.graphs.first_block[number])
        self.blocks = BlockCodes(program, self._first, len(cfg.blocks))
        self.flow: RoutineFlow = program.flow(number)
        self._inside: dict[int, tuple[int, ...]] = {}

    @property
    def live_in(self) -> Sequence[int]:
        """By block: what is live before it."""
        return self.flow.live_in

    def live_before(self, block: int, position: int) -> int:
        """Return what is live before instruction `position` of `block` (its count: at the end)."""
        return self.live_in_block(block)[position]

    def live_in_block(self, block: int) -> tuple[int, ...]:
        """Return what is live before each instruction of `block`, and at its end."""
        live_sets = self._inside.get(block)
        if live_sets is None:
            live_sets = self._inside[block] = tuple(reversed(self._backwards(block)))
        return live_sets

    def live_on_edge(self, edge: int) -> int:
        """Return what is live on an edge, past its source's transfer and delay slot."""
        described = self._cfg.edges[edge]
        if described.target == self._cfg.exit:
            return int(self._program.exits[self._first + described.source])
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

    @property
    def shared_slots(self) -> frozenset[int]:
        """See `RoutineContext.shared_slots`."""
        own = self._program.is_shared[self._first : self._first + len(self.blocks)]
        return frozenset(own.nonzero()[0].tolist())

    @cached_property
    def placed(self) -> Placed:
        """Where the code of its edges goes."""
        return self._program.placed(self._number)

    def placed_behind(self, slots: Iterable[int]) -> Placed:
        """Find where that goes if the code of some edges must not precede a delay slot."""
        return self._program.placed_behind(self._number, slots)

    @property
    def named(self) -> int:
        """Every register that the routine's code mentions."""
        return self.flow.named

    @property
    def makes_calls(self) -> bool:
        """Whether some call comes back into the routine; thunks, which keep all, aside."""
        ends = self._program.ends[self._first : self._first + len(self.blocks)]
        return bool((ends == k.CALL).any())

    def _backwards(self, block: int) -> list[int]:
        """Return what is live at a block's end and, from there, before each instruction."""
        code, facts, number = self.blocks[block], self.facts, self._first + block
        callee, end = int(self._program.callee[number]), int(self._program.ends[number])
        kept = ALL & ~self._program.abi.call_writes
        found = [k.after_call(self.flow.behind[block], kept, end, callee)]
        reads, writes = facts.effects
        for word in range(code.first + code.count - 1, code.first - 1, -1):
            shift = facts.shifts[word]
            found.append(k.before_word(found[-1], reads[word], writes[word], shift))
        return found


def handed_over(
    program: ProgramBlocks, cfgs: Sequence[ControlFlowGraph], numbers: Iterable[int]
) -> ProgramBlocks:
    """Return blocks where it is known what routines get to which only branches lead (`numbers`)."""
    # What is live at their entries are the least sets that hold for all of them at once. Such a
    # routine may be a part of another, written in assembly, and get registers from it that the
    # calling convention does not name, as glibc's `__memcpy_large` gets %g4 and the flags. Where it
    # is a compiled one, this is what the convention names.
    first: dict[int, tuple[int, int]] = {}
    for number in numbers:
        cfg = cfgs[number]
        own = (block for block in cfg.targets(cfg.entry) if cfg.blocks[block].start == cfg.address)
        first[number] = cfg.address, next(own)
    handed = {address: 0 for address, _ in first.values()}
    while True:
        known = program.handing(handed)
        flows = zip(first.values(), known.flows_of(tuple(first)), strict=True)
        found = {address: flow.live_in[block] for (address, block), flow in flows}
        if found == handed:
            return known
        handed = found
