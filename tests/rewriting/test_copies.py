"""Copies of small assembled routines: what is where, what it costs, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.emission import Emission, Piece, PieceKind
from simprof.profiler.code.snippet_parts import Body
from simprof.profiler.rewriting.draft import (
    CallPlaces,
    Cause,
    Charge,
    NotRewritableError,
    OldProgram,
    RoutineCopy,
)
from simprof.profiler.rewriting.program import RoutineCopier, copy_routines
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register
from tests.support.assembled import BASE, Assembled, code
from tests.support.snippets import fixed

R = Register
V8 = MachineKind.SPARCV8
RD_PC = Instruction("rd %pc, %l7", 0xAF414000)


def copy_of(
    routines: Mapping[str, Sequence[Item]],
    name: str,
    machine: MachineKind = MachineKind.SPARCV9,
    added: Mapping[int, tuple[Piece, ...]] = MappingProxyType({}),
) -> RoutineCopy:
    """Return the copy of one routine, with a scheme's code at some addresses."""
    made = Assembled(routines, machine)
    recovered = made.recovered
    number = [cfg.name for cfg in recovered.routines].index(name)
    old = OldProgram(recovered, CallPlaces(recovered, ProgramContexts(recovered)))
    emission = Emission({}, added, ())
    cfg, context = recovered.routines[number], made.context(name)
    return RoutineCopier(number, cfg, context, emission, old).make()


def shape(copy: RoutineCopy) -> list[str]:
    """Labels with a colon; words, and where they lead."""
    return [
        f"{item.name}:"
        if isinstance(item, Label)
        else f"{item.word:08x}" + (f" {item.fixup.symbol}" if item.fixup else "")
        for item in copy.items
    ]


def test_branches_lead_to_copies_of_blocks() -> None:
    main = code(
        asm.cmp(R.O0, 0), asm.branch("e", "zero"), asm.nop(),
        asm.retl(), asm.mov(1, R.O0),
        "zero", asm.retl(), asm.mov(0, R.O0),
    )  # fmt: skip
    copy = copy_of({"main": main}, "main")
    assert shape(copy) == [
        "r0.block.0:", "80a22000", "02800000 r0.block.2", "01000000",
        "r0.block.1:", "81c3e008", "90102001",
        "r0.block.2:", "81c3e008", "90102000",
    ]  # fmt: skip
    assert copy.redirects == {BASE: "r0.block.0"}
    assert copy.charges == []
    assert list(copy.entries) == [BASE]


def test_a_call_leaves_a_new_return_address() -> None:
    main = code(
        asm.arithmetic("save", R.SP, -176, R.SP), asm.call("leaf"), asm.nop(),
        asm.ret(), asm.restore(),
    )  # fmt: skip
    leaf = code(asm.retl(), asm.nop())
    copy = copy_of({"main": main, "leaf": leaf}, "main")
    assert f"r0.call.{BASE + 4:x}:" in shape(copy)
    assert f"40000000 entry.{BASE + 20:x}" in shape(copy)
    assert copy.kept_calls == {}
    (arrival,) = copy.arrivals
    assert arrival == (BASE + 20, Charge(Cause.ENTRIES, 1, block=0, at=1))


def test_a_call_of_a_thunk_stays_at_its_place() -> None:
    """There and back are a `ba,a` each."""
    main = code(
        asm.arithmetic("save", R.SP, -176, R.SP), asm.call("thunk"), asm.nop(),
        asm.ret(), asm.restore(),
    )  # fmt: skip
    thunk = code(asm.retl(), asm.arithmetic("add", R.O7, R.L7, R.L7))
    copy = copy_of({"main": main, "thunk": thunk}, "main")
    assert copy.kept_calls == {BASE + 4: BASE + 20}
    assert f"30800000 old.{BASE + 4:x}" in shape(copy)
    back = copy.redirects[BASE + 12]
    assert f"{back}:" in shape(copy)
    assert [(c.cause, c.instructions) for c in copy.charges] == [(Cause.PROGRAM_COUNTERS, 1)] * 2


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_callee_that_skips_a_word_returns_to_the_old_code(is_marked: bool) -> None:
    """Unless that word says that it will, as behind 32-bit calls of functions with structures."""
    mark = Instruction("unimp 8", 8)
    main = code(
        asm.arithmetic("save", R.SP, -96, R.SP), asm.call("skipper"), asm.nop(),
        *[mark] * is_marked, asm.ret(), asm.restore(),
    )  # fmt: skip
    skipper = code(asm.jmpl(R.O7, 12, R.G0), asm.nop())
    copy = copy_of({"main": main, "skipper": skipper}, "main", V8)
    assert list(copy.kept_calls) == ([] if is_marked else [BASE + 4])


