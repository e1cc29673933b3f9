"""Schemes that other distributions bring: the example in fixtures/, and broken ones."""

from __future__ import annotations

import ast
import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import simprof as api
from simprof import schemes
from simprof.profiler import cli
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.recovery.recovery import recover
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.registry import RESERVED
from simprof.simulator.binary.elf import load
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES, ROOT
from tests.support.turns import first

EXAMPLE, SAMPLED = FIXTURES / "example_scheme", FIXTURES / "sampled_scheme"
BACK_EDGES = FIXTURES / "backedges_scheme"
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
            [sys.executable, "-m", "simprof", *map(str, arguments)],
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


def test_the_example_imports_the_public_module_only() -> None:
    (module,) = EXAMPLE.glob("*.py")
    imports = re.findall(r"^(?:from|import) (\S+)", module.read_text(), re.MULTILINE)
    assert set(imports) == {"__future__", "simprof.schemes"}


@pytest.fixture
def back_edges(broken: Callable[[str, str], Simprof]) -> Simprof:
    source = (BACK_EDGES / "backedges_scheme.py").read_text()
    assert len(source.partition("class BackEdgesPlan")[2].splitlines()) <= 45
    return broken("backedges", f"{source}\nSCHEME = BACK_EDGES\n")


@pytest.mark.long
def test_a_scheme_may_count_some_edges(back_edges: Simprof, tmp_path: Path) -> None:
    """Reports list what it counts: the counts of back edges that counters of all edges have."""
    done = back_edges(
        "run", "--mode=backedges", "--self-check", "-o", "b.prof", "--top=1000", LOOPS
    )
    assert done.returncode == 0
    section = done.stderr.split("Hot edges\n")[1].split("\n\n")[0]
    found = {
        (words[1], ends): int(words[0].replace(",", ""))
        for line in section.splitlines()[1:]
        for words in [line.split()]
        for ends in re.findall(r"((?:slot )?0x\w+ > (?:slot )?0x\w+)", line)
    }
    cfgs = {cfg.name: cfg for cfg in recover(load(LOOPS)).routines}
    measured = api.run(LOOPS, mode="naive")
    wanted = {}
    for routine in measured.routines:
        cfg = cfgs[routine.name]
        for edge in depth_first(cfg).back_edges:
            source, target = (cfg.name_of(vertex) for vertex in cfg.edges[edge][1:3])
            if count := routine.edge_counts[edge].count:
                wanted[routine.name, f"{source} > {target}"] = count
    assert found == wanted
    assert "cannot be derived from counters of some edges (413 of 447 edges)" in done.stderr
    assert back_edges("merge", "b.prof", "b.prof", "-o", "two.prof").returncode == 0
    report = back_edges("show", "two.prof", "--top=1000").stderr
    assert len(re.findall(r" > ", report)) <= 2 * len(wanted)


@pytest.mark.long
def test_schemes_of_blocks_list_what_they_count(simprof: Simprof) -> None:
    done = simprof("run", "--mode=heads", "--top=1000", LOOPS)
    assert "Hot edges" not in done.stderr
    blocks = done.stderr.split("Hot blocks\n")[1].split("\n\n")[0]
    heads = {
        str(cfg.name_of(cfg.edges[edge].target))
        for cfg in recover(load(LOOPS)).routines
        for edge in depth_first(cfg).back_edges
    }
    listed = set(re.findall(r" ((?:slot )?0x\w+) ", blocks))
    assert listed
    assert listed <= heads


def test_public_names_exist_and_are_documented() -> None:
    assert schemes.__doc__ is not None
    for name in dir(schemes):
        assert getattr(schemes, name) is not None
        assert re.search(rf"`{name}\b", schemes.__doc__), name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = schemes.nothing  # type: ignore[attr-defined]


def test_names_are_imported_from_where_type_checkers_take_them() -> None:
    nodes = ast.walk(ast.parse(Path(str(schemes.__file__)).read_text()))
    imports = [each for each in nodes if isinstance(each, ast.ImportFrom)]
    typed = {
        (each.module, alias.asname) for each in imports for alias in each.names if alias.asname
    }
    modules = {(each.rpartition(".")[0], name) for name, each in schemes._MODULES.items()}
    homes = {(home, name) for name, home in schemes._PLACES.items()} | modules
    # `asm` has another name than its module.
    typed.add(("simprof.simulator.isa", "asm"))
    assert typed == {(f"simprof.{home}", name) for home, name in homes}


