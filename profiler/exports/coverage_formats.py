"""Formats of coverage.

Cobertura
    XML, which CI servers show: the definition `coverage-04.dtd`. A directory is a package, a file a
    class, a function a method. Characters that XML cannot hold are written with backslashes. There
    is no time in the file, so that the same profile always gives the same bytes.
lcov
    Tracefiles, which `genhtml` shows: geninfo(1), *Tracefile format*. Names are those of the linker
    (`--demangle-cpp`). Characters that would end one (commas, line ends) are written with
    backslashes.
gcov
    The JSON of `gcov --json-format` (GCC's manual, *Invoking gcov*), version 2, compressed as
    gcov's own files are. A line has one entry, also where it is part of several functions (inlined
    ones). Columns are not known and are 0; nothing is told of exceptions and of calls.
    `simprof_code` is none of gcov's words: how a line's code lies.
TSIM
    Coverage of machine code in the format of that simulator, which RTEMS's `covoar` reads. For each
    word of code a field of bits: bit 0, the word was executed; bits 1 and 2, it was written and
    read as data, which profiles do not know; bit 3, a branch in it was taken; bit 4, it was not
    taken (TSIM's manual, as quoted on the list devel@rtems.org, 17 May 2019). A line of text holds
    the address of its first word, a colon, and the fields of 32 words, all in hexadecimal digits;
    `covoar` (`CoverageReaderTSIM`) reads them so. Only lines with code of routines that were
    entered are there: others were not executed. Only conditional branches have bits 3 and 4.
"""

from __future__ import annotations

import gzip
import json
import xml.etree.ElementTree as Xml
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from simprof.profiler.exports.coverage import (
    Arm,
    FileCoverage,
    FunctionCoverage,
    LineCoverage,
    arms_of,
    coverage,
)
from simprof.profiler.exports.formats import ExportSource
from simprof.profiler.profiles.code_counts import code_counts
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.reports.display import readable, visible
from simprof.simulator.binary.demangling import demangle
from simprof.simulator.errors import UsageError

HEADER = (
    "<?xml version='1.0' encoding='UTF-8'?>\n"
    "<!DOCTYPE coverage SYSTEM 'http://cobertura.sourceforge.net/xml/coverage-04.dtd'>\n"
)


def write_cobertura(source: ExportSource) -> bytes:
    """Return one document on all source files."""
    files = coverage(source)
    lines = [line for file in files for line in file.lines.values()]
    arms = [arm for file in files for arm in file.arms]
    root = Xml.Element(
        "coverage",
        {
            **_rates(lines),
            "lines-covered": str(sum(line.count > 0 for line in lines)),
            "lines-valid": str(len(lines)),
            "branches-covered": str(_taken(arms)),
            "branches-valid": str(len(arms)),
            "version": f"simprof {OWN_VERSION}",
            "timestamp": "0",
        },
    )
    Xml.SubElement(Xml.SubElement(root, "sources"), "source").text = "."
    packages = Xml.SubElement(root, "packages")
    by_directory: dict[str, list[FileCoverage]] = defaultdict(list)
    for file in files:
        by_directory[source.place(file.file).rpartition("/")[0]].append(file)
    for directory, inside in by_directory.items():
        _add_package(packages, directory, inside, source)
    Xml.indent(root)
    return (HEADER + Xml.tostring(root, encoding="unicode") + "\n").encode()


def _add_package(
    packages: Xml.Element, directory: str, files: Sequence[FileCoverage], source: ExportSource
) -> None:
    lines = [line for file in files for line in file.lines.values()]
    package = Xml.SubElement(packages, "package", {"name": visible(directory), **_rates(lines)})
    classes = Xml.SubElement(package, "classes")
    for file in files:
        name = visible(source.place(file.file))
        named = {"name": name.rpartition("/")[2], "filename": name}
        entry = Xml.SubElement(classes, "class", {**named, **_rates(file.lines.values())})
        methods = Xml.SubElement(entry, "methods")
        for function in file.functions:
            rates = _rates(file.lines[number] for number in function.lines)
            named = {"name": readable(function.name), "signature": ""}
            method = Xml.SubElement(methods, "method", {**named, **rates})
            _add_lines(method, file, function.lines)
        _add_lines(entry, file, sorted(file.lines))


def _add_lines(parent: Xml.Element, file: FileCoverage, numbers: Iterable[int]) -> None:
    lines = Xml.SubElement(parent, "lines")
    for number in numbers:
        line = file.lines[number]
        entry = Xml.SubElement(lines, "line", {"number": str(number), "hits": str(line.count)})
        if line.branches:
            _add_conditions(entry, line)


def _add_conditions(entry: Xml.Element, line: LineCoverage) -> None:
    arms = arms_of([line])
    entry.set("branch", "true")
    entry.set("condition-coverage", f"{_percent(arms)} ({_taken(arms)}/{len(arms)})")
    conditions = Xml.SubElement(entry, "conditions")
    for number, branch in enumerate(line.branches):
        said = {"number": str(number), "type": "jump", "coverage": _percent(branch.arms)}
        Xml.SubElement(conditions, "condition", said)


