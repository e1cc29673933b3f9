"""`simprof table`: formulas by hand, verdicts, the papers' numbers, renderings, the command."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.cli import run
from simprof.profiler.experiments.cells.cells import (
    TREES,
    Cell,
    CellDocument,
    CellKind,
    Job,
    RoutineFigures,
    RunFiles,
    failure,
    pack,
)
from simprof.profiler.experiments.cells.run import groups, run_group
from simprof.profiler.experiments.cells.settings import parse
from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.experiments.cells.sweep import (
    Grid,
    GridProgram,
    local_runner,
    make_order,
    sweep,
)
from simprof.profiler.experiments.commands.table import _rendered
from simprof.profiler.experiments.reports import pages
from simprof.profiler.experiments.reports import tables as renderings
from simprof.profiler.experiments.reports.tables import shown
from simprof.profiler.experiments.suites.suite import Suite
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.tables.averages import beside
from simprof.profiler.experiments.tables.claims import statistic
from simprof.profiler.experiments.tables.kiter import RUNTIME
from simprof.profiler.experiments.tables.results import (
    NO_SUITE,
    TABLES,
    find,
    run_tables,
    stored_tables,
    tables,
)
from simprof.profiler.experiments.tables.spec import SuiteMember, TableReport, TableSpec, View, make
from simprof.profiler.experiments.tables.table import (
    EXECUTED,
    Bars,
    Claim,
    Form,
    ReportTable,
    TableColumn,
    TableRow,
    Verdict,
    program_key,
    published,
    read_published,
)
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.recovery.recovery import recover
from simprof.simulator.binary import elf
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES
from tests.support.report_tables import document_of, program_row, routine, small

NAMES = (
    "epp1 epp2 epp3 bittrace definite tpp1 tpp2 tpp3 tpp4 tpp4-whole tpp-fig3 tpp-fig9 tpp-parts "
    "tpp-lengths tpp-age tpp-train analysis bl94-table1 "
    "bl94-table2 bl94-table3 bl94-graph1 bl94-graph2 bl94-graph3 bl94-graph4 bl94-graph5 "
    "bl94-registers "
    "kiter3 kiter4 cs6120"
).split()
VIEW = View()
MADE = ("9.9", "engine", "7-abc")


def counts(**numbers: int) -> dict[str, int]:
    plain = dict.fromkeys(
        ("path_increments", "hashed_increments", "hashing", "edge_increments", "blocks", "jumps"), 0
    )
    return plain | numbers


def table_of(name: str, results: Mapping[str, CellDocument], *programs: str) -> ReportTable:
    """A table of INT programs, one if none are named, with these results by the table's names."""
    spec = TABLES[name]
    names = programs or ("p",)
    cells = {
        VIEW.cell(need, program): results[key]
        for key, need in spec.needs.items()
        for program in names
    }
    return make(spec, [SuiteMember(program, "INT") for program in names], cells, VIEW)


FIVE = ("a", "b", "c", "d", "e")  # As many programs as a verdict needs


def verdicts(name: str, results: Mapping[str, CellDocument]) -> list[Verdict]:
    """The verdicts of a table of five programs with the same results."""
    return [claim.verdict for claim in table_of(name, results, *FIVE).claims]


def only_row(table: ReportTable) -> dict[str, Any]:
    (row,) = (row for row in table.rows if row.kind == "program")
    return dict(zip((column.key for column in table.columns), row.values, strict=True))


# --- what there is


def test_every_table_that_simulation_can_reproduce_is_there() -> None:
    assert list(TABLES) == NAMES


@pytest.mark.parametrize("spec", tables().values(), ids=lambda spec: spec.name)
def test_descriptions_are_consistent(spec: TableSpec) -> None:
    keys = [column.key for column in spec.columns]
    assert len(set(keys)) == len(keys)
    assert not spec.columns[0].numeric
    texts = {"routine", "of", "published"}
    assert all(column.numeric for column in spec.columns[1:] if column.key not in texts)
    if spec.bars is not None:
        assert set(spec.bars.columns) <= set(keys)
    if (theirs := published(spec.name)) is not None:
        printed = {column.key: column.numeric for column in theirs.columns}
        both = set(keys[1:]) & set(printed)
        assert both, "nothing is next to the paper's"
        assert all(printed[key] for key in both - texts)
    for need in spec.needs.values():
        assert (need.cell("p").input == "") == (need.kind is CellKind.PLAN)


def test_find_keeps_the_order_and_tells_what_there_is() -> None:
    assert [spec.name for spec in find(["tpp2", "epp1", "tpp2"])] == ["tpp2", "epp1"]
    with pytest.raises(UsageError, match=r"unknown table 'nosuch': choose from epp1, epp2"):
        find(["nosuch"])


def test_a_table_of_train_runs_that_input_where_papers_have_ref() -> None:
    cells = set(TABLES["epp3"].cells([SuiteMember("p")], View("train", "v8plus-O2")))
    assert {(cell.input, cell.build) for cell in cells} == {("train", "v8plus-O2")}
    plan, *_ = TABLES["kiter4"].cells([SuiteMember("p")], View("train"))
    assert plan.input == "" and plan.kind is CellKind.PLAN


# --- the papers' numbers


MISPRINTED = {("tpp3", "INT average", "a515"), ("tpp3", "average", "a515")}


def averages_of(table: ReportTable) -> Iterator[tuple[str, TableColumn, float, float]]:
    for row in (row for row in table.rows if row.kind == "average"):
        among = f", {row.group}" if row.group else ""
        for column, value in zip(table.columns[1:], row.values[1:], strict=True):
            mean = statistic(table, f"mean({column.key}{among})")
            if isinstance(value, int | float) and mean is not None:
                yield str(row.values[0]), column, float(value), mean


@pytest.mark.parametrize("name", ["epp1", "epp2", "tpp1", "tpp2", "tpp3"])
def test_averages_that_papers_print_are_those_of_their_rows(name: str) -> None:
    table = published(name)
    assert table is not None
    found = list(averages_of(table))
    assert len(found) > 10
    for row, column, printed, mean in found:
        close = 0.6 if column.form is Form.COUNT else 0.06
        if (name, row, column.key) in MISPRINTED:
            assert abs(printed - mean) > close
        else:
            assert printed == pytest.approx(mean, abs=close), (row, column.key)


def test_ratios_that_papers_print_are_those_of_their_columns() -> None:
    checks = [
        ("epp1", "pp", "qpt2", "pp_qpt2", 1.0, 0.15),
        ("bl94-table1", "optimal", "redundant", "increase", 1.0, 0.06),
        ("bl94-table2", "profiled", "edges", "profiled_share", 100.0, 0.6),
        ("bl94-table2", "no_jump", "profiled", "no_jump_share", 100.0, 0.6),
        ("bl94-table3", "old", "new", "old_new", 1.0, 0.1),
    ]
    for name, part, whole, quotient, scale, close in checks:
        table = published(name)
        assert table is not None
        for row in table.judged:
            one, two, printed = (table.number(row, key) or 0.0 for key in (part, whole, quotient))
            if abs(two) >= 5 or name != "epp1":  # below that rounding of percents shows
                assert scale * one / two == pytest.approx(printed, abs=close), (name, one, two)


