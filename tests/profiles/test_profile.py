from __future__ import annotations

import gzip
import itertools
import json
import pickle
import random
import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind, VertexName
from simprof.profiler.profiles.codec import decode, encode
from simprof.profiler.profiles.combine import merge
from simprof.profiler.profiles.differences import difference
from simprof.profiler.profiles.output import check_writable, write_atomically
from simprof.profiler.profiles.profile import (
    BUDGET_STATUS,
    EdgeCount,
    Ending,
    PathCount,
    RefusedCalls,
    RoutineProfile,
)
from simprof.profiler.profiles.storage import FORMAT, MAGIC, from_bytes, load, save, to_bytes
from simprof.simulator.errors import UsageError
from tests.support.samples import BODY, FAULT, HEAD, REFUSAL, TAIL, measurement, routine

# --- endings


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (Ending(0, "exit"), 0),
        (Ending(77, "exit"), 77),
        (Ending(0, "budget"), BUDGET_STATUS),
        (Ending(0, "interrupted"), 130),
        (Ending(0, "interrupted", 2), 130),
        (Ending(0, "interrupted", 1), 129),
        (Ending(125, "refused", refusal=REFUSAL), 125),
        (Ending(0, "signal", 6), 134),
        (Ending(0, "fault", 11, FAULT), 139),
    ],
)
def test_exit_codes(ending: Ending, code: int) -> None:
    assert ending.code == code


# --- rows of routines


def later(of: RoutineProfile, asked: list[str]) -> RoutineProfile:
    """Return the same profile, whose rows note when they are made."""
    values = asdict(of)
    edges, blocks = values.pop("edge_counts"), values.pop("block_counts")

    def noting(name: str, rows: Any) -> Any:
        asked.append(name)
        return rows

    make = partial(noting, "edges", edges), partial(noting, "blocks", blocks)
    addresses = partial(noting, "addresses", replace(of).edge_addresses)
    return RoutineProfile.of_rows(*make, addresses, **values)


def test_rows_are_made_once_and_only_where_they_are_asked_for() -> None:
    whole, asked = routine(), list[str]()
    assert whole.edge_counts
    made = later(whole, asked)
    assert (made.key, made.activations, asked) == (whole.key, whole.activations, [])
    assert made.edge_counts == whole.edge_counts
    assert made.unplaced == whole.unplaced
    assert asked == ["edges", "blocks"]
    assert made.edge_addresses is made.edge_addresses == whole.edge_addresses
    assert asked == ["edges", "blocks", "addresses"]
    with pytest.raises(AttributeError, match="has no attribute 'edge_count'"):
        getattr(made, "edge_" + "count")


def test_profiles_with_rows_to_be_made_are_like_others() -> None:
    whole = routine()
    assert later(whole, []) == whole
    assert hash(later(whole, [])) == hash(whole)
    assert repr(later(whole, [])) == repr(whole)
    assert pickle.loads(pickle.dumps(later(whole, []))) == whole
    assert replace(later(whole, []), added=3) == replace(whole, added=3)
    assert encode(later(whole, [])) == encode(whole)


# --- saving and loading


def test_round_trip(tmp_path: Path) -> None:
    saved = measurement(
        ending=Ending(0, "fault", 11, FAULT),
        partial=True,
        warnings=("a counter would have wrapped",),
        routines=(routine(potential_paths=10**6000), routine(name="f", address=0x2000)),
    )
    save(saved, tmp_path / "profile")
    assert load(tmp_path / "profile") == saved


