"""Verdicts on claims: at their boundaries, and that nothing printed contradicts them."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.experiments.suites.sources import suites_directory
from simprof.profiler.experiments.tables.claims import (
    NO_GROUPS,
    Rule,
    judge,
    requirement,
    rule,
    statistic,
)
from simprof.profiler.experiments.tables.conditions import (
    Bound,
    Condition,
    Relation,
    Whose,
    apart,
    count_of,
    extremes,
    member,
    number,
    read,
)
from simprof.profiler.experiments.tables.others import GCOV_ARCS
from simprof.profiler.experiments.tables.results import TABLES as OF_PAPERS
from simprof.profiler.experiments.tables.spec import TableSpec
from simprof.profiler.experiments.tables.table import (
    FEWEST,
    Claim,
    Form,
    ReportTable,
    TableRow,
    Verdict,
)
from tests.support.report_tables import program_row, small

Numbers = Mapping[str, float]
Rows = Callable[[float], Sequence[Numbers]]  # The programs' numbers, made of one

TABLES = {**OF_PAPERS, GCOV_ARCS.name: GCOV_ARCS}
"""All that draw conclusions."""

NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
GROUPS = ("INT",) * 5 + ("FP",) * 5
PLAIN = 10.0
COUNT = len(NAMES)


def table_of(spec: TableSpec, rows: Iterable[tuple[str, str, Numbers]]) -> ReportTable:
    """A table of (program, group, numbers by column); 10 where nothing is given."""
    made = []
    for name, group, numbers in rows:
        assert set(numbers) <= {column.key for column in spec.columns}
        values = (
            numbers.get(column.key, PLAIN) if column.form is not Form.TEXT else f"{column.key}"
            for column in spec.columns[1:]
        )
        made.append(TableRow((name, *values), "program", group))
    return ReportTable(spec.name, spec.title, spec.source, spec.caption, spec.columns, tuple(made))


def claims_of(spec: TableSpec, rows: Iterable[tuple[str, str, Numbers]]) -> list[Claim]:
    return list(spec.judge(table_of(spec, rows)))


def check(claim: Claim) -> None:
    """Nothing that is printed with a verdict contradicts it."""
    if claim.verdict is Verdict.UNTESTABLE:
        assert claim.figure and not claim.why and not claim.conditions and not claim.programs
        return
    assert claim.conditions
    few = claim.programs < FEWEST
    assert (claim.verdict is Verdict.TOO_FEW) == few
    if not few:
        assert (claim.verdict is Verdict.HOLDS) == all(each.holds for each in claim.conditions)
    assert bool(claim.why) == (claim.verdict is Verdict.FAILS)
    assert f"; {claim.programs} program" in claim.figure
    for condition in claim.conditions:
        assert condition.sourced_rule in claim.figure
        assert condition.programs <= COUNT
        if few:
            continue
        value, bound = map(read, condition.texts)
        assert condition.bound.relation.holds(value, bound) == condition.holds, claim.figure
        assert condition.figure in claim.figure and condition.rule in claim.figure
        assert (condition.reason in claim.why) == (not condition.holds)
        if condition.counts:
            assert condition.value == sum(each.keeps for each in condition.members)
        for each in condition.members:
            named = f": {each}" in condition.reason or f"; {each}" in condition.reason
            assert named <= (not each.keeps)


# --- the boundary of every claim


@dataclass(frozen=True)
class Boundary:
    """A claim at its boundary, of ten programs, five in each group.

    `rows` makes the programs' numbers of x; `verdicts` says for x just below `at`, at it, and
    just above: h holds, f fails.
    """

    table: str
    claim: str
    rows: Rows
    at: float
    verdicts: str
    step: float = 1e-7
    names: tuple[str, ...] = NAMES


def every(key: str, **others: float) -> Rows:
    """All programs have x in a column."""
    return lambda x: [{**others, key: x}] * COUNT


def group(name: str, key: str) -> Rows:
    """The programs of one group have x in a column; those of the other 10."""
    return lambda x: [{key: x} if each == name else {} for each in GROUPS]


def first(key: str, rest: float, **others: float) -> Rows:
    """One program has x in a column, the others have `rest`."""
    return lambda x: [{**others, key: x if each == 0 else rest} for each in range(COUNT)]


def counted(good: Numbers, bad: Numbers) -> Rows:
    """So many of ten programs are as a claim says."""
    return lambda x: [good if each < x else bad for each in range(COUNT)]


def last(key: str, rest: float) -> Rows:
    """One FP program has x in a column, the other FP programs have `rest`."""
    return lambda x: [{}] * 5 + [{key: rest}] * 4 + [{key: x}]


def growing(x: float) -> Sequence[Numbers]:
    """So many of ten routines, which all differ, have more paths with every k."""
    return [
        {**{f"k{k}": k if each < x else 9 for k in range(1, 5)}, "k5": 9 + each}
        for each in range(COUNT)
    ]


def differing(key: str, **others: float) -> Rows:
    """All routines have x in a column, and are not the same routine in several programs."""
    return lambda x: [{**others, key: x, "k1": each / COUNT} for each in range(COUNT)]


KERNELS = ("compress", "crc", "edn", "fdct", "fibcall", "fir", "jfdctint", "ludcmp", "ndes")


def beyond(kernel: str) -> Rows:
    """The paper's kernels, of which one has x paths, and ndes, if it is another, more than all."""
    return lambda x: [
        {"most3": x if each == kernel else 10.0**6 if each == "ndes" else 10} for each in KERNELS
    ]


