"""`simprof instrument`: write a program with a scheme's code in its place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from simprof.profiler.commands import modes, options, outputs, program_options
from simprof.profiler.commands.help import RUNS, in_sections
from simprof.profiler.commands.program_words import WithArguments, arguments_of
from simprof.profiler.commands.progress import progress_bar, ready_engine
from simprof.profiler.request import request
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import ProfileKind
from simprof.profiler.schemes.mode_options import ModeSetting
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.rewriting.instrument import Instrumented

NEEDS_ALL = "a trace needs all routines: leave out --routine, --exclude and --user-only"
ONLY_BLOCKS = (
    "counts blocks, from which `simprof read` cannot derive how often edges were crossed: for a "
    "profile use a mode that counts edges or paths, such as qpt2"
)
_OF_THE_RUN = ("stdin_file", "root", "writable", "environment", "argv0", "exe", "timeout")


@click.command("instrument", cls=in_sections(RUNS, WithArguments))
@click.argument("elf", type=options.PATH, metavar="ELF [-- ARG...]")
@click.option(
    "--mode",
    type=modes.OneMode(planned=True),
    multiple=True,
    callback=modes.one_mode,
    metavar=modes.METAVAR,
    required=True,
    help="The scheme.",
)
@click.option(
    "-o", "--output", type=options.PATH, metavar="OUT", required=True, help="The new program."
)
@options.selection_options("Instrument")
@options.weights_option
@modes.scheme_options("saved profile (`simprof run -o`) that guides it; needed without a run.")
@click.option(
    "--run",
    "runs",
    is_flag=True,
    help="Run ELF first, to see where its jumps lead and to guide tpp.  [default: if ARG... or "
    "another option of the run is given]",
)
@options.stdin_option("The run's input.")
@click.option(
    "--root",
    type=options.PATH,
    metavar="DIR",
    help="The directory that the run may read. It starts in the current one where that is below "
    "DIR, else in DIR.  [default: the current one]",
)
@click.option("--writable", type=options.PATH, metavar="DIR", help="Let the run write below DIR.")
@options.env_option("the run, which inherits none")
@program_options.argv0_option
@program_options.exe_option
@options.timeout_option("Give up after so much time in the run.")
@options.json_option("Write what was done as JSON; - is stdout.")
@options.report_option()
@options.debug_dir_option
@options.progress_option
@click.pass_context
def instrument_command(
    ctx: click.Context,
    /,
    elf: Path,
    mode: ModeSetting,
    output: Path,
    weights: Weights | Path,
    json_file: Path | None,
    report: Path | None,
    **chosen: Any,
) -> int:
    """Write OUT: the SPARC program ELF with the code of a scheme in its place.

    OUT behaves as ELF and, when it exits, writes its counters to the file that SIMPROF_OUT names
    (simprof.out), which `simprof read` makes a profile of. It runs wherever ELF runs.

    With ARG... ELF is run first, and its output is not shown. Routines can then be instrumented
    that jump where only a run tells, as interpreters do; where OUT jumps elsewhere, it stops and
    says so.
    """
    setting, given = mode.setting(modes.collect(chosen, weights)), chosen["stdin_file"]
    scheme, definition = setting.options, registry.definition(mode.mode)
    arguments = arguments_of(ctx)
    modes.refuse_unused([mode.mode])
    outputs.check_outputs(json_file, output, report, inputs=(elf, given, *options.profiles(scheme)))
    if output == outputs.STANDARD_STREAM:
        raise UsageError("only --json and --report can write to stdout (-): name a file")
    selection = options.selection(chosen)
    if definition.writes_trace and not selection.is_all:
        raise UsageError(f"{mode.mode}: {NEEDS_ALL}")
    from simprof.profiler.session.observation import planning_options

    kind = definition.collected(planning_options(scheme, selection))
    is_run = bool(chosen["runs"] or arguments or any(chosen[name] for name in _OF_THE_RUN))
    if definition.guided and scheme.edge_profile is None and not is_run:
        raise UsageError(f"{mode.mode} {modes.guide_lacks(definition)}, or let it run (--run)")
    from simprof.profiler.profiles.fingerprint import known_sha256
    from simprof.profiler.profiles.output import write_atomically
    from simprof.profiler.rewriting.instrument import instrument_file
    from simprof.profiler.rewriting.reports import instrument_json, instrument_text

    with progress_bar(chosen["progress"]) as watch:
        made = (
            _after_run(elf, arguments, setting, selection, chosen, watch)
            if is_run
            else instrument_file(elf, setting, selection, watch)
        )
    write_atomically(output, made.file)
    if output.is_file():  # what else there may be, such as a device, keeps its permissions
        output.chmod(output.stat().st_mode | elf.stat().st_mode & 0o111)
    made = replace(made, program=replace(made.program, file=str(elf), arguments=arguments))
    digest = known_sha256(given or Path(os.devnull)) if is_run else None
    facts = (output, setting, made)
    outputs.write_json(partial(instrument_json, *facts, selection, digest), json_file)
    outputs.write_report(partial(instrument_text, *facts), report)
    if kind is ProfileKind.BLOCKS:
        outputs.write_notes([f"{mode.name} {ONLY_BLOCKS}"])
    return 0


def _after_run(
    elf: Path,
    arguments: tuple[str, ...],
    setting: request.Setting,
    selection: request.Selection,
    chosen: Mapping[str, Any],
    watch: request.ProgressCallback | None,
) -> Instrumented:
    from simprof.profiler.rewriting.instrument import instrument_after_run

    guest = program_options.unseen_guest(elf, chosen)
    ready_engine(chosen["progress"])
    with Path(os.devnull).open("wb") as nowhere:
        guest = replace(guest, stdout=nowhere.fileno(), stderr=nowhere.fileno())
        return instrument_after_run(
            request.RunRequest(
                program=elf,
                guest=guest,
                arguments=tuple(map(os.fsencode, arguments)),
                mode=setting.mode,
                scheme=setting.options,
                selection=selection,
                progress=watch,
            )
        )
