"""Coverage in the JSON of `gcov --json-format` (GCC's manual, *Invoking gcov*), version 2.

Compressed by gzip, as gcov's own files are, which end in `.gcov.json.gz`. A line has one entry,
also where it is part of several functions (inlined ones). Columns are not known and are 0; nothing
is told of exceptions and of calls. `simprof_code` is none of gcov's words: how a line's code lies.
"""

from __future__ import annotations

import gzip
import json
from importlib.metadata import version

from simprof.profiler.exports.coverage import FileCoverage, FunctionCoverage, LineCoverage, coverage
from simprof.profiler.exports.source import ExportSource
from simprof.simulator.binary.demangling import demangle

FORMAT_VERSION = "2"


def write(source: ExportSource) -> bytes:
    """Return one report on all source files."""
    report = {
        "format_version": FORMAT_VERSION,
        "gcc_version": f"simprof {version('simprof')}",
        "current_working_directory": "",
        "data_file": source.measurement.program.file,
        "files": [_file(file, source) for file in coverage(source)],
    }
    return gzip.compress(json.dumps(report).encode(), mtime=0)


def _file(file: FileCoverage, source: ExportSource) -> dict[str, object]:
    return {
        "file": source.place(file.file),
        "functions": [_function(function) for function in file.functions],
        "lines": [_line(number, file.lines[number]) for number in sorted(file.lines)],
    }


def _function(function: FunctionCoverage) -> dict[str, object]:
    return {
        "name": function.name,
        "demangled_name": demangle(function.name),
        "start_line": function.line,
        "start_column": 0,
        "end_line": function.last_line,
        "end_column": 0,
        "blocks": function.blocks,
        "blocks_executed": function.executed_blocks,
        "execution_count": function.count,
    }


def _line(number: int, line: LineCoverage) -> dict[str, object]:
    result: dict[str, object] = {
        "line_number": number,
        "count": line.count,
        "simprof_code": line.placing,
        "unexecuted_block": line.has_unexecuted,
        "block_ids": line.blocks,
        "branches": [
            {
                "count": arm.count,
                "throw": False,
                "fallthrough": arm.falls_through,
                "source_block_id": branch.block,
                "destination_block_id": arm.target,
            }
            for branch in line.branches
            for arm in branch.arms
        ],
        "calls": [],
        "conditions": [],
    }
    if line.function is not None:
        result["function_name"] = line.function
    return result
