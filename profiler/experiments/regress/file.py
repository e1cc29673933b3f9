"""Baselines of `simprof regress`: what they hold, and their files.

A baseline holds what programs counted under settings, and everything that these counts rest on:
so a later difference can be explained. Everything in it is repeatable; times are not in it.

A file is text with one fact a line, sorted, so that differences are easy to read in git. The first
line is ``simprof-baseline VERSION``, the last one ``end``. Every line between is a JSON list whose
last element is a value and whose other elements say of what, so that a line needs no context to be
understood:

=============================================================  ==============================
["tool", NAME, VERSION]                                        `Baseline.tool`
["cost", "code of mode MODE", VERSION]                         `Baseline.costs`
["setting", SETTING, OPTION, VALUE]                            `Baseline.settings`
["run", RUN, "program" or "input" or "ending", FACT, VALUE]    `BaselineRun`
["run", RUN, "count", SETTING, METRIC, NUMBER]                 `SettingResult.metrics`
["run", RUN, "routine", SETTING, ADDRESS, NAME, {...}]         `BaselineRoutine`
=============================================================  ==============================

The reader takes the lines in any order (git may have merged them) and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import astuple

from simprof.profiler.profiles.codec import big_integers, decode, parse_json
from simprof.profiler.profiles.output import write_atomically
from simprof.profiler.profiles.profile import Ending
from simprof.profiler.profiles.storage import FileFormat
from simprof.simulator.binary.program import LineTable
from simprof.simulator.errors import UsageError

Fact = str | int | float | bool | None | tuple[str, ...]
Facts = Mapping[str, Fact]

# Metric that is not stored: added instructions per instruction of the uninstrumented run.
OVERHEAD = "overhead"


class BaselineRoutine(Struct, frozen=True, forbid_unknown_fields=True):
    """One entered routine under one setting.

    Places are written as hexadecimal offsets from the routine's address, so that they stay what
    they are when the routine moves: "1c>40" is an edge, ">0" one from ENTRY, "1c>" one to EXIT,
    "1c^" and "1c$" are the top and the end of a block; "s" marks slot blocks, and a word like
    "taken" behind ":" tells parallel edges apart.
    """

    # name, address: Of the routine.
    name: str
    address: int
    graph: str  # Digest of its control-flow graph
    plan: str  # Digest of its instrumentation plan; "" where the setting instruments nothing.
    places: Mapping[str, str]  # Instrumented place -> short digest of the actions there
    # table, register: Kind of path table ("array", "hash", "none") and where the path number lives
    # ("" where there is none).
    table: str
    register: str
    profile: str  # Digest of its edge and path counts
    numbers: Mapping[str, int]  # activations, added, instructions, paths, cut_edges

    @property
    def key(self) -> tuple[int, str]:
        """Identity within one program."""
        return self.address, self.name


# Not `profile.RunMeasurement`: a file under version control has digests of graphs and counts.
class SettingResult(Struct, frozen=True):
    """What one program counted under one setting."""

    # Totals: `base`, `added`, and with a prefix those of `profile.RunMeasurement`
    # ("counts.path_increments", "sizes.code_bytes", "lost.cold_paths").
    metrics: Mapping[str, int]
    routines: tuple[BaselineRoutine, ...] = ()  # By address

    def metric(self, name: str) -> int | Fraction | None:
        """Return a metric, None where there is none of that name."""
        if name == OVERHEAD:
            base = self.metrics.get("base", 0)
            return Fraction(self.metrics.get("added", 0), base) if base else Fraction(0)
        return self.metrics.get(name)


class BaselineRun(Struct, frozen=True):
    """One program on one input, under all settings of the baseline."""

    # `file` (as found from the baseline's directory) or `suite`, `benchmark`, `build` and `input`;
    # `sha256`, `compiler` (`compiler_note`), `machine`.
    program: Facts
    input: Facts  # What the program is given: see `measure.input_facts`.
    ending: Facts  # `reason`, `status` and `output`, the digest of what it wrote
    results: Mapping[str, SettingResult] = field(default_factory=dict)  # By the name of the setting
    # ended, lines: Of a run that was made just now, its ending and its program's source lines; not
    # kept, and not compared.
    ended: Ending | None = None
    lines: LineTable | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BaselineRun) and astuple(self)[:-2] == astuple(other)[:-2]


class Baseline(Struct, frozen=True):
    """Everything that one `simprof regress record` found."""

    tool: Mapping[str, str]  # Versions of `simprof` and of `unicorn`
    # Mode -> version of what its instructions cost (`cost_model.cost_version`), of all settings
    costs: Mapping[str, str]
    settings: Mapping[str, Facts]  # Name -> `mode` and every option of it
    runs: Mapping[str, BaselineRun]  # By name


def short_digest(text: str, digits: int = 12) -> str:
    """Return the first hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:digits]


