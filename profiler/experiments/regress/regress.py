"""`simprof regress` as functions: record a baseline, check one.

Simulated counts are exact and repeatable, so a difference is a change of the program, of what it
is given, of the code that a mode adds, or of an algorithm; `causes` says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import ClassVar, Literal

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
    FILE,
    OVERHEAD,
    Baseline,
    BaselineRun,
    Fact,
    Facts,
    SettingResult,
)
from simprof.profiler.experiments.regress.measure import (
    Failures,
    Target,
    TimeSpentError,
    measure,
    recorded_targets,
    relative,
)
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.fingerprint import given_file_sha256
from simprof.profiler.request.request import ProgressCallback, SchemeOptions, Setting
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.cost_model import cost_version
from simprof.profiler.schemes.definition import PLANNING
from simprof.profiler.session.observation import chosen_options, scheme_options
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
    error: ClassVar[None] = None  # A result of a run that could be made

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
    routines: ClassVar[tuple[RoutineChange, ...]] = ()  # They differ under a setting

    @property
    def differences(self) -> tuple[MetricChange, ...]:
        """What differs of the run itself."""
        return self.ending

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


def record(
    targets: Iterable[Target],
    settings: Sequence[Setting],
    directory: Path,  # Where the baseline will be: files are recorded as they are found from there
    progress: ProgressCallback | None = None,
    timeout: float | None = None,
) -> tuple[Baseline, Failures]:
    """Run all targets under all settings, each for `timeout` seconds at most.

    Return the baseline of those that ran, and why others did not.
    """
    described = {setting.name: describe(setting, directory) for setting in settings}
    runs, failures = dict[str, BaselineRun](), dict[str, SimulatorError]()
    for target in targets:
        try:
            runs[target.name] = measure(target, settings, directory, progress, timeout)
        except SimulatorError as error:
            failures[target.name] = error
    tool = {"simprof": OWN_VERSION, "unicorn": metadata.version("unicorn")}
    costs = {CODE + setting.mode: cost_version(setting.mode) for setting in settings}
    return Baseline(tool, costs, described, runs), failures


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
    targets, missing = recorded_targets(
        old.runs, directory, progress, allow_commands=allow_commands
    )
    new, failures = record(targets, settings, directory, progress, timeout)
    checks = {run.name: run for run in compare_runs(old, new, limits)} | {
        name: RunCheck(name, error=str(error), budget=isinstance(error, TimeSpentError))
        for name, error in (*missing.items(), *failures.items())
    }
    return Check(str(path), tuple(checks[name] for name in old.runs), new)


# -- settings as facts -----------------------------------------------------------------------------

_SHA = "_sha256"
_SHARED = {*PLANNING, "edge_profile"}  # Options that schemes do not declare


def describe(setting: Setting, directory: Path) -> Facts:
    """Return a setting as facts: the options that its mode reads.

    Files are told as they are found from `directory`, with their digests.

    Raises UsageError if a file cannot be read.
    """
    scheme, options = registry.definition(setting.mode), setting.options
    guiding = ("edge_profile",) if scheme.guided else ()
    own = (option.name for option in scheme.options.declared)
    values, facts = scheme_options(options), dict[str, Fact](mode=setting.mode)
    for name in (*scheme.reads, *guiding, *own):
        facts[name] = values[name]
        file = getattr(options, name, None)
        if isinstance(file, Path):
            facts[name] = f"{FILE}{relative(file, directory)}"
            facts[name + _SHA] = given_file_sha256(file)
    return facts


def restore(name: str, facts: Facts, directory: Path) -> Setting:
    """Return the setting that `describe` described.

    Raises UsageError if this simprof knows no such mode or option, or a file that it names is not
    there.
    """
    try:
        mode = str(facts["mode"])
        if mode not in registry.modes():
            raise ValueError(f"{mode!r} is not a valid Mode")
        known = {*_SHARED, *(option.name for option in registry.options())}
        fields = {each: facts[each] for each in facts if each != "mode" and not each.endswith(_SHA)}
        if unknown := fields.keys() - known:
            raise ValueError(f"there is no option {min(unknown)}")
        for each in ("weights", "edge_profile"):
            if str(fields.get(each)).startswith(FILE):
                fields[each] = str(directory / str(fields[each]).removeprefix(FILE))
        defaults = scheme_options(SchemeOptions())
        return Setting(
            name, mode, chosen_options({each: defaults[each] for each in _SHARED} | fields)
        )
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"setting {name} of the baseline cannot be restored ({error}): record it again"
        ) from None
