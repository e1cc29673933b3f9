"""The slow and obvious reference: profiles from the list of executed instructions.

Input are the program counters of a run, in order, and the routines' graphs; nothing else of the
profiler is used, and no machine code is decoded. The walker keeps a stack of activations, each
in a block of its graph, and moves the top one along the edge that the next program counter says.

How the next program counter `q` is read when the top activation has finished its block:

1. The block has an edge to a block at `q` (a slot block first): that edge.
2. The block has a call-return edge: `q` is the callee; it gets an activation on top. (It has
   several where callees return to several places, as some assembly does.)
3. The block has an EXIT edge: the activation ends with it. If `q` is where the activation below
   waits for its callee, by any of its call-return edges, this was a return. If `q` begins a
   routine, it was a tail call or a call that does not return: the new activation takes the old
   one's place. Otherwise it was a non-local exit into the middle of a routine.

A trace may also mark `q` as not reached by the instruction before (`breaks`): a signal's handler
(it begins a routine: the interrupted activation stays where it is), the return from a handler
(`q` is where an interrupted activation goes on) or a set context (a non-local exit).

A non-local exit ends the activations above the landing early, and the landing one too; a new
activation begins at `q` along an ENTRY edge (docs/SEMANTICS.md). The landing activation is the one
whose %sp is the landing's; without %sp, the nearest one of the same routine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind

BlockName = tuple[int, bool]  # (start, is_slot)
# Routines of the C library by which handlers return.
SIGNAL_RETURNS = ("__rt_sigreturn_stub", "__sigreturn_stub")
NOWHERE: frozenset[int] = frozenset()  # Where the caller goes on of what nobody has called


class NaiveError(AssertionError):
    """The trace is not a walk of the graphs; the message names the step."""


@dataclass(frozen=True)
class NaivePath:
    """A path: its blocks, the edges between them, and how it begins and ends.

    `begins` is "entry" or "loop", `ends` is "exit", "loop" or "early" (a partial path). Cut
    edges count as loops.
    """

    blocks: tuple[BlockName, ...]
    edges: tuple[int, ...]
    begins: str
    ends: str


@dataclass
class RoutineProfile:
    """What happened in one routine.

    Attributes
    ----------
    blocks
        Block id -> executions.
    edges
        Edge id -> crossings, self-loops included.
    early
        Block id -> activations that ended early in it.
    paths, partial
        Whole paths, and the unfinished ones of activations that ended early.
    """

    blocks: Counter[int] = field(default_factory=Counter)
    edges: Counter[int] = field(default_factory=Counter)
    early: Counter[int] = field(default_factory=Counter)
    paths: Counter[NaivePath] = field(default_factory=Counter)
    partial: Counter[NaivePath] = field(default_factory=Counter)
    activations: int = 0

    def by_blocks(self) -> Counter[tuple[BlockName, ...]]:
        """Whole paths by their blocks alone."""
        sums: Counter[tuple[BlockName, ...]] = Counter()
        for path, count in self.paths.items():
            sums[path.blocks] += count
        return sums


@dataclass
class NaiveProfile:
    """What happened in all routines, by routine address; `instructions` walked in all."""

    routines: dict[int, RoutineProfile]
    instructions: int


@dataclass
class Activation:
    """One execution of a routine, in `block`; `expected` are places where its caller goes on."""

    graph: ControlFlowGraph
    expected: frozenset[int]  # one of them; none where nobody waits
    below: bool  # whether the activation below waits for this one by a call
    block: int = -1
    offset: int = 0  # instructions of the block done
    path: list[BlockName] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    begins: str = "entry"
    sp: int = 0
    interrupted: bool = False
    faulted: bool = False  # its last instruction did not complete


def back_edges(graph: ControlFlowGraph) -> frozenset[int]:
    """Return the back edges: edges to a vertex on the depth-first search stack."""
    found: set[int] = set()
    seen, on_stack = {graph.entry}, {graph.entry}
    stack = [(graph.entry, iter(graph.out_edges[graph.entry]))]
    while stack:
        vertex, rest = stack[-1]
        edge = next(rest, None)
        if edge is None:
            stack.pop()
            on_stack.discard(vertex)
            continue
        target = graph.edges[edge].target
        if target in on_stack:
            found.add(edge)
        elif target not in seen:
            seen.add(target)
            on_stack.add(target)
            stack.append((target, iter(graph.out_edges[target])))
    return frozenset(found)


class Walker:
    """Walks a trace over graphs; the arguments are those of `profile_of`."""

    def __init__(
        self,
        graphs: Sequence[ControlFlowGraph],
        pc: NDArray[np.int64],
        breaks: NDArray[np.bool_] | None = None,
        sp: NDArray[np.uint64] | None = None,
        cut: Mapping[int, Collection[int]] | None = None,
        faulted: bool = False,
        handlers: Collection[int] = (),
        executed: NDArray[np.bool_] | None = None,
    ) -> None:
        self.faulted = faulted
        self.executed = [True] * len(pc) if executed is None else executed.tolist()
        self.handlers = frozenset(handlers)
        self.pc: list[int] = pc.tolist()
        self.breaks = [False] * len(pc) if breaks is None else breaks.tolist()
        self.sp = None if sp is None else sp.tolist()
        self.profile = NaiveProfile({g.address: RoutineProfile() for g in graphs}, 0)
        self.stack: list[Activation] = []
        cuts = cut or {}
        self.enders = {g.address: back_edges(g) | set(cuts.get(g.address, ())) for g in graphs}
        self.place: dict[int, tuple[ControlFlowGraph, int]] = {}
        self.return_points: set[int] = set()
        for graph in graphs:
            self.index(graph)

    def index(self, graph: ControlFlowGraph) -> None:
        """Note where the blocks of `graph` start, and where its calls return to."""
        for block in graph.blocks:
            if not block.is_slot:
                if block.start in self.place:
                    raise NaiveError(f"two blocks start at {block.start:#x}")
                self.place[block.start] = (graph, block.id)
        for edge in graph.edges:
            if edge.kind is EdgeKind.CALL_RETURN:
                self.return_points.add(graph.blocks[edge.target].start)

    def walk(self) -> NaiveProfile:
        """Return the profile of the whole trace."""
        self.enter(0, NOWHERE, False)
        for step in range(1, len(self.pc)):
            self.advance(step)
        self.finish()
        return self.profile

    def advance(self, step: int) -> None:
        """Let control go from instruction `step - 1` to instruction `step`."""
        top, target = self.stack[-1], self.pc[step]
        block = top.graph.blocks[top.block]
        if self.breaks[step]:
            self.interrupt(step)
        elif top.offset < block.instructions:
            if target != block.start + 4 * top.offset:
                raise NaiveError(f"step {step}: {target:#x} inside the block {block.start:#x}")
            top.offset += 1
            self.profile.instructions += 1
        else:
            self.leave_block(step)

    def leave_block(self, step: int) -> None:
        """Follow the edge out of the finished block on top that leads to instruction `step`."""
        top, target = self.stack[-1], self.pc[step]
        graph = top.graph
        out = [graph.edges[e] for e in graph.out_edges[top.block]]
        inside = [
            e
            for e in out
            if e.target != graph.exit
            and e.kind is not EdgeKind.CALL_RETURN
            and graph.blocks[e.target].start == target
        ]
        inside.sort(key=lambda e: e.kind is not EdgeKind.SLOT)
        calls = [e for e in out if e.kind is EdgeKind.CALL_RETURN]
        exits = [e for e in out if e.target == graph.exit]
        if inside:
            self.cross(inside[0].id)
        elif calls:
            if self.sp is not None and not top.faulted:  # else it was noted then
                top.sp = self.sp[step - 1]
            self.enter(step, frozenset(graph.blocks[e.target].start for e in calls), True)
        elif exits:
            self.end_by(exits[0].id, step)
        else:
            start = graph.blocks[top.block].start
            raise NaiveError(f"step {step}: no edge from {start:#x} in {graph.name} to {target:#x}")

    def cross(self, edge: int) -> None:
        """Move the top activation along an edge to another block of its graph."""
        top = self.stack[-1]
        graph, profile = top.graph, self.profile.routines[top.graph.address]
        source, target = graph.edges[edge].source, graph.edges[edge].target
        block = graph.blocks[target]
        name = (block.start, block.is_slot)
        profile.edges[edge] += 1
        profile.blocks[target] += 1
        if source != target:
            if edge in self.enders[graph.address]:
                profile.paths[self.path(top, "loop")] += 1
                top.path, top.edges, top.begins = [name], [], "loop"
            else:
                top.path.append(name)
                top.edges.append(edge)
        top.block, top.offset = target, 1
        self.profile.instructions += 1

    def enter(self, step: int, expected: frozenset[int], below: bool) -> None:
        """Push an activation that begins at instruction `step`."""
        address = self.pc[step]
        if address not in self.place:
            raise NaiveError(f"step {step}: no block starts at {address:#x}")
        graph, block = self.place[address]
        edges = [e for e in graph.out_edges[graph.entry] if graph.edges[e].target == block]
        if not edges:
            raise NaiveError(f"step {step}: {graph.name} has no ENTRY edge to {address:#x}")
        profile = self.profile.routines[graph.address]
        profile.activations += 1
        profile.edges[edges[0]] += 1
        profile.blocks[block] += 1
        top = Activation(graph, expected, below, block, 1, [(address, False)])
        self.stack.append(top)
        self.profile.instructions += 1

    def end_by(self, edge: int, step: int) -> None:
        """End the top activation by its EXIT edge, and go on at instruction `step`."""
        ended = self.close(edge)
        target = self.pc[step]
        if ended.below and target in ended.expected and not self.is_gone(step):
            self.return_to(target)
        elif self.begins_routine(step):
            self.enter(step, ended.expected, ended.below)
        else:
            self.land(step, ended)

    def close(self, edge: int) -> Activation:
        """Pop the top activation, which ends by its EXIT edge."""
        ended = self.stack.pop()
        profile = self.profile.routines[ended.graph.address]
        profile.edges[edge] += 1
        profile.paths[self.path(ended, "exit")] += 1
        return ended

    def return_to(self, target: int) -> None:
        """Let the caller on top go on behind its call."""
        graph = self.stack[-1].graph
        for edge in graph.out_edges[self.stack[-1].block]:
            place = graph.edges[edge].target
            returns = graph.edges[edge].kind is EdgeKind.CALL_RETURN
            if returns and graph.blocks[place].start == target:
                self.cross(edge)
                return
        raise NaiveError(f"{graph.name}: return to {target:#x}, but nothing waits there")

    def begins_routine(self, step: int) -> bool:
        """Whether `step` can only be the beginning of an activation by a jump or a call."""
        target = self.pc[step]
        if target not in self.place:
            return True  # `enter` complains
        graph, _ = self.place[target]
        if graph.address == target:
            return True
        if self.is_gone(step):
            return False
        live = any(a.graph is graph for a in self.stack)
        return target not in self.return_points and not live

    def is_gone(self, step: int) -> bool:
        """Whether instruction `step` has a stack without the frame of who waits below."""
        return self.sp is not None and bool(self.stack) and self.sp[step] > self.stack[-1].sp

    def land(self, step: int, ended: Activation | None) -> None:
        """A non-local exit to instruction `step`, in the middle of a routine."""
        graph, _ = self.place[self.pc[step]]
        level = len(self.stack)
        if self.sp is not None:
            while level > 0 and self.stack[level - 1].sp < self.sp[step]:
                level -= 1
            if level > 0 and self.stack[level - 1].sp == self.sp[step]:
                level -= self.stack[level - 1].graph is graph
        else:
            for index in range(level - 1, -1, -1):
                if self.stack[index].graph is graph:
                    level = index
                    break
        lowest = ended
        while len(self.stack) > level:
            lowest = self.end_early()
        assert lowest is not None
        self.enter(step, lowest.expected, lowest.below)

    def interrupt(self, step: int) -> None:
        """Control came to instruction `step` from outside: a signal, its end, a set context."""
        target = self.pc[step]
        top = self.stack[-1]
        top.interrupted, top.faulted = True, not self.executed[step - 1]
        if self.sp is not None:
            top.sp = self.sp[step - 1]
        is_routine = self.starts_routine(target)
        returns = self.stack[-1].graph.name in SIGNAL_RETURNS and not self.handlers
        if target in self.handlers if self.handlers else is_routine and not returns:
            self.enter(step, NOWHERE, False)
            return
        for index in range(len(self.stack) - 2, -1, -1):
            if not self.stack[index + 1].below and self.resumes(self.stack[index], target):
                self.resume(step, index)
                return
        if self.stack[-1].graph.name in SIGNAL_RETURNS:
            self.resume_elsewhere(step)
            return
        only = self.only_exit()
        self.land(step, None if only is None else self.close(only))

    def starts_routine(self, address: int) -> bool:
        """Whether a routine begins at an address."""
        return address in self.place and self.place[address][0].address == address

    def only_exit(self) -> int | None:
        """The EXIT edge of the top activation's finished block, where it has no other edge."""
        top = self.stack[-1]
        out = top.graph.out_edges[top.block]
        done = top.offset == top.graph.blocks[top.block].instructions
        if done and len(out) == 1 and top.graph.edges[out[0]].target == top.graph.exit:
            return out[0]
        return None

    def resumes(self, activation: Activation, target: int) -> bool:
        """Whether an interrupted `activation` can go on at `target`."""
        graph, block = activation.graph, activation.graph.blocks[activation.block]
        done = block.start + 4 * activation.offset
        if activation.offset < block.instructions:
            return target in (done, done - 4)
        out = [graph.edges[e] for e in graph.out_edges[activation.block]]
        if activation.faulted and any(edge.kind is EdgeKind.CALL_RETURN for edge in out):
            # in the slot of a call, which leads to the start of a routine
            return target == done - 4 or self.starts_routine(target)
        successors = {graph.blocks[edge.target].start for edge in out if edge.target != graph.exit}
        return target in successors or target == done - 4

    def resume(self, step: int, index: int) -> None:
        """Go on in the interrupted activation number `index`, after its handler is done."""
        self.end_handler(index)
        top = self.stack[-1]
        block = top.graph.blocks[top.block]
        if self.pc[step] == block.start + 4 * top.offset - 4:
            top.interrupted = False
            return  # the instruction that faulted, once more
        if top.faulted:  # the handler has stepped over the instruction
            self.profile.instructions -= 1
        self.breaks[step] = False
        top.interrupted = False
        self.advance(step)
        top.faulted = False

    def end_handler(self, index: int) -> None:
        """End all activations above the interrupted one, number `index`."""
        handler = self.stack[-1]
        exits = [
            e
            for e in handler.graph.out_edges[handler.block]
            if handler.graph.edges[e].target == handler.graph.exit
        ]
        if exits:
            self.close(exits[0])
        while len(self.stack) > index + 1:
            self.end_early()

    def resume_elsewhere(self, step: int) -> None:
        """The innermost interrupted activation ends, complete if it was in the slot of a return."""
        # Its caller goes on if control is there now, as behind a return; or else a new activation
        # takes the place of the one that has ended.
        self.end_handler(max(i for i, a in enumerate(self.stack[:-1]) if a.interrupted))
        only = self.only_exit()
        ended = self.end_early() if only is None else self.close(only)
        target = self.pc[step]
        at_caller = self.sp is None or (self.stack and self.stack[-1].sp == self.sp[step])
        if ended.below and target in ended.expected and at_caller:
            self.return_to(target)
        else:
            self.enter(step, ended.expected, ended.below)

    def end_early(self) -> Activation:
        """Pop the top activation, which ends in the block that it is in."""
        ended = self.stack.pop()
        profile = self.profile.routines[ended.graph.address]
        if ended.interrupted and ended.graph.blocks[ended.block].is_slot:
            self.leave_slot(ended)
        profile.early[ended.block] += 1
        profile.partial[self.path(ended, "early")] += 1
        return ended

    def leave_slot(self, activation: Activation) -> None:
        """Take back the edge into a slot block whose one instruction has faulted."""
        edge = activation.edges.pop()
        activation.path.pop()
        profile = self.profile.routines[activation.graph.address]
        profile.edges[edge] -= 1
        profile.blocks[activation.block] -= 1
        self.profile.instructions -= 1
        activation.block = activation.graph.edges[edge].source

    def finish(self) -> None:
        """The program has ended: by the EXIT edge of a block that ends in a trap, or early."""
        only = self.only_exit()
        if only is not None and not self.faulted:
            self.close(only)
        if self.faulted:
            self.stack[-1].interrupted = True
        while self.stack:
            self.end_early()

    @staticmethod
    def path(activation: Activation, ends: str) -> NaivePath:
        """Return the activation's current path as a value."""
        blocks, edges = tuple(activation.path), tuple(activation.edges)
        return NaivePath(blocks, edges, activation.begins, ends)


