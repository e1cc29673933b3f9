"""From plan to code: every edge's and block's actions as SPARC instructions, placed and priced.

1. `place_edges` and `place_blocks` (in `places`) say where the code of each edge and block goes.
2. `choose_registers` finds the registers that hold the path state.
3. `like_bodies` (in `snippets`) has the code of each place, or of one like it, and so its price.

Path registers are unused locals of a routine with a window, or unused caller-saved registers of a
leaf without calls; otherwise stack words (EPP 5.1). With `--registers spilled` the least used local
of a routine with a window is spilled instead, and another one for each temporary that some code
there would have to save.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import EdgePlace, Site, Where
from simprof.profiler.code.layout import STACK_REGISTERS, CounterLayout
from simprof.profiler.code.places import (
    NO_WEIGHTS,
    Actions,
    LayoutRule,
    PlacedEdges,
    block_snippet,
    find_place,
    fold_slot_blocks,
    place_blocks,
    place_edges,
)
from simprof.profiler.code.references import references
from simprof.profiler.code.registers import LOCAL_ORDER, mask, members
from simprof.profiler.code.snippet_parts import (
    HASH_REGISTERS,
    CounterAccess,
    Generators,
    Needs,
    PathRegister,
)
from simprof.profiler.code.snippets import RoutineCode, Snippet, like_bodies, like_body, needs_of
from simprof.profiler.code.spilling import NO_SPILL, Spill, Spiller
from simprof.profiler.code.stolen import find_spills, with_spills
from simprof.profiler.code.writer import join
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import Action, WriteAddress
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.request.request import CodeLayout, RegisterUse
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.effects import LOCALS

STACK = "stack"


class WordsNeededError(Exception):
    """Path registers need `count` words of memory beside the stack (`CounterLayout.words`)."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def generate(
    # cfg, plan: A routine and what is to be done on its edges and blocks
    cfg: ControlFlowGraph,
    plan: InstrumentationPlan,
    context: RoutineContext,  # What is known of the routine's code
    layout: CounterLayout,  # Where its counters are
    generators: Generators,  # The code of all kinds of actions that the plan has
    rule: LayoutRule = NO_WEIGHTS,  # Where code goes that would need a jump
) -> RoutineCode:
    """Generate the code of `plan`; `RoutineCode.copy` is that of a second copy of the routine.

    Raises
    ------
    AssemblyError
        There is no code for an action, or it needs more registers than there are.
    WordsNeededError
        The layout has too few words for path registers.
    """
    # `pricing.Pricer` is the entry that also lays out the counters.
    if not plan.is_duplicated:
        arranger = _Arranger(cfg, plan, context, layout, generators, rule)
        return arranger.spilled() if context.use is RegisterUse.SPILLED else arranger.arrange()
    # Code of an edge stands at the same place in both copies: in stubs where it would need a jump.
    # Path registers are those of the second copy, in which all code is that uses them.
    rule = rule._replace(layout=CodeLayout.STUBS)
    arguments = (context, layout, generators, rule)
    second = _Arranger(cfg, plan.body(1), *arguments)
    copy = second.arrange()
    first = _Arranger(cfg, plan.body(0), *arguments, second.access).arrange()
    return replace(first, copy=copy, copied=sum(block.instructions for block in cfg.blocks))


