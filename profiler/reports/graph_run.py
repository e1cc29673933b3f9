"""The answer of `simprof explain` for people: the graph's edges with all that was computed.

The answer is the object that the JSON output holds (docs/SEMANTICS.md); this file only lays it
out, and leaves out what a scheme does not compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from simprof.profiler.graphfiles.lesson import Lesson, Line, Step, register_notes
from simprof.profiler.profiles.codec import json_line
from simprof.profiler.profiles.tables import loop_marks
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.cfg_formats import escaped
from simprof.profiler.reports.display import group_digits, percent, plural, shorten, visible
from simprof.profiler.reports.display import visible as readable
from simprof.simulator.errors import UsageError

Answer = Mapping[str, Any]

# Kinds of edges that have another name for people
KIND_NAMES = {"tree": "in the tree", "back": "back edge", "out": "left out", "plain": ""}
SHOWN_ROWS = 1000  # In a table; who needs more has the JSON, and laying out tables is slow.
SHOWN_PAIRS = 100  # Back edges named above the tables
LONGEST_LABEL = 40  # Cells that a block's label takes; the middle of longer ones is left out.

# What the optima are called (BL94 3, 4)
_OPTIMA = (
    ("vprof_ecnt", "Vprof(Ecnt)"),
    ("eprof_ecnt", "Eprof(Ecnt)"),
    ("vprof_vcnt", "Vprof(Vcnt)"),
    ("trace_ewit", "Trace(Ewit)"),
    ("trace_blocking", "with blocking"),
)

# What schemes compute of edges (title and key in the answer), and of dummy edges
EDGE_COLUMNS = {
    "value": "values", "compensation": "compensation", "label": "labels", "bits": "bits",
    "witness": "witnesses", "pair": "pairs", "weight": "weights", "tree": "tree", "cold": "cold",
    "increment": "increments", "code": "code",
}  # fmt: skip
DUMMY_COLUMNS = "iteration value compensation label bits initial weight tree increment".split()


def render(answer: Answer, width: int = 100) -> str:
    """Return the report on one graph."""
    parts: list[layout.Part] = [layout.paragraph(line) for line in heading(answer).split("\n")]
    dummies = answer.get("static", {}).get("dummy_edges", ())
    paths, every = answer.get("paths", ()), answer.get("all_paths", ())
    blocks = block_rows(answer)
    for title, rows, table in (
        ("", answer["edges"], edge_table(answer)),
        ("Blocks", blocks, block_table(blocks)),
        ("Dummy edges", dummies, dummy_table(dummies, answer["edges"])),
        ("Paths executed", paths, path_table(paths)),
        ("All paths", every, path_table(every)),
    ):
        if rows and title:
            parts += [layout.BLANK, layout.paragraph(title)]
        if rows or not title:
            parts.append(table)
        if len(rows) > SHOWN_ROWS:
            parts.append(
                layout.paragraph(f"({group_digits(len(rows) - SHOWN_ROWS)} more: see --json)")
            )
    return layout.print_parts(parts, width, color=False)


def render_json(answers: Iterable[Answer]) -> str:
    """Return answers as JSON, one a line."""
    return "".join(map(json_line, answers))


def heading(answer: Answer) -> str:
    """Return the lines above the tables: name, sizes, costs."""
    routine = answer["routines"][0]
    static = answer.get("static", {})
    lines = [f"{label(routine['symbol'])}: {answer['mode']}"]
    nouns = ("block", "edge", "back edge", "potential path")
    sizes = [plural(routine[f"{noun.replace(' ', '_')}s"], noun) for noun in nouns]
    if routine["cut_edges"]:
        sizes.append(plural(routine["cut_edges"], "cut edge"))
    if static.get("valid_paths", routine["potential_paths"]) != routine["potential_paths"]:
        sizes.append(plural(static["valid_paths"], "numbered path"))
    if routine["irreducible"]:
        sizes.append("irreducible")
    lines.append(", ".join(sizes))
    if back_edges := static.get("back_edges"):
        pairs = [edge_name(source, target) for source, target in back_edges[:SHOWN_PAIRS]]
        if len(back_edges) > SHOWN_PAIRS:
            pairs.append(f"({group_digits(len(back_edges) - SHOWN_PAIRS)} more)")
        lines.append(f"back edges: {', '.join(pairs)}")
    base, added = answer["instructions"]["base"], answer["instructions"]["added"]
    if base:
        lines.append(
            f"base {plural(base, 'instruction')}, added {group_digits(added)}, "
            f"overhead {percent(added, base)}"
        )
    sizes = answer.get("sizes", {})
    if "trace_bits" in sizes:
        bits, least = sizes["trace_bits"], sizes["minimal_trace_bits"]
        lines.append(f"trace: {plural(bits, 'bit')}, {group_digits(least)} with minimal witnesses")
    if best := static.get("optima"):
        lines.append(_optima_line(best))
    lines.extend(flow_lines(answer))
    lines.extend(register_notes(answer))
    lines.extend(f"warning: {each}" for each in answer["warnings"])
    if lost := answer.get("lost"):
        texts = (f"{cell(value)} {key.replace('_', ' ')}" for key, value in lost.items())
        lines.append(f"lost: {', '.join(texts)}")
    return "\n".join(lines)


def _optima_line(best: Mapping[str, Any]) -> str:
    """Return what the cheapest placements cost by the weights (BL94 3.1, 3.3.2, 4)."""
    costs = ", ".join(
        f"{name} {'?' if best[key] is None else format(best[key], '.6g')}" for key, name in _OPTIMA
    )
    member = {True: "in G*", False: "not in G*", None: "maybe in G*"}[best["in_g_star"]]
    return f"optima: {costs}; {member}"


def label(block: object) -> str:
    """Return a block's name as it is shown: visible, and short enough to stand beside others."""
    return shorten(visible(str(block)), LONGEST_LABEL)


