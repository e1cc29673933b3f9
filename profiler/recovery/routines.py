"""Owners of instruction words: the routines.

Terms
-----
region
    A maximal run of words with one owner. Regions tile the code image.
owner
    A routine's number; `NOBODY` for code that no routine covers (yet), `NO_CODE` outside code.
synthetic routine
    Stands for code that no symbol covers; it reaches from its start to the next region.

Every word belongs to the function symbol that covers it and starts last, so bodies nested in a
larger symbol, and partial overlaps, are cut out of the symbol around them.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from copy import copy

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.exploration_kernel import NO_CODE, NOBODY
from simprof.profiler.recovery.idioms import PROLOGUE, PROLOGUE_MASK
from simprof.simulator.binary.dynamic import module_of
from simprof.simulator.binary.program import Binding, Program, Symbol

_PREFERENCE = {Binding.GLOBAL: 0, Binding.WEAK: 1, Binding.LOCAL: 2}


class Routine(Struct, frozen=True):
    """A routine before its graph is known. `size` in bytes, 0 where no symbol tells it."""

    name: str
    start: int  # word index
    size: int


class RoutineMap:
    """The routines of a program and the regions they own; synthetic ones can be added."""

    def __init__(self, program: Program, code: CodeImage) -> None:
        self.routines: list[Routine] = []
        self._program = program
        self._code = code
        self._names = _labels(program)
        self._points: list[int] = []
        self._owners: dict[int, int] = {}
        self.symbol_starts: set[int] = set()  # words at which function symbols start
        named = _function_symbols(program, code)
        self._tile(named)
        for symbol in named:
            index = code.index(symbol.address)
            owner = NO_CODE if symbol.size else self.owner(index)
            if owner == NOBODY or (owner >= 0 and not self.is_covered(owner)):
                self.symbol_starts.add(index)
                self._add(Routine(symbol.name, index, 0))

    def with_synthetic(self, starts: Iterable[int]) -> RoutineMap:
        """Return these routines with synthetic ones at word indices `starts`."""
        other = copy(self)
        other.routines, other._points = self.routines.copy(), self._points.copy()
        other._owners = self._owners.copy()
        for start in sorted(starts):
            other.add_synthetic(start)
        return other

    def owner(self, index: int) -> int:
        """Owner of word `index`: a routine number, NOBODY or NO_CODE."""
        if index < 0:
            return NO_CODE
        return self._owners[self._points[bisect_right(self._points, index) - 1]]

    def region(self, index: int) -> tuple[int, int, int]:
        """Return (first word, end, owner) of the region around word `index` (>= 0)."""
        after = bisect_right(self._points, index)
        start = self._points[after - 1]
        end = self._points[after] if after < len(self._points) else start
        return start, end, self._owners[start]

    def owners(self) -> NDArray[np.int32]:
        """Owner of each word, shape (n,)."""
        points = [*self._points, len(self._code.words)]
        owners = np.array([self._owners[point] for point in self._points], dtype=np.int32)
        return np.repeat(owners, np.diff(points))

    def add_synthetic(self, index: int) -> int:
        """Start a routine at word `index`, which no symbol covers; return its number."""
        owner = self.owner(index)
        if owner >= 0 and (self.routines[owner].start == index or self.is_covered(owner)):
            return owner
        address = self._code.address(index)
        module = module_of(self._program, address) if self._program.modules else None
        unnamed = f"sub_{address:x}" if module is None else f"{module.name}+{module.offset:#x}"
        return self._add(Routine(self._names.get(address) or unnamed, index, 0))

    def is_covered(self, owner: int) -> bool:
        """Whether routine `owner` is a symbol with a size, whose region is never split."""
        return self.routines[owner].size > 0

    def _add(self, routine: Routine) -> int:
        number = len(self.routines)
        self.routines.append(routine)
        if routine.start not in self._owners:
            insort(self._points, routine.start)
        self._owners[routine.start] = number
        return number

    def _tile(self, named: list[Symbol]) -> None:
        """Cut the image at the ends of code and of sized symbols."""
        begins: dict[int, int] = {}
        ends: list[int] = []
        count = len(self._code.words)
        for symbol in named:
            start = self._code.index(symbol.address)
            if symbol.size and start >= 0:
                end = min(count, start + (symbol.size + 3) // 4)  # in words
                begins[start] = len(self.routines)
                ends.append(end)
                self.routines.append(Routine(symbol.name, start, symbol.size))
        self.symbol_starts.update(begins)
        change = np.flatnonzero(np.diff(self._code.is_code.astype(np.int8))) + 1
        points = sorted({0, count, *begins, *ends, *change.tolist()})
        active: list[tuple[int, int]] = []
        for point in points:
            if point in begins:
                heapq.heappush(active, (-point, begins[point]))  # on top: what starts last
            while active and ends[active[0][1]] <= point:
                heapq.heappop(active)
            if point == count or not self._code.is_code[point]:
                owner = NO_CODE
            else:
                owner = active[0][1] if active else NOBODY
            if not self._points or self._owners[self._points[-1]] != owner:
                self._points.append(point)
                self._owners[point] = owner


def _function_symbols(program: Program, code: CodeImage) -> list[Symbol]:
    """One symbol an address, by address: the preferred name with the largest size."""
    known: dict[int, list[Symbol]] = {}
    for symbol in program.symbols:
        if symbol.is_function and symbol.address in code:
            known.setdefault(symbol.address, []).append(symbol)
    return [
        replace(min(symbols, key=_rank), size=max(symbol.size for symbol in symbols))
        for _, symbols in sorted(known.items())
    ]


def _rank(symbol: Symbol) -> tuple[int, str]:
    return _PREFERENCE[symbol.binding], symbol.name


def _labels(program: Program) -> dict[int, str]:
    """Names of labels that are no function symbols, for naming synthetic routines."""
    labels = [symbol for symbol in program.symbols if not symbol.is_function]
    return {symbol.address: symbol.name for symbol in sorted(labels, key=_rank, reverse=True)}


_REACH = 8  # words between a `sethi` and the `or` or `add` that completes it


# In code that no symbol covers only pointers reach some routines. A stripped program passes `main`
# to its start-up routine as a constant. Such constants are taken as routine starts where they lead
# to a prologue (`save %sp, ..., %sp`): no other code starts with one, so a label whose address is
# taken (a jump table's, a computed goto's) is never mistaken. Leaf routines, which have no
# prologue, are found when a run enters them.
def function_pointers(program: Program, code: CodeImage, routine_map: RoutineMap) -> set[int]:
    """Return word indices of prologues that nobody covers and whose address the program holds."""
    prologues = np.flatnonzero(code.is_code & ((code.words & PROLOGUE_MASK) == PROLOGUE))
    bare = [index for index in prologues.tolist() if routine_map.owner(index) == NOBODY]
    if not bare:
        return set()
    held = are_held(program, code, code.place.addresses(np.array(bare, dtype=np.int64)))
    return {index for index, used in zip(bare, held.tolist(), strict=True) if used}


def are_held(program: Program, code: CodeImage, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return, of each of `addresses`, whether the program has it in data or makes it in code."""
    asked = addresses.astype(np.uint64)
    found = [values[np.isin(values, asked)] for values in (*_in_data(program), *_in_code(code))]
    held: NDArray[np.bool_] = np.isin(asked, np.concatenate(found))
    return held


