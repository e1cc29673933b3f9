"""From a counter file to the profile that `simprof run -o` saves, or to the trace of `--trace`.

Steps -> functions
1. recover the program's graphs as they were when it was instrumented     `graphs_again`
2. plan its routines again, and give their counters their places          `counted_program`
3. read the stacks: which activations ended early                         `early_ends.StackReader`
4. read each routine's counters, and derive its edge counts               `_read_routine`
5. measure, as a simulated run is measured                                `session.results`

What no counter tells is not in the profile: what conditional code and hashing cost (`added` is
without them), refused system calls, where a fault happened.

A program that writes a trace appends its tokens to `$SIMPROF_OUT.trace`, a buffer at a time
(`SchemeCode.stream`), and nothing else. A trace file (`trace.format`) has more:

- what the program is and what its edges write: known without running it (`write_trace`);
- how many edges were crossed, and the program's end: they follow from the tokens where the block
  is known in which the program ended (`trace.regeneration`);
- checkpoints and the digest of the edges crossed: only whoever watches the run has them, so that
  `simprof read --check` checks less;
- events: where a signal came, or a `longjmp` landed, no token tells. A trace with one of them
  leads no further than to there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.layout import COUNTER_SIZE, CounterSpace
from simprof.profiler.graphs.flow import FlowError
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan import decoders
from simprof.profiler.plan.plan import (
    SYMBOL_BITS,
    CounterTable,
    InstrumentationPlan,
)
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.request.request import SchemeOptions, Selection, Setting
from simprof.profiler.rewriting.elsewhere import counter_file
from simprof.profiler.rewriting.elsewhere.early_ends import StackReader, read_with_ends
from simprof.profiler.rewriting.elsewhere.memory import (
    MemoryCounters,
    PlacedPlan,
    placed,
    program_memory,
    read_counters,
    symbol_counts,
    symbols_taken,
)
from simprof.profiler.rewriting.elsewhere.recipe import chosen, planner
from simprof.profiler.schemes.definition import ProfileKind, SchemeDefinition
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session.counters import RoutineEvents, UnfinishedSegment
from simprof.profiler.session.execution import Unattributed
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.observation import Invocation, Observation, planning_options
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.trace import format as trace_format
from simprof.profiler.trace.regeneration import StopError, complete
from simprof.simulator.errors import UsageError
from simprof.simulator.machine.running import RunResult

# What a trace of paths is refused with
UNKNOWN_SYMBOLS = "has paths that no routine has: it is damaged: run the program again"


def read_profile(
    file: counter_file.CounterFile, program: Path | None = None, stream: bytes = b""
) -> RunMeasurement:
    """Return the profile that an instrumented program has counted; SimulatorError if the program is
    another one, or the counters do not tell a profile, and why.
    """
    # file: Its counter file, or several merged.
    # program: The program before it was instrumented; None: the file that the header names.
    mode = file.recipe.mode
    if definition(mode).writes_trace:
        raise UsageError(
            f"{file.name} is of mode {mode}, which counts nothing but writes a trace: "
            "`simprof read` makes a trace file of that"
        )
    return profile_of(file, counted_program(file, program), stream)


def profile_of(
    file: counter_file.CounterFile, counted_by: CountedProgram, stream: bytes
) -> RunMeasurement:
    """Do the same for a program that is there again; errors as of `read_profile`."""
    # stream: The trace that it has written, where that has the symbols of its paths.
    recipe, _, recovered, plans, codes = counted_by
    scheme = definition(recipe.mode)
    known = BinaryMemory(recovered.program, None)
    stacks = StackReader(recovered, known.contexts(recovered), dict(recipe.copies))
    ends: dict[int, Counter[int]] = {}
    for frames in file.frames:
        for number, early in stacks.ends(frames).items():
            ends.setdefault(number, Counter()).update(early)
    events: dict[int, RoutineEvents] = {}
    counted: dict[int, decoders.RoutineCounters] = {}
    check_trace(file, scheme, stream)
    symbols = symbol_counts(stream)
    unknown = sum(symbols.values())  # Those of no routine
    writes = any(code.plan.table is CounterTable.STREAM for code in codes.values())
    try:
        for number, code in codes.items():
            memory, early = read_counters(code, file.read, symbols), ends.get(number, Counter())
            unknown -= symbols_taken(code, memory)
            if memory.paths or any(memory.events) or early:
                plan = plans[number]
                counters, edges = _read_routine(scheme, recipe, number, plan, memory, early)
                segments = tuple(UnfinishedSegment(block, 0, 0, n) for block, n in early.items())
                events[number] = RoutineEvents(plan.cfg, edges, segments)
                counted[number] = counters
        if unknown:
            raise UsageError(f"{file.trace_name} {UNKNOWN_SYMBOLS}")
        return _measured(counted_by, known, events, counted, file.ends)
    except FlowError as error:
        what, _, _ = str(error).partition(";")
        name, teller = (file.trace_name, "trace does") if writes else (file.name, "counters do")
        raise UsageError(
            f"{name}: {what}: the file is damaged, or the program left routines by longjmp or "
            f"an exception, which its {teller} not show: use `simprof run`"
        ) from None


def check_trace(file: counter_file.CounterFile, scheme: SchemeDefinition, stream: bytes) -> None:
    """Check that the trace of paths beside a counter file is as long as the file says; UsageError
    if not.
    """
    buffer = scheme.code().stream
    if buffer is None or scheme.writes_trace:
        return
    if len(stream) % (SYMBOL_BITS // 8):
        raise UsageError(
            f"{file.trace_name} ends within a symbol, after {len(stream):,} bytes: it was cut, or "
            "is damaged: run the program again"
        )
    # The units that were appended are bytes, and what was flushed of them is a multiple of `size`.
    position = int.from_bytes(file.read(buffer.end + buffer.position, COUNTER_SIZE), "big")
    if (len(stream) - position) % buffer.size:
        raise UsageError(
            f"{file.trace_name} has {len(stream):,} bytes, other than {file.name} says: it was "
            "cut, or is of another run: run the program again"
        )


class CountedProgram(NamedTuple):
    """A program as it was instrumented."""

    recipe: counter_file.CounterRecipe
    options: SchemeOptions  # Those of the recipe
    recovered: ProgramGraphs
    plans: Mapping[int, decoders.Plan]  # By routine
    codes: Mapping[int, PlacedPlan]  # The same with their counters


def counted_program(file: counter_file.CounterFile, program: Path | None) -> CountedProgram:
    """Return the program that a counter file is of, as it was instrumented.

    Raises UsageError or ProfileMismatchError if the program is not there, is another one now, or
    its plans take other memory than the file has.
    """
    recipe, options = file.recipe, chosen(file)
    known = recipe.program
    path = Path(known.file) if program is None else program
    recovered = trace_format.graphs_again(file.name, path, known.sha256, recipe.discoveries)
    plan_of, space = planner(recipe, options, recovered), CounterSpace()
    scheme = definition(recipe.mode)
    fits = all(0 <= number < len(recovered.routines) for number in recipe.routines)
    plans: dict[int, decoders.Plan] = {}
    codes: dict[int, PlacedPlan] = {}
    for number in recipe.routines if fits else ():
        plan = plan_of.make(recovered.routines[number])
        layout = space.place(plan.plan)
        if number in recipe.words:
            layout = space.with_words(layout, recipe.words[number])
        plans[number], codes[number] = plan, placed(scheme, plan, layout)
    if not fits or program_memory(codes).dumped != recipe.regions:
        raise ProfileMismatchError(
            f"{file.name} is of a program that another version of simprof has instrumented: "
            "instrument it again"
        )
    return CountedProgram(recipe, options, recovered, plans, codes)


def _read_routine(
    scheme: SchemeDefinition,
    recipe: counter_file.CounterRecipe,
    number: int,
    plan: decoders.Plan,
    memory: MemoryCounters,
    early: Mapping[int, int],
) -> tuple[decoders.RoutineCounters, tuple[int, ...]]:
    """Return a routine's counters, and the count of each of its edges."""
    cfg = plan.cfg
    counters = decoders.RoutineCounters(memory.paths, memory.events, early)
    decoder = scheme.path_decoder(plan)
    if scheme.guided is ProfileKind.EDGES:
        if early and plan.plan.counts_paths:
            raise _untold(cfg.name, "which paths were under way when the program ended")
        return counters, recipe.edge_counts.get(number, (0,) * len(cfg.edges))
    # Windows are counted as they come: none is unfinished.
    unfinished = scheme.collected() is not ProfileKind.WINDOWS
    if decoder is not None and early and unfinished:
        iterated = scheme.collected() is ProfileKind.ITERATION_PATHS
        if iterated and depth_first(cfg).back_edges:
            raise _untold(cfg.name, "in which iteration it was when the program ended")
        counters, reading = read_with_ends(decoder, memory, early)
    else:
        try:
            reading = plan.read(counters)
        except ValueError as error:
            kept = "trace is" if plan.plan.table is CounterTable.STREAM else "counters are"
            raise UsageError(f"{cfg.name}: its {kept} damaged: {error}") from None
        decoders.check_shape(plan, scheme.mode, reading)
    if reading.all_edges is None or scheme.estimates:
        known = "" if reading.blocks is None else ", only its blocks"
        raise _untold(cfg.name, f"how often its edges were crossed{known}")
    return counters, reading.all_edges


