"""What documents point to exists: relative links, paths in code spans, modules in tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from simprof.profiler.profiles.documents import VERSIONS
from tests.conftest import ROOT
from tools import results

DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "fixtures", "tests")
    for path in ((ROOT / folder).glob("*.md") if folder == "." else (ROOT / folder).rglob("*.md"))
)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)+/?")
FORMATS = {f"simprof/{name}" for name in VERSIONS}
IN_WHEELS = {"simprof/profiler/data/"}
RESULTS = {
    f"{path.stem}.md": ["", *(table.name for table in results.read(path.stem).report.tables)]
    for path in results.DATA.glob("*.json")
}
"""Pages that only the site has, with the tables on them."""
SOURCES = ("profiler", "simulator")
TOP = {path.name for path in ROOT.iterdir()} - {"build", "dist"}


def prose(document: str) -> str:
    """A document's text without its blocks of code and its generated part."""
    text = (ROOT / document).read_text()
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^    .*$", "", text, flags=re.MULTILINE)


def mentioned_paths(text: str) -> Iterator[str]:
    """Paths in code spans: below a directory of the repository, or to a Python file."""
    for span in CODE_SPAN.findall(text):
        is_path = PATH.fullmatch(span) and span not in FORMATS and span not in IN_WHEELS
        if is_path and (span.split("/")[0] in TOP or span.endswith(".py")):
            yield span


def exists(path: str, folder: Path) -> bool:
    """Whether something has this path, which may be a pattern, from a folder or from the root."""
    return any(next(start.glob(path.rstrip("/")), None) is not None for start in (folder, ROOT))


def test_documents_are_found() -> None:
    assert {"README.md", "docs/ARCHITECTURE.md", "fixtures/suites/README.md"} <= set(DOCUMENTS)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_relative_links_lead_somewhere(document: str) -> None:
    folder = (ROOT / document).parent
    for target in LINK.findall(prose(document)):
        if not re.match(r"[a-z]+:", target):
            name, _, anchor = target.partition("#")
            is_there = (folder / name).exists() or anchor in RESULTS.get(name, ())
            assert is_there, f"{document}: {target}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_mentioned_paths_exist(document: str) -> None:
    folder = (ROOT / document).parent
    missing = [path for path in mentioned_paths(prose(document)) if not exists(path, folder)]
    assert not missing, f"{document} names files that are not there: {missing}"


def glossary() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each entry: the anchor of its section, and its terms."""
    lines = (ROOT / "docs" / "GLOSSARY.md").read_text().splitlines()
    anchor = ""
    for line, below in pairwise(lines):
        if line.startswith("## "):
            anchor = line[3:].lower().replace(" ", "-")
        elif below.startswith(": "):
            yield anchor, tuple(line.split(", "))


def word(term: str) -> str:
    """A pattern for a term, one or several."""
    return rf"\b{re.escape(term)}(s|es)?\b"


def test_every_entry_of_the_glossary_is_linked_from_where_it_is_used() -> None:
    texts = [prose(name) for name in DOCUMENTS if not name.endswith("GLOSSARY.md")]
    linked = [
        link
        for text in texts
        for link in re.findall(r"\[([^]]+)\]\([\w/]*GLOSSARY\.md#(\S+)\)", text)
    ]
    entries = list(glossary())
    assert 30 < len(entries) <= 40
    for anchor, terms in entries:
        shown = [text for text, target in linked if target == anchor]
        # "poisons" is a link to "poisoning"
        stems = [re.sub("(ing|ion)$", "", term) for term in terms]
        assert any(re.search(rf"\b{stem}", text, re.I) for stem in stems for text in shown), (
            f"no document links {terms} to docs/GLOSSARY.md#{anchor} where it uses them"
        )


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if "tests/" not in name])
def test_sites_and_re_entry_points_have_one_name(document: str) -> None:
    """Keys of JSON and modules have others, in code spans; landing pads are the compiler's."""
    text = CODE_SPAN.sub("", prose(document))
    assert not re.findall(r"(?i)\bsnippets?\b|\blandings?\b(?! pad)", text)


def test_the_readme_links_the_terms_where_it_first_uses_them() -> None:
    text = re.sub(r"!\[[^]]*\]", "", prose("README.md").split("## Documents")[0])
    text = re.sub(CODE_SPAN, "", text)
    terms = [(anchor, term) for anchor, terms in glossary() for term in terms]
    linked = 0
    for anchor, term in terms:
        match = re.search(word(term), text, re.I)
        if match is None:
            continue
        link = re.match(rf"[^][]*\]\([\w/]*GLOSSARY\.md#{anchor}\)", text[match.end() :])
        assert link, f"README.md: link {term!r} to docs/GLOSSARY.md#{anchor}"
        linked += 1
    assert linked > 5


def test_the_table_of_the_architecture_names_packages_and_their_modules() -> None:
    """The first column names a package, the last one modules of it, or packages in it."""
    checked = 0
    for line in (ROOT / "docs" / "ARCHITECTURE.md").read_text().splitlines():
        package = re.match(r"\| `((?:profiler|simulator)/\w+|simprof)` \|", line)
        if package:
            folder = ROOT / package[1]
            for name in CODE_SPAN.findall(line.rstrip("| ").rpartition("|")[2]):
                found = [folder / name, folder / f"{name}.py"]
                assert any(each.exists() for each in found), f"docs/ARCHITECTURE.md: {line}"
                checked += 1
    packages = [each for each in ROOT.glob("*/*/__init__.py") if each.parts[-3] in SOURCES]
    named = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    for each in packages:
        name = f"`{each.parts[-3]}/{each.parts[-2]}`"
        assert name in named, f"docs/ARCHITECTURE.md has no row for {name}"
    assert checked > 40
