"""`simprof regress`: record baselines of counts, run their programs again and compare."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import options, outputs, streams
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
)
from simprof.profiler.commands.program_words import WithArguments, arguments_of
from simprof.profiler.commands.progress import ready_engine
from simprof.profiler.request.request import Setting, Weights
from simprof.profiler.schemes.mode_options import ModeSetting, read
from simprof.simulator.errors import SimulatorError, UsageError

if TYPE_CHECKING:
    from simprof.profiler.experiments.regress.measure import Failures, Target
    from simprof.profiler.experiments.regress.regress import BaselineRecording

DEFAULT_MODES = ("pp", "qpt2", "tpp")
FAILED = 1


@click.command(
    "record",
    cls=WithArguments,
    short_help="Run programs and write a baseline.",
)
@click.argument("programs", type=options.PATH, nargs=-1, metavar="[ELF]... [-- ARG...]")
@click.option(
    "-o",
    "--output",
    type=options.PATH,
    required=True,
    metavar="BASELINE",
    help="The file to write; keep it under version control.",
)
@click.option("--suite", metavar="NAME", help="Record the programs of a suite.")
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
@click.option(
    "--root",
    type=options.PATH,
    metavar="DIR",
    help="The directory that the programs may read, and start in.  [default: the current one]",
)
@click.option(
    "--writable", is_flag=True, help="Let the programs write into a copy of --root, not kept."
)
@options.env_option("the programs, which inherit none")
@click.option(
    "--argv0",
    metavar="NAME",
    default="",
    help="A program's name for itself, argv[0].  [default: its file's]",
)
@options.max_instructions_option("Stop each program")
@options.memory_limit_option("a program")
@options.stack_size_option("a program")
@options.timeout_option("Give a program up after so much time; the status is then 124.")
@options.allow_commands_option
@options.progress_option()
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

    What stands behind -- are arguments, the same for all. Output of the programs is thrown away;
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
    arguments = arguments_of(ctx)
    targets, failures = _targets(programs, arguments, output.resolve().parent, chosen)
    recording = _record(targets, wanted, output, chosen)
    failures = {**failures, **recording.failures}
    return _written(recording, failures, output)


def _check_record(
    programs: Sequence[Path], output: Path, chosen: dict[str, Any], weights: Weights | Path
) -> None:
    """Refuse what does not fit together, before anything is built or run."""
    suite, root, stdin = chosen["suite"], chosen["root"], chosen["stdin_file"]
    if bool(programs) == (suite is not None):
        raise UsageError("name programs or a --suite, and not both")
    given = [
        name for name in ("stdin", "root", "writable", "env", "argv0") if _is_given(name, chosen)
    ]
    if suite is not None and given:
        raise UsageError(f"--{given[0]} cannot be used with --suite: suites bring their inputs")
    if suite is None and (chosen["builds"] or chosen["inputs"]):
        raise UsageError("--build and --input choose among a suite's programs: add --suite")
    if stdin is not None and not stdin.is_file():
        raise UsageError(f"--stdin {stdin} is no file: name a readable file")
    if root is not None:
        options.check_directory(root, "--root")
    if chosen["writable"] and root is None:
        raise UsageError("--writable needs --root: name the directory to copy")


def _is_given(name: str, chosen: dict[str, Any]) -> bool:
    return bool(chosen[{"stdin": "stdin_file", "env": "environment"}.get(name, name)])


def _targets(
    programs: Sequence[Path],
    arguments: tuple[str, ...],
    directory: Path,
    chosen: dict[str, Any],
) -> tuple[tuple[Target, ...], Failures]:
    import os

    from simprof.profiler.experiments.regress.measure import Target, file_targets, suite_targets

    root = chosen["root"] if chosen["root"] is not None or chosen["suite"] is not None else Path()
    variables = tuple(os.fsdecode(name + b"=" + value) for name, value in chosen["environment"])
    model = Target(
        "",
        Path(),
        {},
        arguments,
        chosen["stdin_file"],
        root,
        chosen["writable"],
        variables,
        chosen["argv0"],
        chosen["max_instructions"],
        chosen["memory_limit"],
        chosen["stack_size"],
        options.selection(chosen),
    )
    if chosen["suite"] is None:
        return file_targets(programs, model), {}
    if arguments:
        raise UsageError("arguments cannot be given to a suite: suites bring their inputs")
    widths = [
        int(width)
        for width, build in BUILDS.items()
        if build in (chosen["builds"] or (BUILDS["64"],))
    ]
    inputs = chosen["inputs"] or ("ref",)
    show = watch(chosen["progress"])
    return suite_targets(
        chosen["suite"],
        widths,  # type: ignore[arg-type]
        inputs,
        model,
        directory,
        show,
        allow_commands=chosen["allow_commands"],
    )


def _record(
    targets: Sequence[Target], settings: Sequence[Setting], output: Path, chosen: dict[str, Any]
) -> BaselineRecording:

    ready_engine(chosen["progress"])
    from simprof.profiler.commands.progress import progress_bar, wanted
    from simprof.profiler.experiments.regress.regress import record

    with progress_bar(wanted(chosen["progress"])) as show:
        return record(targets, settings, output.resolve().parent, show, chosen["timeout"])


class _NothingError(SimulatorError):
    """No program could be recorded."""


def _written(recording: BaselineRecording, failures: Failures, output: Path) -> int:
    from simprof.profiler.experiments.regress.file import save

    for name, reason in failures.items():
        streams.write(streams.STDERR, f"{name}: not recorded: {reason}\n")
    runs = recording.baseline.runs
    if not runs:
        raise recording.error or _NothingError(f"{output} was not written: no program could be run")
    save(recording.baseline, output)
    _show_endings(recording)
    names = ", ".join(recording.baseline.settings)
    count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    streams.write(streams.STDOUT, f"{output}: {count} under {names}\n")
    return FAILED if failures else 0


def _show_endings(recording: BaselineRecording) -> None:
    """Say how each program ended, and warn of those that failed."""
    from simprof.profiler.reports.run_text import ending_text, failure_text

    endings = {name: run.ended for name, run in recording.baseline.runs.items() if run.ended}
    width = max(map(len, endings), default=0)
    for name, ending in endings.items():
        streams.write(streams.STDOUT, f"{name:{width}}  {ending_text(ending)}\n")
    for name in recording.failed:
        streams.write(streams.STDERR, f"{failure_text(name, endings[name])}\n")


def watch(progress: bool | None) -> Callable[[Any], None] | None:
    """Tell what is being built, a line each, where somebody watches."""
    if progress is False or not (progress or sys.stderr.isatty()):
        return None

    def tell(state: Any) -> None:
        if state.state in ("fetching", "building"):
            line = f"{state.done}/{state.total} {state.state} {state.benchmark} {state.build}\n"
            streams.write(streams.STDERR, line)

    return tell


if TYPE_CHECKING:
    from simprof.profiler.experiments.regress.compare import Check, CheckLimits


def percent_limit(value: str | tuple[str, Fraction, bool]) -> tuple[str, Fraction, bool]:
    """Return pattern, percentage and whether only growth is limited, of METRIC=[+]PCT."""
    if not isinstance(value, str):
        return value
    pattern, equals, text = value.rpartition("=")
    number = _fraction(text.removesuffix("%").removeprefix("+"))
    if not equals or not pattern or number is None or number < 0:
        raise click.BadParameter(f"{value!r} is not of the form METRIC=PCT or METRIC=+PCT")
    return pattern, number, text.startswith("+")


def ceiling(value: str | tuple[str, Fraction]) -> tuple[str, Fraction]:
    """Return pattern and value of METRIC=VALUE."""
    if not isinstance(value, str):
        return value
    pattern, equals, text = value.rpartition("=")
    number = _fraction(text)
    if not equals or not pattern or number is None:
        raise click.BadParameter(f"{value!r} is not of the form METRIC=VALUE")
    return pattern, number


LARGE_EXPONENT = re.compile(r"e[+-]?[\d_]{4}", re.IGNORECASE)


def tolerance(value: str | tuple[Fraction, bool]) -> tuple[Fraction, bool]:
    """Return a percentage, exactly, and whether only growth is limited, of PCT or +PCT."""
    if not isinstance(value, str):
        return value
    number = _fraction(value.removesuffix("%").removeprefix("+"))
    if number is None or number < 0:
        raise click.BadParameter(f"{value!r} is not a percentage: write a number such as 0.5 or +2")
    return number, value.startswith("+")


def _fraction(text: str) -> Fraction | None:
    try:
        # Fractions take exponents of any size, and work them out.
        return None if LARGE_EXPONENT.search(text) else Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        return None


@click.command("check", short_help="Run a baseline's programs again and compare.")
@click.argument("baseline", type=options.PATH)
@click.option(
    "--tolerance",
    type=tolerance,
    metavar="[+]PCT",
    help="Percentage by which every total may differ, +PCT for growth alone. With 0 routines are "
    "compared as well.  [default: 0; with --limit, other totals may differ by any]",
)
@click.option(
    "--limit",
    "limits",
    type=percent_limit,
    multiple=True,
    metavar="METRIC=[+]PCT",
    help="A percentage for some metrics, +PCT for growth alone; repeatable, the last counts. "
    "METRIC is a pattern: added, 'sizes.*', pp/overhead, 'crc.elf/*/added'.",
)
@click.option(
    "--max",
    "ceilings",
    type=ceiling,
    multiple=True,
    metavar="METRIC=VALUE",
    help="What a metric may never exceed, such as pp/overhead=1.5; repeatable.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="A changed program, input, cost model, option or plan is a change though no count is.",
)
@click.option(
    "--weights",
    type=options.weights,
    metavar="heuristic|uniform|postorder|FILE",
    help="Edge weights in place of the recorded ones.",
)
@click.option("--junit", type=options.PATH, metavar="FILE", help="Write JUnit XML.")
@click.option("--markdown", type=options.PATH, metavar="FILE", help="Write a Markdown summary.")
@options.json_option("Write everything as JSON; - is stdout (the report then goes to stderr).")
@options.timeout_option("Give a program up after so much time; the status is then 124.")
@options.allow_commands_option
@options.progress_option()
def check_command(
    baseline: Path,
    tolerance: tuple[Fraction, bool] | None,
    limits: tuple[tuple[str, Fraction, bool], ...],
    ceilings: tuple[tuple[str, Fraction], ...],
    strict: bool,
    weights: Weights | Path | None,
    **chosen: Any,
) -> int:
    """Run the programs of BASELINE again, compare what they count, and say why it differs.

    Counts must be equal unless limits are given: --limit pp/overhead=+2 fails if pp's overhead has
    grown by more than 2 %, whatever else moved. What programs write must be the same in any case.
    Exit status: 0 the same (or within limits), 1 changed, 124 a program took too long, 125
    something could not be done. Files of an earlier check are gone in any case.
    """
    written = (chosen["junit"], chosen["markdown"], chosen["json_file"])
    outputs.check_outputs(*written, inputs=(baseline,))
    if outputs.STANDARD_STREAM in written[:2]:
        raise UsageError("only --json can write to stdout (-): name a file")
    for output in written:
        _remove_old(output)
    checked = _check(baseline, make_limits(tolerance, limits, ceilings, strict), weights, chosen)
    _report(checked, chosen)
    return checked.status


def _remove_old(output: Path | None) -> None:
    """Remove what an earlier check wrote, which would be taken for this one's if this one fails."""
    if output is not None and output != outputs.STANDARD_STREAM and output.is_file():
        output.resolve().unlink()


