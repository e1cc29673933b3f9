"""Facts of a routine for code generation: liveness, window, frame, free registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from simprof.profiler.code.application_registers import carried_registers
from simprof.profiler.code.blocks import (
    BRANCHES,
    CodeFacts,
    Placed,
    ProgramBlocks,
    are_among,
    code_facts,
    places_without_code,
    program_blocks,
)
from simprof.profiler.code.frames import (
    ARGUMENT_WORDS,
    EdgePlace,
    Frames,
    FrameState,
    Site,
    Slot,
    Where,
    slots,
)
from simprof.profiler.code.layout import STACK_REGISTERS
from simprof.profiler.code.liveness import Liveness, handed_over
from simprof.profiler.code.registers import abi, least_used, mask
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.recovery.idioms import PROLOGUE, PROLOGUE_MASK
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.request import RegisterUse
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.decode import TransferKind
from simprof.simulator.isa.effects import INTEGER


class RoutineAnalysis(Struct, frozen=True, eq=False, dict=True):
    """Data flow of one routine, made once."""

    cfg: ControlFlowGraph
    liveness: Liveness
    frames: Frames

    @property
    def busy(self) -> int:
        """Registers that are live at the top of some block in the routine's own window."""
        return self.liveness.flow.busy


_FREE = (0, 1, 0)  # No register is live, in the routine's own window.
_WHERE = (Where.SOURCE_END, Where.TARGET_TOP, Where.FALL_THROUGH, Where.STUB)


