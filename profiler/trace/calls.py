"""Calls between routines: where control goes, and profiles of call paths (EPP 1.2).

Whoever writes a trace and whoever reads it ask `Callees`, so that what the one leaves out the
other knows. Blocks and edges have program-wide numbers. Call paths are counted in a regenerated
execution.

Steps: `number_calls` numbers the call graph; `CallPaths` follows the executed blocks with a stack
of activations and counts. Only blocks that end with a call or leave their routine matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from simprof.profiler.engine.walk import UNKNOWN, GraphIndex
from simprof.profiler.graphs.cfg import Block, EdgeKind
from simprof.profiler.recovery.calls import call_sites
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind

_K = TransferKind
_CALLS = (_K.CALL, _K.INDIRECT_CALL, _K.JUMP_AND_LINK)


class Exit(IntEnum):
    """How control leaves a routine by an EXIT edge."""

    UNKNOWN = 0  # only the run tells: an event of the trace
    RETURN = 1
    ENTER = 2  # another routine, in place of this one
    CALL = 3  # another routine, which does not return
    WRITTEN = 4  # a routine, or the caller: the address is in the trace


class Callees:
    """What calls and exits lead to."""

    # `index`: The program's graphs.

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._code = index.recovered.code
        self._no_return = index.recovered.no_return_calls
        self.source = {edge: b for b, edge in enumerate(index.exit_edge) if edge != UNKNOWN}
        self.callee = cache(self._callee)
        self.exit = cache(self._exit)

    def is_indirect(self, block: int) -> bool:
        """Whether a trace has the target of the transfer that ends `block`."""
        number = self._index.routine(block)
        cfg = self._index.recovered.routines[number]
        return block - int(self._index.first_block[number]) in cfg.indirect

    def entry(self, address: int) -> int:
        """Return the ENTRY edge to the block at `address`, or UNKNOWN."""
        return self._index.entry_edge[self._index.block_at(address)]

    def returns(self, block: int, target: int) -> bool:
        """Whether a jump from `block` to block `target`, of which the trace tells, is a return."""
        index = self._index
        if index.routine(block) == index.routine(target) or index.starts_routine(target):
            return False
        return target in index.return_blocks

    def _callee(self, block: int) -> int:
        """Return the ENTRY edge that the call at the end of `block` leads to, or UNKNOWN."""
        transfer, kind = self._transfer(block)
        return self.entry(self._target(transfer)) if kind == _K.CALL else UNKNOWN

    def _exit(self, edge: int) -> tuple[Exit, int]:
        """Return how control leaves by an EXIT edge, and the ENTRY edge that follows or UNKNOWN."""
        block = self.source[edge]
        transfer, kind = self._transfer(block)
        if kind in (_K.RETURN, _K.RETURN_JUMP):
            return Exit.RETURN, UNKNOWN
        if kind == _K.JUMP:
            return Exit.WRITTEN, UNKNOWN
        if kind in _CALLS:
            way = Exit.CALL if transfer in self._no_return else Exit.ENTER
            return way, self._callee(block)
        entry = self.entry(self._leaving_target(block, transfer, kind))
        return (Exit.UNKNOWN if entry == UNKNOWN else Exit.ENTER), entry

    def _leaving_target(self, block: int, transfer: int, kind: int) -> int:
        """Return where a block leaves its routine for without a call or jump; -1 if nowhere."""
        described = self._block(block)
        if described.is_slot or kind == _K.BRANCH_ALWAYS:
            return self._target(transfer)
        if kind == _K.BRANCH:
            number = self._index.routine(block)
            cfg, first = self._index.recovered.routines[number], self._index.first_block[number]
            kinds = {cfg.edges[edge].kind for edge in cfg.out_edges[block - int(first)]}
            inside = EdgeKind.TAKEN in kinds or EdgeKind.SLOT in kinds
            return transfer + 8 if inside else self._target(transfer)
        if kind == _K.BRANCH_NEVER:
            return transfer + 8
        return described.end if kind in (_K.NONE, _K.TRAP_CONDITIONAL) else -1

    def _block(self, block: int) -> Block:
        number = self._index.routine(block)
        cfg = self._index.recovered.routines[number]
        return cfg.blocks[block - int(self._index.first_block[number])]

    def _transfer(self, block: int) -> tuple[int, int]:
        """(address, kind) of the transfer that ends a block; NONE where it just goes on."""
        described = self._block(block)
        if described.is_slot:
            return described.start - 4, self._kind(described.start - 4)
        for address in (described.end - 8, described.end - 4):
            kind = self._kind(address)
            # whether the delay slot at the end of the block belongs to the block
            is_own = not self._code.transfers.annulled[self._code.index(address)]
            delays = bool(HAS_DELAY_SLOT[kind]) and is_own
            if address >= described.start and kind and delays == (address == described.end - 8):
                return address, kind
        return described.end - 4, int(_K.NONE)

    def _kind(self, address: int) -> int:
        word = self._code.index(address)
        return int(self._code.transfers.kind[word]) if word >= 0 else int(_K.NONE)

    def _target(self, address: int) -> int:
        return int(self._code.transfers.target[self._code.index(address)])


# -- Call paths
#
# The call graph has the routines, and an edge from each to every routine that its code calls or
# jumps to directly (`recovery.calls`). A call path is of routines, each called by the one before
# it. It begins at the program's first routine or, as recursion makes cycles, at the target of a
# back edge of the call graph. Every activation counts the call path that leads to it.
# They are numbered as EPP 3.2 numbers paths: dummy edges lead from ENTRY to where call paths begin,
# and from every routine to EXIT, for a call path may end in any of them.
# A dynamic edge is a call that the call graph lacks: through a pointer, or of a signal handler.
# EPP 1.2 says that these need a dynamic data structure. Paths over one have no number; they are
# distinguished by their routines. One that leads to a routine on its own path begins a path anew,
# too.

Array = npt.NDArray[np.int64]
CallPath = tuple[int, ...]  # Routines by position
NONE = -1


class CallNumbering(Struct, frozen=True):
    """Numbers of the call paths of a call graph."""

    starts: Mapping[int, int]  # Routine at which paths begin -> value of its dummy edge
    # Edge of the call graph, back edges excepted -> its value
    values: Mapping[tuple[int, int], int]
    back_edges: frozenset[tuple[int, int]]  # Edges that end a path and begin another one
    total: int  # How many call paths there are

    def number(self, path: CallPath) -> int | None:
        """Return a path's number; None where it has none."""
        found = self.starts.get(path[0])
        for edge in pairwise(path):
            value = self.values.get(edge)
            if found is None or value is None:
                return None
            found += value
        return found


