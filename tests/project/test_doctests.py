"""The examples of the public API and of docs/API.md run, and give what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.conftest import ROOT

MODULES = sorted(
    f"simprof.{path.stem}" if path.stem != "__init__" else "simprof"
    for path in (ROOT / "simprof").glob("*.py")
    if path.stem != "__main__"  # importing it is running simprof
)


@pytest.mark.long
@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted or name == "simprof._arguments"


@pytest.mark.long
@pytest.mark.parametrize("document", ["docs/API.md", "README.md"])
def test_documents(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = doctest.testfile(str(ROOT / document), module_relative=False)
    assert result.attempted and not result.failed
