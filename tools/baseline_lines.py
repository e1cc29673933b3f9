"""The lines of the baselines: what simprof answers about a program or graph under a setting.

Base and added instructions are in clear, everything else is digested: a line is enough to see
that something changed, and where.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simprof.profiler import cli
from simprof.profiler.experiments.cells.settings import CellSetting, parse
from simprof.profiler.experiments.regress.file import Baseline, SettingResult
from simprof.profiler.experiments.regress.measure import Target
from simprof.profiler.experiments.regress.regress import record
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.mode_options import BEFORE_OPTION, own_options
from tools.baseline_fields import (
    DIGITS,
    METRICS,
    PROFILE_SETTINGS,
    PROGRAM_SETTINGS,
    RECORDED,
    ROUTINE,
    ROUTINE_NUMBERS,
    STATIC,
    TOTALS,
    as_recorded,
    chosen,
    digest,
)
from tools.baseline_graphs import COUNT, graph_file


class BaselineError(Exception):
    """Something cannot be recorded; the message says what."""


def settings(names: Sequence[str]) -> tuple[CellSetting, ...]:
    """Return settings by their canonical names.

    Raises
    ------
    BaselineError
        If a name is not canonical.
    """
    made = tuple(map(parse, names))
    for name, setting in zip(names, made, strict=True):
        if setting.name != name:
            raise BaselineError(f"setting {name} is called {setting.name}")
    return made


def recorded(
    targets: Sequence[Target], directory: Path, names: Sequence[str] = PROGRAM_SETTINGS
) -> Baseline:
    """Record programs under all settings, or those named, as `simprof regress record` does.

    Raises
    ------
    BaselineError
        If one cannot be recorded.
    """
    schemes = [setting.scheme() for setting in settings(names)]
    found = record(targets, schemes, directory)
    for name, reason in found.failures.items():
        raise BaselineError(f"{name}: {reason}")
    return found.baseline


def program_lines(
    key: str, target: Target, directory: Path, names: Sequence[str] = PROGRAM_SETTINGS
) -> Iterator[str]:
    """Yield how a program ends, and what it counts under each setting.

    Raises
    ------
    BaselineError
        If it cannot be recorded.
    """
    run = recorded([target], directory, names).runs[target.name]
    base = run.results["edges"].metrics["base"]
    ending = f"{run.ending['reason']} {run.ending['status']} {str(run.ending['output'])[:DIGITS]}"
    yield f"{key} ends {base} {ending}"
    for name, result in run.results.items():
        if result.metrics["base"] != base:
            raise BaselineError(f"{target.name}: base is another one under {name}")
        yield f"{key} {name} {result.metrics['added']} {_counts(result)} {_profile(result)}"


def _counts(result: SettingResult) -> str:
    routines = [
        [each.address, each.name, each.table, chosen(each.numbers, ROUTINE_NUMBERS)]
        for each in result.routines
    ]
    return digest([chosen(result.metrics, METRICS), routines])


def _profile(result: SettingResult) -> str:
    return digest([[each.address, each.graph, each.profile] for each in result.routines])


def profile_lines(key: str, target: Target) -> Iterator[str]:
    """Yield the digest of all that `simprof run --json` lists of a program, by setting.

    Raises
    ------
    BaselineError
        If it cannot be run.
    """
    stdin = os.devnull if target.given.stdin is None else str(target.given.stdin)
    given = ["--argv0", target.options.argv0, "--stdin", stdin]
    with tempfile.TemporaryDirectory(prefix="simprof-baselines-") as empty:
        given += ["--root", empty, str(target.program), "--", *target.given.arguments]
        for setting in settings(PROFILE_SETTINGS):
            (answer,) = _answers("run", setting, given)
            yield f"{key} {setting.name} {digest(_listed(answer))}"


def graph_lines(name: str) -> Iterator[str]:
    """Yield what `simprof explain --json` says of each graph under a setting.

    Raises
    ------
    BaselineError
        If there is none.
    """
    (setting,) = settings([name])
    with tempfile.TemporaryDirectory(prefix="simprof-baselines-") as scratch:
        files = [Path(scratch) / f"{number:03}.json" for number in range(COUNT)]
        for number, path in enumerate(files):
            path.write_text(json.dumps(graph_file(number)))
        answers = _answers("explain", setting, list(map(str, files)))
    for number, answer in enumerate(answers):
        totals = [chosen(answer.get(title, {}), names) for title, names in TOTALS.items()]
        counts = digest([_listed(answer, "block_counts"), totals])
        routines = [as_recorded(routine, ROUTINE) for routine in answer["routines"]]
        plan = digest([routines, chosen(answer["static"], STATIC)])
        cost = answer["instructions"]
        yield f"{name} {number:03} {cost['base']} {cost['added']} {counts} {plan}"


def graph_file_lines(key: str) -> Iterator[str]:
    """Yield the digest of each graph file: what the generator makes must not change."""
    for number in range(COUNT):
        yield f"{key} {number:03} {digest(graph_file(number))}"


def _listed(answer: Mapping[str, Any], blocks: str = "blocks") -> dict[str, list[str]]:
    """Return the lists of edges, paths and blocks in an answer, sorted.

    `blocks`: what the list of blocks was called when digests began.
    """
    return {
        blocks if title == "blocks" else title: sorted(
            digest(as_recorded(entry, names)) for entry in answer[title]
        )
        for title, names in RECORDED.items()
        if title in answer
    }


def _answers(command: str, setting: CellSetting, rest: Sequence[str]) -> list[dict[str, Any]]:
    """Return what a command of simprof writes with `--json`, within this process."""
    with tempfile.TemporaryDirectory(prefix="simprof-baselines-") as directory:
        scratch = Path(directory)
        line = [command, *_mode(setting)]
        files = ["--json", str(scratch / "answer")]
        if command == "run":  # a report takes time, and need not be made of graphs
            files += ["--report", os.devnull]
        with _written_to(Path(os.devnull), scratch / "stderr"):
            status = cli.run([*line, *files, *rest])
        if not (scratch / "answer").exists():
            said = (scratch / "stderr").read_text(errors="replace")
            raise BaselineError(f"simprof {' '.join(line)}: status {status}: {said}")
        return [json.loads(text) for text in (scratch / "answer").read_text().splitlines()]


def _mode(setting: CellSetting) -> list[str]:
    """Return a setting as words of a command: the mode with its options, and those of all modes."""
    own = {option.spelling for option in own_options(registry.definition(setting.mode))}
    mode, *words = setting.name.split(BEFORE_OPTION)
    kept = [word for word in words if word.partition("=")[0] in own]
    shared = [f"--{word}" for word in words if word not in kept]
    return ["--mode", BEFORE_OPTION.join((mode, *kept)), *shared]


@contextlib.contextmanager
def _written_to(*files: Path) -> Iterator[None]:
    """Send stdout and stderr to files: a program that is run has both."""
    kept = {}
    try:
        for descriptor, path in zip((1, 2), files, strict=True):
            kept[descriptor] = os.dup(descriptor)
            opened = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)
        yield
    finally:
        for descriptor, copy in kept.items():
            os.dup2(copy, descriptor)
            os.close(copy)
