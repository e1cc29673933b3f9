"""Good files of simprof's own formats, made anew: `tools/fuzz.py --seeds`.

They are committed like other inputs; where a format's version changes, they must be made again, or
every input that is made of them is refused for its first line.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.fuzzing import commands, corpus
from tools.fuzzing.results import PROGRAM as WITH_LINES
from tools.fuzzing.runs import PROGRAM

SEED = "seed"
_SUCCEEDS = "fixtures/bin/v9/sieve.elf"


def write_all(root: Path = corpus.CORPORA) -> list[Path]:
    """Write the seeds of all targets that have some; return their files."""
    commands.prepare()
    written = []
    for target, make in MAKERS.items():
        with tempfile.TemporaryDirectory() as directory:
            for name, data in make(Path(directory)).items():
                path = root / target / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                written.append(path)
    return written


def _profiles(where: Path) -> dict[str, bytes]:
    made = {}
    for mode in ("pp", "qpt", "kiter", "tpp"):
        path = where / mode
        tree = ("--call-tree",) if mode == "pp" else ()
        commands.run(("run", "--mode", mode, *tree, "-o", path, WITH_LINES))
        made[f"{SEED}-{mode}"] = path.read_bytes()
    return made


def _traces(where: Path) -> dict[str, bytes]:
    made = {}
    for mode in ("witness", "bits"):
        path = where / mode
        commands.run(("run", "--mode", mode, "--trace", path, PROGRAM))
        made[f"{SEED}-{mode}"] = path.read_bytes()
    return made


def _recordings(where: Path) -> dict[str, bytes]:
    path = where / "run"
    commands.run(("record", "-o", path, PROGRAM))
    return {SEED: path.read_bytes()}


def _counters(where: Path) -> dict[str, bytes]:
    made = {}
    for mode, more in (("pp", ()), ("pp", ("--path-limit", "2")), ("qpt2", ()), ("kiter", ())):
        program, counted = where / "program", where / "counted"
        commands.run(("instrument", "--mode", mode, *more, "-o", program, _SUCCEEDS))
        program.chmod(0o755)
        subprocess.run(
            ["qemu-sparc64", program],
            env={**os.environ, "SIMPROF_OUT": str(counted)},
            check=False,
            capture_output=True,
        )
        made["-".join((SEED, mode, *more))] = counted.read_bytes()
    return made


def _baselines(where: Path) -> dict[str, bytes]:
    path = where / "baseline"
    modes = ("--mode", "pp", "--mode", "qpt2")
    commands.run(("regress", "record", *modes, "-o", path, PROGRAM))
    return {SEED: path.read_bytes()}


def _sweeps(where: Path) -> dict[str, bytes]:
    path = where / "sweep.db"
    commands.run(("sweep", "--mode", "pp,qpt2", "--jobs", "1", "-o", path, _SUCCEEDS))
    return {SEED: path.read_bytes()}


def _cache(where: Path) -> dict[str, bytes]:
    from simprof.profiler.profiles.cache_files import CacheFiles

    CacheFiles(where).write("name", b"content of a file")
    return {SEED: (where / "name").read_bytes()[:-9]}  # so much no guess completes


def _graphs(where: Path) -> dict[str, bytes]:
    import networkx as nx

    document = json.loads((commands.ROOT / "docs" / "schemes" / "figure.json").read_text())
    path = where / "figure"
    path.write_text(json.dumps(document))
    from simprof.profiler.graphfiles.formats import load, to_networkx

    graph = to_networkx(load(path))
    nx.write_graphml(graph, where / "graphml")
    nx.write_gml(graph, where / "gml")
    made = {f"{SEED}.{name}": (where / name).read_bytes() for name in ("graphml", "gml")}
    made[f"{SEED}.json"] = path.read_bytes()
    made[f"{SEED}-links.json"] = json.dumps(nx.node_link_data(graph, edges="links")).encode()
    return made


def _suites(where: Path) -> dict[str, bytes]:
    return {"seed.toml": _SUITE.encode(), "seed-grid.toml": _GRID.encode()}


_SUITE = """
title = "a suite"
executed = ["a*"]

[package.mawk]
archive = "mawk_1.tar.gz"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
directory = "mawk-1"

[[benchmark]]
name = "a"
group = "INT"
stands_for = "099.go"
why = "because"
package = "mawk"
sources = ["*.c"]
exclude = ["b.c"]
flags = ["-O2"]

[benchmark.inputs.train]
arguments = ["1", "x"]
stdin = "in"
status = 3
[[benchmark.inputs.train.files]]
name = "in"
make = "text"
size = 100
seed = 7
[benchmark.inputs.train.environment]
LANG = "C"

[benchmark.inputs.ref]
arguments = []
"""
_GRID = """
suite = "micro"
benchmarks = ["s*"]
builds = ["v9-O2"]
inputs = ["train", "ref"]
kinds = ["run", "plan"]
modes = ["pp", "tpp"]
weights = ["heuristic", "exact"]
max_instructions = 1000

[[settings]]
cold = 1
loop = 1

[[program]]
file = "a.elf"
name = "a"
arguments = ["1"]
stdin = "a.txt"
root = "files"
"""

MAKERS: Mapping[str, Callable[[Path], dict[str, bytes]]] = {
    "profile": _profiles,
    "trace": _traces,
    "recording": _recordings,
    "counters": _counters,
    "baseline": _baselines,
    "sweep": _sweeps,
    "cache": _cache,
    "graph": _graphs,
    "suite": _suites,
}
