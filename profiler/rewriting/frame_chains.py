"""Routines that walk up the stack: they follow saved frame pointers and read what was saved with
them, return addresses.

A window's registers are saved in its frame, %fp (the caller's frame) at word 14 and %i7 at word 15
(SPARC ABIs, chapter 3). Whoever reads them there flushes the windows first, `flushw` or `ta 3`,
often in a routine of its own, so that the walk is known by its loads alone. Terms:

- A *frame* is the value of %fp or %sp, or what such a frame's word 14 holds.
- A *link* is a value that was loaded from where word 14 would be, of a frame or of any structure.
- A *pointer* is an argument or a call's result, of which nothing is known.

A routine walks if it loads word 15 of a frame; or word 15 of a link, and a link's word 14 as the
next link, as for a frame that it was given. Word 15 of a pointer is enough in 64 bits, where frames
lie 2047 bytes from where pointers to them lead, as nothing else does, and in 32 bits in programs
that save windows in frames for no known purpose (`callers.flushing`): an optimiser unrolls loops.

Steps: forward data flow of these values, with their distance from them, through registers
(`_flow`, `_step`) and words of the routine's own frame, those at a constant distance from %fp or
%sp, where unoptimised code keeps its variables.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.graphs.cfg import ENTRIES, ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.code_image import CodeImage
from simprof.simulator.isa.decode import simm13
from simprof.simulator.isa.sparc import STACK_BIAS_64, WINDOW_SAVE_WORDS

_SP, _O7, _FP = 14, 15, 30
_IMMEDIATE: Final = 1 << 13
_ADD, _OR, _SUB, _SHIFTS = (0x00, 0x10), (0x02, 0x12), (0x04, 0x14), (0x25, 0x26, 0x27)
_SAVE, _RESTORE, _JUMP, _LEAVE = 0x3C, 0x3D, 0x38, 0x39  # `return` is the last
# FPop1, FPop2, `wr`, traps and other operations that write no integer register
_NO_RESULTS = frozenset((*range(0x30, 0x36), 0x3A, 0x3B))
_LD, _LDD, _LDX, _ST, _STX = 0x00, 0x03, 0x0B, 0x04, 0x0E
_CALLERS = (*range(1, 14), _O7)  # Registers that a call changes
_PARAMETERS = (*range(8, 14), *range(24, 30))


class _Kind(Enum):
    FRAME = 0
    LINK = 1
    POINTER = 2


_Value = frozenset[tuple[_Kind, int]]  # What a register may hold, and how many bytes from there
_State = dict[int, _Value]  # By register; what is not there is of no interest
_NOTHING: Final[_Value] = frozenset()
_FRAME: Final[_Value] = frozenset({(_Kind.FRAME, 0)})
_LINK: Final[_Value] = frozenset({(_Kind.LINK, 0)})
_POINTER: Final[_Value] = frozenset({(_Kind.POINTER, 0)})


class FrameChains:
    """Finds routines of a program that walk up the stack; `of_pointers`: as said above."""

    def __init__(self, code: CodeImage, is64: bool, *, of_pointers: bool) -> None:
        self._code, self.is64, self.of_pointers = code, is64, of_pointers
        self._bias = STACK_BIAS_64 if is64 else 0
        size = 8 if is64 else 4
        self._link, self._return = size * (WINDOW_SAVE_WORDS - 2), size * (WINDOW_SAVE_WORDS - 1)
        # Distances that a walk comes by; others are forgotten, so that the flow ends.
        words = (self._link, self._return)
        self._distances = {0, self._bias, *words, *(self._bias + word for word in words)}

    def may_walk(self) -> NDArray[np.bool_]:
        """Say of each word whether it may be what reads a saved return address.

        It loads at the distance of one, or adds that. A routine without such a word does not walk.
        """
        words = self._code.words
        op, op3 = words >> 30, words >> 19 & 63
        takes = (op == 2) & np.isin(op3, (*_ADD, *_SUB))
        takes |= (op == 3) & np.isin(op3, (_LD, _LDD, _LDX))
        constant = (words & 0x1FFF).astype(np.int64)
        constants = (self._return, self._return + self._bias)
        found = np.isin(constant, constants) & takes
        if not self.is64:
            found |= (op == 3) & (op3 == _LDD) & (constant == self._link)
        result: NDArray[np.bool_] = found & (words & _IMMEDIATE != 0)
        return result

    def walks(self, cfg: ControlFlowGraph) -> bool:
        """Whether a routine walks up the stack."""
        may_walk = (self.of_pointers and not self.is64) or self._has_links(cfg)
        return may_walk and _FrameWalk(self, self._code, cfg).found

    def _has_links(self, cfg: ControlFlowGraph) -> bool:
        # Most routines with such a constant have neither the other one, nor a copy of a frame.
        constants = {self._link, self._link + self._bias, self._bias + self._return} - {0}
        if self.is64:
            constants.discard(self._link)
            constants.add(self._bias)
        else:
            constants.discard(self._return)
        for block in cfg.blocks:
            for word in self._code.words_of(block):
                if word & _IMMEDIATE and word >> 30 >= 2 and word & 0x1FFF in constants:
                    return True
                sources = (word >> 14 & 31, word & 0x3FFF)
                is_copy = word >> 30 == 2 and word >> 19 & 63 in _OR and 0 in sources
                if is_copy and not {_SP, _FP}.isdisjoint(sources) and not self.is64:
                    return True
        return False

    # -- what one instruction makes of values

    def moved(self, value: _Value, distance: int) -> _Value:
        """Return a value some bytes further."""
        there = ((kind, at + distance) for kind, at in value)
        return frozenset(each for each in there if each[1] in self._distances)

    def computed(self, word: int, state: _State) -> _Value:
        """Return what an operation on integers makes."""
        op3, one = word >> 19 & 63, _held(state, word >> 14 & 31)
        if word & _IMMEDIATE:
            constant = simm13(word)
            if op3 in (*_ADD, _SAVE, _RESTORE):
                return self.moved(one, constant)
            if op3 in _SUB:
                return self.moved(one, -constant)
            return one if op3 in (*_OR, *_SHIFTS) and word & 0x1FFF == 0 else _NOTHING
        if op3 in (*_ADD, *_OR, _SAVE, _RESTORE):
            if word & 31 == 0:
                return one
            if word >> 14 & 31 == 0:
                return _held(state, word & 31)
        return _NOTHING

    def address(self, word: int, state: _State) -> _Value:
        """Return where a load or store refers to."""
        one = _held(state, word >> 14 & 31)
        if word & _IMMEDIATE:
            return self.moved(one, simm13(word))
        return one if word & 31 == 0 else _NOTHING

    def loads(self, word: int) -> tuple[bool, bool]:
        """Return whether a load may be of word 14, and of word 15: by its size."""
        op3 = word >> 19 & 63
        if self.is64:
            return op3 == _LDX, op3 == _LDX
        return op3 in (_LD, _LDD), op3 == _LD

    def link(self, kind: _Kind) -> set[tuple[_Kind, int]]:
        """Return where word 14 of such a value is; of pointers, a bias may have been added."""
        found = {(kind, self._bias + self._link)}
        return found | {(kind, self._link)} if kind is _Kind.POINTER else found

    def saved(self, kind: _Kind) -> tuple[_Kind, int]:
        """Return where word 15 of such a value is."""
        return kind, self._bias + self._return

    def names_link(self, word: int) -> bool:
        """Whether a load takes what is as far from a register as word 14 is from a frame."""
        distances = (self._link, self._link + self._bias)
        return bool(word & _IMMEDIATE) and word & 0x1FFF in distances


class _FrameWalk:
    """The data flow of one routine."""

    def __init__(self, chains: FrameChains, code: CodeImage, cfg: ControlFlowGraph) -> None:
        self._chains, self._code, self._cfg = chains, code, cfg
        self._slots: dict[tuple[int, int], _Value] = defaultdict(lambda: _NOTHING)
        self._of_frame = self._of_link = self._has_next = self._of_pointer = False
        self._slots_changed = True
        while self._slots_changed and not self.found:
            self._slots_changed = False
            self._flow()

    @property
    def found(self) -> bool:
        """Whether the routine walks up the stack."""
        if self._of_frame or (self._of_link and self._has_next):
            return True
        return self._of_pointer and self._chains.of_pointers

    def _flow(self) -> None:
        cfg = self._cfg
        out = defaultdict(list)
        for edge in cfg.edges:
            out[edge.source].append(edge)
        begun = dict.fromkeys(_PARAMETERS, _POINTER)
        states: dict[int, _State] = {e.target: begun for e in cfg.edges if e.kind in ENTRIES}
        work = list(states)
        while work and not self.found:
            block = work.pop()
            state = dict(states[block])
            for word in self._code.words_of(cfg.blocks[block]):
                self._step(word, state)
            for edge in out[block]:
                if edge.target == cfg.exit:
                    continue
                left = _behind_call(state) if edge.kind is EdgeKind.CALL_RETURN else state
                merged = _merged(states.get(edge.target), left)
                if merged != states.get(edge.target):
                    states[edge.target] = merged
                    work.append(edge.target)

    def _step(self, word: int, state: _State) -> None:
        op, op3, rd = word >> 30, word >> 19 & 63, word >> 25 & 31
        if op == 0 and word >> 22 & 7 == 4:  # sethi
            state.pop(rd, None)
        elif op == 2:
            if op3 in _NO_RESULTS:
                return
            if op3 == _LEAVE:  # its delay slot belongs to the caller's window
                _change_window(state, saves=False)
                return
            value = self._chains.computed(word, state) if op3 != _JUMP else _NOTHING
            if op3 in (_SAVE, _RESTORE):
                _change_window(state, saves=op3 == _SAVE)
            _set(state, rd, value)
        elif op == 3 and op3 in (_ST, _STX):
            self._store(word, state)
        elif op == 3 and (op3 < 0x20 or op3 >= 0x3C) and (op3 >= 0x3C or not op3 & 4 or op3 & 8):
            _set(state, rd, self._loaded(word, state))
            if op3 == _LDD:
                state.pop(rd | 1, None)

    def _store(self, word: int, state: _State) -> None:
        slot, value = _slot(word), _held(state, word >> 25 & 31)
        if slot is not None and not value <= self._slots[slot]:
            self._slots[slot] |= value
            self._slots_changed = True

    def _loaded(self, word: int, state: _State) -> _Value:
        chains = self._chains
        of_link, of_return = chains.loads(word)
        if not of_link:
            return _NOTHING
        address = chains.address(word, state)
        is_frames = not address.isdisjoint(chains.link(_Kind.FRAME))
        is_links = not address.isdisjoint(chains.link(_Kind.LINK))
        is_pair = not of_return  # ldd has word 15, too
        self._of_frame |= (is_pair and is_frames) or chains.saved(_Kind.FRAME) in address
        self._of_link |= (is_pair and is_links) or chains.saved(_Kind.LINK) in address
        self._of_pointer |= chains.saved(_Kind.POINTER) in address
        self._has_next |= is_links
        if is_frames:
            return _FRAME | _LINK
        if is_links or not address.isdisjoint(chains.link(_Kind.POINTER)):
            return _LINK
        slot = _slot(word)
        if slot is not None:
            return self._slots[slot]
        return _LINK if chains.names_link(word) else _NOTHING


def _held(state: _State, register: int) -> _Value:
    return _FRAME if register in (_SP, _FP) else state.get(register, _NOTHING)


def _set(state: _State, register: int, value: _Value) -> None:
    if register and value:
        state[register] = value
    else:
        state.pop(register, None)


def _slot(word: int) -> tuple[int, int] | None:
    """Return which word of the routine's frame a load or store names."""
    base = word >> 14 & 31
    return (base, simm13(word)) if base in (_SP, _FP) and word & _IMMEDIATE else None


def _change_window(state: _State, *, saves: bool) -> None:
    """Rename registers as `save` or `restore` does."""
    before, after = (8, 24) if saves else (24, 8)
    kept = {n + after - before: v for n, v in state.items() if before <= n < before + 8}
    for register in [n for n in state if n >= 8]:
        del state[register]
    state.update(kept)


def _behind_call(state: _State) -> _State:
    """Return what is left when a call returns, and its result."""
    left = {register: value for register, value in state.items() if register not in _CALLERS}
    return left | {8: _POINTER}


def _merged(one: _State | None, other: _State) -> _State:
    if one is None:
        return dict(other)
    both = one.keys() | other.keys()
    return {n: one.get(n, _NOTHING) | other.get(n, _NOTHING) for n in both}
