"""Arguments and options of every command that runs a program: what it sees, what it may use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from simprof.profiler.commands import options, streams
from simprof.profiler.commands.options import given, together
from simprof.profiler.commands.outputs import STANDARD_STREAM, check_outputs
from simprof.profiler.profiles import cache_files
from simprof.profiler.request.request import ContextChoice, GuestOptions, RunRequest, seen_file
from simprof.simulator.binary.dynamic import DEFAULT_SYSROOT
from simprof.simulator.binary.program import Platform
from simprof.simulator.errors import UsageError

_ARGUMENTS = click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARG...]")
_PROGRAM = [click.argument("elf", type=options.PROGRAM), _ARGUMENTS]
_PROGRAM_OR_REPLAY = [
    click.argument("elf", type=options.PROGRAM, required=False),
    _ARGUMENTS,
    options.option(
        "--replay RUN",
        "Repeat the run that `simprof record` has kept there: the program gets the answers that "
        "it had then, touches no file and prints nothing.",
        options.PATH,
    ),
]
_RESULTS = [
    options.selection_options("Profile"),
    options.json_option(
        "Write the result as JSON; - is stdout (the program's stdout then goes to stderr)."
    ),
    options.report_option(" (the program's stdout then goes to stderr)"),
    click.option(
        "-q",
        "--quiet",
        is_flag=True,
        help="No report and no progress: only the files that other options ask for. Errors stay.",
    ),
]
argv0_option = options.option(
    "--argv0 NAME",
    "The program's name for itself, argv[0].  [default: the last component of --exe]",
)
exe_option = options.option(
    "--exe PATH",
    "The path of the program's file, as the program sees it.  [default: its path below --root DIR, "
    "/NAME where that is not given or elsewhere]",
)
_RUN = [
    options.stdin_option("The program's input."),
    click.option(
        "--machine",
        type=options.WordChoice([each.value for each in Platform]),
        help="What the program runs on: Linux, or a bare LEON3.  [default: by where it is linked]",
    ),
    options.option(
        "--root DIR",
        "The directory that the program may read, and sees as /. It starts in the current one "
        "where that is below DIR, else in DIR.  [default: the current one]",
        options.PATH,
    ),
    options.option("--writable DIR", "Let the program write below DIR.", options.PATH),
    options.option(
        "--sysroot DIR",
        "Where a dynamically linked program finds its interpreter and its libraries.  "
        f"[default: {DEFAULT_SYSROOT}]",
        options.PATH,
    ),
    options.debug_dir_option,
    options.env_option("the program, which inherits none"),
    argv0_option,
    exe_option,
    options.option(
        "--cwd PATH",
        "The path of the directory that the program starts in, as the program sees it.  "
        "[default: its path below --root]",
    ),
    options.max_instructions_option("Stop"),
    options.timeout_option("Stop after so much time."),
    options.memory_limit_option("the program"),
    options.stack_size_option("the program", "; Linux gives 8M"),
    options.progress_option,
    options.option(
        "--strict",
        "End the run at the first refused system call, with the profile so far (status 125).",
    ),
    options.option(
        "--thread-seed N",
        "Scheduler seed: which of the program's threads runs next, and for how long; with 0 "
        "they take turns in order.",
        options.WholeNumber(0),
        default=0,
        show_default=True,
    ),
    options.option(
        "--no-cache",
        "Use nothing that earlier runs have shown of the program, and keep nothing.",
        envvar=cache_files.VARIABLE,
    ),
]
_LIMITS = ("max_instructions", "timeout", "memory_limit", "stack_size", "strict", "thread_seed")
# Parameters that say how a program is run
_OF_RUNS = (
    *"stdin_file machine root writable sysroot environment argv0 exe cwd".split(),
    *_LIMITS,
)

# The program, its arguments and the options of a run
program_options = together(
    *_PROGRAM_OR_REPLAY,
    *_RESULTS,
    *_RUN,
    options.option("--self-check", "Check every intermediate result; slower."),
)
# The same of a run that nothing is reported of
recorded_options = together(*_PROGRAM, *_RUN)
# Options of calling contexts: a call tree, and windows of calls
context_options = together(
    options.option(
        "--call-tree",
        "Also count by calling context: calls, and instructions with all that is called.",
    ),
    options.option(
        "--entry ROUTINE", "Count in calls of ROUTINE only, from its entry to its return."
    ),
    options.option(
        "--calls N",
        "With --entry: in its first N calls only.",
        options.WholeNumber(1, (1 << 62) - 1),
    ),
)
FOLLOW = options.option(
    "--follow ROUTINE", "Show what calls of ROUTINE execute, as a tree (with --call-tree implied)."
)


def program_file(elf: str | None, arguments: tuple[str, ...], chosen: Mapping[str, Any]) -> str:
    """Return the program: as it was named, or else the one whose recorded run is replayed.

    Raises UsageError if there is neither, if the recording cannot be read, or if options say what
    the program sees, which the recording does.
    """
    replay = chosen["replay"]
    if replay is None:
        if elf is None:
            raise click.UsageError("Missing argument 'ELF'.")
        return elf
    chosen_too = list(filter(None, map(given, _OF_RUNS)))
    if arguments or chosen_too:
        what = chosen_too[0] if chosen_too else f"the argument {arguments[0]}"
        raise UsageError(f"{what} with --replay: the recorded run had its own; leave it out")
    if elf is not None:
        return elf
    from simprof.profiler.trace.recording_format import Recording

    return Recording(replay).header.file


def check_files(
    elf: str, chosen: Mapping[str, Any], *outputs: Path | None, inputs: tuple[Path | None, ...] = ()
) -> None:
    """Check early that all files named by options can be used; UsageError names one that cannot.

    `outputs`, `inputs`: Those of the command beyond the ones that all share.
    """
    stdin, report = chosen["stdin_file"], chosen["report"]
    read = (Path(elf), stdin, chosen.get("replay"), *inputs)
    check_outputs(chosen["json_file"], report, *outputs, inputs=read)
    if STANDARD_STREAM in outputs:
        raise UsageError("only --json and --report can write to stdout (-): name a file")
    check_input(stdin)


def progress(chosen: Mapping[str, Any]) -> bool | None:
    """Return whether progress is shown; None where the user has not said."""
    choice: bool | None = False if chosen.get("quiet") else chosen["progress"]
    return choice


def takes_stdout(chosen: Mapping[str, Any]) -> bool:
    """Whether simprof itself writes to stdout, so that the program's goes to stderr."""
    return STANDARD_STREAM in (chosen["json_file"], chosen["report"])


