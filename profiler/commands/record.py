"""`simprof record`: run a program once, and keep what every scheme can be measured by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from simprof.profiler.commands import options, program_options, streams
from simprof.profiler.commands.program_words import with_program


@click.command("record", cls=with_program())
@program_options.recorded_options
@click.option(
    "-o",
    "--output",
    type=options.PATH,
    required=True,
    metavar="RUN",
    help="The recording.",
)
def record_command(elf: str, arguments: tuple[str, ...], output: Path, **chosen: Any) -> int:
    """Run the SPARC program ELF and record which paths it executes.

    `simprof run --replay RUN`, `compare`, `sweep` and `table` then measure any scheme, without
    running the program again. The program owns stdin, stdout and stderr, and its exit status is
    simprof's, as with `simprof run`.
    """
    chosen |= {"report": None, "json_file": None, "exclude": (), "user_only": False}
    chosen["self_check"] = False
    program_options.check_files(elf, chosen, output)
    request = program_options.make_request(elf, arguments, chosen)
    with program_options.watched(request, chosen["progress"]) as watched:
        from simprof.profiler.session.session import observe

        observation = observe(replace(watched, recording=output), ())
    result = observation.result
    size = output.stat().st_size
    streams.write(
        streams.STDERR,
        f"{output}: {result.instructions:,} instructions in {size:,} bytes\n",
    )
    return result.status
