"""The report for people: what `simprof run` prints on stderr.

It says how the run ended and what profiling it costs, then where the program spends, where the
scheme's instructions come from and what is hot (`answer`). With details, instead: totals; how
paths are known; sizes; what the scheme loses; the routines that execute most, and those where the
scheme spends most; hot paths; hot edges or blocks. Nothing is said of added instructions where the
mode instruments nothing. Refused system calls and warnings end both.

The first screen, steps -> functions
------------------------------------
1. The routines that executed most instructions          `routine_work`
2. The routines that instructions were added to          `routine_costs`
3. The kinds of code that these are                      `kind_costs`
4. The hottest paths as source lines, or else blocks     `hot_paths`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from signal import SIGINT

from simprof.profiler.profiles.profile import (
    Ending,
    FaultInfo,
    RefusalInfo,
    RoutineProfile,
    RunMeasurement,
    WaitInfo,
)
from simprof.profiler.reports import call_tree, hot_tables, mode_facts
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import brief, group_digits, percent, plural, visible
from simprof.profiler.reports.hot_tables import HELPER_MARK, HELPER_NOTE, kind_totals, marked
from simprof.profiler.reports.mode_facts import path_coverage, path_kinds, sizes_table
from simprof.simulator.isa.sparc import SIGNALS

TOP, DETAILS_TOP = 5, 10  # Rows of each table, and with details, if the user has not said.

NO_LINES = "No source line of this code is known: compile the program with -g to see them."
MORE = "--details shows counters, sizes, blocks and edges; --top N shows N rows of each table"
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
    measurement: RunMeasurement,
    top: int | None = None,
    width: int = 100,
    color: bool = False,
    details: bool = False,
    follow: str | None = None,
) -> str:
    """Return the report; `follow`: the routine whose calls are shown as a tree."""
    if top is None:
        top = DETAILS_TOP if details else TOP
    make = _detailed if details else _first_screen
    warnings = [
        layout.paragraph(f"warning: {each}", style="yellow") for each in measurement.warnings
    ]
    parts = [
        _summary(measurement, counts=not details),
        *call_tree.sections(measurement, top, follow),
        *make(measurement, top),
        *layout.section(REFUSED_TITLE, refused_calls(measurement)),
        *warnings,
    ]
    if not details:
        parts += [layout.BLANK, layout.paragraph(MORE, style="dim")]
    return layout.print_parts(parts, width, color)


def _first_screen(measurement: RunMeasurement, top: int) -> Iterator[layout.Part]:
    """Yield the answer, and what must be known to trust it."""
    parts = list(_answer(measurement, top)) if top else []
    yield from parts
    yield from helper_note(parts)
    yield from layout.section(LOSSES_TITLE, layout.grid(rows=mode_facts.lost(measurement)))


def _answer(measurement: RunMeasurement, top: int) -> Iterator[layout.Part]:
    """Yield where the program spends, where added instructions come from, and what is hot."""
    yield from layout.section("Where instructions were executed", routine_work(measurement, top))
    if measurement.added:
        costs = routine_costs(measurement, top)
        yield from layout.section("Where the added instructions come from", costs)
    yield from layout.section("Added instructions by kind of code", kind_costs(measurement))
    yield from hot_tables.hot_parts(measurement, top, details=False)
    yield from _lines_note(measurement)


def _detailed(measurement: RunMeasurement, top: int) -> Iterator[layout.Part]:
    yield from layout.section("Totals", totals(measurement))
    yield from layout.section("Path executions", path_kinds(measurement))
    yield from layout.section("Path coverage", path_coverage(measurement))
    yield from layout.section("Sizes", sizes_table(measurement))
    yield from layout.section(LOSSES_TITLE, layout.grid(rows=mode_facts.lost(measurement)))
    if not top:
        return
    yield from layout.section("Where instructions were executed", routine_work(measurement, top))
    yield from layout.section("Added instructions by kind of code", kind_costs(measurement))
    if mode_facts.instruments(measurement):
        yield from layout.section("Routines by added instructions", routines(measurement, top))
    yield from hot_tables.hot_parts(measurement, top, details=True)
    yield from _lines_note(measurement)


def _summary(measurement: RunMeasurement, *, counts: bool) -> layout.Table:
    """Say what ran, how it ended and what profiling it costs; `counts`: and how it counts."""
    table = layout.grid()
    table.add_row("program", program_text(measurement))
    table.add_row("mode", mode_facts.description(measurement))
    guide = measurement.guide
    if guide is not None:
        article = "a" if guide.of_paths else "an"
        table.add_row(
            "guided by", visible(f"{article} {guide.kind} of {mode_facts.guided_by(guide)}")
        )
    counted_row(table, measurement)
    ending_rows(table, measurement)
    if measurement.runs > 1:
        table.add_row("runs", f"{measurement.runs}, added up")
    if measurement.threads:
        table.add_row("threads", _threads_text(measurement))
    table.add_row("base", plural(measurement.base, "instruction"))
    if mode_facts.instruments(measurement):
        table.add_row("added", plural(measurement.added, "instruction"))
        table.add_row(
            "overhead", layout.Styled(percent(measurement.added, measurement.base), "bold")
        )
    if (guide := measurement.guide) and (price := mode_facts.guide_price(measurement)):
        table.add_row(guide.kind, price)
    if counts and (events := _counting(measurement)):
        table.add_row("counting", events)
    return table


THREADS_NAMED = 8  # Threads whose instructions the summary says; those of all are in the JSON.


def _threads_text(measurement: RunMeasurement) -> str:
    """Say how many threads there were, and what the first of them executed."""
    threads = measurement.threads
    named = [group_digits(each.instructions) for each in threads[:THREADS_NAMED]]
    more = ", ..." if len(threads) > len(named) else ""
    return f"{len(threads)}, which executed {', '.join(named)}{more}"


def program_text(measurement: RunMeasurement) -> str:
    """Say what ran."""
    program = measurement.program
    return visible(f"{' '.join([program.file, *program.arguments])} ({program.machine})")


def counted_row(table: layout.Table, measurement: RunMeasurement) -> None:
    """Say to which routines and calls a run was restricted, if it was."""
    told = list(_restrictions(measurement))
    if told:
        table.add_row("counted", visible("; ".join(told)))


def _restrictions(measurement: RunMeasurement) -> Iterable[str]:
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


def ending_rows(table: layout.Table, measurement: RunMeasurement) -> None:
    """Say how the run ended."""
    table.add_row("ended", visible(ending_text(measurement.ending)))
    if measurement.partial:
        table.add_row("note", "PARTIAL: the run was cut short; this profiles its beginning")


def failure_text(program: str, ending: Ending) -> str:
    """Warn in one line of a run that failed, where its counts are kept or compared."""
    how = visible(ending_text(ending))
    return (
        f"warning: {visible(program)} failed ({how}): its counts are those of a failed run; "
        "--root DIR says where a program finds its files"
    )


def ending_text(ending: Ending) -> str:
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


def _place_text(stop: FaultInfo | RefusalInfo | WaitInfo) -> str:
    found = f"at {stop.pc:#x}"
    if stop.routine is not None:
        found += f" in {brief(stop.routine)}+{stop.offset:#x}"
    if stop.source is not None:
        found += f" ({stop.source.file}:{stop.source.line})"
    return found


def refused_calls(measurement: RunMeasurement) -> layout.Table:
    """List the system calls that were refused, and how they were answered."""
    rows = [(call.count, call.error, call.name) for call in measurement.refused_calls]
    return layout.columns(
        layout.number("times"), layout.text("answer"), layout.text("system call"), rows=rows
    )


def totals(measurement: RunMeasurement) -> layout.Table:
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


def routines(measurement: RunMeasurement, top: int) -> layout.Table:
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


def counters_text(routine: RoutineProfile) -> str:
    """Describe how a routine's paths are counted."""
    if routine.addressing is None:
        return str(routine.table)
    return f"{routine.table}, {routine.addressing}"


