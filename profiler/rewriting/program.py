"""A whole program with a scheme's code in its place: copies of its routines beside the old code.

A copy has its routine's blocks in the order of their addresses, so that what ran on into the next
block still does. Each is, in order: the way in where routines are entered by it (`entry`), the
top's label, its instructions with the code that belongs before them, its transfer with the delay
slot, the label of the return point (`back`), and the code of the edge to what it runs on into.
Behind the blocks come the stubs, and what cannot stand in line. All direct transfers go to copies.
Code that is entered by its old address is named with that address (`RoutineCopy.redirects`).

What lies where: the segment begins with room for the new program header table, then come the table
of conditions (at a multiple of 1024), the other run-time routines, the copies, and the code that is
executed at the start and at the exit. Of the old code, one word changes at each place that can be
reached by its address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.emission import Emission, Stub, emit
from simprof.profiler.code.runtime_code import ROUTINES, Routines, restore_routine
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.rewriting import jumps, placing
from simprof.profiler.rewriting.calls import CALLS, CallCopies, RoutineEntries, write_trap
from simprof.profiler.rewriting.draft import (
    ARITHMETIC,
    CallPlaces,
    Cause,
    CopyDraft,
    NotRewritableError,
    OldProgram,
    RoutineCopy,
    constant,
    entry_label,
    is_trap,
    jump,
    raw,
    reads_pc,
)
from simprof.profiler.rewriting.elsewhere.runtime import ENTRY
from simprof.simulator.isa import assembler
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind


class Rewritten(Struct, frozen=True):
    """The new segment's code, and the words of the old code that change."""

    base: int  # Where the code begins
    code: bytes  # Its words, big-endian
    labels: Mapping[str, int]  # What is where in it
    patches: Mapping[int, int]  # Old address -> new word


class LabelAddresses(dict[str, int]):
    """Addresses of labels, and of what is named by an old address.

    `entry.ADDRESS` is where a copy is entered that stands for an old address, or that address
    itself where there is none; `old.ADDRESS` is always the old code.
    """

    def __init__(self, labels: Mapping[str, int], entries: Mapping[int, str], entry: int) -> None:
        # labels: Those of the new segment.
        # entries: Old address by which a copy is entered -> its label.
        super().__init__(labels)
        self._entries, self._entry = entries, entry

    def __missing__(self, name: str) -> int:
        """Return the address of what is no label."""
        kind, _, text = name.partition(".")
        if name == ENTRY:
            kind, text = "entry", f"{self._entry:x}"
        if kind not in ("entry", "old"):
            raise KeyError(name)
        address = int(text, 16)
        label = self._entries.get(address) if kind == "entry" else None
        self[name] = address if label is None else self[label]
        return self[name]


def place_program(
    copies: Copies,
    items: Sequence[assembler.Item],
    base: int,
    labels: Mapping[str, int],
    entry: int,
) -> Rewritten:
    """Put everything at its address, `base` and up; AssemblyError if something is out of reach."""
    # labels: Addresses of all labels among `items` (`assign_labels`).
    places = LabelAddresses(labels, copies.entries, entry)
    code = bytearray(assembler.linked_code(items, base, places))
    patches: dict[int, int] = {}
    for copy in copies.routines.values():
        # the constants that thunks add the new return addresses to
        for loaded, call, thunk in copy.thunk_calls:
            new = labels[call]
            for place, word in zip((labels[loaded], new + 4), thunk.words(new), strict=True):
                code[place - base : place - base + 4] = word.to_bytes(4, "big")
        for address, label in copy.redirects.items():
            patches[address] = assembler.linked_word(jump(label), address, places)
        for site, target in copy.kept_calls.items():
            if target is not None and target in copies.entries:
                direct = asm.call(copies.entries[target])
                patches[site] = assembler.linked_word(direct, site, places)
    return Rewritten(base, bytes(code), labels, patches)


