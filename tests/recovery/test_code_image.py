"""The code of hand-made programs as arrays: which words are code, and where blocks end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from simprof.profiler.recovery.code_image import MAX_SPAN, WordMap, build_code_image
from simprof.simulator.binary.program import Binding, Program, Range, Segment, Symbol
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.decode import TransferKind
from tests.support.assembled import BASE, code, program_of
from tests.support.explored import Explored, word

R = Register
K = TransferKind
TWO = 0x82102002  # mov 2, %g1


def program_with(
    segments: Sequence[Segment], ranges: Sequence[Range], late: Sequence[Range] = ()
) -> Program:
    return replace(
        program_of({"f": [asm.nop()]}),
        segments=tuple(segments),
        code=tuple(ranges),
        late_code=tuple(late),
        symbols=(),
        entry=ranges[0].start if ranges else 0,
    )


def segment(address: int, *words: int) -> Segment:
    data = b"".join(each.to_bytes(4, "big") for each in words)
    return Segment(address, data, len(data), True, False, True)


def test_words_are_decoded_where_they_are() -> None:
    routine = code(asm.branch("e", "out", True), asm.mov(2, R.G1), "out", asm.retl(), asm.nop())
    image = Explored({"f": routine}).code
    assert (image.place.starts, image.place.ends) == ((BASE,), (BASE + 16,))
    assert image.words[1] == TWO
    assert image.transfers.kind.tolist() == [K.BRANCH, K.NONE, K.RETURN_JUMP, K.NONE]
    assert list(image.lists.kinds) == image.transfers.kind.tolist()
    assert list(image.lists.annulled) == [True, False, False, False]
    assert list(image.lists.targets) == [2, -1, -1, -1]


def test_indices_and_addresses() -> None:
    image = Explored({"f": [asm.nop(), asm.nop()]}).code
    assert [image.index(BASE + at) for at in (0, 4, 8, -4, 2)] == [0, 1, -1, -1, -1]
    assert image.address(1) == BASE + 4
    assert BASE + 4 in image
    assert BASE + 8 not in image


def test_blocks_end_with_transfers_and_where_code_ends() -> None:
    routine = code(
        asm.nop(), "loop", asm.branch("e", "loop"), asm.nop(), asm.trap_always(0x6D), word(0),
        asm.nop(),
    )  # fmt: skip
    image = Explored({"f": routine}).code
    assert image.block_ends.tolist() == [1, 1, 3, 3, 4, 6]
    assert list(image.lists.next_end) == [1, 1, 3, 3, 4, 6]


def test_between_two_ranges_there_is_no_code() -> None:
    """A gap of two words; its place is there, its words are zero and end blocks."""
    segments = [segment(0x1000, TWO, TWO), segment(0x1010, TWO)]
    image = build_code_image(program_with(segments, [Range(0x1000, 0x1008), Range(0x1010, 0x1014)]))
    assert image.words.tolist() == [TWO, TWO, 0, 0, TWO]
    assert image.is_code.tolist() == [True, True, False, False, True]
    assert image.block_ends.tolist() == [2, 2, 2, 3, 5]
    assert image.index(0x1008) == -1


def test_a_range_that_the_file_does_not_fill_is_code_as_far_as_it_does() -> None:
    image = build_code_image(program_with([segment(0x1000, TWO)], [Range(0x1000, 0x100C)]))
    assert image.is_code.tolist() == [True, False, False]


def test_targets_outside_of_the_image_are_none() -> None:
    far = 1 << 30 | 0x100  # call .+0x400
    image = build_code_image(program_with([segment(0x1000, far, TWO)], [Range(0x1000, 0x1008)]))
    assert list(image.lists.targets) == [-1, -1]
    assert int(image.transfers.target[0]) == 0x1400


LATE = Range(0x2000, 0x2008)


def test_late_code_has_no_words_until_a_run_gives_them() -> None:
    source = program_with(
        [segment(0x1000, TWO), segment(0x2000, TWO, TWO)], [Range(0x1000, 0x1004)], [LATE]
    )
    before = build_code_image(source)
    assert before.deferred == (LATE,)
    assert before.index(0x2000) == before.index(0x2004) == -1
    after = build_code_image(source, [(0x2004, 0x01000000), (0x1000, 0)])
    assert after.index(0x2000) == -1
    assert after.words[after.index(0x2004)] == 0x01000000
    assert after.words[0] == TWO, "only late words are taken from a run"


def test_writable_code_that_holds_a_function_is_the_program_itself() -> None:
    source = program_with(
        [segment(0x1000, TWO), segment(0x2000, TWO, TWO)], [Range(0x1000, 0x1004)], [LATE]
    )
    for binding, deferred in ((Binding.GLOBAL, ()), (Binding.LOCAL, (LATE,))):
        symbol = Symbol("f", 0x2000, 8, binding, True)
        assert build_code_image(replace(source, symbols=(symbol,))).deferred == deferred


def test_programs_without_code_or_too_large_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="no code"):
        build_code_image(program_with([], []))
    far = 0x1000 + MAX_SPAN
    segments = [segment(0x1000, TWO), segment(far, TWO)]
    ranges = [Range(0x1000, 0x1004), Range(far, far + 4)]
    with pytest.raises(UnsupportedError, match="link the parts closer together"):
        build_code_image(program_with(segments, ranges))


def test_delay_slots_are_told_in_each_piece_of_code() -> None:
    retl = asm.retl().word
    whole = Range(0x1000, 0x1014)
    image = build_code_image(program_with([segment(0x1000, retl, TWO, 0, TWO, retl)], [whole]))
    assert [image.delays(each) for each in range(0xFFC, 0x1018, 4)] == [
        *(False, True, False, False),
        *(False, True, False),
    ]
    apart = WordMap((0x1000, 0x90000), (0x1008, 0x90008), (0, 3))
    pieces = replace(image, place=apart)
    assert pieces.delays(0x1000)
    assert pieces.delays(0x90004)
    assert not any(map(pieces.delays, (0x1004, 0x1008, 0x1010, 0x90000, 0x90008)))


SPANS = [Range(0x1000, 0x1010), Range(0x1020, 0x1028), Range(0x40_0000_0000, 0x40_0000_0008)]


def test_code_without_large_gaps_is_one_piece() -> None:
    place = WordMap.of(SPANS[:2], 1 << 64)
    assert place.is_single
    assert place.count == 10
    assert [place.index(a) for a in (0xFFC, 0x1000, 0x1012, 0x1027, 0x1028)] == [-1, 0, 4, 9, -1]
    assert place.address(9) == 0x1024


def test_pieces_follow_each_other_with_one_word_between() -> None:
    place = WordMap.of(SPANS, 0x20)
    assert (place.starts, place.ends) == ((0x1000, 0x40_0000_0000), (0x1028, 0x40_0000_0008))
    assert place.firsts == (0, 11)
    assert place.count == 13
    assert place.index(0x1028) == -1
    assert place.index(0x40_0000_0004) == 12
    for index in (0, 9, 11, 12):
        assert place.index(place.address(index)) == index


def test_arrays_are_mapped_like_numbers() -> None:
    place = WordMap.of(SPANS, 8)
    assert len(place.starts) == 3
    addresses = np.array([0, 0x1000, 0x100C, 0x1010, 0x1020, 0x40_0000_0004, 1 << 50], np.int64)
    expected = [place.index(address) for address in addresses.tolist()]
    assert place.indices(addresses).tolist() == expected
    known = np.array([index for index in expected if index >= 0], np.int64)
    assert place.addresses(known).tolist() == [place.address(i) for i in known.tolist()]
