"""Counts of source lines: executions, base and added instructions, branches.

The program's file tells from which line each instruction was compiled. Without that file,
the profile's own lines are used, which are those of the starts of blocks.

Terms
-----
executions
    As gcov counts them: a line is the set of blocks that hold an instruction of it, and was
    executed as often as control entered this set from outside, plus as often as it went round
    within it, cycle by cycle. A line of which there are copies (inline functions, templates) has
    the sum of all.
base
    Instructions of the line that were executed: the sum of their executions.
added
    Instructions that the scheme added, charged to instructions as `code_counts` says.
placing
    How the code of a line lies: what its executions can be relied on for (`Placing`).
never executed
    Lines that have code, none of which ran: known from the program's file. Where the profile has
    some routines only, so have they.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from msgspec import Struct, field

from simprof.profiler.graphs.cfg import EdgeKind, VertexName
from simprof.profiler.profiles.code_counts import Branch, CodeCounts, code_counts
from simprof.profiler.profiles.profile import EdgeCount, RunMeasurement
from simprof.profiler.profiles.unwound import Exceptions
from simprof.profiler.request.library_sources import is_library_source
from simprof.simulator.binary.demangling import base_names, spellings
from simprof.simulator.binary.inlining import InlinedCopy, Inlining, read_inlining
from simprof.simulator.binary.program import Program, Range, SourceLine, Symbol
from simprof.simulator.isa.decode import NOP, TransferKind, decode_transfers

NO_PROGRAM = (
    "program file not found: only the lines where blocks start are known, and a block counts for "
    "the line where it starts"
)
NO_LINES = "the program has no line information (compile it with -g): counts are by address only"


# (bits, their values) of `mov` between registers, and of `srl` and `sra` by nothing
_MOVES = (
    (0xC1FFFFE0, 0x80100000),
    (0xC1F81FFF, 0x81300000),
    (0xC1F81FFF, 0x81380000),
)


class Placing(StrEnum):
    """How the code of a line lies, the first that applies; its words stand in every format."""

    # A compiler that optimises moves instructions between blocks, merges them and leaves some out,
    # so that what a line counts there may be another number than that of the source's executions.

    OWN = "own"  # Without optimisation: the count is the line's own
    # Without optimisation, nothing but jumps (`break`): other branches may have been led past.
    JUMPS = "jumps"
    # Optimised, and a part of it in a routine that it was inlined into: the sum of all copies.
    INLINED = "inlined"
    # Optimised, in several blocks: some may have been copied, or moved from elsewhere.
    SPREAD = "spread"
    # Optimised, in one block that holds code of other lines, too: the count is the block's.
    SHARED = "shared"
    # Optimised, in one block that holds code of no other line: the count is the block's.
    ALONE = "alone"


# What the words say; that of lines whose count is their own is not shown.
MEANINGS = {
    Placing.JUMPS: "a jump only; what another branch leads past it is not counted",
    Placing.INLINED: "optimised and inlined; the sum of all copies",
    Placing.SPREAD: "optimised, in several blocks; some may be moved or copied",
    Placing.SHARED: "optimised; the count of a block that holds other lines, too",
    Placing.ALONE: "optimised; the count of its block",
}


class InlinedCounts(Struct, frozen=True):
    """A routine's code within another routine."""

    copy: InlinedCopy  # Which, and where
    # Where it is declared, else what its first instruction was compiled from; None: unknown
    line: SourceLine | None
    routine: int  # Position in `SourceCounts.routines` of the routine that holds it
    executions: int  # How often its first instruction was executed
    base: int  # Instructions of it that were executed


class LineCounts(Struct):
    """What is known of a source line."""

    line: SourceLine  # The line
    # executions, base, added: See the module.
    executions: int = 0
    base: int = 0
    added: int = 0
    # Its instructions, in ascending order, as far as graphs have them
    addresses: list[int] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)  # Conditional branches compiled from it
    # Positions in `SourceCounts.routines` of those that hold its code
    routines: list[int] = field(default_factory=list)


