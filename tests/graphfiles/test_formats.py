"""`simprof explain` on GraphML, GML and node-link JSON: the answers of simprof's own format."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from simprof.profiler.cli import run as simprof
from simprof.profiler.graphfiles.formats import from_networkx, load, to_networkx
from simprof.profiler.graphfiles.reader import GraphDocument, GraphFileError, parse
from simprof.profiler.graphs.dag import make_dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import number
from simprof.profiler.recovery.recovery import recover
from simprof.profiler.schemes import registry
from simprof.simulator.binary import elf
from tests.support.graphs_modes import EPP_1, FIGURES
from tests.support.turns import turns


def write_node_link(graph: nx.MultiDiGraph, path: Path, key: str = "edges") -> None:
    path.write_text(json.dumps(nx.node_link_data(graph, edges=key)))


WRITERS: dict[str, Callable[[nx.MultiDiGraph, Path], None]] = {
    "figure.graphml": nx.write_graphml,
    "figure.gml": nx.write_gml,
    "figure.links.json": lambda graph, path: write_node_link(graph, path, "links"),
    "figure.json": write_node_link,
}


def answers(tmp_path: Path, *arguments: str | Path) -> list[dict[str, Any]]:
    output = tmp_path / "answers.jsonl"
    assert simprof(["explain", *map(str, arguments), "--json", str(output)]) == 0
    found = [json.loads(line) for line in output.read_text().splitlines()]
    for answer in found:
        assert answer.pop("program")["sha256"]
    return found


@pytest.mark.parametrize(("figure", "mode"), turns(FIGURES, registry.planned_modes()))
def test_answers_are_those_of_our_own_format(
    tmp_path: Path, figure: dict[str, Any], mode: str
) -> None:
    own = tmp_path / "own.json"
    own.write_text(json.dumps(figure))
    graph = to_networkx(parse(figure, "figure"))
    files = [tmp_path / name for name in WRITERS]
    for path, write in zip(files, WRITERS.values(), strict=True):
        write(graph, path)
    first, *others = answers(tmp_path, "--mode", mode, own, *files)
    assert len(others) == len(WRITERS)
    assert all(other == first for other in others)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure["name"])
def test_documents_come_back(figure: dict[str, Any]) -> None:
    document = parse(figure, "figure")
    assert from_networkx(to_networkx(document), "figure") == document


def test_names_must_differ_as_text() -> None:
    graph = nx.MultiDiGraph([(1, "1")], entry=1, exit=1)
    with pytest.raises(GraphFileError, match="two nodes have the same name when written as text"):
        from_networkx(graph)


def test_a_recovered_routine_is_a_graph(fixture_elf: Callable[..., Path], tmp_path: Path) -> None:
    """`simprof cfg --format graphml` writes what `simprof explain` reads."""
    program, output = fixture_elf("calls"), tmp_path / "ackermann.graphml"
    arguments = ["--routine", "ackermann", "--format", "graphml", "-o", str(output)]
    assert simprof(["cfg", *arguments, str(program)]) == 0
    (routine,) = [r for r in recover(elf.load(program)).routines if r.name == "ackermann"]
    document = load(output)
    sizes = [block.instructions for block in document.cfg.blocks]
    assert sizes == [block.instructions for block in routine.blocks] + [0, 0]
    inner = document.cfg.edges[:-2]
    assert [edge[:3] for edge in inner] == [edge[:3] for edge in routine.edges]
    (answer,) = answers(tmp_path, output)
    assert (
        answer["routines"][0]["potential_paths"]
        == number(make_dag(routine, depth_first(routine))).total
    )


def minimal(text: str) -> str:
    return f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{text}</graphml>'


KEYS = (
    '<key id="entry" for="graph" attr.name="entry" attr.type="string"/>'
    '<key id="exit" for="graph" attr.name="exit" attr.type="string"/>'
    '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
    '<key id="n" for="node" attr.name="instructions" attr.type="int"/>'
)
ENDS = '<data key="entry">a</data><data key="exit">b</data>'
EDGE = '<edge source="a" target="b"/>'
NODES = '<node id="a"/><node id="b"/>'
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa">'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>"
    + minimal("<graph edgedefault='directed'><desc>&i;</desc></graph>")
)


def test_graphml_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "hand.graphml"
    body = f'{ENDS}<node id="b"/>{EDGE}<edge source="a" target="b"><data key="w">2</data></edge>'
    body += '<node id="a"/>'
    path.write_text(minimal(f'{KEYS}<graph edgedefault="directed">{body}</graph>'))
    document = load(path)
    assert document.cfg.name == "hand"
    assert [block.label for block in document.cfg.blocks] == ["b", "a"]
    assert document.weights == (None, 2.0)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_do_not_expand(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "bomb.graphml"
    path.write_bytes(BOMB.replace("?>", f' encoding="{encoding}"?>', 1).encode(encoding))
    with pytest.raises(GraphFileError, match="has a document type"):
        load(path)


def directed(body: str) -> str:
    return minimal(f'{KEYS}<graph edgedefault="directed">{body}</graph>')


GML_HEAD = "graph [ directed 1 multigraph 1 "


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.graphml", "", "line 1, column 1: not XML: no element found"),
        ("a.graphml", "<graphml>\n<a></b>", "line 2, column 6: not XML: mismatched tag"),
        ("a.graphml", "[]", "line 1, column 1: not XML"),
        ("a.graphml", "{}", "edges: must be a list of [source, target]"),
        ("a.gml", " {", "line 1, column 3: not JSON"),
        ("a.graphml", BOMB, "has a document type"),
        ("a.graphml", "<a>" * 200 + "</a>" * 200, "nested too deeply"),
        ("a.graphml", "<html/>", "not GraphML: file not successfully read as graphml"),
        (
            "a.graphml",
            directed(NODES + EDGE),
            "the graph has no attribute 'entry', and no node has",
        ),
        ("a.graphml", directed(ENDS), "entry: block 'a' is not in blocks or edges"),
        ("a.graphml", directed(ENDS + EDGE) + "x", "not XML: junk after document element"),
        ("a.graphml", directed(f'{ENDS}<node id="a"/><node id="a"/>{EDGE}'), "'a' is given twice"),
        (
            "a.graphml",
            directed(f"{ENDS}{NODES}" + '<edge id="1" source="a" target="b"/>' * 2),
            "two edges between the same nodes have the same id",
        ),
        ("a.graphml", directed(f"{ENDS}{EDGE}<graph/>"), "holds 2 graphs"),
        ("a.graphml", minimal('<graph edgedefault="undirected"/>'), "is not directed"),
        (
            "a.graphml",
            directed(f'{ENDS}{NODES}{EDGE}<data key="no">1</data>'),
            "Bad GraphML data: no key",
        ),
        ("a.graphml", directed(f'{ENDS}<node id="a"><data key="n">x</data></node>'), "not GraphML"),
        (
            "a.graphml",
            directed(f'{ENDS}<node id="a"><data key="n">-1</data></node><node id="b"/>{EDGE}'),
            "blocks: 'a': instructions must be a whole number, not -1",
        ),
        (
            "a.graphml",
            directed(f'{ENDS}{NODES}<edge source="a" target="b"><data key="w">nan</data></edge>'),
            "edge 0: a weight is a number from 0",
        ),
        ("a.gml", "", "not GML: input contains no graph"),
        ("a.gml", "graph [", "not GML: expected ']', found EOF"),
        ("a.gml", "graph [ node [ id 1 label \xe9 ] ]", "not GML: input is not ASCII"),
        ("a.gml", "graph " + "[ a " * 5000, "not GML: maximum recursion depth"),
        ("a.gml", "graph [ node [ id 1 ] ]", "is not directed"),
        ("a.gml", GML_HEAD + "node [ id 1 ] ]", "the graph has no attribute 'entry'"),
        ("a.gml", GML_HEAD + 'entry "2" exit "1" node [ id 1 ] ]', "entry: block '2' is not"),
        ("a.gml", GML_HEAD + "edge [ source 1 target 2 ] ]", "edge #0 has undefined source"),
        ("a.gml", GML_HEAD + 'runs "[" entry 1 exit 1 node [ id 1 ] ]', "runs: not JSON"),
        ("a.json", '{"nodes": [], "links": []}', "the graph has no attribute 'entry'"),
        ("a.json", '{"nodes": [], "links": [], "graph": 1}', "'graph' must hold an object"),
        ("a.json", '{"nodes": [{"id": "a"}, {"id": "a"}], "edges": []}', "two nodes have the same"),
        ("a.json", '{"nodes": [1], "edges": []}', "node 0: must be an object with an 'id', not 1"),
        ("a.json", '{"nodes": [{"id": {}}], "edges": []}', "node 0: 'id' must be text or a number"),
        (
            "a.json",
            '{"nodes": [{"id": "A"}], "links": [{"source": ["A"], "target": "A"}]}',
            "edge 0: 'source' must be text or a number, not ['A']",
        ),
        (
            "a.json",
            '{"nodes": [{"id": "A"}], "links": [{"source": "A", "target": "A", "key": []}]}',
            "edge 0: 'key' must be text or a number, not []",
        ),
        (
            "a.json",
            '{"nodes": [], "links": [], "directed": "no"}',
            "'directed' must be true or false, not 'no'",
        ),
        (
            "a.json",
            '{"nodes": [], "links": [], "multigraph": 1}',
            "'multigraph' must be true or false, not 1",
        ),
        (
            "a.gml",
            'graph [\n# graph 1\nname "node 1\nedge 2"\ndirected "no" ]',
            "line 5: 'directed' must be 1",
        ),
        (
            "a.gml",
            GML_HEAD + "node [ id 1 label [ a 1 ] ] ]",
            "the names that nodes and edges have ('id', 'label', 'source', 'target', 'key') must",
        ),
        ("a.gml", "graph 1", "line 1: 'graph' must hold a list in [ ]"),
        ("a.gml", 'graph [\nnode "a" ]', "line 2: 'node' must hold a list in [ ]"),
        (
            "a.graphml",
            directed(f"{ENDS}{NODES}\n<edge source='a' target='c'/>"),
            "line 2: the edge from 'a' to 'c': there is no node 'c'",
        ),
        ("a.graphml", directed(f"{ENDS}\n<node/>"), "line 2: this node has no attribute 'id'"),
        ("a.graphml", directed(f"{NODES}<edge source='a'/>"), "edge has no attribute 'target'"),
        (
            "a.json",
            '{"nodes": [], "edges": [{"source": "a"}]}',
            "edge 0: 'source': there is no node 'a'",
        ),
        ("a.json", '{"nodes": [{"id": "a"}], "edges": [{"source": "a"}]}', "0: has no 'target'"),
        ("a.json", '{"nodes": [{"id": "a"}], "edges": [{"target": "a"}]}', "0: has no 'source'"),
        ("a.json", '{"nodes": [], "edges": [], "directed": false}', "is not directed"),
        (
            "a.json",
            '{"multigraph": false, "nodes": [{"id": 1}, {"id": 2}], '
            '"links": [{"source": 1, "target": 2}, {"source": 1, "target": 2}]}',
            "parallel edges of a graph that is no multigraph",
        ),
        (
            "a.json",
            '{"graph": {"entry": 1, "exit": "1"}, "nodes": [{"id": 1}, {"id": "1"}], "edges": []}',
            "two nodes have the same",
        ),
        (
            "a.json",
            '{"graph": {"entry": 1, "exit": 1, "runs": [["1", -1]]}, "nodes": [{"id": 1}], '
            '"edges": []}',
            "run 0: the count must be a whole number",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("latin-1"))
    assert simprof(["explain", str(path)]) == 125
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"simprof: {path}: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_damaged_files_end_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = to_networkx(parse(EPP_1, "figure"))
    for name, write in WRITERS.items():
        path = tmp_path / name
        write(graph, path)
        data = path.read_bytes()
        for cut in range(0, len(data), 97):
            for damaged in (data[:cut], data[:cut] + b"\xff" + data[cut + 1 :]):
                path.write_bytes(damaged)
                assert simprof(["explain", str(path)]) in (0, 125)
                assert capsys.readouterr().err.count("\n") <= 1


def test_our_own_json_is_still_ours(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(EPP_1 | {"nodes": [1, 2], "directed": True}))
    document = load(path)
    assert isinstance(document, GraphDocument)
    assert len(document.walks) == 4


@pytest.mark.parametrize("name", ["own.json", "own.graphml", "own.GML"])
@pytest.mark.parametrize("graph", [EPP_1, {"entry": "A", "exit": "A", "edges": []}])
def test_our_own_json_may_have_keys_and_names_of_others(
    tmp_path: Path, name: str, graph: dict[str, Any]
) -> None:
    path = tmp_path / name
    path.write_text("\n " + json.dumps(graph | {"nodes": [], "links": []}))
    assert load(path).cfg.edges == parse(graph, "figure").cfg.edges


def test_a_program_is_no_graph(
    fixture_elf: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, output = fixture_elf("calls"), tmp_path / "calls.graphml"
    assert simprof(["cfg", "--format", "graphml", "-o", str(output), str(program)]) == 0
    routines = len(recover(elf.load(program)).routines)
    assert simprof(["explain", str(output)]) == 125
    advice = "write one with `simprof cfg --routine NAME --format graphml`"
    expected = f"simprof: {output}: holds {routines} routines; {advice}\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(("name", "loaded"), [("own.json", False), ("figure.gml", True)])
def test_networkx_is_imported_for_its_own_formats_only(
    tmp_path: Path, name: str, loaded: bool
) -> None:
    path = tmp_path / name
    if loaded:
        nx.write_gml(to_networkx(parse(EPP_1, "figure")), path)
    else:
        path.write_text(json.dumps(EPP_1))
    script = (
        "import sys\nfrom profiler import cli\n"
        f"assert cli.run(['explain', {str(path)!r}]) == 0\n"
        f"sys.exit(('networkx' in sys.modules) is not {loaded})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


LONG = "9" * 3_000_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", f'{{"edges": [["a", "b", {LONG}]], "entry": "a", "exit": "b"}}'),
        ("a.gml", f'graph [ directed 1 node [ id {LONG} label "a" ] ]'),
        (
            "a.graphml",
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
            '<key id="d" for="node" attr.name="instructions" attr.type="int"/>'
            f'<graph edgedefault="directed"><node id="a"><data key="d">{LONG}</data></node></graph>'
            "</graphml>",
        ),
    ],
)
def test_numbers_of_millions_of_digits_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    assert status("explain", tmp_path / name) == 125
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("a number has more than 100,000 digits")


@pytest.mark.parametrize("what", ["edges", "blocks"])
def test_larger_graphs_than_can_be_worked_with_are_refused(what: str) -> None:
    document = {"entry": "a", "exit": "b", "edges": [["a", "b"]]}
    more = {"edges": [["a", "b"]] * 100_001, "blocks": dict.fromkeys(map(str, range(100_001)), 1)}
    with pytest.raises(GraphFileError, match=f"{what}: 100,001 are too many"):
        parse({**document, what: more[what]}, "a.json")


def status(*words: str | Path) -> int:
    """Run a command; return its exit status."""
    return simprof([str(word) for word in words])
