"""A profile as Callgrind writes them, for callgrind_annotate, KCachegrind and QCachegrind.

The format: "Callgrind Format Specification" in Valgrind's manual. Positions are instructions and
source lines, events the program's instructions (`Base`) and the scheme's (`Added`). Conditional
branches that were taken are jumps with counts. Where the profile has a call tree, its calls are
there with what they include (`profiles.calls.CallArc`).

What belongs to no instruction that the profile knows is charged to the first one of its routine
(hash tables), or to a line of its own: routines that were not selected have their totals there,
instructions that no graph explains and the flushing of trace buffers have names in parentheses. So
the totals are those of the profile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from simprof.profiler.exports.formats import ExportSource
from simprof.profiler.profiles.calls import CallArc, CallGraph, call_graph
from simprof.profiler.profiles.code_counts import CodeCounts, code_counts
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.profile import RoutineProfile
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.display import readable

NO_FILE = "???"
OUTSIDE = "(in no graph)"
NOT_IN_ROUTINES = "(trace buffers)"
_Key = tuple[str, int]  # A routine's name and address


def write(source: ExportSource) -> bytes:
    """Return the file."""
    writer = _Writer(source)
    return "".join(f"{line}\n" for line in writer.lines()).encode(errors="backslashreplace")


class _Writer:
    """Writes one profile; names of files and routines get numbers when they are first written."""

    def __init__(self, source: ExportSource) -> None:
        measurement = source.measurement
        self._measurement = measurement
        self._source = source
        self._lines = source.program.lines
        self._routines = {(each.name, each.address): each for each in measurement.routines}
        tree = measurement.call_tree
        self._graph = None if tree is None else call_graph(tree)
        self._calls = {} if self._graph is None else _calls(self._graph)
        self._names: dict[tuple[str, object], int] = {}
        self._file = ""

    def lines(self) -> Iterator[str]:
        measurement = self._measurement
        program = measurement.program
        command = " ".join([program.file, *program.arguments])
        yield "# callgrind format"
        yield "version: 1"
        yield f"creator: simprof {OWN_VERSION}"
        yield f"cmd: {_plain(command)}"
        yield f"desc: Mode: {mode_facts.setting_name(measurement)}"
        yield "positions: instr line"
        yield "event: Base : instructions of the program"
        yield "event: Added : instructions of the scheme's code"
        yield "events: Base Added"
        yield f"summary: {measurement.base} {measurement.added}"
        yield ""
        yield f"ob={self._number('object', program.file, Path(program.file).name)}"
        base, added = measurement.base, measurement.added
        for key, own in self._all_routines().items():
            yield from self._routine(key, own)
            base, added = base - own[0], added - own[1]
        yield from self._rest(OUTSIDE, base, 0)
        yield from self._rest(NOT_IN_ROUTINES, 0, added)
        yield f"totals: {measurement.base} {measurement.added}"

    def _all_routines(self) -> dict[_Key, tuple[int, int]]:
        """Return own base and added instructions of each routine, selected or not."""
        found = {}
        for each in () if self._graph is None else self._graph.routines:
            found[each.name, each.address] = each.base, each.added
        for key, routine in self._routines.items():
            counts = code_counts(routine)
            found[key] = sum(counts.executions.values()), routine.added
        return dict(sorted(found.items(), key=lambda item: item[0][1]))

    def _rest(self, name: str, base: int, added: int) -> Iterator[str]:
        if base or added:
            yield f"fl={self._number('file', NO_FILE, NO_FILE)}"
            yield f"fn={self._number('routine', name, name)}"
            yield f"0x0 0 {base} {added}"
            yield ""

    def _routine(self, key: _Key, own: tuple[int, int]) -> Iterator[str]:
        name, address = key
        self._file = self._file_of(address)
        yield f"fl={self._number('file', self._file, self._file)}"
        yield f"fn={self._number('routine', key, name)}"
        routine = self._routines.get(key)
        if routine is None:
            yield from self._cost(address, *own)
        else:
            yield from self._instructions(routine)
        for arc in self._calls.get(key, ()):
            yield from self._call(arc, address)
        yield ""

    def _instructions(self, routine: RoutineProfile) -> Iterator[str]:
        counts = code_counts(routine)
        added = defaultdict(int, counts.added)
        added[routine.address] += counts.unplaced
        for address in sorted(counts.executions.keys() | added.keys()):
            base = counts.executions.get(address, 0)
            if base or added[address]:
                yield from self._cost(address, base, added[address])
            yield from self._jump(counts, address)

    def _cost(self, address: int, base: int, added: int) -> Iterator[str]:
        yield from self._in_file(address)
        yield f"{self._position(address)} {base} {added}"

    def _jump(self, counts: CodeCounts, address: int) -> Iterator[str]:
        """Yield the conditional branch at an address, if one was taken there."""
        branch = counts.branches.get(address)
        if branch is None or branch.taken == 0 or not isinstance(branch.target.start, int):
            return
        executed = branch.taken + branch.not_taken
        yield f"jcnd={branch.taken}/{executed} {self._position(branch.target.start)}"
        yield self._position(address)

    def _call(self, arc: CallArc, caller: int) -> Iterator[str]:
        """Yield a call; one without an instruction of its own is at the caller's first one."""
        assert self._graph is not None
        callee = self._graph.routines[arc.callee]
        site = arc.site if arc.site > 0 else caller
        yield from self._in_file(site)
        file = self._file_of(callee.address)
        yield f"cfi={self._number('file', file, file)}"
        yield f"cfn={self._number('routine', (callee.name, callee.address), callee.name)}"
        yield f"calls={arc.calls} {self._position(callee.address)}"
        yield f"{self._position(site)} {arc.base} {arc.added}"

    def _in_file(self, address: int) -> Iterator[str]:
        """Yield the change to the source file of an instruction, where it is another one."""
        file = self._file_of(address)
        if file != self._file:
            self._file = file
            yield f"fi={self._number('file', file, file)}"

    def _file_of(self, address: int) -> str:
        found = self._lines.find(address)
        return NO_FILE if found is None else self._source.place(found.file)

    def _position(self, address: int) -> str:
        found = self._lines.find(address)
        return f"{address:#x} {0 if found is None else found.line}"

    def _number(self, kind: str, key: object, name: str) -> str:
        """Return the number of a name, with the name itself where it comes for the first time."""
        number = self._names.get((kind, key))
        if number is not None:
            return f"({number})"
        number = self._names[kind, key] = len(self._names) + 1
        return f"({number}) {_plain(readable(name) if kind == 'routine' else name)}"


def _calls(graph: CallGraph) -> dict[_Key, list[CallArc]]:
    found: dict[_Key, list[CallArc]] = {}
    for arc in graph.arcs:
        if arc.caller >= 0:
            caller = graph.routines[arc.caller]
            found.setdefault((caller.name, caller.address), []).append(arc)
    return found


def _plain(text: str) -> str:
    """Return text on one line."""
    return " ".join(text.split()) or "?"