def targeted(name: str, part: float, told: str, spread: float) -> list[Boundary]:
    """The claims of TPP's tables 2 and 3, which are the same but for two numbers.

    `spread`: How far apart the paper's means of TPP are, in percent of PP's.
    """
    flat = {"pp": 100.0, "t1": 50.0, "t5": 50.0, "t10": 50.0, "t515": 50.0, "t0": 100.0}
    return [
        Boundary(name, told, every("t515", pp=100), 100 * part, "hhf"),
        Boundary(name, "Overhead does not", first("t10", 10), 10, "ffh"),
        Boundary(name, "Overhead does not", counted({"t5": 11}, {"t5": 10}), 1, "fhh", 1),
        Boundary(name, "... at an attribution", every("a515"), 98, "ffh"),
        Boundary(name, "Most of the reduction", every("t1", **(flat | {"t10": 20})), 60, "hhf"),
        Boundary(name, "The results are rather", every("t1", **flat), 50 + spread - 1e-9, "hhf"),
        Boundary(
            name,
            "FP programs benefit",
            lambda x: [{"pp": 100, "t515": x if each == "FP" else 50} for each in GROUPS],
            50,
            "hff",
        ),
        Boundary(name, "Without the removal", every("t0", **flat), 90, "fhh"),
    ]


def paper_spread(name: str) -> float:
    """How far apart the means of TPP in a table of the paper are, in percent of PP's."""
    data = tomllib.loads((suites_directory() / "published" / "tpp.toml").read_text())
    (found,) = (table for table in data["table"] if table["name"] == name)
    rows = [row for row in found["rows"] if row[1] != "average"]
    pp, *tpp = (
        sum(row[found["columns"].index(key)] for row in rows)
        for key in ("pp", "t1", "t5", "t10", "t515")
    )
    return float(100 * (max(tpp) - min(tpp)) / pp)


