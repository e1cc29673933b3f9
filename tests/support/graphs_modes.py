"""Shared by tests: what `tests/graphfiles/test_graphs_modes.py` and others use."""

from __future__ import annotations

from typing import Any

KITER_1 = {
    "name": "KITER figure 1",
    "entry": "1",
    "exit": "6",
    "edges": [edge.split(">") for edge in "1>2 2>3 2>4 3>5 4>5 4>6 5>2 5>6".split()],
    "runs": [[" ".join("1" + "235245" * 100 + "6"), 1]],
}

TPP_7 = {
    "name": "TPP figure 7",
    "entry": "A",
    "exit": "C",
    "edges": [["A", "B"], ["B", "B"], ["B", "C"]],
    "runs": [["A B C", 99], ["A B B B C", 1]],
}

EPP_1: dict[str, Any] = {
    "name": "EPP figure 1",
    "entry": "A",
    "exit": "F",
    "blocks": {"A": 3, "F": 2},
    "edges": [["A", "C", 150], ["A", "B", 120.5], ["B", "C"], ["B", "D", 0], ["C", "D"],
              ["D", "F", 1e300], ["D", "E"], ["E", "F"]],
    "runs": [["A C D F", 90], ["A C D E F", 60], ["A B C D E F", 100], ["A B D F", 20]],
}  # fmt: skip
EPP_2 = EPP_1 | {
    "name": "EPP figure 2",
    "edges": [*EPP_1["edges"], ["F", "A"], ["F", "A", 5], ["D", "D"]],
    "runs": [[{"edges": [0, 4, 5, 9, 1, 3, 10, 5]}, 7]],
}
BL94_5 = {
    "name": "BL94 figure 5",
    "entry": "P",
    "exit": "X",
    "edges": [edge.split(">") for edge in "P>Q P>X Q>A Q>B A>R B>R R>C R>X C>P".split()],
    "runs": [["P X", 3], ["P Q A R C P Q B R X", 4]],
}
FIGURES: list[dict[str, Any]] = [EPP_1, EPP_2, BL94_5, KITER_1, TPP_7]
