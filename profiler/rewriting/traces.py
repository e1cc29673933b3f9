"""From the raw trace of an instrumented program to a trace file for `simprof regenerate`."""

from __future__ import annotations

from pathlib import Path

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.layout import COUNTER_SIZE
from simprof.profiler.rewriting.counter_file import CounterFile
from simprof.profiler.rewriting.memory import TRACE_POSITION
from simprof.profiler.rewriting.reading import placed_again, recovered_again
from simprof.profiler.rewriting.recipe import of_header
from simprof.profiler.rewriting.stack import StackReader
from simprof.profiler.rewriting.trace_stream import token_stream, write_trace
from simprof.profiler.schemes.registry import definition
from simprof.profiler.trace.format import TraceHeader
from simprof.simulator.errors import UsageError


def read_trace(
    file: CounterFile, raw: bytes, path: Path, program: Path | None = None
) -> str | None:
    """Make a trace file, as `simprof run --trace` does, of what an instrumented program wrote.

    Parameters
    ----------
    file
        The counter file of the run.
    raw
        The trace that the program wrote beside it.
    path
        Where the trace goes.
    program
        As for `read_profile`.

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
    if not scheme.writes_trace:
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
    position = int.from_bytes(file.read(TRACE_POSITION, COUNTER_SIZE), "big")
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
