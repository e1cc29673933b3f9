"""Costs of actions' code, computed once for all places that are alike."""

# How much code actions are, and what it costs, depends on little: on the kinds of the actions and
# on which limits of the instruction set their constants keep to (`Generator.shape`), on how many
# registers are free at the place, and on where path registers and stack words are. A program has
# hundreds of thousands of places and a few hundred of these combinations. For each of them the code
# is generated once (`writer.snippet_body`) and measured; the code itself is generated again only
# where somebody wants its instructions.

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from msgspec import Struct, field

from simprof.profiler.code.frames import Site
from simprof.profiler.code.registers import LOCAL_ORDER, Abi, abi, mask, members
from simprof.profiler.code.snippet_parts import Body, CounterAccess, Generators, Needs
from simprof.profiler.code.writer import effective_clobbers, generator_of, needs, snippet_body
from simprof.profiler.plan.actions import Action
from simprof.profiler.plan.plan import CounterTable
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.effects import CC

# Places of one kind of code that are remembered one by one, besides the kinds of places.
PLACES = 1 << 14


class SnippetCost(NamedTuple):
    """What the code of a place costs, without its instructions."""

    size: int  # Number of instructions
    # cost, taken_costs: See `Body`, or `codegen.Snippet`, which may have a jump besides.
    cost: int
    taken_costs: tuple[int, ...]


def measured(body: Body) -> SnippetCost:
    """Return what a body costs."""
    return SnippetCost(len(body.instructions), body.cost, body.taken_costs)


class ShapeCosts(Struct):
    """Code of one shape: what it needs, and its costs by kind of place and by place."""

    needed: Needs
    by_class: dict[Hashable, SnippetCost] = field(default_factory=dict)
    by_place: dict[tuple[int, int, int, int, int], SnippetCost] = field(default_factory=dict)


def snippet_cost(actions: tuple[Action, ...], access: CounterAccess, site: Site) -> SnippetCost:
    """Return what `snippet_body` of the same arguments costs, which raises the same errors."""
    return snippet_costs(((actions, site),), access)[0]


def snippet_costs(
    coded: Iterable[tuple[tuple[Action, ...], Site]], access: CounterAccess
) -> list[SnippetCost]:
    """Return that of the code of several places."""
    generators, table, machine = access.generators, access.table, access.machine
    known, path_mask = access.known_costs, access.path_mask
    found = []
    for actions, site in coded:
        shape: list[object] = []
        for action in actions:
            kind = type(action)
            generator = generators.get(kind)
            if generator is None or generator.shape is None:
                break  # only the code itself tells
            shape += kind, generator.shape(action, access)
        else:
            key = tuple(shape)
            costs = known.get(key)
            if costs is None:
                costs = known[key] = ShapeCosts(needs(actions, table, machine, generators))
            live, frame, slots = site
            place = (live, path_mask, frame.depth, frame.lowered, len(slots))
            found.append(costs.by_place.get(place) or _cost_at(place, actions, access, site, costs))
            continue
        found.append(measured(snippet_body(actions, access, site)))
    return found


def _cost_at(
    place: tuple[int, int, int, int, int],
    actions: tuple[Action, ...],
    access: CounterAccess,
    site: Site,
    costs: ShapeCosts,
) -> SnippetCost:
    clobbers = effective_clobbers(costs.needed, access.machine, site)
    carried = access.context.abi.carried
    registers = _register_class(access.machine, carried, site.live, access.path_mask, clobbers)
    at = (registers, *place[2:])
    cost = costs.by_class.get(at)
    if cost is None:
        cost = costs.by_class[at] = measured(snippet_body(actions, access, site))
    if len(costs.by_place) >= PLACES:
        costs.by_place.clear()
    costs.by_place[place] = cost
    return cost


# By generators, kind of table, and machine: what actions of the same kinds need. The generators are
# among the values, so that no others can get their identity.
_NEEDS: dict[tuple[int, CounterTable, MachineKind], tuple[Generators, dict[object, Needs]]] = {}


def needs_of(
    all_actions: Iterable[tuple[Action, ...]],
    table: CounterTable,
    machine: MachineKind,
    generators: Generators,
) -> list[Needs]:
    """Return what `writer.needs` does of each, worked out once for actions of the same kinds."""
    _, known = _NEEDS.setdefault((id(generators), table, machine), (generators, {}))
    found = []
    for actions in all_actions:
        kinds = tuple(map(type, actions))
        needed = known.get(kinds)
        if needed is None:
            needed = needs(actions, table, machine, generators)
            if all(generator_of(generators, kind).shape is not None for kind in kinds):
                known[kinds] = needed
        found.append(needed)
    return found


@lru_cache(maxsize=1 << 15)
def _register_class(
    machine: MachineKind, carried: int, live: int, path: int, clobbers: tuple[Register, ...]
) -> Hashable:
    """What the registers at a place have to do with the size of code there."""
    # That is how many temporaries are dead, which of the others are saved with 64 bits in V8+ code,
    # which of the registers that calls destroy are live, and whether the condition codes are
    # (`writer.Writer`).
    rules, temporaries, savable = _register_sets(machine, carried)
    excluded = path | mask(*clobbers)
    dead = temporaries & ~(live | excluded)
    others = savable & ~(excluded | rules.reserved | dead)
    wide: Hashable = others.bit_count()
    if machine is MachineKind.SPARCV8PLUS:
        order = (*LOCAL_ORDER, *rules.temporaries)
        wide = tuple(register < Register.SP for register in dict.fromkeys(members(others, order)))
    arguments = tuple((int(register), live >> register & 1) for register in clobbers)
    return dead.bit_count(), wide, arguments, bool(live & CC)


@cache
def _register_sets(machine: MachineKind, carried: int) -> tuple[Abi, int, int]:
    """Return the rules for registers, the temporaries, and all that code may save."""
    rules = abi(machine is MachineKind.SPARCV9, carried)
    temporaries = mask(*rules.temporaries)
    return rules, temporaries, temporaries | mask(*LOCAL_ORDER)
