"""`simprof regress` as functions: record a baseline, check one.

Simulated counts are exact and repeatable, so a difference is a change of the program, of what it
is given, of the code that a mode adds, or of an algorithm; `causes` says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.experiments.regress.compare import (
    Check,
    CheckLimits,
    RunCheck,
    check_patterns,
    compare_runs,
)
from simprof.profiler.experiments.regress.file import Baseline, BaselineRun, Fact, Facts
from simprof.profiler.experiments.regress.measure import (
    Failures,
    MeasuringContext,
    Target,
    TimeSpentError,
    measure,
    recorded_targets,
    relative,
)
from simprof.profiler.experiments.suites.suite import ANY_STATUS
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.fingerprint import given_file_sha256
from simprof.profiler.request.request import ProgressCallback, SchemeOptions, Setting, TableChoice
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.cost_model import cost_version
from simprof.simulator.errors import SimulatorError, UsageError

_FILES = ("weights", "edge_profile")
_SHA = "_sha256"


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
    expected = {target.name: max(target.given.status, 0) for target in targets}
    failed = tuple(
        name
        for name, run in runs.items()
        if (run.ending["reason"], run.ending["status"]) != ("exit", expected[name])
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
            run = measure(target, context)
            reason, status = run.ending["reason"], run.ending["status"]
            # a suite says how its programs end: results of one that ends otherwise are worthless
            wanted = target.given.status
            if wanted not in (ANY_STATUS, status) and reason == "exit":
                raise SimulatorError(f"it ended with status {status}, not {wanted}")
            if wanted != ANY_STATUS and reason in ("signal", "fault"):
                raise SimulatorError(f"it was ended by a {reason} (status {status})")
            runs[target.name] = run
        except SimulatorError as error:
            failures[target.name] = error
    return runs, failures


def _baseline(settings: Mapping[str, Facts], runs: Mapping[str, BaselineRun]) -> Baseline:
    tool = {"simprof": OWN_VERSION, "unicorn": metadata.version("unicorn")}
    modes = {str(options["mode"]) for options in settings.values()}
    return Baseline(tool, {mode: cost_version(mode) for mode in modes}, settings, runs)


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


def describe(setting: Setting, directory: Path) -> Facts:
    """Return a setting as facts: the options that its mode reads.

    Files are told as they are found from `directory`, with their digests.

    Raises UsageError if a file cannot be read.
    """
    scheme, options = registry.definition(setting.mode), setting.options
    facts: dict[str, Fact] = {"mode": setting.mode}
    common: dict[str, object] = {
        "path_limit": options.path_limit,
        "weights": options.weights,
        "table": options.table,
    }
    values: dict[str, object] = {name: common[name] for name in scheme.reads}
    if scheme.guided:
        values["edge_profile"] = options.edge_profile
    values |= {option.name: option.of(options) for option in scheme.options.declared}
    for name, value in values.items():
        if isinstance(value, Path):
            facts[name] = f"file {relative(value, directory)}"
            facts[name + _SHA] = given_file_sha256(value)
        else:
            facts[name] = cast(Fact, value.value if isinstance(value, Enum) else value)
    return facts


_ENUMS: Mapping[str, type[str]] = {"weights": Weights, "table": TableChoice}
_COMMON: Mapping[str, type] = {"path_limit": int, "edge_profile": type(None), **_ENUMS}


def restore(name: str, facts: Facts, directory: Path) -> Setting:
    """Return the setting that `describe` described.

    Raises UsageError if this simprof knows no such mode or option, or a file that it names is not
    there.
    """
    try:
        mode = str(facts["mode"])
        if mode not in registry.modes():
            raise ValueError(f"{mode!r} is not a valid Mode")
        chosen = {
            option: _restored(option, value, directory)
            for option, value in facts.items()
            if option != "mode" and not option.endswith(_SHA)
        }
        return Setting(name, mode, SchemeOptions.of(**chosen))
    except ValueError as error:
        raise UsageError(
            f"setting {name} of the baseline cannot be restored ({error}): record it again"
        ) from None


def _restored(option: str, value: Fact, directory: Path) -> object:
    if option in _FILES and isinstance(value, str) and value.startswith("file "):
        return directory / value.removeprefix("file ")
    declared = {each.name: each.kind for each in registry.options()}
    kind = _COMMON.get(option) or declared.get(option)
    if kind is None:
        raise ValueError(f"there is no option {option}")
    if issubclass(kind, (Enum, Weights)) and isinstance(value, str):
        return kind(value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{option} is {value!r}")
    return value