DISCONNECTING = "The path length lost by disconnecting loops of"
BOUNDARIES = [
    Boundary("epp1", "PP's overhead averages", every("pp_qpt2"), 3, "hff"),
    Boundary("epp1", "PP's overhead is higher", group("INT", "pp"), 10, "ffh"),
    Boundary("epp1", "Programs with little", every("pp_qpt2", hashed=1), 1.5, "hhf"),
    Boundary("epp1", "Programs with little", first("hashed", 30, pp_qpt2=2), 2, "tuu"),
    Boundary("epp1", "Programs with considerable", first("pp", 10, hashed=20), 10, "hfh"),
    Boundary("epp1", "Programs with considerable", every("hashed"), 20, "uff"),
    Boundary("epp1", "Path profiling executes", every("edge_ratio"), 1, "ffh"),
    Boundary("epp1", "A hash table is", every("hash_cost"), 10, "fhh"),
    Boundary("epp1", "There are many", every("cheaper"), 10, "fhh"),
    Boundary("epp2", "Few paths", every("paths", potential=1000), 10, "hff"),
    Boundary("epp2", "Few paths", first("paths", 1, potential=1000), 500, "hff"),
    Boundary("epp2", "Paths of FP", group("FP", "average_instructions"), 10, "ffh"),
    Boundary("epp2", "Edge profiles predict", every("correct"), 50, "hff"),
    Boundary(
        "epp2", "Predicted paths",
        every("predicted_instructions", predicted_edges=8), 8, "hff",
    ),
    Boundary(
        "epp2", "Predicted paths",
        every("predicted_edges", predicted_instructions=5), 6, "fhh",
    ),
    Boundary("epp2", "Routines execute few", every("average_paths"), 20, "hhf"),
    Boundary("epp3", "For integer programs", first("static", 90), 41.8, "fhh"),
    Boundary("epp3", "The common paths", first("dynamic", 90), 71.9, "fhh"),
    Boundary("epp3", "For FP programs", last("static", 99), 87.5, "fhh"),
    Boundary(
        "epp3",
        "In FP programs",
        lambda x: [{}] * 5 + [{"instructions_share": 99.5}] * 3
        + [{"instructions_share": 5}, {"instructions_share": x}],
        99,
        "fhh",
    ),
    Boundary("bittrace", "Bit tracing uses", first("same_bits", 100), 100, "fhh"),
    Boundary("bittrace", "In the worst case", first("most_counters", 1), 2, "hhf"),
    Boundary(
        "bittrace", "Bit tracing is likely",
        counted({"bittrace": 11}, {"bittrace": 9}), 6, "fhh", 1,
    ),
    Boundary("bittrace", "Bit tracing is likely", every("bittrace"), 10, "ffh"),
    Boundary("bittrace", "... also where", counted({"merged": 11}, {"merged": 9}), 6, "fhh", 1),
    Boundary("bittrace", "... also where", every("merged"), 10, "ffh"),
    Boundary("definite", "An edge profile", every("executions_share"), 70, "fhh"),
    Boundary("definite", "An edge profile", every("executions_share"), 90, "hhf"),
    Boundary("definite", "It attributes more", group("FP", "executions_share"), 10, "ffh"),
    Boundary(
        "tpp1",
        "Many of the programs",
        lambda x: [{"pp": 90, "hashed": x}] * 3 + [{"pp": 90, "hashed": 3}] * 3 + [{}] * 4,
        20,
        "fhh",
    ),
    Boundary("tpp1", "Counting a path", every("hash_cost"), 5.2, "fhh"),
    Boundary("tpp1", "Hash tables cause", every("hash"), 10, "ffh"),
    *targeted("tpp2", 0.65, "TPP(5,15) reduces", paper_spread("tpp2")),
    *targeted("tpp3", 0.5, "TPP(5,15) reduces", paper_spread("tpp3")),
    Boundary("tpp4", "More than 99 %", counted({"s515": 0.5}, {"s515": 5}), 8, "fhh", 1),
    Boundary("tpp4", "More than 99 %", every("s515"), 1, "hff"),
    Boundary("tpp4", "In eight of fifteen", counted({"s515": 0.001}, {"s515": 5}), 6, "fhh", 1),
    Boundary("tpp4", "In eight of fifteen", every("s515"), 0.01, "hff"),
    Boundary("tpp4-whole", "In some routines", first("most", 1), 2**64, "ffh", 1 << 12),
    Boundary("tpp-age", "Edge profiles of an early", every("a6c"), 98, "fhh"),
    Boundary("tpp-train", "An edge profile that", every("a_trainc"), 98, "fhh"),
    Boundary("tpp-train", "... and overhead", every("trainc", pp=100, t515c=50), 60, "hhf"),
    Boundary("tpp-parts", "About 60 %", every("cold", pp=100, t515=50), 80, "hhf"),
    Boundary("tpp-parts", "About 60 %", every("cold", pp=100, t515=50), 60, "fhh"),
    Boundary("tpp-parts", "Not to count", every("uncounted", t515=70), 70, "hhf"),
    Boundary("tpp-parts", "Not to count", every("uncounted", t515=70), 60, "fhh"),
    *(
        Boundary("tpp-lengths", f"{DISCONNECTING} {turns} ", every(f"lost_l{turns}"), most, "hhf")
        for turns, most in ((10, 5), (100, 0.5))
    ),
    Boundary("tpp-fig3", "A large share", every("obvious"), 20, "fhh"),
    Boundary("tpp-fig3", "Obvious paths are less", group("FP", "obvious"), 10, "ffh"),
    Boundary("tpp-fig9", "Most routines", first("w_pp", 10), 50, "hff"),
    Boundary("tpp-fig9", "Hashed routines", every("t5", pp=100), 40, "hhf"),
    Boundary("tpp-fig9", "For integer programs", every("t5", pp=100), 20, "hff"),
    Boundary("tpp-fig9", "Most of the benefit", every("t1", pp=100, t10=20), 60, "hhf"),
    Boundary("analysis", "TPP takes 74 %", every("tpp_pp"), 1.19, "fhh"),
    Boundary("analysis", "TPP takes 74 %", every("tpp_pp"), 1.96 - 1e-9, "hhf"),
    Boundary("analysis", "Hash tables limit", first("array_bytes", 10), 16384, "hhf"),
    Boundary(
        "analysis", "Routines with more", first("array_paths", 11, hashed_paths=5000), 6000, "hhf"
    ),
    Boundary("analysis", "Routines with more", first("hashed_paths", 9000), 4000, "fhh"),
    Boundary("bl94-table1", "Instrumenting for", every("increase"), 1.22, "fhh"),
    Boundary("bl94-table1", "Instrumenting for", every("increase"), 1.38, "hhf"),
    Boundary("bl94-table2", "The share of edges", every("profiled_share"), 39, "fhh"),
    Boundary("bl94-table2", "The share of edges", every("profiled_share"), 46, "hhf"),
    Boundary("bl94-table2", "The share of edges", first("profiled_share", 40), 47, "hhf"),
    Boundary("bl94-table2", "Less than half", first("no_jump_share", 60), 50, "ffh"),
    Boundary("bl94-table3", "Witness placement", every("old_new"), 1.2, "fhh"),
    Boundary("bl94-table3", "Witness placement", every("old_new"), 3, "hhf"),
    Boundary("bl94-table3", "Witness placement", first("old_new", 2), 1, "fhh"),
    Boundary("bl94-table3", "Bit tracing", every("new_bit"), 3, "fhh"),
    Boundary("bl94-table3", "Bit tracing", every("new_bit"), 7, "hhf"),
    Boundary("bl94-table3", "Files with", every("file_ratio"), 1, "ffh"),
    Boundary("bl94-table3", "Files with", every("file_ratio"), 1.3 - 1e-9, "hhf"),
    Boundary("bl94-table3", "Recording witnesses", every("run_ratio"), 1, "ffh"),
    Boundary("bl94-table3", "Recording witnesses", every("run_ratio"), 1.2, "hhf"),
    Boundary("bl94-graph1", "Pixie", first("pixie", 1.5, optimal=1.2, saved=2), 2, "hhf"),
    Boundary("bl94-graph1", "Pixie", first("pixie", 1.5, optimal=1.2, saved=2), 1.2, "fhh"),
    Boundary("bl94-graph1", "Optimal profiling", every("optimal", redundant=3), 2.5, "hhf"),
    Boundary("bl94-graph1", "Optimal profiling", first("optimal", 2, redundant=3), 3, "hhf"),
    Boundary(
        "bl94-graph2", "The reduction in",
        counted({"instructions": 9}, {"instructions": 11}), 6, "fhh", 1,
    ),
    Boundary("bl94-graph2", "The reduction in", every("instructions"), 10, "hhf"),
    *(
        Boundary("bl94-graph2", "For the four C", every(key, **other), at, verdicts)
        for key, other, low, high in (
            ("increments", {"instructions": 2.5}, 3, 4),
            ("instructions", {"increments": 3.5}, 2, 3),
        )
        for at, verdicts in ((low, "fhh"), (high, "hhf"))
    ),
    Boundary(
        "bl94-graph2",
        "The greatest",
        lambda x: [{"redundant": 1}] * 5 + [{"redundant": 2, "increments": x}] * 5,
        10,
        "fhh",
    ),
    Boundary("bl94-graph3", "Eprof(Ecnt) is", first("edge", 11), 10, "fhh"),
    Boundary("bl94-graph3", "The heuristic", every("edge_heuristic", edge=100), 105, "hhf", 1e-5),
    Boundary("bl94-graph3", "Mixed placements", every("mixed", edge=100), 105, "hhf", 1e-5),
    Boundary("bl94-graph4", "Heuristic-Max", first("heuristic-max", 11), 10, "ffh"),
    Boundary(
        "bl94-graph4", "Heuristic weights",
        every("heuristic-max", **{"exact-max": 100}), 66, "fhh", 1e-5,
    ),
    Boundary("bl94-graph4", "The reduction varies", every("exact-max"), 15, "fhh"),
    Boundary("bl94-graph4", "Goldberg's post-order", first("heuristic-max", 9), 10, "ffh"),
    Boundary(
        "bl94-graph5", "With exact weights",
        counted({"exact": 9}, {"exact": 11}), 9, "fhh", 1,
    ),
    Boundary("bl94-graph5", "With exact weights", every("exact"), 10, "hhf"),
    Boundary("bl94-graph5", "Exceptions are due", first("exact", 9), 10, "hhf"),
    Boundary("bl94-registers", "Register scavenging", first("less", 0), 21, "hhf"),
    Boundary("bl94-registers", "Register scavenging", first("less", 0), 6, "fhh"),
    Boundary("kiter3", "For most programs 2", counted({"k2": 2}, {"k2": 3}), 6, "fhh", 1),
    Boundary("kiter3", "For most programs 2", every("k2"), 2, "hhf"),
    Boundary("kiter3", "For most programs 3", counted({"k3": 2}, {"k3": 3}), 6, "fhh", 1),
    Boundary("kiter3", "For most programs 3", every("k3"), 2, "hhf"),
    Boundary("kiter3", "Large slowdowns", every("k3", hash3=50), 10, "ffh"),
    Boundary("kiter3", "Large slowdowns", every("hash3", k3=12), 11, "uuh"),
    Boundary("kiter3", "For k = 3 ndes", beyond("ndes"), 60_000, "ffh", 1, names=KERNELS),
    Boundary("kiter3", "For k = 3 ndes", beyond("crc"), 60_000, "hhf", 1, names=KERNELS),
    Boundary("kiter4", "Static paths grow", growing, 8, "fhh", 1),
    Boundary("kiter4", "Static paths grow", differing("k5", k2=2, k3=3, k4=4), 4, "ffh"),
    # cl_hash 10 to 16, cyfun 429 to 14,294; cl_hash 16 to 24, compress 5,887 to 44,063; and so on
    *(
        Boundary("kiter4", f"From k = {k - 1} to {k}", differing(f"g{k}"), at, verdicts)
        for k, least, greatest in (
            (2, 16 / 10, 14294 / 429),
            (3, 24 / 16, 44063 / 5887),
            (4, 34 / 24, 12272 / 4064),
            (5, 1360 / 1008, 36896 / 12272),
        )
        for at, verdicts in ((least, "fhh"), (greatest, "hhf"))
    ),
    Boundary("cs6120", "Logging every edge", every("calls"), 2, "fhh"),
    Boundary("cs6120", "... but only", every("calls_optimal"), 9, "fhh"),
    Boundary("cs6120", "A maximum spanning", every("calls_maximum"), 10, "hff"),
    Boundary("gcov-arcs", "Only arcs that", first("gcc_naive", 0.5), 1, "hff"),
    Boundary("gcov-arcs", "gcc's tree, too,", every("increments"), 1, "fhh"),
    Boundary("gcov-arcs", "gcc's tree, too,", every("increments"), 2, "hhf"),
    Boundary("gcov-arcs", "What QPT2 is", every("gcc_qpt2"), 0.5, "fhh"),
    Boundary("gcov-arcs", "What QPT2 is", every("gcc_qpt2"), 2, "hhf"),
]  # fmt: skip
LETTERS = {"t": Verdict.TOO_FEW, "h": Verdict.HOLDS, "f": Verdict.FAILS, "u": Verdict.UNTESTABLE}