ALIGNMENT = 1024  # Of the table of conditions, which comes first
_NOTHING = Emission({}, {}, ())


class Copies(Struct, frozen=True, dict=True):
    """The routines that were copied, and those that were left alone."""

    routines: Mapping[int, RoutineCopy]  # Routine number -> its copy
    left: Mapping[int, str]  # Routine number -> why it keeps its old code only

    @cached_property
    def entries(self) -> dict[int, str]:
        """Old address by which a copy is entered -> its label."""
        return {
            address: label
            for copy in self.routines.values()
            for address, (label, _) in copy.entries.items()
        }


def copy_routines(
    recovered: ProgramGraphs,
    contexts: ProgramContexts,
    codes: Mapping[int, RoutineCode],
    calls: CallPlaces,
    shown: Iterable[tuple[int, int]] = (),
) -> Copies:
    """Copy all routines that can be copied, those in `codes` with the code of a scheme.

    Routines are left alone that may jump into themselves by a jump of which nothing tells where it
    leads: they would execute old code, and not be counted. If a run has shown that, `shown` has
    (jump, target), and the copy tests before the jump whether it leads to one of these.
    """
    unforeseen, unsure = _unforeseen(recovered, contexts, shown)
    left = dict(_not_copied(recovered)) | unforeseen
    old = OldProgram(recovered, calls, unsure)
    copies: dict[int, RoutineCopy] = {}
    for number, cfg in enumerate(recovered.routines):
        if number in left:
            continue
        context, code = contexts.of(number), codes.get(number)
        try:
            copies[number] = _copy(number, cfg, context, code, old)
        except NotRewritableError as reason:
            left[number] = str(reason)
    while clashing := _clashing(recovered, copies, left):
        left |= clashing
        copies = {number: copy for number, copy in copies.items() if number not in left}
    return Copies(copies, left)


def _copy(
    number: int,
    cfg: ControlFlowGraph,
    context: RoutineContext,
    code: RoutineCode | None,
    old: OldProgram,
) -> RoutineCopy:
    """Copy a routine once, or twice where its code has a second copy; NotRewritableError if that
    cannot be done with certainty.
    """
    emission = _NOTHING if code is None else emit(cfg, context, code)
    if code is None or code.copy is None:
        return RoutineCopier(number, cfg, context, emission, old).make()
    bodies = emission, emit(cfg, context, code.copy)
    first = RoutineCopier(number, cfg, context, emission, old, bodies)
    second = RoutineCopier(number, cfg, context, bodies[1], old, bodies, first.landings)
    one, two = first.make(), second.make()
    entries = {edge.id for edge in cfg.edges if edge.source == cfg.entry}
    charges, others = (
        Counter(charge for charge in copy.charges if charge.edge not in entries)
        for copy in (one, two)
    )
    if charges != others:
        raise NotRewritableError("its two copies would not cost the same")
    one.items += two.items
    one.tables += two.tables
    one.thunk_calls += two.thunk_calls
    return one


def _not_copied(recovered: ProgramGraphs) -> dict[int, str]:
    """Return the routines that cannot be copied whatever their copies would be."""
    irregular = dict(recovered.irregular)
    found = {}
    for number, cfg in enumerate(recovered.routines):
        late = any(cfg.address in places for places in recovered.program.late_code)
        strange = [irregular[b.start + 4 * k] for b in cfg.blocks for k in range(b.instructions)
                   if b.start + 4 * k in irregular]  # fmt: skip
        if late:
            found[number] = "the program writes its code when it starts"
        elif strange:
            found[number] = strange[0]
    return found