def test_known_facts() -> None:
    """A few numbers, so that columns cannot be exchanged unseen."""
    facts = [
        ("epp1", "126.gcc", "pp", 96.9),
        ("epp2", "099.go", "predicted_longest_instructions", 252),
        ("epp3", "141.apsi", "instructions_share", 74.3),
        ("tpp1", "perl", "hash_cost", 8.0),
        ("tpp2", "vortex", "t515", 6.2),
        ("tpp4", "vortex", "t1", 98200.0),
        ("bl94-table3", "polyd", "new", 2047951),
        ("kiter3", "ndes", "k2", 6.12),
        ("kiter3", "ndes", "k3", None),
    ]
    for name, program, key, value in facts:
        table = published(name)
        assert table is not None
        (row,) = (row for row in table.rows if row.values[0] == program)
        assert row.values[table.index(key)] == value
    assert published("bl94-graph1") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("table = [", "not a file of published tables"),
        ("[other]", "missing 'table'"),
        ("rows = [['a']]", "1 values for 2 columns"),
        ("rows = [['a', 'many']]", "'many' in column x is no number"),
        ("rows = [['a', 1.5]]", "1.5 in column x is no count"),
    ],
)
def test_wrong_published_data_are_one_line(tmp_path: Path, text: str, says: str) -> None:
    head = "[[table]]\nname = 'n'\nsource = 's'\ntitle = 't'\ncolumns = ['p', 'x']\n"
    whole = head + "forms = ['text', 'count']\ntitles = ['p', 'x']\n" + text
    file = tmp_path / "data.toml"
    file.write_text(whole if text.startswith("rows") else text)
    with pytest.raises(UsageError) as caught:
        read_published(file)
    assert says in str(caught.value) and "\n" not in str(caught.value)


# --- formulas, by hand


def test_epp_table_1() -> None:
    pp = document_of(
        base=1000,
        added=300,
        counts=counts(path_increments=40, edge_increments=10, hashed_increments=5, hashing=80),
        routines=(
            routine("a", CounterTable.ARRAY, address=4, added=3),
            routine("b", CounterTable.ARRAY, address=8, added=4),
            routine("c", CounterTable.ARRAY, address=12, added=5),
            routine("d", CounterTable.ARRAY, address=16, added=2),
            routine("e", CounterTable.HASH, address=20, added=1),
        ),
    )
    qpt2 = document_of(
        base=1000,
        added=100,
        counts=counts(edge_increments=75),
        routines=tuple(
            routine(name, CounterTable.NONE, address=address, added=4)
            for name, address in zip("edcba", (20, 16, 12, 8, 4), strict=True)
        ),
    )
    row = only_row(table_of("epp1", {"pp": pp, "qpt2": qpt2}))
    assert row == {
        "program": "p", "base": 1000, "pp": 30.0, "qpt2": 10.0, "pp_qpt2": 3.0,
        "path_increments": 50, "edge_ratio": 1.5, "hashed": 10.0, "spacing": 20.0,
        "hash_cost": 6.0, "cheaper": 50.0,
    }  # fmt: skip
    none = replace(pp.but(counts=counts(path_increments=40, edge_increments=10)), lists=pack())
    row = only_row(table_of("epp1", {"pp": none, "qpt2": qpt2}))
    assert (row["hash_cost"], row["cheaper"]) == (None, None)


def test_epp_table_2() -> None:
    facts = {
        "paths": 12, "executions": 100, "edges": 500, "instructions": 2000, "longest_edges": 9,
        "longest_instructions": 60, "partial": 1, "routines": 4, "most_paths": 6,
        "predicted_correct": 3, "predicted_edges": 300, "predicted_instructions": 900,
        "predicted_longest_edges": 7, "predicted_longest_instructions": 40,
    }  # fmt: skip
    rows = (
        routine("a", CounterTable.ARRAY, potential_paths=1000),
        routine("b", CounterTable.HASH, potential_paths=10**400),
    )
    own = {"paths": 8, "executions": 50, "instructions": 500, "routines": 2, "predicted_correct": 4}
    found = {"pp": document_of(base=1, facts=facts, own_facts=own, routines=rows)}
    row = only_row(table_of("epp2", found))
    assert (row["own_paths"], row["own_correct"], row["own_routines"]) == (8, 50.0, 2)
    assert row["own_instructions"] == 10.0
    assert row["correct"] == 25.0 and row["average_paths"] == 3.0
    assert (row["average_edges"], row["average_instructions"]) == (5.0, 20.0)
    assert (row["predicted_edges"], row["predicted_instructions"]) == (3.0, 9.0)
    assert row["potential"] == 10**400 + 1000
    assert verdicts("epp2", found)[0] is Verdict.HOLDS
    assert table_of("epp2", found).claims[0].verdict is Verdict.TOO_FEW


def test_epp_table_3() -> None:
    ref = document_of(paths={"a": (90, 10), "b": (10, 20), "c": (100, 1)})
    train = document_of(paths={"b": (7, 20), "c": (1, 1), "d": (9, 9)})
    row = only_row(table_of("epp3", {"ref": ref, "train": train}))
    assert row["common"] == 2
    assert row["static"] == pytest.approx(200 / 3)
    assert row["dynamic"] == 55.0
    assert row["instructions"] == 300
    assert row["instructions_share"] == 25.0


def test_bit_tracing() -> None:
    def rows(**codes: Any) -> tuple[RoutineFigures, ...]:
        one, two, long = ({key: value[k] for key, value in codes.items()} for k in range(3))
        return (
            routine("a", CounterTable.ARRAY, instrumented_edges=2, **one),
            routine("b", CounterTable.ARRAY, instrumented_edges=1, **two),
            routine("c", CounterTable.HASH, instrumented_edges=1, **long),
        )

    events = counts(path_increments=200, hashed_increments=50)
    pp = rows(name_bits=(3, 4, 30), name_counters=(8, 10, 10**9))
    bits = rows(name_bits=(3, 5, 62), name_counters=(8, 30, None))
    results = {
        "pp": document_of(base=100, added=20, counts=events, routines=pp),
        "bittrace": document_of(base=100, added=30, counts=events, routines=bits),
        "merged": document_of(base=100, added=20, counts=events, routines=bits[1:]),
    }
    row = only_row(table_of("bittrace", results))
    assert (row["pp_bits"], row["bits"]) == (37 / 3, 70 / 3)
    assert row["same_bits"] == pytest.approx(100 / 3)
    assert (row["median_counters"], row["most_counters"]) == (2.0, 3.0)
    assert row["over_twice"] == pytest.approx(200 / 3)
    assert (row["edges"], row["hashed"], row["pp"], row["bittrace"]) == (1.0, 25.0, 20.0, 30.0)
    assert (row["merged_edges"], row["merged"]) == (0.5, 20.0)
    fails = Verdict.FAILS  # with equal overheads, too
    assert verdicts("bittrace", results) == [fails, fails, Verdict.HOLDS, fails]