@pytest.mark.parametrize(
    "boundary", BOUNDARIES, ids=lambda each: f"{each.table}-{each.claim}-{each.at}"
)
def test_at_its_boundary(boundary: Boundary) -> None:
    for move, letter in zip((-1, 0, 1), boundary.verdicts, strict=True):
        numbers = boundary.rows(boundary.at + move * boundary.step)
        rows = list(zip(boundary.names, GROUPS, numbers, strict=False))
        made = claims_of(TABLES[boundary.table], rows)
        (claim,) = (each for each in made if each.text.startswith(boundary.claim))
        assert claim.verdict is LETTERS[letter], (move, claim)
        check(claim)


def test_every_claim_has_a_boundary_here() -> None:
    covered = {(each.table, each.claim) for each in BOUNDARIES}
    lacking = []
    for name, spec in TABLES.items():
        told = spec.judge(table_of(spec, [(each, "INT", {}) for each in NAMES]))
        fit = spec.judge(table_of(spec, zip(NAMES, GROUPS, [{}] * COUNT, strict=True)))
        for claim in {each.text: each for each in (*told, *fit)}.values():
            starts = [start for table, start in covered if table == name]
            if claim.conditions and not any(claim.text.startswith(start) for start in starts):
                lacking.append((name, claim.text))
    assert lacking == []


