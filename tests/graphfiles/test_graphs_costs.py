"""What answers on small graphs cost: tables, hash routines, prices, machine by machine."""

import json
from pathlib import Path

import pytest

from simprof.profiler.code.hash_routine import hash_costs
from simprof.profiler.code.pricing import Pricer
from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
from simprof.profiler.graphfiles.execution import price
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.request.request import SchemeOptions, TableChoice
from simprof.profiler.schemes.pp import plan_pp
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError
from tests.oracles.brute import graph
from tests.support.figures import epp_1
from tests.support.scheme_code import GENERATORS

DIAMOND = {
    "entry": "A", "exit": "D", "blocks": {"A": 5, "B": 7},
    "edges": [["A", "B", 10], ["A", "C", 1], ["B", "D", 10], ["C", "D", 1]],
    "runs": [["A B D", 10], ["A C D", 1]],
}  # fmt: skip


def analyse(tmp_path: Path, mode: str, table: TableChoice) -> dict:  # type: ignore[type-arg]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(DIAMOND))
    return analyse_file(path, AnalysisOptions(mode=mode, scheme=SchemeOptions(table=table)))


def test_path_array_costs_by_hand(tmp_path: Path) -> None:
    result = analyse(tmp_path, "pp", TableChoice.AUTO)
    # Chords: A > C and one edge of the other side; each ends up counting a constant path: 4
    # instructions, and A > C, a taken edge to a block with one predecessor, needs no jump.
    code = [texts for texts in result["static"]["code"] if texts]
    assert sorted(code) == [["count[0]++"], ["count[1]++"]]
    assert result["instructions"] == {"base": 10 * 13 + 7, "added": 4 * 11}
    assert result["overhead"] == 44 / 137
    assert result["routines"][0]["added"] == 44


def test_edge_counter_costs_by_hand(tmp_path: Path) -> None:
    result = analyse(tmp_path, "qpt2", TableChoice.AUTO)
    increments = result["counts"]["edge_increments"]
    assert result["instructions"]["added"] == 4 * increments == 4 * 11


def test_hash_costs_follow_the_order_of_runs(tmp_path: Path) -> None:
    result = analyse(tmp_path, "pp", TableChoice.HASH)
    costs = hash_costs(MachineKind.SPARCV9)
    calls = sum(
        edge["executions"] * cost
        for edge, cost in zip(result["edges"], result["static"]["costs"], strict=True)
    )
    routine = 2 * costs.insert + 9 * costs.hit
    assert result["instructions"]["added"] == calls + routine
    assert result["counts"]["hashed_increments"] == 11


def test_prices_cover_every_instrumented_edge() -> None:
    plan = plan_pp(epp_1())
    code = price(plan, Pricer(GENERATORS))
    assert set(code.snippets) == set(plan.plan.actions)
    assert code.path_register is not None


def test_counters_that_do_not_fit_are_refused() -> None:
    edges = []
    for top in range(0, 81, 3):
        edges += [(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]
    cfg = graph(82, edges)
    plan = plan_pp(cfg, path_limit=None, table=CounterTable.ARRAY)
    assert plan.plan.path_counters == 2**27
    with pytest.raises(UsageError, match="do not fit"):
        price(plan, Pricer(GENERATORS))
