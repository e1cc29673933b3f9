"""A profile as coverage: files with lines, branches and functions, executed or not.

What lcov, Cobertura and gcov's JSON have in common; each has a module that writes it.

Terms
-----
line
    A source line that code was compiled from; its executions are counted as gcov counts them
    (`profiles.lines`).
branch
    A block that can be left in more than one way; on the line of the instruction that decides. Its
    *arms* are the edges out of it, so that their counts are those of the edge profile. Calls and
    virtual edges of activations that ended early are none.
function
    A routine, in the file and on the line of its first instruction. One that was inlined wherever
    it is called is one, too: on the line where it is declared, with the sum of its copies.

A profile has the routines that were entered. Coverage is also about the others: they come from
the program's graphs, as far as the profile's selection takes them, with counts that are all 0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.exports.formats import ExportSource
from simprof.profiler.graphs.cfg import EXIT, ControlFlowGraph, EdgeKind, VertexName
from simprof.profiler.profiles.lines import MEANINGS, InlinedCounts, Placing, SourceCounts
from simprof.profiler.profiles.profile import (
    BlockCount,
    EdgeCount,
    RoutineProfile,
    RunMeasurement,
    unplanned,
)
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.recovery.selection import SelectedRoutines
from simprof.profiler.request.request import Selection
from simprof.simulator.binary.program import SourceLine
from simprof.simulator.errors import UsageError
from simprof.simulator.isa.decode import HAS_DELAY_SLOT

# Numbers of blocks: 0 is every function's entry, 1 its exit, as gcov has it. The others are
# numbered throughout the program, because a line may have blocks of several functions.
EXIT_BLOCK = 1
FIRST_BLOCK = 2


class Arm(Struct, frozen=True):
    """One way out of a branch."""

    count: int  # How often it was taken
    falls_through: bool  # Whether it is that of a branch that was not taken
    target: int  # Number of the block that it leads to


class BranchCoverage(Struct, frozen=True):
    """A branch. `block`: its number; `reached`: how often."""

    block: int
    reached: int
    arms: tuple[Arm, ...]


class LineCoverage(Struct):
    """A line: how often it was executed, its branches, and a function that it is part of."""

    count: int
    branches: list[BranchCoverage] = field(default_factory=list)
    function: str | None = None
    blocks: list[int] = field(default_factory=list)
    has_unexecuted: bool = False
    placing: Placing = Placing.OWN  # What the count can be relied on for


class FunctionCoverage(Struct, frozen=True):
    """A function: where it begins and ends, how often it was entered, what it consists of."""

    name: str
    line: int
    last_line: int
    count: int
    blocks: int
    executed_blocks: int
    lines: tuple[int, ...]


class FileCoverage(Struct):
    """A source file. `lines` by number; `functions` by first line."""

    file: str
    lines: dict[int, LineCoverage] = field(default_factory=dict)
    functions: list[FunctionCoverage] = field(default_factory=list)

    @property
    def arms(self) -> list[Arm]:
        """All arms of all branches."""
        return arms_of(self.lines.values())


def arms_of(lines: Iterable[LineCoverage]) -> list[Arm]:
    """Return all arms of all branches on some lines."""
    return [arm for line in lines for branch in line.branches for arm in branch.arms]


@lru_cache(maxsize=1)
def coverage(source: ExportSource) -> tuple[FileCoverage, ...]:
    """Return all files that the program has code of, by name."""
    measurement = whole(source)
    counts = SourceCounts(measurement, source.program)
    files: dict[str, FileCoverage] = {}
    for line, known in counts.lines.items():
        file = files.setdefault(line.file, FileCoverage(line.file))
        placing = counts.placings.get(line, Placing.OWN)
        file.lines[line.line] = LineCoverage(known.executions, placing=placing)
    first = FIRST_BLOCK
    for routine in measurement.routines:
        _add_routine(routine, first, counts, files)
        first += len(routine.block_counts)
    _add_inlined(counts, files)
    for file in files.values():
        file.functions.sort(key=lambda function: (function.line, function.name))
    return tuple(files[name] for name in sorted(files))


def _add_routine(
    routine: RoutineProfile, first: int, counts: SourceCounts, files: Mapping[str, FileCoverage]
) -> None:
    """Enter a routine, whose first block has number `first`, as a function of its file."""
    numbers = {block.name: number for number, block in enumerate(routine.block_counts, first)}
    numbers[EXIT] = EXIT_BLOCK
    lines: dict[str, set[int]] = defaultdict(set)
    for block in routine.block_counts:
        for line in _lines_of(block, counts):
            lines[line.file].add(line.line)
            at = files[line.file].lines[line.line]
            at.function = at.function or routine.name
            at.blocks.append(numbers[block.name])
            at.has_unexecuted |= not block.count
    for address, branch in _branches(routine, numbers):
        place = counts.line_at(address)
        if place is not None:
            files[place.file].lines[place.line].branches.append(branch)
    start = counts.line_at(routine.address)
    if start is not None:
        own = sorted(lines[start.file] | {start.line})
        files[start.file].functions.append(
            FunctionCoverage(
                name=routine.name,
                line=start.line,
                last_line=max(own),
                count=routine.activations,
                blocks=len(routine.block_counts),
                executed_blocks=sum(block.count > 0 for block in routine.block_counts),
                lines=tuple(own),
            )
        )


def _add_inlined(counts: SourceCounts, files: dict[str, FileCoverage]) -> None:
    """Enter what has no code but where it was inlined, as gcov has it."""
    found: dict[tuple[str, str], list[InlinedCounts]] = defaultdict(list)
    for each in counts.inlined:
        if each.line is not None:
            found[each.line.file, each.copy.symbol].append(each)
    # What has code of its own, too, counts there what is not inlined. GCC calls what it has made
    # of a part of a routine NAME.part.0, NAME.constprop.0.
    own = {
        (file.file, function.name.partition(".")[0])
        for file in files.values()
        for function in file.functions
    }
    for (file, name), copies in found.items():
        if (file, name) in own:
            continue
        places = (
            counts.line_at(address)
            for each in copies
            for span in each.copy.ranges
            for address in range(span.start, span.end, 4)
        )
        # None, where the copies have no instructions but those of routines that other files have
        lines = {place.line for place in places if place is not None and place.file == file}
        line = min(each.line.line for each in copies if each.line is not None)
        at = files.setdefault(file, FileCoverage(file))
        at.functions.append(
            FunctionCoverage(
                name=name,
                line=line,
                last_line=max(lines, default=line),
                count=sum(each.executions for each in copies),
                blocks=0,
                executed_blocks=0,
                lines=tuple(sorted(lines & at.lines.keys())),
            )
        )


def _lines_of(block: BlockCount, counts: SourceCounts) -> list[SourceLine]:
    found = (counts.line_at(address) for address in range(block.start, block.end, 4))
    return list(dict.fromkeys(line for line in found if line is not None))


def _branches(
    routine: RoutineProfile, numbers: Mapping[VertexName, int]
) -> Iterator[tuple[int, BranchCoverage]]:
    """Yield the branches, each with the address of the instruction that decides."""
    ways: dict[VertexName, list[EdgeCount]] = defaultdict(list)
    for edge in routine.edge_counts:
        if edge.kind is not EdgeKind.EARLY:
            ways[edge.source].append(edge)
    for block in routine.block_counts:
        arms = tuple(
            Arm(edge.count, edge.kind is EdgeKind.FALL_THROUGH, numbers[edge.target])
            for edge in ways[block.name]
        )
        if len(arms) > 1:
            yield block.transfer, BranchCoverage(numbers[block.name], block.count, arms)


def whole(source: ExportSource) -> RunMeasurement:
    """Return the measurement with all routines that it is about, entered or not, by address."""
    measurement, recovered, names = source.measurement, source.recovered, source.names
    entered = {routine.address for routine in measurement.routines}
    selected = _selected(measurement, recovered)
    missing = [
        never_entered(cfg, recovered, names.get(cfg.address, cfg.name))
        for cfg in recovered.routines
        if cfg.address not in entered and (selected is None or selected.takes(cfg))
    ]
    routines = sorted((*measurement.routines, *missing), key=lambda routine: routine.key)
    return replace(measurement, routines=tuple(routines))


def _selected(measurement: RunMeasurement, recovered: ProgramGraphs) -> SelectedRoutines | None:
    """Return what tells which routines the profile is about; None: all."""
    options = measurement.options
    wanted, unwanted = (
        tuple(map(str, each)) if isinstance(each, tuple) else ()
        for each in (options.get("routines"), options.get("exclude"))
    )
    selection = Selection(wanted, unwanted, bool(options.get("user_only")))
    try:
        return None if selection.is_all else SelectedRoutines(recovered, selection)
    except UsageError:  # what a run found of code without a name is in no graph
        return None


def placing_notes(source: ExportSource) -> tuple[str, ...]:
    """Say how many lines have counts that are not their own alone: most formats have no room."""
    lines = [line for file in coverage(source) for line in file.lines.values() if line.count]
    found = Counter(line.placing for line in lines)
    words = [word for word in MEANINGS if found[word] and word is not Placing.JUMPS]
    if not words:
        return ()
    said = ", ".join(f"{found[word]:,} {word}" for word in words)
    return (
        f"{sum(found[word] for word in words):,} of {len(lines):,} executed lines are optimised "
        f"code, whose counts need not be the source's ({said}): `simprof show PROFILE "
        "source` marks them",
    )


def never_entered(cfg: ControlFlowGraph, recovered: ProgramGraphs, name: str) -> RoutineProfile:
    """Return a routine whose blocks and edges all have the count 0."""
    code = recovered.code
    names = [cfg.name_of(vertex) for vertex in range(cfg.vertex_count)]
    blocks = []
    for block in cfg.blocks:
        transfer = -1 if block.instructions < 2 else code.index(block.end - 8)
        delayed = transfer >= 0 and bool(HAS_DELAY_SLOT[code.transfers.kind[transfer]])
        blocks.append(BlockCount(block.start, block.instructions, block.is_slot, delayed, 0, 0))
    edges = [
        EdgeCount(names[edge.source], names[edge.target], edge.kind, 0, False) for edge in cfg.edges
    ]
    return unplanned(name, cfg.address, blocks, edges)