NONE_FOR_EDGES = """
from msgspec.structs import asdict, replace
from simprof.profiler.schemes.cs6120.planner import NaivePlan
from simprof.profiler.schemes.registry import NAIVE

class Doubtful(NaivePlan, frozen=True):
    def read(self, counters):
        reading = super().read(counters)
        return replace(reading, edges=EDGES)

SCHEME = replace(NAIVE, mode="doubtful", plan=lambda order: Doubtful(**asdict(NAIVE.plan(order))))

def no_plan(order):
    return order

NO_PLAN = replace(NAIVE, mode="planless", plan=no_plan)
"""
DECODER = "mode doubtful: its decoder (Doubtful.read in module brought_doubtful) returns "


@pytest.mark.parametrize(
    ("edges", "text"),
    [
        ("reading.edges[1:]", f"{DECODER}counts of "),
        (
            "(reading.edges[0] + 1, *reading.edges[1:])",
            "a defect of the scheme in module brought_doubtful, or of simprof: please report the ",
        ),
    ],
)
@pytest.mark.parametrize("command", ["explain", pytest.param("run", marks=pytest.mark.long)])
def test_a_wrong_decoder_is_named(
    command: str, edges: str, text: str, broken: Callable[[str, str], Simprof], tmp_path: Path
) -> None:
    """The line names the scheme's module, and does not blame simprof alone."""
    simprof = broken("doubtful", NONE_FOR_EDGES.replace("EDGES", edges))
    (tmp_path / "loop.json").write_text(json.dumps(GRAPH))
    done = simprof(command, "--mode=doubtful", LOOPS if command == "run" else "loop.json")
    assert done.returncode != 0
    assert text in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_what_is_no_plan_is_refused(here: Callable[[str, str], None]) -> None:
    here("planless", f"{NONE_FOR_EDGES}\nSCHEME = NO_PLAN\n")
    cfg = recover(load(LOOPS)).routines[0]
    with pytest.raises(UsageError, match=r"planless: its planner returns PlanOrder, not a Plan"):
        registry.make_plan(cfg, "planless", SchemeOptions())


@pytest.mark.long
def test_help_texts_name_it(simprof: Simprof) -> None:
    text = " ".join(simprof("run", "--help").stdout.split())
    assert "blocks: qpt, heads;" in text
    assert "heads" in simprof("explain", "--mode=nosuch", "-").stderr
    (line,) = simprof("explain", "--mode=heads").stdout.splitlines()[1:]
    assert line.split("  ")[1:] == [
        "loops-only", "count loop heads only, not routine entries.",
    ]  # fmt: skip


@pytest.mark.long
def test_reserved_options_are_those_that_results_name(simprof: Simprof, tmp_path: Path) -> None:
    """A scheme cannot declare an option that would be another's in a result."""
    result = tmp_path / "result.json"
    selection = ("--routine=main", "--entry=main", "--calls=1", "--user-only")
    limits = ("--max-instructions=100000000", "--timeout=100")
    simprof("run", "--mode=edges", *selection, *limits, "--json", result, LOOPS)
    options = json.loads(result.read_text())["options"]
    assert options.keys() == RESERVED  # `edges` has no options of its own


@pytest.mark.long
def test_a_run_under_it(simprof: Simprof, tmp_path: Path) -> None:
    done = simprof("run", "--mode=heads", "--json", "run.json", LOOPS)
    assert done.returncode == 0
    assert "heads: routine entries and loop heads, a counter at each (example)" in done.stderr
    assert "without a counter" in done.stderr
    answer = json.loads((tmp_path / "run.json").read_text())
    assert (answer["mode"], answer["options"]["loops_only"]) == ("heads", False)
    assert '`options["loops_only"]`' in PAGE
    routines = answer["routines"]
    entered = sum(routine["entered"] for routine in routines)
    increments = answer["counts"]["edge_increments"]
    assert increments > entered
    assert answer["instructions"]["added"] >= 4 * increments
    simprof("run", "--mode=heads:loops-only", "--json", "heads.json", LOOPS)
    fewer = json.loads((tmp_path / "heads.json").read_text())
    assert fewer["counts"]["edge_increments"] == increments - entered


@pytest.mark.long
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
    done = simprof("explain", "--mode=heads", "--json=-", "loop.json")
    answer = json.loads(done.stdout)
    assert [(each["symbol"], each["block"], each["executions"]) for each in answer["blocks"]] == [
        ("loop", "A", 20)
    ]
    assert answer["lost"] == {"uncounted_blocks": 2}
    assert answer["static"]["block_code"] == {"A": ["head[1]++"]}
    assert answer["instructions"]["added"] == 4 * (10 + 20)


