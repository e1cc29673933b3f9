"""One mode of a verification: what it predicts, what its program does, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from glob import escape

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.code.pricing import added, stream_sizes
from simprof.profiler.plan.plan import POOL_START
from simprof.profiler.request.request import RunRequest
from simprof.profiler.rewriting.callers import flushing
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.elsewhere.memory import differences, symbol_counts
from simprof.profiler.rewriting.elsewhere.reading import stream_difference, token_stream
from simprof.profiler.rewriting.elsewhere.runtime import FATAL, spans
from simprof.profiler.rewriting.instrument import (
    Basis,
    Instrumented,
    Order,
    collected_later,
    instrument,
)
from simprof.profiler.rewriting.trials import TrialDirectory, divergence
from simprof.profiler.rewriting.verification import (
    EMULATOR,
    CountedRun,
    Left,
    ModeResult,
    ObservedRun,
    count_on,
    predicted_rewriting,
)
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.session.session import observe
from simprof.profiler.trace import format as traces
from simprof.simulator.errors import SimulatorError, UsageError

_LOWER = (256, 512, 1024, 2048)  # Bytes
_HIDDEN = "only the run shows that it is a routine"


class Modes:
    """The modes of a verification, tried one after the other in one place."""

    def __init__(
        self,
        # What programs are instrumented on
        basis: Basis,
        # The run of the original, on the same graphs
        counted: CountedRun,
        place: TrialDirectory,
        # What the original did there
        original: ObservedRun,
        # How they run: "emulator", "qemu"
        ways: Sequence[str],
    ) -> None:
        self._basis, self._counted = basis, counted
        self._place, self._original, self._ways = place, original, ways
        self._lower: dict[int, ObservedRun] = {}

    def result(self, scheme: SchemeRun) -> ModeResult:
        """Predict, instrument, run and compare; `scheme`: the mode in the run of the original."""
        order = self._basis.order(scheme.setting)
        with collected_later():
            made = instrument(order, self._place.original)
        counted, scheme = self._counted_alone(scheme, made)
        trial = _Trial(counted, scheme, order, made)
        trial.check_pools()
        expected = None
        if trial.compares_trace:
            expected = self._trace(scheme)
        self._place.put(made.file)
        runtime = spans(made.rewritten.labels)
        for way in self._ways:
            run = self._place.run(way, spans=runtime)
            trial.compare(way, self._original, run, expected)
        result = trial.finish()
        if result.differences and (why := self._depends_on_addresses(trial)):
            why = (*result.not_compared, *why, *result.differences)
            return replace(result, differences=(), not_compared=why)
        executed = result.executed.get(EMULATOR, result.predicted)
        is_predicted = trial.unforeseen or executed == result.predicted
        if EMULATOR not in trial.unlike and is_predicted:
            return result
        self._place.put(made.file)
        found = divergence(self._place, made, counted.observation)
        lines = (f"{EMULATOR}: {line}" for line in found)
        return replace(result, differences=(*result.differences, *lines))

    def _depends_on_addresses(self, trial: _Trial) -> tuple[str, ...]:
        """Say what the original does otherwise with its stack elsewhere, if that explains all.

        Frames of instrumented programs lie elsewhere. What is executed and counted is explained by
        other instructions of the original, what is printed by another output of it; another status
        or file is not explained at all.
        """
        original, found = self._original, []
        if trial.unlike:
            lower = self._lower_where(original.prints_otherwise) if trial.prints_otherwise else None
            if lower is None:
                return ()
            found.append(
                "the output depends on addresses: the original prints something else with its "
                f"stack {lower} bytes lower"
            )
        if len(trial.found) > len(trial.unlike):  # which are a line each
            lower = self._lower_where(lambda run: run.instructions != original.instructions)
            if lower is None:
                return ()
            found.append(
                "control flow depends on addresses: the original executes "
                f"{self._lower[lower].instructions} instructions with its stack {lower} bytes "
                f"lower, not {original.instructions}"
            )
        return tuple(found)

    def _lower_where(self, differs: Callable[[ObservedRun], bool]) -> int | None:
        """Return by how many bytes the original's stack is lower in a run that differs, if any."""
        for lower in _LOWER:
            if lower not in self._lower:
                self._place.put(self._place.original)
                self._lower[lower] = self._place.run(EMULATOR, lower)
            if differs(self._lower[lower]):
                return lower
        return None

    def _counted_alone(self, scheme: SchemeRun, made: Instrumented) -> tuple[CountedRun, SchemeRun]:
        """Return the run of the original as the instrumented program counts it, and the mode in it.

        Where counters depend on the order of what all routines execute, those that were left alone
        must not take part: the original then runs once more.
        """
        counted, basis = self._counted, self._basis
        left = [number for number in made.copies.left if counted.instructions(number)]
        if not (left and scheme.definition.depends_on_order and made.codes):
            return counted, scheme  # where no routine has code, none counts
        names = (escape(basis.recovered.routines[number].name) for number in left)
        selection = replace(basis.selection, exclude=(*basis.selection.exclude, *names))
        self._place.put(self._place.original)
        with self._place.fresh() as guest:
            request = RunRequest(
                self._place.file, guest, self._place.arguments, selection=selection
            )
            guides = basis.edge_counts, basis.path_counts
            again = observe(request, (scheme.setting,), basis.discoveries, *guides, basis.known)
        return count_on(basis.recovered, again), again.schemes[0]

    def _trace(self, scheme: SchemeRun) -> traces.Trace:
        """Return the trace that a simulated run writes on the same graphs."""
        self._place.put(self._place.original)
        path = self._place.file.with_name("expected.trace")
        with self._place.fresh() as guest:
            request = RunRequest(self._place.file, guest, self._place.arguments, trace=path)
            observe(request, (scheme.setting,), self._basis.discoveries, known=self._basis.known)
        trace = traces.load(path)
        path.unlink()
        return trace


