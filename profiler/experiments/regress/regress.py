"""`simprof regress` as functions: record a baseline, check one.

Simulated counts are exact and repeatable, so a difference is a change of the program, of what it
is given, of the code that a mode adds, or of an algorithm; `causes` says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.experiments.regress.causes import (
    UNEXPLAINED,
    ChangeCause,
    RoutineChange,
    routine_changes,
    run_causes,
    setting_causes,
)
from simprof.profiler.experiments.regress.file import (
    CODE,
    OVERHEAD,
    Baseline,
    BaselineRun,
    Facts,
    SettingResult,
)
from simprof.profiler.experiments.regress.measure import (
    Failures,
    MeasuringContext,
    Target,
    TimeSpentError,
    describe,
    measure,
    recorded_targets,
    restore,
)
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.request.request import ProgressCallback, Setting
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes.cost_model import cost_version
from simprof.simulator.errors import SimulatorError, UsageError

# -- two baselines compared ------------------------------------------------------------------------

Number = int | Fraction
State = Literal["same", "within limits", "above maximum", "changed", "error"]


class Limit(Struct, frozen=True):
    """How far metrics may move."""

    pattern: str  # Glob of "METRIC", "SETTING/METRIC" or "RUN/SETTING/METRIC"
    percent: Fraction  # Of the baseline's value
    growth: bool = False  # Whether only growth is limited


class Ceiling(Struct, frozen=True):
    """What metrics that match `pattern` (as in `Limit`) may never exceed."""

    pattern: str
    value: Fraction


class CheckLimits(Struct, frozen=True):
    """All limits of a check."""

    # For metrics without a limit of their own; None: they may move as they like, because `limits`
    # and `ceilings` are about all that matters.
    tolerance: Limit | None = Limit("*", Fraction(0))
    limits: tuple[Limit, ...] = ()  # The last that matches counts
    ceilings: tuple[Ceiling, ...] = ()
    # Whether a changed program, input, cost model, setting or plan is a difference in itself
    strict: bool = False
    ignore_output: bool = False  # Whether programs may write something else than they did

    @property
    def exact(self) -> bool:
        """Whether nothing may move, so that routines are compared as well."""
        return self.tolerance == Limit("*", Fraction(0)) and not self.limits

    def of(self, names: Sequence[str]) -> Limit | None:
        """Return the limit of the metric with these names, None where it has none.

        The overhead follows from two other metrics, so `tolerance` is not about it.
        """
        for limit in reversed(self.limits):
            if any(fnmatchcase(name, limit.pattern) for name in names):
                return limit
        return None if names[0] == OVERHEAD else self.tolerance

    def ceiling(self, names: Sequence[str]) -> Fraction | None:
        """Return the least ceiling of the metric with these names."""
        ceilings = [
            ceiling.value
            for ceiling in self.ceilings
            if any(fnmatchcase(name, ceiling.pattern) for name in names)
        ]
        return min(ceilings, default=None)


class MetricChange(Struct, frozen=True):
    """A metric that moved or is above its ceiling, or a fact that changed."""

    metric: str  # Its name: of `SettingResult.metrics`, "overhead", "reason", "status", "output".
    # baseline, now: None where there was or is no such metric.
    baseline: Number | str | None
    now: Number | str | None
    allowed: str  # For people: "exact", "1 %", "at most 5".
    exceeded: bool  # Whether it is beyond that

    @property
    def moved(self) -> bool:
        """Whether it is another value than the baseline's."""
        return self.baseline != self.now

    @property
    def percent(self) -> Fraction | None:
        """By how much it grew, in percent of the old value; None where that means nothing."""
        if isinstance(self.baseline, str) or isinstance(self.now, str) or not self.baseline:
            return None
        return None if self.now is None else Fraction(100 * self.now) / self.baseline - 100


class SettingCheck(Struct, frozen=True):
    """One run under one setting, compared."""

    name: str
    differences: tuple[MetricChange, ...]  # Totals
    routines: tuple[RoutineChange, ...]  # Routines that differ
    causes: tuple[ChangeCause, ...]  # What changed that can explain it: also where nothing differs.
    failed: bool

    @property
    def state(self) -> State:
        """In a word."""
        if self.differences and not self.moved:
            return "above maximum"
        if self.failed:
            return "changed"
        return "within limits" if self.moved else "same"

    @property
    def moved(self) -> bool:
        """Whether any count is another than the baseline's."""
        totals = any(difference.moved for difference in self.differences)
        return totals or any(routine.counts_differ for routine in self.routines)


