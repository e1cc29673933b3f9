"""What one scheme measured in one routine: facts of its graph, edge counts, path counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from profiler.code.pricing import RoutinePrice, edge_costs
from profiler.graphs.cfg import EXIT, ControlFlowGraph, EdgeKind
from profiler.graphs.facts import GraphFacts
from profiler.graphs.paths import PathRecord
from profiler.plan.decoders import Reading, RoutineCounters, RoutinePlan
from profiler.profiles.profile import BlockCount, EdgeCount, PathCount, RoutineProfile
from profiler.profiles.routine_facts import routine_facts
from profiler.recovery.code_image import CodeImage
from profiler.schemes.definition import SchemeDefinition
from profiler.session.events import RoutineEvents


@dataclass(frozen=True)
class RoutineReading:
    """One scheme on one routine after the run.

    Attributes
    ----------
    definition
        The scheme.
    plan
        Its plan; None where it has none.
    events
        What the run itself counted.
    counters, reading
        What the scheme's counters hold, and the profile that they give.
    price
        What the scheme's code cost.
    facts
        What reports say of its graph, whatever the scheme.
    """

    definition: SchemeDefinition
    plan: RoutinePlan | None
    events: RoutineEvents
    counters: RoutineCounters
    reading: Reading
    price: RoutinePrice
    facts: GraphFacts


def routine_profile(
    routine: RoutineReading, alias: str | None, code: CodeImage, *, with_edges: bool = True
) -> RoutineProfile:
    """Put together what is reported of a routine.

    Parameters
    ----------
    routine
        One scheme on it.
    alias
        By which other name the user selected it, if by one.
    code
        The program's instructions.
    with_edges
        Whether the counts of its edges and blocks are wanted.
    """
    events = routine.events
    cfg, blocks = events.cfg, events.block_counts
    plan = None if routine.plan is None else routine.plan.plan
    decoder = routine.definition.path_decoder(routine.plan)
    facts = routine_facts(cfg, routine.facts, plan, decoder, routine.price.path_register)
    return RoutineProfile(
        **facts,
        activations=events.activations,
        added=routine.price.added + routine.counters.hash_instructions,
        instructions=sum(
            count * block.instructions for count, block in zip(blocks, cfg.blocks, strict=True)
        ),
        edge_counts=tuple(_edges(routine)) if with_edges else (),
        path_counts=tuple(_paths(routine)),
        alias=alias,
        block_counts=tuple(_blocks(routine, code)) if with_edges else (),
        cut_blocks=events.cut if with_edges else (),
    )


def _blocks(routine: RoutineReading, code: CodeImage) -> Iterator[BlockCount]:
    """Yield where the routine's blocks are, how often they were executed, and at what cost."""
    executions, price = routine.events.block_counts, routine.price.code
    tops = {} if price is None else price.block_snippets
    ends = {} if price is None else price.block_end_snippets
    for block, count in zip(routine.events.cfg.blocks, executions, strict=True):
        groups = [group[block.id] for group in (tops, ends) if block.id in group]
        cost = sum(snippet.cost for snippet in groups)
        delayed = block.instructions >= 2 and code.delays(block.end - 8)
        yield BlockCount(
            block.start, block.instructions, block.is_slot, delayed, count, count * cost
        )


def _edges(routine: RoutineReading) -> Iterator[EdgeCount]:
    """Yield the counts of the graph's edges, then those of early ends as edges to EXIT."""
    events = routine.events
    cfg, counts = events.cfg, events.edges
    plan = None if routine.plan is None else routine.plan.plan
    instrumented = frozenset[int]() if plan is None else frozenset(plan.pair_edges or plan.actions)
    names = cfg.names()
    added = edge_costs(routine.price.code, counts, routine.counters.taken)
    for edge, source, target, kind in cfg.edges:
        ends, count = (names[source], names[target]), counts[edge]
        yield EdgeCount(*ends, kind, count, edge in instrumented, added.get(edge, 0))
    for block, count in sorted(events.early.items()):
        yield EdgeCount(names[block], EXIT, EdgeKind.EARLY, count, False)


def _paths(routine: RoutineReading) -> Iterator[PathCount]:
    cfg, reading = routine.events.cfg, routine.reading
    decoder = routine.definition.path_decoder(routine.plan)
    if decoder is None:
        return
    guided = routine.definition.guided_decoder(routine.plan)
    for path, count in reading.paths.items():
        inferred = guided is not None and guided.is_obvious(path)
        yield _path(cfg, path, decoder.decode(path), count, inferred=inferred)
    for record, count in reading.partial.items():
        yield _path(cfg, None, record, count)


def _path(
    cfg: ControlFlowGraph,
    path: int | None,
    record: PathRecord,
    count: int,
    *,
    inferred: bool = False,
) -> PathCount:
    blocks = [cfg.blocks[block] for block in record.blocks]
    return PathCount(
        id=path,
        count=count,
        instructions=record.instructions(cfg),
        blocks=tuple(block.start for block in blocks),
        slots=tuple(place for place, block in enumerate(blocks) if block.is_slot),
        partial=record.partial,
        edges=record.edges,
        inferred=inferred,
    )
