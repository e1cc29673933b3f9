"""Schemes that other distributions bring: the example in fixtures/, and broken ones."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler.schemes import registry
from tests.conftest import FIXTURES, ROOT

EXAMPLE = FIXTURES / "example_scheme"
LOOPS = FIXTURES / "bin" / "v9" / "loops.elf"
GRAPH = {
    "name": "loop",
    "entry": "A",
    "exit": "C",
    "blocks": {"A": 3, "B": 2},
    "edges": [["A", "B"], ["B", "A"], ["B", "C"]],
    "runs": [["A B A B C", 10]],
}

Simprof = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the example installed as pip does it."""
    target = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
         "--no-index", "--target", str(target), str(EXAMPLE)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return target


def started(site: Path, home: Path) -> Simprof:
    """Return a function that runs simprof where the distributions in `site` are installed."""

    def simprof(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from profiler.cli import main; main()", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}",
                 "XDG_CACHE_HOME": str(home), "COLUMNS": "200"},
            capture_output=True, text=True, check=False, cwd=home,
        )  # fmt: skip

    return simprof


@pytest.fixture
def simprof(installed: Path, tmp_path: Path) -> Simprof:
    return started(installed, tmp_path)


def test_the_example_is_small() -> None:
    (module,) = EXAMPLE.glob("*.py")
    assert len(module.read_text().splitlines()) < 150


def test_help_texts_name_it(simprof: Simprof) -> None:
    text = " ".join(simprof("run", "--help").stdout.split())
    assert "blocks: qpt, heads;" in text
    assert "--loops-only heads: count loop heads only, not routine entries." in text
    assert "heads" in simprof("graph", "--help").stdout


def test_a_run_under_it(simprof: Simprof, tmp_path: Path) -> None:
    done = simprof("run", "--mode=heads", "--json", "run.json", LOOPS)
    assert done.returncode == 0
    assert "heads: routine entries and loop heads, a counter at each (example)" in done.stderr
    assert "without a counter" in done.stderr
    answer = json.loads((tmp_path / "run.json").read_text())
    assert (answer["mode"], answer["options"]["loops_only"]) == ("heads", False)
    routines = answer["routines"]
    entered = sum(routine["activations"] for routine in routines)
    increments = answer["counts"]["edge_increments"]
    assert increments > entered
    assert answer["instructions"]["added"] >= 4 * increments
    simprof("run", "--mode=heads", "--loops-only", "--json", "heads.json", LOOPS)
    fewer = json.loads((tmp_path / "heads.json").read_text())
    assert fewer["counts"]["edge_increments"] == increments - entered


def test_a_comparison_has_it(simprof: Simprof, tmp_path: Path) -> None:
    done = simprof("compare", "--json", "all.json", LOOPS)
    assert done.returncode == 0
    assert "\nheads " in done.stderr
    modes = json.loads((tmp_path / "all.json").read_text())["modes"]
    assert list(modes)[-1] == "heads"
    simprof("run", "--mode=heads", "--json", "run.json", LOOPS)
    alone = json.loads((tmp_path / "run.json").read_text())
    assert modes["heads"]["instructions"] == alone["instructions"]


def test_graph_files_under_it(simprof: Simprof, tmp_path: Path) -> None:
    (tmp_path / "loop.json").write_text(json.dumps(GRAPH))
    done = simprof("graph", "--mode=heads", "--json=-", "loop.json")
    answer = json.loads(done.stdout)
    assert answer["block_counts"] == [{"routine": "loop", "block": "A", "count": 20}]
    assert answer["lost"] == {"uncounted_blocks": 2}
    assert answer["static"]["block_code"] == {"A": ["head[1]++"]}
    assert answer["instructions"]["added"] == 4 * (10 + 20)


def test_its_code_in_place(simprof: Simprof) -> None:
    done = simprof("cfg", "--code", "heads", "--routine", "nest", LOOPS)
    assert done.returncode == 0
    assert "head[1]++" in done.stdout


def test_a_table_has_its_column(simprof: Simprof) -> None:
    done = simprof("table", "overheads", "--suite", "wcet", "--benchmark", "fir", "--csv")
    assert done.returncode == 0
    assert ",calls-optimal,heads" in done.stdout


def test_baselines_of_it(simprof: Simprof, installed: Path, tmp_path: Path) -> None:
    record = ["regress", "record", "--modes", "pp,heads", "-o", "b.baseline", LOOPS]
    assert simprof(*record).returncode == 0
    assert simprof("regress", "check", "b.baseline").returncode == 0
    gone = started(tmp_path / "nowhere", tmp_path)("regress", "check", "b.baseline")
    assert gone.returncode == 125
    assert "heads" in gone.stderr
    assert len(gone.stderr.splitlines()) == 1


