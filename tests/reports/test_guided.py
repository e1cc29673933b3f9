"""Schemes that an edge profile guides: whose counts a report shows, and what guided them."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import simprof
from simprof._results import Comparison, shown
from simprof.profiler.exports import tables
from simprof.profiler.profiles import storage
from simprof.profiler.profiles.combine import merge
from simprof.profiler.profiles.differences import difference
from simprof.profiler.profiles.fingerprint import file_sha256
from simprof.profiler.profiles.lines import SourceCounts
from simprof.profiler.profiles.profile import Guide, PathCount, RunMeasurement
from simprof.profiler.profiles.tables import LoopIterations, table
from simprof.profiler.reports import comparison_report, hot_tables, listings, run_json, run_text
from simprof.profiler.reports.html.report import ReportRun
from simprof.profiler.reports.html.report import render as report_page
from simprof.profiler.reports.html.routines import hottest, path_name
from simprof.profiler.reports.html.summary import summaries
from simprof.profiler.reports.listings import RowChoice
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session.session import compare_program
from tests.support.samples import measurement, routine

OWN = Guide(None, same_run=True)
TRAINING = Guide("A.edges", same_run=False)


def guided(guide: Guide, count: int = 20_000) -> RunMeasurement:
    """Return a run under `tpp` whose first path has no counter, and two others have one."""
    first, *others = routine().path_counts
    paths = (replace(first, count=count, inferred=True), *others)
    return measurement(
        mode="tpp",
        options={"cold": 5.0, "loop": 15.0, "edge_profile": guide.file},
        routines=(routine(path_counts=paths),),
        counts={"path_increments": 5, "inferred_paths": count},
        guide=guide,
    )


def rows(report: str, title: str, heads: int = 1) -> list[str]:
    """Return a section's rows, runs of blanks made one."""
    section = report.split(f"\n{title}\n")[1].split("\n\n")[0]
    return [" ".join(line.split()) for line in section.splitlines()[heads:]]


def test_counts_of_the_training_run_have_a_table_of_their_own() -> None:
    """Its 20,000 executions are not ranked with the five of this run, and share nothing of it."""
    report = run_text.render(guided(TRAINING))
    assert rows(report, "Hot paths") == [
        "45.76 % 3 9 counter main loop.c:4 > 5",
        "23.73 % 2 7 counter main loop.c:4 > 8",
    ]
    apart = "Paths without a counter (counts of A.edges, not of this run)"
    assert rows(report, apart) == ["20,000 9 edge profile main loop.c:4 > 5"]
    details = run_text.render(guided(TRAINING), details=True)
    assert not any("20,000" in row for row in rows(details, "Hot paths"))
    assert rows(details, apart)[0] == "20,000 9 0 edge profile main 0x1000 > slot 0x100c > 0x1010"
    known = rows(details, "Path executions", 0)
    assert known[0] == "5 path executions, each counted (100.00 %)"
    assert known[2].startswith("20,000 of obvious paths (determined by the edge profile A.edges:")
    compared = comparison_report.render_text((("tpp", guided(TRAINING)),), 1, 1)
    assert not any("20,000" in row for row in rows(compared, "Hot paths (as tpp counts them)"))
    assert rows(compared, apart) == ["20,000 9 edge profile main loop.c:4 > 5"]


def test_inferred_counts_of_the_same_run_are_marked() -> None:
    report = run_text.render(guided(OWN, 2))
    assert rows(report, "Hot paths") == [
        "45.76 % 3 9 counter main loop.c:4 > 5",
        "30.51 % 2 9 edge profile main loop.c:4 > 5",
        "23.73 % 2 7 counter main loop.c:4 > 8",
    ]
    assert "Paths without a counter" not in report
    assert "counted by" not in run_text.render(measurement())
    known = rows(run_text.render(guided(OWN, 2), details=True), "Path executions", 0)
    assert known[1] == "2 of obvious paths (determined by the edge profile) (28.57 %)"