class _Arranger:
    """Places and generates the code of one body of a plan."""

    def __init__(
        self,
        cfg: ControlFlowGraph,
        plan: InstrumentationPlan,
        context: RoutineContext,
        layout: CounterLayout,
        generators: Generators,
        rule: LayoutRule,
        like: CounterAccess | None = None,  # Of the other body, whose path registers it takes
    ) -> None:
        self._like = like
        self._layout, self._generators, self._rule = layout, generators, rule
        folded, blocks, block_ends = fold_slot_blocks(cfg, plan, context.shared_slots)
        if context.use is RegisterUse.STOLEN:
            spills = find_spills(cfg, context, [find_place(cfg, edge, context) for edge in folded])
            context = context.spilling(mask(*spills.spilled), frozenset(spills.behind))
            folded, blocks, block_ends = with_spills(cfg, spills, folded, blocks, block_ends)
        self._cfg, self._plan, self._context = cfg, plan, context
        self._at_blocks: tuple[Actions, Actions] = (blocks, block_ends)
        self._placed: PlacedEdges = place_edges(cfg, folded, context, rule)
        self._places = self._placed.places
        self._actions = {edge: folded.get(edge, ()) for edge in self._places}
        self._needed = self._needs(self._actions.values())
        self._together = join({id(each): each for each in self._needed}.values())
        if self._together.at_transfer:
            placed = zip(self._places.items(), self._needed, strict=True)
            self._places = {edge: _moved(place, need, context) for (edge, place), need in placed}

    def _needs(self, actions: Iterable[tuple[Action, ...]]) -> list[Needs]:
        return needs_of(actions, self._plan.table, self._context.machine, self._generators)

    def arrange(self, spill: Spill = NO_SPILL, freed: int = 0) -> RoutineCode:
        """Return the code with some registers spilled, those in `freed` as temporaries."""
        context, plan = self._context.freeing(freed), self._plan
        places = self._places
        if freed:
            places = {edge: _freed(place, freed) for edge, place in places.items()}
        access = self.access = self._access(context, spill)
        tops, ends = place_blocks(self._cfg, self._at_blocks, places.values(), access)
        names = [STACK if r is None else r.text for r in access.registers]
        name = ", ".join(dict.fromkeys(names)) if plan.uses_register else None
        recorded = dict(self._recorded(access)) if plan.addresses else {}
        snippets = self._snippets(places, access)
        return RoutineCode(snippets, name, tops, ends, self._layout, spill, recorded)

    def _snippets(
        self, places: Mapping[int, EdgePlace], access: CounterAccess
    ) -> dict[int, Snippet]:
        cfg, jumping, actions = self._cfg, self._placed.jumping, self._actions
        coded = ((actions[edge], place.site) for edge, place in places.items())
        bodies = like_bodies(coded, access)
        found = {}
        for (edge, place), body in zip(places.items(), bodies, strict=True):
            jump = None
            if edge in jumping:
                target = cfg.edges[place.edge].target
                jump = "exit" if target == cfg.exit else f"block.{target}"
            found[edge] = Snippet(place, actions[edge], access, body, jump)
        return found

    def _recorded(self, access: CounterAccess) -> Iterator[tuple[tuple[int, int], Snippet]]:
        """Yield the code that records addresses of data."""
        context, analysis = access.context, access.context.analysis
        # Graph files, which have no code, refer to no data.
        by_block = () if analysis is None else references(self._cfg, analysis.liveness)
        for block, found in enumerate(by_block):
            for number, each in enumerate(found):
                if each.base == number:
                    actions, site = (WriteAddress(*each[:2]),), context.before(block, each.at)
                    like = like_body(actions, access, site)
                    snippet = block_snippet(block, each.at, site, actions, access, like)
                    yield (block, number), snippet

    def _access(self, context: RoutineContext, spill: Spill) -> CounterAccess:
        plan, layout = self._plan, self._layout
        table, addressing, generators = plan.table, plan.addressing, self._generators
        if not plan.uses_register:
            return CounterAccess(table, addressing, layout, None, context, generators)
        if (like := self._like) is not None:
            state = (like.others, like.mixed, like.argument_words)
            return CounterAccess(
                table, addressing, layout, like.register, context, generators, *state
            )
        chosen, spilled = list(self._chosen), iter(spill.registers)
        for number, register in enumerate(chosen):
            chosen[number] = next(spilled, None) if register is None else register
        depths = {site.frame.depth for site in self._using}
        mixed = len(depths) > 1
        words = STACK_REGISTERS if depths == {1} else context.argument_words
        if chosen.count(None) - words > layout.words:
            raise WordsNeededError(chosen.count(None) - words)
        first, *others = chosen
        return CounterAccess(
            table, addressing, layout, first, context, generators, tuple(others), mixed, words
        )

    @cached_property
    def _using(self) -> list[Site]:
        """Where code is that uses path registers."""
        needed = zip(self._places.values(), self._needed, strict=True)
        return [place.site for place, needs in needed if needs.path]

    @cached_property
    def _chosen(self) -> tuple[PathRegister, ...]:
        """The path registers where none is spilled."""
        together, clobbered = self._together, self._together.clobbers
        if together.conditions and self._context.machine is MachineKind.SPARCV8:
            clobbered = (*clobbered, *HASH_REGISTERS)  # by restoring condition codes
        return choose_registers(self._plan.registers, self._using, mask(*clobbered), self._context)

    # -- spilled registers

    def spilled(self) -> RoutineCode:
        """Return the code where registers are spilled that the code needs and lacks."""
        if self._context.analysis is None or not (self._actions or any(self._at_blocks)):
            return self.arrange()
        missing = self._missing
        kept = mask(*(r for r in self._chosen if r is not None)) if self._plan.uses_register else 0
        spiller = Spiller(self._context, kept, reads_transfers=self._reads_transfers)
        weights = self._block_weights()
        spill = spiller.spill(missing, missing, weights)
        arranged = self.arrange(spill)
        # One more register at a time, until no code in the window saves a local.
        while len(spill.words) >= missing and self._saves(arranged):
            more = spiller.spill(len(spill.words) + 1, missing, weights)
            if len(more.words) <= len(spill.words):
                break
            spill = more
            arranged = self.arrange(spill, mask(*spill.registers[missing:]))
        return arranged

    @property
    def _missing(self) -> int:
        """How many path registers a local could hold, and are in memory."""
        if not self._plan.uses_register:
            return 0
        inside = all(site.frame.depth for site in self._using)
        return self._chosen.count(None) if inside else 0

    @property
    def _reads_transfers(self) -> bool:
        """Whether some code stands before a transfer because it reads the transfer's registers."""
        at_blocks = (actions for blocks in self._at_blocks for actions in blocks.values())
        return any(each.at_transfer for each in (*self._needed, *self._needs(at_blocks)))

    def _block_weights(self) -> list[float]:
        rule, cfg = self._rule, self._cfg
        if not rule.weights:
            return [1.0] * len(cfg.blocks)
        return [sum(map(rule.weight, cfg.in_edges[block.id])) for block in cfg.blocks]

    def _saves(self, arranged: RoutineCode) -> bool:
        """Whether some code in the routine's window saves a register that a local could be."""
        groups = arranged.snippets, arranged.block_snippets, arranged.block_end_snippets
        return any(
            (site := each.place.site).frame.depth == 1
            and each.like.cost > like_body(each.actions, each.access, _without(site, LOCALS)).cost
            for group in groups
            for each in group.values()
        )


