#!/usr/bin/env python3
"""Measure how the packages lean on each other, from the code itself.

    tools/structure.py               list the packages with size, imports and level, and measure
                                     the whole, beside what it was and what was wanted; the exit
                                     status is 1 if there is an import cycle, or an import that
                                     points up
    tools/structure.py --dot FILE    write the drawing of the layers in Graphviz's language
    tools/structure.py --svg FILE    the same drawing as SVG, through Graphviz's `dot`
    --root DIRECTORY                 of another tree than this repository

Every import counts: at the top of a module, inside a function, and those for types only. That of
`DOOR` counts as imports of what it hands on.

Words
-----
unit
    What stands right below `simprof.simulator` or `simprof.profiler` (`simprof.profiler.graphs`)
    with everything in it, and `simprof`, which is its own modules.
level
    Length of the longest way down from a unit along imports; 0: it imports no other unit.
sibling
    What stands in the same package. Siblings are in a cycle between packages when they, or
    modules in them, import each other all the way round.

Steps -> functions
    find modules, read their imports   `read_tree`
    join modules to units              `unit_imports`, `levels`
    look for cycles                    `module_cycles`, `package_cycles`
    compare with the declared layers   `upward_imports`
    measure lines, docstrings, names   `measures`
    write                              `listing`, `drawing`
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import graphviz
import networkx as nx

ROOT = Path(__file__).resolve().parent.parent
CONTAINERS = ("simprof.profiler", "simprof.simulator")
FOLDERS = {"simprof": "simprof", **{name: name.split(".")[1] for name in CONTAINERS}}
"""Package -> its folder in the repository."""
COLOURS = {"simprof": "#fdf2d0", "simprof.profiler": "#dce9f7", "simprof.simulator": "#e3f1dc"}

DOOR = "simprof.schemes"
"""What authors of schemes import, simprof's own among them."""
WINGS = ("simprof.profiler.experiments", "simprof.profiler.rewriting")
"""Packages above the command line: nothing of the house imports them."""
ENTRIES = ("simprof.profiler.cli", "simprof.__main__")
"""Modules that are started, not imported."""
COMMAND_LIST = "simprof.profiler.commands.group"

BEFORE = {
    "lines, comment lines not counted": ("100,500", "76,000"),
    "of these, the house without its wings": ("", "64,000"),
    "modules, `__init__` not counted": ("409", "255"),
    "lines of sections in docstrings": ("5,926", "2,500"),
    "comments, share of lines": ("0.4%", "5%"),
    "class names that mean two things": ("42", "0"),
    "commands": ("25", "19"),
    "import cycles between modules": ("0", "0"),
    "import cycles between packages": ("0", "0"),
    "imports that point up": ("0", "0"),
}
"""Measure -> what it was, and what was wanted, of commit f24e8553.

Schemes that were added since are in the lines of now, and not in those wanted.
"""

Graph = Mapping[str, frozenset[str]]
"""Who imports whom: name -> names."""


@dataclass(frozen=True)
class Tree:
    """The modules of a source tree.

    Attributes
    ----------
    imports
        Dotted name of a module -> the modules of the tree that it imports, those behind `DOOR` in
        its place. A package's `__init__` has the package's name.
    sources
        Dotted name of a module -> the text of its file.
    packages
        Which of the modules are packages.
    """

    imports: Graph
    sources: Mapping[str, str]
    packages: frozenset[str]


def read_tree(root: Path, folders: Mapping[str, str] = FOLDERS) -> Tree:
    """Read all modules of packages in the directory `root`; `folders` says where each one is."""
    files: dict[str, Path] = {}
    for package, folder in folders.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = (package, *path.relative_to(root / folder).with_suffix("").parts)
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    sources = {name: path.read_text() for name, path in files.items()}
    behind = set(_imported(sources.get(DOOR, ""), DOOR, files))
    imports: dict[str, frozenset[str]] = {}
    for name, text in sources.items():
        found = set(_imported(text, name, files))
        imports[name] = frozenset((found | behind if DOOR in found else found) - {DOOR, name})
    return Tree(
        imports=imports,
        sources=sources,
        packages=frozenset(name for name, path in files.items() if path.stem == "__init__"),
    )


