"""The command `simprof` with its subcommands."""

from __future__ import annotations

import click

from profiler.commands.cfg import cfg_command
from profiler.commands.compare import compare_command
from profiler.commands.doctor import doctor_command
from profiler.commands.graph import graph_command
from profiler.commands.regenerate import regenerate_command
from profiler.commands.regress import regress_command
from profiler.commands.run import run_command
from profiler.commands.suite import suite_command
from profiler.commands.sweep import sweep_command
from profiler.commands.table import table_command


@click.group(
    name="simprof",
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="simprof", prog_name="simprof", message="%(prog)s %(version)s")
def simprof() -> None:
    """Exact profiles of SPARC programs, and what each published scheme would have cost."""


simprof.add_command(run_command)
simprof.add_command(compare_command)
simprof.add_command(regenerate_command)
simprof.add_command(cfg_command)
simprof.add_command(graph_command)
simprof.add_command(doctor_command)
simprof.add_command(suite_command)
simprof.add_command(sweep_command)
simprof.add_command(table_command)
simprof.add_command(regress_command)
