"""The report for people: what `simprof run` prints on stderr.

It says how the run ended and what profiling it costs, then where the program spends, where the
scheme's instructions come from and what is hot (`answer_text`). With details, instead: totals; how
paths are known; sizes; what the scheme loses; the routines that execute most, and those where the
scheme spends most; hot paths; hot edges or blocks. Nothing is said of added instructions where the
mode instruments nothing. Refused system calls and
warnings end both.
"""

from __future__ import annotations

from collections.abc import Iterable
from signal import SIGINT

from simprof.profiler.profiles.profile import (
    Ending,
    FaultInfo,
    Measurement,
    RefusalInfo,
    RoutineProfile,
    WaitInfo,
)
from simprof.profiler.reports import answer_text, call_tree_text, hot_tables, mode_facts, mode_text
from simprof.profiler.reports.code_kinds import marked
from simprof.profiler.reports.display import visible
from simprof.profiler.reports.layout import Kind, Styled
from simprof.profiler.reports.mode_text import losses, path_kinds, sizes
from simprof.profiler.reports.names import brief
from simprof.profiler.reports.numbers import group_digits, percent, plural
from simprof.profiler.reports.tables import (
    BLANK,
    Part,
    Table,
    columns,
    grid,
    name,
    number,
    paragraph,
    print_parts,
    section,
    text,
)
from simprof.simulator.isa.sparc import SIGNALS

DETAILS_TOP = 10
"""Rows of each table with details, where the user has not said how many."""

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
ONE = {"runs": "emulated run", "window_calls": "call counted, and nothing outside it"}
"""Names of counts that are 1."""


def render(
    measurement: Measurement,
    top: int | None = None,
    width: int = 100,
    color: bool = False,
    details: bool = False,
    follow: str | None = None,
) -> str:
    """Return the report.

    Parameters
    ----------
    top
        Rows per table; None: as many as fit a screen, and more of them with details.
    width
        Columns of the terminal.
    color
        Whether to use terminal colours.
    details
        Whether to say everything, not only what was asked for.
    follow
        Routine whose calls to show as a tree.
    """
    make = detailed if details else brief_sections
    return print_parts(list(make(measurement, top, follow)), width, color)


def brief_sections(
    measurement: Measurement, top: int | None, follow: str | None = None
) -> Iterable[Part]:
    """Yield the parts of the first screen: the answer, and what must be known to trust it."""
    top = answer_text.TOP if top is None else top
    facts = summary(measurement)
    if events := answer_text.counting(measurement):
        facts.add_row("counting", events)
    yield facts
    yield from call_tree_text.sections(measurement, top, follow)
    yield from answer_text.answer(measurement, top)
    yield from section(LOSSES_TITLE, losses(measurement))
    yield from section(REFUSED_TITLE, refused_calls(measurement))
    yield from warnings(measurement)
    yield BLANK
    yield paragraph(answer_text.MORE, style="dim")


def detailed(
    measurement: Measurement, top: int | None, follow: str | None = None
) -> Iterable[Part]:
    """Yield the parts of the report that says everything."""
    top = DETAILS_TOP if top is None else top
    yield summary(measurement)
    yield from call_tree_text.sections(measurement, top, follow)
    yield from section("Totals", totals(measurement))
    yield from section("Paths", path_kinds(measurement))
    yield from section("Sizes", sizes(measurement))
    yield from section(LOSSES_TITLE, losses(measurement))
    if top > 0:
        work = answer_text.routine_work(measurement, top)
        yield from section("Where instructions were executed", work)
        yield from section("By kind of code", answer_text.kind_costs(measurement))
        if mode_facts.instruments(measurement):
            yield from section("Routines by added instructions", routines(measurement, top))
        if mode_facts.collects_paths(measurement):
            yield from hot_tables.path_parts(measurement, top, hot_tables.hot_paths)
        if mode_facts.counts_blocks(measurement):
            yield from section("Hot blocks", hot_tables.hot_blocks(measurement, top))
        else:
            yield from section("Hot edges", hot_tables.hot_edges(measurement, top))
        yield from answer_text.lines_note(measurement)
    yield from section(REFUSED_TITLE, refused_calls(measurement))
    yield from warnings(measurement)


def warnings(measurement: Measurement) -> Iterable[Part]:
    """Yield the warnings."""
    for warning in measurement.warnings:
        yield paragraph(f"warning: {warning}", style="yellow")


