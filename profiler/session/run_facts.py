"""What every measurement says of its run, whatever the scheme: options, ending, warnings, lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from simprof.profiler.profiles.profile import (
    Ending,
    FaultInfo,
    Option,
    ProgramInfo,
    RefusalInfo,
    RoutineProfile,
    ThreadInfo,
    WaitInfo,
)
from simprof.profiler.request.request import SchemeOptions, TableChoice, Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import SchemeDefinition, SchemeOption, plain
from simprof.profiler.session.observation import Invocation, Observation
from simprof.simulator.binary.program import Program, SourceLine
from simprof.simulator.machine.running import Fault, Refusal, RunResult, ThreadWait


def program_info(observation: Observation) -> ProgramInfo:
    """Return which program ran."""
    program, invocation = observation.program, observation.invocation
    return ProgramInfo(
        str(invocation.file),
        program.sha256,
        program.machine,
        invocation.argument_texts,
        len(observation.recovered.routines),
        program.modules,
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


def chosen_options(fields: Mapping[str, Any]) -> SchemeOptions:
    """Return the options whose values `scheme_options` wrote; others among `fields` are passed by.

    Raises
    ------
    KeyError, TypeError, ValueError
        If one is missing, or has a value that it cannot have.
    """
    weights, profile = fields["weights"], fields["edge_profile"]
    own: dict[str, Any] = {}
    for option in registry.options():
        if option.name in fields:
            own[option.name] = _own_value(option, fields[option.name])
    path_limit = fields["path_limit"]
    if type(path_limit) is not int or path_limit < 1:
        raise ValueError(f"path limit {path_limit!r}")
    return SchemeOptions(
        path_limit=path_limit,
        weights=Weights(weights) if weights in list(Weights) else Path(weights),
        table=TableChoice(fields["table"]),
        edge_profile=None if profile is None else Path(profile),
        **own,
    )


def _own_value(option: SchemeOption, value: Any) -> Any:
    """Return the value of a scheme's own option; raises ValueError if it cannot be one."""
    if issubclass(option.kind, StrEnum):
        value = option.kind(value)
    elif option.kind is float and type(value) is int:
        value = float(value)
    elif type(value) is not option.kind and value is not None:
        raise ValueError(f"{option.name}={value!r}")
    if value is not None and not option.fits(value):
        raise ValueError(f"{option.name}={value!r}")
    return value


def options(invocation: Invocation, scheme: SchemeOptions) -> dict[str, Option]:
    """Return the options that shape a scheme's result, by name."""
    return {
        **scheme_options(scheme),
        "routines": invocation.selection.routines,
        "exclude": invocation.selection.exclude,
        "user_only": invocation.selection.user_only,
        "max_instructions": invocation.max_instructions,
        "timeout": invocation.timeout,
    }


def window_options(observation: Observation) -> dict[str, Option]:
    """Return what confines a result to calls of one routine, by name; nothing if nothing does."""
    contexts = observation.invocation.contexts
    if contexts is None or contexts.entry is None:
        return {}
    return {"entry": contexts.entry, "calls": contexts.calls}


def window_counts(observation: Observation) -> dict[str, int]:
    """Return how many calls a result is of, by name; nothing where it is of the whole run."""
    return {} if observation.window is None else {"window_calls": observation.window.calls}


def ending(observation: Observation, result: RunResult) -> Ending:
    """Return how the run ended, with the places in the program that say why."""
    fault = None if result.fault is None else _fault(observation, result.fault)
    refusal = None if result.refusal is None else _refusal(observation, result.refusal)
    waits = tuple(_wait(observation, wait) for wait in result.waits)
    return Ending(result.status, result.reason, result.signal, fault, refusal, waits)


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


def _wait(observation: Observation, wait: ThreadWait) -> WaitInfo:
    source = observation.program.lines.find(wait.pc)
    place = _place(observation, wait.pc)
    return WaitInfo(wait.number, wait.call, wait.pc, *place, source)


def threads(result: RunResult) -> tuple[ThreadInfo, ...]:
    """Return the threads of a program that had more than one."""
    return tuple(ThreadInfo(each.number, each.instructions) for each in result.threads)


def _place(observation: Observation, pc: int) -> tuple[str | None, int]:
    """Return the routine that `pc` is in, and how many bytes behind its start."""
    number = observation.recovered.routine_at(pc)
    if number < 0:
        return None, 0
    routine = observation.recovered.routines[number]
    return routine.name, pc - routine.address


def warnings(
    observation: Observation,
    definition: SchemeDefinition,
    unattributed: Mapping[str, int],
    wrapped: Sequence[str],
) -> Iterator[str]:
    """Yield what the reader of the numbers must know, one line each."""
    if wrapped:
        yield f"32-bit counters would have wrapped in {', '.join(wrapped)}"
    if unattributed["unattributed_transfers"] or unattributed["unattributed_instructions"]:
        yield (
            f"{unattributed['unattributed_transfers']} transfers and "
            f"{unattributed['unattributed_instructions']} instructions could not be attributed"
        )
    if definition.instruments and observation.result.threads:
        yield (
            "counters are not locked: where threads run at the same time, increments can be lost "
            "when two threads update one counter or one hash table at once. The counts here are "
            "exact, as threads take turns; atomic updates would add more than is priced here"
        )
    judge = definition.judged_by
    if judge is not None and judge not in observation.judges:
        yield f"nothing tells how much of the flow is definite: mode {judge} cannot be used"
    for address, reason in observation.irregular:
        yield f"irregular code at {address:#x} was executed: {reason}"


def lines(program: Program, routines: Sequence[RoutineProfile]) -> Mapping[int, SourceLine]:
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
