"""Options, loading and writing of the commands that read saved profiles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from simprof.profiler.commands import options
from simprof.profiler.commands.options import Decorator, together
from simprof.profiler.request.request import Phase

if TYPE_CHECKING:
    from simprof.profiler.profiles.profile import RunMeasurement

_LARGE = 1 << 19  # Bytes of a profile that takes more than a moment to read

# A file that `simprof run -o` has written
profile_argument = click.argument("profile", type=options.PATH, metavar="PROFILE")

program_option = together(
    options.option(
        "--program FILE",
        "The program that ran, if it has moved, or as it was before it was stripped.  [default: as "
        "the profile says]",
        options.PATH,
        name="elf",
    ),
    options.debug_dir_option,
)

# Options that choose routines of a profile: `routines` and `exclude`, of globs
routine_options = together(
    *options.glob_options("Only routines", "No routine", "of which a name matches")
)

# Options that choose and sort rows of a listing
row_options = together(
    options.option(
        "--file GLOB",
        "Only code from source files whose path, or its last part, matches; repeatable.",
        name="files",
        multiple=True,
    ),
    options.option(
        "--min-count N",
        "Executed at least N times; 0 shows what never was, too.  [default: 1; in CSV and JSON 0]",
        options.WholeNumber(0),
        name="least",
    ),
    options.option(
        "--sort COLUMN",
        "Sort by a column, as its heading or CSV names it.  [default: added, executions or "
        "instructions]",
    ),
    options.option("--ascending", "Begin with the smallest.  [default: for texts]"),
    options.option("--descending", "Begin with the largest.  [default: for numbers]"),
)


def form_options(remark: str = "") -> Decorator:
    """Return the options that say in which form something is written, and where.

    `remark`: What CSV and JSON have that text has not: ", which has all differences".
    """
    return together(
        options.option("--csv", f"Write CSV{remark}.", name="as_csv"),
        options.option("--json", f"Write JSON{remark}.", name="as_json"),
        options.output_option("FILE", "Write there, not to stdout."),
    )


def source_directory(value: str) -> tuple[str, str]:
    """Return the two directories of `FROM=TO`."""
    before, equals, now = value.partition("=")
    if not before or not equals or not now:
        raise click.BadParameter(f"{value!r} is not of the form FROM=TO")
    return before, now


source_dir_option = options.option(
    "--source-dir FROM=TO",
    "Look for source files below directory FROM in directory TO; repeatable, the first that "
    "fits is used.",
    source_directory,
    name="moved",
    multiple=True,
)


def load_profile(path: Path) -> RunMeasurement:
    """Return a saved profile; a bar says that a large one is being read."""
    from simprof.profiler.profiles.storage import load

    if not path.is_file() or path.stat().st_size < _LARGE:
        return load(path)
    from simprof.profiler.commands.progress import phase_bar

    with phase_bar(None, Phase.READING):
        return load(path)