def _untold(routine: str, what: str) -> UsageError:
    return UsageError(f"{routine}: its counters do not show {what}: use another mode, such as qpt2")


def _measured(
    counted_by: CountedProgram,
    known: BinaryMemory,
    events: Mapping[int, RoutineEvents],
    counted: Mapping[int, decoders.RoutineCounters],
    ends: Sequence[int],
) -> RunMeasurement:
    """Measure what was read as if a simulated run had counted it."""
    recipe, options, recovered, plans, _ = counted_by
    setting = Setting(recipe.mode, recipe.mode, options)
    scheme = SchemeRun(
        setting,
        lambda number: recovered.routines[number] if number in plans else None,
        lambda cfg: plans[recovered.numbers[cfg.address, cfg.name]],
        0,
    )
    observation = Observation(
        invocation=Invocation(recovered.program.path, selection=Selection()),
        program=recovered.program,
        recovered=recovered,
        schemes=(scheme,),
        judges={},
        events=dict(sorted(events.items())),
        counters=lambda _, routine: counted[routine],
        result=_result(ends, sum(each.instructions for each in events.values())),
        unattributed=Unattributed(0, 0),
        irregular=(),
        memory=known,
        runs=len(ends),
        whole_runs=len(ends),
        discoveries=trace_format.read_discoveries(recipe.discoveries),
        has_edges_of_guide=definition(recipe.mode).guided is ProfileKind.EDGES,
    )
    (measurement,) = measure_all(observation)
    notes = [
        "read from counters: `base` is of the instrumented routines only, `added` is without "
        "conditional code and hashing"
    ]
    if not all(ends):
        notes.append("how the program ended is not known")
    codeless = [
        plan.cfg.name for plan in plans.values() if plan.plan == InstrumentationPlan(actions={})
    ]
    if codeless and not definition(recipe.mode).guided:  # guided schemes know of these otherwise
        notes.append(f"given no code by the scheme, and not counted: {', '.join(codeless)}")
    if recipe.left:
        names = ", ".join(recovered.routines[number].name for number in recipe.left)
        notes.append(f"left alone by `simprof instrument`, and not counted: {names}")
    return replace(measurement, runs=len(ends), warnings=(*measurement.warnings, *notes))


