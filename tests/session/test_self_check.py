"""`--self-check`: each validator fires on one deliberate fault, and none fires without."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.graphs.flow import FlowError
from simprof.profiler.graphs.spanning import SpanningTree, maximum_spanning_tree
from simprof.profiler.plan.actions import CountEdge, WriteTrace
from simprof.profiler.plan.decoders import Plan, Reading
from simprof.profiler.profiles import storage
from simprof.profiler.recovery.check import RecoveryError
from simprof.profiler.request.errors import CountError, SelfCheckError
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Selection,
    Setting,
)
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.qpt.options import VertexPlacement
from simprof.profiler.session import self_check, session
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.session.self_check import SelfCheck, check_trace
from simprof.profiler.trace.format import HEAD, frame
from tests.support.turns import first

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "fixtures" / "example_scheme" / "heads_scheme.py"
DEFECT = ": this is a defect of simprof, please report the program"

MODES = {
    "pp": SchemeOptions(),
    "qpt2": SchemeOptions(),
    "qpt": SchemeOptions(),
    "witness": SchemeOptions(),
    "bits": SchemeOptions(),
    "bytes": SchemeOptions(),
    "block-trace": SchemeOptions(),
    "bittrace": SchemeOptions(),
    "fifo": SchemeOptions.of(branches=3),
    "tpp": SchemeOptions.of(cold=10.0, loop=90.0, cold_always=True),
    "ppp": SchemeOptions.of(skip=0.0, global_cold=5.0),
    "kiter": SchemeOptions.of(iterations=3),
    "kblpp": SchemeOptions.of(length=3),
    "naive": SchemeOptions(),
    "calls": SchemeOptions(),
    "calls-optimal": SchemeOptions(),
    "heads": SchemeOptions(),
    "edges": SchemeOptions(),
}
SETTINGS = (
    *(Setting(mode, mode, options) for mode, options in MODES.items()),
    Setting("vertices", "qpt", SchemeOptions.of(placement=VertexPlacement.VERTEX_OPTIMAL)),
    Setting("chords", "qpt", SchemeOptions.of(placement=VertexPlacement.EDGE_HEURISTIC)),
)


@pytest.fixture(scope="module", autouse=True)
def example_scheme() -> Iterator[None]:
    """Have the registry know the example scheme, as if it were installed."""
    spec = importlib.util.spec_from_file_location("heads_scheme", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "heads_scheme", module)
        spec.loader.exec_module(module)
        known = MappingProxyType({**registry.schemes(), "heads": module.HEADS})
        patch.setattr(registry, "schemes", lambda: known)
        yield


def request_of(name: str, **more: Any) -> RunRequest:
    """Ask for a run of a committed program (V9) without output, checked."""
    nowhere = Path(os.devnull)
    guest = GuestOptions(root=REPOSITORY / "fixtures", stdin=nowhere, stdout=DEV_NULL)
    program = REPOSITORY / "fixtures" / "bin" / "v9" / f"{name}.elf"
    return RunRequest(program, replace(guest, stderr=DEV_NULL), self_check=True, **more)


DEV_NULL = os.open(os.devnull, os.O_WRONLY)


@pytest.fixture(scope="module")
def observation(example_scheme: None) -> Observation:
    """A run of `loops` under all schemes."""
    return session.observe(replace(request_of("loops"), self_check=False), SETTINGS)


# Silence


@pytest.mark.long
@pytest.mark.parametrize("name", first(1, ["loops", "nonlocal", "switches"]))
def test_nothing_is_wrong_with_what_is_right(name: str) -> None:
    comparison = session.compare_program(request_of(name), SETTINGS)
    plain = session.compare_program(replace(request_of(name), self_check=False), SETTINGS)
    assert comparison == plain


def test_paths_behind_a_hot_count_may_be_cold_and_uncounted() -> None:
    """Paths into the EXIT block are counted before it, and cold ones without a counter are not."""
    options = SchemeOptions.of(cold=20.0, cold_always=True, no_cold_counter=True)
    (found,) = session.compare_program(
        request_of("control"), [Setting("uncounted", "tpp", options)]
    ).measurements
    assert found.lost["cold_paths"]


def test_selected_routines_and_cut_runs_are_checked_too() -> None:
    request = request_of("loops", mode="witness")
    some = replace(request, selection=Selection(("main",)))
    assert [r.name for r in session.run_program(some).routines] == ["main"]
    cut = replace(request, guest=replace(request.guest, max_instructions=1234))
    assert session.run_program(cut).ending.reason == "budget"


# Plans

AnyPlan = Any  # of whatever scheme: the faults reach into its own fields
Fault = Callable[[AnyPlan], AnyPlan]
T = TypeVar("T")


def changed(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    """Return `values` with another one in a place."""
    return (*values[:place], value, *values[place + 1 :])


def unspanned(tree: SpanningTree) -> SpanningTree:
    return replace(tree, in_tree=changed(tree.in_tree, tree.in_tree.index(True), False))


def lightest(tree: SpanningTree, weights: tuple[float, ...]) -> SpanningTree:
    least = [-weight for weight in weights]
    return maximum_spanning_tree(tree.vertex_count, tree.ends, least, tree.root_edge, tree.excluded)


def raised(values: tuple[int, ...], place: int) -> tuple[int, ...]:
    return changed(values, place, values[place] + 1)


def with_actions(plan: AnyPlan, change: Callable[[dict[int, Any]], Mapping[int, Any]]) -> AnyPlan:
    return replace(plan, plan=replace(plan.plan, actions=change(dict(plan.plan.actions))))


def last_dropped(actions: dict[int, Any]) -> Mapping[int, Any]:
    actions.popitem()
    return actions


def swapped(actions: dict[int, Any]) -> Mapping[int, Any]:
    """Exchange what is done on two edges."""
    one, other = list(actions)[:2]
    return {**actions, one: actions[other], other: actions[one]}


def of_increments(plan: AnyPlan) -> AnyPlan:
    by_edge = plan.increments.increments
    by_edge = raised(by_edge, plan.tree.chords[0])
    return replace(plan, increments=replace(plan.increments, increments=by_edge))


def of_potential(plan: AnyPlan) -> AnyPlan:
    potential = raised(plan.increments.potential, plan.cfg.exit)
    return replace(plan, increments=replace(plan.increments, potential=potential))


def of_value(plan: AnyPlan) -> AnyPlan:
    numbering = plan.numbering
    place = max(range(len(numbering.values)), key=numbering.values.__getitem__)
    return replace(plan, numbering=replace(numbering, values=raised(numbering.values, place)))


def of_path_count(plan: AnyPlan) -> AnyPlan:
    num_paths = raised(plan.numbering.num_paths, plan.cfg.entry)
    return replace(plan, numbering=replace(plan.numbering, num_paths=num_paths))


def of_dag(plan: AnyPlan) -> AnyPlan:
    source, target, *_ = columns = plan.dag.columns
    turned = columns._replace(
        source=changed(tuple(source), 0, target[0]), target=changed(tuple(target), 0, source[0])
    )
    return replace(plan, dag=replace(plan.dag, columns=turned))


def of_removed(plan: AnyPlan) -> AnyPlan:
    return replace(plan, dag=replace(plan.dag, removed=()))


def of_iteration_value(plan: AnyPlan) -> AnyPlan:
    numbering = plan.numbering
    numbers = numbering.numbers
    numbers = replace(numbers, values=(5,) * len(numbers.values))
    return replace(plan, numbering=numbering._replace(numbers=numbers))


def of_defining(draft: AnyPlan) -> AnyPlan:
    defining = changed(draft.obvious.defining, 0, not draft.obvious.defining[0])
    return replace(draft, obvious=replace(draft.obvious, defining=defining))


def of_widths(plan: AnyPlan) -> AnyPlan:
    widths = tuple(width + 1 for width in plan.codes.widths)
    return replace(plan, codes=replace(plan.codes, widths=widths))


def of_initial_codes(plan: AnyPlan) -> AnyPlan:
    initial = dict.fromkeys(plan.codes.initial, 2)
    return replace(plan, codes=replace(plan.codes, initial=initial))


def of_records(plan: AnyPlan) -> AnyPlan:
    records = dict.fromkeys(plan.codes.records, 1)
    return replace(plan, codes=replace(plan.codes, records=records))


def of_width(plan: AnyPlan) -> AnyPlan:
    return replace(plan, codes=replace(plan.codes, width=1))


def of_silence(plan: AnyPlan) -> AnyPlan:
    actions = {**plan.plan.actions, max(plan.codes.outcomes): ()}
    return replace(plan, plan=replace(plan.plan, actions=actions))


def of_tokens(change: Callable[[WriteTrace], WriteTrace]) -> Fault:
    """Make a fault in the last token of a trace's plan."""

    def fault(plan: AnyPlan) -> AnyPlan:
        last = max(plan.tokens)
        return replace(plan, tokens={**plan.tokens, last: change(plan.tokens[last])})

    return fault


