#!/usr/bin/env python3
"""Make the pages of schemes, docs/schemes/, of what `simprof explain` says of one graph.

    tools/scheme_pages.py            write them; needs Chromium, in which pictures are laid out
    tools/scheme_pages.py --check    say which of them are not as they would be written now

The pictures are those of the page that `simprof explain --html` writes, step by step.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
from simprof.profiler.graphfiles.lesson import Lesson, lesson
from simprof.profiler.reports.html.page import render_lessons
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes import mode_options, registry
from tests.support.browser import chromium, opened
from tools import generated_files

FOLDER = generated_files.ROOT / "docs" / "schemes"
FIGURE = FOLDER / "figure.json"
CALLS = ("naive", "calls", "calls-optimal")  # Modes that share a section
OPTIONS: dict[str, dict[str, bool]] = {"tpp": {"cold_always": True}, "pref": {"everywhere": True}}
"""What modes are shown with beside the defaults: tpp leaves cold edges out where that saves a hash
table, and pref changes only routines that have one, and no graph for a blackboard does."""

USES: dict[str, tuple[str, tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "tpp": (
        "On figure.json all counters are in an array, and `cold-always` asks for what tpp would "
        "not do there: it saves six counters and pays for the test of poison at every count. "
        "Executions of a cold edge are counted together (*lost*). On two more graphs tpp saves. "
        "In [ifs.json](ifs.json) 13 ifs follow each other, three of which "
        "hardly ever hold. `pp` has more paths than an array takes and counts in a hash table; "
        "without the cold edges few enough are left for an array. In [loop.json](loop.json) a loop "
        "is entered rarely and iterates often. Disconnected from what is around it, it has paths "
        "with an edge of their own each: all are obvious, and nothing is left to count. `qpt2` "
        "shows what the edge profile costs that guides tpp.",
        ("distinct paths", "counters", "added", "lost"),
        {
            "figure.json": ("pp", "tpp", "tpp:cold-always", "qpt2"),
            "ifs.json": ("pp", "tpp", "qpt2"),
            "loop.json": ("pp", "tpp", "qpt2"),
        },
    ),
    "ppp": (
        "Edges that few paths take are cold whatever their source does, and nothing tests for "
        "poison: it counts after the counters of paths. With `tested` counts test, as under tpp. "
        "With `global-cold=15` more edges are cold, the back edge among them, and code moves past "
        "them: a path over a cold edge may be counted as a hot one, which `no-pushing` avoids. "
        "With `skip=30` the edge profile determines enough of the paths for no code at all.",
        ("distinct paths", "counters", "added", "lost"),
        {
            "figure.json": (
                *("pp", "tpp:cold-always", "ppp", "ppp:tested", "ppp:numbering=edges"),
                *("ppp:global-cold=15", "ppp:global-cold=15:no-pushing", "ppp:skip=30"),
            )
        },
    ),
    "pref": (
        "On figure.json `pp` needs no hash table, and `pref` only pays for tags: `everywhere` asks "
        "for what it would not do there. In [ifs.json](ifs.json) 13 ifs follow each other. `pp` "
        "has more paths than an array takes and counts in a hash table; of these the runs execute "
        "few, which have an array. With `least=20` the rare ones are not interesting, and counted "
        "together (*lost*), or with `fall-back` in a hash table.",
        ("distinct paths", "counters", "added", "lost"),
        {
            "figure.json": ("pp", "pref", "pref:everywhere"),
            "ifs.json": ("pp", "pref", "pref:least=20", "pref:least=20:fall-back"),
        },
    ),
    "kiter": (
        "A path of `pp` ends where an iteration does: the order of iterations is lost. In "
        "[alternating.json](alternating.json) the iterations of a loop take C and D in turns, in "
        "[grouped.json](grouped.json) first C twice, then D twice. Every edge and every "
        "acyclic path is executed as often in both; only paths over two iterations differ.",
        ("added", "paths executed"),
        {"alternating.json": ("pp", "kiter"), "grouped.json": ("pp", "kiter")},
    ),
    "sampled": (
        "One of so many paths is counted. With `interval=1` all are; with 7 the shares of frequent "
        "paths are about right, and rare ones are missing. `duplicated` samples the same paths in "
        "a second copy of the routine: the first has checks alone, which this page's graph has "
        "many of, as its paths are short.",
        ("added", "paths executed"),
        {
            "figure.json": (
                *("pp", "sampled:interval=1", "sampled:interval=7"),
                "sampled:interval=7:duplicated",
            )
        },
    ),
    "kblpp": (
        "As `kiter`, it distinguishes [alternating.json](alternating.json) and "
        "[grouped.json](grouped.json), whose edges and acyclic paths are executed equally often. "
        "With larger k it counts longer sequences, and the shorter ones still.",
        ("distinct paths", "added", "paths executed"),
        {"alternating.json": ("kiter", "kblpp"), "grouped.json": ("kiter", "kblpp", "kblpp:k=4")},
    ),
    "witness": (
        "All of these traces show every executed block, in order. `bits` and `bytes` write at each "
        "predicate, `block-trace` at each block. `witness` needs no token where only one path "
        "leads to the next one, so that it adds least; its tokens have a byte each, or as few bits "
        "as distinguish the paths.",
        ("added", "bits of the trace", "bits at least"),
        {"figure.json": ("witness", "bits", "bytes", "block-trace")},
    ),
    "wpp": (
        "`pp` counts the same paths where none ends at a call; `wpp` writes them one after the "
        "other, so that their order is known, too. That takes more bits than `witness`, `bits` and "
        "`pap`, which write where control decides and not what became of it. It is for what comes "
        "after: a grammar of the sequence is short, and hot sequences of paths are read off it.",
        ("added", "bits of the trace", "bits at least"),
        {"figure.json": ("wpp", "witness", "bits", "pap", "pp")},
    ),
}
"""By mode: prose, and what the table *Comparison* at the page's end has: columns, graphs, modes."""