def _imported(text: str, importer: str, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules of the tree that a module's text imports anywhere."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            origin = _absolute(node, importer, modules)
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                if inner in modules:
                    yield inner
                elif origin in modules:
                    yield origin


def _absolute(node: ast.ImportFrom, importer: str, modules: Mapping[str, Path]) -> str:
    """Return the dotted name after `from`, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    is_package = modules[importer].stem == "__init__"
    parts = importer.split(".")
    parent = parts[: len(parts) - node.level + is_package]
    return ".".join([*parent, *([node.module] if node.module else [])])


def unit_of(module: str) -> str:
    """Return the unit that holds a module."""
    parts = module.split(".")
    return ".".join(parts[:3]) if ".".join(parts[:2]) in CONTAINERS else parts[0]


def unit_imports(tree: Tree) -> Graph:
    """Return which units import which others. Empty `__init__` modules at the top are none."""
    joined: dict[str, set[str]] = {
        unit_of(module): set() for module in tree.imports if module not in CONTAINERS
    }
    for module, imported in tree.imports.items():
        if module not in CONTAINERS:
            joined[unit_of(module)] |= {unit_of(other) for other in imported} & joined.keys()
    return {unit: frozenset(others - {unit}) for unit, others in joined.items()}


def levels(graph: Graph) -> dict[str, int]:
    """Return the level of every unit. Units that import each other share one."""
    joined = nx.condensation(nx.DiGraph(graph))
    level: dict[int, int] = {}
    for number in reversed(list(nx.topological_sort(joined))):
        level[number] = max((level[below] + 1 for below in joined[number]), default=0)
    return {name: level[number] for name, number in joined.graph["mapping"].items()}


def cycles(graph: Graph) -> list[list[str]]:
    """Return the sets of names that import each other, each sorted: strong components."""
    components = nx.strongly_connected_components(nx.DiGraph(graph))
    return sorted(sorted(component) for component in components if len(component) > 1)


def module_cycles(tree: Tree) -> list[list[str]]:
    """Return the cycles between modules."""
    return cycles(tree.imports)


def package_cycles(tree: Tree) -> list[list[str]]:
    """Return the cycles between siblings, package by package, and between the top packages."""
    return [
        cycle
        for package in ["", *sorted(tree.packages)]
        for cycle in cycles(_siblings(tree, package))
    ]


def _siblings(tree: Tree, package: str) -> Graph:
    """Return who imports whom among what stands right in a package; "" is the tree's root."""
    depth = len(package.split(".")) + 1 if package else 1

    def child(module: str) -> str | None:
        inside = module.startswith(f"{package}.") if package else True
        return ".".join(module.split(".")[:depth]) if inside else None

    joined: dict[str, set[str]] = {}
    for module, imported in tree.imports.items():
        name = child(module)
        if name is not None:
            others = {child(other) for other in imported} - {None, name}
            joined.setdefault(name, set()).update(other for other in others if other)
    return {name: frozenset(others) for name, others in joined.items()}


def declared_layers(root: Path) -> list[list[list[str]]]:
    """Return the `layers` contracts of pyproject.toml: layers from the top, as dotted names.

    Neighbours in a layer are not compared here; `lint-imports` does that.
    """
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    contracts = settings.get("tool", {}).get("importlinter", {}).get("contracts", [])
    declared = []
    for contract in contracts:
        if contract["type"] != "layers":
            continue
        for container in contract.get("containers", [""]):
            prefix = f"{container}." if container else ""
            layers = [layer.replace(":", "|").split("|") for layer in contract["layers"]]
            declared.append([[prefix + name.strip(" ()") for name in row] for row in layers])
    return declared


def upward_imports(tree: Tree, root: Path) -> list[str]:
    """Return the imports that point up in a declared contract, as `importer imports module`."""
    pointing_up = []
    for layers in declared_layers(root):
        heights = {name: -number for number, layer in enumerate(layers) for name in layer}
        for module, imported in sorted(tree.imports.items()):
            for other in sorted(imported):
                own, theirs = _height(module, heights), _height(other, heights)
                if own is not None and theirs is not None and theirs > own:
                    pointing_up.append(f"{module} imports {other}")
    return pointing_up


def _height(module: str, heights: Mapping[str, int]) -> int | None:
    """Return the height of the layer that holds a module; None where none does."""
    parts = module.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((heights[name] for name in prefixes if name in heights), None)


def listing(tree: Tree, root: Path) -> tuple[str, bool]:
    """Return the listing, and whether the structure is sound."""
    graph = unit_imports(tree)
    problems = {
        "import cycles between modules": [", ".join(cycle) for cycle in module_cycles(tree)],
        "import cycles between packages": [", ".join(cycle) for cycle in package_cycles(tree)],
        "imports that point up": upward_imports(tree, root),
    }
    height = levels(graph)
    rows = [("unit", "level", "modules", "lines", "imports", "imported by")]
    for unit in sorted(graph, key=lambda name: (-height[name], name)):
        modules = [module for module in tree.imports if unit_of(module) == unit]
        rows.append(
            (
                unit,
                str(height[unit]),
                str(len(modules)),
                f"{sum(tree.sources[module].count(chr(10)) for module in modules):,}",
                str(len(graph[unit])),
                str(sum(unit in others for others in graph.values())),
            )
        )
    edges = sum(len(others) for others in graph.values())
    text = _columns(rows)
    text += f"\n{len(graph)} units, {len(tree.imports)} modules, {edges} imports between units\n"
    found = [*measures(tree), *((what, str(len(places))) for what, places in problems.items())]
    lines = [("measure", "before", "now", "target")]
    for name, value in found:
        before, target = BEFORE.get(name, ("", ""))
        lines.append((name, before, value, target))
    text += "\n" + _columns(lines) + "\n"
    for what, places in problems.items():
        text += f"{len(places)} {what}\n" + "".join(f"    {place}\n" for place in places)
    return text, not any(problems.values())


def measures(tree: Tree) -> list[tuple[str, str]]:
    """Return what is measured of the whole, each with its value as text.

    Lines are those of files without those that hold a comment only, which cost a reader nothing:
    they are where he asks why. Sections of docstrings are those of attributes and parameters below
    `CONTAINERS`, with their headings.
    """
    sizes = {name: _code_lines(text) for name, text in tree.sources.items()}
    wings = sum(size for name, size in sizes.items() if name.startswith(WINGS))
    comments = sum(map(_comments, tree.sources.values()))
    inner = [text for name, text in tree.sources.items() if name.startswith(CONTAINERS)]
    return [
        ("lines, comment lines not counted", f"{sum(sizes.values()):,}"),
        ("of these, the house without its wings", f"{sum(sizes.values()) - wings:,}"),
        ("modules, `__init__` not counted", f"{len(sizes) - len(tree.packages):,}"),
        ("lines of sections in docstrings", f"{sum(map(_section_lines, inner)):,}"),
        ("comments, share of lines", f"{comments / sum(sizes.values()):.1%}"),
        ("class names that mean two things", str(len(double_names(tree)))),
        ("modules that nothing but tests imports", str(len(unused_modules(tree)))),
        ("commands", str(tree.sources.get(COMMAND_LIST, "").count(": Subcommand("))),
    ]


def _code_lines(text: str) -> int:
    return sum(not line.lstrip().startswith("#") for line in text.splitlines())


def _comments(text: str) -> int:
    if "#" not in text:
        return 0
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)