class SourceCounts:
    """A profile by instruction and by source line."""

    def __init__(self, measurement: RunMeasurement, program: Program | None) -> None:
        self.measurement = measurement
        # The very program that ran (`program_files.find_program`); None if its file is not found
        self.program = program
        # The profile's routines, instruction by instruction
        self.routines: tuple[CodeCounts, ...] = tuple(map(code_counts, measurement.routines))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the lines must know, one sentence each."""
        if not self.source_files:
            return (NO_LINES,)
        return (NO_PROGRAM,) if self.program is None else ()

    @cached_property
    def source_files(self) -> frozenset[str]:
        """All source files that lines are known of, as the program names them."""
        if self.program is None:
            return frozenset(line.file for line in self.measurement.lines.values())
        return frozenset(line.file for _, line in self.program.lines.stretches())

    @cached_property
    def _starts(self) -> tuple[list[int], list[int]]:
        """Where the profile's lines begin, and up to where they are known."""
        blocks = chain(*(routine.block_counts for routine in self.measurement.routines))
        ends = {block.start: block.end for block in blocks}
        starts = sorted(self.measurement.lines)
        return starts, [ends.get(start, start + 4) for start in starts]

    def line_at(self, address: int) -> SourceLine | None:
        """Return the line that an instruction was compiled from, None where it is unknown."""
        if self.program is not None:
            return self.program.lines.find(address)
        starts, ends = self._starts
        place = bisect_right(starts, address) - 1
        known = place >= 0 and address < ends[place]
        return self.measurement.lines[starts[place]] if known else None

    def known_line(self, address: int) -> SourceLine | None:
        """Return the line of an instruction where it is certain: without the program, at starts."""
        known = self.measurement.lines.get(address)
        return known if self.program is None else self.line_at(address)

    def word_at(self, address: int) -> int | None:
        """Return the instruction word at an address, None where it is unknown."""
        for segment in () if self.program is None else self.program.segments:
            at = address - segment.address
            if 0 <= at <= len(segment.data) - 4:
                return int.from_bytes(segment.data[at : at + 4], "big")
        return None

    @cached_property
    def lines(self) -> Mapping[SourceLine, LineCounts]:
        """Every line that has code, those that were never executed included, by file and line."""
        found: dict[SourceLine, LineCounts] = {}
        by_routine = zip(self.routines, self._line_blocks, strict=True)
        for number, (code, of_lines) in enumerate(by_routine):
            edges, onward = self._edges(code), self._onward(code)
            for line, blocks in of_lines.items():
                counts = found.setdefault(line, LineCounts(line))
                counts.executions += _entries(edges, blocks.owned, onward)
                counts.routines.append(number)
            self._add_instructions(code, found)
        if self.program is not None:
            profiled = ProfiledCode(self.measurement, self.program)
            for stretch, line in self.program.lines.stretches():
                if line not in found and profiled.has(stretch):
                    found[line] = LineCounts(line)  # it was never executed
        return {line: found[line] for line in sorted(found, key=lambda at: (at.file, at.line))}

    @cached_property
    def placings(self) -> Mapping[SourceLine, Placing]:
        """How the code of lines lies; those whose counts are their own are left out."""
        # This reads all of the debugging information, unlike `lines`.
        found: dict[SourceLine, Placing] = {}
        pieces: dict[SourceLine, list[tuple[int, VertexName]]] = defaultdict(list)
        for number, of_lines in enumerate(self._line_blocks):
            for line, blocks in of_lines.items():
                pieces[line] += [(number, block) for block in blocks.all]
                if not blocks.stated:
                    found[line] = Placing.JUMPS
        lines_in = Counter(piece for blocks in pieces.values() for piece in blocks)
        copies = CodeRanges(span for copy in self._inlining.copies for span in copy.ranges)
        optimised = CodeRanges(self._inlining.optimised)
        for line, blocks_of_line in pieces.items():
            addresses = self.lines[line].addresses
            if not any(address in optimised for address in addresses):
                continue
            if any(address in copies for address in addresses):
                found[line] = Placing.INLINED
            elif len(blocks_of_line) > 1:
                found[line] = Placing.SPREAD
            else:
                alone = lines_in[blocks_of_line[0]] == 1
                found[line] = Placing.ALONE if alone else Placing.SHARED
        return found

    @cached_property
    def _inlining(self) -> Inlining:
        return Inlining() if self.program is None else read_inlining(self.program)

    @cached_property
    def inlined(self) -> tuple[InlinedCounts, ...]:
        """What was inlined into the profile's routines, by the address of its first instruction."""
        holders: dict[int, int] = {}
        for number, code in enumerate(self.routines):
            holders.update(dict.fromkeys(code.executions, number))
        found = []
        for copy in (each for each in self._inlining.copies if each.entry in holders):
            number, line = holders[copy.entry], self.line_at(copy.entry)
            if copy.file and copy.line:  # the instruction's may be of a routine inlined into it
                line = SourceLine(copy.file, copy.line)
            executions = self.routines[number].executions
            inside = chain(*(range(span.start, span.end, 4) for span in copy.ranges))
            base = sum(executions.get(address, 0) for address in inside)
            found.append(InlinedCounts(copy, line, number, executions[copy.entry], base))
        return tuple(found)

    @cached_property
    def files(self) -> Mapping[str, Mapping[int, LineCounts]]:
        """File -> line number -> what is known of that line."""
        files: dict[str, dict[int, LineCounts]] = defaultdict(dict)
        for line, counts in self.lines.items():
            files[line.file][line.line] = counts
        return dict(files)

    @cached_property
    def _line_blocks(self) -> tuple[dict[SourceLine, _LineBlocks], ...]:
        """By routine, the blocks of each line that it has code of."""
        return tuple(map(self._blocks_of_lines, self.routines))

    def _blocks_of_lines(self, code: CodeCounts) -> dict[SourceLine, _LineBlocks]:
        blocks: dict[SourceLine, _LineBlocks] = defaultdict(_LineBlocks)
        jumps, moves = self._idle(code)
        for block in code.profile.block_counts:
            for address in range(block.start, block.end, 4):
                line = self.line_at(address)
                if line is not None:
                    blocks[line].all.add(block.name)
                    if address not in jumps:
                        blocks[line].stated.add(block.name)
                    if address not in jumps and address not in moves:
                        blocks[line].begun.add(block.name)
        return blocks

    def _idle(self, code: CodeCounts) -> tuple[frozenset[int], frozenset[int]]:
        """Return the addresses of instructions that do nothing or nothing but jump, and of moves.

        Those move a register, or its lower half, to another one.
        """
        addresses = np.array(list(code.executions), dtype=object)
        words = [self.word_at(address) for address in addresses]
        if None in words:
            return frozenset(), frozenset()
        array = np.array(words, dtype=np.uint32)
        jumps = decode_transfers(array, 0).kind == TransferKind.BRANCH_ALWAYS
        moves = np.logical_or.reduce([array & np.uint32(bits) == value for bits, value in _MOVES])
        return frozenset(addresses[jumps | (array == NOP)]), frozenset(addresses[moves])

    @cached_property
    def _exceptions(self) -> Exceptions | None:
        return None if self.program is None else Exceptions(self.program)

    def _edges(self, code: CodeCounts) -> Collection[EdgeCount]:
        if self._exceptions is None:
            return code.profile.edge_counts
        words = {address: self.word_at(address) for address in code.executions}
        return self._exceptions.edges(code.profile, words)

    def _onward(self, code: CodeCounts) -> dict[VertexName, VertexName]:
        """Return what follows each block that does nothing but move registers."""
        # Behind the destructors of a `return`, GCC moves its value into place: that is on the
        # line of the `return` again, between two blocks of the `}`. gcov counts before such moves
        # are made.
        edges, idle = code.profile.edge_counts, frozenset[int]().union(*self._idle(code))
        after, ways = {e.source: e.target for e in edges}, Counter(e.source for e in edges)
        return {
            block.name: after[block.name]
            for block in code.profile.block_counts
            if ways[block.name] == 1 and idle.issuperset(range(block.start, block.end, 4))
        }

    def _add_instructions(self, code: CodeCounts, found: Mapping[SourceLine, LineCounts]) -> None:
        for address, count in code.executions.items():
            if (line := self.line_at(address)) is not None:
                counts = found[line]
                counts.base += count
                counts.added += code.added.get(address, 0)
                counts.addresses.append(address)
                if address in code.branches:
                    counts.branches.append(code.branches[address])


