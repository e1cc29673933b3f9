"""`tools/fuzz.py`: what it calls a find, what its corpora hold, and a fresh minute of it."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import os
import random
import re
import signal
import subprocess
import time
import zlib
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from elftools.elf.elffile import ELFFile

from simprof.profiler.request.errors import CountError
from simprof.simulator.errors import UsageError
from tests.conftest import ROOT
from tools import fuzz
from tools.fuzzing import campaign, corpus, emulated, trial
from tools.fuzzing.elf_mutation import crowd, layout, mutate_fields
from tools.fuzzing.framed import mutate_frames, mutate_profile
from tools.fuzzing.mutation import json_text, mutate_bytes, mutate_words
from tools.fuzzing.targets import TARGETS
from tools.fuzzing.worker import Find, Target

# What is a find


def misbehave(data: bytes, where: Path) -> Hashable:
    """Do what the input says."""
    match data:
        case b"read":
            return len(data)
        case b"refuse":
            raise UsageError("file 7 is damaged: record it again")
        case b"defect":
            raise CountError("edges are wrong: this is a defect of simprof, please report it")
        case b"raise":
            raise IndexError("nobody caught this")
        case b"exit":
            raise SystemExit(0)
        case b"hang":
            while True:
                with suppress(Exception):
                    sum(range(1000))
        case b"die":
            faulthandler.disable()  # which pytest has switched on
            ctypes.string_at(0)
        case b"memory":
            return len(bytearray(b"x") * (3 << 29))
    raise AssertionError(data)


TOY = Target("toy", "does what its input says", misbehave, lambda rng, data, other: data)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hangs show after a second."""
    monkeypatch.setattr(trial, "TIME_LIMIT", 0.5)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"defect", "CountError at ?"),
        (b"raise", "IndexError at ?"),
        (b"exit", "SystemExit at ?"),
        (b"hang", "HangError at ?"),
        (b"die", "the process ended by SIGSEGV"),
        pytest.param(b"memory", "memory", marks=pytest.mark.long),
    ],
)
def test_what_is_neither_read_nor_refused_is_a_find(data: bytes, kind: str) -> None:
    (find,) = campaign.read_again(TOY, [b"read", b"refuse", data])
    assert (find.data, find.kind) == (data, kind)


def test_what_is_read_or_refused_is_none() -> None:
    assert campaign.read_again(TOY, [b"read", b"refuse"]) == []
    (find,) = campaign.read_again(TOY, [b"read", b"refuse"], good=True)
    assert find.data == b"refuse"


@pytest.mark.long
def test_workers_that_die_are_replaced_and_their_inputs_found() -> None:
    told: list[Find] = []
    inputs = [b"die", b"raise", *[b"read", b"refuse"] * 5]
    (done,) = campaign.run([(TOY, inputs)], 3, 2.0, lambda target, find: told.append(find))
    assert (
        {find.data for find in told}
        == {b"die", b"raise"}
        == {find.data for find in done.finds.values()}
    )
    assert done.inputs > 10
    assert 0 < done.refused < done.inputs
    assert done.unconfirmed == 0


