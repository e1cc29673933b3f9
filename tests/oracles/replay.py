"""How many instructions a scheme's code executes: the printed code, run along a logged run.

An oracle for `added` that takes from the product the listing (`simprof cfg --code`), the graphs
that name its edges, and the constants that plans have in memory, and nothing else. Steps come from
qemu-user's log (`steps`). Where a step passes a piece of code, the piece's printed instructions are
executed by the interpreter of `sparc_text`, on registers of the activation's own, and so are the
run-time routines that they call. So a conditional part counts where its branch leads into it, a
hash table fills as the program fills it, and a full trace buffer is flushed. One thing is added at
the end: the flush of what is left in the buffer.

Of the program's own instructions only those that move the register window or %sp are followed.
A block counts as executed as a whole, even where it ends early (docs/SEMANTICS.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from tests.oracles.listing import ListedRoutine, Listing, Piece
from tests.oracles.sparc_text import ADDRESSES_FILE, Machine, Program, TextError, signed
from tests.oracles.sparc_text import Activation as Registers
from tests.oracles.sparc_text import Step as Execute
from tests.oracles.steps import Kind, Step

STACK_TOP = 0xF000_0000
TRACE_END = 0x5000_E000
TRACE_BYTES = 8192
TRACE_POSITION = TRACE_END + 8
ADDRESSES_POSITION = 0x5001_2008
ADDRESSES_FLUSH = "address_flush"
BUCKETS = 512
WINDOW = re.compile(r"^(save|restore|return|rett)\b(.*)$")
MOVES = re.compile(r"^(add|sub) %sp, (-?(?:0x)?[0-9a-f]+), %sp$")


@dataclass
class Item:
    """Something that happens at a place: generated code, or a change of the window or of %sp."""

    position: int
    execute: Execute
    edge: int | None = None
    counted: bool = True


@dataclass
class Routine:
    """One routine's code by place: in blocks, and between them by edge."""

    graph: ControlFlowGraph
    blocks: list[list[Item]]
    between: dict[int, list[Item]]


@dataclass
class State:
    """One activation: where it is, and the edges whose code is still to come."""

    routine: Routine
    registers: Registers
    block: int = -1
    next: int = 0
    due: set[int] = field(default_factory=set)