def _without(site: Site, registers: int) -> Site:
    return site._replace(live=site.live & ~registers)


def _freed(place: EdgePlace, freed: int) -> EdgePlace:
    """Return a place of the routine's own window where spilled registers are free."""
    if not place.site.frame.depth:
        return place
    return place._replace(site=_without(place.site, freed))


def _moved(place: EdgePlace, needed: Needs, context: RoutineContext) -> EdgePlace:
    """Return the place of code that must stand right before its block's transfer."""
    if not needed.at_transfer or place.where is not Where.SOURCE_END or place.block is None:
        return place
    if context.analysis is None:
        return place
    transfer = context.analysis.liveness.blocks[place.block].transfer
    if transfer is None:
        return place
    return place._replace(position=transfer, site=context.before(place.block, transfer))


def choose_registers(
    count: int, sites: Sequence[Site], clobbered: int, context: RoutineContext
) -> tuple[PathRegister, ...]:
    """Return the registers that hold the path state, None for each that must live on the stack."""
    # `count`: How many are needed.
    # `sites`: Where the code goes that uses them.
    # `clobbered`: Registers that calls of the code destroy.
    analysis = context.analysis
    if analysis is None:
        chosen: tuple[PathRegister, ...] = LOCAL_ORDER[:count]
        return (*chosen, *(None,) * (count - len(chosen)))
    taken = analysis.liveness.named | analysis.busy | clobbered
    for site in sites:
        taken |= site.live
    if analysis.frames.has_window:
        order = LOCAL_ORDER if all(site.frame.depth for site in sites) else ()
    else:
        order = () if analysis.liveness.makes_calls else context.abi.caller_saved
    chosen = tuple(members(~taken, order))[:count]
    return (*chosen, *(None,) * (count - len(chosen)))