FORMAT = FileFormat("baseline", version=2, option="simprof regress record", longest=64)
END = "end"
CODE = "code of mode "  # Begins what the lines on costs are about
LARGEST = 1 << 30  # bytes; a damaged or hostile file must not fill the memory

_REQUIRED = {
    "program": {"sha256", "compiler", "machine"},
    "input": {"arguments", "stdin", "argv0"},
    "ending": {"reason", "status", "output"},
}
_ROUTINE_TEXTS = ("graph", "plan", "profile", "register", "table")


def save(baseline: Baseline, path: Path) -> None:
    """Write a baseline, whole or not at all; raises UsageError if the file cannot be written."""
    write_atomically(path, to_text(baseline).encode("ascii"))


def load(path: Path) -> Baseline:
    """Read a baseline.

    Raises UsageError if the file cannot be read, is no baseline, is damaged, or has another
    version.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path} is too large for a baseline: name the right file")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return from_text(data.decode("ascii", "replace"), str(path))


def to_text(baseline: Baseline) -> str:
    """Return the content of a baseline's file."""
    with big_integers():
        lines = [json.dumps(fact, sort_keys=True) for fact in _facts(baseline)]
    return FORMAT.first_line.decode() + "\n".join([*lines, END, ""])


def _facts(baseline: Baseline) -> Iterator[list[Any]]:
    yield from (["tool", name, baseline.tool[name]] for name in sorted(baseline.tool))
    yield from (["cost", CODE + mode, baseline.costs[mode]] for mode in sorted(baseline.costs))
    for setting, options in sorted(baseline.settings.items()):
        yield from (["setting", setting, name, options[name]] for name in sorted(options))
    for name, run in sorted(baseline.runs.items()):
        yield from (["run", name, *fact] for fact in _run_facts(run))


def _run_facts(run: BaselineRun) -> Iterator[list[Any]]:
    for title, facts in (("program", run.program), ("input", run.input), ("ending", run.ending)):
        yield from ([title, name, facts[name]] for name in sorted(facts))
    for setting, result in sorted(run.results.items()):
        metrics = result.metrics
        yield from (["count", setting, name, metrics[name]] for name in sorted(metrics))
        for routine in sorted(result.routines, key=lambda each: each.key):
            yield ["routine", setting, hex(routine.address), routine.name, _routine(routine)]


def _routine(routine: BaselineRoutine) -> dict[str, Any]:
    texts = {name: getattr(routine, name) for name in _ROUTINE_TEXTS}
    places = " ".join(f"{place}={digest}" for place, digest in routine.places.items())
    return {**texts, **routine.numbers, "places": places}


def from_text(text: str, name: str) -> Baseline:
    """Return the baseline in the content of a file; `name` is for messages.

    Raises UsageError as `load` does.
    """
    start = FORMAT.check(text[: FORMAT.longest].encode("ascii", "replace"), name)
    *lines, last, after = text[start:].split("\n") if "\n" in text[start:] else ("", "")
    if last != END or after:
        raise _damaged(name, "its last line is not `end`, so it is cut short or was changed")
    facts: dict[str, Any] = {}
    for number, line in enumerate(lines, start=2):
        try:
            with big_integers():
                _take(parse_json(line), facts)
        except (ValueError, TypeError, RecursionError) as error:
            reason = " ".join(str(error).split()) or "no JSON"
            raise _damaged(name, f"line {number}: {reason}") from None
    try:
        return _baseline(facts)
    except ValueError as error:
        raise _damaged(name, str(error)) from None


def _damaged(name: str, reason: str) -> UsageError:
    return UsageError(
        f"{name} is a damaged baseline ({reason}): restore it from version control, or record it "
        "again"
    )


