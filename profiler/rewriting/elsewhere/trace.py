"""Traces that instrumented programs write themselves: raw tokens, and nothing else.

A program appends its tokens to `$SIMPROF_OUT.trace`, a buffer at a time (`SchemeCode.stream`).
A trace file (`trace.format`), which `trace.regeneration` reads, has more:

- what the program is and what its edges write: known without running it (`write_trace`);
- how many edges were crossed, and the program's end: they follow from the tokens where the block
  is known in which the program ended (`trace.regeneration`);
- checkpoints and the digest of the edges crossed: only whoever watches the run has them, so that
  `simprof read --check` checks less;
- events: where a signal came, or a `longjmp` landed, no token tells. A trace with one of them
  leads no further than to there.

Packed tokens fill the bytes of the buffer from the left, but those of the last byte are not in
their places yet: they are its low bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.layout import COUNTER_SIZE
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.rewriting.elsewhere.counter_file import CounterFile
from simprof.profiler.rewriting.elsewhere.early_ends import StackReader
from simprof.profiler.rewriting.elsewhere.reading import placed_again, recovered_again
from simprof.profiler.rewriting.elsewhere.recipe import of_header
from simprof.profiler.schemes.registry import definition
from simprof.profiler.trace.format import Tokens, Trace, TraceFile, TraceHeader
from simprof.profiler.trace.regeneration import StopError, complete
from simprof.simulator.errors import UsageError


@dataclass(frozen=True)
class TokenStream:
    """The tokens of a run, one after the other, the most significant bit first."""

    stream: bytes  # Whole bytes: bits behind the last token are 0.
    bits: int  # Bits of all tokens together


def token_stream(raw: bytes, position: int, *, packed: bool) -> TokenStream:
    """Return the tokens in a program's raw trace.

    - `raw`: All that the program has written.
    - `position`: The word `POSITION` of the trace buffer at the end: its low three bits are how
      many bits of the last byte are used, 0 for all. Only read where the trace is packed.
    - `packed`: Whether the tokens are bits, else whole bytes.

    Raises
    ------
    UsageError
        If the trace is shorter than its position says.
    """
    used = position % 8 if packed else 0
    if not used:
        return TokenStream(raw, 8 * len(raw))
    if not raw:
        raise UsageError("the trace lacks its last byte: run the program again")
    last = raw[-1] << 8 - used & 0xFF
    return TokenStream(raw[:-1] + bytes([last]), 8 * (len(raw) - 1) + used)


def stream_difference(trace: Trace, tokens: TokenStream) -> str | None:
    """Compare what a program has written with the trace of the same run under simprof.

    Returns
    -------
    str | None
        One line that says where they differ first; None where they do not.
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
    header: TraceHeader,
    tokens: Mapping[int, Tokens],
    stream: TokenStream,
    recovered: ProgramGraphs,
    end_block: int | None,
) -> str | None:
    """Make a trace file of what a program has written.

    - `path`: Where it goes.
    - `header`: What regeneration must know of the program, the one that was instrumented.
    - `tokens`: Routine number -> what its edges write, of all routines.
    - `stream`: What the program has written.
    - `recovered`: The program's graphs.
    - `end_block`: Program-wide number of the block whose system call ended the program; None:
      unknown.

    Returns
    -------
    str | None
        Why the file holds no whole trace, but only what the tokens lead to; None if it does.

    Raises
    ------
    UsageError
        If the file cannot be written.
    """
    problem: str | None = "the block is not known that the program ended in"
    completion = None
    if end_block is not None:
        known = Trace(header, tokens, stream.stream, 0, {}, (), None, None)
        try:
            completion = complete(known, recovered, end_block, stream.bits)
            problem = None
        except StopError as stop:
            problem = str(stop)
    file = TraceFile(path, header)
    for number, written in sorted(tokens.items()):
        file.routine(number, written)
    if stream.stream:
        file.chunk(0, stream.stream)
    if completion is not None:
        file.event(completion.event)
    file.close(None if completion is None else completion.end)
    return problem


def read_trace(
    file: CounterFile, raw: bytes, path: Path, program: Path | None = None
) -> str | None:
    """Make a trace file, as `simprof run --trace` does, of what an instrumented program wrote.

    - `file`: The counter file of the run.
    - `raw`: The trace that the program wrote beside it.
    - `path`: Where the trace goes.
    - `program`: As for `read_profile`.

    Returns
    -------
    str | None
        Why the trace is not whole (`trace_stream.write_trace`); None if it is.

    Raises
    ------
    SimulatorError
        If the program is another one, or its mode writes no trace.
    """
    recipe = of_header(file)
    scheme = definition(recipe.mode)
    buffer = scheme.code().stream
    if buffer is None or not scheme.writes_trace:
        raise UsageError(f"{file.name} is of mode {recipe.mode}, which writes no trace")
    recovered = recovered_again(file, recipe, program)
    plans, _ = placed_again(file, recipe, recovered)
    written = {
        number: scheme.trace_writer(plan)
        for number, plan in plans.items()
        if number not in recipe.left
    }
    tokens = {number: writer.tokens for number, writer in written.items() if writer is not None}
    packed = any(token.packed for edges in tokens.values() for token in edges.values())
    position = int.from_bytes(file.read(buffer.end + buffer.position, COUNTER_SIZE), "big")
    (frames,) = file.frames
    stacks = StackReader(recovered, ProgramContexts(recovered), recipe.copies)
    header = TraceHeader(
        file=str(recovered.program.path),
        sha256=recovered.program.sha256,
        machine=str(recovered.program.machine),
        arguments=(),
        mode=recipe.mode,
        discoveries=recipe.fields()["discoveries"],
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
