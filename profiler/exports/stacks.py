"""Formats of stacks.

Every context of a call tree is a stack of routines, the program's first one outermost, with the
instructions that were executed in its last routine. Recursion is folded as in the tree
(`profiles.calls`).

collapsed
    Folded stacks, one a line.
speedscope
    What https://www.speedscope.app opens: one profile of base, one of added.
pprof
    `profile.proto`, gzip'd; https://github.com/google/pprof/blob/main/proto/profile.proto has the
    messages. Their fields are written here, one function a message: nothing else of protocol
    buffers is needed. A context knows how much of its routine was executed in it, the profile which
    instructions of the routine were, in all contexts together. Both sums are exact in the file,
    routine by routine and line by line. Which lines a context executed is not known where a routine
    has several: there each has its share of every line, to the last instruction.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from simprof.profiler.exports.formats import ExportSource
from simprof.profiler.profiles.calls import CallTree, without_sites
from simprof.profiler.profiles.code_counts import CodeCounts
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.lines import SourceCounts
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.display import readable
from simprof.simulator.binary.program import SourceLine
from simprof.simulator.errors import UsageError


def call_tree(source: ExportSource) -> CallTree:
    """Return the call tree of a profile, which must have one (`FormatNeed.CALLS`)."""
    tree = source.measurement.call_tree
    assert tree is not None
    return tree


def stacks(tree: CallTree) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield contexts, each with the ones that lead to it, the outermost first, itself last."""
    way: list[int] = []
    for place, enters in tree.walk():
        if enters:
            way.append(place)
            yield place, tuple(way)
        else:
            way.pop()


def write_base(source: ExportSource) -> bytes:
    """Return folded stacks with the program's instructions."""
    tree = without_sites(call_tree(source))
    return _collapsed(tree, tree.base)


def write_added(source: ExportSource) -> bytes:
    """Return folded stacks with the instructions of the scheme's code."""
    tree = without_sites(call_tree(source))
    return _collapsed(tree, tree.added)


def _collapsed(tree: CallTree, weights: tuple[int, ...]) -> bytes:
    """Return one line a stack: names from the outside in, between semicolons, and its weight."""
    names = [readable(routine.name).replace(";", ":") for routine in tree.routines]
    lines = [
        f"{';'.join(names[tree.callees[each]] for each in way)} {weights[place]}\n"
        for place, way in stacks(tree)
        if weights[place]
    ]
    return "".join(lines).encode(errors="backslashreplace")


def write_speedscope(source: ExportSource) -> bytes:
    """Return the file."""
    tree = without_sites(call_tree(source))
    program = Path(source.measurement.program.file).name
    content = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": f"{program}, {mode_facts.setting_name(source.measurement)}",
        "exporter": f"simprof@{OWN_VERSION}",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": readable(each.name)} for each in tree.routines]},
        "profiles": [
            _profile("instructions of the program", tree, tree.base),
            _profile("added instructions", tree, tree.added),
        ],
    }
    return json.dumps(content).encode()


def _profile(name: str, tree: CallTree, weights: tuple[int, ...]) -> dict[str, object]:
    """Return one sample a context, weighted with the instructions executed there."""
    shown = [(place, way) for place, way in stacks(tree) if weights[place]]
    return {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [[tree.callees[each] for each in way] for _, way in shown],
        "weights": [weights[place] for place, _ in shown],
    }


_VARINT, _BYTES = 0, 2
LARGEST = (1 << 63) - 1  # Numbers in a file of pprof have 64 bits.


def write_pprof(source: ExportSource) -> bytes:
    """Return the file; UsageError if a number in the call tree is too large for the format."""
    tree = call_tree(source)
    if max((*tree.base, *tree.added), default=0) > LARGEST:
        raise UsageError(f"{source.name} has counts beyond 64 bits, which pprof files cannot hold")
    return gzip.compress(_Profile(source, tree).content(), mtime=0)


