"""`simprof doctor`: what is installed, what works, what is missing."""

from __future__ import annotations

from pathlib import Path

import click

from simprof.profiler.commands import options, shared_options, streams
from simprof.profiler.commands.options import STANDARD_STREAM


@click.command("doctor")
@shared_options.json_option("Write the result as JSON; - is stdout.")
def doctor_command(json_file: Path | None) -> int:
    """Check the installation; exit 0 if runs work."""
    options.check_outputs(json_file)
    from simprof.profiler.commands.checks import diagnose
    from simprof.profiler.engine import kernel_cache
    from simprof.profiler.profiles.output import write_atomically
    from simprof.profiler.reports import doctor

    kernel_cache.ensure()
    diagnosis = diagnose()
    if json_file == STANDARD_STREAM:
        streams.write(streams.STDOUT, doctor.render_json(diagnosis))
    else:
        streams.write(streams.STDOUT, doctor.render_text(diagnosis, streams.width(streams.STDOUT)))
        if json_file is not None:
            write_atomically(json_file, doctor.render_json(diagnosis).encode())
    return 0 if diagnosis.ok else 125
