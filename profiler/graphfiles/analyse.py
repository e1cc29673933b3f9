"""`simprof explain`: a scheme applied to a graph file, as one JSON-ready object.

The fields of the object: docs/SEMANTICS.md, graph files.

Steps: `formats.load` reads the file; `edge_weights` and `edge_profile` find what guides the scheme;
`registry` applies the scheme; `execution.execute` runs the plan's actions on the file's
runs; the profile is then derived from the counters alone, as for a program. `answer` puts
the answer together, and the part that no run is needed for.

Edge weights, and `tpp`'s edge profile, come from a saved profile, the file's runs or the *file's
weights*: those that its edges carry. ENTRY and EXIT edges, which a file cannot name, get what the
flow law gives them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.code.hash_routine import hash_costs
from simprof.profiler.graphfiles.answer import GraphRun, describe, run_object
from simprof.profiler.graphfiles.execution import MACHINE, execute, price
from simprof.profiler.graphfiles.formats import load
from simprof.profiler.graphfiles.reader import GraphDocument, read_file
from simprof.profiler.graphs import flow
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import SuccessorOrder
from simprof.profiler.graphs.paths import PathPiece
from simprof.profiler.graphs.spanning import estimate
from simprof.profiler.plan import interpret
from simprof.profiler.plan.decoders import Plan, Reading, check_shape, defect_of, path_counts
from simprof.profiler.profiles.codec import parse_json
from simprof.profiler.profiles.measures import Attribution, attribute
from simprof.profiler.profiles.profile import PathCount
from simprof.profiler.profiles.tables import path_blocks
from simprof.profiler.request.errors import CountError, ProfileMismatchError
from simprof.profiler.request.request import DEFAULT_MODE, SchemeOptions
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import ProfileKind, plain
from simprof.simulator.errors import UsageError

Number = TypeVar("Number", int, float)

# Counts of an edge profile are at most this, so that shares of them are finite.
GREATEST_COUNT = 10**300


def edge_weights(document: GraphDocument, wanted: Weights | None) -> tuple[float, ...] | None:
    """Return weights by edge id; `wanted`: None for the file's own, completed by the heuristic's.

    None where nothing was asked for and the file has none: the scheme's own choice.
    """
    cfg = document.cfg
    if wanted is None and all(weight is None for weight in document.weights):
        return None
    weights = list(map(float, estimate(cfg, wanted or Weights.HEURISTIC)))
    if wanted is None:
        for edge, weight in enumerate(document.weights):
            weights[edge] = weights[edge] if weight is None else float(weight)
        _close(cfg, weights)
    return tuple(weights)


def edge_profile(document: GraphDocument, file: Path | None) -> tuple[int, ...]:
    """Return the edge profile that guides `tpp`, by edge id.

    `file`: An answer of `simprof explain --json` whose counts are used; None for those of the
    graph's own runs, or, if it has none but edges with weights, these in proportion. Raises
    ProfileMismatchError if the file holds no edge counts of this graph.
    """
    if file is not None:
        return _saved_profile(document, file)
    if document.walks or all(weight is None for weight in document.weights):
        return crossings(document)
    values = [Fraction(weight or 0) for weight in document.weights]
    scale = lcm(*(value.denominator for value in values))
    scale = min(scale, max(GREATEST_COUNT // int(sum(values) + 1), 1))
    counts = [int(value * scale) for value in values] + [scale, scale]
    _close(document.cfg, counts)
    return tuple(counts)


def path_profile(
    document: GraphDocument, file: Path | None, scheme: SchemeOptions
) -> Mapping[PathPiece, int]:
    """Return the path profile that guides `pref`, by blocks and edges of each path.

    `file`: An answer of `simprof explain --json` whose paths are used; None for those of the
    graph's own runs. Raises ProfileMismatchError if the file holds no paths of this graph.
    """
    cfg = document.cfg
    if file is not None:
        ids = {str(cfg.name_of(block.id)): block.id for block in cfg.blocks}
        return dict(_saved_paths(cfg, ids, file, _saved_answer(document, file).get("paths")))
    plan = registry.make_plan(cfg, registry.PATH_PROFILER, scheme)
    return path_counts(plan, interpret.execute(cfg, plan.plan, document.walks))


def _saved_paths(
    cfg: ControlFlowGraph, ids: Mapping[str, int], file: Path, rows: Any
) -> Iterator[tuple[PathPiece, int]]:
    """Yield the finished paths of an answer."""
    if not isinstance(rows, list):
        raise ProfileMismatchError(f"{file}: has no paths of {cfg.name!r}: make it with --mode pp")
    for row in (row for row in rows if not row["partial"]):
        # the answer has the edges between blocks, and says where else the path begins and ends
        blocks = tuple(ids[name] for name in row["blocks"])
        outer = ((cfg.entry, blocks[0], "entry"), (blocks[-1], cfg.exit, "exit"))
        first, last = (
            [e.id for e in cfg.edges if (e.source, e.target) == (source, target)][:1]
            if how in (row["start"], row["end"])
            else []
            for source, target, how in outer
        )
        yield (blocks, (*first, *row["edges"], *last)), row["count"]


def crossings(document: GraphDocument) -> tuple[int, ...]:
    """How often the graph's runs cross each edge."""
    counts = [0] * len(document.cfg.edges)
    for walk in document.walks:
        for edge in walk.edges:
            counts[edge] += walk.count
    return tuple(counts)