def test_definite_flow() -> None:
    facts = {
        "executions": 200, "definite_executions": 50, "flow_blocks": 1000, "definite_blocks": 750,
    }  # fmt: skip
    rows = (routine("a", CounterTable.ARRAY, self_loop_increments=400),)
    found = {"pp": document_of(base=1, facts=facts, routines=rows)}
    row = only_row(table_of("definite", found))
    assert (row["paths_share"], row["paths_blocks"]) == (25.0, 75.0)
    # each of the 400 turns is a path of one block that edge counts tell
    assert (row["executions"], row["turns"]) == (600, 400)
    assert row["executions_share"] == 100 * 450 / 600
    assert row["blocks"] == 100 * 1150 / 1400
    assert verdicts("definite", found) == [Verdict.HOLDS, Verdict.UNTESTABLE]


def test_tpp_table_1() -> None:
    looping = {"edge_increments": 10, "self_loop_increments": 10}
    rows = (
        routine(
            "a", CounterTable.ARRAY, added=130, path_increments=40, self_loop_added=50, **looping
        ),
        routine(
            "b", CounterTable.HASH, added=540, path_increments=40, self_loop_added=40, **looping
        ),
        routine("c", CounterTable.NONE),
    )
    made = counts(path_increments=80, edge_increments=20, hashed_increments=40)
    pp = document_of(base=2000, added=670, counts=made, routines=rows)
    row = only_row(table_of("tpp1", {"pp": pp}))
    assert (row["pp"], row["array"], row["hash"]) == (33.5, 6.5, 27.0)
    assert (row["hashed"], row["self_loops"]) == (40.0, 20.0)
    assert row["hash_cost"] == (500 / 40) / (80 / 40)
    assert row["hashed"] == only_row(table_of("epp1", {"pp": pp, "qpt2": pp}))["hashed"]


def test_tpp_tables_2_and_4_and_figures() -> None:
    lost = {"flow_blocks": 200, "overcounted_blocks": 1, "undercounted_blocks": 3}

    def result(added: int, paths: int, table: CounterTable) -> CellDocument:
        rows = (
            routine("a", table, paths=paths, untruncated_paths=paths**5),
            routine("b", CounterTable.ARRAY, paths=None),
        )
        made = counts(path_increments=60, edge_increments=15, inferred_paths=25)
        return document_of(base=1000, added=added, counts=made, lost=lost, routines=rows)

    pp = result(400, 80_000, CounterTable.HASH).but(
        lost={}, counts=counts(path_increments=80, edge_increments=10)
    )
    tpp = {f"t{key}": result(100, 400, CounterTable.ARRAY) for key in ("1", "5", "10", "515", "0")}
    row = only_row(table_of("tpp2", {"pp": pp, **tpp}))
    assert (row["pp"], row["t515"], row["a515"]) == (40.0, 10.0, 98.0)
    row = only_row(table_of("tpp4", {"pp": pp, **tpp}))
    assert (row["pp"], row["t10"], row["s10"]) == (80.0, 0.4, 0.5)
    row = only_row(table_of("tpp4-whole", {"pp": pp, **tpp}))
    assert (row["most"], row["pp"], row["t10"]) == (80_000**5, 80_000**5, 400**5)
    hashing = pp.but(counts={**pp.counts, "hashed_increments": 80})
    assert verdicts("tpp4-whole", {"pp": hashing, **tpp}) == [Verdict.HOLDS]
    assert verdicts("tpp4-whole", {"pp": pp, **tpp}) == [Verdict.UNTESTABLE]
    row = only_row(table_of("tpp-fig3", {"pp": pp, **tpp}))
    assert (row["inferred"], row["counted"], row["obvious"]) == (25, 75, 25.0)
    row = only_row(table_of("tpp-fig9", {"pp": pp, **tpp}))
    assert (row["routines"], row["pp"], row["t1"]) == (2, 50.0, 0.0)


def test_tpp_parts() -> None:
    made = counts(path_increments=30, edge_increments=10, hashed_increments=10)

    def parts(*added: int) -> dict[str, CellDocument]:
        keys = ("pp", "t515", "cold", "obvious", "uncounted")
        cells = (document_of(base=1000, added=each, counts=made) for each in added)
        return dict(zip(keys, cells, strict=True))

    papers = parts(280, 140, 196, 270, 130)  # the paper's averages
    row = only_row(table_of("tpp-parts", papers))
    assert list(row.values()) == ["p", 28.0, 14.0, 19.6, 27.0, 13.0, 25.0]
    assert verdicts("tpp-parts", papers) == [Verdict.HOLDS] * 2
    assert "60 %" in table_of("tpp-parts", papers, *FIVE).claims[0].figure
    assert verdicts("tpp-parts", parts(280, 140, 150, 150, 141)) == [Verdict.FAILS] * 2


def test_tpp_path_lengths() -> None:
    """A loop B of one block behind A, before C, 10 turns in each of 5 activations (TPP 4.2.1)."""

    def result(paths: int, edges: int, turns: int) -> CellDocument:
        facts = {"executions": paths, "edges": edges}
        rows = (
            routine("a", CounterTable.ARRAY, self_loop_increments=turns, edge_increments=turns + 3),
        )
        return document_of(base=1, facts=facts, routines=rows)

    whole, cut = result(5, 10, 50), result(5 + 55 + 5, 0, 0)
    row = only_row(table_of("tpp-lengths", {"pp": whole, "l10": cut, "l100": whole}))
    assert row["pp"] == (15 + 50) / 55  # AB, B nine times, BC, as the paper breaks self-loops
    assert row["l10"] == 65 / 65
    assert row["lost_l10"] == pytest.approx(100 * 10 / 65)
    assert row["lost_l100"] == 0


def test_bl94_tables() -> None:
    def counted(name: str, **numbers: int) -> RoutineFigures:
        return routine(name, CounterTable.NONE, **numbers)

    rows = (
        counted("a", placed_edges=10, instrumented_edges=4, no_jump_edges=3, placed_blocks=6),
        counted("b", placed_edges=20, instrumented_edges=8, no_jump_edges=3, placed_blocks=14),
    )
    row = only_row(table_of("bl94-table2", {"plan": document_of(routines=rows)}))
    assert (row["edges"], row["profiled"], row["profiled_share"]) == (30, 12, 40.0)
    assert (row["no_jump"], row["no_jump_share"], row["density"]) == (6, 50.0, 1.5)
    one, other = rows
    found = {"plan": document_of(routines=(replace(one, own=True), other))}
    row = only_row(table_of("bl94-table2", found))
    assert (row["profiled_share"], row["own_share"], row["own_no_jump_share"]) == (40, 40, 75)
    bits = document_of(
        base=100, added=50, counts={"trace_tokens": 3000}, sizes={"trace_bits": 3201}
    )
    sizes = {"trace_bits": 8000, "minimal_trace_bits": 1999}
    witness = document_of(base=100, added=20, counts={}, sizes=sizes)
    found = {
        "bits": bits,
        "witness": witness,
        "bytes": document_of(base=100, added=44),
        "witness_addresses": document_of(base=100, added=60, sizes={"address_bits": 8000}),
        "bytes_addresses": document_of(base=100, added=92, sizes={"address_bits": 8000}),
    }
    row = only_row(table_of("bl94-table3", found))
    assert (row["addresses"], row["file_ratio"], row["run_ratio"]) == (1000, 2.0, 1.2)
    assert (row["witness_addresses"], row["bytes_addresses"]) == (60.0, 92.0)
    assert (row["old"], row["new"], row["old_new"]) == (3000, 1000, 3.0)
    assert (row["fewest"], row["bit"], row["witness_overhead"]) == (250, 401, 20.0)
    assert (row["bytes"], row["run_old_new"]) == (44.0, 1.2)
    times = {
        "redundant": document_of(timing={"recovery": 1, "planning": 2, "generation": 3}),
        "optimal": document_of(timing={"recovery": 1, "planning": 5, "generation": 3}),
    }
    row = only_row(table_of("bl94-table1", times))
    assert (row["redundant"], row["optimal"], row["increase"]) == (6, 9, 1.5)
    assert (row["plan_redundant"], row["plan_optimal"], row["code_optimal"]) == (2, 5, 3)


