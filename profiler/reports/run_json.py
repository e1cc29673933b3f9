"""A measurement as JSON: format `simprof/run` (docs/SEMANTICS.md).

Numbers are exact integers of any length. Rows of routines, edges, paths and blocks have the columns
of `profiles.tables`.
"""

from __future__ import annotations

from collections.abc import Iterator

from simprof.profiler.profiles import profile, tables
from simprof.profiler.profiles.codec import encode, json_line
from simprof.profiler.profiles.documents import result_head
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.call_tree import call_tree_object
from simprof.profiler.schemes.mode_options import setting_object


def render(measurement: profile.RunMeasurement) -> str:
    """Return the run object as one line of JSON."""
    return "".join(pieces(measurement))


def pieces(measurement: profile.RunMeasurement) -> Iterator[str]:
    """Yield the run object as one line of JSON, in pieces: that of a large program has 100 MB."""
    yield json_line(summary_object(measurement)).removesuffix("}\n")
    for name in _counts(measurement):
        yield f', "{name}": ['
        before = ""
        for rows in tables.json_rows(tables.COLUMNS[name], tables.table_rows(measurement, name)):
            yield before + rows
            before = ", "
        yield "]"
    yield "}\n"


def _counts(measurement: profile.RunMeasurement) -> list[str]:
    """Return the tables of edges, blocks and paths that a run object has.

    `paths` and `blocks` are there only where the scheme collects them.
    """
    names = ["edges"]
    if mode_facts.counts_blocks(measurement):
        names.append("blocks")
    if mode_facts.collects_paths(measurement):
        names.append("paths")
    return names


def summary_object(measurement: profile.RunMeasurement) -> dict[str, object]:
    """Return the run object without the counts of edges, blocks and paths.

    `attribution` and `quality` are there only where an exact path profile of the same run judges
    this one, `edge_quality` only where this one judges others.
    """
    result: dict[str, object] = {
        **measurement_head("run", measurement),
        "exit": ending_object(measurement.ending),
        "partial": measurement.partial,
        "warnings": list(measurement.warnings),
        "instructions": {"base": measurement.base, "added": measurement.added},
        "overhead": measurement.overhead,
        "counts": dict(measurement.counts),
        "sizes": mode_facts.sizes(measurement),
        "lost": dict(measurement.lost),
        "refused_calls": refused_call_objects(measurement),
        "routines": list(tables.table(measurement, "routines").objects()),
    }
    if mode_facts.estimates(measurement):
        result["estimate"] = True
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
    if measurement.quality is not None:
        result["quality"] = measurement.quality.as_json()
    if measurement.edge_quality is not None:
        result["edge_quality"] = measurement.edge_quality.as_json()
    return result


def measurement_head(name: str | None, measurement: profile.RunMeasurement) -> dict[str, object]:
    """Return the first keys of a document about one measurement (`documents.result_head`)."""
    guide = measurement.guide
    return result_head(
        name,
        program_object(measurement.program),
        measurement.input_sha256,
        setting_object(
            measurement.mode, measurement.options, None if guide is None else guide.sha256
        ),
        measured_by=measurement.origin,
    )


def guide_object(measurement: profile.RunMeasurement, guide: profile.Guide) -> dict[str, object]:
    """Return `guide`."""
    known = guide.added is not None and measurement.base > 0
    return {
        "file": guide.file,
        "sha256": guide.sha256,
        "same_run": guide.same_run,
        "mode": guide.mode,
        "added": guide.added,
        "overhead": (guide.added or 0) / measurement.base if known else None,
    }


def program_object(program: profile.ProgramInfo) -> dict[str, object]:
    """Return `program`."""
    result: dict[str, object] = {
        "file": program.file,
        "sha256": program.sha256,
        "machine": str(program.machine),
        "arguments": list(program.arguments),
        "routines": program.routines,
    }
    if program.modules:
        result["modules"] = [
            {"bias": tables.address_text(each.bias), "file": each.file, "sha256": each.sha256}
            for each in program.modules
        ]
    return result


def ending_object(ending: profile.Ending) -> dict[str, object]:
    """Return `exit`. A run that Ctrl-C ended was ended by a signal, SIGINT: number 2."""
    reason = "signal" if ending.reason == "interrupted" else ending.reason
    result: dict[str, object] = {"status": ending.code, "reason": reason}
    if ending.reason in ("signal", "fault", "interrupted"):
        result["signal"] = ending.code - 128
    if (fault := ending.fault) is not None:
        address = None if fault.address is None else tables.address_text(fault.address)
        result["fault"] = _stop(fault, address=address, description=fault.description)
    if ending.refusal is not None:
        result["refusal"] = _stop(ending.refusal)
    if ending.waits:
        result["waits"] = [{"thread": wait.thread, **_stop(wait)} for wait in ending.waits]
    return result


def _stop(
    stop: profile.FaultInfo | profile.RefusalInfo | profile.WaitInfo, **more: object
) -> dict[str, object]:
    """Return what ended a run, or for ever holds a thread, and where that is."""
    source = stop.source
    return {
        "name": stop.name,
        "pc": tables.address_text(stop.pc),
        **more,
        "routine": stop.routine,
        "offset": stop.offset,
        "file": None if source is None else source.file,
        "line": None if source is None else source.line,
    }


def refused_call_objects(measurement: profile.RunMeasurement) -> list[dict[str, object]]:
    """Return `refused_calls`."""
    return [
        {"name": call.name, "error": call.error, "count": call.count}
        for call in measurement.refused_calls
    ]
