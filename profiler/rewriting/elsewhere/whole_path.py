"""From the trace of paths that an instrumented program has written to its whole program path.

The trace is the symbols of all paths that the program executed, in the order in which they ended
(`CounterTable.STREAM`). Their grammar is the whole program path; in it subpaths are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import zstandard
from msgspec import Struct

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathRecord
from simprof.profiler.plan.decoders import Plan
from simprof.profiler.plan.plan import SYMBOL_BITS, CounterTable
from simprof.profiler.profiles.profile import ProgramInfo
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.request import Setting
from simprof.profiler.rewriting.elsewhere import reading
from simprof.profiler.rewriting.elsewhere.counter_file import CounterFile
from simprof.profiler.rewriting.elsewhere.memory import PlacedPlan, symbols_of
from simprof.profiler.schemes.registry import definition
from simprof.profiler.trace.sequitur import Grammar, grammar_of
from simprof.profiler.trace.subpaths import HotSubpath, count_subpaths, hot_subpaths
from simprof.simulator.errors import UsageError

ZSTD_LEVEL = 19  # What the trace is compressed with for comparison


class ExecutedSymbol(Struct, frozen=True):
    """A symbol of the trace."""

    cfg: ControlFlowGraph  # Its routine
    number: int  # The path's, in the routine
    path: PathRecord

    @property
    def instructions(self) -> int:
        """Instructions of one execution of the path."""
        return self.path.instructions(self.cfg)


class WholePath(Struct, frozen=True):
    """The whole program path of one run."""

    program: ProgramInfo
    setting: Setting
    length: int  # Symbols of the trace
    compressed: int  # Bytes of the trace under zstandard
    grammar: Grammar  # Its terminals are places in `symbols`.
    symbols: tuple[ExecutedSymbol, ...]  # In the order of their numbers
    instructions: int  # Of all paths of the trace
    longest: int  # Paths of a subpath, at most
    threshold: float  # Percent of all instructions from which on a subpath is hot
    hot: tuple[HotSubpath, ...]

    def blocks(self) -> Iterator[int]:
        """Yield the blocks that were executed, in order, as numbers that their addresses order."""
        by_symbol = [
            [
                2 * block.start + block.is_slot
                for block in map(symbol.cfg.blocks.__getitem__, symbol.path.blocks)
            ]
            for symbol in self.symbols
        ]
        return chain.from_iterable(map(by_symbol.__getitem__, self.grammar.expand()))

    @property
    def bytes(self) -> int:
        """Bytes of the trace."""
        return self.length * SYMBOL_BITS // 8


def symbols_in(stream: bytes) -> tuple[list[int], list[int]]:
    """Return the different symbols of a trace, ascending, and for each in order its place there."""
    symbols, places = np.unique(symbols_of(stream), return_inverse=True)
    return symbols.tolist(), places.tolist()


def compressed_size(stream: bytes) -> int:
    """Return how many bytes zstandard makes of a trace."""
    return len(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(stream))


def read_whole_path(
    file: CounterFile,
    stream: bytes,
    program: Path | None,
    *,
    longest: int,
    threshold: float,
    is_compared: bool = False,
) -> WholePath:
    """Return the whole program path of a run of an instrumented program, with its hot subpaths.

    SimulatorError if the program is another one, its mode writes no paths, or the trace does not
    tell a profile (`profile_of`).
    """
    # file, stream: The counter file of the run, and the trace beside it.
    # program: The program before it was instrumented; None: the file that the header names.
    # is_compared: Whether the trace is known to be that of the execution: it is not checked again.
    recipe = file.recipe
    scheme = definition(recipe.mode)
    if not scheme.orders_paths:
        raise UsageError(f"{file.name} is of mode {recipe.mode}, which writes no trace of paths")
    again = reading.counted_program(file, program)
    if is_compared:
        reading.check_trace(file, scheme, stream)
    else:
        reading.profile_of(file, again, stream)
    _, options, recovered, plans, codes = again
    numbers, sequence = symbols_in(stream)
    decoders = {n: scheme.path_decoder(plan) for n, plan in plans.items()}
    symbols = tuple(_executed(numbers, recovered, codes, decoders))
    if len(symbols) != len(numbers):
        raise UsageError(f"{file.trace_name} {reading.UNKNOWN_SYMBOLS}")
    grammar = grammar_of(sequence)
    counts = count_subpaths(grammar, longest)
    costs = [symbol.instructions for symbol in symbols]
    total = sum(counts[(place,)] * cost for place, cost in enumerate(costs))
    loaded = recovered.program
    return WholePath(
        ProgramInfo(str(loaded.path), loaded.sha256, loaded.machine, (), len(recovered.routines)),
        Setting(recipe.mode, recipe.mode, options),
        len(sequence),
        compressed_size(stream),
        grammar,
        symbols,
        total,
        longest,
        threshold,
        tuple(hot_subpaths(counts, costs.__getitem__, total * threshold / 100)),
    )


def _executed(
    numbers: list[int],
    recovered: ProgramGraphs,
    codes: Mapping[int, PlacedPlan],
    decoders: Mapping[int, Plan | None],
) -> list[ExecutedSymbol]:
    """Return what symbols stand for, those of no routine left out."""
    ranges = sorted(
        (code.layout.first[0], code.plan.numbers[0], routine)
        for routine, code in codes.items()
        if code.plan.table is CounterTable.STREAM
    )
    firsts = np.array([first for first, _, _ in ranges], np.int64)
    owners = np.searchsorted(firsts, np.array(numbers, np.int64), "right") - 1
    found = []
    for number, owner in zip(numbers, owners.tolist(), strict=True):
        first, count, routine = ranges[max(owner, 0)]
        decoder = decoders[routine]
        if owner < 0 or number - first >= count or decoder is None:
            continue
        path = decoder.decode(number - first)
        found.append(ExecutedSymbol(recovered.routines[routine], number - first, path))
    return found
