"""A whole program with a scheme's code in its place: copies of its routines beside the old code.

What lies where: the segment begins with room for the new program header table, then come the table
of conditions (at a multiple of 1024), the other run-time routines, the copies, and the code that is
executed at the start and at the exit. Of the old code, one word changes at each place that can be
reached by its address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from simprof.profiler.code.codegen import Emission, RoutineCode, emit
from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.runtime_code import ROUTINES, Routines, restore_routine
from simprof.profiler.recovery.calls import CONTEXTS
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.rewriting.copies import copy_routine
from simprof.profiler.rewriting.draft import (
    CallPlaces,
    NotRewritableError,
    OldProgram,
    RoutineCopy,
    jump,
)
from simprof.profiler.rewriting.elsewhere.startup import ENTRY
from simprof.profiler.rewriting.jumps import TABLE_ALIGNMENT, computed_jumps
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, data_word, linked_code, linked_word
from simprof.simulator.isa.decode import HAS_DELAY_SLOT


@dataclass(frozen=True)
class Rewritten:
    """The new segment's code, and the words of the old code that change."""

    base: int  # Where the code begins
    code: bytes  # Its words, big-endian
    labels: Mapping[str, int] = field(repr=False)  # What is where in it
    patches: Mapping[int, int] = field(repr=False)  # Old address -> new word


class LabelAddresses(dict[str, int]):
    """Addresses of labels, and of what is named by an old address.

    `entry.ADDRESS` is where a copy is entered that stands for an old address, or that address
    itself where there is none; `old.ADDRESS` is always the old code.

    - `labels`: Those of the new segment.
    - `entries`: Old address by which a copy is entered -> its label.
    - `entry`: Where the program begins.
    """

    def __init__(self, labels: Mapping[str, int], entries: Mapping[int, str], entry: int) -> None:
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
    copies: Copies, items: Sequence[Item], base: int, labels: Mapping[str, int], entry: int
) -> Rewritten:
    """Put everything at its address, `base` and up.

    `labels`: Addresses of all labels among `items` (`assign_labels`). `entry`: Where the program
    begins.

    Raises
    ------
    AssemblyError
        Something is out of reach.
    """
    places = LabelAddresses(labels, copies.entries, entry)
    code = linked_code(items, base, places)
    return Rewritten(
        base, _with_distances(copies, code, base, labels), labels, _patches(copies, places)
    )


def _with_distances(copies: Copies, code: bytes, base: int, labels: Mapping[str, int]) -> bytes:
    """Return the code with the constants that thunks add the new return addresses to."""
    changed = bytearray(code)
    for copy in copies.routines.values():
        for constant, call, thunk in copy.thunk_calls:
            new = labels[call]
            for place, word in zip((labels[constant], new + 4), thunk.words(new), strict=True):
                changed[place - base : place - base + 4] = word.to_bytes(4, "big")
    return bytes(changed)


def _patches(copies: Copies, places: LabelAddresses) -> dict[int, int]:
    """Return the words of the old code that change."""
    patches: dict[int, int] = {}
    for copy in copies.routines.values():
        for address, label in copy.redirects.items():
            patches[address] = linked_word(jump(label), address, places)
        for site, target in copy.kept_calls.items():
            if target is not None and target in copies.entries:
                call = asm.call(copies.entries[target])
                patches[site] = linked_word(call, site, places)
    return patches


ALIGNMENT = 1024
"""Of the table of conditions, which comes first."""
_NOTHING = Emission({}, {}, ())


@dataclass(frozen=True)
class Copies:
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
    old = OldProgram(
        recovered.code,
        calls,
        recovered.call_aliases,
        recovered.no_return_calls,
        entry_label,
        unsure,
        _span(recovered),
        frozenset(s.address for s in recovered.program.symbols if s.name in CONTEXTS),
    )
    copies: dict[int, RoutineCopy] = {}
    for number, cfg in enumerate(recovered.routines):
        if number in left:
            continue
        context, code = contexts.of(number), codes.get(number)
        emission = _NOTHING if code is None else emit(cfg, context, code)
        try:
            copies[number] = copy_routine(number, cfg, context, emission, old)
        except NotRewritableError as reason:
            left[number] = str(reason)
    while clashing := _clashing(recovered, copies, left):
        left |= clashing
        copies = {number: copy for number, copy in copies.items() if number not in left}
    return Copies(copies, left)


def _span(recovered: ProgramGraphs) -> tuple[int, int]:
    """Return where the old code begins and ends, without stubs that are written later."""
    spans = recovered.program.code
    return min(span.start for span in spans), max(span.end for span in spans)


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
        if contexts.of(number).analysis is None:
            continue
        for jump_at in computed_jumps(recovered, cfg):
            if jump_at in targets:
                unsure[jump_at] = targets[jump_at]
            else:
                left[number] = f"nothing tells where the jump at {jump_at:#x} leads"
    return left, unsure


def entry_label(address: int) -> str:
    """Return the name of what is entered at an old address (`LabelAddresses`)."""
    return f"entry.{address:x}"


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
) -> list[Item]:
    """Return the code of the new segment, which must begin at a multiple of `ALIGNMENT`.

    Start and dump code may follow it; `simprof.entry` is the copy of the program's entry.

    `routines`: The scheme's run-time routines.
    """
    machine = recovered.program.machine
    items = list(restore_routine())
    items += [data_word(0)] * ((-size_of(items) % ALIGNMENT) >> 2)
    for routine in (*ROUTINES, *routines):
        items += routine(machine)
    for copy in copies.routines.values():
        items += copy.items
    items += _aligned(items, [t for copy in copies.routines.values() for t in copy.tables])
    return items


def _aligned(before: Sequence[Item], tables: Sequence[Sequence[Item]]) -> list[Item]:
    """Return jump tables, each at a multiple of `TABLE_ALIGNMENT`; `before` is in front of them."""
    items: list[Item] = []
    position = size_of(before)
    for table in tables:
        gap = -position % TABLE_ALIGNMENT
        items += [data_word(0)] * (gap >> 2)
        items += table
        position += gap + size_of(table)
    return items


def size_of(items: Iterable[Item]) -> int:
    """Return the bytes that items take."""
    return 4 * sum(isinstance(item, Instruction) for item in items)
