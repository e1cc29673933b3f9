"""A loop around a choice with a plan by hand, which numbers four paths as EPP does.

Paths 0 and 1 go from the entry over B and C, 2 and 3 the same behind the back edge.
"""

from __future__ import annotations

from collections.abc import Mapping

from simprof.profiler.plan.actions import Action, AddRegister, CountPath, SetRegister
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from tests.support.figures import edge, named

LOOP = named("A>B A>C B>D C>D D>A", "A", "D")
A, B, C, D = range(4)
ENTER, BACK, LEAVE = (edge(LOOP, name) for name in ("ENTRY>A", "D>A", "D>EXIT"))
OVER_B = [edge(LOOP, "A>B"), edge(LOOP, "B>D")]
OVER_C = [edge(LOOP, "A>C"), edge(LOOP, "C>D")]
NUMBERED: Mapping[int, tuple[Action, ...]] = {
    ENTER: (SetRegister(0),),
    OVER_C[0]: (AddRegister(1),),
    BACK: (CountPath(0, True), SetRegister(2)),
    LEAVE: (CountPath(0),),
}


def plan_of(
    actions: Mapping[int, tuple[Action, ...]] = NUMBERED,
    table: CounterTable = CounterTable.ARRAY,
    counted_region: frozenset[int] = frozenset(),
) -> InstrumentationPlan:
    addressing = Addressing.INDEX if table is CounterTable.ARRAY else None
    return InstrumentationPlan(
        actions, True, table, 4, addressing, 0, counted_region=counted_region
    )
