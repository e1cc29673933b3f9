"""Whether the numbers of a trace can be of a program: native code takes them as they are."""

from __future__ import annotations

from collections.abc import Iterable

from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.profiler.trace.format import Tokens, Trace, TraceEvent

_MOST = 1 << 62
"""Crossings, and bits, that no trace has."""
_WIDEST = 32
"""Bits of a token."""


def check_numbers(trace: Trace, recovered: RecoveredProgram) -> None:
    """Check that routines, edges and blocks are there, and that counts can be counted.

    Raises
    ------
    ValueError
        Naming what is not.
    """
    for number, tokens in trace.routines.items():
        if not 0 <= number < len(recovered.routines):
            raise ValueError(f"there is no routine {number}")
        _check_tokens(tokens, len(recovered.routines[number].edges))
    counts = [trace.certain, *trace.checkpoints]
    if trace.end is not None:
        counts += [trace.end.crossings, trace.end.bits]
    check_counts(counts)
    if trace.events:
        edges = int(recovered.arrays.first_edge[-1])
        for event in trace.events:
            _check_event(event, recovered.block_count, edges)


def _check_tokens(tokens: Tokens, edges: int) -> None:
    for edge, (value, width) in tokens.items():
        if edge >= edges or width > _WIDEST or value >> width:
            raise ValueError(f"edge {edge} cannot write {value} in {width} bits")


def _check_event(event: TraceEvent, blocks: int, edges: int) -> None:
    check_counts((event.at, event.bits))
    if not all(-1 <= block < blocks for block in (event.block, event.after, event.waiting)):
        raise ValueError("an event names a block that is not there")
    if not all(0 <= edge < edges for edge in event.crossed):
        raise ValueError("an event names an edge that is not there")
    # Each activation begins with an edge that it crosses.
    if not 0 <= event.depth <= event.at + len(event.crossed) + 1:
        raise ValueError(f"{event.depth} activations after {event.at} edges")


def check_counts(counts: Iterable[int]) -> None:
    """Check that counts can be counted; raises ValueError."""
    if not all(0 <= count < _MOST for count in counts):
        raise ValueError("a count beyond all counting")
