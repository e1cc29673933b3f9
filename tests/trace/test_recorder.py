"""What goes into a trace while the automaton is fed by hand: tokens, checkpoints, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from simprof.profiler.engine.kernels import DIGEST_FACTOR
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import WriteTrace
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.schemes.tracing.planner import Tokens, TracePlan
from simprof.profiler.trace.format import (
    CHECKPOINT_SPAN,
    Trace,
    TraceEnd,
    TraceEvent,
    TraceFile,
    TraceHeader,
    load,
)
from simprof.profiler.trace.recorder import TraceRecorder
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.assembled import code
from tests.support.event_player import EventPlayer

R = Register
EXIT = (asm.mov(1, R.G1), asm.trap_always(0x6D))
NOTHING = InstrumentationPlan({}, False, CounterTable.NONE, 0, None, 0)
LOOP: dict[str, Sequence[Item]] = {
    "main": code(
        asm.mov(3, R.O0),
        "loop", asm.arithmetic("subcc", R.O0, 1, R.O0), asm.branch("ne", "loop"), asm.nop(),
        "out", *EXIT,
    )
}  # fmt: skip


class Recorded(EventPlayer):
    """A traced run of events. `tokens`: edge -> (value, width) of what crossing it writes."""

    def __init__(
        self,
        routines: dict[str, Sequence[Item]],
        tokens: Mapping[str, tuple[int, int]],
        directory: Path,
        entries: Sequence[str] = (),
    ) -> None:
        super().__init__(routines, entries=entries)
        self._tokens = {self.edge(name): WriteTrace(*token) for name, token in tokens.items()}
        self._path = directory / "trace"
        header = TraceHeader("program", "", "sparcv9", (), "bits", {})
        file = TraceFile(self._path, header)
        memory = self.automaton.memory
        self.automaton.write_trace(TraceRecorder(memory, self.index, self._plan, file))

    def _plan(self, routine: int) -> TracePlan:
        cfg: ControlFlowGraph = self.index.recovered.routines[routine]
        first = int(self.index.first_edge[routine])
        own = range(first, first + len(cfg.edges))
        tokens = {edge - first: token for edge, token in self._tokens.items() if edge in own}
        return TracePlan(cfg, NOTHING, (1.0,) * len(cfg.edges), tokens, Tokens.OUTCOMES)

    def finish(self) -> Trace:
        """End by the system call that the last block ends with; read the trace."""
        self.automaton.finish(exited=True, fault_pc=None)
        return load(self._path)


def digest_of(edges: Sequence[int]) -> int:
    """The digest of edges crossed: add number + 1, multiply, all modulo 2^64."""
    digest = 0
    for edge in edges:
        digest = (digest + edge + 1) * DIGEST_FACTOR % (1 << 64)
    return digest


def test_tokens_are_appended_as_edges_are_crossed(tmp_path: Path) -> None:
    """Round, round, out: bits 1, 1 and 0, filled up to a byte."""
    run = Recorded(LOOP, {"loop>loop": (1, 1), "loop>out": (0, 1)}, tmp_path)
    run.play(("main", 4), ("loop", 3), ("loop", 3), ("out", 2))
    trace = run.finish()
    assert trace.stream == bytes([0b110_00000])
    names = ["ENTRY>main", "main>loop", "loop>loop", "loop>loop", "loop>out", "out>EXIT"]
    digest = digest_of([run.edge(name) for name in names])
    assert trace.end == TraceEnd(crossings=6, digest=digest, bits=3)
    assert trace.cut is None
    # That the program ended, and how, no code tells: Python crossed the last edge.
    assert trace.events == (TraceEvent(5, 3, run.block("out"), (run.edge("out>EXIT"),), 0, -1, -1),)


def test_a_routine_s_tokens_come_before_they_are_used(tmp_path: Path) -> None:
    run = Recorded(LOOP, {"loop>loop": (0xAB, 8)}, tmp_path)
    run.play(("main", 4), ("loop", 3), ("out", 2))
    trace = run.finish()
    assert trace.routines == {0: {run.edge("loop>loop"): (0xAB, 8)}}
    assert trace.stream == b"\xab"


def test_a_checkpoint_every_so_many_crossings(tmp_path: Path) -> None:
    """The first two edges are crossed once, then the loop: 65,536 edges are 65,534 turns."""
    run = Recorded(LOOP, {}, tmp_path)
    run.play(("main", 4), *[("loop", 3)] * (CHECKPOINT_SPAN + 10), ("out", 2))
    trace = run.finish()
    turns = [run.edge("loop>loop")] * (CHECKPOINT_SPAN - 2)
    first = [run.edge("ENTRY>main"), run.edge("main>loop")]
    assert trace.checkpoints == {CHECKPOINT_SPAN: digest_of([*first, *turns])}


def test_a_full_buffer_goes_to_the_file_and_nothing_is_lost(tmp_path: Path) -> None:
    """20,000 tokens of 32 bits are more than the buffer's 524,288 bits."""
    run = Recorded(LOOP, {"loop>loop": (0x01020304, 32)}, tmp_path)
    run.play(("main", 4), *[("loop", 3)] * 20_000, ("out", 2))
    trace = run.finish()
    assert trace.stream == b"\x01\x02\x03\x04" * 20_000
    assert trace.end is not None and trace.end.bits == 640_000


def test_a_signal_is_an_event_and_so_is_its_return(tmp_path: Path) -> None:
    routines = {
        "main": code(asm.mov(37, R.G1), asm.trap_always(0x6D), "behind", *EXIT),
        "handler": code(asm.mov(101, R.G1), asm.trap_always(0x6D)),
    }
    run = Recorded(dict(routines), {}, tmp_path, entries=["handler"])
    behind = run.address("behind")
    run.play(("main", 2))
    run.automaton.signal_delivered(behind, behind + 4, 0x9000)
    run.play(("handler", 2))
    run.automaton.signal_returned(behind)
    run.play(("behind", 2))
    into, back, _ = run.finish().events
    main, handler = run.block("main"), run.block("handler")
    assert into == TraceEvent(1, 0, main, (run.edge("ENTRY>handler"),), 1, handler, -1)
    # The handler's own end is crossed by Python; what it interrupted is still in `main`.
    assert back == TraceEvent(2, 0, handler, (run.edge("handler>EXIT"),), 0, main, -1)