def current_directory() -> Path | None:
    """Return the shell's directory; None where it is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def encoded(text: str | None) -> bytes | None:
    """Return an option's value as the program sees it."""
    return None if text is None else os.fsencode(text)


def own_file(elf: Path, exe: str | None, root: Path | None) -> bytes:
    """Return the path of its file that the program sees; UsageError if `exe` is not absolute."""
    if exe is None:
        # The current directory, which the program may read where no `--root` is given, has no part
        # in it: counts would depend on where simprof is started.
        return seen_file(elf, root)
    if not exe.startswith("/"):
        raise UsageError(f"--exe {exe}: give an absolute path, as /{exe}")
    return os.fsencode(exe)


def guest_options(elf: Path, chosen: Mapping[str, Any], **more: Any) -> GuestOptions:
    """Return what a run sees, by options that all commands have which run a program, and `more`.

    Raises UsageError if a directory does not exist, or the input cannot be read.
    """
    check_input(chosen["stdin_file"])
    for name in ("root", "writable", "sysroot"):
        if chosen.get(name) is not None:
            options.check_directory(chosen[name], f"--{name}")
    root = chosen["root"]
    return GuestOptions(
        root=Path() if root is None else root,
        writable=chosen.get("writable"),
        working=current_directory(),
        environment=chosen["environment"],
        argv0=encoded(chosen["argv0"]),
        exe=own_file(elf, chosen["exe"], root),
        **more,
    )


def unseen_guest(elf: Path, chosen: Mapping[str, Any]) -> GuestOptions:
    """Return the same of a run that is no user's own: its input is empty where none is named."""
    stdin = chosen["stdin_file"] or Path(os.devnull)
    return guest_options(elf, chosen, stdin=stdin, timeout=chosen["timeout"])


def check_input(stdin: Path | None) -> None:
    """Raise UsageError if the file of `--stdin` cannot be read."""
    if stdin is not None and not os.access(stdin, os.R_OK):
        raise UsageError(f"--stdin {stdin} cannot be read: name a readable file")


def make_request(elf: str, arguments: tuple[str, ...], chosen: Mapping[str, Any]) -> RunRequest:
    """Return the request for a run with these options, its scheme left at the default.

    Raises UsageError if a directory does not exist.
    """
    guest = guest_options(
        Path(elf),
        chosen,
        machine=None if chosen["machine"] is None else Platform(chosen["machine"]),
        sysroot=chosen["sysroot"],
        stdin=chosen["stdin_file"],
        cwd=encoded(chosen["cwd"]),
        stdout=streams.STDERR if takes_stdout(chosen) else streams.STDOUT,
        **{name: chosen[name] for name in _LIMITS},
    )
    return RunRequest(
        program=Path(elf),
        guest=guest,
        arguments=tuple(map(os.fsencode, arguments)),
        selection=options.selection(chosen),
        self_check=chosen["self_check"],
        remember=not chosen["no_cache"],
        replay=chosen.get("replay"),
    )


@contextmanager
def watched(request: RunRequest, progress: bool | None) -> Iterator[RunRequest]:
    """Yield the request with a progress bar where one is wanted."""
    from simprof.profiler.commands.progress import progress_bar, ready_engine

    ready_engine(progress)
    with progress_bar(progress) as bar:
        give_way = None if bar is None else bar.give_way
        guest = replace(request.guest, before_output=give_way)
        yield replace(request, guest=guest, progress=bar)


def contexts(chosen: Mapping[str, Any], follow: str | None = None) -> ContextChoice | None:
    """Return what is to be distinguished by calling context; None: nothing."""
    tree, entry, calls = chosen["call_tree"] or follow is not None, chosen["entry"], chosen["calls"]
    if calls is not None and entry is None:
        raise UsageError("--calls without --entry: name the routine whose calls these are")
    if not tree and entry is None:
        return None
    return ContextChoice(tree=tree, entry=entry, calls=calls, follow=follow)
