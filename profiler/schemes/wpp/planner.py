"""`wpp`: whole program paths (after Larus, PLDI 1999).

The program writes the *symbol* of every acyclic path that it executes, so that the trace is all of
its paths in the order in which they end. A symbol is a number of the path among those of all
routines. A reader counts symbols, which gives the path profile of `pp` and all edge counts, and
compresses their sequence to a grammar (`trace.sequitur`), the whole program path.

The paper's text was not at hand. Assumed: paths end at back edges and, so that the trace has the
order of the program, at calls. Here a path that ends at a call is written before the call, on the
edges into the block that calls. A loop of one block writes a symbol a turn.

Terms: see `Dag`, `PathNumbering`, `SpanningTree`, `Placement`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from msgspec.structs import asdict, replace

from simprof import schemes as s
from simprof.profiler.schemes.tracing.code import (
    STREAM,
    TRACE,
    begin_append,
    byte_flush_routine,
    end_append,
    flush_name,
    run_cost,
    set_symbol,
)
from simprof.schemes import asm, shapes

# -- Actions


class WritePath(s.CountPath, frozen=True):
    """`trace path r + constant`: a path ends, and its symbol is appended to the trace."""

    def __str__(self) -> str:
        return f"trace path[{s.register_sum(self.constant)}]"


class WriteConstantPath(s.CountConstantPath, frozen=True):
    """`trace path constant`: a path known without the register ends."""

    def __str__(self) -> str:
        return f"trace path[{self.constant}]"


# -- Code
#
# A symbol is a word: the routine's first number in the program plus the path's. A path that the
# register tells: `sethi; ld; sethi; or; add; st; add; st`, and two or three instructions that test
# the position; one without `add` less where the path is known. Buffer and flush are those of
# traces (`tracing.code`).

_VALUE, _PATH = 3, 4  # Temporaries behind those of `begin_append`


def _needs(action: s.Action, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    return s.Needs(
        path=isinstance(action, WritePath),
        clobbers=(s.Register.O7,),
        conditions=machine is s.MachineKind.SPARCV8,
    )


def write_path(writer: s.Writer, action: WritePath | WriteConstantPath) -> None:
    """Append the symbol of the path that ends."""
    end, position = begin_append(writer)
    value = writer.temporary(_VALUE)
    set_symbol(writer, action.constant, value)
    if isinstance(action, WritePath):
        writer.emit(asm.arithmetic("add", value, writer.fetch(0, _PATH), value))
    writer.emit(
        asm.store("st", value, end, position),
        asm.arithmetic("add", position, s.SYMBOL_BITS // 8, position),
    )
    end_append(writer, flush_name(packed=False))


GENERATORS: s.Generators = {
    kind: s.Generator(write_path, _needs, shapes.same) for kind in (WritePath, WriteConstantPath)
}

CODE = s.SchemeCode(
    generators=GENERATORS,
    routines=(byte_flush_routine,),
    run_cost=run_cost,
    stream=STREAM,
)


# -- Plan

# Paths of a routine beyond which it is cut in any case: symbols of 65,536 routines fit a word.
MOST_PATHS = 1 << 16


class WholePathPlan(s.PathPlan, frozen=True, kw_only=True):
    """Instrumentation of one routine that writes its paths to the trace."""

    @property
    def split_edges(self) -> tuple[int, ...]:
        """Edges at which paths end: those that return from calls and self-loops, too."""
        return self.dag.removed

    def validate(self) -> None:
        """Check every structure; AssertionError if one is wrong."""
        super().validate()
        assert self.num_paths <= MOST_PATHS, "symbols may not fit a word"
        ends = {edge.id for edge in self.cfg.edges if edge.kind is s.EdgeKind.CALL_RETURN}
        live = {edge for edge in ends if self.cfg.edges[edge].source in self.dag.dfs.reached}
        assert live <= set(self.dag.removed), "a path does not end at a call"
        counted = [a for group in self.plan.actions.values() for a in group]
        assert not any(type(a) in (s.CountPath, s.CountConstantPath) for a in counted), (
            "a path is counted and not written"
        )


def plan_wpp(
    cfg: s.ControlFlowGraph,
    *,
    weights: Sequence[float] | None = None,
    path_limit: int | None = s.PATH_LIMIT,
) -> WholePathPlan:
    """Plan a trace of acyclic paths; parameters as for `plan_paths`."""
    dfs = s.depth_first(cfg)
    calls = [edge for edge in cfg.edges if edge.kind is s.EdgeKind.CALL_RETURN]
    cuts = {edge.id for edge in calls if edge.source in dfs.reached}
    made = s.plan_paths(
        cfg,
        weights=weights,
        path_limit=MOST_PATHS if path_limit is None else min(path_limit, MOST_PATHS),
        cuts=cuts - dfs.back_edges - dfs.self_loops,
        merged=dfs.self_loops,
        table=s.CounterTable.STREAM,
        placing=partial(_place, {edge.source for edge in calls}),
    )
    written = s.BufferUse(TRACE, (), (made.numbering.total,))
    return WholePathPlan(**asdict(made) | {"plan": replace(made.plan, buffers=(written,))})


def _place(
    callers: Collection[int], paths: s.NumberedPaths, open_edges: Sequence[int]
) -> s.Placement:
    """Place the code that writes paths; `callers`: the blocks that call."""
    dag, counted = paths.dag, tuple(sorted(open_edges))
    steps = _steps(dag, paths.tree, paths.increments.increments, _callers(dag, callers))
    actions = {
        edge: tuple(map(_written, group)) for edge, group in s.step_actions(dag, steps).items()
    }
    placed = s.with_edge_counters(actions, counted)
    return s.Placement(placed, steps.static_region, steps.counted_region, counted)


def _callers(dag: s.Dag, sources: Collection[int]) -> Mapping[int, int]:
    """Return the blocks that all paths through end in as they call, each with its edge to EXIT."""
    out = {vertex: dag.out_edges[vertex] for vertex in sorted(sources)}
    return {v: edges[0] for v, edges in out.items() if len(edges) == 1 and dag.stood_for(edges[0])}


def _steps(
    dag: s.Dag, tree: s.SpanningTree, increments: Sequence[int], callers: Mapping[int, int]
) -> s.RegisterSteps:
    """Choose the edges that set the register, and those that write the path: see the module."""
    # Figure 8 of EPP would move counts up, past calls or not, as the tree has it. Here a path is
    # written where it ends, or right before the block that calls.
    everywhere = s.Detours(leaves=frozenset(range(dag.vertex_count)))
    steps = s.choose_steps(dag, tree, increments, everywhere)
    added, initial, final = list(increments), set(steps.initial), set(steps.final)
    for vertex, leaving in callers.items():
        known = vertex in steps.static_region  # one way leads there from ENTRY
        for edge in dag.in_edges[vertex]:
            added[edge] += added[leaving]
            final.add(edge)
            if known:
                initial.add(edge)
    for leaving in callers.values():
        added[leaving] = 0
        initial.discard(leaving)
        final.discard(leaving)
    return replace(
        steps,
        increments=added,
        initial=frozenset(initial),
        final=frozenset(final),
        static_region=steps.static_region - callers.keys(),
        counted_region=steps.counted_region | callers.keys(),
    )


def _written(action: s.Action) -> s.Action:
    if isinstance(action, s.CountPath):
        return WritePath(action.constant)
    if isinstance(action, s.CountConstantPath):
        return WriteConstantPath(action.constant)
    return action
