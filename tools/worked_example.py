#!/usr/bin/env python3
"""Print the worked example of docs/ARCHITECTURE.md: one routine through all stages, as Markdown.

    tools/worked_example.py            print the section
    tools/worked_example.py --write    put it into docs/ARCHITECTURE.md, between its two marks

Every number and every line of code is what a real run gives (`worked_run`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir
from textwrap import fill

from simprof.profiler.code.codegen import RoutineCode
from simprof.profiler.code.pricing import Pricer
from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import Operation
from simprof.profiler.engine.segments import segment
from simprof.profiler.engine.walk import Cross
from simprof.profiler.reports import run_text
from simprof.profiler.schemes import registry
from simprof.simulator.isa.disassembly import disassemble
from tools.worked_run import COMMAND, ROOT, ROUTINE, Example, follow

DOCUMENT = ROOT / "docs" / "ARCHITECTURE.md"
BEGIN, END = "<!-- worked example: tools/worked_example.py -->", "<!-- end of worked example -->"


def code_block(lines: Iterable[str]) -> Iterator[str]:
    """Lines as a block of code."""
    yield from ["", *(f"    {line}".rstrip() for line in lines), ""]


def table(header: str, rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table; `header` has its columns' titles, separated by bars."""
    yield from ["", f"| {header} |", "|---" * (header.count("|") + 1) + "|"]
    yield from (f"| {' | '.join(map(str, row))} |" for row in rows)
    yield ""


def request_stage(example: Example) -> Iterator[str]:
    """The command line, as a value."""
    request = example.request
    yield "**1. The command line becomes a `RunRequest`** (`profiler/commands/run.py`)."
    yield from code_block([f"simprof {' '.join(COMMAND)}"])
    rows = (
        ("program", request.program),
        ("mode", request.mode),
        ("routines", ", ".join(request.selection.routines)),
        ("scheme", f"weights {request.scheme.weights}, table {request.scheme.table}, "
                   f"path_limit {request.scheme.path_limit:,}"),
        ("guest.memory_limit", f"{request.guest.memory_limit:,} bytes"),
        ("guest.max_instructions", request.guest.max_instructions),
    )  # fmt: skip
    yield from table("field | value", rows)


def program_stage(example: Example) -> Iterator[str]:
    """The file, as a value."""
    program = example.program
    symbol = next(symbol for symbol in program.symbols if symbol.name == ROUTINE)
    code = sum(span.end - span.start for span in program.code)
    yield "**2. The file becomes a `Program`** (`simulator/binary/elf.py`)."
    rows = (
        ("machine", program.machine),
        ("entry", f"{program.entry:#x}"),
        ("code", f"{code:,} bytes in {len(program.code)} range"),
        ("symbols", len(program.symbols)),
        (f"the symbol `{ROUTINE}`", f"{symbol.address:#x}, {symbol.size} bytes"),
    )
    yield from table("field | value", rows)


def graph_stage(example: Example) -> Iterator[str]:
    """The code of the routine, and its graph."""
    cfg, code = example.cfg, example.recovered.code
    yield (
        "**3. Code becomes a `ControlFlowGraph`** (`profiler/recovery/`), one for each of "
        f"{len(example.recovered.routines)} routines. This one has {len(cfg.blocks)} blocks. The "
        "delay slot of the annulled branch is a block of its own."
    )
    lines = []
    for block in cfg.blocks:
        lines.append(f"block {block.id}: {example.name(block.id)}")
        for address in range(block.start, block.end, 4):
            lines.append(
                f"    {address:x}  {disassemble(int(code.words[code.index(address)]), address)}"
            )
    yield from code_block(lines)
    yield from table(
        "edge | from → to | kind | weight",
        (
            (edge.id, example.edge_name(edge.id), edge.kind, f"{example.plan.weights[edge.id]:g}")
            for edge in cfg.edges
        ),
    )


