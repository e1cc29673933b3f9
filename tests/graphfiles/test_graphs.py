import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from simprof.profiler import cli
from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
from simprof.profiler.graphfiles.formats import load
from simprof.profiler.graphfiles.lesson import lesson
from simprof.profiler.graphfiles.reader import GREATEST_CROSSINGS, GraphFileError
from simprof.profiler.graphs.numbering import SuccessorOrder
from simprof.profiler.reports import graph_run
from simprof.profiler.request.request import SchemeOptions, TableChoice
from simprof.profiler.request.weights import Weights
from simprof.simulator.errors import UsageError
from tests.support.figures import EPP_1_PROFILES, EPP_2_ENCODING, EPP_7_WEIGHTS

FIGURE_1: dict[str, Any] = {
    "name": "EPP figure 1",
    "entry": "A",
    "exit": "F",
    "edges": [
        ["A", "B", 120], ["A", "C", 150], ["B", "C", 100], ["B", "D", 20],
        ["C", "D", 250], ["D", "F", 110], ["D", "E", 160], ["E", "F", 160],
    ],
    "runs": [[" ".join(path), counts[0]] for path, counts in EPP_1_PROFILES.items()],
}  # fmt: skip


SCHEME_OPTIONS = set(SchemeOptions.__struct_fields__) - {"weights"}


