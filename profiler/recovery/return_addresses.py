"""Uses of the address that a call leaves in %o7.

Nearly all code returns to it, behind the delay slot, or behind the `unimp` that marks the call of a
function with a structure as its result. Some assembly keeps data behind a call:

- a call over data that reads these through %o7 is a *jump*: nothing returns to it
  (`jumping_calls`);
- a routine reads its arguments behind the call and returns behind them (`unusual_uses`).

Both follow from one walk over the code (`use_from`), with what registers hold of the address:
the distance from it, None where that is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.recovery.idioms import (
    PROLOGUE,
    PROLOGUE_MASK,
    bit,
    operands,
    return_point,
    writes_integer,
)
from simprof.simulator.isa.decode import RETURN_OFFSETS, TransferKind, Transfers, simm13

Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]
Held = dict[int, int | None]  # Register -> how far behind the call what it holds is

_K = TransferKind
_O7, _I7, _WINDOW = 15, 31, 16
_ADD, _OR, _SUB = (0x00, 0x10), (0x02, 0x12), (0x04, 0x14)
_SAVE, _RESTORE, _RETURN, _JUMP, _TRAP = 0x3C, 0x3D, 0x39, 0x38, 0x3A
_DOUBLE = (0x03, 0x13)  # ldd, ldda
_IMMEDIATE = 1 << 13
_COPIED = 32  # No register: %o7 was last set from another one
_MOST_STEPS = 2000  # Words that one walk looks at
_ROUNDS = 4  # Visits of one place until distances are not followed any more
_NEAR = 1000  # Words that data behind a call take, at most
_LOOKED_AT = 24  # Words behind a copy of %o7 in which it would be used
_UNCHANGED = frozenset((8,))


class CodeWords(Protocol):
    """What is asked of `code_image.CodeLists`."""

    @property
    def words(self) -> Sequence[int]:
        """The instructions."""

    @property
    def kinds(self) -> Sequence[int]:
        """`TransferKind` by word."""

    @property
    def annulled(self) -> Sequence[bool]:
        """Annul bits by word."""

    @property
    def targets(self) -> Sequence[int]:
        """Word indices of direct targets, -1 for none."""


class Code(Protocol):
    """What is asked of `code_image.CodeImage`, which keeps what is found here."""

    @property
    def is64(self) -> bool:
        """Whether the program has 64 bits."""

    @property
    def words(self) -> NDArray[np.uint32]:
        """The instructions."""

    @property
    def is_code(self) -> NDArray[np.bool_]:
        """Whether a word is code."""

    @property
    def transfers(self) -> Transfers:
        """The decoded transfers."""

    @property
    def targets(self) -> NDArray[np.int32]:
        """Word indices of direct targets, -1 for none."""

    @property
    def lists(self) -> CodeWords:
        """The same as sequences."""


class Use(NamedTuple):
    """What code does with the address of the call that led to it."""

    # Distances from the call at which it returns; None: one that the code does not tell
    returns: frozenset[int | None] = frozenset()
    # Distances at which it reads memory, or writes it
    reads: frozenset[int | None] = frozenset()
    computes: bool = False  # Whether it makes other addresses of it
    # Whether it closes its caller's window, or returns by an address from elsewhere
    leaves: bool = False
    is_whole: bool = True  # Whether all code was looked at

    @property
    def is_usual(self) -> bool:
        """Whether it makes no difference where the call is, and what lies around it."""
        return self.returns <= _UNCHANGED and not self.reads

    @property
    def distance(self) -> int | None:
        """The one distance at which it returns, None where that is not known."""
        found = next(iter(self.returns)) if len(self.returns) == 1 else None
        is_near = found is not None and RETURN_OFFSETS[0] <= found < 4 * _NEAR
        return found if is_near and found is not None and not found % 4 else None


def jumping_calls(code: Code, starts: Indices, is64: bool) -> Iterator[int]:
    """Yield the calls, by word, that are jumps over what they read through %o7.

    `starts`: Where functions begin that have names.
    """
    words, targets = code.words, code.targets
    calls = np.flatnonzero((code.transfers.kind == _K.CALL) & (targets >= 0))
    to = targets[calls]
    possible = (to != calls + 2) & (words[to] & PROLOGUE_MASK != PROLOGUE) & ~np.isin(to, starts)
    if len(starts):  # not to another function
        possible &= np.searchsorted(starts, calls, "right") == np.searchsorted(starts, to, "right")
    else:
        possible &= (calls + 2 < to) & (to <= calls + _NEAR)
    for call, target in zip(calls[possible].tolist(), to[possible].tolist(), strict=True):
        use = use_from(code.lists, target, is64)
        if use.is_whole and use.leaves and not use.returns and (use.reads or use.computes):
            yield call


def unusual_uses(code: Code, starts: Indices, is64: bool) -> Mapping[int, Use]:
    """Return what routines do that do not merely return behind their calls.

    By their first word; they begin where a name says so, and where calls lead.
    """
    calls = np.flatnonzero((code.transfers.kind == _K.CALL) & (code.targets >= 0))
    called = code.targets[calls]
    begins = np.unique(np.concatenate([starts, called[called != calls + 2]]))
    if not len(begins):
        return {}
    kinds, slots = code.transfers.kind, np.append(code.words[1:], np.uint32(0))
    jumps = np.isin(kinds, (_K.BRANCH, _K.BRANCH_ALWAYS))
    moves = (slots >> 30 == 2) & ((slots >> 19 & 63 == _RESTORE) | (slots >> 25 & 31 == _O7))
    passing = np.flatnonzero((jumps | (moves & (kinds == _K.CALL))) & (code.targets >= 0))
    has_window = code.words[begins] & PROLOGUE_MASK == PROLOGUE
    possible = np.zeros(len(begins) + 1, np.bool_)
    for register, where in ((_I7, True), (_O7, False)):
        uses = _may_be_unusual(code, register, is64)
        owners = np.searchsorted(begins, uses, "right") - 1
        possible[owners[has_window[owners] == where]] = True
    # A function returns behind an `unimp` always, or never.
    back = np.flatnonzero(np.isin(kinds, (_K.RETURN, _K.RETURN_JUMP)))
    near, far = (back[code.words[back] & 0x1FFF == offset] for offset in RETURN_OFFSETS)
    possible[
        np.intersect1d(*(np.searchsorted(begins, each, "right") - 1 for each in (near, far)))
    ] = True
    found: dict[int, Use] = {}
    asked = np.zeros_like(possible)
    while (possible & ~asked)[:-1].any():
        for begin in begins[(possible & ~asked)[:-1]].tolist():
            use = use_from(code.lists, begin, is64, while_held=True)
            if not use.is_usual:
                found[begin] = use
        asked |= possible
        # and whoever ends with a jump to one of them
        passing = passing[np.isin(code.targets[passing], list(found))] if found else passing[:0]
        possible[np.searchsorted(begins, passing, "right") - 1] = True
    return found


def _may_be_unusual(code: Code, register: int, is64: bool) -> Indices:
    """Return the words that use a register otherwise than to return by it, or to keep it."""
    # Most words name neither register, and are not looked at any further.
    words = code.words
    names = (words >> 14 & 31 == register) | (words & 31 == register)
    places = np.flatnonzero(names & (words >> 31 == 1) & code.is_code)
    named = words[places]
    op, op3 = named >> 30, named >> 19 & 63
    first, second, to = named >> 14 & 31, named & 31, named >> 25 & 31
    is_immediate = named & _IMMEDIATE != 0
    usual = is_immediate & np.isin(named & 0x1FFF, RETURN_OFFSETS[: 1 if is64 else 2])
    usual &= ((op3 == _JUMP) & (to == 0)) | (op3 == _RETURN)
    copies = np.isin(op3, _OR) & ~is_immediate & ((first == 0) | (second == 0)) & (op == 2)
    uses = (first == register) | ((second == register) & ~is_immediate)
    others = uses & ((op == 3) | ((op == 2) & ~usual & ~copies & (op3 < _TRAP)))
    kept = uses & copies & (to != _O7) & (to != _I7)
    used = _used_later(code, places[kept], to[kept])
    return np.union1d(places[others], places[kept][used])


def _used_later(code: Code, places: Indices, registers: Indices) -> Flags:
    """Return which registers some code near behind uses otherwise than to copy them."""
    # `registers`: What the instruction at each of `places` writes.
    used, branched = np.zeros((2, len(places)), np.bool_)
    called, left = np.zeros((2, len(places)), np.bool_)
    holds, in_call = np.ones_like(used), registers >> 3 == 1
    for ahead in range(1, _LOOKED_AT):
        at = np.minimum(places + ahead, len(code.words) - 1)
        behind = code.words[at]
        op, op3, first = behind >> 30, behind >> 19 & 63, behind >> 14 & 31
        copies = np.isin(op3, _OR) & (behind & _IMMEDIATE == 0) & (op == 2)
        copies &= (first == 0) | (behind & 31 == 0)
        used |= holds & (op >= 2) & (first == registers) & ~copies
        loads = (op == 3) & (op3 < 0x20) & (op3 & 4 == 0)
        is_set = ((op == 2) & (op3 < 0x30)) | loads | ((op == 0) & (behind >> 22 & 7 == 4))
        # What follows a branch may be executed without it, but not what follows a jump elsewhere.
        jumps = (code.transfers.kind[at] == _K.BRANCH_ALWAYS) & (code.targets[at] >= 0)
        jumps &= (code.targets[at] < places) | (code.targets[at] > places + _LOOKED_AT)
        branched |= (op == 0) & ~is_set & ~jumps
        to = behind >> 25 & 31
        # A call's callee has the registers for arguments; if the slot sets %o7, it does not return.
        is_lost = (is_set & (to == registers)) | (called & (in_call | ((op == 2) & (to == _O7))))
        is_lost |= left
        called, left = op == 1, jumps
        holds &= ~is_lost | branched
    return used


def use_from(code: CodeWords, start: int, is64: bool, *, while_held: bool = False) -> Use:
    """Return what the code from word `start` on does with the address in %o7.

    `while_held`: What it does when no register holds the address any more is not asked.
    """
    return _UseWalk(code, is64, while_held).run(start)


class _UseWalk:
    """One walk over all code that control may reach from a word."""

    def __init__(self, code: CodeWords, is64: bool, while_held: bool) -> None:
        self._code, self._is64, self._while_held = code, is64, while_held
        self._returns: set[int | None] = set()
        self._reads: set[int | None] = set()
        self._computes = self._leaves = False

    def run(self, start: int) -> Use:
        """Walk from word `start`."""
        work: list[tuple[int, Held, tuple[Held, ...]]] = [(start, {_O7: 0}, ())]
        seen: set[object] = set()
        times: Counter[int] = Counter()
        first: dict[int, Held] = {}
        steps = 0
        while work:
            at, held, outer = work.pop()
            times[at] += 1
            before = first.setdefault(at, held)
            if times[at] > _ROUNDS:  # a loop that counts up: nothing tells how far
                held = {r: d if before.get(r) == d else None for r, d in held.items()}
            key = at, frozenset(held.items()), *(frozenset(each.items()) for each in outer)
            if key in seen:
                continue
            seen.add(key)
            held = dict(held)
            while 0 <= at < len(self._code.words) and steps < _MOST_STEPS:
                if self._while_held and not (held or any(outer)):
                    break
                steps += 1
                kind = self._code.kinds[at]
                if kind not in (_K.NONE, _K.TRAP_CONDITIONAL, _K.TRAP_ALWAYS):
                    work += self._transfer(at, kind, held, outer)
                    break
                after = self._execute(self._code.words[at], held, outer)
                if after is None:
                    break
                held, outer = after
                at += 1
        return Use(
            frozenset(self._returns),
            frozenset(self._reads),
            self._computes,
            self._leaves,
            steps < _MOST_STEPS,
        )

    def _transfer(
        self, at: int, kind: int, held: Held, outer: tuple[Held, ...]
    ) -> list[tuple[int, Held, tuple[Held, ...]]]:
        """Return where control goes from the transfer `at`, and with what."""
        code, word, target = self._code, self._code.words[at], self._code.targets[at]
        if at + 1 >= len(code.words) or kind in (_K.ILLEGAL, _K.TRAP_RETURN, _K.RETURN_FROM_TRAP):
            return []
        slot = code.words[at + 1]
        if kind in (_K.BRANCH, _K.BRANCH_ALWAYS, _K.BRANCH_NEVER, _K.COMPARE_BRANCH):
            annulled = code.annulled[at]
            executed = self._execute(slot, held, outer)
            past = (held, outer) if annulled else executed
            taken = past if kind == _K.BRANCH_ALWAYS else executed
            ways = [(target, taken)] if kind != _K.BRANCH_NEVER and target >= 0 else []
            ways += [(at + 2, past)] if kind != _K.BRANCH_ALWAYS else []
            return [(to, *state) for to, state in ways if state is not None]
        if kind in (_K.CALL, _K.INDIRECT_CALL, _K.JUMP_AND_LINK):
            point = return_point(code.words, code.kinds, at, self._is64)
            after = self._execute(slot, _without(held, _O7), outer)
            if after is None:
                return []
            if point < 0:  # it passes its own return address on
                return [(target, *after)] if target >= 0 else []
            kept = {r: d for r, d in after[0].items() if r >= 16 or r < 5}
            return [(point, kept, after[1])]
        self._go_back(word, held, outer)
        if kind != _K.RETURN:
            self._execute(slot, held, outer)
        return []

    def _go_back(self, word: int, held: Held, outer: tuple[Held, ...]) -> None:
        """Note where a jump through registers returns to, if it does."""
        base, offset = word >> 14 & 31, simm13(word) if word & _IMMEDIATE else None
        if offset is None and not word & 31:
            offset = 0
        index = -1 if word & _IMMEDIATE else word & 31
        if base in held or index in held:
            distance = held.get(base)
            self._returns.add(None if distance is None or offset is None else distance + offset)
        elif (base == _I7 and not outer) or (base == _O7 and _COPIED in held and not outer):
            self._leaves = True

    def _execute(
        self, word: int, held: Held, outer: tuple[Held, ...]
    ) -> tuple[Held, tuple[Held, ...]] | None:
        """Return what registers hold behind an instruction; None where the caller's window is."""
        op, op3, to = word >> 30, word >> 19 & 63, word >> 25 & 31
        if op == 2 and op3 == _SAVE:
            inner = {r + _WINDOW if r >= 8 else r: d for r, d in held.items() if r < 16}
            below = {r: d for r, d in held.items() if 16 <= r < _COPIED}
            return _without(inner, to), (*outer, below)
        if op == 2 and op3 == _RESTORE:
            if not outer:
                self._leaves = True
                return None
            back = dict(outer[-1])
            kept = ((r, d) for r, d in held.items() if r < 8 or 24 <= r < _COPIED)
            back |= {r - _WINDOW if r >= 24 else r: d for r, d in kept}
            return _without(back, to), outer[:-1]
        if op == 3 and (operands(word) & _mask(held)):
            self._reads.add(self._sum(word, held))
        if not writes_integer(word) or op == 1:
            return held, outer
        held = dict(held)
        made = self._made(word, held) if op == 2 and op3 < 0x30 else ()
        for register in (to, to | 1 if op == 3 and op3 in _DOUBLE else to):
            held.pop(register, None)
        if made:
            held[to] = made[0]
        if to == _O7:
            held.pop(_COPIED, None)
            if not made and op == 2 and op3 in (*_OR, *_ADD):
                held[_COPIED] = None
        return held, outer

    def _made(self, word: int, held: Held) -> tuple[int | None] | tuple[()]:
        """Return how far behind the call a result is; nothing where it is no such address."""
        if not operands(word) & _mask(held):
            return ()
        op3, first, is_immediate = word >> 19 & 63, word >> 14 & 31, word & _IMMEDIATE
        distance, second = held.get(first), word & 31
        if not is_immediate and first == 0 and op3 in (*_ADD, *_OR):
            return (held[second],)
        constant = simm13(word) if is_immediate else 0
        if first in held and (is_immediate or second == 0):
            if op3 in _OR and constant == 0:
                return (distance,)
            self._computes = self._computes or constant != 0
            if distance is not None and op3 in (*_ADD, *_SUB):
                return (distance + (constant if op3 in _ADD else -constant),)
        self._computes = True
        return (None,)

    def _sum(self, word: int, held: Held) -> int | None:
        """Return how far behind the call the address of a load or store is."""
        distance = held.get(word >> 14 & 31)
        if distance is None or not (word & _IMMEDIATE or not word & 31):
            return None
        return distance + (simm13(word) if word & _IMMEDIATE else 0)


