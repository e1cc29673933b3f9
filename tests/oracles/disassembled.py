"""Reading a program's blocks and edges from `objdump -d` and the log, to check recovered graphs.

docs/SEMANTICS.md, "Basic blocks" and "Edges", applied to the disassembler's text: nothing of the
product's decoder or recovery is used. What text alone does not tell comes from the log: where
indirect jumps went, and which calls returned. What neither tells (targets of a jump table that
this run did not take, whether a call that was not executed returns) is left to the product.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

from simprof.profiler.graphs.cfg import ENTRIES, ControlFlowGraph, EdgeKind
from tests.oracles.qemu import Trace

OBJDUMP = "sparc64-linux-gnu-objdump"
LINE = re.compile(r"^ +([0-9a-f]+):\t(\S+)(?:\s+(.*))?$")
TARGET = re.compile(r"(?:^|,\s*)(?:0x)?([0-9a-f]+)(?: <.*|\s*)$")
EXIT = "EXIT"

Name = tuple[int, bool]
"""Start of a block, and whether it is an annulled delay slot."""


@dataclass(frozen=True)
class Text:
    """One instruction as objdump prints it."""

    mnemonic: str
    operands: str

    @property
    def name(self) -> str:
        """The mnemonic without its suffixes."""
        return self.mnemonic.split(",")[0]

    @property
    def annuls(self) -> bool:
        return "a" in self.mnemonic.split(",")[1:]

    @property
    def target(self) -> int | None:
        """The address that a branch or call names."""
        found = TARGET.search(self.operands)
        return None if found is None else int(found[1], 16)

    @property
    def is_branch(self) -> bool:
        return (self.name[0] == "b" and self.name != "btst") or self.name.startswith("fb")

    @property
    def is_jump(self) -> bool:
        return self.name in ("jmp", "jmpl", "ret", "retl", "return", "rett")

    @property
    def is_indirect_call(self) -> bool:
        stores = self.name == "jmpl" and self.operands.endswith("%o7")
        return stores or (self.name == "call" and self.target is None)

    @property
    def is_trap(self) -> bool:
        return self.name == "ta"

    @property
    def is_illegal(self) -> bool:
        """Whether nothing is executed after it."""
        return self.name in ("illtrap", "unimp", ".word")


@dataclass
class Reading:
    """One routine: blocks by name with their lengths, and edges that must and that may be."""

    blocks: dict[Name, int] = field(default_factory=dict)
    edges: set[tuple[Name, Name | str]] = field(default_factory=set)
    possible: set[tuple[Name, Name | str]] = field(default_factory=set)


def disassemble(path: Path) -> dict[int, Text]:
    """Return all instructions of a program by address."""
    done = subprocess.run(
        [OBJDUMP, "-d", "-z", "--no-show-raw-insn", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {}
    for line in done.stdout.splitlines():
        if match := LINE.match(line):
            found[int(match[1], 16)] = Text(match[2], match[3] or "")
    return found


def successors(log: Trace) -> Mapping[int, set[int]]:
    """Where control went from each instruction, by its own doing."""
    found: dict[int, set[int]] = defaultdict(set)
    pc, breaks = log.pc.tolist(), log.breaks.tolist()
    for before, after, is_break in zip(pc, pc[1:], breaks[1:], strict=False):
        if not is_break:
            found[before].add(after)
    return found


def jumped_to(code: Mapping[int, Text], went: Mapping[int, set[int]]) -> AbstractSet[int]:
    """Return the addresses to which indirect jumps, returns among them, went."""
    slots = [a for a in went if a - 4 in code and code[a - 4].is_jump]
    return {target for slot in slots for target in went[slot]}


class Reader:
    """Reads one routine.

    Parameters
    ----------
    code, went
        From `disassemble` and `successors`.
    graph
        Says where the routine lies, where it is entered, and where its jump tables lead.
    landed
        From `jumped_to`.
    """

    def __init__(
        self,
        code: Mapping[int, Text],
        went: Mapping[int, set[int]],
        graph: ControlFlowGraph,
        landed: AbstractSet[int],
    ) -> None:
        self.code, self.went, self.graph = code, went, graph
        self.inside = {a for b in graph.blocks for a in range(b.start, b.end, 4)}
        self.leaders = {graph.address}
        for edge in graph.edges:
            if edge.target != graph.exit and edge.kind in (*ENTRIES, EdgeKind.SWITCH):
                self.leaders.add(graph.blocks[edge.target].start)
        self.landed = landed

    def read(self) -> Reading:
        """Find leaders until there are no more, then blocks and edges."""
        waiting, seen = list(self.leaders), set()
        while waiting:
            address = waiting.pop()
            if address in seen or address not in self.inside:
                continue
            seen.add(address)
            end = self._end(address, set())
            found = {t for t, _ in self._ways(end) if isinstance(t, int)} & self.inside
            self.leaders |= found
            waiting += found
        reading = Reading()
        for leader in sorted(seen):
            self._block(reading, leader)
        return reading

    def _end(self, address: int, leaders: set[int]) -> int:
        """The address of the instruction that ends the block at `address`."""
        while True:
            text = self.code[address]
            if self._is_transfer(text) or text.is_trap or text.is_illegal:
                return address
            if address + 4 in leaders or address + 4 not in self.inside:
                return address
            address += 4

    def _is_transfer(self, text: Text) -> bool:
        return text.is_branch or text.is_jump or text.name == "call"

    def _ways(self, end: int) -> list[tuple[int | str, str]]:
        """Where a block can go that ends with the instruction at `end`, and by what."""
        text = self.code[end]
        if text.is_illegal:
            return [(EXIT, "end")]
        if not self._is_transfer(text):
            return [(end + 4, "trap" if text.is_trap else "fall")]
        if text.is_branch:
            return self._branch(text, end)
        if text.name == "call" and text.target == end + 8:
            return [(end + 8, "taken")]  # it only reads the program counter
        if text.name == "call" or text.is_indirect_call:
            return self._call(end)
        if text.name in ("ret", "retl", "rett", "return"):
            return [(EXIT, "taken")]
        return [(t, "switch") for t in sorted(self.went.get(end + 4, ()))]

    def _branch(self, text: Text, end: int) -> list[tuple[int | str, str]]:
        assert text.target is not None
        kind = text.name.removeprefix("f")
        if kind == "bn":
            return [(end + 8, "fall")]
        if kind in ("b", "ba"):
            closes = self.code[end + 4].name == "restore" and not text.annuls
            if closes and text.target == self.graph.address:
                return [(EXIT, "taken")]  # the routine calls itself in its caller's place
            return [(text.target, "taken")]
        return [(text.target, "slot" if text.annuls else "taken"), (end + 8, "fall")]

    def _call(self, end: int) -> list[tuple[int | str, str]]:
        slot = self.code[end + 4]
        writes_link = slot.name == "restore" or slot.operands.endswith("%o7")
        if writes_link:
            return [(EXIT, "taken")]
        behind = self.code.get(end + 8)
        over = behind is not None and behind.name in ("unimp", "illtrap")
        # a callee may return behind the word that follows, which is data or never executed
        over |= end + 12 in self.landed and end + 8 not in self.went
        return [(end + 12 if over else end + 8, "call")]

    def _block(self, reading: Reading, leader: int) -> None:
        end = self._end(leader, self.leaders)
        text, name = self.code[end], (leader, False)
        transfers = self._is_transfer(text)
        skipped = text.annuls if transfers else False
        has_slot = transfers and not skipped
        reading.blocks[name] = (end - leader) // 4 + 1 + has_slot
        for target, way in self._ways(end):
            place: Name | str = (target, False) if target in self.inside else EXIT
            if way == "slot":
                slot = (end + 4, True)
                reading.blocks[slot] = 1
                reading.edges |= {(name, slot), (slot, place)}
            elif way in ("call", "trap"):
                self._maybe(reading, name, place, end)
            else:
                reading.edges.add((name, place))
        if transfers and text.is_jump and not text.is_indirect_call:
            self._maybe_more(reading, name)

    def _maybe(self, reading: Reading, name: Name, place: Name | str, end: int) -> None:
        """A call or trap goes on behind it, or control never comes back."""
        reading.possible |= {(name, place), (name, EXIT)}
        if self.code[end].is_trap and place != EXIT and place[0] in self.went.get(end, ()):
            reading.edges.add((name, place))

    def _maybe_more(self, reading: Reading, name: Name) -> None:
        """An indirect jump may have targets that this run did not take."""
        for edge in self.graph.edges:
            if edge.kind is EdgeKind.SWITCH and edge.source < len(self.graph.blocks):
                source = self.graph.blocks[edge.source]
                if (source.start, source.is_slot) == name and edge.target != self.graph.exit:
                    target = self.graph.blocks[edge.target]
                    reading.possible.add((name, (target.start, target.is_slot)))
        reading.possible.add((name, EXIT))


def check_graph(
    graph: ControlFlowGraph,
    code: Mapping[int, Text],
    went: Mapping[int, set[int]],
    landed: AbstractSet[int],
) -> None:
    """Compare a recovered graph with the reading. Raises AssertionError."""
    reading = Reader(code, went, graph, landed).read()

    def name(vertex: int) -> Name | str:
        if vertex == graph.exit:
            return EXIT
        return graph.blocks[vertex].start, graph.blocks[vertex].is_slot

    blocks = {name(b.id): b.instructions for b in graph.blocks}
    assert blocks == reading.blocks, graph.name
    edges = {(name(e.source), name(e.target)) for e in graph.edges if e.source != graph.entry}
    assert reading.edges <= edges, (graph.name, reading.edges - edges)
    extra = edges - reading.edges - reading.possible
    assert not extra, (graph.name, extra)


def check_graphs(
    path: Path, graphs: Sequence[ControlFlowGraph], log: Trace, executed: Iterable[int]
) -> int:
    """Compare the graphs of the routines at `executed` addresses; return how many there were."""
    code, went = disassemble(path), successors(log)
    landed, wanted = jumped_to(code, went), set(executed)
    chosen = [graph for graph in graphs if graph.address in wanted]
    for graph in chosen:
        check_graph(graph, code, went, landed)
    return len(chosen)
