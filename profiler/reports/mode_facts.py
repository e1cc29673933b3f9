"""Texts about modes in reports, and numbers derived from a measurement's.

Nothing here knows how a scheme works; `docs/MODES.md` tells that.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from simprof.profiler.profiles.measures import Attribution, Quality
from simprof.profiler.profiles.profile import INFERRED, Guide, PathCount, RunMeasurement
from simprof.profiler.profiles.tables import executed_paths
from simprof.profiler.reports.display import brief, group_digits, percent, plural, share
from simprof.profiler.reports.tables import CellAlignment, Table, columns, grid, number, text
from simprof.profiler.schemes.definition import Loss, ProfileKind
from simprof.profiler.schemes.mode_options import measured_setting
from simprof.profiler.schemes.registry import find

INSTRUCTION_BYTES = 4  # Every SPARC instruction is a word.
# The name of a setting, and what it measured: a row of a comparison
NamedMeasurement = tuple[str, RunMeasurement]


def collects(measurement: RunMeasurement) -> ProfileKind:
    """Return what the mode collects; edges where this simprof does not have the scheme."""
    scheme = find(measurement.mode)
    return ProfileKind.EDGES if scheme is None else scheme.collected(measurement.options)


def collects_paths(measurement: RunMeasurement) -> bool:
    """Whether the profile is one of paths, though none may have been executed."""
    if (scheme := find(measurement.mode)) is not None:
        return scheme.counts_paths
    return any(routine.path_counts for routine in measurement.routines)


def instruments(measurement: RunMeasurement) -> bool:
    """Whether the mode adds code, though none of it may have been executed."""
    scheme = find(measurement.mode)
    return measurement.added > 0 or scheme is None or scheme.instruments


def estimates(measurement: RunMeasurement) -> bool:
    """Whether what the mode reads of its counters is an estimate."""
    scheme = find(measurement.mode)
    return scheme is not None and scheme.estimates


def counts_blocks(measurement: RunMeasurement) -> bool:
    """Whether the profile is one of blocks."""
    return collects(measurement) is ProfileKind.BLOCKS


def setting_name(measurement: RunMeasurement) -> str:
    """Return the mode with its options, those left out that have their defaults: `kiter:k=3`."""
    return measured_setting(measurement.mode, measurement.options)


def description(measurement: RunMeasurement) -> str:
    """Return the mode with its options and what it does."""
    scheme = find(measurement.mode)
    said = "" if scheme is None else f": {scheme.description}"
    return f"{setting_name(measurement)}{said}"


def guide_text(guide: Guide | None) -> str:
    """Return what reports call the profile that guided a scheme."""
    if guide is None:
        return "the edge profile"
    if guide.first:
        return f"the {guide.kind} of {guide}"
    if guide.file is None:
        run = "this same run" if guide.same_run else BEFORE
        return f"the {guide.kind} of {run}"
    told = f"the {guide.kind} {guide.file}"
    return f"{told} (with the counts of this same run)" if guide.same_run else told


def guide_name(guide: Guide) -> str:
    """Return what the head of a report calls the profile that guided a scheme."""
    if guide.file is None and guide.same_run and not guide.first:
        return f"this run's own {guide.kind} (best case)"
    article = "a" if guide.of_paths else "an"
    return f"{article} {guide.kind} of {guided_by(guide)}"


BEFORE = "the run that `simprof instrument` made"
UPPER_BOUND = "this same run (best case)"


def guided_by(guide: Guide) -> str:
    """Return what guided a scheme, and how far its price can be trusted for that."""
    if guide.first:
        return str(guide)
    if guide.file is None:
        return UPPER_BOUND if guide.same_run else BEFORE
    told = f"with the counts of {UPPER_BOUND}" if guide.same_run else "of another run"
    return f"{guide.file}, {told}"


def losses(measurement: RunMeasurement) -> tuple[Loss, ...]:
    """Return what the mode can lose."""
    scheme = find(measurement.mode)
    return () if scheme is None else scheme.losses


def increments(measurement: RunMeasurement) -> int:
    """Return how often counters were incremented, or pairs of logging calls made."""
    counts = measurement.counts
    return counts.get("path_increments", 0) + counts.get("edge_increments", 0)


def sizes(measurement: RunMeasurement) -> dict[str, int]:
    """Return the sizes by name, those in other units added that follow from a measurement's.

    The code of snippets is also counted in instructions, traces also in whole bytes.
    """
    named = dict(measurement.sizes)
    if "code_bytes" in named:
        named["snippet_instructions"] = named["code_bytes"] // INSTRUCTION_BYTES
    for name in ("trace", "minimal_trace", "address"):
        if f"{name}_bits" in named:
            named[f"{name}_bytes"] = -(-named[f"{name}_bits"] // 8)
    return named


def attribution(measurement: RunMeasurement) -> Attribution | None:
    """Return how much of the exact path profile this one tells; None where nothing judges it."""
    lost = measurement.lost
    flow = lost.get("flow_blocks")
    if not flow:
        return None
    return Attribution(flow, lost.get("overcounted_blocks", 0), lost.get("undercounted_blocks", 0))


class PathShares(Struct, frozen=True):
    """Executions of paths by how they are known."""

    counted: int  # Each by a counter of its own; `different` of them and of the obvious ones.
    different: int
    obvious: int  # Determined by the edge profile, where that is of this run
    # The same where it is of another run, whose executions these are: in no other number.
    elsewhere: int
    lost: tuple[tuple[Loss, int], ...]  # Those that have no count of their own, by what is lost
    unfinished: int  # Prefixes of paths whose activation ended early
    repeating: int  # How many of the finished executions passed a block more than once
    total: int  # Unfinished ones included; `overcounted` ones are in two counts.


def path_shares(measurement: RunMeasurement) -> PathShares:
    """Add up the path counts of all routines."""
    every = [path for routine in measurement.routines for path in routine.path_counts]
    paths = [path for path in every if not measurement.is_of_another_run(path)]
    whole = [path for path in paths if not path.partial]
    finished = sum(path.count for path in whole)
    unfinished = sum(path.count for path in paths) - finished
    elsewhere = sum(path.count for path in every) - finished - unfinished
    obvious = measurement.counts.get("inferred_paths", 0) - elsewhere
    of_paths = (loss for loss in losses(measurement) if loss.of_paths)
    lost = tuple((loss, measurement.lost.get(loss.name, 0)) for loss in of_paths)
    overcounted = measurement.lost.get("overcounted_paths", 0)
    return PathShares(
        counted=finished - obvious,
        different=sum(path.count > 0 for path in whole),
        obvious=obvious,
        elsewhere=elsewhere,
        lost=lost,
        unfinished=unfinished,
        repeating=sum(path.count for path in whole if _repeats_a_block(path)),
        total=finished + sum(count for _, count in lost) + unfinished - overcounted,
    )


def _repeats_a_block(path: PathCount) -> bool:
    vertices = {(start, place in path.slots) for place, start in enumerate(path.blocks)}
    return len(vertices) < len(path.blocks)


SIZE_NAMES = {
    "counter_bytes": "bytes of counters",
    "snippets": "instrumentation sites",
    "code_bytes": "bytes of code added",
    "trace_bytes": "bytes of trace",
    "minimal_trace_bytes": "bytes of trace with tokens of as few bits as possible",
    "address_bytes": "bytes of addresses of data, in a file of their own",
}


def path_kinds(measurement: RunMeasurement) -> Table | None:
    """List executions of paths by how they are known; None in modes that collect none."""
    if not collects_paths(measurement):
        return None
    shares = path_shares(measurement)
    table = grid(CellAlignment.NUMBER, CellAlignment.TEXT)
    rows = [
        (shares.counted, "path executions, each counted"),
        (shares.obvious, "of obvious paths (determined by the edge profile)"),
        *((count, f"of {loss.about}, {loss.text}") for loss, count in shares.lost),
        (shares.unfinished, "unfinished: their activation ended early"),
        (shares.repeating, "of those finished pass a block more than once"),
    ]
    for count, said in rows:
        if count:
            table.add_row(count, f"{said} ({percent(count, shares.total)})")
    if shares.total:
        table.add_row(shares.different, "different paths")
    if shares.elsewhere:
        table.add_row(shares.elsewhere, f"of obvious paths {_by_another_run(measurement)}")
    return table


def path_coverage(measurement: RunMeasurement) -> Table | None:
    """Say how many of their paths routines with few paths executed, and those with many; None where
    no paths are counted.
    """
    # EPP 1: testing path coverage is feasible where routines have few paths, and most have.
    sums: dict[int, list[int]] = {}  # digits of the most paths -> routines, paths, executed, whole
    for routine in measurement.routines:
        executed, paths = executed_paths(measurement, routine), routine.numbered_paths
        if routine.ran and executed is not None and paths:
            row = sums.setdefault(len(str(paths - 1)) if paths > 1 else 0, [0, 0, 0, 0])
            for at, more in enumerate((1, paths, executed, executed == paths)):
                row[at] += more
    if not sums:
        return None
    table = columns(
        text("paths of a routine"),
        *map(number, ("routines", "covered", "paths", "executed", "coverage")),
    )
    rows = [(_up_to(digits), sums[digits]) for digits in sorted(sums)]
    if len(rows) > 1:
        rows.append(("all", [sum(each) for each in zip(*sums.values(), strict=True)]))
    for name, (count, paths, executed, whole) in rows:
        table.add_row(name, count, whole, paths, executed, percent(executed, paths))
    return table


def _up_to(digits: int) -> str:
    """Name the numbers of paths up to a power of ten, from the one before it on."""
    if digits < 2:
        return ("1", "2 to 10")[digits]
    if digits <= 9:
        return f"{group_digits(10 ** (digits - 1) + 1)} to {group_digits(10**digits)}"
    return f"up to 10^{digits}"


def _by_another_run(measurement: RunMeasurement) -> str:
    guide = guide_text(measurement.guide)
    return f"(determined by {guide}: counts of the run that made it, not of this one)"


def guide_price(measurement: RunMeasurement) -> str:
    """Say what collecting the profile costs that a guided scheme needs; empty if unknown."""
    guide = measurement.guide
    if guide is None or guide.added is None:
        return ""
    what = "its guide" if guide.same_run or guide.first else f"such an {guide.kind} of this run"
    return f"{percent(guide.added, measurement.base)} to collect {what} with {guide.mode}"


def sizes_table(measurement: RunMeasurement) -> Table:
    """List what the mode takes besides instructions."""
    rows = [(size, SIZE_NAMES[name]) for name, size in shown_sizes(measurement).items()]
    return grid(CellAlignment.NUMBER, CellAlignment.TEXT, rows=rows)


def shown_sizes(measurement: RunMeasurement) -> dict[str, int]:
    """Return the sizes that are something, and that `SIZE_NAMES` has."""
    return {name: n for name, n in sizes(measurement).items() if n and name in SIZE_NAMES}


def lost(measurement: RunMeasurement, *, measures: bool = True) -> Iterator[tuple[str, str]]:
    """Yield what the mode lost, each with what it is about; `measures`: also how much in all."""
    judged = attribution(measurement)
    if not measures:
        pass
    elif judged is not None:
        if judged.overlap < 1:
            yield "overlap with pp", f"{share(judged.overlap)} of path flow"
        if judged.overcount or judged.undercount:
            told = (
                f"{share(judged.attributed)} ({share(judged.overcount)} overcounted, "
                f"{share(judged.undercount)} undercounted"
            )
            if judged.attributed < 0:
                told += "; misplaced flow counts as both, so that it can be negative"
            yield "AoDF", f"{told})"
        guide = measurement.guide
        if guide is not None and not guide.same_run and measurement.counts.get("inferred_paths"):
            told = f"both judge the counts that {guide_text(guide)} determines as if they "
            yield "", told + "were this run's"
    elif measurement.quality is not None:
        yield from _estimated(measurement.quality)
    named = measurement.lost
    for loss in losses(measurement):
        if count := named.get(loss.name):
            total = path_shares(measurement).total if loss.of_paths else 0
            share_of_all = f" ({percent(count, total)})" if loss.of_paths else ""
            yield loss.about, f"{plural(count, loss.unit)}{share_of_all} {loss.text}"
        if count := named.get(f"{INFERRED}{loss.name}"):
            told = _by_another_run(measurement)
            yield loss.about, f"{plural(count, loss.unit)} {loss.text} {told}"
    yield from _limited_loops(measurement)
    if edges := named.get("unknown_edges"):
        total = sum(routine.edges for routine in measurement.routines)
        told = "an estimate" if estimates(measurement) else "counters of some edges"
        told = "block counts" if counts_blocks(measurement) else told
        told = "counters of paths" if collects_paths(measurement) else told
        some = "" if edges == total or "some" in told else " in some routines"
        of_all = f"({group_digits(edges)} of {plural(total, 'edge')})"
        of_all = f"(all {plural(total, 'edge')})" if edges == total else of_all
        yield "edges", f"edge counts cannot be derived from {told}{some} {of_all}"


def _estimated(quality: Quality) -> Iterator[tuple[str, str]]:
    """Yield how good an estimate is, which has a part of the executions."""
    if quality.overlap is not None:
        yield f"overlap with {quality.truth}", f"{share(quality.overlap)} of path executions"
    if quality.accuracy is not None:
        told = f"{share(quality.accuracy)} of the hot paths' flow"
        yield "accuracy", f"{told} ({plural(quality.hot_paths, 'hot path')})"


LOOPS_NAMED = 3  # Limited loops that reports name; all are in the JSON.


def _limited_loops(measurement: RunMeasurement) -> Iterator[tuple[str, str]]:
    """Yield in which executed routines paths span fewer iterations than were asked for."""
    limited = [
        f"{brief(routine.name)} {loop}"
        for routine in measurement.routines
        if routine.ran
        for loop in routine.limited_loops
    ]
    if limited:
        more = len(limited) - LOOPS_NAMED
        named = [*limited[:LOOPS_NAMED], *([f"{group_digits(more)} more"] if more > 0 else [])]
        told = f"fewer than asked for in {plural(len(limited), 'loop')}: {'; '.join(named)}"
        yield "iterations", told