def write(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def answer(tmp_path: Path, document: object, **options: Any) -> dict[str, Any]:
    scheme = {name: options.pop(name) for name in SCHEME_OPTIONS & set(options)}
    chosen = AnalysisOptions(**options, scheme=SchemeOptions.of(**scheme))
    result = analyse_file(write(tmp_path, document), chosen)
    assert json.loads(json.dumps(result)) == result
    return result


def test_figure_1(tmp_path: Path) -> None:
    result = answer(tmp_path, FIGURE_1, enumerate=True)
    executed = {"".join(path["blocks"]): path["executions"] for path in result["paths"]}
    assert executed == {p: counts[0] for p, counts in EPP_1_PROFILES.items() if counts[0]}
    assert {"".join(p["blocks"]): p["path"] for p in result["all_paths"]} == EPP_2_ENCODING
    assert [edge["executions"] for edge in result["edges"]] == [
        *(weight for _, _, weight in FIGURE_1["edges"]), 270, 270,
    ]  # fmt: skip
    static = result["static"]
    assert static["num_paths"] == {"A": 6, "B": 4, "C": 2, "D": 2, "E": 1, "F": 1}
    assert static["values"] == [2, 0, 0, 2, 0, 0, 1, 0, 0, 0]
    assert static["valid_paths"] == 6
    assert static["weights"][-2:] == [270, 270]
    assert result["routines"][0]["entered"] == 270


def test_figure_9_through_weights_in_the_file(tmp_path: Path) -> None:
    order = ["A>B", "A>C", "B>C", "B>D", "C>D", "D>F", "D>E", "E>F"]
    document = FIGURE_1 | {"edges": [[*ends.split(">"), EPP_7_WEIGHTS[ends]] for ends in order]}
    static = answer(tmp_path, document)["static"]
    assert static["code"] == [
        [], ["r=0"], ["r=2"], ["r=4"], [], ["count[r]++"], ["count[r+1]++"], [], [], [],
    ]  # fmt: skip
    assert static["increments"] == [0, 0, 2, 4, 0, 0, 1, 0, 0, 0]


def test_loop_gets_dummies_and_paths_split_at_the_back_edge(tmp_path: Path) -> None:
    document = {
        "entry": "A", "exit": "C", "blocks": {"A": 3, "B": 4},
        "edges": [["A", "B"], ["B", "A"], ["B", "B"], ["B", "C"]],
        "runs": [["A B A B B B C", 10]],
    }  # fmt: skip
    result = answer(tmp_path, document)
    assert result["static"]["back_edges"] == [["B", "A"], ["B", "B"]]
    dummies = [(d["from"], d["to"], d["for"]) for d in result["static"]["dummy_edges"]]
    assert dummies == [("ENTRY", "A", [1]), ("B", "EXIT", [1])]
    paths = {
        tuple(p["blocks"]): (p["executions"], p["instructions_per_execution"])
        for p in result["paths"]
    }
    assert paths == {("A", "B"): (10, 7), ("A", "B", "C"): (10, 8)}
    assert [edge["executions"] for edge in result["edges"]] == [20, 10, 20, 10, 10, 10]
    assert result["instructions"]["base"] == 10 * (2 * 3 + 4 * 4 + 1)
    assert result["static"]["values"][1:3] == [None, None]
    assert result["counts"]["edge_increments"] == 20
    assert result["counts"]["path_increments"] == 20


def test_parallel_edges_are_given_and_reported_by_number(tmp_path: Path) -> None:
    document = {
        "entry": "A", "exit": "B",
        "edges": [["A", "B"], ["A", "B"]],
        "runs": [[{"edges": [0]}, 3], [{"edges": [1]}, 4]],
    }  # fmt: skip
    result = answer(tmp_path, document)
    assert {tuple(p["edges"]): p["executions"] for p in result["paths"]} == {(0,): 3, (1,): 4}
    assert [edge["executions"] for edge in result["edges"]] == [3, 4, 7, 7]
    ambiguous = document | {"runs": [["A B", 1]]}
    with pytest.raises(GraphFileError, match="edges 0, 1 all lead from A to B"):
        answer(tmp_path, ambiguous)


def test_one_block(tmp_path: Path) -> None:
    result = answer(tmp_path, {"entry": "A", "exit": "A", "edges": [], "runs": [["A", 2]]})
    assert [path["blocks"] for path in result["paths"]] == [["A"]]
    assert [edge["executions"] for edge in result["edges"]] == [2, 2]


def test_overflow_is_truncated_and_reported_exactly(tmp_path: Path) -> None:
    edges = []
    for step in range(100):
        edges += [[f"a{step}", f"b{step}"], [f"a{step}", f"a{step + 1}"],
                  [f"b{step}", f"a{step + 1}"]]  # fmt: skip
    document = {"entry": "a0", "exit": "a100", "edges": edges,
                "runs": [[" ".join(f"a{i}" for i in range(101)), 5]]}  # fmt: skip
    result = answer(tmp_path, document)
    routine = result["routines"][0]
    assert routine["potential_paths"] == 2**100
    assert routine["cut_edges"] > 0
    assert result["static"]["valid_paths"] < 2**31
    assert routine["table"] == "hash"
    assert result["counts"]["hashed_increments"] == result["counts"]["path_increments"] > 5
    with pytest.raises(UsageError, match="too many to enumerate"):
        answer(tmp_path, document, enumerate=True)
    result = answer(tmp_path, document, path_limit=4, enumerate=True)
    assert len(result["all_paths"]) == result["static"]["valid_paths"]


def test_long_lists_of_long_paths_are_refused(tmp_path: Path) -> None:
    edges = [[f"z{step}", f"z{step + 1}"] for step in range(100)] + [["z100", "a0"]]
    for step in range(16):
        edges += [[f"a{step}", f"b{step}"], [f"a{step}", f"a{step + 1}"],
                  [f"b{step}", f"a{step + 1}"]]  # fmt: skip
    document = {"entry": "z0", "exit": "a16", "edges": edges}
    with pytest.raises(UsageError, match="blocks in all are too much to enumerate"):
        answer(tmp_path, document, enumerate=True)


def test_counts_beyond_all_measure_are_refused_by_run(tmp_path: Path) -> None:
    document = {"entry": "A", "exit": "B", "edges": [["A", "B"]]}
    most = GREATEST_CROSSINGS // 3
    for mode in ("pp", "qpt2"):
        result = answer(tmp_path, document | {"runs": [["A B", most]]}, mode=mode)
        assert [edge["executions"] for edge in result["edges"]] == [most] * 3
        assert result["instructions"]["base"] == 2 * most
    with pytest.raises(GraphFileError, match="run 1: with this run edges"):
        answer(tmp_path, document | {"runs": [["A B", most], ["A B", 1]]})


def test_qpt2(tmp_path: Path) -> None:
    result = answer(tmp_path, FIGURE_1, mode="qpt2")
    assert "paths" not in result
    assert [edge["executions"] for edge in result["edges"]][:8] == [
        weight for _, _, weight in FIGURE_1["edges"]
    ]
    tree = result["static"]["tree"]
    assert [edge["instrumented"] for edge in result["edges"]] == [not inside for inside in tree]
    assert result["routines"][0]["table"] == "none"
    with pytest.raises(UsageError, match="--mode pp"):
        answer(tmp_path, FIGURE_1, mode="qpt2", enumerate=True)


def test_weights_and_tables_can_be_chosen(tmp_path: Path) -> None:
    uniform = answer(tmp_path, FIGURE_1, weights=Weights.UNIFORM)["static"]["weights"]
    assert uniform == [1.0] * 10
    heuristic = answer(tmp_path, FIGURE_1, weights=Weights.HEURISTIC)["static"]["weights"]
    assert heuristic == [0.5, 0.5, 0.25, 0.25, 0.75, 0.5, 0.5, 0.5, 1, 1]
    partly = FIGURE_1 | {"edges": [["A", "B"], ["A", "C", 40.0], ["B", "F"], ["C", "F"]],
                         "runs": []}  # fmt: skip
    assert answer(tmp_path, partly)["static"]["weights"] == [0.5, 40, 0.5, 0.5, 40.5, 1]
    assert answer(tmp_path, FIGURE_1, table=TableChoice.HASH)["routines"][0]["table"] == "hash"


def test_unreachable_blocks_and_dead_ends_are_accepted_and_named(tmp_path: Path) -> None:
    document = {"entry": "A", "exit": "B", "edges": [["A", "B"], ["A", "D"], ["U", "B"]],
                "runs": [["A B", 1]]}  # fmt: skip
    result = answer(tmp_path, document)
    assert result["warnings"] == [
        "ENTRY does not reach U", "EXIT cannot be reached from D",
    ]  # fmt: skip
    assert result["static"]["num_paths"]["U"] == 0


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "line 1, column 1: not JSON"),
        ('{"entry": "A",\n "exit": }', "line 2, column 10: not JSON"),
        ("[1]", "must hold one JSON object"),
        ('{"entry": "A", "entry": "B"}', "'entry' is given twice"),
        ("[" * 100_000, "nested too deeply"),
        ({"exit": "A", "edges": []}, "'entry' is missing"),
        ({"entry": "A", "edges": []}, "'exit' is missing"),
        ({"entry": "A", "exit": "B", "edges": []}, "entry: block 'A' is not in blocks or edges"),
        ({"entry": "A", "exit": "B"}, "edges: must be a list"),
        ({"entry": "A", "exit": "B", "edges": [["A", "B"], ["A"]]}, "edge 1: must be"),
        ({"entry": "A", "exit": "B", "edges": [["A", 3.5]]}, "edge 0: a block name"),
        ({"entry": "A", "exit": "B", "edges": [["A", "b c"]]}, "edge 0: a block name"),
        ({"entry": "A", "exit": "B", "edges": [["A", "\x1b[31mB"]]}, "edge 0: a block name"),
        ({"entry": "A", "exit": "A", "edges": [], "name": "a\nb"}, "name: must be a string"),
        ({"entry": "A", "exit": "EXIT", "edges": [["A", "EXIT"]]}, "EXIT is simprof's own node"),
        ({"entry": "A", "exit": "B", "edges": [["A", "B", -1]]}, "edge 0: a weight"),
        ('{"entry": "A", "exit": "B", "edges": [["A", "B", NaN]]}', "edge 0: a weight"),
        ({"entry": "A", "exit": "B", "edges": [["A", "B", True]]}, "edge 0: a weight"),
        ({"entry": "A", "exit": "B", "edges": [["A", "B", 10**400]]}, "edge 0: a weight"),
        ({"entry": "A", "exit": "A", "edges": [], "blocks": {"A": 1.5}}, "'A': instructions"),
        ({"entry": "A", "exit": "A", "edges": [], "blocks": []}, "blocks: must be an object"),
        ({"entry": "A", "exit": "A", "edges": [], "name": 3}, "name: must be a string"),
        ({"entry": "A", "exit": "A", "edges": [], "runs": {}}, "runs: must be a list"),
    ],
)
def test_bad_files_are_refused_by_place(tmp_path: Path, document: object, message: str) -> None:
    path = write(tmp_path, document)
    with pytest.raises(GraphFileError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (["A F", 1], "position 0: not a walk: no edge leads from A to F"),
        (["B C D F", 1], "it starts in B, but the entry is A"),
        (["A B C", 1], "it ends in C, but the exit is F"),
        (["A X F", 1], "position 1: there is no block 'X'"),
        (["", 1], "names no block"),
        (["A C D F", -1], "the count must be a whole number"),
        (["A C D F", 1.0], "the count must be a whole number"),
        (["A C D F"], "must be [blocks, count]"),
        ([["A"], 1], "must name blocks in a string"),
        ([{"edges": [1, 4, 99]}, 1], "position 2: there is no edge 99"),
        ([{"edges": [1, 5]}, 1], "position 1: not a walk: edge 5 leaves D, but the run is in C"),
        ([{"edges": [1, 4]}, 1], "it ends in D, but the exit is F"),
        ([{"edges": "1"}, 1], "edges must be a list of indices"),
    ],
)
def test_runs_that_are_no_walks_are_named(tmp_path: Path, run: object, message: str) -> None:
    path = write(tmp_path, FIGURE_1 | {"runs": [["A C D F", 1], run]})
    with pytest.raises(GraphFileError, match="run 1") as caught:
        load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match="cannot be read: No such file"):
        load(tmp_path / "none.json")


