"""Coverage as lcov's tracefiles, which `genhtml` shows: geninfo(1), *Tracefile format*.

Names are those of the linker: `genhtml --demangle-cpp` shows those of C++ as their authors wrote
them. Characters that would end a name (commas, line ends) are written with backslashes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from simprof.profiler.exports.coverage import FileCoverage, coverage
from simprof.profiler.exports.source import ExportSource
from simprof.profiler.reports.display import visible


def write(source: ExportSource) -> bytes:
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