def test_the_same_measurement_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever time of day: gzip would keep it."""
    now = to_bytes(measurement())
    assert to_bytes(measurement()) == now
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert to_bytes(measurement()) == now


def test_file_describes_itself() -> None:
    data = to_bytes(measurement())
    header, body = data.split(b"\n", 1)
    assert header == FORMAT.first_line.rstrip()
    assert json.loads(gzip.decompress(body))["mode"] == "pp"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a simprof profile"),
        (b"\x7fELF" + bytes(100), "is not a simprof profile"),
        (MAGIC + b"3\n", "of version 3"),
        (FORMAT.first_line + b"nonsense", "is a damaged profile"),
        (to_bytes(measurement())[:-9], "cut short"),
        (to_bytes(measurement()) + b"x", "after its end"),
        (FORMAT.first_line + gzip.compress(b"[]", mtime=0), "is a damaged profile"),
        (FORMAT.first_line + gzip.compress(b"{}", mtime=0), "is missing"),
    ],
)
def test_bad_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        from_bytes(data, "FILE")
    assert str(caught.value).startswith("FILE ")
    assert "\n" not in str(caught.value)


def test_any_damaged_byte_is_noticed() -> None:
    data = to_bytes(measurement())
    generator = random.Random(7)
    # gzip's modification time, flags and system bytes carry nothing.
    header = len(MAGIC) + 2
    ignored = range(header + 3, header + 10)
    for position in generator.sample(range(len(data)), 200):
        if position in ignored:
            continue
        damaged = bytearray(data)
        damaged[position] ^= 1 << generator.randrange(8)
        with pytest.raises(UsageError):
            from_bytes(bytes(damaged), "FILE")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base", "7"),
        ("base", True),
        ("base", 1.0),
        ("routines", {}),
        ("partial", 0),
        ("runs", None),
    ],
)
def test_wrong_types_are_refused(field: str, value: object) -> None:
    encoded = encode(measurement())
    assert isinstance(encoded, dict)
    encoded[field] = value
    with pytest.raises(ValueError, match=field):
        decode(type(measurement()), encoded)


# --- atomic output


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    target.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("simprof.profiler.profiles.output.os.fsync", refuse)
    with pytest.raises(UsageError, match="No space left"):
        write_atomically(target, b"new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_write_keeps_mode_and_follows_links(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_devices_are_written_in_place() -> None:
    write_atomically(Path("/dev/null"), b"x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_check_writable(tmp_path: Path) -> None:
    check_writable(tmp_path / "new")
    with pytest.raises(UsageError, match="is a directory"):
        check_writable(tmp_path)
    with pytest.raises(UsageError, match="no directory"):
        check_writable(tmp_path / "none" / "new")


# --- merging and comparing


def test_merge_adds_everything() -> None:
    one = measurement()
    total = merge([one, one, one])
    assert (total.base, total.added, total.runs) == (3 * one.base, 3 * one.added, 3)
    assert total.counts == {name: 3 * count for name, count in one.counts.items()}
    assert [edge.count for edge in total.routines[0].edge_counts] == [6, 15, 15, 15, 6, 6]
    assert [path.count for path in total.routines[0].path_counts] == [6, 9, 6]
    assert [path.id for path in total.routines[0].path_counts] == [0, 1, 2]
    assert total.routines[0].activations == 6


def test_merge_of_one_is_that_one() -> None:
    assert merge([measurement()]) == measurement()


def test_merge_with_a_larger_graph() -> None:
    """The second run discovered an edge in front of all others and numbers paths differently."""
    other = routine()
    extra = EdgeCount(BODY, TAIL, EdgeKind.SWITCH, 1, True)
    bigger = replace(
        other,
        edges=7,
        edge_counts=(extra, *other.edge_counts),
        path_counts=tuple(
            replace(path, id=(path.id or 0) + 10, edges=tuple(edge + 1 for edge in path.edges))
            for path in other.path_counts
        ),
    )
    total = merge([measurement(), measurement(routines=(bigger,))]).routines[0]
    assert total.edges == 7
    by_key = {(edge.source, edge.target): edge.count for edge in total.edge_counts}
    assert by_key[BODY, TAIL] == 1
    assert by_key[HEAD, TAIL] == 4
    assert [(path.id, path.count) for path in total.path_counts] == [
        (None, 4),
        (None, 6),
        (None, 4),
    ]
    for path in total.path_counts:
        ends = [total.edge_counts[edge] for edge in path.edges]
        assert all(a.target == b.source for a, b in itertools.pairwise(ends))


def test_merge_adds_up_refused_calls() -> None:
    first = measurement(refused_calls=(RefusedCalls("fork", "EAGAIN", 2),))
    calls = (RefusedCalls("fork", "EAGAIN", 1), RefusedCalls("socket", "EAFNOSUPPORT", 4))
    total = merge([first, measurement(refused_calls=calls), measurement()])
    assert total.refused_calls == (
        RefusedCalls("fork", "EAGAIN", 3),
        RefusedCalls("socket", "EAFNOSUPPORT", 4),
    )


def test_merge_keeps_the_first_bad_ending() -> None:
    good, bad = measurement(ending=Ending(0, "exit")), measurement(ending=Ending(0, "signal", 6))
    assert merge([good, bad, good]).ending == bad.ending


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "qpt2"}, "different modes"),
        ({"options": {}}, "different options"),
        ({"program": replace(measurement().program, sha256="cd" * 32)}, "different programs"),
    ],
)
def test_merge_refuses_strangers(change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        merge([measurement(), measurement(**change)])
    with pytest.raises(UsageError, match="no profiles"):
        merge([])


def test_diff_of_equal_profiles_is_empty() -> None:
    assert difference(measurement(), measurement()).is_empty


def test_diff_names_what_changed() -> None:
    old = routine()
    edges = (*old.edge_counts[:3], replace(old.edge_counts[3], count=9), *old.edge_counts[4:])
    paths = (*old.path_counts[1:], PathCount(3, 1, 4, (0x1000,), (), True, (4,)))
    found = difference(
        measurement(), measurement(routines=(replace(old, edge_counts=edges, path_counts=paths),))
    )
    assert [(each.steps, each.executions) for each in found.edges] == [
        ((str(BODY), str(HEAD)), (5, 9))
    ]
    assert [(each.steps, each.kind, each.executions) for each in found.paths] == [
        (("0x1000", "slot 0x100c", "0x1010"), "path", (2, 0)),
        (("0x1000",), "partial", (0, 1)),
    ]
    assert not found.is_empty


# --- profiles as weights


def test_edge_profile_finds_counts_by_name() -> None:
    """Parallel edges are matched in order; edges that the profile lacks count 0."""
    blocks = (Block(0, 0x1000, 4), Block(1, 0x1010, 4))
    kinds = [(0, 1, EdgeKind.TAKEN), (0, 1, EdgeKind.TAKEN), (1, 0, EdgeKind.TAKEN)]
    kinds += [(2, 0, EdgeKind.ENTRY), (1, 3, EdgeKind.EXIT)]
    edges = tuple(Edge(number, *each) for number, each in enumerate(kinds))
    graph = ControlFlowGraph("f", 0x1000, 32, blocks, edges)
    a, b = VertexName(0x1000), VertexName(0x1010)
    counted = routine(
        name="f",
        edge_counts=(
            EdgeCount(a, b, EdgeKind.TAKEN, 3, False),
            EdgeCount(a, b, EdgeKind.TAKEN, 4, False),
            EdgeCount(VertexName("ENTRY"), a, EdgeKind.ENTRY, 7, False),
            EdgeCount(b, VertexName("EXIT"), EdgeKind.EXIT, 7, False),
        ),
    )
    profile = measurement(routines=(counted,)).edge_profile()
    assert profile.counts_for(graph) == (3, 4, 0, 7, 7)
    assert profile.counts_for(replace(graph, name="g")) is None
