"""`simprof instrument`: write a program with a scheme's code in its place."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from profiler.commands import options, program_options, shared_options
from profiler.commands.scheme_options import collect, mode_choice, scheme_options
from profiler.request.request import Setting, Weights
from profiler.schemes import registry
from simulator.errors import UsageError


@click.command("instrument")
@click.argument("elf", type=options.PATH)
@click.option(
    "--mode", type=mode_choice(planned=True), metavar="MODE", required=True, help="The scheme."
)
@click.option(
    "-o", "--output", type=options.PATH, metavar="OUT", required=True, help="The new program."
)
@shared_options.selection_options("Instrument")
@options.weights_option
@scheme_options("saved profile (`simprof run -o`) that guides it; needed.")
@shared_options.json_option("Write what was done as JSON; - is stdout.")
@click.option(
    "--report", type=options.PATH, metavar="FILE", help="Write the report there, not to stderr."
)
def instrument_command(
    elf: Path,
    mode: str,
    output: Path,
    weights: Weights | Path,
    json_file: Path | None,
    report: Path | None,
    **chosen: Any,
) -> int:
    """Write OUT: the SPARC program ELF with the code of a scheme in its place.

    OUT behaves as ELF and, when it exits, writes its counters to the file that SIMPROF_OUT names
    (simprof.out), which `simprof read` makes a profile of. It runs wherever ELF runs.
    """
    scheme = collect(chosen, weights)
    options.check_outputs(json_file, output, report, inputs=(elf, *options.profiles(scheme)))
    if options.STANDARD_STREAM in (output, report):
        raise UsageError("only --json can write to stdout (-): name a file")
    if registry.definition(mode).guided and scheme.edge_profile is None:
        raise UsageError(
            f"{mode} is guided by an edge profile, and nothing is run here: give one with "
            "--edge-profile (`simprof run --mode=edges -o FILE` makes it)"
        )
    from profiler.profiles.output import write_atomically
    from profiler.reports import instrument_report
    from profiler.rewriting.alone import instrument_file

    made = instrument_file(elf, Setting(mode, mode, scheme), shared_options.selection(chosen))
    write_atomically(output, made.file)
    if output.is_file():  # what else there may be, such as a device, keeps its permissions
        output.chmod(output.stat().st_mode | elf.stat().st_mode & 0o111)
    facts = (elf, output, mode, made)
    program_options.write_json(partial(instrument_report.render_json, *facts), json_file)
    program_options.write_report(partial(instrument_report.render_text, *facts), report)
    return 0