def _close(cfg: ControlFlowGraph, flow: list[Number]) -> None:
    """Give the ENTRY and the EXIT edge, which are last, what the flow law gives them."""
    # Where both are at one block only their difference is known: what they have is kept.
    nothing = flow[0] * 0
    balance = [nothing] * cfg.vertex_count
    entry_edge, exit_edge = cfg.edges[-2:]
    for edge in cfg.edges[:-2]:
        balance[edge.source] += flow[edge.id]
        balance[edge.target] -= flow[edge.id]
    if entry_edge.target != exit_edge.source:
        flow[entry_edge.id] = max(balance[entry_edge.target], nothing)
        flow[exit_edge.id] = max(-balance[exit_edge.source], nothing)


def _saved_profile(document: GraphDocument, file: Path) -> tuple[int, ...]:
    """Return the edge counts of the answer about this graph."""
    counts = [edge.get("executions") for edge in _saved_answer(document, file)["edges"]]
    if all(type(count) is int and 0 <= count <= GREATEST_COUNT for count in counts):
        return tuple(counts)
    raise ProfileMismatchError(
        f"{file}: has no whole edge counts of {document.cfg.name!r}: make the profile with a mode "
        "that counts edges"
    )


def _saved_answer(document: GraphDocument, file: Path) -> Mapping[str, Any]:
    """Find the answer about this graph among the lines of `file`."""
    cfg = document.cfg
    wanted = [(str(cfg.name_of(edge.source)), str(cfg.name_of(edge.target))) for edge in cfg.edges]
    try:
        answers = [parse_json(line) for line in read_file(file).splitlines() if line.strip()]
    except (ValueError, RecursionError):
        answers = []
    for answer in answers:
        edges = answer.get("edges") if isinstance(answer, Mapping) else None
        if not isinstance(edges, list) or not all(isinstance(edge, Mapping) for edge in edges):
            continue
        if [(edge.get("source"), edge.get("target")) for edge in edges] == wanted:
            assert isinstance(answer, Mapping)
            return answer
    raise ProfileMismatchError(
        f"{file}: is not an edge profile of the graph {cfg.name!r}: make one with "
        "`simprof explain --json`"
    )


ENUMERATION_LIMIT = 100_000  # Paths: an answer of some seconds
# Blocks that enumerated paths may have together: an answer of some seconds, and tens of megabytes.
LISTED_BLOCKS_LIMIT = 2_000_000


class AnalysisOptions(Struct, frozen=True):
    """What the user asks of `simprof explain`."""

    mode: str = DEFAULT_MODE  # Any that instruments
    enumerate: bool = False  # List every potential path (modes that count paths)
    weights: Weights | None = None  # None for the file's own, completed by the heuristic's
    # What shapes the instrumentation. Its `weights` are not read; its `edge_profile` is an answer
    # of `simprof explain`, see `edge_profile`.
    scheme: SchemeOptions = field(default_factory=SchemeOptions)
    order: SuccessorOrder = SuccessorOrder.FEWEST  # or FILE


DEFAULT_OPTIONS = AnalysisOptions()


