"""The cost model's version: what every number of added instructions rests on, as a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, product
from types import MappingProxyType

from msgspec import Struct

from simprof.profiler.code.codegen import Snippet
from simprof.profiler.code.cost_samples import (
    SAMPLES,
    Samples,
    sample_contexts,
    sample_plans,
    sites,
)
from simprof.profiler.code.hash_routine import WORD_COUNTS, hash_costs, routine_name
from simprof.profiler.code.pricing import Pricer
from simprof.profiler.code.runtime_code import (
    KEEP_COST,
    ROUTINES,
    keep,
    restore,
    restore_cost,
    restore_routine,
)
from simprof.profiler.code.snippet_parts import Generators
from simprof.profiler.code.snippets_paths import GENERATORS
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.plan.actions import CountConstantPath, CountPath
from simprof.profiler.schemes.definition import SchemeCode
from simprof.profiler.schemes.registry import OWN
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import AssemblyError, Instruction, Item, Label, Register

# Costs are counted in generated code, so the model is that code. It is generated for fixed samples
# (`cost_samples`), and what comes out is digested part by part: the snippets of each kind of
# action, each run-time routine, keeping condition codes, and where code goes. One instruction more
# or less in any of them changes its part's digest, and the whole one.
GENERATION = 1  # Counts revisions of what costs mean (not of code, which the digest sees)

_SHORT = 12


class CostModel(Struct, frozen=True):
    """What prices the code of schemes."""

    generation: int  # `GENERATION`
    # Part ("snippet CountPath", "routine hash_count", "placement", ...) -> digest of 12 hexadecimal
    # digits; sorted.
    parts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """SHA-256 of all parts, hexadecimal."""
        return _digest(f"{part} {digest}" for part, digest in self.parts.items())

    @property
    def version(self) -> str:
        """What reports print: "1-0123456789ab"."""
        return f"{self.generation}-{self.digest[:_SHORT]}"


@cache
def cost_model() -> CostModel:
    """Return the cost model of this simprof; made once a process."""
    return make_cost_model()


def own_code() -> tuple[SchemeCode, ...]:
    """Return the code that the model is made of: what all schemes share, then each one's own."""
    # Schemes of other distributions are not part of it, so that its version is the same wherever
    # simprof is.
    common = SchemeCode(
        generators=GENERATORS,
        samples=SAMPLES,
        routines=ROUTINES,
        routine_costs=lambda machine: (
            (routine_name(False, words), str(hash_costs(machine, words))) for words in WORD_COUNTS
        ),
        callers={"hash_count": (CountPath, CountConstantPath)},
    )
    schemes = {id(code): code for code in (scheme.code() for scheme in OWN)}
    return common, *schemes.values()


@cache
def routine_callers() -> Mapping[str, frozenset[str]]:
    """Return by the beginning of a routine's name which kinds of actions may call it."""
    callers: dict[str, set[str]] = {}
    for code in own_code():
        for symbol, kinds in code.callers.items():
            callers.setdefault(symbol, set()).update(kind.__name__ for kind in kinds)
    return MappingProxyType({symbol: frozenset(names) for symbol, names in callers.items()})


def make_cost_model(codes: Sequence[SchemeCode] | None = None) -> CostModel:
    """Generate all samples of `codes` (None: `own_code`) and digest them."""
    parts = {part: _digest(facts)[:_SHORT] for part, facts in _parts(codes or own_code())}
    return CostModel(GENERATION, MappingProxyType(dict(sorted(parts.items()))))


def _parts(codes: Sequence[SchemeCode]) -> Iterator[tuple[str, Iterable[str]]]:
    for code in codes:
        for kind, groups in code.samples.items():
            yield f"snippet {kind.__name__}", tuple(_snippets(groups, code.generators))
    for name, lines in _routines(codes).items():
        yield f"routine {name}", lines
    yield "conditions", _conditions()
    yield "placement", _placement(codes[0].generators)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _shown(code: Iterable[Instruction]) -> str:
    return "; ".join(f"{item.text} {item.word:08x} {item.fixup}" for item in code)


def _item(item: Item) -> str:
    return item.name if isinstance(item, Label) else _shown((item,))


def _snippets(groups: Sequence[Samples], generators: Generators) -> Iterator[str]:
    """Describe the code of all samples of one kind of action, everywhere."""
    samples = [(group, action) for group in groups for action in group.actions]
    for machine, (group, action) in product(MachineKind, samples):
        for access, site in sites(machine, group, generators):
            yield f"{machine} {action} {access.table} {access.addressing}"
            try:
                body = snippet_body((action,), access, site)
            except AssemblyError as error:
                yield str(error)
                continue
            yield _shown(body.instructions)
            yield f"{body.cost} {body.hash_calls} {body.taken_cost} {body.elsewhere}"


def _routines(codes: Sequence[SchemeCode]) -> dict[str, list[str]]:
    """Describe the run-time routines by symbol, and what is counted in them."""
    parts: dict[str, list[str]] = {}
    for machine in MachineKind:
        for make in chain.from_iterable(code.routines for code in codes):
            for name, items in _split(make(machine)):
                parts.setdefault(name, []).extend((str(machine), *items))
        for code in codes:
            for name, cost in code.routine_costs(machine):
                parts[name].append(cost)
    return parts


def _split(items: Iterable[Item]) -> Iterator[tuple[str, list[str]]]:
    """Yield routines by name: a routine begins at a label that is not local to another one."""
    name, lines = "", list[str]()
    for item in items:
        if isinstance(item, Label) and not (name and item.name.startswith(f"{name}.")):
            if name:
                yield name, lines
            name, lines = item.name, []
        else:
            lines.append(_item(item))
    yield name, lines


def _conditions() -> Iterator[str]:
    """Describe how condition codes are kept on V8."""
    yield f"{KEEP_COST} {restore_cost()}"
    yield _shown((*keep(Register.L0), *restore(Register.L0)))
    yield from map(_item, restore_routine())


def _placement(generators: Generators) -> Iterator[str]:
    """Describe whole routines' code: places, jumps, path registers, saves."""
    for machine in MachineKind:
        recovered, contexts = sample_contexts(machine)
        for number, cfg in enumerate(recovered.routines):
            for plan in sample_plans(len(cfg.edges), len(cfg.blocks)):
                code = Pricer(generators).code(cfg, plan, (), contexts.of(number))
                yield f"{machine} {cfg.name} {code.path_register}"
                for kind in (code.snippets, code.block_snippets, code.block_end_snippets):
                    yield from (f"{place} {_placed(kind[place])}" for place in sorted(kind))


def _placed(snippet: Snippet) -> str:
    costs = (snippet.cost, snippet.jump_cost, snippet.hash_calls, snippet.taken_cost)
    place = (str(snippet.where), snippet.block, snippet.position)
    return f"{place} {costs} {_shown(snippet.instructions)}"
