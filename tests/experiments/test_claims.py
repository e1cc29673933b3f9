"""Verdicts on claims: at their boundaries, and that nothing printed contradicts them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from simprof.profiler.experiments.tables.catalogue import TABLES as OF_PAPERS
from simprof.profiler.experiments.tables.claims import (
    NO_GROUPS,
    compare_groups,
    group_means,
    judge,
)
from simprof.profiler.experiments.tables.conditions import (
    Bound,
    Condition,
    CountCondition,
    Relation,
    apart,
    at_least,
    below,
    count_of,
    extremes,
    member,
    number,
    read,
    value_is,
)
from simprof.profiler.experiments.tables.others import GCOV_ARCS
from simprof.profiler.experiments.tables.spec import TableSpec
from simprof.profiler.experiments.tables.table import Claim, Form, ReportTable, TableRow, Verdict
from tests.support.report_tables import program_row, small

Numbers = Mapping[str, float]

TABLES = {**OF_PAPERS, GCOV_ARCS.name: GCOV_ARCS}
"""All that draw conclusions."""

NAMES = ("a", "b", "c", "d")
GROUPS = ("INT", "INT", "FP", "FP")
PLAIN = 10.0


def table_of(spec: TableSpec[Any], rows: Iterable[tuple[str, str, Numbers]]) -> ReportTable:
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


def claims_of(spec: TableSpec[Any], rows: Iterable[tuple[str, str, Numbers]]) -> list[Claim]:
    return list(spec.judge(table_of(spec, rows)))


def check(claim: Claim) -> None:
    """Nothing that is printed with a verdict contradicts it."""
    if claim.verdict is Verdict.UNTESTABLE:
        assert claim.figure and not claim.why and not claim.conditions
        return
    assert claim.conditions
    assert (claim.verdict is Verdict.HOLDS) == all(each.holds for each in claim.conditions)
    assert bool(claim.why) == (claim.verdict is Verdict.FAILS)
    for condition in claim.conditions:
        value, bound = map(read, condition.texts)
        assert condition.bound.relation.holds(value, bound) == condition.holds, claim.figure
        assert condition.figure in claim.figure and condition.rule in claim.figure
        assert (condition.reason in claim.why) == (not condition.holds)
        if isinstance(condition, CountCondition):
            assert condition.value == sum(each.keeps for each in condition.members)
        for each in condition.members:
            assert (str(each) in condition.reason) <= (not each.keeps)


# --- the boundary of every claim


@dataclass(frozen=True)
class Boundary:
    """A claim at its boundary.

    `rows` makes the programs' numbers of x; `verdicts` says for x just below `at`, at it, and
    just above: h holds, f fails.
    """

    table: str
    claim: str
    rows: Callable[[float], list[Numbers]]
    at: float
    verdicts: str
    step: float = 1e-7


def every(key: str, **others: float) -> Callable[[float], list[Numbers]]:
    """All programs have x in a column."""
    return lambda x: [{**others, key: x}] * 4


def group(name: str, key: str) -> Callable[[float], list[Numbers]]:
    """The programs of one group have x in a column; those of the other 10."""
    return lambda x: [{key: x} if each == name else {} for each in GROUPS]


def first(key: str, rest: float, **others: float) -> Callable[[float], list[Numbers]]:
    """One program has x in a column, the others have `rest`."""
    return lambda x: [{**others, key: x if each == 0 else rest} for each in range(4)]


def counted(good: Numbers, bad: Numbers) -> Callable[[float], list[Numbers]]:
    """So many of four programs are as a claim says."""
    return lambda x: [good if each < x else bad for each in range(4)]


def growing(x: float) -> list[Numbers]:
    """So many of four routines, which all differ, have more paths with every k."""
    return [
        {**{f"k{k}": k if each < x else 9 for k in range(1, 5)}, "k5": 9 + each}
        for each in range(4)
    ]


def targeted(name: str, part: float, told: str) -> list[Boundary]:
    """The claims of TPP's tables 2 and 3, which are the same but for one number."""
    flat = {"pp": 100.0, "t1": 50.0, "t5": 50.0, "t10": 50.0, "t515": 50.0, "t0": 100.0}
    return [
        Boundary(name, told, every("t515", pp=100), 100 * part, "hhf"),
        Boundary(name, "... at an attribution", every("a515"), 98, "ffh"),
        Boundary(name, "Most of the reduction", every("t1", **(flat | {"t10": 20})), 60, "hhf"),
        Boundary(name, "The results are rather", every("t1", **flat), 75, "hhf"),
        Boundary(
            name,
            "FP programs benefit",
            lambda x: [{"pp": 100, "t515": x if each == "FP" else 50} for each in GROUPS],
            50,
            "hff",
        ),
        Boundary(name, "Without the removal", every("t0", **flat), 90, "fhh"),
    ]


