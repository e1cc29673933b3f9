"""What simprof should have once, counted in its code: `tools/structure.py` prints it.

Each rule reads the modules of a tree and returns what it finds, by name. It finds what its kind of
thing cannot do without, so that a second one is found whatever it is called.

Terms
-----
way to run a program
    A module that plays the events of a program under schemes: it has `Events` or `World` by import,
    and calls one of their methods that run a machine. (`verify` also runs programs that have been
    instrumented already; nothing is measured in these runs, they are compared.)
pool
    A module that starts processes which share out work. Threads that wait for compilers are none,
    and a Dask client stands behind the one pool.
progress type
    A class that says how much is done: of that name, or with fields `done` and `total`.
row maker
    A module that makes rows of two or more of routines, edges, paths and blocks.
result model
    A class that holds the counts of all routines of a run.
difference
    A module that compares two results of one type, and rests on no other such module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import TypeVar

WORLD = "simprof.profiler.session.world"
RESULTS = {"RunMeasurement", "BaselineRun", "SettingResult"}
SUBJECTS = re.compile(r"_?(routine|edge|path|block)_rows?")
POOLS = {"get_context", "ProcessPoolExecutor"}

Sources = Mapping[str, str]  # Dotted names of modules -> their texts
Imports = Mapping[str, frozenset[str]]  # Who imports whom

N = TypeVar("N", bound=ast.AST)
parsed = cache(ast.parse)


KINDS = (ast.ClassDef, ast.FunctionDef, ast.Import, ast.ImportFrom)


@cache
def _found(text: str) -> tuple[ast.AST, ...]:
    """Return the classes, functions and imports of a module, nested ones too."""
    return tuple(node for node in ast.walk(parsed(text)) if isinstance(node, KINDS))


def nodes(text: str, kind: type[N] | UnionType) -> Iterator[N]:
    """Yield the nodes of one of `KINDS`, or of several, in a module's syntax tree."""
    return (node for node in _found(text) if isinstance(node, kind))


def _called(node: ast.AST) -> set[str]:
    """Return the names of all methods and functions that are called in a piece of code."""
    calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return {getattr(call, "attr", getattr(call, "id", "")) for call in calls}


def _methods_called(node: ast.AST) -> set[str]:
    calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return {call.attr for call in calls if isinstance(call, ast.Attribute)}


def _fields(node: ast.ClassDef) -> dict[str, str]:
    return {
        each.target.id: ast.unparse(each.annotation)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def ways_to_run(sources: Sources, imports: Imports) -> list[str]:
    """Return the modules that play a program's events."""
    functions = list(nodes(sources.get(WORLD, ""), ast.FunctionDef))
    runners = {each.name for each in functions if _called(each) & {"run", "execute"}}
    return sorted(
        name
        for name, text in sources.items()
        if WORLD in imports[name] and _methods_called(parsed(text)) & runners
    )


def pools(sources: Sources, _: Imports) -> list[str]:
    """Return the modules that start processes which share out work."""
    return sorted(
        name
        for name, text in sources.items()
        if re.search(r"^\s*(from|import) (multiprocessing|concurrent)", text, re.MULTILINE)
        and _called(parsed(text)) & POOLS
    )


def _classes(sources: Sources, rule: Callable[[ast.ClassDef], bool]) -> list[str]:
    return sorted(
        f"{name}.{each.name}"
        for name, text in sources.items()
        for each in nodes(text, ast.ClassDef)
        if rule(each)
    )


def progress_types(sources: Sources, _: Imports) -> list[str]:
    """Return the classes that say how much is done."""

    def rule(node: ast.ClassDef) -> bool:
        return node.name.endswith("Progress") or {"done", "total"} <= _fields(node).keys()

    return _classes(sources, rule)


def row_makers(sources: Sources, _: Imports) -> list[str]:
    """Return the modules that make rows of more than one subject."""

    def subjects(text: str) -> set[str]:
        found = (SUBJECTS.fullmatch(each.name) for each in nodes(text, ast.FunctionDef))
        return {match[1] for match in found if match}

    return sorted(name for name, text in sources.items() if len(subjects(text)) > 1)


def result_models(sources: Sources, _: Imports) -> list[str]:
    """Return the classes that hold the counts of all routines of a run."""

    def rule(node: ast.ClassDef) -> bool:
        return any(re.search(r"\[RoutineProfile\b", each) for each in _fields(node).values())

    return _classes(sources, rule)


def differences(sources: Sources, imports: Imports) -> list[str]:
    """Return the modules that compare two results by themselves."""
    found = [name for name, text in sources.items() if any(_compares(text))]
    return sorted(name for name in found if not imports[name].intersection(found))


def _compares(text: str) -> Iterator[bool]:
    for node in nodes(text, ast.FunctionDef):
        taken = [ast.unparse(each.annotation) for each in node.args.args if each.annotation]
        # Whether two results are comparable at all, `combine` checks: it finds no difference.
        about = re.search("differ|change", node.name)
        yield bool(about) and any(taken.count(each) > 1 for each in RESULTS)


RULES: Mapping[str, Callable[[Sources, Imports], list[str]]] = {
    "ways to run a program": ways_to_run,
    "worker pools": pools,
    "progress types": progress_types,
    "row makers": row_makers,
    "result models": result_models,
    "differences": differences,
}
