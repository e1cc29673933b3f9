"""Liveness and frames on small routines, with answers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.frames import FRAME_SLOTS, FrameState, Where
from simprof.profiler.code.places import find_place
from simprof.profiler.code.registers import ABI32, ABI64, mask
from simprof.profiler.code.sites_kernel import before_restore, before_save
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.recovery import recover
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register
from simprof.simulator.isa.effects import CC, ICC, INS, LOCALS, OUTS
from tests.support.assembled import Assembled, code, edge_of, program_of
from tests.support.event_player import IndexedGraphs

R = Register
MACHINES = [MachineKind.SPARCV9, MachineKind.SPARCV8PLUS]


def windowed(frame: int = -176) -> list[Item]:
    """Return: save; l0 = i0 + i1; call leaf(l0); i0 = o0 + l1; ret; restore."""
    return code(
        asm.arithmetic("save", R.SP, frame, R.SP),
        asm.arithmetic("add", R.I0, R.I1, R.L0),
        asm.mov(7, R.L1),
        asm.call("leaf"),
        asm.mov(R.L0, R.O0),
        asm.arithmetic("add", R.O0, R.L1, R.I0),
        asm.ret(),
        asm.restore(),
    )


def position_behind_save(cfg: ControlFlowGraph, context: RoutineContext) -> int | None:
    """Return where code of the routine's entry goes."""
    return find_place(cfg, cfg.out_edges[cfg.entry][0], context).position


