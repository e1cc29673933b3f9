"""Actions as SPARC instructions: which generator makes the code of which action.

The one place that lists the modules with generators. `writer` says how one is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from profiler.code import snippets_paths
from profiler.code.context import Site
from profiler.code.stack_words import PATH_SLOT, temporary_frame
from profiler.code.writer import (
    HASH_REGISTERS,
    Body,
    Generator,
    Needs,
    PathRegister,
    Scheme,
    Writer,
)
from profiler.plan.plan import Action, Table
from profiler.schemes.bittrace import code as snippets_bits
from profiler.schemes.cs6120 import code as snippets_logging
from profiler.schemes.kiter import code as snippets_kiter
from profiler.schemes.tpp import code as snippets_tpp
from profiler.schemes.tracing import code as snippets_trace
from simulator.binary.program import MachineKind
from simulator.isa.assembler import AssemblyError, Register

__all__ = [
    "GENERATORS",
    "HASH_REGISTERS",
    "PATH_SLOT",
    "Body",
    "PathRegister",
    "Scheme",
    "needs",
    "snippet_body",
]

_MODULES = (
    snippets_paths,
    snippets_tpp,
    snippets_kiter,
    snippets_bits,
    snippets_trace,
    snippets_logging,
)
GENERATORS: dict[type, Generator] = {
    kind: generator for module in _MODULES for kind, generator in module.GENERATORS.items()
}
"""Kind of action -> its code; tests add kinds of their own."""


def needs(actions: Iterable[Action], table: Table, machine: MachineKind) -> Needs:
    """Return what the code of all of `actions` needs.

    Raises
    ------
    AssemblyError
        There is no generator for an action.
    """
    found = (_generator(action).needed(action, table, machine) for action in actions)
    return reduce(_join, found, Needs())


def _generator(action: Action) -> Generator:
    generator = GENERATORS.get(type(action))
    if generator is None:
        raise AssemblyError(f"there is no code for {type(action).__name__}")
    return generator


def _join(one: Needs, other: Needs) -> Needs:
    clobbers = dict.fromkeys((*one.clobbers, *other.clobbers))
    return Needs(
        one.path or other.path,
        tuple(clobbers),
        one.conditions or other.conditions,
        one.at_transfer or other.at_transfer,
    )


def snippet_body(actions: Iterable[Action], scheme: Scheme, site: Site) -> Body:
    """Generate the code of `actions` at `site`.

    Raises
    ------
    AssemblyError
        There is no generator for an action, or it needs more registers than there are.
    """
    actions = tuple(actions)
    needed = needs(actions, scheme.table, scheme.machine)
    clobbers = needed.clobbers
    if needed.conditions and site.keeps_conditions and scheme.machine is MachineKind.SPARCV8:
        clobbers = tuple(dict.fromkeys((*HASH_REGISTERS[:2], *clobbers, Register.O7)))
    for lowered in (0, temporary_frame(scheme.context.abi)):
        writer = Writer(scheme, site, clobbers, needed.conditions, lowered)
        for action in actions:
            _generator(action).write(writer, action)
        body = writer.finish()
        if body is not None:
            return body
    raise AssemblyError("a snippet saves more registers than its stack frame holds")