DISCONNECTING = "What is lost by disconnecting loops of"
BOUNDARIES = [
    Boundary("epp1", "PP's overhead averages", every("pp_qpt2"), 3, "hff"),
    Boundary("epp1", "PP's overhead is higher", group("INT", "pp"), 10, "ffh"),
    Boundary("epp1", "Programs with little", every("pp_qpt2", hashed=1), 1.5, "hhf"),
    Boundary("epp1", "Programs with little", first("hashed", 30, pp_qpt2=2), 2, "fuu"),
    Boundary("epp1", "Programs with considerable", first("pp", 10, hashed=20), 10, "hfh"),
    Boundary("epp1", "Programs with considerable", every("hashed"), 20, "uff"),
    Boundary("epp1", "Path profiling executes", every("edge_ratio"), 1, "ffh"),
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
    Boundary("epp3", "The common paths", first("dynamic", 90), 70, "fhh"),
    Boundary(
        "epp3",
        "For FP programs",
        lambda x: [{}, {}, {"static": 99}, {"static": x}],
        87.5,
        "fhh",
    ),
    Boundary(
        "epp3",
        "In FP programs",
        lambda x: [{}, {}, {"instructions_share": 5}, {"instructions_share": x}],
        95,
        "fhh",
    ),
    Boundary("bittrace", "Bit tracing uses", first("same_bits", 100), 99, "fhh"),
    Boundary("bittrace", "In the worst case", first("most_counters", 1), 2, "hhf"),
    Boundary(
        "bittrace", "Bit tracing is likely",
        counted({"bittrace": 11}, {"bittrace": 9}), 3, "fhh", 1,
    ),
    Boundary("bittrace", "Bit tracing is likely", every("bittrace"), 10, "ffh"),
    Boundary("definite", "An edge profile", every("blocks"), 70, "fhh"),
    Boundary("definite", "An edge profile", every("blocks"), 90, "hhf"),
    Boundary("definite", "It attributes more", group("FP", "blocks"), 10, "ffh"),
    Boundary(
        "tpp1",
        "Many of the programs",
        lambda x: [{"pp": 90, "hashed": x}, {"pp": 90, "hashed": 3}, {}, {}],
        20,
        "fhh",
    ),
    Boundary("tpp1", "Counting a path", every("hash_cost"), 2, "fhh"),
    Boundary("tpp1", "Hash tables cause", every("hash"), 10, "ffh"),
    *targeted("tpp2", 0.65, "TPP(5,15) reduces"),
    *targeted("tpp3", 0.5, "TPP(5,15) reduces"),
    Boundary("tpp4", "More than 99 %", counted({"s515": 0.5}, {"s515": 5}), 3, "fhh", 1),
    Boundary("tpp4", "More than 99 %", every("s515"), 1, "hff"),
    Boundary("tpp4", "In eight of fifteen", counted({"s515": 0.001}, {"s515": 5}), 3, "fhh", 1),
    Boundary("tpp4", "In eight of fifteen", every("s515"), 0.01, "hff"),
    Boundary("tpp4-whole", "In some routines", first("most", 1), 2**64, "ffh", 1 << 12),
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
    Boundary("tpp-fig9", "Most routines", first("pp", 10), 50, "hff"),
    Boundary("tpp-fig9", "Hashed routines", every("t5", pp=100), 40, "hhf"),
    Boundary("tpp-fig9", "For integer programs", every("t5", pp=100), 20, "hff"),
    Boundary("tpp-fig9", "Most of the benefit", every("t1", pp=100, t10=20), 60, "hhf"),
    Boundary("bl94-table2", "The share of edges", every("profiled_share"), 35, "fhh"),
    Boundary("bl94-table2", "The share of edges", every("profiled_share"), 50, "hhf"),
    Boundary("bl94-table2", "The share of edges", first("profiled_share", 36), 51, "hhf"),
    Boundary("bl94-table2", "Less than half", first("no_jump_share", 60), 50, "ffh"),
    Boundary("bl94-table3", "Witness placement", every("old_new"), 1.2, "fhh"),
    Boundary("bl94-table3", "Witness placement", first("old_new", 2), 1, "fhh"),
    Boundary("bl94-table3", "Bit tracing", every("new_bit"), 3, "fhh"),
    Boundary("bl94-table3", "Bit tracing", every("new_bit"), 8, "hhf"),
    Boundary("bl94-graph1", "Optimal profiling", every("optimal", redundant=3), 2.5, "hhf"),
    Boundary("bl94-graph1", "Optimal profiling", first("optimal", 2, redundant=3), 3, "hhf"),
    Boundary(
        "bl94-graph2", "The reduction in",
        counted({"instructions": 9}, {"instructions": 11}), 3, "fhh", 1,
    ),
    Boundary("bl94-graph2", "The reduction in", every("instructions"), 10, "hhf"),
    Boundary("bl94-graph2", "For the four C", every("increments"), 2, "fhh"),
    Boundary("bl94-graph2", "For the four C", every("instructions"), 1.5, "fhh"),
    Boundary(
        "bl94-graph2",
        "The greatest",
        lambda x: [{"redundant": 1}] * 2 + [{"redundant": 2, "increments": x}] * 2,
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
    Boundary(
        "bl94-graph4", "The reduction varies",
        first("heuristic-min", 12, **{"exact-max": 20}), 20, "hhf",
    ),
    Boundary(
        "bl94-graph4", "The reduction varies",
        first("heuristic-min", 12, **{"exact-max": 20}), 10, "fhh",
    ),
    Boundary("bl94-graph4", "Goldberg's post-order", first("heuristic-max", 9), 10, "ffh"),
    Boundary(
        "bl94-graph5", "With exact weights",
        counted({"exact": 9}, {"exact": 11}), 3, "fhh", 1,
    ),
    Boundary("bl94-graph5", "With exact weights", every("exact"), 10, "hhf"),
    Boundary("bl94-registers", "Register scavenging", every("less"), 21, "hhf"),
    Boundary("bl94-registers", "Register scavenging", every("less"), 0, "fhh"),
    Boundary("kiter3", "For most programs 2", counted({"k2": 2}, {"k2": 3}), 3, "fhh", 1),
    Boundary("kiter3", "For most programs 2", every("k2"), 2, "hhf"),
    Boundary("kiter3", "For most programs 3", counted({"k3": 2}, {"k3": 3}), 3, "fhh", 1),
    Boundary("kiter3", "For most programs 3", every("k3"), 2, "hhf"),
    Boundary("kiter3", "Large slowdowns", every("k3", hash3=50), 10, "ffh"),
    Boundary("kiter3", "Large slowdowns", every("hash3", k3=12), 11, "uuh"),
    Boundary("kiter4", "Static paths grow", growing, 3, "fhh", 1),
    Boundary("kiter4", "Static paths grow", every("k5", k1=1, k2=2, k3=3, k4=4), 4, "ffh"),
    *(
        Boundary("kiter4", f"From k = {k - 1} to {k}", every(f"g{k}"), 1, "fhh")
        for k in range(2, 6)
    ),
    Boundary("cs6120", "Logging every edge", every("calls"), 2, "fhh"),
    Boundary("cs6120", "Optimal placement", every("calls_optimal"), 10, "hff"),
    Boundary("cs6120", "... but only", every("calls_optimal"), 9, "fhh"),
    Boundary("cs6120", "... but only", every("calls_optimal"), 10, "hhf"),
    Boundary("cs6120", "A maximum spanning", every("calls_maximum"), 10, "hff"),
    Boundary("gcov-arcs", "Only arcs that", first("gcc_naive", 0.5), 1, "hff"),
    Boundary("gcov-arcs", "gcc's tree, too,", every("increments"), 1, "fhh"),
    Boundary("gcov-arcs", "gcc's tree, too,", every("increments"), 2, "hhf"),
    Boundary("gcov-arcs", "What QPT2 is", every("gcc_qpt2"), 0.5, "fhh"),
    Boundary("gcov-arcs", "What QPT2 is", every("gcc_qpt2"), 2, "hhf"),
]  # fmt: skip
LETTERS = {"h": Verdict.HOLDS, "f": Verdict.FAILS, "u": Verdict.UNTESTABLE}


@pytest.mark.parametrize(
    "boundary", BOUNDARIES, ids=lambda each: f"{each.table}-{each.claim}-{each.at}"
)
def test_at_its_boundary(boundary: Boundary) -> None:
    for move, letter in zip((-1, 0, 1), boundary.verdicts, strict=True):
        numbers = boundary.rows(boundary.at + move * boundary.step)
        made = claims_of(TABLES[boundary.table], zip(NAMES, GROUPS, numbers, strict=True))
        (claim,) = (each for each in made if each.text.startswith(boundary.claim))
        assert claim.verdict is LETTERS[letter], (move, claim)
        check(claim)


def test_every_claim_has_a_boundary_here() -> None:
    covered = {(each.table, each.claim) for each in BOUNDARIES}
    lacking = []
    for name, spec in TABLES.items():
        told = spec.judge(table_of(spec, [(each, "INT", {}) for each in NAMES]))
        fit = spec.judge(table_of(spec, zip(NAMES, GROUPS, [{}] * 4, strict=True)))
        for claim in {each.text: each for each in (*told, *fit)}.values():
            starts = [start for table, start in covered if table == name]
            if claim.conditions and not any(claim.text.startswith(start) for start in starts):
                lacking.append((name, claim.text))
    assert lacking == []


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
        ("tpp-parts", "About 60 %", {"pp": 100, "t515": 50, "cold": 90}, "a 20 % (100 % to 90 %)"),
        (
            "tpp2", "Most of the reduction",
            {"pp": 100, "t1": 90, "t5": 60, "t10": 60, "t515": 50}, "a 20 % (100 % to 90 %)",
        ),
        ("bl94-graph2", "The greatest", {"redundant": 9, "increments": 1},
         "a 1 (in the half with more)"),
    ],
)  # fmt: skip
def test_failing_parts_name_the_program(
    table: str, start: str, numbers: dict[str, float], named: str
) -> None:
    rows = [("a", "INT", numbers), ("b", "INT", numbers | {"redundant": 8} | {"increments": 2})]
    wanted = {column.key for column in TABLES[table].columns}
    rows = [(name, each, {k: v for k, v in x.items() if k in wanted}) for name, each, x in rows]
    (claim,) = (each for each in claims_of(TABLES[table], rows) if each.text.startswith(start))
    assert claim.verdict is Verdict.FAILS
    assert named in claim.why


