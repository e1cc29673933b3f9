"""Reading what `simprof cfg --code` prints: where generated code stands, and its instructions.

Only the text is read. A piece of code is its printed instructions; what its head says of its cost
is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

HEAD = re.compile(r"^(\S.*) at (0x[0-9a-f]+): mode (\S+), ")
BLOCK = re.compile(r"^  (slot )?(0x[0-9a-f]+):$")
ORIGINAL = re.compile(r"^    (0x[0-9a-f]+)  ( ?)(\S.*?)(  ! now goes to stub \d+)?$")
SUBJECT = re.compile(r"^  \+ (edge|block end|block|address in) (\S.*?): (\S.*)$")
COST = re.compile(r"^  \+ \d+ instructions? each time.*, ([a-z ]+)$")
GENERATED = re.compile(r"^  \+      ?(\S.*)$")
STUB = re.compile(r"^  stub \d+, from ")
COPIED = re.compile(r"^     copied  \S")
REGISTER = re.compile(r"^  path register: (.*)$")
COUNTERS = re.compile(
    r"^  (path counters|cold paths|uninteresting paths|path \d+|no path|event counters): (.*)$"
)
CONSTANTS = re.compile(r"^  constants: (\d+) at (0x[0-9a-f]+)$")
TABLE = re.compile(r"^hash table at (0x[0-9a-f]+)$")
LABEL = re.compile(
    r"^   (0x[0-9a-f]+ is reached here by transfers|stub \d+ is reached here from \S.*):$"
)
HASHING = re.compile(r"^  hash_count\S*: \d+")
RUNTIME = "run-time routines that this code calls, the same for all its routines:"
SYMBOL = re.compile(r"^  (\S+) at (0x[0-9a-f]+):$")

WHERE = {
    "at the end of its source": "source",
    "at the top of its target": "target",
    "in line before its target": "between",
    "in a stub": "between",
    "in the block": "block",
}


class ListingError(AssertionError):
    """The listing has a line, or lacks one, that the oracle does not expect."""


@dataclass
class Piece:
    """One piece of generated code.

    Attributes
    ----------
    kind, subject
        `edge`, `block` or `block end`, and which: as printed.
    does
        What it does, in the papers' notation.
    where
        A value of `WHERE`.
    block, position
        The block under whose label it is printed, by the text of that label, and how many of the
        block's instructions stand before it; None for one in a stub.
    lines
        Its instructions, as printed.
    """

    kind: str
    subject: str
    does: str
    where: str
    block: str | None
    position: int
    lines: list[str] = field(default_factory=list)


@dataclass
class ListedRoutine:
    """One routine; `originals` are by block: its own instructions, in order.

    `constants`: how many words its code only reads, and where.
    """

    name: str
    address: int
    registers: str | None = None
    table: int | None = None
    constants: tuple[int, int] | None = None
    pieces: list[Piece] = field(default_factory=list)
    originals: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Listing:
    """All of it; `runtime` is by address, `symbols` by name."""

    routines: dict[int, ListedRoutine]
    runtime: dict[int, str]
    symbols: dict[str, int]


def read(text: str) -> Listing:
    """Read a whole listing. Raises ListingError at a line that nothing is known of."""
    routine_text, _, runtime_text = text.partition(RUNTIME)
    found = Listing({}, {}, {})
    for paragraph in routine_text.split("\n\n"):
        if paragraph.strip():
            routine = _routine(paragraph.splitlines())
            if routine.address in found.routines:
                raise ListingError(f"two routines at {routine.address:#x}")
            found.routines[routine.address] = routine
    for line in filter(None, runtime_text.splitlines()):
        if symbol := SYMBOL.match(line):
            found.symbols[symbol[1]] = int(symbol[2], 16)
        elif original := ORIGINAL.match(line):
            found.runtime[int(original[1], 16)] = original[3]
        else:
            raise ListingError(line)
    return found


def _routine(lines: list[str]) -> ListedRoutine:
    head = HEAD.match(lines[0])
    if head is None:
        raise ListingError(lines[0])
    routine = ListedRoutine(head[1], int(head[2], 16))
    rest = iter(lines[1:])
    block: str | None = None
    start = 0
    for line in rest:
        if subject := SUBJECT.match(line):
            routine.pieces.append(_piece(routine, subject, next(rest), block))
        elif label := BLOCK.match(line):
            block, start = label[2], int(label[2], 16)
            routine.originals[block] = []
        elif STUB.match(line):
            block = None
        elif generated := GENERATED.match(line):
            routine.pieces[-1].lines.append(generated[1])
        elif original := ORIGINAL.match(line):
            _original(routine, block, start, int(original[1], 16), original[3])
        elif not _is_other(routine, line):
            raise ListingError(line)
    return routine


def _piece(routine: ListedRoutine, subject: re.Match[str], cost: str, block: str | None) -> Piece:
    found = COST.match(cost)
    if found is None or found[1] not in WHERE:
        raise ListingError(cost)
    position = 0 if block is None else len(routine.originals[block])
    return Piece(subject[1], subject[2], subject[3], WHERE[found[1]], block, position)


def _original(
    routine: ListedRoutine, block: str | None, start: int, address: int, text: str
) -> None:
    """Note an instruction; the annulled one behind a block's branch is a block of its own."""
    if block is None:
        raise ListingError(f"{address:#x} {text}")
    if address == start + 4 * len(routine.originals[block]):
        routine.originals[block].append(text)
    else:
        raise ListingError(f"{address:#x} is not next in the block {block}")


def _is_other(routine: ListedRoutine, line: str) -> bool:
    """Read a line that is neither an instruction nor the head of a piece."""
    if register := REGISTER.match(line):
        routine.registers = register[1].split(",")[0]
    elif counters := COUNTERS.match(line):
        if table := TABLE.match(counters[2]):
            routine.table = int(table[1], 16)
    elif constants := CONSTANTS.match(line):
        routine.constants = int(constants[1]), int(constants[2], 16)
    else:
        return any(known.match(line) for known in (LABEL, COPIED, HASHING))
    return True


def lines_of(listing: Listing) -> Iterator[str]:
    """Yield all generated instructions."""
    for routine in listing.routines.values():
        for piece in routine.pieces:
            yield from piece.lines