@pytest.mark.parametrize("machine", [MachineKind.SPARCV9, V8])
def test_code_that_reads_the_program_counter_gets_the_old_one(machine: MachineKind) -> None:
    main = code(
        asm.call("next"), asm.nop(), "next", RD_PC, asm.mov(R.O7, R.O0),
        asm.jmpl(R.G1, 8, R.G0), asm.nop(),
    )  # fmt: skip
    if machine is V8:
        main = [item for item in main if item is not RD_PC]
    copy = copy_of({"main": main}, "main", machine)
    words = shape(copy)
    assert words[1:4] == [
        f"{0x1F000000 | BASE >> 10:08x}",
        f"{0x9E13E000 | BASE & 1023:08x}",
        "01000000",
    ]
    reads = 1 if machine is V8 else 2
    causes = [(c.cause, c.instructions) for c in copy.charges]
    assert causes.count((Cause.PROGRAM_COUNTERS, 1)) == reads


@pytest.mark.parametrize("machine", [MachineKind.SPARCV9, V8])
def test_what_ends_the_program_leads_to_the_run_time_code(machine: MachineKind) -> None:
    trap = asm.trap_always(0x10 if machine is V8 else 0x6D)
    main = code(asm.mov(1, R.G1), trap, asm.nop())
    copy = copy_of({"main": main}, "main", machine)
    assert "30800000 simprof.exit" in shape(copy)
    assert f"{trap.word:08x}" not in shape(copy)
    assert copy.charges == [Charge(Cause.SYSTEM_CALLS, 1, block=0, at=1)]
    assert copy.endings == [0]


def test_an_unknown_system_call_is_tested() -> None:
    main = code(asm.trap_always(0x6D), asm.retl(), asm.nop())
    copy = copy_of({"main": main}, "main")
    trap = BASE
    assert shape(copy)[1:11] == [
        "80a060bc", "02800000 r0.ends.0.group", "80a06001", "02800000 r0.ends.0",
        "80a06066", "02800000 r0.acts.0.102", "01000000", f"r0.call.{trap:x}:", "91d0206d",
        "r0.behind.0:",
    ]  # fmt: skip
    assert shape(copy)[-11:] == [
        "r0.ends.0.group:", "01000000", "01000000", "r0.ends.0:", "01000000",
        "30800000 simprof.exit",
        "r0.acts.0.102:", "9de3bf50", "40000000 simprof.sigaction", "a0100001",
        "30800000 r0.behind.0",
    ]  # fmt: skip
    assert copy.charges == [Charge(Cause.SYSTEM_CALLS, 7, block=0, at=0)]
    assert copy.actions == {trap: 3}


@pytest.mark.parametrize("machine", [MachineKind.SPARCV9, V8])
@pytest.mark.parametrize("number", [102, 198])
def test_a_system_call_that_acts_on_signals(machine: MachineKind, number: int) -> None:
    """The older one is none of 64-bit programs."""
    trap = asm.trap_always(0x10 if machine is V8 else 0x6D)
    copy = copy_of(
        {"main": code(asm.mov(number, R.G1), trap, asm.retl(), asm.nop())}, "main", machine
    )
    acts = number == 102 or machine is V8
    assert ("40000000 simprof.sigaction" in shape(copy)) is acts
    assert (f"{trap.word:08x}" in shape(copy)) is not acts
    cost = Charge(Cause.SYSTEM_CALLS, 2, block=0, at=1)
    assert copy.charges == ([cost] if acts else [])
    assert copy.actions == {}


@pytest.mark.parametrize("machine", [MachineKind.SPARCV9, V8])
@pytest.mark.parametrize(("number", "is_shared"), [(66, True), (217, True), (20, False)])
def test_a_frame_that_a_new_thread_shares_keeps_no_values(
    machine: MachineKind, number: int, is_shared: bool
) -> None:
    """Behind vfork and clone both have one %fp, so that each would find what the other saved."""
    main = code(
        asm.arithmetic("save", R.SP, -176, R.SP), asm.mov(number, R.G1),
        asm.trap_always(0x10 if machine is V8 else 0x6D), asm.ret(), asm.restore(),
    )  # fmt: skip

    def copy_with(instruction: Instruction) -> RoutineCopy:
        snippet = fixed(Body((instruction,), 1, 0))
        piece = Piece(PieceKind.BLOCK, 0, snippet)
        return copy_of({"main": main}, "main", machine, {BASE + 4: (piece,)})

    plain = asm.mov(1, R.L0)  # a register of each one's own
    assert f"{plain.word:08x}" in shape(copy_with(plain))
    saving = asm.store("st", R.O0, R.FP, -40)
    if is_shared:
        with pytest.raises(NotRewritableError, match="keeps values in the frame"):
            copy_with(saving)
    else:
        assert f"{saving.word:08x}" in shape(copy_with(saving))


