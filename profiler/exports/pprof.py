"""A call tree as pprof reads it: `profile.proto`, gzip'd.

https://github.com/google/pprof/blob/main/proto/profile.proto has the messages. Their fields are
written here, one function a message: nothing else of protocol buffers is needed.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence

from profiler.exports.source import ExportSource
from profiler.exports.stacks import call_tree, stacks
from profiler.profiles.call_tree import CallTree
from profiler.reports.names import readable
from simulator.errors import UsageError

_VARINT, _BYTES = 0, 2
LARGEST = (1 << 63) - 1
"""Numbers in such a file have 64 bits."""


def write(source: ExportSource) -> bytes:
    """Return the file.

    Raises
    ------
    UsageError
        If there is no call tree, or a number in it is too large for the format.
    """
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

    def content(self) -> bytes:
        """Return the message `Profile`."""
        types = [self._type(name) for name in ("base", "added")]
        samples = [self._sample(place, way) for place, way in stacks(self._tree)]
        functions = [self._function(number) for number in range(len(self._tree.routines))]
        parts = [
            *(_message(1, each) for each in types),
            *(_message(2, each) for each in samples if each),
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

    def _sample(self, place: int, way: Sequence[int]) -> bytes:
        """Return the message `Sample` of a context, its innermost routine first."""
        tree = self._tree
        values = tree.base[place], tree.added[place]
        if not any(values):
            return b""
        address = tree.routines[tree.callees[place]].address
        numbers = [self._place(tree.callees[place], address)]
        for caller, called in zip(reversed(way[:-1]), reversed(way), strict=False):
            routine, site = tree.callees[caller], tree.sites[called]
            if site <= 0 or tree.callers[called] != routine:
                site = tree.routines[routine].address
            numbers.append(self._place(routine, site))
        return _numbers(1, numbers) + _numbers(2, values)

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
        fields = (
            number + 1,
            self._string(readable(routine.name)),
            self._string(routine.name),
            self._string(file),
            0 if found is None else found.line,
        )
        return b"".join(_number(field, value) for field, value in enumerate(fields, 1))

    def _mapping(self) -> bytes:
        addresses = [routine.address for routine in self._tree.routines] or [0]
        fields = {
            1: 1,
            2: min(addresses),
            3: max(addresses) + 4,
            5: self._string(self._source.measurement.program.file),
            7: 1,
            8: 1,
            9: 1,
        }
        return b"".join(_number(field, value) for field, value in fields.items())


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
    """Return a field with several numbers, packed."""
    return _message(field, b"".join(map(_varint, values)))


def _message(field: int, content: bytes) -> bytes:
    """Return a field with a message or a string."""
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content
