"""The report for people: what `simprof run` prints on stderr.

On one screen: how the run ended, what profiling it costs, where the program spends, where the
scheme adds to it, and what is hot. With details, in addition: totals; how paths are known; sizes;
the kinds of code; how each routine is instrumented; edges or blocks. Nothing is said of added
instructions where the mode instruments nothing, nor of precision where none is lost. Refused system
calls and warnings end both.

Steps -> functions
------------------
1. What ran, how it ended, what profiling it costs                  `_summary`
2. The routines that execute most, with what was added to them      `routine_work`
3. The hottest paths as source lines, or else blocks                `hot_tables.hot_parts`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from signal import SIGINT
from typing import NamedTuple

from simprof.profiler.profiles import profile
from simprof.profiler.profiles.calls import call_graph
from simprof.profiler.reports import call_tree, hot_tables, mode_facts
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import brief, group_digits, percent, plural, visible
from simprof.profiler.reports.hot_tables import (
    HELPER_MARK,
    HELPER_NOTE,
    SMALLEST_SHARE,
    CodeKind,
    kind_totals,
    marked,
    names_of,
)
from simprof.profiler.reports.mode_facts import path_coverage, path_kinds, sizes_table
from simprof.simulator.isa.sparc import SIGNALS

# Rows of tables, of routines and of others, and with details, if the user has not said.
ROUTINES, TOP, DETAILS_TOP = 6, 5, 10

NO_LINES = "No source line of this code is known: compile the program with -g to see them."
MORE = "--details: counters, sizes, blocks, edges; --top N: N rows of each table"
WORK_TITLE = "Instructions by routine"
LOSSES_TITLE = "Precision lost"
REFUSED_TITLE = "Refused system calls (simprof lacks the service)"
COUNT_NAMES = {
    "path_increments": "path counter increments",
    "hashed_increments": "of them through a hash table",
    "edge_increments": "edge counter increments",
    "trace_tokens": "tokens written to the trace",
    "inferred_paths": "executions of obvious paths (determined by the edge profile)",
    "blocks": "blocks executed",
    "transfers": "edges crossed",
    "unattributed_transfers": "control transfers outside the graph",
    "unattributed_instructions": "instructions outside the graph",
    "runs": "emulated runs",
    "whole_runs": "of them whole; others were given up because the graphs lacked something",
    "system_calls": "system calls",
    "window_calls": "calls counted, and nothing outside them",
    "spills": "register windows spilled",
    "fills": "register windows filled",
}
# Names of counts that are 1
ONE = {"runs": "emulated run", "window_calls": "call counted, and nothing outside it"}


def render(
    measurement: profile.RunMeasurement,
    top: int | None = None,
    width: int = 100,
    color: bool = False,
    details: bool = False,
    follow: str | None = None,
) -> str:
    """Return the report; `follow`: the routine whose calls are shown as a tree."""
    make = _detailed if details else _first_screen
    warnings = [
        layout.paragraph(f"warning: {each}", style="yellow") for each in measurement.warnings
    ]
    parts = [
        _summary(measurement, details=details),
        *call_tree.sections(measurement, DETAILS_TOP if top is None else top, follow, details),
        *make(measurement, top),
        *layout.section(REFUSED_TITLE, refused_calls(measurement)),
        *warnings,
    ]
    if not details:
        parts += [layout.BLANK, layout.paragraph(MORE, style="dim")]
    return layout.print_parts(parts, width, color)


def _first_screen(measurement: profile.RunMeasurement, top: int | None) -> Iterator[layout.Part]:
    """Yield the answer, and what must be known to trust it."""
    parts: list[layout.Part] = []
    if top != 0:
        work = routine_work(measurement, ROUTINES if top is None else top, brief=top is None)
        parts += layout.section(WORK_TITLE, work)
        parts += hot_tables.hot_parts(measurement, TOP if top is None else top, details=False)
        parts += _lines_note(measurement)
    yield from parts
    yield from helper_note(parts)
    yield from layout.section(LOSSES_TITLE, layout.grid(rows=mode_facts.lost(measurement)))


def _detailed(measurement: profile.RunMeasurement, top: int | None) -> Iterator[layout.Part]:
    yield from layout.section("Totals", totals(measurement))
    yield from layout.section("Path executions", path_kinds(measurement))
    yield from layout.section("Path coverage", path_coverage(measurement))
    yield from layout.section("Sizes", sizes_table(measurement))
    yield from layout.section(LOSSES_TITLE, layout.grid(rows=mode_facts.lost(measurement)))
    if top == 0:
        return
    top = DETAILS_TOP if top is None else top
    yield from layout.section(WORK_TITLE, routine_work(measurement, top))
    yield from layout.section("Added instructions by kind of code", kind_costs(measurement))
    if mode_facts.instruments(measurement):
        yield from layout.section("Routines by added instructions", routines(measurement, top))
    yield from hot_tables.hot_parts(measurement, top, details=True)
    yield from _lines_note(measurement)


def _summary(measurement: profile.RunMeasurement, *, details: bool) -> layout.Table:
    """Say what ran, how it ended and what profiling it costs."""
    table = layout.grid()
    table.add_row("program", program_text(measurement))
    table.add_row("mode", mode_facts.description(measurement))
    if measurement.guide is not None:
        table.add_row("guide", visible(mode_facts.guide_name(measurement.guide)))
    counted_row(table, measurement)
    ending_rows(table, measurement)
    if measurement.runs > 1:
        table.add_row("runs", f"{measurement.runs}, added up")
    if measurement.threads:
        table.add_row("threads", _threads_text(measurement))
    table.add_row("base", plural(measurement.base, "instruction"))
    if mode_facts.instruments(measurement):
        table.add_row("added", plural(measurement.added, "instruction"))
        overhead = percent(measurement.added, measurement.base)
        # The second price stands beside the first: neither is the whole one.
        if price := mode_facts.guide_price(measurement):
            overhead += f", and {price}"
        table.add_row("overhead", layout.Styled(overhead, "bold"))
    guide = measurement.guide
    if details and guide is not None and guide.added is not None:
        table.add_row("guide cost", f"{plural(guide.added, 'instruction')}, not in added")
    if not details and (counting := _counting(measurement)):
        table.add_row(*counting)
    if own := _own_code(measurement):
        table.add_row("own code", own)
    return table


def _own_code(measurement: profile.RunMeasurement) -> str:
    """Say which part of all is of the program's own code; "" where kinds of code are not known."""
    kinds = {kind: counts for kind, *counts in kind_totals(measurement)}
    own = kinds.pop(CodeKind.OWN, None)
    if own is None or not kinds:
        return ""
    added, executed = own
    told = f"{percent(executed, measurement.base)} of base"
    if measurement.added:
        told += f", {percent(added, measurement.added)} of added"
    rest = "libraries" if CodeKind.LIBRARY in kinds else CodeKind.UNKNOWN.value
    return f"{told}; the rest is {rest}"


