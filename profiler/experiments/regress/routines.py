"""Which routines differ between two results, and in what: counts, graph, plan, register."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from simprof.profiler.experiments.regress.file import RoutineFacts, SettingResult
from simprof.simulator.binary.program import LineTable


@dataclass(frozen=True)
class PlanChange:
    """How a plan differs where the graph is the same; places as in `RoutineFacts`.

    Attributes
    ----------
    added, removed, changed
        Places that are instrumented now, that are no more, and that have other actions.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def places(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.added, *self.removed, *self.changed)


@dataclass(frozen=True)
class RoutineChange:
    """One routine that differs.

    Attributes
    ----------
    numbers
        Name -> old and new value, of those that differ; None where the routine is not there.
    facts
        The same of `table` and `register`.
    presence
        "both", "gone" or "new".
    graph
        Whether its graph differs.
    profile
        Whether the count of some edge or path differs.
    plan
        How its plan differs; None where it does not, or the graph does.
    source
        The line of its source where it begins, "main.c:12"; "" where that is not known.
    lines
        Place of `plan` -> the line that it is on, where that is known.
    """

    name: str
    address: int
    numbers: Mapping[str, tuple[int | None, int | None]]
    facts: Mapping[str, tuple[str, str]]
    presence: str
    graph: bool
    profile: bool
    plan: PlanChange | None
    source: str = ""
    lines: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts_differ(self) -> bool:
        """Whether anything that is counted differs."""
        return bool(self.numbers) or self.profile or self.presence != "both"

    @property
    def costs_alone(self) -> bool:
        """Whether it executes the same under the same plan, and yet costs otherwise."""
        executed = {"activations", "instructions", "paths"} & set(self.numbers)
        same = self.presence == "both" and not self.graph and self.plan is None
        return same and not executed and not self.profile and "added" in self.numbers

    @property
    def weight(self) -> int:
        """How much it matters: the change of its added instructions."""
        old, new = self.numbers.get("added", (0, 0))
        return abs((new or 0) - (old or 0))


def located(change: RoutineChange, table: LineTable | None) -> RoutineChange:
    """Return a change with the source lines of the routine and of its places."""
    if table is None or change.presence == "gone":
        return change
    places = () if change.plan is None else change.plan.places
    lines = {place: _line(table, change.address + _offset(place)) for place in places}
    known = {place: line for place, line in lines.items() if line}
    return replace(change, source=_line(table, change.address), lines=known)


def _line(table: LineTable, address: int) -> str:
    found = table.find(address)
    return "" if found is None else f"{PurePath(found.file).name}:{found.line}"


def _offset(place: str) -> int:
    """Return where a place is: of an edge, its source, or its target if it comes from ENTRY."""
    source, _, target = place.partition(":")[0].rstrip("^$").partition(">")
    return int((source or target).removesuffix("s"), 16)


def routine_changes(
    old: SettingResult, new: SettingResult, same_program: bool
) -> Iterator[RoutineChange]:
    """Yield the routines that differ, those that matter most first.

    Routines of different programs are matched by name, and in order where several have one.
    """
    changes = [
        change
        for one, two in _pairs(old.routines, new.routines, same_program)
        if (change := _change(one, two)) is not None
    ]
    yield from sorted(changes, key=lambda change: (-change.weight, change.address, change.name))


def _pairs(
    old: Sequence[RoutineFacts], new: Sequence[RoutineFacts], same_program: bool
) -> Iterator[tuple[RoutineFacts | None, RoutineFacts | None]]:
    before, after = _keyed(old, same_program), _keyed(new, same_program)
    for key in dict.fromkeys((*before, *after)):
        yield before.get(key), after.get(key)


def _keyed(
    routines: Sequence[RoutineFacts], by_address: bool
) -> dict[tuple[int, str], RoutineFacts]:
    if by_address:
        return {routine.key: routine for routine in routines}
    seen: defaultdict[str, int] = defaultdict(int)
    keyed = {}
    for routine in routines:
        keyed[seen[routine.name], routine.name] = routine
        seen[routine.name] += 1
    return keyed


def _change(old: RoutineFacts | None, new: RoutineFacts | None) -> RoutineChange | None:
    if old is None or new is None:
        return _coming_or_going(old, new)
    graph = old.graph != new.graph
    numbers = {
        name: (old.numbers.get(name), new.numbers.get(name))
        for name in dict.fromkeys((*old.numbers, *new.numbers))
        if old.numbers.get(name) != new.numbers.get(name)
    }
    facts = {
        name: (getattr(old, name), getattr(new, name))
        for name in ("table", "register")
        if getattr(old, name) != getattr(new, name)
    }
    plan = None if graph or old.plan == new.plan else _plan_change(old.places, new.places)
    profile = old.profile != new.profile
    if not (graph or numbers or facts or plan or profile):
        return None
    return RoutineChange(new.name, new.address, numbers, facts, "both", graph, profile, plan)


def _coming_or_going(old: RoutineFacts | None, new: RoutineFacts | None) -> RoutineChange | None:
    here = new if old is None else old
    if here is None:
        return None
    numbers = {
        name: (None, number) if old is None else (number, None)
        for name, number in here.numbers.items()
    }
    presence = "new" if old is None else "gone"
    return RoutineChange(here.name, here.address, numbers, {}, presence, False, False, None)


def _plan_change(old: Mapping[str, str], new: Mapping[str, str]) -> PlanChange:
    return PlanChange(
        tuple(place for place in new if place not in old),
        tuple(place for place in old if place not in new),
        tuple(place for place in new if place in old and old[place] != new[place]),
    )
