"""Reachable code and what returns, as one least fixpoint over the whole program.

Terms
-----
leader
    Word index at which a reachable block starts.
flow
    Where control goes from the instruction that ends a block, within its routine.
returning
    A routine from whose entries a return can be reached: through calls of returning routines
    only, by a tail call of a returning routine, or in a way that we cannot see into.

A call's return point is explored only when its callee is known to return, so code behind a call
that never returns (padding, jump tables, the next routine) is never mistaken for code. The base
facts are system calls that end the process and traps that end the activation; no list of names.

Steps -> functions: what the symbols and a run say is entered (`explore`), blocks are followed
(`_visit`, `_transfer`), and when nothing is left, indirect jumps are resolved (`_resolve_jumps`),
which may open new code. A jump whose resolution does not survive the code that it opened is
distrusted and everything starts over; so it is when a synthetic routine turns out to hold
another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from profiler.recovery.code_image import CodeImage
from profiler.recovery.idioms import (
    ending_trap,
    gets_context,
    is_prologue,
    is_restore,
    return_point,
    saves_context,
    starts_leaf,
)
from profiler.recovery.routines import NO_CODE, NOBODY, RoutineMap
from simulator.isa.decode import HAS_DELAY_SLOT, TransferKind

_K = TransferKind
_HAS_SLOT = HAS_DELAY_SLOT.tolist()
_COUPLES = frozenset(np.flatnonzero(HAS_DELAY_SLOT).tolist()) | {_K.COMPARE_BRANCH, _K.TRAP_RETURN}


@dataclass
class Flow:
    """Where control goes from the instruction that ends a block; word indices, -1 for none.

    `leaves` is true where it may leave the routine, or end: the block has an exit edge.
    `has_slot` tells whether the delay slot belongs to the block, `slot_block` whether it is a
    block of its own on the taken edge.
    """

    kind: int
    fall: int = -1
    taken: int = -1
    call_return: int = -1
    switch: set[int] = field(default_factory=set)
    leaves: bool = False
    has_slot: bool = False
    slot_block: bool = False

    def successors(self) -> Iterable[int]:
        """Return the word indices that follow within the routine."""
        return (i for i in (self.fall, self.taken, self.call_return, *self.switch) if i >= 0)


@dataclass(frozen=True)
class Hints:
    """What runs have shown, as word indices (see `recovery.Discoveries`)."""

    indirect_targets: Mapping[int, frozenset[int]]
    entries: frozenset[int]
    returning_calls: frozenset[int]


@dataclass(frozen=True)
class Resolution:
    """Where an indirect jump can go: all of `targets`, or back to the caller.

    Where that is not `proven`, the jump may go elsewhere, too.
    """

    targets: frozenset[int]
    returns: bool = False
    proven: bool = True

    def grows_into(self, later: Resolution | None) -> bool:
        """Whether what more code has shown is this, or more of the same."""
        if later is None or not later.proven or later.returns != self.returns:
            return False
        return self.targets <= later.targets


class Exploration:
    """The state of the fixpoint. After `run`, its public attributes are the result.

    Attributes
    ----------
    leaders, entries
        Word indices by routine number.
    flows
        By word index of the instruction that ends a block.
    returning
        By routine number.
    no_return
        Calls and traps behind which nothing executes, with their routine.
    unresolved
        Indirect jumps that no analysis explains, with their routine.
    irregular
        What we refuse to follow: word index -> reason.
    """

    def __init__(
        self,
        code: CodeImage,
        routine_map: RoutineMap,
        hints: Hints,
        distrusted: frozenset[int],
        is64: bool,
    ) -> None:
        self.routine_map = routine_map
        self.leaders: list[set[int]] = []
        self.entries: list[set[int]] = []
        self.flows: dict[int, Flow] = {}
        self.returning: list[bool] = []
        self.no_return: dict[int, int] = {}
        self.unresolved: dict[int, int] = {}
        self.irregular: dict[int, str] = {}
        self.jumps: dict[int, set[int]] = {}
        self.distrusted = set(distrusted)
        self.stale = False
        self.code = code
        self.is64 = is64
        self.words, self.kinds, self._annulled, self.targets, self.next_end = code.lists
        self._hints = hints
        self._work: list[tuple[int, int]] = []
        self._waiting: dict[int, list[tuple[int, int, int]]] = {}
        self._unsettled: list[tuple[int, int, int]] = []
        self._tail_callers: dict[int, list[int]] = {}
        self._ending_traps: dict[int, tuple[int, int]] = {}
        self._resolved: dict[int, Resolution] = {}
        self._analysed: dict[int, int] = {}
        self._leaves: list[int] = []
        self._savers: dict[int, bool] = {}

    def run(self, resolve: Callable[[int], Mapping[int, Resolution | None]]) -> None:
        """Explore to the fixpoint.

        Parameters
        ----------
        resolve
            Routine number -> its reachable indirect jumps and what they resolve to.
        """
        for number, routine in enumerate(self.routine_map.routines):
            self._enter(number, routine.start)
        for index in sorted(self._hints.entries):
            if not is_prologue(self.words, index) and starts_leaf(self.words, index):
                self._leaves.append(index)
            else:
                self._enter_at(index, starts=is_prologue(self.words, index))
        while True:
            self._drain()
            if self.stale:
                return
            if not (self._recheck_traps() or self._resolve_jumps(resolve) or self._settle()):
                return

    def _drain(self) -> None:
        while self._work:
            index, number = self._work.pop()
            self._visit(index, number)

    # -- entering code ---------------------------------------------------------------------

    def _grow(self) -> None:
        while len(self.leaders) < len(self.routine_map.routines):
            self.leaders.append(set())
            self.entries.append(set())
            self.returning.append(False)

    def _enter(self, number: int, index: int) -> None:
        self._grow()
        if index not in self.entries[number]:
            self.entries[number].add(index)
            self._work.append((index, number))

    def _enter_at(self, index: int, *, starts: bool) -> int:
        """Enter whatever owns word `index`; return its number or NO_CODE.

        `starts` says that a routine starts there, if no symbol knows better.
        """
        owner = self.routine_map.owner(index)
        if owner == NO_CODE:
            return NO_CODE
        if owner == NOBODY or (
            starts
            and not self.routine_map.is_covered(owner)
            and self.routine_map.routines[owner].start != index
        ):
            owner = self._split(index, owner)
        self._enter(owner, index)
        return owner

    def _split(self, index: int, owner: int) -> int:
        number = self.routine_map.add_synthetic(index)
        self._grow()
        if owner >= 0:
            _, end, _ = self.routine_map.region(index)
            due = (at for at, routine in self._work if routine == owner)
            self.stale |= any(index <= at < end for at in chain(self.leaders[owner], due))
            self.stale |= any(index <= i + 1 < end for i in self._tails(owner))
        return number

    def _tails(self, owner: int) -> Iterable[int]:
        """Block ends of routine `owner`, for telling whether it reaches into a new one."""
        return (self.next_end[leader] for leader in self.leaders[owner])

    # -- blocks ----------------------------------------------------------------------------

    def _visit(self, index: int, number: int) -> None:
        leaders = self.leaders[number]
        if index in leaders:
            return
        leaders.add(index)
        last = self.next_end[index]
        _, end, _ = self.routine_map.region(index)
        if last >= end:
            self._leave(number, end, end - 1)
        elif last not in self.flows:
            self.flows[last] = self._transfer(last, number)

    def _flow_to(self, number: int, index: int, source: int, flow: Flow) -> int:
        """Go to word `index`: return it if it is in the routine, else leave and return -1."""
        if self.routine_map.owner(index) == number:
            self._work.append((index, number))
            return index
        flow.leaves = True
        self._leave(number, index, source)
        return -1

    def _leave(self, number: int, index: int, source: int) -> None:
        """Control passes for good to word `index` of another routine, or of none.

        Where no symbol says whose code that is, and its owner has not reached it, it may still.
        """
        owner = self.routine_map.owner(index)
        prologue = is_prologue(self.words, index)
        unclear = owner >= 0 and index not in self.leaders[owner] and not prologue
        if unclear and not self.routine_map.is_covered(owner):
            self._unsettled.append((index, number, source))
        else:
            self._pass_to(number, index, source, starts=prologue)

    def _settle(self) -> bool:
        """Pass on what left for code that its owner has not reached: a routine starts there.

        So does one where a run has entered such code that has no window, if its owner has one.
        """
        leaves, self._leaves = self._leaves, []
        for index in leaves:
            owner = self.routine_map.owner(index)
            start = self.routine_map.routines[owner].start if owner >= 0 else -1
            windowed = is_prologue(self.words, start)
            self._enter_at(index, starts=windowed and index not in self.leaders[owner])
        waiting, self._unsettled = self._unsettled, []
        for index, number, source in waiting:
            owner = self.routine_map.owner(index)
            self._pass_to(number, index, source, starts=index not in self.leaders[owner])
        return bool(waiting or leaves)

    def _pass_to(self, number: int, index: int, source: int, *, starts: bool) -> None:
        other = self._enter_at(index, starts=starts)
        if other == NO_CODE:
            if not self._is_deferred(source):
                self.irregular[source] = "goes where there is no code"
            self._mark_returning(number)
        elif self.returning[other]:
            self._mark_returning(number)
        else:
            self._tail_callers.setdefault(other, []).append(number)

    def _is_deferred(self, source: int) -> bool:
        target = int(self.code.transfers.target[source])
        return any(target in span for span in self.code.deferred)

    def _mark_returning(self, number: int) -> None:
        pending = [number]
        while pending:
            routine = pending.pop()
            if self.returning[routine]:
                continue
            self.returning[routine] = True
            for caller, call, point in self._waiting.pop(routine, ()):
                self._resume(caller, call, point)
            pending += self._tail_callers.pop(routine, ())

    # -- what ends blocks ------------------------------------------------------------------

    def _transfer(self, at: int, number: int) -> Flow:
        kind = self.kinds[at]
        flow = Flow(kind)
        annulled = self._annulled[at]
        if _HAS_SLOT[kind]:
            flow.has_slot = not annulled
            flow.slot_block = annulled and kind == _K.BRANCH
            if reason := self._slot_problem(at, flow):
                self.irregular[at] = reason
                flow.leaves = True
                flow.has_slot &= self.routine_map.owner(at + 1) != NO_CODE
                flow.slot_block = False
                self._mark_returning(number)
                return flow
        self.flows[at] = flow  # the routine may reach its own call again below
        if kind in (_K.BRANCH, _K.BRANCH_ALWAYS, _K.BRANCH_NEVER):
            self._branch(at, number, flow)
        elif kind in (_K.CALL, _K.INDIRECT_CALL, _K.JUMP_AND_LINK):
            self._call(at, number, flow)
        elif kind == _K.TRAP_ALWAYS:
            self._trap(at, number, flow)
        elif kind == _K.JUMP:
            self.jumps.setdefault(number, set()).add(at)
        else:
            self._end(at, number, flow)
        return flow

    def _slot_problem(self, at: int, flow: Flow) -> str | None:
        if not (flow.has_slot or flow.slot_block):
            return None
        if self.routine_map.owner(at + 1) == NO_CODE:
            return "has its delay slot outside the code"
        if self.kinds[at + 1] in _COUPLES:
            return "has a control transfer in its delay slot"
        return None

    def _end(self, at: int, number: int, flow: Flow) -> None:
        """Returns, and instructions that raise a fault."""
        flow.leaves = True
        if flow.kind in (_K.RETURN, _K.RETURN_JUMP):
            self._mark_returning(number)
        elif flow.kind == _K.COMPARE_BRANCH:
            self.irregular[at] = "is a compare-and-branch, which the emulated CPU does not have"

    def _branch(self, at: int, number: int, flow: Flow) -> None:
        target = self.targets[at]
        if flow.kind == _K.BRANCH_NEVER:
            flow.fall = self._flow_to(number, at + 2, at, flow)
            return
        if flow.kind == _K.BRANCH and (target != at + 2 or flow.slot_block):
            flow.fall = self._flow_to(number, at + 2, at, flow)
        if target < 0 or self._is_tail_call(at, number, target):
            flow.leaves = True
            self._leave(number, target, at)
        else:
            flow.taken = self._flow_to(number, target, at, flow)

    def _is_tail_call(self, at: int, number: int, target: int) -> bool:
        """Whether a jump to `target`, which seems to be inside the routine, is a call.

        It is one to the routine's own start after popping the window: a new activation. Where no
        symbol says how far the routine reaches, another prologue says that it has ended.
        """
        if self.routine_map.owner(target) != number:
            return False
        if self.routine_map.routines[number].start == target:
            return self.flows[at].has_slot and is_restore(self.words[at + 1])
        return not self.routine_map.is_covered(number) and is_prologue(self.words, target)

    def _call(self, at: int, number: int, flow: Flow) -> None:
        target = self.targets[at] if flow.kind == _K.CALL else -1
        if (
            flow.kind == _K.CALL
            and target == at + 2
            and not self.routine_map.is_symbol_start(target)
        ):
            flow.taken = self._flow_to(number, target, at, flow)
            return
        point = return_point(self.words, self.kinds, at, self.is64)
        if point < 0:
            flow.leaves = True
            if flow.kind == _K.CALL:
                self._leave(number, target, at)
            else:
                self._mark_returning(number)
            return
        self.no_return[at] = number
        callee = self._enter_at(target, starts=True) if target >= 0 else NO_CODE
        if callee == NO_CODE or self.returning[callee] or at in self._hints.returning_calls:
            self._resume(number, at, point)
        else:
            self._waiting.setdefault(callee, []).append((number, at, point))

    def _resume(self, number: int, call: int, point: int) -> None:
        """The callee of `call` returns: go on at `point`, unless that is not this routine."""
        flow = self.flows[call]
        if self.routine_map.owner(point) == number:
            if flow.kind == _K.CALL and self._saves_context(self.targets[call]):
                self._enter(number, point)
            flow.call_return = point
            del self.no_return[call]
            self._work.append((point, number))
        elif call in self._hints.returning_calls:
            flow.leaves = True
            del self.no_return[call]
            self._leave(number, point, call)

    def _saves_context(self, callee: int) -> bool:
        """Whether a routine is like `setjmp`: what lands behind its call enters the caller anew."""
        known = self._savers.get(callee)
        if known is None:
            known = saves_context(self.words, self.kinds, self.targets, callee, self.is64)
            self._savers[callee] = known
        return known

    # -- traps -----------------------------------------------------------------------------

    def _trap(self, at: int, number: int, flow: Flow) -> None:
        ends = False
        if (
            at not in self._hints.returning_calls
            and (setter := ending_trap(self.words, self.kinds, at, self.is64)) is not None
        ):
            ends = True
            self._ending_traps[at] = (number, setter)
        if gets_context(self.words[at], self.is64) and self.routine_map.owner(at + 1) == number:
            self._enter(number, at + 1)
        if ends:
            self.no_return[at] = number
        else:
            flow.fall = self._flow_to(number, at + 1, at, flow)

    def _recheck_traps(self) -> bool:
        """A leader between the system call and its number: other numbers are possible."""
        changed = False
        for at, (number, setter) in list(self._ending_traps.items()):
            leaders = self.leaders[number]
            slot = setter > 0 and _HAS_SLOT[self.kinds[setter - 1]]
            if slot or any(index in leaders for index in range(setter + 1, at + 1)):
                del self._ending_traps[at]
                del self.no_return[at]
                flow = self.flows[at]
                flow.fall = self._flow_to(number, at + 1, at, flow)
                changed = True
        return changed

    # -- indirect jumps --------------------------------------------------------------------

    def _resolve_jumps(self, resolve: Callable[[int], Mapping[int, Resolution | None]]) -> bool:
        """Resolve the jumps of routines that have grown; return whether anything changed."""
        changed = False
        for number, jumps in list(self.jumps.items()):
            size = len(self.leaders[number]) + len(jumps)
            if self._analysed.get(number) == size:
                continue
            self._analysed[number] = size
            resolutions = resolve(number)
            for jump in sorted(jumps):
                self._jump(jump, number, resolutions.get(jump))
            changed = True
        return changed

    def _jump(self, jump: int, number: int, resolution: Resolution | None) -> None:
        before = self._resolved.get(jump)
        if before is not None and not before.grows_into(resolution):
            self.distrusted.add(jump)
            self.stale = True
            return
        flow = self.flows[jump]
        known = self._hints.indirect_targets.get(jump, frozenset())
        if resolution is not None:
            known |= resolution.targets
        proven = resolution is not None and resolution.proven and jump not in self.distrusted
        if resolution is not None and proven and jump not in self.unresolved:
            self._resolved[jump] = resolution
            if resolution.returns:
                flow.leaves = True
                self._mark_returning(number)
        elif jump not in self.unresolved:
            self.unresolved[jump] = number
            self._mark_returning(number)
            flow.leaves |= not known
        for target in sorted(known):
            if self._is_tail_call(jump, number, target):
                flow.leaves = True
                self._leave(number, target, jump)
            elif (inside := self._flow_to(number, target, jump, flow)) >= 0:
                flow.switch.add(inside)
