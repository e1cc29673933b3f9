"""Parts of reports that only some modes have: kinds of paths, sizes, losses."""

from __future__ import annotations

from collections.abc import Iterator

from simprof.profiler.profiles.profile import INFERRED, Measurement
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.layout import Kind
from simprof.profiler.reports.numbers import group_digits, percent, plural, share
from simprof.profiler.reports.tables import Table, grid

SIZE_NAMES = {
    "counter_bytes": "bytes of counters",
    "snippets": "instrumentation sites",
    "code_bytes": "bytes of code added",
    "trace_bytes": "bytes of trace",
    "minimal_trace_bytes": "bytes of trace with tokens of as few bits as possible",
}


NEGATIVE = "misplaced flow counts as both, so that it can be negative"
"""Why attribution, a share by its name, is none."""


def path_kinds(measurement: Measurement) -> Table | None:
    """List executions of paths by how they are known; None in modes that collect none."""
    if not mode_facts.collects_paths(measurement):
        return None
    shares = mode_facts.path_shares(measurement)
    table = grid(Kind.NUMBER, Kind.TEXT)
    rows = [
        (shares.counted, "path executions, each counted"),
        (shares.obvious, "of obvious paths (determined by the edge profile)"),
        (shares.cold, "of cold paths, counted together"),
        (shares.unfinished, "unfinished: their activation ended early"),
        (shares.repeating, "of those finished pass a block more than once"),
    ]
    for count, text in rows:
        if count:
            table.add_row(count, f"{text} ({percent(count, shares.total)})")
    if shares.total:
        table.add_row(shares.different, "different paths")
    if shares.elsewhere:
        table.add_row(shares.elsewhere, f"of obvious paths {_by_another_run(measurement)}")
    return table


def _by_another_run(measurement: Measurement) -> str:
    guide = mode_facts.guide_text(measurement.guide)
    return f"(determined by {guide}: counts of the run that made it, not of this one)"


def guide_price(measurement: Measurement) -> str:
    """Say what collecting an edge profile costs, which a guided scheme needs; empty if unknown."""
    guide = measurement.guide
    if guide is None or guide.added is None:
        return ""
    paid = "" if guide.same_run else f"; that of {mode_facts.guide_text(guide)} cost its own run"
    return (
        f"{plural(guide.added, 'instruction')} ({percent(guide.added, measurement.base)}) to "
        f"collect one of this run under {guide.mode}, not in added{paid}"
    )


def sizes(measurement: Measurement) -> Table:
    """List what the mode takes besides instructions."""
    table = grid(Kind.NUMBER, Kind.TEXT)
    for name, size in mode_facts.sizes(measurement).items():
        if name in SIZE_NAMES and size:
            table.add_row(size, SIZE_NAMES[name])
    return table


def losses(measurement: Measurement) -> Table:
    """Say what the mode lost."""
    table = grid()
    for name, text in lost(measurement):
        table.add_row(name, text)
    return table


def lost(measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Yield what the mode lost, each with what it is about."""
    judged = mode_facts.attribution(measurement)
    if judged is not None:
        yield (
            "overlap with pp",
            f"{share(judged.overlap)} (flow on which both agree, of the larger profile)",
        )
        negative = f"; {NEGATIVE}" if judged.attributed < 0 else ""
        yield (
            "attribution",
            f"{share(judged.attributed)} (AoDF: 100 % less {share(judged.overcount)} "
            f"overcounted, {share(judged.undercount)} undercounted{negative})",
        )
        guide = measurement.guide
        if guide is not None and not guide.same_run and measurement.counts.get("inferred_paths"):
            yield (
                "",
                f"both judge the counts that {mode_facts.guide_text(guide)} determines as if they "
                "were this run's",
            )
    named = measurement.lost
    for loss in mode_facts.losses(measurement):
        if count := named.get(loss.name):
            share_of_all = ""
            if loss.of_paths:
                total = mode_facts.path_shares(measurement).total
                share_of_all = f" ({percent(count, total)})"
            yield loss.about, f"{plural(count, loss.unit)}{share_of_all} {loss.text}"
        if count := named.get(f"{INFERRED}{loss.name}"):
            told = _by_another_run(measurement)
            yield loss.about, f"{plural(count, loss.unit)} {loss.text} {told}"
    if edges := named.get("unknown_edges"):
        total = sum(routine.edges for routine in measurement.routines)
        yield (
            "edges",
            f"edge counts cannot be derived from block counts in some routines "
            f"({group_digits(edges)} of {plural(total, 'edge')})",
        )
