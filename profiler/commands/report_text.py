"""From saved profiles to the report that `simprof run` printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from simprof.profiler.commands import profile_options, program_options
from simprof.profiler.commands.options import STANDARD_STREAM
from simprof.simulator.errors import UsageError


class Extent(NamedTuple):
    """How much a report shows."""

    top: int | None = None  # Rows of its tables; None: as many as is usual.
    details: bool = False  # Whether everything
    follow: str | None = None  # Routine whose calls are shown as a tree


def write(
    profiles: Sequence[Path], extent: Extent, json_file: Path | None, output: Path | None
) -> None:
    """Write the reports of profiles one below the other, and their JSON, one line each.

    - `extent`: How much is shown.
    - `json_file`: Where the JSON goes; None: nowhere. Where that is stdout, the report is not
      written there.
    - `output`: Where the report goes; None: to stdout.

    Raises
    ------
    UsageError
        If a profile cannot be read, or has no call tree to follow calls in, or something cannot be
        written.
    """
    from simprof.profiler.reports import run_json, run_text

    measurements = list(map(profile_options.load_profile, profiles))
    for path, each in zip(profiles, measurements, strict=True):
        if extent.follow is not None and each.call_tree is None:
            raise UsageError(
                f"--follow {extent.follow}: {path} has no call tree: record it by "
                "`simprof run --call-tree -o PROFILE`"
            )

    def report(width: int, color: bool) -> str:
        return "\n".join(
            run_text.render(each, extent.top, width, color, extent.details, extent.follow)
            for each in measurements
        )

    program_options.write_json(lambda: "".join(map(run_json.render, measurements)), json_file)
    if json_file != STANDARD_STREAM or output is not None:
        profile_options.show(report, output)