def test_its_code_in_place(simprof: Simprof) -> None:
    done = simprof("cfg", "--code", "heads", "--routine", "nest", LOOPS)
    assert done.returncode == 0
    assert "head[1]++" in done.stdout


@pytest.mark.long
def test_a_table_has_its_column(simprof: Simprof) -> None:
    done = simprof("table", "overheads", "--suite", "wcet", "--benchmark", "fir", "--csv")
    assert done.returncode == 0
    assert ",calls-optimal,heads" in done.stdout


@pytest.mark.long
def test_baselines_of_it(simprof: Simprof, installed: Path, tmp_path: Path) -> None:
    record = ["regress", "record", "--mode", "pp,heads", "-o", "b.baseline", LOOPS]
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
def test_the_page_quotes_the_example_and_pp(kind: str) -> None:
    files = [path for example in (EXAMPLE, SAMPLED) for path in example.iterdir()]
    files.append(ROOT / "profiler" / "schemes" / "pp.py")
    source = "".join(path.read_text() for path in files if path.is_file())
    quoted = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert quoted
    for passage in quoted:
        assert passage in source


@pytest.mark.long
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

DEFINED = """from simprof.profiler.schemes.definition import *
from simprof.profiler.schemes.definition import *
from simprof.profiler.schemes.registry import PP
"""
BROKEN = {
    "leaving": ("raise SystemExit(3)", "cannot be imported (SystemExit: 3)"),
    "typed": (
        DEFINED + "SCHEME = SchemeDefinition(mode='typed', description=None, plan=3, options=1)",
        "has a value of a wrong type as description, plan, options",
    ),
    "reading": (
        DEFINED + "SCHEME = SchemeDefinition(mode='reading', description='', plan=None, "
        "options=type('Reading', (Options,), {'reads': ('cold',)}))",
        "reads other options than path_limit, weights, table",
    ),
    "a_b": (
        DEFINED + "SCHEME = SchemeDefinition(mode='a_b', description='', plan=None)",
        "has a name that is not of small letters, digits and dashes",
    ),
    "clashing": (
        DEFINED + "SCHEME = SchemeDefinition(mode='clashing', description='', plan=None, "
        "options=type('Clashing', (Options,), {'cold': SchemeOption(3, 'mine', 'x')}))",
        "declares option cold, which another scheme has",
    ),
    "taking": (
        DEFINED + "SCHEME = SchemeDefinition(mode='taking', description='', plan=None, "
        "options=type('Taking', (Options,), {'timeout': SchemeOption(3, 'mine', 'x')}))",
        "declares option timeout, which simprof has",
    ),
    "raising": ("raise RuntimeError('no\\nluck')", "cannot be imported (RuntimeError: no luck)"),
    "nothing": ("VALUE = 1", "cannot be imported (AttributeError: "),
    "lacking": ("class Scheme:\n    mode = 'lacking'\nSCHEME = Scheme()", "lacks description, "),
    "misnamed": (
        "from simprof.profiler.schemes.definition import SchemeDefinition\n"
        "SCHEME = SchemeDefinition(mode='other', description='x', plan=None)",
        "brings a scheme of mode other under another name",
    ),
    "incomplete": (
        "from simprof.profiler.schemes.definition import SchemeDefinition\n"
        "SCHEME = SchemeDefinition(mode='incomplete')",
        "cannot be imported (TypeError: ",
    ),
    "pp": (
        "from simprof.profiler.schemes.registry import PP as SCHEME",
        "names a mode that simprof has already",
    ),
}


def write(site: Path, mode: str, source: str) -> None:
    """Install a distribution `simprof-MODE` whose module is as given."""
    module = "brought_" + re.sub(r"\W", "_", mode)
    info = site / f"simprof_{mode}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA.format(f"simprof-{mode}", "1.2"))
    entry = f"{mode} = {module}:SCHEME"
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{entry}\n")
    (site / f"{module}.py").write_text(textwrap.dedent(source))