def _rates(lines: Iterable[LineCoverage]) -> dict[str, str]:
    """Return the attributes that every level has. No complexity is computed: it is 0."""
    lines = tuple(lines)
    arms = arms_of(lines)
    return {
        "line-rate": _rate(sum(line.count > 0 for line in lines), len(lines)),
        "branch-rate": _rate(_taken(arms), len(arms)),
        "complexity": "0",
    }


def _rate(part: int, whole: int) -> str:
    """Return a share from 0 to 1; of nothing, all."""
    return f"{part / whole if whole else 1.0:.4f}"


def _percent(arms: Sequence[Arm]) -> str:
    return f"{100 * _taken(arms) // max(len(arms), 1)}%"


def _taken(arms: Iterable[Arm]) -> int:
    return sum(arm.count > 0 for arm in arms)


def write_lcov(source: ExportSource) -> bytes:
    """Return a tracefile with one record a source file."""
    records = (line for file in coverage(source) for line in _record(file, source))
    return "".join(f"{line}\n" for line in ("TN:", *records)).encode(errors="backslashreplace")


def _record(file: FileCoverage, source: ExportSource) -> Iterator[str]:
    yield f"SF:{visible(source.place(file.file))}"
    yield from _functions(file)
    yield from _branches(file)
    for number in sorted(file.lines):
        yield f"DA:{number},{file.lines[number].count}"
    yield f"LF:{len(file.lines)}"
    yield f"LH:{sum(line.count > 0 for line in file.lines.values())}"
    yield "end_of_record"


def _functions(file: FileCoverage) -> Iterator[str]:
    """Yield functions; those of one name (static ones of a header) are one."""
    counts: dict[str, int] = defaultdict(int)
    lines: dict[str, int] = {}
    for function in file.functions:
        name = visible(function.name).replace(",", "\\x2c")
        counts[name] += function.count
        lines.setdefault(name, function.line)
    for name, line in lines.items():
        yield f"FN:{line},{name}"
    for name, count in counts.items():
        yield f"FNDA:{count},{name}"
    yield f"FNF:{len(counts)}"
    yield f"FNH:{sum(count > 0 for count in counts.values())}"


def _branches(file: FileCoverage) -> Iterator[str]:
    """Yield the arms of all branches; `-` where the branch was never reached."""
    arms = file.arms
    for number in sorted(file.lines):
        for block, branch in enumerate(file.lines[number].branches):
            for place, arm in enumerate(branch.arms):
                taken = arm.count if branch.reached else "-"
                yield f"BRDA:{number},{block},{place},{taken}"
    yield f"BRF:{len(arms)}"
    yield f"BRH:{sum(arm.count > 0 for arm in arms)}"


def write_gcov(source: ExportSource) -> bytes:
    """Return one report on all source files."""
    report = {
        "format_version": "2",
        "gcc_version": f"simprof {OWN_VERSION}",
        "current_working_directory": "",
        "data_file": source.measurement.program.file,
        "files": [
            {
                "file": source.place(file.file),
                "functions": [_function(function) for function in file.functions],
                "lines": [_line(number, file.lines[number]) for number in sorted(file.lines)],
            }
            for file in coverage(source)
        ],
    }
    return gzip.compress(json.dumps(report).encode(), mtime=0)


def _function(function: FunctionCoverage) -> dict[str, object]:
    # gcovr takes a name with a parenthesis for a demangled one, and then wants no other: those of
    # inlined functions without a symbol have some (`_M_create<main()::{lambda}>`).
    is_mangled = "(" not in function.name
    return {
        "name": function.name,
        "demangled_name": demangle(function.name) if is_mangled else None,
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


EXECUTED, TAKEN, NOT_TAKEN = 0x01, 0x08, 0x10
TSIM_LINE = 128  # Bytes: 32 words
TSIM_END = 1 << 32


def write_tsim(source: ExportSource) -> bytes:
    """Return a coverage file; UsageError if there is code beyond 4 GB, which has no address."""
    fields: dict[int, int] = defaultdict(int)
    for routine in source.measurement.routines:
        counts = code_counts(routine)
        for address, executions in counts.executions.items():
            fields[address] |= EXECUTED if executions else 0
        for address, branch in counts.branches.items():
            fields[address] |= TAKEN if branch.taken else 0
            fields[address] |= NOT_TAKEN if branch.not_taken else 0
    if fields and max(fields) >= TSIM_END:
        raise UsageError(
            f"--format tsim has 32-bit addresses, and there is code at {max(fields):#x}"
        )
    starts = sorted({address - address % TSIM_LINE for address in fields})
    lines = []
    for start in starts:
        words = (f"{fields.get(address, 0):x}" for address in range(start, start + TSIM_LINE, 4))
        lines.append(f"{start:08x} : {' '.join(words)}\n")
    return "".join(lines).encode()