def without_tokens(plan: AnyPlan) -> AnyPlan:
    return replace(plan, tokens={})


def of_tree(plan: AnyPlan) -> AnyPlan:
    return replace(plan, tree=unspanned(plan.tree))


def of_weights(plan: AnyPlan) -> AnyPlan:
    return replace(plan, tree=lightest(plan.tree, plan.weights))


def of_dag_weights(plan: AnyPlan) -> AnyPlan:
    return replace(plan, tree=lightest(plan.tree, plan.dag.edge_weights(plan.weights)))


def of_unrolled_weights(plan: AnyPlan) -> AnyPlan:
    weights = plan.dag.edge_weights(plan.weights)
    return replace(plan, tree=lightest(plan.tree, weights))


def of_actions(plan: AnyPlan) -> AnyPlan:
    return with_actions(plan, last_dropped)


def of_swapped_actions(plan: AnyPlan) -> AnyPlan:
    return with_actions(plan, swapped)


def of_stray_action(plan: AnyPlan) -> AnyPlan:
    stray = {len(plan.cfg.edges): (CountEdge(0),)}
    return with_actions(plan, lambda actions: {**actions, **stray})


def of_pairs(plan: AnyPlan) -> AnyPlan:
    (use,) = plan.plan.buffers
    backwards = replace(use, edges=use.edges[::-1])
    return replace(plan, plan=replace(plan.plan, buffers=(backwards,)))


