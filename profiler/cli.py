"""The command `simprof`: the only place that exits, and with `commands` the only one that prints.

Exit statuses follow `timeout` and the shell: the emulated program's own; 124 for a spent
budget; 125 for simprof's own failures; 128 plus the number for a signal or a fault of the program;
the same for a signal that asks simprof to end, which is 130 for Ctrl-C.

Nothing is imported here but what Python itself has imported when it has started: from then on
Ctrl-C ends simprof without a traceback.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` would take time in which Ctrl-C shows a traceback
    from collections.abc import Sequence
    from typing import NoReturn

FAILURE = 125
INTERRUPTED = 130
FEWEST_FILES = 16  # Open files with which all commands work
LEAST_SPACE = 1 << 30  # Bytes of address space with which libraries can be loaded
# New objects between two searches for unused cycles. Nearly all that a run makes lives to its
# end, so that Python's usual 700 would have it spend a fifth of its time on searching.
YOUNG_OBJECTS = 3_000_000
# Words of the frame of `main`, at the beginning of a chunk of memory twice as large.
LARGE_FRAME = 33_000


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its status."""
    try:
        gc.set_threshold(YOUNG_OBJECTS)
        if "OPENBLAS_NUM_THREADS" not in os.environ:
            # numpy's OpenBLAS would start a thread for each processor, which wait for work by
            # turning in loops: there is none. This is for the libraries of this process, not for
            # programs whose environment is made of `os.environ`.
            os.putenv("OPENBLAS_NUM_THREADS", "1")
        from simprof.simulator import stopping

        if arguments is None:
            stopping.handle()  # until now they end the process, which has done nothing yet
        from simprof.profiler.commands import streams

        streams.prepare()
        sys.set_int_max_str_digits(100_000)  # path counts may be long (`codec.DIGITS`)
        status = run(arguments)
    except KeyboardInterrupt as error:
        status = _interrupted(error)
    if arguments is None:
        leave(status)
    sys.exit(status)


# Python keeps frames in chunks of 16 KiB, and gives a chunk back to the system when its first frame
# is left: a call that happens to be made where a chunk ends costs as much as a hundred, each time.
# A large frame, most of which is never touched, has a large chunk, in which the others find place.
main.__code__ = main.__code__.replace(co_stacksize=LARGE_FRAME)


def leave(status: int) -> NoReturn:
    """End the process at once."""
    from contextlib import suppress

    from simprof.simulator import stopping

    stopping.ignore()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # what must be written has been, and was checked
            stream.flush()
    # Python would first take apart everything that the run has built, which takes a quarter of a
    # second; the system does it in no time.
    os._exit(status)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status. Deliberate errors become one line on stderr."""
    import click

    from simprof.profiler.commands import streams
    from simprof.profiler.commands.group import simprof
    from simprof.simulator import stopping
    from simprof.simulator.errors import SimulatorError

    try:
        try:
            result = simprof.main(
                None if arguments is None else list(arguments),
                prog_name="simprof",
                standalone_mode=False,
            )
        except Exception:
            stopping.check()  # what went wrong may be what a signal has left half done
            raise
    except SimulatorError as error:
        return fail(str(error), error.exit_status)
    except click.UsageError as error:
        from simprof.profiler.commands.help import explained

        command = error.ctx.command_path if error.ctx else "simprof"
        return fail(f"{explained(error)} (see {command} --help)", FAILURE)
    except click.ClickException as error:
        return fail(error.format_message(), FAILURE)
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, EOFError):  # click takes it for the end of what is typed
            return _defect(error.__cause__)
        return _interrupted(error.__cause__ or error)
    except BrokenPipeError:
        streams.abandon(streams.STDOUT)
        return fail("the reader of the output is gone", FAILURE)
    except MemoryError as error:
        if lack := _lack(error):
            return fail(lack, FAILURE)
        return fail("out of memory: lower --memory-limit or --path-limit", FAILURE)
    except Exception as error:
        return _defect(error)
    return result if isinstance(result, int) else 0


def _interrupted(error: BaseException) -> int:
    """Say that a signal has ended simprof."""
    from simprof.simulator.stopping import Stopped

    if isinstance(error, Stopped):
        return fail(str(error), error.status)
    return fail("interrupted", INTERRUPTED)


def _defect(error: BaseException) -> int:
    """Show the traceback of a bug; its status must not look like the program's."""
    import traceback

    if lack := _lack(error):
        return fail(lack, FAILURE)
    traceback.print_exception(error)
    return fail("internal error: please report it with the lines above", FAILURE)


def _lack(error: BaseException) -> str | None:
    """Return what the system lacked where that, and no bug, is the reason of an error."""
    import errno
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.EMFILE, errno.ENFILE) or 0 <= files < FEWEST_FILES:
        return f"too many open files: allow more than {files} (ulimit -n)"
    # With little address space, libraries cannot be loaded, in many words.
    if number == errno.ENOMEM or 0 <= space < LEAST_SPACE:
        limit = "" if space < 0 else f": allow more than {space >> 20} MiB (ulimit -v)"
        return f"out of memory{limit}"
    return None


def fail(message: str, status: int) -> int:
    """Write one line to stderr, whatever the message holds; return `status`."""
    from contextlib import suppress

    from simprof.profiler.commands import streams
    from simprof.simulator.errors import UsageError

    with suppress(UsageError):  # stderr is closed: the status is all that is left to say
        streams.complain(message)
    return status