def make_limits(
    tolerance: tuple[Fraction, bool] | None,
    limits: Sequence[tuple[str, Fraction, bool]],
    ceilings: Sequence[tuple[str, Fraction]],
    strict: bool,
) -> CheckLimits:
    """Return the limits that the options ask for.

    Limits without a tolerance say what matters: nothing else is judged.
    """
    from simprof.profiler.experiments.regress.compare import Ceiling, CheckLimits, Limit

    if tolerance is None and not limits:
        tolerance = (Fraction(0), False)
    return CheckLimits(
        None if tolerance is None else Limit("*", *tolerance),
        tuple(Limit(*limit) for limit in limits),
        tuple(Ceiling(*ceiling) for ceiling in ceilings),
        strict,
    )


def _check(
    baseline: Path, limits: CheckLimits, weights: Weights | Path | None, chosen: dict[str, Any]
) -> Check:

    ready_engine(chosen["progress"])
    from simprof.profiler.commands.progress import progress_bar, wanted
    from simprof.profiler.experiments.regress.file import load
    from simprof.profiler.experiments.regress.regress import CheckOptions, check

    old = load(baseline)
    how = CheckOptions(limits, weights, chosen["timeout"], chosen["allow_commands"])
    with progress_bar(wanted(chosen["progress"])) as show:
        return check(old, baseline, how, show, watch(chosen["progress"]))


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


@click.group("regress")
def regress_command() -> None:
    """Record simulated counts in a baseline file, and explain later differences from it."""


regress_command.add_command(record_command)
regress_command.add_command(check_command)
