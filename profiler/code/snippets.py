"""The code of edges, blocks and routines, generated once for all places that are alike.

A price is the length of generated code. Steps

1. `like_bodies` finds, of the code of each place, that of a place that is alike.
2. `Snippet.instructions` is the place's own code, generated where somebody wants to see it.
"""

# How long the code of actions is depends on little: on the kinds of the actions and on which limits
# of the instruction set their constants keep to (`Generator.shape`), on how many registers are free
# at the place, and on where path registers and stack words are. A program has hundreds of thousands
# of places and a few thousand of these combinations.

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import Any

from msgspec import Struct, field

from simprof.profiler.code.frames import EdgePlace, Site
from simprof.profiler.code.layout import CounterLayout
from simprof.profiler.code.registers import LOCAL_ORDER, Abi, abi, mask, members
from simprof.profiler.code.snippet_parts import Body, CounterAccess, Generators, Needs
from simprof.profiler.code.spilling import NO_SPILL, Spill
from simprof.profiler.code.writer import effective_clobbers, generator_of, needs, snippet_body
from simprof.profiler.plan.actions import Action
from simprof.profiler.plan.plan import CounterTable
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import AssemblyError, Instruction, Register
from simprof.simulator.isa.effects import CC

# A jump is one instruction: its delay slot has the last one of the code, or it annuls its slot
# (`ba,a`).
JUMP = 1
# Places that are remembered one by one, besides the kinds of places.
PLACES = 1 << 17