class RunCheck(Struct, frozen=True):
    """One run compared."""

    name: str
    error: str | None = None  # Why it could not be; nothing else is there then.
    budget: bool = False  # Whether that is a limit that was reached
    ending: tuple[MetricChange, ...] = ()  # How it ended and what it wrote, where that differs
    settings: tuple[SettingCheck, ...] = ()
    causes: tuple[ChangeCause, ...] = ()  # What changed about program, input and tools

    @property
    def state(self) -> State:
        """In a word."""
        if self.error is not None:
            return "error"
        if self.ending:
            return "changed"
        states = {setting.state for setting in self.settings}
        worst: tuple[State, ...] = "changed", "above maximum", "within limits"
        return next((state for state in worst if state in states), "same")


class Check(Struct, frozen=True):
    """A baseline compared with what its programs count now."""

    baseline: str  # Its file, for people
    runs: tuple[RunCheck, ...]
    now: Baseline  # What the programs that could be run count now

    @property
    def status(self) -> int:
        """Exit status: 0 same, 1 changed, 124 a limit was reached, 125 error."""
        errors = [run for run in self.runs if run.error is not None]
        if errors:
            return 124 if all(run.budget for run in errors) else 125
        return int(any(run.state in ("changed", "above maximum") for run in self.runs))

    @property
    def compared(self) -> int:
        """How many results were compared."""
        return sum(len(run.settings) for run in self.runs)


def compare_runs(old: Baseline, new: Baseline, limits: CheckLimits) -> Iterator[RunCheck]:
    """Compare the runs of `new` with those of the same names in `old`."""
    for name, run in new.runs.items():
        before = old.runs[name]
        causes = tuple(run_causes(old, new, before, run))
        ending = tuple(
            MetricChange(fact, str(before.ending[fact]), str(run.ending[fact]), "exact", True)
            for fact in ("reason", "status", *(() if limits.ignore_output else ("output",)))
            if before.ending[fact] != run.ending[fact]
        )
        settings = tuple(
            _compare_setting((name, setting), old, new, causes, limits) for setting in run.results
        )
        if ending and not causes:
            causes = (UNEXPLAINED,)
        yield RunCheck(name, ending=ending, settings=settings, causes=causes)


def _compare_setting(
    names: tuple[str, str],
    old: Baseline,
    new: Baseline,
    causes: tuple[ChangeCause, ...],
    limits: CheckLimits,
) -> SettingCheck:
    run, setting = names
    before, after = old.runs[run], new.runs[run]
    one, two = before.results[setting], after.results[setting]
    differences = tuple(_differences(one, two, names, limits))
    same_program = before.program["sha256"] == after.program["sha256"]
    routines = tuple(routine_changes(one, two, same_program, after.lines))
    all_causes = (*causes, *setting_causes(setting, old, new, routines, causes))
    counts_moved = any(routine.counts_differ for routine in routines)
    if (counts_moved or any(each.moved for each in differences)) and not all_causes:
        all_causes = (UNEXPLAINED,)
    failed = (
        any(difference.exceeded for difference in differences)
        or (limits.exact and counts_moved)
        or (limits.strict and bool(all_causes))
    )
    return SettingCheck(setting, differences, routines, all_causes, failed)


def _differences(
    old: SettingResult, new: SettingResult, names: tuple[str, str], limits: CheckLimits
) -> Iterator[MetricChange]:
    known = dict.fromkeys(["base", "added", *sorted({*old.metrics, *new.metrics}), OVERHEAD])
    for metric in known:
        before, after = old.metric(metric), new.metric(metric)
        aliases = metric_names(names[0], names[1], metric)
        limit, ceiling = limits.of(aliases), limits.ceiling(aliases)
        if ceiling is not None and after is not None and after > ceiling:
            shown = float(ceiling)
            most = f"{100 * shown:.15g} %" if metric == OVERHEAD else f"{shown:.15g}"
            yield MetricChange(metric, before, after, f"at most {most}", True)
        elif before != after and limit is not None:
            yield MetricChange(metric, before, after, _shown(limit), _beyond(before, after, limit))
        elif before != after and limits.tolerance is None:
            yield MetricChange(metric, before, after, "any", False)


def metric_names(run: str, setting: str, metric: str) -> tuple[str, str, str]:
    """Return the names that patterns of limits are compared with."""
    return metric, f"{setting}/{metric}", f"{run}/{setting}/{metric}"


def _shown(limit: Limit) -> str:
    if not limit.percent:
        return "no growth" if limit.growth else "exact"
    return f"{'+' if limit.growth else ''}{float(limit.percent):.15g} %"


