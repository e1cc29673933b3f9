"""`simprof compare`: a program under many schemes at once, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from simprof.profiler.commands import (
    context_options,
    options,
    program_options,
    shared_options,
    streams,
)
from simprof.profiler.commands.list_options import mode_option
from simprof.profiler.commands.program_words import with_program
from simprof.profiler.commands.scheme_options import (
    collect,
    percentage,
    scheme_options,
    warn_of_unused,
)
from simprof.profiler.request.request import SchemeOptions, Setting, Weights
from simprof.profiler.schemes import registry
from simprof.simulator.errors import UsageError


def thresholds(value: str | tuple[float, float]) -> tuple[float, float]:
    """Return i and j of TPP(i, j), written as "I,J"."""
    if not isinstance(value, str):
        return value
    parts = value.split(",")
    if len(parts) != 2:
        raise click.BadParameter(f"{value!r} is not of the form I,J: two percentages, as in 5,15")
    return percentage(parts[0]), percentage(parts[1])


@click.command("compare", cls=with_program())
@mode_option("Schemes to compare (default: all but edges)")
@click.option(
    "--tpp",
    "settings",
    type=thresholds,
    multiple=True,
    metavar="I,J",
    help="Add targeted path profiling with --cold I and --loop J, as tpp(I,J); repeatable.",
)
@options.weights_option
@scheme_options("saved profile of the same program that guides it.  [default: a first run]")
@program_options.program_options
@shared_options.extent_options("1 routine of each mode, 5 paths, with --details 10")
@context_options.context_options
@shared_options.jobs_option("processes measure a large program")
def compare_command(
    elf: str | None,
    arguments: tuple[str, ...],
    modes: tuple[str, ...] | None,
    settings: tuple[tuple[float, float], ...],
    weights: Weights | Path,
    **chosen: Any,
) -> int:
    """Run the SPARC program ELF once for all schemes and compare what they cost.

    All schemes watch the same execution. Where tpp has no --edge-profile and is left with a hash
    table, the program is run twice, with the same input. A large program is run once, and
    several processes measure the schemes. The program owns stdin, stdout and stderr, and its
    exit status is simprof's. It sees the files, variables and clock that it sees with
    `simprof run`.
    """
    scheme = collect(chosen, weights)
    wanted = tuple(make_settings(modes or all_modes(), settings, scheme))
    warn_of_unused([setting.mode for setting in wanted])
    elf = program_options.program_file(elf, arguments, chosen)
    program_options.check_files(elf, chosen, inputs=options.profiles(scheme))
    request = program_options.make_request(elf, arguments, chosen)
    request = replace(request, contexts=context_options.contexts(chosen))
    with program_options.watched(request, program_options.progress(chosen)) as watched:
        from simprof.profiler.session.session import compare_program

        jobs = shared_options.processors(chosen["jobs"])
        comparison = compare_program(watched, wanted, brief=True, jobs=jobs)
    from simprof.profiler.reports import comparison_report

    names = tuple(setting.name for setting in wanted)
    rows = tuple(zip(names, comparison.measurements, strict=True))
    emulations = (comparison.emulations, comparison.whole_emulations)
    program_options.write_json(
        partial(comparison_report.render_json, rows, *emulations), chosen["json_file"]
    )
    extent = {"top": chosen["top"], "details": chosen["details"], "lines": comparison.lines}
    program_options.write_report(
        partial(comparison_report.render_text, rows, *emulations, **extent),
        chosen["report"],
        chosen["quiet"],
    )
    return comparison.measurements[0].ending.code


def all_modes() -> tuple[str, ...]:
    """Return all modes that instrument and work; say on stderr which others are left out."""
    working, failing = registry.tried_modes()
    for scheme in failing:
        streams.write(streams.STDERR, f"simprof: left out: {scheme.reason}\n")
    return working


def make_settings(
    modes: Sequence[str], thresholds: Sequence[tuple[float, float]], scheme: SchemeOptions
) -> Iterator[Setting]:
    """Yield the settings in the table's order: those of `--tpp` follow `tpp`, or come last.

    Raises
    ------
    UsageError
        If two would have the same name.
    """
    targeted = [
        Setting(f"tpp({cold:.15g},{loop:.15g})", "tpp", scheme.having(cold=cold, loop=loop))
        for cold, loop in thresholds
    ]
    names = [setting.name for setting in targeted]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} is named twice: leave out one --tpp")
    for mode in modes:
        yield Setting(mode, mode, scheme)
        if mode == "tpp":
            yield from targeted
    if "tpp" not in modes:
        yield from targeted
