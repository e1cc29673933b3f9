"""Call graphs: against the instruction words themselves, and against what the sources say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.recovery.calls import call_graph
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.simulator.binary.elf import load

PROGRAMS = [
    ("bench", "v9"),
    ("calls", "v8"),
    ("nonlocal", "v8plus"),
    ("switches", "v9"),
    ("tailcalls", "v8plus"),
    ("tailcalls", "v9"),
]


def named_calls(recovered: ProgramGraphs) -> set[tuple[str, str, str]]:
    graph = call_graph(recovered)
    names = {node: data["name"] for node, data in graph.nodes(data=True)}
    return {(names[u], names[v], data["kind"]) for u, v, data in graph.edges(data=True)}


def call_words(recovered: ProgramGraphs) -> set[tuple[int, int]]:
    """Return (site, target) of every `call` in a block: opcode 1, a displacement of 30 bits."""
    calls = set()
    for cfg in recovered.routines:
        for block in cfg.blocks:
            for site in range(block.start, block.end, 4):
                word = int(recovered.code.words[recovered.code.index(site)])
                if word >> 30 == 1:
                    displacement = (word & 0x3FFF_FFFF) - ((word & 0x2000_0000) << 1)
                    calls.add((site, site + 4 * displacement))
    return calls


@pytest.mark.parametrize(("name", "width"), PROGRAMS)
def test_every_call_instruction_is_there(
    fixture_elf: Callable[..., Path], name: str, width: str
) -> None:
    recovered = recover(load(fixture_elf(name, width)))
    graph = call_graph(recovered)
    expected = {
        (site, target)
        for site, target in call_words(recovered)
        if site not in recovered.call_aliases
    }
    assert expected
    entered = {
        (data["site"], recovered.routines[callee].address)
        for _, callee, data in graph.edges(data=True)
    }
    assert expected <= entered
    rest = {data["kind"] for *_, data in graph.edges(data=True)
            if data["site"] not in dict(expected)}  # fmt: skip
    assert rest <= {"tail-call"}


def test_tail_calls(fixture_elf: Callable[..., Path]) -> None:
    calls = named_calls(recover(load(fixture_elf("tailcalls"))))
    assert ("is_even", "is_odd", "tail-call") in calls
    assert ("is_odd", "is_even", "tail-call") in calls
    assert {("framed", "leaf", kind) for kind in ("call", "tail-call")} <= calls
    assert ("main", "is_even", "call") in calls
    assert not any(caller == "leaf" for caller, _, _ in calls)


def test_nodes_and_edges_have_the_documented_attributes(fixture_elf: Callable[..., Path]) -> None:
    recovered = recover(load(fixture_elf("calls")))
    graph = call_graph(recovered)
    assert list(graph) == list(range(len(recovered.routines)))
    for position, cfg in enumerate(recovered.routines):
        assert graph.nodes[position] == {
            "name": cfg.name,
            "address": cfg.address,
            "size": cfg.size,
            "blocks": len(cfg.blocks),
            "indirect": len(cfg.indirect),
        }
    sites = [data["site"] for *_, key, data in sorted(
        graph.edges(keys=True, data=True), key=lambda edge: edge[2])]  # fmt: skip
    assert sites == sorted(sites)
    without = {data["site"] for *_, data in graph.edges(data=True) if not data["returns"]}
    assert without == recovered.no_return_calls & set(sites)
    assert without


def test_pointers_have_no_edges(fixture_elf: Callable[..., Path]) -> None:
    recovered = recover(load(fixture_elf("pointers")))
    graph = call_graph(recovered)
    (main,) = [node for node, data in graph.nodes(data=True) if data["name"] == "main"]
    assert graph.nodes[main]["indirect"] > 0
    sites = {site for site, _ in call_words(recovered)}
    assert {data["site"] for *_, data in graph.out_edges(main, data=True)} <= sites
