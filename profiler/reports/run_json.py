"""A measurement as JSON: schema `simprof/run/2` (docs/SEMANTICS.md).

Numbers are exact integers of any length, addresses are integers. Beyond the schema's fields the
object carries `partial`, `warnings` and, for a run that did not exit by itself, the signal and
the fault.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

from simprof.profiler.profiles.codec import big_integers, encode
from simprof.profiler.profiles.profile import (
    RUN_SCHEMA,
    EdgeCount,
    Ending,
    FaultInfo,
    Guide,
    PathCount,
    ProgramInfo,
    RefusalInfo,
    RoutineProfile,
    RunMeasurement,
    WaitInfo,
)
from simprof.profiler.profiles.tables import block_counts
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.call_tree import call_tree_object


def render(measurement: RunMeasurement) -> str:
    """Return the run object as one line of JSON."""
    with big_integers():
        return json.dumps(to_object(measurement)) + "\n"


def to_object(measurement: RunMeasurement) -> dict[str, object]:
    """Return the run object as Python values.

    `paths` and `blocks` are there only where the scheme collects them, `attribution` only where
    an exact path profile of the same run judges this one.
    """
    result = summary_object(measurement)
    result["edges"] = [
        edge_object(routine.name, edge)
        for routine in measurement.routines
        for edge in routine.edge_counts
    ]
    for name in LAST_OF_SUMMARY:  # behind the edges, where they have always been
        if name in result:
            result[name] = result.pop(name)
    if mode_facts.counts_blocks(measurement):
        result["blocks"] = [
            {"routine": routine.name, "block": block.as_json(), "count": count}
            for routine in measurement.routines
            for block, count in block_counts(routine).items()
        ]
    if mode_facts.collects_paths(measurement):
        result["paths"] = [
            path for routine in measurement.routines for path in path_objects(routine)
        ]
    return result


LAST_OF_SUMMARY = ("runs", "attribution")


def summary_object(measurement: RunMeasurement) -> dict[str, object]:
    """Return the run object without the counts of edges, blocks and paths."""
    result: dict[str, object] = {
        "schema": RUN_SCHEMA,
        "program": program_object(measurement.program),
        "mode": measurement.mode,
        "options": encode(measurement.options),
        "exit": ending_object(measurement.ending),
        "partial": measurement.partial,
        "warnings": list(measurement.warnings),
        "instructions": {"base": measurement.base, "added": measurement.added},
        "overhead": measurement.overhead,
        "counts": dict(measurement.counts),
        "sizes": mode_facts.sizes(measurement),
        "lost": dict(measurement.lost),
        "refused_calls": refused_call_objects(measurement),
        "routines": [routine_object(routine) for routine in measurement.routines],
    }
    if measurement.guide is not None:
        result["guide"] = guide_object(measurement, measurement.guide)
    if measurement.threads:
        result["threads"] = encode(measurement.threads)
    if measurement.runs != 1:
        result["runs"] = measurement.runs
    if measurement.call_tree is not None:
        result["call_tree"] = call_tree_object(measurement.call_tree)
    judged = mode_facts.attribution(measurement)
    if judged is not None:
        result["attribution"] = judged.as_json()
    return result


def guide_object(measurement: RunMeasurement, guide: Guide) -> dict[str, object]:
    """Return `guide`."""
    known = guide.added is not None and measurement.base > 0
    return {
        "file": guide.file,
        "same_run": guide.same_run,
        "mode": guide.mode,
        "added": guide.added,
        "overhead": (guide.added or 0) / measurement.base if known else None,
    }


def program_object(program: ProgramInfo) -> dict[str, object]:
    """Return `program`."""
    return {
        "file": program.file,
        "sha256": program.sha256,
        "machine": str(program.machine),
        "arguments": list(program.arguments),
        "routines": program.routines,
        **({"modules": [asdict(module) for module in program.modules]} if program.modules else {}),
    }


def ending_object(ending: Ending) -> dict[str, object]:
    """Return `exit`. A run that Ctrl-C ended was ended by a signal, SIGINT: number 2."""
    reason = "signal" if ending.reason == "interrupted" else ending.reason
    result: dict[str, object] = {"status": ending.code, "reason": reason}
    if ending.reason in ("signal", "fault", "interrupted"):
        result["signal"] = ending.code - 128
    if ending.fault is not None:
        result["fault"] = fault_object(ending.fault)
    if ending.refusal is not None:
        result["refusal"] = refusal_object(ending.refusal)
    if ending.waits:
        result["waits"] = [wait_object(wait) for wait in ending.waits]
    return result


def wait_object(wait: WaitInfo) -> dict[str, object]:
    """Return in which system call a thread waits for ever."""
    return {"thread": wait.thread, "name": wait.name, "pc": wait.pc, **_place(wait)}


def refused_call_objects(measurement: RunMeasurement) -> list[dict[str, object]]:
    """Return `refused_calls`."""
    return [
        {"name": call.name, "error": call.error, "count": call.count}
        for call in measurement.refused_calls
    ]


def refusal_object(refusal: RefusalInfo) -> dict[str, object]:
    """Return the refused system call that ended a run, and where it was made."""
    return {"name": refusal.name, "pc": refusal.pc, **_place(refusal)}


def fault_object(fault: FaultInfo) -> dict[str, object]:
    """Return what is known of a fault."""
    return {
        "name": fault.name,
        "pc": fault.pc,
        "address": fault.address,
        "description": fault.description,
        **_place(fault),
    }


def _place(stop: FaultInfo | RefusalInfo | WaitInfo) -> dict[str, object]:
    source = stop.source
    return {
        "routine": stop.routine,
        "offset": stop.offset,
        "file": None if source is None else source.file,
        "line": None if source is None else source.line,
    }


def routine_object(routine: RoutineProfile) -> dict[str, object]:
    """Return one entry of `routines`."""
    return {
        "name": routine.name,
        "alias": routine.alias,
        "address": routine.address,
        "blocks": routine.blocks,
        "edges": routine.edges,
        "back_edges": routine.back_edges,
        "irreducible": routine.irreducible,
        "potential_paths": routine.potential_paths,
        "cut_edges": routine.cut_edges,
        "table": str(routine.table),
        "addressing": None if routine.addressing is None else str(routine.addressing),
        "path_register": routine.path_register,
        "activations": routine.activations,
        "added": routine.added,
        "instructions": routine.instructions,
    }


def edge_object(routine: str, edge: EdgeCount) -> dict[str, object]:
    """Return one entry of `edges`."""
    return {
        "routine": routine,
        "source": edge.source.as_json(),
        "target": edge.target.as_json(),
        "kind": str(edge.kind),
        "count": edge.count,
        "instrumented": edge.instrumented,
    }


def path_objects(routine: RoutineProfile) -> Iterator[dict[str, object]]:
    """Yield the entries of `paths` of one routine.

    Where parallel edges make two paths of the same blocks, each of them also lists its edges, as
    positions among the routine's entries in `edges`.
    """
    alike = Counter(map(shape, routine.path_counts))
    for path in routine.path_counts:
        entry: dict[str, object] = {
            "routine": routine.name,
            "id": path.id,
            "count": path.count,
            "instructions": path.instructions,
            "blocks": list(path.blocks),
            "partial": path.partial,
            "inferred": path.inferred,
            "shortened": path.shortened,
            "slots": list(path.slots),
        }
        if alike[shape(path)] > 1:
            entry["edges"] = list(path.edges)
        yield entry


def shape(path: PathCount) -> tuple[object, ...]:
    """Return what two paths must share to be told apart by their edges alone."""
    return (path.blocks, path.slots, path.partial)
