"""Word index <-> address, with one piece of code and with several."""

from __future__ import annotations

import numpy as np

from simprof.profiler.recovery.word_map import WordMap
from simprof.simulator.binary.program import Range

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
