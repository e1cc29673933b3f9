"""From an observed run to a `Measurement`: counts checked, code priced, names given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from profiler.code.pricing import Pricer
from profiler.code.sizes import plan_sizes, trace_sizes
from profiler.graphs import flow
from profiler.graphs.cfg import ControlFlowGraph
from profiler.plan.decoders import Reading
from profiler.profiles.accuracy import SplittingDecoder, attribute
from profiler.profiles.profile import (
    Ending,
    FaultInfo,
    Measurement,
    Option,
    ProgramInfo,
    RefusalInfo,
    RefusedCalls,
    RoutineProfile,
)
from profiler.request.request import SchemeOptions
from profiler.schemes import registry
from profiler.schemes.definition import SchemeDefinition, plain
from profiler.session.counters import WRAP, check_reading
from profiler.session.observation import Invocation, Observation
from profiler.session.routine_results import RoutineReading, routine_profile
from profiler.session.scheme_runs import SchemeRun
from simulator.binary.program import Program, SourceLine
from simulator.machine.running import Fault, Refusal, RunResult

if TYPE_CHECKING:
    from profiler.session.self_check import SelfCheck


def measure_all(observation: Observation, *, self_check: bool = False) -> tuple[Measurement, ...]:
    """Return what each scheme measured in an observed run.

    Parameters
    ----------
    observation
        The run.
    self_check
        Whether to validate the graphs, every plan and every profile, too (see `self_check`).

    Raises
    ------
    CountError, FlowError
        Counts that contradict each other: defects of simprof.
    RecoveryError, SelfCheckError
        Structures that are not as they must be: defects of simprof.
    """
    check = None
    if self_check:
        from profiler.session.self_check import SelfCheck  # which reads traces: numba

        check = SelfCheck(observation)
        check.check_graphs()
    for events in observation.events.values():
        flow.check(events.cfg, events.edges, events.early, events.activations)
    measurements = tuple(_measure(observation, scheme, check) for scheme in observation.schemes)
    if check is not None:
        for measurement in measurements:
            check.check_profile(measurement)
    return measurements


@dataclass(frozen=True)
class _RoutineResult:
    """What one scheme measured in one routine, and what that adds to its totals, by name.

    `wraps`: a counter of 32 bits would have wrapped.
    """

    profile: RoutineProfile
    counts: Mapping[str, int]
    sizes: Mapping[str, int]
    lost: Mapping[str, int]
    wraps: bool


def _measure(observation: Observation, scheme: SchemeRun, check: SelfCheck | None) -> Measurement:
    definition, machine = scheme.definition, observation.program.machine
    use = definition.registers(scheme.setting.options)
    pricer = Pricer(registry.generators(definition.mode), use)
    results = [
        _measure_routine(observation, scheme, routine, pricer, check)
        for routine in observation.events
        if scheme.selects(routine)
    ]
    routines = tuple(result.profile for result in results)
    sizes = _total(result.sizes for result in results)
    unattributed = _unattributed(observation)
    wrapped = [result.profile.name for result in results if result.wraps]
    run = observation.result
    return Measurement(
        program=_program_info(observation),
        mode=definition.mode,
        options=_options(observation.invocation, scheme.setting.options),
        ending=_ending(observation, run),
        base=run.instructions,
        added=sum(r.added for r in routines) + definition.code().run_cost(machine, sizes),
        counts={**_NO_COUNTS, **_total(result.counts for result in results), **unattributed},
        routines=routines,
        warnings=tuple(_warnings(observation, definition, unattributed, wrapped)),
        partial=run.is_cut_short,
        lines=_lines(observation.program, routines),
        sizes=dict(sizes),
        lost=dict(_total(result.lost for result in results)),
        refused_calls=tuple(
            RefusedCalls(call.name, call.error, count)
            for call, count in sorted(run.refused_calls.items())
        ),
    )


def _measure_routine(
    observation: Observation,
    scheme: SchemeRun,
    number: int,
    pricer: Pricer,
    check: SelfCheck | None,
) -> _RoutineResult:
    """Read the counters of one routine, compare them with the run's, and price the code."""
    if check is not None:
        check.check_plan(scheme, number)
    events = observation.events[number]
    plan = scheme.routine_plan(number)
    counters = observation.counters.of(scheme, number)
    reading = Reading(events.edges) if plan is None else plan.read(counters)
    check_reading(events, scheme.name, reading)
    price = pricer.price(
        events.cfg,
        scheme.plan(number),
        observation.contexts.of(number),
        events.edges,
        events.block_counts,
        counters.taken,
    )
    routine = RoutineReading(scheme.definition, plan, events, counters, reading, price)
    return _RoutineResult(
        profile=replace(routine_profile(routine), alias=_alias(observation, events.cfg)),
        counts=_counts(routine),
        sizes=_sizes(routine),
        lost={**_lost(routine), **_misjudged(observation, number, routine)},
        wraps=counters.largest >= WRAP,
    )


def _alias(observation: Observation, cfg: ControlFlowGraph) -> str | None:
    patterns = observation.invocation.selection.routines
    return observation.names.alias(cfg, patterns) if patterns else None