def summary(measurement: Measurement) -> Table:
    """Say what ran, how it ended and what profiling it costs."""
    table = grid()
    table.add_row("program", program_text(measurement))
    table.add_row("mode", mode_facts.description(measurement))
    guide = measurement.guide
    if guide is not None:
        table.add_row("guided by", visible(f"an edge profile of {mode_facts.guided_by(guide)}"))
    counted_row(table, measurement)
    ending_rows(table, measurement)
    if measurement.runs > 1:
        table.add_row("runs", f"{measurement.runs}, added up")
    if measurement.threads:
        table.add_row("threads", threads_text(measurement))
    table.add_row("base", plural(measurement.base, "instruction"))
    if mode_facts.instruments(measurement):
        table.add_row("added", plural(measurement.added, "instruction"))
        table.add_row("overhead", Styled(percent(measurement.added, measurement.base), "bold"))
    if price := mode_text.guide_price(measurement):
        table.add_row("edge profile", price)
    return table


THREADS_NAMED = 8
"""Threads whose instructions the summary says; those of all are in the JSON."""


def threads_text(measurement: Measurement) -> str:
    """Say how many threads there were, and what the first of them executed."""
    threads = measurement.threads
    named = [group_digits(each.instructions) for each in threads[:THREADS_NAMED]]
    more = ", ..." if len(threads) > len(named) else ""
    return f"{len(threads)}, which executed {', '.join(named)}{more}"


def program_text(measurement: Measurement) -> str:
    """Say what ran."""
    program = measurement.program
    return visible(f"{' '.join([program.file, *program.arguments])} ({program.machine})")


def counted_row(table: Table, measurement: Measurement) -> None:
    """Say to which routines and calls a run was restricted, if it was."""
    told = list(_restrictions(measurement))
    if told:
        table.add_row("counted", visible("; ".join(told)))


def _restrictions(measurement: Measurement) -> Iterable[str]:
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


def ending_rows(table: Table, measurement: Measurement) -> None:
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
            return "its budget was spent"
        case "interrupted":
            name = SIGNALS.get(ending.signal or SIGINT)
            return f"interrupted ({'Ctrl-C' if name == 'SIGINT' else name})"
        case "signal":
            signal = SIGNALS.get(ending.signal or 0, "a real-time signal")
            return f"killed by signal {ending.signal} ({signal})"
        case "fault":
            detail = "" if ending.fault is None else f": {fault_text(ending.fault)}"
            return f"killed by signal {ending.signal}{detail}"
        case "refused":
            detail = "" if ending.refusal is None else f" {refusal_text(ending.refusal)}"
            return f"stopped at a refused system call (--strict):{detail}"
        case "deadlock":
            return f"deadlock: {'; '.join(map(wait_text, ending.waits))}"


def fault_text(fault: FaultInfo) -> str:
    """Describe a fault in one line: what, at which instruction, in which routine and line."""
    return f"{fault.name}, {fault.description}, {_place_text(fault)}"


def refusal_text(refusal: RefusalInfo) -> str:
    """Describe in one line the refused system call that ended a run."""
    return f"{refusal.name} {_place_text(refusal)}"


def wait_text(wait: WaitInfo) -> str:
    """Say in which system call a thread waits for ever."""
    return f"thread {wait.thread} waits in {wait.name} {_place_text(wait)}"


def _place_text(stop: FaultInfo | RefusalInfo | WaitInfo) -> str:
    found = f"at {stop.pc:#x}"
    if stop.routine is not None:
        found += f" in {brief(stop.routine)}+{stop.offset:#x}"
    if stop.source is not None:
        found += f" ({stop.source.file}:{stop.source.line})"
    return found


def refused_calls(measurement: Measurement) -> Table:
    """List the system calls that were refused, and how they were answered."""
    table = columns(number("times"), text("answer"), text("system call"))
    for call in measurement.refused_calls:
        table.add_row(call.count, call.error, call.name)
    return table


def totals(measurement: Measurement) -> Table:
    """List the run's counts by their plain names."""
    table = grid(Kind.NUMBER, Kind.TEXT)
    for key, count in measurement.counts.items():
        if key == "whole_runs" and count == measurement.counts.get("runs"):
            continue
        meaning = COUNT_NAMES.get(key, key.replace("_", " "))
        table.add_row(count, ONE.get(key, meaning) if count == 1 else meaning)
    executed = sum(routine.activations > 0 for routine in measurement.routines)
    table.add_row(executed, ran_text(measurement))
    return table


def ran_text(measurement: Measurement) -> str:
    """Say of how many routines those are that ran."""
    of_all = plural(measurement.program.routines, "routine")
    if any(measurement.options.get(name) for name in ("routines", "exclude", "user_only")):
        return f"of the routines selected ran; the program has {of_all}"
    return f"of the program's {of_all} ran"


def routines(measurement: Measurement, top: int) -> Table:
    """List the routines whose instrumentation costs most."""
    ran = [routine for routine in measurement.routines if routine.activations]
    shown = sorted(ran, key=lambda each: (-each.added, -each.instructions))[:top]
    with_cuts = any(routine.cut_edges for routine in shown)
    table = columns(
        *map(number, ("added", "instructions", "overhead", "entered", "paths")),
        *([number("cuts")] if with_cuts else []),
        text("counters"),
        text("register"),
        name("routine"),
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
