"""`simprof export --format dot`: Graphviz draws it, and says the same numbers."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from simprof.profiler.exports.formats import ExportSource, export, find
from simprof.profiler.profiles.profile import EdgeCount, RunMeasurement
from tests.support.hostile_profile import hostile_measurement
from tests.support.samples import measurement


def drawn(whole: RunMeasurement) -> dict[str, Any]:
    """What Graphviz has read, as it tells it itself."""
    content = export(find("dot"), ExportSource(whole))
    done = subprocess.run(["dot", "-Tdot_json"], input=content, capture_output=True, check=True)
    assert not done.stderr
    return dict(json.loads(done.stdout))


def edges_of(drawing: dict[str, Any]) -> list[tuple[str, str, str]]:
    labels = {each["_gvid"]: each.get("label", "") for each in drawing["objects"]}
    return [
        (
            labels[edge["tail"]].split("\\n")[0],
            labels[edge["head"]].split("\\n")[0],
            edge["label"],
        )
        for edge in drawing["edges"]
    ]


def as_drawn(edge: EdgeCount) -> tuple[str, str, str]:
    return (str(edge.source), str(edge.target), f"{edge.count:,}")


@pytest.mark.viewers
@pytest.mark.parametrize("whole", [measurement(), hostile_measurement()], ids=["plain", "hostile"])
def test_graphviz_reads_every_edge_with_its_count(whole: RunMeasurement) -> None:
    counts = [edge for routine in whole.routines for edge in routine.edge_counts]
    assert sorted(edges_of(drawn(whole))) == sorted(map(as_drawn, counts))


@pytest.mark.viewers
def test_blocks_have_lines_and_counts() -> None:
    labels = {each.get("label") for each in drawn(measurement())["objects"]}
    assert {"0x1000\\nloop.c:4\\n7", "slot 0x100c\\n5", "0x1020\\nloop.c:8\\n2"} <= labels
    assert "main: entered 2 times, 59 instructions, 40 added" in labels


@pytest.mark.viewers
def test_names_are_no_markup() -> None:
    whole = hostile_measurement()
    content = export(find("dot"), ExportSource(whole))
    done = subprocess.run(["dot", "-Tsvg"], input=content, capture_output=True, check=True)
    picture = done.stdout.decode()
    assert "<b>" not in picture
    assert "</script>" not in picture
    assert "&lt;b&gt;&amp;amp;" in picture
