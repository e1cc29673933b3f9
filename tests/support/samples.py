"""A small measurement written by hand, for the tests of profiles, reports and the command line."""

from __future__ import annotations

from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ENTRY, EXIT, EdgeKind, VertexName
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.profiler.profiles import profile
from simprof.simulator.binary.program import MachineKind, SourceLine

HEAD, BODY, TAIL = VertexName(0x1000), VertexName(0x1010), VertexName(0x1020)
SLOT = VertexName(0x100C, is_slot=True)
BLOCKS = (
    profile.BlockCount(0x1000, 3, is_slot=False, delayed=False, count=7, added=0),
    profile.BlockCount(0x100C, 1, is_slot=True, delayed=False, count=5, added=0),
    profile.BlockCount(0x1010, 4, is_slot=False, delayed=True, count=5, added=0),
    profile.BlockCount(0x1020, 3, is_slot=False, delayed=True, count=2, added=0),
)


def routine(**changes: object) -> profile.RoutineProfile:
    """`main`: HEAD -> (slot ->) BODY -> HEAD in a loop, HEAD -> TAIL.

    Entered 2 times; HEAD runs 7 times, of which 5 go round (through the slot), and 2 leave.
    """
    whole = profile.RoutineProfile(
        name="main",
        address=0x1000,
        blocks=4,
        edges=6,
        back_edges=1,
        irreducible=False,
        potential_paths=4,
        cut_edges=0,
        table=CounterTable.ARRAY,
        addressing=Addressing.ADDRESS,
        path_register="%l3",
        activations=2,
        added=40,
        instructions=7 * 4 + 5 * 1 + 5 * 4 + 2 * 3,
        edge_counts=(
            profile.EdgeCount(HEAD, TAIL, EdgeKind.FALL_THROUGH, 2, False),
            profile.EdgeCount(HEAD, SLOT, EdgeKind.SLOT, 5, False),
            profile.EdgeCount(SLOT, BODY, EdgeKind.TAKEN, 5, False),
            profile.EdgeCount(BODY, HEAD, EdgeKind.TAKEN, 5, True),
            profile.EdgeCount(ENTRY, HEAD, EdgeKind.ENTRY, 2, True),
            profile.EdgeCount(TAIL, EXIT, EdgeKind.EXIT, 2, True),
        ),
        block_counts=BLOCKS,
        path_counts=(
            profile.PathCount(0, 2, 9, (0x1000, 0x100C, 0x1010), (1,), False, (4, 1, 2)),
            profile.PathCount(1, 3, 9, (0x1000, 0x100C, 0x1010), (1,), False, (1, 2)),
            profile.PathCount(2, 2, 7, (0x1000, 0x1020), (), False, (0, 5)),
        ),
    )
    return replace(whole, **changes)


def measurement(**changes: object) -> profile.RunMeasurement:
    """A run of a program that consists of `routine()`."""
    whole = profile.RunMeasurement(
        program=profile.ProgramInfo("loop.elf", "ab" * 32, MachineKind.SPARCV9, ("7", "a b"), 3),
        mode="pp",
        options={"path_limit": 100_000_000, "weights": "heuristic", "routines": ("main",)},
        ending=profile.Ending(3, "exit"),
        base=59,
        added=40,
        counts={
            "path_increments": 7,
            "hashed_increments": 0,
            "edge_increments": 0,
            "blocks": 19,
            "transfers": 21,
            "unattributed_transfers": 0,
        },
        routines=(routine(),),
        lines={
            0x1000: SourceLine("loop.c", 4),
            0x1010: SourceLine("loop.c", 5),
            0x1020: SourceLine("loop.c", 8),
        },
    )
    return replace(whole, **changes)


FAULT = profile.FaultInfo(
    "SIGSEGV", 0x1014, 0x8, "bad address 0x8", "main", 0x14, SourceLine("loop.c", 5)
)
REFUSAL = profile.RefusalInfo("socket", 0x1014, "main", 0x14, SourceLine("loop.c", 5))