THREADS_NAMED = 8  # Threads whose instructions the summary says; those of all are in the JSON.


def _threads_text(measurement: profile.RunMeasurement) -> str:
    """Say how many threads there were, and what the first of them executed."""
    threads = measurement.threads
    named = [group_digits(each.instructions) for each in threads[:THREADS_NAMED]]
    more = ", ..." if len(threads) > len(named) else ""
    return f"{len(threads)}, which executed {', '.join(named)}{more}"


def program_text(measurement: profile.RunMeasurement) -> str:
    """Say what ran."""
    program = measurement.program
    return visible(f"{' '.join([program.file, *program.arguments])} ({program.machine})")


def counted_row(table: layout.Table, measurement: profile.RunMeasurement) -> None:
    """Say to which routines and calls a run was restricted, if it was."""
    told = list(_restrictions(measurement))
    if told:
        table.add_row("counted", visible("; ".join(told)))


def _restrictions(measurement: profile.RunMeasurement) -> Iterable[str]:
    """Yield what a run was restricted to, one phrase for each option."""
    options = measurement.options
    entry, limit = options.get("entry"), options.get("calls")
    if entry is not None:
        calls = measurement.counts.get("window_calls", 0)
        known = plural(calls, "call")
        if calls and calls == limit:
            known = "the first call" if calls == 1 else f"the first {known}"
        yield f"{known} of {entry}, and nothing outside"
    if options.get("user_only"):
        yield "the program's own routines only"
    if wanted := _patterns(options.get("routines")):
        yield f"only routines that match {wanted}"
    if unwanted := _patterns(options.get("exclude")):
        yield f"no routine that matches {unwanted}"


def _patterns(option: object) -> str:
    return " or ".join(map(str, option)) if isinstance(option, tuple) else ""


