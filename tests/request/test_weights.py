"""Estimates of weights with options, as they are written and read."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from simprof.profiler.request.weights import Guess, Weights, source_of


@pytest.mark.parametrize(
    ("text", "equal", "guess"),
    [
        ("heuristic", "heuristic", Guess()),
        ("heuristic+multiplier=10", "heuristic", Guess()),
        (
            "heuristic+loops=0.90+multiplier=2e1",
            "heuristic+multiplier=20+loops=0.9",
            Guess(multiplier=20, loops=0.9),
        ),
        ("wall+multiplier=3", "wall+multiplier=3", Guess(multiplier=3)),
        ("forman+fall-through=.5", "forman+fall-through=0.5", Guess(fall_through=0.5)),
    ],
)
def test_one_text_for_equal_weights(text: str, equal: str, guess: Guess) -> None:
    weights = Weights(text)
    assert (str(weights), weights.name, weights.guess) == (equal, equal.split("+")[0], guess)
    assert Weights(str(weights)) == pickle.loads(pickle.dumps(weights)) == weights


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("guess", "'guess' is none of heuristic, uniform, postorder, wall, forman"),
        ("uniform+loops=0.5", "uniform has no option 'loops'"),
        ("wall+fall-through=0.5", "wall has no option 'fall-through'"),
        ("forman+multiplier=2", "forman has no option 'multiplier'"),
        ("heuristic+loops", "loops=: give a share between 0 and 1"),
        ("heuristic+loops=1", "loops=1: give a share between 0 and 1"),
        ("heuristic+loops=nan", "loops=nan: give a share between 0 and 1"),
        ("heuristic+multiplier=0.5", "multiplier=0.5: give a number from 1 to 1000000"),
        ("heuristic+loops=0.5+loops=0.5", "heuristic: loops is given twice"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem.replace('+', '.')}$"):
        Weights(text)


def test_a_text_names_an_estimate_or_a_file() -> None:
    assert source_of("wall+multiplier=3") == Weights("wall+multiplier=3")
    assert source_of("build/profile") == Path("build/profile")
