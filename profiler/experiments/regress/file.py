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
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, astuple

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
FILE = "file "  # Begins the facts of files that a program is given, and what names one
CODE = "code of mode "  # Begins what costs are of

# A place as `BaselineRoutine` names it: an edge, which has a source or a target, or a block.
_OFFSET = "[0-9a-f]{1,16}s?"
_PLACE = rf"(({_OFFSET}>({_OFFSET})?|>{_OFFSET})(:[^\s=]+)?|{_OFFSET}[\^$])=\S+"


class BaselineRoutine(Struct, frozen=True, forbid_unknown_fields=True):
    """One entered routine under one setting."""

    # name, address: Of the routine.
    name: str
    address: Annotated[int, Meta(ge=0)]
    # activations, added, cut_edges, instructions: As in `profile.RoutineProfile`, whose digest the
    # rest is: a file under version control cannot have all edges and paths.
    activations: int
    added: int
    cut_edges: int
    instructions: int
    paths: int  # How many were executed
    graph: str  # Digest of its control-flow graph
    plan: str  # Digest of its instrumentation plan; "" where the setting instruments nothing.
    # Instrumented places, each with a short digest of the actions there: "1c>40=5d2e 8>=77ab".
    # They are written as hexadecimal offsets from the routine's address, so that they stay what
    # they are when the routine moves: "1c>40" is an edge, ">0" one from ENTRY, "1c>" one to EXIT,
    # "1c^" and "1c$" are the top and the end of a block; "s" marks slot blocks, and a word like
    # "taken" behind ":" tells parallel edges apart.
    places: Annotated[str, Meta(pattern=rf"^({_PLACE}( {_PLACE})*)?\Z")]
    profile: str  # Digest of its edge and path counts
    # table, register: Kind of path table ("array", "hash", "none") and where the path number lives
    # ("" where there is none).
    table: str
    register: str

    @property
    def key(self) -> tuple[int, str]:
        """Identity within one program."""
        return self.address, self.name

    @property
    def numbers(self) -> dict[str, int]:
        """What it counted, by name."""
        return {name: getattr(self, name) for name in NUMBERS}

    @property
    def actions(self) -> dict[str, str]:
        """Instrumented place -> short digest of the actions there."""
        return dict(word.split("=", 1) for word in self.places.split())


NUMBERS = ("activations", "added", "cut_edges", "instructions", "paths")


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
    # "code of mode MODE" -> version of what its instructions cost (`cost_model.cost_version`), of
    # all settings
    costs: Mapping[str, str]
    settings: Mapping[str, Facts]  # Name -> `mode` and every option of it
    runs: Mapping[str, BaselineRun]  # By name