@pytest.mark.long
def test_each_target_has_a_turn_in_every_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long one takes to start, and however many inputs another one reads meanwhile."""
    monkeypatch.setattr(campaign, "ROUND", 0.2)
    log = tmp_path / "log"

    def read(name: str) -> trial.Reader:
        def note(data: bytes, where: Path) -> Hashable:
            with log.open("a") as file:
                file.write(name)
            return 0

        return note

    jobs = [
        (Target(name, "", read(name), lambda rng, data, other: data, prepare), [b""])
        for name, prepare in (("a", lambda: None), ("b", lambda: time.sleep(0.4)))
    ]
    done = campaign.run(jobs, 1, 1.2, lambda target, find: None)
    turns = re.sub(r"(.)\1+", r"\1", log.read_text())
    assert turns.startswith("abab")  # six turns each, fewer on a busy machine
    assert [each.inputs for each in done] == [log.read_text().count(name) for name in "ab"]
    assert all(each.seconds >= 0.3 for each in done)


def test_a_target_that_reads_nothing_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = replace(TARGETS["decoder"], prepare=lambda: os.kill(os.getpid(), signal.SIGKILL))
    monkeypatch.setattr(fuzz, "TARGETS", {"decoder": dead, "elf": TARGETS["elf"]})
    assert fuzz.main(["--seconds", "0.2", "--finds", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "fuzz: nothing was read by decoder\n" in told.err
    assert re.search(r"decoder +0 inputs", told.out)


def test_the_same_seed_makes_the_same_inputs() -> None:
    target, inputs = TARGETS["elf"], corpus.inputs("elf")
    made = [
        [target.mutate(rng, rng.choice(inputs), rng.choice(inputs)) for _ in range(50)]
        for rng in (Random(5), Random(5))
    ]
    assert made[0] == made[1]
    assert len(set(made[0])) > 40


# How inputs are made


def test_the_fields_of_a_program_are_found() -> None:
    data = (corpus.CORPORA / "elf" / "v9.elf").read_bytes()
    found = layout(data)
    values = {int.from_bytes(data[f.at : f.at + f.size], "big") for f in found.fields}
    assert {43, 64, 56, len(data)} <= {*values, *found.values}
    changed = mutate_fields(Random(1), data, data)
    assert changed != data
    assert crowd(Random(2)).startswith(b"\x7fELF")


@pytest.mark.parametrize("mutate", [mutate_bytes, mutate_words, json_text, mutate_profile])
@pytest.mark.parametrize("data", [b"", b"\0", b"{}", b'{"a": [1, {"b": null}]}', b"a b\nc"])
def test_anything_can_be_changed(mutate: trial.Reader, data: bytes) -> None:
    rng = Random(7)
    assert any(mutate(rng, data, data) != data for _ in range(50))  # type: ignore[call-arg, arg-type]


def test_checksums_are_made_right_again() -> None:
    from simprof.profiler.trace.format import parse
    from tools.fuzzing.framed import _frames

    data = (corpus.CORPORA / "trace" / "seed-bits").read_bytes()
    mutate, rng, whole = mutate_frames(False), Random(4), 0
    for _ in range(200):
        changed = mutate(rng, data, data)
        try:
            trace = parse(changed, "trace")
        except UsageError:
            continue
        whole += changed != data and trace.cut is None
    assert whole > 20
    frame = _frames(data.split(b"\n", 2)[2], False)[0]
    assert zlib.crc32(frame[0] + frame[1]).to_bytes(4, "big") in data


# What was found, and the corpora


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in ("emulator", "trace") else ())
        for name in TARGETS
    ],
)
def test_every_file_of_the_corpora_is_read_or_refused(name: str) -> None:
    """Files that finds have left are refused or read; all others are good, and read."""
    files = corpus.files(name)
    for good in (False, True):
        data = [path.read_bytes() for path in files if good != corpus.is_find(path)]
        finds = campaign.read_again(TARGETS[name], data, good)
        hint = "\nif a format has changed: tools/fuzz.py --seeds" if good else ""
        assert not finds, f"{finds[0].kind}\n{finds[0].story}{hint}"
    assert not all(map(corpus.is_find, files))


def test_the_corpora_are_of_targets_and_small() -> None:
    files = [path for path in corpus.CORPORA.rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} == set(TARGETS)
    assert sum(path.stat().st_size for path in files) < 1 << 20


# The tool


@pytest.mark.long
def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(TARGETS)
    assert fuzz.main(["nonsense"]) == 2
    words = ["decoder", "--seconds", "0.2", "--seed", "1", "--finds", str(tmp_path)]
    assert fuzz.main(words) == 0
    shown = capsys.readouterr().out
    assert "seed 1;" in shown
    assert re.search(r"^decoder +[1-9][\d,]* inputs .* 0 finds$", shown, re.MULTILINE)


def test_a_find_is_kept_with_its_story(tmp_path: Path) -> None:
    kept = campaign.keep(Find(b"x", "kind", "story"), tmp_path / "finds")
    assert kept.read_bytes() == b"x"
    assert "story" in kept.with_suffix(".txt").read_text()


def seed_of_commit() -> int:
    """Return a seed that is another one for each commit: what fails can be repeated, and is new."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout[:8], 16) if done.returncode == 0 else random.getrandbits(32)


@pytest.mark.long
def test_a_quarter_of_a_minute_of_fresh_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = seed_of_commit()
    status = fuzz.main(["--seconds", "15", "--seed", str(seed), "--finds", str(tmp_path)])
    shown = capsys.readouterr().out
    assert status == 0, shown
    read = re.findall(r"^(\w+) +([\d,]+) inputs ", shown, re.MULTILINE)
    assert [name for name, _ in read] == list(TARGETS)
    assert "0" not in dict(read).values()


def test_make_fuzz_runs_the_tool() -> None:
    assert "tools/fuzz.py --seconds $(FUZZ_SECONDS)" in (ROOT / "Makefile").read_text()


# Programs that are executed


@pytest.mark.parametrize("name", ["v9.elf", "v8plus.elf"])
def test_words_of_code_alone_are_changed_in_programs_that_run(name: str) -> None:
    data = corpus.reader("emulator", name)()
    sections = {each.name: each for each in ELFFile(io.BytesIO(data)).iter_sections()}
    text = sections[".text"]
    changed = [emulated.mutate_words(Random(seed), data, b"") for seed in range(50)]
    places = {at for each in changed for at in range(len(data)) if each[at] != data[at]}
    assert text["sh_offset"] <= min(places)
    assert max(places) < text["sh_offset"] + text["sh_size"]
    assert len(places) > 50


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os; os.abort()", "signal 6"),
        ("raise ValueError('x')", "Traceback"),
        ("raise SystemExit(3)", "status 3, no answer"),
        ("raise SystemExit(125)", "status 125, no answer and no message"),
    ],
)
def test_a_command_that_ends_badly_is_a_find(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, says: str
) -> None:
    monkeypatch.setattr(emulated, "_START", code)
    with pytest.raises(RuntimeError, match=says):
        emulated.read_running(b"", tmp_path)


def test_a_message_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not an ELF file"):
        emulated.read_running(b"text", tmp_path)
