"""Programs of a baseline: which there are, what each counts, and what that rests on.

They are files or suites when a baseline is recorded, and its own when it is checked.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from simprof.profiler.experiments.cells.run import open_outputs, run_request
from simprof.profiler.experiments.regress.file import (
    FILE,
    BaselineRoutine,
    BaselineRun,
    Fact,
    Facts,
    SettingResult,
    short_digest,
)
from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import (
    ANY_STATUS,
    BUILDS,
    NO_INPUT,
    BuiltProgram,
    Input,
    Width,
)
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import Action
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.profiles.codec import decode
from simprof.profiler.profiles.fingerprint import given_file_sha256
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.request.request import (
    DEFAULT_MEMORY_LIMIT,
    DEFAULT_STACK_SIZE,
    ProgressCallback,
    Selection,
    Setting,
    seen_file,
)
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.session.session import observe
from simprof.simulator.binary.debug_info import compiler_note
from simprof.simulator.errors import SimulatorError, UsageError
from simprof.simulator.stopping import Stopped

PLACE_DIGITS = 4


class TimeSpentError(SimulatorError):
    """A program took longer than its limit."""

    exit_status = 124


class TargetOptions(Struct, frozen=True):
    """What a baseline has of how a program is run, beside its `Input`: facts of these names."""

    argv0: str = ""  # The program's name for itself
    writable: bool = False  # Whether it may write: into a copy of its root, which is thrown away.
    max_instructions: int | None = None
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    stack_size: int = DEFAULT_STACK_SIZE
    # Which routines are profiled, as in `Selection`; the last two are facts where they are given,
    # so that older baselines stay valid.
    routines: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    user_only: bool = False


class Target(Struct, frozen=True):
    """A program with what it is given."""

    name: str  # What reports call it; unique in a baseline.
    program: Path  # ELF file
    facts: Facts  # Of a suite's program, where it comes from; empty for a file.
    given: Input = NO_INPUT  # As text, undecodable bytes as surrogates
    options: TargetOptions = TargetOptions()
    # Files below its root that a baseline has recorded: looked at whether they are opened or not.
    files: tuple[str, ...] = ()


Failures = Mapping[str, SimulatorError]  # Name of a run -> why it could not be made


def measure(
    target: Target,
    settings: Sequence[Setting],
    directory: Path,  # The baseline's: files are recorded as they are found from there.
    progress: ProgressCallback | None = None,  # Called as the program runs
    timeout: float | None = None,  # In seconds; None: any time.
) -> BaselineRun:
    """Run a target under all settings.

    Raises SimulatorError if it cannot be run, takes too long, or ends otherwise than its suite
    says: its results would be worthless. Raises KeyboardInterrupt if the user ended it.
    """
    given, options = target.given, target.options
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_directory("simprof-regress-"))
        # its file as the program sees it, wherever that is built or checked out
        exe = b"/" + os.fsencode(options.argv0) if target.facts else seen_file(target.program, None)
        request = run_request(
            target.program,
            given,
            scratch,
            open_outputs(stack, scratch),
            writable=options.writable,
            argv0=os.fsencode(options.argv0),
            exe=exe,
            max_instructions=options.max_instructions,
            timeout=timeout,
            memory_limit=options.memory_limit,
            stack_size=options.stack_size,
        )
        selection = Selection(options.routines, options.exclude, options.user_only)
        request = replace(request, selection=selection, progress=progress)
        facts = input_facts(target, directory)
        observation = observe(request, settings)
        facts |= _files(target, request.guest.root, observation.opened)
        measurements = measure_all(observation, self_check=request.self_check)
        written = hashlib.sha256()
        for name in ("stdout", "stderr"):
            written.update(hashlib.sha256((scratch / name).read_bytes()).digest())
    ending = measurements[0].ending
    if ending.reason == "interrupted":
        raise Stopped(ending.code - 128)
    if ending.reason == "timeout" and timeout is not None:
        raise TimeSpentError(
            f"{target.name} was not done after {timeout:g} seconds: raise --timeout"
        )
    if ending.reason == "exit" and given.status not in (ANY_STATUS, ending.code):
        raise SimulatorError(f"it ended with status {ending.code}, not {given.status}")
    if ending.reason in ("signal", "fault") and given.status != ANY_STATUS:
        raise SimulatorError(f"it was ended by a {ending.reason} (status {ending.code})")
    program = observation.program
    place = dict(target.facts) or {"file": relative(target.program, directory)}
    return BaselineRun(
        program={
            "sha256": program.sha256,
            "compiler": compiler_note(target.program),
            "machine": program.machine.value,
            **place,
        },
        input=facts,
        ending={"reason": ending.reason, "status": ending.code, "output": written.hexdigest()},
        ended=ending,
        lines=program.lines,
        results={
            scheme.name: setting_result(observation, scheme, measurement)
            for scheme, measurement in zip(observation.schemes, measurements, strict=True)
        },
    )


def _files(target: Target, root: Path, opened: Iterable[Path]) -> dict[str, Fact]:
    """Return the digest of each file below its root that was opened, or recorded before.

    `root` is where the program found it: a copy, if it may write. What it made there, and its own
    file, are left out.
    """
    if target.given.root is None:
        return {}
    seen, own = root.resolve(), target.program.resolve()
    names = {path.relative_to(seen) for path in opened if path.is_relative_to(seen)}
    names |= set(map(Path, target.files))
    found = {name: target.given.root / name for name in sorted(names)}
    return {
        f"{FILE}{name}": given_file_sha256(path)
        for name, path in found.items()
        if path.is_file() and path.resolve() != own
    }


def input_facts(target: Target, directory: Path) -> dict[str, Fact]:
    """Return everything that a program is given, but for the files that it opens (`_files`).

    Files are told by their digests: `stdin` ("" for none). `stdin_file` and `root` say where they
    were found; they decide nothing. Those of a suite are not recorded, since the suite knows.

    Raises UsageError if a file or directory cannot be read.
    """
    given, options = target.given, asdict(target.options)
    later = {name for name in ("exclude", "user_only") if not options[name]}
    facts: dict[str, Fact] = {
        **{name: value for name, value in options.items() if name not in later},
        "arguments": given.arguments,
        "environment": tuple(f"{name}={value}" for name, value in given.environment),
        "stdin": "" if given.stdin is None else given_file_sha256(given.stdin),
    }
    if not target.facts:
        for name, file in (("stdin_file", given.stdin), ("root", given.root)):
            if file is not None:
                facts[name] = relative(file, directory)
    return facts


def setting_result(
    observation: Observation, scheme: SchemeRun, measurement: RunMeasurement
) -> SettingResult:
    """Return what one scheme counted.

    How often the program had to be run again is no property of the scheme, and left out.
    """
    metrics = {"base": measurement.base, "added": measurement.added}
    for title, numbers in (
        ("counts", measurement.counts),
        ("sizes", measurement.sizes),
        ("lost", measurement.lost),
    ):
        metrics |= {f"{title}.{name}": numbers[name] for name in numbers}
    for runs in ("runs", "whole_runs"):
        metrics.pop(f"counts.{runs}", None)
    selected = [routine for routine in observation.events if scheme.selects(routine)]
    routines = [
        _routine(observation.events[routine].cfg, scheme.plan(routine), profile)
        for routine, profile in zip(selected, measurement.routines, strict=True)
    ]
    return SettingResult(metrics, tuple(sorted(routines, key=lambda each: each.key)))


def _routine(
    cfg: ControlFlowGraph, plan: InstrumentationPlan | None, profile: RoutineProfile
) -> BaselineRoutine:
    names = _edge_names(cfg)
    graph = [f"{_block_name(cfg, block.id)} {block.instructions}" for block in cfg.blocks]
    graph += (f"{name} {edge.kind}" for name, edge in zip(names, cfg.edges, strict=True))
    places = {} if plan is None else dict(_places(cfg, plan, names))
    return BaselineRoutine(
        name=profile.name,
        address=profile.address,
        graph=short_digest("\n".join(graph)),
        plan="" if plan is None else _plan_digest(plan, places),
        places=" ".join(
            f"{place}={short_digest(text, PLACE_DIGITS)}" for place, text in places.items()
        ),
        table=str(CounterTable.NONE if plan is None else plan.table),
        register=profile.path_register or "",
        profile=short_digest("\n".join(_counts(profile))),
        activations=profile.activations,
        added=profile.added,
        instructions=profile.instructions,
        paths=len(profile.path_counts),
        cut_edges=profile.cut_edges,
    )


def _edge_names(cfg: ControlFlowGraph) -> tuple[str, ...]:
    """Return a name for every edge (see `BaselineRoutine`)."""
    vertices = [_block_name(cfg, block) for block in range(len(cfg.blocks))] + ["", ""]
    plain = [f"{vertices[edge.source]}>{vertices[edge.target]}" for edge in cfg.edges]
    often = Counter(plain)
    seen: Counter[str] = Counter()
    names = []
    for name, edge in zip(plain, cfg.edges, strict=True):
        if often[name] > 1:
            name = f"{name}:{edge.kind}"
            seen[name] += 1
            name += f".{seen[name]}" if seen[name] > 1 else ""
        names.append(name)
    return tuple(names)


def _block_name(cfg: ControlFlowGraph, number: int) -> str:
    block = cfg.blocks[number]
    return f"{block.start - cfg.address:x}{'s' if block.is_slot else ''}"


def _places(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    yield from ((names[edge], _shown(plan.actions[edge])) for edge in sorted(plan.actions))
    for mark, actions_at in (("^", plan.blocks), ("$", plan.block_ends)):
        for block in sorted(actions_at):
            yield f"{_block_name(cfg, block)}{mark}", _shown(actions_at[block])


@cache
def _shown(actions: tuple[Action, ...]) -> str:
    return "; ".join(map(repr, actions))


def _plan_digest(plan: InstrumentationPlan, places: Mapping[str, str]) -> str:
    facts = (plan.table, plan.addressing, plan.path_counters, plan.edge_counters, plan.registers)
    actions = "\n".join(f"{place} {text}" for place, text in places.items())
    return short_digest(f"{facts}\n{actions}")


def _counts(profile: RoutineProfile) -> Iterator[str]:
    """Yield the counts of all edges and paths; edges have the same order in the same graph."""
    yield " ".join(str(edge.count) for edge in profile.edge_counts)
    for path in profile.path_counts:
        yield f"{path.id} {path.count} {path.partial} {path.edges}"


def file_targets(programs: Sequence[Path], model: Target) -> tuple[Target, ...]:
    """Return a target for each file, given what `model` is given.

    Files of one name are called by as much of their paths as tells them apart.

    Raises UsageError if a file is named twice.
    """
    resolved = Counter(path.resolve() for path in programs)
    for path in programs:
        if resolved[path.resolve()] > 1:
            raise UsageError(f"{path} is named twice: leave out one")
    names = _names([path.absolute() for path in programs])
    return tuple(
        replace(model, name=name, program=path, options=_named(model.options, path.name))
        for name, path in zip(names, programs, strict=True)
    )


def _named(options: TargetOptions, name: str) -> TargetOptions:
    return replace(options, argv0=options.argv0 or name)


def _names(paths: Sequence[Path]) -> list[str]:
    for parts in range(1, max((len(path.parts) for path in paths), default=1) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def suite_targets(
    name: str,  # Of the suite, or the path of its file
    widths: Sequence[Width],
    inputs: Sequence[str],
    model: Target,  # Gives budgets and the selection of routines
    directory: Path,  # The baseline's; a suite's file is recorded as it is found from there
    progress: ProgressCallback | None = None,  # Called as programs are built
    *,
    # Whether a suite's file that does not come with simprof may have commands executed.
    allow_commands: bool = False,
) -> tuple[tuple[Target, ...], Failures]:
    """Build a suite; return its targets, and why others could not be made.

    Raises UsageError if there is no such suite, or it needs commands and may have none executed.
    """
    suite = load_suite(name, allow_commands=allow_commands)
    label = relative(suite.path, directory) if name.endswith(".toml") else suite.name
    report = build_suite(suite, widths=widths, progress=progress)
    targets = []
    for benchmark in suite.benchmarks:
        for width in widths:
            built = report.programs.get((benchmark.name, BUILDS[width]))
            if built is None:
                continue
            for input_name in dict.fromkeys(inputs):
                targets.append(_suite_target(label, built, benchmark.inputs[input_name], model))
    return tuple(targets), {
        f"{benchmark} {build}": UsageError(f"it could not be built: {reason}")
        for (benchmark, build), reason in report.failures.items()
    }


def _suite_target(suite: str, built: BuiltProgram, given: Input, model: Target) -> Target:
    facts: dict[str, Fact] = {
        "suite": suite,
        "benchmark": built.benchmark,
        "build": built.build,
        "input": given.name,
        "flags": built.flags,
        "source_hash": built.source_hash,
    }
    return replace(
        model,
        name=f"{built.benchmark} {given.name} {built.build}",
        program=built.path,
        facts=facts,
        given=given,
        options=_named(model.options, built.benchmark),
    )


def recorded_targets(
    runs: Mapping[str, BaselineRun],
    directory: Path,
    progress: ProgressCallback | None = None,
    *,
    allow_commands: bool = False,
) -> tuple[tuple[Target, ...], Failures]:
    """Return the targets of a baseline in `directory`, and why others could not be made.

    Suites are built again where they have to be, each once.
    """

    @cache
    def built_again(suite: str) -> tuple[dict[str, Target], Failures]:
        recorded = [run.program for run in runs.values() if run.program.get("suite") == suite]
        builds, inputs = (
            {str(program[what]) for program in recorded} for what in ("build", "input")
        )
        name = str(directory / suite) if suite.endswith(".toml") else suite
        widths = [width for width, build in BUILDS.items() if build in builds]
        model = Target("", Path(), {})
        found, failed = suite_targets(
            name, widths, sorted(inputs), model, directory, progress, allow_commands=allow_commands
        )
        return {target.name: target for target in found}, failed

    targets, failures = [], dict[str, SimulatorError]()
    for name, run in runs.items():
        program, given = run.program, run.input
        own = {each: given[each] for each in TargetOptions.__struct_fields__ if each in given}
        try:
            options = decode(TargetOptions, own, "input")
            if "suite" in program:
                found, failed = built_again(str(program["suite"]))
                if name not in found:
                    gone = f"suite {program['suite']} has it no more: record the baseline again"
                    raise failed.get(f"{program['benchmark']} {program['build']}", UsageError(gone))
                target = found[name]
                options = replace(options, argv0=target.options.argv0, writable=False)
            else:
                place = directory / str(program["file"])
                target = Target(name, place, {}, _given(given, directory))
            files = tuple(each.removeprefix(FILE) for each in given if each.startswith(FILE))
            targets.append(replace(target, options=options, files=files))
        except UsageError as error:
            failures[name] = error
        except ValueError as error:
            failures[name] = UsageError(str(error))
    return tuple(targets), failures


def _given(facts: Facts, directory: Path) -> Input:
    """Return what a program that is of no suite was given; ValueError if it cannot be."""
    texts = decode(dict[str, tuple[str, ...]], {n: facts.get(n, ()) for n in _TEXTS}, "input")
    variables = (each.partition("=") for each in texts["environment"])
    found = (facts.get(name) for name in ("stdin_file", "root"))
    stdin, root = (None if each is None else directory / str(each) for each in found)
    environment = tuple((name, value) for name, _, value in variables)
    return Input("ref", texts["arguments"], stdin, root, environment, status=ANY_STATUS)


_TEXTS = ("arguments", "environment")


def relative(path: Path, directory: Path) -> str:
    """Return a path as it is found from `directory`."""
    return os.path.relpath(path.resolve(), directory.resolve())