@pytest.mark.long
def test_nothing_printed_contradicts_a_verdict() -> None:
    chosen = random.Random(2004)
    for spec in TABLES.values():
        for _ in range(60):
            spread = chosen.choice((1e-9, 0.01, 1, 30))
            around = chosen.choice((0.5, 1.0, 2.0, 10.0, 50.0, 80.0, 98.0))
            rows: list[tuple[str, str, dict[str, Any]]] = [
                (
                    f"p{number_}",
                    chosen.choice(("INT", "FP")),
                    {
                        column.key: abs(around + chosen.uniform(-spread, spread))
                        for column in spec.columns[1:]
                        if column.numeric
                    },
                )
                for number_ in range(chosen.randint(0, 9))
            ]
            for claim in claims_of(spec, rows):
                check(claim)


def test_without_results_a_reason_says_nothing_of_programs_that_failed() -> None:
    """Programs may have failed, or be of another table: the suite may well have some."""
    for spec in TABLES.values():
        for claim in claims_of(spec, []):
            assert claim.verdict is Verdict.UNTESTABLE
            assert "suite" not in claim.figure, (spec.name, claim)
            assert not claim.figure.startswith(("no program", "no routine")), (spec.name, claim)


@pytest.mark.parametrize(
    ("table", "start", "numbers", "named"),
    [
        ("tpp-parts", "About 60 %", {"pp": 100, "t515": 50, "cold": 90},
         "a 20 % (PP 100, cold only 90, TPP(5,15) 50)"),
        (
            "tpp2", "Most of the reduction",
            {"pp": 100, "t1": 90, "t5": 60, "t10": 60, "t515": 50},
            "a 20 % (PP 100, TPP(1,1) 90, TPP(5,5) 60, TPP(10,10) 60, TPP(5,15) 50)",
        ),
        ("bl94-graph2", "The greatest", {"redundant": 9, "increments": 1},
         "a 1 (increments 1, redundant time 9)"),
    ],
)  # fmt: skip
def test_failing_parts_name_the_program(
    table: str, start: str, numbers: dict[str, float], named: str
) -> None:
    rows = [(name, "INT", numbers) for name in "abc"]
    rows += [(name, "INT", numbers | {"redundant": 8, "increments": 2}) for name in "def"]
    wanted = {column.key for column in TABLES[table].columns}
    rows = [(name, each, {k: v for k, v in x.items() if k in wanted}) for name, each, x in rows]
    (claim,) = (each for each in claims_of(TABLES[table], rows) if each.text.startswith(start))
    assert claim.verdict is Verdict.FAILS
    assert named in claim.why


