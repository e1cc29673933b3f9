"""`simprof run`: run a program under one scheme and report what it measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from simprof.profiler.commands import modes, options, outputs, program_options, streams
from simprof.profiler.commands.help import RUNS, in_sections
from simprof.profiler.commands.program_words import with_program
from simprof.profiler.request.request import DEFAULT_MODE
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.mode_options import ModeSetting
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.profiles.profile import RunMeasurement


@click.command("run", cls=with_program(in_sections(RUNS)))
@click.option(
    "--mode",
    type=modes.OneMode(several="simprof compare"),
    multiple=True,
    callback=modes.one_mode,
    metavar=modes.METAVAR,
    default=(DEFAULT_MODE,),
    show_default=DEFAULT_MODE,
    help=f"Scheme. {modes.modes_by_kind()}; edges counted by the emulator at no cost: edges. "
    "`simprof compare` shows all of them.",
)
@options.weights_option
@modes.scheme_options(
    "saved profile (-o) of the same program that guides it.  [default: a first run]"
)
@program_options.program_options
@program_options.context_options
@program_options.FOLLOW
@options.extent_options()
@options.output_option("PROFILE", "Save the profile to a file.")
@options.option(
    "--trace FILE",
    modes.named(lambda scheme: scheme.writes_trace)
    + ": write the trace there, for `simprof read`.",
    options.PATH,
)
def run_command(
    elf: str | None,
    arguments: tuple[str, ...],
    mode: ModeSetting,
    weights: Weights | Path,
    output: Path | None,
    trace: Path | None,
    follow: str | None,
    **chosen: Any,
) -> int:
    """Run the SPARC program ELF and measure what profiling it costs.

    The program owns stdin, stdout and stderr, and its exit status is simprof's. The report goes
    to stderr. simprof's own failures exit 125, a limit that was reached 124, a fault or signal
    128 plus its number.

    Options after ELF are simprof's up to the first word that is none of them; from there, or
    after --, everything is the program's.

    The program sees the files below --root as its / (by default the current directory), the
    variables of --env alone, and a clock that begins on 1 January 2026 and moves with the
    instructions that it executes.
    """
    modes.refuse_unused([mode.mode])
    scheme = mode.setting(modes.collect(chosen, weights)).options
    elf = program_options.program_file(elf, arguments, chosen)
    program_options.check_files(elf, chosen, output, trace, inputs=options.profiles(scheme))
    definition = registry.definition(mode.mode)
    if trace is not None and definition.traces_paths:
        raise UsageError(
            f"--trace {trace}: `simprof run` keeps no trace of {mode.mode}: instrument the program "
            "with `simprof instrument`, and read its FILE.trace with `simprof read FILE`"
        )
    if not definition.writes_trace and trace is not None:
        tracing = " or ".join(registry.trace_modes())
        raise UsageError(f"--trace {trace}: {mode.mode} writes no trace: use --mode {tracing}")
    request = program_options.make_request(elf, arguments, chosen)
    contexts = program_options.contexts(chosen, follow)
    if trace is not None and chosen["entry"] is not None:
        raise UsageError("--trace with --entry: a trace is of a whole run; leave one of them out")
    with program_options.watched(request, program_options.progress(chosen)) as watched:
        from simprof.profiler.session.session import run_program

        wanted = replace(watched, mode=mode.mode, scheme=scheme, trace=trace, contexts=contexts)
        measurement = run_program(wanted)
    write_results(measurement, chosen, output, follow)
    return measurement.ending.code


def write_results(
    measurement: RunMeasurement,
    chosen: Mapping[str, Any],
    output: Path | None,
    follow: str | None = None,
) -> None:
    """Save the profile, write the JSON, and show the report, in this order."""
    from simprof.profiler.reports import run_text

    if output is not None:
        from simprof.profiler.profiles.storage import save

        save(measurement, output)
    outputs.write_json(partial(_json_pieces, measurement), chosen["json_file"])
    render = partial(run_text.render, measurement, chosen["top"])
    render = partial(render, details=chosen["details"], follow=follow)
    # `simprof show` and a replayed run print nothing before.
    printed = chosen.get("replay", Path()) is None
    quiet = chosen.get("quiet", False)
    outputs.write_report(render, chosen["report"], quiet, after_output=printed)


def _json_pieces(measurement: RunMeasurement) -> Iterable[str]:
    from simprof.profiler.reports import run_json  # most runs write none

    return run_json.pieces(measurement)


@click.command("record", cls=with_program(in_sections(RUNS)))
@program_options.recorded_options
@options.output_option("RUN", "The recording.", required=True)
def record_command(elf: str, arguments: tuple[str, ...], output: Path, **chosen: Any) -> int:
    """Run the SPARC program ELF and record what its system calls are answered.

    `simprof run --replay RUN`, `compare`, `sweep` and `table` then repeat the run under any scheme.
    They need the program's file and its libraries, but not its input. The program owns stdin,
    stdout and stderr, and its exit status is simprof's, as with `simprof run`.
    """
    chosen |= {"report": None, "json_file": None, "exclude": (), "user_only": False}
    chosen["self_check"] = False
    program_options.check_files(elf, chosen, output)
    request = program_options.make_request(elf, arguments, chosen)
    with program_options.watched(request, chosen["progress"]) as watched:
        from simprof.profiler.session.recordings import record_program

        result = record_program(watched, output)
    size = output.stat().st_size
    text = f"{output}: {result.instructions:,} instructions in {size:,} bytes\n"
    streams.write(streams.STDERR, text)
    return result.status
