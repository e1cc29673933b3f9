"""Claims of papers, judged by a finished table.

A claim is its text and its conditions. A condition says whose bound it is (`paper`, `ours`), what
its number is called where it is put together of several, and what must hold of the table:

    paper: mean(pp_qpt2) < 3
    ours: median(pp_qpt2, hashed < 2) <= 1.5
    paper: 39 <= mean(profiled_share) <= 46 %
    paper: INT(pp) > FP(pp) %
    paper: count(optimal <= pixie) >= all
    ours: TPP(5,15)'s overhead by PP's: mean(t515) / mean(pp) <= 0.65

Names are keys of columns, and stand for a row's number in them (`expressions`). Statistics are
over the rows that have all numbers, and of these over those of a group (`INT`, `FP`) or as the
second argument says:

- `mean`, `median`: programs that stand in for one original count once; `min`, `max`: each row.
  `INT(x)`, `FP(x)`: the mean of a group of two programs or more
- `count`: rows for which a comparison holds; its bound is a number of rows, or a part of them, as
  `all`, `all_but_one`, `most`, 3/4 (one at least)
- `paper(x)`: x of the paper's own table; `upper(x)`, `lower(x)`: whether a row is in the half with
  more, with less; `least(x, y)`, `greatest(x, y)`; `positive(x)`: None
  for a row where it is not

A reason names the rows on the wrong side, and says nothing that the table does not.
"""

from __future__ import annotations

import ast
import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from statistics import fmean, median
from typing import Any

from msgspec import Struct

from simprof.profiler.experiments.tables.conditions import (
    Bound,
    Condition,
    Member,
    Relation,
    Whose,
    apart,
    count_of,
    deciding,
    extremes,
    member,
    number,
)
from simprof.profiler.experiments.tables.expressions import RELATIONS, evaluate, names, parsed
from simprof.profiler.experiments.tables.table import (
    FEWEST,
    GROUPS,
    ROUTINE,
    Claim,
    ReportTable,
    TableRow,
    Verdict,
    once,
    published,
    spelled,
)

NO_GROUPS = "the table has results of fewer than two programs in one of the groups INT and FP"
NO_PROGRAMS = "the table has no result of a program that this is about"

Requirement = Callable[[ReportTable], Condition | None]

# Percent of hashed increments: "little" holds for EPP's compress, li, ijpeg, swim and turb3d.
LITTLE = 2.0
HASHED = "hashed"  # Key of the column with PP's share of hashed increments, in percent


class Rule(Struct, frozen=True):
    """A claim that holds if all its conditions do."""

    text: str  # The claim, in our words, with the paper's figure
    conditions: tuple[str | Requirement, ...]  # (): it cannot be tested here
    reason: str = ""  # Why not
    # Whether it is about hash tables: programs that use hardly any test nothing.
    of_hashing: bool = False

    def __call__(self, table: ReportTable) -> Claim:
        """Return the claim with what a table says about it."""
        reason = self.reason or (_hardly_hashed(table) if self.of_hashing else "")
        if reason:
            return Claim(self.text, Verdict.UNTESTABLE, reason)
        made = (
            requirement(each)(table) if isinstance(each, str) else each(table)
            for each in self.conditions
        )
        by_group = any(re.search(r"\bFP\(", str(each)) for each in self.conditions)
        return judge(self.text, *made, absent=NO_GROUPS if by_group else NO_PROGRAMS)


def rule(text: str, *conditions: str | Requirement) -> Rule:
    """Return a rule (see `Rule`)."""
    return Rule(text, conditions)


def of_hashing(text: str, *conditions: str | Requirement) -> Rule:
    """Return the rule of a claim about hash tables."""
    return Rule(text, conditions, of_hashing=True)


def untestable(text: str, reason: str) -> Rule:
    """Return the rule of a claim that no table here can test."""
    return Rule(text, (), reason)


def _hardly_hashed(table: ReportTable) -> str:
    mean = statistic(table, f"mean({HASHED})")
    if mean is None or mean >= LITTLE:
        return ""
    return (
        f"it is about hash tables, and these programs hash {number(mean)} % of PP's increments "
        f"on average (under {number(LITTLE)} %)"
    )


