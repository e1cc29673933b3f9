"""Where indirect jumps go: constant propagation over a routine, bounded by its comparisons.

A jump through a table has the form `cmp index, n; bgu default; ...; load [table + index]; jump`.
The value that reaches the jump is then an `Entry`, and the facts about its index, gathered along
every path, say which elements can be meant. All of them are read; one that is no code address,
or an index without two bounds, leaves the jump unresolved.

An unresolved jump may still have known targets, a *guess*: those of a table whose end nothing
proves (`table_ends`), such as a computed goto's. The graph has them, and a run may show others.
Where even the table is unknown, the data flow is computed once more as a guess itself: it then
believes that what the frame keeps is not overwritten through pointers, reads data that might
change, and follows gotos that come together in one jump.

Steps: propagate what is known to the jump (`data_flow`), narrow it by comparisons (`intervals`),
read the table (`_resolve`), or guess where it ends (`_guessed`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from simprof.profiler.recovery.block_graph import BlockGraph, block_graph, frame_escapes
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.data_flow import DataFlow
from simprof.profiler.recovery.exploration import Exploration, Resolution
from simprof.profiler.recovery.idioms import is_restore
from simprof.profiler.recovery.symbolic import (
    MASK64,
    RETURN_ADDRESS,
    Affine,
    Bounds,
    Entry,
    ReadOnlyMemory,
    SymbolicValue,
)
from simprof.profiler.recovery.table_ends import Guesses, TableEnds
from simprof.simulator.binary.program import Program

MAX_ENTRIES = 1 << 16
"""Largest jump table believed, in elements."""

MAX_PIECES = 1 << 8
"""Largest number of pieces of code believed that a jump computes its way into."""


Answers = dict[Hashable, Mapping[int, Resolution | None]]
"""What an analysis depends on -> what the jumps of the routine resolve to."""


class JumpResolver:
    """Resolves the indirect jumps of an `Exploration`, routine by routine.

    Parameters
    ----------
    program, code
        The program and its image. Tables are read from segments that are not writable.
    known
        Answers of earlier resolvers of the same program, extended here.
    """

    def __init__(self, program: Program, code: CodeImage, known: Answers | None = None) -> None:
        mask = MASK64 if program.is64 else 0xFFFFFFFF
        segments = [(s.address, s.data) for s in program.segments if not s.writable]
        self._memory = ReadOnlyMemory(segments, mask)
        image = ReadOnlyMemory([(s.address, s.data) for s in program.segments], mask)
        self._image = image
        self._ends = TableEnds(program, code, image)
        self._code = code
        self._known: Answers = {} if known is None else known

    def resolve(self, exploration: Exploration, number: int) -> Mapping[int, Resolution | None]:
        """Resolve the jumps that routine `number` has reached so far.

        The same graph gives the same answer, without work, when exploration starts over; so does
        one that has grown only where no indirect jump can be reached.
        """
        key = exploration.fingerprint(number)
        if key not in self._known:
            graph = block_graph(exploration, number)
            escapes = frame_escapes(exploration, number)
            inner = graph.fingerprint(escapes)
            if inner not in self._known:
                self._known[inner] = self._analyse(exploration, number, graph, escapes)
            self._known[key] = self._known[inner]
        return self._known[key]

    def _analyse(
        self, exploration: Exploration, number: int, graph: BlockGraph, escapes: dict[int, int]
    ) -> Mapping[int, Resolution | None]:
        analysis = DataFlow(exploration, graph, self._code, self._memory, escapes)
        reached = analysis.propagate()
        resolutions = {jump: self._resolve(*found) for jump, found in reached.items()}
        left = [jump for jump, resolution in resolutions.items() if resolution is None]
        left = [jump for jump in left if not is_restore(exploration.words[jump + 1])]
        guesses = Guesses(self._ends, analysis.tables, exploration.routine_map, number)
        resolutions |= self._guessed(guesses, {jump: reached[jump] for jump in left})
        left = [jump for jump in left if resolutions[jump] is None]
        if left:
            guesses = Guesses(self._ends, set(), exploration.routine_map, number)
            analysis = DataFlow(exploration, graph, self._code, self._image, {}, guesses)
            reached = analysis.propagate()
            resolutions |= self._guessed(guesses, {jump: reached[jump] for jump in left})
        return resolutions

    def _guessed(
        self, guesses: Guesses, reached: Mapping[int, tuple[SymbolicValue | None, Bounds]]
    ) -> dict[int, Resolution | None]:
        """What jumps seem to lead to though nothing proves it."""
        resolutions: dict[int, Resolution | None] = {}
        for jump, (value, bounds) in reached.items():
            addresses = () if isinstance(value, int) else guesses.addresses(value, bounds)
            targets = frozenset(map(self._code.index, addresses))
            resolutions[jump] = Resolution(targets, proven=False) if targets else None
        return resolutions

    def _resolve(self, value: SymbolicValue | None, bounds: Bounds) -> Resolution | None:
        if isinstance(value, int):
            addresses = [value]
        elif isinstance(value, Affine):
            if value.atom == RETURN_ADDRESS:
                returns = value.factor == 1 and value.base in (8, 12)
                return Resolution(frozenset(), returns=True) if returns else None
            read = self._compute(value, bounds)
            if read is None:
                return None
            addresses = read
        elif isinstance(value, Entry):
            read = self._read_table(value, bounds)
            if read is None:
                return None
            addresses = read
        else:
            return None
        indices = {self._code.index(address & self._memory.mask) for address in addresses}
        return None if -1 in indices else Resolution(frozenset(indices))

    def _compute(self, value: Affine, bounds: Bounds) -> list[int] | None:
        """Every address that a jump into equally long pieces of code can compute."""
        low, high = bounds
        if low is None or high is None or not 0 <= high - low < MAX_PIECES:
            return None
        return [value.base + index * value.factor for index in range(low, high + 1)]

    def _read_table(self, entry: Entry, bounds: Bounds) -> list[int] | None:
        low, high = bounds
        if low is None or high is None or not 0 <= high - low < MAX_ENTRIES:
            return None
        addresses = []
        for index in range(low, high + 1):
            at = entry.address.base + index * entry.address.factor
            element = self._memory.read(at, entry.size, entry.signed)
            address = None if element is None else entry.addend + (element << entry.shift)
            if address is None or self._code.index(address & self._memory.mask) < 0:
                return None  # at once: what is no table may seem to have a great many elements
            addresses.append(address)
        return addresses
