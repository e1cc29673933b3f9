"""docs/SEMANTICS.md names every field of the JSON that commands write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from simprof.profiler.cli import main
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.schemes import registry
from tests.conftest import FIXTURES, ROOT

# Rows of tables have the columns that the second page lists; the third one has options of modes.
PAGES = ("SEMANTICS.md", "EXPORTS.md", "MODES.md")
PAGE = "".join((ROOT / "docs" / name).read_text() for name in PAGES)
NAMED = {
    word
    for span in re.findall(r"`([^`\n]+)`", PAGE)
    for word in (span, span.rpartition(".")[2], span.partition("=")[0], span.replace("-", "_"))
}
LOOPS = str(FIXTURES / "bin" / "v9" / "loops.elf")
GRAPH = {
    "name": "loop", "entry": "A", "exit": "C", "blocks": {"A": 3, "B": 2},
    "edges": [["A", "B"], ["B", "A"], ["B", "C"]], "runs": [["A B A B C", 10]],
}  # fmt: skip
BY_BLOCK = {
    "num_paths", "invalid_paths", "block_code", "block_sparc", "block_costs", "block_end_code",
    "block_end_sparc", "block_end_costs",
}  # fmt: skip
"""Fields that hold numbers or code by the name of a block."""


def fields(value: object) -> Iterator[str]:
    """Yield the names of all fields in a JSON value, each as often as it is there."""
    if isinstance(value, list):
        for item in value:
            yield from fields(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            if name not in BY_BLOCK:
                yield from fields(item)


def answer(arguments: Sequence[str], file: Path) -> dict[str, object]:
    """The JSON object that a command writes."""
    with pytest.raises(SystemExit) as ending:
        main([*arguments, "--json", str(file)])
    assert ending.value.code == 0
    content: dict[str, object] = json.loads(file.read_text())
    return content


def unnamed(content: object) -> set[str]:
    return set(fields(content)) - NAMED


def test_fields_are_found() -> None:
    assert unnamed([{"base": 1, "num_paths": {"A": 1}}, {"x": {"y": 2}}]) == {"x", "y"}


@pytest.mark.long
def test_runs_and_comparisons(tmp_path: Path) -> None:
    run = ["run", "--mode=kiter", "--report", str(tmp_path / "report"), LOOPS]
    assert unnamed(answer(run, tmp_path / "run.json")) == set()
    compare = ["compare", "--report", str(tmp_path / "report"), LOOPS]
    content = answer(compare, tmp_path / "all.json")
    modes = content.pop("modes")
    assert isinstance(modes, dict)
    assert unnamed([content, *modes.values()]) == set()


@pytest.mark.parametrize("mode", registry.planned_modes())
def test_graph_files(mode: str, tmp_path: Path) -> None:
    (tmp_path / "loop.json").write_text(json.dumps(GRAPH))
    graph = ["explain", f"--mode={mode}", str(tmp_path / "loop.json")]
    enumerate_paths = ["--enumerate"] if mode in registry.path_modes() else []
    assert unnamed(answer([*graph, *enumerate_paths], tmp_path / "answer.json")) == set()


def test_instrumented_programs(tmp_path: Path) -> None:
    """Modes and causes are values, though they name fields of the JSON."""
    report = ["--report", str(tmp_path / "report")]
    written = ["instrument", "--mode=pp", "-o", str(tmp_path / "program"), *report, LOOPS]
    assert unnamed(answer(written, tmp_path / "written.json")) == set()
    verify = ["verify", "--on=emulator", "--mode=pp", *report, LOOPS]
    content = answer(verify, tmp_path / "verified.json")
    modes = content.pop("modes")
    assert isinstance(modes, dict)
    causes = [mode.pop("rewriting") for mode in modes.values()]
    assert all(set(found) <= set(map(str, Cause)) for found in causes)
    assert unnamed([content, *modes.values()]) == set()


def test_recovered_graphs(tmp_path: Path) -> None:
    file = tmp_path / "cfg.json"
    with pytest.raises(SystemExit) as ending:
        main(["cfg", "--format=json", "-o", str(file), LOOPS])
    assert ending.value.code == 0
    assert unnamed(json.loads(file.read_text())) == set()
