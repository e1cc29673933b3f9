"""The kernel of sites, as machine code and in Python, beside the slow solver on objects."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from simprof.profiler.code import blocks, sites_kernel
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
from tests.support.turns import turns

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bin"
R = Register


@pytest.fixture(params=["machine code", "Python"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the kernel run in one of the two ways, and in no other."""
    name: str = request.param
    if name == "Python":
        monkeypatch.setattr(compiled, "native", lambda function: None)
    elif compiled.is_plain():
        pytest.skip("NUMBA_DISABLE_JIT is set")
    else:
        assert compiled.native(sites_kernel.flows)
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
@pytest.mark.parametrize(
    ("kind", "name"), turns(["v8", "v8plus", "v9"], ["nonlocal", "switches_pic", "tailcalls"])
)
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


@pytest.mark.usefixtures("by")
def test_registers_that_blocks_read_first_keep_and_write_last() -> None:
    rng = random.Random(1)
    reads, writes = np.array([[rng.getrandbits(8) & rng.getrandbits(8) for _ in range(90)]] * 2)
    rng.shuffle(writes)
    begins = np.array(sorted(rng.randrange(90) for _ in range(40)))
    stops = np.minimum(begins + np.array([rng.randrange(5) for _ in begins]), 90)
    watched = 0b110110
    masks = reads.astype(np.uint64), writes.astype(np.uint64)
    found = blocks.accesses(begins, stops, *masks, watched)
    for block, (begin, stop) in enumerate(zip(begins.tolist(), stops.tolist(), strict=True)):
        for register in (r for r in range(8) if watched >> r & 1):
            events = [
                event
                for word in range(begin, stop)
                for event, sets in (("r", reads), ("w", writes))
                if int(sets[word]) >> register & 1
            ]
            is_in = [bool(int(each[block]) >> register & 1) for each in found]
            assert is_in == [events[:1] == ["r"], "w" not in events, events[-1:] == ["w"]]
        assert not any(int(each[block]) & ~watched for each in found)


@pytest.mark.usefixtures("by")
def test_sets_that_grow_along_flows() -> None:
    rng = random.Random(2)
    for _ in range(20):
        own, kept = (np.array([rng.getrandbits(8) for _ in range(30)], np.uint8) for _ in "12")
        own &= np.array([rng.getrandbits(8) & rng.getrandbits(8) for _ in range(30)], np.uint8)
        flows = [(rng.randrange(30), rng.randrange(30), rng.getrandbits(8)) for _ in range(60)]
        readers, givers, passing = (np.array(each) for each in zip(*flows, strict=True))
        found = blocks.settled(own, kept, readers, givers, passing.astype(np.uint8))
        for register in range(8):  # what is reached by any number of steps
            sets = {block for block in range(30) if own[block] >> register & 1}
            for _ in range(30):
                sets |= {
                    reader
                    for reader, giver, passes in flows
                    if giver in sets and passes & int(kept[reader]) & 1 << register
                }
            assert sets == {block for block in range(30) if found[block] >> register & 1}
