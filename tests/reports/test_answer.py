"""The first screen of `run` and `compare`: what it costs, where that comes from, what is hot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import simprof
from simprof.profiler.commands import compare, streams
from simprof.profiler.profiles.calls import call_graph
from simprof.profiler.profiles.measures import Quality
from simprof.profiler.profiles.profile import Guide, RoutineProfile, RunMeasurement
from simprof.profiler.profiles.tables import LoopIterations, listed_paths, table
from simprof.profiler.reports import comparison_report, hot_tables, listings, run_text
from simprof.profiler.reports.display import ShortNames
from simprof.profiler.reports.hot_tables import CodeKind, kind_of, kind_totals
from simprof.profiler.reports.html.routines import hottest
from simprof.profiler.reports.listings import RowChoice
from simprof.profiler.reports.run_text import NO_LINES
from simprof.simulator.binary.program import LineTable, Range, SourceLine
from tests.support.samples import measurement, routine

HELPER = "__sparc_get_pc_thunk.l7"


def mixed() -> RunMeasurement:
    """Return a run of own code, a library's, code that nothing is known of, and a helper."""
    routines = (
        routine(added=40),
        routine(name="memcpy", address=0x2000, added=30, path_counts=()),
        routine(name="strlen", address=0x3000, added=20, path_counts=()),
        routine(name=HELPER, address=0x4000, added=10, path_counts=()),
        routine(
            name="never", address=0x5000, added=0, activations=0, instructions=0, path_counts=()
        ),
    )
    lines = {
        0x1000: SourceLine("src/loop.c", 4),
        0x1010: SourceLine("src/loop.c", 5),
        0x1020: SourceLine("src/loop.c", 8),
        0x2000: SourceLine("/build/glibc-2.36/string/memcpy.c", 30),
    }
    return measurement(routines=routines, lines=lines, base=236, added=103)


def rows(report: str, title: str) -> list[str]:
    """Return a section's rows, runs of blanks made one."""
    section = report.split(f"{title}\n")[1].split("\n\n")[0]
    return [" ".join(line.split()) for line in section.splitlines()[1:]]


def test_the_screen_says_where_added_instructions_come_from() -> None:
    report = run_text.render(mixed(), top=2)
    assert rows(report, "Instructions by routine") == [
        "59 25.00 % 2 40 38.83 % 67.80 % main",
        "59 25.00 % 2 30 29.13 % 50.85 % memcpy",
        "118 50.00 % 4 30 29.13 % 25.42 % (2 other routines)",
        "0 0.00 % - 3 2.91 % - (in no routine)",
    ]
    assert "overhead    43.64 %" in report
    assert "increments  7 (14.7 instructions each)" in report


def test_the_screen_leaves_out_what_executes_less_than_a_thousandth() -> None:
    run = mixed()
    small = replace(run.routines[1], instructions=0, added=0)
    run = replace(run, base=60_000, routines=(replace(run.routines[0], instructions=59_999), small))
    assert rows(run_text.render(run), "Instructions by routine")[1] == (
        "0 0.00 % 2 0 0.00 % - (1 other routine)"
    )
    assert "memcpy" in run_text.render(run, top=5)  # as many as were asked for
    assert "memcpy" in run_text.render(run, details=True)


def test_what_was_not_selected_is_the_rest() -> None:
    run = replace(mixed(), base=1236, options={"user_only": True})
    assert rows(run_text.render(run), "Instructions by routine")[-1] == (
        "1,000 80.91 % - 3 2.91 % 0.30 % (rest)"
    )


def test_routines_have_what_they_call_where_calls_are_known(
    fixture_elf: Callable[..., Path],
) -> None:
    run = simprof.run(fixture_elf("loops", "v9"), "pp", ["1"], call_tree=True)
    assert run.call_tree is not None
    by_name = {each.name: each.inclusive_base for each in call_graph(run.call_tree).routines}
    report = run_text.render(run, width=200)
    table = rows(report, "Instructions by routine")
    shown = {row.split()[-1]: row.split() for row in table if not row.endswith(")")}
    assert "with callees" in report and "main" in shown
    for name, cells in shown.items():
        assert int(cells[3].replace(",", "")) == by_name[name] >= int(cells[0].replace(",", ""))
    assert "with callees" not in run_text.render(replace(run, call_tree=None))


def test_cpp_functions_have_their_names_alone_unless_two_have_the_same() -> None:
    def named(name: str, address: int) -> RoutineProfile:
        return routine(name=name, address=address, path_counts=())

    one, other = named("_ZN3app5parseEi", 0x2000), named("_ZN3app5parseEd", 0x3000)
    assert hot_tables.names_of([one]) == ["app::parse"]
    assert hot_tables.names_of([one, other]) == ["app::parse(int)", "app::parse(double)"]
    assert hot_tables.names_of([one, one]) == ["app::parse"] * 2


