#!/usr/bin/env python3
"""Digest all plans action by action: of fixtures and of random graphs, a line a setting.

    tools/plan_digests.py [GRAPHS] > before.txt    GRAPHS: how many random graphs (3,000)
    diff before.txt after.txt                      after a change that must leave plans alone

A line has the setting and a digest of its plans: their actions, counters and registers, what they
say of themselves (`describe`), and what they read of the same executions.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import simprof
from simprof import schemes as s
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan import interpret
from simprof.profiler.plan.decoders import path_counts
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.request.request import SchemeOptions, TableChoice
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.mode_options import read
from simprof.simulator.errors import UsageError
from tests.oracles.brute import edge_counts, random_graph, random_walk, structured_graph

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = """pp:exit-entry=chord pp:exit-entry=cheaper pp:per-vertex tpp:cold=0
tpp:cold=40:loop=60:cold-always tpp:cold=40:cold-always:literal-cold:branching
tpp:cold=40:cold-always:obvious-first tpp:cold=40:count-obvious tpp:no-cold-counter:cold-always
ppp:skip=0 ppp:skip=0:numbering=edges:no-pushing ppp:skip=0:numbering=epp:tested:limit=2
pref:everywhere pref:everywhere:fall-back pref:everywhere:least=2 kiter:k=1 kiter:k=3
kiter:k=4:unoptimised kiter:outer kiter:k=3:outer:hash-above=30 kiter:give-up=20 kblpp:k=4
bittrace:merged bittrace:per-vertex fifo:k=2 fifo:k=60 pap:bits=6 sampled:duplicated
qpt:blocks=merged qpt2:blocks=folded qpt:placement=mixed qpt:placement=edge-heuristic
qpt:placement=vertex-optimal""".split()
COMMON = (
    SchemeOptions(),
    SchemeOptions(path_limit=5),
    SchemeOptions(table=TableChoice.HASH),
)


def graphs(count: int) -> Iterator[tuple[ControlFlowGraph, random.Random]]:
    """Yield the routines of fixtures, then random graphs."""
    for program in sorted((ROOT / "fixtures" / "bin").glob("*/*.elf")):
        for cfg in simprof.recover(program).routines:
            yield cfg, random.Random(len(cfg.edges))
    for seed in range(count):
        rng = random.Random(seed)
        make = structured_graph if rng.random() < 0.4 else random_graph
        yield make(rng), rng


def plain(value: Any) -> Any:
    """Return a value without what has no order."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, dict):
        return sorted((plain(key), plain(each)) for key, each in value.items())
    return repr(value)


def plan_text(setting: Any, order: s.PlanOrder, walks: Any) -> str:
    """Plan, execute and read; return all that came of it."""
    cfg, options = order.cfg, order.options.having(**dict(setting.own))
    guides = order.edge_counts, order.path_counts
    try:
        made: Any = registry.make_plan(cfg, setting.mode, options, None, *guides)
    except UsageError as error:
        return str(error)
    told = made.read(interpret.execute(cfg, made.plan, walks))
    fields = [plain(getattr(made.plan, name)) for name in made.plan.__struct_fields__]
    reading = [plain(getattr(told, name)) for name in told.__struct_fields__]
    described = registry.definition(setting.mode).describe(made)
    return repr((fields, reading, json.dumps(described, default=str)))


def digests(texts: Iterable[str], count: int) -> Iterator[str]:
    """Yield a line for each setting; common options alternate from graph to graph."""
    settings = [read(text) for text in texts]
    found = [blake2b(digest_size=16) for _ in settings]
    for number, (cfg, rng) in enumerate(graphs(count)):
        steps = [tuple(random_walk(rng, cfg, rng.choice((3, 40, 80)))) for _ in range(8)]
        walks = [ExecutedWalk(edges) for edges in steps if edges]
        common = COMMON[number % len(COMMON)]
        pp: Any = registry.make_plan(cfg, "pp", common)
        paths = path_counts(pp, interpret.execute(cfg, pp.plan, walks))
        counts = edge_counts(cfg, [walk.edges for walk in walks])
        order = s.PlanOrder(cfg, common, None, counts, paths)
        for setting, digest in zip(settings, found, strict=True):
            digest.update(plan_text(setting, order, walks).encode())
    yield from (f"{each.name} {d.hexdigest()}" for each, d in zip(settings, found, strict=True))


if __name__ == "__main__":
    asked = [*registry.planned_modes(), *OPTIONS]
    print("\n".join(digests(asked, int(sys.argv[1]) if sys.argv[1:] else 3000)))
