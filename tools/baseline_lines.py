"""The lines of the baselines: what simprof answers about a program or graph under a setting.

Base and added instructions are in clear, everything else is digested: a line is enough to see
that something changed, and where. Digests are over chosen fields, so that a new field of an answer
changes none of them, and over floats of nine digits, so that the order in which weights are added
up changes none either.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simprof.profiler import cli
from simprof.profiler.experiments.cells.settings import CellSetting, parse
from simprof.profiler.experiments.regress.file import SettingResult
from simprof.profiler.experiments.regress.measure import Target
from simprof.profiler.experiments.regress.regress import record
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.mode_options import BEFORE_OPTION, own_options

DIGITS = 12
GRAPHS = Path(__file__).resolve().parent.parent / "fixtures" / "baselines" / "graphs.jsonl"

# -- settings --------------------------------------------------------------------------------------

MODES = (
    "pp qpt2 qpt witness bits wpp pap bittrace tpp ppp pref kiter kblpp naive calls calls-optimal "
    "bytes block-trace fifo sampled pep"
).split()
VARIANTS = (
    "pp:table=hash pp:weights=uniform pp:path-limit=20 qpt2:weights=uniform "
    "qpt:placement=vertex-optimal qpt:placement=edge-heuristic qpt:placement=edge "
    "qpt:placement=mixed qpt:blocks=merged qpt2:registers=scavenged:blocks=merged "
    "qpt:registers=stolen qpt2:registers=stolen bittrace:table=hash tpp:cold=0.1:loop=0.5 "
    "tpp:cold=1:loop=1 tpp:cold=10:loop=25 tpp:cold=10:loop=25:cold-always "
    "tpp:cold=10:loop=25:cold-always:literal-cold "
    "tpp:cold=10:loop=25:cold-always:obvious-first:branching tpp:table=hash kiter:k=3 "
    "kiter:table=hash kiter:table=hash:k=3 kblpp:k=4 pref:least=5:everywhere "
    "pref:least=5:fall-back:everywhere kblpp:table=hash"
).split()
# Variants that graphs are enough to tell
GRAPH_VARIANTS = (
    "qpt2:blocks=merged kiter:k=3:hot=40 kiter:give-up=50 kiter:outer kiter:k=3:outer "
    "pp:exit-entry=chord pp:exit-entry=cheaper pp:path-limit=20:per-vertex bittrace:merged "
    "qpt2:weights=wall qpt2:weights=forman pp:weights=forman"
).split()
PROGRAM_SETTINGS = ("edges", *MODES, *VARIANTS, "tpp:first=10000")
# Graphs have no code that needs registers.
GRAPH_SETTINGS = (*MODES, *(x for x in VARIANTS if ":registers=" not in x), *GRAPH_VARIANTS)
# Options that few programs are enough to tell
FEW_SETTINGS = (
    "edges kiter:outer kiter:k=3:outer pp:weights=forman qpt2:weights=forman bits:addresses "
    "block-trace:addresses bytes:addresses witness:addresses"
).split()
PROFILE_SETTINGS = ("edges", *MODES, "tpp:cold=10:loop=25:cold-always", "kiter:k=3")

# -- what is digested ------------------------------------------------------------------------------

# Field of an answer -> the totals in it
TOTALS: Mapping[str, Sequence[str]] = {
    "counts": (
        "blocks edge_increments hashed_increments inferred_paths path_increments system_calls "
        "trace_tokens transfers unattributed_instructions unattributed_transfers"
    ).split(),
    "lost": (
        "cold_paths flow_blocks overcounted_blocks overcounted_paths undercounted_blocks "
        "unknown_edges unknown_unfinished"
    ).split(),
    "sizes": (
        "address_bits code_bytes counter_bytes minimal_trace_bits snippets trace_bits"
    ).split(),
}
METRICS = tuple(f"{title}.{name}" for title, names in TOTALS.items() for name in names)
STATIC = (
    "back_edges weights code sparc costs taken_costs block_code block_sparc block_end_code "
    "block_end_sparc num_paths values tree increments dummy_edges valid_paths cut_edges loops "
    "compensation invalid_paths labels bits words largest_code edge_profile cold locally_cold "
    "disconnected_loops counted_paths obvious witnesses minimal_width counted_blocks counted_edges "
    "removed_counters pairs disrupted_blocks disrupted_edges branches records record_bits"
).split()
# List of an answer -> the columns of its rows that are digested, with their names when the
# baselines were recorded, where these were others: digests of counts do not change with words.
COLUMNS = {
    "edges": "routine=symbol source target kind count=executions instrumented",
    "paths": (
        "routine=symbol id=path count=executions instructions=instructions_per_execution partial "
        "edges"
    ),
    "blocks": "routine=symbol block count=executions",
    "routines": (
        "name=symbol blocks edges back_edges irreducible potential_paths cut_edges table "
        "addressing path_register activations=entered"
    ),
}
SLOT, LOOP = "slot ", "loop "


def digest(facts: object) -> str:
    """Return the first hexadecimal digits of the SHA-256 of a canonical text."""
    text = json.dumps(_canonical(facts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _canonical(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:#x}"  # a count may have more digits than Python likes to write
    if isinstance(value, Mapping):
        return {str(key): _canonical(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    return value


def _chosen(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: found[name] for name in names if name in found}


def _as_recorded(title: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row that are digested, as they were when that began."""
    found: dict[str, Any] = {}
    for word in COLUMNS[title].split():
        old, _, new = word.partition("=")
        if (new or old) in row:
            found[old] = _name(row[new or old])
    if found.get("edges", row) is None:
        del found["edges"]
    if title == "paths" and "blocks" in row:
        blocks = [each.removeprefix(LOOP) for each in row["blocks"]]
        slots = [at for at, block in enumerate(blocks) if block.startswith(SLOT)]
        found |= {"slots": slots, "blocks": [each.removeprefix(SLOT) for each in blocks]}
    return found