def _section_lines(text: str) -> int:
    """Return the lines of sections on attributes and parameters in all docstrings of a module."""
    total = 0
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        heading = ""
        lines = (ast.get_docstring(node) or "").splitlines()
        for line, below in zip_longest(lines, lines[1:], fillvalue=""):
            heading = line if below and set(below) == {"-"} else heading
            total += heading in ("Attributes", "Parameters")
    return total


def double_names(tree: Tree) -> dict[str, list[str]]:
    """Return the names of classes that more than one module defines, with these modules."""
    found: dict[str, list[str]] = {}
    for module, text in tree.sources.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return {name: modules for name, modules in sorted(found.items()) if len(modules) > 1}


def unused_modules(tree: Tree) -> list[str]:
    """Return the modules that no other one imports or names in a string, `ENTRIES` aside."""
    used = set().union(*tree.imports.values()) | set(ENTRIES) | tree.packages
    rest = sorted(tree.imports.keys() - used)
    texts = tree.sources
    return [name for name in rest if not any(_names(text, name) for text in texts.values())]


def _names(text: str, module: str) -> bool:
    """Return whether a string of a source names a module, whole or as a file of its package."""
    last = module.rpartition(".")[2]
    return any(f'"{name}{end}' in text for name in (module, last) for end in '":')


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *numbers in rows:
        cells = [text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join(lines) + "\n"


def drawing(tree: Tree) -> str:
    """Return the drawing of the layers as DOT: an arrow goes from a unit to one that it imports.

    Units of one level stand in one row. An arrow is left out where a longer way down says that
    the one unit stands above the other.
    """
    graph = unit_imports(tree)
    height = levels(graph)
    dot = graphviz.Digraph("layers", graph_attr={"rankdir": "TB", "ranksep": "0.35"})
    dot.attr("node", shape="box", style="rounded,filled", fontname="sans-serif", fontsize="11")
    dot.attr("edge", color="#707070", arrowsize="0.6")
    for number in sorted(set(height.values()), reverse=True):
        with dot.subgraph(name=f"level_{number}", graph_attr={"rank": "same"}) as row:
            for unit in sorted(name for name in graph if height[name] == number):
                row.node(unit, fillcolor=COLOURS[unit.rpartition(".")[0] or unit])
    arrows = nx.DiGraph(graph)
    if nx.is_directed_acyclic_graph(arrows):
        arrows = nx.transitive_reduction(arrows)
    for source, target in sorted(arrows.edges):
        dot.edge(source, target)
    return str(dot.source)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIRECTORY")
    parser.add_argument("--dot", type=Path, metavar="FILE", help="write the drawing's source")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the drawing as SVG")
    options = parser.parse_args(arguments)
    tree = read_tree(options.root)
    if options.dot is not None:
        options.dot.write_text(drawing(tree))
    if options.svg is not None:
        options.svg.write_bytes(graphviz.Source(drawing(tree)).pipe("svg"))
    if options.dot is not None or options.svg is not None:
        return 0
    text, sound = listing(tree, options.root)
    sys.stdout.write(text)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