def test_a_branch_that_does_not_reach_takes_an_island() -> None:
    main = code(
        asm.branch_register("nz", R.O0, "other"), asm.nop(), asm.retl(), asm.nop(),
    )  # fmt: skip
    other = code(asm.retl(), asm.mov(1, R.O0))
    caller = code(asm.arithmetic("save", R.SP, -176, R.SP), asm.call("other"), asm.nop(),
                  asm.ret(), asm.restore())  # fmt: skip
    copy = copy_of({"main": main, "other": other, "caller": caller}, "main")
    (islands,) = [c for c in copy.charges if c.cause is Cause.LONG_BRANCHES]
    label = f"r0.island.{islands.edge}"
    assert shape(copy)[-2:] == [f"{label}:", f"30800000 entry.{BASE + 16:x}"]
    assert f"0aca0000 {label}" in shape(copy)


def test_what_runs_on_into_another_routine_jumps_to_its_copy() -> None:
    routines: dict[str, Sequence[Item]] = {
        "first": code(asm.mov(1, R.O0)),
        "second": code(asm.retl(), asm.nop()),
    }
    copy = copy_of(routines, "first")
    assert shape(copy)[-1] == f"30800000 entry.{BASE + 4:x}"
    assert [c.cause for c in copy.charges] == [Cause.LINES]


def test_a_delay_slot_that_reads_the_program_counter_is_refused() -> None:
    main = code(
        asm.cmp(R.O0, 0), asm.branch("e", "end"), RD_PC, "end", asm.retl(), asm.nop(),
    )  # fmt: skip
    with pytest.raises(NotRewritableError, match="reads the program counter"):
        copy_of({"main": main}, "main")
    recovered = Assembled({"main": main}).recovered
    copies = copy_routines(
        recovered, ProgramContexts(recovered), {}, CallPlaces(recovered, ProgramContexts(recovered))
    )
    assert copies.routines == {}
    assert copies.left == {0: f"the delay slot at {BASE + 8:#x} reads the program counter"}


def window(*calls: str) -> list[Item]:
    """A routine that makes calls."""
    made = [item for name in calls for item in (asm.call(name), asm.nop())]
    return code(asm.arithmetic("save", R.SP, -176, R.SP), *made, asm.ret(), asm.restore())


def test_calls_that_may_unwind_stay_at_their_places() -> None:
    leaf = code(asm.retl(), asm.nop())
    routines: dict[str, Sequence[Item]] = {
        "main": window("middle", "leaf"),
        "middle": window("_Unwind_RaiseException"),
        "_Unwind_RaiseException": leaf,
        "leaf": leaf,
    }
    recovered = Assembled(routines).recovered
    calls = CallPlaces(recovered, ProgramContexts(recovered))
    start = {cfg.name: cfg.address for cfg in recovered.routines}
    assert calls.reason(start["middle"]) is Cause.CALLS
    assert calls.reason(start["_Unwind_RaiseException"]) is Cause.CALLS
    assert calls.reason(start["leaf"]) is None
    assert calls.reason(-1) is Cause.CALLS  # a pointer may lead to any routine


def test_behind_a_save_o7_is_a_register_like_others() -> None:
    add = asm.arithmetic("add", R.O7, R.L7, R.L7)
    routines: dict[str, Sequence[Item]] = {
        "main": window("inside", "thunk"),
        "inside": code(
            asm.arithmetic("save", R.SP, -176, R.SP), asm.mov(1, R.O7), add,
            asm.ret(), asm.restore(),
        ),
        "thunk": code(asm.retl(), add),
    }  # fmt: skip
    recovered = Assembled(routines).recovered
    calls = CallPlaces(recovered, ProgramContexts(recovered))
    start = {cfg.name: cfg.address for cfg in recovered.routines}
    assert calls.reason(start["inside"]) is None
    assert calls.reason(start["thunk"]) is Cause.PROGRAM_COUNTERS


def test_without_an_unwinder_all_calls_move() -> None:
    leaf = code(asm.retl(), asm.nop())
    uncalled: dict[str, Sequence[Item]] = {
        "main": window("leaf"),
        "leaf": leaf,
        "_Unwind_RaiseException": leaf,
    }
    recovered = Assembled(uncalled).recovered
    calls = CallPlaces(recovered, ProgramContexts(recovered))
    assert [calls.reason(cfg.address) for cfg in recovered.routines] == [None] * 3
    assert calls.reason(-1) is None
