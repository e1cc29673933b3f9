"""Targets of indirect jumps: constant propagation over a routine, bounded by its comparisons.

A jump through a table has the form `cmp index, n; bgu default; ...; load [table + index]; jump`.
The value that reaches the jump (`data_flow`) is then an `Entry`, and the facts about its index,
gathered along every path, say which elements can be meant. All of them are read; one that is no
code address, or an index without two bounds, leaves the jump unresolved (`_resolve`), unless it can
be guessed where the table ends (`_guessed`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import partial

from simprof.profiler.recovery import slices
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.data_flow import DataFlow
from simprof.profiler.recovery.exploration import Exploration, Resolution, digest
from simprof.profiler.recovery.idioms import is_restore
from simprof.profiler.recovery.routines import RoutineMap
from simprof.profiler.recovery.slices import Slice
from simprof.profiler.recovery.symbolic import (
    MASK64,
    RETURN_ADDRESS,
    Affine,
    Bounds,
    Choice,
    Entry,
    ReadOnlyMemory,
    SymbolicValue,
)
from simprof.simulator.binary.dynamic import loaded_part
from simprof.simulator.binary.program import Program, Range

MAX_ENTRIES = 1 << 16  # Largest jump table believed, in elements
MAX_PIECES = 1 << 8  # Largest number of pieces of code believed that a jump computes its way into


# The jumps of a routine -> what they resolve to.
Resolutions = dict[int, Resolution | None]
# What an analysis rests on in its file -> its result, with words counted from the file's first.
Answers = dict[bytes, Resolutions]

_NOMINAL = 1 << 28  # Where a module is thought to be, in bytes: no small constant is an address


def files_of(program: Program) -> list[tuple[Program, int]]:
    """Return a program's own file and its modules, and how far each has been moved."""
    own = program.parts[0] if program.modules else program
    loaded = ((loaded_part(each), each.bias - _NOMINAL) for each in program.modules)
    return [(own, 0), *loaded]


class FileCode:
    """The code of one file, at addresses that do not depend on where it is loaded."""

    # What is found of jumps rests on the file alone: not on the program that has loaded it, where,
    # and with what else. So it holds for every program.

    def __init__(
        self,
        program: Program,  # The file
        code: CodeImage,  # That of the program that has loaded it
        moved: int = 0,  # How far, in bytes
        late: tuple[Range, ...] = (),  # Code that no jump is thought to lead to: each run writes it
        answers: Answers | None = None,  # What is known of it, extended here
    ) -> None:
        mask = MASK64 if program.is64 else 0xFFFFFFFF
        segments = [(s.address - moved, s.data, s.writable) for s in program.segments]
        self.memory = ReadOnlyMemory([(at, data) for at, data, may in segments if not may], mask)
        self.image = ReadOnlyMemory([(at, data) for at, data, _ in segments], mask)
        self.data = DataSymbols(program, moved)
        self._code, self._moved, self._late = code, moved, late
        self.spans = [*program.code, *(each for each in program.late_code if each not in late)]
        first = min((span.start for span in self.spans), default=0)
        self.origin = max(0, code.place.index(first))
        self._answers: Answers = {} if answers is None else answers
        self._found: Answers = {}  # With words counted as everywhere else

    def address(self, index: int) -> int:
        """Address of word `index`."""
        return self._code.address(index) - self._moved

    def index(self, address: int) -> int:
        """Index of the word at `address`, or -1 where there is no code."""
        place = address + self._moved
        return -1 if any(place in span for span in self._late) else self._code.index(place)

    def find(self, key: bytes) -> Resolutions | None:
        """Return what is known under a key."""
        if key not in self._found and key in self._answers:
            self._found[key] = _moved(self._answers[key], self.origin)
        return self._found.get(key)

    def keep(self, key: bytes, resolutions: Resolutions) -> Resolutions:
        """Return what has been found, and let it be known under a key."""
        self._found[key] = resolutions
        self._answers[key] = _moved(resolutions, -self.origin)
        return resolutions


def _moved(resolutions: Resolutions, words: int) -> Resolutions:
    return {
        jump + words: each
        and Resolution(frozenset(to + words for to in each.targets), each.returns, each.proven)
        for jump, each in resolutions.items()
    }