def helper_note(parts: Iterable[layout.Part]) -> Iterator[layout.Part]:
    """Yield what the mark of helpers means, if it stands in a table of these parts."""
    rows = (row for part in parts if isinstance(part, layout.Table) for row in part.rows)
    if any(str(entry).endswith(f" {HELPER_MARK}") for row in rows for entry in row):
        yield from [layout.paragraph(""), layout.paragraph(HELPER_NOTE)]


def _lines_note(measurement: RunMeasurement) -> Iterator[layout.Part]:
    """Yield why hot code has no source lines, where no line is known."""
    if not measurement.lines and any(routine.instructions for routine in measurement.routines):
        yield from [layout.paragraph(""), layout.paragraph(NO_LINES)]


def _counting(measurement: RunMeasurement) -> str:
    """Say what the added instructions do: how often counters are incremented, tokens written."""
    counts = measurement.counts
    events = mode_facts.increments(measurement)
    if tokens := counts.get("trace_tokens"):
        told, events = plural(tokens, "trace token"), tokens
    elif events:
        told = plural(events, "counter increment")
        if hashed := counts.get("hashed_increments"):
            told += f" ({group_digits(hashed)} through a hash table)"
    else:
        return ""
    return f"{told}, {measurement.added / events:,.1f} added instructions each"