def edge_name(source: object, target: object) -> str:
    """Return how an edge is called."""
    return f"{label(source)} > {label(target)}"


def flow_lines(answer: Answer) -> Iterator[str]:
    """Yield how much of the paths an edge profile tells, where the answer says it."""
    flow = answer.get("definite_flow", {})
    if flow.get("blocks"):
        yield (
            f"definite flow: edges alone determine {group_digits(flow['definite_executions'])} of "
            f"{plural(flow['executions'], 'path execution')}, "
            f"{percent(flow['definite_blocks'], flow['blocks'])} of the blocks in paths"
        )
    ran = any(edge["executions"] for edge in answer["edges"])
    if ran and (judged := answer.get("attribution")):
        words = {"overlap": "overlap with pp", "attributed": "attributed"}
        words |= {"overcount": "overcounted", "undercount": "undercounted"}
        shares = (f"{100 * judged[name]:.2f} % {word}" for name, word in words.items())
        yield f"attribution: {', '.join(shares)}"


def block_rows(answer: Answer) -> list[tuple[layout.Value, ...]]:
    """Return name, count, code at the top and code at the end of the blocks that have any."""
    static = answer.get("static", {})
    top, end = static.get("block_code", {}), static.get("block_end_code", {})
    counts = {block["block"]: block["executions"] for block in answer.get("blocks", ())}
    names = list(dict.fromkeys([*counts, *top, *end]))
    return [
        (label(name), entry(counts.get(name)), cell(top.get(name)), cell(end.get(name)))
        for name in names
    ]


def block_table(rows: Sequence[tuple[layout.Value, ...]]) -> layout.Table:
    """Lay out the blocks that are counted or have code of their own."""
    code = layout.text("code at its top"), layout.text("code at its end")
    return layout.columns(
        layout.text("block"), layout.number("executions"), *code, rows=rows[:SHOWN_ROWS]
    )


def edge_table(answer: Answer) -> layout.Table:
    """Lay out the edges; a column that the scheme does not compute is left out."""
    static = answer.get("static", {})
    computed = {title: static[key] for title, key in EDGE_COLUMNS.items() if key in static}
    heads = (
        layout.text(title) if title in ("tree", "code") else layout.number(title)
        for title in computed
    )
    ran = any(edge["executions"] for edge in answer["edges"])
    counts = [layout.number("executions")] if ran else []
    table = layout.columns(layout.text("edge"), *counts, *heads)
    for index, edge in enumerate(answer["edges"][:SHOWN_ROWS]):
        cells = [
            entry(values[index]) if index < len(values) else "-" for values in computed.values()
        ]
        count = [entry(edge["executions"])] if ran else []
        table.add_row(edge_name(edge["source"], edge["target"]), *count, *cells)
    if (root := static.get("root_edge")) is not None:
        # Without it the tree of the column would fall apart.
        count = ["-"] if ran else []
        cells = ["yes" if key == "tree" else "-" for key in computed]
        table.add_row(edge_name(*root), *count, *cells)
    return table