def test_a_reason_names_only_rows_that_the_claim_is_about() -> None:
    rows = [
        (name, each, {"instructions_share": 5.0}) for name, each in zip(NAMES, GROUPS, strict=True)
    ]
    claim = claims_of(TABLES["epp3"], rows)[3]
    assert claim.verdict is Verdict.FAILS
    assert re.search(r"\bf\b", claim.why) and not re.search(r"\ba\b", claim.why)


def test_without_numbers_nothing_is_judged() -> None:
    for spec in TABLES.values():
        verdicts = {claim.verdict for claim in claims_of(spec, [])}
        assert verdicts == {Verdict.UNTESTABLE}, spec.name


def test_every_claim_could_go_either_way() -> None:
    """At its boundaries each claim is seen to hold and to fail."""
    seen: dict[tuple[str, str], set[str]] = {}
    for each in BOUNDARIES:
        seen.setdefault((each.table, each.claim), set()).update(each.verdicts)
    assert {claim for claim, verdicts in seen.items() if not {"h", "f"} <= verdicts} == set()


@pytest.mark.parametrize("count", [1, FEWEST - 1, FEWEST])
def test_fewer_than_five_programs_are_too_few_whatever_they_say(count: int) -> None:
    for cost in (1.0, 100.0):
        rows = [(name, "INT", {"pp_qpt2": cost}) for name in NAMES[:count]]
        claim = claims_of(TABLES["epp1"], rows)[0]
        assert claim.programs == count
        if count < FEWEST:
            assert claim.verdict is Verdict.TOO_FEW and not claim.why
        else:
            assert claim.verdict is (Verdict.HOLDS if cost < 3 else Verdict.FAILS)


def test_whose_a_bound_is() -> None:
    rows = list(zip(NAMES, GROUPS, [{"hashed": 1.0}] * COUNT, strict=True))
    mean, groups, little, *_ = claims_of(TABLES["epp1"], rows)
    assert mean.whose == groups.whose == (Whose.PAPER,)
    assert "rule: below 3 (the paper's bound, missed by 7); 10 programs" in mean.figure
    assert little.whose == (Whose.OURS,)
    assert "rule: at most 1.5 (our bound, missed by 8.5); 10 programs" in little.figure
    counted_ = claims_of(TABLES["bl94-graph3"], rows_of({"edge": 11.0}))[0]
    assert "rule: all (the paper's bound, kept exactly)" in counted_.figure


def rows_of(numbers: Numbers) -> list[tuple[str, str, Numbers]]:
    return list(zip(NAMES, GROUPS, [numbers] * COUNT, strict=True))


def test_claims_about_hashing_need_some() -> None:
    few, many = ({"hashed": x, "pp": 100.0} for x in (0.013, 23.5))
    for name in ("tpp1", "tpp2", "tpp4", "tpp-fig9", "tpp-parts"):
        told = claims_of(TABLES[name], rows_of(few))
        found = [each for each in told if "hash 0.013 % of PP's increments" in each.figure]
        assert found and all(each.verdict is Verdict.UNTESTABLE for each in found)
        told = claims_of(TABLES[name], rows_of(many))
        assert all("of PP's increments on average" not in each.figure for each in told)


def test_an_original_counts_once() -> None:
    """Two stand-ins of one program weigh as much as the one of another."""
    spec = TABLES["epp1"]
    table = table_of(spec, [(name, "INT", {"pp_qpt2": 1.0}) for name in NAMES[:6]])
    rows = [
        replace(row, original="go" if at < 2 else f"o{at}") for at, row in enumerate(table.rows)
    ]
    position = table.index("pp_qpt2")
    for at, cost in ((0, 11.0), (2, 6.0)):
        values = list(rows[at].values)
        values[position] = cost
        rows[at] = replace(rows[at], values=tuple(values))
    made = replace(table, rows=tuple(rows))
    # 11 and 1 are one number, 6; then 6, 1, 1, 1
    assert statistic(made, "mean(pp_qpt2)") == 3.0
    claim = spec.judge(made)[0]
    assert claim.figure.startswith("mean of PP/QPT2 3 (1-11)") and claim.verdict is Verdict.FAILS


