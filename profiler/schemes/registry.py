"""Every scheme by its mode: simprof's own, and those that installed distributions bring.

The only module that names concrete schemes. Distributions bring theirs through the entry point
group `simprof.schemes`: an entry is named as its mode and leads to a `SchemeDefinition`. What is
wrong with one of them concerns its mode only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes.bittrace import BITTRACE, FIFO
from simprof.profiler.schemes.cs6120 import CALLS, CALLS_OPTIMAL, NAIVE
from simprof.profiler.schemes.definition import (
    PlanOrder,
    ProfileKind,
    SchemeDefinition,
    StateScope,
)
from simprof.profiler.schemes.kblpp import KBLPP
from simprof.profiler.schemes.kiter import KITER
from simprof.profiler.schemes.options import LAYOUT, SchemeOption
from simprof.profiler.schemes.others import (
    BrokenScheme,
    distribution_of,
    load,
    may_be_brought,
    try_out,
)
from simprof.profiler.schemes.pap import PAP
from simprof.profiler.schemes.pp import PP
from simprof.profiler.schemes.ppp import PPP
from simprof.profiler.schemes.pref import PREF
from simprof.profiler.schemes.qpt import QPT, QPT2
from simprof.profiler.schemes.sampling import PEP, SAMPLED
from simprof.profiler.schemes.tpp import TPP
from simprof.profiler.schemes.tracing import BITS, BLOCK_TRACE, BYTES, WITNESS
from simprof.profiler.schemes.wpp import WPP
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from simprof.profiler.code.pricing import Pricer
    from simprof.profiler.code.snippet_parts import Generators
    from simprof.profiler.graphs.cfg import ControlFlowGraph
    from simprof.profiler.graphs.paths import PathPiece
    from simprof.profiler.plan.decoders import Plan

GROUP = "simprof.schemes"  # Entry point group of other distributions' schemes

# The mode whose paths guide schemes that a path profile of the same run guides.
PATH_PROFILER = "pp"

NO_CONTEXTS = "what its run-time routine executes is not known by calling context"

# No scheme: the counts that every run has.
EDGES = SchemeDefinition(
    mode="edges", description="edges, counted by the emulator: no instrumentation", plan=None
)

# simprof's own, in the order of reports.
OWN = (
    *(PP, QPT2, QPT, WITNESS, BITS, BYTES, BLOCK_TRACE, BITTRACE, FIFO, TPP, PPP, PREF, KITER),
    *(KBLPP, WPP, PAP, SAMPLED, PEP),
    *(NAIVE, CALLS, CALLS_OPTIMAL, EDGES),
)


@cache
def schemes() -> Mapping[str, SchemeDefinition | BrokenScheme]:
    """Return all schemes by mode: simprof's own, then others by name."""
    known: dict[str, SchemeDefinition | BrokenScheme] = {own.mode: own for own in OWN}
    owners = dict.fromkeys(known, "simprof")
    taken = {option.name: option for own in OWN for option in own.options.declared}
    for entry in _entries():
        source = distribution_of(entry)
        if entry.name in known:
            rival = owners[entry.name]
            reason = f"{source} names a mode that {rival} has already: remove one of them"
            known[entry.name] = BrokenScheme(entry.name, f"mode {entry.name}: {reason}")
            continue
        owners[entry.name] = source
        scheme = load(entry, taken)
        known[entry.name] = scheme
        if isinstance(scheme, SchemeDefinition):
            taken |= {option.name: option for option in scheme.options.declared}
    return MappingProxyType(known)


def _entries() -> list[EntryPoint]:
    if not may_be_brought(GROUP):
        return []
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def home(mode: str) -> str | None:
    """Return the module that the scheme of `mode` comes from, None if it instruments nothing.

    UsageError if it is of another distribution and cannot be used.
    """
    own = next((scheme for scheme in OWN if scheme.mode == mode), None)
    if (own or definition(mode)).plan is None:
        return None
    if own is not None:
        return own.plan.__module__  # its definition stands beside it
    return next(entry.module for entry in _entries() if entry.name == mode)


@cache
def brought() -> tuple[str, ...]:
    """Return what tells the versions of other distributions' schemes apart, one text each."""
    return tuple(f"{entry.name} {entry.value} {distribution_of(entry)}" for entry in _entries())


def brought_modes() -> tuple[str, ...]:
    """Return the modes of other distributions' schemes that can be used."""
    own = {scheme.mode for scheme in OWN}
    return tuple(scheme.mode for scheme in definitions() if scheme.mode not in own)


def tried_modes(by_context: bool = False) -> tuple[tuple[str, ...], tuple[BrokenScheme, ...]]:
    """Return the modes that instrument, and those that turn out not to work when they are tried;
    `by_context`: with costs by calling context.
    """
    # Schemes of other distributions plan a small graph for that: their planners may be imported
    # when they are first used.
    own = {scheme.mode for scheme in OWN}
    failing = [each for each in schemes().values() if isinstance(each, BrokenScheme)]
    working = []
    for mode in planned_modes():
        if guided_by(mode) is ProfileKind.PATHS and find(PATH_PROFILER) is None:
            continue  # what guides it is left out itself
        problem = None if mode in own else try_out(definition(mode))
        if by_context and has_own_table(mode):
            problem = f"mode {mode}: {NO_CONTEXTS}"
        if problem is None:
            working.append(mode)
        else:
            failing.append(BrokenScheme(mode, problem))
    return tuple(working), tuple(failing)


