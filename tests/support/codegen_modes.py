"""Shared by tests: what `tests/code/test_codegen_modes.py` and others use."""

from __future__ import annotations

from simprof.profiler.graphs.paths import PathPiece
from simprof.profiler.plan.decoders import path_counts
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.request.request import RegisterUse, SchemeOptions, TableChoice
from simprof.profiler.schemes.pp import RootEdge
from simprof.profiler.schemes.qpt.options import BlockBasis, VertexPlacement
from simprof.profiler.schemes.registry import make_plan
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.assembled import code
from tests.support.code_lab import Lab

R = Register

LIMIT = 2000  # arrays stay small

HASH = SchemeOptions(path_limit=LIMIT, table=TableChoice.HASH)

ARRAY = SchemeOptions(path_limit=LIMIT, table=TableChoice.ARRAY)

SETTINGS: dict[str, tuple[str, SchemeOptions]] = {
    "pp": ("pp", ARRAY),
    "pp-chord": ("pp", ARRAY.having(exit_entry=RootEdge.CHORD)),
    "pp-cheaper": ("pp", SchemeOptions.of(path_limit=LIMIT, exit_entry=RootEdge.CHEAPER)),
    "pp-hash": ("pp", HASH),
    "bittrace": ("bittrace", SchemeOptions(path_limit=LIMIT)),
    "bittrace-merged": ("bittrace", SchemeOptions.of(path_limit=LIMIT, merged=True)),
    "bittrace-hash": ("bittrace", HASH),
    **{f"fifo-{k}": ("fifo", SchemeOptions.of(branches=k)) for k in (1, 2, 8, 17, 25, 60)},
    "qpt2": ("qpt2", SchemeOptions()),
    **{f"qpt-{p.value}": ("qpt", SchemeOptions.of(placement=p)) for p in VertexPlacement},
    "qpt2-merged": ("qpt2", SchemeOptions.of(blocks=BlockBasis.MERGED)),
    "qpt-merged": ("qpt", SchemeOptions.of(blocks=BlockBasis.MERGED)),
    "qpt2-folded": ("qpt2", SchemeOptions.of(blocks=BlockBasis.FOLDED)),
    "qpt-folded": ("qpt", SchemeOptions.of(blocks=BlockBasis.FOLDED)),
    **{f"qpt2-{use}": ("qpt2", SchemeOptions.of(registers=use)) for use in RegisterUse},
    **{f"qpt-{use}": ("qpt", SchemeOptions.of(registers=use)) for use in RegisterUse},
    "naive": ("naive", SchemeOptions()),
    "tpp": ("tpp", SchemeOptions.of(path_limit=LIMIT, cold=0)),
    "tpp-cold": ("tpp", SchemeOptions.of(path_limit=LIMIT, cold=40, loop=60, cold_always=True)),
    "tpp-hash": (
        "tpp",
        SchemeOptions.of(path_limit=LIMIT, cold=40, cold_always=True, table=TableChoice.HASH),
    ),
    "tpp-obvious": (
        "tpp",
        SchemeOptions.of(path_limit=LIMIT, cold=40, cold_always=True, count_obvious=True),
    ),
    "tpp-uncounted": (
        "tpp",
        SchemeOptions.of(path_limit=LIMIT, cold=40, cold_always=True, no_cold_counter=True),
    ),
    "tpp-uncounted-hash": (
        "tpp",
        SchemeOptions.of(
            path_limit=LIMIT,
            cold=40,
            cold_always=True,
            no_cold_counter=True,
            table=TableChoice.HASH,
        ),
    ),
    "tpp-branching": (
        "tpp",
        SchemeOptions.of(path_limit=LIMIT, cold=40, cold_always=True, branching=True),
    ),
    "tpp-branching-hash": (
        "tpp",
        SchemeOptions.of(
            path_limit=LIMIT, cold=40, cold_always=True, branching=True, table=TableChoice.HASH
        ),
    ),
    "tpp-first": (
        "tpp",
        SchemeOptions.of(path_limit=LIMIT, cold=40, loop=60, cold_always=True, obvious_first=True),
    ),
    "pref": ("pref", SchemeOptions.of(path_limit=LIMIT, everywhere=True)),
    "pref-some": ("pref", SchemeOptions.of(path_limit=LIMIT, everywhere=True, interesting=2)),
    "pref-hash": (
        "pref",
        SchemeOptions.of(path_limit=LIMIT, everywhere=True, interesting=2, fall_back=True),
    ),
    "pref-spilled": (
        "pref",
        SchemeOptions.of(
            path_limit=LIMIT, everywhere=True, interesting=2, registers=RegisterUse.SPILLED
        ),
    ),
    "tpp-literal": (
        "tpp",
        SchemeOptions.of(path_limit=LIMIT, cold=40, loop=60, cold_always=True, literal_cold=True),
    ),
    "ppp": ("ppp", SchemeOptions.of(path_limit=LIMIT, cold=40, skip=0.0)),
    "ppp-kept": (
        "ppp",
        SchemeOptions.of(
            path_limit=LIMIT, cold=40, skip=0.0, hot_limit=0, no_pushing=True, numbering="edges"
        ),
    ),
    "ppp-tested": ("ppp", SchemeOptions.of(path_limit=LIMIT, cold=40, skip=0.0, tested=True)),
    "ppp-hash": (
        "ppp",
        SchemeOptions.of(cold=40, skip=0.0, no_pushing=True, table=TableChoice.HASH),
    ),
    "kiter-1": ("kiter", SchemeOptions.of(path_limit=LIMIT, iterations=1)),
    "kiter-2": ("kiter", SchemeOptions(path_limit=LIMIT)),
    "kiter-5": ("kiter", SchemeOptions.of(path_limit=LIMIT, iterations=5)),
    "kiter-plain": (
        "kiter",
        SchemeOptions.of(path_limit=LIMIT, iterations=3, unoptimised=True, hash_above=30),
    ),
    "kiter-hash": ("kiter", SchemeOptions(path_limit=LIMIT, table=TableChoice.HASH)),
    "pp-spilled": ("pp", ARRAY.having(registers=RegisterUse.SPILLED)),
    "pp-hash-spilled": ("pp", HASH.having(registers=RegisterUse.SPILLED)),
    "tpp-spilled": (
        "tpp",
        ARRAY.having(cold=40, cold_always=True, registers=RegisterUse.SPILLED),
    ),
    "kiter-spilled": ("kiter", ARRAY.having(iterations=3, registers=RegisterUse.SPILLED)),
    "bittrace-spilled": ("bittrace", HASH.having(registers=RegisterUse.SPILLED)),
}


