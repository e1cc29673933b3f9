"""A routine as SPARC assembly with its instrumentation in place, to audit costs by eye.

Original instructions carry their addresses; generated ones start with `+`. Every snippet is
headed by what it does in the papers' notation, where it is, and what it costs. An instruction in
a delay slot is indented by one more space.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from simprof.profiler.code.emission import (
    Emission,
    Piece,
    PieceKind,
    Stub,
    describe_edge,
    target_of,
)
from simprof.profiler.code.hash_routine import hash_costs, routine_name
from simprof.profiler.code.runtime_code import Routines, runtime_code
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.code.spilling import Edit
from simprof.profiler.code.writer import OTHER_COPY
from simprof.profiler.graphs.cfg import Block, ControlFlowGraph
from simprof.profiler.plan.actions import NoCode
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.reports.display import HEADING, UNFOLDED, brief, fold_lines
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Assembly, Instruction
from simprof.simulator.isa.decode import HAS_DELAY_SLOT
from simprof.simulator.isa.disassembly import Disassembler

WHERE = {
    "source-end": "at the end of its source",
    "target-top": "at the top of its target",
    "fall-through": "in line before its target",
    "before-target": "in line before its target",
    "stub": "in a stub",
    "block": "in the block",
}
HELD = {
    Addressing.ADDRESS: "holds a counter's address",
    Addressing.INDEX: "holds a counter's number",
}
# What code does without an action: it leads from a stub back to the routine's own code.
NO_ACTIONS = "jump only"
RUNTIME_HEADING = "run-time routines that this code calls, the same for all its routines:"


class InstrumentedRoutine(Struct, frozen=True):
    """What is shown of one routine."""

    number: int  # Of the routine among the recovered ones
    plan: InstrumentationPlan  # What is done
    code: RoutineCode  # That does it
    emission: Emission  # Where that code goes, and where its counters are
    alias: str | None = None  # By which other name it was selected; None: by its own.
    is_copy: bool = False  # Whether the code is that of a second copy of the routine


def render(
    recovered: ProgramGraphs, mode: str, routines: list[InstrumentedRoutine], width: int = UNFOLDED
) -> str:
    """Return the listings of `routines`, one paragraph each."""
    listings = (_Listing(recovered, mode, routine, width).lines() for routine in routines)
    return "\n".join("\n".join(fold_lines(lines, width)) + "\n" for lines in listings)


def called_routines(routines: Iterable[InstrumentedRoutine]) -> frozenset[str]:
    """Return the symbols of the run-time routines that the code of `routines` calls."""
    return frozenset(
        instruction.fixup.symbol
        for routine in routines
        for piece in routine.emission.pieces
        for instruction in piece.snippet.instructions
        if instruction.fixup is not None
    )


def generated_text(disassembler: Disassembler, instruction: Instruction) -> str:
    """Return the text of generated code: like the program's own, but where it names a place."""
    is_branch = instruction.word >> 30 == 0 and instruction.is_transfer
    if instruction.fixup is not None or is_branch:
        return instruction.text
    return disassembler.text(instruction.word, 0)


