"""`simprof regress check`: run a baseline's programs again and compare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import options, program_options, shared_options, streams
from simprof.profiler.commands.options import STANDARD_STREAM
from simprof.profiler.commands.progress import ready_engine
from simprof.profiler.commands.regress_record import watch
from simprof.profiler.request.request import Weights
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.experiments.regress.compare import Check, Limits


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
@shared_options.json_option(
    "Write everything as JSON; - is stdout (the report then goes to stderr)."
)
@shared_options.timeout_option("Give a program up after so much time; the status is then 124.")
@shared_options.allow_commands_option
@shared_options.progress_option()
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
    outputs = (chosen["junit"], chosen["markdown"], chosen["json_file"])
    options.check_outputs(*outputs, inputs=(baseline,))
    if STANDARD_STREAM in outputs[:2]:
        raise UsageError("only --json can write to stdout (-): name a file")
    for output in outputs:
        _remove_old(output)
    checked = _check(baseline, make_limits(tolerance, limits, ceilings, strict), weights, chosen)
    _report(checked, chosen)
    return checked.status


def _remove_old(output: Path | None) -> None:
    """Remove what an earlier check wrote, which would be taken for this one's if this one fails."""
    if output is not None and output != STANDARD_STREAM and output.is_file():
        output.resolve().unlink()


def make_limits(
    tolerance: tuple[Fraction, bool] | None,
    limits: Sequence[tuple[str, Fraction, bool]],
    ceilings: Sequence[tuple[str, Fraction]],
    strict: bool,
) -> Limits:
    """Return the limits that the options ask for.

    Limits without a tolerance say what matters: nothing else is judged.
    """
    from simprof.profiler.experiments.regress.compare import Ceiling, Limit, Limits

    if tolerance is None and not limits:
        tolerance = (Fraction(0), False)
    return Limits(
        None if tolerance is None else Limit("*", *tolerance),
        tuple(Limit(*limit) for limit in limits),
        tuple(Ceiling(*ceiling) for ceiling in ceilings),
        strict,
    )


def _check(
    baseline: Path, limits: Limits, weights: Weights | Path | None, chosen: dict[str, Any]
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
    from simprof.profiler.profiles.output import write_atomically
    from simprof.profiler.reports import regress_json, regress_junit, regress_markdown, regress_text

    for file, render in (
        (chosen["junit"], regress_junit.render),
        (chosen["markdown"], regress_markdown.render),
    ):
        if file is not None:
            write_atomically(file, render(checked).encode(errors="backslashreplace"))
    program_options.write_json(partial(regress_json.render, checked), chosen["json_file"])
    stream = streams.STDERR if chosen["json_file"] == STANDARD_STREAM else streams.STDOUT
    width, color = streams.width(stream), streams.colored(stream)
    streams.write(stream, regress_text.render(checked, width, color))
