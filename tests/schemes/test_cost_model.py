"""The cost model's version: equal for equal code, another one for one instruction more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.code import places
from simprof.profiler.code.codegen import RoutineCode
from simprof.profiler.code.cost_samples import sites
from simprof.profiler.code.hash_routine import hash_routine, hash_routines
from simprof.profiler.code.pricing import Pricer
from simprof.profiler.code.snippet_parts import Body, Generator
from simprof.profiler.code.writer import Writer, snippet_body
from simprof.profiler.schemes import cost_model as schemes_cost_model
from simprof.profiler.schemes.cost_model import CostModel, cost_model, make_cost_model, own_code
from simprof.profiler.schemes.definition import SchemeCode
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item
from tests.support.turns import first

CODES = own_code()
OWN = [kind for code in CODES for kind in code.generators]
ROUTINES = [(k, n) for k, code in enumerate(CODES) for n in range(len(code.routines))]


def with_code(number: int, **changes: Any) -> tuple[SchemeCode, ...]:
    """Return all code with something else in place `number`."""
    return (*CODES[:number], replace(CODES[number], **changes), *CODES[number + 1 :])


@pytest.fixture(scope="module")
def model() -> CostModel:
    """The cost model as it is."""
    return make_cost_model()


def changed(old: CostModel, new: CostModel) -> set[str]:
    """Names of the parts that differ; the versions differ just where some do."""
    assert set(old.parts) == set(new.parts)
    found = {part for part in old.parts if old.parts[part] != new.parts[part]}
    assert (old.version != new.version) == bool(found)
    return found


@pytest.mark.long
def test_it_is_the_same_in_every_process(model: CostModel) -> None:
    code = (
        "from simprof.profiler.schemes.cost_model import cost_model as m\n"
        "print(m().version, m().digest)"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == [model.version, model.digest]
    assert cost_model() == model


def test_every_kind_of_action_has_samples() -> None:
    for code in CODES:
        assert set(code.generators) == set(code.samples)


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("machine", MachineKind)
def test_all_samples_can_be_generated(kind: type, machine: MachineKind) -> None:
    bodies = [
        snippet_body((action,), access, site)
        for code in CODES
        for group in code.samples.get(kind, ())
        for action in group.actions
        for access, site in sites(machine, group, code.generators)
    ]
    assert sum(bool(body.instructions) for body in bodies) > len(bodies) // 2


def with_nop(generator: Generator) -> Generator:
    """The generator with an instruction more."""

    def write(writer: Writer, action: object) -> None:
        generator.write(writer, action)
        writer.emit(asm.nop())

    return Generator(write, generator.needs)


@pytest.mark.parametrize("kind", first(2, OWN[::2]), ids=lambda kind: kind.__name__)
def test_one_instruction_of_one_snippet_changes_its_part(kind: type, model: CostModel) -> None:
    number = next(k for k, code in enumerate(CODES) if kind in code.generators)
    generators = CODES[number].generators
    longer = {**generators, kind: with_nop(generators[kind])}
    found = changed(model, make_cost_model(with_code(number, generators=longer)))
    assert found - {"placement"} == {f"snippet {kind.__name__}"}
    in_plans = kind.__name__ in ("CountEdge", "CountPath", "SetRegister")
    assert ("placement" in found) == in_plans


@pytest.mark.parametrize(("code", "number"), first(2, ROUTINES))
def test_one_instruction_of_a_routine_changes_its_part(
    code: int, number: int, model: CostModel
) -> None:
    routines = CODES[code].routines
    old = routines[number]

    def longer(machine: MachineKind) -> tuple[Item, ...]:
        return (*old(machine), asm.nop())

    routines = tuple(longer if k == number else routine for k, routine in enumerate(routines))
    (part,) = changed(model, make_cost_model(with_code(code, routines=routines)))
    assert part.startswith("routine ")


def test_a_word_of_a_routine_changes_its_part(model: CostModel) -> None:
    def other(machine: MachineKind) -> Sequence[Item]:
        first = len(hash_routine(machine, False))
        items = hash_routines(machine)
        return (*items[: first - 2], asm.retl(), *items[first - 1 :])

    routines = (other,)
    assert changed(model, make_cost_model(with_code(0, routines=routines))) == {
        "routine hash_count"
    }


def test_where_code_goes_is_a_part(model: CostModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_choose", lambda stubs, *_: stubs[0])
    assert changed(model, make_cost_model()) == {"placement"}


def test_what_conditional_parts_cost_is_in_their_snippets_part(
    model: CostModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same instructions, of which one more is executed where the condition holds."""

    def dearer(*arguments: Any) -> Body:
        body = snippet_body(*arguments)
        dearer = tuple(cost + 1 for cost in body.taken_costs)
        return replace(body, taken_costs=dearer)

    monkeypatch.setattr(schemes_cost_model, "snippet_body", dearer)
    found = changed(model, make_cost_model())
    assert {"snippet CountIterations", "snippet WriteTrace"} <= found
    assert not found & {"snippet CountPath", "placement", "conditions"}


def test_what_conditional_parts_cost_is_in_the_placements_part(
    model: CostModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whole routines, too: there the price of each snippet is digested once more."""
    correct = Pricer.code

    def dearer(self: Pricer, *arguments: Any) -> RoutineCode:
        code = correct(self, *arguments)
        snippets = {
            e: replace(s, taken_costs=(*s.taken_costs, 1)) for e, s in code.snippets.items()
        }
        return replace(code, snippets=snippets)

    monkeypatch.setattr(Pricer, "code", dearer)
    assert changed(model, make_cost_model()) == {"placement"}