# docs/SCHEMES.md

PAGE = (ROOT / "docs" / "SCHEMES.md").read_text()
SESSIONS = "".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL))


@pytest.mark.parametrize("kind", ["python", "toml"])
def test_the_page_quotes_the_example(kind: str) -> None:
    source = "".join(path.read_text() for path in EXAMPLE.iterdir() if path.is_file())
    quoted = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert quoted
    for passage in quoted:
        assert passage in source


def test_the_page_shows_what_is_printed(simprof: Simprof, tmp_path: Path) -> None:
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    (graph,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "loop.json").write_text(graph)
    shown = re.split(r"^\$ simprof (.*)\n", SESSIONS, flags=re.MULTILINE)[1:]
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert len(shown) >= 2 * 7
    for command, expected in zip(shown[::2], shown[1::2], strict=True):
        done = simprof(*shlex.split(command))
        texts = (done.stdout, done.stderr)
        checked = (doctest.OutputChecker().check_output(expected, text, flags) for text in texts)
        assert any(checked), (command, texts)


# Broken distributions

METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"

BROKEN = {
    "raising": ("raise RuntimeError('no\\nluck')", "cannot be imported (RuntimeError: no luck)"),
    "nothing": ("VALUE = 1", "cannot be imported (AttributeError: "),
    "lacking": ("class Scheme:\n    mode = 'lacking'\nSCHEME = Scheme()", "lacks description, "),
    "misnamed": (
        "from profiler.schemes.definition import SchemeDefinition\n"
        "SCHEME = SchemeDefinition(mode='other', description='x', plan=None)",
        "brings a scheme of mode other under another name",
    ),
    "incomplete": (
        "from profiler.schemes.definition import SchemeDefinition\n"
        "SCHEME = SchemeDefinition(mode='incomplete')",
        "cannot be imported (TypeError: ",
    ),
    "pp": (
        "from profiler.schemes.registry import PP as SCHEME",
        "names a mode that simprof has already",
    ),
}


@pytest.fixture
def broken(tmp_path: Path) -> Callable[[str, str], Simprof]:
    """Install a distribution `simprof-MODE` whose module is as given."""

    def install(mode: str, source: str) -> Simprof:
        site = tmp_path / "site"
        info = site / f"simprof_{mode}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(METADATA.format(f"simprof-{mode}", "1.2"))
        entry = f"{mode} = brought_{mode}:SCHEME"
        (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{entry}\n")
        (site / f"brought_{mode}.py").write_text(textwrap.dedent(source))
        return started(site, tmp_path)

    return install


@pytest.mark.parametrize("mode", BROKEN)
def test_a_broken_distribution_spoils_its_mode_only(
    mode: str, broken: Callable[[str, str], Simprof]
) -> None:
    source, reason = BROKEN[mode]
    simprof = broken(mode, source)
    for command in (
        ["run", f"--mode={mode}", LOOPS],
        ["compare", "--modes", f"qpt2,{mode}", LOOPS],
        ["cfg", "--code", mode, LOOPS],
        ["regress", "record", "-o", "b", "--modes", mode, LOOPS],
    ):
        done = simprof(*command)
        assert done.returncode == 125, command
        (line,) = done.stderr.splitlines()
        assert f"mode {mode}: distribution simprof-{mode} 1.2 {reason}" in line
    other = "qpt2" if mode == "pp" else "pp"
    assert simprof("run", f"--mode={other}", "--report", os.devnull, LOOPS).returncode == 0
    assert simprof("compare", "--report", os.devnull, LOOPS).returncode == 0
    assert simprof("run", "--help").returncode == 0


def test_two_distributions_with_one_mode_name_each_other(
    broken: Callable[[str, str], Simprof], tmp_path: Path
) -> None:
    source = (
        "from dataclasses import replace\nfrom profiler.schemes.registry import QPT2\n"
        "SCHEME = replace(QPT2, mode='twice')\n"
    )
    simprof = broken("twice", source)
    assert simprof("run", "--mode=twice", "--report", os.devnull, LOOPS).returncode == 0
    info = tmp_path / "site" / "simprof_rival-3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA.format("simprof-rival", "3"))
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\ntwice = brought_twice:OTHER\n")
    done = simprof("run", "--mode=twice", LOOPS)
    assert done.returncode == 125
    assert "simprof-rival 3" in done.stderr and "simprof-twice 1.2" in done.stderr