STYLE = """
rect.back { fill: #fff } text { text-anchor: middle; fill: #1d232b; paint-order: stroke;
stroke: #fff; stroke-width: 3px; stroke-linejoin: round; font: 13px monospace }
.stop rect { fill: #fff; stroke: #5c6670 } .stop text { stroke: none }
.stop text.does { fill: #7a1fa2 }
.line { fill: none; stroke: #5c6670; stroke-width: 1.4 } polygon { fill: #5c6670 }
.tree .line { stroke: #1d232b; stroke-width: 3.4 } .tree polygon { fill: #1d232b }
.chord .line { stroke: #7a1fa2; stroke-width: 1.8 }
.chord polygon, .chord text { fill: #7a1fa2 } .back .line { stroke-dasharray: 8 3 }
.dummy .line { stroke-dasharray: 3 3; stroke: #0b57a4 }
.dummy polygon, .dummy text { fill: #0b57a4 }
.out .line, .out polygon { opacity: .6 } .out .line { stroke-dasharray: 1 4 }
"""


def lessons() -> dict[str, Lesson]:
    """Return by mode the lesson on the figure."""
    return {
        mode: lesson(analyse_file(FIGURE, AnalysisOptions(mode=mode, scheme=options(mode))))
        for mode in registry.planned_modes()
    }


def options(mode: str) -> SchemeOptions:
    """Return the options with which a mode is shown."""
    return SchemeOptions().having(**OPTIONS.get(mode, {}))


