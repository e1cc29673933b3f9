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

Steps -> functions: what the symbols and a run say is entered, and blocks are followed
(`exploration_kernel`), and when nothing is left, indirect jumps are resolved (`_resolve_jumps`),
which may open new code.
"""

# A call's return point is explored only when its callee is known to return, so code behind a call
# that never returns (padding, jump tables, the next routine) is never mistaken for code. The base
# facts are system calls that end the process and traps that end the activation; no list of names.
#
# A jump whose resolution does not survive the code that it opened is distrusted and everything
# starts over; so it is when a synthetic routine turns out to hold another one.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from simprof.profiler.recovery import exploration_kernel as k
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.idioms import is_prologue, starts_leaf
from simprof.profiler.recovery.routines import RoutineMap
from simprof.simulator.cpu import compiled
from simprof.simulator.isa.decode import IS_CALL

# Why a transfer is not followed, by `exploration_kernel.REASON`.
REASONS = (
    "",
    "goes where there is no code",
    "has its delay slot outside the code",
    "has a control transfer in its delay slot",
    "is a compare-and-branch, which the emulated CPU does not have",
)

_TELLING = 0.1  # Seconds between two messages of how far the exploration is

_ADD_TO_O7 = 0x9E03E000  # add %o7, constant, %o7, without the constant

_ROOM = 8  # Blocks due for each word, at most: it is entered, and two flows and a return lead to it


class Flow(Struct):
    """Where control goes from the instruction that ends a block; word indices, -1 for none."""

    # `leaves` is true where it may leave the routine, or end: the block has an exit edge.
    # `has_slot` tells whether the delay slot belongs to the block, `slot_block` whether it is a
    # block of its own on the taken edge.

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


class Hints(Struct, frozen=True):
    """What runs have shown (see `recovery.Discoveries`), and `landing_points`, as word indices."""

    indirect_targets: Mapping[int, frozenset[int]]
    entries: frozenset[int]
    returning_calls: frozenset[int]
    landings: frozenset[int] = frozenset()
    # Call -> where it returns, of those that do not return behind their slots
    points: Mapping[int, int] = field(default_factory=dict)
    reentries: frozenset[int] = frozenset()  # Those of `entries` that are re-entries


class Resolution(Struct, frozen=True):
    """Where an indirect jump can go: all of `targets`, or back to the caller."""

    # Where that is not `proven`, the jump may go elsewhere, too.

    targets: frozenset[int]
    returns: bool = False
    proven: bool = True

    def grows_into(self, later: Resolution | None) -> bool:
        """Whether what more code has shown is this, or more of the same."""
        if later is None or not later.proven or later.returns != self.returns:
            return False
        return self.targets <= later.targets


def digest(*parts: bytes) -> bytes:
    """Return a digest of parts, each as it is divided from the others."""
    found = blake2b(digest_size=16)
    for each in parts:
        found.update(len(each).to_bytes(8, "little") + each)
    return found.digest()


class Exploration:
    """The state of the fixpoint."""

    # After `run`, its public attributes are the result.

    def __init__(
        self,
        code: CodeImage,
        routine_map: RoutineMap,
        hints: Hints,
        distrusted: frozenset[int],
        is64: bool,
    ) -> None:
        self._obey_kernel = _in_python if compiled.is_plain() else _in_machine_code
        self.routine_map = routine_map
        # Indirect jumps that no analysis explains, with their routine
        self.unresolved: dict[int, int] = {}
        self.jumps: dict[int, set[int]] = {}  # Reachable indirect jumps by routine number
        self.switch: dict[int, set[int]] = {}  # Their targets within the routine, by jump
        self.distrusted = set(distrusted)  # Jumps whose resolution is not believed
        self.code = code
        self.is64 = is64
        self.words, self.kinds, _, self.targets, self.next_end = code.lists
        self.state = self._initial_state(hints)  # All that the kernel has found
        self.hints = hints
        self._resolved: dict[int, Resolution] = {}
        self._analysed: dict[int, int] = {}
        self._jumps_seen = 0
        self._told: Callable[[int, int], None] | None = None
        self._telling = 0.0

    def run(
        self,
        # Routine number -> its reachable indirect jumps and what they resolve to
        resolve: Callable[[int], Mapping[int, Resolution | None]],
        # Who is told how many of the routines known so far have been reached, if anybody
        told: Callable[[int, int], None] | None = None,
    ) -> None:
        """Explore to the fixpoint."""
        self._told = told
        entered: list[int] = []
        leaves: list[int] = []
        landings = self.hints.landings
        for index in sorted(self.hints.entries):
            is_leaf = not is_prologue(self.words, index) and starts_leaf(self.words, index)
            (leaves if is_leaf else entered).append(index)
        self._obey(k.BEGIN, entered)
        while True:
            self._obey(k.FOLLOW_BLOCKS)
            self._note()
            if self.stale:
                return
            if self._follow_returns() or self._resolve_jumps(resolve):
                continue
            if owned := [index for index in sorted(landings) if self._is_owned(index)]:
                landings = landings.difference(owned)
                self._obey(k.BEGIN, owned)
            elif not self._obey(k.SETTLE, leaves):
                return
            else:
                leaves = []

    def _is_owned(self, index: int) -> bool:
        """Whether the routine is known that word `index` belongs to."""
        # A symbol says so, or that the routine has reached it. Without a symbol, code behind a
        # routine may be of another one that nothing has reached yet.
        owner = int(self.state.at[k.OWNER, index])
        reached = int(self.state.at[k.LEADER, index]) == owner + 1
        return owner >= 0 and (reached or bool(self.state.routine[owner, k.COVERED]))

    def span(self, number: int) -> slice:
        """Return the words among which all of a routine's are."""
        routine = self.routine_map.routines[number]
        if routine.size:
            return slice(routine.start, routine.start + (routine.size + 3) // 4)
        _, end, _ = self.routine_map.region(routine.start)
        return slice(routine.start, end)

    # -- results ---------------------------------------------------------------------------

    def leaders(self, number: int) -> set[int]:
        """Return where the reachable blocks of a routine start."""
        return self._words_of(k.LEADER, number)

    def entries(self, number: int) -> set[int]:
        """Return where a routine is entered."""
        return self._words_of(k.ENTRY, number)

    def _words_of(self, row: int, number: int) -> set[int]:
        own = self.span(number)
        words = self.state.at[row, own]
        return set((np.flatnonzero(words == number + 1) + own.start).tolist())

    def flows(self, words: Sequence[int]) -> list[Flow | None]:
        """Return where control goes from instructions that end blocks; None: not known yet."""
        found: list[Flow | None] = []
        rows = self.state.at[k.FALL : k.FLAGS + 1, words].T.tolist()
        for at, (fall, taken, call_return, flags) in zip(words, rows, strict=True):
            where = (
                self.kinds[at],
                fall - 1,
                taken - 1,
                call_return - 1,
                self.switch.get(at, set()),
            )
            how = (bool(flags & each) for each in (k.LEAVES, k.HAS_SLOT, k.SLOT_BLOCK))
            found.append(Flow(*where, *how) if flags & k.KNOWN else None)
        return found

    def extent(self, number: int, origin: int) -> bytes:
        """Return which words are a routine's, and what transfers they are."""
        # `origin`: The word from which words are counted.
        own = self.span(number)
        place = np.array([own.start - origin, own.stop - origin], np.int64)
        return place.tobytes() + self.code.transfers.kind[own].tobytes()

    def fingerprint(self, number: int, origin: int) -> bytes:
        """Return a digest of where control goes within a routine, as far as it is explored."""
        # `origin`: As for `extent`.
        at = self.state.at[:, self.span(number)]
        own = at[[k.LEADER, k.ENTRY]] == number + 1
        jumps = sorted(self.jumps.get(number, ()))
        switches = [[jump, *sorted(self.switch.get(jump, ()))] for jump in jumps]
        flow = at[k.FALL : k.RETURN + 1]
        parts = [self.extent(number, origin), own.tobytes()]
        parts.append(np.where(flow > 0, flow - origin, 0).tobytes())
        parts += [(np.array(each, np.int64) - origin).tobytes() for each in switches]
        return digest(*parts)

    @property
    def stale(self) -> bool:
        """Whether all must start over."""
        return bool(self.state.counts[k.STALE])

    @property
    def returning(self) -> list[bool]:
        """Whether a routine returns, by its number."""
        count = int(self.state.counts[k.ROUTINES])
        column: list[bool] = (self.state.routine[:count, k.RETURNING] != 0).tolist()
        return column

    @property
    def no_return(self) -> dict[int, int]:
        """Calls and traps behind which nothing executes, with their routine."""
        numbers = self.state.at[k.NO_RETURN]
        calls = np.flatnonzero(numbers)
        return dict(zip(calls.tolist(), (numbers[calls] - 1).tolist(), strict=True))

    @property
    def irregular(self) -> dict[int, str]:
        """What we refuse to follow: word index -> reason."""
        reasons = self.state.at[k.FLAGS] // k.REASON
        return {int(at): REASONS[reasons[at]] for at in np.flatnonzero(reasons)}

    def call_aliases(self) -> list[int]:
        """Words of `call .+8`, which only read the program counter."""
        taken = np.flatnonzero(self.state.at[k.TAKEN])
        found: list[int] = taken[self.state.kinds[taken] == k.CALL].tolist()
        return found

    # -- arrays ----------------------------------------------------------------------------

    def _initial_state(self, hints: Hints) -> k.State:
        code, routines = self.code, self.routine_map.routines
        n = len(code.words)
        at = np.zeros((k.AT_ROWS, n), dtype=np.int32)
        at[k.OWNER] = self.routine_map.owners()
        at[k.FLAGS, list(self.routine_map.symbol_starts)] |= k.SYMBOL
        at[k.FLAGS, sorted(hints.returning_calls)] |= k.RETURNS
        for span in code.deferred:
            first = code.place.index(span.start + 3 & ~3)
            at[k.FLAGS, first : first + (span.end - (span.start + 3 & ~3) + 3) // 4] |= k.DEFERRED
        routine = np.empty((len(routines) + n, k.ROUTINE_COLUMNS), dtype=np.int32)
        known = routine[: len(routines)]
        known[:] = -1
        known[:, k.START] = [each.start for each in routines]
        known[:, k.COVERED] = [each.size > 0 for each in routines]
        known[:, k.RETURNING] = known[:, k.LEADERS] = 0
        counts = np.zeros(k.COUNTS, dtype=np.int64)
        counts[k.ROUTINES], counts[k.IS64] = len(routines), self.is64
        room = len(routines) + _ROOM * n

        def rows(length: int, columns: int) -> NDArray[np.int32]:
            return np.empty((length, columns), dtype=np.int32)  # costs what is used of it

        words = code.words
        if hints.points:  # as if the caller, not the callee, moved the return address
            words = words.copy()
            for call, point in hints.points.items():
                words[call + 1] = _ADD_TO_O7 | 4 * (point - call - 2)
        state: k.State = k.State(
            words, code.transfers.kind, code.transfers.annulled, code.targets,
            code.block_ends, at, routine, rows(room, 2), rows(2 * room, 2), rows(room, 3),
            rows(n, 2), rows(n, 3), rows(n, 3), counts,
        )  # fmt: skip
        return state

    def _obey(self, command: int, words: Sequence[int] = ()) -> bool:
        given = np.array(words, dtype=np.int64)
        return bool(self._obey_kernel(self.state, command, -1, -1, 0, given))

    def _note(self) -> None:
        """Take over what the kernel has found: routines, indirect jumps."""
        state = self.state
        routines = self.routine_map.routines
        for start in state.routine[len(routines) : state.counts[k.ROUTINES], k.START].tolist():
            self.routine_map.add_synthetic(start)
        count = int(state.counts[k.JUMPS])
        for jump, number in state.jumps[self._jumps_seen : count].tolist():
            self.jumps.setdefault(number, set()).add(jump)
        self._jumps_seen = count
        if self._told is not None and monotonic() >= self._telling:
            self._telling = monotonic() + _TELLING
            known = state.routine[: state.counts[k.ROUTINES], k.LEADERS]
            self._told(int(np.count_nonzero(known)), len(known))

    # -- indirect jumps, and calls that return to several places ---------------------------

    def _follow_returns(self) -> bool:
        """Follow calls to where a run has seen them return, too; return whether any is new."""
        new = [
            call
            for call in self.hints.indirect_targets
            if call >= 0 and IS_CALL[self.kinds[call]] and call not in self.switch
            if self.state.at[k.RETURN, call] > 0
        ]
        for call in new:
            number = int(self.state.at[k.OWNER, call])
            targets = np.array(sorted(self.hints.indirect_targets[call]), dtype=np.int64)
            self._follow_jump(call, number, 0, targets)
        return bool(new)

    def _resolve_jumps(self, resolve: Callable[[int], Mapping[int, Resolution | None]]) -> bool:
        """Resolve the jumps of routines that have grown; return whether anything changed."""
        changed = False
        for number, jumps in list(self.jumps.items()):
            size = int(self.state.routine[number, k.LEADERS]) + len(jumps)
            if self._analysed.get(number) == size:
                continue
            self._analysed[number] = size
            resolutions = resolve(number)
            for jump in sorted(jumps):
                self._jump(jump, number, resolutions.get(jump))
            changed = True
            self._note()
        return changed

    def _jump(self, jump: int, number: int, resolution: Resolution | None) -> None:
        before = self._resolved.get(jump)
        if before is not None and not before.grows_into(resolution):
            self.distrusted.add(jump)
            self.state.counts[k.STALE] = 1
            return
        known = self.hints.indirect_targets.get(jump, frozenset())
        flags = 0
        if resolution is not None:
            known |= resolution.targets
        proven = resolution is not None and resolution.proven and jump not in self.distrusted
        if resolution is not None and proven and jump not in self.unresolved:
            self._resolved[jump] = resolution
            flags = k.JUMP_RETURNS | k.JUMP_LEAVES if resolution.returns else 0
        elif jump not in self.unresolved:
            self.unresolved[jump] = number
            flags = k.JUMP_RETURNS | (0 if known else k.JUMP_LEAVES)
        self._follow_jump(jump, number, flags, np.array(sorted(known), dtype=np.int64))

    def _follow_jump(self, jump: int, number: int, flags: int, targets: k.Longs) -> None:
        # Room for more blocks that are due: the same jumps are followed again and again.
        state, used = self.state, int(self.state.counts[k.WORK])
        if len(state.work) < used + len(targets) + _ROOM * len(state.words):
            work = np.empty((2 * (len(state.work) + len(targets)), 2), dtype=np.int32)
            work[:used] = state.work[:used]
            self.state = state._replace(work=work)
        self._obey_kernel(self.state, k.FOLLOW_JUMP, jump, number, flags, targets)
        self.switch.setdefault(jump, set()).update(targets[targets >= 0].tolist())


def _in_machine_code(
    s: k.State, command: int, jump: int, number: int, flags: int, words: k.Longs
) -> int:
    return compiled.call(k.obey, s, command, jump, number, flags, words)


def _in_python(s: k.State, command: int, jump: int, number: int, flags: int, words: k.Longs) -> int:
    """Do what the kernel does, on views of the arrays: their elements are Python's integers."""
    views: Any = (each.data for each in s)
    given: Any = words.data
    return k.obey(k.State(*views), command, jump, number, flags, given)
