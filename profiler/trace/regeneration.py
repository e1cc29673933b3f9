"""From a trace and its program back to the execution (BL94 section 4, several procedures).

Steps -> functions
1. load the trace, recover the program's graphs                    `regenerate`
2. make the tables that native code walks (`regeneration_kernel`)  `make_tables`
3. walk; handle what is rare: the events of the trace, and predicates that none of its tokens but
   only the next event decides                                     `Regenerator`
4. find the end of a trace of which there are only the tokens      `complete`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.engine.walk import UNKNOWN, GraphIndex
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.plan.tracing import TARGET_BITS, decisions, free_way
from simprof.profiler.recovery.code_image import WordMap
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.trace import regeneration_kernel as kernel
from simprof.profiler.trace.calls import Callees, Exit
from simprof.profiler.trace.format import (
    Tokens,
    Trace,
    TraceEnd,
    TraceEvent,
    check_numbers,
    graphs_again,
    load,
)
from simprof.profiler.trace.regeneration_kernel import Tables
from simprof.simulator.errors import UsageError

Array = npt.NDArray[np.int64]
Sink = Callable[[Array], None]  # Receives the next executed blocks, by program-wide number

NO_EVENT = 1 << 62  # Crossings that no trace has
_OUTPUT = 1 << 20
_STACK = 1 << 12
_MASK = (1 << 64) - 1


class Regeneration(Struct, frozen=True):
    """What became of a trace."""

    # blocks, crossings, bits: Executed blocks regenerated, edges crossed, bits of the trace read.
    blocks: int
    crossings: int
    bits: int
    digest: int  # Of the edges' numbers, unsigned
    place: int  # The last block, -1 if there is none
    problem: str | None  # Why it ended before the execution did; None if it did not.


class StopError(Exception):
    """Regeneration cannot go on; the text says why."""


class Regenerator:
    """Regenerates one trace."""

    def __init__(self, trace: Trace, recovered: ProgramGraphs, *, check: bool, sink: Sink) -> None:
        # recovered: The graphs of its program, recovered with its discoveries.
        # check: Whether to compare the digests on the way.
        self._trace = trace
        self._index = GraphIndex(recovered)
        self._sink = sink
        self._check = check
        callees = Callees(self._index)
        self._tables = make_tables(self._index, callees, trace.routines)
        self._start = callees.entry(recovered.program.entry)
        self._stream = np.frombuffer(trace.stream + bytes(8), np.uint8)
        end = 8 * len(trace.stream)
        self._end = end if trace.end is None else min(end, trace.end.bits)
        self._digests = _digests(trace)
        self._state = np.zeros(kernel.WORDS, np.int64)
        self._state[kernel.PLACE] = kernel.NOWHERE
        self._state[kernel.CHECKED] = check
        self._stack = np.full(_STACK, kernel.NOWHERE, np.int64)
        self._output = np.zeros(_OUTPUT, np.int64)
        self._blocks = 0
        self._last = UNKNOWN

    def run(self) -> Regeneration:
        """Regenerate as far as the trace goes."""
        problem: str | None = None
        try:
            self._begin()
            for event in self._trace.events:
                self._advance(event)
                self._apply(event)
            if self._trace.end is None:
                self._advance(None)
            problem = self._final_check()
        except StopError as stop:
            problem = str(stop)
        self._flush()
        state = self._state.tolist()
        return Regeneration(
            blocks=self._blocks,
            crossings=state[kernel.CROSSINGS],
            bits=state[kernel.BITS],
            digest=state[kernel.DIGEST] & _MASK,
            place=self._last,
            problem=problem,
        )

    def _begin(self) -> None:
        """Enter the program."""
        first = self._trace.events[0].at if self._trace.events else NO_EVENT
        if first == 0 or (self._end == 0 and self._trace.certain == 0):
            return
        if self._start == UNKNOWN:
            raise StopError("the program's entry is in no routine")
        self._cross(self._start)

    def _advance(self, event: TraceEvent | None) -> None:
        """Regenerate up to an event, or as far as the tokens lead."""
        state = self._state
        state[kernel.LIMIT] = NO_EVENT if event is None else event.at
        state[kernel.EVENT_BITS] = -1 if event is None else event.bits
        state[kernel.CERTAIN] = self._trace.certain if event is None else event.at
        while (status := self._walk()) != kernel.REACHED:
            if status != kernel.TOWARDS or event is None:
                raise StopError(self._reason(status))
            way = self._free_way(event.block) if event.block != UNKNOWN else []
            if not way or len(way) != event.at - state[kernel.CROSSINGS]:
                raise StopError("no path leads from here to the next event")
            self._cross(*way)

    def _walk(self) -> int:
        """Regenerate as far as native code can; say why that stopped."""
        while True:
            status = kernel.regenerate(self._tables, self._arrays(), self._end)
            if status == kernel.OUTPUT_FULL:
                self._flush()
            elif status == kernel.STACK_FULL:
                self._grow()
            else:
                return status

    def _reason(self, status: int) -> str:
        match status:
            case kernel.NO_TOKEN:
                return self._trace.cut or "its tokens end before it does"
            case kernel.WRONG:
                return f"its token at bit {self._state[kernel.BITS]} cannot come here"
            case kernel.DIFFERS:
                crossings = int(self._state[kernel.CROSSINGS])
                first = crossings - kernel.CHECKPOINT_SPAN
                return f"differs from the execution between edge {first} and edge {crossings}"
        if self._trace.cut is not None and self._state[kernel.PLACE] == kernel.NOWHERE:
            return self._trace.cut
        return "the graphs lead nowhere from here"

    def _free_way(self, block: int) -> list[int]:
        """Return the one way without tokens to a block of this routine; none if there is none."""
        place, index = int(self._state[kernel.PLACE]), self._index
        routine = index.routine(place)
        if index.routine(block) != routine:
            return []
        first, first_edge = int(index.first_block[routine]), int(index.first_edge[routine])
        tokens = self._trace.routines.get(routine, {})
        way = free_way(index.recovered.routines[routine], tokens, place - first, block - first)
        return [first_edge + edge for edge in way or ()]

    def _apply(self, event: TraceEvent) -> None:
        """Do what an event says."""
        state = self._state
        missing = event.bits - int(state[kernel.BITS])
        if missing not in (0, TARGET_BITS):
            raise StopError(f"its tokens do not fit the event at edge {event.at}")
        if event.bits > self._end:
            raise StopError(self._reason(kernel.NO_TOKEN))
        state[kernel.BITS] = event.bits  # of a call that the event is about, its target
        if event.block != UNKNOWN and state[kernel.PLACE] not in (event.block, kernel.NOWHERE):
            raise StopError(f"it is elsewhere than the event at edge {event.at} says")
        self._cross(*event.crossed)
        self._set_depth(event.depth, event.waiting)
        state[kernel.PLACE] = event.after if event.after != UNKNOWN else kernel.NOWHERE

    def _set_depth(self, depth: int, waiting: int) -> None:
        before = int(self._state[kernel.DEPTH])
        while depth + 1 >= len(self._stack):
            self._grow()
        if depth > before:
            self._stack[before:depth] = kernel.NOWHERE
            self._stack[depth - 1] = waiting
        elif depth and waiting == UNKNOWN:
            self._stack[depth - 1] = kernel.NOWHERE
        self._state[kernel.DEPTH] = depth

    def _cross(self, *edges: int) -> None:
        for edge in edges:
            if self._state[kernel.WRITTEN] + 1 >= len(self._output):
                self._flush()
            status = kernel.cross(self._tables, self._arrays(), self._end, edge)
            if status != kernel.REACHED:
                raise StopError(self._reason(status))

    def _arrays(self) -> kernel.Walk:
        return kernel.Walk(self._stream, self._state, self._stack, self._output, self._digests)

    def _flush(self) -> None:
        written = int(self._state[kernel.WRITTEN])
        if written:
            self._sink(self._output[:written])
            self._last = int(self._output[written - 1])
        self._blocks += written
        self._state[kernel.WRITTEN] = 0

    def _grow(self) -> None:
        more = np.full(len(self._stack), kernel.NOWHERE, np.int64)
        self._stack = np.concatenate([self._stack, more])

    def _final_check(self) -> str | None:
        """Compare the totals; say what differs."""
        end = self._trace.end
        if end is None:
            return self._trace.cut
        state = self._state.tolist()
        if (state[kernel.CROSSINGS], state[kernel.BITS]) != (end.crossings, end.bits):
            return f"it ends at edge {state[kernel.CROSSINGS]} of {end.crossings}"
        if self._check and state[kernel.DIGEST] & _MASK != end.digest:
            first = end.crossings // kernel.CHECKPOINT_SPAN * kernel.CHECKPOINT_SPAN
            return f"differs from the execution between edge {first} and edge {end.crossings}"
        return None


def _digests(trace: Trace) -> Array:
    """Digests at the multiples of the span, as int64; as many as there are without a gap."""
    digests: list[int] = []
    span = kernel.CHECKPOINT_SPAN
    while (len(digests) + 1) * span in trace.checkpoints:
        digest = trace.checkpoints[(len(digests) + 1) * span]
        digests.append(digest - (digest >> 63 << 64))
    return np.array(digests, np.int64)


def make_tables(index: GraphIndex, callees: Callees, routines: Mapping[int, Tokens]) -> Tables:
    """Make the kernel's tables; only routines that the trace has met get tokens."""
    recovered = index.recovered
    edges, blocks = index.edge_count, index.block_count
    no_edges, no_blocks = np.full(edges, -1, np.int64), np.full(blocks, -1, np.int64)
    tables = Tables(
        target=no_edges.copy(),
        value=no_edges.copy(),
        width=np.full(edges, kernel.UNMET, np.int64),
        way=np.zeros(edges, np.int64),
        entered=np.full(edges, kernel.BY_EVENT, np.int64),
        only=no_blocks.copy(),
        callee=no_blocks.copy(),
        peek=np.zeros(blocks, np.int64),
        first=np.zeros(blocks + 1, np.int64),
        key=no_blocks,
        choice=no_blocks,
        routine=index.routine_of_block.astype(np.int64),
        entry=np.array(index.entry_edge)[:blocks],
        returns=np.zeros(blocks, np.int64),
        block_at=np.asarray(recovered.block_at).astype(np.int64),
        pieces=_pieces(recovered.code.place),
    )
    for block in index.return_blocks:
        tables.returns[block] = not index.starts_routine(block)
    choices: list[tuple[int, int, int]] = []  # (block, value, edge)
    for number, tokens in routines.items():
        choices += _add_routine(tables, index, callees, number, tokens)
    table = np.array(sorted(choices), np.int64).reshape(-1, 3)
    first = np.searchsorted(table[:, 0], np.arange(blocks + 1)).astype(np.int64)
    key, choice = np.ascontiguousarray(table[:, 1]), np.ascontiguousarray(table[:, 2])
    return tables._replace(first=first, key=key, choice=choice)


