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

from collections.abc import Iterable, Iterator, Sequence
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
from simprof.profiler.reports.display import (
    ShortNames,
    brief,
    group_digits,
    percent,
    plural,
    visible,
)
from simprof.profiler.reports.hot_tables import (
    HELPER_MARK,
    HELPER_NOTE,
    block_text,
    executed_blocks,
    executed_edges,
    kind_totals,
    marked,
)
from simprof.profiler.reports.mode_facts import losses_table, path_kinds, sizes_table
from simprof.profiler.reports.tables import (
    BLANK,
    CellAlignment,
    Part,
    Styled,
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
from simprof.simulator.binary.program import SourceLine
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
    measurement: RunMeasurement,
    top: int | None = None,
    width: int = 100,
    color: bool = False,
    details: bool = False,
    follow: str | None = None,
) -> str:
    """Return the report.

    - `top`: Rows per table; None: as many as fit a screen, and more of them with details.
    - `width`: Columns of the terminal.
    - `color`: Whether to use terminal colours.
    - `details`: Whether to say everything, not only what was asked for.
    - `follow`: Routine whose calls to show as a tree.
    """
    make = detailed if details else brief_sections
    return print_parts(list(make(measurement, top, follow)), width, color)


def brief_sections(
    measurement: RunMeasurement, top: int | None, follow: str | None = None
) -> Iterable[Part]:
    """Yield the parts of the first screen: the answer, and what must be known to trust it."""
    top = TOP if top is None else top
    facts = summary(measurement)
    if events := counting(measurement):
        facts.add_row("counting", events)
    yield facts
    yield from call_tree.sections(measurement, top, follow)
    yield from answer(measurement, top)
    yield from section(LOSSES_TITLE, losses_table(measurement))
    yield from section(REFUSED_TITLE, refused_calls(measurement))
    yield from warnings(measurement)
    yield BLANK
    yield paragraph(MORE, style="dim")


def detailed(
    measurement: RunMeasurement, top: int | None, follow: str | None = None
) -> Iterable[Part]:
    """Yield the parts of the report that says everything."""
    top = DETAILS_TOP if top is None else top
    yield summary(measurement)
    yield from call_tree.sections(measurement, top, follow)
    yield from section("Totals", totals(measurement))
    yield from section("Path executions", path_kinds(measurement))
    yield from section("Sizes", sizes_table(measurement))
    yield from section(LOSSES_TITLE, losses_table(measurement))
    if top > 0:
        work = routine_work(measurement, top)
        yield from section("Where instructions were executed", work)
        yield from section("Added instructions by kind of code", kind_costs(measurement))
        if mode_facts.instruments(measurement):
            yield from section("Routines by added instructions", routines(measurement, top))
        if mode_facts.collects_paths(measurement):
            yield from hot_tables.path_parts(measurement, top, hot_tables.hot_paths)
        if mode_facts.counts_blocks(measurement):
            yield from section("Hot blocks", hot_tables.hot_blocks(measurement, top))
        else:
            yield from section("Hot edges", hot_tables.hot_edges(measurement, top))
        yield from lines_note(measurement)
    yield from section(REFUSED_TITLE, refused_calls(measurement))
    yield from warnings(measurement)


def warnings(measurement: RunMeasurement) -> Iterable[Part]:
    """Yield the warnings."""
    for warning in measurement.warnings:
        yield paragraph(f"warning: {warning}", style="yellow")


def summary(measurement: RunMeasurement) -> Table:
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
    if price := mode_facts.guide_price(measurement):
        table.add_row("edge profile", price)
    return table


THREADS_NAMED = 8
"""Threads whose instructions the summary says; those of all are in the JSON."""


def threads_text(measurement: RunMeasurement) -> str:
    """Say how many threads there were, and what the first of them executed."""
    threads = measurement.threads
    named = [group_digits(each.instructions) for each in threads[:THREADS_NAMED]]
    more = ", ..." if len(threads) > len(named) else ""
    return f"{len(threads)}, which executed {', '.join(named)}{more}"


def program_text(measurement: RunMeasurement) -> str:
    """Say what ran."""
    program = measurement.program
    return visible(f"{' '.join([program.file, *program.arguments])} ({program.machine})")