def routine_costs(measurement: RunMeasurement, top: int) -> layout.Table:
    """List the routines that most instructions were added to, and the rest in one row."""
    costly = [routine for routine in measurement.routines if routine.added]
    costly.sort(key=lambda each: (-each.added, -each.instructions, each.address))
    shown, rest = costly[:top], costly[top:]
    table = layout.columns(
        *map(layout.number, ("added", "of added", "overhead")), layout.name("routine")
    )

    def add(added: int, instructions: int, what: str) -> None:
        share = percent(added, measurement.added)
        table.add_row(added, share, percent(added, instructions), what)

    for routine in shown:
        add(routine.added, routine.instructions, marked(routine))
    if rest:
        executed = sum(routine.instructions for routine in rest)
        others = f"({plural(len(rest), 'other routine')})"
        add(sum(routine.added for routine in rest), executed, others)
    outside = measurement.added - sum(routine.added for routine in costly)
    if outside:
        add(outside, 0, "(in no routine)")
    return table


def routine_work(measurement: RunMeasurement, top: int) -> layout.Table:
    """List the routines that executed most instructions, and the rest in one row."""
    ran = [routine for routine in measurement.routines if routine.instructions]
    ran.sort(key=lambda each: (-each.instructions, each.address))
    table = layout.columns(
        *map(layout.number, ("instructions", "of base", "entered")), layout.name("routine")
    )
    for routine in ran[:top]:
        share = percent(routine.instructions, measurement.base)
        table.add_row(routine.instructions, share, routine.activations, marked(routine))
    if rest := ran[top:]:
        executed = sum(routine.instructions for routine in rest)
        entered = sum(routine.activations for routine in rest)
        others = f"({plural(len(rest), 'other routine')})"
        table.add_row(executed, percent(executed, measurement.base), entered, others)
    return table


def kind_costs(measurement: RunMeasurement) -> layout.Table | None:
    """List what was added to each kind of code; None where there is but one, or nothing added."""
    if not measurement.added:
        return None
    rows = [
        (added, percent(added, measurement.added), percent(added, executed), kind.value)
        for kind, added, executed in kind_totals(measurement)
    ]
    heads = *map(layout.number, ("added", "of added", "overhead")), layout.text("code")
    return layout.columns(*heads, rows=rows) if len(rows) > 1 else None