class Snippet(Struct, frozen=True, eq=False, dict=True):
    """The code of one edge, of one block, or that records one address of data."""

    place: EdgePlace
    actions: tuple[Action, ...]  # What the code does
    access: CounterAccess  # How it reaches what it counts
    like: Body  # The code of a place like this: of the same length and the same costs
    # The label that the code jumps to at its end: `block.N` is the top of block N, `exit` what is
    # behind an EXIT edge; None: it does not jump.
    jump: str | None = None

    @property
    def cost(self) -> int:
        """Instructions executed each time the edge is crossed or the block executed."""
        # Those inside the hashing routine are not among them (`hash_routine.hash_costs`).
        return self.like.cost if self.jump is None else self.like.cost + JUMP

    @property
    def jump_cost(self) -> int:
        """How many of `cost` the jump takes."""
        return 0 if self.jump is None else JUMP

    @property
    def size(self) -> int:
        """Number of instructions."""
        return len(self.like.instructions) + self.jump_cost

    @property
    def hash_calls(self) -> int:
        """Calls of the hashing routine each time."""
        return self.like.hash_calls

    @property
    def taken_costs(self) -> tuple[int, ...]:
        """By action: what its conditional part adds where it is executed; () if none has one."""
        # `plan.Execution.take` notes each time.
        return self.like.taken_costs

    @property
    def taken_cost(self) -> int:
        """What all conditional parts add together."""
        return sum(self.taken_costs)

    @property
    def elsewhere(self) -> int:
        """How many of `cost` are executed in run-time routines other than the hashing one."""
        return self.like.elsewhere

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The code, in order; calls and the jump name their targets (`assembler.Fixup`).

        Raises
        ------
        AssemblyError
            It does not cost what places like this are priced at.
        """
        body = snippet_body(self.actions, self.access, self.place.site)
        if body.costs != self.like.costs:
            kinds = ", ".join(type(action).__name__ for action in self.actions)
            raise AssemblyError(f"the shapes of {kinds} do not tell how much code they are")
        if self.jump is None:
            return body.instructions
        code = list(body.instructions)
        fills_slot = bool(code) and not body.open_end and not body.is_pinned
        # Control may come from the other copy, behind the code and before the jump.
        fills_slot = fills_slot and not any(action.changes_copy for action in self.actions)
        code.insert(len(code) - fills_slot, asm.branch("a", self.jump, annul=not fills_slot))
        return tuple(code)

    @property
    def text(self) -> tuple[str, ...]:
        """The instructions in assembler syntax."""
        return tuple(instruction.text for instruction in self.instructions)


class RoutineCode(Struct, frozen=True):
    """The instrumentation code of one routine under one plan."""

    # Edge id -> code; edges without code are absent. What slot blocks do is done on the edge into
    # them (`places.fold_slot_blocks`).
    snippets: Mapping[int, Snippet]
    # Assembler name of the path register, "stack", or None where the plan uses none; several are
    # separated by commas.
    path_register: str | None = None
    # block_snippets, block_end_snippets: Block id -> code of `plan.blocks`, of `plan.block_ends`.
    block_snippets: Mapping[int, Snippet] = field(default_factory=dict)
    block_end_snippets: Mapping[int, Snippet] = field(default_factory=dict)
    layout: CounterLayout = field(default_factory=CounterLayout)  # Where the counters are
    spill: Spill = NO_SPILL  # Registers of the program that are the code's instead
    # Block, and number in it -> code that records an address of data (`references`).
    address_snippets: Mapping[tuple[int, int], Snippet] = field(default_factory=dict)
    # copy, copied: The code of the second copy of the routine's blocks, and how many instructions
    # these have; None: there is one copy.
    copy: RoutineCode | None = None
    copied: int = 0

    @property
    def _groups(self) -> tuple[Mapping[Any, Snippet], ...]:
        at_blocks = self.block_snippets, self.block_end_snippets
        return (self.snippets, *at_blocks, self.address_snippets)

    @property
    def all_snippets(self) -> Iterator[Snippet]:
        """The code of all places of the first copy."""
        return chain.from_iterable(group.values() for group in self._groups)

    @property
    def count(self) -> int:
        """Number of snippets."""
        return sum(map(len, self._groups)) + (0 if self.copy is None else self.copy.count)

    def generate(self) -> None:
        """Generate the instructions of all places, which is done else where they are asked for."""
        for each in self.all_snippets:
            _ = each.instructions
        if self.copy is not None:
            self.copy.generate()

    @property
    def static_instructions(self) -> int:
        """Size of all code in instructions."""
        copied = 0 if self.copy is None else self.copy.static_instructions + self.copied
        return sum(each.size for each in self.all_snippets) + self.spill.size + copied

    @property
    def code_bytes(self) -> int:
        """Size of all code in bytes."""
        return 4 * self.static_instructions


def like_body(actions: tuple[Action, ...], access: CounterAccess, site: Site) -> Body:
    """Return the code of a place like `site`; errors are those of `snippet_body`."""
    return like_bodies(((actions, site),), access)[0]


def like_bodies(
    coded: Iterable[tuple[tuple[Action, ...], Site]], access: CounterAccess
) -> list[Body]:
    """Return that of several places."""
    generators, path_mask, (by_place, _) = access.generators, access.path_mask, access.known_bodies
    found = []
    for actions, site in coded:
        live, frame, slots = site
        place: tuple[object, ...] = (live, path_mask, frame, len(slots))
        for action in actions:
            kind = type(action)
            generator = generators.get(kind)
            if generator is None or generator.shape is None:
                body = snippet_body(actions, access, site)  # only the code itself shows its length
                break
            place += kind, generator.shape(action, access)
        else:
            body = by_place.get(place) or _like(place, actions, access, site)
        found.append(body)
    return found


def _like(
    place: tuple[object, ...], actions: tuple[Action, ...], access: CounterAccess, site: Site
) -> Body:
    """Return the code of a place that was not met before, as `place` says."""
    by_place, by_class = access.known_bodies
    (needed,) = needs_of((actions,), access.table, access.machine, access.generators)
    clobbers = effective_clobbers(needed, access.machine, site)
    carried = access.context.abi.carried
    registers = _register_class(access.machine, carried, site.live, access.path_mask, clobbers)
    kind = (registers, *place[2:])
    body = by_class.get(kind)
    if body is None:
        body = by_class[kind] = snippet_body(actions, access, site)
    if len(by_place) >= PLACES:
        by_place.clear()
    by_place[place] = body
    return body


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
