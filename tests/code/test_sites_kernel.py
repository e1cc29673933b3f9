"""The kernel of sites, as machine code and in Python, beside the slow solver on objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from simprof.profiler.code import blocks
from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.places import find_place
from simprof.profiler.code.registers import abi
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.simulator.binary.elf import load
from simprof.simulator.cpu import compiled
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Register
from tests.oracles.sites import Oracle, least_handed
from tests.support.assembled import Assembled, code

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bin"
R = Register


@pytest.fixture(params=["machine code", "Python"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the kernel run in one of the two ways, and in no other."""
    name: str = request.param
    if name == "Python":
        monkeypatch.setattr(blocks, "_natives", dict)
    elif compiled.is_plain():
        pytest.skip("NUMBA_DISABLE_JIT is set")
    else:
        assert blocks._natives()
    return name


def check(recovered: ProgramGraphs, every: int = 1) -> None:
    """Compare all that the kernel finds in every so many routines."""
    contexts = ProgramContexts(recovered)
    rules = abi(recovered.program.is64, contexts.carried)
    branched = [recovered.routines[number] for number in contexts._only_branched_to()]
    facts = contexts.blocks.facts
    handed = least_handed(facts, rules, branched)
    for number in range(0, len(recovered.routines), every):
        cfg, context = recovered.routines[number], contexts.of(number)
        assert context.analysis is not None
        oracle = Oracle(cfg, facts, rules, handed)
        liveness, frames = context.analysis.liveness, context.analysis.frames
        found = [(c.first, c.count, c.transfer, c.kind, c.target) for c in liveness.blocks]
        assert found == oracle.blocks
        assert list(liveness.live_in)[: len(cfg.blocks)] == oracle.live_in
        assert frames.has_window == oracle.has_window
        assert context.shared_slots == oracle.shared
        names, busy = 0, 0
        for block, where in enumerate(oracle.blocks):
            assert list(liveness.live_in_block(block)) == oracle.live_in_block(block)
            for position in range(where.words + 1):
                assert frames.before(block, position) == oracle.before(block, position)
            assert frames.after_save(block) == oracle.after_save(block)
            for word in range(where.first, where.first + where.words):
                names |= int(facts.names[word])
            if oracle.before(block, 0).depth >= oracle.has_window:
                busy |= oracle.live_in[block]
        assert (liveness.named, context.analysis.busy) == (names, busy)
        for edge in cfg.edges:
            place, expected = find_place(cfg, edge.id, context), oracle.place(edge.id)
            assert place[:4] == expected[:4]
            assert place.site.live == expected.live | rules.reserved
            assert place.site.frame == expected.frame


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("kind", ["v8", "v8plus", "v9"])
@pytest.mark.parametrize("name", ["nonlocal", "switches_pic", "tailcalls"])
def test_programs(kind: str, name: str) -> None:
    check(recover(load(FIXTURES / kind / f"{name}.elf")), every=3)


@pytest.mark.usefixtures("by")
def test_routines_that_hand_each_other_registers() -> None:
    """%g4 is live where `part` is branched to, and only there."""
    part = code(asm.arithmetic("add", R.G4, R.O0, R.O0), asm.retl(), asm.nop())
    main = code(asm.mov(1, R.G4), asm.branch("a", "part"), asm.nop())
    program = Assembled({"main": main, "other": main, "part": part})
    check(program.recovered)
    live = program.context("main").analysis
    assert live is not None
    assert live.liveness.live_before(0, 1) >> R.G4 & 1
