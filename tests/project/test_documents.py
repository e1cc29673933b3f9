"""The site builds without a warning, and documents show what their commands print."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from simprof.profiler.commands.group import simprof
from tests.conftest import ROOT
from tests.support.turns import first
from tools import command_pages, document_outputs
from tools.document_outputs import Shown, abridge, matches, parse

BY_HAND = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]


@pytest.mark.long
@pytest.mark.parametrize(
    "path", first(1, document_outputs.DOCUMENTS[::-1]), ids=lambda path: path.name
)
def test_documents_show_what_their_commands_print(path: Path) -> None:
    shown = document_outputs.blocks(path.read_text())
    assert shown
    for block, printed in zip(shown, document_outputs.outputs(shown), strict=True):
        for each, lines in zip(block, printed, strict=True):
            assert matches(each.lines, lines), (
                f"{path.name}: run tools/document_outputs.py --write: {each.command}"
            )


@pytest.mark.long
@pytest.mark.toolchain
def test_the_programs_of_the_tutorial_compile_as_written(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "tutorial.md").read_text().partition("## 2.")[0]
    commands = re.findall(r"^    (\S(?:.*\\\n)*.*)$", section, re.MULTILINE)
    assert len(commands) == 3
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    subprocess.run(["sh", "-ec", "\n".join(commands)], cwd=tmp_path, check=True)
    for program in ("program.elf", "bench.elf"):
        done = [sys.executable, "-m", "simprof", "run", "--mode", "edges", program]
        assert not subprocess.run(done, cwd=tmp_path, capture_output=True, check=False).returncode


@pytest.mark.long
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    home = (site / "index.html").read_text()
    assert (site / "tutorial" / "index.html").exists()
    assert "simprof regress check" in (site / "commands" / "index.html").read_text()
    assert "EPP table 3" in (site / "results" / "index.html").read_text()
    assert (site / "notebooks" / "profiles.ipynb").exists()
    assert 'href="notebooks/profiles.ipynb"' in home
    data = {path.name for path in site.rglob("*") if path.suffix in (".json", ".toml", ".dot")}
    graphs = {path.name for path in (ROOT / "docs" / "schemes").rglob("*.json")}
    # Graphs are linked; what pages are made of stays behind.
    assert data == {"search_index.json", *graphs}


def test_every_document_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text()
    missing = [path.name for path in (ROOT / "docs").glob("*.md") if path.name not in listed]
    assert missing == [], "name them in mkdocs.yml, nav"


def known_options() -> set[str]:
    """The options of all commands, and those of commands of commands."""
    return {
        name
        for context in command_pages.contexts(simprof)
        for option in context.command.get_params(context)
        for name in (*option.opts, *option.secondary_opts)
    } | {"--version", "--help", "--help-all"}


FOREIGN = frozenset(
    "--colour --mdoe --write --coverage --emit-relocs --gcov-keep --ignore-errors".split()
)
"""Options of compilers, of lcov, of tools, and examples of what is none."""


@pytest.mark.parametrize("path", BY_HAND, ids=lambda path: path.name)
def test_options_that_documents_name_exist(path: Path) -> None:
    """Long options after `simprof` and in code spans."""
    text = path.read_text()
    spans = re.findall(r"`((?:simprof [a-z]|--)[^`\n]*)`", text)
    spans += re.findall(r"^    (simprof [a-z].*)$", text, re.MULTILINE)
    named = {
        word.partition("=")[0]
        for span in spans
        for word in re.split(r" -- |\\?[|;<>#]", span)[0].replace("\\", " ").split()
        if re.match(r"--[a-z]", word)
    }
    assert named - known_options() - FOREIGN == set(), (
        f"{path.name} names options that no command has"
    )


def test_what_is_said_of_the_report_page_and_of_outputs_is_so() -> None:
    docs, html = ROOT / "docs", ROOT / "profiler" / "reports" / "html"
    (views,) = re.findall(r"const VIEWS = \[(.*?)\];", (html / "assets" / "main.js").read_text())
    keys = len(views.split(","))
    assert f"`1` to `{keys}` choose a part" in (docs / "REPORT-PAGE.md").read_text()
    assert f"<kbd>{keys}</kbd>" in (html / "templates" / "report.html").read_text()
    told, _, rest = (docs / "tutorial.md").read_text().partition("\nAbout half of the program's")
    overhead = re.findall(r"^overhead +([\d.]+) %$", told, re.MULTILINE)[-1]
    assert rest
    assert 45 <= float(overhead) <= 55


BLOCK = """$ one \\
    more
a
$ two
$ three
b

c
"""


def test_blocks_are_read() -> None:
    assert parse(BLOCK) == [
        Shown("one \\\n    more", ("a",)),
        Shown("two", ()),
        Shown("three", ("b", "", "c")),
    ]


def test_outputs_are_compared() -> None:
    assert matches(("a", "b"), ["a", "b"])
    assert not matches(("a", "b"), ["a", "c"])
    assert not matches(("a",), ["a", "b"])
    assert matches(("a", "..."), ["a", "b", "c"])
    assert matches(("a", "...", "d"), ["a", "b", "c", "d"])
    assert not matches(("a", "...", "d"), ["a", "b", "c"])
    assert not matches(("a", "...", "b"), ["a"])
    assert matches(("...",), ["a", "b"])


def test_as_much_is_left_out_as_before() -> None:
    assert abridge(("x", "...", "y"), ["a", "b", "c"]) == ["a", "...", "c"]
    assert abridge(("x",), ["a", "b"]) == ["a", "b"]
    assert abridge(("x", "..."), ["a"]) == ["a"]


QUERIED = """text

    simprof sweep a.elf \\
        -o other.db

    simprof sweep a.elf \\
        --mode pp -o sweep.db

```sql
SELECT mode, added FROM results ORDER BY mode;
```

```text
old|0
```
"""


def test_queries_are_answered_by_the_sweep_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []

    def run(command: str, directory: Path, variables: dict[str, str]) -> list[str]:
        commands.append(command)
        with closing(sqlite3.connect(directory / "sweep.db")) as connection:
            connection.execute("CREATE TABLE results (mode, added)")
            connection.execute("INSERT INTO results VALUES ('qpt2', 2), ('pp', 1)")
            connection.commit()
        return []

    monkeypatch.setattr(document_outputs, "run", run)
    wanted = QUERIED.replace("old|0", "pp|1\nqpt2|2")
    assert document_outputs.answered(QUERIED) == wanted
    assert commands == ["simprof sweep a.elf \\\n        --mode pp -o sweep.db"]
    monkeypatch.setattr(document_outputs, "run", lambda *_: ["no such file"])
    with pytest.raises(SystemExit, match="no such file"):
        document_outputs.answered(QUERIED)
    assert document_outputs.answered("no sweep") == "no sweep"


def test_the_page_of_sweeps_has_queries_that_are_answered() -> None:
    (page,) = document_outputs.QUERIED
    text = page.read_text()
    assert document_outputs.SWEEP.search(text)
    assert len(document_outputs.QUERY.findall(text)) == text.count("```sql") == 3
