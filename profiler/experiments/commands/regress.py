"""`simprof regress`: record baselines of counts, run their programs again and compare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import options, outputs, streams
from simprof.profiler.commands.help import RUNS, in_sections
from simprof.profiler.commands.modes import (
    collect,
    mode_option,
    refuse_unused,
    scheme_options,
    settings,
)
from simprof.profiler.commands.options import (
    BUILDS,
    INPUTS,
    one_of,
    several,
    width_of,
)
from simprof.profiler.commands.program_words import WithArguments, arguments_of
from simprof.profiler.commands.progress import progress_bar, ready_engine
from simprof.profiler.experiments.commands.suite import complete_suite
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes.mode_options import ModeSetting, read
from simprof.simulator.errors import SimulatorError, UsageError

if TYPE_CHECKING:
    from simprof.profiler.experiments.regress.file import Baseline
    from simprof.profiler.experiments.regress.measure import Failures, Target
    from simprof.profiler.experiments.regress.regress import Ceiling, Check, CheckLimits, Limit
    from simprof.profiler.request.request import ProgressCallback

DEFAULT_MODES = ("pp", "qpt2", "tpp")
FAILED = 1


@click.command(
    "record",
    cls=in_sections(RUNS, WithArguments),
    short_help="Run programs and write a baseline.",
)
@click.argument("programs", type=options.PATH, nargs=-1, metavar="[ELF]... [-- ARG...]")
@options.output_option(
    "BASELINE", "The file to write; keep it under version control.", required=True
)
@options.option("--suite NAME", "Record the programs of a suite.", shell_complete=complete_suite)
@several(
    "--build",
    "builds",
    one_of(BUILDS.values()),
    "NAME",
    "Builds of the suite: v9-O2 (64 bits), v8plus-O2 (32).  [default: v9-O2]",
)
@several(
    "--input", "inputs", one_of(INPUTS), "NAME", "Inputs of the suite: train, ref.  [default: ref]"
)
@mode_option(f"Schemes to record (default: {','.join(DEFAULT_MODES)})")
@options.weights_option
@scheme_options("saved profile of the same program that guides it.  [default: a first run]")
@options.selection_options("Profile")
@options.stdin_option("The programs' input.  [default: empty]")
@options.option(
    "--root DIR",
    "The directory that the programs may read, and start in.  [default: the current one]",
    options.PATH,
)
@options.option("--writable", "Let the programs write into a copy of --root, not kept.")
@options.env_option("the programs, which inherit none")
@options.option(
    "--argv0 NAME", "A program's name for itself, argv[0].  [default: its file's]", default=""
)
@options.max_instructions_option("Stop each program")
@options.memory_limit_option("a program")
@options.stack_size_option("a program")
@options.timeout_option("Give a program up after so much time; the status is then 124.")
@options.allow_commands_option
@options.progress_option
@click.pass_context
def record_command(
    ctx: click.Context,
    /,
    programs: tuple[Path, ...],
    output: Path,
    modes: tuple[ModeSetting, ...] | None,
    weights: Weights | Path,
    **chosen: Any,
) -> int:
    """Run each ELF, or each program of a suite, under some schemes and write what they count.

    What follows -- are arguments, the same for all. Output of the programs is thrown away;
    its digest is recorded, as are those of the files that they open. How each of them ended is
    shown, with a warning if it failed. Programs that cannot be built or run are listed and left
    out, with exit status 1; if none can, nothing is written.
    """
    _check_record(programs, output, chosen, weights)
    scheme = collect(chosen, weights)
    wanted = settings(modes or tuple(map(read, DEFAULT_MODES)), scheme)
    refuse_unused(setting.mode for setting in wanted)
    outputs.check_outputs(
        output, inputs=(*programs, chosen["stdin_file"], *options.profiles(scheme))
    )
    from simprof.profiler.experiments.regress.regress import record

    directory = output.resolve().parent
    with progress_bar(chosen["progress"]) as bar:
        targets, failures = _targets(programs, arguments_of(ctx), directory, chosen, bar)
    ready_engine(chosen["progress"])
    with progress_bar(chosen["progress"]) as bar:
        baseline, errors = record(targets, wanted, directory, bar, chosen["timeout"])
    if len(targets) == len(errors) == 1:
        raise next(iter(errors.values()))
    return _written(baseline, targets, {**failures, **errors}, output)


def _check_record(
    programs: Sequence[Path], output: Path, chosen: dict[str, Any], weights: Weights | Path
) -> None:
    """Refuse what does not fit together, before anything is built or run."""
    suite, root, stdin = chosen["suite"], chosen["root"], chosen["stdin_file"]
    if bool(programs) == (suite is not None):
        raise UsageError("name programs or a --suite, and not both")
    inputs = {"stdin": "stdin_file", "root": "root", "writable": "writable"}
    inputs |= {"env": "environment", "argv0": "argv0"}
    given = [option for option, name in inputs.items() if chosen[name]]
    if suite is not None and given:
        raise UsageError(f"--{given[0]} cannot be used with --suite: suites bring their inputs")
    if suite is None and (chosen["builds"] or chosen["inputs"]):
        raise UsageError("--build and --input choose among a suite's programs: add --suite")
    if stdin is not None and not stdin.is_file():
        raise UsageError(f"--stdin {stdin} is not a file: name a readable file")
    if root is not None:
        options.check_directory(root, "--root")
    if chosen["writable"] and root is None:
        raise UsageError("--writable needs --root: name the directory to copy")


def _targets(
    programs: Sequence[Path],
    arguments: tuple[str, ...],
    directory: Path,
    chosen: dict[str, Any],
    progress: ProgressCallback | None,
) -> tuple[tuple[Target, ...], Failures]:
    import os

    from simprof.profiler.experiments.regress.measure import (
        Target,
        TargetOptions,
        file_targets,
        suite_targets,
    )
    from simprof.profiler.experiments.suites.suite import ANY_STATUS, Input

    root = chosen["root"] if chosen["root"] is not None or chosen["suite"] is not None else Path()
    variables = tuple(
        (os.fsdecode(name), os.fsdecode(text)) for name, text in chosen["environment"]
    )
    run_options = TargetOptions(**{name: chosen[name] for name in TargetOptions.__struct_fields__})
    given = Input("ref", arguments, chosen["stdin_file"], root, variables, status=ANY_STATUS)
    model = Target("", Path(), {}, given, run_options)
    if chosen["suite"] is None:
        return file_targets(programs, model), {}
    if arguments:
        raise UsageError("arguments cannot be given to a suite: suites bring their inputs")
    builds = chosen["builds"] or (BUILDS["64"],)
    return suite_targets(
        chosen["suite"],
        [width_of(build) for build in BUILDS.values() if build in builds],
        chosen["inputs"] or ("ref",),
        model,
        directory,
        progress,
        allow_commands=chosen["allow_commands"],
    )


class _NothingError(SimulatorError):
    """No program could be recorded."""


def _written(
    baseline: Baseline, targets: Sequence[Target], failures: Failures, output: Path
) -> int:
    from simprof.profiler.experiments.regress.file import save
    from simprof.profiler.reports.run_text import ending_text, failure_text

    for name, reason in failures.items():
        streams.write(streams.STDERR, f"{name}: not recorded: {reason}\n")
    if not baseline.runs:
        raise _NothingError(f"{output} was not written: no program could be run")
    save(baseline, output)
    endings = {name: run.ended for name, run in baseline.runs.items() if run.ended}
    width = max(map(len, endings), default=0)
    for name, ending in endings.items():
        streams.write(streams.STDOUT, f"{name:{width}}  {ending_text(ending)}\n")
    for target in targets:
        ended = endings.get(target.name)
        # a suite may say which status to expect
        if ended and (ended.reason, ended.code) != ("exit", max(target.given.status, 0)):
            streams.write(streams.STDERR, f"{failure_text(target.name, ended)}\n")
    count = f"{len(endings)} run{'' if len(endings) == 1 else 's'}"
    streams.write(streams.STDOUT, f"{output}: {count} under {', '.join(baseline.settings)}\n")
    return FAILED if failures else 0


def _limit(pattern: str, text: str, refusal: str) -> Limit:
    from simprof.profiler.experiments.regress.regress import Limit

    number = _fraction(text.removesuffix("%").removeprefix("+"))
    if not pattern or number is None or number < 0:
        raise click.BadParameter(refusal)
    return Limit(pattern, number, text.startswith("+"))


def percent_limit(value: str | Limit) -> Limit:
    """Return the limit that METRIC=[+]PCT says."""
    if not isinstance(value, str):
        return value
    pattern, _, text = value.rpartition("=")
    return _limit(pattern, text, f"{value!r} is not of the form METRIC=PCT or METRIC=+PCT")


def tolerance(value: str | Limit) -> Limit:
    """Return the limit of all metrics that PCT or +PCT says."""
    if not isinstance(value, str):
        return value
    why = f"{value!r} is not a percentage: write a number such as 0.5 or +2"
    return _limit("*", value, why)


def ceiling(value: str | Ceiling) -> Ceiling:
    """Return the ceiling that METRIC=VALUE says."""
    if not isinstance(value, str):
        return value
    from simprof.profiler.experiments.regress.regress import Ceiling

    pattern, _, text = value.rpartition("=")
    number = _fraction(text.removesuffix("%"))
    if not pattern or number is None:
        raise click.BadParameter(f"{value!r} is not of the form METRIC=VALUE")
    if text.endswith("%"):
        if not pattern.endswith("overhead"):
            raise click.BadParameter(f"{value!r}: only overhead has a maximum in percent")
        number /= 100
    return Ceiling(pattern, number)


LARGEST = 10**100  # of a limit
LARGE_EXPONENT = re.compile(r"e[+-]?[\d_]{4}", re.IGNORECASE)


def _fraction(text: str) -> Fraction | None:
    try:
        # Fractions take exponents of any size, and work them out.
        number = None if LARGE_EXPONENT.search(text) else Fraction(text.strip())
        return number if number is not None and abs(number) < LARGEST else None
    except (ValueError, ZeroDivisionError):
        return None


@click.command("check", short_help="Run a baseline's programs again and compare.")
@click.argument("baseline", type=options.PATH)
@options.option(
    "--tolerance [+]PCT",
    "Percentage by which every total may differ, +PCT for growth alone. With 0 routines are "
    "compared as well.  [default: 0; with --limit or --max, other totals may differ by any]",
    tolerance,
)
@options.option(
    "--limit METRIC=[+]PCT",
    "A percentage for some metrics, +PCT for growth alone; repeatable, the last counts. "
    "METRIC is a pattern: added, 'sizes.*', pp/overhead, 'crc.elf/*/added'.",
    percent_limit,
    name="limits",
    multiple=True,
)
@options.option(
    "--max METRIC=VALUE",
    "What a metric may never exceed, such as pp/overhead=50% or added=9000; repeatable.",
    ceiling,
    name="ceilings",
    multiple=True,
)
@options.option(
    "--strict",
    "A changed program, input, cost model, option or plan is a change though no count is.",
)
@options.option("--ignore-output", "Programs may write something else than they did.")
@click.option(
    "--weights",
    type=options.weights,
    metavar=options.WEIGHTS,
    help="Edge weights in place of the recorded ones.",
)
@options.option("--junit FILE", "Write JUnit XML.", options.PATH)
@options.option("--markdown FILE", "Write a Markdown summary.", options.PATH)
@options.option("--github", "Also print failures as annotations of GitHub's workflows.")
@options.json_option("Write everything as JSON; - is stdout (the report then goes to stderr).")
@options.timeout_option("Give a program up after so much time; the status is then 124.")
@options.allow_commands_option
@options.progress_option
def check_command(
    baseline: Path,
    tolerance: Limit | None,
    limits: tuple[Limit, ...],
    ceilings: tuple[Ceiling, ...],
    strict: bool,
    ignore_output: bool,
    weights: Weights | Path | None,
    **chosen: Any,
) -> int:
    """Run the programs of BASELINE again, compare what they count, and say why it differs.

    Counts must be equal unless limits are given: --limit pp/overhead=+2 fails if pp's overhead has
    grown by more than 2 %, --max pp/overhead=50% if it is above 50 %, whatever else moved. What
    programs write must be the same in any case, unless --ignore-output is given.
    Exit status: 0 the same (or within limits), 1 changed, 124 a program took too long, 125
    something could not be done. Output files of earlier checks are removed first.
    """
    written = (chosen["junit"], chosen["markdown"], chosen["json_file"])
    outputs.check_outputs(*written, inputs=(baseline,))
    if outputs.STANDARD_STREAM in written[:2]:
        raise UsageError("only --json can write to stdout (-): name a file")
    for output in written:
        # what an earlier check wrote would be taken for this one's if this one fails
        if output is not None and output != outputs.STANDARD_STREAM and output.is_file():
            output.resolve().unlink()
    from simprof.profiler.experiments.regress.regress import CheckLimits

    # limits without a tolerance say what matters: nothing else is judged
    is_exact = tolerance is None and not limits and not ceilings
    general = CheckLimits().tolerance if is_exact else tolerance
    wanted = CheckLimits(general, limits, ceilings, strict, ignore_output)
    checked = _checked(baseline, wanted, chosen, weights)
    _report(checked, chosen)
    return checked.status


def _checked(
    baseline: Path,
    limits: CheckLimits,
    chosen: dict[str, Any],
    weights: Weights | Path | None = None,
) -> Check:
    """Run the programs of a baseline again and compare."""
    ready_engine(chosen["progress"])
    from simprof.profiler.experiments.regress.file import load
    from simprof.profiler.experiments.regress.regress import check

    old = load(baseline)
    with progress_bar(chosen["progress"]) as bar:
        return check(
            old,
            baseline,
            limits,
            weights=weights,
            timeout=chosen["timeout"],
            allow_commands=chosen["allow_commands"],
            progress=bar,
        )


@click.command("update", short_help="Run a baseline's programs again and accept their counts.")
@click.argument("baseline", type=options.PATH)
@options.timeout_option("Give a program up after so much time; the status is then 124.")
@options.allow_commands_option
@options.progress_option
def update_command(baseline: Path, **chosen: Any) -> int:
    """Run the programs of BASELINE again, show what differs, and write what they count now there.

    Programs, inputs, modes and options stay as they were recorded. Where a program cannot be run,
    nothing is written.
    """
    from simprof.profiler.experiments.regress.file import save
    from simprof.profiler.experiments.regress.regress import CheckLimits
    from simprof.profiler.experiments.reports.regress import render_text

    outputs.check_outputs(baseline)
    checked = _checked(baseline, CheckLimits(), chosen)
    outputs.show(partial(render_text, checked))
    if checked.status > FAILED:
        return checked.status
    save(checked.now, baseline)
    return 0


def _report(checked: Check, chosen: dict[str, Any]) -> None:
    from simprof.profiler.experiments.reports import regress
    from simprof.profiler.profiles.output import write_atomically

    for file, render in (
        (chosen["junit"], regress.render_junit),
        (chosen["markdown"], regress.render_markdown),
    ):
        if file is not None:
            write_atomically(file, render(checked).encode(errors="backslashreplace"))
    outputs.write_json(partial(regress.render_json, checked), chosen["json_file"])
    stream = streams.STDERR if chosen["json_file"] == outputs.STANDARD_STREAM else streams.STDOUT
    width, color = streams.width(stream), streams.colored(stream)
    streams.write(stream, regress.render_text(checked, width, color))
    if chosen["github"]:
        streams.write(stream, regress.render_github(checked))


@click.group("regress")
def regress_command() -> None:
    """Record simulated counts in a baseline file, and explain later differences from it."""


for each in (record_command, check_command, update_command):
    regress_command.add_command(each)