class _LineBlocks(Struct, frozen=True):
    """The blocks that hold code of a line, and those that hold more of it than a jump."""

    all: set[VertexName] = field(default_factory=set)
    stated: set[VertexName] = field(default_factory=set)
    begun: set[VertexName] = field(default_factory=set)  # More than jumps and moved registers, too

    @property
    def owned(self) -> set[VertexName]:
        """Those whose executions count."""
        # Without optimisation GCC gives the jump behind the `then` of an `if` the line of the `if`
        # again; control that comes there has not come to the line anew. Nor has it where the value
        # of a line's call is moved. Where a line is nothing else, its blocks are all there is.
        return self.begun or self.stated or self.all


class CodeRanges:
    """Stretches of code, which may overlap: whether an address is in one of them."""

    def __init__(self, spans: Iterable[Range]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for span in sorted(spans, key=lambda each: each.start):
            if self._ends and span.start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], span.end)
            else:
                self._starts.append(span.start)
                self._ends.append(span.end)

    def __contains__(self, address: int) -> bool:
        at = bisect_right(self._starts, address) - 1
        return at >= 0 and address < self._ends[at]


class ProfiledCode:
    """Tells which code of the program that ran a profile is about, executed or not."""

    def __init__(self, measurement: RunMeasurement, program: Program) -> None:
        options = measurement.options
        chosen = options.get("routines"), options.get("exclude")
        self._wanted, self._unwanted = (e if isinstance(e, tuple) else () for e in chosen)
        self._own_only = bool(options.get("user_only"))
        self._program = program
        self._is_all = not (self._wanted or self._unwanted or self._own_only)

    @cached_property
    def _bases(self) -> Set[str]:
        """The patterns that no symbol matches: they may be names without the scopes of C++."""
        left = {*self._wanted, *self._unwanted}
        for symbol in self._program.symbols:
            names = spellings(symbol.name)
            left -= {each for each in left if _matches(names, (each,))}
        return left

    @cached_property
    def _places(self) -> CodeRanges:
        names: dict[int, list[Symbol]] = defaultdict(list)
        for symbol in self._program.symbols:
            if symbol.is_function and symbol.size:
                names[symbol.address].append(symbol)
        return CodeRanges(
            Range(address, address + max(symbol.size for symbol in symbols))
            for address, symbols in names.items()
            if self._takes(address, symbols)
        )

    def _takes(self, address: int, symbols: Iterable[Symbol]) -> bool:
        names = {text for symbol in symbols for text in spellings(symbol.name)}
        names |= self._bases & {base for symbol in symbols for base in base_names(symbol.name)}
        if (self._wanted and not _matches(names, self._wanted)) or _matches(names, self._unwanted):
            return False
        line = self._program.lines.find(address)
        return not self._own_only or (line is not None and not is_library_source(line.file))

    def has(self, stretch: Range) -> bool:
        """Whether a stretch of code belongs to a routine that the profile is about."""
        return self._is_all or stretch.start in self._places