def numbering_stage(example: Example) -> Iterator[str]:
    """The acyclic graph with its numbers, tree and increments."""
    plan = example.plan
    weights = plan.dag.edge_weights(plan.weights)
    removed = ", ".join(example.edge_name(edge) for edge in plan.dag.removed)
    yield (
        "**4. The scheme numbers paths** (`profiler/graphs/`: `dag`, `numbering`, "
        f"`spanning`). The weights above are BL94's guess. The back edge {removed} is replaced by "
        "two dummy edges; `Val` makes the sums along paths the numbers "
        f"0 to {plan.numbering.total - 1}; the chords of a maximum spanning tree take them over "
        "as increments (`Inc`), so that the edges in the tree need no code."
    )
    rows = []
    for edge in plan.dag.edges:
        ends = f"{example.name(edge.source)} → {example.name(edge.target)}"
        dummy = edge.cfg_edge is None
        in_tree = plan.tree.in_tree[edge.id]
        rows.append(
            (
                f"{ends}{' (dummy)' if dummy else ''}",
                f"{weights[edge.id]:g}",
                plan.numbering.values[edge.id],
                "tree" if in_tree else "chord",
                plan.increments.increments[edge.id],
            )
        )
    yield from table("edge of the acyclic graph | weight | Val | | Inc", rows)


def plan_stage(example: Example) -> Iterator[str]:
    """The actions."""
    plan = example.plan.plan
    yield (
        "**5. The scheme makes an `InstrumentationPlan`** (`profiler/plan/placement.py`): actions "
        f"on {len(plan.actions)} of {len(example.cfg.edges)} edges. The {plan.path_counters} path "
        f"counters are an {plan.table}, and the register names one by {plan.addressing}."
    )
    rows = (
        (edge, example.edge_name(edge), f"`{'; '.join(map(str, actions))}`")
        for edge, actions in sorted(plan.actions.items())
    )
    yield from table("edge | from → to | actions", rows)


def code_stage(example: Example, code: RoutineCode) -> Iterator[str]:
    """The SPARC code."""
    yield (
        "**6. Actions become SPARC code** (`profiler/code/`). Liveness gives the path register "
        f"{code.path_register}; the counters begin at {code.layout.path_base:#x}. The *cost* of an "
        "edge is the number of instructions that one crossing executes."
    )
    rows = (
        (
            edge,
            f"`{'; '.join(map(str, snippet.actions))}`",
            f"`{'; '.join(snippet.text)}`",
            snippet.where,
            snippet.cost,
        )
        for edge, snippet in sorted(code.snippets.items())
    )
    yield from table("edge | actions | code | where | cost", rows)


def step_text(step: Operation) -> str:
    """What the kernel does, as text."""
    code, a, b = step
    match code:
        case kernels.BEGIN:
            return f"begin: register = {a}"
        case kernels.SEGMENT:
            return f"count segment register + {a}; register = {b}"
        case _:
            return f"register += {a}"


def engine_stage(example: Example) -> Iterator[str]:
    """What the kernel does on edges, and what it counted."""
    yield (
        "**7. The kernel counts** (`profiler/engine/`). It knows nothing of the plan. On each "
        "activation's register it does what numbers *segments* (`segments.py`):"
    )
    rows = []
    for edge, steps in sorted(segment(example.cfg).steps.items()):
        rows.append((edge, example.edge_name(edge), "; ".join(map(step_text, steps))))
    yield from table("edge | from → to | step", rows)
    first = int(example.execution.index.first_edge[example.routine])
    lines = []
    counts = example.execution.automaton.counts
    native = counts.native
    boundaries = [(each.boundary, count) for each, count in counts.transition_counts()]
    boundaries += [(native.boundary(n), count) for n, count in enumerate(native.taken().tolist())]
    for boundary, count in boundaries:
        edges = [step.edge - first for step in boundary if isinstance(step, Cross)]
        crossed = [edge for edge in edges if 0 <= edge < len(example.cfg.edges)]
        if crossed:
            lines.append((count, example.walk(crossed)))
    yield (
        "Meanwhile it counts how often one translation block follows another (`automaton.py`). "
        f"{len(lines)} of these transitions cross edges of this routine. One translation block may "
        "hold two basic blocks: from 101928 control runs into 10192c without an event, so that the "
        "edge between them is counted with the block, and two transitions lead into the slot: one "
        "from each translation block that ends with the branch."
    )
    yield from table("times | transition crosses", lines)


