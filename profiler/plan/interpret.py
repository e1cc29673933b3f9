"""Plans executed directly on walks, one action after the other: the slow, plain reading.

What the kernel does with `segments`, without a kernel: for graph files, and for tests of schemes
against brute force. Only the costs of hashing, which depend on the order of all counts of a
table, are not here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat

from msgspec import Struct

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.graphs.loops import depth_first, live_edges
from simprof.profiler.plan import interpret
from simprof.profiler.plan.actions import Execution, Guard, TakenPart
from simprof.profiler.plan.decoders import Plan, RoutineCounters, UnfinishedPath
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.simulator.errors import UsageError


class ExecutedWalk(Struct, frozen=True):
    """One activation, `count` times: the edges it crossed, from an ENTRY edge on."""

    edges: tuple[int, ...]  # It ended early if the last of them does not lead to EXIT.
    count: int = 1


# Activations that are executed one by one where the order of all of them matters.
MOST_TURNS = 1 << 20


class ProgramWords:
    """The words of the whole program that guards count down."""

    def __init__(self) -> None:
        self._words: Counter[str] = Counter()

    def passes(self, guard: Guard | None) -> bool:
        """Execute a guard; return whether it lets its action pass."""
        if guard is None:
            return False
        self._words[guard.word] -= 1
        if self._words[guard.word] > 0:
            return False
        self._words[guard.word] = guard.interval
        if guard.burst is not None:
            word, samples, stride = guard.burst
            self._words[word] = (self._words[word] + 1) % samples
            if self._words[word]:
                self._words[guard.word] = stride
        return True


def follow(
    plan: InstrumentationPlan,
    edges: Iterable[int],
    execution: Execution,
    words: ProgramWords | None = None,
) -> None:
    """Execute the actions on `edges`, in order; `words`: None where no action is guarded."""
    for edge in edges:
        if words is not None:
            execution.passes = words.passes(plan.guards.get(edge))
        execution.run(edge, plan.actions.get(edge, ()))
        if edge in plan.uncounted_entries:
            execution.last = None


def turns(
    plan: InstrumentationPlan, walks: Iterable[ExecutedWalk]
) -> tuple[ProgramWords | None, Iterable[ExecutedWalk]]:
    """Return the words for `follow`, and the walks as they have to be followed, in order;
    UsageError while they are followed if they are more than `MOST_TURNS`.
    """
    # Guards decide differently each time, so that each walk comes as often as it was executed.
    return (ProgramWords(), _one_by_one(walks)) if plan.guards else (None, walks)


def _one_by_one(walks: Iterable[ExecutedWalk]) -> Iterator[ExecutedWalk]:
    turn = 0
    for walk in walks:
        turn += walk.count
        if turn > MOST_TURNS:
            raise UsageError(
                f"a scheme whose counters depend on the order of all activations executes "
                f"{MOST_TURNS:,} of them at most: lower the counts of the runs"
            )
        yield from repeat(ExecutedWalk(walk.edges), walk.count)


def begin(plan: InstrumentationPlan) -> Execution:
    """An activation's state before its ENTRY edge."""
    return Execution(list(plan.initial), is_duplicated=plan.is_duplicated)


def execute(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, walks: Iterable[ExecutedWalk]
) -> RoutineCounters:
    """Execute `plan` along `walks`; `hash_instructions` stays 0. UsageError as for `turns`."""
    words, walks = turns(plan, walks)
    crossings = [0] * len(cfg.edges)
    paths: Counter[int] = Counter()
    taken: Counter[TakenPart] = Counter()
    early: Counter[int] = Counter()
    unfinished: Counter[tuple[int, tuple[int, ...], int | None]] = Counter()
    hashed_increments = 0
    for walk in walks:
        execution = begin(plan)
        follow(plan, walk.edges, execution, words)
        for edge in walk.edges:
            crossings[edge] += walk.count
        for counter, _ in execution.counted:
            paths[counter] += walk.count
            if plan.table is CounterTable.HASH and counter >= 0:
                hashed_increments += walk.count
        for part in execution.taken:
            taken[part] += walk.count
        block = cfg.edges[walk.edges[-1]].target
        if block != cfg.exit:
            early[block] += walk.count
            last = execution.last if block in plan.counted_region else None
            unfinished[block, tuple(execution.registers), last] += walk.count
    return RoutineCounters(
        paths=paths,
        events=plan.event_counts(crossings, block_counts(cfg, crossings)),
        early=early,
        unfinished=tuple(
            UnfinishedPath(*end, count) for end, count in unfinished.items() if plan.counts_paths
        ),
        hashed_increments=hashed_increments,
        taken=taken,
    )


# -- Plans tried out
#
# A plan tried out on short activations, without a program: what it counts must be read back.
#
# A run shows only that a scheme counts rightly what the program executed. Here every edge is
# crossed that can be, and what the counters then hold is read as after a run.
#
# Steps: `activations` chooses ways through a routine; `rehearse` executes a plan on them, one
# action after the other (`interpret`), reads the counters, and compares.


MOST_WALKS = 32  # Activations of a routine that run to its end; as many halves of them end early


