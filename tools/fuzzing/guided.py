"""The same targets under atheris: it follows which code an input reaches, and keeps what is new.

Slower for each input, and better where a way in needs several steps. Our mutators are used half the
time, libFuzzer's otherwise. Needs `simprof[fuzz]`.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Hashable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from simprof.simulator.errors import UsageError
from tools.fuzzing.campaign import Campaign, Job, Tell, note, watch
from tools.fuzzing.mutation import LARGEST
from tools.fuzzing.trial import Fate, Limits, judge
from tools.fuzzing.worker import Find, Notes, Target, start

_INSTRUMENTED = ["simprof", "elftools", "networkx"]


def run(jobs: Sequence[Job], seed: int, seconds: float, tell: Tell) -> list[Campaign]:
    """Do as `campaign.run` does, one target after the other, guided by coverage.

    Raises
    ------
    UsageError
        If atheris is not installed.
    """
    if importlib.util.find_spec("atheris") is None:
        raise UsageError("atheris is not installed: pip install 'simprof[fuzz]'")
    return [_guided(*job, seed, seconds / len(jobs), tell) for job in jobs]


def _guided(
    target: Target, inputs: Sequence[bytes], seed: int, seconds: float, tell: Tell
) -> Campaign:
    campaign, notes, began = Campaign(target.name, seed), Notes(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        where = Path(directory)
        for number, data in enumerate(inputs):
            (where / "corpus").mkdir(exist_ok=True)
            (where / "corpus" / str(number)).write_bytes(data)
        (where / "files").mkdir()
        process = start(lambda pipe: _follow(target, inputs, seed, seconds, notes, pipe, where))
        watch(process, notes, lambda found: note(campaign, found, lambda new: tell(target, new)))
    campaign.inputs, campaign.refused = notes.count, notes.refused
    campaign.seconds = time.monotonic() - began
    return campaign


def _follow(
    target: Target,
    inputs: Sequence[bytes],
    seed: int,
    seconds: float,
    notes: Notes,
    finds: int,
    where: Path,
) -> int:
    """Fuzz in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=_INSTRUMENTED):
        target.prepare()
        judge(target.read, inputs[0], where / "files", Limits())  # imports what it needs
    limits, known = Limits(), set[Hashable]()
    counts = {"inputs": 0, "refused": 0}

    def test(data: bytes) -> None:
        counts["inputs"] += 1
        notes.begin(counts["inputs"], counts["refused"], data)
        verdict = judge(target.read, data, where / "files", limits)
        counts["refused"] += verdict.fate is Fate.REFUSED
        if verdict.fate is Fate.FIND and verdict.kind not in known:
            known.add(verdict.kind)
            os.write(finds, pickle.dumps(Find(data, verdict.kind, verdict.story)))

    def mutate(data: bytes, most: int, number: int) -> bytes:
        rng = Random(number)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        return target.mutate(rng, data, rng.choice(inputs))[:most]

    options = {
        "max_total_time": max(int(seconds), 1),
        "max_len": min(LARGEST, 1 << 16),
        "seed": seed % (1 << 31) or 1,
        "timeout": 100,
        "rss_limit_mb": 0,
        "verbosity": 0,
    }
    words = [sys.argv[0], *(f"-{name}={value}" for name, value in options.items())]
    run_atheris: Any = atheris
    with limits:
        run_atheris.Setup([*words, str(where / "corpus")], test, custom_mutator=mutate)
        run_atheris.Fuzz()
    return 0