def counted_row(table: Table, measurement: RunMeasurement) -> None:
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


def ending_rows(table: Table, measurement: RunMeasurement) -> None:
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


def refused_calls(measurement: RunMeasurement) -> Table:
    """List the system calls that were refused, and how they were answered."""
    table = columns(number("times"), text("answer"), text("system call"))
    for call in measurement.refused_calls:
        table.add_row(call.count, call.error, call.name)
    return table


def totals(measurement: RunMeasurement) -> Table:
    """List the run's counts by their plain names."""
    table = grid(CellAlignment.NUMBER, CellAlignment.TEXT)
    for key, count in measurement.counts.items():
        if key == "whole_runs" and count == measurement.counts.get("runs"):
            continue
        meaning = COUNT_NAMES.get(key, key.replace("_", " "))
        table.add_row(count, ONE.get(key, meaning) if count == 1 else meaning)
    executed = sum(routine.activations > 0 for routine in measurement.routines)
    table.add_row(executed, ran_text(measurement))
    return table


def ran_text(measurement: RunMeasurement) -> str:
    """Say of how many routines those are that ran."""
    of_all = plural(measurement.program.routines, "routine")
    if any(measurement.options.get(name) for name in ("routines", "exclude", "user_only")):
        return f"of the routines selected ran; the program has {of_all}"
    return f"of the program's {of_all} ran"


def routines(measurement: RunMeasurement, top: int) -> Table:
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


TOP = 5
"""Rows of each table, where the user has not said how many."""

NO_LINES = "No source line of this code is known: compile the program with -g to see them."

MORE = "--details shows counters, sizes, blocks and edges; --top N shows N rows of each table"


def answer(measurement: RunMeasurement, top: int) -> Iterator[Part]:
    """Yield where the program spends, where added instructions come from, and what is hot.

    `top`: Rows of each table; 0: no tables.
    """
    if not top:
        return
    parts = list(_tables(measurement, top))
    yield from parts
    yield from helper_note(parts)


