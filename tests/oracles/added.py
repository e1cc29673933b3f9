"""Comparing what simprof says that profiling adds with what the printed code executes.

The code is what `simprof cfg --code` prints for the routines that the program executed; the steps
are qemu-user's (`steps`, `replay`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simprof.profiler.commands.cfg import render_code
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import save
from simprof.profiler.reports.display import UNFOLDED
from simprof.profiler.request.request import SchemeOptions, Setting, TableChoice
from simprof.profiler.request.weights import Weights
from tests.oracles.exact import Simulated, simulate_settings
from tests.oracles.listing import read
from tests.oracles.qemu import trace
from tests.oracles.replay import Replay
from tests.oracles.steps import Step, record

QPT_PLACEMENTS = ("redundant", "vertex-optimal", "edge-heuristic", "mixed", "edge")
ARRAY_LIMIT = 10_000
"""Paths of a routine for which an array is always small enough."""
TRACES = ("witness", "bits", "bytes", "block-trace")
SYMBOLS = ("wpp", "pap")
"""Modes that write traces of symbols."""


@dataclass(frozen=True)
class Logged:
    """A program's run: how many instructions, and the steps of its activations."""

    instructions: int
    steps: Sequence[Step]


def every_setting(edge_profile: Path) -> list[Setting]:
    """Return all modes, with the options that change their code; names say which."""
    hashed, arrays = TableChoice.HASH, TableChoice.ARRAY
    guided = SchemeOptions(edge_profile=edge_profile)
    options = {
        "pp": SchemeOptions(),
        "pp hash": SchemeOptions(table=hashed),
        "pp array": SchemeOptions(table=arrays, path_limit=ARRAY_LIMIT),
        "pp truncated": SchemeOptions(path_limit=7, weights=Weights.UNIFORM),
        "pp postorder": SchemeOptions(weights=Weights.POSTORDER),
        "bittrace": SchemeOptions(),
        "bittrace hash": SchemeOptions(table=hashed),
        "fifo": SchemeOptions(),
        "fifo 1": SchemeOptions.of(branches=1),
        "fifo 3": SchemeOptions.of(branches=3),
        "fifo 60": SchemeOptions.of(branches=60),
        "tpp": guided,
        "tpp hash": SchemeOptions.of(
            edge_profile=edge_profile, table=hashed, cold=20.0, cold_always=True
        ),
        "tpp array": SchemeOptions.of(
            edge_profile=edge_profile,
            table=arrays,
            path_limit=ARRAY_LIMIT,
            cold=20.0,
            cold_always=True,
        ),
        "tpp all": guided.having(cold=0.0, loop=0.0),
        "tpp obvious": guided.having(count_obvious=True),
        "tpp obvious hash": SchemeOptions.of(
            edge_profile=edge_profile, table=hashed, count_obvious=True
        ),
        "tpp uncounted": guided.having(cold=20.0, cold_always=True, no_cold_counter=True),
        "tpp branching": guided.having(cold=20.0, cold_always=True, branching=True),
        "tpp branching hash": SchemeOptions.of(
            edge_profile=edge_profile, table=hashed, cold=20.0, cold_always=True, branching=True
        ),
        "tpp first": guided.having(cold=20.0, cold_always=True, obvious_first=True),
        "tpp literal": guided.having(cold=20.0, cold_always=True, literal_cold=True),
        "ppp": guided,
        "ppp whole": guided.having(skip=0.0),
        "ppp tested": guided.having(skip=0.0, tested=True, no_pushing=True, numbering="epp"),
        "ppp hash": SchemeOptions.of(edge_profile=edge_profile, table=hashed, skip=0.0, cold=20.0),
        "ppp array": SchemeOptions.of(
            edge_profile=edge_profile,
            table=arrays,
            path_limit=ARRAY_LIMIT,
            skip=0.0,
            numbering="edges",
            no_pushing=True,
        ),
        "pref": guided,
        "pref tags": guided.having(everywhere=True, interesting_share=20.0),
        "pref all": guided.having(everywhere=True, interesting_share=20.0, fall_back=True),
        "kblpp": SchemeOptions(),
        "kblpp 4": SchemeOptions.of(length=4),
        "kblpp hash": SchemeOptions(table=hashed),
        "kiter 1": SchemeOptions.of(iterations=1),
        "kiter 2": SchemeOptions.of(iterations=2),
        "kiter 3": SchemeOptions.of(iterations=3),
        "kiter hash": SchemeOptions(table=hashed),
        "kiter unoptimised": SchemeOptions.of(unoptimised=True),
        "kiter hash above": SchemeOptions.of(hash_above=3),
        "kiter by loop": SchemeOptions.of(iterations=3, iterations_of="*s=2+main=1", hot=20.0),
        "kiter given up": SchemeOptions.of(iterations=3, give_up=12),
        "qpt2": SchemeOptions(),
        **{f"qpt {place}": SchemeOptions.of(placement=place) for place in QPT_PLACEMENTS},
        "qpt merged": SchemeOptions.of(blocks="merged"),
        "qpt saved": SchemeOptions.of(registers="saved"),
        "qpt2 folded": SchemeOptions.of(blocks="folded"),
        "qpt2 scavenged": SchemeOptions.of(registers="scavenged"),
        "qpt stolen": SchemeOptions.of(registers="stolen"),
        "qpt2 stolen": SchemeOptions.of(registers="stolen"),
        "sampled": SchemeOptions.of(interval=3),
        "sampled whole": SchemeOptions.of(interval=1),
        "sampled hash": SchemeOptions(table=hashed),
        "sampled duplicated": SchemeOptions.of(interval=3, duplicated=True),
        "sampled duplicated whole": SchemeOptions.of(interval=1, duplicated=True),
        "pep": SchemeOptions.of(tick=20, samples=3, stride=2),
        "pep whole": SchemeOptions.of(tick=1, samples=1, stride=1),
        "pep hash": SchemeOptions(table=hashed),
        **{mode: SchemeOptions() for mode in SYMBOLS},
        **{mode: SchemeOptions() for mode in ("naive", "calls", "calls-optimal", *TRACES)},
        **{f"{mode} addresses": SchemeOptions.of(addresses=True) for mode in ("witness", "bits")},
    }
    return [Setting(name, name.split()[0], given) for name, given in options.items()]


