"""What simprof answers is what fixtures/baselines says: the gate that every change has to pass.

A count that changes on purpose is recorded again with `make baselines`; docs/EXPERIMENTS.md.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler import cli
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.qpt.options import VertexPlacement
from tools import baselines
from tools.baseline_lines import (
    GRAPH_SETTINGS,
    GRAPHS,
    MODES,
    PROFILE_SETTINGS,
    PROGRAM_SETTINGS,
    digest,
)

CASES = {case.name: case for case in baselines.cases()}
CHANGE = "record it again if that is wanted, and say why in the commit: docs/EXPERIMENTS.md"


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what suites generate out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


OTHERS = ("profiles-v9/tailcalls", "graphs/calls", "graphs/tpp:table=hash")
"""Of each other kind a short one, or two. Those below find changed words in more of them."""


def in_turn(names: Iterable[str]) -> Iterator[str]:
    """Yield a case of every second program, another build each, and every sixth of the others.

    A change that alters a count alters it in many of them. `make baselines` records all, and
    `tools/baselines.py --check`, by hand, compares all of them.
    """
    builds, others = defaultdict(list), []
    for name in names:
        suite, _, rest = name.partition("-")
        if suite in ("micro", "wcet"):
            builds[suite, rest.partition("/")[2]].append(name)
        else:
            others.append(name)
    yield from (name for at, name in enumerate(others) if not at % 6 or name in OTHERS)
    for number, each in enumerate([*builds.values()][1::2]):
        yield each[number % len(each)]


COMPARED = [*in_turn(CASES)]
PROGRAMS = [name for name in COMPARED if name.startswith(("micro-", "wcet-"))]
ORDINARY = {*PROGRAMS[::8], *OTHERS}
assert CASES.keys() >= ORDINARY


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ORDINARY else pytest.mark.long) for name in COMPARED],
)
def test_nothing_changed(name: str) -> None:
    found = CASES[name].check()
    assert not found, "\n".join([f"`tools/baselines.py {name}`: {CHANGE}", *found[:40]])


@pytest.mark.parametrize("suite", baselines.SUITES)
def test_no_routine_changed(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = baselines.BASELINES / f"{suite}.baseline"
    status = cli.run(["regress", "check", "--no-progress", str(path)])
    assert status == 0, f"`simprof regress update {path}`: {CHANGE}\n{capsys.readouterr().out}"


def test_every_line_is_checked() -> None:
    assert not baselines.strays()


def test_everything_is_recorded() -> None:
    modes = set(registry.modes())
    assert {*MODES, "edges"} == modes
    assert modes <= set(PROGRAM_SETTINGS) & set(PROFILE_SETTINGS)
    for each in VertexPlacement:
        assert each is VertexPlacement.REDUNDANT or f"qpt:placement={each}" in GRAPH_SETTINGS
    assert len([name for name in CASES if name.startswith("micro-")]) == 3 * 19
    assert len([name for name in CASES if name.startswith("wcet-")]) == 3 * 9


# The graphs


def test_graphs_have_every_shape() -> None:
    files = [json.loads(line) for line in GRAPHS.read_text().splitlines()]
    assert len({digest([each["edges"], each["runs"]]) for each in files}) == len(files) == 320
    assert {each["name"].rsplit(" ", 1)[0] for each in files} == {
        "regions", "sparse", "dense", "tiny", "shared_heads", "irreducible", "ladder",
    }  # fmt: skip
    having: dict[str, Callable[[dict[str, Any]], bool]] = {
        "runs": lambda each: bool(each["runs"]),
        "no runs": lambda each: not each["runs"],
        "weights": lambda each: any(len(edge) > 2 for edge in each["edges"]),
        "self-loops": lambda each: any(edge[0] == edge[1] for edge in each["edges"]),
        "parallel edges": lambda each: (
            len({(*edge[:2],) for edge in each["edges"]}) < len(each["edges"])
        ),
    }
    least = {"runs": 250, "no runs": 10, "weights": 80, "self-loops": 50, "parallel edges": 80}
    for what, has in having.items():
        assert sum(map(has, files)) >= least[what], what


# The gate can fail


class Known(dict[str, list[str]]):
    """The lines that cases have now: each is made once for all changes that are tried."""

    def __missing__(self, name: str) -> list[str]:
        return self.setdefault(name, list(CASES[name].make()))


NOW = Known()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the baselines."""
    return Path(shutil.copytree(baselines.BASELINES, tmp_path / "baselines"))


