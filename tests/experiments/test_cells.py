"""Cells of experiments: settings, path characteristics by hand, runs, plans, failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.code.arrangement import generate
from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.layout import CounterSpace
from simprof.profiler.code.places import LayoutRule
from simprof.profiler.experiments.cells import cells as cells_module
from simprof.profiler.experiments.cells.cells import (
    TREES,
    Cell,
    CellDocument,
    CellKind,
    Job,
    Keys,
    plan_cell,
    row_key,
)
from simprof.profiler.experiments.cells.measure import find_jumps
from simprof.profiler.experiments.cells.path_facts import RoutinePaths, path_facts, path_rows
from simprof.profiler.experiments.cells.run import groups, run_group
from simprof.profiler.experiments.cells.settings import combinations, parse, parse_options, setting
from simprof.profiler.experiments.suites.suite import Input
from simprof.profiler.experiments.tables.epp import EPP3
from simprof.profiler.experiments.tables.spec import SuiteMember
from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.profiles.profile import PathCount
from simprof.profiler.recovery.recovery import recover
from simprof.profiler.reports import mode_facts
from simprof.profiler.request.request import (
    CodeLayout,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
)
from simprof.profiler.schemes.registry import make_plan
from simprof.profiler.session.session import compare_program
from simprof.simulator.binary import elf
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES
from tests.support.figures import epp_1, walk
from tests.support.report_tables import document_of
from tests.support.scheme_code import GENERATORS
from tests.support.turns import turns

Find = Callable[..., Path]


def only(*jobs: Job) -> tuple[CellDocument, ...]:
    """Run jobs that must be one group."""
    made = groups(jobs)
    assert len(made) == 1
    return run_group(made[0])


# --- settings


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("pp", "pp"),
        ("pp:weights=heuristic", "pp"),  # it is the default
        ("tpp:cold=0", "tpp:cold=0:loop=0"),  # then nothing is removed, loops' entries included
        ("tpp:cold=0:loop=15", "tpp:cold=0:loop=15"),
        ("tpp:loop=15:cold=1.50", "tpp:cold=1.5"),
        ("kiter:k=3:weights=uniform", "kiter:weights=uniform:k=3"),
        ("tpp:cold-always", "tpp:cold-always"),
        ("pp:exclude=std::*|a=b,c", "pp:exclude=std::*|a=b,c"),
    ],
)
def test_equal_work_has_one_name(text: str, canonical: str) -> None:
    assert parse(text).name == canonical
    assert parse(canonical) == parse(text)
    assert setting("pp", weights="heuristic") == setting("pp")


@pytest.mark.parametrize(
    "text",
    ["pq", "pp:weights=good", "tpp:cold=101", "tpp:cold=nan", "kiter:k=0", "pp:x=1",
     "pp[cold]", "pp:cold=1", "naive:weights=exact", "tpp:cold", "tpp:cold-always=1",
     "tpp:cold=1:cold=2", "kiter:k=1.5", "pp:path-limit=0"],
)  # fmt: skip
def test_wrong_settings_are_one_line_errors(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_settings_reach_the_scheme() -> None:
    found = parse("kiter:k=3:path-limit=60000").scheme()
    assert found.mode == "kiter"
    assert found.options == SchemeOptions.of(iterations=3, path_limit=60000)
    exact = parse("pp:weights=exact")
    assert exact.scheme(Path("x")).options.weights == Path("x")
    with pytest.raises(ValueError, match="edge profile"):
        exact.scheme()


def test_a_grid_of_settings_has_each_once() -> None:
    made = combinations(
        ["pp", "tpp", "naive"], [{}, parse_options("cold=1:loop=1")], ["heuristic", "exact"]
    )
    assert [each.name for each in made] == [
        "pp", "pp:weights=exact",
        "tpp", "tpp:weights=exact", "tpp:cold=1:loop=1", "tpp:weights=exact:cold=1:loop=1",
        "naive",
    ]  # fmt: skip


def test_labels_are_what_was_asked_with_what_that_implies() -> None:
    asked = ["tpp:cold=5", "tpp:cold=0", "tpp:cold=20", "tpp", "pp"]
    made = list(combinations(asked))
    labels = ["tpp:cold=5", "tpp:cold=0:loop=0", "tpp:cold=20", "pp"]
    assert [each.label for each in made] == labels
    assert [parse(label) for label in labels] == made
    assert made[0].name == "tpp"  # the same work: the same key
    both = combinations(["tpp"], [{"cold": cold} for cold in (0, 5)], ["heuristic", "exact"])
    assert [each.label for each in both] == [
        "tpp:weights=heuristic:cold=0:loop=0", "tpp:weights=exact:cold=0:loop=0",
        "tpp:weights=heuristic:cold=5", "tpp:weights=exact:cold=5",
    ]  # fmt: skip


def test_a_mode_s_own_option_counts_though_it_is_the_default() -> None:
    (made,) = combinations(["tpp:cold=5"], [{"cold": 10, "loop": 25}])
    assert made.label == "tpp:cold=5:loop=25"


# --- characteristics of paths, by hand


def counted(cfg: ControlFlowGraph, blocks: str, count: int) -> PathCount:
    """Return a path of a graph with one-letter, one-instruction blocks."""
    edges = tuple(walk(cfg, blocks))
    ids = tuple(cfg.edges[edge].target for edge in edges[:-1])
    return PathCount(0, count, len(ids), ids, (), False, edges)


def test_epp_figure_1_is_mostly_mispredicted_by_its_edge_profile() -> None:
    cfg = epp_1()
    profile = {"ACDF": 90, "ACDEF": 60, "ABCDF": 0, "ABCDEF": 100, "ABDF": 20, "ABDEF": 0}
    paths = [counted(cfg, blocks, count) for blocks, count in profile.items()]
    edges = [sum(p.count for p in paths if edge.id in p.edges) for edge in cfg.edges]
    facts = path_facts([RoutinePaths(cfg, paths, edges)], predict=True)
    assert (facts["paths"], facts["executions"], facts["most_paths"], facts["routines"]) == (
        4,
        270,
        4,
        1,
    )
    assert facts["edges"] == 90 * 3 + 60 * 4 + 100 * 5 + 20 * 3
    assert facts["instructions"] == 90 * 4 + 60 * 5 + 100 * 6 + 20 * 4
    assert (facts["longest_edges"], facts["longest_instructions"]) == (5, 6)
    # Most frequent edges: A>C (150), C>D, D>E (160), E>F. So ACDEF is predicted whole, ACDF up to
    # D, and what begins with A>B not beyond A.
    assert (facts["predicted_correct"], facts["predicted_correct_executions"]) == (1, 60)
    assert facts["predicted_edges"] == 90 * 2 + 60 * 4
    assert facts["predicted_instructions"] == 90 * 3 + 60 * 5 + 100 + 20
    assert (facts["predicted_longest_edges"], facts["predicted_longest_instructions"]) == (4, 5)


def loop() -> ControlFlowGraph:
    """A goes to B (taken) or C; B to itself or D, C to D; D back to A or to EXIT."""
    blocks = tuple(Block(i, 4 * i, i + 1, False) for i in range(4))
    kinds = EdgeKind
    ends = [
        (4, 0, kinds.ENTRY), (0, 1, kinds.TAKEN), (0, 2, kinds.FALL_THROUGH), (1, 1, kinds.TAKEN),
        (1, 3, kinds.FALL_THROUGH), (2, 3, kinds.FALL_THROUGH), (3, 0, kinds.TAKEN),
        (3, 5, kinds.EXIT),
    ]  # fmt: skip
    edges = tuple(Edge(i, *each) for i, each in enumerate(ends))
    return ControlFlowGraph("loop", 0x100, 16, blocks, edges)


def loop_path(edges: tuple[int, ...], blocks: str, count: int, partial: bool = False) -> PathCount:
    ids = ["ABCD".index(block) for block in blocks]
    size = sum(i + 1 for i in ids)
    return PathCount(None, count, size, tuple(4 * i for i in ids), (), partial, edges)


def test_ties_go_to_the_edge_not_taken_and_self_loops_are_not_followed() -> None:
    cfg = loop()
    paths = [
        loop_path((0, 1, 4), "ABD", 2),  # ENTRY A B D, then the back edge
        loop_path((2, 5), "ACD", 1),  # A C D, then the back edge
        loop_path((1, 4, 7), "ABD", 1),  # A B D EXIT
        loop_path((2, 5, 7), "ACD", 2),  # A C D EXIT
        loop_path((0,), "A", 7, partial=True),
    ]
    edges = [2, 3, 3, 100, 3, 3, 3, 3]  # A > B and A > C tie; so do D > A and D > EXIT
    facts = path_facts([RoutinePaths(cfg, paths, edges, removed={6})], predict=True)
    assert (facts["paths"], facts["executions"], facts["partial"]) == (4, 6, 7)
    # Of D's equals neither falls through: the first is the back edge. A C D by the back edge it is.
    assert (facts["predicted_correct"], facts["predicted_correct_executions"]) == (1, 1)
    assert facts["predicted_edges"] == 3 * 2  # both A C D paths, wholly; A B D not beyond A
    assert facts["predicted_instructions"] == 3 * (1 + 3 + 4) + 3 * 1
    edges[7] += 1  # now D leaves by EXIT
    again = path_facts([RoutinePaths(cfg, paths, edges, removed={6})], predict=True)
    assert (again["predicted_correct"], again["predicted_correct_executions"]) == (1, 2)
    edges[1] += 1  # and A goes to B, where the self-loop is no step
    last = path_facts([RoutinePaths(cfg, paths, edges, removed={6})], predict=True)
    assert (
        last["predicted_correct"],
        last["predicted_correct_executions"],
        last["predicted_edges"],
    ) == (1, 1, 3 * 2)


def test_path_keys_tell_paths_apart_whatever_the_counts() -> None:
    cfg = loop()
    paths = [
        loop_path((0, 1, 4), "ABD", 2),
        loop_path((1, 4), "ABD", 1),
        loop_path((1, 4, 7), "ABD", 1),
        loop_path((0, 1, 4, 7), "ABD", 0),
        loop_path((0,), "A", 1, partial=True),
    ]
    rows = path_rows([RoutinePaths(cfg, paths, [0] * 8)])
    assert len(rows) == 3
    doubled = [replace(path, count=2 * path.count) for path in paths]
    again = path_rows([RoutinePaths(cfg, doubled, [0] * 8)])
    assert list(again) == list(rows)
    other = replace(cfg, address=0x200)
    moved = path_rows([RoutinePaths(other, paths, [0] * 8)])
    assert not moved.keys() & rows.keys()


def test_common_paths_are_weighted_by_the_reference_run() -> None:
    cfg = loop()
    both, alone = loop_path((0, 1, 4), "ABD", 2), loop_path((2, 5), "ACD", 3)
    reference = document_of(paths=path_rows([RoutinePaths(cfg, [both, alone], [0] * 8)]))
    more = replace(both, count=50)
    training = document_of(paths=path_rows([RoutinePaths(cfg, [more], [0] * 8)]))
    (row,) = EPP3.rows(SuiteMember("loop"), {"ref": reference, "train": training})
    assert (row["common_paths"], row["paths"]) == (1, 2)
    assert (row["common_executions"], row["executions"]) == (2, 5)
    assert (row["common_instructions"], row["instructions"]) == (2 * 7, 2 * 7 + 3 * 8)


# --- runs

SETTINGS = (
    "pp", "qpt2", "qpt", "tpp", "tpp:cold=1:loop=1", "kiter", "witness", "calls",
    "qpt2:weights=exact", "pp:weights=exact", "qpt:blocks=merged", "qpt2:blocks=merged",
    "qpt2:weights=postorder", "qpt:blocks=folded", "qpt2:blocks=folded",
)  # fmt: skip


@pytest.fixture(scope="module")
def found(fixture_elf: Find) -> dict[str, CellDocument]:
    """All settings of one program, run together."""
    program = fixture_elf("switches")
    jobs = [Job(Cell("switches", parse(name)), program, Input("ref")) for name in SETTINGS]
    results = only(*jobs)
    assert [result.error for result in results] == [None] * len(jobs)
    return dict(zip(SETTINGS, results, strict=True))


@pytest.mark.long
def test_a_cell_has_the_numbers_of_compare(
    found: dict[str, CellDocument], fixture_elf: Find, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("wb") as out:
        guest = GuestOptions(tmp_path, stdin=Path("/dev/null"), argv0=b"switches",
                             stdout=out.fileno())  # fmt: skip
        names = ("pp", "qpt", "qpt2", "tpp", "kiter", "witness")
        compared = compare_program(
            RunRequest(fixture_elf("switches"), guest),
            [Setting(name, name, SchemeOptions()) for name in names],
        )
    for name, measurement in zip(names, compared.measurements, strict=True):
        cell = found[name]
        assert (cell.base, cell.added) == (measurement.base, measurement.added)
        assert {k: v for k, v in cell.counts.items() if k not in ("jumps", "hashing")} == {
            k: v for k, v in measurement.counts.items() if "runs" not in k
        }
        assert cell.sizes == mode_facts.sizes(measurement)
        # what a mode can lose and has not lost is 0 in a cell
        lost = cell.part("lost")
        assert lost == {**dict.fromkeys(lost, 0), **measurement.lost}
        rows = [
            (r.symbol, int(r.routine_address, 16), r.added, r.instructions) for r in cell.routines
        ]
        assert rows == [(r.name, r.address, r.added, r.instructions) for r in measurement.routines]
        if name == "qpt":
            placed = [(row.placed_blocks, row.placed_edges) for row in cell.routines]
            assert placed == [(r.blocks, r.edges) for r in measurement.routines]
        if "inferred_paths" in cell.counts:
            inferred = (p.count for r in measurement.routines for p in r.path_counts if p.inferred)
            assert sum(inferred) == cell.counts["inferred_paths"] > 0


def test_rows_add_up(found: dict[str, CellDocument]) -> None:
    for name, cell in found.items():
        for total in ("path_increments", "hashed_increments", "edge_increments"):
            assert sum(getattr(row, total) for row in cell.routines) == cell.counts[total], name
    pp = found["pp"]
    facts = pp.part("facts")
    assert facts["paths"] == len(pp.paths)
    assert facts["executions"] == sum(count for count, _ in pp.paths.values())
    assert {row.table for row in pp.routines} <= {*map(str, CounterTable)}
    assert all(row.numbered_paths is None for row in found["qpt2"].routines)
    assert found["tpp"].attributed is not None
    assert found["pp"].attributed is None


def test_placements_without_a_run_count_what_runs_count(found: dict[str, CellDocument]) -> None:
    trees = found["qpt2"].part("trees")
    assert set(trees) == set(TREES)
    for tree, name in (
        ("redundant", "qpt"),
        ("heuristic-max", "qpt2"),
        ("exact-max", "qpt2:weights=exact"),
        ("postorder-max", "qpt2:weights=postorder"),
    ):
        assert trees[tree] == found[name].counts["edge_increments"]
    increments = [trees[name] for name in TREES]
    assert min(increments) == trees["exact-max"]
    assert trees["exact-min"] == max(increments[1:])
    assert found["pp"].part("trees") == {}


def test_merged_blocks_cost_what_their_counters_execute(found: dict[str, CellDocument]) -> None:
    """Merging takes counters out of straight lines; the chords of a tree stay as many."""
    split, merged = found["qpt"], found["qpt:blocks=merged"]
    for one, two in zip(split.routines, merged.routines, strict=True):
        gone = one.placed_blocks - two.placed_blocks
        assert 0 <= gone <= one.placed_edges - two.placed_edges  # dead edges are gone, too
        assert two.instrumented_edges == two.placed_blocks
        assert two.edge_increments <= one.edge_increments
        assert two.added <= one.added
    assert merged.counts["edge_increments"] < split.counts["edge_increments"]
    assert merged.added < split.added
    folded = found["qpt:blocks=folded"]
    assert folded.counts["edge_increments"] < merged.counts["edge_increments"]
    assert folded.added < merged.added
    chords, others = (found[name].counts for name in ("qpt2", "qpt2:blocks=merged"))
    assert chords["edge_increments"] == others["edge_increments"]
    assert found["qpt2:blocks=folded"].counts["edge_increments"] == chords["edge_increments"]
    trees = found["qpt2:blocks=merged"].part("trees")
    assert trees["redundant"] == merged.counts["edge_increments"]
    assert trees["heuristic-max"] == others["edge_increments"]
    assert trees["exact-max"] == found["qpt2"].part("trees")["exact-max"]


def test_a_cell_does_not_depend_on_what_runs_with_it(
    found: dict[str, CellDocument], fixture_elf: Find
) -> None:
    program = fixture_elf("switches")
    for name in ("tpp", "pp:weights=exact"):
        (alone,) = only(Job(Cell("switches", parse(name)), program, Input("ref")))
        assert alone == found[name]


def test_path_limits_are_not_mixed(fixture_elf: Find) -> None:
    program = fixture_elf("switches")
    names = ("pp", "tpp", "pp:path-limit=100", "tpp:path-limit=100", "qpt2")
    made = groups(Job(Cell("switches", parse(name)), program) for name in names)
    assert [[job.cell.setting.name for job in group] for group in made] == [
        ["pp", "tpp", "qpt2"],
        ["pp:path-limit=100", "tpp:path-limit=100"],
    ]


def test_large_programs_run_few_settings_at_once(tmp_path: Path) -> None:
    program = tmp_path / "large"
    jobs = [Job(Cell("x", setting("kiter", iterations=k)), program) for k in range(3, 53)]
    program.write_bytes(bytes(1000))
    assert [len(group) for group in groups(jobs)] == [50]
    program.write_bytes(bytes(1 << 20))
    assert [len(group) for group in groups(jobs)] == [24, 24, 2]
    assert [job for group in groups(jobs) for job in group] == jobs


def test_inputs_are_runs_of_their_own(fixture_elf: Find, tmp_path: Path) -> None:
    given = tmp_path / "words.txt"
    given.write_text("one two one\n")
    program = fixture_elf("words")
    empty = Job(Cell("words", setting("edges"), "train"), program)
    full = Job(Cell("words", setting("edges")), program, Input("ref", stdin=given))
    assert len(groups([empty, full])) == 2
    (short,), (long,) = only(empty), only(full)
    assert 0 < short.base < long.base
    assert short.document["output"] != long.document["output"]


# --- plans


def test_a_plan_cell_knows_all_routines_and_runs_nothing(fixture_elf: Find) -> None:
    program = fixture_elf("switches")
    names = ("qpt2", "kiter:k=1", "kiter:k=3", "tpp", "pp")
    jobs = [Job(plan_cell("switches", parse(name)), program) for name in names]
    edges, once, thrice, tpp, pp = only(*jobs)
    assert tpp.error is not None and "needs a run" in tpp.error
    (run,) = only(Job(Cell("switches", setting("qpt2")), program))
    static = {row.routine_address: row for row in edges.routines}
    assert set(static) > {row.routine_address for row in run.routines}
    for row in run.routines:
        same = static[row.routine_address]
        assert (row.instrumented_edges, row.no_jump_edges) == (
            same.instrumented_edges,
            same.no_jump_edges,
        )
        assert 0 <= row.no_jump_edges <= row.instrumented_edges
    assert [row.numbered_paths for row in once.routines] == [
        row.numbered_paths for row in pp.routines
    ]
    grown = zip(once.routines, thrice.routines, strict=True)
    assert all((a.numbered_paths or 0) <= (b.numbered_paths or 0) for a, b in grown)
    assert sum(r.numbered_paths or 0 for r in thrice.routines) > sum(
        r.numbered_paths or 0 for r in once.routines
    )
    assert edges.base == edges.added == 0
    assert (edges.timing["planning"] or 0) > 0 and (edges.timing["generation"] or 0) > 0
    assert edges.timed(run=9.0) == edges != edges.but(output="")


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "layout"), turns(["qpt2", "pp", "naive", "calls", "qpt", "bits"], CodeLayout)
)
def test_jumps_are_where_generated_code_has_them(
    mode: str, layout: CodeLayout, fixture_elf: Find
) -> None:
    found = 0
    for name in ("control", "switches"):
        recovered = recover(elf.load(fixture_elf(name)))
        contexts, space = ProgramContexts(recovered), CounterSpace()
        for number, cfg in enumerate(recovered.routines):
            planned, context = make_plan(cfg, mode, SchemeOptions()), contexts.of(number)
            plan, rule = planned.plan, LayoutRule(layout, planned.weights)
            code = generate(cfg, plan, context, space.place(plan), GENERATORS, rule)
            expected = {edge for edge, snippet in code.snippets.items() if snippet.jump_cost}
            assert find_jumps(cfg, planned, context, layout)[0] == expected
            found += len(expected)
    assert found > 10


# --- failures


def test_wrong_endings_are_errors_that_keep_their_numbers(
    fixture_elf: Find, tmp_path: Path
) -> None:
    program = fixture_elf("nonlocal")  # its status is 4
    fine, wrong = (
        only(Job(Cell("nonlocal", setting("pp")), program, Input("ref", status=status)))[0]
        for status in (4, 0)
    )
    assert fine.error is None
    assert wrong.error is not None and "ended with status 4, not 0" in wrong.error
    assert wrong.base == fine.base > 0
    other = tmp_path / "expected.txt"
    other.write_text("something else")
    (lying,) = only(
        Job(Cell("nonlocal", setting("pp")), program, Input("ref", status=4, expected=other))
    )
    assert lying.error is not None and "wrote something else than expected.txt" in lying.error
    (short,) = only(Job(Cell("nonlocal", setting("pp")), program, max_instructions=50))
    assert short.error is not None and "was not done after" in short.error


def test_what_cannot_run_is_a_result(tmp_path: Path) -> None:
    bad = tmp_path / "bad.elf"
    bad.write_bytes(b"no ELF file")
    for job in (
        Job(Cell("bad", setting("pp")), bad),
        Job(plan_cell("bad", setting("pp")), bad),
        Job(Cell("bad", setting("pp")), tmp_path / "missing"),
        Job(Cell("bad", setting("pp")), bad, Input("ref", root=tmp_path / "nowhere")),
    ):
        (result,) = only(job)
        assert result.failed and result.base == 0
        assert "\n" not in (result.error or "")


def test_one_bad_setting_does_not_take_the_others_with_it(
    fixture_elf: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    from simprof.profiler.experiments.cells import measure as cell_measure

    real = cell_measure.measure

    def fragile(request: RunRequest, settings: list[Setting]) -> tuple[CellDocument, ...]:
        if any(each.mode == "kiter" for each in settings):
            raise RuntimeError("kiter\nfell over")
        return real(request, settings)

    monkeypatch.setattr(cell_measure, "measure", fragile)
    program = fixture_elf("faults")
    names = ("pp", "kiter", "qpt2")
    results = only(*(Job(Cell("faults", parse(name)), program) for name in names))
    assert [result.error for result in results] == [
        None, "internal error: RuntimeError: kiter fell over", None,
    ]  # fmt: skip


# --- keys


def test_keys_change_with_everything_that_decides_the_result(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fixture_elf("faults")
    (tmp_path / "root").mkdir()
    file = tmp_path / "root" / "file"
    file.write_text("a")
    given = Input("ref", stdin=file, root=tmp_path / "root")
    job = Job(Cell("faults", setting("pp")), program, given)

    def key(job: Job) -> str:
        return row_key(job, Keys().key(job))

    seen = [key(job)]
    assert key(replace(job)) == seen[0]
    moved = tmp_path / "elsewhere"
    (tmp_path / "root").rename(moved)
    given = replace(given, stdin=moved / "file", root=moved)
    job = replace(job, given=given)
    assert key(job) == seen[0], "where files are does not matter"
    cell = job.cell
    for other in (
        replace(job, program=fixture_elf("sieve")),
        replace(job, given=replace(given, arguments=("1",))),
        replace(job, given=replace(given, environment=(("A", "1"),))),
        replace(job, given=replace(given, stdin=None)),
        replace(job, given=replace(given, root=None)),
        replace(job, max_instructions=5),
        replace(job, suite="micro"),
        replace(job, cell=replace(cell, setting=setting("qpt2"))),
        replace(job, cell=replace(cell, input="train")),
        replace(job, cell=replace(cell, kind=CellKind.PLAN)),
        replace(job, cell=replace(cell, build="v8plus-O2")),
    ):
        seen.append(key(other))
    (moved / "file").write_text("b")
    seen.append(key(job))
    made = cells_module.versions()
    for change in ({"engine": "other"}, {"cost_model": "other"}, {"simprof": "other"}):
        changed = replace(made, **change)
        monkeypatch.setattr(cells_module, "versions", lambda changed=changed: changed)
        seen.append(key(job))
    assert len(set(seen)) == len(seen)


@pytest.mark.long
def test_analysing_is_planning_the_routines_that_a_run_entered(
    fixture_elf: Callable[..., Path],
) -> None:
    """Counters and code are those of the run's own measurement; only the seconds are new."""
    settings = ("qpt2", "pp", "tpp:cold=5:loop=15")
    for name in ("loops", "manypaths"):
        program = fixture_elf(name)
        ran, analysed = (
            run_group(tuple(Job(Cell(name, parse(each), kind=kind), program) for each in settings))
            for kind in (CellKind.RUN, CellKind.ANALYSE)
        )
        for one, two in zip(ran, analysed, strict=True):
            assert one.error is None and two.error is None
            assert (two.base, two.part("exit")) == (one.base, one.part("exit"))
            assert [each.routine_address for each in two.routines] == [
                each.routine_address for each in one.routines
            ]
            assert [each.numbered_paths for each in two.routines] == [
                each.numbered_paths for each in one.routines
            ]
            assert two.sizes["code_bytes"] == one.sizes["code_bytes"]
            assert sum(each.counter_bytes for each in two.routines) == two.sizes["counter_bytes"]
            assert (two.timing["planning"] or 0) > 0 and (two.timing["generation"] or 0) > 0
            assert two.sizes["routine_bytes"] % 4 + two.sizes["routine_bytes"] > 0


def test_facts_of_a_programs_own_routines_are_those_of_a_run_of_these_alone() -> None:
    program = FIXTURES / "suites" / "bin" / "v9" / "fibcall.elf"
    whole, alone = (
        run_group((Job(Cell("fibcall", parse(each)), program),))[0]
        for each in ("pp", "pp:user-only")
    )
    own = whole.part("own_facts")
    assert own and own == alone.part("facts")
    assert whole.part("facts")["paths"] >= own["paths"]