def pictures(made: dict[str, Lesson]) -> Iterator[tuple[str, int, str]]:
    """Yield mode, step and picture, as the browser draws the page."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "page.html")
        file.write_text(render_lessons(list(made.values())))
        with chromium() as browser:
            for number, mode in enumerate(made):
                with opened(browser, file, f"#lesson-{number}") as page:
                    page.locator(f"#lesson-{number} svg").first.wait_for()
                    for step, found in enumerate(page.locator(f"#lesson-{number} svg").all()):
                        yield mode, step, standing_alone(found.evaluate("each => each.outerHTML"))


def standing_alone(svg: str) -> str:
    """Return a picture of the page as a file of its own, white behind it."""
    head, body = svg.split(">", 1)
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    style = "".join(STYLE.split("\n"))
    ground = '<rect class="back" width="100%" height="100%"/>'
    return f"{head}><style>{style}</style>{ground}{body}\n".replace("<g ", "\n<g ")


def slug(title: str) -> str:
    """Return a title as a part of a file's name."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def section(mode: str) -> str:
    """Return the anchor of a mode's section in docs/MODES.md."""
    modes = (generated_files.ROOT / "docs" / "MODES.md").read_text()
    (heading,) = re.findall(rf"^## (.*`{mode}`.*)$", modes, re.MULTILINE)
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def text(mode: str, made: Lesson) -> str:
    """Return a scheme's page."""
    options = "".join(f":{name.replace('_', '-')}" for name in OPTIONS.get(mode, {}))
    command = f"simprof explain docs/schemes/figure.json --mode {mode}{options}"
    deviations = "-".join(CALLS) if mode in CALLS else mode
    what, _, source = registry.definition(mode).description.partition(" (")
    parts = [
        f"# {mode}: {what}",
        (f"{source.removesuffix(')')}. " if source else "")
        + f"[What it counts, costs and loses](../MODES.md#{section(mode)}); "
        f"[deviations from the paper](../DEVIATIONS.md#{deviations}). The graph is "
        f"[figure.json](figure.json); `{command}` prints the same steps.",
    ]
    for number, step in enumerate(made.steps, 1):
        name = f"{mode}-{number}-{slug(step.title)}.svg"
        parts += [f"## {number}. {step.title}", step.text, f"![{step.title}](pictures/{name})"]
        if step.rows:
            parts.append(table(step.head, step.rows))
    if mode in USES:
        prose, columns, compared = USES[mode]
        parts += [f"## {len(made.steps) + 1}. Comparison", prose, uses(columns, compared)]
    return "\n\n".join(parts) + "\n"


def uses(columns: tuple[str, ...], compared: dict[str, tuple[str, ...]]) -> str:
    """Return a table of what modes tell of graphs, and what they cost."""
    rows = []
    for name, modes in compared.items():
        for setting in map(mode_options.read, modes):
            chosen = AnalysisOptions(
                mode=setting.mode, scheme=setting.setting(SchemeOptions()).options
            )
            found = use(analyse_file(FOLDER / name, chosen))
            rows.append((name, setting.name, *(found[column] for column in columns)))
    return table(("graph", "mode", *columns), tuple(rows))


def use(answer: dict[str, Any]) -> dict[str, str]:
    """Return by column what a mode tells of a graph, and what it costs."""
    (routine,) = answer["routines"]
    paths, counters = routine["numbered_paths"], routine["table"]
    if paths is None:
        counters = "one an edge"
    elif counters == "none":
        counters = "none: all obvious"
    executed = (
        f"{each['executions']:,} x {' '.join(each['blocks'])}" for each in answer.get("paths", ())
    )
    return {
        "distinct paths": "-" if paths is None else f"{paths:,}",
        "counters": counters,
        "added": f"{answer['overhead']:.2%}",
        "lost": str(sum((answer.get("lost") or {}).values())),
        "paths executed": "\n".join(sorted(executed)),
        "bits of the trace": f"{answer['sizes'].get('trace_bits', 0):,}",
        "bits at least": f"{answer['sizes'].get('minimal_trace_bits', 0):,}",
    }


def table(head: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    """Return a table; a cell of several lines keeps them."""
    cells = [[code(cell) for cell in row] for row in rows]
    lines = [" | ".join(each or " " for each in head), " | ".join("---" for _ in head)]
    return "\n".join(f"| {line} |" for line in [*lines, *map(" | ".join, cells)])


def code(cell: str) -> str:
    """Return a cell's lines as code."""
    return "<br>".join(f"`{line}`" for line in cell.replace("|", "\\|").split("\n") if line)


def files() -> dict[Path, str]:
    """Return all that this tool writes."""
    made = lessons()
    wanted = {FOLDER / f"{mode}.md": text(mode, each) for mode, each in made.items()}
    for mode, step, picture in pictures(made):
        title = slug(made[mode].steps[step].title)
        wanted[FOLDER / "pictures" / f"{mode}-{step + 1}-{title}.svg"] = picture
    return wanted


def known() -> list[Path]:
    """Return the files that are there."""
    return [*FOLDER.glob("*.md"), *FOLDER.glob("pictures/*.svg")]


if __name__ == "__main__":
    sys.exit(generated_files.run(__doc__, files(), known()))
