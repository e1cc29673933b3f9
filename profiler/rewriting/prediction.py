"""What rewriting executes in a run, by cause, from the run's edge counts (`charges`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from simprof.profiler.rewriting.charges import Cause, charged
from simprof.profiler.rewriting.counted import CountedRun
from simprof.profiler.rewriting.dump_cost import exit_cost
from simprof.profiler.rewriting.instrument import Instrumented
from simprof.profiler.rewriting.signal_cost import signal_cost
from simprof.profiler.rewriting.signals import FATAL
from simprof.profiler.rewriting.startup_cost import start_cost
from simprof.profiler.schemes.tracing.flush import CALL, TRACE_SIZE, flush_instructions
from simprof.profiler.session.events import RoutineEvents
from simprof.simulator.binary.program import MachineKind


def predicted_rewriting(
    made: Instrumented,
    events: Mapping[int, RoutineEvents],
    actions: Mapping[int, int],
    machine: MachineKind,
    environment: Sequence[bytes],
    entry: int,
) -> Counter[Cause]:
    """Return the instructions of a run besides the program's and the scheme's.

    Parameters
    ----------
    made
        The instrumented program.
    events
        What the run of the original counted.
    actions
        Address of a trap -> how often its system call said what a signal does.
    environment
        `NAME=value` strings that the program sees.
    entry
        Address at which the original begins; the start code goes to its copy directly.
    """
    total: Counter[Cause] = Counter()
    arrived: Counter[int] = Counter({entry: 1})
    for number, copy in made.copies.routines.items():
        if number not in events:
            continue
        counts = events[number]
        total += charged(copy.charges, counts.edges, counts.block_counts)
        for address, charge in copy.arrivals:
            arrived[address] += charge.times(counts.edges, counts.block_counts)
    for number, copy in made.copies.routines.items():
        if number not in events:
            continue
        for address, (_, edge) in copy.entries.items():
            # a block counts as executed even if a signal ended its activation before its call
            total[Cause.ENTRIES] += max(0, events[number].edges[edge] - arrived[address])
        for trap, more in copy.actions.items():
            total[Cause.SYSTEM_CALLS] += more * actions.get(trap, 0)
    total[Cause.START] += start_cost(machine, made.memory, environment)
    return total


def predicted_end(
    made: Instrumented, machine: MachineKind, depth: int, trace_bits: int, *, killed: bool
) -> int:
    """Return the instructions of the program's end that write the counters.

    Parameters
    ----------
    depth
        Frames that the program ends in.
    trace_bits
        Bits of the trace. The end writes what does not fill a buffer, at its own cost, in place of
        the flush that `added` has for it.
    killed
        Whether a signal ends the program.
    """
    if killed:  # the file has the interrupted instruction, too
        cost = signal_cost(machine, made.memory, made.header, depth + 1)
    else:
        cost = exit_cost(machine, made.memory, made.header, depth) - 1
    if made.memory.trace is not None and trace_bits % (8 * TRACE_SIZE):
        cost -= CALL + flush_instructions(machine)
    return cost


def ends_unwritten(made: Instrumented, run: CountedRun) -> str | None:
    """Return why the instrumented program writes no counters at its end; None if it does.

    A signal's handler cannot stand where a routine that acts on signals was left alone.
    """
    result = run.observation.result
    if result.reason == "exit":
        recovered = run.observation.recovered
        last = recovered.routine_at(result.last_pc)
        is_alone = last in made.copies.left
        return f"{recovered.routines[last].name}, which is left alone" if is_alone else None
    handled = made.memory.signals and result.signal in FATAL
    return None if handled else f"a {result.reason}"
