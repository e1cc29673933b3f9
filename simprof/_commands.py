"""Commands as functions: what they write is what is returned."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from simprof._arguments import execute
from simprof._checks import file_path, public, words
from simprof._graphs import GraphOptions, StrPath, plan
from simprof.profiler.profiles import storage
from simprof.profiler.profiles.profile import RunMeasurement

if TYPE_CHECKING:
    from simprof._results import Measurement


@public
def explain(graph: Any, mode: str = "pp", **options: Unpack[GraphOptions]) -> str:
    """Explain on a graph what a scheme computes, step by step; parameters and errors as of `plan`.

    Examples
    --------
    >>> import simprof
    >>> figure = {"entry": "A", "exit": "C", "edges": [["A", "B"], ["A", "C"], ["B", "C"]]}
    >>> print(simprof.explain(figure)[:76])
    graph, step by step: pp
    <BLANKLINE>
    1. The graph
    3 blocks and 5 edges, those from ENTRY
    """
    from simprof.profiler.graphfiles.lesson import lesson
    from simprof.profiler.reports.graph_run import render_lesson

    return render_lesson(lesson(plan(graph, mode, **options).answer), width=100)


@public
def diff(
    before: Measurement | StrPath, after: Measurement | StrPath, **options: Any
) -> dict[str, Any]:
    """Compare two profiles, measured or saved; return what `simprof diff --json` writes.

    `options`: Those of `simprof diff`. Raises SimprofError as `load`.

    Examples
    --------
    >>> import simprof
    >>> first, second = (simprof.run("fixtures/bin/v9/sieve.elf", mode) for mode in ("pp", "qpt2"))
    >>> simprof.diff(first, second)["instructions"]["added"]
    [3293685, 3043168]
    """
    from simprof.profiler.commands.several_profiles import diff_command

    with tempfile.TemporaryDirectory() as place:
        files = [_saved(each, Path(place, str(at))) for at, each in enumerate((before, after))]
        return _document(diff_command, files, options, place)


@public
def export(profile: Measurement | StrPath, format: str, **options: Any) -> bytes:
    """Return a profile, measured or saved, in the format of another tool.

    `format`, `options`: Those of `simprof export`. Raises SimprofError as `load`, and if there is
    no such format, or the profile has not what it needs.

    Examples
    --------
    >>> import simprof
    >>> measurement = simprof.run("fixtures/bin/v9/sieve.elf")
    >>> simprof.export(measurement, "csv").decode().splitlines()[0][:36]
    'routine,symbol,module,routine_addres'
    """
    from simprof.profiler.commands.export import export_command

    with tempfile.TemporaryDirectory() as place:
        output = Path(place, "output")
        file = _saved(profile, Path(place, "profile"))
        execute(export_command, [file], {"format": format, **options}, output)
        return output.read_bytes()


@public
def table(*names: str, **options: Any) -> dict[str, Any]:
    """Make tables of the papers, by name; return what `simprof table --json` writes.

    `options`: Those of `simprof table`, such as `suite`; those of one table are `rows` of its
    object in `tables`. Programs that fail are warnings. Raises SimprofError if there is no such
    table or suite.
    """
    from simprof.profiler.experiments.commands.table import table_command

    with tempfile.TemporaryDirectory() as place:
        return _document(table_command, names, options, place)


@public
def sweep(output: StrPath, grid: StrPath | Sequence[StrPath] = (), **options: Any) -> Path:
    """Run a grid of programs, modes and options into a results file, and return its path.

    - `output`: An SQLite file; what is in it is not run again.
    - `grid`: A file that describes it, or programs.
    - `options`: Those of `simprof sweep`.

    Cells that fail are warnings. Raises SimprofError if the grid cannot be run.
    """
    from simprof.profiler.experiments.commands.sweep import sweep_command

    files = (
        [grid] if isinstance(grid, str) or not isinstance(grid, Sequence) else words(grid, "grid")
    )
    path = file_path(output, "output")
    execute(sweep_command, files, options, path)
    return path


def _document(
    command: Any, arguments: Sequence[Any], options: Mapping[str, Any], place: str
) -> dict[str, Any]:
    """Return the JSON document that a command writes."""
    output = Path(place, "output")
    execute(command, arguments, options, output, "--json")
    document: dict[str, Any] = json.loads(output.read_text())
    return document


def _saved(profile: Any, file: Path) -> Path:
    """Return the file of a profile, which is written if it is only measured."""
    if not isinstance(profile, RunMeasurement):
        return file_path(profile, "profile")
    storage.save(profile, file)
    return file
