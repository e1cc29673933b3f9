"""Constant propagation, one instruction at a time: what each does to a `symbolic.State`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from simprof.profiler.recovery.symbolic import (
    FP,
    MASK64,
    SP,
    UNBOUNDED,
    Affine,
    Bounds,
    ComparedValues,
    Entry,
    ReadOnlyMemory,
    SymbolicState,
    SymbolicValue,
    add,
    atom_of,
    logic,
    negative,
    put,
    restore_window,
    save_window,
    shift_left,
    sign_extend,
    signed64,
)
from simprof.simulator.isa.decode import simm13
from simprof.simulator.isa.effects import is_integer_vis
from simprof.simulator.isa.sparc import LOADS_AND_STORES

_MANY_FACTS = 4  # fewer are not worth the search for dead ones

Slot: TypeAlias = "tuple[int, int] | None"  # (frame register, offset) of what is accessed


class Interpreter:
    """Executes instructions other than control transfers on states."""

    def __init__(
        self,
        words: Sequence[int],  # The code image's words
        address: Callable[[int], int],  # Word index -> address
        memory: ReadOnlyMemory,  # What loads from constant addresses read
        # (frame register, lowest offset whose address the routine takes): slots at or above it may
        # be written through pointers. A register that is absent has none.
        escapes: dict[int, int],
        tables: set[int] | None = None,  # Is told where the tables begin that are loaded from
        *,
        keep_elements: bool = False,  # Whether a frame slot may hold an element of a table
    ) -> None:
        self._words = words
        self._address = address
        self._memory = memory
        self._escapes = escapes
        self._keep_elements = keep_elements
        self._tables = set() if tables is None else tables
        self._created: set[int] = set()
        self._derived: dict[tuple[str, Affine | Entry, int], int] = {}
        self._roots: dict[int, int] = {}
        self._intrinsic: dict[int, Bounds] = {}

    # -- values ----------------------------------------------------------------------------

    def fresh(self, state: SymbolicState, site: int, kind: int, bounds: Bounds = UNBOUNDED) -> int:
        """Return a new atom made at instruction `site`, always within `bounds`."""
        # In a loop the same atom is made again: nothing may then keep the old value, or what was
        # derived from it.
        atom = site * 128 + kind  # kinds are below 128 (`DataFlow._joined`: from 64 on)
        if atom in self._created:
            self._forget(state, atom)
        self._created.add(atom)
        self._intrinsic[atom] = bounds
        return atom

    def drop_dead_facts(self, state: SymbolicState) -> None:
        """Drop facts about atoms that nothing is made of any more."""
        facts = [k for k in state if type(k) is tuple and k[0] == "fact"]
        if len(facts) < _MANY_FACTS:
            return
        roots, live = self._roots, set()
        for location, value in state.items():
            kind = type(value)
            if kind is Affine:  # by far the most frequent
                atom = value.atom
            elif kind is int or (type(location) is tuple and location[0] == "fact"):
                continue
            else:
                atom = atom_of(None, value)
            live.add(atom)
            live.add(roots.get(atom, atom))
        live.discard(None)
        for key in facts:
            if key[1] not in live and roots.get(key[1]) not in live:
                del state[key]

    def _forget(self, state: SymbolicState, root: int) -> None:
        """Drop everything that is made of `root`, or of what was derived from it."""
        roots = self._roots
        stale = []
        for location, value in state.items():
            kind = type(value)
            if kind is int:
                continue
            atom = value.atom if kind is Affine else atom_of(location, value)
            if atom is not None and (atom == root or roots.get(atom) == root):
                stale.append(location)
        for location in stale:
            del state[location]

    def derived(
        self, operation: str, operand: Affine | Entry, argument: int, bounds: Bounds
    ) -> int:
        """Return the atom that is `operation` of `operand` and a constant."""
        key = (operation, operand, argument)
        atom = self._derived.get(key)
        if atom is None:
            atom = self._derived[key] = -2 - len(self._derived)
            source = operand.atom if isinstance(operand, Affine) else operand.address.atom
            self._roots[atom] = self._roots.get(source, source)
            self._intrinsic[atom] = bounds
        return atom

    def bounds(self, state: SymbolicState, atom: int) -> Bounds:
        """Interval that holds an atom's value, as far as it is known."""
        known: Bounds | None = state.get(("fact", atom))
        return self._intrinsic.get(atom, UNBOUNDED) if known is None else known

    def interval(self, state: SymbolicState, value: object) -> Bounds:
        """Interval that holds a value, read as signed."""
        if isinstance(value, int):
            return signed64(value), signed64(value)
        if not isinstance(value, Affine):
            return UNBOUNDED
        base = signed64(value.base)
        ends = self.bounds(state, value.atom)
        low, high = (None if end is None else base + value.factor * end for end in ends)
        return (low, high) if value.factor > 0 else (high, low)

    def value(self, state: SymbolicState, register: int, site: int) -> SymbolicValue:
        """Value of a register; an unknown one becomes an atom."""
        if register == 0:
            return 0
        known: SymbolicValue | None = state.get(register)
        if known is None:
            known = Affine(0, self.fresh(state, site, register), 1)
            state[register] = known
        return known

    def operand(self, state: SymbolicState, word: int) -> SymbolicValue | None:
        """Second operand of a format 3 instruction, None if unknown."""
        if word & 0x2000:
            return simm13(word) & MASK64
        register = word & 31
        return 0 if register == 0 else state.get(register)

    def jump_target(self, state: SymbolicState, word: int) -> SymbolicValue | None:
        """Address that a jmpl goes to."""
        register = (word >> 14) & 31
        return add(0 if register == 0 else state.get(register), self.operand(state, word))

    # -- instructions ----------------------------------------------------------------------

    def execute(self, state: SymbolicState, index: int) -> None:
        """Apply the instruction at word `index`."""
        word = self._words[index]
        op = word >> 30
        if op == 2:
            self._arithmetic(state, index, word)
        elif op == 3:
            self._memory_access(state, index, word)
        elif op == 0 and (word >> 22) & 7 == 4:  # sethi
            put(state, (word >> 25) & 31, (word & 0x3FFFFF) << 10)

    def _arithmetic(self, state: SymbolicState, index: int, word: int) -> None:
        op3, rd = (word >> 19) & 63, (word >> 25) & 31
        if op3 < 0x20:
            if op3 & 0x10:  # sets the condition codes
                self._compare(state, index, word, op3)
            result = self._alu(state, index, word, op3 & 15)
            if op3 == 0x11 and isinstance(result, Affine):  # andcc
                state["cc"] = ComparedValues(result, 0)
            put(state, rd, result)
        elif op3 in (0x25, 0x26, 0x27):  # sll, srl, sra
            put(state, rd, self._shift(state, index, word, op3))
        elif op3 == 0x3C:  # save
            save_window(state, rd)
        elif op3 == 0x3D:  # restore
            result = add(self.value(state, (word >> 14) & 31, index), self.operand(state, word))
            restore_window(state, rd, result)
        elif op3 == 0x28:  # rd: of the state registers only %pc is known
            put(state, rd, self._address(index) if (word >> 14) & 31 == 5 else None)
        elif op3 <= 0x24:  # tagged arithmetic, mulscc
            state.pop("cc", None)
            put(state, rd, None)
        elif op3 in (0x2A, 0x2C, 0x2D, 0x2E, 0x2F) or (op3 == 0x36 and is_integer_vis(word)):
            put(state, rd, None)

    def _alu(
        self, state: SymbolicState, index: int, word: int, function: int
    ) -> SymbolicValue | None:
        right = self.operand(state, word)
        register = (word >> 14) & 31
        left: SymbolicValue | None
        if function in (0, 2, 4) and isinstance(right, int):  # add, or, sub of a constant
            left = self.value(state, register, index)
        else:
            left = 0 if register == 0 else state.get(register)
        if function == 0:
            if right is None and self._keep_elements and word & 31 in (SP, FP):
                right = self.value(state, word & 31, index)
            return add(left, right)
        if function == 4:
            return add(left, negative(right))
        if function == 2 and (left == 0 or right == 0):  # or: a move
            if left == 0 and right is None:
                return self.value(state, word & 31, index)
            return right if left == 0 else left
        if isinstance(left, int) and isinstance(right, int):
            return logic(function, left, right)
        if function == 1 and isinstance(right, int) and 0 < right < 1 << 31:
            return self._masked(state, index, left, right)
        return None

    def _masked(
        self, state: SymbolicState, index: int, left: SymbolicValue | None, mask: int
    ) -> SymbolicValue | None:
        """`left & mask` for a mask that is one run of ones."""
        unit = mask & -mask  # its lowest one
        limit = mask // unit
        if limit & (limit + 1):  # not a run of ones
            return None
        if isinstance(left, Entry) and not left.shift:
            left = self._element(left)
        if not isinstance(left, Affine):
            return Affine(0, self.fresh(state, index, 32, (0, limit)), unit)
        low, high = self.bounds(state, left.atom)
        fits = low is not None and high is not None and low >= 0 and high <= mask
        if fits and left.base == 0 and left.factor == unit == 1:
            return left
        return Affine(0, self.derived("and", left, mask, (0, limit)), unit)

    def _element(self, entry: Entry) -> Affine:
        """What a table holds, as a number: it may be the index into another table."""
        small = entry.size < 4 and not entry.signed
        bounds = (0, (1 << 8 * entry.size) - 1) if small else UNBOUNDED
        atom = self.derived("element", entry._replace(addend=0, shift=0), 0, bounds)
        return Affine(entry.addend, atom, 1 << entry.shift)

    def _compare(self, state: SymbolicState, index: int, word: int, op3: int) -> None:
        """Remember `cmp value, constant` and `tst value`."""
        state.pop("cc", None)
        left_register, right = (word >> 14) & 31, self.operand(state, word)
        if op3 == 0x14 and isinstance(right, int):  # subcc: cmp
            left = self.value(state, left_register, index)
            if isinstance(left, Entry) and not left.shift and right != 0:  # as no code address is
                left = self._element(left)
                state[left_register] = left
        elif op3 == 0x12 and left_register == 0 and not word & 0x2000:  # orcc: tst
            left, right = self.value(state, word & 31, index), 0
        elif op3 == 0x12 and right == 0:
            left = self.value(state, left_register, index)
        else:
            return
        if isinstance(left, Affine) and isinstance(right, int):
            state["cc"] = ComparedValues(left, signed64(right))

    def _shift(self, state: SymbolicState, index: int, word: int, op3: int) -> SymbolicValue | None:
        if not word & 0x2000:
            return None
        wide = bool(word & 0x1000)  # sllx and its like
        count = word & (63 if wide else 31)
        value = self.value(state, (word >> 14) & 31, index)
        if op3 == 0x25:
            return shift_left(value, count)
        if isinstance(value, int):
            if not wide:
                value = sign_extend(value, 32) if op3 == 0x27 else value & 0xFFFFFFFF
            elif op3 == 0x27:
                value = signed64(value)
            return value >> count & MASK64
        if count == 0:
            # `sra %rX, 0, %rX` changes only an element of 32 bits that was read as unsigned.
            if isinstance(value, Entry) and op3 == 0x27 and not wide:
                is_plain = value.size == 4 and value.addend == value.shift == 0
                return value._replace(signed=True) if is_plain else value
            return value
        if not isinstance(value, Affine):
            return None
        return self._shift_right(state, value, count, wide, op3 == 0x27)

    def _shift_right(
        self, state: SymbolicState, value: Affine, count: int, wide: bool, arithmetic: bool
    ) -> SymbolicValue | None:
        base, unit = signed64(value.base), 1 << count
        low, high = self.interval(state, value)
        small = low is not None and high is not None and low >= 0 and high < 1 << 31
        exact = small or (wide and abs(value.factor) <= 1 << 32)
        if exact and value.factor % unit == base % unit == 0:
            return Affine(base // unit & MASK64, value.atom, value.factor // unit)
        if not arithmetic:
            extended = self._low_bits(state, value, count, 64 if wide else 32)
            if extended is not None:
                return extended
        kept = (64 if wide else 32) - max(count, value.factor.bit_length() - 1)
        bounds: Bounds = (0, (1 << kept) - 1) if kept > 0 else UNBOUNDED
        if small and low is not None and high is not None:
            bounds = (low >> count, high >> count)
        elif arithmetic and kept > 0:
            bounds = (-(1 << kept - 1), (1 << kept - 1) - 1)
        if value.factor < 0 or not 0 < kept < 32:
            return None
        name = ("sra" if arithmetic else "srl") + ("x" if wide else "")
        atom = self.derived(name, value, count, bounds)
        return Affine(0, atom, 1 if small else max(1, value.factor // unit))

    def _low_bits(
        self, state: SymbolicState, value: Affine, count: int, size: int
    ) -> Affine | None:
        """`value >> count` where `value` was shifted left before: the low bits of a number."""
        # Compilers extend narrow numbers so, in 32 bits to compare them and in 64 to use them.
        shifted = (value.factor & -value.factor).bit_length() - 1  # how far
        width = size - shifted
        is_shifted = value.factor >= 0 and count <= shifted and not value.base % (1 << shifted)
        if not is_shifted or not 0 < width < 32:
            return None
        base = sign_extend(value.base >> shifted, width) & MASK64
        number = Affine(base, value.atom, value.factor >> shifted)
        low, high = self.interval(state, number)
        if low is None or high is None or low < 0 or high >= 1 << width:
            atom = self.derived("low", number, width, (0, (1 << width) - 1))
            number = Affine(0, atom, 1)
        left = shifted - count
        return Affine(number.base << left & MASK64, number.atom, number.factor << left)

    # -- memory ----------------------------------------------------------------------------

    def _memory_access(self, state: SymbolicState, index: int, word: int) -> None:
        op3, rd = (word >> 19) & 63, (word >> 25) & 31
        slot = None if op3 & 0x10 else self._slot(state, word)
        if op3 in STORES:
            self._store(state, index, slot, rd, STORES[op3], op3 in (0x04, 0x0E))  # st, stx
        elif op3 in LOADS:
            size, signed = LOADS[op3]
            put(state, rd, self._load(state, index, word, slot, size, signed))
            if op3 == 3:  # ldd: its second register
                state.pop(rd | 1, None)
        elif op3 in ATOMIC:
            self.clobber_memory(state)
            put(state, rd, None)
        elif op3 & 0x30 == 0x10:  # alternate space
            if op3 & 4:  # a store
                self.clobber_memory(state)
            else:
                put(state, rd, None)
                if op3 == 0x13:
                    state.pop(rd | 1, None)

    def _slot(self, state: SymbolicState, word: int) -> Slot:
        register = (word >> 14) & 31
        if register in (SP, FP) and word & 0x2000:
            return register, simm13(word)
        if not self._keep_elements or register in (SP, FP):
            return None
        address = add(state.get(register), self.operand(state, word))
        for frame in (FP, SP):  # offsets that no immediate holds are added to it first
            origin = state.get(frame)
            if isinstance(origin, Affine) and isinstance(address, Affine):
                offset = address.base - origin.base
                if address._replace(base=origin.base) == origin:
                    bits = 64 if self._memory.mask == MASK64 else 32
                    return frame, sign_extend(offset & MASK64, bits)
        return None

    def _load(
        self, state: SymbolicState, index: int, word: int, slot: Slot, size: int, signed: bool
    ) -> SymbolicValue | None:
        if slot is not None:
            return self._load_slot(state, index, slot, size, signed)
        register = (word >> 14) & 31
        address = add(0 if register == 0 else state.get(register), self.operand(state, word))
        if isinstance(address, int):
            constant = self._memory.read(address, size, signed)
            return None if constant is None else constant & MASK64
        if isinstance(address, Entry):
            address = self._element(address)
        if isinstance(address, Affine) and self._is_table(state, address):
            self._tables.add(address.base & self._memory.mask)
            return Entry(0, 0, address, size, signed)
        if size < 4 and not signed:
            return Affine(0, self.fresh(state, index, 34, (0, (1 << 8 * size) - 1)), 1)
        return None

    def _is_table(self, state: SymbolicState, address: Affine) -> bool:
        low, _ = self.bounds(state, address.atom)  # None: not bounded yet, so from 0 on
        start = address.base + (low or 0) * address.factor
        return self._memory.holds(start) or self._memory.holds(address.base)

    def _load_slot(
        self, state: SymbolicState, index: int, slot: tuple[int, int], size: int, signed: bool
    ) -> SymbolicValue:
        known = state.get(slot)
        if known is not None and known[0] == size:
            value: SymbolicValue = known[1]
            if isinstance(value, int) and signed:
                return sign_extend(value, 8 * size) & MASK64
            return value & (1 << 8 * size) - 1 if isinstance(value, int) else value
        bounds = (0, (1 << 8 * size) - 1) if size < 4 and not signed else UNBOUNDED
        value = Affine(0, self.fresh(state, index, 35, bounds), 1)
        if known is None:
            state[slot] = (size, value)
        return value

    def _store(
        self, state: SymbolicState, index: int, slot: Slot, rd: int, size: int, integer: bool
    ) -> None:
        if slot is None:
            self.clobber_memory(state)
            return
        register, offset = slot
        slots = [k for k in state if type(k) is tuple and k[0] == register]
        for location in slots:
            if location[1] < offset + size and location[1] + state[location][0] > offset:
                del state[location]
        if integer:
            value = self.value(state, rd, index)
            if self._keep_elements or not isinstance(value, Entry):
                state[slot] = (size, value)

    def clobber_memory(self, state: SymbolicState) -> None:
        """Forget the frame slots that a store through a pointer, or a call, may write."""
        for register, lowest in self._escapes.items():
            for location in [k for k in state if isinstance(k, tuple) and k[0] == register]:
                if location[1] + state[location][0] > lowest:
                    del state[location]

    def clobber_call(self, state: SymbolicState) -> None:
        """Forget what a called routine may change."""
        for register in range(1, 16):
            state.pop(register, None)
        state.pop("cc", None)
        self.clobber_memory(state)


STORES = {op3: access.size for op3, access in LOADS_AND_STORES.items() if not access.loads}
LOADS = {
    op3: (access.size, access.signed)
    for op3, access in LOADS_AND_STORES.items()
    if access.size and not access.stores and not access.floating
} | {0x03: (4, False)}  # ldd: the first of its two registers
# op3 of what loads and stores: ldstub, swap, and cas, whose op3 has the bit of alternate spaces.
ATOMIC = frozenset(
    op3 | alternate
    for op3, access in LOADS_AND_STORES.items()
    if access.loads and access.stores
    for alternate in (0x00, 0x10)
)
