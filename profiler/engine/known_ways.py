"""Ways through a program that an earlier run has taken: what Python need not learn again.

A run whose edges have nothing to do but to be counted takes them as they are: states, transitions
and the kernel's operations depend on nothing but the graphs then. What they were made of is
kept, too, so that a run goes on learning where it leaves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine.run_counts import Transition
from simprof.profiler.engine.states import BlockState
from simprof.profiler.engine.walk import Cross, Land, Pop, Push, Step, WalkContext

Inside = tuple[tuple[Step, ...], WalkContext]
_LASTING = frozenset((Cross, Push, Pop, Land))
"""Steps that mean the same in every run; others say what graphs lack, which has to be noted."""


@dataclass(frozen=True)
class KnownWays:
    """What is kept of a run.

    Attributes
    ----------
    states
        The first ones, in the order of their numbers.
    insides
        By state: what `States.inside` says; None where nobody has asked.
    transitions
        Between these states.
    numbers
        By transition: the number of its first operation, 0 for none.
    operations
        All words of the kernel's operations.
    landings, after_pop
        See `StepOperations`.
    """

    states: Sequence[BlockState]
    insides: Sequence[Inside | None]
    transitions: Sequence[Transition]
    numbers: Sequence[int]
    operations: npt.NDArray[np.int64]
    landings: dict[int, Land]
    after_pop: dict[int, tuple[int, ...]]


def lasts(steps: Sequence[Step]) -> bool:
    """Whether steps mean the same in every run."""
    return _LASTING.issuperset(map(type, steps))
