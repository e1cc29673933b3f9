"""Expressions of tables: what a column shows of results, and what a claim says of columns.

They are written as Python's: arithmetic, comparisons, `or`, attributes, calls. A part without a
number makes the whole None, as a division by nothing does.

Names in a column's expression are the table's needs, each a result with all its numbers:

====================================  ==========================================================
`pp.added`, `pp.facts.paths`          keys of its document, of parts of it
`pp.blocks`, `pp.code_bytes`          its counts, sizes and times
`pp.instructions`, `pp.overhead`      base and added; added in percent of base
`pp.increments`, `pp.hashed`          of path counters; those in hash tables, in percent
`pp.all.added`, `pp.own.count`        sums over its routines, the program's own, those with an
`pp.array.jumps`, `pp.all_hash.added`     array or a hash table of counters; how many they are
====================================  ==========================================================

Where a table's rows are about something else, names are fields of that. A hyphen is written as an
underscore.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from msgspec import Struct

from simprof.profiler.experiments.cells.cells import CellDocument, RoutineFigures
from simprof.profiler.experiments.tables.conditions import Relation
from simprof.profiler.experiments.tables.table import (
    Form,
    TableColumn,
    Value,
    ratio,
    spelled,
)
from simprof.profiler.plan.plan import CounterTable

Found = Mapping[str, CellDocument]  # Results of one program by the table's own name of each need

_ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: ratio,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
RELATIONS: Mapping[type[ast.AST], Relation] = {
    ast.Gt: Relation.ABOVE,
    ast.GtE: Relation.AT_LEAST,
    ast.Lt: Relation.BELOW,
    ast.LtE: Relation.AT_MOST,
}


@cache
def parsed(text: str) -> ast.expr:
    """Return the tree of an expression."""
    return ast.parse(text, mode="eval").body


def evaluate(
    node: ast.expr, name: Callable[[str], Any], call: Callable[[ast.Call], Any] | None = None
) -> Any:
    """Return what an expression is, None where a part of it is; `name`, `call`: what these are.

    Raises ValueError if it has what no expression has.
    """

    def at(part: ast.expr) -> Any:
        match part:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=word):
                return name(word)
            case ast.Attribute(value=of, attr=word):
                return _part(at(of), word)
            case ast.BinOp(left=left, op=op, right=right):
                one, two = at(left), at(right)
                return None if one is None or two is None else _ARITHMETIC[type(op)](one, two)
            case ast.BoolOp(op=ast.Or(), values=values):
                return next((found for each in values if (found := at(each))), 0)
            case ast.Compare(left=left, ops=ops, comparators=others):
                found = [at(each) for each in (left, *others)]
                if None in found:
                    return None
                pairs = zip(ops, pairwise(found), strict=True)
                return all(RELATIONS[type(op)].holds(*pair) for op, pair in pairs)
            case ast.Call() if call is not None:
                return call(part)
        raise ValueError(f"{ast.unparse(part)!r} is part of no expression")

    return at(node)


def _part(whole: Any, word: str) -> Any:
    if whole is None:
        return None
    return whole.get(word) if isinstance(whole, Mapping) else getattr(whole, word)


def names(node: ast.expr) -> Iterator[str]:
    """Yield the names in an expression that are not called, each once, in order."""
    called = {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    found = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    at = sorted((each.col_offset, each.id) for each in found if id(each) not in called)
    yield from dict.fromkeys(word for _, word in at)


# -- results --------------------------------------------------------------------------------------


def increments(result: CellDocument) -> int:
    """Return increments of path counters, those of self-loops (EPP 4.1) among them."""
    # The papers do not say whether they count the latter. That EPP's instructions by increment
    # (table 1) agree with the length of an average path (table 2), and that even programs of
    # one-block loops execute hardly more edge than path increments, says that it does.
    return result.counts["path_increments"] + result.counts["edge_increments"]


def own_routines(result: CellDocument) -> Sequence[RoutineFigures]:
    """Return the program's own routines, not those of its libraries.

    A program in which none can be told (without -g) is its own in whole.
    """
    return [row for row in result.routines if row.own] or result.routines


def kept(table: CounterTable) -> Callable[[CellDocument], Sequence[RoutineFigures]]:
    """Return what selects the routines with this kind of table."""
    return lambda result: [row for row in result.routines if row.table == table]


class _Routines:
    """Sums over routines, by their fields, and how many there are."""

    def __init__(self, rows: Sequence[RoutineFigures]) -> None:
        self._rows = rows

    def __getattr__(self, name: str) -> int:
        if name == "count":
            return len(self._rows)
        return sum(getattr(row, name) or 0 for row in self._rows)


_ROUTINES: Mapping[str, Callable[[CellDocument], Sequence[RoutineFigures]]] = {
    "all": lambda result: result.routines,
    "own": own_routines,
    "array": kept(CounterTable.ARRAY),
    "all_hash": kept(CounterTable.HASH),
    "own_hash": lambda result: [
        row for row in own_routines(result) if row.table == CounterTable.HASH
    ],
}
_DERIVED: Mapping[str, Callable[[CellDocument], Any]] = {
    "instructions": lambda result: result.base + result.added,
    "overhead": lambda result: ratio(100 * result.added, result.base),
    "increments": increments,
    "hashed": lambda result: ratio(100 * result.counts["hashed_increments"], increments(result)),
}


class _Result:
    """A result as expressions read it."""

    def __init__(self, result: CellDocument) -> None:
        self._result = result

    def __getattr__(self, name: str) -> Any:
        result = self._result
        if name in _ROUTINES:
            return _Routines(_ROUTINES[name](result))
        if name in _DERIVED:
            return _DERIVED[name](result)
        for numbers in (result.counts, result.sizes):
            if name in numbers:
                return numbers[name]
        if name in ("base", "added", "attributed"):
            return getattr(result, name)
        return result.document.get(name, result.timing.get(name))


def _value_of(subject: Any, word: str) -> Any:
    if isinstance(subject, CellDocument):
        return getattr(_Result(subject), word)
    if not isinstance(subject, Mapping):
        return getattr(subject, word)
    found = subject.get(spelled(word, subject))
    return _Result(found) if isinstance(found, CellDocument) else found


class Expression(Struct, frozen=True):
    """An expression of a column, by its text."""

    text: str

    def __call__(self, subject: Any) -> Any:
        """Return what it is of what a row is about."""
        return evaluate(parsed(self.text), lambda word: _value_of(subject, word))


# -- columns --------------------------------------------------------------------------------------


class ColumnSpec(TableColumn, frozen=True, kw_only=True):
    """A column with what it shows of what a row is about."""

    value: Callable[[Any], Value] = lambda _: None
    predicts: str = ""  # Name of the need whose prediction it shows; then `value` reads only that.


# The first column of every table, the name of the row's program.
PROGRAM = ColumnSpec("program", "program")
QUOTIENT = "quotient"  # A form: one digit after the point, and the geometric mean means something


def column(text: str, value: Callable[[Any], Value] | None = None) -> ColumnSpec:
    """Return the column that "key | title | form | expression" declares.

    `value`: What it shows, where no expression says it. A "!" behind the form: its average over
    programs means nothing. "| executed" behind the expression: what the need that it reads
    predicts is shown beside what was executed.
    """
    key, title, form, *rest = map(str.strip, text.split("|"))
    shown = value or Expression(rest[0])
    kind = form.removesuffix("!")
    return ColumnSpec(
        key,
        title,
        Form.DECIMAL if kind == QUOTIENT else Form(kind),
        average=not form.endswith("!"),
        quotient=kind == QUOTIENT,
        value=shown,
        predicts=next(names(parsed(rest[0]))) if rest[1:] else "",
    )


def more_columns(text: str) -> tuple[ColumnSpec, ...]:
    """Return the columns that lines declare (see `column`)."""
    return tuple(map(column, text.strip().splitlines()))


def columns(text: str) -> tuple[ColumnSpec, ...]:
    """Return the columns that lines declare, after that of the program."""
    return (PROGRAM, *more_columns(text))