def crossings_of(lab: Lab, edges: tuple[int, ...]) -> list[int]:
    """Return how often each edge was crossed."""
    return [edges.count(edge.id) for edge in lab.cfg.edges]


def paths_of(lab: Lab, walks: list[tuple[int, ...]]) -> dict[PathPiece, int]:
    """Return how often each whole path was executed in so many activations."""
    plan = make_plan(lab.cfg, "pp", ARRAY)
    executed = execute(lab.cfg, plan.plan, map(ExecutedWalk, walks))
    return path_counts(plan, executed)


def walks(lab: Lab, edges: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the edges of each activation of a routine that may call itself."""
    stack: list[list[int]] = []
    found = []
    for edge in edges:
        if lab.cfg.edges[edge].source == lab.cfg.entry:
            stack.append([])
        stack[-1].append(edge)
        if lab.cfg.edges[edge].target == lab.cfg.exit:
            found.append(tuple(stack.pop()))
    assert not stack
    return found


def recursive() -> list[Item]:
    """Return a routine that opens its window late, has no free register and calls itself."""
    busy = [asm.mov(number + 1, Register(R.L0 + number)) for number in range(8)]
    return code(
        asm.cmp(R.O0, 0),
        asm.branch("e", "leaf"),
        asm.mov(5, R.G1),
        asm.arithmetic("save", R.SP, -176, R.SP),
        *busy,
        asm.arithmetic("add", R.I0, 2, R.L0),
        "loop",
        asm.arithmetic("andcc", R.L0, 1, R.G0),
        asm.branch("e", "even"),
        asm.arithmetic("add", R.L1, R.L2, R.L1),
        asm.arithmetic("xor", R.L3, R.L4, R.L5),
        "even",
        asm.arithmetic("subcc", R.L0, 1, R.L0),
        asm.branch("ne", "loop"),
        asm.arithmetic("add", R.L6, R.L7, R.L6),
        asm.call("f"),
        asm.arithmetic("sub", R.I0, 1, R.O0),
        asm.arithmetic("add", R.O0, R.L1, R.O0),
        asm.ret(),
        asm.arithmetic("restore", R.O0, R.L6, R.O0),
        "leaf",
        asm.retl(),
        asm.mov(1, R.O0),
    )


def with_shared_slots(several: bool) -> list[Item]:
    """Return a routine with branches into the delay slot of another; perhaps two of them."""
    return code(
        asm.arithmetic("save", R.SP, -176, R.SP),
        asm.mov(9, R.I0),
        asm.mov(0, R.I1),
        "loop",
        asm.arithmetic("andcc", R.I0, 1, R.G0),
        asm.branch("e", "even"),
        "slot",
        asm.arithmetic("add", R.I1, 5, R.I1),
        asm.arithmetic("add", R.I1, 7, R.I1),
        "even",
        asm.arithmetic("subcc", R.I0, 1, R.I0),
        asm.branch("neg", "out"),
        asm.nop(),
        asm.cmp(R.I0, 3),
        asm.branch("e", "slot", several),
        asm.arithmetic("add", R.I1, 1, R.I1),
        *([asm.cmp(R.I0, 6), asm.branch("e", "slot"), asm.nop()] if several else []),
        asm.branch("a", "loop"),
        asm.nop(),
        "out",
        asm.ret(),
        asm.arithmetic("restore", R.I1, 0, R.O0),
    )