def _pieces(place: WordMap) -> Array:
    """Return (lower half of its address, bytes, first word) of each piece of code."""
    low = (1 << kernel.TARGET_WIDTH) - 1
    pieces = zip(place.starts, place.ends, place.firsts, strict=True)
    rows = [(start & low, end - start, first) for start, end, first in pieces]
    return np.array(rows, np.int64).reshape(-1)


def _add_routine(
    tables: Tables, index: GraphIndex, callees: Callees, number: int, tokens: Tokens
) -> list[tuple[int, int, int]]:
    """Fill in a routine; return its decisions."""
    cfg = index.recovered.routines[number]
    edge_base, block_base = int(index.first_edge[number]), int(index.first_block[number])
    for edge in cfg.edges:
        name = edge_base + edge.id
        inside = edge.target != cfg.exit
        tables.target[name] = block_base + edge.target if inside else -1
        tables.value[name], tables.width[name] = tokens.get(edge.id, (0, 0))
        if edge.kind is EdgeKind.EXIT:
            way, entered = callees.exit(name)
            tables.way[name] = way
            indirect = way is Exit.WRITTEN or callees.is_indirect(block_base + edge.source)
            unknown = kernel.BY_TARGET if indirect else kernel.BY_EVENT
            tables.entered[name] = unknown if indirect or entered == UNKNOWN else entered
    choices: list[tuple[int, int, int]] = []
    for block in cfg.blocks:
        out = cfg.out_edges[block.id]
        name = block_base + block.id
        if len(out) == 1:
            tables.only[name] = edge_base + out[0]
            if cfg.edges[out[0]].kind is EdgeKind.CALL_RETURN:
                tables.callee[name] = _callee(callees, name)
        elif out:
            choices_here = _choices(cfg, tokens, block.id)
            tables.peek[name] = max((tokens[edge][1] for edge in choices_here), default=0)
            choices += [
                (name, tokens[e][0], edge_base + taken) for e, taken in choices_here.items()
            ]
    return choices


