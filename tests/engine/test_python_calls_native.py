"""Python calls no native function but C functions: machine code that was loaded has no others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for part in ("profiler", "simulator") for path in (ROOT / part).rglob("*.py"))
PARTS = {"jit", "native", "inline", "intrinsic"}
"""Decorators of functions that are parts of C functions."""
C_FUNCTIONS = {"c_function", "hook_part", "kernel"}
"""Decorators that make C functions."""
WITHOUT_DECORATORS = {"profiler/engine/block_kernel.py", "simulator/cpu/nans.py"}
"""Files in which C functions that no decorator makes call parts."""


def decorators(function: ast.FunctionDef) -> set[str]:
    """Return the names of a function's decorators."""
    called = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return {d.attr if isinstance(d, ast.Attribute) else ast.unparse(d) for d in called}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield all functions of a module."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def calls(source: str, module: str, parts: dict[str, set[str]]) -> list[tuple[int, str]]:
    """Return (line, name) of each call of a part from a function that Python executes."""
    tree = ast.parse(source)
    modules, names = {}, dict.fromkeys(parts.get(module, ()), module)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                if f"{node.module}.{name.name}" in parts:
                    modules[name.asname or name.name] = f"{node.module}.{name.name}"
                if name.name in parts.get(node.module, ()):
                    names[name.asname or name.name] = node.module
    native = [f for f in functions(tree) if decorators(f) & {*PARTS, *C_FUNCTIONS}]
    inside = {id(node) for function in native for node in ast.walk(function)}
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in inside:
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in names:
            found.append((node.lineno, called.id))
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            owner = modules.get(called.value.id)
            if owner is not None and called.attr in parts[owner]:
                found.append((node.lineno, called.attr))
    return found


def module_of(path: Path) -> str:
    """Return the name by which a file is imported."""
    return ".".join(("simprof", *path.relative_to(ROOT).with_suffix("").parts))


def all_parts() -> dict[str, set[str]]:
    """Return the names of all parts, by module."""
    trees = {module_of(path): ast.parse(path.read_text()) for path in SOURCES}
    found = {m: {f.name for f in functions(t) if decorators(f) & PARTS} for m, t in trees.items()}
    return {module: names for module, names in found.items() if names}


@pytest.mark.long
def test_python_calls_c_functions_only() -> None:
    parts = all_parts()
    assert len(parts) >= 6
    assert "stack_pointer" in parts["simprof.profiler.engine.kernels"]
    assert "execute" in parts["simprof.profiler.engine.block_kernel"]
    found = {
        str(path.relative_to(ROOT)): calls(path.read_text(), module_of(path), parts)
        for path in SOURCES
    }
    wrong = {file: where for file, where in found.items() if where}
    assert wrong.keys() <= WITHOUT_DECORATORS, wrong


def test_a_call_of_a_part_is_found() -> None:
    source = "from simprof.profiler.engine import kernels\n"
    source += "def f(k):\n    return kernels.stack_pointer(k)\n"
    parts = {"simprof.profiler.engine.kernels": {"stack_pointer"}}
    assert calls(source, "m", parts) == [(3, "stack_pointer")]