def has_own_table(mode: str) -> bool:
    """Whether a mode counts by a run-time routine of its own."""
    return definition(mode).code().table is not None


def modes() -> tuple[str, ...]:
    """Return the names of all modes, those that cannot be used included."""
    return tuple(schemes())


def definitions() -> tuple[SchemeDefinition, ...]:
    """Return all schemes that can be used."""
    return tuple(each for each in schemes().values() if isinstance(each, SchemeDefinition))


def planned_modes() -> tuple[str, ...]:
    """Return the modes that instrument and can be used."""
    return tuple(scheme.mode for scheme in definitions() if scheme.instruments)


def path_modes() -> tuple[str, ...]:
    """Return the modes whose plans count paths."""
    return tuple(scheme.mode for scheme in definitions() if scheme.counts_paths)


def trace_modes() -> tuple[str, ...]:
    """Return the modes that write a trace."""
    return tuple(scheme.mode for scheme in definitions() if scheme.writes_trace)


def find(mode: str) -> SchemeDefinition | None:
    """Return the scheme of `mode`, None where this simprof has none that can be used."""
    scheme = schemes().get(mode)
    return scheme if isinstance(scheme, SchemeDefinition) else None


def definition(mode: str) -> SchemeDefinition:
    """Return the scheme of `mode`; UsageError if there is none, or it cannot be used."""
    scheme = schemes().get(mode)
    if scheme is None:
        raise UsageError(f"unknown mode {mode!r}: choose from {', '.join(modes())}")
    if isinstance(scheme, BrokenScheme):
        raise UsageError(scheme.reason)
    return scheme


def options() -> tuple[SchemeOption[Any], ...]:
    """Return the options that schemes declare, each once."""
    named = {option.name: option for scheme in definitions() for option in scheme.options.declared}
    return tuple(named.values())


def users(option: SchemeOption[Any]) -> tuple[str, ...]:
    """Return the modes that read a scheme's option."""
    return tuple(scheme.mode for scheme in definitions() if option in scheme.options.declared)


def guided_by(mode: str) -> ProfileKind | None:
    """Return the kind of profile that `make_plan` needs for `mode`, None if it needs none."""
    return definition(mode).guided


def needs_unit_flow(mode: str) -> bool:
    """Whether `make_plan` needs `unit_flow` for `mode`."""
    return definition(mode).whole_program


def beginning(mode: str, options: SchemeOptions) -> int:
    """How many of the run's first instructions give the edge profile of a guided mode; 0: all."""
    return definition(mode).options(options).beginning


@cache
def generators(mode: str) -> Generators:
    """Return the code of all kinds of actions that plans of `mode` have."""
    from simprof.profiler.code.snippets_paths import PATH_GENERATORS

    return MappingProxyType({**PATH_GENERATORS, **definition(mode).code().generators})


def pricer(mode: str, options: SchemeOptions) -> Pricer:
    """Return what generates and prices the code of one program's routines under a mode."""
    from simprof.profiler.code.pricing import Pricer

    registers = definition(mode).options(options).register_use
    return Pricer(partial(generators, mode), registers, LAYOUT.of(options))


def make_plan(
    cfg: ControlFlowGraph,
    mode: str,
    options: SchemeOptions,
    weights: Sequence[float] | None = None,
    edge_counts: Sequence[int] | None = None,
    path_counts: Mapping[PathPiece, int] | None = None,
    unit_flow: int | None = None,
) -> Plan:
    """Plan one routine under one mode, as `PlanOrder` describes it; without `unit_flow` the routine
    is the whole program.

    UsageError if the mode has no plan, or needs a profile and gets none.
    """
    scheme = definition(mode)
    if scheme.plan is None:
        raise UsageError(f"mode {mode} instruments nothing, so it has no plan")
    if scheme.whole_program and unit_flow is None and edge_counts is not None:
        from simprof.profiler.graphs import flow

        unit_flow = flow.unit_flow(cfg, edge_counts)
    plan: object = scheme.plan(
        PlanOrder(cfg, options, weights, edge_counts, path_counts, unit_flow)
    )
    # A plan does nothing that its scheme does not declare.
    from simprof.profiler.plan.decoders import Plan

    if not isinstance(plan, Plan):
        raise UsageError(
            f"mode {scheme.mode}: its planner returns {type(plan).__name__}, not a Plan"
        )
    actions, fault = plan.plan, ""
    shared = actions.words or actions.buffers
    if shared and scheme.scope is not StateScope.PROGRAM:
        fault = "has words or buffers of the program, and its scope is not the program"
    elif actions.guards and not scheme.depends_on_order:
        fault = "has guards, and is not declared to depend on order"
    elif any(not set(guard.words) <= set(actions.words) for guard in actions.guards.values()):
        fault = "has a guard on a word that is not among its words"
    if fault:
        module = type(plan).__module__
        raise UsageError(f"mode {scheme.mode}: its plan (of module {module}) {fault}")
    return plan