def analyse_file(path: Path, options: AnalysisOptions = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Return the answer for the graph file `path`; see `analyse`."""
    return analyse(load(path), options)


def analyse(document: GraphDocument, options: AnalysisOptions = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Apply a scheme to a graph and its runs.

    Return the run object with block names in place of addresses, `static`, and `all_paths` if asked
    for. Raises UsageError if the options do not fit the graph, CountError or FlowError if counts
    contradict each other: defects of simprof.
    """
    if (use := options.scheme.given("registers")) is not None:
        raise UsageError(
            f"{document.file}: registers={use} has no effect on graphs, whose code has every "
            "register free: leave it out"
        )
    if options.order is SuccessorOrder.FILE:
        document = replace(document, cfg=replace(document.cfg, ordered=True))
    run = _run(document, options)
    answer = run_object(document, run, _options(options))
    answer["warnings"] += run.definition.notes(options.scheme, (document.cfg,))
    answer["static"] = describe(run)
    if options.enumerate:
        answer["all_paths"] = _all_paths(document, run.plan)
    return answer


def _run(document: GraphDocument, options: AnalysisOptions) -> GraphRun:
    cfg = document.cfg
    plan = _plan(document, options)
    if options.enumerate:
        _check_enumeration(document, options, plan)
    definition = registry.definition(options.mode)
    code = price(plan, registry.pricer(options.mode, options.scheme))
    costs = hash_costs(MACHINE, plan.plan.key_words)
    counters = execute(cfg, plan.plan, document.walks, costs, definition.code().table)
    crossed = crossings(document)
    reading = plan.read(counters)
    check_shape(plan, options.mode, reading)
    if not definition.estimates:
        _check(document, options, plan, reading, crossed)
    activations = sum(walk.count for walk in document.walks)
    flow.check(cfg, crossed, counters.early, activations)
    judged = _attribution(document, options, plan, reading)
    return GraphRun(definition, depth_first(cfg), plan, code, counters, reading, crossed, judged)


def _attribution(
    document: GraphDocument, options: AnalysisOptions, plan: Plan, reading: Reading
) -> Attribution | None:
    """Judge a path profile by the scheme that its definition names; None where that is none."""
    judge = registry.definition(options.mode).judged_by
    if judge is None or judge not in registry.planned_modes():
        return None
    exact = _plan(document, replace(options, mode=judge))
    truth = exact.read(interpret.execute(document.cfg, exact.plan, document.walks))
    return attribute(exact, truth, plan, reading).attribution


def _check(
    document: GraphDocument,
    options: AnalysisOptions,
    plan: Plan,
    reading: Reading,
    crossed: Sequence[int],
) -> None:
    blocks = zip(reading.blocks or (), flow.block_counts(document.cfg, crossed), strict=False)
    edges = zip(reading.edges or (), crossed, strict=False)
    wrong_edges = any(counted not in (None, count) for counted, count in edges)
    if wrong_edges or any(counted not in (None, count) for counted, count in blocks):
        what = "edges" if wrong_edges else "blocks"
        raise CountError(
            f"{document.file}: {options.mode} counts {what} wrongly: this is a defect of "
            f"{defect_of(plan)} the graph"
        )


def _plan(document: GraphDocument, options: AnalysisOptions) -> Plan:
    definition = registry.definition(options.mode)
    if not definition.instruments:
        modes = ", ".join(registry.planned_modes())
        raise UsageError(f"{options.mode} adds nothing to a graph; use one of {modes}")
    if registry.beginning(options.mode, options.scheme):
        raise UsageError(
            f"{options.mode}: a graph's runs have no order, and so no beginning that could guide it"
        )
    weights, saved = edge_weights(document, options.weights), options.scheme.edge_profile
    kind, edges, paths = definition.guided, None, None
    if kind is ProfileKind.EDGES:
        edges = edge_profile(document, saved)
    elif kind is ProfileKind.PATHS:
        paths = path_profile(document, saved, options.scheme)
    plan = registry.make_plan(document.cfg, options.mode, options.scheme, weights, edges, paths)
    if plan.plan.addresses:
        raise UsageError(f"{options.mode}:addresses: a graph's blocks refer to no data")
    return plan


def _options(options: AnalysisOptions) -> dict[str, Any]:
    scheme, definition = options.scheme, registry.definition(options.mode)
    profile = None if scheme.edge_profile is None else str(scheme.edge_profile)
    return {
        "path_limit": scheme.path_limit,
        "weights": None if options.weights is None else str(options.weights),
        "table": str(scheme.table),
        **{option.name: plain(option.of(scheme)) for option in definition.options.declared},
        **({"edge_profile": profile} if definition.guided else {}),
        **({"order": str(options.order)} if options.order is SuccessorOrder.FILE else {}),
    }


def _check_enumeration(document: GraphDocument, options: AnalysisOptions, plan: Plan) -> None:
    """Refuse to list the paths of plans that have none, or too many to write down."""
    if not registry.definition(options.mode).counts_paths:
        modes = ", ".join(registry.path_modes())
        raise UsageError(f"{document.file}: --enumerate lists paths; use it with --mode {modes}")
    if plan.num_paths > ENUMERATION_LIMIT:
        raise UsageError(
            f"{document.file}: {plan.num_paths} paths are too many to enumerate "
            f"(limit {ENUMERATION_LIMIT}); lower --path-limit"
        )
    blocks = plan.blocks_of_all_paths
    if blocks is not None:
        _check_blocks(document, plan, blocks, str(blocks))


def _check_blocks(document: GraphDocument, plan: Plan, blocks: int, size: str) -> None:
    if blocks > LISTED_BLOCKS_LIMIT:
        raise UsageError(
            f"{document.file}: {plan.num_paths} paths of {size} blocks in all are too much to "
            f"enumerate (limit {LISTED_BLOCKS_LIMIT} blocks); lower --path-limit"
        )


def _all_paths(document: GraphDocument, plan: Plan) -> list[dict[str, Any]]:
    listed, blocks = [], 0
    for path_id, record in plan.numbered_paths():
        blocks += len(record.blocks)
        _check_blocks(document, plan, blocks, f"more than {LISTED_BLOCKS_LIMIT}")
        edges = record.inner_edges(document.cfg)
        path = PathCount.of(document.cfg, record, path_id, 0, edges, inferred=False)
        names = [str(name) for name in path_blocks(path)]
        bounds = {"start": str(record.start), "end": str(record.end)}
        listed.append({"path": path_id, **bounds, "blocks": names, "edges": list(edges)})
    return listed
