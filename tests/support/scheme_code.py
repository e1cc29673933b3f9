"""The code of all of simprof's schemes together, for tests that generate code of any."""

from __future__ import annotations

from simprof.profiler.code import snippets_paths
from simprof.profiler.code.runtime_code import Routines
from simprof.profiler.code.snippet_parts import Generators
from simprof.profiler.schemes.registry import OWN

GENERATORS: Generators = {
    kind: generator
    for generators in (snippets_paths.PATH_GENERATORS, *(own.code().generators for own in OWN))
    for kind, generator in generators.items()
}
"""Kind of action -> its code."""

ROUTINES: tuple[Routines, ...] = tuple(
    dict.fromkeys(routine for own in OWN for routine in own.code().routines)
)
"""Run-time routines that schemes bring."""