def _result(ends: Sequence[int], instructions: int) -> RunResult:
    """Return the result of the first run that did not exit with 0, or else of the first run."""
    end = next((end for end in ends if end not in (0, counter_file.EXITED)), ends[0])
    if end & counter_file.KILLED:
        number = end & ~counter_file.KILLED
        return RunResult(128 + number, "signal", number, None, instructions, 0, 0, 0, 0.0, 0.0, 0)
    status = end & ~counter_file.EXITED
    return RunResult(status, "exit", None, None, instructions, 0, 0, 0, 0.0, 0.0, 0)


class TokenStream(Struct, frozen=True):
    """The tokens of a run, one after the other, the most significant bit first."""

    stream: bytes  # Whole bytes: bits behind the last token are 0.
    bits: int  # Bits of all tokens together


def token_stream(raw: bytes, position: int, *, packed: bool) -> TokenStream:
    """Return the tokens in a program's raw trace; UsageError if the trace is shorter than its
    position says.
    """
    # raw: All that the program has written.
    # position: The word `POSITION` of the trace buffer at the end: its low three bits are how many
    # bits of the last byte are used, 0 for all. Only read where the trace is packed.
    # packed: Whether the tokens are bits, else whole bytes.
    # Packed tokens fill the bytes of the buffer from the left, but those of the last byte are not
    # in their places yet: they are its low bits.
    used = position % 8 if packed else 0
    if not used:
        return TokenStream(raw, 8 * len(raw))
    if not raw:
        raise UsageError("the trace lacks its last byte: run the program again")
    last = raw[-1] << 8 - used & 0xFF
    return TokenStream(raw[:-1] + bytes([last]), 8 * (len(raw) - 1) + used)