def test_bl94_graphs() -> None:
    def result(added: int, increments: int, jumps: int = 0) -> CellDocument:
        made = counts(edge_increments=increments, jumps=jumps, blocks=250)
        trees = dict(zip(TREES, (120, 40, 60, 30, 80, 48), strict=True))
        return document_of(base=1200, added=added, counts=made, trees=trees)

    found = {
        "redundant": result(600, 120),
        "optimal": result(240, 40, 40),
        "saved": result(960, 120),
        "pixie": result(720, 120),
        "edge": result(0, 40, 40),
        "edge_heuristic": result(0, 36, 20),
        "vertex": result(0, 60),
        "mixed": result(0, 48),
        "heuristic": result(300, 1),
        "exact": result(150, 1),
    }
    row = only_row(table_of("bl94-graph1", found))
    assert (row["redundant"], row["optimal"]) == (1.5, 1.2)
    assert (row["saved"], row["pixie"]) == (1.8, 1.6)
    each = (row["redundant_each"], row["saved_each"], row["pixie_each"])
    assert each == (5.0, 8.0, 6.0)
    row = only_row(table_of("bl94-graph2", found))
    assert (row["block"], row["increments"], row["instructions"]) == (10.0, 3.0, 2.5)
    row = only_row(table_of("bl94-graph3", found))
    assert (row["edge"], row["edge_heuristic"], row["vertex"]) == (2.5, 3.0, 2.0)
    assert row["mixed"] == 2.5
    row = only_row(table_of("bl94-graph4", found))
    assert list(row.values())[1:] == [3.0, 2.0, 4.0, 1.5, 2.5]
    assert verdicts("bl94-graph4", found) == [Verdict.HOLDS] * 4
    row = only_row(table_of("bl94-graph5", found))
    assert (row["heuristic"], row["exact"]) == (1.25, 1.125)


def test_bl94_registers() -> None:
    found = {
        "saved": document_of(base=1000, added=600),
        "scavenged": document_of(base=1000, added=440),
        "live": document_of(base=1000, added=300),
    }
    row = only_row(table_of("bl94-registers", found))
    assert (row["saved"], row["scavenged"], row["live"]) == (60.0, 44.0, 30.0)
    assert (row["less"], row["less_run"], row["less_live"]) == (pytest.approx(80 / 3), 10.0, 50.0)


BL94 = [name for name in NAMES if name.startswith("bl94") and name != "bl94-table3"]


@pytest.mark.parametrize("name", BL94)
def test_bl94_is_made_of_its_own_blocks_unless_others_are_asked_for(name: str) -> None:
    def blocks(view: View) -> set[str]:
        cells = TABLES[name].cells([SuiteMember("p")], view)
        return {str(dict(cell.setting.own).get("blocks", "split")) for cell in cells}

    assert blocks(View()) == blocks(View(blocks="folded")) == {"folded"}
    assert blocks(View(blocks="merged")) == {"merged"}
    assert blocks(View(blocks="split")) == {"split"}


def test_a_table_says_what_its_blocks_are() -> None:
    def caption(name: str, view: View) -> str:
        return make(TABLES[name], [], {}, view).caption

    assert "straight-line code, calls included" in caption("bl94-graph2", View())
    assert "slot of an annulled branch may be one" in caption("bl94-graph2", View(blocks="merged"))
    assert "end at calls and delay slots" in caption("bl94-graph2", View(blocks="split"))
    assert caption("epp1", View()) == caption("epp1", View(blocks="split"))


def test_other_papers_tables_do_not_depend_on_bl94s_blocks() -> None:
    for name in set(NAMES) - set(BL94):
        own, split = (
            list(TABLES[name].cells([SuiteMember("p")], v)) for v in (VIEW, View(blocks="split"))
        )
        assert own == split


def test_kiter_table_3_and_cs6120() -> None:
    def result(added: int) -> CellDocument:
        made = counts(path_increments=8, edge_increments=2, hashed_increments=1)
        return document_of(base=800, added=added, counts=made)

    plain = {"k1": result(400), "k2": result(600), "k3": result(1000)}
    found = {"pp": result(200), "o2": result(700), "o3": result(1200), **plain}
    row = only_row(table_of("kiter3", found))
    assert (row["bl"], row["k2"], row["k3"], row["hash2"]) == (50.0, 1400 / 1200, 1.5, 10.0)
    assert (row["pp"], row["o2"], row["o3"]) == (25.0, 1.5, 2.0)
    of_paper = [TABLES["kiter3"].needs[key].setting.name for key in plain]
    assert of_paper == [
        f"kiter:k={k}:unoptimised:hash-above=6000".replace("k=2:", "") for k in (1, 2, 3)
    ]
    names = {"calls": 3200, "calls_optimal": 2400, "calls_maximum": 1600, "naive": 400}
    row = only_row(table_of("cs6120", {name: result(cost) for name, cost in names.items()}))
    assert (row["calls"], row["calls_optimal"], row["naive"]) == (5.0, 4.0, 1.5)


def kiter_4(
    routines: Mapping[str, Sequence[int]], program: str = "p", own: Collection[str] = ()
) -> ReportTable:
    """KITER table 4 of one program whose routines have so many paths, by k."""
    plans = {
        f"k{k}": document_of(
            routines=tuple(
                routine(
                    name,
                    CounterTable.ARRAY,
                    address=i,
                    paths=1,
                    untruncated_paths=paths[k - 1],
                    own=name in own,
                )
                for i, (name, paths) in enumerate(routines.items())
            )
        )
        for k in range(1, 6)
    }
    return table_of("kiter4", plans, program)