def short_digest(text: str, digits: int = 12) -> str:
    """Return the first hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:digits]


FORMAT = FileFormat("baseline", version=2, option="simprof regress record", longest=64)
END = "end"
LARGEST = 1 << 30  # bytes; a damaged or hostile file must not fill the memory

_REQUIRED = {
    "program": {"sha256", "compiler", "machine"},
    "input": {"arguments", "stdin", "argv0"},
    "ending": {"reason", "status", "output"},
}
# First word of a line, or of a run its third -> how many words say of what it is, and what type the
# value has.
_LINES: Mapping[str, tuple[int, Any]] = {
    "tool": (2, str),
    "cost": (2, str),
    "setting": (3, Fact),
    **dict.fromkeys(_REQUIRED, (4, Fact)),
    "count": (5, int),
    "routine": (6, dict),
}


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
    yield from _each(["tool"], baseline.tool)
    yield from _each(["cost"], baseline.costs)
    for setting, options in sorted(baseline.settings.items()):
        yield from _each(["setting", setting], options)
    for name, run in sorted(baseline.runs.items()):
        for title in _REQUIRED:
            yield from _each(["run", name, title], getattr(run, title))
        for setting, result in sorted(run.results.items()):
            yield from _each(["run", name, "count", setting], result.metrics)
            for routine in sorted(result.routines, key=lambda each: each.key):
                value = asdict(routine)
                own = value.pop("name"), hex(value.pop("address"))
                yield ["run", name, "routine", setting, own[1], own[0], value]


def _each(what: list[str], values: Mapping[str, Fact]) -> Iterator[list[Any]]:
    return ([*what, name, values[name]] for name in sorted(values))


def from_text(text: str, name: str) -> Baseline:
    """Return the baseline in the content of a file; `name` is for messages.

    Raises UsageError as `load` does.
    """
    start = FORMAT.check(text[: FORMAT.longest].encode("ascii", "replace"), name)
    *lines, last, after = text[start:].split("\n") if "\n" in text[start:] else ("", "")
    where, facts = "", dict[str, Any]()
    try:
        if last != END or after:
            raise ValueError("its last line is not `end`, so it is cut short or was changed")
        for number, line in enumerate(lines, start=2):
            where = f"line {number}: "
            with big_integers():
                _take(parse_json(line), facts)
        where = ""
        return _baseline(facts)
    except (ValueError, TypeError, RecursionError) as error:
        reason = where + (" ".join(str(error).split()) or "no JSON")
        raise UsageError(
            f"{name} is a damaged baseline ({reason}): restore it from version control, or record "
            "it again"
        ) from None


def _take(fact: object, facts: dict[str, Any]) -> None:
    """Put what a line says into `facts`, by the words that say of what; ValueError if it cannot."""
    what: list[Any]
    *what, value = decode(list, fact, "it")
    if not what or not all(isinstance(word, str) for word in what):
        raise ValueError("what it is about is no text")
    words, kind = _LINES.get(what[2] if what[0] == "run" and len(what) > 3 else what[0], (0, None))
    if len(what) != words or (words > 3) != (what[0] == "run"):
        raise ValueError("it is about nothing that a baseline holds")
    value = decode(kind, value, what[-1])
    if kind is dict:
        *what, address, name = what
        value = decode(
            BaselineRoutine, {**value, "name": name, "address": int(address, 16)}, "a routine"
        )
        what.append(value.key)
    for word in what[:-1]:
        facts = facts.setdefault(word, {})
    if what[-1] in facts:
        raise ValueError("it is there twice")
    facts[what[-1]] = value


def _baseline(facts: Mapping[str, Any]) -> Baseline:
    """Return what the facts of all lines make, which must be complete: ValueError if it is not."""
    settings, runs, costs = (facts.get(name, {}) for name in ("setting", "run", "cost"))
    if "tool" not in facts:
        raise ValueError("it has no tool lines")
    for setting, options in settings.items():
        if "mode" not in options:
            raise ValueError(f"setting {setting} has no mode")
    if costs.keys() != {f"{CODE}{options['mode']}" for options in settings.values()}:
        raise ValueError("cost lines and the modes of its settings do not fit together")
    fit = all(
        run.get("count", {}).keys() == settings.keys() >= run.get("routine", {}).keys()
        for run in runs.values()
    )
    if not (runs and settings and fit):
        raise ValueError("runs and settings do not fit together")
    return Baseline(facts["tool"], costs, settings, {name: _run(name, runs[name]) for name in runs})


def _run(name: str, facts: Mapping[str, Any]) -> BaselineRun:
    for title, names in _REQUIRED.items():
        if absent := names - set(facts.get(title, {})):
            raise ValueError(f"run {name} has no {title} {sorted(absent)[0]}")
    program = facts["program"]
    if "file" not in program and not {"suite", "benchmark", "build", "input"} <= set(program):
        raise ValueError(f"run {name} has no program file")
    results = {}
    for setting, metrics in facts["count"].items():
        if not {"base", "added"} <= set(metrics):
            raise ValueError(f"run {name} has no base and added of {setting}")
        routines = facts.get("routine", {}).get(setting, {})
        results[setting] = SettingResult(metrics, tuple(routines[key] for key in sorted(routines)))
    return BaselineRun(program, facts["input"], facts["ending"], results)