def leaf() -> list[Item]:
    """Return a loop: o0 = sum of g1 over o1."""
    return code(
        asm.mov(0, R.G1),
        "again",
        asm.arithmetic("add", R.G1, R.O0, R.G1),
        asm.arithmetic("subcc", R.O1, 1, R.O1),
        asm.branch("ne", "again"),
        asm.nop(),
        asm.retl(),
        asm.mov(R.G1, R.O0),
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_windowed_routine(machine: MachineKind) -> None:
    program = Assembled({"main": windowed(), "leaf": leaf()}, machine)
    context = program.context("main")
    assert context.analysis is not None
    live, frames = context.analysis.liveness, context.analysis.frames
    own = mask(*(Register(n) for n in range(R.O0, R.L7 + 1)), R.G1, R.G2, R.G3, R.G4) & ~mask(R.SP)
    assert frames.has_window
    assert frames.frame_size == 176
    # before the save: the arguments are in the outs, the caller's ins and locals are live
    assert live.live_before(0, 0) & OUTS & ~mask(R.SP) & mask(R.O0, R.O1) == mask(R.O0, R.O1)
    assert live.live_before(0, 0) & (LOCALS | INS) == LOCALS | INS
    assert live.live_before(0, 1) & mask(R.I0, R.I1) == mask(R.I0, R.I1)
    assert live.live_before(0, 1) & own & ~context.abi.call_reads == 0
    assert live.live_before(0, 3) & LOCALS == mask(R.L0, R.L1)
    (after_call,) = (e.target for e in program.cfg("main").edges if e.kind is EdgeKind.CALL_RETURN)
    assert live.live_before(after_call, 0) & own == mask(R.O0, R.L1)
    assert live.live_before(after_call, 1) & (own | CC) == 0
    assert live.live_before(after_call, 1) & mask(R.I0, R.I7) == mask(R.I0, R.I7)
    assert live.makes_calls
    assert frames.before(0, 0) == FrameState(0, 0)
    assert frames.before(0, 1) == frames.before(after_call, 1) == FrameState(1, 0)
    assert frames.after(after_call).depth == 0
    assert position_behind_save(program.cfg("main"), program.context("main")) == 1


@pytest.mark.parametrize("machine", MACHINES)
def test_frame_that_is_made_in_two_steps(machine: MachineKind) -> None:
    """A frame of more than 4096 bytes: words of snippets lie below all that %fp reaches."""
    body = windowed(-4096)
    body.insert(1, asm.arithmetic("add", R.SP, -816, R.SP))
    program = Assembled({"main": body, "leaf": leaf()}, machine)
    context = program.context("main")
    assert context.analysis is not None
    frames, abi = context.analysis.frames, context.abi
    assert frames.frame_size == 4096 + 816
    assert position_behind_save(program.cfg("main"), context) == 2
    assert [frames.ends_frame(0, position) for position in range(4)] == [False, True, False, False]
    found = [(slot.base, slot.offset) for slot in context.free_site.slots]
    by_fp = [(R.FP, abi.bias - 4912 + abi.minimum_frame - 8 * (k + 1)) for k in range(FRAME_SLOTS)]
    by_sp = [(R.SP, abi.bias + abi.minimum_frame + 8 * k) for k in range(FRAME_SLOTS)]
    # with 32 bits no offset of a load reaches the end of the frame
    assert found == (by_fp if abi.is64 else by_sp)


def test_saves_of_different_frames_have_no_one_size() -> None:
    test = code(asm.cmp(R.O0, 0), asm.branch("e", "other"), asm.nop())
    body = [*test, *windowed(), Label("other"), *windowed(-192)]
    context = Assembled({"main": body, "leaf": leaf()}).context("main")
    assert context.analysis is not None
    assert context.analysis.frames.frame_size is None


def test_leaf() -> None:
    program = Assembled({"leaf": leaf()})
    context = program.context("leaf")
    assert context.analysis is not None
    live = context.analysis.liveness
    cfg = program.cfg("leaf")
    loop = cfg.edges[edge_of(cfg, EdgeKind.TAKEN)].target
    volatile = mask(*ABI64.caller_saved, R.O7) | CC
    # %o2 and %o3 are live because a 64-bit return may carry four result registers
    assert live.live_before(loop, 0) & volatile == mask(R.G1, R.O0, R.O1, R.O2, R.O3, R.O7)
    assert live.live_before(loop, 2) & CC == ICC
    assert live.live_before(loop, 2) & mask(R.O1) == mask(R.O1)
    assert not live.makes_calls
    assert not context.analysis.frames.has_window
    assert live.named & LOCALS == 0


def test_conditional_slot_is_on_one_edge_only() -> None:
    body = code(
        asm.cmp(R.O0, 0),
        asm.branch("e", "zero", annul=True),
        asm.mov(R.O1, R.O0),
        asm.mov(R.O2, R.O0),
        "zero",
        asm.retl(),
        asm.nop(),
    )
    program = Assembled({"f": body}, MachineKind.SPARCV8PLUS)
    context = program.context("f")
    assert context.analysis is not None
    cfg, live = program.cfg("f"), context.analysis.liveness
    slot = cfg.edges[edge_of(cfg, EdgeKind.SLOT)]
    other = cfg.edges[edge_of(cfg, EdgeKind.FALL_THROUGH)]
    watched = mask(R.O0, R.O2)
    assert live.live_on_edge(slot.id) & watched == 0  # %o1 is live anyway: a result register
    assert live.live_on_edge(other.id) & watched == mask(R.O2)


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("is_called", [False, True])
def test_parts_of_a_routine_hand_over_any_register(is_called: bool, is_named: bool) -> None:
    """A branch to code that nobody calls may be one part's to another, as in glibc's memcpy."""
    routines: dict[str, Sequence[Item]] = {
        "_start": code(asm.call("copy"), asm.nop(), *[asm.call("part"), asm.nop()] * is_called,
                       asm.retl(), asm.nop()),
        "part": code(asm.retl(), asm.mov(R.G4, R.O0)),
        "copy": code(asm.mov(R.O0, R.G4), asm.branch("a", "part"), asm.nop()),
    }  # fmt: skip
    program = program_of(routines)
    start, part, copy = (symbol.address for symbol in program.symbols)
    symbols = program.symbols if is_named else ()
    recovered = recover(replace(program, symbols=symbols, entry=start))
    addresses = [cfg.address for cfg in recovered.routines]
    assert {start, copy, part} <= set(addresses)
    number = addresses.index(copy)
    contexts = ProgramContexts(recovered)
    analysis = contexts.of(number).analysis
    assert analysis is not None
    leaving = edge_of(recovered.routines[number], EdgeKind.EXIT)
    assert analysis.liveness.live_on_edge(leaving) & mask(R.G4)
    # where a call enters the part, too, the register is the program's everywhere
    assert bool(contexts.carried & mask(R.G4)) is is_called


def test_routines_that_tail_call_each_other_hand_over_what_one_of_them_reads() -> None:
    """What either reads beyond the convention, the other must keep; nothing else."""
    routines: dict[str, Sequence[Item]] = {
        "_start": code(asm.branch("a", "even"), asm.nop()),
        "even": code(asm.mov(R.O0, R.O1), asm.branch("a", "odd"), asm.mov(1, R.G1)),
        "odd": code(
            asm.cmp(R.O0, R.G4), asm.branch("e", "even"), asm.mov(2, R.G1),
            asm.retl(), asm.mov(3, R.G1),
        ),
    }  # fmt: skip
    program = Assembled(routines)
    for name in ("_start", "even", "odd"):
        analysis = program.context(name).analysis
        assert analysis is not None
        live = analysis.liveness.live_on_edge(edge_of(program.cfg(name), EdgeKind.EXIT))
        assert live & mask(R.G1, R.G2, R.G3, R.G4) == mask(R.G4)


def test_tail_call_needs_arguments() -> None:
    save = asm.arithmetic("save", R.SP, -176, R.SP)
    caller = code(save, asm.mov(1, R.I0), asm.branch("a", "leaf"), asm.restore())
    program = Assembled({"main": caller, "leaf": leaf()})
    context = program.context("main")
    assert context.analysis is not None
    live = context.analysis.liveness.live_before(0, 2)
    assert live & mask(R.I0, R.I5, R.I7) == mask(R.I0, R.I5, R.I7)
    assert live & (LOCALS | OUTS) == 0
    leaving = find_place(program.cfg("main"), 1, context)
    assert (leaving.where, leaving.block, leaving.position) == (Where.SOURCE_END, 0, 2)


def test_a_system_call_reads_its_arguments_only() -> None:
    body = code(
        asm.mov(20, R.G1), asm.trap_always(0x6D), asm.retl(), asm.nop(),
    )  # fmt: skip
    program = Assembled({"getpid": body})
    context = program.context("getpid")
    assert context.analysis is not None
    live = context.analysis.liveness.live_before(0, 1)
    assert live & mask(R.G1, R.G2, R.G3, R.G4, R.O4) == mask(R.G1, R.O4)
    cfg = program.cfg("getpid")
    behind = find_place(cfg, edge_of(cfg, EdgeKind.FALL_THROUGH), context)
    assert behind.where is Where.TARGET_TOP


def test_callers_of_a_program_counter_thunk_rely_on_every_register() -> None:
    body = code(
        asm.arithmetic("save", R.SP, -176, R.SP),
        asm.mov(5, R.G2),
        asm.sethi(1 << 20, R.L7),
        asm.call("thunk"),
        asm.arithmetic("add", R.L7, 8, R.L7),
        asm.arithmetic("add", R.G2, R.L7, R.I0),
        asm.ret(),
        asm.restore(),
    )
    thunk = code(asm.retl(), asm.arithmetic("add", R.O7, R.L7, R.L7))
    program = Assembled({"f": body, "thunk": thunk})
    context, inner = program.context("f"), program.context("thunk")
    assert context.analysis is not None
    assert inner.analysis is not None
    live = context.analysis.liveness
    assert live.live_before(0, 3) & mask(R.G2, R.L7) == mask(R.G2, R.L7)
    assert not live.makes_calls
    assert inner.analysis.liveness.live_before(0, 0) & mask(R.G2, R.O3) == mask(R.G2, R.O3)


def test_a_call_that_never_returns_may_come_back_by_longjmp() -> None:
    body = code(
        asm.arithmetic("save", R.SP, -176, R.SP),
        asm.mov(9, R.L2),
        asm.call("leaf"),
        asm.nop(),
        asm.cmp(R.O0, 0),
        asm.branch("ne", "done"),
        asm.nop(),
        asm.call("stop"),
        asm.nop(),
        "done",
        asm.ret(),
        asm.arithmetic("restore", R.L2, R.G0, R.O0),
    )
    stop = code(asm.mov(1, R.G1), asm.trap_always(0x6D))
    program = Assembled({"main": body, "leaf": leaf(), "stop": stop})
    context, cfg = program.context("main"), program.cfg("main")
    assert context.analysis is not None
    (last,) = (
        e.source for e in cfg.edges if e.kind is EdgeKind.EXIT
        and context.analysis.liveness.blocks[e.source].kind.name == "CALL"
    )  # fmt: skip
    assert context.analysis.liveness.live_before(last, 0) & mask(R.L2)


def test_what_longjmp_comes_back_to_is_kept_blocks_before_the_call() -> None:
    """%l2 is read behind the first call alone, and written before the second one is decided on."""
    body = code(
        asm.arithmetic("save", R.SP, -176, R.SP),
        asm.call("leaf"),
        asm.nop(),
        asm.arithmetic("add", R.L2, 1, R.L3),
        asm.mov(9, R.L2),
        asm.cmp(R.O0, 0),
        asm.branch("ne", "done"),
        asm.nop(),
        asm.call("stop"),
        asm.nop(),
        "done",
        asm.ret(),
        asm.arithmetic("restore", R.L3, R.G0, R.O0),
    )
    stop = code(asm.mov(1, R.G1), asm.trap_always(0x6D))
    program = Assembled({"main": body, "leaf": leaf(), "stop": stop})
    analysis, cfg = program.context("main").analysis, program.cfg("main")
    assert analysis is not None
    back = cfg.edges[edge_of(cfg, EdgeKind.CALL_RETURN)].target
    assert not analysis.liveness.live_before(back, 1) & mask(R.L2)
    assert analysis.liveness.live_before(back, 2) & mask(R.L2)


def test_unknown_jumps_need_everything() -> None:
    program = Assembled({"f": code(asm.jmpl(R.O0, 0, R.G0), asm.nop())})
    context = program.context("f")
    assert context.analysis is not None
    assert context.analysis.liveness.live_before(0, 0) & (CC | LOCALS | OUTS) == CC | LOCALS | OUTS


def test_lowered_stack_pointer_of_a_leaf() -> None:
    body = code(
        asm.arithmetic("add", R.SP, -64, R.SP),
        asm.store("st", R.O0, R.SP, 32),
        asm.retl(),
        asm.arithmetic("sub", R.SP, -64, R.SP),
    )
    program = Assembled({"f": body}, MachineKind.SPARCV8)
    context = program.context("f")
    assert context.analysis is not None
    assert context.analysis.frames.before(0, 2) == FrameState(0, 64)
    assert context.before(0, 2).slots[0].offset == context.before(0, 0).slots[0].offset + 64
    assert context.analysis.frames.after(0) == FrameState(0, 0)


def test_window_maps() -> None:
    outs, ins = mask(R.O0, R.O7), mask(R.I0, R.I7)
    assert before_save(ins) == outs | LOCALS | INS
    assert before_restore(outs | mask(R.G1)) == ins | mask(R.G1)
    for abi in (ABI32, ABI64):
        assert before_restore(abi.return_reads) & mask(R.FP)
        assert abi.call_writes & abi.reserved == 0
        assert all(not abi.reserved >> r & 1 for r in (*abi.temporaries, *abi.caller_saved))


@pytest.mark.parametrize("frame", [-176, -4000])
def test_slots_of_a_frame_lie_above_the_save_area(frame: int) -> None:
    program = Assembled({"main": windowed(frame), "leaf": leaf()})
    context = program.context("main")
    for slot in context.before(0, 1).slots:
        if slot.base is R.FP:
            assert -4096 <= slot.offset < 2047 + frame + 176
            assert slot.offset >= 2047 + frame + 176 - 8 * FRAME_SLOTS
        else:
            assert slot.offset >= 2047 + 176


def test_calls_keep_what_is_read_where_exceptions_land() -> None:
    """%l2 is read there alone; all code before the call, blocks away too, must leave it."""
    body = code(
        asm.arithmetic("save", R.SP, -176, R.SP),
        asm.mov(9, R.L2),
        asm.cmp(R.I0, 0),
        asm.branch("e", "calls"),
        asm.nop(),
        asm.mov(1, R.I0),
        "calls",
        asm.call("leaf"),
        asm.nop(),
        asm.ret(),
        asm.restore(),
        "lands",
        asm.ret(),
        asm.arithmetic("restore", R.L2, R.G0, R.O0),
    )
    graphs = IndexedGraphs({"main": body, "leaf": leaf()}, entries=["lands"])
    recovered = graphs.index.recovered
    number = [cfg.name for cfg in recovered.routines].index("main")
    analysis = ProgramContexts(recovered).of(number).analysis
    assert analysis is not None
    first = int(graphs.index.first_block[number])
    main, calls, lands = (graphs.block(name) - first for name in ("main", "calls", "lands"))
    live = analysis.liveness
    assert not live.live_before(main, 1) & mask(R.L2)
    assert live.live_before(main, 2) & mask(R.L2)
    assert live.live_before(calls, 0) & mask(R.L2)
    assert live.live_before(lands, 0) & mask(R.L2)
