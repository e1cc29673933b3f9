"""A call tree as https://www.speedscope.app opens it: one profile of base, one of added.

Its file format: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

from simprof.profiler.exports.source import ExportSource
from simprof.profiler.exports.stacks import call_tree, stacks
from simprof.profiler.profiles.call_tree import CallTree, without_sites
from simprof.profiler.reports.display import readable

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write(source: ExportSource) -> bytes:
    """Return the file."""
    tree = without_sites(call_tree(source))
    program = Path(source.measurement.program.file).name
    content = {
        "$schema": SCHEMA,
        "name": f"{program}, {source.measurement.mode}",
        "exporter": f"simprof@{metadata.version('simprof')}",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": readable(each.name)} for each in tree.routines]},
        "profiles": [
            _profile("instructions of the program", tree, tree.base),
            _profile("added instructions", tree, tree.added),
        ],
    }
    return json.dumps(content).encode()


def _profile(name: str, tree: CallTree, weights: tuple[int, ...]) -> dict[str, object]:
    """Return one sample a context, weighted with the instructions executed there."""
    shown = [(place, way) for place, way in stacks(tree) if weights[place]]
    return {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [[tree.callees[each] for each in way] for _, way in shown],
        "weights": [weights[place] for place, _ in shown],
    }