def stream_difference(trace: trace_format.Trace, tokens: TokenStream) -> str | None:
    """Say where what a program has written differs first from the trace of the run under simprof.

    None where it does not.
    """
    bits = 8 * len(trace.stream) if trace.end is None else trace.end.bits
    shorter = min(len(trace.stream), len(tokens.stream))
    differing = next((n for n in range(shorter) if trace.stream[n] != tokens.stream[n]), None)
    if differing is not None:
        change = trace.stream[differing] ^ tokens.stream[differing]
        at = 8 * differing + 8 - change.bit_length()
        if at < min(bits, tokens.bits):
            return f"the trace differs at bit {at} of {bits}"
    if bits != tokens.bits:
        return f"the trace has {tokens.bits} bits, not {bits}"
    return None


def write_trace(
    path: Path,
    # What regeneration must know of the program, the one that was instrumented
    header: trace_format.TraceHeader,
    # Routine number -> what its edges write, of all routines
    tokens: Mapping[int, trace_format.Tokens],
    # What the program has written
    stream: TokenStream,
    recovered: ProgramGraphs,
    # Program-wide number of the block whose system call ended the program; None: unknown
    end_block: int | None,
) -> str | None:
    """Make a trace file of what a program has written.

    Return why the file holds no whole trace, but only what the tokens lead to; None if it does.
    Raises UsageError if the file cannot be written.
    """
    problem: str | None = "the block is not known that the program ended in"
    event, end = None, None
    if end_block is not None:
        known = trace_format.Trace(header, tokens, stream.stream, 0, {}, (), None, None)
        try:
            event, end = complete(known, recovered, end_block, stream.bits)
            problem = None
        except StopError as stop:
            problem = str(stop)
    file = trace_format.TraceFile(path, header)
    for number, written in sorted(tokens.items()):
        file.routine(number, written)
    if stream.stream:
        file.chunk(0, stream.stream)
    if event is not None:
        file.event(event)
    file.close(end)
    return problem


def read_trace(
    file: counter_file.CounterFile, raw: bytes, path: Path, program: Path | None = None
) -> str | None:
    """Make a trace file, as `simprof run --trace` does, of what an instrumented program wrote.

    Return why the trace is not whole; None if it is.
    Raises SimulatorError if the program is another one, or its mode writes no trace.
    """
    # file: The counter file of the run.
    # raw: The trace that the program wrote beside it.
    recipe = file.recipe
    scheme = definition(recipe.mode)
    buffer = scheme.code().stream
    if buffer is None or not scheme.writes_trace:
        raise UsageError(f"{file.name} is of mode {recipe.mode}, which writes no trace")
    _, options, recovered, plans, _ = counted_program(file, program)
    written = {
        number: scheme.trace_writer(plan)
        for number, plan in plans.items()
        if number not in recipe.left
    }
    tokens = {number: writer.tokens for number, writer in written.items() if writer is not None}
    packed = any(token.packed for edges in tokens.values() for token in edges.values())
    position = int.from_bytes(file.read(buffer.end + buffer.position, COUNTER_SIZE), "big")
    (frames,) = file.frames
    stacks = StackReader(recovered, ProgramContexts(recovered), dict(recipe.copies))
    header = trace_format.TraceHeader(
        file=str(recovered.program.path),
        sha256=recovered.program.sha256,
        machine=str(recovered.program.machine),
        arguments=(),
        mode=recipe.mode,
        discoveries=recipe.discoveries,
        options=planning_options(options, Selection()),
    )
    problem = write_trace(
        path,
        header,
        {n: {e: (t.value, t.width) for e, t in edges.items()} for n, edges in tokens.items()},
        token_stream(raw, position, packed=packed),
        recovered,
        stacks.last_block(frames),
    )
    if problem is None or not recipe.left:
        return problem
    names = ", ".join(recovered.routines[number].name for number in recipe.left)
    return f"{problem}; routines that were left alone write nothing: {names}"