def number_calls(edges: Iterable[tuple[int, int]], root: int) -> CallNumbering:
    """Number the call paths that begin at `root` or at a recursive call (EPP figure 5)."""
    # edges: (caller, callee); what `root` does not reach takes no part.
    callees: dict[int, list[int]] = {}
    for caller, callee in sorted(set(edges)):
        callees.setdefault(caller, []).append(callee)
    order, back = _search(callees, root)
    paths: dict[int, int] = {}
    values: dict[tuple[int, int], int] = {}
    for caller in order:
        onward = [each for each in callees.get(caller, ()) if (caller, each) not in back]
        paths[caller] = 1  # the path that ends here, of value 0
        for callee in sorted(onward, key=paths.__getitem__):
            values[caller, callee] = paths[caller]
            paths[caller] += paths[callee]
    total, starts = 0, {}
    for start in sorted({root, *(callee for _, callee in back)}, key=paths.__getitem__):
        starts[start] = total
        total += paths[start]
    return CallNumbering(starts, values, frozenset(back), total)


def _search(callees: Mapping[int, list[int]], root: int) -> tuple[list[int], set[tuple[int, int]]]:
    """Return the routines reached, callees before callers, and the back edges."""
    order: list[int] = []
    back: set[tuple[int, int]] = set()
    open_routines, seen = {root}, {root}
    stack = [(root, iter(callees.get(root, ())))]
    while stack:
        caller, rest = stack[-1]
        for callee in rest:
            if callee in open_routines:
                back.add((caller, callee))
            elif callee not in seen:
                seen.add(callee)
                open_routines.add(callee)
                stack.append((callee, iter(callees.get(callee, ()))))
                break
        else:
            open_routines.remove(caller)
            order.append(caller)
            stack.pop()
    return order, back


class CountedCallPath(Struct, frozen=True):
    """A call path as reported."""

    routines: tuple[str, ...]  # Names, the first caller first
    number: int | None  # None where it leads over a dynamic edge
    entered: int  # Activations that it led to


class CallProfile(Struct, frozen=True):
    """The call paths of an execution."""

    potential: int  # Call paths of the call graph
    # executed, dynamic: Different ones executed; those of them that lead over a dynamic edge.
    executed: int
    dynamic: int
    # activations, dynamic_activations: The same, each as often as it was executed.
    activations: int
    dynamic_activations: int
    paths: tuple[CountedCallPath, ...]  # The most frequent, of equals the shorter first