class _Listing:
    def __init__(
        self, recovered: ProgramGraphs, mode: str, shown: InstrumentedRoutine, width: int
    ) -> None:
        self._width = width
        self._recovered = recovered
        self._mode = mode
        self._shown = shown
        self._cfg: ControlFlowGraph = recovered.routines[shown.number]
        self._text = Disassembler(recovered.program.machine is not MachineKind.SPARCV8)
        self._slot_blocks = {block.start for block in self._cfg.blocks if block.is_slot}
        self._stubs: Mapping[int, Stub] = {
            transfer: stub for stub in shown.emission.stubs for transfer in stub.transfers
        }

    def lines(self) -> Iterator[str]:
        yield from self._head()
        slot = False
        for block in self._cfg.blocks:
            if block.is_slot:
                continue  # shown with the block whose branch it follows
            self._text.forget()
            yield f"  {self._cfg.name_of(block.id)}:"
            for address in range(block.start, block.end, 4):
                yield from self._at(address, block)
                yield from self._in_place(address, slot)
                slot = self._has_slot(address)
            if slot and block.end in self._slot_blocks:
                yield from self._in_place(block.end, slot)
            slot = False
            yield from self._behind(block.end)
        for stub in self._shown.emission.stubs:
            if stub.before is None:
                yield f"  stub {self._stub_name(stub)}, from {_origin(stub)}:"
                yield from self._stub_code(stub)
        yield from self._feet()

    def _head(self) -> Iterator[str]:
        code, plan, layout = self._shown.code, self._shown.plan, self._shown.code.layout
        name = brief(self._cfg.name, self._width - HEADING, self._shown.alias)
        yield (
            f"{name} at {self._cfg.address:#x}{', second copy' * self._shown.is_copy}: "
            f"mode {self._mode}, "
            f"{_count(code.count, 'instrumentation site')}, "
            f"{_count(code.static_instructions, 'instruction')}, {code.code_bytes} bytes"
        )
        if code.path_register is not None:
            kept = "" if plan.addressing is None else f", {HELD[plan.addressing]}"
            yield f"  path register: {code.path_register}{kept}"
        for register, word in code.spill.words.items():
            yield f"  spilled: {register.text}, kept at {word.base.text} - {-word.offset:#x}"
        if plan.table is CounterTable.ARRAY:
            yield f"  path counters: {plan.path_counters} at {layout.path_base:#x}"
        elif plan.table is CounterTable.HASH:
            yield f"  path counters: hash table at {layout.path_base:#x}"
        if plan.constants:
            yield f"  constants: {len(plan.constants)} at {layout.constants:#x}"
        for number, counter in enumerate(plan.named_counters, 1):
            yield f"  {counter}: counter at {layout.path_counter(-number):#x}"
        if plan.edge_counters:
            yield f"  event counters: {plan.edge_counters} at {layout.edge_base:#x}"

    def _at(self, address: int, block: Block) -> Iterator[str]:
        """Yield the code before an instruction, which may be another block's delay slot, too."""
        emission = self._shown.emission
        if address == block.start:
            before = [stub for stub in emission.stubs if stub.before == block.id]
            for piece in emission.before_label.get(address, ()):
                yield from self._piece(piece)
            for stub in before:
                yield f"   stub {self._stub_name(stub)} is reached here from {_origin(stub)}:"
                yield from self._stub_code(stub)
            if before or address in emission.before_label:
                yield f"   {address:#x} is reached here by transfers:"
        for piece in emission.at.get(address, ()):
            if piece.snippet.place.block == block.id:
                yield from self._piece(piece)

    def _behind(self, address: int) -> Iterator[str]:
        """Code behind the last instruction before code of others, which no block follows."""
        if not any(b.start == address for b in self._cfg.blocks if not b.is_slot):
            for piece in self._shown.emission.before_label.get(address, ()):
                yield from self._piece(piece)

    def _in_place(self, address: int, in_slot: bool) -> Iterator[str]:
        edit = self._shown.emission.edits.get(address)
        yield from () if edit is None else map(self._generated, edit.before)
        yield self._original(address, in_slot, edit)
        yield from () if edit is None else map(self._generated, edit.after)

    def _generated(self, instruction: Instruction) -> str:
        machine = self._recovered.program.machine
        text = Disassembler(machine is not MachineKind.SPARCV8).text(instruction.word, 0)
        return f"  +     {text}"

    def _original(self, address: int, in_slot: bool, edit: Edit | None) -> str:
        code = self._recovered.code
        index = code.index(address)
        if index < 0:
            return f"    {address:#x}  {' ' if in_slot else ''}(no code)"
        word = int(code.words[index])
        text = self._text.text(word if edit is None else edit.word, address)
        if edit is not None and edit.word != word:
            plain = Disassembler(self._recovered.program.machine is not MachineKind.SPARCV8)
            text += f"  ! in place of {plain.text(word, address)}"
        stub = self._stubs.get(address)
        sent = "" if stub is None else f"  ! now goes to stub {self._stub_name(stub)}"
        return f"    {address:#x}  {' ' if in_slot else ''}{text}{sent}"

    def _has_slot(self, address: int) -> bool:
        index = self._recovered.code.index(address)
        return index >= 0 and bool(HAS_DELAY_SLOT[self._recovered.code.transfers.kind[index]])

    def _stub_name(self, stub: Stub) -> int:
        return self._shown.emission.stubs.index(stub) + 1

    def _stub_code(self, stub: Stub) -> Iterator[str]:
        if stub.copied is not None:
            word = int(self._recovered.code.words[self._recovered.code.index(stub.copied)])
            self._text.forget()
            yield f"     copied  {self._text.text(word, stub.copied)}"
        for piece in stub.pieces:
            yield from self._piece(piece)

    def _piece(self, piece: Piece) -> Iterator[str]:
        snippet = piece.snippet
        actions = (action for action in snippet.actions if type(action) is not NoCode)
        does = "; ".join(map(str, actions)) or NO_ACTIONS
        yield f"  + {self._subject(piece)}: {does}"
        yield f"  + {_cost(piece)}, {WHERE[snippet.place.where]}"
        slot = False
        generated = Disassembler(self._recovered.program.machine is not MachineKind.SPARCV8)
        for instruction in snippet.instructions:
            text = self._resolved(generated_text(generated, instruction), piece)
            yield f"  +     {' ' if slot else ''}{text}"
            slot = instruction.is_transfer

    def _subject(self, piece: Piece) -> str:
        if piece.kind is PieceKind.EDGE:
            return f"edge {describe_edge(self._cfg, piece.number)}"
        return f"{piece.kind.value} {self._cfg.name_of(piece.number)}"

    def _resolved(self, text: str, piece: Piece) -> str:
        """Name the jump's target as the original code does."""
        words = text.split(" ")
        if words[-1] == OTHER_COPY:
            return f"{words[0]} after this edge's code in the other copy"
        starts = {f"block.{block.id}": block.start for block in self._cfg.blocks}
        if piece.kind is not PieceKind.EDGE or words[-1] not in ("exit", *starts):
            return text
        is_exit = words[-1] == "exit"
        target = self._outer_target(piece.number) if is_exit else starts[words[-1]]
        return f"{words[0]} {'where the transfer went' if target is None else hex(target)}"

    def _outer_target(self, edge: int) -> int | None:
        inner = target_of(self._cfg, edge)
        if inner is not None:
            return inner
        stub = next((s for s in self._stubs.values() if s.edge == edge), None)
        if stub is None:
            return None
        code = self._recovered.code
        target = int(code.transfers.target[code.index(stub.transfers[0])])
        return target if target > 0 else None

    def _feet(self) -> Iterator[str]:
        if not any(piece.snippet.hash_calls for piece in self._shown.emission.pieces):
            return
        words = self._shown.plan.key_words
        costs = hash_costs(self._recovered.program.machine, words)
        yield (
            f"  {routine_name(False, words)}: {costs.hit} instructions for a path that it has, "
            f"{costs.insert} for a new one, {costs.step} more for each other path that it passes"
        )
        yield (
            f"  {routine_name(True, words)}: {costs.remembered} for the path counted last, "
            f"otherwise {costs.back_edge_hit} or {costs.back_edge_insert}, and {costs.step} more "
            "for each"
        )


