"""The list of targets."""

from __future__ import annotations

from types import MappingProxyType

from tools.fuzzing import emulated, graphs, programs, results, runs
from tools.fuzzing.worker import Target

_ALL = (*programs.TARGETS, *graphs.TARGETS, *results.TARGETS, *runs.TARGETS, *emulated.TARGETS)
TARGETS: MappingProxyType[str, Target] = MappingProxyType({each.name: each for each in _ALL})