def dummy_table(dummies: Sequence[Answer], edges: Sequence[Answer]) -> layout.Table:
    """Lay out the dummy edges; columns are what the scheme computes for them."""
    names = [edge_name(edge["source"], edge["target"]) for edge in edges]
    shown = [key for key in DUMMY_COLUMNS if any(edge.get(key) is not None for edge in dummies)]
    table = layout.columns(*map(layout.text, ("edge", "stands for", *shown)))
    for edge in dummies[:SHOWN_ROWS]:
        table.add_row(
            edge_name(edge["from"], edge["to"]),
            "; ".join(names[each] for each in edge.get("for", ())) or "-",
            *(entry(edge.get(key)) for key in shown),
        )
    return table


def path_table(paths: Sequence[Answer]) -> layout.Table:
    """Lay out paths; counts are left out where there are none."""
    shown = [key for key in ("executions", "definite") if any(key in path for path in paths)]
    table = layout.columns(layout.number("path"), *map(layout.number, shown), layout.text("blocks"))
    for path in paths[:SHOWN_ROWS]:
        identity = "partial" if path.get("partial") else cell(path["path"])
        counts = [path[key] for key in shown]
        marks = loop_marks(path.get("start"), path.get("end"))
        table.add_row(identity, *counts, " ".join([*map(label, path["blocks"]), *marks]))
    return table


def entry(value: object) -> layout.Value:
    """Return a whole number itself, since it has a short form, and any other value as text."""
    return value if isinstance(value, int) and not isinstance(value, bool) else cell(value)


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


def render_lesson(lesson: Lesson, width: int) -> str:
    """Return a lesson in lines of `width` columns; what is longer than a line is not broken."""
    parts = [f"{readable(lesson.title)}, step by step: {lesson.mode}"]
    for position, step in enumerate(lesson.steps, 1):
        parts.append("\n".join(_step(position, step, width)))
    return "\n\n".join(parts) + "\n"


COLORS = {"tree": "black", "chord": "blue", "back": "gray40", "early": "gray40", "out": "gray70"}
STYLES = {"tree": "bold", "dummy": "dashed", "back": "dashed", "out": "dotted"}


def render_svg(step: Step) -> str:
    """Return a picture of a step, drawn by Graphviz; UsageError if that is not installed."""
    import graphviz

    font = {"fontname": "monospace", "fontsize": "12"}
    graph = graphviz.Digraph(node_attr={"shape": "box", **font}, edge_attr=font)
    blocks = dict.fromkeys(name for each in step.lines for name in (each.source, each.target))
    nodes = {block: f"n{number}" for number, block in enumerate(blocks)}
    for block, node in nodes.items():
        said = [readable(each) for each in (block, step.notes.get(block)) if each is not None]
        shape = "ellipse" if block in ("ENTRY", "EXIT") else "box"
        graph.node(node, escaped("\n".join(said)), shape=shape)
    for line in step.lines:
        look = {"style": STYLES.get(line.kind, "solid"), "color": COLORS.get(line.kind, "black")}
        if line.source == "EXIT":  # the tree's edge from EXIT to ENTRY: it turns nothing round
            look["constraint"] = "false"
        label = escaped(f" {readable(line.label)}")
        graph.edge(nodes[line.source], nodes[line.target], label=label, **look)
    try:
        drawn: str = graph.pipe(format="svg", encoding="utf-8")
    except graphviz.ExecutableNotFound:
        raise UsageError("a picture needs Graphviz's dot: `apt-get install graphviz`") from None
    return drawn


# What texts say of the looks of a picture, which text has not
_LOOKS = re.compile(r" \((?:bold|coloured|dashed)\)")


def _step(number: int, step: Step, width: int) -> Iterator[str]:
    yield f"{number}. {step.title}"
    yield fill(_LOOKS.sub("", step.text), width)
    names = [(readable(line.source), readable(line.target)) for line in step.lines]
    before = max((len(source) for source, _ in names), default=0)
    after = max((len(target) for _, target in names), default=0)
    for (source, target), line in zip(names, step.lines, strict=True):
        yield f"  {source:>{before}} > {target:<{after}}  {_label(step, line)}".rstrip()
    for block, note in step.notes.items():
        yield f"  {readable(block)}: {note}"
    if step.is_about_rows:
        yield "  " + "  ".join(step.head)
        for row in step.rows:
            yield "  " + "  ".join(map(readable, row))


def _label(step: Step, line: Line) -> str:
    """Return what an edge says; its kind only where that is what the step shows."""
    shown = step.is_about_kinds or line.kind in ("dummy", "out")
    kind = KIND_NAMES.get(line.kind, line.kind) if shown else ""
    return ", ".join(part for part in (line.label, kind) if part)
