"""Schemes that an edge profile guides: whose counts a report shows, and what guided them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import simprof
from profiler.exports import csv_file
from profiler.profiles import storage
from profiler.profiles.combine import merge
from profiler.profiles.differences import difference
from profiler.profiles.lines import SourceCounts
from profiler.profiles.profile import Guide, Measurement
from profiler.profiles.tables import table
from profiler.reports import compare_text, listing_csv, listing_text, listings, run_json, text
from profiler.reports.html.report import Run
from profiler.reports.html.routines import hottest, path_name
from profiler.reports.listings import Choice
from tests.support.samples import measurement, routine

OWN = Guide(None, same_run=True)
TRAINING = Guide("A.edges", same_run=False)


def guided(guide: Guide, count: int = 20_000) -> Measurement:
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
    report = text.render(guided(TRAINING))
    assert rows(report, "Hot paths") == [
        "45.76 % 3 9 main loop.c:4 > 5",
        "23.73 % 2 7 main loop.c:4 > 8",
    ]
    apart = "Paths without a counter (counts of A.edges, not of this run)"
    assert rows(report, apart) == ["20,000 9 main loop.c:4 > 5 (inferred)"]
    assert (
        "\n(inferred) no counter counts it: the edge profile A.edges determines its executions\n"
        in report
    )
    details = text.render(guided(TRAINING), details=True)
    assert not any("20,000" in row for row in rows(details, "Hot paths"))
    assert rows(details, apart)[0] == "20,000 9 0 main 1000 > slot 100c > 1010"
    known = rows(details, "Paths", 0)
    assert known[0] == "5 path executions, each counted (100.00 %)"
    assert known[2].startswith("20,000 of obvious paths (determined by the edge profile A.edges:")
    compared = compare_text.render((("tpp", guided(TRAINING)),), 1, 1)
    assert not any("20,000" in row for row in rows(compared, "Hot paths (as tpp counts them)"))
    assert rows(compared, apart) == ["20,000 9 main loop.c:4 > 5 (inferred)"]


def test_inferred_counts_of_the_same_run_are_marked() -> None:
    report = text.render(guided(OWN, 2))
    assert rows(report, "Hot paths") == [
        "45.76 % 3 9 main loop.c:4 > 5",
        "30.51 % 2 9 main loop.c:4 > 5 (inferred)",
        "23.73 % 2 7 main loop.c:4 > 8",
    ]
    assert "Paths without a counter" not in report
    assert "(inferred) no counter counts it: the edge profile of this same run" in report
    assert "(inferred)" not in text.render(measurement())
    known = rows(text.render(guided(OWN, 2), details=True), "Paths", 0)
    assert known[1] == "2 of obvious paths (determined by the edge profile) (28.57 %)"


def test_machine_readable_forms_mark_inferred_counts_and_name_their_source() -> None:
    run = guided(TRAINING)
    answer = json.loads(run_json.render(run))
    assert [(path["count"], path["inferred"]) for path in answer["paths"]] == [
        (20_000, True), (3, False), (2, False),
    ]  # fmt: skip
    assert answer["guide"] == {"file": "A.edges", "same_run": False}
    assert "guide" not in json.loads(run_json.render(measurement()))
    exported = csv_file.render(table(run, "paths")).decode().splitlines()
    assert exported[0].split(",")[-2:] == ["inferred", "inferred_from"]
    found = [row.split(",")[-2:] for row in exported[1:]]
    assert found == [["true", "A.edges"], ["false", ""], ["false", ""]]
    own = csv_file.render(table(guided(OWN, 2), "paths")).decode().splitlines()
    assert own[1].endswith(",true,this same run")
    column = [each.name for each in table(run, "routines").columns].index("executed_paths")
    assert table(run, "routines").rows[0][column] == 2  # by what this run tells
    assert storage.from_bytes(storage.to_bytes(run), "p") == run


def test_lists_of_paths_rank_counts_of_the_training_run_last() -> None:
    run = guided(TRAINING)
    listed = listings.paths(run, Choice())
    names = [field.name for field in listed.fields]
    at = [names.index(name) for name in ("flow", "share", "count", "inferred", "inferred_from")]
    assert [[row[place] for place in at] for row in listed.rows] == [
        [27, 27 / 59, 3, False, None],
        [14, 14 / 59, 2, False, None],
        [None, None, 20_000, True, "A.edges"],
    ]
    assert "flow,share,count" in listing_csv.render(listed)
    shown = listing_text.render(listed, 160)
    assert "inferred from" in shown
    assert (
        "Counts inferred from A.edges are those of the run that made it, not of this one." in shown
    )
    assert "inferred" not in listing_text.render(listings.paths(measurement(), Choice()), 160)


def test_pages_mark_them_and_show_no_share() -> None:
    for guide, order in ((TRAINING, [3, 2, 20_000]), (OWN, [20_000, 3, 2])):
        run = guided(guide)
        shown = hottest(run, run.routines[0])
        assert [path.count for path in shown] == order
        assert path_name(shown[order.index(20_000)]) == "0 (inferred)"
    assert Run("a", SourceCounts(run, None)).measurement is run


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
    budget = 400_000
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
    assert own.guide == Guide(None, same_run=True)
    assert again.guide == Guide(str(same), same_run=True)
    assert other.guide == Guide(str(training), same_run=False)
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
