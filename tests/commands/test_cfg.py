"""`simprof cfg --code`: routines with generated code in place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.code.arrangement import generate
from simprof.profiler.code.emission import PieceKind, emit
from simprof.profiler.code.layout import CounterSpace
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.plan.actions import CountEdge
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.reports import code_text
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.pp import plan_pp
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Register
from tests.support.assembled import Assembled, code
from tests.support.scheme_code import GENERATORS
from tests.support.turns import turns

R = Register
PROGRAMS = Path(__file__).resolve().parents[2] / "fixtures" / "bin"
COST = re.compile(
    r"^  \+ (\d+) instructions? each time"
    r"(?: \((?:\d for the jump)?(?:, )?(?:(\d+) in run-time routines)?\))?, ",
    re.MULTILINE,
)
HEAD = re.compile(
    r"^(\S+) at .*: mode \S+, (\d+) instrumentation sites?, (\d+) instructions?, (\d+) bytes$"
)


def status(*arguments: str) -> int | str | None:
    """Run `simprof cfg` and return its exit status."""
    with pytest.raises(SystemExit) as stopped:
        cli.main(["cfg", *arguments])
    return stopped.value.code


def table(mode: str, kind: str) -> list[str]:
    """Return the option of a kind of counters where a mode reads it."""
    return ["--table", kind] if "table" in registry.definition(mode).reads else []


def listing(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what `simprof cfg` prints."""
    assert status(*arguments) == 0
    return capsys.readouterr().out


def routines_of(text: str) -> list[str]:
    """Return the paragraphs of a listing's routines, without that of the run-time routines."""
    before, _, _ = text.partition(f"\n{code_text.RUNTIME_HEADING}")
    return before.split("\n\n")


def sample(machine: MachineKind = MachineKind.SPARCV9) -> Assembled:
    """Return a program with an annulled branch, a loop and a tail call."""
    body = code(
        asm.cmp(R.O0, 0), asm.branch("e", "g"), asm.nop(), "again",
        asm.arithmetic("subcc", R.O0, 1, R.O0), asm.branch("ne", "again", True),
        asm.mov(1, R.O1), asm.retl(), asm.nop(),
    )  # fmt: skip
    return Assembled({"f": [*body], "g": code("g2", asm.retl(), asm.nop())}, machine)


def shown(program: Assembled, plan: InstrumentationPlan) -> tuple[str, RoutineCode]:
    """Return the listing of the sample's routine under `plan`."""
    cfg, context = program.cfg("f"), program.context("f")
    layout = CounterSpace().place(plan)
    made = generate(cfg, plan, context, layout, GENERATORS)
    emission = emit(cfg, context, made)
    routine = code_text.InstrumentedRoutine(0, plan, made, emission)
    return code_text.render(program.recovered, "test", [routine]), made


def test_every_place_of_a_routine() -> None:
    program = sample()
    cfg = program.cfg("f")
    every = {edge.id: (CountEdge(edge.id),) for edge in cfg.edges}
    blocks = {block.id: (CountEdge(len(cfg.edges) + block.id),) for block in cfg.blocks}
    counters = len(cfg.edges) + len(cfg.blocks)
    plan = InstrumentationPlan(every, False, CounterTable.NONE, 0, None, counters, blocks)
    text, made = shown(program, plan)
    assert {s.place.where for s in made.snippets.values()} == {
        "stub", "target-top", "fall-through", "source-end",
    }  # fmt: skip
    for edge in cfg.edges:
        assert text.count(f"edge[{edge.id}]++") == 1
    for block in cfg.blocks:  # those of the slot block are in the stub of the edge into it
        assert text.count(f"edge[{len(cfg.edges) + block.id}]++") == 1
        assert text.count(f"+ block {block.start:#x}: ") == (not block.is_slot)
    assert generated(text) == made.static_instructions
    assert originals(text) == [f"{cfg.address + 4 * n:#x}" for n in range(8)]


def generated(text: str) -> int:
    """Count generated instructions."""
    return len(re.findall(r"^  \+     ", text, re.MULTILINE))


def originals(text: str) -> list[str]:
    """Return the addresses of original instructions, in the order shown."""
    return re.findall(r"^    (0x[0-9a-f]+)  ", text, re.MULTILINE)