def judge(text: str, *conditions: Condition | None, absent: str = NO_PROGRAMS) -> Claim:
    """Return a claim that holds if all conditions do; None: there were no numbers to judge by.

    Of fewer programs than `FEWEST` nothing is said, whatever they say.
    """
    found = tuple(each for each in conditions if each is not None)
    if not found or len(found) < len(conditions):
        return Claim(text, Verdict.UNTESTABLE, absent)
    figures = "; ".join(dict.fromkeys(each.figure for each in found))
    rules = " and ".join(
        f"{each.rule if len(found) == 1 else each.named_rule} ({each.sourced_rule})"
        for each in found
    )
    failing = [each for each in found if not each.holds]
    programs = min(each.programs for each in found)
    verdict = Verdict.FAILS if failing else Verdict.HOLDS
    if programs < FEWEST:
        verdict, failing = Verdict.TOO_FEW, []
    return Claim(
        text,
        verdict,
        f"{figures}; rule: {rules}; {programs} program{'' if programs == 1 else 's'}",
        ". ".join(each.reason for each in failing),
        found,
    )


# -- numbers of a table ---------------------------------------------------------------------------


def statistic(table: ReportTable, text: str) -> float | None:
    """Return a statistic, as `mean(pp, FP)`; None: the table has no number for it."""
    found: float | None = _read(parsed(text), table)
    return found


def _of_routines(table: ReportTable) -> bool:
    return any(column.key == ROUTINE for column in table.columns)


def rows(table: ReportTable) -> Sequence[TableRow]:
    """Return the rows that claims are about: a routine that several programs have is one."""
    if not _of_routines(table):
        return table.judged
    return list({row.values[1:]: row for row in reversed(table.judged)}.values())[::-1]


def _read(node: ast.expr, table: ReportTable, row: TableRow | None = None) -> Any:
    """Return what an expression is of a row, or of a table."""

    def name(word: str) -> Any:
        if row is None:
            raise ValueError(f"{word}: which row's?")
        return row.group == word if word in GROUPS else table.number(row, word)

    return evaluate(node, name, partial(_called, table, row))


def _called(table: ReportTable, row: TableRow | None, call: ast.Call) -> Any:
    function = _function(call)
    match function:
        case "paper":
            theirs = published(table.name)
            return None if theirs is None else _read(call.args[0], theirs)
        case "upper" | "lower":
            return _in_half(table, row, call.args[0], upper=function == "upper")
        case "least" | "greatest" | "positive":
            found = [_read(each, table, row) for each in call.args]
            if None in found or (row is not None and function == "positive" and found[0] <= 0):
                return None
            return max(found) if function == "greatest" else min(found)
    name = partial(_name, table) if _of_routines(table) else lambda row: row.program
    numbers = [(name(each), made) for each, made in _series(table, call)]
    if not numbers or (function in GROUPS and len(numbers) < 2):
        return None
    if function in ("min", "max"):
        return (min if function == "min" else max)(made for _, made in numbers)
    return (median if function == "median" else fmean)(once(numbers))


