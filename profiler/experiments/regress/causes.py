"""What can explain that counts differ between two baselines.

Counts follow from the program, its input, simprof with its emulator and cost model, the setting,
and the plans. A `Cause` names one of these that is not what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from simprof.profiler.experiments.regress.file import Baseline, Fact, Facts, Run, SettingResult
from simprof.profiler.experiments.regress.routines import PlanChange, RoutineChange
from simprof.profiler.schemes.cost_model import routine_callers

CauseKind = Literal[
    "binary",
    "input",
    "simprof",
    "emulator",
    "cost model",
    "setting",
    "graphs",
    "algorithm",
    "plans",
    "code",
    "unexplained",
]

MOST = 8
"""How many details of a cause are listed one by one."""


@dataclass(frozen=True)
class Cause:
    """One thing that changed.

    Attributes
    ----------
    kind
        What changed. Three kinds are about plans. "plans": they differ because the program, its
        input or the setting differ. "algorithm": they differ though none of these do. "code": they
        are the same, but other instructions are generated for them, though no sample of the cost
        model changed.
    text
        One line.
    details
        More lines: which parts, files, routines, edges.
    """

    kind: CauseKind
    text: str
    details: tuple[str, ...] = ()


def unexplained() -> Cause:
    """Return the cause to report where counts differ though nothing recorded changed."""
    return Cause(
        "unexplained",
        "nothing that was recorded changed: the program may depend on time or chance, or the "
        "emulation did change",
    )


def run_causes(old: Baseline, new: Baseline, before: Run, after: Run) -> Iterator[Cause]:
    """Yield what changed about a run: this explains differences under all its settings."""
    yield from _binary(before.program, after.program)
    details = tuple(_input_details(before.input, after.input))
    if details:
        yield Cause("input", "the program is given something else", details)
    for name, kind in (("simprof", "simprof"), ("unicorn", "emulator")):
        one, two = old.tool.get(name, "unknown"), new.tool.get(name, "unknown")
        if one != two:
            yield Cause(kind, f"{name} {one} -> {two}")  # type: ignore[arg-type]


def _binary(old: Facts, new: Facts) -> Iterator[Cause]:
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
    for name in ("machine", "flags", "source_hash"):
        if old.get(name) != new.get(name):
            details.append(f"{name} {_shown(old.get(name))} -> {_shown(new.get(name))}")
    yield Cause("binary", text, tuple(details))


_PLACES = ("stdin_file", "root")  # where files are, which decides nothing


def _input_details(old: Facts, new: Facts) -> Iterator[str]:
    for name in sorted({*old, *new}.difference(_PLACES)):
        if name in old and name in new and old[name] == new[name]:
            continue
        if not name.startswith("file "):
            one, two = old.get(name), new.get(name)
            shown = (_hash(one), _hash(two)) if name == "stdin" else (_shown(one), _shown(two))
            yield f"{name} {shown[0]} -> {shown[1]}"
        elif name not in new:
            yield f"{name} is gone"
        else:
            yield f"{name} {'is other' if name in old else 'is new'}"


def setting_causes(
    setting: str,
    old: Baseline,
    new: Baseline,
    results: tuple[SettingResult, SettingResult],
    routines: Sequence[RoutineChange],
    run_causes: Sequence[Cause],
) -> Iterator[Cause]:
    """Yield what changed for one setting of a run.

    Parameters
    ----------
    run_causes
        What changed for the run, and so under every setting: another program explains other
        graphs, another program or input explains other plans.
    """
    parts = tuple(cost_changes(old.costs, new.costs, {*results[0].kinds, *results[1].kinds}))
    if parts:
        yield Cause("cost model", "instrumentation is other code", parts)
    options = tuple(_option_changes(old.settings[setting], new.settings[setting]))
    if options:
        yield Cause("setting", "options changed", options)
    given = any(cause.kind in ("binary", "input") for cause in run_causes) or bool(options)
    graphs = [routine for routine in routines if routine.graph]
    if graphs:
        why = "" if any(cause.kind == "binary" for cause in run_causes) else " of the same program"
        yield Cause("graphs", f"other control-flow graphs{why}", _names(graphs))
    plans = [routine for routine in routines if routine.plan is not None]
    if plans:
        yield _plan_cause(plans, given)
    alone = [routine for routine in routines if routine.costs_alone]
    if alone and not parts:
        text = "the same plans are other code: registers, places or addresses differ"
        yield Cause("code", text, _names(alone))


def _plan_cause(plans: Sequence[RoutineChange], given: bool) -> Cause:
    count = f"{len(plans)} routine{'' if len(plans) == 1 else 's'}"
    if given:
        return Cause("plans", f"other plans follow in {count}", _names(plans))
    details = tuple(
        _limited(
            f"{named(change)}: {plan_text(change.plan, change.lines)}"
            for change in plans
            if change.plan is not None
        )
    )
    return Cause("algorithm", f"same program and setting, other plans in {count}", details)


def named(change: RoutineChange) -> str:
    """Return the name of a routine, with the line where it begins."""
    return f"{change.name} ({change.source})" if change.source else change.name


def plan_text(plan: PlanChange, lines: Mapping[str, str] = MappingProxyType({})) -> str:
    """Describe how a plan differs in one line.

    Parameters
    ----------
    lines
        Place -> its source line, where that is known.
    """
    parts = [
        f"{title} {' '.join(_limited(_located(place, lines) for place in places))}"
        for title, places in (
            ("now on", plan.added),
            ("no longer on", plan.removed),
            ("other actions on", plan.changed),
        )
        if places
    ]
    return "; ".join(parts) or "other tables of counters"


def _located(place: str, lines: Mapping[str, str]) -> str:
    text = place_text(place)
    return f"{text} ({lines[place]})" if place in lines else text


def place_text(place: str) -> str:
    """Return a place for people: "+0x1c->+0x40", "ENTRY->+0x0"."""
    if place[-1:] in ("^", "$"):
        return f"{_vertex(place[:-1], '')}{'(top)' if place[-1] == '^' else '(end)'}"
    ends, _, kind = place.partition(":")
    source, _, target = ends.partition(">")
    suffix = f"({kind})" if kind else ""
    return f"{_vertex(source, 'ENTRY')}->{_vertex(target, 'EXIT')}{suffix}"


def _vertex(name: str, outside: str) -> str:
    if not name:
        return outside
    slot = "(slot)" if name.endswith("s") else ""
    offset = name.removesuffix("s")
    sign = "" if offset.startswith("-") else "+"
    return f"{sign}{offset[:1] if not sign else ''}0x{offset.removeprefix('-')}{slot}"


def cost_changes(
    old: Mapping[str, str], new: Mapping[str, str], kinds: Iterable[str] | None = None
) -> Iterator[str]:
    """Yield the parts of the cost model that differ.

    Parameters
    ----------
    kinds
        Kinds of actions whose snippets matter; None: all.
    """
    used = None if kinds is None else frozenset(kinds)
    for part in sorted({*old, *new}):
        if old.get(part) != new.get(part) and (used is None or _matters(part, used)):
            yield part if part in old and part in new else f"{part} ({_presence(part, new)})"


def _matters(part: str, kinds: frozenset[str]) -> bool:
    """Whether a part of the cost model prices anything in plans of these kinds of actions."""
    sort, _, name = part.partition(" ")
    if sort == "snippet":
        return name in kinds
    if sort == "routine":
        callers = [known for symbol, known in routine_callers().items() if name.startswith(symbol)]
        return bool(kinds.intersection(*callers)) if callers else bool(kinds)
    return sort == "generation" or bool(kinds)


def _presence(part: str, new: Mapping[str, str]) -> str:
    return "new" if part in new else "gone"


def _option_changes(old: Facts, new: Facts) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{name} {_shown(old.get(name))} -> {_shown(new.get(name))}"


def _names(routines: Sequence[RoutineChange]) -> tuple[str, ...]:
    """Return one line with the names of routines."""
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
