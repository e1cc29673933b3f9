"""SEQUITUR: its two properties after every symbol, and the sequence back."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from simprof.profiler.trace.sequitur import Grammar, Sequitur, grammar_of
from tests.support.sequences import random_sequence


def check(grammar: Grammar, sequence: Sequence[int]) -> None:
    assert grammar.expand() == list(sequence)
    uses = [0] * len(grammar.bodies)
    places: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for rule, body in enumerate(grammar.bodies):
        assert rule == 0 or len(body) >= 2
        for symbol in body:
            if symbol < 0:
                assert ~symbol > rule
                uses[~symbol] += 1
        for at in range(len(body) - 1):
            places.setdefault(body[at : at + 2], []).append((rule, at))
    for digram, found in places.items():
        for one, at in found:
            for other, there in found:
                overlap = one == other and abs(at - there) <= 1
                assert overlap, f"digram {digram} is twice in {grammar}"
    assert all(count >= 2 for count in uses[1:]), f"a rule of {grammar} is used once"


@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        ("", ((),)),
        ("abcabc", ((~1, ~1), (0, 1, 2))),
        ("abaaba", ((~1, ~1), (0, 1, 0))),
        ("aaa", ((0, 0, 0),)),
        ("aaaa", ((~1, ~1), (0, 0))),
        # the classical example of rule utility: `bc` is put back where `abcd` takes both its uses
        ("abcdbcabcd", ((~1, ~2, ~1), (0, ~2, 3), (1, 2))),
    ],
)
def test_small_grammars(text: str, bodies: tuple[tuple[int, ...], ...]) -> None:
    sequence = [ord(letter) - ord("a") for letter in text]
    grammar = grammar_of(sequence)
    assert grammar.bodies == bodies
    check(grammar, sequence)


@pytest.mark.seeds(range(4))
def test_both_properties_hold_after_every_symbol(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        sequitur, sequence = Sequitur(), random_sequence(rng)
        for at, symbol in enumerate(sequence, 1):
            sequitur.append(symbol)
            check(sequitur.grammar(), sequence[:at])


@pytest.mark.seeds(range(4))
def test_thousands_of_sequences(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(600):
        sequence = random_sequence(rng)
        grammar = grammar_of(sequence)
        check(grammar, sequence)
        assert grammar.lengths[0] == len(sequence)
        assert grammar.terminals == set(sequence)


def test_it_is_small_where_a_sequence_repeats() -> None:
    grammar = grammar_of([1, 2, 3, 4, 5] * (1 << 12))
    assert grammar.symbols < 60
    assert sum(grammar.occurrences[1:]) > 1 << 12
    assert grammar.bits < 10 * grammar.symbols + 32 * 5
