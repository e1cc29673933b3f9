"""From saved profiles to the page that `simprof report --html` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profiler.profiles.profile import Measurement
    from profiler.reports.html.report import Run
    from profiler.session.planned_again import PlannedProgram


@dataclass(frozen=True)
class Places:
    """Where the user says that things are.

    Attributes
    ----------
    elf
        The program; None: where it was when it ran.
    sources
        (directory when the program was compiled, directory now).
    """

    elf: Path | None = None
    sources: tuple[tuple[str, str], ...] = ()


def write(paths: Sequence[Path], output: Path, places: Places = Places()) -> None:
    """Write a page about profiles.

    Raises
    ------
    UsageError
        If a profile cannot be read, or the page cannot be written. Nothing is written then.
    """
    from profiler.commands import streams
    from profiler.commands.options import STANDARD_STREAM
    from profiler.engine import kernel_cache
    from profiler.profiles.output import write_atomically
    from profiler.profiles.program_files import SourceFiles
    from profiler.profiles.storage import load
    from profiler.reports.html import report

    measurements = [load(path) for path in paths]
    kernel_cache.ensure()
    names = distinct(paths, measurements)
    runs = [
        _run(name, measurement, path, places.elf)
        for name, measurement, path in zip(names, measurements, paths, strict=True)
    ]
    page = report.render(runs, SourceFiles(places.sources))
    if output == STANDARD_STREAM:
        streams.write(streams.STDOUT, page)
    else:
        write_atomically(output, page.encode())


def distinct(paths: Sequence[Path], measurements: Sequence[Measurement]) -> list[str]:
    """Return a short name for each profile: its mode where that tells them apart."""
    from profiler.reports.display import visible

    modes = [measurement.mode for measurement in measurements]
    if len(set(modes)) == len(modes):
        return modes
    stems = [visible(path.stem) for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    return [f"{number}: {visible(str(path))}" for number, path in enumerate(paths, 1)]


def _run(name: str, measurement: Measurement, path: Path, elf: Path | None) -> Run:
    """Return a profile with what its program's file tells besides, or why that is missing."""
    from profiler.profiles.lines import SourceCounts
    from profiler.profiles.program_files import find_program
    from profiler.reports.html.report import Run
    from profiler.session.planned_again import plan_again

    found = find_program(measurement, elf, path)
    counts = SourceCounts(measurement, found.program)
    if found.program is None:
        note = f"instructions and added code are not shown: {found.note}"
        return Run(name, counts, None, (note, *counts.notes))
    planned = plan_again(measurement, found.program)
    return Run(name, counts, planned, (*_notes(measurement, planned), *counts.notes))


def _notes(measurement: Measurement, planned: PlannedProgram) -> Iterator[str]:
    from profiler.reports.numbers import plural
    from profiler.schemes import registry

    if planned.reason is not None:
        yield f"added code is not shown: {planned.reason}"
        return
    scheme = registry.find(measurement.mode)
    if scheme is not None and scheme.instruments:
        unknown = len(measurement.routines) - len(planned.routines) + planned.without_code
        if unknown:
            yield (
                f"added code is not shown of {plural(unknown, 'routine')}: what the program's file "
                "gives now is not what the profile says of it"
            )