class RoutineContext:
    """Registers and places of one routine."""

    def __init__(
        self,
        machine: MachineKind,
        analysis: RoutineAnalysis | None,  # None: there is no code, and every register is free
        use: RegisterUse = RegisterUse.LIVENESS,  # Registers that code may take without saving them
        # Whether a routine calls this one: the system starts a program's first one, and puts the
        # program's arguments where a caller keeps words for its callee.
        has_caller: bool = True,
        carried: int = 0,  # Registers that the program keeps values in across calls (`Abi.carried`)
        # Says which registers `RegisterUse.STOLEN` takes from the program
        find_stolen: Callable[[], int] = int,
        spilled: int = 0,  # Those of them whose values the routine keeps elsewhere (`stolen`)
        behind_slots: frozenset[
            int
        ] = frozenset(),  # Edges whose code must not precede a delay slot
        freed: int = 0,  # Locals of its own window that are spilled, and free for code
    ) -> None:
        self.use = use
        self._freed = freed
        self.has_caller = has_caller
        self._find_stolen = find_stolen
        self.spilled = spilled
        self.behind_slots = behind_slots
        self.machine = machine
        self.is64 = machine is MachineKind.SPARCV9
        self.abi = abi(self.is64, carried)
        self.analysis = analysis
        self._placed: Placed | None = None
        self._places: dict[int, EdgePlace] = {}  # Those of `_placed` that were asked for
        # What snippets may use at sites, as far as that is known (`writer`)
        self.temporaries: dict[tuple[int, ...], tuple[Register, ...]] = {}
        self._sites: dict[tuple[int, int, int], Site] = {}
        self._slots: dict[tuple[int, int], tuple[Slot, ...]] = {}
        self._in_blocks: dict[int, tuple[Site, ...]] = {}
        self._others: dict[RegisterUse, RoutineContext] = {use: self}

    @classmethod
    def free(cls, is64: bool = True) -> RoutineContext:
        """Return the context of a routine without code (graph files): everything is free."""
        return cls(MachineKind.SPARCV9 if is64 else MachineKind.SPARCV8PLUS, None)

    def using(self, use: RegisterUse) -> RoutineContext:
        """Return the context of the same routine for code that takes other registers."""
        if use not in self._others:
            self._others[use] = self._with(use, 0, frozenset())
        return self._others[use]

    def spilling(self, registers: int, behind_slots: frozenset[int]) -> RoutineContext:
        """Return the context of the same routine where it keeps its values elsewhere."""
        return self._with(self.use, registers, behind_slots)

    def _with(self, use: RegisterUse, spilled: int, behind_slots: frozenset[int]) -> RoutineContext:
        return RoutineContext(
            self.machine,
            self.analysis,
            use,
            self.has_caller,
            self.abi.carried,
            lambda: self.stolen,
            spilled,
            behind_slots,
        )

    def freeing(self, freed: int) -> RoutineContext:
        """Return the context of the same routine where its spilled locals in `freed` are free."""
        if not freed:
            return self
        return RoutineContext(
            self.machine,
            self.analysis,
            self.use,
            self.has_caller,
            self.abi.carried,
            freed=freed,
        )

    @cached_property
    def stolen(self) -> int:
        """Registers that `RegisterUse.STOLEN` takes from the program."""
        return self._find_stolen()

    @cached_property
    def _withheld(self) -> int:
        """Registers that code has to save though they may be dead."""
        if self.use in (RegisterUse.LIVENESS, RegisterUse.SPILLED) or self.analysis is None:
            return 0
        if self.use is RegisterUse.SAVED:
            return INTEGER
        if self.use is RegisterUse.STOLEN:
            return INTEGER & ~self.stolen
        return INTEGER & ~(mask(*self.abi.caller_saved) & ~self.analysis.liveness.named)

    def before(self, block: int, position: int) -> Site:
        """Return the point before instruction `position` of `block`."""
        return self.free_site if self.analysis is None else self.sites(block)[position]

    def sites(self, block: int) -> tuple[Site, ...]:
        """Return the points before the instructions of `block`, and that at its end."""
        known = self._in_blocks.get(block)
        if known is None:
            assert self.analysis is not None
            live = self.analysis.liveness.live_in_block(block)
            states = self.analysis.frames.in_block(block)
            points = [(each, *state) for each, state in zip(live, states, strict=True)]
            known = self._in_blocks[block] = tuple(
                self._sites.get(point) or self._site(point) for point in points
            )
        return known

    def places_of(self, cfg: ControlFlowGraph) -> Placed:
        """Return where the code of all edges goes."""
        if self._placed is None:
            if self.analysis is None:
                self._placed = places_without_code(cfg)
            elif self.behind_slots:
                self._placed = self.analysis.liveness.placed_behind(self.behind_slots)
            else:
                self._placed = self.analysis.liveness.placed
        return self._placed

    def places(self, cfg: ControlFlowGraph, edges: Iterable[int]) -> dict[int, EdgePlace]:
        """Return where the code of some edges goes (`places`)."""
        where, on, blocks, positions, live, depth, lowered, *_ = self.places_of(cfg)
        known, sites, has_code = self._places, self._sites, self.analysis is not None
        found = {}
        for edge in edges:
            last = on[edge]
            place = known.get(last)
            if place is None:
                point = (live[last], depth[last], lowered[last]) if has_code else _FREE
                site = sites.get(point) or self._site(point)
                block: int | None = blocks[last]
                position: int | None = positions[last]
                if block == -1:
                    block = position = None
                place = known[last] = EdgePlace(_WHERE[where[last]], last, block, position, site)
            found[edge] = place
        return found

    @cached_property
    def shared_slots(self) -> frozenset[int]:
        """Blocks of one instruction: the delay slot of a transfer which goes on behind it."""
        # Branches lead to it, and the transfer's own fall-through or return point lies behind it.
        return frozenset() if self.analysis is None else self.analysis.liveness.shared_slots

    @cached_property
    def free_site(self) -> Site:
        """A point where every register is free."""
        return self._site(_FREE)

    def _site(self, point: tuple[int, int, int]) -> Site:
        """Return the point where some registers are live, at a depth, with %sp lowered so far."""
        live, depth, lowered = point
        state = FrameState(depth, lowered)
        spilled = self.spilled | (self._freed if depth else 0)
        kept = live & ~spilled | self._kept
        site = self._sites[point] = Site(kept, state, self.slots_at(state))
        return site

    @cached_property
    def _kept(self) -> int:
        """Registers that code leaves alone, or saves, wherever it is."""
        return self.abi.reserved | self._withheld

    def slots_at(self, state: FrameState) -> tuple[Slot, ...]:
        """Return the stack words that code can use where the frame has a state."""
        known = self._slots.get(state)
        if known is None:
            frame_size = None if self.analysis is None else self.analysis.frames.frame_size
            usable = state.depth or self.has_argument_words
            known = self._slots[state] = slots(state, frame_size, self.abi) if usable else ()
        return known

    @cached_property
    def has_argument_words(self) -> bool:
        """Whether code may save registers in the words that the routine's caller keeps."""
        # It does so before a routine's `save`, behind its `restore`, or in a leaf. What is named in
        # between does not matter.
        return 0 not in self._named_words

    @cached_property
    def argument_words(self) -> int:
        """How many of these words may keep path registers for as long as the routine is active."""
        return 0 if self._named_words else STACK_REGISTERS

    @cached_property
    def _named_words(self) -> frozenset[int]:
        """Depths at which these words are something else."""
        if self.analysis is None:
            return frozenset()
        if not self.has_caller:
            return frozenset({0})
        return self.analysis.frames.named_argument_words(self.abi)