def of_counted(plan: AnyPlan) -> AnyPlan:
    return replace(plan, counted=plan.counted[1:])


def of_flow(plan: AnyPlan) -> AnyPlan:
    return replace(plan, flow=replace(plan.flow, tree=unspanned(plan.flow.tree)))


def of_all_removed(plan: AnyPlan) -> AnyPlan:
    return replace(plan, removed=tuple(range(len(plan.cfg.edges))))


def of_block_counter(plan: AnyPlan) -> AnyPlan:
    blocks = {**plan.plan.blocks}
    blocks[next(iter(blocks))] = ()
    return replace(plan, plan=replace(plan.plan, blocks=blocks))


def of_heads(plan: AnyPlan) -> AnyPlan:
    return replace(plan, heads=())


def of_head_blocks(plan: AnyPlan) -> AnyPlan:
    entries = len(plan.entries)
    blocks = {block: (CountEdge(k),) for k, block in enumerate((0, 1, 2), entries)}
    return replace(plan, plan=replace(plan.plan, blocks=blocks))


FAULTS: tuple[tuple[str, Fault, str], ...] = (
    ("pp", of_tree, "does not span"),
    ("pp", of_dag_weights, "the tree lacks edge"),
    ("pp", of_increments, "the increment of edge . does not reproduce its value"),
    ("pp", of_potential, "has a potential"),
    ("pp", of_value, "the value of dag edge"),
    ("pp", of_path_count, "NumPaths of vertex"),
    ("pp", of_dag, "back edge|is a leaf|lost the edges"),
    ("pp", of_removed, "the acyclic graph lost the edges"),
    ("pp", of_stray_action, "which there are not"),
    ("pp", of_actions, "in a rehearsal"),
    ("pp", of_swapped_actions, "in a rehearsal|there is no|has no path"),
    ("kiter", of_tree, "does not span"),
    ("kiter", of_unrolled_weights, "the tree lacks edge"),
    ("kiter", of_increments, "does not reproduce its value"),
    ("kiter", of_iteration_value, "the value of dag edge"),
    ("kiter", of_dag, "the acyclic graph has the back edge|is not of the iteration"),
    ("kiter", of_swapped_actions, "in a rehearsal|has no path"),
    ("tpp", of_increments, "does not reproduce its value"),
    ("tpp", of_tree, "does not span"),
    ("tpp", of_defining, "paths, which its mark denies"),
    ("bittrace", of_widths, "bits for the"),
    ("bittrace", of_initial_codes, "is decoded as another one"),
    ("bittrace", of_swapped_actions, "in a rehearsal|has no path"),
    ("fifo", of_records, "records are not distinct"),
    ("fifo", of_width, "a record has too many bits"),
    ("fifo", of_swapped_actions, "in a rehearsal|has no window"),
    ("fifo", of_silence, "are not recorded"),
    ("qpt2", of_tree, "does not span"),
    ("qpt2", of_weights, "the tree lacks edge"),
    ("qpt2", of_actions, "counts other edges than the chords"),
    ("vertices", of_counted, "the counted blocks are not the chords"),
    ("qpt", of_block_counter, "counts other blocks"),
    ("vertices", of_flow, "the tree lacks edge|does not span"),
    ("chords", of_all_removed, "tree edges are taken for chords"),
    ("chords", of_actions, "counts other edges than the chords"),
    ("naive", of_counted, "not all edges are counted"),
    ("calls", of_pairs, "pairs are counted for other edges"),
    ("calls-optimal", of_weights, "the tree lacks edge"),
    ("calls-optimal", of_tree, "does not span"),
    ("witness", without_tokens, "the blocking property does not hold"),
    ("witness", of_tokens(lambda token: replace(token, width=0)), "has more than 0 bits"),
    ("witness", of_tokens(lambda token: replace(token, value=0)), "witnesses are not unique"),
    ("bits", of_tokens(lambda token: replace(token, value=7)), "are not distinct"),
    ("bytes", of_tokens(lambda token: replace(token, value=7)), "are not distinct"),
    ("block-trace", without_tokens, "the blocking property does not hold"),
    ("block-trace", of_tokens(lambda token: replace(token, value=300)), "has more than 8 bits"),
    ("heads", of_heads, r"AssertionError at `assert set\(self.heads\)"),
    ("heads", of_head_blocks, "in a rehearsal block"),
)