def test_endless_file() -> None:
    with pytest.raises(GraphFileError, match="more than 128 MiB is not a graph file"):
        load(Path("/dev/zero"))


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(GraphFileError, match=r"not a graph file|not JSON"):
        load(path)


def random_document(rng: random.Random) -> dict[str, Any]:
    """Return a graph with every block on a way from entry to exit, and walks through it."""
    count = rng.randint(1, 8)
    edges = [(block, block + 1) for block in range(count - 1)]
    edges += [(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(0, 9))]
    rng.shuffle(edges)
    runs = []
    for _ in range(4):
        block = 0
        steps: list[int] = []
        while block != count - 1 or (len(steps) < 3 and count > 1 and rng.random() < 0.5):
            choices = [index for index, (source, _) in enumerate(edges) if source == block]
            if not choices or len(steps) > 200:
                break
            steps.append(rng.choice(choices))
            block = edges[steps[-1]][1]
        if block == count - 1:
            runs.append([{"edges": steps}, rng.randint(0, 10**12)])
    return {
        "entry": "b0", "exit": f"b{count - 1}", "runs": runs,
        "blocks": {f"b{block}": rng.randint(1, 9) for block in range(count)},
        "edges": [[f"b{source}", f"b{target}"] for source, target in edges],
    }  # fmt: skip


