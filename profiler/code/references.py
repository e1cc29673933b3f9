"""References to data: which of their addresses a trace has to hold (BL94 4.2, table 3).

A *reference* is an instruction that reads or writes memory. Its address is *recorded* where the
instruction stands, unless it follows from the code alone (it is a constant), or from the code and
an address recorded before in the same execution of the block: AE's *abstract execution*, within
blocks. Whoever has regenerated the blocks takes addresses off the trace in the order of the
references that are recorded, and adds `offset` for the others.

Steps, for each block, in the order in which it executes:

1. What each register holds is followed as a sum of unknown values and a constant (`_Value`).
2. A reference whose unknown part is that of an earlier recorded one differs from it by a constant.

Code cannot stand in a delay slot: addresses there are recorded before the transfer. Those of an
annulled slot are recorded with the block of its branch, whether or not the slot is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simprof.profiler.code.blocks import BlockCode
from simprof.profiler.code.liveness import Liveness
from simprof.profiler.code.registers import members
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.simulator.isa.assembler import AssemblyError, Register
from simprof.simulator.isa.decode import TransferKind, simm13
from simprof.simulator.isa.effects import ALL, Window

R = Register

_PREFETCHES = (0x2D, 0x3D)  # they have addresses, and read nothing
_COMPARE_AND_SWAP = (0x3C, 0x3E)  # these have no offset
_ADD, _OR, _SUB, _JMPL, _SAVE, _RESTORE = 0x00, 0x02, 0x04, 0x38, 0x3C, 0x3D
_REGISTERS = tuple(Register)
_MOST_UNKNOWN = 4  # A sum of more values is a new one: doubling a register doubles them.


class DataReference(NamedTuple):
    """One reference, as a place in the list of its block's."""

    # block, position: The instruction; the block may be the slot block behind the one that lists
    # it.
    block: int
    position: int
    at: int  # The code that records it stands before this position of the block that lists it.
    # base, offset: Its address is that of the recorded reference number `base` of the list, itself
    # where it is recorded, and `offset` more; or `offset` alone, where there is none (None).
    base: int | None
    offset: int


class _Value(NamedTuple):
    """A sum of unknown values, by number, and a constant."""

    unknown: tuple[int, ...]
    constant: int


class Operands(NamedTuple):
    """The sum that an instruction's address is: of a register, and a register or a constant."""

    base: Register
    offset: Register | int


def is_reference(word: int) -> bool:
    """Whether an instruction reads or writes memory."""
    return word >> 30 == 3 and word >> 19 & 63 not in _PREFETCHES


def operands(word: int) -> Operands:
    """Return what a reference's address is the sum of."""
    base = Register(word >> 14 & 31)
    if word >> 19 & 63 in _COMPARE_AND_SWAP:
        return Operands(base, 0)
    return Operands(base, simm13(word) if word >> 13 & 1 else Register(word & 31))


def recorded_operands(code: BlockCode, words: Sequence[int], position: int) -> Operands:
    """Return `operands` as they are named where the address is recorded (`DataReference.at`).

    Raises AssemblyError if they have no name there.
    """
    # code, words: Of the block that has the instruction at `position`.
    base, offset = operands(words[position])
    if code.kind is not TransferKind.RETURN or code.transfer is None or position < code.transfer:
        return Operands(base, offset)
    # The slot of V9's `return` executes in the caller's window.
    return Operands(_before_return(base), offset if type(offset) is int else _before_return(offset))


def _before_return(register: int) -> Register:
    if register >= R.L0:
        raise AssemblyError("the slot of a return refers by registers of the caller's own")
    return R(register + (R.I0 - R.O0) if register >= R.O0 else register)


def references(cfg: ControlFlowGraph, liveness: Liveness) -> tuple[tuple[DataReference, ...], ...]:
    """Return by block what is referenced when it executes; slot blocks have none of their own."""
    return tuple(
        () if block.is_slot else tuple(_ValueFollower(cfg, liveness, block.id).found())
        for block in cfg.blocks
    )


