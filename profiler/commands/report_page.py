"""From saved profiles to the page that `simprof report --html` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.errors import SimulatorError

if TYPE_CHECKING:
    from profiler.profiles.profile import Measurement
    from profiler.reports.html.report import Run
    from profiler.session.planned_again import PlannedProgram
    from simulator.binary.program import Program


def write(paths: Sequence[Path], output: Path, moved: Mapping[str, str] = {}) -> None:
    """Write a page about profiles.

    Parameters
    ----------
    paths
        The profiles.
    output
        The page.
    moved
        Beginnings of names of source files, and what they are now (`SourceTexts`).

    Raises
    ------
    UsageError
        If a profile cannot be read, or the page cannot be written. Nothing is written then.
    """
    from profiler.commands import streams
    from profiler.commands.options import STANDARD_STREAM
    from profiler.engine import kernel_cache
    from profiler.profiles.output import write_atomically
    from profiler.profiles.storage import load
    from profiler.reports.html import report
    from profiler.reports.html.texts import SourceTexts

    measurements = [load(path) for path in paths]
    kernel_cache.ensure()
    programs = _Programs()
    names = distinct([str(path) for path in paths], measurements)
    runs = [programs.run(name, each) for name, each in zip(names, measurements, strict=True)]
    page = report.render(runs, SourceTexts(moved))
    if output == STANDARD_STREAM:
        streams.write(streams.STDOUT, page)
    else:
        write_atomically(output, page.encode())


def distinct(paths: Sequence[str], measurements: Sequence[Measurement]) -> list[str]:
    """Return a short name for each profile: its mode where that tells them apart."""
    from profiler.reports.display import visible

    modes = [measurement.mode for measurement in measurements]
    if len(set(modes)) == len(modes):
        return modes
    stems = [visible(Path(path).stem) for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    return [f"{number}: {visible(path)}" for number, path in enumerate(paths, 1)]


class _Programs:
    """The programs of profiles, each loaded once."""

    def __init__(self) -> None:
        self._loaded: dict[str, Program | str] = {}

    def run(self, name: str, measurement: Measurement) -> Run:
        """Return a profile with what its program's file tells besides, or why that is missing."""
        from profiler.reports.html.report import Run
        from profiler.session.planned_again import plan_again

        program = self._program(measurement)
        if isinstance(program, str):
            return Run(name, measurement, None, program)
        planned = plan_again(measurement, program)
        return Run(name, measurement, planned, _note(measurement, planned))

    def _program(self, measurement: Measurement) -> Program | str:
        """Return the program of a profile, or why it is not there."""
        from simulator.binary.elf import load

        said = measurement.program
        key = f"{said.file} {said.sha256}"
        if key not in self._loaded:
            try:
                program = load(Path(said.file))
            except (SimulatorError, OSError, ValueError) as error:
                self._loaded[key] = f"no code is shown, for the program is not there: {error}"
            else:
                same = program.sha256 == said.sha256
                self._loaded[key] = (
                    program
                    if same
                    else f"no code is shown, for {said.file} is not the program that ran any more"
                )
        return self._loaded[key]


def _note(measurement: Measurement, planned: PlannedProgram) -> str:
    from profiler.reports.numbers import plural

    if planned.reason is not None:
        return f"the instrumentation is not shown: {planned.reason}"
    unknown = len(measurement.routines) - len(planned.routines)
    parts = []
    if unknown:
        parts.append(f"no code is shown of {plural(unknown, 'routine')}: the file does not tell it")
    other = planned.without_code
    if other and _instruments(measurement):
        parts.append(
            f"the instrumentation of {plural(other, 'routine')} is not shown: made again, it differs"
        )
    return "; ".join(parts)


def _instruments(measurement: Measurement) -> bool:
    from profiler.schemes import registry

    scheme = registry.find(measurement.mode)
    return scheme is not None and scheme.instruments