def _beyond(old: Number | None, new: Number | None, limit: Limit) -> bool:
    before, after = Fraction(old or 0), Fraction(new or 0)
    change = after - before
    if limit.growth and change <= 0:
        return False
    appeared = not change and old != new  # a metric of 0, and no such metric
    return appeared or abs(change) * 100 > limit.percent * abs(before)


def check_patterns(baseline: Baseline, limits: CheckLimits) -> None:
    """Check that every limit is about something.

    Raises UsageError naming a pattern that matches no metric of the baseline.
    """
    names = {
        alias
        for name, run in baseline.runs.items()
        for setting, result in run.results.items()
        for metric in (*result.metrics, OVERHEAD)
        for alias in metric_names(name, setting, metric)
    }
    patterns = [limit.pattern for limit in limits.limits]
    patterns += [ceiling.pattern for ceiling in limits.ceilings]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(
                f"{pattern!r} matches no metric of the baseline: name one such as added, "
                "overhead, pp/counts.path_increments or 'counts.*'"
            )


# -- recording and checking ------------------------------------------------------------------------


class BaselineRecording(Struct, frozen=True):
    """What `record` made."""

    baseline: Baseline  # Of the programs that ran
    failures: Failures  # Name -> one line, of those that did not
    # Names of runs of programs that failed: their exit status is not 0, or they ended otherwise.
    # Programs of suites are not among them where a suite says which status to expect.
    failed: tuple[str, ...]
    # What kept a lone program from being run, None where there were more or it was
    error: SimulatorError | None = None


def record(
    targets: Sequence[Target],
    settings: Sequence[Setting],
    directory: Path,  # Where the baseline will be
    progress: ProgressCallback | None = None,
    timeout: float | None = None,
) -> BaselineRecording:
    """Run all targets under all settings, each for `timeout` seconds at most."""
    described = {setting.name: describe(setting, directory) for setting in settings}
    context = MeasuringContext(tuple(settings), directory, timeout, progress)
    runs, failures = _measure_all(targets, context)
    expected = {target.name: ("exit", max(target.given.status, 0)) for target in targets}
    failed = tuple(
        name
        for name, run in runs.items()
        if (run.ending["reason"], run.ending["status"]) != expected[name]
    )
    reasons = {name: str(error) for name, error in failures.items()}
    lone = next(iter(failures.values())) if len(targets) == len(failures) == 1 else None
    return BaselineRecording(_baseline(described, runs), reasons, failed, lone)


def _measure_all(
    targets: Iterable[Target], context: MeasuringContext
) -> tuple[dict[str, BaselineRun], dict[str, SimulatorError]]:
    runs, failures = {}, {}
    for target in targets:
        try:
            runs[target.name] = measure(target, context)
        except SimulatorError as error:
            failures[target.name] = error
    return runs, failures


def _baseline(settings: Mapping[str, Facts], runs: Mapping[str, BaselineRun]) -> Baseline:
    tool = {"simprof": OWN_VERSION, "unicorn": metadata.version("unicorn")}
    modes = {str(options["mode"]) for options in settings.values()}
    return Baseline(tool, {CODE + mode: cost_version(mode) for mode in modes}, settings, runs)


def check(
    old: Baseline,
    path: Path,
    limits: CheckLimits,
    *,
    # Source of edge weights in place of the recorded one; None: that.
    weights: Weights | Path | None = None,
    timeout: float | None = None,  # Seconds for each program
    # Whether suites' files that do not come with simprof may have commands executed.
    allow_commands: bool = False,
    progress: ProgressCallback | None = None,
) -> Check:
    """Run the programs of the baseline at `path` again and compare.

    Raises UsageError if a limit is about nothing, or a file that a setting names is not there.
    """
    check_patterns(old, limits)
    directory = path.resolve().parent
    settings = tuple(restore(name, facts, directory) for name, facts in old.settings.items())
    if weights is not None:
        settings = tuple(
            replace(each, options=replace(each.options, weights=weights)) for each in settings
        )
    described = {setting.name: describe(setting, directory) for setting in settings}
    targets, missing = recorded_targets(
        old.runs, directory, progress, allow_commands=allow_commands
    )
    context = MeasuringContext(settings, directory, timeout, progress)
    runs, failures = _measure_all(targets, context)
    new = _baseline(described, runs)
    checks = {run.name: run for run in compare_runs(old, new, limits)}
    errors = {name: RunCheck(name, error=reason) for name, reason in missing.items()} | {
        name: RunCheck(name, error=str(error), budget=isinstance(error, TimeSpentError))
        for name, error in failures.items()
    }
    return Check(str(path), tuple((checks | errors)[name] for name in old.runs), new)