def test_kiter_4_shows_growth_for_every_k() -> None:
    table = kiter_4({"loop": (3, 9, 27, 54, 81), "straight": (5, 5, 5, 5, 5)})
    assert [row.values for row in table.rows] == [
        ("p", "loop", "the program", 3, 9, 27, 54, 81, 3.0, 3.0, 2.0, 1.5)
    ]
    assert all(claim.conditions[0].holds for claim in table.claims)
    assert {claim.verdict for claim in table.claims} == {Verdict.TOO_FEW}
    late = kiter_4({"loop": (3, 3, 4, 5, 5)})
    assert [row.values[1] for row in late.rows] == ["loop"], "not judged by k = 1 and 2 alone"
    assert not any(claim.conditions[0].holds for claim in late.claims)


def test_kiter_4_judges_no_library() -> None:
    """The routine of the libraries with most paths is shown, and judged by nothing."""
    table = kiter_4(
        {"mine": (3, 9, 27, 54, 81), "printf": (5, 9, 20, 30, 40), "puts": (2, 3, 4, 5, 6)},
        own=["mine"],
    )
    assert [(row.values[1], row.values[2], row.judged) for row in table.rows] == [
        ("mine", "the program", True),
        ("printf", "its library", False),
    ]
    assert all("printf" not in str(claim.conditions) for claim in table.claims)


def test_the_run_time_of_the_kernels_is_none_of_their_own() -> None:
    """Its routines with loops are those whose debugging information is of `runtime`'s files."""
    found = set()
    for path in (FIXTURES / "suites" / "bin" / "v9").glob("*.elf"):
        program = elf.load(path)
        for cfg in recover(program).routines:
            line = program.lines.find(cfg.address)
            if line is not None and "/runtime/" in line.file and depth_first(cfg).back_edges:
                found.add(cfg.name.partition(".")[0])
    assert found == RUNTIME


def test_kiter_4_shows_the_papers_routines_of_its_programs() -> None:
    found = ["cl_hash", "bigger", "output", *(f"more{number}" for number in range(5))]
    paths = {name: [(i + 2) ** k for k in range(1, 6)] for i, name in enumerate(found)}
    assert {row.values[1] for row in kiter_4(paths, "compress").rows} == {"cl_hash", "output"}
    other = kiter_4(paths, "elsewhere")
    assert [row.values[1] for row in other.rows] == ["more4", "more3", "more2", "more1"]


def test_kiter_4_leaves_out_what_the_paper_gives_up_on() -> None:
    """Routines with more than 60,000 acyclic paths; more for a greater k does not matter."""
    table = kiter_4(
        {"most": [60_001 * k for k in range(1, 6)], "more": [60_000**k for k in (1, 2, 3, 4, 5)]}
    )
    assert [row.values[1] for row in table.rows] == ["more"]


# --- rows, averages, the paper beside


def test_averages_weigh_programs_alike_and_leave_out_what_failed() -> None:
    failed = TableRow(("bad", None, None), "failed", "INT", "it crashed")
    table = small(
        program_row("c", "FP", 10.0),
        program_row("a", "INT", 1.0, 1000),
        failed,
        program_row("b", "INT", 4.0),
        program_row("d", "", None),
    )
    names = [row.values[0] for row in table.rows]
    assert names == ["a", "bad", "b", "INT average", "c", "d", "average", "average of 3"]
    by_name = {row.values[0]: row.values[1:] for row in table.rows}
    assert by_name["INT average"] == (2.5, None)
    assert by_name["average"] == (None, None), "d has no number"
    assert by_name["average of 3"] == (fmean([10.0, 1.0, 4.0]), None)
    assert table.failures == (("bad", "it crashed"),)
    assert statistic(table, "mean(x, FP)") == 10.0
    with pytest.raises(KeyError):
        table.index("y")


def test_a_missing_or_failed_cell_is_a_row_that_says_so() -> None:
    spec = TABLES["epp1"]
    cells = {
        VIEW.cell(need, "good"): document_of(base=10, added=1, counts=counts(path_increments=1))
        for need in spec.needs.values()
    }
    cells |= dict.fromkeys(spec.cells([SuiteMember("bad")], VIEW), failure("it\ncrashed"))
    programs = [SuiteMember("good", "INT"), SuiteMember("bad", "INT"), SuiteMember("none", "FP")]
    table = make(spec, programs, cells, VIEW)
    assert dict(table.failures) == {
        "bad": "it crashed",
        "none": "no result of none ref pp (v9-O2) and 1 more",
    }
    assert [row.kind for row in table.rows] == ["program", "failed", "failed"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("126.gcc", "gcc"),
        ("cc1", "gcc"),
        ("xlisp", "li"),
        ("164.gzip (SPEC2000)", "gzip"),
        ("x", "x"),
    ],
)
def test_names_of_benchmarks(name: str, key: str) -> None:
    assert program_key(name) == key


def test_partners_of_a_stand_in() -> None:
    program = SuiteMember("zip", "INT", "129.compress, 164.gzip (SPEC2000)")
    assert program.partners("SPEC") == ("129.compress", "164.gzip")
    assert program.partners("Mälardalen") == ()
    kernel = SuiteMember("compress", "INT", "Mälardalen compress")
    assert kernel.partners("Mälardalen") == ("compress",)
    assert kernel.partners("SPEC") == (), "a kernel of that name is not SPEC's program"
    assert SuiteMember("gcc", "INT", "none").partners("SPEC") == ()


def test_a_program_is_in_one_of_tpps_tables_2_and_3() -> None:
    programs = [
        SuiteMember("own"),
        SuiteMember("old", "INT", "129.compress (SPEC95)"),
        SuiteMember("new", "INT", "256.bzip2 (SPEC2000)"),
        SuiteMember("both", "INT", "129.compress (SPEC95), 164.gzip (SPEC2000)"),
    ]
    shown = {}
    for name in ("tpp2", "tpp3"):
        spec = TABLES[name]
        cells = {cell: failure("none") for cell in spec.cells(programs, VIEW)}
        shown[name] = {str(row.values[0]) for row in make(spec, programs, cells, VIEW).rows}
        assert {cell.benchmark for cell in cells} == shown[name]
    assert shown == {"tpp2": {"own", "old", "both"}, "tpp3": {"new", "both"}}


def test_wcet_kernels_stand_beside_kiters_numbers_only() -> None:
    programs = [
        SuiteMember(each.name, each.group, each.stands_for)
        for each in load_suite("wcet").benchmarks
    ]
    assert len(programs) == 9
    made = counts(path_increments=10, edge_increments=10)
    fine = document_of(base=1000, added=10, counts=made)
    for name, keys in (("kiter3", ["k2:paper", "k3:paper"]), ("epp1", [])):
        spec = TABLES[name]
        table = make(spec, programs, dict.fromkeys(spec.cells(programs, VIEW), fine), VIEW)
        assert [c.key for c in table.columns if c.key.endswith(":paper")] == keys
        if keys:
            k2, k3 = ([table.number(row, key) for row in table.judged] for key in keys)
            assert len(k2) == 9 and None not in k2 and k3.count(None) == 1


