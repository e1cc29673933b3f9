"""A plain logging library, and executions of routines that call it: the oracle for `calls`.

Executions are those of whole programs: activations nest (calls, recursion, signal handlers in the
middle of any block), end early, and go on at ENTRY edges into the middle (longjmp).
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.plan.actions import Action
from simprof.profiler.schemes.cs6120.code import LogDestination, LogDisrupt, LogSource
from simprof.profiler.schemes.cs6120.planner import CallsPlan, interior_entries
from tests.oracles.brute import random_graph


@dataclass
class Library:
    """`logsrc`, `logdest` and `logdisrupt` as the blog post words them."""

    pairs: dict[tuple[tuple[int, int], tuple[int, int]], tuple[int, int]]
    last: tuple[int, int] | None = None
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)

    @classmethod
    def of(cls, plans: Sequence[CallsPlan]) -> Library:
        """Know the pairs of all routines; a pair stands for (routine, edge)."""
        return cls(
            {
                ((routine, pair.source), (routine, pair.destination)): (routine, pair.edge)
                for routine, plan in enumerate(plans)
                for pair in plan.logged
            }
        )

    def call(self, routine: int, action: Action) -> tuple[int, int] | None:
        """Do what a call does; return the (routine, edge) that it counted."""
        number = (routine, action.number)  # type: ignore[attr-defined]
        match action:
            case LogSource() | LogDisrupt():
                self.last = number
                return None
            case LogDestination():
                counted = self.pairs.get((self.last, number)) if self.last else None
                self.last = None
                if counted is not None:
                    self.counts[counted] += 1
                return counted
        raise AssertionError(action)


class NonLocalExitError(Exception):
    """longjmp to the activation at this depth."""

    def __init__(self, depth: int) -> None:
        self.depth = depth


class Program:
    """Executes random programs of planned routines and tells the library.

    `walks` collects each routine's activations as lists of edges.
    """

    def __init__(self, rng: random.Random, plans: Sequence[CallsPlan], silent: float) -> None:
        self.rng = rng
        self.plans = plans
        self.silent = silent  # share of calls that go to routines that log nothing
        self.library = Library.of(plans)
        self.walks: list[list[list[int]]] = [[] for _ in plans]
        self.budget = 400

    def run(self) -> None:
        """Execute activations one after the other until the budget is spent."""
        while self.budget > 0:
            try:
                self.activate(self.rng.randrange(len(self.plans)), 0)
            except NonLocalExitError:
                continue

    def activate(self, routine: int, depth: int) -> None:
        """Execute one activation, and the ones that continue it after non-local exits."""
        cfg = self.plans[routine].cfg
        inside = sorted(interior_entries(cfg))
        main = [e for e in cfg.out_edges[cfg.entry] if e not in inside]
        entry = self.rng.choice(main)
        while True:
            try:
                self.walk(routine, entry, depth)
                return
            except NonLocalExitError as jump:
                if jump.depth != depth or not inside:
                    raise
                entry = self.rng.choice(inside)

    def walk(self, routine: int, entry: int, depth: int) -> None:
        """Execute from an ENTRY edge to EXIT, or until the activation ends early."""
        plan = self.plans[routine].plan
        cfg = self.plans[routine].cfg
        steps: list[int] = []
        self.walks[routine].append(steps)
        edge = cfg.edges[entry]
        while True:
            steps.append(edge.id)
            self.budget -= 1
            self.tell(routine, plan.actions.get(edge.id, ()))
            if edge.target == cfg.exit:
                return
            self.tell(routine, plan.blocks.get(edge.target, ()))
            self.interrupt(depth)
            onward = cfg.out_edges[edge.target]
            if not onward or self.budget <= 0:
                raise NonLocalExitError(-1)
            self.tell(routine, plan.block_ends.get(edge.target, ()))
            edge = cfg.edges[self.rng.choice(onward)]

    def interrupt(self, depth: int) -> None:
        """Call something in the middle of a block, or leave for good."""
        if depth < 6 and self.rng.random() < 0.25 and self.rng.random() >= self.silent:
            self.activate(self.rng.randrange(len(self.plans)), depth + 1)
        if depth and self.rng.random() < 0.03:
            raise NonLocalExitError(self.rng.randrange(depth))

    def tell(self, routine: int, actions: Sequence[Action]) -> None:
        """Call the library."""
        for action in actions:
            self.library.call(routine, action)


def random_routine(rng: random.Random, most: int = 7) -> ControlFlowGraph:
    """Return a random graph with blocks that call, slot blocks and entries into the middle.

    The first ENTRY edge leads to the routine's first block.
    """
    return with_slots(rng, with_kinds(rng, random_graph(rng, most)))


def with_kinds(rng: random.Random, cfg: ControlFlowGraph) -> ControlFlowGraph:
    """Let some blocks with one way out end with a call, others fall through."""
    edges = []
    for edge in cfg.edges:
        kind = edge.kind
        if kind is EdgeKind.TAKEN:
            alone = len(cfg.out_edges[edge.source]) == 1
            if alone or cfg.out_edges[edge.source][0] == edge.id:
                choices = [EdgeKind.CALL_RETURN] if alone else []
                kind = rng.choice([EdgeKind.FALL_THROUGH, EdgeKind.TAKEN, *choices])
        edges.append(edge._replace(kind=kind))
    first = cfg.edges[cfg.out_edges[cfg.entry][0]].target
    return replace(cfg, address=cfg.blocks[first].start, edges=tuple(edges))


def with_slots(rng: random.Random, cfg: ControlFlowGraph) -> ControlFlowGraph:
    """Put slot blocks on some taken edges."""
    chosen = [
        edge.id
        for edge in cfg.edges
        if edge.kind is EdgeKind.TAKEN
        and len(cfg.out_edges[edge.source]) > 1
        and rng.random() < 0.2
    ]
    count = len(cfg.blocks)
    moved = {cfg.entry: cfg.entry + len(chosen), cfg.exit: cfg.exit + len(chosen)}
    blocks = [*cfg.blocks]
    edges: list[Edge] = []
    for edge in cfg.edges:
        source, target = moved.get(edge.source, edge.source), moved.get(edge.target, edge.target)
        if edge.id in chosen:
            slot = count + chosen.index(edge.id)
            blocks.append(Block(slot, 1000 + slot, 1, is_slot=True))
            edges.append(Edge(len(edges), source, slot, EdgeKind.SLOT))
            edges.append(Edge(len(edges), slot, target, EdgeKind.TAKEN))
        else:
            edges.append(Edge(len(edges), source, target, edge.kind))
    return replace(cfg, blocks=tuple(blocks), edges=tuple(edges))


_State = tuple[tuple[int, ...], "tuple[int, int] | None"]


def find_miscount(plan: CallsPlan, depth: int = 3, guarded: bool = True) -> list[str] | None:
    """Search all executions of one routine with nested activations up to `depth`.

    Exhaustive: a state is the blocks in which activations are, and the source logged last.
    Non-local exits also go to other routines' activations, which forget the last source unless
    not `guarded`.

    Returns
    -------
    list[str] | None
        Calls that lead to a pair counted wrongly or missed; None if there are none.
    """
    search = _Search(plan)
    start: _State = ((), None)
    before: dict[_State, tuple[_State, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for text, after, wrong in search.steps(state, depth, guarded):
            if wrong:
                return [*_history(before, state), text]
            if after not in before:
                before[after] = (state, text)
                waiting.append(after)
    return None


def _history(before: dict[_State, tuple[_State, str] | None], state: _State) -> list[str]:
    texts: list[str] = []
    while (step := before[state]) is not None:
        texts.insert(0, step[1])
        state = step[0]
    return texts


class _Search:
    def __init__(self, plan: CallsPlan) -> None:
        self.plan = plan
        self.library = Library.of([plan])
        self.logged = {pair.edge for pair in plan.logged}
        self.inside = interior_entries(plan.cfg)

    def steps(self, state: _State, depth: int, guarded: bool) -> list[tuple[str, _State, bool]]:
        """Return all that can happen: (text, state after, whether it was counted wrongly)."""
        stack, last = state
        cfg = self.plan.cfg
        found = []
        for entry in cfg.out_edges[cfg.entry]:
            if entry in self.inside:
                found += [self.cross(stack[:k], last, entry) for k in range(len(stack))]
            elif len(stack) < depth:
                found.append(self.cross(stack, last, entry))
        if stack:
            found += [self.cross(stack, last, edge) for edge in cfg.out_edges[stack[-1]]]
        kept = None if guarded else last
        found += [(f"longjmp {k}", (stack[:k], kept), False) for k in range(len(stack))]
        return found

    def cross(
        self, stack: tuple[int, ...], last: tuple[int, int] | None, number: int
    ) -> tuple[str, _State, bool]:
        plan, cfg = self.plan.plan, self.plan.cfg
        edge = cfg.edges[number]
        calls: list[Action] = []
        if edge.source != cfg.entry:
            calls += plan.block_ends.get(edge.source, ())
            stack = stack[:-1]
        calls += plan.actions.get(number, ())
        if edge.target != cfg.exit:
            calls += plan.blocks.get(edge.target, ())
            stack = (*stack, edge.target)
        self.library.last = last
        counted = [found for call in calls if (found := self.library.call(0, call))]
        expected = [(0, number)] if number in self.logged else []
        text = f"{edge.source}->{edge.target} {' '.join(map(str, calls))}"
        return text, (stack, self.library.last), counted != expected
