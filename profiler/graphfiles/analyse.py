"""`simprof graph`: a scheme applied to a graph file, as one JSON-ready object.

The fields of the object: docs/SEMANTICS.md, graph files.

Steps: `formats.load` reads the file; `inputs` finds weights and edge profile;
`registry` applies the scheme; `execution.execute` runs the plan's actions on the file's
runs; the profile is then derived from the counters alone, as for a program. `answer` puts
the answer together, `static` the part that no run is needed for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from simprof.profiler.graphfiles import inputs, static
from simprof.profiler.graphfiles.answer import GraphRun, path_object, run_object
from simprof.profiler.graphfiles.execution import execute
from simprof.profiler.graphfiles.formats import load
from simprof.profiler.graphfiles.pricing import price
from simprof.profiler.graphfiles.reader import GraphDocument
from simprof.profiler.graphs import flow
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan import interpret
from simprof.profiler.plan.decoders import (
    PathDecoder,
    Reading,
    RoutinePlan,
    check_shape,
    defect_of,
)
from simprof.profiler.profiles.accuracy import Attribution, SplittingDecoder, attribute
from simprof.profiler.request.errors import CountError
from simprof.profiler.request.request import DEFAULT_MODE, SchemeOptions, Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import plain
from simprof.simulator.errors import UsageError

ENUMERATION_LIMIT = 1_000_000
LISTED_BLOCKS_LIMIT = 50_000_000
"""Blocks that enumerated paths may have together: an answer that fits memory."""


DEFAULT_SCHEME = SchemeOptions()


@dataclass(frozen=True)
class GraphOptions:
    """What the user asks of `simprof graph`.

    Attributes
    ----------
    mode
        Any that instruments.
    enumerate
        List every potential path (modes that count paths).
    weights
        None for the file's own, completed by the heuristic's.
    scheme
        What shapes the instrumentation. Its `weights` are not read; its `edge_profile` is an
        answer of `simprof graph`, see `inputs.edge_profile`.
    """

    mode: str = DEFAULT_MODE
    enumerate: bool = False
    weights: Weights | None = None
    scheme: SchemeOptions = DEFAULT_SCHEME


DEFAULT_OPTIONS = GraphOptions()


def analyse_file(path: Path, options: GraphOptions = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Return the answer for the graph file `path`; see `analyse`."""
    return analyse(load(path), options)


