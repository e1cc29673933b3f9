"""`simprof regress`: keep counts as they are, or know why they are not."""

from __future__ import annotations

import click

from simprof.profiler.commands.regress_check import check_command
from simprof.profiler.commands.regress_record import record_command


@click.group("regress")
def regress_command() -> None:
    """Record simulated counts in a baseline file, and explain later differences from it."""


regress_command.add_command(record_command)
regress_command.add_command(check_command)