def test_the_papers_numbers_stand_beside_ours() -> None:
    theirs = small(program_row("126.gcc", "INT", 96.9))
    table = small(
        program_row("tcc", "INT", 50.0),
        program_row("own", "INT", 70.0),
        published=theirs,
    )
    made = beside(table, {"tcc": ("126.gcc",), "own": ()})
    assert [column.key for column in made.columns] == ["program", "x", "x:paper", "n", "n:paper"]
    rows = {row.values[0]: row.values[1:3] for row in made.rows}
    assert rows["tcc"] == (50.0, 96.9)
    assert rows["own"] == (70.0, None)
    assert beside(table, {}) is table


# --- verdicts


@pytest.mark.parametrize(
    ("overheads", "verdict"), [((20, 10), Verdict.HOLDS), ((50, 10), Verdict.FAILS)]
)
def test_the_claim_that_pp_costs_less_than_three_times_qpt2(
    overheads: tuple[int, int], verdict: Verdict
) -> None:
    pp, qpt2 = (
        document_of(base=100, added=added, counts=counts(path_increments=10, edge_increments=12))
        for added in overheads
    )
    claim, *_ = table_of("epp1", {"pp": pp, "qpt2": qpt2}, *FIVE).claims
    assert claim.verdict is verdict
    assert bool(claim.why) == (verdict is Verdict.FAILS)


# --- renderings


def report_of(*tables: ReportTable) -> TableReport:
    programs = (SuiteMember("a<b|c", "INT", "126.gcc"),)
    return TableReport("su", "A suite", VIEW, *MADE, programs, tables, ("kiter4",), "simprof table")


@pytest.fixture
def report() -> TableReport:
    failed = TableRow(("bad", None, None), "failed", "INT", "it <crashed>")
    theirs = small(program_row("126.gcc", "INT", 96.9))
    table = small(
        program_row("a<b|c", "INT", 50.0, 1234567),
        program_row("b", "INT", 25.0),
        failed,
        published=theirs,
        claims=(Claim("It is so.", Verdict.FAILS, "25 < 50", "data"),),
        bars=Bars(("x",), "percent"),
    )
    return report_of(beside(table, {"a<b|c": ("126.gcc",)}))


def test_text(report: TableReport) -> None:
    text = renderings.render_text(report)
    assert "a<b|c" in text and "1,234,567" in text and "50.0" in text
    assert "bad failed: it <crashed>" in text
    assert "fails" in text and "Why: data" in text
    assert "kiter4" in text.splitlines()[-1]


def test_json(report: TableReport) -> None:
    found = json.loads(renderings.render_json(report))
    assert found["cost_model"] == "7-abc" and found["unit"] == "simulated instructions"
    (table,) = found["tables"]
    assert table["rows"][0]["values"] == {
        "program": "a<b|c",
        "x": 50.0,
        "x:paper": 96.9,
        "n": 1234567,
        "n:paper": 1,
    }
    assert table["claims"][0]["verdict"] == "fails"
    assert table["published"]["rows"][0]["values"]["x"] == 96.9
    assert found["failures"] == [{"program": "bad", "error": "it <crashed>"}]
    assert found["programs"] == []


def test_json_has_the_digests_of_what_was_run(report: TableReport) -> None:
    files = RunFiles("a", "v9-O2", "ref", "ab" * 32, ""), RunFiles("bad", "v9-O2", "ref", "", "")
    found = json.loads(renderings.render_json(replace(report, files=files)))
    names = {"build": "v9-O2", "input": "ref", "input_sha256": None}
    assert found["programs"] == [
        {"name": "a", "sha256": "ab" * 32, **names},
        {"name": "bad", "sha256": None, **names},
    ]


def test_csv(report: TableReport) -> None:
    rows = list(csv.DictReader(io.StringIO(renderings.render_csv(report))))
    kinds = [row["kind"] for row in rows]
    assert kinds == ["program", "program", "failed", "average", "average", "paper"]
    assert rows[0]["x"] == "50.0" and rows[2]["error"] == "it <crashed>"
    assert (rows[-1]["program"], rows[-1]["x"]) == ("126.gcc", "96.9")


@pytest.mark.parametrize("form", ["csv", "markdown", "text"])
def test_names_in_a_results_file_reach_no_terminal_as_they_are(
    report: TableReport, form: str
) -> None:
    (table, *others) = report.tables
    (row, *rows) = table.rows
    hostile = replace(row, values=("=A(1)\x1b]0;owned\x07\u202e", *row.values[1:]))
    given = replace(report, tables=(replace(table, rows=(hostile, *rows)), *others))
    text = _rendered(given, form, None)
    assert "owned" in text and all(each.isprintable() for each in text.splitlines())
    if form == "csv":
        assert "'=A(1)\\x1b]0;owned\\x07\\u202e" in text


def test_markdown(report: TableReport) -> None:
    text = renderings.render_markdown(report)
    assert "| a\\<b\\|c | 50.0 | 96.9 | 1,234,567 |" in text
    assert "**bad failed**: it \\<crashed\\>" in text
    assert "simprof 9.9, cost model 7-abc" in text and "`simprof table`" in text
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line[:3] == "| a"}
    assert widths == {4, 6}  # the list of programs, and the table


def test_html_is_whole_and_escaped(report: TableReport) -> None:
    page = pages.render_tables_page(report)
    body = page[page.index("<body>") : page.index("</body>") + len("</body>")]
    root = ET.fromstring(body)
    assert len(root.findall(".//section")) == 1
    assert "a<b|c" in {cell.text for cell in root.iter("td")}
    assert root.find(".//{http://www.w3.org/2000/svg}svg") is not None


def bars_of(table: ReportTable) -> list[tuple[float, str]]:
    """Heights and tooltips of a plot's bars."""
    plot = pages.render_plot(table)
    assert plot is not None
    space = "{http://www.w3.org/2000/svg}"
    rects = [each for each in ET.fromstring(plot).iter(f"{space}rect") if len(each)]
    return [(float(each.attrib["height"]), str(each[0].text)) for each in rects]


def test_bars_are_as_high_as_their_numbers(report: TableReport) -> None:
    found = {text: height for height, text in bars_of(report.tables[0])}
    assert set(found) == {
        "a<b|c, X %: 50.0", "b, X %: 25.0", "INT average, X %: 37.5", "average, X %: 37.5",
        "a<b|c, X % (paper): 96.9",
    }  # fmt: skip
    assert found["a<b|c, X %: 50.0"] == pytest.approx(2 * found["b, X %: 25.0"], abs=0.11)
    assert max(found.values()) == found["a<b|c, X % (paper): 96.9"] <= pages.HEIGHT


def test_published_bars_are_labelled_as_what_they_are_compared_with() -> None:
    """Not as the column before theirs, which may be what was executed."""
    columns = (
        TableColumn("program", "program"),
        TableColumn("x", "X %", Form.PERCENT),
        TableColumn(f"x{EXECUTED}", "executed", Form.PERCENT),
        TableColumn("x:paper", "(paper)", Form.PERCENT),
    )
    rows = (TableRow(("INT geometric mean", 50.0, 51.0, 96.9), "program", "INT"),)
    table = ReportTable("t", "T", "P", "C.", columns, rows, bars=Bars(("x",), "y"))
    texts = {text.partition(", ")[2] for _, text in bars_of(table)}
    assert texts == {"X %: 50.0", "X % (paper): 96.9"}