def analyse(document: GraphDocument, options: GraphOptions = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Apply a scheme to a graph and its runs.

    Parameters
    ----------
    document, options
        The graph and what to do with it.

    Returns
    -------
    dict
        The run object with block names in place of addresses, `static`, and `all_paths` if
        asked for.

    Raises
    ------
    UsageError
        If the options do not fit the graph.
    CountError, FlowError
        If counts contradict each other: defects of simprof.
    """
    run = _run(document, options)
    answer = run_object(document, run, _options(options))
    answer["static"] = static.describe(run)
    if options.enumerate:
        answer["all_paths"] = _all_paths(document, cast(PathDecoder, run.plan))
    return answer


def _run(document: GraphDocument, options: GraphOptions) -> GraphRun:
    """Plan, execute and read."""
    cfg = document.cfg
    plan = _plan(document, options)
    if options.enumerate:
        _check_enumeration(document, options, plan)
    definition = registry.definition(options.mode)
    prices = price(cfg, plan.plan, registry.generators(options.mode))
    counters = execute(cfg, plan.plan, document.walks, prices.hash_costs)
    crossed = inputs.crossings(document)
    reading = plan.read(counters)
    check_shape(plan, options.mode, reading)
    _check(document, options, plan, reading, crossed)
    flow.check(cfg, crossed, activations=sum(walk.count for walk in document.walks))
    judged = _attribution(document, options, plan, reading)
    return GraphRun(definition, depth_first(cfg), plan, prices, counters, reading, crossed, judged)


def _attribution(
    document: GraphDocument, options: GraphOptions, plan: RoutinePlan, reading: Reading
) -> Attribution | None:
    """Judge a path profile by the scheme that its definition names; None where that is none."""
    judge = registry.definition(options.mode).judged_by
    if judge is None or judge not in registry.planned_modes():
        return None
    exact = cast(PathDecoder, _plan(document, replace(options, mode=judge)))
    truth = exact.read(interpret.execute(document.cfg, exact.plan, document.walks))
    return attribute(exact, truth, cast(SplittingDecoder, plan), reading)


def _check(
    document: GraphDocument,
    options: GraphOptions,
    plan: RoutinePlan,
    reading: Reading,
    crossed: Sequence[int],
) -> None:
    """Compare what the scheme derives with what the runs did."""
    executed = flow.block_counts(document.cfg, crossed)
    wrong_edges = reading.edges is not None and tuple(reading.edges) != tuple(crossed)
    wrong_blocks = any(
        counted not in (None, count)
        for counted, count in zip(reading.blocks or (), executed, strict=False)
    )
    if wrong_edges or wrong_blocks:
        what = "edges" if wrong_edges else "blocks"
        raise CountError(
            f"{document.file}: {options.mode} counts {what} wrongly: this is a defect of "
            f"{defect_of(plan)} the graph"
        )


def _plan(document: GraphDocument, options: GraphOptions) -> RoutinePlan:
    definition = registry.definition(options.mode)
    if not definition.instruments:
        modes = ", ".join(registry.planned_modes())
        raise UsageError(f"{options.mode} adds nothing to a graph; use one of {modes}")
    weights = inputs.edge_weights(document, options.weights)
    profile = None
    if definition.guided:
        profile = inputs.edge_profile(document, options.scheme.edge_profile)
    return registry.make_plan(document.cfg, options.mode, options.scheme, weights, profile)


def _options(options: GraphOptions) -> dict[str, Any]:
    """Return the options that the mode looks at."""
    scheme = options.scheme
    profile = scheme.edge_profile
    shown: dict[str, Any] = {
        "path_limit": scheme.path_limit,
        "weights": None if options.weights is None else str(options.weights),
        "table": str(scheme.table),
    }
    definition = registry.definition(options.mode)
    shown |= {option.name: plain(option.of(scheme)) for option in definition.options}
    if definition.guided:
        shown["edge_profile"] = None if profile is None else str(profile)
    return shown


def _check_enumeration(
    document: GraphDocument, options: GraphOptions, plan: RoutinePlan
) -> PathDecoder:
    """Refuse to list the paths of plans that have none, or too many to write down."""
    if not registry.definition(options.mode).counts_paths:
        modes = ", ".join(registry.path_modes())
        raise UsageError(f"{document.file}: --enumerate lists paths; use it with --mode {modes}")
    decoder = cast(PathDecoder, plan)
    if decoder.num_paths > ENUMERATION_LIMIT:
        raise UsageError(
            f"{document.file}: {decoder.num_paths} paths are too many to enumerate "
            f"(limit {ENUMERATION_LIMIT}); lower --path-limit"
        )
    blocks = decoder.blocks_of_all_paths
    if blocks is not None:
        _check_blocks(document, decoder, blocks, str(blocks))
    return decoder


def _check_blocks(document: GraphDocument, plan: PathDecoder, blocks: int, size: str) -> None:
    if blocks > LISTED_BLOCKS_LIMIT:
        raise UsageError(
            f"{document.file}: {plan.num_paths} paths of {size} blocks in all are too much to "
            f"enumerate (limit {LISTED_BLOCKS_LIMIT} blocks); lower --path-limit"
        )


def _all_paths(document: GraphDocument, plan: PathDecoder) -> list[dict[str, Any]]:
    listed = []
    blocks = 0
    for path_id, record in plan.numbered_paths():
        blocks += len(record.blocks)
        _check_blocks(document, plan, blocks, f"more than {LISTED_BLOCKS_LIMIT}")
        path = path_object(document.cfg, path_id, record)
        listed.append({key: path[key] for key in ("id", "blocks", "edges")})
    return listed
