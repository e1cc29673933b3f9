"""The code of a program as arrays: words, decoded transfers, and which words are code at all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from simprof.profiler.graphs.cfg import Block
from simprof.profiler.recovery.return_addresses import Use, jumping_calls, unusual_uses
from simprof.simulator.binary.dynamic import EARLIER, real_address
from simprof.simulator.binary.program import Binding, Platform, Program, Range, joined
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa.decode import HAS_DELAY_SLOT, TransferKind, Transfers, decode_transfers

GET_CONTEXT = 0x91D0206E  # `ta 0x6e`


# A program's code is in one piece, or nearly so; that of a dynamically linked one is in as many as
# it has modules, and these may lie gigabytes apart. An image has all pieces one behind the other,
# each two with one word between them that is no code, so that nothing runs from one into the next.
class WordMap(Struct, frozen=True, dict=True):
    """Word index <-> address; the pieces are in ascending order in both."""

    # starts, ends: Address of the first word of each piece, and the one behind its last.
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    firsts: tuple[int, ...]  # Index of its first word

    @classmethod
    def of(cls, spans: Iterable[Range], gap: int) -> WordMap:
        """Return the map of code in `spans`; those less than `gap` bytes apart are one piece."""
        pieces = joined((Range(span.start & ~3, span.end) for span in spans), gap)
        firsts, index = [], 0
        for piece in pieces:
            firsts.append(index)
            index += (piece.end - piece.start) // 4 + 1
        starts, ends = zip(*((piece.start, piece.end) for piece in pieces), strict=True)
        return cls(starts, ends, tuple(firsts))

    @property
    def count(self) -> int:
        """Number of words, those between pieces included."""
        return self.firsts[-1] + (self.ends[-1] - self.starts[-1]) // 4

    @property
    def is_single(self) -> bool:
        """Whether all code is in one piece."""
        return len(self.starts) == 1

    def index(self, address: int) -> int:
        """Index of the word that holds `address`, -1 where there is none."""
        piece = bisect_right(self.starts, address) - 1
        if piece < 0 or address >= self.ends[piece]:
            return -1
        return self.firsts[piece] + ((address - self.starts[piece]) >> 2)

    def address(self, index: int) -> int:
        """Address of word `index`."""
        piece = 0 if self.is_single else bisect_right(self.firsts, index) - 1
        return self.starts[piece] + 4 * (index - self.firsts[piece])

    def indices(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Indices of the words at `addresses`, -1 where there is none; of the same shape."""
        starts, ends, firsts = self._arrays
        piece = np.searchsorted(starts, addresses, side="right") - 1
        found: NDArray[np.int64] = firsts[piece] + ((addresses - starts[piece]) >> 2)
        found[(piece < 0) | (addresses >= ends[piece])] = -1
        return found

    def addresses(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Addresses of the words `indices`; of the same shape."""
        starts, _, firsts = self._arrays
        if self.is_single:
            return np.asarray(starts[0] + 4 * indices.astype(np.int64))
        piece = np.searchsorted(firsts, indices, side="right") - 1
        return np.asarray(starts[piece] + 4 * (indices - firsts[piece]))

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        starts, ends, firsts = (
            np.array(each, np.int64) for each in (self.starts, self.ends, self.firsts)
        )
        return starts, ends, firsts


MAX_SPAN = 256 << 20  # Largest distance from a program's first to its last instruction, in bytes

# Bytes without code between two pieces of a dynamically linked program's, at least.
PIECE_GAP = 1 << 14

# Words without code that are decoded with what is around them: zeros are illegal instructions.
_GAP = 1 << 12

Flags = NDArray[np.bool_]

_INDIRECT_CALLS = (TransferKind.INDIRECT_CALL, TransferKind.JUMP_AND_LINK)

_ENDS_BLOCK = HAS_DELAY_SLOT.copy()
_ENDS_BLOCK[[TransferKind.TRAP_ALWAYS, TransferKind.COMPARE_BRANCH]] = True
_ENDS_BLOCK[[TransferKind.TRAP_RETURN, TransferKind.ILLEGAL]] = True


class CodeLists(NamedTuple):
    """The arrays of a code image, one element a word, as views whose elements are Python's own."""

    # `targets` are word indices, -1 where there is none within the image; `next_end` is
    # `CodeImage.block_ends`.

    words: Sequence[int]
    kinds: Sequence[int]
    annulled: Sequence[bool]
    targets: Sequence[int]
    next_end: Sequence[int]


class CodeImage(Struct, frozen=True, eq=False, dict=True):
    """Everything from the program's first instruction word to its last."""

    place: WordMap  # Where the words lie
    words: NDArray[np.uint32]  # uint32, native order, shape (n,); zero where `is_code` is false.
    # bool, shape (n,): the word lies in a code range, and its value is known.
    is_code: NDArray[np.bool_]
    transfers: Transfers  # The decoded control transfers, arrays of shape (n,)
    # Late code (`Program.late_code`) that a start-up relocation writes. Its words are not those of
    # the file; those known from a run were given to `build_code_image`.
    deferred: tuple[Range, ...]
    starts: NDArray[np.int64]  # Words at which functions begin that have names
    is64: bool

    @cached_property
    def return_uses(self) -> Mapping[int, Use]:
        """What routines do with their return addresses that is unusual, by their first word."""
        return unusual_uses(self, self.starts, self.is64)

    @property
    def base(self) -> int:
        """Address of the first word, in bytes."""
        return self.place.starts[0]

    @property
    def end(self) -> int:
        """Address behind the last word."""
        return self.place.ends[-1]

    def __contains__(self, address: int) -> bool:
        """Whether an instruction may start at `address`."""
        return self.index(address) >= 0

    def index(self, address: int) -> int:
        """Index of the word at `address`, or -1 where there is no code."""
        index = self.place.index(address)
        return index if index >= 0 and address % 4 == 0 and self.is_code[index] else -1

    def delays(self, address: int) -> bool:
        """Whether the instruction at `address` has a delay slot."""
        index = self.place.index(address)
        return index >= 0 and self._delays[index] > 0

    @cached_property
    def _delays(self) -> bytes:
        return (HAS_DELAY_SLOT[self.transfers.kind] & self.is_code).tobytes()

    def address(self, index: int) -> int:
        """Address of word `index`."""
        return self.place.address(index)

    def words_of(self, block: Block) -> Sequence[int]:
        """The instructions of a block."""
        first = self.place.index(block.start)
        return self.lists.words[first : first + block.instructions]

    def version(self, address: int, words: Sequence[int]) -> int:
        """Return where a block's code is: at its address, or in the image's part for late code."""
        place = self.find_version(address, words)
        return address if place is None else place

    def find_version(self, address: int, words: Sequence[int]) -> int | None:
        """Return where code is that is at `address`, or was, and has these words; None: nowhere."""
        place = address
        while (first := self.index(place)) >= 0:
            if self.words[first : first + len(words)].tolist() == list(words):
                return place
            place += EARLIER
        return None

    @cached_property
    def targets(self) -> NDArray[np.int32]:
        """Word indices of `transfers.target`, -1 where there is none within the image."""
        target = self.transfers.target
        found = np.full(len(target), -1, dtype=np.int32)
        known = target >= 0
        found[known] = self.place.indices(target[known])
        found.flags.writeable = False
        return found

    @cached_property
    def block_ends(self) -> NDArray[np.int32]:
        """For every word, the index of the first word at or after it that ends a block."""
        # Shape (n,); n where there is none. Words that are no code end blocks too.
        count = len(self.words)
        ends = np.flatnonzero(_ENDS_BLOCK[self.transfers.kind] | ~self.is_code)
        after = np.append(ends, count).astype(np.int32)
        found = np.repeat(after, np.diff(np.concatenate([[-1], ends, [count - 1]])))
        found.flags.writeable = False
        return found

    @cached_property
    def lists(self) -> CodeLists:
        """Words and transfers as sequences that Python reads faster than arrays."""
        return CodeLists(
            self.words.data,
            self.transfers.kind.data,
            cast(Sequence[bool], self.transfers.annulled.data),
            self.targets.data,
            self.block_ends.data,
        )


def build_code_image(program: Program, late_words: Iterable[tuple[int, int]] = ()) -> CodeImage:
    """Collect and decode a program's code; UnsupportedError if it spans more than `MAX_SPAN` bytes.

    `late_words`: (address, word) pairs of deferred code as a run found them.
    """
    deferred = tuple(span for span in program.late_code if not _holds_program(program, span))
    spans = sorted((*program.code, *program.late_code), key=lambda span: span.start)
    spans = [span for span in spans if span.end > span.start]
    if not spans:
        raise UnsupportedError(f"{program.path}: no code; link the program again")
    place = WordMap.of(spans, PIECE_GAP if program.modules else 1 << 64)
    if place.count > MAX_SPAN >> 2:
        base, end = place.starts[0], place.ends[-1]
        raise UnsupportedError(
            f"{program.path}: code from {base:#x} to {end:#x}; simprof profiles programs whose "
            f"code lies within {MAX_SPAN >> 20} MiB: link the parts closer together"
        )
    words = np.zeros(place.count, dtype=np.uint32)
    is_code = np.zeros(place.count, dtype=np.bool_)
    for span in spans:
        if span not in deferred or program.modules:
            _copy_words(program, span, place, words, is_code)
    for address, word in late_words:
        if any(address in span for span in deferred):
            words[place.index(address)] = word
            is_code[place.index(address)] = True
    transfers = _decode(words, is_code, place, program)
    if program.modules:
        for span in (*deferred, *(each for each in spans if each.start >= EARLIER)):
            _pass_control_on(transfers, place, span)
    named = {place.index(symbol.address) for symbol in program.symbols if symbol.is_function}
    starts = np.array(sorted(named - {-1}), np.int64)
    code = CodeImage(place, words, is_code, transfers, deferred, starts, program.is64)
    # nothing returns to a call over data either
    jumps = list(jumping_calls(code, starts, program.is64))
    transfers.kind[jumps] = TransferKind.BRANCH_ALWAYS
    return code


def _pass_control_on(transfers: Transfers, place: WordMap, span: Range) -> None:
    """Have the calls of stubs be the jumps that they are: nothing ever returns to a stub."""
    first = place.index(span.start + 3 & ~3)
    kinds = transfers.kind[first : first + (span.end - span.start) // 4]
    kinds[kinds == TransferKind.CALL] = TransferKind.BRANCH_ALWAYS
    kinds[np.isin(kinds, _INDIRECT_CALLS)] = TransferKind.JUMP


def _holds_program(program: Program, span: Range) -> bool:
    """Whether a writable code range is the program itself (one RWX segment), not stubs."""
    return program.entry in span or any(
        symbol.is_function and symbol.size and symbol.address in span
        for symbol in program.symbols
        if symbol.binding is not Binding.LOCAL
    )


def _copy_words(
    program: Program, span: Range, place: WordMap, words: NDArray[np.uint32], is_code: Flags
) -> None:
    for segment in program.segments:
        start = max(span.start, segment.address) + 3 & ~3
        end = min(span.end, segment.address + len(segment.data)) & ~3
        if start < end:
            data = segment.data[start - segment.address : end - segment.address]
            first = place.index(start)
            where = slice(first, first + (end - start) // 4)
            words[where] = np.frombuffer(data, dtype=">u4")
            is_code[where] = True


def _decode(
    words: NDArray[np.uint32], is_code: Flags, place: WordMap, program: Program
) -> Transfers:
    """Decode what is code. Between that and late code lie all of the program's data."""
    address_bits = 64 if program.is64 else 32
    supervisor = program.platform is Platform.LEON3
    count = len(words)
    kind = np.full(count, TransferKind.ILLEGAL, dtype=np.uint8)
    target = np.full(count, -1, dtype=np.int64)
    annulled = np.zeros(count, dtype=np.bool_)
    code = np.flatnonzero(is_code)
    limit = np.diff(code) > (_GAP if place.is_single else 1)
    gaps = np.flatnonzero(limit)
    starts = code[np.concatenate([[0], gaps + 1])] if len(code) else code
    ends = code[np.append(gaps, len(code) - 1)] + 1 if len(code) else code
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        address = real_address(place.address(start))
        part = decode_transfers(words[start:end], address, address_bits, supervisor=supervisor)
        kind[start:end], target[start:end] = part.kind, part.target
        annulled[start:end] = part.annulled
    return Transfers(kind, target, annulled)


# -- Code that a program makes while it runs
#
# It is in no graph: a trampoline on the stack, what a compiler in the program puts on its heap. The
# graphs are exact around it all the same: what it calls, what it jumps to and where it returns are
# entries, tail calls and returns of the program's routines, which only its transfers of control
# tell.


class Transfer(NamedTuple):
    """What one instruction does to control (`decode.Transfers`)."""

    kind: TransferKind
    target: int
    annulled: bool


class GeneratedCode:
    """The transfers of one run's generated code, by place."""

    # Other code at the same address is another place, `EARLIER` bytes on, as states and transitions
    # of the automaton are those of a place. Code that differs in no transfer is the same: a
    # trampoline is written anew for each activation that it belongs to.

    def __init__(self, address_bits: int, *, supervisor: bool) -> None:
        self._address_bits, self._supervisor = address_bits, supervisor
        self._transfers: dict[int, Transfer] = {}

    def __contains__(self, place: int) -> bool:
        """Whether there is an instruction at `place`."""
        return place in self._transfers

    def __len__(self) -> int:
        """Return how many instructions there are."""
        return len(self._transfers)

    def __getitem__(self, place: int) -> Transfer:
        """Return what the instruction at `place` does."""
        return self._transfers[place]

    def add(self, address: int, words: Sequence[int]) -> int:
        """Return the place of a block that is at `address` now."""
        block = decode_transfers(
            np.array(words, np.uint32), address, self._address_bits, supervisor=self._supervisor
        )
        columns = block.kind.tolist(), block.target.tolist(), block.annulled.tolist()
        transfers = [
            Transfer(TransferKind(kind), *rest) for kind, *rest in zip(*columns, strict=True)
        ]
        place, known = address, self._transfers
        while any(
            known.get(place + 4 * number, each) != each for number, each in enumerate(transfers)
        ):
            place += EARLIER
        known.update((place + 4 * number, each) for number, each in enumerate(transfers))
        return place