def _unforeseen(
    recovered: ProgramGraphs, contexts: ProgramContexts, shown: Iterable[tuple[int, int]]
) -> tuple[dict[int, str], dict[int, frozenset[int]]]:
    """Return routines with jumps that may lead anywhere in them, and jumps that a run has shown."""
    targets: dict[int, frozenset[int]] = {}
    for jump_at, target in shown:
        targets[jump_at] = targets.get(jump_at, frozenset()) | {target}
    left: dict[int, str] = {}
    unsure: dict[int, frozenset[int]] = {}
    for number, cfg in enumerate(recovered.routines):
        analysis = contexts.of(number).analysis
        if analysis is None:
            continue
        words = (word for block in cfg.blocks for word in recovered.code.words_of(block))
        if not analysis.frames.has_window and any(map(placing.saves_register, words)):
            left[number] = placing.NO_WINDOW
        for jump_at in jumps.computed_jumps(recovered, cfg):
            if jump_at in targets:
                unsure[jump_at] = targets[jump_at]
            else:
                left[number] = f"the code does not show where the jump at {jump_at:#x} leads"
    return left, unsure


def _clashing(
    recovered: ProgramGraphs, copies: Mapping[int, RoutineCopy], left: Mapping[int, str]
) -> dict[int, str]:
    """Return routines whose old code would be changed where old code still executes."""
    code = recovered.code
    kept = {site for copy in copies.values() for site in copy.kept_calls}
    busy = kept | {site + 4 for site in kept}
    for number in left:
        for block in recovered.routines[number].blocks:
            for address in range(block.start, block.end, 4):
                if HAS_DELAY_SLOT[code.lists.kinds[code.index(address)]]:
                    busy.add(address + 4)
    return {
        number: f"the delay slot at {min(busy & copy.redirects.keys()):#x} is entered, too"
        for number, copy in copies.items()
        if busy & copy.redirects.keys()
    }


def program_items(
    recovered: ProgramGraphs, copies: Copies, routines: Sequence[Routines] = ()
) -> list[assembler.Item]:
    """Return the code of the new segment, which must begin at a multiple of `ALIGNMENT`.

    Start and dump code may follow it; `simprof.entry` is the copy of the program's entry.
    """
    machine = recovered.program.machine
    items = list(restore_routine())
    items += [assembler.data_word(0)] * ((-size_of(items) % ALIGNMENT) >> 2)
    for routine in (*ROUTINES, *routines):
        items += routine(machine)
    for copy in copies.routines.values():
        items += copy.items
    position = size_of(items)
    for table in (table for copy in copies.routines.values() for table in copy.tables):
        gap = -position % jumps.TABLE_ALIGNMENT
        items += [assembler.data_word(0)] * (gap >> 2)
        items += table
        position += gap + size_of(table)
    return items


def size_of(items: Iterable[assembler.Item]) -> int:
    """Return the bytes that items take."""
    return 4 * sum(isinstance(item, assembler.Instruction) for item in items)


