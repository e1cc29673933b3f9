"""Coverage as Cobertura's XML, which CI servers show: the definition `coverage-04.dtd`.

A directory is a package, a file a class, a function a method. Characters that XML cannot hold are
written with backslashes. There is no time in the file (`timestamp` is 0), so that the same profile
always gives the same bytes.
"""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from simprof.profiler.exports.coverage import (
    Arm,
    FileCoverage,
    FunctionCoverage,
    LineCoverage,
    coverage,
)
from simprof.profiler.exports.source import ExportSource
from simprof.profiler.reports.display import readable, visible

HEADER = (
    "<?xml version='1.0' encoding='UTF-8'?>\n"
    "<!DOCTYPE coverage SYSTEM 'http://cobertura.sourceforge.net/xml/coverage-04.dtd'>\n"
)


def write(source: ExportSource) -> bytes:
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
            "version": f"simprof {version('simprof')}",
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
        entry = Xml.SubElement(
            classes,
            "class",
            {
                "name": name.rpartition("/")[2],
                "filename": name,
                **_rates(file.lines.values()),
            },
        )
        methods = Xml.SubElement(entry, "methods")
        for function in file.functions:
            _add_method(methods, function, file)
        _add_lines(entry, file, sorted(file.lines))


def _add_method(methods: Xml.Element, function: FunctionCoverage, file: FileCoverage) -> None:
    lines = [file.lines[number] for number in function.lines]
    method = Xml.SubElement(
        methods, "method", {"name": readable(function.name), "signature": "", **_rates(lines)}
    )
    _add_lines(method, file, function.lines)


def _add_lines(parent: Xml.Element, file: FileCoverage, numbers: Iterable[int]) -> None:
    lines = Xml.SubElement(parent, "lines")
    for number in numbers:
        line = file.lines[number]
        entry = Xml.SubElement(lines, "line", {"number": str(number), "hits": str(line.count)})
        if line.branches:
            _add_conditions(entry, line)


def _add_conditions(entry: Xml.Element, line: LineCoverage) -> None:
    arms = [arm for branch in line.branches for arm in branch.arms]
    entry.set("branch", "true")
    entry.set("condition-coverage", f"{_percent(arms)} ({_taken(arms)}/{len(arms)})")
    conditions = Xml.SubElement(entry, "conditions")
    for number, branch in enumerate(line.branches):
        Xml.SubElement(
            conditions,
            "condition",
            {"number": str(number), "type": "jump", "coverage": _percent(branch.arms)},
        )


def _rates(lines: Iterable[LineCoverage]) -> dict[str, str]:
    """Return the attributes that every level has. No complexity is computed: it is 0."""
    lines = tuple(lines)
    arms = [arm for line in lines for branch in line.branches for arm in branch.arms]
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
