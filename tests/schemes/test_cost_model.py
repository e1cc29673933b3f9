"""The cost model's version: equal for equal code, another one for one instruction more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from profiler.code import generators as snippets
from profiler.code import places
from profiler.code.cost_model import CostModel, cost_model, make_cost_model
from profiler.code.cost_samples import SAMPLES, samples_of, sites
from profiler.code.generators import GENERATORS, snippet_body
from profiler.code.runtime import routines as runtime
from profiler.code.runtime.hash_routine import hash_routine
from profiler.code.writer import Generator, Writer
from simulator.binary.program import MachineKind
from simulator.isa import assembler as asm
from simulator.isa.assembly import Item

OWN = [kind for kind in GENERATORS if kind.__module__.startswith("profiler.")]


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


def test_it_is_the_same_in_every_process(model: CostModel) -> None:
    code = "from profiler.code.cost_model import cost_model as m; print(m().version, m().digest)"
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
    assert set(OWN) == set(SAMPLES)


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("machine", MachineKind)
def test_all_samples_can_be_generated(kind: type, machine: MachineKind) -> None:
    bodies = [
        snippet_body((action,), scheme, site)
        for action, group in samples_of(kind)
        for scheme, site in sites(machine, group)
    ]
    assert sum(bool(body.instructions) for body in bodies) > len(bodies) // 2


def with_nop(generator: Generator) -> Generator:
    """The generator with an instruction more."""

    def write(writer: Writer, action: object) -> None:
        generator.write(writer, action)
        writer.emit(asm.nop())

    return Generator(write, generator.needs)


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_one_instruction_of_one_snippet_changes_its_part(
    kind: type, model: CostModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(snippets.GENERATORS, kind, with_nop(GENERATORS[kind]))
    found = changed(model, make_cost_model())
    assert found - {"placement"} == {f"snippet {kind.__name__}"}
    in_plans = kind.__name__ in ("CountEdge", "CountPath", "SetRegister")
    assert ("placement" in found) == in_plans


@pytest.mark.parametrize("number", range(len(runtime.ROUTINES)))
def test_one_instruction_of_a_routine_changes_its_part(
    number: int, model: CostModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = runtime.ROUTINES[number]

    def longer(machine: MachineKind) -> tuple[Item, ...]:
        return (*old(machine), asm.nop())

    routines = [longer if k == number else routine for k, routine in enumerate(runtime.ROUTINES)]
    monkeypatch.setattr(runtime, "ROUTINES", tuple(routines))
    (part,) = changed(model, make_cost_model())
    assert part.startswith("routine ")


def test_a_word_of_a_routine_changes_its_part(
    model: CostModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(machine: MachineKind) -> Sequence[Item]:
        *items, last = hash_routine(machine, False)
        return (*items[:-1], asm.retl(), last)

    monkeypatch.setattr(runtime, "ROUTINES", (other, *runtime.ROUTINES[1:]))
    assert changed(model, make_cost_model()) == {"routine hash_count"}


def test_where_code_goes_is_a_part(model: CostModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_falls_through", lambda *_: False)
    assert changed(model, make_cost_model()) == {"placement"}