def _in_data(program: Program) -> Iterator[NDArray[np.uint64]]:
    """Yield all aligned pointer-sized words of the program's segments."""
    size = 8 if program.is64 else 4
    for segment in program.segments:
        skip = -segment.address % size
        data = segment.data[skip : skip + (len(segment.data) - skip) // size * size]
        yield np.frombuffer(data, dtype=f">u{size}").astype(np.uint64)


def _in_code(code: CodeImage) -> Iterator[NDArray[np.uint64]]:
    """Yield all constants that `sethi` and a following `or` or `add` with immediate make."""
    words = code.words
    sethi = np.flatnonzero(((words >> 30) == 0) & (((words >> 22) & 7) == 4))
    high = ((words[sethi] & 0x3FFFFF) << 10).astype(np.uint64)
    register = (words[sethi] >> 25) & 31
    yield np.zeros(0, dtype=np.uint64)
    for distance in range(1, _REACH + 1):
        inside = sethi + distance < len(words)
        second = words[sethi[inside] + distance]
        op3 = (second >> 19) & 63
        fits = ((second >> 30) == 2) & ((op3 == 2) | (op3 == 0)) & ((second >> 13) & 1 == 1)
        fits &= ((second >> 14) & 31) == register[inside]
        low = (second[fits] & 0x1FFF).astype(np.uint64)
        yield high[inside][fits] + low