class _Trial(Struct, dict=True):
    """What is known of one mode while its program is run."""

    counted: CountedRun
    scheme: SchemeRun
    # order, made: What was instrumented, and the instrumented program.
    order: Order
    made: Instrumented
    # By way to run: the instructions.
    executed: dict[str, int | None] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)  # What differs, a line each
    unlike: list[str] = field(default_factory=list)  # The ways in which it behaved differently
    prints_otherwise: bool = True  # Whether it only printed something else in each of these
    counters_equal: bool | None = None
    # What the run-time executed where it was counted first; it must execute the same elsewhere.
    runtime: Mapping[Cause, int] = field(default_factory=dict)

    @property
    def observation(self) -> Observation:
        """The run of the original."""
        return self.counted.observation

    def check_pools(self) -> None:
        """Check that pools have room for what the run takes of them: UsageError if not."""
        if (table := self.scheme.definition.code().table) is None:
            return
        plans = {n: self.made.placed[n].plan for n in self._instrumented}
        counts = ((n, self.observation.counters(self.scheme, n).paths) for n in plans)
        taken = sum(table.size(plans[n], paths) for n, paths in counts if plans[n].buffers)
        pools = {use.buffer for plan in plans.values() for use in plan.buffers}
        room = sum(pool.size - POOL_START for pool in pools if pool.is_pool)
        if pools and taken > room:
            raise UsageError(
                f"{self.scheme.name}: its counters take {taken:,} bytes in this run, and there is "
                f"room for {room:,}: choose fewer routines, or other options of the mode"
            )

    @cached_property
    def left(self) -> tuple[Left, ...]:
        """The routines that were left alone, those among them that only the run shows."""
        alone = sorted(self.made.copies.left.items())
        routines = self.observation.recovered.routines
        left = [Left(routines[n].name, why, self.counted.instructions(n)) for n, why in alone]
        hidden = [other for other in self.counted.others if other.number is None]
        return (*left, *(Left(other.name, _HIDDEN, other.instructions) for other in hidden))

    @cached_property
    def unforeseen(self) -> tuple[str, ...]:
        """The routines that were copied on other graphs than the run shows."""
        others = self.counted.others
        return tuple(other.name for other in others if other.number in self.made.copies.routines)

    @property
    def is_whole(self) -> bool:
        """Whether no routine was executed that counts nothing."""
        return not self.unforeseen and not any(routine.instructions for routine in self.left)

    @property
    def writes_trace(self) -> bool:
        """Whether the mode writes a trace."""
        return definition(self.scheme.setting.mode).writes_trace

    @property
    def compares_trace(self) -> bool:
        """Whether its trace is compared.

        A trace lacks what routines did that were left alone, and simulated ones are of all.
        """
        return self.writes_trace and self.is_whole

    # -- predictions

    def rewriting(self) -> Mapping[Cause, int]:
        """Return what rewriting executes in a run: predicted, but for what the run-time does."""
        observation, program = self.observation, self.observation.program
        found = predicted_rewriting(
            self.made, observation.events, observation.result.signal_actions, program.entry
        )
        found.update(self.runtime)
        if self.unwritten is None and self.runtime:
            if observation.result.reason == "exit":
                found[Cause.DUMP] -= 1  # the system call is the program's
            trace = self.made.memory.trace
            # The end writes what does not fill a buffer, at its own cost, in place of the flush
            # that `added` has for it.
            if trace is not None and self._trace_bits % (8 * trace.buffer.size):
                found[Cause.DUMP] -= trace.buffer.flush(program.machine)
        return {cause: count for cause, count in found.items() if count}

    @cached_property
    def unwritten(self) -> str | None:
        """By what the program ends without writing its counters; None if it writes them."""
        result, recovered = self.observation.result, self.observation.recovered
        if result.reason != "exit":
            # A handler cannot stand where a routine that acts on signals was left alone.
            handled = self.made.memory.signals and result.signal in FATAL
            return None if handled else f"a {result.reason}"
        last = recovered.routine_at(result.last_pc - 4)  # the trap, behind which nothing need be
        is_alone = last in self.made.copies.left
        return f"{recovered.routines[last].name}, which is left alone" if is_alone else None

    @cached_property
    def _trace_bits(self) -> int:
        """The bits of the trace that copies write."""
        bits = 0
        for number in self._instrumented:
            plan = self.order.plan(number)
            assert plan is not None
            counters = self.observation.counters(self.scheme, number)
            sizes = plan.trace_sizes(self.observation.events[number].edges)
            sizes = {**sizes, **stream_sizes(plan.plan, counters)}
            bits += sizes.get("trace_bits", 0)
        return bits

    @property
    def _instrumented(self) -> Iterator[int]:
        """The routines that were entered and carry code."""
        return (number for number in self.made.codes if number in self.observation.events)

    @property
    def _added(self) -> int:
        """What the scheme's code executes, as it is in the program."""
        observation, total = self.observation, 0
        for number in self._instrumented:
            events = observation.events[number]
            counters = observation.counters(self.scheme, number)
            code = self.made.codes[number]
            total += added(code, events.edges, events.block_counts, counters.taken)
            total += counters.hash_instructions
        bits, trace = self._trace_bits, self.made.memory.trace
        if self.unwritten is not None and trace is not None:
            bits -= bits % (8 * trace.buffer.size)  # what does not fill a buffer is never written
        sizes = {"trace_bits": bits}
        return total + self.scheme.definition.code().run_cost(observation.program.machine, sizes)

    # -- comparisons

    @cached_property
    def _cause(self) -> str:
        """What may be why the program behaves differently, if anything is known."""
        recovered = self.observation.recovered
        flushed = sorted(flushing(recovered) & self.observation.events.keys())
        if not flushed:
            return ""
        name = recovered.routines[flushed[0]].name
        return (
            f" (the program saves its register windows in {name}: where it reads return addresses "
            "from frames, it may find those of copies)"
        )

    def compare(
        self, way: str, original: ObservedRun, run: ObservedRun, expected: traces.Trace | None
    ) -> None:
        """Note how a run of the instrumented program differs from what was predicted."""
        self.executed[way] = run.instructions
        self.runtime = self.runtime or run.runtime
        difference = original.difference(run)
        if difference is not None:
            self.unlike.append(way)
            self.prints_otherwise &= original.prints_otherwise(run)
            self.found.append(f"{way}: {difference}{self._cause}")
        if run.counters is None:
            if self.unwritten is None:
                exited = self.observation.result.reason == "exit"
                how = "ended by itself" if exited else "was killed"
                self.found.append(f"{way}: it {how}, and wrote no counters")
            return
        if self.unforeseen:
            return
        paths = b"" if self.writes_trace else run.trace or b""  # others write tokens
        symbols, placed = symbol_counts(paths), self.made.placed
        counted = differences(self.observation, self.scheme, placed, run.counters, symbols)
        if expected is not None:
            counted += _trace_differences(expected, run, self.made)
        if self.compares_trace or not self.writes_trace:
            self.counters_equal = self.counters_equal in (None, True) and not counted
        self.found += [f"{way}: {line}" for line in counted]

    @property
    def _not_compared(self) -> tuple[str, ...]:
        """What says nothing for or against the prediction, and why."""
        lines = []
        if self.unforeseen:
            names = ", ".join(self.unforeseen)
            lines.append(f"instructions and counters: only the run shows how it comes into {names}")
        if self.unwritten is not None:
            lines.append(f"the counters: none are written, as the program ends by {self.unwritten}")
        if self.writes_trace and not self.unforeseen and not self.is_whole:
            lines.append("the trace: routines were executed that were left alone")
        return tuple(lines)

    def finish(self) -> ModeResult:
        """Return what was found, the numbers of instructions compared."""
        rewriting = self.rewriting()
        result = ModeResult(
            self.scheme.setting,
            self.observation.base,
            self._added,
            rewriting,
            self.executed,
            not self.unlike,
            self.counters_equal,
            self.left,
            (),
            self._not_compared,
            self.unforeseen,
        )
        if result.predicted is not None:
            self.found += [
                f"{way}: {count} instructions were executed, {count - result.predicted:+d}"
                for way, count in self.executed.items()
                if count is not None and count != result.predicted
            ]
        return replace(result, differences=tuple(self.found))


def _trace_differences(expected: traces.Trace, run: ObservedRun, made: Instrumented) -> list[str]:
    if run.trace is None:
        return ["there is no trace"]
    packed = made.memory.trace is not None and made.memory.trace.packed
    bits = 8 * len(expected.stream) if expected.end is None else expected.end.bits
    try:
        difference = stream_difference(expected, token_stream(run.trace, bits, packed=packed))
    except SimulatorError as error:
        return [str(error)]
    return [] if difference is None else [difference]