class CallPaths:
    """Counts call paths as blocks are regenerated."""

    def __init__(self) -> None:
        # Of the call graph, from the first routine executed on
        self.numbering = CallNumbering({}, {}, frozenset(), 0)
        self._names: tuple[str, ...] = ()
        self._paths: list[CallPath] = []  # those that activations have had, under numbers
        self._times: list[int] = []  # path -> activations
        self._onward: list[dict[int, int]] = []  # path -> callee -> path
        self._numbers: dict[CallPath, int] = {}
        self._frames: list[tuple[int, int]] = []  # path, and where the caller goes on or NONE
        self._waiting: Counter[int] = Counter()  # block -> frames whose callers go on there
        self._last = NONE

    @property
    def counts(self) -> Counter[CallPath]:
        """Call path -> activations."""
        return Counter(dict(zip(self._paths, self._times, strict=True)))

    def __call__(self, recovered: ProgramGraphs, blocks: Array) -> None:
        """Follow the next executed blocks, by program-wide number."""
        if not len(blocks):
            return
        if self._last == NONE:
            self._prepare(recovered, int(blocks[0]))
            self._begin(self._number((self._routine_of(int(blocks[0])),)), NONE)
        else:
            blocks = np.concatenate([np.array([self._last], np.int64), blocks])
        before, after = blocks[:-1], blocks[1:]
        matters = self._special[before] | (self._routines[before] != self._routines[after])
        pairs = zip(before[matters].tolist(), after[matters].tolist(), strict=True)
        for source, target in pairs:
            self._follow(source, target)
        self._last = int(blocks[-1])

    def profile(self, shown: int) -> CallProfile:
        """Return what was counted, with the `shown` most frequent call paths."""
        counts = self.counts
        numbers = {path: self.numbering.number(path) for path in counts}
        dynamic = [path for path, number in numbers.items() if number is None]
        order = sorted(counts, key=lambda path: (-counts[path], len(path), path))
        return CallProfile(
            potential=self.numbering.total,
            executed=len(counts),
            dynamic=len(dynamic),
            activations=counts.total(),
            dynamic_activations=sum(counts[path] for path in dynamic),
            paths=tuple(
                CountedCallPath(
                    tuple(self._names[each] for each in path), numbers[path], counts[path]
                )
                for path in order[:shown]
            ),
        )

    def _prepare(self, recovered: ProgramGraphs, first: int) -> None:
        index = GraphIndex(recovered)
        self._names = tuple(cfg.name for cfg in recovered.routines)
        self._routines = np.asarray(index.routine_of_block).astype(np.int64)
        self._routine_list: list[int] = self._routines.tolist()
        starts: set[int] = set()  # where activations begin: at re-entries they go on
        self._return_point: dict[int, int] = {}
        special = np.zeros(len(self._routines), np.bool_)
        for number, cfg in enumerate(recovered.routines):
            base = int(index.first_block[number])
            for edge in cfg.edges:
                if edge.kind is EdgeKind.ENTRY:
                    starts.add(base + edge.target)
                if edge.kind is EdgeKind.CALL_RETURN:
                    self._return_point[base + edge.source] = base + edge.target
                if edge.kind in (EdgeKind.CALL_RETURN, EdgeKind.EXIT):
                    special[base + edge.source] = True
        self._special, self._starts = special, frozenset(starts)
        # Blocks whose calls do not return: the caller waits all the same, and may be resumed.
        callees = Callees(index)
        leaving = callees.source.items()
        self._stays = {b for edge, b in leaving if callees.exit(edge)[0] is Exit.CALL}
        edges = ((call.caller, call.callee) for call in call_sites(recovered))
        self.numbering = number_calls(edges, self._routine_of(first))

    def _routine_of(self, block: int) -> int:
        return int(self._routines[block])

    def _number(self, path: CallPath) -> int:
        number = self._numbers.get(path)
        if number is None:
            number = self._numbers[path] = len(self._paths)
            self._paths.append(path)
            self._times.append(0)
            self._onward.append({})
        return number

    def _begin(self, path: int, back_at: int) -> None:
        self._frames.append((path, back_at))
        self._waiting[back_at] += 1
        self._times[path] += 1

    def _pop(self) -> tuple[int, int]:
        frame = self._frames.pop()
        self._waiting[frame[1]] -= 1
        return frame

    def _follow(self, source: int, target: int) -> None:
        """Do what control did from one block to the next: a call, a return, or a jump."""
        returns_to = self._return_point.get(source)
        if returns_to is not None and target in self._starts and target != returns_to:
            self._begin(self._path_to(target), returns_to)
        elif self._waiting[target]:
            while self._pop()[1] != target:
                pass
        elif target in self._starts and self._left(source):
            path = self._path_to(target)
            self._begin(path, NONE if source in self._stays else self._pop()[1])
        elif self._routine_of(source) != self._routine_of(target):
            self._land(target)

    def _left(self, source: int) -> bool:
        """Whether control leaves a routine behind this block."""
        return bool(self._special[source]) and source not in self._return_point

    def _path_to(self, target: int) -> int:
        """Return the path of an activation that the current one calls at block `target`."""
        current = self._frames[-1][0]
        callee = self._routine_list[target]
        onward = self._onward[current].get(callee)
        if onward is None:
            path = self._paths[current]
            begins_anew = callee in path or (path[-1], callee) in self.numbering.back_edges
            onward = self._number((callee,) if begins_anew else (*path, callee))
            self._onward[current][callee] = onward
        return onward

    def _land(self, target: int) -> None:
        """Go on in an activation that waits (`longjmp`, the end of a handler), or in a new one."""
        routine = self._routine_of(target)
        places = range(len(self._frames) - 1, -1, -1)
        for place in places:
            if self._paths[self._frames[place][0]][-1] == routine:
                while len(self._frames) > place + 1:
                    self._pop()
                return
        self._begin(self._path_to(target), NONE)
