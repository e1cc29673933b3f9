"""One mode of a verification: what it predicts, what its program does, and what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from profiler.code.sizes import trace_sizes
from profiler.profiles.profile import Measurement
from profiler.recovery.recovery import RecoveredProgram
from profiler.request.request import RunRequest
from profiler.rewriting.calls import CallPlaces
from profiler.rewriting.charges import Cause
from profiler.rewriting.divergence import divergence
from profiler.rewriting.garbage import collected_later
from profiler.rewriting.instrument import Instrumented, instrument
from profiler.rewriting.memory import differences
from profiler.rewriting.orders import order_of
from profiler.rewriting.prediction import predicted_dump, predicted_rewriting
from profiler.rewriting.trace_stream import stream_difference, token_stream
from profiler.rewriting.trials import Place
from profiler.rewriting.verification import EMULATOR, Left, ModeResult, Run
from profiler.schemes.registry import definition
from profiler.session.observation import Observation
from profiler.session.scheme_runs import SchemeRun
from profiler.session.session import run_program
from profiler.trace import format as traces
from simulator.errors import SimulatorError


class Modes:
    """The modes of a verification, tried one after the other in one place.

    Parameters
    ----------
    observation
        The run of the original.
    name
        The program's file, as the user calls it.
    place
        Where programs run.
    original
        What the original did there.
    ways
        How they run: "emulator", "qemu".
    """

    def __init__(
        self,
        observation: Observation,
        name: Path,
        place: Place,
        original: Run,
        ways: Sequence[str],
    ) -> None:
        self._observation, self._name = observation, name
        self._place, self._original, self._ways = place, original, ways

    def result(self, scheme: SchemeRun, measurement: Measurement) -> ModeResult:
        """Predict, instrument, run and compare.

        Parameters
        ----------
        scheme, measurement
            The mode in the run of the original, and what it measured there.
        """
        trial = _Trial(self._observation, scheme, measurement, self._instrument(scheme))
        expected = None
        if trial.compares_trace:
            expected = self._trace(scheme)
        self._place.put(trial.made.file)
        rewriting = trial.rewriting(self._place.environment)
        for way in self._ways:
            run = self._place.run(way)
            trial.compare(way, self._original, run, expected)
            if run.counters is not None:
                rewriting[Cause.DUMP] = trial.dump(run)
        result = trial.finish(rewriting)
        executed = result.executed.get(EMULATOR, result.predicted)
        if EMULATOR not in trial.unlike and executed == result.predicted:
            return result
        found = divergence(self._place, trial.made, self._observation)
        lines = (f"{EMULATOR}: {line}" for line in found)
        return replace(result, differences=(*result.differences, *lines))

    @cached_property
    def _recovered(self) -> RecoveredProgram:
        """The program under the user's name, which messages and the header have."""
        recovered = self._observation.recovered
        return replace(recovered, program=replace(recovered.program, path=self._name))

    @cached_property
    def _calls(self) -> CallPlaces:
        return CallPlaces(self._recovered, self._observation.contexts)

    def _instrument(self, scheme: SchemeRun) -> Instrumented:
        order = order_of(self._observation, scheme, foreseen=True)
        order = replace(order, recovered=self._recovered, calls=self._calls)
        with collected_later():
            return instrument(order, self._place.original)

    def _trace(self, scheme: SchemeRun) -> traces.Trace:
        """Return the trace that a simulated run writes."""
        self._place.put(self._place.original)
        path = self._place.file.with_name("expected.trace")
        setting = scheme.setting
        with self._place.fresh() as guest:
            run_program(
                RunRequest(
                    self._place.file,
                    guest,
                    self._place.arguments,
                    mode=setting.mode,
                    scheme=setting.options,
                    trace=path,
                )
            )
        trace = traces.load(path)
        path.unlink()
        return trace