def test_machine_readable_forms_mark_inferred_counts_and_name_their_source() -> None:
    run = guided(TRAINING)
    answer = json.loads(run_json.render(run))
    assert [(path["executions"], path["inferred"]) for path in answer["paths"]] == [
        (20_000, True), (3, False), (2, False),
    ]  # fmt: skip
    assert answer["guide"] == {
        "file": "A.edges", "sha256": None, "same_run": False, "mode": None, "added": None,
        "overhead": None,
    }  # fmt: skip
    assert "guide" not in json.loads(run_json.render(measurement()))
    exported = csv.DictReader(io.StringIO(tables.render_csv(table(run, "paths")).decode()))
    assert [(row["inferred"], row["inferred_from"], row["shortened"]) for row in exported] == [
        ("true", "A.edges", "false"), ("false", "", "false"), ("false", "", "false"),
    ]  # fmt: skip
    own = tables.render_csv(table(guided(OWN, 2), "paths")).decode().splitlines()
    assert ",true,this same run,,,false," in own[1]
    column = [each.name for each in table(run, "routines").columns].index("executed_paths")
    assert table(run, "routines").rows[0][column] == 2  # by what this run tells
    assert storage.from_bytes(storage.to_bytes(run), "p") == run


def test_lists_of_paths_rank_counts_of_the_training_run_last() -> None:
    run = guided(TRAINING)
    listed = listings.listing("paths", run, RowChoice())
    at = listings.places("paths")
    shown = [
        at[name] for name in ("instructions", "share", "executions", "inferred", "inferred_from")
    ]
    assert [[row[place] for place in shown] for row in listed.table.rows] == [
        [27, 27 / 59, 3, False, None],
        [14, 14 / 59, 2, False, None],
        [None, None, 20_000, True, "A.edges"],
    ]
    assert "executions,instructions,instructions_per_execution,share" in listings.render_csv(listed)
    printed = listings.render_text(listed, 160)
    assert "inferred from" in printed
    assert (
        "Counts inferred from A.edges are those of the run that made it, not of this one."
        in printed
    )
    assert "inferred" not in listings.render_text(
        listings.listing("paths", measurement(), RowChoice()), 160
    )


def test_pages_mark_them_and_show_no_share() -> None:
    for guide, order in ((TRAINING, [3, 2, 20_000]), (OWN, [20_000, 3, 2])):
        run = guided(guide)
        ranked = hottest(run, run.routines[0])
        assert [path.count for path in ranked] == order
        assert path_name(ranked[order.index(20_000)]) == "0 (edge profile)"
    assert ReportRun("a", SourceCounts(run, None)).measurement is run


def test_profiles_that_one_training_run_guided_are_added_up_without_its_counts() -> None:
    total = merge([guided(TRAINING), guided(TRAINING)])
    assert [path.count for path in total.routines[0].path_counts] == [20_000, 6, 4]
    assert total.guide == TRAINING
    own = merge([guided(OWN, 2), guided(OWN, 2)])
    assert [path.count for path in own.routines[0].path_counts] == [4, 6, 4]
    other = guided(Guide("B.edges", same_run=False), 7)
    assert difference(guided(TRAINING), other).paths == ()
    assert len(difference(guided(OWN, 2), guided(OWN, 3)).paths) == 1