class JumpResolver:
    """Resolves the indirect jumps of an `Exploration`, routine by routine."""

    # `program`, `code`: The program and its image. Tables are read from segments that are not
    # writable.
    # `known`: Answers of earlier resolvers by the file's digest, extended here.

    def __init__(
        self, program: Program, code: CodeImage, known: dict[str, Answers] | None = None
    ) -> None:
        known = {} if known is None else known
        # What the program itself writes, and what had been there before
        self._written = FileCode(program, code)
        self._code = code
        spans = [
            (span.start, span.end, file)
            for part, moved in files_of(program)
            for answers in (known.setdefault(part.sha256, {}),)
            for file in (FileCode(part, code, moved, code.deferred, answers),)
            for span in file.spans
        ]
        self._spans = sorted(spans, key=lambda each: each[0])

    def resolve(self, exploration: Exploration, number: int) -> Resolutions:
        """Resolve the jumps that routine `number` has reached so far."""
        # The same graph gives the same answer, without work, when exploration starts over; so does
        # one that has grown only where no indirect jump is influenced.
        file = self._file(self._code.address(exploration.span(number).start))
        key = exploration.fingerprint(number, file.origin)
        found = file.find(key)
        return file.keep(key, _analyse(exploration, number, file)) if found is None else found

    def _file(self, address: int) -> FileCode:
        before = bisect_right(self._spans, address, key=lambda each: each[0]) - 1
        _, end, file = self._spans[max(before, 0)]
        return file if before >= 0 and address < end else self._written


def _analyse(exploration: Exploration, number: int, file: FileCode) -> Resolutions:
    graph = slices.BlockGraph(exploration, number)
    escapes = slices.frame_escapes(exploration, number)
    part = Slice(exploration, graph, escapes)
    extent = exploration.extent(number, file.origin)
    key = digest(extent, *part.fingerprint(file.origin))
    guess = partial(Guesses, file, routines=exploration.routine_map, number=number)
    resolutions = file.find(key)
    if resolutions is None:
        flow = DataFlow(exploration, graph, file.address, file.memory, escapes, part=part)
        reached = flow.propagate()
        proven = {jump: _resolve(file, *found) for jump, found in reached.items()}
        guesses = guess(flow.tables)
        guessed = _guessed(guesses, {jump: reached[jump] for jump in _left(exploration, proven)})
        resolutions = file.keep(key, proven | guessed)
    if left := _left(exploration, resolutions):
        guesses = guess(set())
        flow = DataFlow(exploration, graph, file.address, file.image, {}, guesses)
        reached = flow.propagate()
        guessed = _guessed(guesses, {jump: reached[jump] for jump in left})
        resolutions = {**resolutions, **guessed}
    return resolutions


def _left(exploration: Exploration, resolutions: Resolutions) -> list[int]:
    """Return the jumps of which nothing is known, and that are no returns."""
    unknown = [jump for jump, resolution in resolutions.items() if resolution is None]
    return [jump for jump in unknown if not is_restore(exploration.words[jump + 1])]


def _guessed(
    guesses: Guesses, reached: Mapping[int, tuple[SymbolicValue | None, Bounds]]
) -> Resolutions:
    """What jumps seem to lead to though nothing proves it."""
    resolutions: Resolutions = {}
    for jump, (value, bounds) in reached.items():
        addresses = () if isinstance(value, int) else guesses.addresses(value, bounds)
        targets = frozenset(map(guesses.file.index, addresses))
        resolutions[jump] = Resolution(targets, proven=False) if targets else None
    return resolutions


def _resolve(file: FileCode, value: SymbolicValue | None, bounds: Bounds) -> Resolution | None:
    low, high = bounds
    addresses: list[int] = []
    if isinstance(value, int):
        addresses = [value]
    elif isinstance(value, Affine):
        if value.atom == RETURN_ADDRESS:
            # ret, or behind an unimp, or behind data
            returns = value.factor == 1 and 8 <= value.base < 1 << 12 and not value.base & 3
            return Resolution(frozenset(), returns=True) if returns else None
        # Every address that a jump into equally long pieces of code can compute.
        if low is not None and high is not None and 0 <= high - low < MAX_PIECES:
            addresses = [value.base + index * value.factor for index in range(low, high + 1)]
    elif isinstance(value, Entry):
        addresses = _read_table(file, value, bounds)
    if not addresses:
        return None
    indices = {file.index(address & file.memory.mask) for address in addresses}
    return None if -1 in indices else Resolution(frozenset(indices))