def test_a_stub_is_named_at_its_branch_and_jumps_to_the_target() -> None:
    program = sample()
    cfg = program.cfg("f")
    outer = next(e.id for e in cfg.edges if e.target == cfg.exit and e.source == 0)
    plan = InstrumentationPlan({outer: (CountEdge(0),)}, False, CounterTable.NONE, 0, None, 1)
    text, _ = shown(program, plan)
    target = program.cfg("g").address
    assert f"be {target:#x}  ! now goes to stub 1" in text
    stub = text[text.index("  stub 1, from") :]
    assert f"+     ba {target:#x}\n  +      st " in stub


def test_hash_costs_are_told() -> None:
    program = sample()
    plan = plan_pp(program.cfg("f"), table=CounterTable.HASH).plan
    text, _ = shown(program, plan)
    assert "each time, and those of the hashing routine" in text
    assert "call hash_count" in text
    assert "hash_count_back: " in text


def test_a_block_shows_cheapest_position_and_order() -> None:
    """Code of a block stands where registers are dead, behind the code of the edge into it."""
    full = [R.G1, R.G2, R.G3, R.G4, R.G5, R.O0, R.O1, R.O2, R.O3, R.O4, R.O5]
    body = code(
        *(asm.arithmetic("add", r, 1, r) for r in full), *(asm.mov(0, r) for r in full[:4]),
        asm.retl(), asm.nop(),
    )  # fmt: skip
    program = Assembled({"f": body})
    plan = InstrumentationPlan(
        {0: (CountEdge(0),)}, False, CounterTable.NONE, 0, None, 3, {0: (CountEdge(1),)},
        {0: (CountEdge(2),)},
    )  # fmt: skip
    cfg, context = program.cfg("f"), program.context("f")
    made = generate(cfg, plan, context, CounterSpace().place(plan), GENERATORS)
    top, end = made.block_snippets[0], made.block_end_snippets[0]
    assert made.snippets[0].cost > top.cost == end.cost == 4
    assert top.place.position is not None
    assert 0 < top.place.position <= (end.place.position or 0) <= len(full) + 4
    emission = emit(cfg, context, made)
    order = [(piece.kind, piece.snippet.actions) for a in sorted(emission.at)
             for piece in emission.at[a]]  # fmt: skip
    assert order == [
        (PieceKind.EDGE, (CountEdge(0),)),
        (PieceKind.BLOCK, (CountEdge(1),)),
        (PieceKind.BLOCK_END, (CountEdge(2),)),
    ]


MODES = ["pp", "qpt2", "qpt", "witness", "bits", "bytes", "block-trace", "bittrace", "fifo",
         "kiter", "sampled", "pep", "naive", "calls", "calls-optimal"]  # fmt: skip


@pytest.mark.parametrize("machine", ["v9", "v8plus", "v8"])
@pytest.mark.parametrize("mode", ["naive", "qpt", "calls"])
def test_a_delay_slot_that_is_a_block_too(
    capsys: pytest.CaptureFixture[str], machine: str, mode: str
) -> None:
    program = str(PROGRAMS / machine / "control.elf")
    text = listing(capsys, program, "--code", mode, "--routine", "*slot_is_leader")
    routines = routines_of(text)
    assert len(routines) == 2
    for routine in routines:
        head = HEAD.match(routine.splitlines()[0])
        assert head is not None
        assert int(head[3]) == generated(routine)
        assert len(originals(routine)) == len(set(originals(routine))) + 1


@pytest.mark.parametrize(("machine", "mode"), turns(["v9", "v8plus", "v8"], MODES, few=8))
def test_listings_of_a_program_add_up(
    capsys: pytest.CaptureFixture[str], machine: str, mode: str
) -> None:
    program = str(PROGRAMS / machine / "loops.elf")
    text = listing(capsys, program, "--code", mode, "--routine", "*a*")
    routines = routines_of(text)
    assert len(routines) > 2
    for routine in routines:
        head = HEAD.match(routine.splitlines()[0])
        assert head is not None
        assert int(head[3]) == generated(routine) == int(head[4]) // 4
        addresses = [int(address, 16) for address in originals(routine)]
        assert addresses == sorted(set(addresses))