def _function(node: ast.expr) -> str:
    """Return what is called, "" where nothing is."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return node.func.id if is_call else ""  # type: ignore[attr-defined]


def _in_half(table: ReportTable, row: TableRow | None, of: ast.expr, *, upper: bool) -> bool:
    found = [(made, each) for each in rows(table) if (made := _read(of, table, each)) is not None]
    ordered = [each for _, each in sorted(found, key=lambda pair: pair[0])]
    size = len(ordered) // 2
    return row in (ordered[len(ordered) - size :] if upper else ordered[:size])


def _filter(call: ast.Call) -> ast.expr | None:
    if _function(call) in GROUPS:
        return call.func
    return call.args[1] if call.args[1:] else None


def _kept(table: ReportTable, where: ast.expr | None) -> list[TableRow]:
    return [each for each in rows(table) if where is None or _read(where, table, each)]


def _series(table: ReportTable, call: ast.Call) -> list[tuple[TableRow, float]]:
    """Return the rows that a statistic is over, each with its number."""
    found = ((each, _read(call.args[0], table, each)) for each in _kept(table, _filter(call)))
    return [(row, made) for row, made in found if made is not None]


# -- conditions -----------------------------------------------------------------------------------

_REVERSED = {
    Relation.ABOVE: Relation.BELOW,
    Relation.AT_LEAST: Relation.AT_MOST,
    Relation.BELOW: Relation.ABOVE,
    Relation.AT_MOST: Relation.AT_LEAST,
}
_WHOSE = {"paper": Whose.PAPER, "ours": Whose.OURS}
_UNIT = re.compile(r"(.*[\w)])( %.*| bytes| instructions)")
_MEANS = ("mean", *GROUPS)  # Statistics that have a counterpart in each row: its number
_STATISTICS = (*_MEANS, "median", "min", "max", "count")
# How many of so many rows, by the names that bounds have
_LEAST: Mapping[str, Callable[[int], int]] = {
    "all": lambda count: count,
    "all_but_one": lambda count: max(1, count - 1),
    "most": lambda count: count // 2 + 1,
}


class _Said(Struct, frozen=True):
    """What a condition says besides its comparison."""

    what: str  # "" where its expression says it
    unit: str
    whose: Whose


@cache
def requirement(text: str) -> Requirement:
    """Return what makes a condition (as above) of a table, None where it has no numbers for it."""
    whose, _, rest = text.partition(": ")
    what, _, expression = rest.rpartition(": ")
    found = _UNIT.fullmatch(expression)
    expression, unit = found.groups() if found else (expression, "")
    node, said = parsed(expression), _Said(what, unit, _WHOSE[whose])
    if not isinstance(node, ast.Compare):
        raise ValueError(f"{text!r} compares nothing")
    second = node.comparators[0]
    if isinstance(node.left, ast.Call) and _function(node.left) == "count":
        return partial(_counted, node.left, second, said)
    if len(node.ops) > 1:
        return partial(_measured, second, None, (node.left, node.comparators[1]), said)
    relation = RELATIONS[type(node.ops[0])]
    if any(_statistics(second)):
        return partial(_ordered, node.left, relation, second, said)
    return partial(_measured, node.left, relation, (second,), said)


def _statistics(node: ast.expr) -> Iterator[ast.Call]:
    """Yield the statistics of our table in an expression."""
    if isinstance(node, ast.Call) and _function(node) in _STATISTICS:
        yield node
    elif _function(node) != "paper":
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                yield from _statistics(each)


def _words(table: ReportTable, node: ast.expr) -> str:
    """Return an expression with titles in place of keys."""
    titles = {column.key: column.title.removesuffix(" %") for column in table.columns}
    if isinstance(node, ast.Call) and (function := _function(node)) in _STATISTICS:
        where = _filter(node)
        of = "" if where is None else f" ({_words(table, where)})"
        return f"{'mean' if function in GROUPS else function} of {_words(table, node.args[0])}{of}"
    return re.sub(
        r"\b[a-zA-Z]\w*",
        lambda word: titles.get(spelled(word[0], titles), word[0]),
        ast.unparse(node),
    )


def _measured(
    node: ast.expr,
    relation: Relation | None,  # None: a range
    ends: Sequence[ast.expr],  # The bound, or the ends of the range
    said: _Said,
    table: ReportTable,
) -> Condition | None:
    """Require a bound or a range of a number."""
    measured, numbers = _read(node, table), [_read(each, table) for each in ends]
    if measured is None or None in numbers:
        return None
    function, alone, parts = _function(node), _function(node) in _STATISTICS, _by_row(table, node)
    limit = of_row = partial(deciding, relation, numbers)
    if relation is None and function == "max":
        of_row = partial(deciding, Relation.AT_MOST, numbers[1:])
    bound = limit(measured)
    # a bound of the least or of the greatest is one of each row
    is_each = relation is not None and function == ("min" if relation.wants_more else "max")
    if alone:
        remark = extremes((x for _, x in parts), said.unit, bound.value if is_each else None)
    else:
        made = {_words(table, each): _read(each, table) for each in _statistics(node)}
        remark = ", ".join(f"{words} {number(found)}" for words, found in made.items())
    return Condition(
        said.what or _words(table, node),
        measured,
        bound,
        said.unit,
        said.whose,
        remark=remark,
        scope="in each" if is_each else "",
        members=_members(table, node, parts, of_row, said.unit),
        behind=None if alone else len(_complete(table, node)),
        between=None if relation is not None else (numbers[0], numbers[1]),
    )


def _complete(table: ReportTable, node: ast.expr) -> list[TableRow]:
    """Return the rows that have all the numbers of an expression."""
    kept, keys = _kept(table, _filter(next(_statistics(node)))), _keys(node)
    return [row for row in kept if all(table.number(row, key) is not None for key in keys)]


def _keys(node: ast.expr) -> list[str]:
    return [word for word in names(node) if word not in GROUPS]


class _OfRow(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        return node.args[0] if _function(node) in _MEANS else self.generic_visit(node)


def _by_row(table: ReportTable, node: ast.expr) -> list[tuple[TableRow, float]]:
    """Return each row's number that corresponds to a table's; [] where none does."""
    if isinstance(node, ast.Call) and _function(node) in _STATISTICS:
        return _series(table, node)
    if any(_function(each) not in _MEANS for each in _statistics(node)):
        return []
    own = _OfRow().visit(copy.deepcopy(node))
    found = ((row, _read(own, table, row)) for row in _complete(table, node))
    return [(row, made) for row, made in found if made is not None]


def _members(
    table: ReportTable,
    node: ast.expr,
    numbers: Sequence[tuple[TableRow, float]],
    limit: Callable[[float], Bound],
    unit: str,
) -> tuple[Member, ...]:
    """Return the rows behind a number; where it is made of several columns, with these."""
    keys = _keys(node) if len(_keys(node)) > 1 else []
    made = []
    for row, found in numbers:
        parts = (f"{_words(table, ast.Name(k))} {number(table.number(row, k))}" for k in keys)
        named = _name(table, row), found, limit(found), unit, ", ".join(parts)
        made.append(member(*named, str(row.values[0])))
    return tuple(made)


def _name(table: ReportTable, row: TableRow) -> str:
    return f"{row.values[0]}, {row.values[1]}:" if _of_routines(table) else str(row.values[0])


def _ordered(
    first: ast.expr, relation: Relation, second: ast.expr, said: _Said, table: ReportTable
) -> Condition | None:
    """Require an order of two measured numbers."""
    one, two = _read(first, table), _read(second, table)
    if one is None or two is None:
        return None
    left, right = (_by_row(table, each) for each in (first, second))
    filters = (_filter(next(_statistics(each))) for each in (first, second))
    if len({None if each is None else ast.unparse(each) for each in filters}) == 1:
        others = {id(row): made for row, made in right}
        parts = [
            _compared(table, row, (x, others[id(row)]), (relation,), ("", "against"), said.unit)
            for row, x in left
            if id(row) in others
        ]
    else:
        sides = [(first, left, relation, two)]
        if isinstance(first, ast.Call):  # of a mean alone rows on both sides decide
            sides.append((second, right, _REVERSED[relation], one))
        parts = [
            each
            for node, numbers, kept, end in sides
            for each in _members(table, node, numbers, partial(deciding, kept, [end]), said.unit)
        ]
    what, against = said.what or _words(table, first), _words(table, second)
    bound, members = Bound(relation, two), tuple(parts)
    return Condition(what, one, bound, said.unit, said.whose, against, members=members)


def _compared(
    table: ReportTable,
    row: TableRow,
    numbers: Sequence[float],
    relations: Sequence[Relation],
    heads: Sequence[str],  # What is said before each number; one: of the first alone
    unit: str,
) -> Member:
    """Return a row whose numbers are to be in an order."""
    bounds = map(Bound, relations, numbers[1:])
    pairs = list(zip(bounds, numbers, strict=False))
    shown = apart(*numbers) if len(numbers) == 2 else map(number, numbers)
    text = ", ".join(f"{head} {x}{unit}".strip() for head, x in zip(heads, shown, strict=False))
    keeps = all(bound.holds(x) for bound, x in pairs)
    miss = max(bound.miss(x) for bound, x in pairs)
    return Member(_name(table, row), text, keeps, miss, str(row.values[0]))


def _counted(call: ast.Call, least: ast.expr, said: _Said, table: ReportTable) -> Condition | None:
    """Require that so many rows are as a comparison says."""
    compared = call.args[0]
    assert isinstance(compared, ast.Compare)
    sides = [compared.left, *compared.comparators]
    relations = [RELATIONS[type(op)] for op in compared.ops]
    fixed = len(sides) == 2 and isinstance(sides[1], ast.Constant)
    heads = [""] if fixed else [_words(table, each) for each in sides]
    found = [
        _compared(table, row, numbers, relations, heads, said.unit)
        for row in _kept(table, _filter(call))
        if None not in (numbers := [_read(each, table, row) for each in sides])
    ]
    what = said.what or f"programs with {_words(table, compared)}{said.unit}"
    return count_of(found, what, _at_least(least, len(found)), said.whose)


def _at_least(bound: ast.expr, count: int) -> int:
    """Return how many of so many rows a bound asks for."""
    if isinstance(bound, ast.Name):
        return _LEAST[bound.id](count)
    part = Fraction(ast.unparse(bound).replace(" ", ""))
    return max(1, math.ceil(part if part >= 1 else part * count))