@dataclass
class _Trial:
    """What is known of one mode while its program is run.

    Attributes
    ----------
    made
        The instrumented program.
    executed
        By way to run: the instructions.
    found
        What differs, a line each.
    unlike
        The ways in which it behaved differently.
    """

    observation: Observation
    scheme: SchemeRun
    measurement: Measurement
    made: Instrumented
    executed: dict[str, int | None] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)
    counters_equal: bool | None = None

    @cached_property
    def left(self) -> tuple[Left, ...]:
        """The routines that were left alone."""
        found = []
        for number, reason in sorted(self.made.copies.left.items()):
            cfg, executed = self.observation.recovered.routines[number], 0
            if number in self.observation.events:
                counts = self.observation.events[number].block_counts
                executed = sum(n * b.instructions for n, b in zip(counts, cfg.blocks, strict=True))
            found.append(Left(cfg.name, reason, executed))
        return tuple(found)

    @property
    def is_whole(self) -> bool:
        """Whether no routine was executed that counts nothing."""
        return not any(routine.instructions for routine in self.left)

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

    def rewriting(self, environment: Sequence[bytes]) -> Counter[Cause]:
        """Return what rewriting executes in a run, but for the end."""
        observation, program = self.observation, self.observation.program
        return predicted_rewriting(
            self.made,
            observation.events,
            observation.result.signal_actions,
            program.machine,
            environment,
            program.entry,
        )

    def dump(self, run: Run) -> int:
        """Return what the end executes that wrote the counters of a run."""
        assert run.counters is not None
        frames = run.counters.frames[0]
        return predicted_dump(self.made, self.observation.program.machine, frames, self._trace_bits)

    @cached_property
    def _trace_bits(self) -> int:
        """The bits of the trace that copies write."""
        observation, scheme, bits = self.observation, self.scheme, 0
        for number in observation.events.keys() - self.made.copies.left.keys():
            plan = scheme.routine_plan(number) if scheme.selects(number) else None
            if plan is not None:
                writer = scheme.definition.trace_writer(plan)
                sizes = trace_sizes(writer, observation.events[number].edges)
                bits += sizes.get("trace_bits", 0)
        return bits

    @property
    def _added(self) -> int:
        """What the scheme adds where nothing is counted in routines that were left alone."""
        observation = self.observation
        left = {observation.recovered.routines[number].address for number in self.made.copies.left}
        own = sum(r.added for r in self.measurement.routines if r.address not in left)
        sizes = {"trace_bits": self._trace_bits}
        return own + self.scheme.definition.code().run_cost(observation.program.machine, sizes)

    # -- comparisons

    def compare(self, way: str, original: Run, run: Run, expected: traces.Trace | None) -> None:
        """Note how a run of the instrumented program differs from what was predicted."""
        self.executed[way] = run.instructions
        difference = original.difference(run)
        if difference is not None:
            self.unlike.append(way)
            self.found.append(f"{way}: {difference}")
        if run.counters is None:
            if self.observation.result.reason == "exit":
                self.found.append(f"{way}: it ended by itself, and wrote no counters")
            return
        counted = differences(self.observation, self.scheme, self.made.placed, run.counters)
        if expected is not None:
            counted += _trace_differences(expected, run, self.made)
        if self.compares_trace or not self.writes_trace:
            self.counters_equal = self.counters_equal in (None, True) and not counted
        self.found += [f"{way}: {line}" for line in counted]

    @property
    def _not_compared(self) -> tuple[str, ...]:
        """What says nothing for or against the prediction, and why."""
        lines = []
        reason = self.observation.result.reason
        if self.counters_equal is None and reason != "exit":
            lines.append(f"the counters: none were written, as the program ended by a {reason}")
        if self.writes_trace and not self.is_whole:
            lines.append("the trace: routines were executed that were left alone")
        return tuple(lines)

    def finish(self, rewriting: Counter[Cause]) -> ModeResult:
        """Return what was found, the numbers of instructions compared."""
        result = ModeResult(
            self.scheme.setting,
            self.measurement.base,
            self._added,
            {cause: count for cause, count in rewriting.items() if count},
            self.executed,
            not self.unlike,
            self.counters_equal,
            self.left,
            (),
        )
        self.found += [
            f"{way}: {count} instructions were executed, {count - result.predicted:+d}"
            for way, count in self.executed.items()
            if count is not None and count != result.predicted
        ]
        return replace(result, differences=tuple(self.found), not_compared=self._not_compared)


def _trace_differences(expected: traces.Trace, run: Run, made: Instrumented) -> list[str]:
    if run.trace is None:
        return ["there is no trace"]
    packed = made.memory.trace == "bits"
    bits = 8 * len(expected.stream) if expected.end is None else expected.end.bits
    try:
        difference = stream_difference(expected, token_stream(run.trace, bits, packed=packed))
    except SimulatorError as error:
        return [str(error)]
    return [] if difference is None else [difference]
