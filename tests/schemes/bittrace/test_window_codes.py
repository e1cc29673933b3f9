"""The codes of windows of branches, as `fifo` keeps them."""

from __future__ import annotations

import random

import pytest

from simprof.profiler.code.hash_routine import MAX_WORDS
from simprof.profiler.graphs.paths import PathEnd, PathStart
from simprof.profiler.schemes.bittrace.codes import window_codes
from tests.oracles.brute import graph, random_graph
from tests.support.figures import edge, epp_1, epp_2, letters


def test_records_of_a_window_stand_side_by_side() -> None:
    """EPP figure 2: eight outcomes and a start, four bits each, seven to a word."""
    cfg = epp_2()
    codes = window_codes(cfg, 9)
    assert (codes.width, codes.sizes, codes.words) == (4, (2, 7), 2)
    start, first, second = (edge(cfg, ends) for ends in ("ENTRY>A", "A>B", "B>D"))
    records = [codes.records[each] for each in (start, first, second)]
    assert codes.encode([start, first, second]) == (
        0,
        records[0] << 8 | records[1] << 4 | records[2],
    )
    assert codes.decode(codes.encode([start, first, second])) == (start, first, second)


def test_the_oldest_record_falls_out() -> None:
    cfg = epp_2()
    codes = window_codes(cfg, 2)
    window = [edge(cfg, ends) for ends in ("ENTRY>A", "A>B", "B>D", "D>E")]
    assert codes.encode(window) == codes.encode(window[-2:])
    record = codes.record(window[-2:])
    assert (letters(cfg, record.blocks), record.start, record.end) == (
        "BDE",
        PathStart.BRANCH,
        PathEnd.BRANCH,
    )


@pytest.mark.parametrize("ends", ["", "ENTRY>A", "A>B", "ENTRY>A B>C", "A>B A>C", "A>B ENTRY>A"])
def test_what_no_activation_has_is_refused(ends: str) -> None:
    codes = window_codes(epp_2(), 2)
    words = codes.encode([edge(codes.cfg, each) for each in ends.split()])
    with pytest.raises(ValueError, match="has no window of branches"):
        codes.decode(words)


def test_a_number_that_is_no_record_is_refused() -> None:
    codes = window_codes(epp_2(), 2)
    assert max(codes.records.values()) == 9
    with pytest.raises(ValueError, match="has no window of branches"):
        codes.decode((codes.records[edge(codes.cfg, "A>B")] << 4 | 15,))


def test_a_window_has_four_words_at_most() -> None:
    """Of 40 ways and a start six bits a record, five in a word."""
    ways = [(0, k) for k in range(1, 41)] + [(k, 41) for k in range(1, 41)]
    codes = window_codes(graph(42, [*ways, (41, 0)]), 60)
    assert (codes.width, codes.branches) == (6, 5 * MAX_WORDS)
    assert codes.sizes == (5,) * MAX_WORDS


def test_windows_of_one_branch_have_no_start() -> None:
    codes = window_codes(epp_1(), 1)
    assert not codes.starts
    assert codes.total == len(codes.outcomes) == 6


@pytest.mark.seeds(range(60))
def test_windows_are_listed_once_and_counted(seed: int) -> None:
    rng = random.Random(seed)
    codes = window_codes(random_graph(rng, 5), rng.randint(1, 5))
    codes.validate()
    if codes.total > 3000:
        return
    windows = list(codes.windows())
    assert len(windows) == len(set(windows)) == codes.total
    coded = [codes.encode(window) for window in windows]
    assert len(set(coded)) == len(coded)
    assert [codes.decode(words) for words in coded] == windows
