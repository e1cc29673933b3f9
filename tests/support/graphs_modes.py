"""Shared by tests: what `tests/graphfiles/test_graphs_modes.py` and others use."""

from __future__ import annotations

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
