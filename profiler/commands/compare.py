"""`simprof compare`: a program under many schemes at once, side by side."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from simprof.profiler.commands import options, outputs, program_options
from simprof.profiler.commands.help import RUNS, in_sections
from simprof.profiler.commands.modes import (
    all_modes,
    collect,
    mode_option,
    refuse_unused,
    scheme_options,
    settings,
    tell_left_out,
)
from simprof.profiler.commands.program_words import with_program
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes.mode_options import ModeSetting

SORTS = "overhead", "accuracy", "coverage", "mode", "given"  # `comparison_report.SORTS`


@click.command("compare", cls=with_program(in_sections(RUNS)))
@mode_option("Schemes to compare (default: all but edges)")
@options.weights_option
@scheme_options("saved profile of the same program that guides it.  [default: a first run]")
@program_options.program_options
@options.extent_options("1 routine of each mode, 5 paths, with --details 10")
@options.choice_option(
    "--sort", "sort", SORTS, SORTS[0], "What modes are sorted by, the best first; given: as named."
)
@program_options.context_options
@options.option(
    "--html FILE",
    "Write a page there: the modes, and a picture of their overheads and accuracies.",
    options.PATH,
)
@options.jobs_option("processes measure a large program")
def compare_command(
    elf: str | None,
    arguments: tuple[str, ...],
    modes: tuple[ModeSetting, ...] | None,
    weights: Weights | Path,
    **chosen: Any,
) -> int:
    """Run the SPARC program ELF once for all schemes and compare what they cost.

    All schemes watch the same execution. Where tpp has no --edge-profile and is left with a hash
    table, the program is run twice, with the same input. A large program is run once, and several
    processes measure the schemes. The program owns stdin, stdout and stderr, and its exit status is
    simprof's. It sees the files, variables and clock that it sees with `simprof run`.
    """
    scheme = collect(chosen, weights)
    taken, left_out = (modes, ()) if modes else all_modes(chosen["call_tree"])
    wanted = settings(taken, scheme)
    refuse_unused([setting.mode for setting in wanted])
    elf = program_options.program_file(elf, arguments, chosen)
    program_options.check_files(elf, chosen, chosen["html"], inputs=options.profiles(scheme))
    request = program_options.make_request(elf, arguments, chosen)
    request = replace(request, contexts=program_options.contexts(chosen))
    tell_left_out(left_out)
    with program_options.watched(request, program_options.progress(chosen)) as watched:
        from simprof.profiler.session.session import compare_program

        jobs = options.processors(chosen["jobs"])
        comparison = compare_program(watched, wanted, brief=True, jobs=jobs)
    from simprof.profiler.reports import comparison_report

    rows, refused = comparison.rows(wanted)
    about = rows, comparison.emulations, comparison.whole_emulations
    json = partial(comparison_report.render_json, *about, comparison.reasons, refused)
    outputs.write_json(json, chosen["json_file"])
    extent = {"top": chosen["top"], "details": chosen["details"], "lines": comparison.lines}
    extent |= {"refused": refused, "sort": chosen["sort"]}
    if chosen["html"] is not None:
        from simprof.profiler.reports.html.summary import render_comparison

        outputs.write_text(render_comparison(rows, refused), chosen["html"])
    text = partial(comparison_report.render_text, *about, **extent)
    printed = chosen["replay"] is None
    outputs.write_report(text, chosen["report"], chosen["quiet"], after_output=printed)
    return comparison.measurements[0].ending.code