def _total(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Add up numbers by name; names that no part has give 0."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


_NO_COUNTS = dict.fromkeys(
    ("path_increments", "hashed_increments", "edge_increments", "blocks", "transfers"), 0
)


def _counts(routine: RoutineReading) -> dict[str, int]:
    """Return how often things happened in one routine, by name."""
    events, counters = routine.events, routine.counters
    counts = {
        "path_increments": counters.path_increments,
        "hashed_increments": counters.hashed_increments,
        "edge_increments": sum(counters.events),
        "blocks": sum(events.block_counts),
        "transfers": sum(events.edges),
    }
    writer = routine.definition.trace_writer(routine.plan)
    guided = routine.definition.guided_decoder(routine.plan)
    if writer is not None:  # its events are in the trace, and no increments
        counts |= {"edge_increments": 0, "trace_tokens": writer.written(events.edges)}
    if guided is not None:
        paths = routine.reading.paths.items()
        counts["inferred_paths"] = sum(count for path, count in paths if guided.is_obvious(path))
    return counts


def _lost(routine: RoutineReading) -> dict[str, int]:
    """Return what the scheme lost, by name, and how many edges its counters leave without a count.

    Of a scheme that an edge profile guides, edge counts are no loss but an input.
    """
    reading = routine.reading
    if reading.edges is not None or routine.definition.guided:
        return dict(reading.lost)
    return {**reading.lost, "unknown_edges": len(routine.events.edges)}


def _unattributed(observation: Observation) -> dict[str, int]:
    """Transfers and instructions that no graph explains."""
    return {
        "unattributed_transfers": observation.unattributed.transfers,
        "unattributed_instructions": observation.unattributed.instructions,
        "runs": observation.runs,
        "whole_runs": observation.whole_runs,
        "system_calls": observation.result.system_calls,
    }


def _misjudged(observation: Observation, number: int, routine: RoutineReading) -> dict[str, int]:
    """Blocks in paths, and those that the scheme attributes wrongly, by its judge (TPP 5).

    Empty where nothing judges it.
    """
    judge = observation.judges.get(routine.definition.judged_by or "")
    if judge is None:
        return {}
    exact = judge.definition.path_decoder(judge.routine_plan(number))
    if exact is None:
        return {}
    truth = exact.read(observation.counters.of(judge, number))
    judged = attribute(exact, truth, cast(SplittingDecoder, routine.plan), routine.reading)
    return {
        "flow_blocks": judged.flow,
        "overcounted_blocks": judged.overcounted,
        "undercounted_blocks": judged.undercounted,
    }


def _sizes(routine: RoutineReading) -> dict[str, int]:
    """Return how much counters, code and trace take for one routine, by name."""
    plan, code = routine.plan, routine.price.code
    if plan is None:
        return {}
    writer = routine.definition.trace_writer(plan)
    return {
        **plan_sizes(plan.plan, code, len(routine.counters.paths)),
        **trace_sizes(writer, routine.events.edges),
    }


def _program_info(observation: Observation) -> ProgramInfo:
    program, invocation = observation.program, observation.invocation
    return ProgramInfo(
        str(invocation.file),
        program.sha256,
        program.machine,
        invocation.argument_texts,
        len(observation.recovered.routines),
    )


def scheme_options(scheme: SchemeOptions) -> dict[str, Option]:
    """Return what shapes a scheme's plans, by name."""
    profile = scheme.edge_profile
    own = {option.name: plain(option.of(scheme)) for option in registry.options()}
    return {
        "path_limit": scheme.path_limit,
        "weights": str(scheme.weights),
        "table": str(scheme.table),
        **own,
        "edge_profile": None if profile is None else str(profile),
    }


def _options(invocation: Invocation, scheme: SchemeOptions) -> dict[str, Option]:
    return {
        **scheme_options(scheme),
        "routines": invocation.selection.routines,
        "exclude": invocation.selection.exclude,
        "user_only": invocation.selection.user_only,
        "max_instructions": invocation.max_instructions,
        "timeout": invocation.timeout,
    }


def _ending(observation: Observation, result: RunResult) -> Ending:
    fault = None if result.fault is None else _fault(observation, result.fault)
    refusal = None if result.refusal is None else _refusal(observation, result.refusal)
    return Ending(result.status, result.reason, result.signal, fault, refusal)


def _fault(observation: Observation, fault: Fault) -> FaultInfo:
    pc = fault.pc if fault.origin is None else fault.origin
    routine, offset = _place(observation, pc)
    return FaultInfo(
        name=fault.name,
        pc=pc,
        address=fault.address,
        description=fault.description,
        routine=routine,
        offset=offset,
        source=observation.program.lines.find(pc),
    )


def _refusal(observation: Observation, refusal: Refusal) -> RefusalInfo:
    source = observation.program.lines.find(refusal.pc)
    return RefusalInfo(refusal.call.name, refusal.pc, *_place(observation, refusal.pc), source)


def _place(observation: Observation, pc: int) -> tuple[str | None, int]:
    """Return the routine that `pc` is in, and how many bytes behind its start."""
    number = observation.recovered.routine_at(pc)
    if number < 0:
        return None, 0
    routine = observation.recovered.routines[number]
    return routine.name, pc - routine.address


def _warnings(
    observation: Observation,
    definition: SchemeDefinition,
    unattributed: Mapping[str, int],
    wrapped: Sequence[str],
) -> Iterator[str]:
    if wrapped:
        yield f"32-bit counters would have wrapped in {', '.join(wrapped)}"
    if unattributed["unattributed_transfers"] or unattributed["unattributed_instructions"]:
        yield (
            f"{unattributed['unattributed_transfers']} transfers and "
            f"{unattributed['unattributed_instructions']} instructions could not be attributed"
        )
    judge = definition.judged_by
    if judge is not None and judge not in observation.judges:
        yield f"nothing tells how much of the flow is definite: mode {judge} cannot be used"
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
    lines = ((start, program.lines.find(start)) for start in sorted(starts))
    return {start: line for start, line in lines if line is not None}