class RoutineCopier:
    """Copies one routine."""

    def __init__(
        self,
        number: int,
        cfg: ControlFlowGraph,
        context: RoutineContext,
        emission: Emission,
        program: OldProgram,
        bodies: Sequence[Emission] = (),  # Of both copies, where there are two
        first: RoutineEntries | None = None,  # Of the first copy: this is the second
    ) -> None:
        body = (first is not None) if bodies else None
        self._draft = draft = CopyDraft(number, cfg, context, program, emission.spill, body)
        self._cfg = cfg
        self._scheme = placing.PlacedCode(draft, emission)
        self.landings = RoutineEntries(draft, self._scheme, first)
        self._calls = CallCopies(draft, self.landings)
        # Old address -> where the routine's entries lead; to no single place: return points
        ways_in: dict[int, str | None] = {
            block.start: self.landings.way_in(edge, block.id)
            for block in cfg.blocks
            for edge in draft.entry_edges(block.id)
        }
        # Of two copies neither can have the old words that jumps lead to.
        switched = {edge.target for edge in cfg.edges if bodies and edge.kind is EdgeKind.SWITCH}
        taken = {*self._calls.returned_to, *(draft.block(block).start for block in switched)}
        self._jumps = jumps.Jumps(draft, self._scheme, ways_in | dict.fromkeys(taken))
        self._keeps_words = self._scheme.keeps_words or any(map(placing.uses_stack_words, bodies))
        asked = len(self.landings.words) + bool(bodies and self._calls.returned_to)
        self._growth = placing.more_room(draft, self._keeps_words, asked)

    def make(self) -> RoutineCopy:
        """Return the copy; NotRewritableError if that cannot be done with certainty."""
        lined = [b for b in self._cfg.blocks if not b.is_slot and not self._is_apart(b)]
        for block, following in zip(lined, [*lined[1:], None], strict=True):
            self._entries(block)
            for stub in self._scheme.stubs:
                if stub.before == block.id:
                    self._stub(stub)
            self._draft.emit(assembler.Label(self._draft.block_label(block.id)))
            self._block(block)
            self._run_on(block, following)
        for block in self._cfg.blocks:
            is_left = not block.is_slot and self._is_apart(block)
            if is_left and block.start not in self._scheme.copied:
                self._apart(block)
        for stub in self._scheme.stubs:
            if stub.before is None:
                self._stub(stub)
        copy = self._draft.copy
        self._jumps.lead_from_old_code()
        for address, (label, _) in copy.entries.items():
            if address not in copy.returns:  # there the test of landings tells
                copy.redirect(address, label)
        return self._draft.finish()

    def _is_apart(self, block: Block) -> bool:
        """Whether a block is a delay slot, too, and so cannot stand in line."""
        return block.id in self._draft.context.shared_slots

    def _entries(self, block: Block) -> None:
        """Put the ways in before a block."""
        for edge in self._draft.entry_edges(block.id):
            self._scheme.write_head(edge, block)
            label = self.landings.way_in(edge, block.id)
            self._draft.copy.entries[block.start] = (label, edge)

    # -- blocks

    def _block(self, block: Block) -> None:
        code = self._draft.codes[block.id]
        transfer = None if code.transfer is None else block.start + 4 * code.transfer
        address = block.start
        while address < block.end:
            self._draft.emit(*self._scheme.at(block.id, address))
            edit = self._draft.spill.edits.get(address)
            if edit is not None:
                self._draft.emit(*edit.before)
            if address == transfer:
                self._transfer(block, address, code.kind, code.target)
                if address + 4 < block.end and self._scheme.at(block.id, address + 4):
                    raise NotRewritableError(
                        f"code is needed in the delay slot at {address + 4:#x}"
                    )
                return
            if address in self._draft.program.recovered.call_aliases:
                # `call .+8`: make the old address in %o7, then execute the slot
                between = self._scheme.at(block.id, address + 4)
                slot = self._plain(block, address + 4)
                if (edit := self._draft.spill.edits.get(address + 4)) is not None:
                    slot = [*edit.before, *slot, *edit.after]
                self._draft.emit(*constant(address, assembler.Register.O7), *between, *slot)
                self._draft.charge(Cause.PROGRAM_COUNTERS, 1, block=block.id, address=address)
                address += 8
                continue
            if jumps.is_flush(self._draft.word(address)):
                jumps.write_flush_check(self._draft, block, address)
            self._draft.emit(*self._calls.before(block, address), *self._plain(block, address))
            self._draft.emit(*(() if edit is None else edit.after))
            address += 4

    def _plain(self, block: Block, address: int) -> list[assembler.Instruction]:
        """Return an instruction that is no transfer; `rd %pc` reads the old address."""
        draft, word = self._draft, self._draft.word(address)
        if word >> 30 != ARITHMETIC:
            return [raw(word)]
        if self._growth and placing.is_save(word):
            code = placing.larger_save(word, self._growth)
            cleared = self.landings.nothing_under_way()
            draft.charge(Cause.FRAMES, len(code) - 1, block=block.id, address=address)
            draft.charge(Cause.LANDINGS, len(cleared), block=block.id, address=address)
            return [*code, *cleared]
        if not reads_pc(word):
            return [raw(word)]
        draft.charge(Cause.PROGRAM_COUNTERS, 1, block=block.id, address=address)
        return list(constant(address, assembler.Register(word >> 25 & 31)))

    def _transfer(self, block: Block, address: int, kind: TransferKind, target: int) -> None:
        if kind in CALLS:
            self._calls.write(block, address, kind, target)
        elif kind in jumps.BRANCHES:
            jumps.write_branch(self._draft, self._scheme, block, address, kind, target)
        elif is_trap(kind):
            write_trap(self._draft, self.landings, block, address, self._keeps_words)
        elif kind in (TransferKind.COMPARE_BRANCH, TransferKind.TRAP_RETURN):
            raise NotRewritableError(f"the instruction at {address:#x} is not understood")
        elif kind is TransferKind.JUMP:
            self._jumps.write(block, address)
        else:
            word = self._draft.word(address)
            self._draft.emit(raw(word), *jumps.delay_slot(self._draft, address, kind))

    # -- what follows

    def _run_on(self, block: Block, following: Block | None) -> None:
        """Put the code of the edge to what the block runs on into, and go there."""
        draft = self._draft
        draft.emit(*self._scheme.tail(block.id))
        edge = draft.out(block.id, EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
        if self._scheme.jumps_over(block.id):
            return
        if edge is not None:
            is_next = following is not None and edge.target == following.id
            if following is None or not is_next or self._scheme.has_head(following):
                draft.emit(jump(draft.block_label(edge.target)))
                draft.charge(Cause.LINES, 1, edge=edge.id)
            return
        leaves = draft.out(block.id, EdgeKind.EXIT)
        if leaves is None or not self._falls_out(block):
            return
        # the block may end before its transfer's delay slot
        code = self._draft.codes[block.id]
        is_apart = bool(HAS_DELAY_SLOT[code.kind]) and code.transfer == block.instructions - 1
        onward = block.end + 4 * is_apart
        if draft.leaves_both_ways(block.id):
            draft.emit(jump(f"old.{onward:x}"))
            return
        draft.emit(jump(entry_label(onward)))
        if block.end - 4 not in draft.program.recovered.no_return_calls:
            draft.charge(Cause.LINES, 1, edge=leaves.id)
            draft.arrive(onward, edge=leaves.id)

    def _falls_out(self, block: Block) -> bool:
        """Whether the block's EXIT edge runs on into another routine."""
        kind = self._draft.codes[block.id].kind
        if kind in (TransferKind.NONE, TransferKind.BRANCH, TransferKind.BRANCH_NEVER):
            return True
        return is_trap(kind) and block.id not in self._draft.copy.endings

    # -- behind the blocks

    def _apart(self, block: Block) -> None:
        """Copy a delay slot to which branches lead, too."""
        draft = self._draft
        self._entries(block)
        draft.emit(assembler.Label(draft.block_label(block.id)), *self._plain(block, block.start))
        edge = draft.out(block.id, EdgeKind.FALL_THROUGH)
        if edge is None:
            raise NotRewritableError(f"the delay slot at {block.start:#x} ends a routine")
        draft.emit(jump(draft.block_label(edge.target)))
        draft.charge(Cause.LINES, 1, edge=edge.id)

    def _stub(self, stub: Stub) -> None:
        draft = self._draft
        draft.emit(assembler.Label(draft.label("stub", stub.edge)))
        if stub.copied is not None:
            for block in self._cfg.blocks:
                if block.start == stub.copied and not block.is_slot:
                    self._entries(block)
                    draft.emit(assembler.Label(draft.block_label(block.id)))
            draft.emit(raw(draft.word(stub.copied)))
        draft.emit(*self._scheme.items(stub.pieces))