def helper_note(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield what the mark of helpers means, if it stands in a table of these parts."""
    if any(isinstance(part, Table) and _marks_helpers(part) for part in parts):
        yield from [paragraph(""), paragraph(HELPER_NOTE)]


def _tables(measurement: RunMeasurement, top: int) -> Iterator[Part]:
    yield from section("Where instructions were executed", routine_work(measurement, top))
    if measurement.added:
        yield from section(
            "Where the added instructions come from", routine_costs(measurement, top)
        )
    yield from section("Added instructions by kind of code", kind_costs(measurement))
    yield from hot(measurement, top)
    yield from lines_note(measurement)


def lines_note(measurement: RunMeasurement) -> Iterator[Part]:
    """Yield why hot code has no source lines, where no line is known."""
    if not measurement.lines and any(routine.instructions for routine in measurement.routines):
        yield from [paragraph(""), paragraph(NO_LINES)]


def _marks_helpers(table: Table) -> bool:
    return any(str(entry).endswith(f" {HELPER_MARK}") for row in table.rows for entry in row)


def counting(measurement: RunMeasurement) -> str:
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
    return f"{told}, {measurement.added / events:.1f} added instructions each"


def hot(measurement: RunMeasurement, top: int) -> Iterator[Part]:
    """Yield what was executed most, of what the mode counts."""
    if mode_facts.collects_paths(measurement):
        yield from hot_tables.path_parts(measurement, top, hot_paths)
    elif mode_facts.counts_blocks(measurement):
        yield from section("Hot blocks", hot_blocks(measurement, top))
    else:
        yield from section("Hot edges", hot_edges(measurement, top))


def routine_costs(measurement: RunMeasurement, top: int) -> Table:
    """List the routines that most instructions were added to, and the rest in one row."""
    costly = [routine for routine in measurement.routines if routine.added]
    costly.sort(key=lambda each: (-each.added, -each.instructions, each.address))
    shown, rest = costly[:top], costly[top:]
    table = columns(*map(number, ("added", "of added", "overhead")), name("routine"))

    def add(added: int, instructions: int, what: str) -> None:
        share = percent(added, measurement.added)
        table.add_row(added, share, percent(added, instructions), what)

    for routine in shown:
        add(routine.added, routine.instructions, marked(routine))
    if rest:
        added, executed = (
            sum(routine.added for routine in rest),
            sum(routine.instructions for routine in rest),
        )
        add(added, executed, f"({plural(len(rest), 'other routine')})")
    outside = measurement.added - sum(routine.added for routine in costly)
    if outside:
        add(outside, 0, "(in no routine)")
    return table


def routine_work(measurement: RunMeasurement, top: int) -> Table:
    """List the routines that executed most instructions, and the rest in one row."""
    ran = [routine for routine in measurement.routines if routine.instructions]
    ran.sort(key=lambda each: (-each.instructions, each.address))
    table = columns(*map(number, ("instructions", "of base", "entered")), name("routine"))
    for routine in ran[:top]:
        share = percent(routine.instructions, measurement.base)
        table.add_row(routine.instructions, share, routine.activations, marked(routine))
    if rest := ran[top:]:
        executed = sum(routine.instructions for routine in rest)
        entered = sum(routine.activations for routine in rest)
        others = f"({plural(len(rest), 'other routine')})"
        table.add_row(executed, percent(executed, measurement.base), entered, others)
    return table


def kind_costs(measurement: RunMeasurement) -> Table | None:
    """List what was added to each kind of code; None where there is but one, or nothing added."""
    if not measurement.added:
        return None
    table = columns(*map(number, ("added", "of added", "overhead")), text("code"))
    for total in kind_totals(measurement):
        table.add_row(
            total.added,
            percent(total.added, measurement.added),
            percent(total.added, total.instructions),
            total.kind.value,
        )
    return table if table.row_count > 1 else None


def hot_paths(
    measurement: RunMeasurement, shown: Sequence[hot_tables.ExecutedPath], is_own: bool
) -> Table:
    """List the paths that executed most instructions, as source lines where these are known.

    `is_own`: see `hot_tables.PathTable`.
    """
    routes = [
        [place(start, measurement) for start in each.path.blocks if isinstance(start, int)]
        for each in shown
    ]
    known = [[line for line in route if line is not None] for route in routes]
    files = ShortNames(line.file for route in known for line in route)
    table = columns(
        *map(number, (*(["share"] if is_own else []), "executions", "instructions per path")),
        name("routine"),
        text(_heading("source lines", "blocks", known)),
    )
    for each, route in zip(shown, known, strict=True):
        path = each.path
        blocks = hot_tables.blocks_text(path) if not route else files.route(route)
        table.add_row(
            *([percent(each.flow, measurement.base)] if is_own else []),
            path.count,
            path.instructions,
            marked(each.routine),
            blocks + each.remark,
        )
    return table


def hot_edges(measurement: RunMeasurement, top: int) -> Table:
    """List the edges crossed most often, and the source line that each leads to."""
    shown = executed_edges(measurement)[:top]
    lines = [
        hot_tables.known_line((each.edge.target, each.edge.source), measurement) for each in shown
    ]
    known = hot_tables.line_columns(measurement)
    table = columns(number("executions"), name("routine"), text("edge"), *known)
    for each, line in zip(shown, hot_tables.lines_texts(lines), strict=True):
        table.add_row(
            each.edge.count,
            marked(each.routine),
            hot_tables.edge_text(each.edge),
            *([line] if known else []),
        )
    return table


def hot_blocks(measurement: RunMeasurement, top: int) -> Table:
    """List the blocks executed most often, and their source lines."""
    shown = executed_blocks(measurement)[:top]
    lines = [hot_tables.known_line((each.block,), measurement) for each in shown]
    known = hot_tables.line_columns(measurement)
    table = columns(number("executions"), name("routine"), text("block"), *known)
    for each, line in zip(shown, hot_tables.lines_texts(lines), strict=True):
        block = block_text(each.block)
        table.add_row(each.executions, marked(each.routine), block, *([line] if known else []))
    return table


def place(start: int, measurement: RunMeasurement) -> SourceLine | None:
    """Return the source line of a block; None where it is not known."""
    return measurement.lines.get(start)


def _heading(lines: str, blocks: str, known: list[list[SourceLine]]) -> str:
    if all(known):
        return lines
    return f"{lines}, or {blocks}" if any(known) else blocks
