"""A profile whose names are as bad as names can be, for all that writes files of profiles."""

from __future__ import annotations

from msgspec.structs import replace

from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.profiles.profile import EdgeCount, RunMeasurement
from simprof.simulator.binary.program import SourceLine
from tests.support.samples import BLOCKS, measurement, routine

NAMES = (
    '<b>&amp;"quoted"\'</b>',
    "a,b;c:d=e",
    "two\nlines\r\n\ttab",
    "back\\slash\\n",
    "\\xff\\xfe not UTF-8",  # as the loader gives names that are not
    "\x1b[31mred\u202egnp\u200b",
    "経路の数",
    "</script><!--",
    "=1+1",
    "lone \ud800 surrogate",
    "x" * 2000,
)
"""Names of routines and of files."""

HUGE = 10**15


def hostile_measurement() -> RunMeasurement:
    """Return a run with a routine for each of `NAMES`, in a file of the same name."""
    first = routine()
    routines = tuple(
        replace(
            routine(name=name, address=0x1000 + 0x100 * at, activations=HUGE),
            edge_counts=tuple(_moved(edge, 0x100 * at) for edge in first.edge_counts),
            block_counts=tuple(
                replace(block, start=block.start + 0x100 * at, count=block.count * HUGE)
                for block in BLOCKS
            ),
            path_counts=tuple(
                replace(path, blocks=tuple(_address(each, 0x100 * at) for each in path.blocks))
                for path in first.path_counts
            ),
        )
        for at, name in enumerate(NAMES)
    )
    lines = {
        0x1000 + 0x100 * at + offset: SourceLine(f"{name}.c", 4 + offset // 4)
        for at, name in enumerate(NAMES)
        for offset in (0, 0x0C, 0x10, 0x20)
    }
    return measurement(routines=routines, lines=lines)


def _moved(edge: EdgeCount, by: int) -> EdgeCount:
    return replace(
        edge,
        source=_vertex(edge.source, by),
        target=_vertex(edge.target, by),
        count=edge.count * HUGE,
    )


def _vertex(vertex: VertexName, by: int) -> VertexName:
    return replace(vertex, start=_address(vertex.start, by))


def _address(start: int | str, by: int) -> int | str:
    return start + by if isinstance(start, int) else start