def test_a_reason_names_only_rows_that_the_claim_is_about() -> None:
    rows = [
        (name, each, {"instructions_share": 5.0}) for name, each in zip("ijkl", GROUPS, strict=True)
    ]
    claim = claims_of(TABLES["epp3"], rows)[3]
    assert claim.verdict is Verdict.FAILS
    assert re.search(r"\bk\b", claim.why) and not re.search(r"\bi\b", claim.why)


def test_without_numbers_nothing_is_judged() -> None:
    for spec in TABLES.values():
        verdicts = {claim.verdict for claim in claims_of(spec, [])}
        assert verdicts == {Verdict.UNTESTABLE}, spec.name


def test_elapsed_time_is_not_testable() -> None:
    (claim,) = claims_of(TABLES["bl94-table1"], [("a", "INT", {"increase": 1.3})])
    assert claim.verdict is Verdict.UNTESTABLE
    assert "elapsed time" in claim.figure and "1.3" in claim.figure


# --- conditions


def test_judging() -> None:
    parts = [member(name, x, below(3, " %"), "of 9") for name, x in (("a", 2), ("b", 5))]
    low, high = (
        value_is("mean", x, below(3, " %"), remark="2-5 %", parts=parts) for x in (2.9, 3.4)
    )
    holds = judge("c", low)
    assert (holds.verdict, holds.why) == (Verdict.HOLDS, "")
    assert holds.figure == "mean 2.9 % (2-5 %); rule: below 3 %"
    fails = judge("c", high)
    assert fails.verdict is Verdict.FAILS
    assert fails.why == (
        "mean misses the bound by 0.4 percentage points; on the wrong side are 1 of 2: b 5 % (of 9)"
    )
    both = judge("c", low, high)
    assert both.figure.endswith("rule: mean below 3 % and mean below 3 %")
    assert both.why == fails.why
    for nothing in (judge("c"), judge("c", low, None, absent="none")):
        assert (nothing.verdict, nothing.why) == (Verdict.UNTESTABLE, "")
    assert nothing.figure == "none"


