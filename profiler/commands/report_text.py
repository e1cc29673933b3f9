"""From saved profiles to the report that `simprof run` printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from profiler.commands import profile_options, program_options
from profiler.commands.options import STANDARD_STREAM


def write(profiles: Sequence[Path], top: int, json_file: Path | None, output: Path | None) -> None:
    """Write the reports of profiles one below the other, and their JSON, one line each.

    Parameters
    ----------
    top
        Rows in each table.
    json_file
        Where the JSON goes; None: nowhere. Where that is stdout, the report is not written there.
    output
        Where the report goes; None: to stdout.

    Raises
    ------
    UsageError
        If a profile cannot be read, or something cannot be written.
    """
    from profiler.reports import run_json, text

    measurements = list(map(profile_options.load_profile, profiles))

    def report(width: int, color: bool) -> str:
        return "\n".join(text.render(each, top, width, color) for each in measurements)

    program_options.write_json(lambda: "".join(map(run_json.render, measurements)), json_file)
    if json_file != STANDARD_STREAM or output is not None:
        profile_options.show(report, output)