def profile_of(
    graphs: Sequence[ControlFlowGraph],
    pc: NDArray[np.int64],
    breaks: NDArray[np.bool_] | None = None,
    sp: NDArray[np.uint64] | None = None,
    cut: Mapping[int, Collection[int]] | None = None,
    faulted: bool = False,
    handlers: Collection[int] = (),
    executed: NDArray[np.bool_] | None = None,
) -> NaiveProfile:
    """Return the profile of a trace (see the module). Raises NaiveError where they disagree.

    `faulted`: the last instruction did not complete. `handlers`: where handlers begin, if not
    just any routine is one. `executed`: which instructions completed, if not all did.
    """
    return Walker(graphs, pc, breaks, sp, cut, faulted, handlers, executed).walk()


def imbalances(graph: ControlFlowGraph, profile: RoutineProfile) -> list[str]:
    """Return the vertices where flow is not conserved, as text; none should be."""
    found = []
    for block in graph.blocks:
        entering = sum(profile.edges[e] for e in graph.in_edges[block.id])
        leaving = sum(profile.edges[e] for e in graph.out_edges[block.id])
        count = profile.blocks[block.id]
        if not entering == count == leaving + profile.early[block.id]:
            found.append(f"{graph.name} {block.start:#x}: {entering} in, {count}, {leaving} out")
    return found