def test_names_below_bars_are_in_the_picture(report: TableReport) -> None:
    """A name ends below its bars and leans to the left, as far as it is long."""
    for name in ("a", "INT geometric mean", "a program of a long name, and a longer one"):
        drawn = pages.plot(small(program_row(name, "INT", 1.0), bars=Bars(("x",), "y")))
        assert drawn is not None
        for x, row in drawn["names"]:
            length = 6.5 * len(str(row.values[0]))
            assert x - length * math.cos(math.radians(55)) >= drawn["start"]
            lowest = drawn["names_at"] + length * math.sin(math.radians(55))
            assert lowest + 4 <= drawn["height"]


def test_bars_below_zero_and_on_a_logarithmic_scale() -> None:
    rows = [program_row("a", "INT", -10.0), program_row("b", "INT", 20.0)]
    heights = [height for height, _ in bars_of(small(*rows, bars=Bars(("x",), "y")))]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.11)
    rows = [program_row("a", "", 10.0), program_row("b", "", 1000.0), program_row("c", "", 0.0)]
    log = Bars(("x",), "y", logarithmic=True)
    heights = [height for height, _ in bars_of(replace(small(*rows, bars=log), rows=tuple(rows)))]
    assert heights[1] == pages.HEIGHT and heights[0] == heights[2] == 0
    assert pages.render_plot(small(bars=log)) is None
    assert pages.render_plot(small(*rows)) is None


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (None, Form.RATIO, "-"),
        (1234.5678, Form.RATIO, "1,234.57"),
        (12.345, Form.PERCENT, "12.3"),
        (2.6, Form.COUNT, "3"),
        (10**400, Form.COUNT, "1.00e400"),
        (float("inf"), Form.RATIO, "inf"),
        ("x", Form.TEXT, "x"),
    ],
)
def test_values(value: Any, form: Form, text: str) -> None:
    assert shown(value, form) == text


# --- from real runs


BENCHMARKS = ("faults", "control")
OF_SPEC2000 = "tpp3"
"""The table of programs that stand in for SPEC2000's, of which these suites have none."""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Two small programs of `micro`, and one that ends with another status than it should."""
    micro = load_suite("micro")
    kept = [micro.benchmark(name) for name in BENCHMARKS]
    inputs = {
        name: replace(found, status=found.status + 1, expected=None)
        for name, found in kept[0].inputs.items()
    }
    wrong = replace(kept[0], name="wrong", inputs=inputs)
    return replace(micro, name="few", benchmarks=(*kept, wrong))


@pytest.fixture(scope="module")
def results(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the results of all tables."""
    path = tmp_path_factory.mktemp("tables") / "results.db"
    with Store(path) as store:
        run_tables(suite, list(TABLES.values()), VIEW, store=store, workers=0)
    return path


@pytest.mark.long
def test_all_tables_of_real_runs(suite: Suite, results: Path) -> None:
    with Store(results) as store:
        before = len(store.rows())
        report = run_tables(suite, list(TABLES.values()), VIEW, store=store, workers=0)
        assert len(store.rows()) == before, "nothing is run twice"
    assert [table.name for table in report.tables] == NAMES
    assert {name for name, _ in report.failures} == {"wrong"}
    for table in report.tables:
        assert "simulated instructions" in table.caption and "cost model" in table.caption
        rows = {str(row.values[0]): row for row in table.rows if row.kind == "program"}
        planned = all(need.kind is CellKind.PLAN for need in TABLES[table.name].needs.values())
        expected = {*BENCHMARKS, *(("wrong",) if planned else ())}
        assert set(rows) == (expected if table.name != OF_SPEC2000 else set())
        # programs without hash tables, or without a routine of their own
        partial = table.name in {"tpp1", "kiter3", "analysis"}
        assert all(None not in row.values for row in rows.values()) or partial
        assert table.claims


@pytest.mark.long
@pytest.mark.parametrize("name", ["manypaths", "loops"])
def test_both_derivations_of_hashed_shares_agree(
    name: str, fixture_elf: Callable[..., Path]
) -> None:
    """TPP table 1 adds up routines by their tables, EPP table 1 calls of the hashing routine."""
    for setting in ("pp", "pp:path-limit=10", "pp:table=hash"):
        (group,) = groups([Job(Cell(name, parse(setting)), fixture_elf(name))])
        (found,) = run_group(group)
        row = only_row(table_of("tpp1", {"pp": found}))
        assert row["hashed"] == only_row(table_of("epp1", {"pp": found, "qpt2": found}))["hashed"]
    loops = [routine for routine in found.routines if routine.self_loop_increments]
    assert loops and all(routine.table == CounterTable.HASH for routine in loops)
    assert row["hashed"] < 100 and row["self_loops"] > 0
    for each in loops:  # ld, add, st, and the address; at most what saves and a jump take beside
        assert 4 <= each.self_loop_added / each.self_loop_increments <= 12


@pytest.mark.long
def test_tables_from_a_file_are_those_of_the_runs(suite: Suite, results: Path) -> None:
    specs = list(TABLES.values())
    with Store(results) as store:
        ran = run_tables(suite, specs, VIEW, store=store, workers=0)
    read = stored_tables(results, None, specs, VIEW)
    assert (read.engine, read.cost_model) == (ran.engine, ran.cost_model) and read.suite == "few"
    for one, two in zip(ran.tables, read.tables, strict=True):
        assert one.rows == two.rows and one.claims == two.claims
    some = stored_tables(results, "few", specs, VIEW, only=["con*"])
    assert [program.name for program in some.programs] == ["control"]
    with pytest.raises(UsageError, match="no results of suite micro"):
        stored_tables(results, "micro", specs, VIEW)
    with pytest.raises(UsageError, match="no benchmark matches zz"):
        stored_tables(results, None, specs, VIEW, only=["zz*"])


