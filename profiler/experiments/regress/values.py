"""What a baseline of `simprof regress` knows, as values.

A baseline holds what programs counted under settings, and everything that these counts rest on:
so a later difference can be explained. Everything in it is repeatable; times are not in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from simprof.profiler.profiles.profile import Ending
from simprof.simulator.binary.program import LineTable

Fact = str | int | float | bool | None | tuple[str, ...]
Facts = Mapping[str, Fact]

OVERHEAD = "overhead"
"""Metric that is not stored: added instructions per instruction of the uninstrumented run."""


@dataclass(frozen=True)
class RoutineFacts:
    """One entered routine under one setting.

    Places are written as hexadecimal offsets from the routine's address, so that they stay what
    they are when the routine moves: "1c>40" is an edge, ">0" one from ENTRY, "1c>" one to EXIT,
    "1c^" and "1c$" are the top and the end of a block; "s" marks slot blocks, and a word like
    "taken" behind ":" tells parallel edges apart.

    Attributes
    ----------
    name, address
        Of the routine.
    graph
        Digest of its control-flow graph.
    plan
        Digest of its instrumentation plan; "" where the setting instruments nothing.
    places
        Instrumented place -> short digest of the actions there.
    table, register
        Kind of path table ("array", "hash", "none") and where the path number lives ("" where
        there is none).
    profile
        Digest of its edge and path counts.
    numbers
        activations, added, instructions, paths, cut_edges.
    """

    name: str
    address: int
    graph: str
    plan: str
    places: Mapping[str, str]
    table: str
    register: str
    profile: str
    numbers: Mapping[str, int]

    @property
    def key(self) -> tuple[int, str]:
        """Identity within one program."""
        return self.address, self.name


@dataclass(frozen=True)
class SettingResult:
    """What one program counted under one setting.

    Attributes
    ----------
    metrics
        Totals: `base`, `added`, and with a prefix those of `profile.Measurement`
        ("counts.path_increments", "sizes.code_bytes", "lost.cold_paths").
    kinds
        Names of the kinds of actions in its plans, sorted: the snippets that it pays for.
    routines
        By address.
    """

    metrics: Mapping[str, int]
    kinds: tuple[str, ...] = ()
    routines: tuple[RoutineFacts, ...] = ()

    def metric(self, name: str) -> int | Fraction | None:
        """Return a metric, None where there is none of that name."""
        if name == OVERHEAD:
            base = self.metrics.get("base", 0)
            return Fraction(self.metrics.get("added", 0), base) if base else Fraction(0)
        return self.metrics.get(name)


@dataclass(frozen=True)
class Run:
    """One program on one input, under all settings of the baseline.

    Attributes
    ----------
    program
        `file` (as found from the baseline's directory) or `suite`, `benchmark`, `build` and
        `input`; `sha256`, `compiler` (`compiler_note`), `machine`.
    input
        What the program is given: see `measure.input_facts`.
    ending
        `reason`, `status` and `output`, the digest of what it wrote.
    results
        By the name of the setting.
    ended, lines
        Of a run that was made just now, its ending and its program's source lines; not kept.
    """

    program: Facts
    input: Facts
    ending: Facts
    results: Mapping[str, SettingResult] = field(default_factory=dict)
    ended: Ending | None = field(default=None, compare=False)
    lines: LineTable | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Baseline:
    """Everything that one `simprof regress record` found.

    Attributes
    ----------
    tool
        Versions of `simprof` and of `unicorn`.
    costs
        Parts of the cost model with their digests, and `generation`.
    settings
        Name -> `mode` and every option of it.
    runs
        By name.
    """

    tool: Mapping[str, str]
    costs: Mapping[str, str]
    settings: Mapping[str, Facts]
    runs: Mapping[str, Run]


def short_digest(text: str, digits: int = 12) -> str:
    """Return the first hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:digits]
