"""Exports about machine code: TSIM's coverage files, and graphs as GraphML."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.exports.formats import ExportSource, export, find
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.graphs.interchange import from_networkx
from simprof.profiler.profiles import storage
from simprof.profiler.profiles.profile import CutBlock
from simprof.simulator.errors import UsageError
from tests.support.hostile_profile import NAMES, hostile_measurement
from tests.support.samples import BLOCKS, measurement, routine


def as_covoar_reads(content: bytes) -> dict[str, set[int]]:
    """Addresses that were executed, taken, not taken.

    A reader of its own, after what RTEMS's `CoverageReaderTSIM` does: a hexadecimal address, one
    character that is skipped, then 32 hexadecimal numbers, one for each word from there on. Bits 3
    and 4 are looked at where bit 0 is set.
    """
    found: dict[str, set[int]] = {"executed": set(), "taken": set(), "not taken": set()}
    words = iter(content.decode("ascii").split())
    for start in words:
        base = int(start, 16)
        assert next(words) == ":"
        for offset in range(0, 0x80, 4):
            field = int(next(words), 16)
            if not field & 0x01:
                assert field == 0
                continue
            found["executed"].add(base + offset)
            if field & 0x08:
                found["taken"].add(base + offset)
            if field & 0x10:
                found["not taken"].add(base + offset)
    return found


def test_tsim_by_hand() -> None:
    """HEAD's last instruction is an annulled branch, taken 5 times and not taken twice."""
    (one,) = measurement().routines
    cold = tuple(replace(block, count=0) if block.start == 0x1020 else block for block in BLOCKS)
    edges = tuple(
        replace(edge, count=0) if edge.target.start == 0x1020 else edge for edge in one.edge_counts
    )
    whole = measurement(routines=(replace(one, block_counts=cold, edge_counts=edges),))
    content = export(find("tsim"), ExportSource(whole))
    zeros = " 0" * 24
    assert content == f"00001000 : 1 1 9 1 1 1 1 1{zeros}\n".encode()
    content = export(find("tsim"), ExportSource(measurement()))
    assert as_covoar_reads(content) == {
        "executed": set(range(0x1000, 0x102C, 4)),
        "taken": {0x1008},
        "not taken": {0x1008},
    }


def test_a_block_that_was_cut_short_is_executed_up_to_there() -> None:
    once = (replace(BLOCKS[0], count=1), *(replace(block, count=0) for block in BLOCKS[1:]))
    whole = measurement(
        routines=(routine(block_counts=once, edge_counts=(), cut_blocks=(CutBlock(0, 2, 1),)),)
    )
    found = as_covoar_reads(export(find("tsim"), ExportSource(whole)))
    assert found["executed"] == {0x1000, 0x1004}


def test_tsim_is_what_the_edges_say(exported: ExportSource) -> None:
    found = as_covoar_reads(export(find("tsim"), exported))
    routines = exported.measurement.routines
    executed = {
        address
        for each in routines
        for block in each.block_counts
        if block.count
        for address in range(block.start, block.end, 4)
    }
    assert found["executed"] == executed
    taken = {
        edge.source.start
        for each in routines
        for edge in each.edge_counts
        if edge.kind in (EdgeKind.TAKEN, EdgeKind.SLOT)
        and edge.count
        and sum(other.source == edge.source for other in each.edge_counts) == 2
    }
    starts = {
        block.transfer: block.start
        for each in routines
        for block in each.block_counts
        if block.transfer in found["taken"]
    }
    assert set(starts.values()) >= taken
    assert len(taken) > 20


def test_tsim_has_no_addresses_beyond_4_gb() -> None:
    far = (replace(BLOCKS[0], start=1 << 32),)
    whole = measurement(routines=(routine(block_counts=far, edge_counts=()),))
    with pytest.raises(UsageError, match=r"has 32-bit addresses, and there is code at 0x10000000"):
        export(find("tsim"), ExportSource(whole))


def read_back(content: bytes) -> nx.MultiDiGraph:
    return nx.read_graphml(io.BytesIO(content), force_multigraph=True)


def test_networkx_reads_the_same_graph_back(exported: ExportSource) -> None:
    graph = read_back(export(find("graphml"), exported))
    for position, each in enumerate(exported.measurement.routines):
        own = graph.subgraph(node for node in graph if node.startswith(f"{position}:"))
        edges = {data["id"]: data["weight"] for *_, data in own.edges(data=True)}
        assert [edges[number] for number in range(len(edges))] == [
            edge.count for edge in each.edge_counts if edge.kind is not EdgeKind.EARLY
        ]
        blocks = Counter(
            {
                (data["start"], data["role"] == "slot"): data["executions"]
                for _, data in own.nodes(data=True)
                if "start" in data
            }
        )
        assert blocks == {(block.start, block.is_slot): block.count for block in each.block_counts}
        cfg = from_networkx(nx.MultiDiGraph(own))
        assert [
            (cfg.name_of(edge.source), cfg.name_of(edge.target), edge.kind) for edge in cfg.edges
        ] == [edge.key for edge in each.edge_counts if edge.kind is not EdgeKind.EARLY]


def test_graphml_takes_any_name() -> None:
    graph = read_back(export(find("graphml"), ExportSource(hostile_measurement())))
    names = {data["routine"] for _, data in graph.nodes(data=True)}
    assert names == {"".join(c if c.isprintable() else "?" for c in name) for name in NAMES}
    assert max(data["weight"] for *_, data in graph.edges(data=True)) == 5 * 10**15


def test_simprof_graph_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile, target = tmp_path / "profile", tmp_path / "one.graphml"
    storage.save(measurement(), profile)
    assert cli.run(["export", "--format", "graphml", str(profile), "-o", str(target)]) == 0
    assert cli.run(["explain", str(target), "--mode", "pp"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^ +0:2 > 0:0 +5$", shown, re.MULTILINE), shown