class ProgramContexts:
    """The contexts of a program's routines, each made when first asked for."""

    def __init__(self, recovered: ProgramGraphs, chosen: Sequence[int] | None = None) -> None:
        # chosen: Routines that will be asked for, ascending; None: nobody knows.
        self._recovered, self._chosen = recovered, chosen
        self._known: dict[int, RoutineContext] = {}

    @cached_property
    def blocks(self) -> ProgramBlocks:
        """The code of the program's blocks."""
        recovered, rules = self._recovered, abi(self._recovered.program.is64, self.carried)
        program = program_blocks(self._words, recovered, rules, self._chosen)
        return handed_over(program, recovered.routines, self._only_branched_to())

    @cached_property
    def carried(self) -> int:
        """Registers that the program keeps values in across calls; no added code uses them."""
        return carried_registers(self._recovered, self._words)

    @cached_property
    def stolen(self) -> int:
        """Registers that code may take from the program (`RegisterUse.STOLEN`)."""
        code, facts = self._recovered.code, self._words
        is_code = code.is_code
        reads, writes = facts.reads[is_code], facts.writes[is_code]
        return least_used(reads, writes, self._recovered.program.is64, self.carried)

    @cached_property
    def _words(self) -> CodeFacts:
        code = self._recovered.code
        return code_facts(code.words, code.place, code.transfers, self._conventional_entries())

    def _only_branched_to(self) -> list[int]:
        """Return the routines that begin with no `save` and to which only branches lead."""
        code = self._recovered.code
        kinds, is_one = code.transfers.kind, np.zeros(len(code.words) + 1, np.bool_)
        is_one[code.targets[are_among(kinds, BRANCHES)]] = True
        is_one[code.targets[kinds == TransferKind.CALL]] = False
        is_one[-1] = False  # what is not in the code
        first = code.place.indices(self._recovered.arrays.addresses)
        is_prologue = code.words[first] & PROLOGUE_MASK == PROLOGUE
        return np.flatnonzero(is_one[first] & ~is_prologue).tolist()

    def _conventional_entries(self) -> frozenset[int]:
        # Others were found where branches lead. They may be parts of one routine of assembly
        # without symbols, which hand each other registers that the calling convention does not
        # name.
        code, addresses = self._recovered.code, self._recovered.arrays.addresses
        is_called = np.zeros(len(code.words) + 1, np.bool_)
        is_called[code.targets[code.transfers.kind == TransferKind.CALL]] = True
        is_called[-1] = False  # what is not in the code
        named = {each.address for each in self._recovered.program.symbols if each.is_function}
        called = addresses[is_called[code.place.indices(addresses)]]
        return frozenset(named.intersection(addresses.tolist())).union(called.tolist())

    def of(self, routine: int) -> RoutineContext:
        """Return the context of routine number `routine`."""
        if routine not in self._known:
            self._known[routine] = RoutineContext(
                self._recovered.program.machine,
                self._analysis(routine),
                has_caller=routine not in self._on_arguments,
                carried=self.carried,
                find_stolen=lambda: self.stolen,
            )
        return self._known[routine]

    def _analysis(self, routine: int) -> RoutineAnalysis:
        cfg = self._recovered.routines[routine]
        liveness = Liveness(cfg, self.blocks, routine)
        return RoutineAnalysis(cfg, liveness, Frames(liveness))

    @cached_property
    def _on_arguments(self) -> frozenset[int]:
        """The routines that are entered while %sp is where the system puts it (`has_caller`)."""
        # `_start` of a program for gprof calls a PC thunk before it makes room on the stack
        recovered = self._recovered
        room = ARGUMENT_WORDS * (8 if recovered.program.is64 else 4)
        found: set[int] = set()
        targets = [recovered.program.entry]
        while targets:
            routine = recovered.routine_at(targets.pop())
            if routine < 0 or routine in found:
                continue
            found.add(routine)
            frames, codes = (made := self._analysis(routine)).frames, made.liveness.blocks
            for number, code in enumerate(codes):
                state = frames.after(number)
                if code.target >= 0 and state.depth == 0 and state.lowered < room:
                    targets.append(code.target)
        return frozenset(found)

    def forget(self, routine: int) -> None:
        """Free the context of routine number `routine`, which is large."""
        self._known.pop(routine, None)