_FACT: Any = Fact


def _take(fact: object, facts: dict[str, Any]) -> None:
    """Put what a line says into `facts`, by the words that say of what; ValueError if it cannot."""
    what: list[Any]
    *what, value = decode(list, fact, "it")
    if not what or not all(isinstance(word, str) for word in what):
        raise ValueError("what it is about is no text")
    made: Any
    match what:
        case ["tool", name]:
            made = decode(str, value, name)
        case ["cost", name] if name.startswith(CODE):
            made = decode(str, value, name)
            what = ["cost", name.removeprefix(CODE)]
        case ["setting", _, name] | ["run", _, "program" | "input" | "ending", name]:
            made = decode(_FACT, value, name)
        case ["run", _, "count", _, name]:
            made = decode(int, value, name)
        case ["run", _, "routine", _, address, name]:
            made = _parse_routine(address, name, value)
            what = [*what[:-2], made.key]
        case _:
            raise ValueError("it is about nothing that a baseline holds")
    for word in what[:-1]:
        facts = facts.setdefault(word, {})
    _put(facts, what[-1], made)


def _baseline(facts: Mapping[str, Any]) -> Baseline:
    """Return what the facts of all lines make, which must be complete: ValueError if it is not."""
    if "tool" not in facts:
        raise ValueError("it has no tool lines")
    settings, runs = facts.get("setting", {}), facts.get("run", {})
    for setting, options in settings.items():
        if "mode" not in options:
            raise ValueError(f"setting {setting} has no mode")
    costs = facts.get("cost", {})
    if costs.keys() != {options["mode"] for options in settings.values()}:
        raise ValueError("cost lines and the modes of its settings do not fit together")
    fit = all(
        run.get("count", {}).keys() == settings.keys()
        and run.get("routine", {}).keys() <= settings.keys()
        for run in runs.values()
    )
    if not (runs and settings and fit):
        raise ValueError("runs and settings do not fit together")
    made = {name: _run(name, run, settings) for name, run in runs.items()}
    return Baseline(facts["tool"], costs, settings, made)


def _run(name: str, facts: Mapping[str, Any], settings: Iterable[str]) -> BaselineRun:
    for title, names in _REQUIRED.items():
        if absent := names - set(facts.get(title, {})):
            raise ValueError(f"run {name} has no {title} {sorted(absent)[0]}")
    program = facts["program"]
    if "file" not in program and not {"suite", "benchmark", "build", "input"} <= set(program):
        raise ValueError(f"run {name} has no program file")
    results = {}
    for setting in settings:
        metrics, routines = facts["count"][setting], facts.get("routine", {}).get(setting, {})
        if not {"base", "added"} <= set(metrics):
            raise ValueError(f"run {name} has no base and added of {setting}")
        ordered = tuple(routines[key] for key in sorted(routines))
        results[setting] = SettingResult(metrics, ordered)
    return BaselineRun(program, facts["input"], facts["ending"], results)


def _put(facts: dict[Any, Any], name: object, value: object) -> None:
    if name in facts:
        raise ValueError("it is there twice")
    facts[name] = value


# A place as `BaselineRoutine` names it: an edge, which has a source or a target, or a block.
_OFFSET = "[0-9a-f]{1,16}s?"
_PLACE = re.compile(rf"({_OFFSET}>({_OFFSET})?|>{_OFFSET})(:\S+)?|{_OFFSET}[\^$]")


def _parse_routine(address: str, name: str, value: object) -> BaselineRoutine:
    numbers = dict(decode(dict, value, "a routine"))
    places: dict[str, str] = {}
    for word in decode(str, numbers.pop("places", None), "places").split():
        place, equals, digest = word.rpartition("=")
        if not equals or not _PLACE.fullmatch(place):
            raise ValueError(f"{word!r} is no place")
        _put(places, place, digest)
    texts = {key: numbers.pop(key) for key in _ROUTINE_TEXTS if key in numbers}
    if int(address, 16) < 0:
        raise ValueError("an address is negative")
    own = {"name": name, "address": int(address, 16), "places": places, "numbers": numbers}
    return decode(BaselineRoutine, {**own, **texts}, "a routine")