class _ValueFollower:
    """Follows what registers hold through one block."""

    def __init__(self, cfg: ControlFlowGraph, liveness: Liveness, block: int) -> None:
        self._cfg, self._facts, self._blocks = cfg, liveness.facts, liveness.blocks
        self._block = block
        self._held: dict[Register, _Value] = {}
        self._unknown = 0

    def found(self) -> Iterator[DataReference]:
        """Yield the references, in order."""
        code = self._blocks[self._block]
        recorded: dict[tuple[int, ...], tuple[int, int]] = {}
        number = 0
        for block, position, index in self._instructions():
            word, here = int(self._facts.words[index]), self._cfg.blocks[block].start + 4 * position
            if is_reference(word):
                value = self._address(*operands(word))
                end = code.count if code.transfer is None else code.transfer
                at = min(position, end) if block == self._block else end
                if value.unknown:
                    base, constant = recorded.setdefault(value.unknown, (number, value.constant))
                    yield DataReference(block, position, at, base, value.constant - constant)
                else:
                    yield DataReference(block, position, at, None, value.constant)
                number += 1
            self._execute(word, index, here)

    def _instructions(self) -> Iterator[tuple[int, int, int]]:
        """Yield block, position and index of each instruction; that of a slot block comes last."""
        code = self._blocks[self._block]
        for position in range(code.count):
            yield self._block, position, code.first + position
        for edge in self._cfg.out_edges[self._block]:
            if self._cfg.edges[edge].kind is EdgeKind.SLOT:
                slot = self._cfg.edges[edge].target
                yield slot, 0, self._blocks[slot].first

    def _new(self) -> _Value:
        self._unknown += 1
        return _Value((self._unknown,), 0)

    def _in(self, register: Register) -> _Value:
        if register is R.G0:
            return _Value((), 0)
        if register not in self._held:
            self._held[register] = self._new()
        return self._held[register]

    def _address(self, base: Register, offset: Register | int) -> _Value:
        # A Register is an int, too.
        other = self._in(offset) if isinstance(offset, Register) else _Value((), offset)
        return self._sum(self._in(base), other)

    def _sum(self, one: _Value, other: _Value) -> _Value:
        unknown = tuple(sorted(one.unknown + other.unknown))
        if len(unknown) > _MOST_UNKNOWN:
            return self._new()
        return _Value(unknown, one.constant + other.constant)

    def _execute(self, word: int, index: int, here: int) -> None:
        """Note what an instruction leaves in the registers."""
        result = self._result(word, here)
        reads, writes = self._facts.effects
        if reads[index] == ALL:
            self._held.clear()  # nobody knows
            return
        if shift := self._facts.shifts[index]:
            self._move(R.O0 if shift == Window.SAVE else R.I0)
        else:
            for register in members(writes[index], _REGISTERS):
                self._held.pop(register, None)
        if result is not None:
            self._held[result[0]] = result[1]

    def _move(self, first: Register) -> None:
        """Enter another window: its ins are these outs, or its outs these ins, from `first` on."""
        other = R.I0 if first is R.O0 else R.O0
        both = {r: value for r, value in self._held.items() if r < R.O0}
        for n in range(8):
            if first + n in self._held:
                both[R(other + n)] = self._held[R(first + n)]
        self._held = both

    def _result(self, word: int, here: int) -> tuple[Register, _Value] | None:
        """Return the register that an instruction sets to a value that is known; None: none."""
        rd, operation = Register(word >> 25 & 31), word >> 30
        if operation == 1:
            return R.O7, _Value((), here)
        if operation == 0 and word >> 22 & 7 == 4:
            return rd, _Value((), (word & 0x3FFFFF) << 10)
        if operation != 2:
            return None
        op3, one, other = word >> 19 & 63, self._in(Register(word >> 14 & 31)), self._second(word)
        if op3 == _JMPL:
            return rd, _Value((), here)
        if op3 in (_ADD, _SAVE, _RESTORE):
            return rd, self._sum(one, other)
        if op3 == _SUB and not other.unknown:
            return rd, _Value(one.unknown, one.constant - other.constant)
        if op3 == _OR and other == ((), 0):
            return rd, one
        if op3 == _OR and one == ((), 0):
            return rd, other
        if op3 == _OR and not one.unknown and not other.unknown:
            return rd, _Value((), one.constant | other.constant)
        return None

    def _second(self, word: int) -> _Value:
        return _Value((), simm13(word)) if word >> 13 & 1 else self._in(Register(word & 31))
