#!/usr/bin/env python3
"""Measure how far the request of a run is handed on, from a run that is really made.

    python -m tools.walk            print the table
    python -m tools.walk --list     print the modules of each walk in order, too

`run_program` measures `--mode tpp` on a small program. Python's profiler is told of every call.
Each value of the types in `PARTS`, or a sequence of such values, that a function of simprof gets as
an argument takes a step of its type's walk. A function counts once, at its first such call, and the
module that defines the type does not count: it answers for its own values. The last walk is that of
all values that carry one of these in an attribute (a `Planner`, the `Runs`, an `Observation`).

Words
-----
walk
    The modules of these functions in order of their calls, each once while nothing comes between.
climb
    A call by which a value comes to a module from one that lies below it: that which is called
    imports, directly or not, that which calls.
return
    A step to a module in which the walk has been before, and which it has left.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import networkx as nx

from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Selection,
    Setting,
)
from simprof.profiler.session.observation import Invocation
from simprof.profiler.session.session import run_program
from simprof.profiler.session.world import World
from tools.structure import read_tree

ROOT = Path(__file__).resolve().parent.parent
CACHE_HOME = "XDG_CACHE_HOME"
PROGRAM = ROOT / "fixtures" / "bin" / "v9" / "loops.elf"
PARTS: tuple[type, ...] = (
    RunRequest,
    Invocation,
    GuestOptions,
    World,
    Selection,
    Setting,
    SchemeOptions,
)
"""The request, and what it is taken apart into."""


@dataclass
class Walk:
    """Where values of one type have been."""

    modules: list[str] = field(default_factory=list)
    climbs: int = 0
    _seen: set[CodeType] = field(default_factory=set)

    def step(self, code: CodeType, module: str, climbs: bool) -> None:
        """Note that a function of `module` has got a value."""
        if code not in self._seen:
            self._seen.add(code)
            self.climbs += climbs
            if not self.modules or self.modules[-1] != module:
                self.modules.append(module)

    @property
    def returns(self) -> int:
        """How often the walk has come back to a module that it had left."""
        return len(self.modules) - len(set(self.modules))


class Watcher:
    """Told of every call: notes those with a value of interest among their arguments."""

    def __init__(self) -> None:
        self.walks: dict[type, Walk] = {part: Walk() for part in (*PARTS, object)}
        graph = nx.DiGraph()
        for module, imported in read_tree(ROOT).imports.items():
            graph.add_edges_from((module, other) for other in imported)
        self._below = {module: nx.descendants(graph, module) for module in graph}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take what Python's profiler tells."""
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not _is_ours(module):
            return
        values = [each for each in _arguments(frame) if type(each).__module__ != module]
        steps = {type(value) for value in values}.intersection(PARTS)
        if any(_carries(value) for value in values):
            steps.add(object)
        for part in steps:
            climbs = _caller(frame) in self._below.get(module, ())
            self.walks[part].step(frame.f_code, module, climbs)


def _arguments(frame: FrameType) -> Iterator[Any]:
    """Yield the values that a call hands over, and those in sequences."""
    for name in inspect.getargvalues(frame).args:
        value = frame.f_locals.get(name)
        yield value
        if isinstance(value, list | tuple):
            yield from value


def _carries(value: Any) -> bool:
    """Whether a value has a part of the request in one of its attributes."""
    if isinstance(value, type | ModuleType | FunctionType):
        return False
    within = list(getattr(value, "__dict__", {}).values())
    within += [getattr(value, name) for name in getattr(value, "__struct_fields__", ())]
    return any(
        type(each) in PARTS or (isinstance(each, tuple) and any(type(e) in PARTS for e in each))
        for each in within
    )


def _is_ours(module: str) -> bool:
    return module.startswith("simprof.")


def _caller(frame: FrameType) -> str:
    """Return the module of simprof that has made a call."""
    above = frame.f_back
    while above is not None:
        module = str(above.f_globals.get("__name__", ""))
        if _is_ours(module):
            return module
        above = above.f_back
    return ""


def walks() -> dict[type, Walk]:
    """Run a program, and return where the parts of its request have been."""
    watcher = Watcher()
    with tempfile.TemporaryDirectory() as directory:
        os.environ[CACHE_HOME] = directory  # what is known of the program leaves steps out
        with Path(os.devnull).open("wb") as nowhere:
            output = nowhere.fileno()
            guest = GuestOptions(ROOT, stdin=Path(os.devnull), stdout=output, stderr=output)
            request = RunRequest(PROGRAM, guest, mode="tpp", remember=True)
            sys.setprofile(watcher)
            try:
                run_program(request)
            finally:
                sys.setprofile(None)
    return watcher.walks


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the modules of each walk, too")
    lists = parser.parse_args(arguments).list
    print(f"{'':16}{'modules':>8}{'climbs':>8}{'returns':>8}")
    for part, walk in walks().items():
        counts = len(set(walk.modules)), walk.climbs, walk.returns
        name = "carriers" if part is object else part.__name__
        print(f"{name:16}" + "".join(f"{count:8}" for count in counts))
        if lists:
            print("".join(f"    {module}\n" for module in walk.modules), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