def _read_table(file: FileCode, entry: Entry, bounds: Bounds) -> list[int]:
    low, high = bounds
    if low is None or high is None or not 0 <= high - low < MAX_ENTRIES:
        return []
    addresses = []
    for index in range(low, high + 1):
        at = entry.address.base + index * entry.address.factor
        element = file.memory.read(at, entry.size, entry.signed)
        address = None if element is None else entry.addend + (element << entry.shift)
        if address is None or file.index(address & file.memory.mask) < 0:
            return []  # at once: what is no table may seem to have a great many elements
        addresses.append(address)
    return addresses


# -- Tables whose index no comparison bounds
#
# A computed goto (`goto *labels[*pc]`) compares nothing: whoever wrote the program knows that its
# bytecode holds no other numbers. Nor does a comparison bound a table where the compiler has
# compared another copy of the index than the one that it uses. What such a table holds is then read
# as far as it is one, from its first element on, and it ends
#
# - where a data symbol ends that holds its beginning, or another one begins;
# - where another table begins that the same routine uses;
# - at the first element that does not lead into the routine, or into the part of it that the
#   compiler has set apart (`NAME.cold`).
#
# These targets are a *guess*: the graph has them, and a run may show others. Where even the table
# is unknown, the data flow is computed once more as a guess itself: it then believes that what the
# frame keeps is not overwritten through pointers, reads data that might change, and follows gotos
# that come together in one jump.

MAX_ELEMENTS = 1 << 12  # Longest table that is read without a bound, in elements


class DataSymbols:
    """Where the data of a program that has names begins and ends."""

    def __init__(self, program: Program, moved: int = 0) -> None:
        data = [each for each in program.symbols if each.size and not each.is_function]
        spans = {each.address - moved: each.size for each in data}
        self._starts = sorted(spans)
        self._ends = [start + spans[start] for start in self._starts]

    def end(self, address: int) -> int:
        """Where the data symbol around an address ends, or the next one begins."""
        after = bisect_right(self._starts, address)
        if after and address < self._ends[after - 1]:
            return self._ends[after - 1]
        return self._starts[after] if after < len(self._starts) else 1 << 64


class Guesses:
    """What one routine's values may stand for."""

    # `tables`: Where the routine's tables begin; may grow.

    def __init__(
        self, file: FileCode, tables: set[int], *, routines: RoutineMap, number: int
    ) -> None:
        self.file, self.tables = file, tables
        self._routines, self._number = routines, number
        self._read: dict[tuple[Entry, Bounds, int], frozenset[int]] = {}

    def addresses(self, value: SymbolicValue | None, bounds: Bounds) -> frozenset[int]:
        """Return the addresses of the routine's code that a value may be, none if it is no such."""
        # `bounds`: Of the index that it is made of, as far as they are known.
        if isinstance(value, Choice):
            return value.addresses
        if isinstance(value, Entry):
            key = value, bounds, len(self.tables)  # which only grow
            if key not in self._read:
                self._read[key] = self._table(value, bounds)
            return self._read[key]
        if isinstance(value, int) and self._leads_into(value):
            return frozenset((value,))
        return frozenset()

    def _table(self, entry: Entry, bounds: Bounds) -> frozenset[int]:
        # The code addresses that a table holds, none if it does not look like one.
        factor = entry.address.factor
        if factor <= 0:
            return frozenset()
        low, high = bounds
        data, memory = self.file.data, self.file.image
        mask = memory.mask
        start = entry.address.base + (low or 0) * factor & mask
        end = start + MAX_ELEMENTS * max(entry.size, factor)
        if high is not None:
            end = min(end, (entry.address.base + high * factor & mask) + entry.size)
        end = min([end, data.end(start), *(table for table in self.tables if table > start)])
        found = set()
        for at in range(start, end - entry.size + 1, max(entry.size, factor)):
            element = memory.read(at, entry.size, entry.signed)
            if element is None:
                break
            address = entry.addend + (element << entry.shift) & mask
            if not self._leads_into(address):
                break
            found.add(address)
        return frozenset(found) if len(found) > 1 else frozenset()  # one element is no table

    def _leads_into(self, address: int) -> bool:
        # Whether an address is one of the routine's code.
        routines, number = self._routines, self._number
        owner = routines.owner(self.file.index(address))
        if owner == number or owner < 0:
            return owner == number
        # The parts of a routine that the compiler has cut in two belong together.
        names = [routines.routines[each].name for each in (owner, number)]
        return names[0] == f"{names[1]}.cold" or names[1] == f"{names[0]}.cold"
