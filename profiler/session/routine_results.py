"""What one scheme measured in one routine: facts of its graph, edge counts, path counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from simprof.profiler.code.pricing import RoutinePrice, edge_costs
from simprof.profiler.graphs.cfg import EXIT, ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.numbering import GraphFacts
from simprof.profiler.graphs.paths import PathRecord
from simprof.profiler.plan.decoders import PathDecoder, Reading, RoutineCounters, RoutinePlan
from simprof.profiler.profiles.accuracy import SplittingDecoder
from simprof.profiler.profiles.profile import BlockCount, EdgeCount, PathCount, RoutineProfile
from simprof.profiler.profiles.routine_facts import routine_facts
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.schemes.definition import SchemeDefinition
from simprof.profiler.session.events import RoutineEvents


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
        Whether the counts of its edges and blocks are wanted. If not, paths still come with those
        of loops of one block, which are on no path of `pp`.
    """
    events = routine.events
    cfg, blocks = events.cfg, events.block_counts
    plan = None if routine.plan is None else routine.plan.plan
    decoder = routine.definition.path_decoder(routine.plan)
    facts = routine_facts(cfg, routine.facts, plan, decoder, routine.price.path_register)
    loops = () if with_edges or decoder is None else tuple(_loops_of_one_block(routine))
    looping = {edge.source for edge in loops}
    return RoutineProfile(
        **facts,
        activations=events.activations,
        added=routine.price.added + routine.counters.hash_instructions,
        instructions=sum(
            count * block.instructions for count, block in zip(blocks, cfg.blocks, strict=True)
        ),
        edge_counts=tuple(_edges(routine)) if with_edges else loops,
        path_counts=tuple(_paths(routine)),
        alias=alias,
        block_counts=tuple(
            block
            for block in (_blocks(routine, code) if with_edges or loops else ())
            if with_edges or block.name in looping
        ),
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


def _loops_of_one_block(routine: RoutineReading) -> Iterator[EdgeCount]:
    """Yield the counts of edges that lead from a block to itself."""
    cfg, counts = routine.events.cfg, routine.events.edges
    for edge, source, target, kind in cfg.edges:
        if source == target and counts[edge]:
            name = cfg.name_of(source)
            yield EdgeCount(name, name, kind, counts[edge], False)


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
    guided, cuts = routine.definition.guided_decoder(routine.plan), _Cuts(decoder)
    for path, count in reading.paths.items():
        inferred = guided is not None and guided.is_obvious(path)
        yield _path(cfg, path, decoder.decode(path), count, cuts, inferred=inferred)
    for record, count in reading.partial.items():
        yield _path(cfg, None, record, count, cuts)


class _Cuts:
    """The blocks where a plan's paths begin or end though no back edge does."""

    def __init__(self, decoder: PathDecoder) -> None:
        self._cfg = cfg = decoder.cfg
        # `isinstance` would ask for all other members of the protocol, some of them slow to make
        splits = hasattr(decoder, "split_edges")
        edges = cast(SplittingDecoder, decoder).split_edges if splits else decoder.cut_edges
        cut = [cfg.edges[edge] for edge in edges]
        self._begins = {edge.target for edge in cut if edge.source != cfg.entry}
        self._ends = {edge.source for edge in cut if edge.target != cfg.exit}

    def shorten(self, record: PathRecord) -> bool:
        """Whether a path begins or ends at such a place."""
        edges, blocks = [self._cfg.edges[edge] for edge in record.edges], record.blocks
        if blocks[0] in self._begins and not (edges and edges[0].source == self._cfg.entry):
            return True
        whole = record.partial or (edges and edges[-1].target == self._cfg.exit)
        return blocks[-1] in self._ends and not whole


def _path(
    cfg: ControlFlowGraph,
    path: int | None,
    record: PathRecord,
    count: int,
    cuts: _Cuts,
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
        shortened=cuts.shorten(record),
    )
