"""A scheme on segments that have been counted already, without another run of the program.

What a scheme does along a segment depends on its registers where the segment begins. Where they
hold the same whenever a segment begins at a vertex (plans set them on the edges that end paths,
as a rule), the counts of the segments are all that its counters need. Hash tables are not for
this: what hashing costs depends on the order of events.
"""

from __future__ import annotations

from collections.abc import Sequence

from simprof.profiler.engine.products import (
    CountedSegment,
    PathState,
    Player,
    RoutineProduct,
    Stretch,
    Totals,
    acting_turns,
)
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.plan import InstrumentationPlan, Table


class SegmentReplay:
    """A plan executed on the segments of one routine.

    Parameters
    ----------
    cfg, plan
        The routine and a plan for it that counts paths.
    product
        Its segments, of a run whose graph may have had more edges (`variants`).
    segments
        Those that were executed, with their histories.
    """

    def __init__(
        self,
        cfg: ControlFlowGraph,
        plan: InstrumentationPlan,
        product: RoutineProduct,
        segments: Sequence[CountedSegment],
    ) -> None:
        self._cfg = cfg
        self._player = Player(cfg, plan, -1)
        self._product = product
        self._states: dict[int, PathState] = {cfg.entry: self._player.start}
        self._totals = Totals()
        self._by_start: dict[int, list[CountedSegment]] = {}
        for segment in segments:
            edges = self._edges((*segment.history, segment.key))
            self._by_start.setdefault(self._start(edges), []).append(segment)
        self.possible = plan.table is not Table.HASH and self._is_fine(plan) and self._settle()

    def _is_fine(self, plan: InstrumentationPlan) -> bool:
        """Whether segments end at every self-loop on which the plan does more than count it."""
        ending = set(self._product.own(self._product.segmentation.dag.removed))
        return acting_turns(self._cfg, plan) <= ending

    def _edges(self, keys: Sequence[int]) -> tuple[int, ...]:
        return tuple(edge for key in keys for edge in self._product.own(self._product.edges(key)))

    def _start(self, edges: Sequence[int]) -> int:
        return self._cfg.edges[edges[0]].source

    def _settle(self) -> bool:
        """Find the state at each vertex where segments begin; False where there are several."""
        work = [self._cfg.entry]
        while work:
            vertex = work.pop()
            for segment in self._by_start.pop(vertex, ()):
                ends = self._product.ends_anyway(self._product.edges(segment.key)[-1])
                edges = self._edges((segment.key,))
                before = self._behind(vertex, self._edges(segment.history))
                stretch = self._player.execute(before, edges, ends=ends)
                self._totals.add(stretch, segment.count)
                target = self._cfg.edges[edges[-1]].target
                if not ends or target == self._cfg.exit:
                    continue
                if target not in self._states:
                    self._states[target] = stretch.after
                    work.append(target)
                elif self._states[target] != stretch.after:
                    return False
        return not self._by_start

    def _behind(self, vertex: int, edges: Sequence[int]) -> PathState:
        """Return the state behind `edges`, which begin at `vertex`."""
        return self._player.execute(self._states[vertex], edges, ends=False).after

    @property
    def totals(self) -> Totals:
        """What the segments count."""
        return self._totals

    def unfinished(self, history: Sequence[int], register: int, block: int) -> Stretch | None:
        """Return what an activation did in the segment that it left unfinished in `block`.

        None where no segment begins where that one did.
        """
        edges = self._product.own(self._product.segmentation.decode_prefix(register, block))
        before = self._edges(history)
        start = self._start((*before, *edges)) if before or edges else block
        if start not in self._states:
            return None
        return self._player.execute(self._behind(start, before), edges, ends=False)