def test_programs_that_stand_in_for_none_are_not_judged() -> None:
    spec = TABLES["epp1"]
    table = table_of(spec, [(name, "INT", {"pp_qpt2": 1.0}) for name in NAMES])
    rows = [replace(row, judged=at < 6) for at, row in enumerate(table.rows)]
    values = list(rows[9].values)
    values[table.index("pp_qpt2")] = 1000.0
    rows[9] = replace(rows[9], values=tuple(values))
    claim = spec.judge(replace(table, rows=tuple(rows)))[0]
    assert (claim.verdict, claim.programs) == (Verdict.HOLDS, 6)


# --- conditions


def higher(group: str, unit: str = "") -> Rule:
    """The rule that the mean of column x is higher for a group."""
    other = "FP" if group == "INT" else "INT"
    return rule("c", f"paper: {group}(x) > {other}(x){unit}")


def test_judging() -> None:
    numbers = zip("abcde", (2, 5, 2, 2, 2), strict=True)
    less = Bound(Relation.BELOW, 3)
    parts = tuple(member(name, x, less, " %", "of 9") for name, x in numbers)
    low, high = (
        Condition("mean", x, less, " %", remark="2-5 %", members=parts) for x in (2.9, 3.4)
    )
    holds = judge("c", low)
    assert (holds.verdict, holds.why) == (Verdict.HOLDS, "")
    assert holds.figure == (
        "mean 2.9 % (2-5 %); rule: below 3 % (our bound, kept by 0.1 percentage points); 5 programs"
    )
    fails = judge("c", high)
    assert fails.verdict is Verdict.FAILS
    assert fails.why == (
        "mean misses the bound by 0.4 percentage points; on the wrong side are 1 of 5: b 5 % (of 9)"
    )
    both = judge("c", low, high)
    assert both.figure.endswith(
        "rule: mean below 3 % (our bound, kept by 0.1 percentage points) and mean below 3 % "
        "(our bound, missed by 0.4 percentage points); 5 programs"
    )
    assert both.why == fails.why
    for nothing in (judge("c"), judge("c", low, None, absent="none")):
        assert (nothing.verdict, nothing.why) == (Verdict.UNTESTABLE, "")
    assert nothing.figure == "none"


def test_counting_rows() -> None:
    numbers = zip("abcde", (19.996, 1, 20, 30, 40), strict=True)
    parts = [member(name, x, Bound(Relation.AT_LEAST, 20)) for name, x in numbers]
    four = judge("c", count_of(parts, "programs", 4))
    assert four.figure == (
        "3 of 5 programs; rule: at least 4 (the paper's bound, missed by 1 of 5); 5 programs"
    )
    assert four.why == "1 too few; on the wrong side are 2 of 5: b 1; a 19.996"
    every_one = judge("c", count_of(parts, "programs", 5, whose=Whose.OURS))
    assert every_one.figure.endswith("rule: all (our bound, missed by 2 of 5); 5 programs")
    assert judge("c", count_of([], "programs", 1)).verdict is Verdict.UNTESTABLE


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("value", [79.999999, 80, 80.000001, 1e-30, 2.5e80])
def test_a_bound_is_shown_with_digits_enough(relation: Relation, value: float) -> None:
    condition = Condition("it is", value, Bound(relation, 80), " %")
    shown, bound = map(read, condition.texts)
    assert bound == 80
    assert relation.holds(shown, bound) == condition.holds
    assert ("exactly" in condition.reason) == (value == 80)


def test_groups_are_compared_by_two_programs_each_at_least() -> None:
    three = [3.0, 5.0, 4.0]
    assert higher("INT")(two_groups(three, [1.0])).verdict is Verdict.UNTESTABLE
    two = two_groups(three, [1.0, 2.0])
    claim = higher("INT", " %")(two)
    assert (claim.verdict, claim.figure) == (
        Verdict.HOLDS,
        "mean of X (INT) 4 %, mean of X (FP) 1.5 %; rule: mean of X (INT) above mean of X (FP) "
        "(the paper's bound, kept by 2.5 percentage points); 5 programs",
    )
    other = higher("FP", " %")(two)
    assert other.verdict is Verdict.FAILS
    assert other.why == (
        "mean of X (FP) misses mean of X (INT) by 2.5 percentage points; on the wrong side are "
        "5 of 5, furthest: i1 5 %; f0 1 %; i2 4 %"
    )


# --- groups that are equal or too small


def two_groups(integer: list[float], floating: list[float]) -> ReportTable:
    """A table of INT and FP programs with these numbers in column x."""
    rows = [program_row(f"i{k}", "INT", x) for k, x in enumerate(integer)]
    return small(*rows, *(program_row(f"f{k}", "FP", x) for k, x in enumerate(floating)))


