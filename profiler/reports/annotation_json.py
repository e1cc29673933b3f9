"""Annotated source and code as JSON: schema `simprof/annotate/1`."""

from __future__ import annotations

import json
from typing import Any

from simprof.profiler.profiles.code_counts import Branch
from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.reports.annotation import Annotation, CodeRow, CodeView, SourceRow, SourceView
from simprof.profiler.reports.run_json import program_object


def render(annotation: Annotation) -> str:
    """Return one line of JSON: files with lines, routines with instructions."""
    measurement = annotation.counts.measurement
    answer = {
        "schema": "simprof/annotate/1",
        "program": program_object(measurement.program),
        "mode": measurement.mode,
        "notes": list(annotation.notes),
        "files": [
            _file(view, annotation) for view in annotation.views if isinstance(view, SourceView)
        ],
        "routines": [_routine(view) for view in annotation.views if isinstance(view, CodeView)],
    }
    with big_integers():
        return json.dumps(answer) + "\n"


def _file(view: SourceView, annotation: Annotation) -> dict[str, Any]:
    routines = annotation.counts.routines
    return {
        "file": view.file,
        "lines": [_line(row) for row in view.rows if row.counts is not None],
        "inlined": [
            {
                "name": each.copy.name,
                "line": each.copy.line or None,
                "into": routines[each.routine].profile.name,
                "call_line": each.copy.call_line or None,
                "address": each.copy.entry,
                "executions": each.executions,
                "base": each.base,
            }
            for each in view.inlined
        ],
    }


def _line(row: SourceRow) -> dict[str, Any]:
    assert row.counts is not None
    return {
        "line": row.number,
        "executions": row.counts.executions,
        "base": row.counts.base,
        "added": row.counts.added,
        "code": row.placing,
        "branches": [
            {"address": branch.address} | _sides(branch) for branch in row.counts.branches
        ],
        "source": row.text,
    }


def _routine(view: CodeView) -> dict[str, Any]:
    routine = view.code.profile
    return {
        "name": routine.name,
        "address": routine.address,
        "activations": routine.activations,
        "instructions": routine.instructions,
        "added": routine.added,
        "unplaced": view.code.unplaced,
        "code": [_instruction(row) for row in view.rows],
    }


def _instruction(row: CodeRow) -> dict[str, Any]:
    return {
        "address": row.address,
        "instruction": row.text,
        "executions": row.executions,
        "added": row.added,
        "file": None if row.line is None else row.line.file,
        "line": None if row.line is None else row.line.line,
    } | ({} if row.branch is None else _sides(row.branch))


def _sides(branch: Branch) -> dict[str, int]:
    return {"taken": branch.taken, "not_taken": branch.not_taken}