def _callee(callees: Callees, block: int) -> int:
    if callees.is_indirect(block):
        return kernel.BY_TARGET
    entry = callees.callee(block)
    return kernel.BY_EVENT if entry == UNKNOWN else entry


def _choices(cfg: ControlFlowGraph, tokens: Tokens, block: int) -> dict[int, int]:
    """Token edge that comes next -> edge to take; a `bits` predicate writes on all its edges."""
    out: Iterable[int] = cfg.out_edges[block]
    if all(edge in tokens for edge in out):
        return {edge: edge for edge in out}
    return decisions(cfg, tokens, block)


# Receives the program's graphs and the next executed blocks, by global number.
BlockSink = Callable[[ProgramGraphs, Array], None]


class Regenerated(Struct, frozen=True):
    """What `simprof read` reports."""

    # trace, program: The trace and the program file.
    trace: Trace
    program: Path
    result: Regeneration  # How far it led
    instructions: int  # Instructions of the blocks regenerated, all of each
    # block, routine: Address of the last block and its routine's name; None where there is no
    # block.
    block: int | None
    routine: str | None
    checked: bool  # Whether the result was compared with the execution

    @property
    def complete(self) -> bool:
        """Whether the whole execution was regenerated."""
        return self.result.problem is None


def regenerate(
    path: Path,
    program: Path | None,  # None: the file that the trace names
    *,
    # Whether to compare the digests of the edges crossed with those of the execution
    check: bool,
    sink: BlockSink | None = None,
) -> Regenerated:
    """Regenerate the execution that a trace is of."""
    # Raises UsageError or ProfileMismatchError if a file cannot be read, the trace is none, or it
    # is of another program.
    trace = load(path)
    file = Path(trace.header.file) if program is None else program
    header = trace.header
    recovered = graphs_again(str(path), file, header.sha256, header.discoveries)
    sizes = np.array(
        [block.instructions for cfg in recovered.routines for block in cfg.blocks], np.int64
    )
    instructions = 0

    def receive(blocks: Array) -> None:
        nonlocal instructions
        instructions += int(sizes[blocks].sum())
        if sink is not None:
            sink(recovered, blocks)

    try:
        check_numbers(trace, recovered)
        regenerator = Regenerator(trace, recovered, check=check, sink=receive)
    except ValueError:
        raise UsageError(f"{path} is damaged: record it again") from None
    result = regenerator.run()
    block, routine = _position(recovered, result.place)
    return Regenerated(trace, file, result, instructions, block, routine, check)


