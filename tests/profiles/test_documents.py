"""JSON documents follow the schemas that are shipped, which say what the code says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from simprof.profiler import cli
from simprof.profiler.profiles.documents import OWN_VERSION, VERSIONS
from simprof.profiler.schemes.cost_model import own_cost_version
from tests.conftest import FIXTURES, ROOT
from tools.json_schemas import schema

Find = Callable[..., Path]
GRAPH = {
    "name": "loop", "entry": "A", "exit": "C", "blocks": {"A": 3, "B": 2},
    "edges": [["A", "B"], ["B", "A"], ["B", "C"]], "runs": [["A B A B C", 10]],
}  # fmt: skip


def shipped(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("simprof") / "schemas" / f"{name}.json").read_text())
    return found


def check(name: str, text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(shipped(name)).validate(document)
    return document


@pytest.mark.parametrize("name", VERSIONS)
def test_schemas_are_those_of_the_code(name: str) -> None:
    assert shipped(name) == schema(name), "run tools/json_schemas.py"
    jsonschema.Draft202012Validator.check_schema(shipped(name))


def test_no_other_schema_is_shipped() -> None:
    assert {each.name for each in (files("simprof") / "schemas").iterdir()} == {
        f"{name}.json" for name in VERSIONS
    }


def test_version_is_that_of_the_distribution() -> None:
    assert metadata.version("simprof") == OWN_VERSION
    assert f"version: {OWN_VERSION}\n" in (ROOT / "CITATION.cff").read_text()


def answered(directory: Path, *words: str | Path) -> str:
    target = directory / "answer.json"
    assert cli.run([*map(str, words), "--json", str(target)]) == 0
    return target.read_text()


def test_options_are_those_of_the_mode_as_it_spells_them(
    fixture_elf: Find, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, saved = fixture_elf("loops"), tmp_path / "saved"
    words = ("--mode", "kiter:k=3", "--report", tmp_path / "report", "-o", saved)
    answer = check("run", answered(tmp_path, "run", *words, program))
    assert answer["options"]["k"] == 3
    foreign = {"iterations", "cold", "loop", "cold_always", "placement", "blocks"}
    assert not foreign & answer["options"].keys()
    capsys.readouterr()
    assert cli.run(["show", str(saved), "edges", "--json"]) == 0
    rows = check("edges", capsys.readouterr().out)
    for key in ("measured_by", "program", "input_sha256", "mode", "options", "edge_profile_sha256"):
        assert rows[key] == answer[key]


@pytest.mark.parametrize("mode", ["pp", "kiter", "qpt:placement=redundant"])
def test_runs(fixture_elf: Find, tmp_path: Path, mode: str) -> None:
    report = ("--report", tmp_path / "report")
    text = answered(tmp_path, "run", "--mode", mode, "--call-tree", *report, fixture_elf("loops"))
    document = check("run", text)
    assert document["measured_by"]["cost_model"] == own_cost_version()
    if mode == "kiter":
        assert {routine["iterations"] for routine in document["routines"]} == {1, 2}


def test_inputs_and_edge_profiles_have_digests(fixture_elf: Find, tmp_path: Path) -> None:
    given, edges = tmp_path / "given", tmp_path / "edges"
    given.write_text("a line\n")
    program, report = fixture_elf("loops"), ("--report", str(tmp_path / "report"))
    assert cli.run(["run", "--mode", "edges", "-o", str(edges), *report, str(program)]) == 0
    words = ("--mode", "tpp", "--edge-profile", edges, "--stdin", given, *report)
    document = check("run", answered(tmp_path, "run", *words, program))
    assert len(document["guide"]["sha256"]) == len(document["input_sha256"]) == 64
    assert document["edge_profile_sha256"] == document["guide"]["sha256"]


def test_comparisons(fixture_elf: Find, tmp_path: Path) -> None:
    report = ("--report", tmp_path / "report")
    words = ("--mode", "pp,tpp,witness,edges", *report, fixture_elf("loops"))
    check("compare", answered(tmp_path, "compare", *words))


def test_a_run_that_faults(fixture_elf: Find, tmp_path: Path) -> None:
    target = tmp_path / "answer.json"
    words = ["run", "--report", str(tmp_path / "r"), "--json", str(target)]
    assert cli.run([*words, str(fixture_elf("faults")), "--", "unaligned"]) != 0
    check("run", target.read_text())


@pytest.mark.parametrize("mode", ["pp", "qpt:placement=redundant", "tpp"])
def test_graph_files(tmp_path: Path, mode: str) -> None:
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    check("run", answered(tmp_path, "explain", "--mode", mode, tmp_path / "g.json"))


@pytest.mark.long
def test_views_of_profiles(
    fixture_elf: Find, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profiles = [tmp_path / name for name in ("pp", "edges")]
    for profile in profiles:
        words = ["--mode", profile.name, "--report", str(tmp_path / "report"), "-o", str(profile)]
        assert cli.run(["run", *words, str(fixture_elf("signals"))]) == 0
    capsys.readouterr()
    for words in (
        ["routines"], ["edges"], ["paths"], ["source"], ["source", "busy", "--code"],
    ):  # fmt: skip
        assert cli.run(["show", str(profiles[0]), *words, "--json"]) == 0
        check(words[0], capsys.readouterr().out)
    assert cli.run(["diff", *map(str, profiles), "--json"]) == 0
    difference = check("diff", capsys.readouterr().out)
    assert difference["same_program"] and difference["after"]["options"]["table"] == "auto"
    assert cli.run(["doctor", "--json", "-"]) in (0, 1)
    check("doctor", capsys.readouterr().out)


def test_recovered_and_instrumented_programs(
    fixture_elf: Find, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, made = str(fixture_elf("switches")), str(tmp_path / "made")
    assert cli.run(["cfg", program, "--format", "json"]) == 0
    check("cfg", capsys.readouterr().out)
    check("instrument", answered(tmp_path, "instrument", program, "--mode", "pp", "-o", made))


@pytest.mark.long
def test_regenerated_traces(fixture_elf: Find, tmp_path: Path) -> None:
    trace, report = tmp_path / "trace", str(tmp_path / "report")
    words = ["--mode", "bits", "--trace", str(trace), "--report", report]
    assert cli.run(["run", *words, str(fixture_elf("pointers"))]) == 0
    check("read", answered(tmp_path, "read", trace, "--call-paths", "2"))


@pytest.mark.long
def test_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(FIXTURES / "bin" / "v9" / "loops.elf", tmp_path / "a.elf")
    baseline = str(tmp_path / "a.baseline")
    words = [str(tmp_path / "a.elf"), "--mode", "pp", "-o", baseline]
    assert cli.run(["regress", "record", *words]) == 0
    capsys.readouterr()
    check("regress", answered(tmp_path, "regress", "check", baseline))


@pytest.mark.long
def test_verified_programs(fixture_elf: Find, tmp_path: Path) -> None:
    check("verify", answered(tmp_path, "verify", fixture_elf("loops"), "--mode", "pp"))


@pytest.mark.long
def test_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = ["--results", str(tmp_path / "cells"), "--json"]
    assert cli.run(["table", "epp1", "--suite", "micro", "--benchmark", "sieve", *kept]) in (0, 1)
    check("tables", capsys.readouterr().out)