@pytest.mark.parametrize("group", ["INT", "FP"])
def test_equal_means_are_not_higher(group: str) -> None:
    """4 % is not more than 4 %, whichever group the claim is about."""
    table = two_groups([3.0, 5.0, 4.0], [2.0, 6.0])
    assert higher(group, " %")(table).verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("integer", "floating", "group", "verdict"),
    [
        (4.5, 4.25, "INT", Verdict.HOLDS),
        (4.5, 4.25, "FP", Verdict.FAILS),
        (4.25, 4.5, "FP", Verdict.HOLDS),
        (4.25, 4.5, "INT", Verdict.FAILS),
    ],
)
def test_a_little_more_is_higher(
    integer: float, floating: float, group: str, verdict: Verdict
) -> None:
    table = two_groups([integer] * 3, [floating] * 2)
    assert higher(group)(table).verdict is verdict


@pytest.mark.parametrize(
    ("integer", "floating"), [([1.0], [2.0, 3.0]), ([1.0, 2.0], []), ([1.0], [2.0])]
)
def test_one_program_is_no_group(integer: list[float], floating: list[float]) -> None:
    claim = higher("INT")(two_groups(integer, floating))
    assert (claim.verdict, claim.figure) == (Verdict.UNTESTABLE, NO_GROUPS)


# --- expressions


FEW = {"a": (1.0, "INT"), "b": (2.0, "INT"), "c": (6.0, "FP"), "d": (7.0, "FP"), "e": (9.0, "FP")}


@pytest.mark.parametrize(
    ("condition", "value", "holds", "programs"),
    [
        ("ours: mean(x) <= 5", 5, True, 5),
        ("ours: mean(x, FP) < 7", 22 / 3, False, 3),
        ("ours: median(x, x > 1) >= 6", 6.5, True, 4),
        ("paper: max(x) - min(x) <= 7", 8, False, 5),
        ("paper: min(x, INT) >= 1", 1, True, 2),
        ("ours: count(x > mean(x)) >= 3/4", 3, False, 5),
        ("ours: count(x > 1) >= all_but_one", 4, True, 5),
        ("ours: count(0 < x < 7) >= most", 3, True, 5),
        ("ours: part: mean(x, INT) / mean(x, FP) <= 1/4", 1.5 / (22 / 3), True, 2),
        ("paper: median(x, upper(x)) > median(x, lower(x))", 8, True, 4),
        ("ours: least(mean(x), max(x)) >= 6", 5, False, 5),
    ],
)
def test_what_conditions_say(condition: str, value: float, holds: bool, programs: int) -> None:
    table = small(*(program_row(name, group, x) for name, (x, group) in FEW.items()))
    found = requirement(condition)(table)
    assert found is not None
    assert found.value == pytest.approx(value)
    assert (found.holds, found.programs) == (holds, programs)


def test_a_condition_without_numbers_is_none() -> None:
    table = small(program_row("a", "INT", None))
    for condition in ("ours: mean(x) <= 5", "ours: count(x > 1) >= 1", "paper: INT(x) > FP(x)"):
        assert requirement(condition)(table) is None


@pytest.mark.parametrize("text", ["paper: mean(x)", "paper: mean(x) < x", "ours: [x] < 1"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"compares nothing|which row|no expression"):
        requirement(text)(small(program_row("a", "INT", 1.0)))


# --- numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (-0.0, "0"),
        (0.000123, "0.000123"),
        (0.0000123, "1.23e-5"),
        (1.53e-43, "1.53e-43"),
        (-0.25, "-0.25"),
        (2.5, "2.5"),
        (96.0, "96"),
        (99.96, "100"),
        (12345.6, "12,346"),
        (79540859444884, "7.95e13"),
        (float("inf"), "over 1e308"),
    ],
)
def test_numbers_in_sentences(value: float | None, text: str) -> None:
    assert number(value) == text
    if value is not None:
        assert read(text) == pytest.approx(value, rel=5e-3)


@pytest.mark.parametrize(
    ("one", "two", "texts"),
    [
        (80.02, 80, ("80.02", "80")),
        (79.96, 80, ("79.96", "80")),
        (80, 80, ("80", "80")),
        (3, 80, ("3", "80")),
        (0.1 + 0.2, 0.3, ("0.30000000000000004", "0.3")),
        (12345.6, 12345.7, ("12,345.6", "12,345.7")),
        (float("inf"), 2, ("over 1e308", "2")),
    ],
)
def test_two_numbers_are_told_apart(one: float, two: float, texts: tuple[str, str]) -> None:
    assert apart(one, two) == texts


def test_ranges() -> None:
    assert extremes([]) == "-"
    assert extremes([1, 3.42, 2], " %") == "1-3.42 %"
    assert extremes([2, 2], " %") == "2 %"
    assert extremes([-1, 2]) == "-1 to 2"
    assert extremes([1.5e-43, 2], " %") == "1.5e-43 to 2 %"
    assert extremes([41.79, 95.999], " %", 96) == "41.8-95.999 %"
