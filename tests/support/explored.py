"""The recovery's inner stages on assembled routines, each to be looked at on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from simprof.profiler.recovery.code_image import build_code_image
from simprof.profiler.recovery.exploration import Exploration, Flow, Hints, Resolution
from simprof.profiler.recovery.routines import RoutineMap
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Instruction, Item, Label, assign_labels
from tests.support.assembled import BASE, program_of
from tests.support.event_player import NamedPlaces

Resolver = Callable[[int], Mapping[int, Resolution | None]]


def word(value: int) -> Instruction:
    """A word of data in the text."""
    return Instruction(f".word {value:#x}", value & 0xFFFFFFFF)


def with_table(name: str, items: Sequence[Item], *targets: str) -> list[Item]:
    """The code of a program's first routine, `name`, with a table of 4-byte addresses behind it.

    The table's label is "table"; `targets` are labels of `items`.
    """
    labels = assign_labels([Label(name), *items, Label("table")], BASE)
    return [*items, Label("table"), *(word(labels[target]) for target in targets)]


class Explored(NamedPlaces):
    """Code image, layout and exploration of a program; words are named as places.

    `stripped` leaves all symbols out.
    """

    def __init__(
        self,
        routines: Mapping[str, Sequence[Item]],
        machine: MachineKind = MachineKind.SPARCV9,
        *,
        stripped: bool = False,
        targets: Mapping[str, Sequence[str]] | None = None,
        entries: Sequence[str] = (),
        returning_calls: Sequence[str] = (),
        landings: Sequence[str] = (),
        distrusted: Sequence[str] = (),
    ) -> None:
        super().__init__(routines)
        program = program_of(dict(routines), machine)
        self.program = replace(program, symbols=()) if stripped else program
        self.code = build_code_image(self.program)
        self.layout = RoutineMap(self.program, self.code).with_synthetic([0] if stripped else [])
        hints = Hints(
            {self.index(jump): self.indices(known) for jump, known in (targets or {}).items()},
            self.indices(entries),
            self.indices(returning_calls),
            self.indices(landings),
        )
        distrust = self.indices(distrusted)
        self.exploration = Exploration(self.code, self.layout, hints, distrust, self.program.is64)

    def run(self, resolve: Resolver = lambda _: {}) -> Exploration:
        """Explore to the fixpoint, with `resolve` as the analysis of indirect jumps."""
        self.exploration.run(resolve)
        return self.exploration

    def index(self, place: str) -> int:
        """Index of the word at a place."""
        return (self.address(place) - BASE) // 4

    def indices(self, places: Iterable[str]) -> frozenset[int]:
        """Indices of the words at places."""
        return frozenset(map(self.index, places))

    def places(self, indices: Iterable[int]) -> set[str]:
        """The places of words."""
        return {self.name(BASE + 4 * index) for index in indices}

    def leaders(self, number: int = 0) -> set[str]:
        """Where the reachable blocks of a routine start."""
        return self.places(self.exploration.leaders(number))

    def flow(self, place: str) -> Flow:
        """Where control goes from the instruction at a place, which ends a block."""
        (flow,) = self.exploration.flows([self.index(place)])
        assert flow is not None
        return flow