@pytest.mark.long
def test_a_file_of_few_cells_gives_the_tables_that_it_can(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "few.db"
    with Store(path) as store:
        run_tables(suite, find(["epp1"]), VIEW, store=store, workers=0, only=["faults"])
    report = stored_tables(path, None, list(TABLES.values()), VIEW, partial=True)
    assert {"epp1", "epp2"} <= {table.name for table in report.tables}
    assert {"tpp1", "tpp2", "kiter4", "cs6120"} <= set(report.left_out)
    assert set(report.left_out).isdisjoint(table.name for table in report.tables)


def test_programs_outside_of_suites_have_tables(tmp_path: Path) -> None:
    program = GridProgram(FIXTURES / "bin/v9/control.elf", "control")
    path = tmp_path / "sweep.db"
    order = make_order(Grid(programs=(program,), modes=("pp", "qpt2")))
    assert sweep(order, path, local_runner(0)).failures == ()
    for name in (None, NO_SUITE):
        report = stored_tables(path, name, find(["epp1"]), VIEW)
        assert report.failures == () and report.suite == NO_SUITE
        (row,) = [row for row in report.tables[0].rows if row.kind == "program"]
        assert row.values[0] == "control" and None not in row.values[1:3]


# --- the command


def test_a_sweep_ends_with_a_table_and_its_file_tells_what_it_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its selection of routines is the file's; what is missing for a table has a name."""
    path = tmp_path / "s.db"
    program = FIXTURES / "bin/v9/control.elf"
    command = ["sweep", str(program), "--mode", "pp,qpt2", "--user-only", "-o", str(path)]
    assert run([*command, "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "overhead in %, of the programs' own routines\nprogram    pp  qpt2\n" in out
    assert "\ncontrol  58.4  45.9\n" in out
    assert f"next: simprof table overheads --from {path}" in " ".join(out.split())
    status, out, _ = simprof(capsys, "overheads", "--from", path)
    assert status == 0
    (row,) = [line.split() for line in out.splitlines() if line.startswith("control")]
    assert row == ["control", "58.4", "45.9"]
    assert "program    pp  qpt2" in out.splitlines()
    told = " ".join(out.split())
    assert "the programs' own routines only" in told
    assert "s.db has pp:user-only, qpt2:user-only of control, input and build ref file" in told
    assert "missing for these tables: qpt:user-only, witness:user-only," in told
    status, out, _ = simprof(capsys, "--all", "--from", path)
    assert status == 0
    assert out.startswith("EPP table 1")
    status, out, _ = simprof(capsys, "tpp1", "--from", path, "--input", "train")
    assert status == 1
    assert "input and build train file" in " ".join(out.split())


def simprof(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    status = run(["table", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = simprof(capsys, "--list")
    assert status == 0
    others = {"overheads", "family", "gcov-arcs", "rewriting", "instrumented"}
    listed = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert listed[: len(NAMES)] == list(NAMES)
    assert others <= set(listed[len(NAMES) :]) == set(tables()) - set(NAMES)


@pytest.mark.long
def test_the_command_reads_results(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path
) -> None:
    status, out, err = simprof(capsys, "epp1", "kiter4", "--from", results, "--json")
    assert status == 1
    assert err.splitlines() == [line for line in err.splitlines() if "wrong: " in line] != []
    assert [table["name"] for table in json.loads(out)["tables"]] == ["epp1", "kiter4"]
    page = tmp_path / "results.md"
    status, out, _ = simprof(
        capsys, "--all", "--from", results, "--benchmark", "control", "--markdown", "-o", page
    )
    assert (status, out) == (0, "")
    text = page.read_text()
    assert "`simprof table --all --from results.db --benchmark control --markdown`" in text
    assert all((f'<a id="{name}"></a>' in text) == (name != OF_SPEC2000) for name in NAMES)
    status, out, _ = simprof(capsys, "epp1", "--from", results, "--benchmark", "control")
    assert status == 0 and "Claims" in out and "099.go" in out


def test_a_folder_of_some_tables(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    status, out, _ = simprof(capsys, "epp1", "--from", results, "-o", f"{made}/")
    assert status == 1 and str(made / "index.html") in out
    assert {path.name for path in made.glob("epp1.*")} == {
        f"epp1.{form}" for form in ("csv", "md", "svg", "tex")
    }
    head, *rows, last = (made / "epp1.tex").read_text().splitlines()[1:]
    assert re.fullmatch(r"\\begin\{tabular\}\{l[lr]+\}", head) and last == r"\end{tabular}"
    columns = len(head.rpartition("{")[2]) - 1
    assert all(len(re.findall(r"(?<!\\)&", row)) == columns - 1 for row in rows)
    assert any(row.startswith("control &") for row in rows)


@pytest.mark.long
def test_the_folder(capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    status, out, _ = simprof(capsys, "--all", "--from", results, "-o", folder)
    assert status == 1 and str(folder / "index.html") in out
    made = [name for name in NAMES if name != OF_SPEC2000]
    page = (folder / "index.html").read_text()
    assert all(f'<section class="table" id="{name}">' in page for name in made)
    plots = {path.stem for path in folder.glob("*.svg")}
    assert plots == {spec.name for spec in TABLES.values() if spec.bars} - {OF_SPEC2000}
    assert page.count("<svg ") == len(plots)
    for form in ("csv", "tex", "md"):
        assert {path.stem for path in folder.glob(f"*.{form}")} - {"results"} == set(made)
    assert len(json.loads((folder / "results.json").read_text())["tables"]) == len(made)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name tables, or give --all"),
        (["epp1", "--all"], "name tables, or give --all: epp1 is among all anyway"),
        (["gcov-arcs", "kiter3", "--all"], "give --all: kiter3 is among all anyway"),
        (["--all", "epp9"], "unknown table 'epp9': did you mean"),
        (["epp9"], "unknown table 'epp9'"),
        (["epp1", "--suite", "nosuch"], "unknown suite 'nosuch'"),
        (["epp1", "--from", "missing.db"], "missing.db"),
        (["epp1", "--from", "x.db", "--results", "y.db"], "--results with --from"),
        (["--all", "-o", "file.txt"], "is a file: name a directory"),
        (["epp1", "-o", "nowhere/x.txt"], "no directory"),
        (["epp1", "--from", "file.txt"], "not a results file of simprof"),
    ],
)
def test_wrong_uses_are_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: Sequence[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.txt").write_text("precious")
    status, out, err = simprof(capsys, *arguments)
    assert (status, out) == (125, "")
    assert says in err and len(err.splitlines()) == 1
    assert Path("file.txt").read_text() == "precious"


@pytest.mark.long
def test_the_command_runs_programs_and_keeps_results(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.db"
    words: list[str | Path] = [
        "epp1",
        "--suite",
        "micro",
        "--benchmark",
        "faults",
        "--results",
        kept,
        "--csv",
    ]
    status, first, _ = simprof(capsys, *words, "--jobs", "1")
    assert status == 0
    with Store(kept) as store:
        assert len(store.rows()) == 4
    assert simprof(capsys, *words) == (0, first, "")
    (row,) = (row for row in csv.DictReader(io.StringIO(first)) if row["kind"] == "program")
    assert row["program"] == "faults" and float(row["pp"]) > float(row["qpt2"]) > 0


@pytest.mark.long
def test_a_whole_suite(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All tables, over the five programs of it that execute least: verdicts ask for as many."""
    names = ("crc", "fdct", "fibcall", "fir", "jfdctint")
    some = [word for name in names for word in ("--benchmark", name)]
    places = ("--results", tmp_path / "all.db", "-o", tmp_path / "out")
    status, _, err = simprof(capsys, "--all", "--suite", "wcet", *some, *places)
    assert (status, err) == (0, "")
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    verdicts = [claim["verdict"] for table in found["tables"] for claim in table["claims"]]
    judged = verdicts.count("holds") + verdicts.count("fails")
    assert verdicts.count("holds") > judged / 2
    for table, one in itertools.product(found["tables"], ["why"]):
        for claim in table["claims"]:
            assert (claim["verdict"] == "fails") <= bool(claim[one]), claim["text"]