def test_the_screen_names_kinds_of_code_and_marks_helpers() -> None:
    run = mixed()
    kinds = [kind_of(routine, run) for routine in run.routines[:4]]
    assert kinds == [CodeKind.OWN, CodeKind.LIBRARY, CodeKind.UNKNOWN, CodeKind.HELPER]
    assert [(kind, added) for kind, added, _ in kind_totals(run)] == list(
        zip(CodeKind, (40, 30, 20, 10), strict=True)
    )
    report = run_text.render(run)
    assert "own code    25.00 % of base, 38.83 % of added; the rest is libraries\n" in report
    kinds_of_code = rows(run_text.render(run, details=True), "Added instructions by kind of code")
    assert kinds_of_code[3] == "10 9.71 % 16.95 % compiler helpers that load the PC"
    assert f"{HELPER} [PIC]\n" in report
    assert "[PIC] compiler helper that loads the PC (position-independent code)" in report
    assert f"{HELPER} [PIC] " in run_text.render(run, details=True)
    assert "[PIC]" not in run_text.render(run, top=1)  # explained only where it stands
    plain = run_text.render(measurement())
    assert "[PIC]" not in plain
    assert "own code" not in plain  # there is one kind


@pytest.mark.parametrize("subject", ["routines", "edges", "paths"])
def test_lists_mark_helpers(subject: str) -> None:
    run = mixed()
    helper = replace(run.routines[3], path_counts=routine().path_counts)
    run = replace(run, routines=(*run.routines[:3], helper, *run.routines[4:]))
    shown = listings.render_text(listings.listing(subject, run, RowChoice()), 200)
    assert f" {HELPER} [PIC]" in shown
    assert shown.endswith(
        "\n\n[PIC] compiler helper that loads the PC (position-independent code)\n"
    )
    assert "main [PIC]" not in shown
    assert "[PIC]" not in listings.render_text(
        listings.listing(subject, run, RowChoice(exclude=("__sparc*",))), 200
    )
    assert "[PIC]" not in listings.render_csv(listings.listing(subject, run, RowChoice()))


def test_hot_paths_are_source_lines_where_these_are_known() -> None:
    known = rows(run_text.render(mixed()), "Hot paths")
    assert known[0] == "11.44 % 3 9 main loop.c:4 > 5"
    unknown = run_text.render(measurement(lines={}))
    assert rows(unknown, "Hot paths")[0] == "45.76 % 3 9 main 0x1000 > slot 0x100c > 0x1010"
    assert "source lines" not in unknown.split("Hot paths")[1]


def test_files_of_the_same_name_are_told_apart() -> None:
    names = ShortNames(["a/one.c", "b/one.c", "a/two.c"])
    lines = [SourceLine("a/one.c", 1), SourceLine("b/one.c", 2), SourceLine("a/two.c", 3)]
    assert names.route(lines) == "a/one.c:1 > b/one.c:2 > two.c:3"
    assert names.route([lines[2], lines[2]]) == "two.c:3"
    long = ["/home/me/a/x/one.c", "/home/me/b/x/one.c", "/x/one.c", "x/one.c", "odd/", "/one.h"]
    names = ShortNames(long)
    shown = ["a/x/one.c", "b/x/one.c", "/x/one.c", "x/one.c", "odd/", "one.h"]
    assert list(map(names.short, long)) == shown
    assert names.short("of/another/table.c") == "of/another/table.c"


@pytest.mark.parametrize("mode", ["pp", "qpt2", "qpt", "bits", "edges"])
def test_details_are_on_demand(mode: str) -> None:
    run = measurement(mode=mode, options={"placement": "redundant"})
    first = run_text.render(run)
    assert "Totals" not in first
    assert "--details" in first.splitlines()[-1]
    details = run_text.render(run, details=True)
    assert "Totals" in details
    assert "--details" not in details
    assert "Hot" not in run_text.render(run, top=0)


def test_a_mode_that_adds_nothing_shows_where_instructions_were_executed() -> None:
    still = measurement(mode="edges", added=0, counts={}, routines=(routine(added=0),))
    for details in (False, True):
        report = run_text.render(still, details=details)
        assert rows(report, "Instructions by routine") == ["59 100.00 % 2 main"]
        for word in ("increments  ", "added", "overhead"):
            assert word not in report
    for subject in ("routines", "edges"):
        listed = listings.render_text(listings.listing(subject, still, RowChoice()), 160)
        assert "added" not in listed and "overhead" not in listed and "counter" not in listed
        assert "added" in listings.render_text(
            listings.listing(subject, measurement(), RowChoice()), 160
        )