def counter_stage(example: Example) -> Iterator[str]:
    """Segments, and the counters that follow."""
    products = example.execution.lowering.products
    product = products.product(example.routine)
    assert product is not None
    yield (
        "**8. Segments become counters** (`profiler/engine/products.py`, "
        "`profiler/session/counters.py`). The plan's actions were executed once along each "
        "segment, and what they count is multiplied:"
    )
    rows = []
    for counted in products.segments()[example.routine]:
        edges = product.edges(counted.key)
        actions = [str(a) for edge in edges for a in example.plan.plan.actions.get(edge, ())]
        rows.append((counted.count, counted.key, example.walk(edges), f"`{'; '.join(actions)}`"))
    yield from table("times | key | segment | actions along it", rows)
    values = ", ".join(f"count[{k}] = {v}" for k, v in example.counters.paths.items())
    yield f"`RoutineCounters.paths`: {values}."
    yield ""


def reading_stage(example: Example) -> Iterator[str]:
    """Paths and edges from the counters alone."""
    reading = example.plan.read(example.counters)
    assert reading.edges == example.edges
    yield (
        "**9. The scheme reads its counters** (`PathPlan.read`): paths by number, and from them, "
        "alone, a count for each edge. `check_reading` in `profiler/session/counters.py` compares "
        "these with what the automaton saw: a difference is a defect of simprof, and an error."
    )
    rows = []
    for path, count in reading.paths.items():
        blocks = " → ".join(example.name(block) for block in example.plan.decode(path).blocks)
        rows.append((path, blocks, count))
    yield from table("path | blocks | count", rows)
    counts = ", ".join(f"{edge}: {count}" for edge, count in enumerate(reading.edges))
    yield f"Edge counts: {counts}."
    yield ""


def measurement_stage(example: Example, code: RoutineCode) -> Iterator[str]:
    """The price, and the report."""
    measurement = example.measurement
    terms = [
        f"{example.edges[edge]}*{snippet.cost}" for edge, snippet in sorted(code.snippets.items())
    ]
    total = sum(example.edges[edge] * s.cost for edge, s in code.snippets.items())
    assert total == measurement.added
    yield (
        "**10. Counts become a `RunMeasurement`** (`profiler/code/pricing.py`, "
        f"`profiler/session/results.py`): *added* is `{' + '.join(terms)} = {total}` instructions, "
        "crossings times costs. `profiler/reports/run_text.py` prints it:"
    )
    report = run_text.render(measurement, top=1, details=True).splitlines()
    start = next(n for n, line in enumerate(report) if line.startswith("Routines by"))
    yield from code_block([*report[:6], "...", *report[start : start + 3]])


def section() -> str:
    """Return the section."""
    with chdir(ROOT):
        example = follow()
        context = example.observation.contexts.of(example.routine)
        pricer = Pricer(registry.generators("pp"))
        code = pricer.code(example.cfg, example.plan.plan, example.plan.weights, context)
        parts = [
            *request_stage(example),
            *program_stage(example),
            *graph_stage(example),
            *numbering_stage(example),
            *plan_stage(example),
            *code_stage(example, code),
            *engine_stage(example),
            *counter_stage(example),
            *reading_stage(example),
            *measurement_stage(example, code),
        ]
    lines = "\n".join(
        part if part.startswith((" ", "|")) or not part else fill(part, 100) for part in parts
    )
    single = lines.replace("\n\n\n", "\n\n").strip()
    return f"\n{single}\n\n"


def main(arguments: Sequence[str]) -> int:
    """Print the section, or put it into the document."""
    if list(arguments) == ["--write"]:
        before, rest = DOCUMENT.read_text().split(f"{BEGIN}\n")
        after = rest.split(END)[1]
        DOCUMENT.write_text(f"{before}{BEGIN}\n{section()}{END}{after}")
    else:
        sys.stdout.write(section())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
