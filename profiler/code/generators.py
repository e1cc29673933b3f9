"""Actions as SPARC instructions: the code of a place from the generators of its actions.

Each kind of action has a generator (`snippet_parts.Generator`): those of `plan.plan` are in
`snippets_paths`, a scheme brings those of its own actions (`schemes.definition.SchemeCode`), and
`CounterAccess.generators` holds all that a routine's plan may need. `writer` says how one is
written.
"""

from __future__ import annotations

from collections.abc import Iterable

from simprof.profiler.code.sites import Site
from simprof.profiler.code.snippet_parts import (
    HASH_REGISTERS,
    Body,
    CounterAccess,
    Generator,
    Generators,
    Needs,
)
from simprof.profiler.code.stack_words import temporary_frame
from simprof.profiler.code.writer import Writer
from simprof.profiler.plan.actions import Action
from simprof.profiler.plan.plan import Table
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import AssemblyError, Register


def needs(
    actions: Iterable[Action], table: Table, machine: MachineKind, generators: Generators
) -> Needs:
    """Return what the code of all of `actions` needs.

    Raises
    ------
    AssemblyError
        There is no generator for an action.
    """
    return join(_of(generators, action).needed(action, table, machine) for action in actions)


def join(needed: Iterable[Needs]) -> Needs:
    """Return what pieces of code need together."""
    pieces = tuple(needed)
    clobbers = dict.fromkeys(register for piece in pieces for register in piece.clobbers)
    return Needs(
        any(piece.path for piece in pieces),
        tuple(clobbers),
        any(piece.conditions for piece in pieces),
        any(piece.at_transfer for piece in pieces),
    )


def _of(generators: Generators, action: Action) -> Generator:
    generator = generators.get(type(action))
    if generator is None:
        raise AssemblyError(f"there is no code for {type(action).__name__}")
    return generator


def snippet_body(actions: Iterable[Action], access: CounterAccess, site: Site) -> Body:
    """Generate the code of `actions` at `site`.

    Raises
    ------
    AssemblyError
        There is no generator for an action, or it needs more registers than there are.
    """
    actions, generators = tuple(actions), access.generators
    needed = needs(actions, access.table, access.machine, generators)
    clobbers = effective_clobbers(needed, access.machine, site)
    for lowered in (0, temporary_frame(access.context.abi)):
        writer = Writer(access, site, clobbers, needed.conditions, lowered)
        for action in actions:
            _of(generators, action).write(writer, action)
        body = writer.finish()
        if body is not None:
            return body
    raise AssemblyError("a snippet saves more registers than its stack frame holds")


def effective_clobbers(needed: Needs, machine: MachineKind, site: Site) -> tuple[Register, ...]:
    """Return the registers that calls destroy, those included that keep V8's condition codes."""
    if needed.conditions and site.keeps_conditions and machine is MachineKind.SPARCV8:
        return tuple(dict.fromkeys((*HASH_REGISTERS[:2], *needed.clobbers, Register.O7)))
    return needed.clobbers