def _position(recovered: ProgramGraphs, place: int) -> tuple[int | None, str | None]:
    if place < 0:
        return None, None
    number = recovered.routine_of_block(place)
    cfg = recovered.routines[number]
    return cfg.blocks[place - int(recovered.first_block[number])].start, cfg.name


class BlockLines:
    """Writes executed blocks as lines: 0x101918, slot 0x101918."""

    # `write`: Receives the text.

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._lines: list[bytes] = []

    def __call__(self, recovered: ProgramGraphs, blocks: Array) -> None:
        """Write `blocks`."""
        if not self._lines:
            self._lines = [
                f"{cfg.name_of(block.id)}\n".encode()
                for cfg in recovered.routines
                for block in cfg.blocks
            ]
        self._write(b"".join(map(self._lines.__getitem__, blocks.tolist())))


LONGEST_TAIL = 1 << 20  # Crossings behind the last token after which the end is given up


def complete(
    trace: Trace,  # What there is: the tokens of all routines and the stream. It has no events.
    recovered: ProgramGraphs,
    # Program-wide number of the block whose system call ended the program. It is taken to be the
    # first time that control comes there behind the last token.
    block: int,
    bits: int,  # Of the token stream
) -> tuple[TraceEvent, TraceEnd]:
    """Find out how a trace goes on behind its tokens: the program's end, and the totals."""
    # A program that writes its trace itself knows nothing of crossings, and its last token is not
    # its end. Where control goes from there, the graphs say, up to the block in which it ended.
    # Their digest is that of what the tokens lead to: the run itself told none.
    # Raises StopError if the tokens do not lead to that end; the text says why.
    whole = replace(trace, certain=1, events=(), end=TraceEnd(0, 0, bits))
    return _Follower(whole, recovered, check=False, sink=lambda blocks: None).follow(block)