class Replay:
    """Runs the code of one listing along steps.

    Attributes
    ----------
    machine
        After `run`: what was executed, and what is in memory.
    added
        Instructions by routine, the last flush of a trace not among them.
    trace, padding
        What was written, and how many bits of the last byte are no part of it.
    addresses
        What was written of addresses of data. Registers are none of the program's, nor are these.
    """

    def __init__(
        self,
        graphs: Sequence[ControlFlowGraph],
        listing: Listing,
        width: str,
        constants: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self.listing = listing
        self.machine = Machine(width == "v8", initial_words(listing, constants or {}))
        self.stack_top = STACK_TOP + (width == "v9")  # biased by 2047
        self.program = Program(listing.runtime, listing.symbols)
        self.routines = {
            graph.address: self._routine(graph, listing.routines[graph.address])
            for graph in graphs
            if graph.address in listing.routines
        }
        self.added: dict[int, int] = dict.fromkeys(self.routines, 0)
        self.states: dict[int, State] = {}
        self.trace, self.padding, self.addresses = b"", 0, b""

    # -- the code by place

    def _routine(self, graph: ControlFlowGraph, listed: ListedRoutine) -> Routine:
        edges = edge_names(graph)
        blocks = {hex(b.start): b.id for b in graph.blocks if not b.is_slot}
        made = Routine(graph, [[] for _ in graph.blocks], {})
        for piece in listed.pieces:
            code = self.program.add(piece.lines)
            if piece.kind != "edge":
                if piece.block is None or f"{piece.block}" != piece.subject:
                    raise TextError(f"{listed.name}: code of {piece.subject} at {piece.block}")
                made.blocks[blocks[piece.block]].append(Item(piece.position, code))
                continue
            edge = edges[piece.subject]
            if piece.where == "between":
                made.between.setdefault(edge, []).append(Item(0, code, edge))
            else:
                made.blocks[self._home(listed, piece, blocks)].append(
                    Item(piece.position, code, edge)
                )
        for block in graph.blocks:
            self._windows(listed, graph, block.id, made.blocks[block.id])
        return made

    @staticmethod
    def _home(listed: ListedRoutine, piece: Piece, blocks: Mapping[str, int]) -> int:
        if piece.block is None:
            raise TextError(f"{listed.name}: {piece.subject} is in no block")
        return blocks[piece.block]

    @staticmethod
    def _windows(
        listed: ListedRoutine, graph: ControlFlowGraph, number: int, items: list[Item]
    ) -> None:
        """Merge in what the block's own instructions do to the window; code stands before them."""
        block = graph.blocks[number]
        texts = _texts(listed, graph, number)[: block.instructions]
        for position, text in enumerate(texts):
            move = window_step(text)
            if move is not None:
                items.append(Item(position + 1, move, counted=False))
        items.sort(key=lambda item: (item.position, item.counted))

    # -- the run

    def run(self, steps: Sequence[Step]) -> int:
        """Follow all steps; return the number of generated instructions executed."""
        for step in steps:
            routine = self.routines.get(step.routine)
            if routine is not None:
                self._follow(routine, step)
        return self.machine.executed + self._last_flush()

    def _follow(self, routine: Routine, step: Step) -> None:
        before = self.machine.executed
        if step.kind is Kind.BEGIN:
            self.states[step.activation] = State(routine, Registers(self._fresh()))
        state = self.states[step.activation]
        self.machine.enter(state.registers)
        if step.kind is Kind.BEGIN or step.kind is Kind.CROSS:
            self._cross(state, step.what)
        elif step.kind is Kind.WAIT:
            self._advance(state, step.what)
        else:
            if step.kind is Kind.EXIT:
                self._cross(state, step.what)
            else:
                self._finish(state)
            del self.states[step.activation]
        self.added[step.routine] += self.machine.executed - before

    def _fresh(self) -> list[int]:
        """Registers of a new activation: nothing useful but the stack pointer."""
        rubbish = [0x5A5A_0001 * (k + 3) & self.machine.mask for k in range(33)]
        rubbish[0], rubbish[14], rubbish[30] = 0, self.stack_top, self.stack_top + 0x1000
        return rubbish

    def _cross(self, state: State, edge: int) -> None:
        graph = state.routine.graph
        target = graph.edges[edge].target
        state.due.add(edge)
        self._advance(state, None)
        if target == graph.exit or not graph.blocks[target].is_slot:
            self._between(state)
        state.block, state.next = target, 0
        if target == graph.exit:
            self._finish(state)
            return
        places = [k for k, item in enumerate(self._here(state)) if item.edge in state.due]
        if graph.edges[edge].kind is not EdgeKind.EXIT and places:
            self._items(state, places[-1] + 1)

    def _between(self, state: State) -> None:
        for edge in sorted(state.due):
            for item in state.routine.between.get(edge, ()):
                item.execute(self.machine)
                state.due.discard(edge)

    def _here(self, state: State) -> list[Item]:
        blocks = state.routine.blocks
        return blocks[state.block] if 0 <= state.block < len(blocks) else []

    def _advance(self, state: State, instructions: int | None) -> None:
        """Go on in the block: up to where so many instructions are executed; None: to its end."""
        items = self._here(state)
        end = len(items)
        if instructions is not None:
            size = state.routine.graph.blocks[state.block].instructions
            if instructions < size:
                end = sum(item.position < instructions + (not item.counted) for item in items)
        self._items(state, end)

    def _items(self, state: State, end: int) -> None:
        items = self._here(state)
        for item in items[state.next : end]:
            if item.edge is None:
                item.execute(self.machine)
            elif item.edge in state.due:
                item.execute(self.machine)
                state.due.discard(item.edge)
        state.next = max(state.next, end)

    def _finish(self, state: State) -> None:
        """Execute what an ended activation has crossed or begun, and not executed yet."""
        self._advance(state, None)
        self._between(state)
        blocks = state.routine.blocks
        for edge in sorted(state.due):
            for item in (item for items in blocks for item in items if item.edge == edge):
                item.execute(self.machine)

    def _last_flush(self) -> int:
        """Empty the buffer of what is left; return the instructions of that."""
        spent = 0
        if ADDRESSES_FLUSH in self.listing.symbols:
            left = signed(self.machine.words[ADDRESSES_POSITION], 32) + TRACE_BYTES
            written = len(self.machine.addresses)
            spent = self._flush(ADDRESSES_FLUSH) if left else 0
            self.addresses = bytes(self.machine.addresses[: written + left])
        name = next((s for s in self.listing.symbols if s.startswith("trace_flush")), None)
        if name is None:
            return spent
        units = 8 if name == "trace_flush_bits" else 1
        position = signed(self.machine.words[TRACE_POSITION], 32)
        left = position + units * TRACE_BYTES
        written = len(self.machine.written)
        spent += self._flush(name) if left else 0
        last_bytes = -(-left // units)
        self.padding = (8 // units) * (units * last_bytes - left)
        self.trace = bytes(self.machine.written[: written + last_bytes])
        return spent

    def _flush(self, name: str) -> int:
        before = self.machine.executed
        self.machine.enter(Registers(self._fresh()))
        self.program.add([f"call {name}", "nop"])(self.machine)
        spent, self.machine.executed = self.machine.executed - before, before
        return spent


def _texts(listed: ListedRoutine, graph: ControlFlowGraph, number: int) -> list[str]:
    """The block's own instructions; that of a slot block stands behind the branch's block."""
    block = graph.blocks[number]
    if not block.is_slot:
        return listed.originals[hex(block.start)]
    sources = {graph.edges[e].source for e in graph.in_edges[number]}
    for source in sources - {graph.entry}:
        before = graph.blocks[source]
        texts = listed.originals.get(hex(before.start), [])
        if before.end == block.start and len(texts) > before.instructions:
            return texts[before.instructions :]
    raise TextError(f"{listed.name}: the slot {block.start:#x} is not shown")


def window_step(text: str) -> Execute | None:
    """Return what an instruction does to the register window or %sp; None for nothing."""
    if found := WINDOW.match(text):
        if found[1] != "save":
            return lambda m: m.restore()
        size = re.match(r" %sp, (-(?:0x)?[0-9a-f]+), %sp$", found[2])
        change = int(size[1], 0) if size else -0x4000
        return lambda m: m.save(m.r[14] + change)
    if found := MOVES.match(text):
        change = int(found[2], 0) * (1 if found[1] == "add" else -1)

        def move(m: Machine) -> None:
            m.r[14] = m.r[14] + change & m.mask

        return move
    return None


def edge_names(graph: ControlFlowGraph) -> dict[str, int]:
    """How the listing names edges. Raises TextError where two have one name."""

    def name(vertex: int) -> str:
        if vertex >= len(graph.blocks):
            return "ENTRY" if vertex == graph.entry else "EXIT"
        block = graph.blocks[vertex]
        return f"slot {block.start:#x}" if block.is_slot else f"{block.start:#x}"

    found: dict[str, int] = {}
    for edge in graph.edges:
        kind = "" if edge.kind is EdgeKind.EXIT else f" ({edge.kind.value})"
        text = f"{name(edge.source)} -> {name(edge.target)}{kind}"
        found[text] = -1 if text in found else edge.id
    return found


def initial_words(listing: Listing, constants: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Memory before the run: empty hash tables and an empty trace buffer.

    A table begins with two nodes, {key, count, next}: the sentinel, and the dummy whose key no
    path has. Behind them are the addresses of the node counted last, at first the dummy, and of
    the next free node; then 512 heads of chains, at first the sentinel. A node has 8 bytes more
    than its key. `constants`: those of routines that have some, by the routine's address.
    """
    words: dict[int, int] = {}
    for address, routine in listing.routines.items():
        if routine.constants is not None:
            count, first = routine.constants
            numbered = zip(range(count), constants[address], strict=True)
            words.update({first + 4 * number: word for number, word in numbered})
        if routine.table is None:
            continue
        calls = {line for piece in routine.pieces for line in piece.lines if "hash_count" in line}
        sizes = {int((re.search(r"hash_count_(\d)", call) or ["", "1"])[1]) for call in calls}
        if len(sizes) > 1:
            raise TextError(f"{routine.name}: keys of {sizes} words in one table")
        key = sizes.pop() if sizes else 1
        _empty_table(words, routine.table, key)
    flush = {name for name in listing.symbols if name.startswith("trace_flush")}
    if flush:
        units = TRACE_BYTES * (8 if flush == {"trace_flush_bits"} else 1)
        words[TRACE_POSITION] = -units & 0xFFFFFFFF
    words[ADDRESSES_POSITION], words[ADDRESSES_POSITION + 4] = -TRACE_BYTES, ADDRESSES_FILE
    words[ADDRESSES_POSITION] &= 0xFFFFFFFF
    return words


def _empty_table(words: dict[int, int], table: int, key: int) -> None:
    node = 4 * key + 8
    for word in range(key):
        words[table + node + 4 * word] = 0xFFFFFFFF
    heads = table + 2 * node + 8
    words[heads - 8], words[heads - 4] = table + node, heads + 4 * BUCKETS
    for bucket in range(BUCKETS):
        words[heads + 4 * bucket] = table