def _mask(held: Held) -> int:
    return sum(bit(register) for register in held)


def _without(held: Held, register: int) -> Held:
    return {r: distance for r, distance in held.items() if r != register}


def points_behind(code: Code, uses: Mapping[int, Use]) -> dict[int, int]:
    """Return the direct calls that do not return behind their slots -> where, as word indices."""
    calls = np.flatnonzero(code.transfers.kind == _K.CALL)
    calls = calls[np.isin(code.targets[calls], list(uses))]
    found, lists = {}, code.lists
    for call, target in zip(calls.tolist(), code.targets[calls].tolist(), strict=True):
        distance = uses[target].distance
        comes_back = return_point(lists.words, lists.kinds, call, code.is64) >= 0
        if comes_back and distance is not None and distance != RETURN_OFFSETS[0]:
            found[call] = call + distance // 4
    return found


def point_shown(code: Code, uses: Mapping[int, Use], jump: int, target: int) -> int | None:
    """Return the call behind which a run has seen `jump` return, to `target`; None: it is none."""
    # The jump is in a routine that uses its return address, and the call the last one before.
    routine = max((start for start in uses if start <= jump), default=-1)
    if routine < 0 or jump - routine > _NEAR:
        return None
    kinds: Sequence[int] = code.lists.kinds
    for call in range(target - 3, max(-1, target - _NEAR), -1):
        if kinds[call] == _K.INDIRECT_CALL:
            return call
        if kinds[call] == _K.CALL and code.lists.targets[call] in uses:
            return call if code.lists.targets[call] == routine else None
    return None
