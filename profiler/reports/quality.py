"""Quality of profiles in reports: the true profile, and the measures against it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from msgspec import Struct

from simprof.profiler.profiles.judged import JudgedProfile, compare_profiles
from simprof.profiler.profiles.measures import HOT, MEASURES, PathFlow, Quality, quality
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import plural, share
from simprof.profiler.schemes.definition import JUDGE, ProfileKind
from simprof.profiler.schemes.registry import find
from simprof.simulator.errors import UsageError


def has_acyclic_paths(measurement: RunMeasurement) -> bool:
    """Whether the profile counts acyclic paths, which can be compared."""
    return mode_facts.collects(measurement) is ProfileKind.PATHS


def is_exact(measurement: RunMeasurement) -> bool:
    """Whether the profile tells all executions of whatever it collects."""
    scheme = find(measurement.mode)
    return scheme is not None and scheme.judge is None and not scheme.estimates


def is_truth(measurement: RunMeasurement) -> bool:
    """Whether other profiles can be judged by this one."""
    return has_acyclic_paths(measurement) and is_exact(measurement)


def judge(
    judged: RunMeasurement,
    truth: RunMeasurement,
    *,
    hot: float = HOT,
    flow: PathFlow = PathFlow.BRANCH,
) -> Quality:
    """Return how good a profile is by another one of the same program.

    Raises UsageError if the programs differ.
    """
    if judged.program.sha256 != truth.program.sha256:
        raise UsageError(
            f"{truth.program.file} is another program than {judged.program.file}: a profile is "
            "judged by one of the same program"
        )
    # Paths over several iterations, and traces, are exact, and are no acyclic paths.
    comparable = has_acyclic_paths(judged) or not tells_paths(judged)
    sides = [
        JudgedProfile(each, comparable and has_acyclic_paths(each)) for each in (truth, judged)
    ]
    estimate = mode_facts.estimates(judged)
    return quality(compare_profiles(*sides), truth.mode, estimate=estimate, hot=hot, flow=flow)


def tells_paths(measurement: RunMeasurement) -> bool:
    """Whether the profile is exact, and of paths or of the whole execution."""
    of_edges = mode_facts.collects(measurement) in (ProfileKind.EDGES, ProfileKind.BLOCKS)
    scheme = find(measurement.mode)
    told_apart = not of_edges or (scheme is not None and scheme.writes_paths)
    return told_apart and is_exact(measurement)


def known(
    measurement: RunMeasurement, among: Iterable[RunMeasurement] = ()
) -> tuple[float | None, float | None]:
    """Return accuracy and coverage, 1 of an exact path profile; None where they are not known.

    `among`: Measurements of the same run. Where a path profile is among them, it judges edge
    profiles.
    """
    if tells_paths(measurement):
        return 1.0, 1.0
    found = measurement.quality
    if found is None and _has_all_edges(measurement):
        of_run = (
            each for each in among if each.mode == JUDGE and _is_of_one_run(each, measurement)
        )
        truth = next(of_run, None)
        if truth is not None:  # profiles that were saved one by one have not been compared yet
            found = truth.edge_quality or judge(measurement, truth)
    return (None, None) if found is None else (found.accuracy, found.coverage)


def _has_all_edges(measurement: RunMeasurement) -> bool:
    is_of_edges = not has_acyclic_paths(measurement) and mode_facts.instruments(measurement)
    return is_of_edges and is_exact(measurement) and not measurement.lost.get("unknown_edges")


def _is_of_one_run(one: RunMeasurement, other: RunMeasurement) -> bool:
    """Whether two profiles are of the same execution, as far as they tell."""
    programs = [(each.program.sha256, each.program.arguments) for each in (one, other)]
    inputs = [(each.input_sha256, each.base, each.runs) for each in (one, other)]
    return programs[0] == programs[1] and inputs[0] == inputs[1]


def cells(measurement: RunMeasurement, among: Iterable[RunMeasurement] = ()) -> tuple[str, str]:
    """Return accuracy and coverage for a row of a table: "-" where they are not known."""
    if tells_paths(measurement):
        return "exact", "exact"
    accuracy, coverage = known(measurement, among)
    return in_percent(accuracy), in_percent(coverage)


def in_percent(value: float | None) -> str:
    """Return a share in percent, "-" where it is not known."""
    return "-" if value is None else share(value)


class PairQuality(Struct, frozen=True):
    """How good two profiles are."""

    truth: str  # "before", "after", or the file of a third profile
    # before, after: None for the truth itself.
    before: Quality | None = None
    after: Quality | None = None

    def as_json(self) -> dict[str, object]:
        """Return its fields, without that of the truth."""
        sides = {"before": self.before, "after": self.after}
        found = {name: each.as_json() for name, each in sides.items() if each is not None}
        return {"truth": self.truth, **found}


def judge_pair(
    before: RunMeasurement,
    after: RunMeasurement,
    truth: tuple[str, RunMeasurement] | None = None,  # A third profile, and the name of its file
    *,
    hot: float = HOT,
    flow: PathFlow = PathFlow.BRANCH,
) -> PairQuality | None:
    """Judge two profiles by a third, or else one by the other; None where they are of two builds.

    Raises UsageError if the third is of another program than one of the others.
    """
    by = partial(judge, hot=hot, flow=flow)
    if truth is not None:
        return PairQuality(truth[0], by(before, truth[1]), by(after, truth[1]))
    if before.program.sha256 != after.program.sha256:
        return None
    if is_truth(after) and not is_truth(before):
        return PairQuality("after", before=by(before, after))
    return PairQuality("before", after=by(after, before))


def verdict_table(verdict: PairQuality) -> layout.Table:
    """List the measures of both profiles."""
    sides = {"before": verdict.before, "after": verdict.after}
    judged = {name: each for name, each in sides.items() if each is not None}
    table = layout.columns(layout.text("measure"), *map(layout.number, judged))
    for name, title in MEASURES.items():
        values = [getattr(each, name) for each in judged.values()]
        if any(value is not None for value in values):
            table.add_row(title, *map(in_percent, values))
    return table


def verdict_note(verdict: PairQuality) -> str:
    """Say what the table of a verdict is relative to."""
    found = next(each for each in (verdict.before, verdict.after) if each is not None)
    if found.accuracy is None:
        return ""
    weights = {
        PathFlow.UNIT: "one",
        PathFlow.BRANCH: "as many as it passes blocks with several successors",
        PathFlow.BLOCK: "as many as it has blocks",
    }
    return (
        f"Hot: {plural(found.hot_paths, 'path')} with more than {found.hot:g} % of all flow each; "
        f"an execution weighs {weights[found.flow]}."
    )