def ending_rows(table: layout.Table, measurement: profile.RunMeasurement) -> None:
    """Say how the run ended."""
    table.add_row("ended", visible(ending_text(measurement.ending)))
    if measurement.partial:
        table.add_row("note", "PARTIAL: the run was cut short; this profiles its beginning")


def failure_text(program: str, ending: profile.Ending) -> str:
    """Warn in one line of a run that failed, where its counts are kept or compared."""
    how = visible(ending_text(ending))
    return (
        f"warning: {visible(program)} failed ({how}): its counts are those of a failed run; "
        "--root DIR says where a program finds its files"
    )


def ending_text(ending: profile.Ending) -> str:
    """Describe an ending."""
    match ending.reason:
        case "exit":
            return f"exit status {ending.status}"
        case "budget":
            return "instruction limit reached"
        case "timeout":
            return "time limit reached"
        case "interrupted":
            name = SIGNALS.get(ending.signal or SIGINT)
            return f"interrupted ({'Ctrl-C' if name == 'SIGINT' else name})"
        case "signal":
            signal = SIGNALS.get(ending.signal or 0, "a real-time signal")
            return f"killed by signal {ending.signal} ({signal})"
        case "fault":
            fault = ending.fault
            what = f": {fault.name}, {fault.description}, {_place_text(fault)}" if fault else ""
            return f"killed by signal {ending.signal}{what}"
        case "refused":
            refusal = ending.refusal
            what = f" {refusal.name} {_place_text(refusal)}" if refusal else ""
            return f"stopped at a refused system call (--strict):{what}"
        case "deadlock":
            waits = (
                f"{each.thread} waits in {each.name} {_place_text(each)}" for each in ending.waits
            )
            return f"deadlock: {'; '.join(f'thread {each}' for each in waits)}"


def _place_text(stop: profile.FaultInfo | profile.RefusalInfo | profile.WaitInfo) -> str:
    found = f"at {stop.pc:#x}"
    if stop.routine is not None:
        found += f" in {brief(stop.routine)}+{stop.offset:#x}"
    if stop.source is not None:
        found += f" ({stop.source.file}:{stop.source.line})"
    return found


def refused_calls(measurement: profile.RunMeasurement) -> layout.Table:
    """List the system calls that were refused, and how they were answered."""
    rows = [(call.count, call.error, call.name) for call in measurement.refused_calls]
    return layout.columns(
        layout.number("times"), layout.text("answer"), layout.text("system call"), rows=rows
    )


def totals(measurement: profile.RunMeasurement) -> layout.Table:
    """List the run's counts by their plain names, and of how many routines those are that ran."""
    table = layout.grid(layout.CellAlignment.NUMBER, layout.CellAlignment.TEXT)
    for key, count in measurement.counts.items():
        if key == "whole_runs" and count == measurement.counts.get("runs"):
            continue
        meaning = COUNT_NAMES.get(key, key.replace("_", " "))
        table.add_row(count, ONE.get(key, meaning) if count == 1 else meaning)
    of_all = plural(measurement.program.routines, "routine")
    said = f"of the program's {of_all} ran"
    if any(measurement.options.get(name) for name in ("routines", "exclude", "user_only")):
        said = f"of the selected routines ran; the program has {of_all}"
    table.add_row(sum(routine.ran for routine in measurement.routines), said)
    return table


def routines(measurement: profile.RunMeasurement, top: int) -> layout.Table:
    """List the routines whose instrumentation costs most."""
    ran = [routine for routine in measurement.routines if routine.ran]
    shown = sorted(ran, key=lambda each: (-each.added, -each.instructions))[:top]
    with_cuts = any(routine.cut_edges for routine in shown)
    table = layout.columns(
        *map(layout.number, ("added", "instructions", "overhead", "entered", "paths")),
        *([layout.number("cuts")] if with_cuts else []),
        layout.text("counters"),
        layout.text("register"),
        layout.name("routine"),
    )
    for routine in shown:
        table.add_row(
            routine.added,
            routine.instructions,
            percent(routine.added, routine.instructions),
            routine.activations,
            routine.potential_paths,
            *([routine.cut_edges or "-"] if with_cuts else []),
            counters_text(routine),
            routine.path_register or "-",
            marked(routine),
        )
    return table


def counters_text(routine: profile.RoutineProfile) -> str:
    """Describe how a routine's paths are counted."""
    if routine.addressing is None:
        return str(routine.table)
    return f"{routine.table}, {routine.addressing}"