@pytest.mark.parametrize(
    ("mode", "fault", "reason"),
    FAULTS,
    ids=[f"{mode}-{position}" for position, (mode, _, _) in enumerate(FAULTS)],
)
def test_each_part_of_a_plan_is_checked(
    observation: Observation, mode: str, fault: Fault, reason: str
) -> None:
    scheme = next(each for each in observation.schemes if each.name == mode)
    check = SelfCheck(observation)
    routine, broken = broken_plan(observation, scheme, fault)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SelfCheckError) as raised_error:
        patch.setitem(scheme._plans, routine, broken)
        check.check_plan(scheme, routine)
    message = str(raised_error.value)
    name = observation.recovered.routines[routine].name
    assert message.startswith(f"{name}: the plan of {mode} is wrong: ")
    assert message.endswith(DEFECT)
    assert "\n" not in message
    assert re.search(reason, message), message
    check.check_plan(scheme, routine)


def broken_plan(observation: Observation, scheme: SchemeRun, fault: Fault) -> tuple[int, Plan]:
    """Make a fault in the plan of the largest routine."""
    sizes = {number: len(events.cfg.edges) for number, events in observation.events.items()}
    routine = max(sizes, key=sizes.__getitem__)
    plan = scheme.routine_plan(routine)
    return routine, fault(plan)


# Graphs, flow, readings


def of_routine(observation: Observation, name: str) -> int:
    return next(
        number for number, cfg in enumerate(observation.recovered.routines) if cfg.name == name
    )


def test_graphs_are_checked_against_the_code(observation: Observation) -> None:
    recovered = observation.recovered
    number = of_routine(observation, "main")
    cfg = recovered.routines[number]
    taken = next(edge for edge in cfg.edges if edge.kind is EdgeKind.TAKEN)
    other = (taken.target + 1) % len(cfg.blocks)
    edges = changed(cfg.edges, taken.id, taken._replace(target=other))
    routines = changed(tuple(recovered.routines), number, replace(cfg, edges=edges))
    broken = replace(observation, recovered=replace(recovered, routines=routines))
    measure_all(broken)
    with pytest.raises(RecoveryError, match=rf"^main: recovered graph: .* at 0x.*{DEFECT}$"):
        measure_all(broken, self_check=True)


def miscounted(observation: Observation, name: str) -> Observation:
    """Return the run with one more crossing of a routine's last edge."""
    number = of_routine(observation, name)
    events = observation.events[number]
    wrong = replace(events, edges=raised(events.edges, len(events.edges) - 1))
    return replace(observation, events={**observation.events, number: wrong})


def test_flow_is_checked_in_every_run(observation: Observation) -> None:
    with pytest.raises(FlowError, match=r"^main: block .* was entered"):
        measure_all(miscounted(observation, "main"))