@pytest.mark.parametrize("details", [False, True])
@pytest.mark.parametrize("mode", ["pp", "tpp", "qpt", "witness", "calls"])
def test_routines_are_ranked_by_what_they_execute_instrumented(mode: str, details: bool) -> None:
    run = mixed()
    main, *others = run.routines
    run = replace(run, mode=mode, routines=(replace(main, instructions=60), *others))
    report = run_text.render(run, top=2, details=details)
    title = "Instructions by routine"
    assert [each.split("%")[0] + each.split("%")[-1] for each in rows(report, title)[:2]] == [
        "60 25.42  main", "59 25.00  memcpy",
    ]  # fmt: skip
    assert ("Routines by added instructions" in report) == details
    assert report.index("\noverhead") < report.index(f"\n{title}\n")
    assert title not in run_text.render(run, top=0, details=details)


@pytest.mark.parametrize("details", [False, True])
@pytest.mark.parametrize("mode", ["edges", "qpt"])
def test_programs_without_lines_have_one_note_and_no_column(mode: str, details: bool) -> None:
    """Where nothing was added, nothing is said of kinds of code."""
    added = 0 if mode == "edges" else 40
    here, there = routine(added=added), routine(name="__sparc_get_pc_thunk.l7", added=added)
    run = measurement(mode=mode, added=2 * added, routines=(here, there))
    with_lines = run_text.render(run, details=details)
    report = run_text.render(replace(run, lines={}), details=details)
    assert "source line" in with_lines
    assert NO_LINES not in with_lines
    assert report.count(NO_LINES) == 1
    assert "source line" not in report.replace(NO_LINES, "")
    assert ("own code" in with_lines, "own code" in report) == (True, False)


def test_a_comparison_names_the_costliest_routines() -> None:
    run = mixed()
    report = comparison_report.render_text((("pp", run), ("tpp(1,1)", run)), 1, 1)
    assert rows(report, "Instructions added by each mode") == [
        "pp paths 103 43.64 % main",
        "tpp(1,1) paths 103 43.64 % main",
    ]
    assert "Costs" not in report
    two = comparison_report.render_text((("pp", run),), 1, 1, top=2, details=True)
    assert rows(two, "Instructions added by each mode")[1] == "29.13 % memcpy"
    assert "Costs (added instructions, increments, sizes in bytes)" in two
    assert "most of it in" not in comparison_report.render_text((("pp", run),), 1, 1, top=0)


def test_a_comparison_is_sorted_by_overhead_unless_another_order_is_asked_for() -> None:
    assert tuple(comparison_report.SORTS) == compare.SORTS
    named = {mode: replace(mixed(), mode=mode) for mode in ("qpt2", "tpp", "pp")}
    named["qpt2"] = replace(named["qpt2"], added=50)
    named["tpp"] = replace(named["tpp"], added=10, quality=Quality("pp", 0.5, 0.5))

    def order(sort: str = "overhead") -> list[str]:
        report = comparison_report.render_text(tuple(named.items()), 1, 1, sort=sort)
        title = "Instructions added by each mode"
        return [row.split()[0] for row in rows(report, title) if row.split()[0] in named]

    assert order() == ["tpp", "qpt2", "pp"]
    assert order("given") == ["qpt2", "tpp", "pp"]
    assert order("mode") == ["pp", "qpt2", "tpp"]
    assert order("accuracy")[0] == order("coverage")[0] == "pp"


