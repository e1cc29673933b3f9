"""The answer of `simprof graph` for people: the graph's edges with all that was computed.

The answer is the object that the JSON output holds (docs/SEMANTICS.md); this file only lays it
out, and leaves out what a scheme does not compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from profiler.reports.numbers import group_digits, percent, plural

Answer = Mapping[str, Any]

SHOWN_ROWS = 1000
"""Rows in a table; who needs more has the JSON, and laying out tables is slow."""

SHOWN_PAIRS = 100
"""Back edges named above the tables."""

DUMMY_COLUMNS = (
    "iteration",
    "value",
    "compensation",
    "label",
    "bits",
    "initial",
    "weight",
    "tree",
    "increment",
)


def render(answer: Answer, width: int = 100) -> str:
    """Return the report on one graph."""
    target = StringIO()
    console = Console(file=target, width=width, highlight=False, emoji=False, markup=False)
    console.print(Text(heading(answer)))
    dummies = answer.get("static", {}).get("dummy_edges", ())
    blocks = block_rows(answer)
    for title, rows, table in (
        ("", answer["edges"], edge_table(answer)),
        ("Blocks", blocks, block_table(blocks)),
        ("Dummy edges", dummies, dummy_table(dummies)),
        ("Paths executed", answer.get("paths", ()), path_table(answer.get("paths", ()))),
        ("All paths", answer.get("all_paths", ()), path_table(answer.get("all_paths", ()))),
    ):
        if rows and title:
            console.print(Text(f"\n{title}"))
        if rows or not title:
            console.print(table)
        if len(rows) > SHOWN_ROWS:
            console.print(Text(f"({group_digits(len(rows) - SHOWN_ROWS)} more: see --json)"))
    lines = target.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def heading(answer: Answer) -> str:
    """Return the lines above the tables: name, sizes, costs."""
    routine = answer["routines"][0]
    static = answer.get("static", {})
    lines = [f"{routine['name']}: {answer['mode']}"]
    sizes = [
        plural(routine["blocks"], "block"),
        plural(routine["edges"], "edge"),
        plural(routine["back_edges"], "back edge"),
        plural(routine["potential_paths"], "potential path"),
    ]
    if routine["cut_edges"]:
        sizes.append(plural(routine["cut_edges"], "cut edge"))
    if static.get("valid_paths", routine["potential_paths"]) != routine["potential_paths"]:
        sizes.append(plural(static["valid_paths"], "numbered path"))
    if routine["irreducible"]:
        sizes.append("irreducible")
    lines.append(", ".join(sizes))
    if back_edges := static.get("back_edges"):
        pairs = [f"{source} > {target}" for source, target in back_edges[:SHOWN_PAIRS]]
        if len(back_edges) > SHOWN_PAIRS:
            pairs.append(f"({group_digits(len(back_edges) - SHOWN_PAIRS)} more)")
        lines.append(f"back edges: {', '.join(pairs)}")
    base, added = answer["instructions"]["base"], answer["instructions"]["added"]
    if base:
        lines.append(
            f"base {group_digits(base)}, added {group_digits(added)}, "
            f"overhead {percent(added, base)}"
        )
    sizes = answer.get("sizes", {})
    if "trace_bits" in sizes:
        bits, least = sizes["trace_bits"], sizes["minimal_trace_bits"]
        lines.append(f"trace: {plural(bits, 'bit')}, {group_digits(least)} with minimal witnesses")
    if lost := answer.get("lost"):
        texts = (f"{cell(value)} {key.replace('_', ' ')}" for key, value in lost.items())
        lines.append(f"lost: {', '.join(texts)}")
    return "\n".join(lines)


def block_rows(answer: Answer) -> list[tuple[str, ...]]:
    """Return name, count, code at the top and code at the end of the blocks that have any."""
    static = answer.get("static", {})
    top, end = static.get("block_code", {}), static.get("block_end_code", {})
    counts = {str(block["block"]): block["count"] for block in answer.get("block_counts", ())}
    names = list(dict.fromkeys([*counts, *top, *end]))
    return [
        (name, cell(counts.get(name)), cell(top.get(name)), cell(end.get(name))) for name in names
    ]


def block_table(rows: Sequence[tuple[str, ...]]) -> Table:
    """Lay out the blocks that are counted or have code of their own."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for title in ("block", "count", "code at its top", "code at its end"):
        table.add_column(title, justify="right" if title == "count" else "left")
    for row in rows[:SHOWN_ROWS]:
        table.add_row(*map(Text, row))
    return table


def edge_table(answer: Answer) -> Table:
    """Lay out the edges; a column that the scheme does not compute is left out."""
    static = answer.get("static", {})
    computed = {
        title: static[key]
        for title, key in (
            ("value", "values"),
            ("compensation", "compensation"),
            ("label", "labels"),
            ("bits", "bits"),
            ("witness", "witnesses"),
            ("pair", "pairs"),
            ("weight", "weights"),
            ("tree", "tree"),
            ("cold", "cold"),
            ("increment", "increments"),
            ("code", "code"),
        )
        if key in static
    }
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    table.add_column("edge")
    table.add_column("count", justify="right")
    for title in computed:
        table.add_column(title, justify="left" if title in ("tree", "code") else "right")
    for index, edge in enumerate(answer["edges"][:SHOWN_ROWS]):
        cells = [
            cell(values[index]) if index < len(values) else "-" for values in computed.values()
        ]
        name = f"{edge['source']} > {edge['target']}"
        table.add_row(Text(name), cell(edge["count"]), *map(Text, cells))
    return table


def dummy_table(dummies: Sequence[Answer]) -> Table:
    """Lay out the dummy edges; columns are what the scheme computes for them."""
    shown = [key for key in DUMMY_COLUMNS if any(edge.get(key) is not None for edge in dummies)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for title in ("edge", "stands for", *shown):
        table.add_column(title)
    for edge in dummies[:SHOWN_ROWS]:
        table.add_row(
            Text(f"{edge['from']} > {edge['to']}"),
            Text("; ".join(map(str, edge.get("for", ()))) or "-"),
            *(Text(cell(edge.get(key))) for key in shown),
        )
    return table


def path_table(paths: Sequence[Answer]) -> Table:
    """Lay out paths; the count is left out where there is none."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    counted = any("count" in path for path in paths)
    table.add_column("id", justify="right")
    if counted:
        table.add_column("count", justify="right")
    table.add_column("blocks", overflow="fold")
    for path in paths[:SHOWN_ROWS]:
        number = "partial" if path.get("partial") else cell(path["id"])
        counts = [group_digits(path["count"])] if counted else []
        table.add_row(number, *counts, Text(" ".join(map(str, path["blocks"]))))
    return table


def cell(value: object) -> str:
    """Return a computed value as text: yes or no, a number, numbers by iteration, or texts."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return group_digits(value)
        case float():
            return f"{value:g}"
        case [] | ():
            return "-"
        case list() | tuple():
            between = "; " if any(isinstance(each, str) for each in value) else "/"
            return between.join(each if isinstance(each, str) else cell(each) for each in value)
        case _:
            return str(value)