def activations(cfg: ControlFlowGraph) -> tuple[ExecutedWalk, ...]:
    """Choose activations of a routine that cross each of its edges, if `MOST_WALKS` can; each
    happens another number of times, and behind each stands its first half, which ends early.
    """
    open_edges = set(live_edges(cfg, depth_first(cfg)))
    home = _ways_to_exit(cfg)
    walks: list[ExecutedWalk] = []
    while open_edges and len(walks) < 2 * MOST_WALKS:
        before = len(open_edges)
        walk = _walk(cfg, open_edges, home)
        if len(open_edges) == before:
            break
        for edges in (walk, walk[: (len(walk) + 1) // 2]):
            walks.append(ExecutedWalk(edges, 1 + len(walks)))
    return tuple(walks)


def _ways_to_exit(cfg: ControlFlowGraph) -> dict[int, int]:
    """By vertex that EXIT can be reached from: the first edge of a shortest way there."""
    ways: dict[int, int] = {}
    seen = {cfg.exit}
    work = [cfg.exit]
    for vertex in work:  # grows meanwhile
        for edge in cfg.in_edges[vertex]:
            source = cfg.edges[edge].source
            if source not in seen:
                seen.add(source)
                ways[source] = edge
                work.append(source)
    return ways


def _walk(cfg: ControlFlowGraph, open_edges: set[int], home: dict[int, int]) -> tuple[int, ...]:
    """Walk from ENTRY over `open_edges` as long as some can be reached, taking those crossed out of
    them, then to EXIT, if it can be reached.
    """
    walk: list[int] = []
    vertex = cfg.entry
    while leg := _way_to_open_edge(cfg, vertex, open_edges):
        walk += leg
        open_edges.difference_update(leg)
        vertex = cfg.edges[leg[-1]].target
    while vertex in home:
        walk.append(home[vertex])
        vertex = cfg.edges[home[vertex]].target
    return tuple(walk)


def _way_to_open_edge(cfg: ControlFlowGraph, start: int, open_edges: set[int]) -> list[int]:
    """A shortest way from `start` that ends with one of `open_edges`; empty if there is none."""
    came: dict[int, int] = {}
    seen = {start}
    work = [start]
    for vertex in work:  # grows meanwhile
        for edge in cfg.out_edges[vertex]:
            if edge in open_edges:
                way = [edge]
                while vertex != start:
                    way.append(came[vertex])
                    vertex = cfg.edges[came[vertex]].source
                return way[::-1]
            target = cfg.edges[edge].target
            if target not in seen:
                seen.add(target)
                came[target] = edge
                work.append(target)
    return []


def rehearse(
    plan: Plan,
    decoder: Plan | None,
    walks: Sequence[ExecutedWalk],
    *,
    estimates: bool = False,
) -> None:
    """Execute a plan on activations of its routine and compare what its counters tell with what
    happened; AssertionError naming the first edge, block or path that they tell wrongly. `decoder`
    is the same plan, if it counts paths. `estimates`: Whether edges and blocks are estimates.
    """
    cfg = plan.cfg
    crossings = [0] * len(cfg.edges)
    for walk in walks:
        for edge in walk.edges:
            crossings[edge] += walk.count
        if decoder is not None and not plan.plan.overcounts:
            _check_paths(decoder, walk)
    reading = plan.read(interpret.execute(cfg, plan.plan, walks))
    if estimates:
        return
    for edge, count in enumerate(reading.edges or ()):
        ends = cfg.edges[edge]
        assert count in (None, crossings[edge]), (
            f"in a rehearsal edge {cfg.name_of(ends.source)} -> {cfg.name_of(ends.target)} counts "
            f"{count} for {crossings[edge]} crossings"
        )
    executed = block_counts(cfg, crossings)
    for block, told in enumerate(reading.blocks or ()):
        assert told in (None, executed[block]), (
            f"in a rehearsal block {cfg.name_of(block)} counts {told} for {executed[block]} "
            "executions"
        )


def _check_paths(decoder: Plan, walk: ExecutedWalk) -> None:
    """Check that each path is counted no more often than it is a part of the activation."""
    # Self-loops are no part of most schemes' paths: they are left out of the activation, but for
    # paths that cross one, and paths of one block, which may lie between two crossings.
    cfg = decoder.cfg
    ends = [cfg.edges[edge] for edge in walk.edges]
    every = [edge.target for edge in ends]
    visits = Counter(every)
    blocks = {True: every, False: [edge.target for edge in ends if edge.source != edge.target]}
    places = {crosses: _places(each) for crosses, each in blocks.items()}
    # A window of branches ends at each of them: that which ends at EXIT has the blocks of the one
    # before.
    counted: Counter[tuple[bool, bool, tuple[int, ...], tuple[int, ...]]] = Counter()
    for counter, count in interpret.execute(cfg, decoder.plan, [walk]).finished_paths.items():
        if (path_id := decoder.number_of(counter)) is not None:
            record = decoder.decode(path_id)
            turns = (cfg.edges[edge].source == cfg.edges[edge].target for edge in record.edges)
            leaves = any(cfg.edges[edge].target == cfg.exit for edge in record.edges)
            counted[any(turns), leaves, record.blocks, record.collapsed] += count
    for (crosses, _, path, collapsed), count in counted.items():
        passed, starts = blocks[crosses], places[crosses]
        # What is executed in a collapsed loop is between its head and the next block.
        cuts = (0, *(at + 1 for at in collapsed if at + 1 < len(path)), len(path))
        pieces = [path[first:end] for first, end in pairwise(cuts)]
        most = walk.count * min(
            visits[piece[0]]
            if len(piece) == 1
            else sum(tuple(passed[at : at + len(piece)]) == piece for at in starts[piece[0]])
            for piece in pieces
        )
        assert count <= most, (
            f"in a rehearsal the path {' '.join(str(cfg.name_of(block)) for block in path)} "
            f"counts {count} for {most} executions at most"
        )


def _places(blocks: Sequence[int]) -> defaultdict[int, list[int]]:
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, block in enumerate(blocks):
        places[block].append(place)
    return places
