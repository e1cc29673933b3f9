"""A comparison of schemes for people: what `simprof compare` prints on stderr.

Sections: what ran; one row a mode, the cheapest first, with its overhead and the routine where most
of it is spent; what guided modes that a profile guides, and the price of that; with details all
costs, and the traces; the hottest paths, which are the program's and no mode's, once; what modes
lose; warnings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from simprof.profiler.profiles.codec import json_line
from simprof.profiler.profiles.documents import result_head
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.reports import hot_tables, mode_facts, quality, run_json, run_text
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import group_digits, percent, plural
from simprof.profiler.reports.hot_tables import names_of
from simprof.profiler.reports.mode_facts import NamedMeasurement
from simprof.profiler.schemes.definition import ProfileKind
from simprof.simulator.binary.program import LineTable, SourceLine

QUALITY = ("accuracy", "coverage")  # Of hot paths, and of all (`measures`)
ROUTINES = 1  # Routines named for each mode, where the user has not said how many.
NOT_MEASURED = "not measured: see below"  # In the row of a mode whose counters do not fit
NOTHING_REFUSED: Mapping[str, str] = MappingProxyType({})
MORE = "--details: increments, sizes, traces; --top N: N routines a mode, N paths"
# What rows are sorted by (`--sort`) -> the value of a row, of which the least is the first
Value = Callable[[RunMeasurement, Sequence[RunMeasurement]], Any]
SORTS: Mapping[str, Value] = MappingProxyType(
    {
        "overhead": lambda measurement, _: measurement.added,
        "accuracy": lambda *row: -(quality.known(*row)[0] or 0),
        "coverage": lambda *row: -(quality.known(*row)[1] or 0),
        "mode": lambda measurement, _: mode_facts.setting_name(measurement),
        "given": lambda *_: 0,
    }
)
SORTED = "overhead"


def render_text(
    rows: Sequence[NamedMeasurement],
    emulations: int,
    whole: int,
    width: int = 100,
    color: bool = False,
    top: int | None = None,
    details: bool = False,
    lines: LineTable | None = None,
    refused: Mapping[str, str] = NOTHING_REFUSED,
    sort: str = SORTED,
) -> str:
    """Return the report.

    - `rows`: At least one; all of the same run.
    - `emulations`, `whole`: How often the program was emulated, and how many of these runs were
      whole.
    - `top`: How many routines to name for each mode, and paths to show; None: one, and as many as
      `simprof run` shows.
    - `lines`: Source lines of the program; None: those of the measurements.
    - `refused`: Why other modes have no measurement, by their names.
    - `sort`: One of `SORTS`.
    """
    every = [measurement for _, measurement in rows]
    counting, rows = rows, sorted(rows, key=lambda row: SORTS[sort](row[1], every))
    added = _overheads(rows, refused, top, details=details)
    parts = [
        _summary(rows, emulations, whole),
        *layout.section("Instructions added by each mode", added),
        *([layout.BLANK] if (guides := list(_guides(rows))) else []),
        *map(layout.paragraph, guides),
    ]
    if details:
        parts += layout.section(
            "Costs (added instructions, increments, sizes in bytes)", _costs(rows)
        )
        parts += layout.section("Traces", _traces(rows))
    parts += _hot(counting, top, lines, details=details)
    lost = [
        (mode, *each)
        for mode, measurement in rows
        for each in mode_facts.lost(measurement, measures=details)
    ]
    parts += [
        *run_text.helper_note(parts),
        # Modes that are not named tell their profile exactly.
        *layout.section(
            run_text.LOSSES_TITLE, layout.grid(*[layout.CellAlignment.TEXT] * 3, rows=lost)
        ),
        *layout.section(run_text.REFUSED_TITLE, run_text.refused_calls(rows[0][1])),
        *_warnings(rows),
        *(
            layout.paragraph(f"warning: {mode}: {refused[mode]}", style="yellow")
            for mode in refused
        ),
    ]
    if not details:
        parts += [layout.BLANK, layout.paragraph(MORE, style="dim")]
    return layout.print_parts(parts, width, color)


def _hot(
    rows: Sequence[NamedMeasurement], top: int | None, lines: LineTable | None, *, details: bool
) -> Iterator[layout.Part]:
    """Yield the paths that executed most instructions, as one of the modes has counted them."""
    counting = [row for row in rows if mode_facts.collects_paths(row[1])]
    if top is None:
        top = run_text.DETAILS_TOP if details else run_text.TOP
    if not counting or not top:
        return
    # Of those whose paths are acyclic: the first that is exact by its definition; else the first
    # that has lost nothing.
    setting, measurement = min(counting, key=lambda row: _paths_rank(row[1]))
    if lines is not None:
        measurement = replace(measurement, lines=_lines_of_paths(measurement, top, lines))
    title = f"Hot paths (as {setting} counts them)"
    yield from hot_tables.path_parts(measurement, top, details, title)


def _paths_rank(measurement: RunMeasurement) -> tuple[bool, bool, bool]:
    """Sort key: settings whose paths tell a reader most come first."""
    lost = {loss.name for loss in mode_facts.losses(measurement)}
    lost |= {"overcounted_blocks", "undercounted_blocks"}
    return (
        mode_facts.collects(measurement) is not ProfileKind.PATHS,
        measurement.guide is not None,
        any(measurement.lost.get(name) for name in lost),
    )


def _lines_of_paths(
    measurement: RunMeasurement, top: int, lines: LineTable
) -> Mapping[int, SourceLine]:
    own, elsewhere = hot_tables.hot_flow(measurement), hot_tables.paths_of_another_run(measurement)
    paths = [each.path for each in (*own[:top], *elsewhere[:top])]
    starts = {start for path in paths for start in path.blocks if isinstance(start, int)}
    found = ((start, lines.find(start)) for start in starts)
    return {start: line for start, line in found if line is not None}


def _summary(rows: Sequence[NamedMeasurement], emulations: int, whole: int) -> layout.Table:
    _, first = rows[0]
    table = layout.grid()
    table.add_row("program", run_text.program_text(first))
    run_text.counted_row(table, first)
    run_text.ending_rows(table, first)
    table.add_row("base", plural(first.base, "instruction"))
    table.add_row("emulated", _emulated_text(rows, emulations, whole))
    return table


def _emulated_text(rows: Sequence[NamedMeasurement], emulations: int, whole: int) -> str:
    """Say how often the program was emulated, and why that was not once."""
    times = {1: "once", 2: "twice"}.get(emulations, f"{group_digits(emulations)} times")
    reasons = []
    if whole > 1:
        guided = [(each.mode, each.guide) for _, each in rows if each.guide is not None]
        kinds = dict.fromkeys(guide.kind for _, guide in guided if guide.file is None)
        modes = dict.fromkeys(mode for mode, guide in guided if guide.file is None)
        guides = "guide" if len(kinds) > 1 else "guides"
        reasons.append(f"first for the {' and the '.join(kinds)} that {guides} {', '.join(modes)}")
    if given_up := emulations - whole:
        runs = "run" if given_up == 1 else "runs"
        reasons.append(
            f"{group_digits(given_up)} {runs} given up because the graphs lacked something"
        )
    return ", ".join([times, *reasons])


def _overheads(
    rows: Sequence[NamedMeasurement], refused: Iterable[str], top: int | None, *, details: bool
) -> layout.Table:
    """List what each mode adds, and the routines that most of it is added to."""
    with_shares = details or top is not None
    top = ROUTINES if top is None else top
    every = [measurement for _, measurement in rows]
    judged = [quality.cells(measurement, every) for measurement in every]
    if all(set(each) <= {"exact", "-"} for each in judged):
        judged = []  # nothing is known but what the modes say of themselves
    table = layout.columns(
        layout.text("mode"),
        layout.text("profile"),
        *map(layout.number, ("added", "overhead", *(QUALITY if judged else ()))),
        *((layout.number("of added"),) if top and with_shares else ()),
        *((layout.name("most of it in"),) if top else ()),
    )
    for place, (mode, measurement) in enumerate(rows):
        added = measurement.added
        facts: tuple[int | str, ...] = (
            mode,
            mode_facts.collects(measurement),
            added,
            percent(added, measurement.base),
            *(judged[place] if judged else ()),
        )
        blank = ("",) * len(facts)
        costly = [routine for routine in measurement.routines if routine.added]
        costly.sort(key=lambda each: (-each.added, each.address))
        shown = costly[:top]
        for routine, name in zip(shown, names_of(shown), strict=True):
            of_added = (percent(routine.added, added),) if with_shares else ()
            table.add_row(*facts, *of_added, name)
            facts = blank
        if not shown:
            table.add_row(*facts)
    for mode in refused:
        table.add_row(mode, NOT_MEASURED)
    return table


def _guides(rows: Sequence[NamedMeasurement]) -> Iterator[str]:
    """Say what guided modes, and what collecting that costs, once for all that it guided."""
    modes: dict[str, list[str]] = defaultdict(list)
    for mode, measurement in rows:
        if (guide := measurement.guide) is not None:
            price = mode_facts.guide_price(measurement)
            cost = f"; {price}, not in added" if price else ""
            modes[f"{mode_facts.guide_name(guide)}{cost}"].append(mode)
    for told, names in modes.items():
        yield f"{', '.join(names)}: guided by {told}"


def _costs(rows: Sequence[NamedMeasurement]) -> layout.Table:
    table = layout.columns(
        layout.text("mode"),
        layout.text("profile"),
        *map(layout.number, ("added", "overhead", "increments", "hashed")),
        *map(layout.number, ("counters", "trace", "sites", "code")),
        space=1,
    )
    shown = ("counter_bytes", "trace_bytes", "snippets", "code_bytes")
    for mode, measurement in rows:
        increments = mode_facts.increments(measurement)
        sizes = mode_facts.sizes(measurement)
        hashed = measurement.counts.get("hashed_increments", 0)
        table.add_row(
            mode,
            mode_facts.collects(measurement),
            measurement.added,
            percent(measurement.added, measurement.base),
            increments or "-",
            percent(hashed, increments) if measurement.counts.get("path_increments") else "-",
            *(sizes.get(size) or "-" for size in shown),
        )
    return table


def _traces(rows: Sequence[NamedMeasurement]) -> layout.Table:
    """List the sizes of traces: as written, and with tokens of as few bits as possible."""
    heads = ["tokens", "bytes", "bytes, fewest bits", "instructions a byte"]
    with_addresses = any("address_bits" in measurement.sizes for _, measurement in rows)
    heads += ["bytes of addresses"] if with_addresses else []
    table = layout.columns(layout.text("mode"), *map(layout.number, heads))
    for mode, measurement in rows:
        sizes = mode_facts.sizes(measurement)
        if (size := sizes.get("trace_bytes")) is not None:
            tokens, least = measurement.counts.get("trace_tokens", 0), sizes["minimal_trace_bytes"]
            per_byte = f"{measurement.base / size:.1f}" if size else "-"
            more = [sizes.get("address_bytes", "-")] if with_addresses else []
            table.add_row(mode, tokens, size, least, per_byte, *more)
    return table


def _warnings(rows: Sequence[NamedMeasurement]) -> Iterator[layout.Paragraph]:
    """Yield each warning once, with the modes that it is about unless it is about all."""
    modes: dict[str, list[str]] = defaultdict(list)
    for mode, measurement in rows:
        for warning in measurement.warnings:
            modes[warning].append(mode)
    for warning, names in modes.items():
        about = "" if len(names) == len(rows) else f"{', '.join(names)}: "
        if not warning.startswith(about):
            warning = f"{about}{warning}"
        yield layout.paragraph(f"warning: {warning}", style="yellow")


def render_json(
    rows: Sequence[NamedMeasurement],
    emulations: int,
    whole: int,
    reasons: Sequence[str] = (),
    refused: Mapping[str, str] = NOTHING_REFUSED,
) -> str:
    """Return the comparison as one line of JSON.

    Parameters are those of `render_text`; `reasons`: why the program was run more than once.
    """
    _, first = rows[0]
    program = run_json.program_object(first.program)
    answer = {
        **result_head("compare", program, first.input_sha256, measured_by=first.origin),
        "exit": run_json.ending_object(first.ending),
        "partial": first.partial,
        "instructions": {"base": first.base},
        "emulations": emulations,
        "whole_emulations": whole,
        "reasons": list(reasons),
        "refused_calls": run_json.refused_call_objects(first),
        "modes": {name: run_json.summary_object(measurement) for name, measurement in rows},
        **({"not_measured": dict(refused)} if refused else {}),
    }
    return json_line(answer)