def share_of_settings(part: int, parts: int) -> tuple[str, ...]:
    """Return the names of every `parts`-th setting; those of all parts are all settings."""
    return tuple(setting.name for setting in every_setting(Path())[part % parts :: parts])


def check_added(
    path: Path,
    arguments: Sequence[str] = (),
    stdin: bytes = b"",
    *,
    directory: Path,
    width: str,
    stack_pointers: bool = False,
    only: Sequence[str] = (),
) -> dict[str, Replay]:
    """Compare every setting (of those in `only`, if any); return what the replays did, by name.

    Replays follow one copy of a routine: settings with two are left out.
    """
    profile = save_edges(path, arguments, stdin, directory)
    settings = [
        setting
        for setting in every_setting(profile)
        if (not only or setting.name in only) and not setting.options.given("duplicated")
    ]
    simulated = simulate_settings(path, arguments, stdin, directory=directory, settings=settings)
    log = trace(path, arguments, stdin, directory=directory, stack_pointers=stack_pointers)
    graphs = simulated.observation.recovered.routines
    logged = Logged(log.instructions, record(graphs, log))
    return {s.name: compare(simulated, s, logged, width) for s in settings}


def save_edges(path: Path, arguments: Sequence[str], stdin: bytes, directory: Path) -> Path:
    """Return a saved profile of a run, whose edges guide `tpp` and `ppp`, and its paths `pref`.

    It is what the run that is checked compares its own counts with.
    """
    paths = Setting("pp", "pp", SchemeOptions())
    measured = simulate_settings(
        path, arguments, stdin, directory=directory, settings=[paths], self_check=False
    ).measurements
    save(measured["pp"], directory / "edges.prof")
    return directory / "edges.prof"


def compare(simulated: Simulated, setting: Setting, logged: Logged, width: str) -> Replay:
    """Compare one setting's `added` with the replay of its listing."""
    observation = simulated.observation
    measured: RunMeasurement = simulated.measurements[setting.name]
    everything = dict.fromkeys(observation.events)
    text = render_code(observation.recovered, everything, setting, UNFOLDED)
    (scheme,) = (each for each in observation.schemes if each.name == setting.name)
    constants = {}
    for number, events in observation.events.items():
        plan = scheme.routine_plan(number)
        assert plan is not None
        constants[events.cfg.address] = plan.plan.constants
    replay = Replay(observation.recovered.routines, read(text), width, constants)
    total = replay.run(logged.steps)
    assert measured.base == logged.instructions, setting.name
    if setting.mode in (*TRACES, *SYMBOLS):
        assert measured.sizes["trace_bits"] == 8 * len(replay.trace) - replay.padding, setting.name
        assert measured.sizes.get("address_bits", 0) == 8 * len(replay.addresses), setting.name
    else:
        by_routine = {routine.address: routine.added for routine in measured.routines}
        assert replay.added == by_routine, setting.name
    assert total == measured.added, setting.name
    return replay
