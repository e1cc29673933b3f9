"""From an observed run to a `Measurement`: counts checked, code priced, names given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from profiler.code.pricing import Pricer, RoutinePrice
from profiler.code.sizes import counter_bytes
from profiler.graphs import flow
from profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from profiler.graphs.dag import make_dag
from profiler.graphs.loops import depth_first, is_reducible
from profiler.graphs.numbering import number
from profiler.plan.decoders import (
    PathDecoder,
    PathRecord,
    Reading,
    RoutineCounters,
    RoutinePlan,
)
from profiler.plan.plan import Table
from profiler.profiles.accuracy import SplittingDecoder, attribute
from profiler.profiles.profile import (
    EXIT,
    EdgeCount,
    Ending,
    FaultInfo,
    Measurement,
    Option,
    PathCount,
    ProgramInfo,
    RoutineProfile,
    vertex_name,
)
from profiler.request.request import SchemeOptions
from profiler.schemes import registry
from profiler.schemes.definition import SchemeDefinition, plain
from profiler.session.counters import WRAP, check_reading
from profiler.session.events import RoutineEvents
from profiler.session.observation import Invocation, Observation
from profiler.session.scheme_runs import SchemeRun
from simulator.binary.program import Program, SourceLine
from simulator.machine.running import Fault, RunResult


def measure_all(observation: Observation, *, self_check: bool = False) -> tuple[Measurement, ...]:
    """What each scheme measured in an observed run.

    Parameters
    ----------
    observation
        The run.
    self_check
        Whether to validate every plan, too.

    Raises
    ------
    CountError, FlowError
        Counts that contradict each other: defects of simprof.
    """
    for events in observation.events.values():
        flow.check(events.cfg, events.edges, events.early, events.activations)
    return tuple(_measure(observation, scheme, self_check) for scheme in observation.schemes)


def _measure(observation: Observation, scheme: SchemeRun, self_check: bool) -> Measurement:
    definition = registry.definition(scheme.setting.mode)
    pricer = Pricer(registry.generators(definition.mode))
    totals: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    routines = []
    wrapped = []
    for routine, events in observation.events.items():
        if not scheme.selects(routine):
            continue
        plan = scheme.routine_plan(routine)
        counters = observation.counters.of(scheme, routine)
        reading = Reading(events.edges) if plan is None else plan.read(counters)
        check_reading(events, scheme.name, reading)
        price = pricer.price(
            events.cfg,
            scheme.plan(routine),
            observation.contexts.of(routine),
            events.edges,
            events.block_counts,
            counters.taken,
        )
        routines.append(_routine(definition, scheme, routine, events, counters, reading, price))
        totals.update(_counts(definition, plan, events, counters, reading))
        sizes.update(_sizes(definition, plan, events, counters, price))
        lost.update(_lost(definition, events, reading))
        judge = observation.judges.get(definition.judged_by or "")
        if judge is not None:
            lost.update(
                _misjudged(observation, routine, judge, cast(SplittingDecoder, plan), reading)
            )
        if counters.largest >= WRAP:
            wrapped.append(events.cfg.name)
        if self_check and plan is not None:
            plan.validate()
    result = observation.result
    unattributed = _unattributed(observation)
    return Measurement(
        program=_program_info(observation),
        mode=definition.mode,
        options=_options(observation.invocation, scheme.setting.options),
        ending=_ending(observation, result),
        base=result.instructions,
        added=sum(routine.added for routine in routines)
        + definition.code().run_cost(observation.program.machine, sizes),
        counts={**_NO_COUNTS, **totals, **unattributed},
        routines=tuple(routines),
        warnings=tuple(_warnings(observation, unattributed, wrapped)),
        partial=result.reason in ("budget", "interrupted"),
        lines=_lines(observation.program, routines),
        sizes=dict(sizes),
        lost=dict(lost),
    )


_NO_COUNTS = dict.fromkeys(
    ("path_increments", "hashed_increments", "edge_increments", "blocks", "transfers"), 0
)


def _counts(
    definition: SchemeDefinition,
    plan: RoutinePlan | None,
    events: RoutineEvents,
    counters: RoutineCounters,
    reading: Reading,
) -> dict[str, int]:
    counts = {
        "path_increments": counters.path_increments,
        "hashed_increments": counters.hashed,
        "edge_increments": sum(counters.events),
        "blocks": sum(events.block_counts),
        "transfers": sum(events.edges),
    }
    writer, guided = definition.trace_writer(plan), definition.guided_decoder(plan)
    if writer is not None:  # its events are in the trace, and no increments
        counts |= {"edge_increments": 0, "trace_tokens": writer.written(events.edges)}
    if guided is not None:
        obvious = (count for path, count in reading.paths.items() if guided.is_obvious(path))
        counts["inferred_paths"] = sum(obvious)
    return counts


def _lost(definition: SchemeDefinition, events: RoutineEvents, reading: Reading) -> dict[str, int]:
    """What the scheme lost, and how many edges' counts its counters leave open.

    Of a scheme that an edge profile guides, edge counts are no loss but an input.
    """
    if reading.edges is not None or definition.guided:
        return dict(reading.lost)
    return {**reading.lost, "unknown_edges": len(events.edges)}


def _unattributed(observation: Observation) -> dict[str, int]:
    """Transfers and instructions that no graph explains."""
    return {
        "unattributed_transfers": observation.unattributed.transfers,
        "unattributed_instructions": observation.unattributed.instructions,
        "runs": observation.runs,
        "system_calls": observation.result.system_calls,
    }


def _misjudged(
    observation: Observation,
    routine: int,
    judge: SchemeRun,
    plan: SplittingDecoder,
    reading: Reading,
) -> dict[str, int]:
    """Blocks in paths, and those that `reading` attributes wrongly, by `judge` (TPP 5)."""
    exact = registry.definition(judge.setting.mode).path_decoder(judge.routine_plan(routine))
    if exact is None:
        return {}
    truth = exact.read(observation.counters.of(judge, routine))
    found = attribute(exact, truth, plan, reading)
    return {
        "flow_blocks": found.flow,
        "overcounted_blocks": found.overcounted,
        "undercounted_blocks": found.undercounted,
    }


def _sizes(
    definition: SchemeDefinition,
    plan: RoutinePlan | None,
    events: RoutineEvents,
    counters: RoutineCounters,
    price: RoutinePrice,
) -> dict[str, int]:
    """Bytes and instructions that a scheme takes for one routine."""
    if plan is None:
        return {}
    sizes = {
        "counter_bytes": counter_bytes(plan.plan, len(counters.paths)),
        "snippets": 0 if price.code is None else price.code.count,
        "code_bytes": 0 if price.code is None else price.code.code_bytes,
    }
    writer = definition.trace_writer(plan)
    if writer is not None:
        sizes["trace_bits"] = writer.standard_bits(events.edges)
        sizes["minimal_trace_bits"] = writer.minimal_bits(events.edges)
    return sizes


def _routine(
    definition: SchemeDefinition,
    scheme: SchemeRun,
    routine: int,
    events: RoutineEvents,
    counters: RoutineCounters,
    reading: Reading,
    price: RoutinePrice,
) -> RoutineProfile:
    cfg = events.cfg
    plan = scheme.plan(routine)
    dfs = depth_first(cfg)
    instrumented = frozenset[int]() if plan is None else frozenset(plan.pair_edges or plan.actions)
    whole = scheme.routine_plan(routine)
    path_plan = definition.path_decoder(whole)
    blocks = events.block_counts
    return RoutineProfile(
        name=cfg.name,
        address=cfg.address,
        blocks=len(cfg.blocks),
        edges=len(cfg.edges),
        back_edges=len(dfs.back_edges),
        irreducible=not is_reducible(cfg, dfs),
        potential_paths=number(make_dag(cfg, dfs)).total,
        cut_edges=0 if path_plan is None else len(path_plan.cut_edges),
        table=Table.NONE if plan is None else plan.table,
        addressing=None if plan is None else plan.addressing,
        path_register=price.path_register,
        activations=events.activations,
        added=price.added + counters.hashing,
        instructions=sum(
            count * block.instructions for count, block in zip(blocks, cfg.blocks, strict=True)
        ),
        edge_counts=(
            *(
                _edge(cfg, edge, events.edges, edge in instrumented)
                for edge in range(len(cfg.edges))
            ),
            *(_early(cfg, block, count) for block, count in sorted(events.early.items())),
        ),
        path_counts=tuple(_paths(cfg, path_plan, reading)),
    )


def _edge(cfg: ControlFlowGraph, edge: int, counts: Sequence[int], instrumented: bool) -> EdgeCount:
    ends = cfg.edges[edge]
    return EdgeCount(
        vertex_name(cfg, ends.source),
        vertex_name(cfg, ends.target),
        ends.kind,
        counts[edge],
        instrumented,
    )


def _early(cfg: ControlFlowGraph, block: int, count: int) -> EdgeCount:
    return EdgeCount(vertex_name(cfg, block), EXIT, EdgeKind.EARLY, count, False)


def _paths(
    cfg: ControlFlowGraph, plan: PathDecoder | None, reading: Reading
) -> Iterator[PathCount]:
    if plan is None:
        return
    for number_, count in reading.paths.items():
        yield _path(cfg, number_, plan.decode(number_), count)
    for record, count in reading.partial.items():
        yield _path(cfg, None, record, count)


def _path(cfg: ControlFlowGraph, number_: int | None, record: PathRecord, count: int) -> PathCount:
    blocks = [cfg.blocks[block] for block in record.blocks]
    return PathCount(
        id=number_,
        count=count,
        instructions=record.instructions(cfg),
        blocks=tuple(block.start for block in blocks),
        slots=tuple(place for place, block in enumerate(blocks) if block.is_slot),
        partial=record.partial,
        edges=record.edges,
    )


def _program_info(observation: Observation) -> ProgramInfo:
    program, invocation = observation.program, observation.invocation
    return ProgramInfo(
        str(invocation.file), program.sha256, program.machine, invocation.argument_texts
    )


def _options(invocation: Invocation, scheme: SchemeOptions) -> dict[str, Option]:
    profile = scheme.edge_profile
    own = {option.name: plain(option.of(scheme)) for option in registry.options()}
    return {
        "path_limit": scheme.path_limit,
        "weights": str(scheme.weights),
        "table": str(scheme.table),
        **own,
        "edge_profile": None if profile is None else str(profile),
        "routines": invocation.routines,
        "max_instructions": invocation.max_instructions,
        "timeout": invocation.timeout,
    }


def _ending(observation: Observation, result: RunResult) -> Ending:
    fault = None
    if result.fault is not None:
        fault = _fault(observation, result.fault)
    return Ending(result.status, result.reason, result.signal, fault)


def _fault(observation: Observation, fault: Fault) -> FaultInfo:
    pc = fault.pc if fault.origin is None else fault.origin
    number_ = observation.recovered.routine_at(pc)
    routine = observation.recovered.routines[number_] if number_ >= 0 else None
    return FaultInfo(
        name=fault.name,
        pc=pc,
        address=fault.address,
        description=fault.description,
        routine=None if routine is None else routine.name,
        offset=0 if routine is None else pc - routine.address,
        source=observation.program.lines.find(pc),
    )


def _warnings(
    observation: Observation, unattributed: Mapping[str, int], wrapped: Sequence[str]
) -> Iterator[str]:
    if wrapped:
        yield f"32-bit counters would have wrapped in {', '.join(wrapped)}"
    if unattributed["unattributed_transfers"] or unattributed["unattributed_instructions"]:
        yield (
            f"{unattributed['unattributed_transfers']} transfers and "
            f"{unattributed['unattributed_instructions']} instructions could not be attributed"
        )
    for address, reason in observation.irregular:
        yield f"irregular code at {address:#x} was executed: {reason}"


def _lines(program: Program, routines: Sequence[RoutineProfile]) -> Mapping[int, SourceLine]:
    """Source lines of every block that the profile names."""
    starts = {
        block
        for routine in routines
        for path in routine.path_counts
        for block in path.blocks
        if isinstance(block, int)
    } | {
        vertex.start
        for routine in routines
        for edge in routine.edge_counts
        if edge.count
        for vertex in (edge.source, edge.target)
        if isinstance(vertex.start, int)
    }
    found = ((start, program.lines.find(start)) for start in sorted(starts))
    return {start: line for start, line in found if line is not None}