def test_readings_are_checked_in_every_run(
    observation: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme = next(scheme for scheme in observation.schemes if scheme.name == "naive")
    plan: Any = scheme.routine_plan(of_routine(observation, "main"))

    def misread(self: AnyPlan, counters: Any) -> Reading:
        reading: Reading = type(self).unpatched(self, counters)
        if self is not plan:
            return reading
        assert reading.all_edges is not None
        return replace(reading, edges=raised(reading.all_edges, 0))

    monkeypatch.setattr(type(plan), "unpatched", type(plan).read, raising=False)
    monkeypatch.setattr(type(plan), "read", misread)
    with pytest.raises(CountError, match=rf"^main: naive counts .* for edge ENTRY -> .*{DEFECT}$"):
        measure_all(observation)
    with pytest.raises(SelfCheckError, match=r"^main: the plan of naive is wrong: in a rehearsal"):
        measure_all(observation, self_check=True)


# Profiles


def test_a_saved_profile_is_read_again(
    observation: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> None:
        few = replace(observation, schemes=observation.schemes[:1])
        measure_all(few, self_check=True)

    check()
    with monkeypatch.context() as patch:
        whole = storage.to_bytes
        patch.setattr(storage, "to_bytes", lambda measurement: whole(measurement)[:-9])
        with pytest.raises(
            SelfCheckError, match=f"the profile of pp is wrong: .*damaged.*{DEFECT}"
        ):
            check()
    read = storage.from_bytes
    monkeypatch.setattr(
        storage, "from_bytes", lambda *given: replace(read(*given), base=read(*given).base + 1)
    )
    with pytest.raises(SelfCheckError, match="its `base` is another"):
        check()


# Traces


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a run of `loops`."""
    path = tmp_path_factory.mktemp("self-check") / "trace"
    session.run_program(request_of("loops", mode="witness", trace=path))
    return path


def test_traces_are_regenerated(observation: Observation, trace: Path, tmp_path: Path) -> None:
    check_trace(trace, "witness", observation.events.values())
    data = trace.read_bytes()
    broken = tmp_path / "trace"
    # The last digit of the digest in the trace's end, with a checksum that fits.
    at = data.rindex(b'"digest":') + 9
    digit = b"1" if data[at : at + 1] != b"1" else b"2"
    start = data.rindex(b"{")
    content = data[start:at] + digit + data[at + 1 : data.rindex(b"}") + 1]
    faults = {
        "the file is damaged at byte": data[:at] + digit + data[at + 1 :],
        "the file ends": data[:-20],
        "differs from the execution": data[: start - HEAD] + frame(b"Z", content),
    }
    for reason, content in faults.items():
        broken.write_bytes(content)
        with pytest.raises(
            SelfCheckError, match=f": the trace of witness is wrong: .*{DEFECT}$"
        ) as e:
            check_trace(broken, "witness", observation.events.values())
        assert re.search(reason, str(e.value))


def test_traces_are_compared_with_the_counts_of_the_run(
    observation: Observation, trace: Path
) -> None:
    wrong = miscounted(observation, "main")
    with pytest.raises(SelfCheckError, match=r"it tells .* crossings of edges for"):
        check_trace(trace, "witness", wrong.events.values())


@pytest.mark.parametrize("wanted", [False, True])
def test_a_run_checks_the_trace_that_it_writes_or_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: bool
) -> None:
    checked: list[Path] = []
    monkeypatch.setattr(self_check, "check_trace", lambda path, *_: checked.append(path))
    request = request_of("loops", mode="bits", trace=tmp_path / "trace" if wanted else None)
    session.run_program(request)
    assert [path == request.trace for path in checked] == [wanted]
    assert not wanted or (tmp_path / "trace").is_file()
    assert wanted or not checked[0].exists(), "the temporary trace is still there"


# The command


def test_a_failure_is_one_line_and_status_125(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(self: SpanningTree) -> None:
        raise AssertionError("the tree\nis no tree")

    monkeypatch.setattr(SpanningTree, "validate", fail)
    own = MappingProxyType({scheme.mode: scheme for scheme in registry.OWN})
    monkeypatch.setattr(registry, "schemes", lambda: own)  # the command knows no other options
    program = REPOSITORY / "fixtures" / "bin" / "v9" / "loops.elf"
    command = ["run", "--report", os.devnull, "--stdin", os.devnull, str(program)]
    assert cli.run(command) == 0
    capfd.readouterr()
    assert cli.run([command[0], "--self-check", *command[1:]]) == 125
    (line,) = capfd.readouterr().err.splitlines()
    assert re.fullmatch(f"simprof: .*: the plan of pp is wrong: the tree{DEFECT}", line)


@pytest.mark.long
def test_assertions_must_not_be_left_out() -> None:
    program = REPOSITORY / "fixtures" / "bin" / "v9" / "loops.elf"
    code = "import sys; from profiler import cli; sys.exit(cli.run(sys.argv[1:]))"
    arguments = ["run", "--self-check", "--stdin", os.devnull, str(program)]
    done = subprocess.run(
        [sys.executable, "-O", "-c", code, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 125
    assert done.stderr.splitlines()[-1].startswith("simprof: --self-check needs")
