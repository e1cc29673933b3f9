"""Cells that the train input's edge profile guides (`tpp:guide=train`, TPP 3)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.cli import run
from simprof.profiler.experiments.cells.cells import (
    Cell,
    CellDocument,
    CellKind,
    Job,
    Keys,
    row_key,
)
from simprof.profiler.experiments.cells.recordings import run_digest
from simprof.profiler.experiments.cells.run import groups, run_group
from simprof.profiler.experiments.cells.settings import parse
from simprof.profiler.experiments.cells.sweep import suite_order
from simprof.profiler.experiments.cells.workers import pack, unpack
from simprof.profiler.experiments.suites.suite import Input, InputName
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import save
from simprof.profiler.request.request import (
    NO_SCHEME,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
)
from simprof.profiler.session.session import compare_program
from tests.conftest import FIXTURES

Find = Callable[..., Path]
TRAIN, REF = "a b\n", "one two  three\n\nfour 5 six-seven\n" * 40
# What shows a guide: cold edges are left out everywhere
TPP = "tpp:cold=20:cold-always"
GUIDED = f"{TPP}:guide=train"


@pytest.fixture
def words(fixture_elf: Find, tmp_path: Path) -> Callable[..., Job]:
    """Makes jobs of a program that counts words."""
    inputs = {}
    texts: dict[InputName, str] = {"train": TRAIN, "ref": REF}
    for name, text in texts.items():
        file = tmp_path / f"{name}.txt"
        file.write_text(text)
        inputs[name] = Input(name, stdin=file)

    def make(text: str, kind: CellKind = CellKind.RUN) -> Job:
        cell = Cell("words", parse(text), kind=kind)
        guide = inputs["train"] if "guide=train" in text else None
        return Job(cell, fixture_elf("words"), inputs["ref"], guide)

    return make


def only(*jobs: Job) -> tuple[CellDocument, ...]:
    """Run jobs that must be one group."""
    (group,) = groups(jobs)
    return run_group(group)


def by_file(job: Job, tmp_path: Path) -> RunMeasurement:
    """What `simprof run -o` with the train input, then `--edge-profile` with ref measure."""
    root, file = tmp_path / "root", tmp_path / "train.profile"
    root.mkdir()
    out = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root, stdin=tmp_path / "train.txt", argv0=b"words", stdout=out)
    request = RunRequest(job.program, guest)
    save(compare_program(request, (NO_SCHEME,)).measurements[0], file)
    request = replace(request, guest=replace(guest, stdin=tmp_path / "ref.txt"))
    options = SchemeOptions(edge_profile=file).having(cold=20.0, cold_always=True)
    (measured,) = compare_program(request, (Setting("tpp", "tpp", options),)).measurements
    os.close(out)
    return measured


@pytest.mark.long
def test_the_train_input_guides_as_its_saved_profile_does(
    words: Callable[..., Job], tmp_path: Path
) -> None:
    own, guided = only(words(TPP), words(GUIDED))
    expected = by_file(words(GUIDED), tmp_path)
    assert (guided.error, guided.base, guided.added) == (None, expected.base, expected.added)
    # a result names what it did not lose, too: as 0; its document has a size more, in instructions
    assert guided.sizes == {
        **expected.sizes,
        "snippet_instructions": expected.sizes["code_bytes"] // 4,
    }
    assert Counter(guided.part("lost")) == Counter(expected.lost)
    assert [row.added for row in guided.routines] == [each.added for each in expected.routines]
    assert own.base == guided.base
    assert own.part("lost")["cold_paths"] != guided.part("lost")["cold_paths"], (
        "train is not like ref"
    )
    assert own.attributed is not None
    assert guided.attributed is not None
    assert own.attributed > guided.attributed


@pytest.mark.long
def test_it_does_not_depend_on_what_runs_with_it(words: Callable[..., Job]) -> None:
    names = (GUIDED, TPP, f"{GUIDED}:weights=exact", "tpp:first=500", "tpp:first=500:weights=exact")
    together = only(*map(words, names))
    assert [result.error for result in together] == [None] * len(names)
    assert [only(words(name))[0] for name in names] == list(together)


@pytest.mark.long
def test_programs_are_instrumented_as_predicted(words: Callable[..., Job]) -> None:
    kinds = (CellKind.RUN, CellKind.EXECUTE, CellKind.ANALYSE)
    for name in (TPP, GUIDED):
        predicted, executed, analysed = (only(words(name, kind))[0] for kind in kinds)
        assert (executed.error, executed.document["differences"]) == (None, [])
        assert executed.added == predicted.added
        assert analysed.sizes["code_bytes"] == predicted.sizes["code_bytes"]
    assert {f.numbered_paths for f in analysed.routines} == {
        f.numbered_paths for f in predicted.routines
    }


def test_a_training_run_that_fails_is_told(words: Callable[..., Job]) -> None:
    job = words(GUIDED)
    assert job.guide is not None
    bad = replace(job, guide=replace(job.guide, status=3))
    own, guided = only(words(TPP), bad)
    assert own.error is None
    assert guided.error == (
        "the run that guides tpp failed: words (v9-O2, train input) ended with status 0, not 3"
    )


def test_keys_hold_the_input_that_guides(words: Callable[..., Job], tmp_path: Path) -> None:
    own, guided = words(TPP), words(GUIDED)
    before = Keys().key(guided)
    assert Keys().key(own).guide == ""
    assert run_digest(Keys().key(own)) == run_digest(before), "it is the same run"
    (tmp_path / "train.txt").write_text("another\n")
    after = Keys().key(guided)
    assert before.guide != after.guide
    assert row_key(guided, before) != row_key(guided, after)
    assert run_digest(before) == run_digest(after)


@pytest.mark.long
def test_a_recording_stands_for_the_run_that_is_guided(
    words: Callable[..., Job], tmp_path: Path
) -> None:
    job = words(GUIDED)
    exe, stdin = f"/{job.cell.benchmark}", str(job.given.stdin)
    given, path = ["--exe", exe, "--stdin", stdin], tmp_path / "run"
    assert run(["record", str(job.program), *given, "-o", str(path)]) == 0
    assert only(replace(job, replay=path)) == only(job)


def test_clusters_get_both_inputs(words: Callable[..., Job], tmp_path: Path) -> None:
    jobs = (words(TPP), words(GUIDED))
    parcel = pack(jobs)
    there = tmp_path / "there"
    there.mkdir()
    own, guided = unpack(parcel, there)
    assert (own.guide, own.given) == (None, guided.given)
    assert guided.guide is not None
    for given, text in ((guided.guide, TRAIN), (guided.given, REF)):
        assert given.stdin is not None
        assert given.stdin.is_relative_to(there)
        assert given.stdin.read_text() == text


def test_suites_know_their_input() -> None:
    suite = load_suite("micro")
    cells = [Cell("manypaths", parse(text)) for text in ("tpp", "tpp:guide=train")]
    own, guided = suite_order(suite, cells).jobs
    assert own.guide is None
    assert guided.guide == suite.benchmark("manypaths").inputs["train"]
    assert guided.given == own.given != guided.guide


def test_programs_of_no_suite_have_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = str(FIXTURES / "bin" / "v9" / "control.elf")
    words = ["sweep", program, "--mode", "tpp", "--settings", "guide=train"]
    assert run([*words, "-o", str(tmp_path / "s.db")]) == 125
    assert capfd.readouterr().err == (
        "simprof: control is in no suite, so it has no input train to guide tpp: "
        "sweep a suite, or leave out the option guide\n"
    )
