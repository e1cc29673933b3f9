"""`tools/mutants.py`: its list fits the code, and it tells killed from survived."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools.mutants import (
    Copy,
    Fate,
    Kernels,
    Mutant,
    Outcome,
    attempt_all,
    chosen,
    copied,
    line,
    load,
    main,
    summary,
    tree_files,
)

MUTANTS = load()
LAYERS = (
    "simulator/isa simulator/binary simulator/cpu simulator/linux simulator/machine "
    "profiler/graphs profiler/plan profiler/recovery profiler/code profiler/schemes/tpp "
    "profiler/schemes/ppp profiler/schemes/kiter profiler/schemes/bittrace "
    "profiler/schemes/tracing "
    "profiler/schemes/qpt profiler/schemes/cs6120 profiler/engine profiler/trace "
    "profiler/session profiler/profiles profiler/experiments/tables profiler/experiments/cells "
    "profiler/experiments/regress profiler/commands profiler/reports"
).split()


# The list


def problems(mutant: Mutant) -> Iterator[str]:
    """What keeps a mutant from being tried."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        yield f"its old text is there {text.count(mutant.old)} times, not once"
    if mutant.old == mutant.new or not mutant.tests:
        yield "it changes nothing, or has no tests"
    try:
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
    except SyntaxError as error:
        yield f"it is no Python: {error}"
    for test in mutant.tests:
        file, _, function = test.partition("::")
        if not (ROOT / file).is_file() or f"def {function}" not in (ROOT / file).read_text():
            yield f"there is no {test}"
            return


@pytest.mark.long
def test_every_mutant_applies() -> None:
    """Where the code has changed, adapt the old and the new text in tools/mutants.toml."""
    outdated = [f"{m.file}: {m.name}: {problem}" for m in MUTANTS for problem in problems(m)]
    assert not outdated, "\n".join(outdated)


def test_there_are_mutants_in_every_layer() -> None:
    assert len(MUTANTS) >= 120
    found = Counter(layer for m in MUTANTS for layer in LAYERS if m.file.startswith(f"{layer}/"))
    assert not set(LAYERS) - set(found)


def test_mutants_are_chosen_by_name_or_file() -> None:
    assert chosen(MUTANTS, []) == MUTANTS
    name = MUTANTS[0].name
    assert chosen(MUTANTS, [name]) == MUTANTS[:1]
    graphs = chosen(MUTANTS, ["profiler/graphs/*"])
    assert {m.file.rpartition("/")[0] for m in graphs} == {"profiler/graphs"}
    assert chosen(MUTANTS, ["no such thing"]) == []


def test_the_list_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "plan_kernel"]) == 0
    assert "profiler/graphs/plan_kernel.py: the tree is the lightest" in capsys.readouterr().out


# A small tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of one function with two tests, one of which looks away."""
    root = tmp_path / "tree"
    root.mkdir()
    (root / "my_code.py").write_text("def double(x):\n    return x + x\n\n\nWORD = 'two'\n")
    (root / "test_it.py").write_text(
        "import my_code\n\n\ndef test_double():\n    assert my_code.double(2) == 4\n"
        "\n\ndef test_three():\n    assert my_code.double(3) == 6\n"
    )
    (root / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--long', action='store_true')\n"
    )
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def mutant(old: str, new: str, test: str = "test_it.py", name: str = "m") -> Mutant:
    return Mutant(name, "my_code.py", old, new, (test,))


def fates(root: Path, *mutants: Mutant) -> list[tuple[str, Fate]]:
    seen: list[Outcome] = []
    outcomes = attempt_all(root, mutants, 1, seen.append)
    assert seen == outcomes
    return [(outcome.mutant.name, outcome.fate) for outcome in outcomes]


@pytest.mark.long
def test_what_becomes_of_mutants(tree: Path) -> None:
    before = {path.name: path.read_bytes() for path in tree.glob("*.py")}
    found = fates(
        tree,
        mutant("x + x", "x * 3", name="caught"),
        mutant("x + x", "x * x", name="only by the other"),
        mutant("x + x", "x * x", "test_it.py::test_double", name="missed"),
        mutant("def double", "def treble", name="no import"),
        mutant("'two'", "'three'", name="nobody reads it"),
        mutant("x - x", "x", name="outdated"),
        mutant("x", "y", name="found twice"),
    )
    assert found == [
        ("caught", Fate.KILLED),
        ("only by the other", Fate.KILLED),
        ("missed", Fate.SURVIVED),
        ("no import", Fate.KILLED),
        ("nobody reads it", Fate.SURVIVED),
        ("outdated", Fate.INAPPLICABLE),
        ("found twice", Fate.INAPPLICABLE),
    ]
    assert {path.name: path.read_bytes() for path in tree.glob("*.py")} == before


@pytest.mark.long
def test_a_mutant_that_never_ends_is_killed(tree: Path) -> None:
    endless = mutant("    return x + x", "    while True: pass")
    outcome = Copy(tree).attempt(endless, limit=3)
    assert (outcome.fate, outcome.why) == (Fate.KILLED, "time limit")


def test_tests_that_fail_without_a_break_prove_nothing(tree: Path) -> None:
    (tree / "my_code.py").write_text("def double(x):\n    return x + x + 1\n")
    with pytest.raises(RuntimeError, match="these tests fail without any break"):
        fates(tree, mutant("x + x", "x * 3"))


@pytest.mark.long
def test_long_tests_are_run(tree: Path) -> None:
    (tree / "test_it.py").write_text(
        "import my_code\n\n\ndef test_double(request):\n"
        "    assert not request.config.getoption('--long') or my_code.double(2) == 4\n"
    )
    assert fates(tree, mutant("x + x", "x * 3")) == [("m", Fate.KILLED)]


def test_the_summary_names_those_that_were_not_killed() -> None:
    survivor = Outcome(mutant("a", "b", name="alive"), Fate.SURVIVED, 1.5, "1 passed")
    dead = Outcome(mutant("a", "b", name="dead"), Fate.KILLED, 2.0, "FAILED test_it.py")
    text = summary([dead, survivor])
    assert text.splitlines()[0] == "2 mutants: 1 killed, 1 survived, 0 inapplicable"
    assert text.splitlines()[1:] == [line(survivor)]
    assert line(survivor) == "survived        1.5 s  my_code.py: alive  [1 passed]"


def test_breaks_of_kernels_are_not_tried_with_kernels_of_before() -> None:
    """Numba recognises a kernel by its own file, whatever modules it takes constants from."""
    native = re.compile(r"@(kernels\.)?(jit|inline|c_function|native)\b")
    kernels = [m for m in MUTANTS if native.search((ROOT / m.file).read_text())]
    assert kernels and all(m.kernels is not Kernels.CACHED for m in kernels)


def test_a_pattern_of_no_mutant_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Others beside it match: a misspelt one would have gone unnoticed."""
    with pytest.raises(SystemExit):
        main(["--list", "plan_kernel", "nothing like it"])
    assert "no mutant has 'nothing like it'" in capsys.readouterr().err


def test_a_copy_of_the_tree_imports_its_own_code() -> None:
    with copied(ROOT, tree_files(ROOT)) as copy:
        for link in ("profiler", "simulator"):
            place = copy.root / "simprof" / link
            assert place.is_symlink() and place.resolve() == (copy.root / link).resolve()