def test_code_that_only_jumps_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A stub has a copy of a delay slot that is a block, too; the edge out of it leads back."""
    program = str(PROGRAMS / "v9" / "control.elf")
    text = listing(capsys, program, "--code", "bits")
    heads = re.findall(r"^  \+ (?:edge|block|block end) \S.*?:(.*)$", text, re.MULTILINE)
    assert len(heads) > 10
    assert " jump only" in heads
    assert not [does for does in heads if not does.strip()]


def test_options_reach_the_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    program = str(PROGRAMS / "v9" / "loops.elf")
    hashed = listing(capsys, program, "--code", "pp", "--routine", "main", "--table", "hash")
    assert "hash table at 0x60000000" in hashed
    fewer = listing(capsys, program, "--code", "qpt:placement=vertex-optimal", "--routine", "main")
    assert generated(fewer) < generated(
        listing(capsys, program, "--code", "qpt", "--routine", "main")
    )


def test_targeted_profiling_takes_an_edge_profile(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program, profile = str(PROGRAMS / "v9" / "manypaths.elf"), str(tmp_path / "edges.prof")
    with pytest.raises(SystemExit):
        cli.main(["run", "--mode", "edges", "-o", profile, program])
    capsys.readouterr()
    text = listing(
        capsys, program, "--code", "tpp:cold=20:cold-always", "--edge-profile", profile,
    )  # fmt: skip
    assert "poison r" in text
    assert "if r<0 cold++ else count[" in text
    assert "cold paths: counter at" in text


@pytest.mark.parametrize("mode", ["pp", "naive", "calls", "calls-optimal", "qpt", "qpt2"])
@pytest.mark.parametrize("machine", ["v9", "v8plus", "v8"])
def test_snippet_costs_are_the_lines_that_they_show(
    capsys: pytest.CaptureFixture[str], machine: str, mode: str
) -> None:
    program = str(PROGRAMS / machine / "loops.elf")
    text = listing(capsys, program, "--code", mode, *table(mode, "array"), "--routine", "main")
    (routine,) = routines_of(text)
    pieces = re.split(r"^  \+ (?=edge|block)", routine, flags=re.MULTILINE)[1:]
    assert len(pieces) > 3
    for piece in pieces:
        found = COST.search(piece)
        assert found is not None, piece
        assert int(found[1]) == generated(piece) + int(found[2] or 0)
        assert (found[2] is not None) == ("call log" in piece)


@pytest.mark.parametrize(
    ("machine", "mode"), turns(["v9", "v8plus", "v8"], ["calls", "kiter", "naive", "witness"])
)
def test_the_run_time_routines_that_are_called_are_listed(
    capsys: pytest.CaptureFixture[str], machine: str, mode: str
) -> None:
    program = str(PROGRAMS / machine / "loops.elf")
    text = listing(capsys, program, "--code", mode, *table(mode, "hash"))
    _, _, runtime = text.partition(f"\n{code_text.RUNTIME_HEADING}\n")
    listed = re.findall(r"^  (\S+) at 0x[0-9a-f]+:$", runtime, re.MULTILINE)
    called = set(re.findall(r"^  \+ +call (\S+)$", text, re.MULTILINE))
    used = set(re.findall(r"^  \+ +sethi %hi\(([a-z_]+)\)", text, re.MULTILINE))
    assert sorted(listed) == sorted(called | used)
    assert listed or mode == "naive"
    addresses = [int(a, 16) for a in re.findall(r"^    (0x\w+)  ", runtime, re.MULTILINE)]
    assert addresses == sorted(set(addresses))
    assert all(text.count(f"  {name} at ") == 1 for name in listed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--code", "tpp"], "--edge-profile"),
        (["--code", "pp", "--format", "json"], "shown as text only"),
        (["--code", "edges"], "unknown mode 'edges'"),
        (["--code", "tpp:cold=101"], "101"),
        (["--code", "kiter:k=0"], "k=0: give"),
        (["--table", "hash"], "--table has no effect on graphs alone: leave it out"),
    ],
)
def test_bad_requests(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert status(str(PROGRAMS / "v9" / "loops.elf"), *arguments) == 125
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
