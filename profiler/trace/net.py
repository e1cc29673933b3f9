"""Hot paths predicted by their heads: NET (after Duesterwald and Bala, ASPLOS 2000).

A *path* here is what is executed from the target of a backward transfer to the next one, across
routines. NET counts how often *heads* are executed: targets of backward transfers, and of exits
from traces that are chosen. When a head has been executed as often as the *delay*, what is executed
next from there is chosen as its trace: the *next executing tail*, up to the end of the path or to
the head of another trace. Its counter is released.

The paper's text was not at hand. Assumed: a transfer is backward if its target is not behind where
it comes from, calls and returns included; there is no limit on calls; a path is predicted where
its whole execution is in traces that were chosen before; paths are hot from 0.1 % of all
executions on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

HOT = 0.001  # Share of all executions from which on a path is hot
DELAYS = (1, 10, 50, 100, 1000)  # Executions of a head before it is predicted; Dynamo's is 50.

Path = tuple[int, ...]  # Blocks, in ascending order of their addresses


class Prediction(Struct, frozen=True):
    """What NET has predicted of one execution, with one delay."""

    executions: int  # Of all paths
    hot: int  # Of hot paths
    hits: int  # Of hot paths, in traces
    noise: int  # Of other paths, in traces
    counters: int  # Heads that had counters at one time, the most
    traces: int  # Chosen

    @property
    def hit_rate(self) -> float:
        """Percent of the executions of hot paths that were predicted."""
        return 100 * self.hits / self.hot if self.hot else 0.0

    @property
    def noise_rate(self) -> float:
        """Percent of the predicted executions that are not of hot paths."""
        predicted = self.hits + self.noise
        return 100 * self.noise / predicted if predicted else 0.0


def forward_paths(blocks: Iterable[int]) -> list[Path]:
    """Cut executed blocks, given by addresses, into paths at backward transfers."""
    paths: list[Path] = []
    path: list[int] = []
    for block in blocks:
        if path and block <= path[-1]:
            paths.append(tuple(path))
            path = []
        path.append(block)
    if path:
        paths.append(tuple(path))
    return paths


class Predictor:
    """Chooses traces as paths are executed."""

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._counters: dict[int, int] = {}
        self.traces: dict[int, Path] = {}
        self.most_counters = 0
        # Paths that were wholly in traces: they are again, as traces stay.
        self._inside: set[Path] = set()

    def execute(self, path: Path) -> bool:
        """Execute a path; return whether all of it was in traces that had been chosen before."""
        if path in self._inside:
            return True
        inside, at, is_head = True, 0, True
        while at < len(path):
            trace = self.traces.get(path[at])
            if trace is not None:
                same = 0
                while same < len(trace) and path[at : at + 1] == trace[same : same + 1]:
                    at, same = at + 1, same + 1
                is_head = True  # an exit from the trace, if the path goes on
                continue
            inside = False
            behind = next((n for n in range(at + 1, len(path)) if path[n] in self.traces), None)
            tail = path[at:behind]
            if is_head:
                self._count(tail)
            at += len(tail)
            is_head = False
        if inside:
            self._inside.add(path)
        return inside

    def _count(self, tail: Path) -> None:
        """Count the head of a tail, and choose the tail if it is time."""
        head = tail[0]
        count = self._counters[head] = self._counters.get(head, 0) + 1
        self.most_counters = max(self.most_counters, len(self._counters))
        if count > self._delay:
            self.traces[head] = tail
            del self._counters[head]


def predict(paths: Sequence[Path], delay: int, share: float = HOT) -> Prediction:
    """Return what NET predicts of executed paths, in order, and how good that is.

    `delay`: Executions of a head before the one that is chosen. `share`: Of all executions, from
    which on a path is hot.
    """
    counts = Counter(paths)
    hot = {path for path, count in counts.items() if count >= share * len(paths)}
    predictor = Predictor(delay)
    inside = Counter(path in hot for path in paths if predictor.execute(path))
    return Prediction(
        len(paths),
        sum(counts[path] for path in hot),
        inside[True],
        inside[False],
        predictor.most_counters,
        len(predictor.traces),
    )