def _name(value: object) -> object:
    """Return a value; a slot block's name as the object that it was."""
    if isinstance(value, str) and value.startswith(f"{SLOT}0x"):
        return {"slot": value.removeprefix(SLOT)}
    return value


def _listed(answer: Mapping[str, Any], blocks: str = "blocks") -> dict[str, list[str]]:
    """Return the lists of edges, paths and blocks in an answer, sorted.

    `blocks`: what the list of blocks was called when digests began.
    """
    return {
        blocks if title == "blocks" else title: sorted(
            digest(_as_recorded(title, entry)) for entry in answer[title]
        )
        for title in ("edges", "paths", "blocks")
        if title in answer
    }


# -- lines -----------------------------------------------------------------------------------------


class BaselineError(Exception):
    """Something cannot be recorded; the message says what."""


def settings(names: Sequence[str]) -> tuple[CellSetting, ...]:
    """Return settings by their canonical names; raises BaselineError if one is not canonical."""
    made = tuple(map(parse, names))
    for name, setting in zip(names, made, strict=True):
        if setting.name != name:
            raise BaselineError(f"setting {name} is called {setting.name}")
    return made


def program_lines(
    key: str, target: Target, directory: Path, names: Sequence[str] = PROGRAM_SETTINGS
) -> Iterator[str]:
    """Yield how a program ends, and what `simprof regress` counts of it under each setting.

    Raises BaselineError if it cannot be run.
    """
    schemes = [setting.scheme() for setting in settings(names)]
    baseline, failures = record([target], schemes, directory)
    for name, reason in failures.items():
        raise BaselineError(f"{name}: {reason}")
    run = baseline.runs[target.name]
    base = run.results["edges"].metrics["base"]
    ending = f"{run.ending['reason']} {run.ending['status']} {str(run.ending['output'])[:DIGITS]}"
    yield f"{key} ends {base} {ending}"
    for name, result in run.results.items():
        if result.metrics["base"] != base:
            raise BaselineError(f"{target.name}: base is another one under {name}")
        profile = digest([[each.address, each.graph, each.profile] for each in result.routines])
        yield f"{key} {name} {result.metrics['added']} {_counts(result)} {profile}"


def _counts(result: SettingResult) -> str:
    routines = [[each.address, each.name, each.table, each.numbers] for each in result.routines]
    return digest([_chosen(result.metrics, METRICS), routines])


def profile_lines(key: str, target: Target) -> Iterator[str]:
    """Yield the digest of all that `simprof run --json` lists of a program, by setting.

    Raises BaselineError if it cannot be run.
    """
    stdin = os.devnull if target.given.stdin is None else str(target.given.stdin)
    given = ["--report", os.devnull, "--argv0", target.options.argv0, "--stdin", stdin]
    with tempfile.TemporaryDirectory(prefix="simprof-baselines-") as empty:
        given += ["--root", empty, str(target.program), "--", *target.given.arguments]
        for setting in settings(PROFILE_SETTINGS):
            (answer,) = _answers("run", setting, given)
            yield f"{key} {setting.name} {digest(_listed(answer))}"


def graph_lines(name: str) -> Iterator[str]:
    """Yield what `simprof explain --json` says of each graph under a setting.

    Raises BaselineError if there is none.
    """
    (setting,) = settings([name])
    with tempfile.TemporaryDirectory(prefix="simprof-baselines-") as scratch:
        files = []
        for number, content in enumerate(GRAPHS.read_text().splitlines()):
            files.append(Path(scratch, f"{number:03}.json"))
            files[-1].write_text(content)
        answers = _answers("explain", setting, list(map(str, files)))
    for number, answer in enumerate(answers):
        totals = [_chosen(answer.get(title, {}), names) for title, names in TOTALS.items()]
        counts = digest([_listed(answer, "block_counts"), totals])
        routines = [_as_recorded("routines", routine) for routine in answer["routines"]]
        plan = digest([routines, _chosen(answer["static"], STATIC)])
        cost = answer["instructions"]
        yield f"{name} {number:03} {cost['base']} {cost['added']} {counts} {plan}"


def _answers(command: str, setting: CellSetting, rest: Sequence[str]) -> list[dict[str, Any]]:
    """Return what a command of simprof writes with `--json`, within this process."""
    with tempfile.TemporaryDirectory(prefix="simprof-baselines-") as directory:
        answer, stderr = Path(directory, "answer"), Path(directory, "stderr")
        line = [command, *_mode(setting), "--json", str(answer), *rest]
        with _written_to(Path(os.devnull), stderr):
            status = cli.run(line)
        if not answer.exists():
            said = stderr.read_text(errors="replace")
            raise BaselineError(f"simprof {' '.join(line)}: status {status}: {said}")
        return [json.loads(text) for text in answer.read_text().splitlines()]


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