class _Profile:
    """One file: strings, functions and locations get numbers when they are first needed."""

    def __init__(self, source: ExportSource, tree: CallTree) -> None:
        self._source = source
        self._tree = tree
        self._strings: dict[str, int] = {"": 0}
        self._locations: dict[tuple[int, int], int] = {}
        counts = SourceCounts(source.measurement, source.program)
        codes = {code.profile.address: code for code in counts.routines}
        # By routine of the tree: what is left to be shared out of its lines, base and added.
        self._left = [
            _by_line(codes.get(routine.address), counts, routine.address)
            for routine in tree.routines
        ]
        self._check_left()

    def _check_left(self) -> None:
        """Know no lines of routines whose lines are not all that its contexts executed."""
        for values, at in ((self._tree.base, 0), (self._tree.added, 1)):
            sums = [0] * len(self._left)
            for place, value in enumerate(values):
                sums[self._tree.callees[place]] += value
            for routine, lines in enumerate(self._left):
                if sum(lines[at].values()) != sums[routine]:
                    lines[at].clear()
                    lines[at][self._tree.routines[routine].address] = sums[routine]

    def content(self) -> bytes:
        types = [self._type(name) for name in ("base", "added")]
        samples = [
            sample for place, way in stacks(self._tree) for sample in self._samples(place, way)
        ]
        functions = [self._function(number) for number in range(len(self._tree.routines))]
        parts = [
            *(_message(1, each) for each in types),
            *(_message(2, each) for each in samples),
            _message(3, self._mapping()),
            *(_message(4, self._location(*key)) for key in self._locations),
            *(_message(5, each) for each in functions),
        ]
        default = _number(14, self._string("base"))
        strings = [_message(6, text.encode(errors="backslashreplace")) for text in self._strings]
        return b"".join((*parts, *strings, default))

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _type(self, name: str) -> bytes:
        return _number(1, self._string(name)) + _number(2, self._string("instructions"))

    def _samples(self, place: int, way: Sequence[int]) -> Iterator[bytes]:
        """Yield the messages `Sample` of a context, its innermost routine first: one a line."""
        tree = self._tree
        if not (tree.base[place] or tree.added[place]):
            return
        routine = tree.callees[place]
        base, added = self._left[routine]
        shares = _take(base, tree.base[place]), _take(added, tree.added[place])
        callers = self._callers(way)
        for address in sorted(shares[0].keys() | shares[1].keys()):
            values = [share.get(address, 0) for share in shares]
            yield _numbers(1, [self._place(routine, address), *callers]) + _numbers(2, values)

    def _callers(self, way: Sequence[int]) -> list[int]:
        """Return the locations of the calls that led to a context, the innermost first."""
        tree = self._tree
        numbers = []
        for caller, called in zip(reversed(way[:-1]), reversed(way), strict=False):
            routine, site = tree.callees[caller], tree.sites[called]
            if site <= 0 or tree.callers[called] != routine:
                site = tree.routines[routine].address
            numbers.append(self._place(routine, site))
        return numbers

    def _place(self, routine: int, address: int) -> int:
        key = routine, address
        return self._locations.setdefault(key, len(self._locations) + 1)

    def _location(self, routine: int, address: int) -> bytes:
        found = self._source.program.lines.find(address)
        line = _number(1, routine + 1) + (b"" if found is None else _number(2, found.line))
        number = self._locations[routine, address]
        return _number(1, number) + _number(2, 1) + _number(3, address) + _message(4, line)

    def _function(self, number: int) -> bytes:
        routine = self._tree.routines[number]
        found = self._source.program.lines.find(routine.address)
        file = "" if found is None else found.file
        names = map(self._string, (readable(routine.name), routine.name, file))
        fields = (number + 1, *names, 0 if found is None else found.line)
        return b"".join(_number(field, value) for field, value in enumerate(fields, 1))

    def _mapping(self) -> bytes:
        addresses = [routine.address for routine in self._tree.routines] or [0]
        file = self._string(self._source.measurement.program.file)
        fields = {1: 1, 2: min(addresses), 3: max(addresses) + 4, 5: file, 7: 1, 8: 1, 9: 1}
        return b"".join(_number(field, value) for field, value in fields.items())


def _by_line(
    code: CodeCounts | None, counts: SourceCounts, start: int
) -> tuple[dict[int, int], dict[int, int]]:
    """Return a routine's executed and added instructions by the first address of each line."""
    base: dict[int, int] = defaultdict(int)
    added: dict[int, int] = defaultdict(int)
    firsts: dict[SourceLine | None, int] = {None: start}
    for address, count in ({} if code is None else code.executions).items():
        assert code is not None
        first = firsts.setdefault(counts.line_at(address), address)
        base[first] += count
        added[first] += code.added.get(address, 0)
    if code is not None:
        added[start] += code.unplaced
    return base, added


def _take(left: dict[int, int], amount: int) -> dict[int, int]:
    """Take an amount out of what is left, of each part its share; return the parts taken.

    Shares are rounded down; what is then missing is taken where the most was cut off, first parts
    first. Taking all that is left leaves nothing.
    """
    total = sum(left.values())
    if not amount:
        return {}
    taken = {part: amount * size // total for part, size in left.items()}
    missing = amount - sum(taken.values())
    by_rest = sorted(left, key=lambda part: (-(amount * left[part] % total), part))
    for part in by_rest[:missing]:
        taken[part] += 1
    for part, size in taken.items():
        left[part] -= size
    return {part: size for part, size in taken.items() if size}


def _varint(value: int) -> bytes:
    """Return a number as protocol buffers write it: seven bits a byte, the lowest first."""
    content = bytearray()
    while value >= 1 << 7:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)


def _number(field: int, value: int) -> bytes:
    """Return a field with one number, nothing if that is 0, as it then need not be there."""
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _numbers(field: int, values: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values)))


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content
