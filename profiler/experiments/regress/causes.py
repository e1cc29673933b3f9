"""Causes of differences between two baselines.

Counts follow from the program, its input, simprof with its emulator, the source files that make
the code of a mode, the setting, and the plans. A `ChangeCause` names one of these that is not what
it was.

Beside the causes: the routines that differ, in their counts, graph, plan or register.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.experiments.regress.file import (
    CODE,
    FILE,
    Baseline,
    BaselineRoutine,
    BaselineRun,
    Fact,
    Facts,
    SettingResult,
)
from simprof.profiler.profiles.differences import changed, matched
from simprof.simulator.binary.program import LineTable

CauseKind = Literal[
    "binary", "input", "simprof", "emulator", "cost model", "setting", "graphs", "algorithm",
    "plans", "code", "unexplained",
]  # fmt: skip

MOST = 8  # How many details of a cause are listed one by one


class ChangeCause(Struct, frozen=True):
    """One thing that changed."""

    # What changed. Three kinds are about plans. "plans": they differ because the program, its input
    # or the setting differ. "algorithm": they differ though none of these do. "code": they are the
    # same, but other instructions are generated for them, though no source file changed that
    # generates these ("cost model"): the program's registers, say, are known better.
    kind: CauseKind
    text: str  # One line
    details: tuple[str, ...] = ()  # More lines: which parts, files, routines, edges.


UNEXPLAINED = ChangeCause(
    "unexplained",
    "nothing that was recorded changed: the program may depend on time or chance, or the "
    "emulation did change",
)


def run_causes(
    old: Baseline, new: Baseline, before: BaselineRun, after: BaselineRun
) -> Iterator[ChangeCause]:
    """Yield what changed about a run: this explains differences under all its settings."""
    yield from _binary(before.program, after.program)
    details = tuple(_input_details(before.input, after.input))
    if details:
        yield ChangeCause("input", "the program is given something else", details)
    for name, kind in (("simprof", "simprof"), ("unicorn", "emulator")):
        one, two = old.tool.get(name, "unknown"), new.tool.get(name, "unknown")
        if one != two:
            yield ChangeCause(kind, f"{name} {one} -> {two}")  # type: ignore[arg-type]


def _binary(old: Facts, new: Facts) -> Iterator[ChangeCause]:
    if old["sha256"] == new["sha256"]:
        return
    text = f"the program file changed: sha256 {_hash(old['sha256'])} -> {_hash(new['sha256'])}"
    details = []
    if old["compiler"] != new["compiler"]:
        one, two = (dict.fromkeys(str(facts["compiler"]).split("; ")) for facts in (old, new))
        gone, come = (note for note in one if note not in two), (n for n in two if n not in one)
        details.append(f"compiler {', '.join(gone) or 'none'} -> {', '.join(come) or 'none'}")
    else:
        details.append(f"same compiler: {new['compiler'] or 'unknown'}")
    told = ("machine", "flags", "source_hash")
    details += [text for name, text in _moved(old, new).items() if name in told]
    yield ChangeCause("binary", text, tuple(details))


_PLACES = ("stdin_file", "root")  # where files are, which decides nothing


def _input_details(old: Facts, new: Facts) -> Iterator[str]:
    for name, text in sorted(_moved(old, new).items()):
        if name.startswith(FILE):
            yield f"{name} is {'gone' if name not in new else 'other' if name in old else 'new'}"
        elif name == "stdin":
            yield f"{name} {_hash(old.get(name))} -> {_hash(new.get(name))}"
        elif name not in _PLACES:
            yield text


def _moved(old: Facts, new: Facts) -> dict[str, str]:
    """Return a line on each fact that differs, by its name."""
    pairs = changed(old, new).items()
    return {name: f"{name} {_shown(one)} -> {_shown(two)}" for name, (one, two) in pairs}


def setting_causes(
    setting: str,
    old: Baseline,
    new: Baseline,
    routines: Sequence[RoutineChange],
    # What changed for the run, and so under every setting: another program explains other graphs,
    # another program or input explains other plans.
    run_causes: Sequence[ChangeCause],
) -> Iterator[ChangeCause]:
    """Yield what changed for one setting of a run."""
    one, two = old.settings[setting], new.settings[setting]
    code = f"{CODE}{two['mode']}"
    before, after = old.costs[code], new.costs[code]
    if before != after:
        versions = f"version {before} -> {after}"
        yield ChangeCause("cost model", f"{code}: its source files changed", (versions,))
    options = tuple(text for _, text in sorted(_moved(one, two).items()))
    if options:
        yield ChangeCause("setting", "options changed", options)
    given = any(cause.kind in ("binary", "input") for cause in run_causes) or bool(options)
    graphs = [routine for routine in routines if routine.graph_differs]
    if graphs:
        why = "" if any(cause.kind == "binary" for cause in run_causes) else " of the same program"
        yield ChangeCause("graphs", f"other control-flow graphs{why}", _names(graphs))
    plans = [routine for routine in routines if routine.plan is not None]
    if plans:
        yield _plan_cause(plans, given)
    alone = [routine for routine in routines if routine.costs_alone]
    if alone and before == after:
        text = "the same plans are other code: registers, places or addresses differ"
        yield ChangeCause("code", text, _names(alone))


def _plan_cause(plans: Sequence[RoutineChange], given: bool) -> ChangeCause:
    count = f"{len(plans)} routine{'' if len(plans) == 1 else 's'}"
    if given:
        return ChangeCause("plans", f"other plans follow in {count}", _names(plans))
    details = tuple(
        _limited(
            f"{named(change)}: {plan_text(change.plan)}"
            for change in plans
            if change.plan is not None
        )
    )
    return ChangeCause("algorithm", f"same program and setting, other plans in {count}", details)


def named(change: RoutineChange) -> str:
    """Return the name of a routine, with the line where it begins."""
    return f"{change.name} ({change.source})" if change.source else change.name


def plan_text(plan: PlanChange) -> str:
    """Describe how a plan differs in one line."""
    lines = plan.lines
    parts = [
        f"{title} {' '.join(_limited(place_text(place, lines.get(place)) for place in places))}"
        for title, places in (
            ("now on", plan.added),
            ("no longer on", plan.removed),
            ("other actions on", plan.changed),
        )
        if places
    ]
    return "; ".join(parts) or "other tables of counters"


def place_text(place: str, line: str | None = None) -> str:
    """Return a place for people, with its line: "+0x1c->+0x40 (main.c:12)", "ENTRY->+0x0"."""
    behind = f" ({line})" if line else ""
    if place[-1:] in ("^", "$"):
        return f"{_vertex(place[:-1], '')}{'(top)' if place[-1] == '^' else '(end)'}{behind}"
    ends, _, kind = place.partition(":")
    source, _, target = ends.partition(">")
    suffix = f"({kind})" if kind else ""
    return f"{_vertex(source, 'ENTRY')}->{_vertex(target, 'EXIT')}{suffix}{behind}"


def _vertex(name: str, outside: str) -> str:
    if not name:
        return outside
    slot = "(slot)" if name.endswith("s") else ""
    offset = name.removesuffix("s")
    sign = "" if offset.startswith("-") else "+"
    return f"{sign}{offset[:1] if not sign else ''}0x{offset.removeprefix('-')}{slot}"


def _names(routines: Sequence[RoutineChange]) -> tuple[str, ...]:
    return (", ".join(_limited(map(named, routines))),)


def _limited(items: Iterable[str]) -> Iterator[str]:
    lines = list(items)
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield f"and {len(lines) - MOST} more"


def _hash(value: Fact) -> str:
    return str(value)[:12] if value else "none"


def _shown(value: Fact) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return " ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


class PlanChange(Struct, frozen=True):
    """How a plan differs where the graph is the same; places as in `BaselineRoutine`."""

    # added, removed, changed: Places that are instrumented now, that are no more, and that have
    # other actions.
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    lines: Mapping[str, str] = field(default_factory=dict)  # Place -> its line, where it is known


class RoutineChange(Struct, frozen=True, kw_only=True):
    """One routine that differs; its fields are those of the JSON of a check."""

    name: str
    address: int
    # The line of its source where it begins, "main.c:12"; None where that is not known.
    source: str | None = None
    presence: str = "both"  # "both", "gone" or "new"
    # Name -> old and new value, of those that differ; None where the routine is not there.
    numbers: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    # The same of `table` and `register`
    facts: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    graph_differs: bool = False
    profile_differs: bool = False  # Whether the count of some edge or path differs
    plan: PlanChange | None = (
        None  # How its plan differs; None where it does not, or its graph does
    )

    @property
    def counts_differ(self) -> bool:
        """Whether anything that is counted differs."""
        return bool(self.numbers) or self.profile_differs or self.presence != "both"

    @property
    def costs_alone(self) -> bool:
        """Whether it executes the same under the same plan, and yet costs otherwise."""
        executed = {"activations", "instructions", "paths"} & set(self.numbers)
        same = self.presence == "both" and not self.graph_differs and self.plan is None
        return same and not executed and not self.profile_differs and "added" in self.numbers

    @property
    def weight(self) -> int:
        """How much it matters: the change of its added instructions."""
        old, new = self.numbers.get("added", (0, 0))
        return abs((new or 0) - (old or 0))


def _line(table: LineTable | None, address: int) -> str | None:
    found = None if table is None else table.find(address)
    return None if found is None else f"{PurePath(found.file).name}:{found.line}"


def _offset(place: str) -> int:
    """Return where a place is: of an edge, its source, or its target if it comes from ENTRY."""
    source, _, target = place.partition(":")[0].rstrip("^$").partition(">")
    return int((source or target).removesuffix("s"), 16)


def routine_changes(
    old: SettingResult, new: SettingResult, same_program: bool, lines: LineTable | None
) -> Iterator[RoutineChange]:
    """Yield the routines that differ, those that matter most first, with their source `lines`.

    Routines of different programs are matched by name, and in order where several have one.
    """
    changes = [
        change
        for one, two in matched(old.routines, new.routines, same_program)
        if (change := _change(one, two, lines)) is not None
    ]
    yield from sorted(changes, key=lambda change: (-change.weight, change.address, change.name))


def _change(
    old: BaselineRoutine | None, new: BaselineRoutine | None, table: LineTable | None
) -> RoutineChange | None:
    here = new or old
    assert here is not None
    source = None if new is None else _line(table, new.address)
    numbers = changed(*({} if each is None else each.numbers for each in (old, new)))
    plain = RoutineChange(name=here.name, address=here.address, source=source, numbers=numbers)
    if old is None or new is None:
        return replace(plain, presence="new" if old is None else "gone")
    facts = changed(*({"table": each.table, "register": each.register} for each in (old, new)))
    graph, profile = old.graph != new.graph, old.profile != new.profile
    plan = None if graph or old.plan == new.plan else _plan_change(old, new, table)
    if not (graph or numbers or facts or plan or profile):
        return None
    return replace(plain, facts=facts, graph_differs=graph, profile_differs=profile, plan=plan)


def _plan_change(old: BaselineRoutine, new: BaselineRoutine, table: LineTable | None) -> PlanChange:
    before, after = old.actions, new.actions
    added = tuple(place for place in after if place not in before)
    removed = tuple(place for place in before if place not in after)
    other = tuple(place for place in after if before.get(place, after[place]) != after[place])
    found = ((at, _line(table, new.address + _offset(at))) for at in (*added, *removed, *other))
    return PlanChange(added, removed, other, {place: line for place, line in found if line})