def _matches(names: Iterable[str], patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _entries(
    edges: Iterable[EdgeCount], blocks: set[VertexName], onward: Mapping[VertexName, VertexName]
) -> int:
    """Return how often a set of blocks was entered from outside, or gone round in.

    `onward`: What follows blocks that are passed over, unless they are of the set.
    """
    # As `accumulate_line_info` of gcov's source: `for (i = 0; i < 9; i++)` counts 1 for its
    # beginning and 9 for the turns, whatever blocks a compiler makes of it.
    total = 0
    inner: dict[VertexName, dict[VertexName, int]] = defaultdict(lambda: defaultdict(int))
    for edge in edges:
        if edge.kind is EdgeKind.EARLY or not edge.count:
            continue
        source, target, passed = edge.source, edge.target, set[VertexName]()
        while target in onward and target not in blocks | passed:
            passed.add(target)
            target = onward[target]
        if target in blocks and (source in blocks or source not in onward):
            if source in blocks:
                inner[source][target] += edge.count
            else:
                total += edge.count
    return total + _turns(inner)


def _turns(arcs: dict[VertexName, dict[VertexName, int]]) -> int:
    """Return how often control went round in cycles."""
    total = 0
    # A cycle is taken out as often as its rarest edge was crossed, until there is none.
    for start in list(arcs):
        while (cycle := _cycle(arcs, start)) is not None:
            turns = min(arcs[source][target] for source, target in cycle)
            total += turns
            for source, target in cycle:
                arcs[source][target] -= turns
                if not arcs[source][target]:
                    del arcs[source][target]
    return total


def _cycle(
    arcs: Mapping[VertexName, Mapping[VertexName, int]], start: VertexName
) -> list[tuple[VertexName, VertexName]] | None:
    """Return the edges of a cycle that can be reached from `start`, None where there is none."""
    way, on_way, done = [start], {start: 0}, set[VertexName]()
    choices = [iter(tuple(arcs.get(start, ())))]
    while way:
        target = next(choices[-1], None)
        if target is None:
            done.add(way[-1])
            del on_way[way.pop()]
            choices.pop()
        elif target in on_way:
            return list(pairwise([*way[on_way[target] :], target]))
        elif target not in done:
            on_way[target] = len(way)
            way.append(target)
            choices.append(iter(tuple(arcs.get(target, ()))))
    return None
