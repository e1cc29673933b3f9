"""Coverage as its consumers read it, for the tests of exports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lxml import etree

from simprof.profiler.exports.formats import ExportSource, find
from simprof.profiler.profiles.program_files import SourceFiles
from simprof.profiler.request.request import GuestOptions, RunRequest, Selection
from simprof.profiler.session.session import run_program

DTD = Path(__file__).resolve().parents[1] / "exports" / "coverage-04.dtd"


def lines_of(tracefile: str) -> dict[str, dict[int, int]]:
    """File -> line -> count, read from a tracefile by the words of geninfo(1)."""
    files: dict[str, dict[int, int]] = {}
    for record in tracefile.split("end_of_record\n")[:-1]:
        (name,) = re.findall(r"^SF:(.*)$", record, re.MULTILINE)
        pairs = re.findall(r"^DA:(\d+),(\d+)$", record, re.MULTILINE)
        files[name] = {int(line): int(count) for line, count in pairs}
    return files


def written(form: str, source: ExportSource) -> bytes:
    return find(form).writer(source)


def parsed(document: bytes) -> etree._Element:
    """A document that is valid."""
    dtd = etree.DTD(str(DTD))
    root = etree.fromstring(document, etree.XMLParser(load_dtd=False, no_network=True))
    assert dtd.validate(root), str(dtd.error_log)
    return root


def hits_of(report: etree._Element) -> dict[str, dict[int, int]]:
    """File -> line -> count, as a document of Cobertura's has them."""
    return {
        str(file.get("filename")): {
            int(line.get("number", "")): int(line.get("hits", ""))
            for line in file.findall("lines/line")
        }
        for file in report.iter("class")
    }


def gcovr(*arguments: str | Path, directory: Path) -> dict[str, Any]:
    """What gcovr has read, as its own JSON."""
    output = directory / "gcovr.json"
    command = [sys.executable, "-m", "gcovr", "--json", output, *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(output.read_text()))


def exported(
    program: Path, directory: Path, root: Path | None = None, arguments: Sequence[str] = ()
) -> ExportSource:
    with (directory / "output").open("wb") as file:
        guest = GuestOptions(root=root or directory, stdin=Path("/dev/null"), stdout=file.fileno())
        selection = Selection(user_only=True)
        words = tuple(map(str.encode, arguments))
        request = RunRequest(program, guest, words, "edges", selection=selection)
        return ExportSource(run_program(request))


def read_back(source: ExportSource, directory: Path) -> tuple[int, int]:
    """Read every format of coverage with its consumer: all find the same lines and counts.

    Returns how many of the lines were executed, and how many there are.
    """
    # gcovr shows files below its root only.
    below = ExportSource(source.measurement, sources=SourceFiles((("/", str(directory)),)))
    tracefile = written("lcov", below)
    expected = lines_of(tracefile.decode())
    counts = [count for lines in expected.values() for count in lines.values()]
    executed = sum(map(bool, counts))
    assert counts
    info = directory / "x.info"
    info.write_bytes(tracefile)
    summary = subprocess.run(
        ["lcov", "--rc", "lcov_branch_coverage=1", "--summary", info],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"({executed} of {len(counts)} lines)" in summary
    # Functions that begin on one line, such as those made of a template, may be one for lcov; files
    # without a line of code of their own, whose functions were inlined, it may leave out.
    records = [re.findall(r"^FN:(\d+),", each, re.M) for each in tracefile.decode().split("SF:")]
    with_code = [each for each in tracefile.decode().split("SF:") if "\nDA:" in each]
    least = sum(len(set(re.findall(r"^FN:(\d+),", each, re.M))) for each in with_code)
    functions = re.search(r"functions\.\.: .* of (\d+) functions?\)", summary)
    assert functions is not None, summary
    assert least <= int(functions[1]) <= sum(map(len, records)), summary
    assert hits_of(parsed(written("cobertura", below))) == expected
    (directory / "x.gcov.json.gz").write_bytes(written("gcov", below))
    report = gcovr("-g", "-k", "--root", str(directory), ".", directory=directory)
    found = {
        str(directory / file["file"]): {
            line["line_number"]: line["count"] for line in file["lines"]
        }
        for file in report["files"]
    }
    assert found.keys() == expected.keys() | {name for name, lines in found.items() if not lines}
    # gcovr leaves out lines that it takes for no code, and functions whose names begin as those of
    # compilers do: what initialises variables, and templates that return a `__normal_iterator`.
    differing = {
        (name, n): (count, expected[name].get(n))
        for name, lines in found.items()
        for n, count in lines.items()
        if expected[name].get(n) != count
    }
    assert not differing
    assert any(found.values())
    return executed, len(counts)
