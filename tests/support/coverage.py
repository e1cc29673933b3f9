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

from simprof.profiler.exports.formats import find
from simprof.profiler.exports.source import ExportSource
from simprof.profiler.request.request import GuestOptions, RunRequest, Selection
from simprof.profiler.session.session import run_program
from tests.conftest import ROOT

DTD = ROOT / "tests" / "exports" / "coverage-04.dtd"


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
