"""Code of places that are alike costs the same: all kinds of actions at random places."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.code.arrangement import generate
from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.frames import FrameState, Site, slots
from simprof.profiler.code.layout import CounterLayout
from simprof.profiler.code.shapes import same
from simprof.profiler.code.snippet_parts import Body, Generator
from simprof.profiler.code.snippets import RoutineCode, like_body
from simprof.profiler.code.writer import Writer, snippet_body
from simprof.profiler.plan.actions import Action, CountEdge
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.recovery.recovery import recover
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes.kiter.code import AddAccumulators
from simprof.profiler.schemes.pref.code import CountPreferred
from simprof.profiler.schemes.registry import generators, make_plan, planned_modes, pricer
from simprof.profiler.schemes.tracing.code import WriteTarget
from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import AssemblyError
from simprof.simulator.isa.effects import ALL, CC
from tests.support.action_samples import SAMPLES, accesses
from tests.support.figures import named

Find = Callable[..., Path]
LIMITS = (
    *(0, 1, 255, 256, 1023, 1024, 4095, 4096, 4097, 5000, 1 << 20, (1 << 20) + 1),
    *((1 << 31) - 1, 1 << 31, (1 << 32) + 5, 7 << 40, -1, -4096, -4097, -(1 << 20)),
)
CONSTANTS = ("constant", "start", "value", "bits", "number", "counter", "index")
SHIFTS = (0, 1, 3, 12, 13, 14, 31)
"""Numbers of bits that a `CountPreferred` shifts or masks by."""
ROUNDS = 4


def varied(action: Action, chance: random.Random) -> Action:
    """Return the action with other constants."""
    if isinstance(action, AddAccumulators):
        count = len(action.entered)
        entered = tuple(chance.choice(LIMITS) for _ in range(count))
        compensated = tuple(
            value if chance.random() < 0.3 else chance.choice(LIMITS) for value in entered
        )
        return AddAccumulators(entered, compensated)
    given: Any = action
    names = set(given.__struct_fields__).intersection(CONSTANTS)
    changed = {name: chance.choice(LIMITS) for name in sorted(names)}
    if isinstance(action, CountPreferred):
        changed["bits"] = chance.choice(SHIFTS)
    if "width" in given.__struct_fields__:
        changed = {name: abs(value) for name, value in changed.items()}
    varied_action: Action = replace(given, **changed)
    return varied_action


def random_site(context: RoutineContext, paths: int, chance: random.Random) -> Site:
    """Return a place where any registers are live but path registers."""
    density = chance.choice((0.0, 0.3, 0.6, 0.9, 1.0))
    live = sum(1 << bit for bit in range(ALL.bit_length()) if chance.random() < density)
    live = (live & ALL & ~paths) | context.abi.reserved
    if chance.random() < 0.5:
        live |= CC
    state = chance.choice((FrameState(1, 0), FrameState(0, 0), FrameState(0, 208)))
    return Site(live, state, slots(state, chance.choice((240, None)), context.abi))


def cases(machine: MachineKind, seed: int) -> Iterator[tuple[tuple[Action, ...], Any, Site]]:
    """Yield pieces of code of every kind of action, with their places."""
    chance = random.Random(seed)
    for sample in SAMPLES:
        for access in accesses(machine, sample):
            low = chance.choice((0, 8, 1020))
            layout = replace(access.layout, named=access.layout.named + low)
            placed = replace(access, layout=layout)
            for action in sample.actions:
                for _ in range(ROUNDS):
                    actions: tuple[Action, ...] = (varied(action, chance),)
                    if chance.random() < 0.3:
                        actions += (chance.choice(sample.actions),)
                    yield actions, placed, random_site(access.context, placed.path_mask, chance)


def outcome(
    make: Callable[..., Body], actions: tuple[Action, ...], access: Any, site: Site
) -> object:
    """Return what code costs, or that there is none."""
    try:
        return make(actions, access, site).costs
    except AssemblyError:
        return "no code"


@pytest.mark.long
@pytest.mark.parametrize("machine", MachineKind)
@pytest.mark.seeds([1, 2, 3], few=1)
def test_code_of_a_place_costs_what_that_of_one_like_it_does(
    machine: MachineKind, seed: int
) -> None:
    kinds: set[type[Action]] = set()
    for actions, access, site in cases(machine, seed):
        expected = outcome(snippet_body, actions, access, site)
        assert outcome(like_body, actions, access, site) == expected, (actions, access, site)
        kinds.update(type(action) for action in actions if expected != "no code")
    assert kinds == {kind for mode in planned_modes() for kind in generators(mode)}


@pytest.mark.long
@pytest.mark.parametrize("build", ["v9", "v8plus", "v8"])
def test_a_routine_costs_what_its_code_does(fixture_elf: Find, build: str) -> None:
    recovered = recover(load(fixture_elf("loops", build)))
    contexts = ProgramContexts(recovered)
    for mode in ("pp", "kiter", "qpt", "bittrace", "witness", "wpp", "naive"):
        for number, cfg in enumerate(recovered.routines):
            plan = make_plan(cfg, mode, SchemeOptions()).plan
            code = pricer(mode, SchemeOptions()).code(cfg, plan, (), contexts.of(number))
            snippets = list(code.all_snippets)
            lengths = [len(each.instructions) for each in snippets]
            assert (code.count, code.static_instructions) == (len(lengths), sum(lengths))
            for each in snippets:
                own = snippet_body(each.actions, each.access, each.place.site)
                assert each.cost == own.cost + (len(each.instructions) - len(own.instructions))
                assert (each.jump is None) == (len(each.instructions) == len(own.instructions))
                assert each.taken_costs == own.taken_costs


def of_own_kind(write: Callable[[Writer, CountEdge], None], text: str) -> RoutineCode:
    """Return code of counters on all edges of a graph, which `write` writes."""
    cfg = named(text, text[0], text[-1])
    plan = InstrumentationPlan(
        {edge.id: (CountEdge(edge.id),) for edge in cfg.edges}, False, CounterTable.NONE, 0, None, 5
    )
    own: dict[type, Generator] = {CountEdge: Generator(write, shape=same)}
    return generate(cfg, plan, RoutineContext.free(), CounterLayout(), own)


def test_code_of_one_shape_is_generated_once() -> None:
    written = []

    def write(writer: Writer, action: CountEdge) -> None:
        written.append(action)
        writer.increment(writer.layout.edge_counter(action.counter))

    code = of_own_kind(write, "A>B B>C C>D")
    assert code.count > 3
    assert code.code_bytes > 0
    assert len(written) == 1


def test_a_shape_that_tells_too_little_is_found_when_code_is_made() -> None:
    def write(writer: Writer, action: CountEdge) -> None:
        for _ in range(action.counter + 1):
            writer.increment(writer.layout.edge_counter(0))

    code = of_own_kind(write, "A>B B>C")
    with pytest.raises(AssemblyError, match="CountEdge"):
        code.generate()


def test_code_that_depends_on_its_place_has_no_shape() -> None:
    assert generators("witness")[WriteTarget].shape is None