def test_a_run_knows_whose_counts_it_shows(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    """`tpp` on one input, guided by nothing saved, its own profile, and one of more work."""
    elf, training, same = fixture_elf("bench", "v9"), tmp_path / "training", tmp_path / "same"
    budget = 100_000
    simprof.save(simprof.run(elf, "edges", ["3"], max_instructions=3 * budget), training)
    exact = simprof.run(elf, "edges", ["1"], max_instructions=budget)
    simprof.save(exact, same)
    edges = {
        key: [edge.count for edge in counts]
        for key, counts in exact.edge_profile().routines.items()
    }

    own = simprof.run(elf, "tpp", ["1"], max_instructions=budget)
    again, other = (
        simprof.run(elf, "tpp", ["1"], max_instructions=budget, edge_profile=profile)
        for profile in (same, training)
    )
    counted = simprof.run(elf, "qpt2", ["1"], max_instructions=budget).added
    price = ("qpt2", counted)  # of a profile of this run, whatever guided it
    assert own.guide == Guide(None, True, *price)
    assert again.guide == Guide(str(same), True, *price, file_sha256(same))
    assert other.guide == Guide(str(training), False, *price, file_sha256(training))
    assert own.routines == again.routines
    for measured in (own, other):
        inferred = sum(
            path.count for each in measured.routines for path in each.path_counts if path.inferred
        )
        assert inferred == measured.counts["inferred_paths"] > 0
    # a count that this run cannot have: more than any edge of the routine
    assert any(
        path.count > max(edges[each.key])
        for each in other.routines
        for path in each.path_counts
        if path.inferred
    )
    assert not any(
        path.count > max(edges[each.key])
        for each in other.routines
        for path in each.path_counts
        if not path.inferred
    )


PRICED = replace(OWN, mode="qpt2", added=30)


def test_reports_say_what_guided_and_what_that_costs() -> None:
    for details in (False, True):
        report = run_text.render(guided(PRICED, 2), details=details)
        assert "\nguide       this run's own edge profile (best case)\n" in report
        assert "\noverhead    67.80 %, and 50.85 % to collect its guide with qpt2\n" in report
        assert ("\nguide cost  30 instructions, not in added\n" in report) == details
    other = run_text.render(guided(replace(TRAINING, mode="qpt2", added=30)))
    assert "\nguide       an edge profile of A.edges, of another run\n" in other
    assert "%, and 50.85 % to collect such an edge profile of this run with qpt2\n" in other
    same = run_text.render(guided(Guide("B", same_run=True)), width=160)
    told = "an edge profile of B, with the counts of this same run (best case)"
    assert f"\nguide       {told}\n" in same
    assert "\noverhead    67.80 %\n" in same  # nobody knows the price
    assert "\nguide" not in run_text.render(measurement())


def test_comparisons_say_what_guided_and_what_that_costs() -> None:
    named = (("pp", measurement()), ("tpp", guided(PRICED, 2)))
    report = comparison_report.render_text(named, 1, 1, 120)
    told = (
        "tpp: guided by this run's own edge profile (best case); 50.85 % to collect its guide with "
        "qpt2, not in added"
    )
    assert f"\n{told}\n" in report
    assert "guided by" not in comparison_report.render_text(named[:1], 1, 1)
    modes = json.loads(comparison_report.render_json(named, 1, 1))["modes"]
    assert modes["tpp"]["guide"] == {
        "file": None, "sha256": None, "same_run": True, "mode": "qpt2", "added": 30,
        "overhead": 30 / 59,
    }  # fmt: skip
    assert "guide" not in modes["pp"]


def test_pages_and_notebooks_say_what_guided_and_what_that_costs() -> None:
    run = guided(PRICED, 2)
    (summary,) = summaries([ReportRun("a", SourceCounts(run, None))])
    assert summary.guide == "this run's own edge profile (best case)"
    assert summary.guide_price == "50.85 % to collect its guide with qpt2"
    page = report_page([ReportRun("a", SourceCounts(run, None))])
    assert "own edge profile (best case), 50.85 % to collect its guide" in page
    assert "<dt>guide</dt>" not in report_page([ReportRun("a", SourceCounts(measurement(), None))])
    html = shown(run)._repr_html_()
    assert "best case" in html and "50.85 % to collect its guide" in html
    both = {"tpp": shown(run), "pp": shown(measurement())}
    frame = Comparison(both, 1, 1).to_frame()
    assert frame[["guided_by", "edge_profile_added"]].values.tolist()[0] == ["this same run", 30]
    assert (
        '<td style="text-align: right">this same run</td>' in Comparison(both, 1, 1)._repr_html_()
    )


def test_profiles_of_runs_that_guided_themselves_add_up_what_that_costs() -> None:
    assert merge([guided(PRICED, 2), guided(PRICED, 2)]).guide == replace(PRICED, added=60)
    assert merge([guided(PRICED, 2), guided(OWN, 2)]).guide == replace(PRICED, added=None)


def test_a_comparison_prices_edge_profiles_by_the_counts_at_hand(
    fixture_elf: Callable[..., Path],
) -> None:
    """Whether or not the mode that collects them is among those asked for."""
    elf = fixture_elf("loops", "v9")
    without = simprof.compare(elf, ["pp", "tpp", "tpp:cold=1:loop=1"])
    among = simprof.compare(elf, ["qpt2", "tpp"])
    assert list(without.measurements) == ["pp", "tpp", "tpp:cold=1:loop=1"]
    assert (without.emulations, among.emulations) == (1, 1)
    price = among.measurements["qpt2"].added
    assert price > 0
    for one in (*without.measurements.values(), among.measurements["tpp"]):
        assert one.guide == (None if one.mode == "pp" else Guide(None, True, "qpt2", price))


def test_attribution_says_why_it_is_negative_and_overlap_is_beside_it() -> None:
    lost = {"flow_blocks": 10_000, "overcounted_blocks": 11_169, "undercounted_blocks": 0}
    report = run_text.render(replace(guided(TRAINING), lost=lost), width=200)
    assert rows(report, "Precision lost", 0) == [
        "overlap with pp 47.24 % of path flow",
        "AoDF -11.69 % (111.69 % overcounted, 0.00 % undercounted; misplaced flow counts as "
        "both, so that it can be negative)",
        "both judge the counts that the edge profile A.edges determines as if they were this run's",
    ]
    better = replace(guided(TRAINING), lost=lost | {"overcounted_blocks": 9_999})
    assert "negative" not in run_text.render(better, width=200)
    none = replace(guided(TRAINING), lost=lost | {"overcounted_blocks": 0})
    assert "AoDF" not in run_text.render(none) and "overlap" not in run_text.render(none)


def test_shortened_paths_are_marked() -> None:
    run = measurement()
    first, *others = run.routines[0].path_counts
    short = replace(first, shortened=True)
    run = replace(run, mode="tpp", routines=(routine(path_counts=(short, *others)),))
    report = run_text.render(run, width=160)
    assert "30.51 % 2 9 counter * main loop.c:4 > 5" in rows(report, "Hot paths")
    assert "\n* part of longer paths that the scheme splits; its count includes them\n" in report
    assert [path["shortened"] for path in json.loads(run_json.render(run))["paths"]] == [
        True, False, False,
    ]  # fmt: skip
    assert path_name(short) == "0 (part of longer paths)"


def test_paths_that_tpp_does_not_shorten_have_the_counts_of_pp(
    fixture_elf: Callable[..., Path],
) -> None:
    """By their blocks; the shortened ones count parts of others, too."""
    compared = simprof.compare(fixture_elf("bench", "v9"), ["pp", "tpp"], ["1"])
    pp, tpp = (
        {
            (each.name, path.blocks, path.slots): (path.count, path.shortened)
            for each in compared.measurements[mode].routines
            for path in _by_blocks(each.path_counts)
        }
        for mode in ("pp", "tpp")
    )
    assert not any(shortened for _, shortened in pp.values())
    exact = [key for key, (_, shortened) in tpp.items() if not shortened]
    assert len(exact) > 20
    assert [tpp[key][0] for key in exact] == [pp[key][0] for key in exact]
    counts = [(tpp[key][0], pp[key][0] if key in pp else 0) for key in tpp if tpp[key][1]]
    assert len(counts) > 20
    assert all(here >= there for here, there in counts)
    assert sum(here > there for here, there in counts) > 20


def _by_blocks(paths: Iterable[PathCount]) -> Iterator[PathCount]:
    """Add up the counts of whole paths that have the same blocks: where they begin may differ."""
    total: dict[object, PathCount] = {}
    for path in paths:
        if not path.partial:
            key = path.blocks, path.slots
            before = total[key].count if key in total else 0
            total[key] = replace(path, count=before + path.count)
    yield from total.values()


@pytest.mark.parametrize("name", ["sieve", "bench"])
def test_a_brief_measurement_has_the_loops_of_one_block(
    fixture_elf: Callable[..., Path], name: str
) -> None:
    """What a comparison shows of `pp` is the whole run, though it keeps no other edges."""
    guest = GuestOptions(Path.cwd(), stdout=os.open(os.devnull, os.O_WRONLY))
    request = RunRequest(fixture_elf(name, "v9"), guest, (b"1",))
    scheme = SchemeOptions()
    settings = (Setting("pp", "pp", scheme), Setting("qpt2", "qpt2", scheme))
    pp, qpt2 = compare_program(request, settings, brief=True).measurements
    os.close(guest.stdout)
    shown = hot_tables.hot_flow(pp)
    assert any(isinstance(each.path, LoopIterations) for each in shown)
    assert sum(each.flow for each in shown) == sum(each.instructions for each in pp.routines)
    assert {edge.source == edge.target for each in pp.routines for edge in each.edge_counts} == {
        True
    }
    assert not any(each.edge_counts or each.block_counts for each in qpt2.routines)
