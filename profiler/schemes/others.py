"""Schemes that other distributions bring: loaded, checked, and kept from spoiling anything else.

Whatever such a scheme does wrong becomes one line that names its distribution.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes.definition import (
    PlanOrder,
    ProfileKind,
    SchemeDefinition,
    StateScope,
)
from simprof.profiler.schemes.options import PLANNING, Options, SchemeOption
from simprof.simulator.errors import SimulatorError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
