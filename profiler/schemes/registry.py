"""Every scheme by its mode: simprof's own, and those that installed distributions bring.

The only module that names concrete schemes. Distributions bring theirs through the entry point
group `simprof.schemes`: an entry is named as its mode and leads to a `SchemeDefinition`. What is
wrong with one of them concerns its mode only.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes.bittrace import BITTRACE, FIFO
from simprof.profiler.schemes.cs6120 import CALLS, CALLS_OPTIMAL, NAIVE
from simprof.profiler.schemes.definition import (
    LAYOUT,
    PLANNING,
    Options,
    PlanOrder,
    ProfileKind,
    SchemeDefinition,
    SchemeOption,
    StateScope,
)
from simprof.profiler.schemes.kblpp import KBLPP
from simprof.profiler.schemes.kiter import KITER
from simprof.profiler.schemes.pap import PAP
from simprof.profiler.schemes.pp import PP
from simprof.profiler.schemes.ppp import PPP
from simprof.profiler.schemes.pref import PREF
from simprof.profiler.schemes.qpt import QPT, QPT2
from simprof.profiler.schemes.sampling import PEP, SAMPLED
from simprof.profiler.schemes.tpp import TPP
from simprof.profiler.schemes.tracing import BITS, BLOCK_TRACE, BYTES, WITNESS
from simprof.profiler.schemes.wpp import WPP
from simprof.simulator.errors import SimulatorError, UsageError

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


# -- Schemes of other distributions: loaded, checked, and kept from spoiling anything else
#
# Whatever such a scheme does wrong becomes one line that names its distribution.

P = ParamSpec("P")
T = TypeVar("T")

Declared = Mapping[str, SchemeOption[Any]]  # Options by name

# What a mode may be called: lists of modes and settings have commas and brackets.
NAME = re.compile(r"[a-z][a-z0-9-]*")

OPTION_NAME = re.compile(r"[a-z][a-z0-9_]*")

# Options of runs that stand beside those of schemes where results name them.
RESERVED = frozenset(
    "path_limit weights table edge_profile routines exclude user_only max_instructions timeout "
    "entry calls".split()
)


class BrokenScheme(Struct, frozen=True):
    """A mode that cannot be used, and why: one line that names the distribution."""

    mode: str
    reason: str


def may_be_brought(group: str) -> bool:
    """Whether a distribution may have entry points of a group."""
    # Python's own module for that takes long to import; this looks into the same files first. What
    # lies in archives or is found by other finders than Python's own is not looked into: it may.
    own = {"BuiltinImporter", "FrozenImporter", "PathFinder"}
    if any(
        hasattr(finder, "find_distributions") and getattr(finder, "__name__", "") not in own
        for finder in sys.meta_path
    ):
        return True
    return any(_may_bring(Path(place), group.encode()) for place in dict.fromkeys(sys.path))


def _may_bring(place: Path, group: bytes) -> bool:
    if place.is_file():
        return True
    try:
        names = os.listdir(place)  # noqa: PTH208 - hundreds, of which few become paths
    except OSError:
        return False
    for name in names:
        if name.endswith("-info") and "." in name:
            try:
                if group in (place / name / "entry_points.txt").read_bytes():
                    return True
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                return True
    return False


def distribution_of(entry: EntryPoint) -> str:
    """Return what messages call the distribution of an entry point."""
    if entry.dist is None or not entry.dist.name:
        return f"the distribution of {entry.value}"
    return f"distribution {entry.dist.name} {entry.dist.version}"


def load(entry: EntryPoint, taken: Declared) -> SchemeDefinition | BrokenScheme:
    """Load the scheme of an entry point, which is named as its mode; `taken` are options of other
    schemes by name, which may be declared again.
    """
    source = distribution_of(entry)
    try:
        definition = entry.load()
    except (Exception, SystemExit) as error:  # whatever the code raises: it is not ours
        reason = f"cannot be imported ({_words(error)})"
    else:
        reason = next(_faults(entry, definition, taken), "")
    if reason:
        text = f"mode {entry.name}: {source} {reason}: mend or remove that distribution"
        return BrokenScheme(entry.name, text)
    return _guarded(definition, f"mode {entry.name}: {source}")


def _words(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _faults(entry: EntryPoint, definition: object, taken: Declared) -> Iterator[str]:
    """Yield what is wrong with a definition."""
    if lacking := [n for n in SchemeDefinition.__struct_fields__ if not hasattr(definition, n)]:
        yield f"lacks {', '.join(lacking)} in {entry.value}"
        return
    if not isinstance(definition, SchemeDefinition):
        yield f"brings no SchemeDefinition as {entry.value}"
        return
    if definition.mode != entry.name:
        yield f"brings a scheme of mode {definition.mode} under another name"
    if not NAME.fullmatch(entry.name):
        yield "has a name that is not of small letters, digits and dashes"
    values = {name: getattr(definition, name) for name in _TYPES}
    if wrong := [name for name, kind in _TYPES.items() if not isinstance(values[name], kind)]:
        yield f"has a value of a wrong type as {', '.join(wrong)}"
        return
    if not issubclass(values["options"], Options):
        yield "has options that are no Options"
        return
    if set(definition.reads) - set(PLANNING):
        yield f"reads other options than {', '.join(PLANNING)}"
    for option in definition.options.declared:
        yield from _option_faults(option, taken)


def _option_faults(option: SchemeOption[Any], taken: Declared) -> Iterator[str]:
    if not OPTION_NAME.fullmatch(option.name):
        yield f"has an option that is none: {option!r}"
        return
    if taken.get(option.name, option) != option:
        yield f"declares option {option.name}, which another scheme has"
    if option.name in RESERVED:
        yield f"declares option {option.name}, which simprof has"
    if not issubclass(option.kind, (int, float, bool, str)):
        yield f"declares option {option.name} of a kind that options cannot have"


# Field of a definition -> types that its value may have.
_TYPES: Mapping[str, Any] = {
    "description": str,
    "collects": ProfileKind | Callable,
    "plan": Callable | None,
    "options": type,
    "guided": ProfileKind | None,
    "judged_by": str | None,
    "code": Callable,
    "describe": Callable,
    "losses": tuple,
    "scope": StateScope,
    "depends_on_order": bool,
    "estimates": bool,
}


def _guarded(definition: SchemeDefinition, source: str) -> SchemeDefinition:
    """Return a scheme whose functions fail in one line that names the distribution."""

    def guard(work: Callable[P, T], doing: str) -> Callable[P, T]:
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return work(*args, **kwargs)
            except SimulatorError:
                raise
            except (Exception, SystemExit) as error:
                raise UsageError(
                    f"{source} fails {doing} ({_words(error)}): mend or remove that distribution"
                ) from error

        return guarded

    return replace(
        definition,
        plan=None if definition.plan is None else guard(definition.plan, "to plan"),
        code=guard(definition.code, "to bring its code"),
        describe=guard(definition.describe, "to describe a plan"),
    )


def try_out(definition: SchemeDefinition) -> str | None:
    """Plan a small graph under a scheme; return what goes wrong, None if nothing does."""
    from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind

    blocks = tuple(Block(k, k, 1) for k in range(2))
    edges = (
        Edge(0, 2, 0, EdgeKind.ENTRY),
        Edge(1, 0, 1, EdgeKind.FALL_THROUGH),
        Edge(2, 1, 3, EdgeKind.EXIT),
    )
    cfg = ControlFlowGraph("trial", 0, 8, blocks, edges)
    try:
        definition.code()
        if definition.plan is not None:
            definition.plan(PlanOrder(cfg, SchemeOptions(), None, (1, 1, 1), {}))
    except SimulatorError as error:
        return str(error)
    return None


# -- All schemes


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