class _Follower(Regenerator):
    """Regenerates all that the tokens tell, and then goes on to a block."""

    def follow(self, block: int) -> tuple[TraceEvent, TraceEnd]:
        """Return what comes behind the tokens; parameters and errors as those of `complete`."""
        state = self._state
        leaving = self._index.exit_edge[block]
        state[kernel.LIMIT], state[kernel.EVENT_BITS] = NO_EVENT, -1
        self._begin()
        longest = -1
        while not self._has_ended(block, leaving):
            crossed = int(state[kernel.CROSSINGS])
            if state[kernel.BITS] >= self._end:
                longest = crossed + LONGEST_TAIL if longest < 0 else longest
                state[kernel.CERTAIN] = crossed + 1  # one more edge, without a token
            if 0 <= longest <= crossed:
                raise StopError("the block that the program ended in is not met")
            self._step(block, crossed)
        return self._completion(block, leaving)

    def _has_ended(self, block: int, leaving: int) -> bool:
        place, bits = int(self._state[kernel.PLACE]), int(self._state[kernel.BITS])
        if leaving != UNKNOWN and place == -2 - leaving:
            return bits == self._end
        return place == block and bits + self._width(leaving) == self._end

    def _width(self, edge: int) -> int:
        return 0 if edge == UNKNOWN else max(0, int(self._tables.width[edge]))

    def _step(self, block: int, crossed: int) -> None:
        """Regenerate as far as tokens lead, or by one edge behind them."""
        state, status = self._state, self._walk()
        if status != kernel.NO_TOKEN or state[kernel.BITS] < self._end:
            raise StopError(self._reason(status))
        if state[kernel.CROSSINGS] == crossed and state[kernel.CERTAIN] > crossed:
            # from a predicate behind the last token to the end, in the same routine
            way = self._free_way(block) if state[kernel.PLACE] >= 0 else []
            if not way:
                raise StopError(self._reason(kernel.NO_TOKEN))
            self._cross(*way)

    def _completion(self, block: int, leaving: int) -> tuple[TraceEvent, TraceEnd]:
        state = self._state
        left = int(state[kernel.PLACE]) != block
        at = int(state[kernel.CROSSINGS]) - left
        bits = int(state[kernel.BITS]) - (self._width(leaving) if left else 0)
        if leaving != UNKNOWN and not left:
            self._cross(leaving)
        crossed = () if leaving == UNKNOWN else (leaving,)
        event = TraceEvent(at, bits, block, crossed, 0, UNKNOWN, UNKNOWN)
        digest = int(state[kernel.DIGEST]) % (1 << 64)
        return event, TraceEnd(int(state[kernel.CROSSINGS]), digest, self._end)