def test_counting_rows() -> None:
    parts = [
        member(name, x, at_least(20)) for name, x in zip(NAMES, (19.996, 1, 20, 30), strict=True)
    ]
    three = judge("c", count_of(parts, "programs", 3))
    assert three.figure == "2 of 4 programs; rule: at least 3"
    assert three.why == "1 too few; on the wrong side are 2 of 4: b 1; a 19.996"
    assert judge("c", count_of(parts, "programs", 4)).figure.endswith("rule: all")
    assert judge("c", count_of([], "programs", 1)).verdict is Verdict.UNTESTABLE


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("value", [79.999999, 80, 80.000001, 1e-30, 2.5e80])
def test_a_bound_is_shown_with_digits_enough(relation: Relation, value: float) -> None:
    condition = Condition("it is", value, Bound(relation, 80, " %"))
    shown, bound = map(read, condition.texts)
    assert bound == 80
    assert relation.holds(shown, bound) == condition.holds
    assert ("exactly" in condition.reason) == (value == 80)


def test_groups_are_compared_by_two_programs_each_at_least() -> None:
    spec = TABLES["epp1"]
    rows = [("a", "INT", {"pp": 3.0}), ("b", "INT", {"pp": 5.0}), ("c", "FP", {"pp": 1.0})]
    assert compare_groups("c", "pp")(table_of(spec, rows)).verdict is Verdict.UNTESTABLE
    two = table_of(spec, [*rows, ("d", "FP", {"pp": 2.0})])
    claim = compare_groups("c", "pp", " %")(two)
    assert (claim.verdict, claim.figure) == (
        Verdict.HOLDS,
        "mean of INT 4 %, mean of FP 1.5 %; rule: mean of INT above mean of FP",
    )
    other = compare_groups("c", "pp", " %", higher="FP")(two)
    assert other.verdict is Verdict.FAILS
    assert other.why == (
        "mean of FP misses mean of INT by 2.5 percentage points; on the wrong side are 4 of 4, "
        "furthest: b 5 %".replace("furthest: b 5 %", "furthest: b 5 %; c 1 %; d 2 %")
    )


