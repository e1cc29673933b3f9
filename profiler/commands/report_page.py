"""From saved profiles to the page that `simprof show --html` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simprof.profiler.commands.progress import Callback, progress_bar, ready_engine, tell, wanted
from simprof.profiler.request.request import Phase

if TYPE_CHECKING:
    from simprof.profiler.profiles.profile import RunMeasurement
    from simprof.profiler.reports.html.report import ReportRun
    from simprof.profiler.session.planned_again import PlannedProgram


@dataclass(frozen=True)
class GivenPlaces:
    """Where the user says that things are."""

    elf: Path | None = None  # The program; None: where it was when it ran.
    # (directory when the program was compiled, directory now)
    sources: tuple[tuple[str, str], ...] = ()


def write(
    paths: Sequence[Path],
    output: Path,
    places: GivenPlaces = GivenPlaces(),
    progress: bool | None = None,
) -> None:
    """Write a page about profiles.

    - `paths`: The profiles.
    - `output`: The page; `-` is stdout.
    - `places`: Where other files are.
    - `progress`: Whether to show a bar; None: on a terminal.

    Raises
    ------
    UsageError
        If a profile cannot be read, or the page cannot be written. Nothing is written then.
    """
    from simprof.profiler.commands import profile_options, streams
    from simprof.profiler.commands.options import STANDARD_STREAM
    from simprof.profiler.profiles.output import write_atomically
    from simprof.profiler.profiles.program_files import SourceFiles
    from simprof.profiler.profiles.storage import load
    from simprof.profiler.reports.html import report

    with progress_bar(wanted(progress)) as watch:
        measurements = []
        for done, path in enumerate(paths):
            tell(watch, Phase.READING, done, len(paths))
            measurements.append(load(path))
        ready_engine(progress)
        names = distinct(paths, measurements)
        runs = [
            _run(name, measurement, path, places.elf, watch)
            for name, measurement, path in zip(names, measurements, paths, strict=True)
        ]
        sources = SourceFiles(places.sources)
        page = report.render(
            runs,
            sources,
            lambda done, total: tell(watch, Phase.WRITING, done, total),
        )
    files = frozenset[str]().union(*(run.counts.source_files for run in runs))
    profile_options.write_notes(sources.unused(files))
    if output == STANDARD_STREAM:
        streams.write(streams.STDOUT, page)
    else:
        from simprof.profiler.reports.display import bytes_shown

        write_atomically(output, bytes_shown(page).encode(errors="backslashreplace"))


def distinct(paths: Sequence[Path], measurements: Sequence[RunMeasurement]) -> list[str]:
    """Return a short name for each profile: its mode where that tells them apart."""
    from simprof.profiler.reports.display import visible

    modes = [measurement.mode for measurement in measurements]
    if len(set(modes)) == len(modes):
        return modes
    stems = [visible(path.stem) for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    return [f"{number}: {visible(str(path))}" for number, path in enumerate(paths, 1)]


def _run(
    name: str, measurement: RunMeasurement, path: Path, elf: Path | None, watch: Callback | None
) -> ReportRun:
    """Return a profile with what its program's file tells besides, or why that is missing."""
    from simprof.profiler.profiles.cache_files import binaries, is_wanted
    from simprof.profiler.profiles.lines import SourceCounts
    from simprof.profiler.profiles.program_files import find_program
    from simprof.profiler.reports.html.report import ReportRun
    from simprof.profiler.session.memory import BinaryMemory
    from simprof.profiler.session.planned_again import Watch, plan_again

    found = find_program(measurement, elf, path)
    counts = SourceCounts(measurement, found.program)
    if found.program is None:
        note = f"instructions and added code are not shown: {found.note}"
        return ReportRun(name, counts, None, (note, *counts.notes))
    memory = BinaryMemory(found.program, binaries() if is_wanted() else None)
    watched = Watch(
        recovering=lambda done, total: tell(watch, Phase.RECOVERING, done, total),
        generating=lambda done, total: tell(watch, Phase.GENERATING, done, total),
    )
    planned = plan_again(measurement, found.program, memory, watched)
    return ReportRun(name, counts, planned, (*_notes(measurement, planned), *counts.notes))


def _notes(measurement: RunMeasurement, planned: PlannedProgram) -> Iterator[str]:
    from simprof.profiler.reports.display import plural
    from simprof.profiler.schemes import registry

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