class Terminal:
    """A stream that is a terminal, or not."""

    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("variables", "terminal", "colored"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"CLICOLOR_FORCE": "0"}, False, False),
        ({"CLICOLOR": "0"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours_are_for_terminals_and_as_the_user_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], terminal: bool, colored: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stderr", Terminal(terminal))
    assert streams.colored(streams.STDERR) is colored


class Lines(LineTable):
    """Source lines of a program: every instruction of some addresses is of one file."""

    def find(self, address: int) -> SourceLine | None:
        return SourceLine("/src/loop.c", address >> 4) if address < 0x1020 else None

    def stretches(self) -> Iterator[tuple[Range, SourceLine]]:
        raise AssertionError("only single addresses are looked up")


def test_a_comparison_shows_the_hottest_paths_once_as_source_lines() -> None:
    brief = replace(mixed(), lines={})
    report = comparison_report.render_text(
        (("pp", brief), ("bittrace", brief)), 1, 1, lines=Lines()
    )
    assert report.count("Hot paths") == 1
    assert rows(report, "Hot paths (as pp counts them)") == [
        "11.44 % 3 9 main loop.c:256 > 257",
        "7.63 % 2 9 main loop.c:256 > 257",
        "5.93 % 2 7 main loop.c:256",
    ]
    unknown = comparison_report.render_text((("pp", brief),), 1, 1, top=1)
    assert rows(unknown, "Hot paths (as pp counts them)") == [
        "11.44 % 3 9 main 0x1000 > slot 0x100c > 0x1010"
    ]
    details = comparison_report.render_text((("pp", brief),), 1, 1, details=True, lines=Lines())
    assert " loop.c:256 > 257" in details.split("Hot paths")[1]
    assert "Hot paths" not in comparison_report.render_text((("pp", brief),), 1, 1, top=0)
    edges = replace(brief, mode="qpt2")
    assert "Hot paths" not in comparison_report.render_text((("qpt2", edges),), 1, 1)


def test_hot_paths_of_a_comparison_are_those_of_the_setting_that_knows_most() -> None:
    """An exact `pp` first, however much of the run is on paths; k-iteration paths last."""
    run = mixed()
    main, *others = run.routines
    fewer = replace(run, routines=(replace(main, path_counts=main.path_counts[:1]), *others))
    tpp = replace(run, mode="tpp", guide=Guide(None, same_run=True))

    def shown(*named: tuple[str, RunMeasurement]) -> str:
        report = comparison_report.render_text(named, 1, 1)
        return report.split("Hot paths (as ")[1].split(" counts them)")[0]

    assert shown(("pp", run), ("tpp", tpp)) == "pp"
    assert shown(("tpp", tpp), ("pp", fewer)) == "pp"
    for name in ("cold_paths", "undercounted_blocks", "overcounted_blocks"):
        assert shown(("tpp", replace(tpp, lost={name: 1})), ("tpp(1,1)", tpp)) == "tpp(1,1)"
    assert shown(("kiter", replace(run, mode="kiter")), ("pp", fewer)) == "pp"
    assert shown(("kiter", replace(run, mode="kiter")), ("qpt2", replace(run, mode="qpt2"))) == (
        "kiter"
    )


def test_a_comparison_says_what_its_marks_mean() -> None:
    run = mixed()
    helper = replace(run, routines=(replace(run.routines[3], added=99), *run.routines[:3]))
    report = comparison_report.render_text((("pp", helper),), 1, 1)
    assert f"{HELPER} [PIC]\n" in report
    assert report.count("[PIC] compiler helper that loads the PC (position-independent code)") == 1
    assert "[PIC]" not in comparison_report.render_text((("pp", run),), 1, 1)


@pytest.mark.parametrize("name", ["sieve", "loops", "bench"])
def test_hot_paths_of_pp_and_turns_of_loops_are_the_whole_run(
    fixture_elf: Callable[..., Path], name: str
) -> None:
    """Turns of loops of one block are on no path of `pp`: with them, nothing is missing."""
    measurement = simprof.run(fixture_elf(name, "v9"), "pp", ["1"])
    rows = hot_tables.hot_flow(measurement)
    assert any(isinstance(row.path, LoopIterations) for row in rows)
    assert sum(row.flow for row in rows) == sum(each.instructions for each in measurement.routines)
    assert [row.flow for row in rows] == sorted((row.flow for row in rows), reverse=True)
    turns = [row for row in rows if isinstance(row.path, LoopIterations)]
    for row in turns:
        (edge,) = (row.routine.edge_counts[n] for n in row.path.edges)
        assert (edge.source, edge.count) == (edge.target, row.path.count)
    # `show paths`, CSV and the page list the same, and a routine's rows add up to the routine.
    listed = Counter[tuple[int, int]]()
    executed = Counter[int]()
    for one in measurement.routines:
        for path in listed_paths(measurement, one):
            listed[one.address, path.count * path.instructions] += path.count > 0
            executed[one.address] += path.count * path.instructions
        assert executed[one.address] == one.instructions
        on_page = [isinstance(path, LoopIterations) for path in hottest(measurement, one)]
        assert any(on_page) == any(row.routine is one for row in turns)
    assert +listed == Counter((row.routine.address, row.flow) for row in rows)
    of_table: Counter[str] = Counter()
    for object_ in table(measurement, "paths").objects():
        of_table[object_["routine_address"]] += object_["instructions"]
    assert of_table == {f"{each.address:#x}": each.instructions for each in measurement.routines}
