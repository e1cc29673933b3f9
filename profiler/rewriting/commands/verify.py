"""`simprof verify`: predict, instrument, run, compare."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from simprof.profiler.commands import options, outputs, program_options, streams
from simprof.profiler.commands.help import RUNS, in_sections
from simprof.profiler.commands.modes import (
    all_modes,
    collect,
    guide_lacks,
    mode_option,
    refuse_unused,
    scheme_options,
    settings,
    tell_left_out,
)
from simprof.profiler.commands.program_words import with_program
from simprof.profiler.commands.progress import progress_bar, ready_engine
from simprof.profiler.request.request import RunRequest, SchemeOptions, Selection
from simprof.profiler.request.weights import Weights
from simprof.profiler.rewriting.commands.instrument import NEEDS_ALL
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.mode_options import ModeSetting
from simprof.simulator.errors import UsageError

WAYS = ("emulator", "qemu")


class VerificationError(UsageError):
    """An instrumented program did something else than was predicted."""


def ways(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the ways to run of a list such as "emulator,qemu"."""
    if not isinstance(value, str):
        return tuple(value)
    named = tuple(name.strip() for name in value.split(","))
    for name in named:
        if name not in WAYS:
            raise click.BadParameter(
                f"{name!r} is not a place to run: choose from {', '.join(WAYS)}"
            )
    return tuple(dict.fromkeys(named))


@click.command("verify", cls=with_program(in_sections(RUNS)))
@click.argument("elf", type=options.PATH)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARG...]")
@mode_option("Schemes to verify (default: all but edges)")
@click.option(
    "--on",
    "run_on",
    type=ways,
    default=",".join(WAYS),
    show_default=True,
    metavar="emulator,qemu",
    help="Where to run instrumented programs. Without qemu-user installed, the emulator only.",
)
@options.selection_options("Instrument")
@options.weights_option
@scheme_options("saved profile of the same program that guides it.  [default: a first run]")
@options.json_option("Write the result as JSON; - is stdout.")
@options.report_option()
@options.stdin_option("The program's input.")
@click.option(
    "--root",
    type=options.PATH,
    metavar="DIR",
    help="Directory whose files the program sees; every run gets a copy of it, to read and to "
    "write. It starts in the current one where that is below DIR, else in DIR.  [default: the "
    "current one, of which only the files that it opens are copied]",
)
@click.option(
    "--without-run",
    is_flag=True,
    help="Instrument as `simprof instrument` does without ARG: by what ELF shows, not by a run.",
)
@options.env_option("the program, which inherits none")
@program_options.argv0_option
@options.option(
    "--exe PATH",
    "The path of the program's file, as run has it: what argv[0] is called by, and where the stack "
    "begins. The program itself finds its file where the copy is.  [default: as in run]",
)
@options.jobs_option("schemes")
@options.debug_dir_option
@options.progress_option
@options.timeout_option("Give up after so much time in one run.")
def verify_command(
    elf: Path,
    arguments: tuple[str, ...],
    modes: tuple[ModeSetting, ...] | None,
    run_on: tuple[str, ...],
    weights: Weights | Path,
    **chosen: Any,
) -> int:
    """Run the SPARC program ELF with the code of each scheme in its place, and compare.

    What is run is the file that `simprof instrument ELF -- ARG...` writes. Its output, its counters
    and the number of instructions executed must be what was predicted, to the last one; then the
    exit status is 0, else 125, also where something of it could not be compared. The program's own
    output is not shown.
    """
    scheme = collect(chosen, weights)
    json_file, report, given = chosen["json_file"], chosen["report"], chosen["stdin_file"]
    outputs.check_outputs(json_file, report, inputs=(elf, given, *options.profiles(scheme)))
    guest = program_options.unseen_guest(elf, chosen)
    selection = options.selection(chosen)
    named, left_out = (modes, ()) if modes else all_modes()
    taken, omitted = _modes(
        named, selection, scheme, without_run=chosen["without_run"], refuses=bool(modes)
    )
    verified = settings(taken, scheme)
    refuse_unused(mode.mode for mode in taken)
    tell_left_out(left_out)

    ready_engine(chosen["progress"])
    from simprof.profiler.profiles.cache_files import is_wanted
    from simprof.profiler.profiles.scratch import scratch_directory
    from simprof.profiler.reports.run_text import failure_text
    from simprof.profiler.rewriting.reports import verify_json, verify_text
    from simprof.profiler.rewriting.trials import copy_opened
    from simprof.profiler.rewriting.verify import verify

    with scratch_directory("simprof-verify-root-") as opened:
        request = RunRequest(
            program=elf,
            guest=guest,
            arguments=tuple(map(os.fsencode, arguments)),
            selection=selection,
            remember=is_wanted(),
        )
        if chosen["root"] is None:
            copy_opened(request, opened)
            guest = replace(guest, root=opened, working=opened, exe=guest.exe_of(elf))
            request = replace(request, guest=guest)
        with progress_bar(chosen["progress"]) as progress:
            watched = replace(request, progress=progress)
            jobs = options.processors(chosen["jobs"])
            without_run = chosen["without_run"]
            result = verify(watched, verified, run_on, jobs=jobs, without_run=without_run)
    result = replace(result, skipped={**result.skipped, **omitted})
    outputs.write_json(partial(verify_json, result), json_file)
    outputs.write_report(partial(verify_text, result), report)
    if (result.ending.reason, result.ending.status) != ("exit", 0):
        streams.write(streams.STDERR, f"{failure_text(str(elf), result.ending)}\n")
    if not result.passed:
        failed = ", ".join(mode.setting.name for mode in result.modes if mode.differences)
        raise VerificationError(f"{elf}: not as predicted under {failed}")
    if not result.is_complete:
        partly = ", ".join(mode.setting.name for mode in result.modes if mode.not_compared)
        raise VerificationError(f"{elf}: nothing differs, but not all was compared under {partly}")
    return 0


def _modes(
    modes: tuple[ModeSetting, ...],
    selection: Selection,
    options: SchemeOptions,
    *,
    without_run: bool,
    refuses: bool,
) -> tuple[tuple[ModeSetting, ...], dict[str, str]]:
    """Return the modes to verify, and those that are left out with the reason.

    `refuses`: whether there must be none of these, as the user has named the modes.
    """
    guided = without_run and options.edge_profile is None
    omitted: dict[str, str] = {}
    for mode in modes:
        scheme = registry.definition(mode.mode)
        if scheme.writes_trace and not selection.is_all:
            omitted[mode.name] = NEEDS_ALL
        elif scheme.guided and guided:
            omitted[mode.name] = guide_lacks(scheme)
    if refuses and omitted:
        name, why = next(iter(omitted.items()))
        raise UsageError(f"{name}: {why}")
    return tuple(mode for mode in modes if mode.name not in omitted), omitted