def _origin(stub: Stub) -> str:
    return ", ".join(f"{transfer:#x}" for transfer in stub.transfers) or "callers or stubs"


def _cost(piece: Piece) -> str:
    snippet = piece.snippet
    parts = []
    if snippet.jump_cost:
        parts.append(f"{snippet.jump_cost} for the jump")
    if snippet.elsewhere:
        parts.append(f"{snippet.elsewhere} in run-time routines")
    text = f"{_count(snippet.cost, 'instruction')} each time"
    text += f" ({', '.join(parts)})" if parts else ""
    if snippet.taken_cost:
        text += f", {snippet.taken_cost} more when the conditional part is executed"
    if snippet.hash_calls:
        text += ", and those of the hashing routine"
    return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def render_runtime(
    machine: MachineKind, called: Collection[str], more: Sequence[Routines] = ()
) -> str:
    """Return the paragraph with the routines whose symbols are in `called`, and those that these
    call; nothing for none.

    `more`: The run-time code of the scheme (`schemes.definition.SchemeCode.routines`).
    """
    disassembler = Disassembler(machine is not MachineKind.SPARCV8)
    assemblies = runtime_code(machine, more)
    calls = [call for assembly in assemblies for call in _calls(assembly)]
    reached, before = set(called), 0
    while len(reached) > before:
        before = len(reached)
        reached.update(target for name, target in calls if name in reached)
    shown = [line for each in assemblies for line in _listed(each, reached, disassembler)]
    return "\n".join([RUNTIME_HEADING, *shown]) + "\n" if shown else ""


def _symbols(assembly: Assembly) -> dict[int, str]:
    """Return the routines by address; one reaches from its symbol to the next one."""
    return {address: name for name, address in assembly.labels.items() if "." not in name}


def _calls(assembly: Assembly) -> Iterator[tuple[str, str]]:
    """Yield which routine calls which."""
    symbols, name = _symbols(assembly), ""
    for index, instruction in enumerate(assembly.instructions):
        address = assembly.base + 4 * index
        name = symbols.get(address, name)
        target = (address + 4 * instruction.word) & 0xFFFFFFFF
        if instruction.word >> 30 == 1 and target in symbols:
            yield name, symbols[target]


def _listed(
    assembly: Assembly, called: Collection[str], disassembler: Disassembler
) -> Iterator[str]:
    """Yield the lines of the called routines."""
    symbols = _symbols(assembly)
    is_called = in_slot = False
    for index, instruction in enumerate(assembly.instructions):
        address = assembly.base + 4 * index
        if address in symbols:
            is_called = symbols[address] in called
            if is_called:
                yield f"  {symbols[address]} at {address:#x}:"
        if is_called:
            slot = " " if in_slot else ""
            yield f"    {address:#x}  {slot}{disassembler.text(instruction.word, address)}"
        in_slot = instruction.is_transfer