# --- groups that are equal or too small


def two_groups(integer: list[float], floating: list[float]) -> ReportTable:
    """A table of INT and FP programs with these numbers in column x."""
    rows = [program_row(f"i{k}", "INT", x) for k, x in enumerate(integer)]
    return small(*rows, *(program_row(f"f{k}", "FP", x) for k, x in enumerate(floating)))


@pytest.mark.parametrize("higher", ["INT", "FP"])
def test_equal_means_are_not_higher(higher: str) -> None:
    """4 % is not more than 4 %, whichever group the claim is about."""
    table = two_groups([3.0, 5.0], [2.0, 6.0])
    assert compare_groups("c", "x", " %", higher=higher)(table).verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("integer", "floating", "higher", "verdict"),
    [
        (4.5, 4.25, "INT", Verdict.HOLDS),
        (4.5, 4.25, "FP", Verdict.FAILS),
        (4.25, 4.5, "FP", Verdict.HOLDS),
        (4.25, 4.5, "INT", Verdict.FAILS),
    ],
)
def test_a_little_more_is_higher(
    integer: float, floating: float, higher: str, verdict: Verdict
) -> None:
    table = two_groups([integer, integer], [floating, floating])
    assert compare_groups("c", "x", higher=higher)(table).verdict is verdict


@pytest.mark.parametrize(
    ("integer", "floating", "means"),
    [([1.0], [2.0, 3.0], (None, 2.5)), ([1.0, 2.0], [], (1.5, None)), ([1.0], [2.0], (None, None))],
)
def test_one_program_is_no_group(
    integer: list[float], floating: list[float], means: tuple[float | None, float | None]
) -> None:
    table = two_groups(integer, floating)
    assert group_means(table, "x") == means
    claim = compare_groups("c", "x")(table)
    assert (claim.verdict, claim.figure) == (Verdict.UNTESTABLE, NO_GROUPS)


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