@pytest.mark.seeds(range(60))
def test_random_files(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    document = random_document(rng)
    limit = rng.choice((1, 3, 10**8))
    paths = answer(tmp_path, document, path_limit=limit)
    edges = answer(tmp_path, document, mode="qpt2")
    true: Counter[int] = Counter()
    for run, count in document["runs"]:
        for step in run["edges"]:
            true[step] += count
    counts = [true[index] for index in range(len(document["edges"]))]
    for result in (paths, edges):
        assert [edge["executions"] for edge in result["edges"]][: len(counts)] == counts
    assert sum(p["instructions"] for p in paths["paths"]) <= paths["instructions"]["base"]
    check_tree(paths)


def check_tree(result: dict[str, Any]) -> None:
    """Compare the tree's weight with networkx's, from the answer alone."""
    static = result["static"]
    graph = nx.MultiGraph()
    graph.add_edge("EXIT", "ENTRY", weight=1e12)
    inside = []
    for edge, value, weight, tree in zip(
        result["edges"], static["values"], static["weights"], static["tree"], strict=True
    ):
        if value is not None:
            graph.add_edge(edge["source"], edge["target"], weight=weight)
            inside += [weight] if tree else []
    for dummy in static["dummy_edges"]:
        graph.add_edge(dummy["from"], dummy["to"], weight=dummy["weight"])
        inside += [dummy["weight"]] if dummy["tree"] else []
    best = sum(data["weight"] for *_, data in nx.maximum_spanning_edges(graph, data=True))
    assert sum(inside) == pytest.approx(best - 1e12, abs=1e-3)
    assert len(inside) == graph.number_of_nodes() - 2


ORDERED: dict[str, Any] = {
    "entry": "A", "exit": "F",
    "edges": [["A", "B"], ["A", "C"], ["B", "C"], ["B", "D"], ["C", "D"], ["D", "E"], ["D", "F"],
              ["E", "F"], ["E", "A"]],
}  # fmt: skip


def test_successors_are_numbered_by_paths_or_as_the_file_has_them(tmp_path: Path) -> None:
    # By hand: D and C have 3 paths, B has 6; of the edges out of A, that to B is first in the file.
    fewest = answer(tmp_path, ORDERED)["static"]
    assert (fewest["order"], fewest["values"][:2]) == ("fewest", [3, 0])
    options = {"enumerate": True, "order": SuccessorOrder.FILE}
    found = answer(tmp_path, ORDERED, **options)
    assert (found["static"]["order"], found["options"]["order"]) == ("file", "file")
    assert found["static"]["values"][:4] == [0, 6, 0, 3]
    assert ["".join(path["blocks"]) for path in found["all_paths"][:9]] == [
        "ABCDEF", "ABCDE", "ABCDF", "ABDEF", "ABDE", "ABDF", "ACDEF", "ACDE", "ACDF",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["pp", "tpp", "kiter", "bittrace", "pref", "wpp"])
def test_profiles_do_not_depend_on_the_order(tmp_path: Path, mode: str) -> None:
    document = ORDERED | {"runs": [["A B D E F", 30], ["A C D E A B C D F", 10]]}
    both = [answer(tmp_path, document, mode=mode, order=order)
            for order in (SuccessorOrder.FEWEST, SuccessorOrder.FILE)]  # fmt: skip
    profiles = [
        {tuple(path["edges"]): path["executions"] for path in each.get("paths", ())}
        for each in both
    ]
    assert profiles[0] == profiles[1]
    assert both[0]["edges"] == both[1]["edges"] or mode == "wpp"


def test_code_and_tables_name_blocks_and_leave_out_what_is_not_there(tmp_path: Path) -> None:
    result = answer(tmp_path, ORDERED)
    jumps = [line.split()[-1] for code in result["static"]["sparc"] for line in code
             if line.startswith("ba")]  # fmt: skip
    assert jumps
    assert set(jumps) <= {*"ABCDEF", "exit"}
    table = graph_run.render(result)
    assert "executions" not in table
    assert "E > EXIT" in table
    assert re.search(r"ENTRY > A +E > A ", table)
    assert "r holds the address of a counter" in table
    assert "executions" in graph_run.render(answer(tmp_path, FIGURE_1))


def test_warnings_stand_in_text(tmp_path: Path) -> None:
    loop = {"entry": "A", "exit": "B", "edges": [["A", "B"], ["A", "C"], ["C", "D"], ["D", "C"]]}
    result = answer(tmp_path, loop)
    assert result["warnings"] == ["EXIT cannot be reached from C, D"]
    assert "warning: EXIT cannot be reached from C, D" in graph_run.render(result)
    assert "Warning: EXIT cannot be reached from C, D." in lesson(result).steps[0].text


def test_order_is_refused_where_no_paths_are_numbered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, ORDERED)
    assert cli.run(["explain", str(file), "--mode", "qpt2", "--order", "file"]) == 125
    assert "--order has no effect on qpt2" in capsys.readouterr().err