def helper_note(parts: Iterable[layout.Part]) -> Iterator[layout.Part]:
    """Yield what the mark of helpers means, if it stands in a table of these parts."""
    rows = (row for part in parts if isinstance(part, layout.Table) for row in part.rows)
    if any(str(entry).endswith(f" {HELPER_MARK}") for row in rows for entry in row):
        yield from [layout.paragraph(""), layout.paragraph(HELPER_NOTE)]


def _lines_note(measurement: profile.RunMeasurement) -> Iterator[layout.Part]:
    """Yield why hot code has no source lines, where no line is known."""
    if not measurement.lines and any(routine.instructions for routine in measurement.routines):
        yield from [layout.paragraph(""), layout.paragraph(NO_LINES)]


def _counting(measurement: profile.RunMeasurement) -> tuple[str, str] | None:
    """Say what the added instructions do: how often counters are incremented, tokens written."""
    counts = measurement.counts
    events, what = counts.get("trace_tokens", 0), "trace tokens"
    if not events:
        events, what = mode_facts.increments(measurement), "increments"
    if not events:
        return None
    told = []
    if not mode_facts.estimates(measurement):  # most of whose code decides what is counted
        told.append(f"{measurement.added / events:,.1f} instructions each")
    if hashed := counts.get("hashed_increments"):
        told.append(f"{group_digits(hashed)} through a hash table")
    return what, group_digits(events) + (f" ({'; '.join(told)})" if told else "")


def routine_work(
    measurement: profile.RunMeasurement, top: int, *, brief: bool = False
) -> layout.Table:
    """List the routines that execute most, instrumented, and the rest in one row.

    `brief`: without those that execute less than a thousandth. Where calling contexts are known,
    also with the instructions of all that they call.
    """
    inclusive = {}
    if measurement.call_tree is not None:
        graph = call_graph(measurement.call_tree)
        inclusive = {each.address: each.inclusive_base for each in graph.routines}
    titles = ["executed", "of base", *["with callees"] * bool(inclusive), "entered"]
    titles += ["added", "of added", "overhead"] * bool(measurement.added)
    table = layout.columns(*map(layout.number, titles), layout.name("routine"))

    def add(each: _Work, what: str, called: int | str = "", none: int | str = 0) -> None:
        cells: list[int | str] = [each.executed, percent(each.executed, measurement.base)]
        cells += [called] if inclusive else []
        cells += [each.entered or none]
        if measurement.added:
            of_added = percent(each.added, measurement.added)
            cells += [each.added or none, of_added, percent(each.added, each.executed)]
        table.add_row(*cells, what)

    ran = [routine for routine in measurement.routines if routine.ran]
    ran.sort(key=lambda each: (-each.instructions - each.added, each.address))
    least = (measurement.base + measurement.added) / SMALLEST_SHARE if brief else 0
    shown = [each for each in ran[:top] if each.instructions + each.added >= least]
    for routine, name in zip(shown, names_of(shown), strict=True):
        add(_Work.of([routine]), name, inclusive.get(routine.address, "-"))
    if rest := ran[len(shown) :]:
        add(_Work.of(rest), f"({plural(len(rest), 'other routine')})")
    whole = _Work.of(ran)
    outside = _Work(measurement.base - whole.executed, 0, measurement.added - whole.added)
    if outside.executed or outside.added:
        add(outside, "(rest)" if outside.executed else "(in no routine)", none="-")
    return table


class _Work(NamedTuple):
    """What some routines executed."""

    executed: int
    entered: int
    added: int

    @classmethod
    def of(cls, routines: Sequence[profile.RoutineProfile]) -> _Work:
        """Add up."""
        facts = [(each.instructions, each.activations, each.added) for each in routines]
        return cls(*(sum(column) for column in zip(*facts, strict=True))) if facts else cls(0, 0, 0)


def kind_costs(measurement: profile.RunMeasurement) -> layout.Table | None:
    """List what was added to each kind of code; None where there is but one, or nothing added."""
    if not measurement.added:
        return None
    rows = [
        (added, percent(added, measurement.added), percent(added, executed), kind.value)
        for kind, added, executed in kind_totals(measurement)
    ]
    heads = *map(layout.number, ("added", "of added", "overhead")), layout.text("code")
    return layout.columns(*heads, rows=rows) if len(rows) > 1 else None