def alter(path: Path, begin: str, word: int) -> str:
    """Change one word of the one line that begins with `begin`: a number by 1, a digest's digit."""
    (old,) = [line for line in path.read_text().splitlines() if line.startswith(begin)]
    words = old.split(" ")
    if words[word].isdigit():
        words[word] = str(int(words[word]) + 1)
    else:
        words[word] = ("1" if words[word][0] == "0" else "0") + words[word][1:]
    path.write_text(path.read_text().replace(old, " ".join(words)))
    return " ".join(words)


@pytest.mark.parametrize(
    ("file", "begin", "word"),
    [
        ("wcet-v8.txt", "fibcall pp ", 4),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("profiles-v9.txt", "deep kiter ", 2),
                ("wcet-v8.txt", "fibcall ends ", 2),
                ("wcet-v8.txt", "fibcall pp:table=hash ", 3),
                ("graphs.txt", "naive 007 ", 3),
                ("graphs.txt", "naive 009 ", 5),
            )
        ),
    ],
)
def test_one_changed_word_fails(copy: Path, file: str, begin: str, word: int) -> None:
    altered = alter(copy / file, begin, word)
    name = f"{file.removesuffix('.txt')}/{begin.split()[0]}"
    case = replace(CASES[name], make=lambda: iter(NOW[name]))
    recorded, now = case.check(copy)
    assert recorded == f"{file}: recorded: {altered}"
    assert now.startswith(f"{file}: now:      {begin}")


def test_missing_and_unknown_lines_fail(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, case = copy / "graphs.txt", CASES["graphs/calls"]
    command = ["--directory", str(copy), "--check", case.name]
    assert baselines.main(command) == 0
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("calls 100 ")))
    assert [line.split()[:4] for line in case.check(copy)] == [
        ["graphs.txt:", "now:", "calls", "100"]
    ]
    assert baselines.main(command) == 1
    path.write_text("".join([*lines, "nonsense 000 1\n"]))
    (copy / "forgotten.txt").touch()
    assert baselines.strays(copy) == ["forgotten.txt", "graphs.txt: nonsense 000 1"]
    assert baselines.main(command) == 1
    assert "nonsense 000 1" in capsys.readouterr().out


@pytest.mark.long
def test_recording_mends_what_was_changed(copy: Path) -> None:
    alter(copy / "graphs.txt", "qpt2 000 ", 3)
    assert baselines.main(["--directory", str(copy), "graphs/qpt2"]) == 0
    assert (copy / "graphs.txt").read_bytes() == (baselines.BASELINES / "graphs.txt").read_bytes()


def test_a_changed_count_fails_simprof_regress(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copy / "wcet.baseline"
    check = ["regress", "check", "--no-progress", str(path)]
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith('["run"') or '"fibcall ' in line]
    path.write_text("".join(kept))
    assert cli.run(check) == 0
    count = '["run", "fibcall train v9-O2", "count", "tpp", "added", '
    (old,) = [line for line in kept if line.startswith(count)]
    number = int(old.removeprefix(count).rstrip("]\n"))
    path.write_text("".join(kept).replace(old, f"{count}{number + 1}]\n"))
    capsys.readouterr()
    assert cli.run(check) == 1
    report = capsys.readouterr().out.splitlines()
    assert any(line.startswith("fibcall train v9-O2, tpp: changed") for line in report), report
