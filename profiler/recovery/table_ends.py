"""How far a jump table reaches whose index no comparison bounds.

A computed goto (`goto *labels[*pc]`) compares nothing: whoever wrote the program knows that its
bytecode holds no other numbers. Nor does a comparison bound a table where the compiler has compared
another copy of the index than the one that it uses. What such a table holds is then read as far
as it is one, from its first element on, and it ends

- where a data symbol ends that holds its beginning, or another one begins;
- where another table begins that the same routine uses;
- at the first element that does not lead into the routine, or into the part of it that the
  compiler has set apart (`NAME.cold`).

These targets are a guess: the jump may go elsewhere, too, and a run will show it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.routines import RoutineMap
from simprof.profiler.recovery.symbolic import Bounds, Choice, Entry, ReadOnlyMemory, SymbolicValue
from simprof.simulator.binary.program import Program

MAX_ELEMENTS = 1 << 12
"""Longest table that is read without a bound, in elements."""

_COLD = ".cold"


class TableEnds:
    """Reads tables without known ends.

    `program`, `code`: The program and its image. `memory`: What is read: the program as its file
    has it.
    """

    def __init__(self, program: Program, code: CodeImage, memory: ReadOnlyMemory) -> None:
        data = [each for each in program.symbols if each.size and not each.is_function]
        spans = {each.address: each.size for each in data}
        self._starts = sorted(spans)
        self._ends = [start + spans[start] for start in self._starts]
        self._code = code
        self._memory = memory

    def addresses(
        self, entry: Entry, bounds: Bounds, tables: Iterable[int], routines: RoutineMap, number: int
    ) -> frozenset[int]:
        """Return the code addresses that a table holds, none if it does not look like one.

        - `entry`: The element that is loaded.
        - `bounds`: Of its index, as far as they are known.
        - `tables`: Where the routine's tables begin.
        - `routines`, `number`: Which routine jumps.
        """
        factor = entry.address.factor
        if factor <= 0:
            return frozenset()
        low, high = bounds
        mask = self._memory.mask
        start = entry.address.base + (low or 0) * factor & mask
        end = start + MAX_ELEMENTS * max(entry.size, factor)
        if high is not None:
            end = min(end, (entry.address.base + high * factor & mask) + entry.size)
        end = min([end, self._symbol_end(start), *(table for table in tables if table > start)])
        found = set()
        for at in range(start, end - entry.size + 1, max(entry.size, factor)):
            element = self._memory.read(at, entry.size, entry.signed)
            if element is None:
                break
            address = entry.addend + (element << entry.shift) & mask
            if not self.leads_into(address, routines, number):
                break
            found.add(address)
        return frozenset(found) if len(found) > 1 else frozenset()

    def leads_into(self, address: int, routines: RoutineMap, number: int) -> bool:
        """Whether an address is one of code of a routine."""
        owner = routines.owner(self._code.index(address))
        return owner == number or (owner >= 0 and _are_parts(routines, owner, number))

    def _symbol_end(self, address: int) -> int:
        """Where the data symbol around an address ends, or the next one begins."""
        after = bisect_right(self._starts, address)
        if after and address < self._ends[after - 1]:
            return self._ends[after - 1]
        return self._starts[after] if after < len(self._starts) else 1 << 64


class Guesses:
    """What one routine's values may stand for.

    - `ends`: Reads tables.
    - `tables`: Where the routine's tables begin; may grow.
    - `routines`, `number`: The routine.
    """

    def __init__(
        self, ends: TableEnds, tables: set[int], routines: RoutineMap, number: int
    ) -> None:
        self.tables = tables
        self._ends, self._routines, self._number = ends, routines, number
        self._read: dict[tuple[Entry, Bounds, int], frozenset[int]] = {}

    def addresses(self, value: SymbolicValue | None, bounds: Bounds) -> frozenset[int]:
        """Return the addresses of the routine's code that a value may be, none if it is no such.

        `value`: The value. `bounds`: Of the index that it is made of.
        """
        if isinstance(value, Choice):
            return value.addresses
        if isinstance(value, Entry):
            key = value, bounds, len(self.tables)  # which only grow
            if key not in self._read:
                self._read[key] = self._ends.addresses(
                    value, bounds, self.tables, self._routines, self._number
                )
            return self._read[key]
        if isinstance(value, int) and self._ends.leads_into(value, self._routines, self._number):
            return frozenset((value,))
        return frozenset()


def _are_parts(routines: RoutineMap, first: int, second: int) -> bool:
    """Whether two routines are the parts of one that the compiler has cut in two."""
    names = [routines.routines[number].name for number in (first, second)]
    return names[0] == names[1] + _COLD or names[1] == names[0] + _COLD