@pytest.fixture
def broken(tmp_path: Path) -> Callable[[str, str], Simprof]:
    """Install a distribution, for commands that are processes of their own."""

    def install(mode: str, source: str) -> Simprof:
        write(tmp_path / "site", mode, source)
        return started(tmp_path / "site", tmp_path)

    return install


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Install a distribution for this process, as far as it brings no options."""

    def forget() -> None:
        for known in (registry.schemes, registry.brought, registry.generators):
            known.cache_clear()

    def install(mode: str, source: str) -> None:
        write(tmp_path / "site", mode, source)
        monkeypatch.syspath_prepend(tmp_path / "site")
        forget()

    monkeypatch.chdir(tmp_path)
    yield install
    monkeypatch.undo()
    forget()


@pytest.mark.long
@pytest.mark.parametrize("mode", first(2, BROKEN))
def test_a_broken_distribution_spoils_its_mode_only(
    mode: str, here: Callable[[str, str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    """The lists of modes that commands have are made once: see the test behind this one."""
    source, reason = BROKEN[mode]
    here(mode, source)
    text = f"mode {mode}: distribution simprof-{mode} 1.2 {reason}"
    with pytest.raises(UsageError, match=re.escape(text)):
        registry.definition(mode)
    assert [each.mode for each in registry.tried_modes()[1]] == [mode]
    assert cli.run(["compare", "--report", os.devnull, str(LOOPS)]) == 0
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"simprof: left out: mode {mode}: distribution ")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["pp", "leaving"])
def test_commands_say_what_is_broken(mode: str, broken: Callable[[str, str], Simprof]) -> None:
    source, reason = BROKEN[mode]
    simprof = broken(mode, source)
    for command in (
        ["run", f"--mode={mode}", LOOPS],
        ["compare", "--mode", f"qpt2,{mode}", LOOPS],
        ["cfg", "--code", mode, LOOPS],
        ["regress", "record", "-o", "b", "--mode", mode, LOOPS],
    ):
        done = simprof(*command)
        assert done.returncode == 125, command
        (line,) = done.stderr.splitlines()
        assert f"mode {mode}: distribution simprof-{mode} 1.2 {reason}" in line
    judged = simprof("run", "--mode=tpp", LOOPS)
    told = "the profiles do not determine the definite flow: mode pp" in judged.stderr
    assert told is (mode == "pp")
    assert simprof("run", "--help").returncode == 0


def test_a_broken_distribution_leaves_other_modes(broken: Callable[[str, str], Simprof]) -> None:
    simprof = broken("pp", BROKEN["pp"][0])
    assert simprof("run", "--mode=qpt2", "--report", os.devnull, LOOPS).returncode == 0


LATE = {
    "planless": (
        "def plan(order):\n    import nowhere_to_be_found\n"
        "SCHEME = SchemeDefinition(mode='planless', description='', plan=plan)",
        "fails to plan (ModuleNotFoundError: No module named 'nowhere_to_be_found')",
    ),
    "codeless": (
        "def code():\n    raise RuntimeError('no code')\n"
        "SCHEME = replace(PP, mode='codeless', code=code)",
        "fails to bring its code (RuntimeError: no code)",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("mode", LATE)
def test_a_scheme_that_fails_when_it_is_used_spoils_its_mode_only(
    mode: str, broken: Callable[[str, str], Simprof]
) -> None:
    source, reason = LATE[mode]
    simprof = broken(mode, f"{DEFINED}from msgspec.structs import replace\n{source}")
    done = simprof("run", f"--mode={mode}", LOOPS)
    assert done.returncode == 125
    assert done.stderr.splitlines()[-1].startswith(
        f"simprof: mode {mode}: distribution simprof-{mode} 1.2 {reason}"
    )
    assert "Traceback" not in done.stderr
    compared = simprof("compare", "--report", os.devnull, LOOPS)
    assert compared.returncode == 0
    assert f"simprof: left out: mode {mode}: " in compared.stderr
    assert reason in compared.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", first(2, ["TPP", "WITNESS", "PP", "BITTRACE", "KITER", "QPT", "CALLS"])
)
def test_any_scheme_does_as_well_under_another_name(
    kind: str, broken: Callable[[str, str], Simprof], tmp_path: Path
) -> None:
    """Nothing but its definition makes a scheme one that counts paths, traces, or is guided."""
    simprof = broken(
        "copied",
        "from msgspec.structs import replace\n"
        f"from simprof.profiler.schemes.registry import {kind}\n"
        f"SCHEME = replace({kind}, mode='copied')",
    )
    own = str(getattr(registry, kind).mode)
    answers = []
    for mode in (own, "copied"):
        done = simprof("run", f"--mode={mode}", "--json", mode, "--top", "5", LOOPS)
        assert done.returncode == 0, done.stderr
        answer = json.loads((tmp_path / mode).read_text())
        assert answer.pop("mode") == mode
        report = [line for line in done.stderr.splitlines() if not line.startswith("mode ")]
        answers.append((answer, report))
    assert answers[0] == answers[1]


@pytest.mark.long
def test_two_distributions_with_one_mode_name_each_other(
    broken: Callable[[str, str], Simprof], tmp_path: Path
) -> None:
    source = (
        "from msgspec.structs import replace\nfrom simprof.profiler.schemes.registry import QPT2\n"
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
